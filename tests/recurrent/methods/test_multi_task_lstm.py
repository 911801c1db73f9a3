"""Multi-task BiLSTM-CRF with PGN, GRAD or DANN: what is shared, and what the adversary sends back."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from builders.taggers import TAG_SET
from builders.tasks import SOURCE_LM, SOURCE_NER, TARGET_LM, TARGET_NER, GivenVectors, a_batch, over_vectors, step

from crossner_cli.engine.devices import start_engine
from crossner_cli.options import Finetune
from crossner_cli.recurrent.adversary import focal_loss
from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.generated_lstm import GeneratedBiLSTM
from crossner_cli.recurrent.methods.multi_task_lstm import MultiTaskLSTM
from crossner_cli.recurrent.tasks import ROLES, SOURCE, TARGET
from crossner_cli.run.progress import Progress
from crossner_cli.training.checkpoints import Checkpoints
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import ParameterGroup, Plan

every_adversary = pytest.mark.parametrize("adversary", ["grad", "dann"])


def made(*settings: str, **named: Any) -> Any:
    return over_vectors(*settings, method="multi-task-lstm", **named)


def test_the_domains_share_the_bilstm_and_have_a_crf_each():
    tagger = made()
    states = tagger.lstm(tagger.encoder.vectors, TARGET_NER.word_mask)
    for domain, batch in ((TARGET, TARGET_NER), (SOURCE, SOURCE_NER)):
        expected = tagger.tag_layers[domain].loss(states, batch.tags, batch.word_mask)
        name = f"tags {ROLES[domain]}"
        torch.testing.assert_close(tagger.loss(batch), {name: expected})
        assert tagger.units(batch) == {name: 15}
        gradients = step(tagger, batch)
        for name, gradient in gradients.items():
            assert (gradient is None) == name.startswith(f"tag_layers.{1 - domain}"), name


@every_adversary
def test_an_adversary_of_weight_zero_changes_no_gradient_of_the_tagger(adversary):
    off, none = made(f"adversary={adversary}", "adversary_weight=0"), made()
    off.load_state_dict(none.state_dict(), strict=False)
    found, expected = step(off, TARGET_NER, SOURCE_NER), step(none, TARGET_NER, SOURCE_NER)
    for name, gradient in found.items():
        assert gradient is not None
        if name.startswith("discriminator"):
            assert not gradient.any()
        else:
            torch.testing.assert_close(gradient, expected[name])


@every_adversary
def test_raw_text_is_read_by_the_adversary_only(adversary):
    tagger = made("tasks=source-ner,target-lm", f"adversary={adversary}")
    assert len(tagger.tag_layers) == 1  # that of the source tags the target
    of_target, of_source = (
        ("adversary", "adversary") if adversary == "grad" else ("adversary target", "adversary source")
    )
    assert list(tagger.loss(TARGET_LM)) == [of_target] and tagger.units(TARGET_LM) == {
        of_target: int(TARGET_LM.word_mask.sum())
    }
    assert list(tagger.loss(SOURCE_NER)) == ["tags source", of_source]
    assert tagger.units(SOURCE_NER) == {"tags source": 15, of_source: 15}
    gradients = step(tagger, TARGET_LM)
    assert all((value is None) == name.startswith("tag_layers") for name, value in gradients.items())
    tagger.set_word_counts(torch.arange(10))


@every_adversary
def test_a_batch_of_both_domains_is_the_sum_over_the_domains(adversary):
    tagger = made(f"adversary={adversary}")
    batch = a_batch("news", "songs", "elsewhere")
    mixed, units = tagger.loss(batch), tagger.units(batch)
    assert units["tags target"] == 12 and units["tags source"] == 3
    states = tagger.lstm(tagger.encoder.vectors, TARGET_NER.word_mask)
    logits = tagger.discriminator(states, TARGET_NER.word_mask)
    is_source = torch.tensor([False, True, False])
    if adversary == "grad":
        torch.testing.assert_close(mixed["adversary"], focal_loss(logits, is_source, 0.25, 2))
        assert units["adversary"] == 15
    else:
        told = -torch.where(is_source, logits.sigmoid(), 1 - logits.sigmoid()).log()
        torch.testing.assert_close(mixed["adversary source"], told[1])
        torch.testing.assert_close(mixed["adversary target"], told[0] + told[2])
        assert (units["adversary target"], units["adversary source"]) == (12, 3)


@every_adversary
def test_the_bilstm_learns_the_opposite_of_what_the_discriminator_learns(adversary, monkeypatch):
    """Gradients behind the reversal are minus the factor times those without it; those before it are the same."""
    gradients = {}
    for reversing in (True, False):
        tagger = made(f"adversary={adversary}")
        if adversary == "dann":
            tagger.progress = 0.4
        if not reversing:
            module = "crossner_cli.recurrent.methods.multi_task_lstm.reverse_gradient"
            monkeypatch.setattr(module, lambda values, factor: values)
        tagger.loss(SOURCE_LM)["adversary" if adversary == "grad" else "adversary source"].backward()
        gradients[reversing] = {name: value.grad for name, value in tagger.named_parameters() if value.grad is not None}
    factor = 0.7 if adversary == "grad" else 2 / (1 + math.exp(-4)) - 1
    for name, gradient in gradients[True].items():
        expected = gradients[False][name] * (1 if name.startswith("discriminator") else -factor)
        torch.testing.assert_close(gradient, expected)
    assert any(name.startswith("lstm") for name in gradients[True])


def test_the_effect_of_dann_grows_with_the_share_of_the_training_that_is_done():
    tagger, factors, shares = made("adversary=dann"), [], (0, 0.25, 0.5, 0.75)
    for progress in shares:
        with tagger.update(progress):
            factors.append(tagger._reversal(torch.zeros(1)).item())
    assert factors == pytest.approx([2 / (1 + math.exp(-10 * share)) - 1 for share in shares])


@pytest.mark.parametrize("parts", [1, 3])
def test_a_training_tells_how_far_it_is_however_many_batches_it_reads_and_goes_on_so_behind_a_checkpoint(
    parts, tmp_path
):
    engine = start_engine(Finetune(device="cpu", threads=1, precision="fp32"))
    batches = [TARGET_NER, SOURCE_NER]
    streams: list[Any] = [
        SimpleNamespace(epoch=lambda number: [[0, 1, 2]] * 5, batch=lambda items, epoch, batch=batch: batch)
        for batch in batches
    ]
    plan = Plan(epochs=2, accumulate=parts, keep="last", checkpoint_every=0)
    told = []
    for stop in (3, None):  # the first is cut off behind its third update, one behind the checkpoint
        tagger, shares = made("adversary=dann"), []
        work = fit(
            tagger,
            [ParameterGroup(list(tagger.parameters()), 1e-3, 0.0)],
            streams,
            plan,
            engine,
            checkpoints=Checkpoints(tmp_path / "checkpoint"),
        )
        for event in work:
            if isinstance(event, Progress) and not event.is_milestone:
                shares.append(tagger.progress)
            if stop and isinstance(event, Progress) and event.done == stop:
                work.close()
        told.append(shares)
    assert told == [[0.0, 0.1, 0.2], [share / 10 for share in range(2, 10)]]


def test_sizes_and_parts_are_those_of_the_paper():
    encoder: Any = GivenVectors(torch.zeros(1, 1, 150))
    plain = MultiTaskLSTM(encoder, TAG_SET, MultiTaskLSTM.Hyperparameters())
    assert isinstance(plain.lstm, BiLSTM) and sum(value.numel() for value in plain.lstm.parameters()) == 201_600
    generated = MultiTaskLSTM(encoder, TAG_SET, MultiTaskLSTM.Hyperparameters(generator="domain"))
    assert isinstance(generated.lstm, GeneratedBiLSTM)
    assert sum(value.numel() for value in generated.lstm.generator.weights) == 201_600 * 16
    vectors = [name for name in generated.state_dict() if "vectors" in name and "lstm" in name]
    assert vectors == ["lstm.generator.domain_vectors"], "each domain has a BiLSTM of its own"
    assert not any(name.startswith("discriminator") for name in plain.state_dict())
    three = made("lstm_layers=3").lstm.lstm
    assert three.num_layers == 3 and (three.input_size, three.hidden_size) == (5, 6)


def test_focal_loss_is_the_formula_and_stays_finite_however_sure_the_discriminator_is():
    logits, is_source = torch.randn(6) * 3, torch.tensor([True, False] * 3)
    alpha, gamma = 0.25, 2.0
    expected = 0.0
    for logit, source in zip(logits.tolist(), is_source.tolist(), strict=True):
        r = 1 / (1 + math.exp(-logit))
        expected -= alpha * (1 - r) ** gamma * math.log(r) if source else (1 - alpha) * r**gamma * math.log(1 - r)
    assert focal_loss(logits, is_source, alpha, gamma).item() == pytest.approx(expected, rel=1e-5)
    halved = focal_loss(logits, is_source, 0.5, 0).item()
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits(logits, is_source.float(), reduction="sum")
    assert halved == pytest.approx(cross_entropy.item() / 2, rel=1e-5)
    sure = torch.tensor([500.0, -500.0, 500.0, -500.0], requires_grad=True)
    loss = focal_loss(sure, torch.tensor([True, True, False, False]), alpha, 0.5)
    loss.backward()
    assert loss.isfinite() and bool(sure.grad.isfinite().all())
    assert loss.item() == pytest.approx(0.25 * 500 + 0.75 * 500)
