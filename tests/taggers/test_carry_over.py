"""Starting: what carries over is recorded by name, row by row, and a start that gives nothing is refused."""

from __future__ import annotations

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
from crossner_cli.encoders.word_encoder import WordEncoder
from crossner_cli.encoders.word_vectors import WordVectors
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger, find_method, head_tensors, method_names
from crossner_cli.run.directory import RunDirectory
from crossner_cli.stages.recipe import note_on_seeds
from crossner_cli.taggers.carry_over import CarryOver, KnownWords, check_start, note_on_settings
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.sources import Start

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


@every_method
def test_rows_of_shared_types_carry_over_exactly_and_others_start_afresh(
    tiny_encoder_folder, tmp_path, run, engine, method
):
    old = make_tagger(tiny_encoder_folder, method, OLD)
    save_tagger(old, tmp_path / "old")
    design = design_tagger(tiny_encoder_folder, method)
    new, carried = begin(run, engine, design, NEW, start=tmp_path / "old", seed=3)
    fresh, _ = begin(run, engine, design, NEW, seed=3, known=known_to(old))
    shared = {"O", "B-person", "I-person", "B-place", "I-place", "person", "place"}
    learnt = {name for name, _ in new.named_parameters()}
    for name in (*type(new).rows.tags, *type(new).rows.types):
        before, after, never = by_tag(old, name), by_tag(new, name), by_tag(fresh, name)
        for key, row in after.items():
            is_shared = set(key) <= shared if isinstance(key, tuple) else key in shared
            if is_shared or name in learnt:  # what is computed instead follows the vectors that carried over
                assert torch.equal(row, before[key] if is_shared else never[key]), (name, key)
            if is_shared and name in learnt:
                assert not torch.equal(row, never[key])
    size = len(old.encoder.state_dict())
    assert len(new.encoder.state_dict()) == size
    for name, value in old.encoder.state_dict().items():
        assert torch.equal(new.encoder.state_dict()[name], value)
    assert carried == CarryOver(
        str(tmp_path / "old"),
        loaded=size + len(above(old)),
        carried_types=["place", "person"],
        fresh_types=["band", "song"],
    )
    assert (carried.to_counts().new, carried.to_counts().left) == (0, 0)
    assert carried.describe().endswith("types carried over: place, person; types new: band, song")


@every_method
def test_the_same_types_in_another_order_predict_the_same(tiny_encoder_folder, tmp_path, run, engine, method):
    old = make_tagger(tiny_encoder_folder, method, TagSet({"a": ("person", "place")}))
    save_tagger(old, tmp_path / "old")
    design = design_tagger(tiny_encoder_folder, method)
    tag_set = TagSet({"b": ("place", "person")})
    new, _ = begin(run, engine, design, tag_set, start=tmp_path / "old")
    sentences = [dataclasses.replace(sentence, domain="") for sentence in some_sentences(6)]
    before, after = decode(old, sentences), decode(new.eval(), sentences)
    assert [tag_set.from_ids(ids) for ids in after.tags] == [old.tag_set.from_ids(ids) for ids in before.tags]


def test_what_another_method_has_no_place_for_is_left_and_what_it_lacks_is_new(
    tiny_encoder_folder, tmp_path, run, engine
):
    for old, new, fresh, left in (("crf", "linear", 0, 3), ("linear", "crf", 3, 0)):
        tagger = make_tagger(tiny_encoder_folder, old, OLD)
        save_tagger(tagger, tmp_path / old)
        started, carried = begin(run, engine, design_tagger(tiny_encoder_folder, new), OLD, start=tmp_path / old)
        assert torch.equal(started.classifier.weight, tagger.classifier.weight)
        assert carried.loaded == len(tagger.encoder.state_dict()) + 2
        assert (len(carried.new_tensors), len(carried.left_tensors)) == (fresh, left)
        assert carried.fresh_types == []
    linear = tmp_path / "linear"
    _, carried = begin(run, engine, design_tagger(tiny_encoder_folder, "laner"), NEW, start=linear)
    assert (carried.carried_types, carried.fresh_types) == ([], list(NEW.types)), "laner has no classifier of that name"
    tensors = load_file(linear / "tagger.safetensors")
    save_file({**tensors, "classifier.weight": torch.ones(len(OLD), 5)}, linear / "tagger.safetensors")
    tagger, carried = begin(run, engine, design_tagger(tiny_encoder_folder), OLD, start=linear)
    assert (len(carried.new_tensors), len(carried.left_tensors)) == (1, 1), "a tensor of another size"
    assert carried.loaded == len(tagger.encoder.state_dict()) + 1
    assert (carried.carried_types, carried.fresh_types) == ([], list(OLD.types)), "a bias alone knows no type"


