"""Every option of every command: at once the flag, its help, its limits and the manifest entry. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from crossner_cli.option_fields import EVERY_COMMAND, Command, option

Decoding = Literal["trained", "legal", "any"]
LARGEST_SEED = 2**32 - 1
STRINGS = "strings"  # what dapt --encoder calls language models of characters
ENCODER_RATE, STRINGS_RATE = 1e-4, 5e-3  # peak learning rates of dapt
CPU_SUBWORDS, GPU_SUBWORDS = 1024, 16384  # read at once, padding included, where nothing is trained
SUBWORDS_HELP = f"Subwords read at once; default: {CPU_SUBWORDS} on a CPU, {GPU_SUBWORDS} elsewhere."
DECODING_HELP = (
    "legal: give only tag sequences that the scheme allows; any: the likeliest tags, as the papers do; trained: as the "
    "tagger was trained."
)
DEVICE, OPTIMISATION, RAW_TEXT = "Device", "Optimisation", "Raw text"


@dataclass(frozen=True, kw_only=True)
class Compute(Command):
    """What every command that computes takes."""

    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps.", panel=DEVICE, counts=False)
    gpus: str | None = option(None, "GPUs of this machine, one process each, as 0,2,3.", panel=DEVICE, counts=False)
    precision: Literal["auto", "fp32", "bf16", "fp16"] = option(
        "auto", "Number format; auto takes bf16 where the device has it in hardware.", panel=DEVICE
    )
    threads: int | None = option(
        None, "CPU threads; default: OMP_NUM_THREADS, else all cores.", minimum=1, maximum=1024, panel=DEVICE,
        counts=False,
    )  # fmt: skip
    seed: int = option(1, "Seed of every random choice.", minimum=0, maximum=LARGEST_SEED, panel=DEVICE)


@dataclass(frozen=True, kw_only=True)
class PrepareData(Command):
    """Read the labelled data and the raw text of a run, check them, count what they hold and what was repaired."""

    source: str | None = option(None, "Labelled source domain: a known name or a folder.")
    target: str | None = option(None, "Labelled target domain: a known name or a folder.")
    map_types: str | None = option(
        None, "Entity types of the source to call as the target does, as person=PER,place=LOC; place=O drops one."
    )
    list_known: bool = option(False, "Print the known data sets and stop.", "--list", counts=False)
    train_limit: int | None = option(None, "Keep this many target training sentences: the first ones.", minimum=1)
    train_limit_seed: int | None = option(None, "With --train-limit: a sample drawn with this seed, not the first.")
    dev_from_train: float | None = option(
        None, "Share of train to take as dev, in each domain that has no dev.", minimum=0.0, maximum=0.9
    )
    keep_docstart: bool = option(False, "Keep -DOCSTART- lines as sentences.", "--keep-docstart")
    scheme: Literal["bio", "bioes"] = option("bio", "Tag scheme of the run.")
    corpus: list[Path] = option(
        [], "Raw text of the target domain: text, JSONL or Parquet, plain or as .gz, .bz2, .zst; folders of such files;"
        " a MediaWiki dump; repeat the flag.",
    )  # fmt: skip
    text_column: str = option("text", "Where JSONL and Parquet have the text.")
    wikipedia_category: list[str] = option(
        [], "Articles of a MediaWiki dump to take: those of this category and the ones below; repeat the flag."
    )
    category_depth: int = option(3, "Steps below a category that count.", minimum=0)
    source_corpus: list[Path] = option(
        [], "Raw text of the source domain, for methods that model both languages; repeat the flag."
    )
    corpus_level: Literal["domain", "entity", "task", "integrated"] | None = option(
        None, "Corpus level to write; default: domain, and with --entities all four."
    )
    entities: list[Path] = option(
        [], "Entity lists, a line each: name<TAB>type; DBpedia's types, labels and ontology as .ttl, .nt or .owl;"
        " train: the target's training sentences; or the name of a bundled sample; repeat the flag.",
    )  # fmt: skip
    language: str = option("en", "Language of the labels in RDF entity lists.")
    specialised_types: str | None = option(
        None, "Types that make a task-level sentence, as a,b; a class stands for those below it; default: the target's"
        " types that the source lacks, in RDF the classes special to them.",
    )  # fmt: skip
    min_entities: int = option(2, "Distinct names that make an entity-level sentence.", minimum=1)
    task_upsample: int = option(2, "Times the task level counts in the integrated level.", minimum=1)
    names_case: Literal["exact", "ignore"] = option("exact", "Find names as written, or in any case.", panel=RAW_TEXT)
    sentences_per_line: bool = option(
        False, "A line of the corpus is one sentence: look for no others in it.", "--sentences-per-line", panel=RAW_TEXT
    )
    drop_duplicates: Literal["no", "exact", "near"] = option(
        "no", "Leave out repeated sentences: the same but for case, spaces and final stop; near: nearly the same too.",
        panel=RAW_TEXT,
    )  # fmt: skip
    drop_boilerplate: bool = option(
        False, "Leave out sentences of under 3 words, of under half letters, or with a phrase of web pages.",
        "--drop-boilerplate", panel=RAW_TEXT,
    )  # fmt: skip
    weak_labels: bool = option(
        False, "Write the selected sentences, labelled by the names in them, as the data set weak-labels/.",
        "--weak-labels", panel=RAW_TEXT,
    )  # fmt: skip
    executor: Literal["local", "slurm", "ray"] = option(
        "local", "Where sentences are selected: on this machine, or on a cluster that shares the run's disk.",
        counts=False, panel=RAW_TEXT,
    )  # fmt: skip
    workers: int | None = option(
        None, "Processes that select sentences; default: all cores here, on Slurm as many as there are parts.",
        minimum=1, counts=False, panel=RAW_TEXT,
    )  # fmt: skip
    slurm_partition: str | None = option(None, "Partition for --executor slurm.", counts=False, panel=RAW_TEXT)
    slurm_time: str = option("04:00:00", "Time limit of a part for --executor slurm.", counts=False, panel=RAW_TEXT)
    slurm_arguments: list[str] = option(
        [], "A further argument of sbatch, as account=nlp; repeat the flag.", "--slurm-argument",
        counts=False, panel=RAW_TEXT,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Dapt(Compute):
    """Continue masked-language-model training of an encoder on the run's raw text, or train two language models of
    characters on it (--encoder strings), for --string-embeddings.
    """

    encoder: str = option(
        "minilm", "Encoder: a Hugging Face name, a folder, or minilm; strings: language models of characters.",
        paper="bert-base-cased",
    )  # fmt: skip
    text: Literal["target", "source", "both"] = option(
        "target", "With --encoder strings: whose raw text is read; training sentences where there is none."
    )
    hidden_size: int = option(256, "With --encoder strings: units of each of the two models.", minimum=1)
    start_from: str = option("base", "Weights to start from: base, a stage of this run, or a path.")
    corpus_level: Literal["domain", "entity", "task", "integrated"] = option("domain", "Which prepared corpus.")
    corpus_share: float = option(
        1.0, "Share of its lines to train on; a smaller share is part of a larger one.", minimum=0.0001, maximum=1.0
    )
    masking: Literal["token", "span", "entity"] = option(
        "span", "Mask single subwords, move them together into spans, or mask listed names whole."
    )
    mask_rate: float = option(
        0.15, "Share of subwords chosen; 0.2 in the paper's code.", minimum=0.01, maximum=0.9, paper=0.15
    )
    epochs: int = option(5, "Passes over the corpus.", minimum=1, paper=15)
    max_steps: int | None = option(None, "Stop after this many updates.", minimum=1)
    block_size: int = option(
        128, "Subwords of a block, special ones included; with --encoder strings characters that gradients go back.",
        minimum=8, paper=512,
    )  # fmt: skip
    batch_size: int = option(
        32, "Blocks of an update, over all processes; with --encoder strings places that the text is read from.",
        minimum=1, paper=8,
    )  # fmt: skip
    accumulate: int = option(
        1, "Parts a batch is cut into to save memory; the gradient is the same, the dropped values are not.", minimum=1
    )
    learning_rate: float | None = option(
        None, f"Peak learning rate; default: {ENCODER_RATE}, with --encoder strings {STRINGS_RATE}.", minimum=0.0,
        paper=5e-5, panel=OPTIMISATION,
    )  # fmt: skip
    weight_decay: float = option(0.01, "Weight decay.", minimum=0.0, paper=0.0, panel=OPTIMISATION)
    warmup: float = option(0.06, "Share of the updates that warm up.", minimum=0.0, maximum=1.0, paper=0.0,
                           panel=OPTIMISATION)  # fmt: skip
    clip_norm: float = option(1.0, "Largest gradient norm; 0 is no clipping.", minimum=0.0, paper=1.0,
                              panel=OPTIMISATION)  # fmt: skip
    head_warmup: float = option(
        0.1, "Share of the updates in which only a newly made masked-LM head learns.",
        minimum=0.0, maximum=1.0, paper=0.0, panel=OPTIMISATION,
    )  # fmt: skip
    attention_dropout: bool = option(
        False, "Drop attention weights on CPUs, too, which is slower.", "--attention-dropout", paper=True,
        panel=OPTIMISATION,
    )  # fmt: skip
    held_out: float = option(0.02, "Share of lines kept out to measure perplexity.", minimum=0.0, maximum=0.5)
    checkpoint_every: int = option(500, "Updates between checkpoints.", minimum=1, counts=False)
    paper: bool = option(False, "Take the published settings where no flag is given.", "--paper", counts=False)


@dataclass(frozen=True, kw_only=True)
class Optimisation(Compute):
    """How a tagger is trained.

    Attributes:
        of_source: Whether what is trained is the source's tagger, for which some papers have settings of their own.
    """

    of_source: ClassVar[bool] = False

    method: str = option("linear", "Tagging method: one of those that crossner methods lists.")
    encoder: str = option("minilm", "Encoder: a Hugging Face name, a folder, or minilm.", paper="bert-base-cased")
    start_from: str = option("base", "Weights to start from: base, a stage of this run, or a path.")
    embeddings: str | None = option(
        None, "Static word vectors of methods that read words: a file (GloVe, word2vec, fastText), or corpus to train"
        " them on the run's raw text.",
    )  # fmt: skip
    ngram_embeddings: str | None = option(
        None, "Vectors of character n-grams for --set characters=ngrams: a file keyed as CharNGram is.",
    )  # fmt: skip
    string_embeddings: str | None = option(
        None, "Language models of characters for --set strings=frozen: a stage of this run (dapt --encoder strings), or"
        " a folder, as of Flair's.",
    )  # fmt: skip
    raw_batch_size: int = option(32, "Sentences of raw text an update, for methods that read it.", minimum=1)
    raw_minimum: int = option(5, "Occurrences in raw text that make a word one that language models know.", minimum=1)
    dictionary: list[Path] = option(
        [], "Names that label words of the target's raw text, a line each: name<TAB>type; repeat the flag."
    )
    dictionary_phrases: bool = option(False, "Names of several words label raw text too.")
    settings: list[str] = option([], "A hyperparameter of the method, as key=value; repeat the flag.", "--set")
    seeds: str | None = option(None, "Train once with each of these seeds, as 1,2,3, and show mean and deviation.")
    epochs: int = option(15, "Passes over the training sentences.", minimum=1, paper=300, panel=OPTIMISATION)
    max_steps: int | None = option(None, "Stop after this many updates.", minimum=1, panel=OPTIMISATION)
    patience: int | None = option(
        None, "Stop after this many epochs without a gain on dev; default: never, so that the rate falls to its end.",
        minimum=1, paper=8, panel=OPTIMISATION,
    )  # fmt: skip
    batch_size: int = option(8, "Sentences of an update, over all processes.", minimum=1, paper=16, panel=OPTIMISATION)
    accumulate: int = option(
        1,
        "Parts a batch is cut into to save memory; the gradient is the same, the dropped values are not.",
        minimum=1,
        panel=OPTIMISATION,
    )
    learning_rate: float | None = option(
        None, "Peak learning rate of the encoder; default: by its width, 2.8e-4 at 384, 5e-5 at 768.", minimum=0.0,
        paper=5e-5, panel=OPTIMISATION,
    )  # fmt: skip
    head_learning_rate: float | None = option(
        None, "Peak learning rate of all other layers; default: 1e-3 above a transformer that is trained, else 5e-3.",
        minimum=0.0, paper=5e-5, panel=OPTIMISATION,
    )  # fmt: skip
    schedule: Literal["linear", "constant"] = option(
        "linear", "Learning rate after the warm-up.", paper="constant", panel=OPTIMISATION
    )
    warmup: float = option(
        0.1, "Share of the updates that warm up.", minimum=0.0, maximum=1.0, paper=0.0, panel=OPTIMISATION
    )
    weight_decay: float = option(0.01, "Weight decay.", minimum=0.0, paper=0.0, panel=OPTIMISATION)
    clip_norm: float = option(
        1.0, "Largest gradient norm; 0 is no clipping.", minimum=0.0, paper=0.0, panel=OPTIMISATION
    )
    train_embeddings: bool = option(False, "Train the encoder's word embeddings too.", paper=True, panel=OPTIMISATION)
    attention_dropout: bool = option(
        False, "Drop attention weights on CPUs, too, which is slower.", "--attention-dropout", paper=True,
        panel=OPTIMISATION,
    )  # fmt: skip
    select_on: Literal["target", "source"] = option("target", "Whose dev sentences choose the best epoch.")
    keep: Literal["best", "last"] = option("best", "Keep the best epoch on dev, or the last one.")
    checkpoint_every: int = option(200, "Updates between checkpoints.", minimum=1, counts=False, panel=OPTIMISATION)
    paper: bool = option(False, "Take the published settings where no flag is given.", "--paper", counts=False)


@dataclass(frozen=True, kw_only=True)
class PretrainSource(Optimisation):
    """Train a tagger on the labelled sentences of the source domain."""

    of_source: ClassVar[bool] = True

    epochs: int = option(2, "Passes over the training sentences.", minimum=1, paper=2, panel=OPTIMISATION)
    batch_size: int = option(32, "Sentences of an update, over all processes.", minimum=1, paper=16, panel=OPTIMISATION)
    select_on: Literal["target", "source"] = option("source", "Whose dev sentences choose the best epoch.")
    keep: Literal["best", "last"] = option("best", "Keep the best epoch on dev, or the last one.", paper="last")


@dataclass(frozen=True, kw_only=True)
class Finetune(Optimisation):
    """Adapt a tagger to the labelled sentences of the target domain."""


@dataclass(frozen=True, kw_only=True)
class JointTrain(Optimisation):
    """Train a tagger on the labelled sentences of both domains at once."""

    epochs: int = option(2, "Passes over the training sentences.", minimum=1, paper=300, panel=OPTIMISATION)
    batch_size: int = option(32, "Sentences of an update, over all processes.", minimum=1, paper=16, panel=OPTIMISATION)
    upsample: int = option(50, "Times each target sentence counts in a pass.", minimum=1, paper=50)


@dataclass(frozen=True, kw_only=True)
class Evaluate(Compute):
    """Score taggers on the target's dev or test sentences, or a file of predictions against a gold file."""

    model: list[str] = option(
        [],
        "Stage or tagger folder to score; repeat the flag to compare. Default: the end of the "
        "run's one chain of taggers.",
    )
    split: Literal["dev", "test"] = option("test", "Which target sentences.")
    mode: Literal["conll", "strict"] = option(
        "conll", "conll: an I- that continues nothing opens an entity; strict: it is dropped."
    )
    decoding: Decoding = option("trained", DECODING_HELP)
    fine_grained: bool = option(
        False, "Also sort every error and score parts of the sentences: tables, CSV, Markdown and a page errors.html.",
        "--fine-grained",
    )  # fmt: skip
    type_parents: str | None = option(
        None, "With --fine-grained: entity types that specialise others, as politician=person,band=organisation; added"
        " to those known of CrossNER; child=none takes one out.",
    )  # fmt: skip
    against: list[Path] = option(
        [],
        "Compare with the models of a run, or of an evaluate stage's folder: difference, interval, p; repeat the flag.",
    )
    gold: Path | None = option(None, "Score two files: the gold tags.")
    predictions: Path | None = option(None, "Score two files: the predicted tags.")
    batch_subwords: int | None = option(None, SUBWORDS_HELP, minimum=64, counts=False)


