"""Cross-domain language modelling: what is shared, what learns from what, and what each setting turns it into."""

import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from builders.taggers import TAG_SET, batch_of, make_tagger, some_sentences
from builders.tasks import (
    SAME_TYPES,
    SMALL,
    SOURCE_LM,
    SOURCE_NER,
    TARGET_LM,
    TARGET_NER,
    WORDS,
    GivenVectors,
    a_batch,
    over_vectors,
    step,
)
from torch import Tensor

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import UNLABELLED
from crossner_cli.methods.contract import read_settings
from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.generated_lstm import GeneratedBiLSTM
from crossner_cli.recurrent.language_model import language_model_loss
from crossner_cli.recurrent.methods.cross_domain_lm import LM, NER, CrossDomainLM
from crossner_cli.recurrent.multi_task import PER_DOMAIN
from crossner_cli.recurrent.tasks import ROLES, SOURCE, TARGET, TASKS

STACKED = ("generator=none", "lstm_layers=3")
UNSUPERVISED = "tasks=source-ner,source-lm,target-lm"


@pytest.mark.parametrize(
    ("settings", "streams"),
    [
        ((), TASKS),
        (("lm_text=labelled",), ("target-ner", "source-ner")),
        (("tasks=source-lm, target-lm,source-ner",), ("source-ner", "target-lm", "source-lm")),
        (("tasks=source-ner,source-lm,target-lm", "lm_text=labelled"), ("source-ner", "target-lm")),
        (("tasks=target-ner",), ("target-ner",)),
    ],
)
def test_an_update_reads_a_batch_of_each_task(settings, streams):
    assert read_settings(CrossDomainLM, settings).streams == streams


def test_settings_choose_the_bilstm_and_the_softmax_in_the_sizes_of_the_paper():
    sizes = {"full": (3, 2), "domain": (3, 0), "task": (0, 2)}
    for generator, (domain_size, task_size) in sizes.items():
        own = over_vectors(f"generator={generator}").lstm.generator
        assert own.weights[0].shape[-2:] == (max(1, task_size), max(1, domain_size))
        learnt = {name for name, _ in own.named_parameters() if "vectors" in name}
        assert ("domain_vectors" in learnt, "task_vectors" in learnt) == (domain_size > 0, task_size > 0)
    assert isinstance(over_vectors("generator=none").lstm, BiLSTM)
    assert over_vectors("tasks=target-ner,source-ner").language_model is None
    assert over_vectors().language_model.weight.shape == (WORDS + 1, 6), "one table for both directions and domains"
    tagger = CrossDomainLM(cast("Any", GivenVectors(torch.zeros(1, 1, 150))), TAG_SET, CrossDomainLM.Hyperparameters())
    assert isinstance(tagger.lstm, GeneratedBiLSTM) and tagger.lstm.output_dim == 200
    assert sum(value.numel() for value in tagger.lstm.generator.weights) == 201_600 * 64


@pytest.mark.parametrize(
    ("tag_set", "settings", "layers"),
    [
        (TAG_SET, (), 2),
        (SAME_TYPES, (), 1),
        (TAG_SET, ("crf=shared",), 1),
        (SAME_TYPES, ("crf=domain",), 2),
        (TAG_SET, (UNSUPERVISED,), 1),
        (TagSet({"a": ("x", "y"), "b": ("y", "x")}), (), 1),
    ],
)
def test_one_crf_serves_domains_of_the_same_types_and_those_without_labels(tag_set, settings, layers):
    tagger = over_vectors(*settings, tag_set=tag_set)
    assert len(tagger.tag_layers) == layers
    assert (tagger.tag_layer(TARGET) is tagger.tag_layer(SOURCE)) == (layers == 1)


