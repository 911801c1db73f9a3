"""The results of stages, as their manifests hold them.

The field names are the JSON keys. Parts whose keys are data (statistics, corpus counts, losses) stay mappings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from crossner_cli import figures

Record = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Average:
    """A score over seeds in percent, None without one, and its sample standard deviation, None below two seeds."""

    mean: float | None
    deviation: float | None


@dataclass
class CarryOver:
    """The tensors and types that a start gave to a new tagger: of a stage, to that of its first seed.

    ``loaded`` tensors were taken over, in part or whole, new ones start afresh, and those left have no place in the new
    tagger. Rows of carried types were taken over, those of fresh types were not.
    """

    start: str
    loaded: int = 0
    new_tensors: list[str] = field(default_factory=list)
    left_tensors: list[str] = field(default_factory=list)
    carried_types: list[str] = field(default_factory=list)
    fresh_types: list[str] = field(default_factory=list)

    def add(self, loaded: int, new: Iterable[str], left: Iterable[str] = (), *, prefix: str = "") -> None:
        """Count tensors of a part of the tagger, whose names begin with ``prefix``."""
        self.loaded += loaded
        self.new_tensors += [prefix + name for name in new]
        self.left_tensors += [prefix + name for name in left]

    def describe(self, *, verbose: bool = False) -> str:
        """Describe them in one line for the log; verbose, with the tensors."""
        text = f"start from {self.start}"
        if verbose:
            text += f": {figures.count(self.loaded)} tensors loaded"
            for names, kind in ((self.new_tensors, "new"), (self.left_tensors, "left")):
                told = f" ({figures.join_first(names, 3)})" if names else ""
                text += f", {figures.count(len(names))} {kind}{told}"
        if self.carried_types:
            text += f"; types carried over: {', '.join(self.carried_types)}"
        return text + (f"; types new: {', '.join(self.fresh_types)}" if self.fresh_types else "")


@dataclass(frozen=True)
class SplitCounts:
    """Sizes of one split; ``longest_sentence`` in words."""

    sentences: int
    words: int
    longest_sentence: int
    entities: int


@dataclass(frozen=True)
class DomainResult:
    """A domain as ``prepare-data`` stored it; origins and splits by split."""

    name: str
    types: list[str]
    found_scheme: str
    origins: dict[str, str]
    splits: dict[str, SplitCounts]


@dataclass(frozen=True)
class PrepareDataResult:
    """The result of ``prepare-data``; domains, statistics and repairs by role, renamed types by data set.

    Known warnings are of data sets from the cache, and were shown when these were first prepared.
    """

    domains: dict[str, DomainResult]
    statistics: Record
    repairs: dict[str, dict[str, int]]
    corpus: Record
    source_corpus: Record
    warnings: list[str]
    known_warnings: list[str] = field(default_factory=list)
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The sentences to train on, for ``status``."""
        trains = {role: domain.splits.get("train") for role, domain in self.domains.items()}
        counts = [f"{role} {figures.count(train.sentences if train else 0)}" for role, train in trains.items()]
        return f"train: {', '.join(counts)}"


