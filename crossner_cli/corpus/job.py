"""A selection from a corpus as a job that processes share, part by part."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

from crossner_cli.corpus.blocks import Block, Part, make_fingerprints, read_blocks
from crossner_cli.corpus.selection import MENTION, LevelCounts, LevelPart, Selector, label_sentences
from crossner_cli.data.names import Case, NameIndex
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import write_json

Level = Literal["domain", "entity", "task", "integrated"]
Pass = Literal["fingerprint", "select"]
WEAK = "weak"
FINGERPRINTS = "fingerprints.bin"


@dataclass(frozen=True)
class Execution:
    """The place and the number of processes of a selection; the result does not depend on it.

    Args:
        executor: ``local``, ``slurm`` or ``ray``.
        workers: Parts worked on at once; None is one a core here, and all of them on Slurm.
        slurm_partition: Partition of the Slurm cluster.
        slurm_time: Time limit of a part there.
        slurm_arguments: Further arguments of ``sbatch``, as ``account=nlp``.
    """

    executor: Literal["local", "slurm", "ray"] = "local"
    workers: int | None = None
    slurm_partition: str | None = None
    slurm_time: str = "04:00:00"
    slurm_arguments: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """The number of parts worked on at once on machines that are known."""
        return self.workers or len(os.sched_getaffinity(0))

    def check(self) -> None:
        """Refuse what cannot be run.

        Raises:
            CrossNERError: Ray or Slurm is not there, or an option is missing or malformed.
        """
        if self.executor == "ray" and find_spec("ray") is None:
            raise CrossNERError("--executor ray needs the package ray.", hint="pip install 'crossner[ray]'")
        if self.executor != "slurm":
            return
        if not self.slurm_partition:
            raise CrossNERError("--executor slurm needs a partition.", hint="Add --slurm-partition NAME (see: sinfo).")
        wrong = next((each for each in self.slurm_arguments if not each.partition("=")[0].strip()), None)
        if wrong is not None:
            raise CrossNERError(f"--slurm-argument {wrong!r} has no name.", hint="Write name=value, as account=nlp.")
        if shutil.which("sbatch") is None:
            raise CrossNERError(
                "--executor slurm needs sbatch, which was not found.",
                hint="Run it on a login node of the cluster, or leave --executor out to use the cores here.",
            )


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
        drop_duplicates: Leave out sentences that repeat an earlier one.
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
    drop_duplicates: bool = False
    weak_labels: Path | None = None
    execution: Execution = field(default_factory=Execution)
    flag: str = "--corpus"


@dataclass(frozen=True)
class Job:
    """A selection in work. What it holds and its folder's ``names/`` are all that a process needs.

    Its folder has ``duplicates/PART.npy``, the sentences to leave out of a part; ``PASS/PART/``, the results of a
    part, renamed into place when they are whole; and ``PASS/PART.problem.json``, what is wrong with its text.

    ``levels`` are of domain, entity and task; ``excluded`` has keys of sentences to leave out, as ``make_leak_key``
    makes them.
    """

    folder: Path
    selection: Selection = field(repr=False)
    levels: tuple[str, ...]
    parts: list[Part] = field(repr=False)
    excluded: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def weak_levels(self) -> tuple[str, ...]:
        """The levels whose sentences are written as labelled data too."""
        if self.selection.weak_labels is None:
            return ()
        return tuple(level for level in self.levels if level != "domain" or self.selection.level == "domain")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the files that each part writes."""
        return (*self.levels, WEAK) if self.weak_levels else self.levels

    @cached_property
    def selector(self) -> Selector:
        """The selector of the sentences."""
        folder = self.folder / "names"
        names = NameIndex.load(folder) if folder.is_dir() else None
        types = self.selection.specialised_types or frozenset()
        return Selector(names, self.outputs, types, self.selection.min_entities, self.weak_levels)

    def part_folder(self, of_pass: Pass, number: int) -> Path:
        """The folder with the results of a part."""
        return self.folder / of_pass / f"{number:05d}"

    def duplicates_path(self, number: int) -> Path:
        """The file that tells which sentences of a part to leave out."""
        return self.folder / "duplicates" / f"{number:05d}.npy"

    def problem_path(self, of_pass: Pass, number: int) -> Path:
        """The file that tells what is wrong with the text of a part."""
        return self.folder / of_pass / f"{number:05d}.problem.json"

    def find_done(self, of_pass: Pass) -> set[int]:
        """Return the numbers of the parts that are done."""
        return {int(path.name) for path in (self.folder / of_pass).glob("*") if path.name.isdecimal()}

    def read_counts(self, number: int) -> tuple[Counter[str], dict[str, LevelCounts]]:
        """Read what was counted in a part: sentences read and dropped, and the counts of each level."""
        record = json.loads((self.part_folder("select", number) / "counts.json").read_text(encoding="utf-8"))
        levels = {level: LevelCounts.from_json(counts) for level, counts in record["levels"].items()}
        return Counter(record["counts"]), levels


