"""A selection from a corpus as a job that processes share, part by part."""

from __future__ import annotations

import json
import os
import shutil
from array import array
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from crossner_cli.corpus.mentions import MENTION
from crossner_cli.corpus.selection import LevelCounts, Mention, Selection, find_levels, find_mentions, label_sentence
from crossner_cli.corpus.sentences import Part, read_sentences
from crossner_cli.data.names import Names, read_names
from crossner_cli.data.text import PLAIN_WORD
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Progress
from crossner_cli.run.storage import write_json

WEAK = "weak"  # the output of sentences labelled by their names, beside the levels
DOCUMENTS_BETWEEN_SIGNS = 1000


class UnfinishedError(CrossNERError):
    """Some parts are not done, for a reason outside the text; the same command continues with them."""


@dataclass(frozen=True)
class Job:
    """A selection in work: all that a process needs.

    Its folder has ``NUMBER/``, the results of a part, renamed into place when they are whole, and
    ``NUMBER.problem.json``, what is wrong with its text.

    Args:
        folder: Where the parts are written.
        selection: How to select.
        levels: Those of domain, entity and task that are wanted.
        parts: The parts of the corpus.
        lists: Lists of names.
    """

    folder: Path
    selection: Selection = field(repr=False)
    levels: tuple[str, ...]
    parts: list[Part] = field(repr=False)
    lists: tuple[Path, ...] = ()

    @cached_property
    def weak_levels(self) -> frozenset[str]:
        """The levels whose sentences are also written as labelled data."""
        if self.selection.weak_labels is None:
            return frozenset()
        return frozenset(level for level in self.levels if level != "domain" or self.selection.level == "domain")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the files that each part writes."""
        return (*self.levels, WEAK) if self.weak_levels else self.levels

    def read_names(self) -> Names | None:
        """Read the lists of names."""
        return read_names(self.lists, cut=PLAIN_WORD.findall) if self.lists else None

    def part_folder(self, number: int) -> Path:
        """The folder with the results of a part."""
        return self.folder / f"{number:05d}"

    def problem_path(self, number: int) -> Path:
        """The file with the problem of the text of a part."""
        return self.folder / f"{number:05d}.problem.json"

    def find_done(self) -> set[int]:
        """Return the numbers of the parts that are done."""
        return {int(path.name) for path in self.folder.glob("*") if path.name.isdecimal()}

    def measure(self) -> Progress:
        """Return how far the parts are done."""
        done = sum(self.parts[number].size for number in self.find_done())
        return Progress("select sentences", done, sum(part.size for part in self.parts), "bytes")

    def describe_done(self) -> str:
        """Say how many parts are done, after a problem."""
        done = len(self.find_done())
        return f"{done} of {len(self.parts)} parts are done and kept; the same command continues with the others."

    def read_counts(self, number: int) -> tuple[Counter[str], dict[str, LevelCounts]]:
        """Read the counts of a part: sentences read and dropped, and the counts of each level."""
        record = json.loads((self.part_folder(number) / "counts.json").read_text(encoding="utf-8"))
        levels = {level: LevelCounts.from_json(counts) for level, counts in record["levels"].items()}
        return Counter(record["counts"]), levels


def select_part(job: Job, number: int, names: Names | None) -> Iterator[int]:
    """Write the sentences of the levels in a part, the mentions in them, and the sentences labelled by names.

    Yields:
        How many bytes were read so far, about and now and then.

    Raises:
        CrossNERError: The text cannot be read; the problem is written beside the part, too.
    """
    counts, chosen = Counter[str](), job.selection
    documents = read_sentences(
        job.parts[number], counts, one_a_line=chosen.one_a_line, excluded=chosen.excluded, column=chosen.column
    )
    with _open_draft(job, number) as draft:
        with ExitStack() as stack:
            outputs = {level: _Output(stack, draft / f"{level}.txt") for level in job.outputs}
            for document, sentences in enumerate(documents):
                for text in sentences:
                    _add_sentence(job, names, outputs, text, document, counts)
                if document % DOCUMENTS_BETWEEN_SIGNS == 0:
                    yield min(counts["characters"], job.parts[number].size)
        for level, output in outputs.items():
            (draft / f"{level}.mentions").write_bytes(np.asarray(output.rows, MENTION).tobytes())
        record = {"counts": counts, "levels": {level: output.counts.to_json() for level, output in outputs.items()}}
        (draft / "counts.json").write_text(json.dumps(record), encoding="utf-8")


def select_whole_part(job: Job, number: int, names: Names | None) -> None:
    """Do ``select_part`` to its end."""
    deque(select_part(job, number, names), maxlen=0)


class _Output:
    """The share of a part in a level: its sentences, a line each, their counts, and the places of the mentions."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self.stream = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
        self.counts, self.rows, self.last_document = LevelCounts(), array("I"), -1

    def add(self, line: str, document: int, words: int, mentions: Sequence[Mention]) -> None:
        counts = self.counts
        self.stream.write(f"{line}\n")
        for _, start, end, types in mentions:
            self.rows.extend((counts.sentences, start, end))
            for name in types:
                counts.mentions[name] += 1
        counts.sentences += 1
        counts.words += words
        counts.documents += document != self.last_document
        self.last_document = document


def _add_sentence(
    job: Job, names: Names | None, outputs: Mapping[str, _Output], text: str, document: int, counts: Counter[str]
) -> None:
    """Write a sentence to each level it belongs to."""
    words, mentions = find_mentions(text, names)
    counts["sentences_without_names"] += not mentions
    levels = find_levels(mentions, job.selection)
    for level in levels:
        if level in outputs:
            outputs[level].add(text, document, words, mentions)
    if WEAK in outputs and not job.weak_levels.isdisjoint(levels):
        labelled = label_sentence(text, mentions, counts)
        record = {"words": labelled.words, "tags": labelled.tags}
        outputs[WEAK].add(json.dumps(record, ensure_ascii=False), document, words, mentions)


@contextmanager
def _open_draft(job: Job, number: int) -> Iterator[Path]:
    """Make a folder that becomes that of the part on success; a problem with the text is written beside it."""
    folder = job.part_folder(number)
    draft = folder.with_name(f".{folder.name}.{os.uname().nodename}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        shutil.rmtree(folder, ignore_errors=True)
        draft.replace(folder)
    except CrossNERError as error:
        write_json(job.problem_path(number), {"problem": error.problem, "hint": error.hint})
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
