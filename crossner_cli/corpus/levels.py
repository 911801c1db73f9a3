"""The four corpus levels for domain-adaptive pre-training, from raw text and lists of names.

Paper: Liu et al. (2021), CrossNER. Domain level: every sentence. Entity level: sentences with several listed names.
Task level: sentences with a name of a type special to the target domain. Integrated: entity level, task level twice.
Differs: the paper leaves the matching open. Here a name is matched over whole words, longest first, in its own case
unless asked otherwise, and "several" counts distinct names. As the published sizes imply, the integrated level keeps
its repetitions.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from crossner_cli.corpus.executors import Execution, UnfinishedError, run_pass
from crossner_cli.corpus.job import WEAK, Duplicates, Job, PartResult, Request
from crossner_cli.corpus.merging import sum_parts, write_duplicates, write_levels_of_parts, write_weak_labels
from crossner_cli.corpus.raw_files import corpus_files
from crossner_cli.corpus.reading import cut_into_parts
from crossner_cli.data.leaks import leak_key
from crossner_cli.data.name_index import Case, NameIndex, read_name_index
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, Work

Level = Literal["domain", "entity", "task", "integrated"]
LEVELS: tuple[Level, ...] = ("domain", "entity", "task", "integrated")
WORK, TEXTS = ".selection", "texts"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """How the levels are selected.

    Args:
        level: The one level to write; None writes all that can be made.
        specialised_types: Types whose names make a task-level sentence; None where none are known.
        min_entities: Distinct names that make an entity-level sentence.
        task_upsample: Times the task level counts in the integrated level.
        excluded: Words of sentences that may be in no level: those the target is scored on. Compared without regard
            to case and to where words begin and end.
        names_case: How names are matched, as ``read_name_index`` has it.
        one_a_line: A line of the corpus is a sentence; else its sentences are found.
        column: The field of records that holds the text.
        duplicates: Which repeated sentences to leave out: none, exact ones, or nearly the same too.
        drop_boilerplate: Leave out what is no prose.
        weak_labels: Folder of the data set that the selected sentences become, labelled by their names; None: none.
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

    Memory does not grow with the corpus but for a byte or two a sentence where duplicates are looked for, and the files
    do not depend on where it runs. What an interrupted call has done stays in ``folder/.selection``, and the same call
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
    yield from _tell_what_is_left_out(names, levels, selection)
    found_files = corpus_files(corpus)
    yield from map(Notice, found_files.notes())
    files = found_files.files
    if selection.execution.executor != "local":  # on other machines nobody is in this folder
        folder, files = folder.absolute(), [path.absolute() for path in files]
    parts = cut_into_parts(files)
    excluded = frozenset(leak_key(" ".join(words)) for words in selection.excluded)
    with work_folder(folder) as work:
        job = Job.make(work, _request(selection, levels), parts, excluded, names)
        found = yield from _run(job, selection.execution)
        _refuse_empty_levels(found, job, len(files), selection.flag)
        yield Progress("write the levels", 0, len(levels), "levels")
        write_levels_of_parts(job, found, folder, levels, selection.task_upsample)
        yield Progress("write the levels", len(levels), len(levels), "levels")
        weak = write_weak_labels(job, found, selection.weak_labels) if selection.weak_labels else None
    if "integrated" in levels:
        found.levels["integrated"] = found.levels["entity"].plus(found.levels["task"], times=selection.task_upsample)
    type_sets = names.type_sets if names else ()
    return {
        **_told_counts(found, names),
        "names": {**names.counts, "types": names.count_types()} if names else None,
        "levels": {level: found.levels[level].tell(type_sets) for level in levels},
        **({"weak_labels": weak} if weak else {}),
    }


def check_selection(entities: Sequence[Path], selection: Selection) -> tuple[NameIndex | None, list[Level]]:
    """Read the lists of names, and tell which levels can be made with them.

    Raises:
        CrossNERError: A list is malformed, has none of the specialised types, or a level needs one; or what is to run
            the selection is not there.
    """
    selection.execution.check()
    if selection.weak_labels and not entities:
        raise CrossNERError("--weak-labels needs an entity list, and none was given.", hint="Add --entities LIST.")
    names = read_name_index(entities, case=selection.names_case) if entities else None
    return names, _levels_to_write(selection.level, names, selection.specialised_types)