def test_parts_of_a_start_that_the_new_encoder_does_not_read_are_left(tiny_encoder_folder, tmp_path, run, engine):
    words = ("lstm_size=4", "word_size=6", "transformer=frozen")
    old = make_tagger(tiny_encoder_folder, "bilstm-crf", OLD, *words)
    save_tagger(old, tmp_path)
    own, of_transformer = old.encoder.own_tensors(), old.encoder.transformer.state_dict()

    def left(method: str, *settings: str) -> tuple[set[str], set[str]]:
        """The tensors of the encoder that the start leaves, and those that are new."""
        design = design_tagger(tiny_encoder_folder, method, settings)
        known = KnownWords(old.encoder.vocabulary)
        _, carried = begin(run, engine, design, OLD, start=tmp_path, known=known)
        parts = (carried.left_tensors, carried.new_tensors)
        of_encoder = [{name for name in names if name.startswith("encoder.")} for names in parts]
        return of_encoder[0], of_encoder[1]

    assert left("bilstm-crf", *words) == (set(), set())
    without, new = left("bilstm-crf", *words[:2])
    assert len(without) == len(of_transformer) and not new
    words_left, new = left("linear")
    assert words_left == {f"encoder.{name}" for name in own} and not new
    no_characters, new = left("bilstm-crf", *words, "characters=none")
    assert no_characters == {f"encoder.{name}" for name in own if name.startswith("characters")} and not new


@pytest.mark.parametrize("method", ["coach", "concept-tagger", "robust-tagger"])
@pytest.mark.parametrize("size", [4, 6])
def test_where_types_are_read_from_descriptions_they_carry_over_with_all_that_is_learnt(
    method, size, tiny_encoder_folder, run, tmp_path, engine
):
    def settings(lstm_size: int) -> list[str]:
        sizes = [each for each in small_sizes(find_method(method)) if not each.startswith("lstm_size=")]
        return [*sizes, f"lstm_size={lstm_size}"]

    old = make_tagger(tiny_encoder_folder, method, OLD, *settings(4))
    save_tagger(old, tmp_path / "old")
    design = design_tagger(tiny_encoder_folder, method, settings(size))
    _, carried = begin(run, engine, design, OLD, start=tmp_path / "old", known=known_to(old))
    assert carried.carried_types == (list(OLD.types) if size == 4 else []), carried.new_tensors


def test_tags_of_another_scheme_carry_over_by_name(tiny_encoder_folder, tmp_path, run, engine):
    old = make_tagger(tiny_encoder_folder, "linear", OLD)
    save_tagger(old, tmp_path)
    tag_set = TagSet({"music": ("person",)}, "bioes")
    new, carried = begin(run, engine, design_tagger(tiny_encoder_folder), tag_set, start=tmp_path)
    before, after = by_tag(old, "classifier.weight"), by_tag(new, "classifier.weight")
    assert all(torch.equal(after[tag], before[tag]) for tag in ("O", "B-person", "I-person"))
    assert carried.carried_types == ["person"]


@every_method
def test_the_same_seed_makes_the_same_tagger_and_another_seed_another(tiny_encoder_folder, run, engine, method):
    design = design_tagger(tiny_encoder_folder, method)
    (first, carried), (again, _), (other, _) = (begin(run, engine, design, NEW, seed=seed) for seed in (1, 1, 2))
    assert all(torch.equal(value, above(again)[name]) for name, value in above(first).items())
    assert not all(torch.equal(value, above(other)[name]) for name, value in above(first).items())
    if method == "linear":
        loaded = len(first.encoder.state_dict())
        assert carried == CarryOver("base", loaded, new_tensors=[*above(first)], fresh_types=list(NEW.types))


def test_seeds_that_a_start_has_not_got_are_told():
    start = Start("news", Path("two"), "digest", seeds={1: Path("one"), 2: Path("two")})
    said = note_on_seeds(start, [1, 3, 4])
    assert said is not None and said.startswith("news has no seed 3, 4: its seed 2") and "differ less" in said
    for other, seeds in ((start, [1, 2]), (Start("base", None, "digest"), [1, 2])):
        assert note_on_seeds(other, seeds) is None


def test_settings_that_a_start_had_and_this_tagger_has_not_are_noted(tiny_encoder_folder, run):
    trained = make_tagger(tiny_encoder_folder, "bilstm-crf", OLD, "lower_case=true", "dropout=0.25")
    save_stage(run, "source", {1: trained}, [1.0])

    def note(method: str, *settings: str) -> str | None:
        given = [*small_sizes(find_method(method)), *settings]
        design = design_tagger(tiny_encoder_folder, method, given)
        return note_on_settings(design, find(run, "source", design))

    found = note("bilstm-crf")
    assert found is not None and "was trained with lower_case=true (here false), dropout=0.25 (here 0.5)" in found
    assert note("bilstm-crf", "dropout=0.25", "lower-case=true") is None
    assert note("mtl") is None