@dataclass(frozen=True, kw_only=True)
class Predict(Compute):
    """Tag new text: plain text, CoNLL, JSONL or Parquet in, also brat, spaCy or HTML out, in the order of the input."""

    json: bool = option(
        False, "One machine-readable result, on stdout with --output, else on stderr beside the tagged text.", "--json",
        panel=EVERY_COMMAND, counts=False,
    )  # fmt: skip
    input: list[Path] = option([], "Files to tag, or - for stdin.", argument=True)
    model: str | None = option(None, "Stage or tagger folder; default: the end of the run's one chain of taggers.")
    output: Path | None = option(None, "Where to write, a folder for brat; default, and -: stdout.")
    decoding: Decoding = option("trained", DECODING_HELP)
    format: Literal["auto", "jsonl", "conll", "brat", "spacy", "html", "parquet"] = option(
        "auto", "Output format; auto goes by the ending of --output, and is jsonl without."
    )
    input_format: Literal["auto", "text", "conll", "jsonl", "parquet"] = option(
        "auto", "Input format; auto goes by file ending."
    )
    skip_bad_lines: bool = option(False, "Leave out lines that cannot be read, and count them.", "--skip-bad-lines")
    min_score: float | None = option(
        None, "Write only documents that hold an entity, and none of a lower score, as self-training wants them.",
        minimum=0, maximum=1,
    )  # fmt: skip
    workers: int = option(
        1, "Processes on the CPU, each with its share of the threads.", minimum=1, panel=DEVICE, counts=False
    )
    batch_subwords: int | None = option(None, SUBWORDS_HELP, minimum=64, counts=False)


