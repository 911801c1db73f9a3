"""Which options of ``prepare-data`` contradict each other, and which are given and change nothing."""

from __future__ import annotations

from crossner_cli.corpus.raw_files import corpus_files, raw_format
from crossner_cli.corpus.triples import is_triples
from crossner_cli.errors import CrossNERError
from crossner_cli.options import PrepareData

OF_RAW_TEXT = (
    "text_column", "sentences_per_line", "drop_duplicates", "drop_boilerplate", "executor", "workers",
)  # fmt: skip
OF_NAMES = ("language", "specialised_types", "min_entities", "task_upsample", "names_case")
OF_SLURM = ("slurm_partition", "slurm_time", "slurm_arguments")


def check_options(options: PrepareData) -> None:
    """Refuse options that contradict each other.

    Raises:
        CrossNERError: They do.
    """
    if not options.source and not options.target:
        raise CrossNERError(
            "prepare-data needs a source or a target domain.",
            hint="crossner prepare-data --source conll2003 --target politics (--list shows the known names)",
        )
    if options.train_limit and not options.target:
        raise CrossNERError("--train-limit limits the target, and there is none.", hint="Add --target DATASET.")
    if options.train_limit_seed is not None and not options.train_limit:
        raise CrossNERError("--train-limit-seed draws a sample of no size.", hint="Add --train-limit N.")
    if options.corpus_level is not None and not options.corpus:
        raise CrossNERError("--corpus-level selects from a corpus, and there is none.", hint="Add --corpus PATH.")
    if options.weak_labels and not options.entities:
        raise CrossNERError("--weak-labels needs names to label with.", hint="Add --entities LIST.")
    if options.entities and not options.corpus:
        raise CrossNERError("--entities select sentences of a corpus, and there is none.", hint="Add --corpus PATH.")
    if options.wikipedia_category and not options.corpus:
        raise CrossNERError("--wikipedia-category is read from a dump, and there is none.", hint="Add --corpus DUMP.")
    if options.source_corpus and not options.source:
        raise CrossNERError("--source-corpus is text of a source, and there is none.", hint="Add --source DATASET.")
    if options.map_types and not options.source:
        raise CrossNERError("--map-types renames types of the source, and there is none.", hint="Add --source DATASET.")


def unread_options(options: PrepareData) -> list[str]:
    """Options that were given and change nothing, a line each, with the reason; paths are those that are read."""
    has_raw_text = bool(options.corpus or options.source_corpus)
    unread = {name: "there is no raw text (--corpus, --source-corpus)" for name in OF_RAW_TEXT if not has_raw_text}
    if has_raw_text and options.given("text_column"):  # else no folder need be looked through
        texts = corpus_files([*options.corpus, *options.source_corpus]).files
        if not any(raw_format(path) in ("jsonl", "parquet") for path in texts):
            unread["text_column"] = "no file of raw text is JSONL or Parquet"
    if not options.entities:
        unread |= dict.fromkeys(OF_NAMES, "there are no names (--entities)")
    elif not any(map(is_triples, options.entities)):
        unread["language"] = "no list of names is RDF"
    unread = {**_unread_at_level(options.corpus_level), **unread}
    if not options.wikipedia_category:
        unread["category_depth"] = "no category is asked for (--wikipedia-category)"
    if options.executor != "slurm":
        unread |= dict.fromkeys(OF_SLURM, "nothing runs on Slurm (--executor slurm)")
    return options.unread(unread)


def _unread_at_level(level: str | None) -> dict[str, str]:
    """What selects sentences of other levels of the corpus than the one asked for."""
    readers = {
        "min_entities": ("entity", "integrated"), "specialised_types": ("task", "integrated"),
        "task_upsample": ("integrated",),
    }  # fmt: skip
    return {
        name: f"--corpus-level {level} does not use it" for name, levels in readers.items()
        if level is not None and level not in levels
    }  # fmt: skip