@pytest.mark.parametrize("generator", ["full", "domain", "task", "none"])
def test_each_term_is_what_the_bilstm_of_its_domain_and_task_says(generator):
    tagger = over_vectors("source_weight=3", "target_weight=0.5", "lm_weight=2", f"generator={generator}")
    for domain, labelled, raw in ((TARGET, TARGET_NER, TARGET_LM), (SOURCE, SOURCE_NER, SOURCE_LM)):
        mask, words = labelled.word_mask, tagger.encoder.vectors
        pairs = [() if generator == "none" else (domain, task) for task in (NER, LM)]
        tag_states, word_states = (tagger.lstm(words, mask, *pair) for pair in pairs)
        tags = (0.5, 3)[domain] * tagger.tag_layers[domain].loss(tag_states, labelled.tags, mask)
        language = 2 * language_model_loss(tagger.language_model, word_states, labelled.word_ids, mask)
        of_tags, of_language = f"tags {ROLES[domain]}", f"language {ROLES[domain]}"
        torch.testing.assert_close(tagger.loss(labelled), {of_tags: tags, of_language: language})
        torch.testing.assert_close(tagger.loss(raw), {of_language: language})
        assert tagger.units(labelled) == {of_tags: 15, of_language: 30}
        assert tagger.units(raw) == {of_language: 30}


@pytest.mark.parametrize("generator", ["full", "domain", "task", "none"])
def test_language_models_of_mixed_text_each_read_the_sentences_of_both_domains(generator):
    """MIX-DATA: otherwise as the full model."""
    tagger = over_vectors("lm_mixed=true", "lm_weight=2", f"generator={generator}")
    own = over_vectors("lm_weight=2", f"generator={generator}")
    own.load_state_dict(tagger.state_dict())
    for domain, labelled, raw in ((TARGET, TARGET_NER, TARGET_LM), (SOURCE, SOURCE_NER, SOURCE_LM)):
        mask, words = labelled.word_mask, tagger.encoder.vectors
        read = {}
        for reader in (TARGET, SOURCE):
            states = tagger.lstm(words, mask, *(() if generator == "none" else (reader, LM)))
            loss = language_model_loss(tagger.language_model, states, labelled.word_ids, mask)
            read[f"language {ROLES[reader]}"] = 2 * loss
        of_tags = f"tags {ROLES[domain]}"
        torch.testing.assert_close(tagger.loss(raw), read)
        torch.testing.assert_close(tagger.loss(labelled), {of_tags: own.loss(labelled)[of_tags]} | read)
        assert tagger.units(raw) == {"language target": 30, "language source": 30}
        assert tagger.units(labelled) == {of_tags: 15} | tagger.units(raw)
    both = a_batch("news", "songs", "news")
    assert tagger.units(both) == {"tags target": 12, "tags source": 3, "language target": 30, "language source": 30}
    assert set(tagger.loss(both)) == set(tagger.units(both))
    torch.testing.assert_close({name: tagger.loss(both)[name] for name in read}, read)


def test_labelled_sentences_are_read_by_the_language_models_only_where_they_are_a_task_and_it_is_wanted():
    cases = {
        (): ({"tags", "language"}, {"tags", "language"}),
        ("lm_text=raw",): ({"tags"}, {"tags"}),
        ("tasks=target-ner,source-ner,target-lm",): ({"tags", "language"}, {"tags"}),
    }
    for settings, terms in cases.items():
        tagger = over_vectors(*settings)
        for batch, role, kinds in zip((TARGET_NER, SOURCE_NER), ROLES, terms, strict=True):
            assert set(tagger.loss(batch)) == set(tagger.units(batch)) == {f"{kind} {role}" for kind in kinds}
    # Labels of a dictionary on raw text are not read unless they are asked for.
    tagger = over_vectors()
    labelled = dataclasses.replace(TARGET_LM, tags=torch.full_like(TARGET_LM.word_ids, UNLABELLED))
    assert not tagger.hyper.learns_from_dictionary
    torch.testing.assert_close(tagger.loss(labelled), tagger.loss(TARGET_LM))


