"""Raw text beside labelled sentences: one sentence per line, read from the file when it is needed."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.names import Names
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, TagSet, to_tags
from crossner_cli.data.text import cut_words
from crossner_cli.encoders.subwords import UNLABELLED, Batch
from crossner_cli.errors import CrossNERError

LONGEST = 200  # words read of a raw sentence: a language model learns nothing from a list of thousands


@dataclass(frozen=True)
class RawFile:
    """The sentences of a text file, one per line.

    Args:
        starts: Byte at which each line with a word begins, (N,).
        counts: Occurrences of each word.
        shortened: Number of lines longer than ``LONGEST`` words.
    """

    path: Path
    starts: NDArray[np.int64]
    counts: Counter[str]
    shortened: int = 0

    @classmethod
    def read(cls, path: Path) -> RawFile:
        """Find and count the sentences of a file.

        Raises:
            CrossNERError: It holds no words.
        """
        starts, counts, start, shortened = array("q"), Counter[str](), 0, 0
        with path.open("rb") as stream:
            for line in stream:
                words = cut_words(line.decode("utf-8"))
                if words:
                    starts.append(start)
                    counts.update(words[:LONGEST])
                    shortened += len(words) > LONGEST
                start += len(line)
        if not starts:
            raise CrossNERError(f"{path} holds no words.", hint="Prepare the data with other raw text.")
        return cls(path, np.asarray(starts, np.int64), counts, shortened)

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.sentences(range(len(self))))

    def sentences(self, numbers: Sequence[int]) -> list[tuple[str, ...]]:
        """Read the words of some lines."""
        with self.path.open("rb") as stream:
            return [_read_sentence(stream, int(self.starts[number])) for number in numbers]


def _read_sentence(stream: BinaryIO, start: int) -> tuple[str, ...]:
    stream.seek(start)
    return cut_words(stream.readline().decode("utf-8"))[:LONGEST]


@dataclass(frozen=True)
class RawSentences:
    """The words of labelled sentences as raw text, for a domain without any."""

    words: Sequence[tuple[str, ...]]
    shortened = 0

    @cached_property
    def counts(self) -> Counter[str]:
        """Occurrences of each word."""
        return Counter(word for sentence in self.words for word in sentence)

    def __len__(self) -> int:
        return len(self.words)

    def sentences(self, numbers: Sequence[int]) -> list[tuple[str, ...]]:
        """Return the words of some sentences."""
        return [self.words[number] for number in numbers]


RawText = RawFile | RawSentences


@dataclass(frozen=True)
class RawStream:
    """Raw text in batches, in another order each epoch.

    Args:
        names: Dictionary that labels words, if any; other words are unlabelled, not O.
        phrases: True if names of several words count too.
    """

    text: RawText
    domain: str
    reader: Any
    batch_size: int
    seed: int
    tag_set: TagSet
    names: Names | None = None
    phrases: bool = False

    def epoch(self, number: int) -> list[list[int]]:
        """Shuffle and cut; the last batch may be smaller."""
        order = np.random.default_rng([self.seed, number, len(self.text)]).permutation(len(self.text))
        return [order[first : first + self.batch_size].tolist() for first in range(0, len(order), self.batch_size)]

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Pad the sentences."""
        found = self.text.sentences(items)
        batch: Batch = self.reader.collate(self.reader.encode([Sentence(words, None, self.domain) for words in found]))
        batch.is_raw = True
        if self.names is not None:
            batch.tags = batch.word_ids.new_full(batch.word_mask.shape, UNLABELLED)  # type: ignore[union-attr]
            for row, words in enumerate(found):
                for place, tag_id in label(words, self.names, self.tag_set, self.domain, phrases=self.phrases).items():
                    batch.tags[row, place] = tag_id
        return batch


def label(words: tuple[str, ...], names: Names, tag_set: TagSet, domain: str, *, phrases: bool) -> dict[int, int]:
    """Tag ids of the words in a dictionary, by place; all others are unlabelled, which is not O.

    Jia and Zhang (2020), section 4: a word that is an entry of the dictionary, in the same case, has its type. An entry
    of several words counts with ``phrases`` only; one of several types, or of a type that the domain lacks, never does.

    Args:
        phrases: Look for entries of several words, the longest first.
    """
    known = tag_set.domains.get(domain, tag_set.types)
    if phrases:
        spans = names.finder.find(words)
    else:
        spans = [(place, place + 1) for place, word in enumerate(words) if word in names.types]
    found: dict[int, int] = {}
    for first, last in spans:
        types = names.types[" ".join(words[first:last])]
        if len(types) == 1 and types[0] in known:
            tags = to_tags([Span(0, last - first, types[0])], last - first, tag_set.scheme)
            found |= dict(zip(range(first, last), tag_set.to_ids(tags), strict=True))
    return found
