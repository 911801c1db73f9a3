"""Checkpoints of a training loop: safetensors and JSON only, whole or absent, and enough to continue exactly."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.run.records import from_record
from crossner_cli.run.storage import flush_folder, flush_tree, write_json

Weights = dict[str, Tensor]
Result = TypeVar("Result")
BYTES_A_SECOND = 500e6
SHARE_OF_TIME = 0.02  # share of the time that checkpoints may take
TRAINED = "training.json"  # the result of a finished training


@dataclass
class TrainingState:
    """The position of a training loop, besides its tensors.

    Args:
        epoch: Number of the current epoch, from 0.
        place: Updates of this epoch done.
        sums: Sum of each loss term's value over the updates of this epoch, one record per process.
        seconds: Seconds that the updates so far took.
        best: Best score so far; None before the first.
        best_epoch: Epoch it came from, from 1.
        waited: Epochs since then without a gain.
        history: One record per finished epoch.
    """

    step: int = 0
    epoch: int = 0
    place: int = 0
    sums: list[dict[str, float]] = field(default_factory=list)
    words: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_epoch: int = 0
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def trained_weights(model: nn.Module) -> Weights:
    """Copy every tensor that training changes to the CPU."""
    return {
        name: value.detach().to("cpu", copy=True) for name, value in model.named_parameters() if value.requires_grad
    }


def stored_buffers(model: nn.Module) -> Weights:
    """Copy the buffers of a model, such as states carried from update to update, to the CPU."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    kept = {name: value for name, value in model.state_dict().items() if name not in parameters}
    return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in kept.items()}


def load_weights(model: nn.Module, weights: Weights) -> None:
    """Put ``trained_weights`` back.

    Raises:
        ValueError: They have another size.
    """
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.requires_grad:
                if weights[name].shape != value.shape:
                    raise ValueError(f"{name} is {tuple(weights[name].shape)} there and {tuple(value.shape)} here")
                value.copy_(weights[name])


