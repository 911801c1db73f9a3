"""The four corpus levels for domain-adaptive pre-training, from raw text and lists of names.

Paper: Liu et al. (2021), CrossNER. Domain level: every sentence. Entity level: sentences with several listed names.
Task level: sentences with a name of a type special to the target domain. Integrated: entity level, task level twice.
Differs: the paper leaves the matching open. Here a name is matched over whole words, longest first, in its own case
unless case is ignored, and "several" counts distinct names. As the published sizes imply, the integrated level keeps
its repetitions.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from crossner_cli.corpus.blocks import cut_into_parts
from crossner_cli.corpus.execution import Execution, UnfinishedError, run_pass
from crossner_cli.corpus.filters import find_duplicates
from crossner_cli.corpus.job import FINGERPRINTS, WEAK, Duplicates, Job, PartResult, Request
from crossner_cli.corpus.mentions import COLUMNS, MENTION
from crossner_cli.corpus.raw_files import find_corpus_files
from crossner_cli.corpus.selection import LevelCounts
from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.names import Case, NameIndex, read_name_index
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.run.storage import save_array

Level = Literal["domain", "entity", "task", "integrated"]
LEVELS: tuple[Level, ...] = ("domain", "entity", "task", "integrated")
WORK, TEXTS = ".selection", "texts"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The choices that define the levels.

    Args:
        level: The one level to write; None writes all that can be made.
        specialised_types: Types whose names make a task-level sentence; None if none are known.
        min_entities: Distinct names that make an entity-level sentence.
        task_upsample: Times the task level counts in the integrated level.
        excluded: Words of sentences that may be in no level: those the target is scored on. Compared without regard
            to case and to where words begin and end.
        names_case: How names are matched, as in ``read_name_index``.
        one_a_line: A line of the corpus is a sentence; else its sentences are found.
        column: The field of records that holds the text.
        duplicates: Which repeated sentences to leave out: none, exact ones, or nearly repeated ones too.
        drop_boilerplate: Leave out what is no prose.
        weak_labels: Folder of the data set of selected sentences labelled by their names; None: none.
        execution: Where it runs.
        flag: The option that names the corpus.
    """

    level: Level | None = None
    specialised_types: frozenset[str] | None = None
    min_entities: int = 2
    task_upsample: int = 2
    excluded: frozenset[tuple[str, ...]] = frozenset()
    names_case: Case = "exact"
    one_a_line: bool = False
    column: str = "text"
    duplicates: Duplicates = "no"
    drop_boilerplate: bool = False
    weak_labels: Path | None = None
    execution: Execution = field(default_factory=Execution)
    flag: str = "--corpus"


def write_levels(
    corpus: Sequence[Path], entities: Sequence[Path], folder: Path, selection: Selection
) -> Work[dict[str, Any]]:
    """Select the sentences of each level and write them to ``folder/LEVEL.txt``, a sentence a line.

    With names, ``folder/LEVEL.mentions`` tells where they are: for each mention three little-endian unsigned numbers
    of four bytes, its line from 0, its first character in the line and the character behind its last.

    Memory does not grow with the corpus but for a byte or two a sentence if duplicates are dropped, and the files do
    not depend on where it runs. What an interrupted call has done stays in ``folder/.selection``, and the same call
    goes on from there; after any other failure nothing is left.

    Args:
        corpus: Files of text, or folders of them.
        entities: Lists of names; without them only the domain level can be made.
        folder: Where to write.
        selection: How to select.

    Returns:
        What was read, what was dropped, and the documents, sentences, words and mentions by type of each level.

    Raises:
        CrossNERError: A file cannot be read or is no text, a level cannot be made of what was given, or is empty.
    """
    names, levels = check_selection(entities, selection)
    if names is not None:
        yield from map(Notice, _describe_left_out(names, levels, selection))
    found_files = find_corpus_files(corpus)
    yield from map(Notice, found_files.notes())
    files = found_files.files
    if selection.execution.executor != "local":  # processes on other machines have other working folders
        folder, files = folder.absolute(), [path.absolute() for path in files]
    parts = cut_into_parts(files)
    excluded = frozenset(make_leak_key(" ".join(words)) for words in selection.excluded)
    with open_work_folder(folder) as work:
        job = Job.make(work, _make_request(selection, levels), parts, excluded, names)
        found = yield from _run_passes(job, selection.execution)
        _refuse_empty_levels(found, job, len(files), selection.flag)
        yield Progress("write the levels", 0, len(levels), "levels")
        _write_levels_of_parts(job, folder, levels, selection.task_upsample)
        yield Progress("write the levels", len(levels), len(levels), "levels")
        weak = _write_weak_labels(job, found, selection.weak_labels) if selection.weak_labels else None
    if "integrated" in levels:
        found.levels["integrated"] = found.levels["entity"].plus(found.levels["task"], times=selection.task_upsample)
    type_sets = names.type_sets if names else ()
    return {
        **_order_counts(found, names),
        "names": {**names.counts, "types": names.count_types()} if names else None,
        "levels": {level: found.levels[level].describe(type_sets) for level in levels},
        **({"weak_labels": weak} if weak else {}),
    }