def process_part(job: Job, of_pass: Pass, number: int) -> Iterator[int]:
    """Do a part of a pass over the corpus; yield how many characters were read since the last time.

    ``fingerprint`` writes what tells duplicates; ``select`` writes the sentences of the levels, the mentions in them,
    and the sentences labelled by names.

    Raises:
        CrossNERError: The text cannot be read; the problem is written beside the part, too.
    """
    with _open_draft(job, of_pass, number) as draft:
        yield from (_write_fingerprints if of_pass == "fingerprint" else _write_levels)(job, number, draft)


def _write_fingerprints(job: Job, number: int, folder: Path) -> Iterator[int]:
    with (folder / FINGERPRINTS).open("wb") as stream:
        for block in _read(job, number, Counter()):
            stream.write(make_fingerprints(block).tobytes())
            yield sum(map(len, block.texts))


def _write_levels(job: Job, number: int, folder: Path) -> Iterator[int]:
    totals = {level: LevelCounts() for level in job.outputs}
    counts, last_documents = Counter[str](), dict[str, int]()
    with ExitStack() as stack:
        texts = {level: stack.enter_context((folder / f"{level}.txt").open("wb")) for level in totals}
        mentions = {level: stack.enter_context((folder / f"{level}.mentions").open("wb")) for level in totals}
        for block in _drop_duplicates(job, number, _read(job, number, counts)):
            for level, part in job.selector.select(block, counts).items():
                if not part.texts:
                    continue
                if level == WEAK:
                    texts[level].write(_label(job, part, counts))
                else:
                    texts[level].write(("\n".join(part.texts) + "\n").encode())
                    rows = (part.mentions + (totals[level].sentences, 0, 0)).astype(MENTION)
                    mentions[level].write(rows.tobytes())  # tofile would not say that the disk is full
                totals[level] = totals[level].plus(part.counts)
                # A document that continues the one before was counted there.
                totals[level].documents -= int(part.documents[0]) == last_documents.get(level)
                last_documents[level] = int(part.documents[-1])
            yield sum(map(len, block.texts))
    record = {"counts": counts, "levels": {level: vars(found) for level, found in totals.items()}}
    (folder / "counts.json").write_text(json.dumps(record), encoding="utf-8")


def _read(job: Job, number: int, counts: Counter[str]) -> Iterator[Block]:
    chosen = job.selection
    return read_blocks(
        job.parts[number], counts, one_a_line=chosen.one_a_line, excluded=job.excluded, column=chosen.column
    )


def _drop_duplicates(job: Job, number: int, blocks: Iterator[Block]) -> Iterator[Block]:
    if not job.selection.drop_duplicates:
        yield from blocks
        return
    is_dropped, place = np.load(job.duplicates_path(number), allow_pickle=False), 0
    for block in blocks:
        yield block.keep(~is_dropped[place : place + len(block.texts)])
        place += len(block.texts)


def _label(job: Job, part: LevelPart, counts: Counter[str]) -> bytes:
    assert job.selector.names is not None
    records = (
        json.dumps({"words": sentence.words, "tags": sentence.tags}, ensure_ascii=False) + "\n"
        for sentence in label_sentences(part, job.selector.names.type_sets, counts)
    )
    return "".join(records).encode()


@contextmanager
def _open_draft(job: Job, of_pass: Pass, number: int) -> Iterator[Path]:
    """Make a folder that becomes that of the part when all is well; a problem with the text is written beside it."""
    folder = job.part_folder(of_pass, number)
    draft = folder.with_name(f".{folder.name}.{os.uname().nodename}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        shutil.rmtree(folder, ignore_errors=True)
        draft.replace(folder)
    except CrossNERError as error:
        write_json(job.problem_path(of_pass, number), {"problem": error.problem, "hint": error.hint})
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