def test_a_start_without_what_the_tagger_reads_is_refused(tiny_encoder_folder, run):
    save_stage(run, "words", {1: make_tagger(tiny_encoder_folder, "bilstm-crf", OLD)}, [1.0])
    save_stage(run, "encoder", {1: make_tagger(tiny_encoder_folder, "linear", OLD)}, [1.0])
    for method, setting, start, problem in (
        ("linear", "dropout=0.5", "words", "holds no transformer"),
        ("bilstm-crf", "dropout=0.5", "encoder", "nothing would carry over"),
        ("bilstm-crf", "transformer=frozen", "words", "holds no transformer"),
        ("bilstm-crf", "words=frozen", "base", "no vectors to keep"),
        ("bilstm-crf", "strings=frozen", "words", "no language models of characters"),
        ("bartner", "dropout=0.5", "encoder", "no encoder-decoder"),
    ):
        design = design_tagger(tiny_encoder_folder, method, [setting])
        with pytest.raises(CrossNERError, match=problem):
            check_start(design, find(run, start, design))


def test_a_start_that_gives_no_weight_is_an_error(run, tmp_path, tiny_encoder_folder, engine):
    folder = make_encoder(tmp_path / "other")
    save_file({"other": torch.ones(1)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CrossNERError, match="None of the weights"):
        begin(run, engine, design_tagger(tiny_encoder_folder), OLD, start=folder)
    old = make_tagger(tiny_encoder_folder, "bilstm-crf", OLD, "words=none", "characters=ngrams")
    save_tagger(old, tmp_path / "old")
    sizes = ["words=trained", "characters=none", "lstm_size=3"]
    design = design_tagger(tiny_encoder_folder, "concept-tagger", sizes)
    with pytest.raises(CrossNERError, match="gives no weight: no tensor of .* has the name and size") as caught:
        begin(run, engine, design, OLD, start=tmp_path / "old")
    assert "start from base" in caught.value.hint


def test_a_started_tagger_is_ready_to_be_trained(tiny_encoder_folder, run, engine):
    for method in method_names():
        if find_method(method).reads != "subwords":
            continue  # there every rate is a setting, and those of an encoder-decoder are no layers
        tagger, _ = begin(run, engine, design_tagger(tiny_encoder_folder, method), NEW)
        rates = {type(layer).__module__: layer.p for layer in tagger.modules() if type(layer).__name__ == "Dropout"}
        assert rates == {"crossner_cli.layers.randomness": pytest.approx(0.1), "torch.nn.modules.dropout": 0.0}


@pytest.mark.parametrize("method", ["cross-domain-lm", "multi-cell-lstm"])
def test_a_language_model_keeps_the_rows_of_words_that_are_kept_where_the_vocabulary_changes(
    method, tiny_encoder_folder, run, engine
):
    settings = [*small_sizes(find_method(method)), "tasks=target-ner,target-lm"]
    old: Any = make_tagger(tiny_encoder_folder, method, OLD, *settings)
    save_stage(run, "pretrain-source", {1: old}, [50.0])
    words, turned = old.encoder.vocabulary.words, tuple(reversed(old.encoder.vocabulary.words))

    def start(names: tuple[str, ...], vectors: WordVectors | None = None) -> tuple[Any, CarryOver]:
        known = KnownWords(dataclasses.replace(old.encoder.vocabulary, words=names), vectors)
        design = design_tagger(tiny_encoder_folder, method, settings)
        return begin(run, engine, design, NEW, start="pretrain-source", known=known)

    new, carried = start(("before-all", *turned, "behind"))
    assert new.encoder.vocabulary.words == (*words, "before-all", "behind")
    for name in ("weight", "bias"):
        mine, its = getattr(new.language_model, name), getattr(old.language_model, name)
        assert len(mine) == len(its) + 2 and torch.equal(mine[: len(its)], its)
    assert len(carried.left_tensors) <= 2, "the ranks are counted anew"
    # Vectors of another width leave the start's words, whose numbers others have now.
    rows = np.ones((len(words), old.encoder.words.embedding_dim + 1), np.float32)
    new, carried = start(turned, WordVectors("file", turned, rows, ("exact",) * len(words), len(words), len(words)))
    assert new.encoder.vocabulary.words == turned
    assert new.language_model.weight.shape == old.language_model.weight.shape
    assert not torch.equal(new.language_model.weight, old.language_model.weight)
    assert {"language_model.weight", "encoder.words.weight"} <= {*carried.new_tensors} & {*carried.left_tensors}


SOURCE_ALONE, TARGET_ALONE = (TagSet({name: types}) for name, types in (*OLD.domains.items(), *NEW.domains.items()))
BOTH = TagSet({**NEW.domains, **OLD.domains})  # the target first
TURNED = TagSet({**OLD.domains, **NEW.domains})
NEW_NAME, NEW_TYPES, OLD_TYPES = "music", NEW.domains["music"], OLD.domains["conll"]
OTHER_SOURCE = TagSet({**OLD.domains, "third": ("person",)})


def begun_from(
    run: RunDirectory,
    folder: Path,
    engine: Engine,
    method: str,
    old: tuple[Any, ...],
    new: tuple[Any, ...],
    *settings: str,
) -> tuple[Any, Any]:
    """A tagger of tasks, and another that a stage begins from it, each with its tag set, tasks and own settings."""
    sizes = small_sizes(find_method(method))
    first: Any = make_tagger(folder, method, old[0], *sizes, *settings, f"tasks={old[1]}", *old[2:])
    save_stage(run, "pretrain-source", {1: first}, [50.0])
    design = design_tagger(folder, method, [*sizes, *settings, f"tasks={new[1]}", *new[2:]])
    return first, begin(run, engine, design, new[0], start="pretrain-source", known=known_to(first))[0]


@pytest.fixture
def begun(run: RunDirectory, tiny_encoder_folder: Path, engine: Engine) -> Any:
    return partial(begun_from, run, tiny_encoder_folder, engine)


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
    ],
)
def test_a_domain_begins_as_the_one_that_has_its_types_whatever_it_is_called(domains, expected, begun):
    tasks = "target-ner,source-ner"
    old, new = begun("multi-cell-lstm", (BOTH, tasks), (TagSet(domains), tasks), "attention=domain")
    assert torch.equal(new.lstm.query, old.lstm.query[expected])
    for layer, place in zip(new.tag_layers, expected, strict=True):
        assert torch.equal(layer.classifier.weight[0], old.tag_layers[place].classifier.weight[0])


