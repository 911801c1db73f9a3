"""The options of every command. This module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from crossner_cli.option_fields import (
    DEVICE,
    Command,
    Compute,
    ComputeTags,
    OnDevice,
    is_stream,
    option,
    resolve_output,
)

# The groups of the help, each with what its options have in common.
optimisation = partial(option, panel="Optimisation")
detail = partial(option, panel="Details")
masked_option = partial(option, needs="encoder!=strings")
masked_detail = partial(detail, needs="encoder!=strings")
masked_optimisation = partial(optimisation, needs="encoder!=strings")
strings_detail = partial(detail, needs="encoder=strings")

Decoding = Literal["trained", "legal", "any"]
OutputName = Literal[
    "auto", "text", "jsonl", "conll", "brat", "spacy", "html", "parquet", "label-studio", "prodigy", "doccano"
]
STRINGS = "strings"  # dapt --encoder strings: language models of characters
ENCODER_RATE, STRINGS_RATE = 1e-4, 5e-3  # peak learning rates of dapt
CPU_SUBWORDS, GPU_SUBWORDS = 1024, 16384  # read at once outside training, padding included

MODEL_HELP = "Tagger to use: a stage of the run, or the path of a stage or tagger folder."
DEFAULT_MODEL = "Default: the last tagger of the run, if its stages form one chain."
SUBWORDS_HELP = f"Subwords read at once; default: {CPU_SUBWORDS} on a CPU, {GPU_SUBWORDS} on a GPU."
DECODING_HELP = "Tag sequences to choose from. legal: those of the tag scheme; any: all; trained: as in training."
ACCUMULATE_HELP = "Parts that a batch is read in, to save memory; the gradient stays the same."
ENCODER_HELP = "Encoder: a Hugging Face name, a folder, or minilm."
START_HELP = "Weights to start from: base (the encoder as it is), a stage of this run, or a path."
PAPER_HELP = "Use the published value of every option and setting that is not given."
CHECKPOINT_HELP = "Seconds between checkpoints, or more if one takes long; 0: one after each update."
KEEP_HELP = "Epoch to keep. best: that with the highest dev F1; last: the last one, and only it is scored."
ATTENTION_HELP = "Use attention dropout on CPUs too, which is slower."


@dataclass(frozen=True, kw_only=True)
class Dapt(Compute):
    """Adapt an encoder to the raw text of the run by masked-language modelling.

    With ``--encoder strings``, train a forward and a backward language model of characters instead.
    """

    command = "dapt"
    encoder: str = option("minilm", f"{ENCODER_HELP} strings: language models of characters.", paper="bert-base-cased")
    start_from: str = masked_option("base", START_HELP)
    corpus_level: Literal["domain", "entity", "task", "integrated"] = masked_option(
        "domain", "Level of the prepared corpus to train on."
    )
    masking: Literal["token", "span", "entity"] = masked_option(
        "span", "What is masked: single subwords, spans of them, or whole names of the entity lists."
    )
    epochs: int = option(5, "Passes over the corpus.", minimum=1, paper=15)
    max_steps: int | None = option(None, "Stop after this many updates.", minimum=1)
    batch_size: int = option(
        32, "Blocks per update, over all processes; with strings, places to read from.", minimum=1, paper=8
    )
    accumulate: int = masked_option(1, ACCUMULATE_HELP, minimum=1)
    learning_rate: float | None = option(
        None, f"Peak learning rate; default: {ENCODER_RATE}, with strings {STRINGS_RATE}.", minimum=0.0, paper=5e-5
    )
    paper: bool = masked_option(False, PAPER_HELP, counts=False)
    mask_rate: float = masked_detail(0.15, "Share of subwords to mask.", minimum=0.01, maximum=0.9, paper=0.15)
    block_size: int = detail(
        128, "Subwords per block; with strings, characters that gradients go back.", minimum=8, paper=512
    )
    corpus_share: float = masked_detail(1.0, "Share of the corpus lines to train on.", minimum=0.0001, maximum=1.0)
    held_out: float = detail(0.02, "Share of lines held out to measure perplexity.", minimum=0.0, maximum=0.5)
    text: Literal["target", "source", "both"] = strings_detail(
        "target", "Domains whose raw text is read, or else their training sentences."
    )
    hidden_size: int = strings_detail(256, "Units of each character model.", minimum=1)
    compile: bool = masked_detail(
        False, "Compile the encoder's layers: it takes a minute, and a GPU then trains faster.", counts=False
    )
    checkpoint_every: int = detail(30, CHECKPOINT_HELP, minimum=0, counts=False)
    weight_decay: float = optimisation(0.01, "Weight decay.", minimum=0.0, paper=0.0)
    warmup: float = optimisation(0.06, "Share of updates in which the rate rises.", minimum=0.0, maximum=1.0, paper=0.0)
    clip_norm: float = optimisation(1.0, "Largest gradient norm; 0: no clipping.", minimum=0.0, paper=1.0)
    head_warmup: float = masked_optimisation(
        0.1, "Share of updates in which a new masked-LM head learns alone.", minimum=0.0, maximum=1.0, paper=0.0
    )
    attention_dropout: bool = masked_optimisation(False, ATTENTION_HELP, paper=True)

    @property
    def peak_learning_rate(self) -> float:
        """The peak learning rate: the option, else the default of the kind of model."""
        default = STRINGS_RATE if self.encoder == STRINGS else ENCODER_RATE
        return default if self.learning_rate is None else self.learning_rate

    def record(self) -> dict[str, Any]:
        """The options that make a result, with the learning rate that is used."""
        return {**super().record(), "learning_rate": self.peak_learning_rate}


@dataclass(frozen=True, kw_only=True)
class Optimisation(Compute):
    """The options of every command that trains a tagger.

    Attributes:
        roles: The domains that it reads.
    """

    makes_taggers: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]]
    method: str = option("linear", "Tagging method; crossner methods lists them.")
    encoder: str = option("minilm", ENCODER_HELP, paper="bert-base-cased")
    start_from: str = option("base", START_HELP)
    word_shapes: bool = option(
        False, "Let an uncased encoder see how words are written: lower, Capitalised, CAPITALS, with digits."
    )
    settings: list[str] = option([], "Setting of the method, as key=value. Repeatable.", "--set")
    epochs: int = option(15, "Passes over the training sentences.", minimum=1, paper=300)
    batch_size: int = option(8, "Sentences per update, over all processes.", minimum=1, paper=16)
    seeds: str | None = option(None, "Seeds to train with, one tagger each, as 1,2,3; mean and deviation are shown.")
    select_on: Literal["target", "source"] = option("target", "Domain whose dev sentences choose the best epoch.")
    keep: Literal["best", "last"] = option("best", KEEP_HELP)
    paper: bool = option(False, PAPER_HELP, counts=False)
    learning_rate: float | None = optimisation(
        None, "Peak rate of the encoder; default by width: 2.8e-4 at 384, 5e-5 at 768.", minimum=0.0, paper=5e-5
    )
    head_learning_rate: float | None = optimisation(
        None, "Peak rate of all other layers; default: 1e-3 above a transformer, else 5e-3.", minimum=0.0, paper=5e-5
    )
    schedule: Literal["linear", "constant"] = optimisation(
        "linear", "Learning rate after the warm-up.", paper="constant"
    )
    warmup: float = optimisation(0.1, "Share of updates in which the rate rises.", minimum=0.0, maximum=1.0, paper=0.0)
    weight_decay: float = optimisation(0.01, "Weight decay.", minimum=0.0, paper=0.0)
    clip_norm: float = optimisation(1.0, "Largest gradient norm; 0: no clipping.", minimum=0.0, paper=0.0)
    max_steps: int | None = optimisation(None, "Stop after this many updates.", minimum=1)
    patience: int | None = optimisation(
        None, "Stop after this many epochs without a better dev score; default: never.", minimum=1, paper=8
    )
    accumulate: int = optimisation(1, ACCUMULATE_HELP, minimum=1)
    train_embeddings: bool = optimisation(False, "Train the encoder's word embeddings too.", paper=True)
    attention_dropout: bool = optimisation(False, ATTENTION_HELP, paper=True)
    checkpoint_every: int = optimisation(30, CHECKPOINT_HELP, minimum=0, counts=False)

    @property
    def of_source(self) -> bool:
        """Return whether the tagger is the source's, for which some papers have other values."""
        return self.roles == ("source",)

    @property
    def chooses_on_dev(self) -> bool:
        """Return whether scores on dev decide which epoch is kept or when training stops."""
        return self.keep == "best" or self.patience is not None