def test_words_that_have_a_label_are_told_their_types_where_it_is_wanted():
    """BILSTM+LM+DICT: a linear map of what the tags are told from; words without a label teach nothing."""
    tagger = over_vectors("entity_weight=0.5", "generator=none", "tasks=source-ner,target-lm")
    assert tagger.hyper.learns_from_dictionary
    tags = torch.full_like(TARGET_LM.word_ids, UNLABELLED)
    labelled = dataclasses.replace(TARGET_LM, tags=tags)
    assert not tagger.loss(labelled)["entity target"].detach().any()
    tags[0, 0], tags[2, 0] = TAG_SET.to_ids([TAG_SET.tags[1], "O"])
    states = tagger.tag_states(tagger.encoder.vectors, TARGET_LM.word_mask, TARGET)
    chances = tagger.entity_score(states).log_softmax(dim=-1)
    expected = -0.5 * (chances[0, 0, 1] + chances[2, 0, 0])
    torch.testing.assert_close(tagger.loss(labelled)["entity target"], expected)
    assert tagger.units(labelled) == {"entity target": 15, "language target": 30}, "as multi-cell-lstm divides"
    assert set(tagger.loss(TARGET_LM)) == {"language target"}, "raw text without a dictionary"
    assert set(tagger.loss(SOURCE_NER)) == set(tagger.units(SOURCE_NER)) == {"tags source", "entity source"}


def test_domains_that_begin_alike_have_one_bilstm_a_task_until_they_learn():
    hyper = read_settings(CrossDomainLM, [*SMALL, "domain_vectors=alike"])
    tagger: Any = CrossDomainLM(cast("Any", GivenVectors(torch.randn(3, 7, 5))), SAME_TYPES, hyper).eval()
    words, mask = tagger.encoder.vectors, TARGET_NER.word_mask
    for task in (NER, LM):
        assert torch.equal(tagger.lstm(words, mask, TARGET, task), tagger.lstm(words, mask, SOURCE, task))
    assert not torch.equal(tagger.lstm(words, mask, TARGET, NER), tagger.lstm(words, mask, TARGET, LM))
    assert tagger.decode(TARGET_NER) == tagger.decode(SOURCE_NER)
    step(tagger, SOURCE_NER, TARGET_LM)
    learnt = tagger.lstm.generator.domain_vectors.grad
    assert not torch.equal(learnt[TARGET], learnt[SOURCE])


@pytest.mark.parametrize(
    "settings", [*((f"generator={kind}",) for kind in ("full", "domain", "task", "none")), STACKED]
)
def test_a_word_further_on_does_not_change_what_a_language_model_says(settings):
    """The forward half sees no word behind the one it predicts from, the backward half none before it.

    Above the first layer, which tags are told from, each half has read the other one.
    """
    tagger = over_vectors(*settings)
    words, mask = tagger.encoder.vectors.detach(), TARGET_LM.word_mask
    changed = words.clone()
    changed[0, 4] += 1

    def reached(task: int) -> Tensor:
        return (tagger._states(changed, mask, SOURCE, task) - tagger._states(words, mask, SOURCE, task))[0] != 0

    forward, backward = (half.any(dim=1) for half in reached(LM).chunk(2, dim=1))
    assert forward.tolist() == [False] * 4 + [True] * 3
    assert backward.tolist() == [True] * 5 + [False] * 2
    assert settings != STACKED or reached(NER).all()


@pytest.mark.parametrize(
    ("tasks", "place", "layer"),
    [
        ("source-ner", 1, SOURCE),
        ("source-ner,source-lm", 1, SOURCE),
        ("source-ner,source-lm,target-lm", 0, SOURCE),
        ("target-ner,source-ner", 0, TARGET),
        ("target-ner", 0, TARGET),
    ],
)
def test_new_text_is_tagged_as_the_target_by_a_crf_that_learnt_labels_never_by_one_drawn_at_random(tasks, place, layer):
    for tag_set in (TAG_SET, TagSet({"songs": ("song",)})):
        tagger, domains = over_vectors(f"tasks={tasks}", tag_set=tag_set), list(tag_set.domains)
        assert tagger.domain_of_new_text == domains[min(place, len(domains) - 1)]
    tagger = over_vectors(f"tasks={tasks}", "crf=domain")
    assert tagger.tag_layer(SOURCE) is tagger.tag_layers[SOURCE]
    assert tagger.tag_layer(TARGET) is tagger.tag_layers[layer]
    gradients = step(tagger, SOURCE_NER if layer == SOURCE else TARGET_NER)
    for name, gradient in gradients.items():
        assert not name.startswith("tag_layers") or (gradient is not None) == name.startswith(f"tag_layers.{layer}")


