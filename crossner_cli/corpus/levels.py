"""The four corpus levels for domain-adaptive pre-training, from raw text and lists of names.

Paper: Liu et al. (2021), CrossNER. Domain level: every sentence. Entity level: sentences with several listed names.
Task level: sentences with a name of a type special to the target domain. Integrated: entity level, task level twice.
Differs: the paper leaves the matching open. Here a name is matched over whole words, longest first, in its own case
unless case is ignored, and "several" counts distinct names. As the published sizes imply, the integrated level keeps
its repetitions.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from crossner_cli.corpus.execution import select_parts
from crossner_cli.corpus.mentions import COLUMNS, MENTION
from crossner_cli.corpus.parts import WEAK, Job, UnfinishedError
from crossner_cli.corpus.raw_files import find_corpus_files
from crossner_cli.corpus.selection import Level, LevelCounts, Selection
from crossner_cli.corpus.sentences import cut_into_parts
from crossner_cli.data.names import Names, read_names
from crossner_cli.data.text import PLAIN_WORD
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, Work

LEVELS: tuple[Level, ...] = ("domain", "entity", "task", "integrated")
WORK, TEXTS, PARTS = ".selection", "texts", "parts"


def write_levels(
    corpus: Sequence[Path], entities: Sequence[Path], folder: Path, selection: Selection
) -> Work[dict[str, Any]]:
    """Select the sentences of each level and write them to ``folder/LEVEL.txt``, one per line.

    With names, ``folder/LEVEL.mentions`` has their places: for each mention three little-endian unsigned numbers of
    four bytes, its line from 0, its first character in the line and the character after its last.

    Memory does not grow with the corpus, and the files do not depend on where it runs. What an interrupted call has
    done stays in ``folder/.selection``, and the same call continues from there; after any other failure nothing is
    left.

    Args:
        corpus: Files of text, or folders of them.
        entities: Lists of names; without them only the domain level can be made.
        folder: Where to write.
        selection: How to select.

    Returns:
        What was read, what was dropped, and the documents, sentences, words and mentions by type of each level.

    Raises:
        CrossNERError: A file cannot be read or is not text, a level cannot be made from what was given, or is empty.
    """
    names, levels = check_selection(entities, selection)
    if names is not None:
        yield from map(Notice, _describe_left_out(names, levels, selection))
    found_files = find_corpus_files(corpus)
    yield from map(Notice, found_files.notes())
    files, lists = found_files.files, tuple(entities)
    if selection.execution.executor != "local":  # processes on other machines have other working folders
        folder, files = folder.absolute(), [path.absolute() for path in files]
        lists = tuple(path.absolute() for path in lists)
    parts = cut_into_parts(files)
    selected = [name for name in LEVELS[:3] if name in levels or ("integrated" in levels and name != "domain")]
    with open_work_folder(folder) as work:
        job = Job(work / PARTS, selection, tuple(selected), parts, lists)
        job.folder.mkdir(parents=True, exist_ok=True)
        yield from select_parts(job, names)
        counts, found = _sum_counts(job)
        _refuse_empty_levels(counts, found, job, names, len(files))
        yield Progress("write the levels", 0, len(levels), "levels")
        _write_levels_of_parts(job, folder, levels, has_names=names is not None)
        yield Progress("write the levels", len(levels), len(levels), "levels")
        if selection.weak_labels:
            with _open_drafts(job, selection.weak_labels) as drafts:
                _append(drafts / "train.jsonl", _list_files(job, f"{WEAK}.txt"))
    if "integrated" in levels:
        found["integrated"] = found["entity"].plus(found["task"], times=selection.task_upsample)
    return {
        **_order_counts(counts, names),
        "names": {**names.counts, "types": names.count_types()} if names else None,
        "levels": {level: found[level].to_json() for level in levels},
        **({"weak_labels": _describe_weak_labels(job, counts, found)} if selection.weak_labels else {}),
    }


def check_selection(entities: Sequence[Path], selection: Selection) -> tuple[Names | None, list[Level]]:
    """Read the lists of names, and find the levels to write.

    Raises:
        CrossNERError: A list is malformed, has none of the specialised types, or a level needs one; or the executor is
            missing.
    """
    selection.execution.check()
    if selection.weak_labels and not entities:
        raise CrossNERError("--weak-labels needs an entity list, and none was given.", hint="Add --entities LIST.")
    names = read_names(entities, cut=PLAIN_WORD.findall) if entities else None
    level, specialised = selection.level, selection.specialised_types
    if names is None:
        if level not in (None, "domain"):
            raise CrossNERError(
                f"The corpus level {level!r} needs an entity list, and none was given.",
                hint="Add --entities LIST, a file with lines name<TAB>type; or ask for --corpus-level domain.",
            )
        return names, ["domain"]
    if level in ("task", "integrated") and not specialised:
        raise CrossNERError(
            f"The corpus level {level!r} needs specialised types, and none are known.",
            hint=f"Add --specialised-types a,b. Types in the list: {names.list_types()}.",
        )
    levels: list[Level] = [level] if level else list(LEVELS if specialised else LEVELS[:2])
    needs_types = not {"task", "integrated"}.isdisjoint(levels)
    if needs_types and specialised and specialised.isdisjoint(names.count_types()):
        raise CrossNERError(
            f"The entity lists have no name of the specialised types {', '.join(sorted(specialised))}.",
            hint="Choose other --specialised-types, or leave these levels out: --corpus-level entity."
            f" Types in the list: {names.list_types()}.",
        )
    return names, levels


def _describe_left_out(names: Names, levels: list[Level], selection: Selection) -> Iterator[str]:
    if selection.level is None and len(levels) < len(LEVELS):
        yield "No specialised types are known, so the task and integrated levels were left out."
    absent = sorted((selection.specialised_types or frozenset()) - set(names.count_types()))
    if absent and not {"task", "integrated"}.isdisjoint(levels):
        yield f"The entity lists have no name of the specialised types {', '.join(absent)}."


@contextmanager
def open_work_folder(folder: Path) -> Iterator[Path]:
    """Use ``folder/.selection``: it stays if the same call can continue from its content, and is removed otherwise."""
    work = folder / WORK
    try:
        yield work
    except (UnfinishedError, OSError, MemoryError, KeyboardInterrupt, GeneratorExit):
        if not any(work.glob(f"{PARTS}/[0-9]*/")) and not any(work.glob(f"{TEXTS}/*.json")):
            _remove(work)
        raise
    except BaseException:
        _remove(work)
        raise
    _remove(work)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # if it is empty


def _sum_counts(job: Job) -> tuple[Counter[str], dict[str, LevelCounts]]:
    """Sum what was counted in the parts: sentences read and dropped, and the counts of each level."""
    totals = Counter[str]()
    levels = {level: LevelCounts() for level in job.outputs}
    for number in range(len(job.parts)):
        counts, found = job.read_counts(number)
        totals.update(counts)
        levels = {level: total.plus(found[level]) for level, total in levels.items()}
    del totals["characters"]
    return totals, levels


def _refuse_empty_levels(
    counts: Counter[str], found: dict[str, LevelCounts], job: Job, names: Names | None, files: int
) -> None:
    empty = next((level for level in job.levels if not found[level].sentences), None)
    if empty is None:
        return
    chosen = job.selection
    read = f"{counts['sentences']} sentences in {files} files, {counts['dropped_leaks']} of them dropped as leaks"
    if names is None or empty == "domain":
        hint = f"Give {chosen.flag} files that hold text; sentences of dev and test are left out."
        raise CrossNERError(f"{chosen.flag}: the corpus level {empty!r} is empty: {read}.", hint=hint)
    read += f", {counts['sentences_without_names']} without any of the {names.counts['names']} listed names"
    if empty == "entity":
        hint = f"Lower --min-entities (now {chosen.min_entities}), or give an --entities list of this domain."
    else:
        hint = f"Choose other --specialised-types (now {','.join(sorted(chosen.specialised_types or ()))})."
    raise CrossNERError(
        f"The corpus level {empty!r} is empty: {read}.", hint=f"{hint} Types in the list: {names.list_types()}."
    )


def _order_counts(counts: Counter[str], names: Names | None) -> dict[str, int]:
    """Return what was read and dropped, in one order wherever it ran."""
    always = ["documents", "blank_lines", "sentences", "dropped_leaks", *(["sentences_without_names"] if names else [])]
    others = sorted(key for key in counts if key not in always and not key.startswith((WEAK, "sentences_without")))
    return {key: counts[key] for key in (*always, *others)}


def _describe_weak_labels(job: Job, counts: Counter[str], found: dict[str, LevelCounts]) -> dict[str, Any]:
    return {
        "levels": [level for level in job.levels if level in job.weak_levels],
        "sentences": found[WEAK].sentences,
        "mentions": counts["weak_mentions"],
        "dropped_mentions_within_words": counts["weak_mentions_within_words"],
        "mentions_of_several_types": counts["weak_mentions_of_several_types"],
    }


def _write_levels_of_parts(job: Job, folder: Path, levels: Sequence[Level], *, has_names: bool) -> None:
    """Write ``LEVEL.txt`` and, with names, ``LEVEL.mentions``; all of them appear when the last is whole."""
    with _open_drafts(job, folder) as drafts:
        for level in levels:
            pieces = ["entity", *["task"] * job.selection.task_upsample] if level == "integrated" else [level]
            _append(drafts / f"{level}.txt", (path for piece in pieces for path in _list_files(job, f"{piece}.txt")))
            if has_names:
                _append_mentions(drafts / f"{level}.mentions", job, pieces)


@contextmanager
def _open_drafts(job: Job, folder: Path) -> Iterator[Path]:
    """Make a folder whose files are moved to ``folder`` when all of them are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=job.folder) as drafts:
        yield Path(drafts)
        for path in Path(drafts).iterdir():
            path.replace(folder / path.name)


def _list_files(job: Job, name: str) -> list[Path]:
    return [job.part_folder(number) / name for number in range(len(job.parts))]


def _append(path: Path, parts: Iterable[Path]) -> None:
    with path.open("wb") as stream:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, stream, 1 << 20)


def _append_mentions(path: Path, job: Job, pieces: Sequence[str]) -> None:
    """Write the mentions of levels one after the other, their lines counted through."""
    before = 0
    with path.open("wb") as stream:
        for level in pieces:
            for number, part in enumerate(_list_files(job, f"{level}.mentions")):
                rows = np.fromfile(part, MENTION).reshape(-1, COLUMNS)
                rows[:, 0] += before
                stream.write(rows.tobytes())
                before += job.read_counts(number)[1][level].sentences
