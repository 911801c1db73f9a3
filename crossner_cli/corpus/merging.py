"""What the parts of a corpus have made, put together in the order of the corpus."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossner_cli.corpus.filters import find_duplicates
from crossner_cli.corpus.job import WEAK, Job, PartResult
from crossner_cli.corpus.mentioned_lines import COLUMNS, MENTION
from crossner_cli.corpus.selection import LevelCounts
from crossner_cli.run.storage import save_array


def sum_parts(job: Job) -> PartResult:
    """Sum what was counted in all parts."""
    total = PartResult(Counter(), {level: LevelCounts() for level in job.selector().levels})
    for number in range(len(job.parts)):
        part = job.result("select", number)
        total.counts.update(part.counts)
        for level, counts in part.levels.items():
            total.levels[level] = total.levels[level].plus(counts)
    return total


def write_duplicates(job: Job) -> Counter[str]:
    """Tell each part which of its sentences to leave out, by the fingerprints of all; return how many there are."""
    near = job.request.duplicates == "near"
    files = [job.part_folder("fingerprint", number) / "fingerprints.bin" for number in range(len(job.parts))]
    joined = job.folder / "fingerprints.bin"
    _append(joined, files)
    is_repeated, is_near = find_duplicates(joined, near=near)
    job.duplicates(0).parent.mkdir(exist_ok=True)
    bytes_of_row, place = joined.stat().st_size // max(1, len(is_repeated)), 0
    for number, file in enumerate(files):
        rows = file.stat().st_size // max(1, bytes_of_row)
        save_array(job.duplicates(number), (is_repeated | is_near)[place : place + rows])
        place += rows
    joined.unlink()
    counts = Counter({"dropped_duplicates": int(is_repeated.sum())})
    if near:
        counts["dropped_near_duplicates"] = int(is_near.sum())
    return counts


def write_levels_of_parts(job: Job, found: PartResult, folder: Path, levels: Sequence[str], task_upsample: int) -> None:
    """Write ``LEVEL.txt`` and, with names, ``LEVEL.mentions``; all of them appear when the last is whole.

    Args:
        job: The parts.
        found: What was counted in them.
        folder: Where to write.
        levels: What to write: of domain, entity, task and integrated.
        task_upsample: Times the task level counts in the integrated level.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drafts: dict[Path, Path] = {}
    try:
        for level in levels:
            pieces = ["entity", *["task"] * task_upsample] if level == "integrated" else [level]
            name = f"{level}.txt"
            drafts[folder / name] = folder / f".{name}.{os.getpid()}"
            _append(drafts[folder / name], (path for piece in pieces for path in _paths(job, f"{piece}.txt")))
            if job.names is not None:
                name = f"{level}.mentions"
                drafts[folder / name] = folder / f".{name}.{os.getpid()}"
                _append_mentions(drafts[folder / name], job, found, pieces)
        for path, draft in drafts.items():
            draft.replace(path)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def write_weak_labels(job: Job, found: PartResult, folder: Path) -> dict[str, Any]:
    """Write the data set of the sentences that names labelled; return what it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".train.jsonl.{os.getpid()}"
    try:
        _append(draft, _paths(job, f"{WEAK}.txt"))
        draft.replace(folder / "train.jsonl")
    finally:
        draft.unlink(missing_ok=True)
    return {
        "levels": list(job.request.weak_levels),
        "sentences": found.levels[WEAK].sentences,
        "mentions": found.counts["weak_mentions"],
        "dropped_mentions_within_words": found.counts["weak_mentions_within_words"],
        "mentions_of_several_types": found.counts["weak_mentions_of_several_types"],
    }


def _paths(job: Job, name: str) -> list[Path]:
    return [job.part_folder("select", number) / name for number in range(len(job.parts))]


def _append(path: Path, parts: Iterable[Path]) -> None:
    """Write files one after the other into another."""
    with path.open("wb") as stream:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, stream, 1 << 20)


def _append_mentions(path: Path, job: Job, found: PartResult, pieces: Sequence[str]) -> None:
    """Write the mentions of levels one after the other, their lines counted through."""
    before = 0
    with path.open("wb") as stream:
        for level in pieces:
            for number, part in enumerate(_paths(job, f"{level}.mentions")):
                rows = np.fromfile(part, MENTION).reshape(-1, COLUMNS)
                rows[:, 0] += before
                stream.write(rows.tobytes())
                before += job.result("select", number).levels[level].sentences