class Checkpoints:
    """The last checkpoint of one training loop, in its own folder.

    Written under another name, flushed and renamed, so that a crash at any moment leaves the old or the new one.
    The best weights so far lie beside it, in a file that is written only when they change.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._best_file: str | None = None
        self._written = time.monotonic()
        self._cost = 0.0  # seconds that the last one took

    def expect(self, parameters: int) -> None:
        """Start the clock; the first checkpoint is expected to take as long as on a common disk."""
        self._written = time.monotonic()
        self._cost = 12 * parameters / BYTES_A_SECOND  # weights and two moments of Adam, of four bytes each

    def is_due(self, every: float) -> bool:
        """Return whether ``every`` seconds have passed since the last one, and enough for a cost of at most 2 %."""
        passed = time.monotonic() - self._written
        return every == 0 or passed >= max(every, self._cost / SHARE_OF_TIME)

    def _found(self) -> list[Path]:
        found = [path for path in self.folder.glob("step-*") if (path / "state.json").is_file()]
        return sorted(found, key=lambda path: [int(part) for part in path.name.split("-")[1:]])

    def save(
        self,
        state: TrainingState,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        best: Weights | None,
        engine: Engine,
    ) -> None:
        """Write a checkpoint, then remove the one before.

        Raises:
            CrossNERError: The disk is full or cannot be written; the checkpoint before stays.
        """
        began = time.monotonic()
        random_states = engine.gather([_random_state(engine)])

        def write() -> None:
            draft = self.folder / "draft"
            try:
                self._write(draft, state, model, optimiser, best, engine, random_states)
            except (OSError, SafetensorError) as error:
                shutil.rmtree(draft, ignore_errors=True)
                raise CrossNERError(
                    f"The checkpoint of step {state.step} cannot be written to {self.folder}: {error}.",
                    hint="Make room where the disk is full, then give the same command again: it continues from the "
                    "checkpoint before.",
                ) from None

        engine.on_main(write)
        self._written = time.monotonic()
        self._cost = self._written - began

    def _write(
        self,
        draft: Path,
        state: TrainingState,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        best: Weights | None,
        engine: Engine,
        random_states: list[Weights],
    ) -> None:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        before = self._found()
        save_file({**trained_weights(model), **stored_buffers(model)}, draft / "model.safetensors")
        save_file(_optimiser_tensors(optimiser), draft / "optimiser.safetensors")
        for rank, random_state in enumerate(random_states):
            save_file(random_state, draft / f"random-{rank}.safetensors")
        best_file = None if best is None else f"best-{state.best_epoch}.safetensors"
        is_new = best is not None and best_file != self._best_file
        if best is not None and best_file is not None and is_new:
            save_file(best, draft / best_file)
        scaler = engine.accelerator.scaler
        record = {**asdict(state), "scaler": scaler.state_dict() if scaler else None, "best_file": best_file}
        write_json(draft / "state.json", record)
        flush_tree(draft)
        if best_file is not None and is_new:
            (draft / best_file).replace(self.folder / best_file)
            flush_folder(self.folder)  # before the checkpoint that names it
        target = self.folder / f"step-{state.step}"
        if target in before:  # the end of the epoch, scored since: the one before stays until this one is there
            target = self.folder / f"step-{state.step}-{state.epoch}"
        shutil.rmtree(target, ignore_errors=True)
        draft.replace(target)
        flush_folder(self.folder)
        for path in before:
            if path != target:
                shutil.rmtree(path, ignore_errors=True)
        self._best_file = best_file
        for path in self.folder.glob("best-*.safetensors"):
            if path.name != best_file:
                path.unlink(missing_ok=True)

    def restore(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, engine: Engine
    ) -> tuple[TrainingState, Weights | None] | None:
        """Load the last checkpoint into model (buffers too), optimiser and random generators; None without one.

        Raises:
            CrossNERError: It was made by another number of processes, or is damaged.
        """
        found = self._found()
        if not found:
            return None
        folder = found[-1]
        mine = folder / f"random-{engine.rank}.safetensors"
        if len(list(folder.glob("random-*.safetensors"))) != engine.world:
            raise CrossNERError(
                f"{folder} was written by another number of processes than the current {engine.world}.",
                hint="Continue with as many processes as before, or start again with --force.",
            )
        try:
            return self._load(folder, mine, model, optimiser, engine)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
            raise CrossNERError(
                f"The checkpoint {folder} cannot be read: {type(error).__name__}: {error}.",
                hint="Start the stage again with --force.",
            ) from None

    def _load(
        self, folder: Path, mine: Path, model: nn.Module, optimiser: torch.optim.Optimizer, engine: Engine
    ) -> tuple[TrainingState, Weights | None]:
        record = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        scaler, self._best_file = record.pop("scaler"), record.pop("best_file")
        if scaler and engine.accelerator.scaler:
            engine.accelerator.scaler.load_state_dict(scaler)
        state = TrainingState(**record)
        weights = load_file(folder / "model.safetensors")
        load_weights(model, weights)
        model.load_state_dict(weights, strict=False)
        _load_optimiser(optimiser, load_file(folder / "optimiser.safetensors"))
        _set_random_state(load_file(mine), engine)
        return state, load_file(self.folder / self._best_file) if self._best_file else None

    def remove(self) -> None:
        """Delete everything: the loop is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


class TrainedDraft:
    """The record beside a trained model that its training is finished: it is not trained again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / TRAINED

    def read(self, kind: type[Result]) -> Result | None:
        """Return the result of the training; None if it is not finished."""
        return from_record(json.loads(self.path.read_text(encoding="utf-8")), kind) if self.path.is_file() else None

    def write(self, result: Any) -> None:
        """Record that the training is finished. Its model must be written before."""
        write_json(self.path, asdict(result))


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> Weights:
    states = optimiser.state_dict()["state"]
    return {
        f"{number}.{name}": value.detach().to("cpu", copy=True)
        for number, values in states.items()
        for name, value in values.items()
    }


def _load_optimiser(optimiser: torch.optim.Optimizer, tensors: Weights) -> None:
    state: dict[int, Weights] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _random_state(engine: Engine) -> Weights:
    state = {"cpu": torch.get_rng_state()}
    if engine.device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(engine.device)
    elif engine.device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def _set_random_state(state: Weights, engine: Engine) -> None:
    torch.set_rng_state(state["cpu"])
    # A training that continues on another kind of device has other random numbers there.
    if engine.device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], engine.device)
    elif engine.device.type == "mps" and "mps" in state:
        torch.mps.set_rng_state(state["mps"])
