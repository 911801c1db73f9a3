"""The training loop: exact gradients whatever the cut, exact resumption, honest selection."""

import errno
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from crossner_cli.encoders.subwords import EncodedSentence
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import exhaust
from crossner_cli.training import checkpoints as checkpoints_module
from crossner_cli.training.checkpoints import Checkpoints
from crossner_cli.training.loop import FitResult, fit
from crossner_cli.training.plan import ParameterGroup, Plan
from crossner_cli.training.streams import SentenceStream


class Numbers:
    """A batch of numbers, as ``fit`` sees batches."""

    def __init__(self, values: Tensor) -> None:
        self.values, self.words = values, len(values)

    def to(self, device: torch.device) -> "Numbers":
        return Numbers(self.values.to(device))


class NumberStream:
    """Numbers 0..n-1 in batches, the same every epoch."""

    def __init__(self, count: int, batch_size: int) -> None:
        self.items = [list(range(first, min(first + batch_size, count))) for first in range(0, count, batch_size)]

    def epoch(self, number: int) -> list[list[int]]:
        return self.items

    def batch(self, items: Any, epoch: int) -> Numbers:
        return Numbers(torch.tensor(items, dtype=torch.float32)[:, None] / 10)


class Weighed(nn.Module):
    """One parameter a sentence, which is the loss of each of its words: its gradient is what these words weigh."""

    def __init__(self, sentences: int, unit: type[int] = int) -> None:
        super().__init__()
        self.unit = unit
        self.weights = nn.Parameter(torch.zeros(sentences))
        self.gradients: list[Tensor] = []
        self.weights.register_hook(self.gradients.append)

    def units(self, batch: Any) -> dict[str, int]:
        return {"loss": self.unit(batch.words)}

    def forward(self, batch: Any) -> dict[str, Tensor]:
        return {"loss": (self.weights[batch.numbers] * batch.lengths).sum()}


class Collated:
    """Sentences of a ``SentenceStream`` as ``Weighed`` reads them."""

    def __init__(self, sentences: list[EncodedSentence]) -> None:
        self.numbers = torch.tensor([int(sentence.domain) for sentence in sentences])
        self.lengths = torch.tensor([float(len(sentence.places)) for sentence in sentences])
        self.words = int(self.lengths.sum())

    def to(self, device: torch.device) -> "Collated":
        return self