def test_without_a_language_model_and_with_one_hot_tasks_it_is_co_ner():
    full, plain = (
        over_vectors("lm_weight=0"),
        over_vectors("tasks=target-ner,source-ner", "generator=domain", "target_weight=2"),
    )
    values, generator = full.state_dict(), full.lstm.generator
    with torch.no_grad():
        generator.task_vectors.copy_(torch.eye(2))
        for weight, own in zip(generator.weights, plain.lstm.generator.weights, strict=True):
            own.copy_(weight[..., NER : NER + 1, :])
    plain.load_state_dict(
        {name: value for name, value in values.items() if name in plain.state_dict() and "weights" not in name},
        strict=False,
    )
    for batch in (TARGET_NER, SOURCE_NER):
        (name,) = plain.loss(batch)
        torch.testing.assert_close(full.loss(batch)[name], plain.loss(batch)[name])
        assert full.decode(batch) == plain.decode(batch)
    of_full, of_plain = (step(tagger, TARGET_NER, SOURCE_NER) for tagger in (full, plain))
    for name, gradient in of_plain.items():
        of_ner = of_full[name][..., NER : NER + 1, :] if "weights" in name else of_full[name]
        torch.testing.assert_close(of_ner, gradient)


def learns(gradient: Tensor | None) -> list[bool]:
    assert gradient is not None
    return gradient.flatten(1).any(dim=1).tolist()


def test_vectors_learn_from_batches_of_their_domain_and_task_only():
    names = ("lstm.generator.domain_vectors", "lstm.generator.task_vectors")
    tagger = over_vectors("lm_text=raw")
    cases = [
        ((TARGET_NER,), ([True, False], [True, False])),
        ((SOURCE_NER,), ([False, True], [True, False])),
        ((TARGET_LM,), ([True, False], [False, True])),
        ((SOURCE_NER, SOURCE_LM), ([False, True], [True, True])),
        ((SOURCE_NER, TARGET_LM), ([True, True], [True, True])),
    ]
    for batches, expected in cases:
        gradients = step(tagger, *batches)
        assert tuple(learns(gradients[name]) for name in names) == expected


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("cross-domain-lm", ()),
        ("multi-task-lstm", ("generator=domain",)),
        ("multi-cell-lstm", ("attention=domain",)),
    ],
)
@pytest.mark.parametrize(("role", "taught"), [("source", SOURCE_NER), ("target", TARGET_NER)])
def test_a_domain_that_no_task_reads_is_tagged_as_the_other_not_by_what_was_drawn(method, settings, role, taught):
    alone, both = (
        over_vectors(*settings, f"tasks={tasks}", method=method, tag_set=SAME_TYPES)
        for tasks in (f"{role}-ner", "target-ner,source-ner")
    )
    assert alone.decode(SOURCE_NER) == alone.decode(TARGET_NER) == both.decode(taught)
    assert both.decode(SOURCE_NER) != both.decode(TARGET_NER), "where both are read, each has its own"
    # The only domain of a run is the first: what starts from it finds there what was learnt.
    only = over_vectors(*settings, f"tasks={role}-ner", method=method, tag_set=TagSet({"songs": ("person", "place")}))
    for tagger, batch, row in ((alone, taught, ROLES.index(role)), (only, SOURCE_NER, 0)):
        gradients = step(tagger, batch)
        per_domain = [gradients[name] for name in PER_DOMAIN & gradients.keys()]
        assert per_domain and all(learns(gradient)[row] for gradient in per_domain)


@pytest.mark.parametrize("method", ["cross-domain-lm", "multi-cell-lstm"])
def test_a_word_that_is_hidden_from_the_encoder_is_still_to_be_predicted(tiny_encoder_folder: Path, method: str):
    settings = ("tasks=source-ner,target-lm", "characters=none")
    tagger: Any = make_tagger(tiny_encoder_folder, method, TAG_SET, *settings).train()
    tagger.encoder.rare.fill_(True)
    batch = dataclasses.replace(batch_of(tagger, some_sentences(4), with_tags=False), is_raw=True)
    before = batch.word_ids.clone()
    tagger(batch)
    assert before.any() and torch.equal(batch.word_ids, before)
