"""Raw text beside labelled sentences: one sentence per line, read from the file when it is needed."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

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
        found = []
        with self.path.open("rb") as stream:
            for number in numbers:
                stream.seek(int(self.starts[number]))
                found.append(cut_words(stream.readline().decode("utf-8"))[:LONGEST])
        return found


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
class Dictionary:
    """Listed names that label words of the target's raw text.

    Args:
        types: The types of the target that they teach.
        phrases: True if names of several words label words too.
    """

    names: Names
    types: Sequence[str]
    phrases: bool = False

    def labelling_names(self) -> list[str]:
        """Return the names that label words: those of one type, which is taught, and of one word or any number."""
        found = self.names.types.items()
        single = [name for name, types in found if len(types) == 1 and types[0] in self.types]
        return [name for name in single if self.phrases or " " not in name]

    def describe(self) -> str:
        """Describe how many names can label a word."""
        of_words = "" if self.phrases else " and are of one word"
        return (
            f"dictionary: {len(self.labelling_names()):,} of {len(self.names.types):,} names have one type, of"
            f" {', '.join(self.types) or 'none'}{of_words}: these label words of raw text"
        )

    def describe_in(self, counts: Mapping[str, int]) -> str:
        """Describe the names, and how many are in raw text, given how often each of its words occurs.

        Raises:
            CrossNERError: None of the names is in it.
        """
        labelling = self.labelling_names()
        met = sum(all(word in counts for word in name.split()) for name in labelling)
        if not met:
            raise CrossNERError(
                f"--set dictionary labels nothing: none of its {len(labelling):,} names of the target's types is in the"
                f" raw text of the target, as {labelling[0]!r}.",
                hint="Write names as the text does, in the same case; or prepare the data with --corpus FILE that has"
                " them.",
            )
        return f"{self.describe()}; the words of {met:,} are in it"

    def label(self, words: tuple[str, ...], tag_set: TagSet, domain: str) -> dict[int, int]:
        """Find tag ids of words of a sentence, by place; all others are unlabelled, which is not O.

        Jia and Zhang (2020), section 4: a word that is an entry of the dictionary, in the same case, has its type. An
        entry of several words counts with ``phrases`` only, the longest first; one of several types, or of a type that
        the domain lacks, never does.
        """
        known = tag_set.domains.get(domain, tag_set.types)
        if self.phrases:
            spans = self.names.finder.find(words)
        else:
            spans = [(place, place + 1) for place, word in enumerate(words) if word in self.names.types]
        found: dict[int, int] = {}
        for first, last in spans:
            types = self.names.types[" ".join(words[first:last])]
            if len(types) == 1 and types[0] in known:
                tags = to_tags([Span(0, last - first, types[0])], last - first, tag_set.scheme)
                found |= dict(zip(range(first, last), tag_set.to_ids(tags), strict=True))
        return found


@dataclass(frozen=True)
class RawStream:
    """Raw text in batches, in another order each epoch; words that no dictionary labels are unlabelled, not O."""

    text: RawText
    domain: str
    reader: Any
    batch_size: int
    seed: int
    tag_set: TagSet
    dictionary: Dictionary | None = None

    def epoch(self, number: int) -> list[list[int]]:
        """Shuffle and cut; the last batch may be smaller."""
        order = np.random.default_rng([self.seed, number, len(self.text)]).permutation(len(self.text))
        return [order[first : first + self.batch_size].tolist() for first in range(0, len(order), self.batch_size)]

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Pad the sentences."""
        found = self.text.sentences(items)
        batch: Batch = self.reader.collate(self.reader.encode([Sentence(words, None, self.domain) for words in found]))
        batch.is_raw = True
        if self.dictionary is not None:
            batch.tags = batch.word_ids.new_full(batch.word_mask.shape, UNLABELLED)  # type: ignore[union-attr]
            for row, words in enumerate(found):
                for place, tag_id in self.dictionary.label(words, self.tag_set, self.domain).items():
                    batch.tags[row, place] = tag_id
        return batch
