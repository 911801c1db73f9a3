"""The contract of an adaptation to raw text, for every model that it trains, and the look-up of its kind."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from torch import nn

from crossner_cli.adaptation.masked_lm import perplexity
from crossner_cli.data.sentences import PreparedData
from crossner_cli.engine.devices import Engine
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Work
from crossner_cli.run.results import DaptResult
from crossner_cli.run.stage import Stage

# The models beside encoders that ``--encoder`` names, with the module whose ADAPTATION trains them.
OTHER_MODELS = {"strings": "crossner_cli.recurrent.string_adaptation"}


class Fitted(NamedTuple):
    """The record of a training, and the mean losses of the held-out text before and after."""

    record: Any
    before: list[float]
    after: list[float]


Parts = Sequence[tuple[list[nn.Parameter], float]]  # parameters, and the share of all updates for which they wait
Fit = Callable[[nn.Module, Parts, Any], Work[Fitted]]  # trains the parts of a model on a stream of batches


class Adaptation(ABC):
    """The inputs of an adaptation, found and checked before any work, and its training.

    Attributes:
        made: Folder of the model in the stage's.
        temporary: Folder of the numbered text in the stage's.
        inputs: Digests of all that is read, by place.
        unit: What the text is counted in.
    """

    made: ClassVar[str]
    temporary: ClassVar[str]
    unit: ClassVar[str]
    inputs: dict[str, str]

    def __init__(self, run: RunDirectory, options: Any, engine: Engine) -> None:
        self.options, self.engine = options, engine
        self.prepared = PreparedData.load(run, wanted_by="dapt")
        self.lineage: list[dict[str, Any]] = []
        self.notes: list[str] = []

    @abstractmethod
    def train(self, stage: Stage, fit: Fit) -> Work[DaptResult]:
        """Train the model and return the stage's result."""

    @abstractmethod
    def save(self, stage: Stage, result: DaptResult) -> None:
        """Write the trained model."""

    @property
    @abstractmethod
    def choices(self) -> int:
        """The number of units to choose from, which is the perplexity of a model that knows nothing."""

    @abstractmethod
    def measure(self) -> list[float]:
        """Measure the mean losses of the held-out text; none without such text."""


def perplexity_of(losses: list[float]) -> float | None:
    """Return the perplexity of the mean of some losses; None without any."""
    return perplexity(statistics.fmean(losses)) if losses else None


def find_other_adaptation(encoder: str) -> type[Adaptation] | None:
    """Return the class that trains another model than an encoder; None where ``--encoder`` names an encoder."""
    module = OTHER_MODELS.get(encoder)
    kind: type[Adaptation] | None = import_module(module).ADAPTATION if module else None
    return kind
