"""The options of ``crossner prepare-data``. This module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from crossner_cli.option_fields import Command, option

labelled_option = partial(option, panel="Labelled data")
raw_text_option = partial(option, panel="Raw text", needs=("corpus", "source_corpus"))
level_option = partial(option, panel="Names and corpus levels", needs="entities")
cluster_option = partial(option, panel="Processes and clusters", counts=False, needs=("corpus", "source_corpus"))


@dataclass(frozen=True, kw_only=True)
class PrepareData(Command):
    """Read the labelled data and the raw text of a run; check, count and store them."""

    command = "prepare-data"
    replaces: ClassVar[bool] = True
    takes_name: ClassVar[bool] = False  # the other commands look for it under one name

    source: list[str] = option(
        [],
        "Labelled source domain: a known name, a file, a folder, or hf://datasets/OWNER/NAME. Repeatable; NAME=3 counts"
        " its training sentences three times.",
    )
    target: list[str] = option([], "Labelled target domain, likewise. Repeatable: several files are read as one.")
    silver: str | None = option(
        None, "Sentences of the target that a teacher labelled, as crossner label writes them.", needs="target"
    )
    list_known: bool = option(False, "Print the known data sets and stop.", "--list", counts=False)
    corpus: list[Path] = option(
        [], "Raw text of the target: files or folders of text, JSONL or Parquet, or a MediaWiki dump. Repeatable."
    )
    entities: list[Path] = option(
        [],
        "Names and their types, which select sentences of the corpus: a file with lines name<TAB>type, DBpedia files"
        " (.ttl, .nt), a bundled sample, or train (the target's training sentences). Repeatable.",
        needs="corpus",
    )
    corpus_level: Literal["domain", "entity", "task", "integrated"] | None = option(
        None, "Corpus level to write; default: domain, and with --entities all four.", needs="corpus"
    )
    train_limit: str | None = option(
        None,
        "Target training sentences to keep: 100 keeps the first, 100:7 a random sample of seed 7.",
        needs="target",
    )
    dev_from_train: float | None = option(
        None, "Share of train to use as dev in a domain without dev.", minimum=0.0, maximum=0.9
    )
    map_types: str | None = labelled_option(
        None,
        "Source types to rename as in the target, as person=PER,place=LOC; place=O drops a type, NAME:person=PER"
        " renames that of one data set. auto renames those that are named alike, as PER and person.",
        needs=("source", "silver"),
    )
    scheme: Literal["bio", "bioes"] = labelled_option("bio", "Tag scheme of the run.")
    labels_format: str | None = labelled_option(
        None, "Format of the labelled files, as label-studio or conll; default: found from what they hold."
    )
    columns: str | None = labelled_option(
        None, "Columns of word and tag in files of columns, from 1, as word=2,tag=4; default: found."
    )
    skip_bad_lines: bool = labelled_option(False, "Leave out and count lines that cannot be read.")
    text_column: str = raw_text_option("text", "Column or key that holds the text in JSONL and Parquet.")
    wikipedia_category: list[str] = raw_text_option(
        [], "Category of a MediaWiki dump whose articles are read, with its subcategories. Repeatable.", needs="corpus"
    )
    category_depth: int = raw_text_option(
        3, "Levels of subcategories to include.", minimum=0, needs="wikipedia_category"
    )
    source_corpus: list[Path] = raw_text_option(
        [], "Raw text of the source domain, for methods that model the language of both. Repeatable.", needs="source"
    )
    sentences_per_line: bool = raw_text_option(False, "Take each line of the corpus as one sentence.")
    specialised_types: str | None = level_option(
        None, "Types that make a sentence task-level, as a,b; default: the target's types that the source lacks."
    )
    min_entities: int = level_option(2, "Distinct names that make a sentence entity-level.", minimum=1)
    task_upsample: int = level_option(2, "Copies of the task level in the integrated level.", minimum=1)
    weak_labels: bool = level_option(
        False, "Also write the selected sentences with the names in them as labels: the data set weak-labels/."
    )
    executor: Literal["local", "slurm", "ray"] = cluster_option(
        "local",
        "Where sentences are selected: on this machine, or on a cluster with a shared disk (the pip extra cluster).",
    )
    workers: int | None = cluster_option(
        None, "Processes that select sentences; default: all cores, on Slurm one per part.", minimum=1
    )