class Regression(nn.Module):
    """Two loss terms with different units: one over all numbers, one over the large ones only."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.dropout = nn.Linear(1, 1), nn.Dropout(dropout)

    def units(self, batch: Numbers) -> dict[str, int]:
        return {"all": len(batch.values), "large": int((batch.values > 0.4).sum())}

    def forward(self, batch: Numbers) -> dict[str, Tensor]:
        errors = (self.layer(self.dropout(batch.values)) - 2 * batch.values - 1) ** 2
        return {"all": errors.sum(), "large": errors[batch.values > 0.4].sum()}


def fit_whole(engine: Engine, model: nn.Module, stream: Any, rate: float = 0.05, score: Any = None, **plan: Any) -> Any:
    """The result of a training of all parameters at one rate."""
    streams = stream if isinstance(stream, list) else [stream]
    groups = [ParameterGroup(list(model.parameters()), rate, 0.0)]
    return exhaust(fit(model, groups, streams, Plan(**plan), engine, score=score))


def train(
    engine: Engine,
    *,
    score: Any = None,
    checkpoints: Checkpoints | None = None,
    dropout: float = 0.0,
    stop_after: int | None = None,
    **plan: Any,
) -> tuple[Regression, FitResult | None]:
    model = Regression(dropout)
    groups = [ParameterGroup(list(model.parameters()), 0.05, 0.0)]
    given = Plan(**{"epochs": 4, **plan})
    work = fit(model, groups, [NumberStream(10, 4)], given, engine, score=score, checkpoints=checkpoints)
    if stop_after is None:
        return model, exhaust(work)
    for _ in range(stop_after):
        next(work)
    work.close()
    return model, None


def weights(model: nn.Module) -> list[float]:
    return [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]


@pytest.mark.parametrize("parts", [3, 50])
def test_a_batch_cut_into_parts_gives_the_gradient_of_the_whole_batch(engine: Engine, parts: int) -> None:
    whole, _ = train(engine)
    cut, _ = train(engine, accumulate=parts)
    assert weights(cut) == pytest.approx(weights(whole), abs=1e-6)
    assert weights(whole) != pytest.approx(weights(Regression()), abs=1e-3)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("repeated", [1, 10])
def test_a_word_weighs_the_same_beside_short_sentences_as_beside_long_ones(
    engine: Engine, accumulate: int, repeated: int
) -> None:
    lengths = np.random.default_rng(1).integers(1, 60, 96)
    sentences = [
        EncodedSentence((np.zeros(length),), np.zeros((length, 2)), None, str(number))
        for number, length in enumerate(lengths)
    ]
    repeats = [repeated] * 48 + [1] * 48
    reader: Any = SimpleNamespace(collate=Collated)
    stream = SentenceStream(sentences, reader, 8, 1, repeats)
    assert len({len(items) for items in stream.epoch(0)}) == 1, "all updates are of one size"
    model = Weighed(len(sentences))
    fit_whole(engine, model, stream, epochs=1, accumulate=accumulate, clip_norm=1e9, schedule="constant")
    of_a_word = torch.stack(model.gradients).sum(0).numpy() / (lengths * np.array(repeats))
    mean = np.average(lengths, weights=repeats)
    assert of_a_word == pytest.approx(np.full(96, 1 / (8 * mean)), rel=1e-5)


@pytest.mark.parametrize("stop_after", [1, 4, 5, 7, 8, 11, 16])
def test_an_interrupted_loop_goes_on_to_the_very_same_weights(engine: Engine, tmp_path: Path, stop_after: int) -> None:
    def scores(done: int = 0) -> Any:
        values = iter([1.0, 3.0, 2.0, 2.5][done:])
        return lambda: {"dev_f1": next(values)}

    torch.manual_seed(5)
    whole, expected = train(engine, dropout=0.5, score=scores(), checkpoint_every=0)
    torch.manual_seed(5)
    kept: dict[str, Any] = {"dropout": 0.5, "checkpoints": Checkpoints(tmp_path / "c"), "checkpoint_every": 0}
    train(engine, score=scores(), stop_after=stop_after, **kept)
    found = sorted((tmp_path / "c").glob("step-*"))
    done = len(json.loads((found[-1] / "state.json").read_text())["history"]) if found else 0
    torch.manual_seed(99 if found else 5)  # whatever the next process draws first
    resumed, result = train(engine, score=scores(done), **kept)
    assert weights(resumed) == weights(whole)
    assert result is not None and expected is not None
    assert result.history == expected.history
    assert (result.best, result.best_epoch) == (3.0, 2)


@pytest.mark.parametrize(
    ("scores", "patience", "read", "kept"),
    [
        ([10.0, 30.0, 20.0, 30.0, 5.0, 99.0], 3, 5, 2),  # an equal score is no gain
        ([0.0, 0.0, 0.0, 9.0], 2, 3, 3),  # where nothing is right the last epoch is as good as any
    ],
)
def test_the_best_epoch_is_kept_and_patience_stops(
    engine: Engine, scores: list[float], patience: int, read: int, kept: int
) -> None:
    model, seen = Regression(), []

    def score() -> dict[str, float]:
        seen.append(weights(model))
        return {"dev_f1": scores[len(seen) - 1], "other": -scores[len(seen) - 1]}

    result = fit_whole(engine, model, NumberStream(10, 4), score=score, epochs=9, patience=patience)
    assert len(seen) == read
    assert weights(model) == seen[kept - 1] != seen[0]
    assert (result.best, result.best_epoch) == (scores[kept - 1], kept)


@pytest.mark.parametrize(
    ("weight", "rate", "numbers", "problem"),
    [
        (math.inf, 0.1, 10, "loss.*update 1"),
        (1.0, math.inf, 4, r"not finite after update 1 \(layer.weight and 1 others\)"),
        (1.0, 0.1, 0, "nothing to train on"),
    ],
)
def test_what_cannot_be_learnt_is_a_known_problem(
    engine: Engine, weight: float, rate: float, numbers: int, problem: str
) -> None:
    model = Regression()
    with torch.no_grad():
        model.layer.weight.fill_(weight)
    with pytest.raises(CrossNERError, match=problem) as caught:
        fit_whole(engine, model, NumberStream(numbers, 4), rate=rate, epochs=1, schedule="constant")
    assert ("--learning-rate" in caught.value.hint) == (numbers > 0)


def test_the_last_epoch_is_kept_on_request(engine: Engine) -> None:
    values = iter([30.0, 10.0])
    best, _ = train(engine, epochs=2, score=lambda: {"dev_f1": next(values)}, keep="last")
    plain, _ = train(engine, epochs=2)
    assert weights(best) == weights(plain)


def test_a_group_that_starts_later_stays_as_it_is_until_then(engine: Engine) -> None:
    model = Regression()
    before = float(model.layer.weight.detach())
    late = ParameterGroup([model.layer.weight], 0.05, 0.0, starts_at=0.5)
    groups = [late, ParameterGroup([model.layer.bias], 0.05, 0.0)]
    work = fit(model, groups, [NumberStream(10, 4)], Plan(epochs=2), engine)
    for _ in range(3):
        next(work)
    assert float(model.layer.weight.detach()) == before
    exhaust(work)
    assert float(model.layer.weight.detach()) != before


@pytest.mark.parametrize("name", ["state.json", "optimiser.safetensors", "model.safetensors", "another size"])
def test_a_damaged_checkpoint_is_a_known_problem(engine: Engine, tmp_path: Path, name: str) -> None:
    train(engine, checkpoints=Checkpoints(tmp_path / "c"), checkpoint_every=0, stop_after=4)
    path = tmp_path / "c" / "step-3" / ("model.safetensors" if name == "another size" else name)
    if name == "another size":
        save_file({name: torch.cat([value, value]) for name, value in load_file(path).items()}, path)
    else:
        path.write_bytes(path.read_bytes()[:20])
    told = "step-3 cannot be read" + (".*there and .* here" if name == "another size" else "")
    with pytest.raises(CrossNERError, match=told) as problem:
        train(engine, checkpoints=Checkpoints(tmp_path / "c"), checkpoint_every=0)
    assert "--force" in problem.value.hint


def test_a_full_disk_leaves_the_checkpoint_before(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    train(engine, checkpoints=Checkpoints(tmp_path / "c"), checkpoint_every=0, stop_after=4)
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["step-3"]
    monkeypatch.setattr(checkpoints_module, "save_file", refuse)
    with pytest.raises(CrossNERError, match="step 3 cannot be written.*No space left"):
        train(engine, checkpoints=Checkpoints(tmp_path / "c"), checkpoint_every=0)
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["step-3"]


def test_there_is_a_whole_checkpoint_at_every_moment_once_there_was_one(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, remove = [], checkpoints_module.shutil.rmtree

    def watched(path: Path, **named: Any) -> None:
        remove(path, **named)
        removed.append(path.name)
        if "step-2" in removed:  # which is tidied before it is written
            assert list((tmp_path / "c").glob("step-*/state.json"))

    monkeypatch.setattr(checkpoints_module.shutil, "rmtree", watched)
    train(engine, checkpoints=Checkpoints(tmp_path / "c"), checkpoint_every=0, score=lambda: {"dev_f1": 1.0})
    assert {"step-3", "step-3-1", "step-4"} <= set(removed)


@pytest.mark.parametrize("largest", [0.0, 0.01])
def test_gradients_are_no_longer_than_the_largest_norm_where_there_is_one(engine, largest) -> None:
    norms: list[float] = []

    def measure(optimiser, *_) -> None:
        gradients = [value.grad for group in optimiser.param_groups for value in group["params"]]
        norms.append(float(torch.cat([value.flatten() for value in gradients]).norm()))

    handle = register_optimizer_step_pre_hook(measure)
    try:
        train(engine, epochs=1, clip_norm=largest)
    finally:
        handle.remove()
    assert len(norms) == 3
    assert max(norms) == pytest.approx(0.01, rel=1e-3) if largest else min(norms) > 0.1


def test_each_group_learns_at_its_own_rate_and_with_its_own_weight_decay(engine) -> None:
    model = Regression()
    with torch.no_grad():
        model.layer.weight.fill_(-1.0)
        model.layer.bias.fill_(-1.0)
    groups = [ParameterGroup([model.layer.weight], 0.1, 0.5), ParameterGroup([model.layer.bias], 0.01, 0.0)]
    exhaust(fit(model, groups, [NumberStream(10, 10)], Plan(epochs=1, schedule="constant"), engine))
    # The first step of Adam is as long as the rate; both have to grow. A weight loses rate times decay of itself.
    assert weights(model) == pytest.approx([-1 + 0.1 + 0.1 * 0.5, -1 + 0.01], abs=1e-5)


def test_the_losses_of_an_epoch_are_means_over_its_own_updates(engine) -> None:
    model = Regression()
    result = fit_whole(engine, model, NumberStream(12, 4), rate=1e-12, epochs=3)  # nothing is learnt
    parts = [torch.arange(first, first + 4)[:, None] / 10 for first in (0, 4, 8)]
    with torch.no_grad():
        of_all = sum(float(model(Numbers(part))["all"]) / 4 for part in parts) / 3
    assert [record["losses"]["all"] for record in result.history] == pytest.approx([of_all] * 3, rel=1e-4)