@pytest.mark.parametrize(
    ("new_set", "expected"), [(BOTH, [0, 1]), (TURNED, [1, 0]), (OTHER_SOURCE, [1, 1])], ids=["both", "turned", "third"]
)
def test_a_domain_begins_as_itself_whether_it_is_the_source_or_the_target_now(new_set, expected, begun):
    tasks = "target-ner,source-ner"
    old, new = begun("multi-cell-lstm", (BOTH, tasks), (new_set, tasks), "attention=domain")
    learnt = [shared_rows(layer, BOTH) for layer in old.tag_layers]
    assert not torch.equal(*learnt)
    assert torch.equal(shared_rows(new.tag_layers[0], new_set), learnt[expected[0]])
    if new_set is not OTHER_SOURCE:
        assert torch.equal(shared_rows(new.tag_layers[1], new_set), learnt[expected[1]])
    for name in ("query", "key", "score"):
        assert torch.equal(getattr(new.lstm, name), getattr(old.lstm, name)[expected]), name


@pytest.mark.parametrize(
    ("method", "setting", "of_domains"),
    [
        ("cross-domain-lm", "generator=full", lambda tagger: [tagger.lstm.generator.domain_vectors]),
        ("multi-task-lstm", "generator=domain", lambda tagger: [tagger.lstm.generator.domain_vectors]),
        ("multi-cell-lstm", "attention=domain", lambda tagger: [tagger.lstm.query, tagger.lstm.key, tagger.lstm.score]),
    ],
)
@pytest.mark.parametrize(("old_set", "learnt"), [(SOURCE_ALONE, 0), (BOTH, 1)])
def test_what_is_of_one_domain_and_learnt_in_the_source_alone_begins_the_target(
    method, setting, of_domains, old_set, learnt, begun
):
    old, new = begun(method, (old_set, "source-ner"), (TARGET_ALONE, "target-ner"), setting)
    for before, after in zip(of_domains(old), of_domains(new), strict=True):
        assert torch.equal(after[0], before[learnt]) and torch.equal(after[1], before[learnt])


@pytest.mark.parametrize(("before", "after", "expected"), [("shared", "domain", [0, 0]), ("domain", "shared", [0])])
def test_attention_of_both_domains_begins_that_of_each_and_that_of_the_target_one_of_both(
    before, after, expected, begun
):
    tasks = "target-ner,source-ner"
    old, new = begun("multi-cell-lstm", (BOTH, tasks, f"attention={before}"), (BOTH, tasks, f"attention={after}"))
    for name in ("query", "key", "score"):
        assert torch.equal(getattr(new.lstm, name), getattr(old.lstm, name)[expected]), name
