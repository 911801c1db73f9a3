"""Starting: what carries over is recorded by name, row by row, and a start that gives nothing is refused."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.encoders import make_encoder
from builders.starts import begin, design_tagger, find, save_stage
from builders.taggers import decode, every_method, make_tagger, small_sizes, some_sentences
from safetensors.torch import load_file, save_file
from torch import Tensor

from crossner_cli.data.tags import TagSet, split_tag
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger, find_method, head_tensors
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import KnownWords
from crossner_cli.recurrent.word_vectors import WordVectors
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.results import CarryOver
from crossner_cli.taggers.carry_over import check_start
from crossner_cli.taggers.folder import save_tagger

OLD = TagSet({"conll": ("person", "misc", "place")})
NEW = TagSet({"music": ("band", "place", "person", "song")})


def known_to(tagger: Tagger) -> KnownWords | None:
    """The words of a tagger that reads words."""
    return KnownWords(tagger.encoder.vocabulary) if isinstance(tagger.encoder, WordEncoder) else None


def above(tagger: Tagger) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in head_tensors(tagger).items()}


def by_tag(tagger: Tagger, name: str) -> dict[Any, Tensor]:
    """The rows of a tensor by the names of their tags, however many of its dimensions count tags."""
    value, tags = head_tensors(tagger)[name], tagger.tag_set.tags
    if name in type(tagger).rows.types:
        return {entity_type: value[row] for row, entity_type in enumerate(("O", *tagger.tag_set.types))}
    if len(type(tagger).rows.tags[name]) == 2:
        return {(a, b): value[i, j] for i, a in enumerate(tags) for j, b in enumerate(tags)}
    return {tag: value[number] for number, tag in enumerate(tags)}


@pytest.fixture
def begin_new(tiny_encoder_folder: Path, run: RunDirectory, engine: Engine) -> Any:
    """Begins a tagger of a method, from ``base`` or from another that is saved first."""

    def start(method: str, tag_set: TagSet, *settings: str, old: Tagger | None = None, **more: Any) -> Any:
        design = design_tagger(tiny_encoder_folder, method, settings or None)
        if old is not None:
            more["start"] = run.path / "old"
            save_tagger(old, more["start"])
        return begin(run, engine, design, tag_set, **more)

    return start


@pytest.fixture
def make(tiny_encoder_folder: Path) -> Any:
    """Makes a random tagger of a method."""
    return partial(make_tagger, tiny_encoder_folder)


@every_method
def test_rows_of_shared_types_carry_over_exactly_and_others_start_afresh(make, begin_new, run, method):
    old = make(method, OLD)
    new, carried = begin_new(method, NEW, old=old, seed=3)
    fresh, _ = begin_new(method, NEW, seed=3, known=known_to(old))
    shared = {"O", "B-person", "I-person", "B-place", "I-place", "person", "place"}
    learnt = {name for name, _ in new.named_parameters()}
    described = {*type(new).rows.types} - learnt  # read again by each tagger
    for name in (*type(new).rows.tags, *{*type(new).rows.types} - described):
        before, after, never = by_tag(old, name), by_tag(new, name), by_tag(fresh, name)
        for key, row in after.items():
            is_shared = set(key) <= shared if isinstance(key, tuple) else key in shared
            assert torch.equal(row, before[key] if is_shared else never[key]), (name, key)
            if is_shared:
                assert not torch.equal(row, never[key])
    size = len(old.encoder.state_dict())
    assert len(new.encoder.state_dict()) == size
    for name, value in old.encoder.state_dict().items():
        assert torch.equal(new.encoder.state_dict()[name], value)
    assert carried == CarryOver(
        str(run.path / "old"),
        loaded=size + len(above(old)) - len(described),
        new_tensors=[name for name in above(new) if name in described],
        carried_types=["place", "person"],
        fresh_types=["band", "song"],
    )
    assert carried.describe().endswith("types carried over: place, person; types new: band, song")


@every_method
def test_the_same_types_in_another_order_predict_the_same(make, begin_new, method):
    old, tag_set = make(method, TagSet({"a": ("person", "place")})), TagSet({"b": ("place", "person")})
    new, _ = begin_new(method, tag_set, old=old)
    sentences = [dataclasses.replace(sentence, domain="") for sentence in some_sentences(6)]
    before, after = decode(old, sentences), decode(new.eval(), sentences)
    assert [tag_set.from_ids(ids) for ids in after.tags] == [old.tag_set.from_ids(ids) for ids in before.tags]


def test_what_another_method_has_no_place_for_is_left_and_what_it_lacks_is_new(make, begin_new, run):
    for old, new, fresh, left in (("crf", "linear", 0, 3), ("linear", "crf", 3, 0)):
        tagger = make(old, OLD)
        started, carried = begin_new(new, OLD, old=tagger)
        assert torch.equal(started.classifier.weight, tagger.classifier.weight)
        assert carried.loaded == len(tagger.encoder.state_dict()) + 2
        assert (len(carried.new_tensors), len(carried.left_tensors)) == (fresh, left)
        assert carried.fresh_types == []
    _, carried = begin_new("laner", NEW, start=run.path / "old")
    assert (carried.carried_types, carried.fresh_types) == ([], list(NEW.types)), "laner has no classifier of that name"
    tensors = load_file(run.path / "old" / "tagger.safetensors")
    save_file({**tensors, "classifier.weight": torch.ones(len(OLD), 5)}, run.path / "old" / "tagger.safetensors")
    tagger, carried = begin_new("linear", OLD, start=run.path / "old")
    assert (len(carried.new_tensors), len(carried.left_tensors)) == (1, 1), "a tensor of another size"
    assert carried.loaded == len(tagger.encoder.state_dict()) + 1
    assert (carried.carried_types, carried.fresh_types) == ([], list(OLD.types)), "a bias alone knows no type"


def test_tags_of_another_scheme_carry_over_by_name(make, begin_new):
    old = make("linear", OLD)
    new, carried = begin_new("linear", TagSet({"music": ("person",)}, "bioes"), old=old)
    before, after = by_tag(old, "classifier.weight"), by_tag(new, "classifier.weight")
    assert all(torch.equal(after[tag], before[tag]) for tag in ("O", "B-person", "I-person"))
    assert carried.carried_types == ["person"]


@pytest.mark.parametrize(
    ("method", "setting", "start", "problem"),
    [
        ("linear", "dropout=0.5", "words", "holds no transformer"),
        ("bilstm-crf", "dropout=0.5", "encoder", "nothing would carry over"),
        ("bilstm-crf", "transformer=frozen", "words", "holds no transformer"),
        ("bilstm-crf", "words=frozen", "base", "no vectors to keep"),
        ("bilstm-crf", "strings=frozen", "words", "no language models of characters"),
        ("bartner", "dropout=0.5", "encoder", "not an encoder-decoder"),
    ],
)
def test_a_start_without_what_the_tagger_reads_is_refused(
    tiny_encoder_folder, make, run, method, setting, start, problem
):
    save_stage(run, "words", {1: make("bilstm-crf", OLD)}, [1.0])
    save_stage(run, "encoder", {1: make("linear", OLD)}, [1.0])
    design = design_tagger(tiny_encoder_folder, method, [setting])
    with pytest.raises(CrossNERError, match=problem):
        check_start(design, find(run, start, design))


def test_a_start_that_gives_no_weight_is_an_error(make, begin_new, tmp_path):
    folder = make_encoder(tmp_path / "other")
    save_file({"other": torch.ones(1)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CrossNERError, match="None of the weights"):
        begin_new("linear", OLD, start=folder)
    old = make("bilstm-crf", OLD, "words=none", "characters=ngrams")
    with pytest.raises(CrossNERError, match="gives no weight: no tensor of .* has the name and size") as caught:
        begin_new("concept-tagger", OLD, "words=trained", "characters=none", "lstm_size=3", old=old)
    assert "start from base" in caught.value.hint


@pytest.mark.parametrize("method", ["cross-domain-lm", "multi-cell-lstm"])
def test_a_language_model_keeps_the_rows_of_words_that_are_kept_where_the_vocabulary_changes(method, make, begin_new):
    settings = [*small_sizes(find_method(method)), "tasks=target-ner,target-lm"]
    old = make(method, OLD, *settings)
    words, turned = old.encoder.vocabulary.words, tuple(reversed(old.encoder.vocabulary.words))

    def start(names: tuple[str, ...], vectors: WordVectors | None = None) -> tuple[Any, CarryOver]:
        known = KnownWords(dataclasses.replace(old.encoder.vocabulary, words=names), vectors)
        return begin_new(method, NEW, *settings, old=old, known=known)

    new, carried = start(("before-all", *turned, "behind"))
    assert new.encoder.vocabulary.words == (*words, "before-all", "behind")
    for name in ("weight", "bias"):
        mine, its = getattr(new.language_model, name), getattr(old.language_model, name)
        assert len(mine) == len(its) + 2 and torch.equal(mine[: len(its)], its)
    assert len(carried.left_tensors) <= 2, "the ranks are counted anew"
    # Vectors of another width leave the start's words, whose numbers others have now.
    rows = np.ones((len(words), old.encoder.words.embedding_dim + 1), np.float32)
    new, carried = start(turned, WordVectors("file", turned, rows, len(words), len(words)))
    assert new.encoder.vocabulary.words == turned
    assert new.language_model.weight.shape == old.language_model.weight.shape
    assert not torch.equal(new.language_model.weight, old.language_model.weight)
    assert {"language_model.weight", "encoder.words.weight"} <= {*carried.new_tensors} & {*carried.left_tensors}


SOURCE_ALONE, TARGET_ALONE = (TagSet({name: types}) for name, types in (*OLD.domains.items(), *NEW.domains.items()))
BOTH = TagSet({**NEW.domains, **OLD.domains})  # the target first
NEW_NAME, NEW_TYPES, OLD_TYPES = "music", NEW.domains["music"], OLD.domains["conll"]


@pytest.fixture
def begun(make: Any, begin_new: Any) -> Any:
    """A tagger of tasks, and another that begins from it, each with its tag set, tasks and own settings."""

    def start(method: str, old: tuple[Any, ...], new: tuple[Any, ...], *settings: str) -> tuple[Any, Any]:
        shared = [*small_sizes(find_method(method)), *settings]
        first = make(method, old[0], *shared, f"tasks={old[1]}", *old[2:])
        settings = (*shared, f"tasks={new[1]}", *new[2:])
        return first, begin_new(method, new[0], *settings, old=first, known=known_to(first))[0]

    return start


def shared_rows(layer: Any, tag_set: TagSet) -> Tensor:
    """Rows of a tag layer that belong to the types of both tag sets."""
    tags = [f"{prefix}-{name}" for name in ("person", "place") for prefix in "BI"]
    return layer.classifier.weight[[tag_set.tags.index(tag) for tag in tags]]


@pytest.mark.parametrize("crf", ["auto", "domain"])
@pytest.mark.parametrize("old_set", [SOURCE_ALONE, BOTH])
@pytest.mark.parametrize("method", ["multi-task-lstm", "multi-cell-lstm", "cross-domain-lm"])
def test_tags_learnt_in_the_source_alone_begin_the_tags_of_both_domains(method, old_set, crf, begun):
    old, new = begun(method, (old_set, "source-ner"), (BOTH, "target-ner,source-ner"), f"crf={crf}")
    learnt = old.tag_layers[1 if old_set is BOTH and crf == "domain" else 0]
    assert len(new.tag_layers) == 2
    for layer in new.tag_layers:
        assert torch.equal(shared_rows(layer, BOTH), shared_rows(learnt, old_set))


@pytest.mark.parametrize("method", ["multi-task-lstm", "multi-cell-lstm", "cross-domain-lm"])
def test_types_that_no_label_taught_the_start_begin_afresh(method, begun):
    """They have learnt never to be chosen, in the CRF that they share with those of the source."""
    old, new = begun(method, (BOTH, "source-ner"), (TARGET_ALONE, "target-ner"))
    (before,), (after,) = old.tag_layers, new.tag_layers
    for tag in TARGET_ALONE.tags:
        rows = [
            layer.classifier.weight[tags.tags.index(tag)] for layer, tags in ((before, BOTH), (after, TARGET_ALONE))
        ]
        assert torch.equal(*rows) == (tag == "O" or split_tag(tag)[1] in {"person", "place"}), tag


@pytest.mark.parametrize(
    ("domains", "expected"),
    [
        ({"third": OLD_TYPES, "fourth": NEW_TYPES}, [1, 0]),
        ({NEW_NAME: OLD_TYPES, "third": ("event",)}, [1, 1]),
        ({"third": ("event",), NEW_NAME: OLD_TYPES}, [0, 1]),
        ({"third": ("person", "place"), "fourth": ("person", "place", "event")}, [0, 1]),
        (BOTH.domains, [0, 1]),
        ({**OLD.domains, **NEW.domains}, [1, 0]),
        ({**OLD.domains, "third": ("person",)}, [1, 1]),
    ],
)
def test_a_domain_begins_as_the_one_that_has_its_types_whatever_it_is_called_and_wherever_it_stands(
    domains, expected, begun
):
    tasks = "target-ner,source-ner"
    old, new = begun("multi-cell-lstm", (BOTH, tasks), (TagSet(domains), tasks), "attention=domain")
    for name in ("query", "key", "score"):
        assert torch.equal(getattr(new.lstm, name), getattr(old.lstm, name)[expected]), name
    for layer, place in zip(new.tag_layers, expected, strict=True):
        before = old.tag_layers[place]
        assert torch.equal(layer.classifier.weight[0], before.classifier.weight[0])
        if {"person", "place"} <= {*new.tag_set.types}:
            assert torch.equal(shared_rows(layer, new.tag_set), shared_rows(before, BOTH))