def _levels_to_write(level: Level | None, names: NameIndex | None, specialised: frozenset[str] | None) -> list[Level]:
    """Tell which levels are wanted, and refuse those that cannot be made."""
    if names is None:
        if level not in (None, "domain"):
            raise CrossNERError(
                f"The corpus level {level!r} needs an entity list, and none was given.",
                hint="Add --entities LIST, a file with a line each: name<TAB>type; or ask for --corpus-level domain.",
            )
        return ["domain"]
    if level in ("task", "integrated") and not specialised:
        raise CrossNERError(
            f"The corpus level {level!r} needs specialised types, and none are known.",
            hint=f"Add --specialised-types a,b. Types in the list: {names.list_types()}.",
        )
    levels: list[Level] = [level] if level else list(LEVELS if specialised else LEVELS[:2])
    if "task" not in levels and "integrated" not in levels:
        return levels
    if specialised and specialised.isdisjoint(names.count_types()):
        raise CrossNERError(
            f"The entity lists have no name of the specialised types {', '.join(sorted(specialised))}.",
            hint="Choose other --specialised-types, or leave these levels out: --corpus-level entity."
            f" Types in the list: {names.list_types()}.",
        )
    return levels


def _tell_what_is_left_out(names: NameIndex | None, levels: list[Level], selection: Selection) -> Work[None]:
    if names is None:
        return
    if selection.level is None and len(levels) < len(LEVELS):
        yield Notice("No specialised types are known, so the task and integrated levels were left out.")
    absent = sorted((selection.specialised_types or frozenset()) - set(names.count_types()))
    if absent and not {"task", "integrated"}.isdisjoint(levels):
        yield Notice(f"The entity lists have no name of the specialised types {', '.join(absent)}.")


def _request(selection: Selection, levels: list[Level]) -> Request:
    selected = [name for name in LEVELS[:3] if name in levels or ("integrated" in levels and name != "domain")]
    labelled = [name for name in selected if selection.level == "domain" or name != "domain"]
    return Request(
        levels=tuple(selected), specialised_types=tuple(sorted(selection.specialised_types or ())),
        min_entities=selection.min_entities, one_a_line=selection.one_a_line, column=selection.column,
        duplicates=selection.duplicates, drop_boilerplate=selection.drop_boilerplate,
        weak_levels=tuple(labelled) if selection.weak_labels else (),
    )  # fmt: skip


@contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """``folder/.selection``, for what is done: it stays where the same call may go on with it, and goes otherwise."""
    work = folder / WORK
    try:
        yield work
    except (UnfinishedError, OSError, MemoryError, KeyboardInterrupt, GeneratorExit):
        if not any(work.glob("*/tasks/completions/*")) and not any(work.glob(f"{TEXTS}/*.json")):
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


def _run(job: Job, execution: Execution) -> Work[PartResult]:
    """Do all passes, and sum what was counted."""
    repeated = Counter[str]()
    if job.request.duplicates != "no":
        yield from run_pass(job, "fingerprint", execution)
        yield Progress("compare sentences", 0, 1, "corpora")
        repeated = write_duplicates(job)
        yield Progress("compare sentences", 1, 1, "corpora")
    yield from run_pass(job, "select", execution)
    found = sum_parts(job)
    found.counts.update(repeated)
    return found


def _refuse_empty_levels(found: PartResult, job: Job, files: int, flag: str) -> None:
    """Refuse a selection in which a level has no sentence."""
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


def _told_counts(found: PartResult, names: NameIndex | None) -> dict[str, int]:
    """What was read and dropped, in one order wherever it ran."""
    always = ["documents", "blank_lines", "sentences", "dropped_leaks", *(["sentences_without_names"] if names else [])]
    others = sorted(key for key in found.counts if key not in always and not key.startswith(WEAK))
    return {key: found.counts[key] for key in (*always, *others)}