@dataclass(frozen=True, kw_only=True)
class PretrainSource(Optimisation):
    """Train a tagger on the labelled sentences of the source domain."""

    command, roles = "pretrain-source", ("source",)

    epochs: int = option(2, "Passes over the training sentences.", minimum=1, paper=2)
    batch_size: int = option(32, "Sentences per update, over all processes.", minimum=1, paper=16)
    select_on: Literal["target", "source"] = option("source", "Domain whose dev sentences choose the best epoch.")
    keep: Literal["best", "last"] = option("best", KEEP_HELP, paper="last")


@dataclass(frozen=True, kw_only=True)
class TargetOptimisation(Optimisation):
    """The options of the commands that train on the labelled sentences of the target."""

    silver_weight: float = option(
        1.0,
        "Times that each sentence of prepare-data --silver is read in a pass; 0 leaves them out.",
        minimum=0.0,
        maximum=100.0,
    )
    replace_mentions: float = option(
        0.0,
        "Share of the target's mentions that others of the same type replace, drawn again for each pass.",
        minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class Finetune(TargetOptimisation):
    """Train a tagger on the labelled sentences of the target domain."""

    command, roles = "finetune", ("target",)


@dataclass(frozen=True, kw_only=True)
class JointTrain(TargetOptimisation):
    """Train a tagger on the labelled sentences of both domains at once."""

    command, roles = "joint-train", ("target", "source")

    epochs: int = option(2, "Passes over the training sentences.", minimum=1, paper=300)
    batch_size: int = option(32, "Sentences per update, over all processes.", minimum=1, paper=16)
    upsample: int = option(50, "Times that each target sentence is read in a pass.", minimum=1, paper=50)


@dataclass(frozen=True, kw_only=True)
class Evaluate(ComputeTags):
    """Score taggers on the dev or test sentences of the target, or one file of tags against another."""

    command = "evaluate"
    replaces: ClassVar[bool] = True

    model: list[str] = option(
        [], f"Tagger to score: a stage of the run, or the path of a stage or tagger folder. Repeatable. {DEFAULT_MODEL}"
    )
    ensemble: bool = option(
        False,
        "Also score the mean of all seeds of all models as one model, called ensemble, which gives legal sequences.",
    )
    split: Literal["dev", "test"] = option("test", "Sentences to score on.")
    fine_grained: bool = option(
        False, "Also sort all errors and score parts of the entities: fine_grained.csv and the page errors.html."
    )
    against: list[Path] = option(
        [], "Run or evaluate stage whose models to compare with: difference, interval and p. Repeatable."
    )
    gold: Path | None = option(None, "File with the gold tags, to score --predictions.")
    predictions: Path | None = option(None, "File with the predicted tags.", needs="gold")
    mode: Literal["conll", "strict"] = detail(
        "conll", "Entities to count. conll: also one that begins with I-; strict: only those that begin with B-."
    )
    decoding: Decoding = detail("trained", DECODING_HELP)
    batch_subwords: int | None = detail(None, SUBWORDS_HELP, minimum=64, counts=False)

    @property
    def needs_device(self) -> bool:
        """Return whether taggers are scored, not files."""
        return self.gold is None and self.predictions is None


@dataclass(frozen=True, kw_only=True)
class Predict(ComputeTags):
    """Tag new text: plain text, CoNLL, JSONL, JSON, CSV or Parquet."""

    command = "predict"
    makes_stage: ClassVar[bool] = False
    input: list[Path] = option([], "Files and folders to tag, or - for stdin.", argument=True)
    text: list[str] = option([], "Text to tag instead of files. Repeatable.")
    model: list[str] = option([], f"{MODEL_HELP} Repeatable with --ensemble. {DEFAULT_MODEL}")
    ensemble: bool = option(
        False, "Tag with the mean of all seeds of all models, which gives legal sequences; each model adds its time."
    )
    output: Path | None = option(None, "File to write, with brat a folder; default: stdout.")
    format: OutputName = option(
        "auto",
        "Output format: text, jsonl, conll, brat, spacy, html, parquet, label-studio, prodigy or doccano; auto goes by"
        " the ending of --output, and is text on a terminal, else jsonl.",
    )
    input_format: Literal["auto", "text", "conll", "jsonl", "json", "csv", "parquet"] = option(
        "auto", "Input format; auto goes by the ending of each file, and then by its first lines."
    )
    text_column: str = option("text", "Column or key that holds the text in CSV, JSON and Parquet.")
    order: Literal["input", "uncertain"] = option(
        "input", "Order of the output. uncertain: least certain documents first; all are kept on disk until the end."
    )
    workers: int = option(1, "Processes on the CPU; the threads are shared among them.", minimum=1, counts=False)
    skip_bad_lines: bool = detail(False, "Skip lines that cannot be read, and count them.")
    min_score: list[str] = detail(
        [], "Leave out entities below this score, as 0.8; of one type, as person=0.8. Repeatable."
    )
    min_precision: float | None = detail(
        None,
        "Leave out entities below the lowest score of their type that has this precision on dev or, without dev, out of"
        " fold; with a confidence of 90 %. Of a type that cannot reach it, all are left out.",
        minimum=0.0,
        maximum=1.0,
    )
    decoding: Decoding = detail("trained", DECODING_HELP)
    batch_subwords: int | None = detail(None, SUBWORDS_HELP, minimum=64, counts=False)

    @property
    def read_as(self) -> Literal["text", "conll", "jsonl", "json", "csv", "parquet"] | None:
        """The format of all inputs; None finds that of each."""
        return None if self.input_format == "auto" else self.input_format

    @property
    def place(self) -> Path | None:
        """The path of the output, links followed; None for stdout."""
        return resolve_output(self.output)

    @property
    def has_data_on_stdout(self) -> bool:
        """Return whether tagged text goes to stdout."""
        return self.place is None

    @property
    def is_resumable(self) -> bool:
        """Return whether the same command continues after an interruption: output and inputs are files."""
        files = [path for path in self.input if path.is_file() or path.is_dir()]
        return self.place is not None and not is_stream(self.place) and bool(files) and files == self.input


@dataclass(frozen=True, kw_only=True)
class Inspect(Compute):
    """Look inside a tagger: the weights that it computes for a sentence, and the states of words on a plane."""

    command = "inspect"
    makes_stage: ClassVar[bool] = False
    sentence: list[str] = option([], "Text whose weights to show. Repeatable.")
    states: Literal["none", "hidden", "cells"] = option(
        "none",
        "States of the words inside entities to draw by t-SNE; cells: those of multi-cell-lstm.",
        needs="output",
    )
    model: str | None = option(None, f"{MODEL_HELP} {DEFAULT_MODEL}")
    points: int = option(1000, "Most words to draw.", minimum=5, needs="states")
    split: Literal["train", "dev", "test"] = option("dev", "Sentences whose states to draw.", needs="states")
    output: Path | None = option(None, "Folder to write figures and numbers to; default: only print a table.")


@dataclass(frozen=True, kw_only=True)
class Export(Compute):
    """Write a linear tagger as ONNX, and compare F1 and speed of the tagger and its graphs."""

    command = "export"
    makes_stage: ClassVar[bool] = False
    device: str = option("cpu", "Device; only cpu is possible.", panel=DEVICE, counts=False)
    model: str | None = option(None, f"{MODEL_HELP} {DEFAULT_MODEL}")
    output: Path | None = option(None, "Folder to write to; default: export in the run directory.")
    quantise: Literal["int8", "none"] = option("int8", "Number format to also write the weights in.")
    split: Literal["dev", "test", "none"] = option("dev", "Target sentences to compare on.")


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Put many runs into one table or curve, and compare their models. It makes no stage."""

    command = "report"
    makes_stage: ClassVar[bool] = False
    runs: list[Path] = option(
        [], "Run directories, folders of them, or evaluate stages; default: the run directory.", argument=True
    )
    split: Literal["dev", "test", "folds"] = option(
        "test", "Sentences that were scored on; folds: those of cross-validate."
    )
    baseline: str | None = option(
        None, "Model to compare the others with, as [RUN/][STAGE/]NAME; default: of two, the first."
    )
    published: bool = option(False, "Show what papers report for such methods on these targets.")
    x: str | None = option(
        None, "Draw F1 against train-sentences, corpus-share, label-size, epoch (dev F1), or any option or setting."
    )
    output: Path | None = option(None, "Folder to write report.json, .csv, .md and the figures to.")


@dataclass(frozen=True, kw_only=True)
class Status(Command):
    """List the stages of a run with their results, what is out of date and why, and the next command."""

    command = "status"
    makes_stage: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Rerun(OnDevice):
    """Prepare the data again, and each stage that is out of date; earlier taggers stay as NAME-previous."""

    command = "rerun"
    makes_stage: ClassVar[bool] = False