@dataclass(frozen=True)
class DaptResult:
    """The result of ``dapt``.

    Perplexities are those of held-out text, None without any. Units are subwords of an encoder, which was trained on
    the ``corpus``, or characters of language models, which were trained on the text of ``strings``.
    """

    perplexity_before: float | None
    perplexity_after: float | None
    updates: int
    epochs: int
    losses: list[float]
    units_per_second: float
    corpus: Record = field(default_factory=dict)
    start: CarryOver | None = None
    strings: Record = field(default_factory=dict)
    perplexities: Record = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The perplexities, for ``status``."""
        return f"perplexity {figures.score(self.perplexity_before)} -> {figures.score(self.perplexity_after)}"


@dataclass(frozen=True)
class SeedResult:
    """The training of one tagger.

    Scores on dev are those of the weights kept, in percent, None without any; ``dev_f1_int8`` is that of ``predict
    --precision int8``, None unless a transformer was trained on a CPU. ``history`` has losses, score, scores and words
    a second of each epoch; ``differently_cut`` are words that the encoder's tokenizer cuts differently inside a text.
    """

    folder: str
    learning_rate: float | None
    head_learning_rate: float | None
    dev_f1: float | None
    epoch: int
    epochs: int
    updates: int
    words_per_second: float
    start: CarryOver
    unreadable_words: int
    shortened_words: int
    history: list[Record]
    dev_precision: float | None = None
    dev_recall: float | None = None
    dev_f1_int8: float | None = None
    differently_cut: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TrainResult:
    """The result of a training stage, by seed; ``train_sentences`` counts labelled sentences by role."""

    seeds: dict[str, SeedResult]
    dev_f1: float | None
    dev_f1_deviation: float | None
    start: CarryOver
    train_sentences: dict[str, int]
    settings: Record

    @property
    def summary(self) -> str:
        """F1 on dev, for ``status``."""
        return f"dev F1 {figures.spread(self.dev_f1, self.dev_f1_deviation)}"


@dataclass(frozen=True)
class OtherMode:
    """F1 in the other mode."""

    mode: str
    f1: Average


@dataclass(frozen=True)
class TypeResult:
    """Scores of one entity type, as means over seeds."""

    type: str
    precision: float
    recall: float
    f1: float
    predicted: float
    correct: float
    support: int
    f1_deviation: float | None


@dataclass(frozen=True)
class SeedScores:
    """Scores of one tagger; counts that scoring two files lacks are None."""

    precision: float
    recall: float
    f1: float
    macro_f1: float
    per_type: dict[str, Record]
    support: int
    sentences: int
    repaired: int
    illegal_in_gold: int
    mode: str
    other_mode_f1: float
    unreadable_words: int | None = None
    shortened_words: int | None = None
    unknown_words: int | None = None
    discarded_sequences: int | None = None
    seconds: float | None = None
    words_per_second: float | None = None


@dataclass(frozen=True)
class ModelResult:
    """The scores of an evaluated model over its seeds.

    ``intervals`` are lowest and highest value of precision, recall and F1 over all entities and, as ``f1 of TYPE``, of
    the F1 of each type; they are found out of fold only.
    """

    f1: Average
    precision: Average
    recall: Average
    macro_f1: Average
    other_mode: OtherMode
    scheme: str
    support: int
    repaired: int
    illegal_in_gold: int
    unreadable_words: int
    shortened_words: int
    unknown_words: int
    discarded_sequences: int
    seconds: float
    words_per_second: float | None
    reliability: Record | None
    per_type: list[TypeResult]
    seeds: dict[str, SeedScores]
    unknown_types: list[str]
    extra_types: list[str]
    fine_grained: Record | None = None
    intervals: dict[str, list[float]] | None = None


@dataclass(frozen=True)
class EvaluateResult:
    """The result of ``evaluate``, models by label; where two files are scored, the split is None."""

    domain: str  # the target, or the gold file
    split: str | None
    mode: str
    tool: str  # the scorer with its version
    repair: str  # the reading of broken tags
    zero_division: int
    sentences: int
    words: int
    warnings: list[str]
    models: dict[str, ModelResult]
    decoding: str = "trained"
    precision: str = ""  # as asked for; empty where two files are scored
    gold_scheme: str | None = None  # of two files
    predictions_scheme: str | None = None
    comparisons: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # the meaning of the scores
    forecast: Record | None = None  # the gain of F1 with more sentences, as ``evaluation.folds`` estimates it

    @property
    def summary(self) -> str:
        """F1 of each model, for ``status``."""
        scores = ", ".join(f"{label} {figures.score(model.f1.mean)}" for label, model in self.models.items())
        return f"{self.split or 'files'} F1{' in int8' if self.precision == 'int8' else ''}: {scores}"


@dataclass(frozen=True)
class CheckLabelsResult:
    """The result of ``check-labels``.

    Args:
        domain: The target.
        sentences: Sentences that were checked.
        entities: Their entities.
        suspects: Labels that are probably wrong, by kind.
        inconsistencies: Labels that contradict others, by kind.
        first: The first suspects, as ``suspects.jsonl`` has them.
        written: Files in the stage's folder.
    """

    domain: str
    sentences: int
    entities: int
    suspects: dict[str, int]
    inconsistencies: dict[str, int]
    first: list[Record]
    written: list[str]

    @property
    def summary(self) -> str:
        """The number of suspects, for ``status``."""
        return f"{sum(self.suspects.values()):,} suspects among {self.entities:,} entities"


@dataclass(frozen=True)
class PredictResult:
    """The result of ``predict``; entities by type. ``output`` is None for stdout, folder and seed for an ensemble."""

    model: str
    folder: str | None
    seed: int | None
    domain: str
    calibrated: bool
    output: str | None
    format: str
    documents: int
    blank_documents: int
    unsure_entities: int
    sentences: int
    words: int
    rewritten_words: int
    repaired: int
    entities: dict[str, int]
    unreadable_words: int
    shortened_words: int
    unknown_words: int
    discarded_sequences: int
    words_before: int
    seconds: float
    words_per_second: float
    repairs: dict[str, int]


@dataclass(frozen=True)
class ExportedModel:
    """The measurements of a tagger or graph; None if not measured."""

    name: str
    bytes: int
    f1: float | None = None
    words_per_second: float | None = None
    other_tags: int | None = None


@dataclass(frozen=True)
class ExportResult:
    """The result of ``export``; the first of the models is the tagger itself."""

    model: str
    seed: int | None
    output: str
    mode: str
    tool: str
    repair: str
    zero_division: int
    sentences: int
    words: int
    domain: str | None
    split: str
    threads: int
    calibration: Record | None
    models: list[ExportedModel]


@dataclass(frozen=True)
class LabelResult:
    """The result of ``label``."""

    output: str  # the folder of the data set
    teachers: list[Record]  # name, with seed and digest of a tagger, or with address and digest of the prompt
    read: dict[str, int]  # documents and sentences
    dropped: dict[str, int]  # sentences by reason
    sentences: int  # labelled sentences
    words: int
    entities: dict[str, int]  # by type
    soft: bool  # true if it has probabilities of tags
    repairs: dict[str, int]  # entities dropped or widened, by kind
    requests: dict[str, int]  # to a language model, the answers used, and their tokens; empty for taggers
    warnings: list[str]
    next: str  # the command that usually follows
