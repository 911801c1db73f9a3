"""The raw text of a run: dumps and lists are made readable, then the corpus levels are selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crossner_cli.corpus.executors import Execution
from crossner_cli.corpus.inputs import choose_types, extract_dumps, make_lists
from crossner_cli.corpus.levels import TEXTS, Selection, check_selection, work_folder, write_levels
from crossner_cli.corpus.mediawiki_dump import is_dump
from crossner_cli.data.domains import LabelledDomain
from crossner_cli.options import PrepareData
from crossner_cli.run.progress import Work

Labelled = Mapping[str, LabelledDomain]


def write_corpus(
    folder: Path, options: PrepareData, labelled: Labelled, corpus: Sequence[Path], entities: Sequence[Path],
    flag: str = "--corpus",
) -> Work[dict[str, Any]]:  # fmt: skip
    """Write the corpus levels, without the sentences that taggers of either domain are selected and scored on.

    An interrupted call leaves in ``folder/.selection`` what it has done, the text of a dump and the parts selected;
    the same call goes on from there.

    Args:
        folder: Where to write; weak labels go beside it.
        options: The options of ``prepare-data``.
        labelled: The labelled domains by role; the sentences of their dev and test are left out.
        corpus: Files, folders and dumps.
        entities: Lists of names, RDF, or ``train``.
        flag: The option that names the corpus.

    Returns:
        What was read, dropped and selected.

    Raises:
        CrossNERError: What ``make_lists``, ``extract_dumps`` and ``write_levels`` refuse.
    """
    with work_folder(folder) as work, TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as made:
        train = labelled["target"].splits.get("train") if "target" in labelled else None
        lists = yield from make_lists(entities, Path(made), language=options.language, train=train)
        types = yield from choose_types(
            specialised_types(options, labelled), lists, are_asked=options.specialised_types is not None
        )
        selection = _selection(folder, options, labelled, types, flag)
        # What is wrong is told before hours of reading a dump, not after.
        if any(map(is_dump, corpus)):
            check_selection(lists.paths, selection)
        texts, wikipedia = yield from extract_dumps(
            corpus, work / TEXTS, categories=options.wikipedia_category, depth=options.category_depth
        )
        found: dict[str, Any] = yield from write_levels(texts, lists.paths, folder, selection)
    read = {"wikipedia": wikipedia, "lists": lists.record}
    return found | {name: record for name, record in read.items() if record}


def _selection(folder: Path, options: PrepareData, labelled: Labelled, types: set[str] | None, flag: str) -> Selection:
    held_out = [domain.splits.get(split, []) for domain in labelled.values() for split in ("dev", "test")]
    return Selection(
        level=options.corpus_level,
        specialised_types=None if types is None else frozenset(types),
        min_entities=options.min_entities,
        task_upsample=options.task_upsample,
        excluded=frozenset(tuple(word.lower() for word in each.words) for split in held_out for each in split),
        names_case=options.names_case,
        one_a_line=options.sentences_per_line,
        column=options.text_column,
        duplicates=options.drop_duplicates,
        drop_boilerplate=options.drop_boilerplate,
        weak_labels=folder.with_name("weak-labels") if options.weak_labels else None,
        execution=Execution(
            executor=options.executor, workers=options.workers, slurm_partition=options.slurm_partition,
            slurm_time=options.slurm_time, slurm_arguments=tuple(options.slurm_arguments),
        ),
        flag=flag,
    )  # fmt: skip


def specialised_types(options: PrepareData, labelled: Labelled) -> set[str] | None:
    """The types given, else the target's types that the source lacks; None without a target."""
    if options.specialised_types is not None:
        return {name for part in options.specialised_types.split(",") if (name := part.strip())}
    if "target" not in labelled:
        return None
    return set(labelled["target"].types) - set(labelled["source"].types if "source" in labelled else ())
