"""A selection from a corpus as a folder that processes share: the request, the names, and the parts that are done."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from crossner_cli.corpus.blocks import Block, Part, read_blocks
from crossner_cli.corpus.filters import drop_boilerplate, make_fingerprints
from crossner_cli.corpus.mentions import MENTION
from crossner_cli.corpus.selection import LevelCounts, LevelPart, Selector, label_sentences
from crossner_cli.data.names import NameIndex
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import write_json

Duplicates = Literal["no", "exact", "near"]
Pass = Literal["fingerprint", "select"]
WEAK = "weak"
FINGERPRINTS = "fingerprints.bin"


@dataclass(frozen=True)
class Request:
    """The request of a selection.

    Args:
        levels: Levels to select for: of domain, entity and task.
        specialised_types: Types that make a task-level sentence, sorted.
        min_entities: Distinct names that make an entity-level sentence.
        one_a_line: A line is a sentence.
        column: The field of records that holds the text.
        duplicates: Which repeated sentences to leave out.
        drop_boilerplate: Leave out what is no prose.
        weak_levels: Levels whose sentences are written as labelled data too.
    """

    levels: tuple[str, ...]
    specialised_types: tuple[str, ...] = ()
    min_entities: int = 2
    one_a_line: bool = False
    column: str = "text"
    duplicates: Duplicates = "no"
    drop_boilerplate: bool = False
    weak_levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartResult:
    """Counts of a part of the corpus, or of all of it.

    Args:
        counts: Sentences read and dropped.
        levels: Counts of each level.
    """

    counts: Counter[str]
    levels: dict[str, LevelCounts]


@dataclass(frozen=True)
class Job:
    """The folder.

    Layout: ``job.json``; ``excluded.json``; ``names/`` if there are names; ``duplicates/PART.npy``, the sentences to
    leave out of a part; ``PASS/PART/``, the results of a part, renamed into place when they are whole; and
    ``PASS/PART.problem.json``, what is wrong with its text. The results follow from the job alone.
    """

    folder: Path

    @classmethod
    def make(
        cls, folder: Path, request: Request, parts: list[Part], excluded: frozenset[str], names: NameIndex | None
    ) -> Job:
        """Write the request; what an interrupted job of the same request has made is kept."""
        folder.mkdir(parents=True, exist_ok=True)
        if names is not None:
            names.save(folder / "names")
        (folder / "excluded.json").write_text(json.dumps(sorted(excluded)), encoding="utf-8")
        write_json(folder / "job.json", {"request": asdict(request), "parts": [part.to_json() for part in parts]})
        return cls(folder)

    @cached_property
    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.folder / "job.json").read_text(encoding="utf-8"))
        return record

    @cached_property
    def request(self) -> Request:
        """The request of this selection."""
        given = self._record["request"].items()
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given}
        return Request(**values)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the corpus."""
        return [Part.from_json(record) for record in self._record["parts"]]

    @cached_property
    def names(self) -> NameIndex | None:
        """The names, if there are any."""
        folder = self.folder / "names"
        return NameIndex.load(folder) if folder.is_dir() else None

    @cached_property
    def selector(self) -> Selector:
        """The selector of the sentences."""
        request = self.request
        levels = (*request.levels, *((WEAK,) if request.weak_levels else ()))
        special = frozenset(request.specialised_types)
        return Selector(self.names, levels, special, request.min_entities, request.weak_levels)

    def read_excluded(self) -> frozenset[str]:
        """Read the keys of sentences to leave out."""
        return frozenset(json.loads((self.folder / "excluded.json").read_text(encoding="utf-8")))

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
        folder = self.folder / of_pass
        return {int(path.name) for path in folder.iterdir() if path.name.isdecimal()} if folder.is_dir() else set()

    def read_result(self, number: int) -> PartResult:
        """Read what was counted in a part."""
        record = json.loads((self.part_folder("select", number) / "counts.json").read_text(encoding="utf-8"))
        levels = {level: LevelCounts.from_json(counts) for level, counts in record["levels"].items()}
        return PartResult(Counter(record["counts"]), levels)


def process_part(job: Job, of_pass: Pass, number: int) -> Iterator[int]:
    """Do a part of a pass over the corpus; yield how many characters were read since the last time.

    Args:
        job: The job.
        of_pass: ``fingerprint``: write what tells duplicates; ``select``: write the sentences of the levels, the
            mentions in them, and the sentences labelled by names.
        number: The part.

    Raises:
        CrossNERError: The text cannot be read; the problem is written beside the part, too.
    """
    with _open_draft(job, of_pass, number) as draft:
        yield from (_write_fingerprints if of_pass == "fingerprint" else _write_levels)(job, number, draft)


def _write_fingerprints(job: Job, number: int, folder: Path) -> Iterator[int]:
    with (folder / FINGERPRINTS).open("wb") as stream:
        for block in _read_filtered(job, number, Counter()):
            stream.write(make_fingerprints(block, near=job.request.duplicates == "near").tobytes())
            yield sum(map(len, block.texts))


def _write_levels(job: Job, number: int, folder: Path) -> Iterator[int]:
    totals = {level: LevelCounts() for level in job.selector.levels}
    counts, last_documents = Counter[str](), dict[str, int]()
    with ExitStack() as stack:
        texts = {level: stack.enter_context((folder / f"{level}.txt").open("wb")) for level in totals}
        mentions = {level: stack.enter_context((folder / f"{level}.mentions").open("wb")) for level in totals}
        for block in _drop_duplicates(job, number, _read_filtered(job, number, counts)):
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
    record = {"counts": counts, "levels": {level: found.to_json() for level, found in totals.items()}}
    (folder / "counts.json").write_text(json.dumps(record), encoding="utf-8")


def _read_filtered(job: Job, number: int, counts: Counter[str]) -> Iterator[Block]:
    request = job.request
    blocks = read_blocks(
        job.parts[number],
        counts,
        one_a_line=request.one_a_line,
        excluded=job.read_excluded(),
        column=request.column,
    )
    return (drop_boilerplate(block, counts) for block in blocks) if request.drop_boilerplate else blocks


def _drop_duplicates(job: Job, number: int, blocks: Iterator[Block]) -> Iterator[Block]:
    if job.request.duplicates == "no":
        yield from blocks
        return
    is_dropped, place = np.load(job.duplicates_path(number), allow_pickle=False), 0
    for block in blocks:
        yield block.keep(~is_dropped[place : place + len(block.texts)])
        place += len(block.texts)


def _label(job: Job, part: LevelPart, counts: Counter[str]) -> bytes:
    assert job.names is not None
    records = (
        json.dumps({"words": sentence.words, "tags": sentence.tags}, ensure_ascii=False) + "\n"
        for sentence in label_sentences(part, job.names.type_sets, counts)
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
