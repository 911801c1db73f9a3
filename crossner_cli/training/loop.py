"""The one training loop: a generator that yields progress and leaves the chosen weights in the model.

One update takes one batch from every stream, adds up the loss terms and steps once. Each term is divided by the words
that a batch of sentences of average length would have, so that a word weighs the same beside short sentences as beside
long ones, though batches are of one length; a term of other units (entities, steps) is divided by their number in the
batch. Units are counted over all processes and all parts of the batch, so two processes, or a batch cut into parts,
compute the same gradient as one process and one batch.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import OtherUnits
from crossner_cli.run.progress import Notice, Progress
from crossner_cli.training.checkpoints import Checkpoints, TrainingState, load_weights, trained_weights
from crossner_cli.training.interruption import Interruption
from crossner_cli.training.plan import ParameterGroup, Plan
from crossner_cli.training.streams import SentenceStream, Stream

EVERY_EPOCH = 1  # second
ASKS_EVERY = 10  # updates after which several processes agree on checkpoints
GPU_WAITS_EVERY = 10  # updates; reading a loss makes a GPU wait


@runtime_checkable
class KnowsUpdates(Protocol):
    """A model that does something once per update, however many batches it reads."""

    def update(self, progress: float) -> AbstractContextManager[None]:
        """Return the context of the passes of an update, given the share of updates that are done."""
        ...


@dataclass
class FitResult:
    """The result of a training loop, besides the weights.

    Args:
        history: One record per epoch: losses, scores, words a second.
        best: Score of the weights kept, None without a score.
        best_epoch: Their epoch, from 1.
        words_per_second: Over the whole loop, scoring not included.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    best: float | None = None
    best_epoch: int = 0
    steps: int = 0
    words_per_second: float = 0.0


def fit(
    model: nn.Module,
    groups: Sequence[ParameterGroup],
    streams: Sequence[Stream],
    plan: Plan,
    engine: Engine,
    *,
    score: Callable[[], dict[str, float]] | None = None,
    checkpoints: Checkpoints | None = None,
    task: str = "train",
    unit: str = "words",
) -> Generator[Notice | Progress, None, FitResult]:
    """Train a model.

    Args:
        model: ``model(batch)`` gives named sums of losses, ``model.units(batch)`` the units of each, which are words or
            ``OtherUnits``; all passes of an update are made inside ``model.update(progress)``, where it has that.
        streams: One batch of each makes an update; the first decides the length of an epoch.
        score: Scores the model after each epoch; its first number chooses the best epoch.
        checkpoints: Where to keep the state, now and then and when Ctrl-C or SIGTERM stops the loop after an update.
            An interrupted loop continues from there.
        unit: What ``batch.words`` counts.

    Raises:
        CrossNERError: The loss is not finite, or there is nothing to train on.
    """
    loop = _Loop(model, groups, streams, plan, engine, score, checkpoints, task, unit)
    try:
        with loop.interruption:
            yield from loop.run()
        return loop.result()
    finally:
        engine.release()