@dataclass(frozen=True, kw_only=True)
class Inspect(Compute):
    """Look inside a tagger: the weights it computes for a sentence, and the states of words on a plane."""

    model: str | None = option(None, "Stage or tagger folder; default: the end of the run's one chain of taggers.")
    sentence: list[str] = option([], "Text whose weights to show; repeat the flag.")
    states: Literal["none", "hidden", "cells"] = option(
        "none", "Draw the states of the words inside entities by t-SNE; cells: those of multi-cell-lstm's types."
    )
    points: int = option(1000, "With --states: most words to draw, of all domains together.", minimum=5)
    split: Literal["train", "dev", "test"] = option("dev", "With --states: which sentences of the run's domains.")
    output: Path | None = option(None, "Folder to make, for figures and numbers; default: a table only.")
    format: Literal["svg", "png"] = option("svg", "Format of the figures.")


@dataclass(frozen=True, kw_only=True)
class Export(Compute):
    """Write a linear tagger as ONNX, and measure F1 and speed of tagger and graphs side by side."""

    device: str = option("cpu", "cpu: where graphs are written and measured.", panel=DEVICE, counts=False)
    model: str | None = option(None, "Stage or tagger folder; default: the end of the run's one chain of taggers.")
    quantise: Literal["int8", "none"] = option("int8", "Write the weights in int8 too, beside fp32.")
    split: Literal["dev", "test", "none"] = option("dev", "Which target sentences of the run to measure on.")
    rounds: int = option(3, "Times the sentences are tagged; the median speed counts.", minimum=1)
    output: Path | None = option(None, "Folder to make; default: export in the run directory.")


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Put many runs into one table or curve and compare their models; makes no stage."""

    runs: list[Path] = option(
        [], "Run directories, folders of them, or evaluate stages; default: the run directory.", argument=True
    )
    split: Literal["dev", "test"] = option("test", "Scores of which sentences.")
    baseline: str | None = option(
        None, "Model that others on its target are compared with, as [RUN/][STAGE/]NAME; default: of two, the first."
    )
    published: bool = option(False, "Show what papers print of such methods on these targets.", "--published")
    x: str | None = option(
        None, "Show F1 against train-sentences, corpus-share, label-size, epoch (dev F1), or any option or setting."
    )
    output: Path | None = option(None, "Folder to write report.json, .csv, .md and the figures to, PNG and SVG.")
