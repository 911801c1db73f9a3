"""What the processes that select from a corpus share: a folder with the request, the names, and what is done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from crossner_cli.corpus.reading import Part
from crossner_cli.corpus.selection import LevelCounts, Selector
from crossner_cli.data.name_index import NameIndex
from crossner_cli.run.storage import write_json

Duplicates = Literal["no", "exact", "near"]
Pass = Literal["fingerprint", "select"]
PASSES: tuple[Pass, ...] = ("fingerprint", "select")
WEAK = "weak"


@dataclass(frozen=True)
class Request:
    """How sentences are selected.

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
    """What was counted in a part of the corpus.

    Args:
        counts: What was read and dropped.
        levels: What each level got.
    """

    counts: Counter[str]
    levels: dict[str, LevelCounts]


@dataclass(frozen=True)
class Job:
    """The folder.

    Layout: ``job.json``; ``excluded.json``; ``names/``, where there are any; ``duplicates/PART.npy``, the sentences to
    leave out of a part; and for each pass ``PASS/PART/`` with the results and ``PASS/tasks/`` with the records of
    datatrove. A part's folder is renamed into place when it is whole, and its content follows from the job alone.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path, request: Request, parts: list[Part], excluded: frozenset[str],
             names: NameIndex | None) -> Job:  # fmt: skip
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
        """How sentences are selected."""
        given: dict[str, Any] = self._record["request"]
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
        }
        return Request(**values)

    @cached_property
    def parts(self) -> list[Part]:
        """What is read."""
        return [Part.from_json(record) for record in self._record["parts"]]

    @cached_property
    def names(self) -> NameIndex | None:
        """The names, if any."""
        folder = self.folder / "names"
        return NameIndex.load(folder) if folder.is_dir() else None

    def excluded(self) -> frozenset[str]:
        """Keys of sentences to leave out."""
        return frozenset(json.loads((self.folder / "excluded.json").read_text(encoding="utf-8")))

    def selector(self) -> Selector:
        """What selects the sentences."""
        request = self.request
        levels = (*request.levels, *((WEAK,) if request.weak_levels else ()))
        special = frozenset(request.specialised_types)
        return Selector(self.names, levels, special, request.min_entities, request.weak_levels)

    def part_folder(self, of_pass: Pass, number: int) -> Path:
        """Where the results of a part are."""
        return self.folder / of_pass / f"{number:05d}"

    def duplicates(self, number: int) -> Path:
        """Where the sentences to leave out of a part are told."""
        return self.folder / "duplicates" / f"{number:05d}.npy"

    def tasks(self, of_pass: Pass) -> Path:
        """Where datatrove keeps its records: ``completions``, ``stats``, ``logs``."""
        return self.folder / of_pass / "tasks"

    def problem(self, of_pass: Pass, number: int) -> Path:
        """Where a part tells what was wrong with its text."""
        return self.folder / of_pass / f"{number:05d}.problem.json"

    def is_done(self, of_pass: Pass, number: int) -> bool:
        """Whether a part is whole and recorded as completed."""
        return (self.tasks(of_pass) / "completions" / f"{number:05d}").exists()

    def result(self, of_pass: Pass, number: int) -> PartResult:
        """What was counted in a part."""
        record = json.loads((self.part_folder(of_pass, number) / "counts.json").read_text(encoding="utf-8"))
        levels = {level: LevelCounts.from_json(counts) for level, counts in record["levels"].items()}
        return PartResult(Counter(record["counts"]), levels)


def write_result(path: Path, counts: Mapping[str, int], levels: Mapping[str, LevelCounts]) -> None:
    """Write what ``Job.result`` reads."""
    record = {"counts": dict(counts), "levels": {level: found.to_json() for level, found in levels.items()}}
    path.write_text(json.dumps(record), encoding="utf-8")