@dataclass(eq=False)
class _Loop:
    """State of one ``fit``, whose arguments it has."""

    plain_model: nn.Module
    groups: Sequence[ParameterGroup]
    streams: Sequence[Stream]
    plan: Plan
    engine: Engine
    score: Callable[[], dict[str, float]] | None
    checkpoints: Checkpoints | None
    task: str
    unit: str

    def __post_init__(self) -> None:
        engine, plan, groups = self.engine, self.plan, self.groups
        self.plain_optimiser = torch.optim.AdamW(
            [
                {"params": group.parameters, "lr": group.learning_rate, "weight_decay": group.weight_decay}
                for group in groups
            ],
            fused=engine.device.type in ("cpu", "cuda"),
        )
        self.model, self.optimiser = engine.prepare(self.plain_model, self.plain_optimiser)
        if engine.world > 1:  # else all processes drop the same places of their different sentences
            torch.manual_seed(torch.initial_seed() + engine.rank)
        self.trained = [parameter for group in groups for parameter in group.parameters]
        self.steps_an_epoch = len(self.streams[0].epoch(0))
        if not self.steps_an_epoch:
            raise CrossNERError("There is nothing to train on: no sentence is left.", hint="Check the training data.")
        self.total = min(plan.max_steps or math.inf, plan.epochs * self.steps_an_epoch)
        self.state = TrainingState()
        self.best: dict[str, Tensor] | None = None
        self.running: dict[str, Tensor] = {}
        self.interruption = Interruption()
        if self.checkpoints is not None:
            self.checkpoints.expect(sum(parameter.numel() for parameter in self.trained))

    def run(self) -> Generator[Notice | Progress, None, None]:
        """Train all epochs, from the last checkpoint if there is one."""
        checkpoints = self.checkpoints
        restored = checkpoints and checkpoints.restore(self.plain_model, self.plain_optimiser, self.engine)
        if restored:
            self.state, self.best = restored
            yield Notice(f"{self.task}: continues after update {self.state.step}.")
            kind = torch.float64 if self.engine.on_cpu else torch.float32
            self.running = {
                name: torch.tensor(value, dtype=kind, device=self.engine.device)
                for name, value in self.state.sums[self.engine.rank].items()
            }
        # A checkpoint of the last update precedes that epoch's scoring, which is still to be done.
        while self.state.epoch < self.plan.epochs and (self.state.place or not self._is_over()):
            yield from self._epoch()
            yield self._end_epoch()
            self.state.epoch, self.state.place = self.state.epoch + 1, 0
            self.running = {}
            self._keep_state(at_end_of_epoch=True)
        if self.plan.keep == "best" and self.best is not None:
            load_weights(self.plain_model, self.best)
        self.plain_model.eval()

    def result(self) -> FitResult:
        """Return the result."""
        state = self.state
        rate = state.words / state.seconds if state.seconds else 0.0
        kept_best = self.plan.keep == "best" and state.best is not None
        last = state.history[-1] if state.history else {}
        score = state.best if kept_best else last.get("score")
        return FitResult(state.history, score, state.best_epoch if kept_best else len(state.history), state.step, rate)

    def _is_over(self) -> bool:
        patience = self.plan.patience
        return self.state.step >= self.total or (patience is not None and self.state.waited >= patience)

    def _epoch(self) -> Generator[Progress, None, None]:
        self.plain_model.train()
        orders = [stream.epoch(self.state.epoch) for stream in self.streams]
        while self.state.place < len(orders[0]) and self.state.step < self.total:
            began = time.perf_counter()
            words = self._update([order[self.state.place % len(order)] for order in orders])
            if self.engine.device.type == "cuda" and (self.state.step + 1) % GPU_WAITS_EVERY == 0:
                torch.cuda.synchronize(self.engine.device)  # else the work is done while no time is measured
            self.state.seconds += time.perf_counter() - began
            self.state.words += words
            self.state.step += 1
            self.state.place += 1
            yield self._progress()
            self._keep_state()

    def _keep_state(self, *, at_end_of_epoch: bool = False) -> None:
        """Write a checkpoint if one is due or the command is to stop; then stop it."""
        is_due, stops = self._find_due(at_end_of_epoch)
        if is_due or stops:
            self._save()
        if stops:
            raise KeyboardInterrupt

    def _save(self) -> None:
        if self.checkpoints:
            self.state.sums = self.engine.gather([{name: float(value) for name, value in self.running.items()}])
            self.checkpoints.save(self.state, self.plain_model, self.plain_optimiser, self.best, self.engine)

    def _find_due(self, at_end_of_epoch: bool) -> tuple[bool, bool]:
        """Find out if a checkpoint is due by the clock of the main process, and if any process is to stop."""
        # At the end of an epoch one is due as soon as it costs little.
        every = min(self.plan.checkpoint_every, EVERY_EPOCH) if at_end_of_epoch else self.plan.checkpoint_every
        is_due = self.checkpoints is not None and self.checkpoints.is_due(every)
        if self.engine.world == 1:
            return is_due, self.interruption.is_asked
        if every and not at_end_of_epoch and self.state.step % ASKS_EVERY:
            return False, False
        found = self.engine.sum([float(is_due and self.engine.is_main), float(self.interruption.is_asked)])
        return found[0] > 0, found[1] > 0

    def _update(self, items: list[list[int]]) -> int:
        """Do one optimiser step; return the words it read, over all processes."""
        engine, epoch = self.engine, self.state.epoch
        units_of: Callable[[Any], dict[str, int]] = self.plain_model.units  # type: ignore[assignment]
        parts: list[tuple[Any, float]] = []
        units: list[tuple[dict[str, float], float]] = []
        for stream, numbers in zip(self.streams, items, strict=True):
            read = self._parts(stream, numbers, epoch)
            length = stream.relative_length(numbers) if isinstance(stream, SentenceStream) else 1.0
            parts += read
            for batch, weight in read:
                counts: dict[str, float] = dict(units_of(batch))
                for name, count in counts.items():  # words as those of as many average sentences
                    counts[name] = count if isinstance(count, OtherUnits) else count / length
                units.append((counts, weight))
        names = list(dict.fromkeys(name for counts, _ in units for name in counts))
        mine = [sum(counts.get(name, 0) * weight for counts, weight in units) for name in names]
        *sums, words = engine.sum([*mine, sum(batch.words * weight for batch, weight in parts)])
        totals = dict(zip(names, sums, strict=True))
        for group, settings in zip(self.groups, self.optimiser.param_groups, strict=True):
            waits = self.state.step < group.starts_at * self.total
            settings["lr"] = 0.0 if waits else group.learning_rate * self.plan.factor(self.state.step, int(self.total))
        model = self.plain_model
        progress = self.state.step / self.total
        with model.update(progress) if isinstance(model, KnowsUpdates) else contextlib.nullcontext():
            self._compute_gradients(parts, totals)
        engine.clip(self.trained, self.plan.clip_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return int(words)

    def _compute_gradients(self, parts: list[tuple[Any, float]], totals: dict[str, float]) -> None:
        """Run the forward and backward passes of all parts of an update; each term is divided by its total."""
        engine = self.engine
        for number, (batch, weight) in enumerate(parts):
            is_last = number == len(parts) - 1
            with contextlib.nullcontext() if is_last else engine.accelerator.no_sync(self.model):
                terms = self.model(batch.to(engine.device))
                shares = {name: term / (totals[name] or 1.0) * weight for name, term in terms.items()}
                # Data-parallel wrappers average over processes; these losses are shares of one sum.
                engine.accelerator.backward(sum(shares.values()) * engine.world)
            for name, share in shares.items():
                value = share.detach().to(torch.float64 if engine.on_cpu else torch.float32)
                self.running[name] = self.running[name] + value if name in self.running else value

    def _parts(self, stream: Stream, items: list[int], epoch: int) -> list[tuple[Any, float]]:
        """Cut this process's share of an update into ``accumulate`` parts; an empty part weighs nothing."""
        mine = items[self.engine.rank :: self.engine.world]
        count = min(self.plan.accumulate, math.ceil(len(items) / self.engine.world))  # the same on every process
        parts = []
        for number in range(count):
            part = mine[number::count]
            # Every process must take part in every backward pass, so one without items reads one for nothing.
            parts.append((stream.batch(part or items[:1], epoch), 1.0 if part else 0.0))
        return parts

    def _mean_losses(self) -> dict[str, float]:
        """Average each term over the updates of this epoch; every process gets the sum of all shares."""
        done = max(1, self.state.place)
        shares = [float(value) / done for value in self.running.values()]
        losses = dict(zip(self.running, self.engine.sum(shares), strict=True))
        if not all(math.isfinite(value) for value in losses.values()):
            raise CrossNERError(
                f"The loss of {self.task} is {losses} at update {self.state.step}.",
                hint=self._ways_out(),
            )
        return losses

    def _check_weights(self) -> None:
        """Refuse weights that are not finite since the last update: losses are those before it."""
        broken = [name for name, value in self.plain_model.named_parameters() if not value.isfinite().all()]
        if broken:
            raise CrossNERError(
                f"{self.task}: the weights are not finite after update {self.state.step} ({broken[0]}"
                + (f" and {len(broken) - 1} others)." if broken[1:] else ")."),
                hint=self._ways_out(),
            )

    def _ways_out(self) -> str:
        exact = "" if self.engine.precision == "fp32" else ", or use --precision fp32"
        # A checkpoint belongs to its options: others are refused beside it.
        return f"Lower --learning-rate or --head-learning-rate, lengthen --warmup{exact}; give --force with it."

    def _progress(self) -> Progress:
        values = {"epoch": float(self.state.epoch + 1)}
        if self.engine.on_cpu or self.state.step % GPU_WAITS_EVERY == 0:
            losses = self._mean_losses()
            values["loss"] = sum(losses.values())
        if self.state.history:
            values |= self.state.history[-1]["scores"]
        values[f"{self.unit}/s"] = self.state.words / max(self.state.seconds, 1e-9)
        return Progress(self.task, self.state.step, float(self.total), "updates", values)

    def _end_epoch(self) -> Progress:
        """Score, remember the best weights, write the history."""
        losses = self._mean_losses()
        self._check_weights()
        scores = self._score()
        score = next(iter(scores.values()), None)
        state = self.state
        if score is not None:
            is_better = state.best is None or score > state.best
            state.waited = 0 if is_better else state.waited + 1
            if is_better or score == state.best == 0:  # of epochs that got nothing right, the last has learnt most
                state.best, state.best_epoch = score, state.epoch + 1
                self.best = trained_weights(self.plain_model) if self.plan.keep == "best" else None
        rate = state.words / max(state.seconds, 1e-9)
        record = {"epoch": state.epoch + 1, "step": state.step, "losses": losses, "score": score, "scores": scores}
        state.history.append(record)
        values = {"epoch": float(state.epoch + 1), "loss": sum(losses.values()), **scores, f"{self.unit}/s": rate}
        return Progress(self.task, state.step, float(self.total), "updates", values, is_milestone=True)

    def _score(self) -> dict[str, float]:
        """Score the model. An interruption stops one process at once, after the last update of the epoch.

        Where the last epoch is kept, whatever its score, earlier ones are not scored.
        """
        is_last = self.state.epoch + 1 == self.plan.epochs or self.state.step >= self.total
        if self.score is None or (self.plan.keep == "last" and self.plan.patience is None and not is_last):
            return {}
        if self.engine.world > 1:  # they stop together, after the scoring: none waits for another
            return self.score()
        try:
            with self.interruption.at_once():
                return self.score()
        except KeyboardInterrupt:
            self._save()
            raise