def check_selection(entities: Sequence[Path], selection: Selection) -> tuple[NameIndex | None, list[Level]]:
    """Read the lists of names, and find the levels to write.

    Raises:
        CrossNERError: A list is malformed, has none of the specialised types, or a level needs one; or the executor is
            not there.
    """
    selection.execution.check()
    if selection.weak_labels and not entities:
        raise CrossNERError("--weak-labels needs an entity list, and none was given.", hint="Add --entities LIST.")
    names = read_name_index(entities, case=selection.names_case) if entities else None
    level, specialised = selection.level, selection.specialised_types
    if names is None:
        if level not in (None, "domain"):
            raise CrossNERError(
                f"The corpus level {level!r} needs an entity list, and none was given.",
                hint="Add --entities LIST, a file with a line each: name<TAB>type; or ask for --corpus-level domain.",
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


def _describe_left_out(names: NameIndex, levels: list[Level], selection: Selection) -> Iterator[str]:
    if selection.level is None and len(levels) < len(LEVELS):
        yield "No specialised types are known, so the task and integrated levels were left out."
    absent = sorted((selection.specialised_types or frozenset()) - set(names.count_types()))
    if absent and not {"task", "integrated"}.isdisjoint(levels):
        yield f"The entity lists have no name of the specialised types {', '.join(absent)}."


def _make_request(selection: Selection, levels: list[Level]) -> Request:
    selected = [name for name in LEVELS[:3] if name in levels or ("integrated" in levels and name != "domain")]
    labelled = [name for name in selected if selection.level == "domain" or name != "domain"]
    return Request(
        levels=tuple(selected),
        specialised_types=tuple(sorted(selection.specialised_types or ())),
        min_entities=selection.min_entities,
        one_a_line=selection.one_a_line,
        column=selection.column,
        duplicates=selection.duplicates,
        drop_boilerplate=selection.drop_boilerplate,
        weak_levels=tuple(labelled) if selection.weak_labels else (),
    )


@contextmanager
def open_work_folder(folder: Path) -> Iterator[Path]:
    """Use ``folder/.selection``: it stays if the same call may go on with what is in it, and is removed otherwise."""
    work = folder / WORK
    try:
        yield work
    except (UnfinishedError, OSError, MemoryError, KeyboardInterrupt, GeneratorExit):
        if not any(work.glob("*/[0-9]*/")) and not any(work.glob(f"{TEXTS}/*.json")):
            _remove(work)
        raise
    except BaseException:
        _remove(work)
        raise
    _remove(work)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.is_dir() and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


def _run_passes(job: Job, execution: Execution) -> Work[PartResult]:
    """Do all passes, and sum what was counted in the parts."""
    repeated = Counter[str]()
    if job.request.duplicates != "no":
        yield from run_pass(job, "fingerprint", execution)
        yield Progress("compare sentences", 0, 1, "corpora")
        repeated = _write_duplicates(job)
        yield Progress("compare sentences", 1, 1, "corpora")
    yield from run_pass(job, "select", execution)
    total = PartResult(repeated, {level: LevelCounts() for level in job.selector.levels})
    for number in range(len(job.parts)):
        part = job.read_result(number)
        total.counts.update(part.counts)
        for level, counts in part.levels.items():
            total.levels[level] = total.levels[level].plus(counts)
    return total


def _write_duplicates(job: Job) -> Counter[str]:
    """Write for each part which of its sentences to leave out, by the fingerprints of all; return their number."""
    near = job.request.duplicates == "near"
    files = [job.part_folder("fingerprint", number) / FINGERPRINTS for number in range(len(job.parts))]
    joined = job.folder / FINGERPRINTS
    _append(joined, files)
    is_repeated, is_near = find_duplicates(joined, near=near)
    job.duplicates_path(0).parent.mkdir(exist_ok=True)
    bytes_of_row, place = joined.stat().st_size // max(1, len(is_repeated)), 0
    for number, file in enumerate(files):
        rows = file.stat().st_size // max(1, bytes_of_row)
        save_array(job.duplicates_path(number), (is_repeated | is_near)[place : place + rows])
        place += rows
    joined.unlink()
    counts = Counter({"dropped_duplicates": int(is_repeated.sum())})
    if near:
        counts["dropped_near_duplicates"] = int(is_near.sum())
    return counts


def _refuse_empty_levels(found: PartResult, job: Job, files: int, flag: str) -> None:
    empty = next((level for level in job.request.levels if not found.levels[level].sentences), None)
    if empty is None:
        return
    counts, names = found.counts, job.names
    read = f"{counts['sentences']} sentences in {files} files, {counts['dropped_leaks']} of them dropped as leaks"
    others = sum(count for reason, count in counts.items() if reason.startswith("dropped_")) - counts["dropped_leaks"]
    read += f", {others} as duplicates or boilerplate" if others else ""
    if names is None or empty == "domain":
        hint = f"Give {flag} files that hold text."
        if counts["dropped_leaks"]:
            hint = f"Give {flag} more text: sentences of dev and test, which taggers are scored on, are left out."
        raise CrossNERError(f"{flag}: the corpus level {empty!r} is empty: {read}.", hint=hint)
    read += f", {counts['sentences_without_names']} without any of the {names.counts['names']} listed names"
    if empty == "entity":
        hint = f"Lower --min-entities (now {job.request.min_entities}), or give an --entities list of this domain."
    else:
        hint = f"Choose other --specialised-types (now {','.join(job.request.specialised_types)})."
    raise CrossNERError(
        f"The corpus level {empty!r} is empty: {read}.", hint=f"{hint} Types in the list: {names.list_types()}."
    )


def _order_counts(found: PartResult, names: NameIndex | None) -> dict[str, int]:
    """Return what was read and dropped, in one order wherever it ran."""
    always = ["documents", "blank_lines", "sentences", "dropped_leaks", *(["sentences_without_names"] if names else [])]
    others = sorted(key for key in found.counts if key not in always and not key.startswith(WEAK))
    return {key: found.counts[key] for key in (*always, *others)}


def _write_levels_of_parts(job: Job, folder: Path, levels: Sequence[Level], task_upsample: int) -> None:
    """Write ``LEVEL.txt`` and, with names, ``LEVEL.mentions``; all of them appear when the last is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    with _open_drafts(folder) as drafts:
        for level in levels:
            pieces = ["entity", *["task"] * task_upsample] if level == "integrated" else [level]
            texts = (path for piece in pieces for path in _list_files(job, f"{piece}.txt"))
            _append(drafts.add(f"{level}.txt"), texts)
            if job.names is not None:
                _append_mentions(drafts.add(f"{level}.mentions"), job, pieces)


def _write_weak_labels(job: Job, found: PartResult, folder: Path) -> dict[str, Any]:
    """Write the data set of the sentences that names labelled; return its counts."""
    folder.mkdir(parents=True, exist_ok=True)
    with _open_drafts(folder) as drafts:
        _append(drafts.add("train.jsonl"), _list_files(job, f"{WEAK}.txt"))
    return {
        "levels": list(job.request.weak_levels),
        "sentences": found.levels[WEAK].sentences,
        "mentions": found.counts["weak_mentions"],
        "dropped_mentions_within_words": found.counts["weak_mentions_within_words"],
        "mentions_of_several_types": found.counts["weak_mentions_of_several_types"],
    }


@dataclass(frozen=True)
class _Drafts:
    """Files of a folder that are being written, under other names until all are whole."""

    folder: Path
    paths: dict[Path, Path] = field(default_factory=dict)

    def add(self, name: str) -> Path:
        """Return the path under which to write a file."""
        return self.paths.setdefault(self.folder / name, self.folder / f".{name}.{os.getpid()}")


@contextmanager
def _open_drafts(folder: Path) -> Iterator[_Drafts]:
    drafts = _Drafts(folder)
    try:
        yield drafts
        for path, draft in drafts.paths.items():
            draft.replace(path)
    finally:
        for draft in drafts.paths.values():
            draft.unlink(missing_ok=True)


def _list_files(job: Job, name: str) -> list[Path]:
    return [job.part_folder("select", number) / name for number in range(len(job.parts))]


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
                before += job.read_result(number).levels[level].sentences
