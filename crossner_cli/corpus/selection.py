"""Sentences with the listed names in them, the corpus levels they belong to, and the labels that the names give."""

from __future__ import annotations

import os
import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from crossner_cli.data.names import Names, TypeSet
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_tags
from crossner_cli.data.text import PLAIN_WORD, find_words
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

Level = Literal["domain", "entity", "task", "integrated"]


@dataclass(frozen=True)
class Execution:
    """The place and the number of processes of a selection; the result does not depend on it.

    Args:
        executor: ``local``, ``slurm`` or ``ray``.
        workers: Parts worked on at once; None is one per core here, and all of them on Slurm.
    """

    executor: Literal["local", "slurm", "ray"] = "local"
    workers: int | None = None

    @property
    def processes(self) -> int:
        """The number of parts worked on at once on machines that are known."""
        return self.workers or len(os.sched_getaffinity(0))

    def check(self) -> None:
        """Refuse what cannot be run.

        Raises:
            CrossNERError: datatrove, Ray or Slurm is not there, or no partition of Slurm is named.
        """
        if self.executor == "local":
            return
        import_optional("datatrove", f"--executor {self.executor} runs datatrove", extra="cluster")
        if self.executor == "ray":
            import_optional("ray", "--executor ray runs Ray", extra="cluster")
        elif "SBATCH_PARTITION" not in os.environ:
            raise CrossNERError(
                "--executor slurm needs a partition.",
                hint="Name it, and what else sbatch reads: export SBATCH_PARTITION=cpu SBATCH_TIMELIMIT=04:00:00",
            )
        elif shutil.which("sbatch") is None:
            raise CrossNERError(
                "--executor slurm needs sbatch, which was not found.",
                hint="Run it on a login node of the cluster, or leave --executor out to use the cores here.",
            )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The choices that define the levels.

    Args:
        level: The only level to write; None writes all that can be made.
        specialised_types: Types whose names make a task-level sentence; None if unknown.
        min_entities: Distinct names that make an entity-level sentence.
        task_upsample: Times the task level counts in the integrated level.
        excluded: Keys of sentences that must not be in any level, as ``make_leak_key`` makes them.
        one_a_line: A line of the corpus is a sentence; else its sentences are found.
        column: The field of records that holds the text.
        weak_labels: Folder of the data set of selected sentences labelled by their names; None: none.
        execution: Where it runs.
        flag: The option that names the corpus.
    """

    level: Level | None = None
    specialised_types: frozenset[str] | None = None
    min_entities: int = 2
    task_upsample: int = 2
    excluded: frozenset[str] = frozenset()
    one_a_line: bool = False
    column: str = "text"
    weak_labels: Path | None = None
    execution: Execution = field(default_factory=Execution)
    flag: str = "--corpus"


class Mention(NamedTuple):
    """A listed name in a sentence: its words, its first character and the one after it, and its types as listed."""

    name: str
    start: int
    end: int
    types: TypeSet


def find_mentions(text: str, names: Names | None) -> tuple[int, list[Mention]]:
    """Return the number of words of a sentence, and the listed names in it: from the left, the longest first.

    The text has single spaces between words.
    """
    words = PLAIN_WORD.findall(text)
    found = names.finder.find(words) if names else []
    if names is None or not found:
        return len(words), []
    starts, place = [], 0
    for word in words[: found[-1][1]]:  # quicker than to let the pattern say where each one begins
        place += text[place] == " "
        starts.append(place)
        place += len(word)
    mentions = []
    for first, end in found:
        name = " ".join(words[first:end])
        mentions.append(Mention(name, starts[first], starts[end - 1] + len(words[end - 1]), names.types[name]))
    return len(words), mentions


def find_levels(mentions: Sequence[Mention], selection: Selection) -> list[Level]:
    """Return the levels of domain, entity and task that a sentence with these mentions belongs to."""
    levels: list[Level] = ["domain"]
    if len(mentions) >= selection.min_entities <= len({mention.name for mention in mentions}):
        levels.append("entity")
    special = selection.specialised_types
    if special and any(not special.isdisjoint(mention.types) for mention in mentions):
        levels.append("task")
    return levels


@dataclass
class LevelCounts:
    """The counts of a corpus level: documents with a sentence of it, sentences, words, and mentions by type.

    A line of plain text is a document. A mention of several types counts for each.
    """

    documents: int = 0
    sentences: int = 0
    words: int = 0
    mentions: Counter[str] = field(default_factory=Counter)

    def plus(self, other: LevelCounts, *, times: int = 1) -> LevelCounts:
        """Return the sum of these counts and ``times`` those of another."""
        mentions = self.mentions + Counter({name: count * times for name, count in other.mentions.items()})
        return LevelCounts(
            self.documents + other.documents * times,
            self.sentences + other.sentences * times,
            self.words + other.words * times,
            mentions,
        )

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LevelCounts:
        """Read the counts of a record."""
        return cls(**{**record, "mentions": Counter(record["mentions"])})

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a record, mentions in the order of their types."""
        return {**vars(self), "mentions": dict(sorted(self.mentions.items()))}


def label_sentence(text: str, mentions: Sequence[Mention], counts: Counter[str]) -> Sentence:
    """Tag the words of a sentence in BIO: mentions of listed names are entities, nothing else is.

    A name of several types has the one listed first. A mention includes the dot of an abbreviation after it, as ``Inc``
    in ``Inc.``; otherwise, one that begins or ends within a word labels nothing.

    ``counts`` gets ``weak_mentions``, ``weak_mentions_within_words`` and ``weak_mentions_of_several_types``.
    """
    words = find_words(text)
    begins, finishes = [word.start for word in words], [word.end for word in words]
    spans = []
    for mention in mentions:
        first, last = bisect_left(begins, mention.start), bisect_left(finishes, mention.end)
        word_end = finishes[last]
        is_whole = word_end == mention.end or (word_end == mention.end + 1 and text[mention.end] == ".")
        if first == len(begins) or begins[first] != mention.start or not is_whole:
            counts["weak_mentions_within_words"] += 1
            continue
        counts["weak_mentions"] += 1
        counts["weak_mentions_of_several_types"] += len(mention.types) > 1
        spans.append(Span(first, last + 1, mention.types[0]))
    return Sentence(tuple(word.text for word in words), tuple(to_tags(spans, len(words), "bio")))
