"""Lists of names with their entity types, and a finder of names in sentences of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from crossner_cli.data.files import open_lines
from crossner_cli.data.tags import is_type
from crossner_cli.data.text import cut_words
from crossner_cli.errors import CrossNERError

Name = tuple[str, ...]  # its words
TypeSet = tuple[str, ...]
FORM = "name<TAB>type"
LISTED_TYPES = 40  # DBpedia has hundreds


class NameFinder:
    """A finder of names in sentences of words.

    Args:
        names: The names, each as its words joined by single spaces.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self._lengths: dict[str, tuple[int, ...]] = {}  # of the names that begin with a word, the longest first
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        for name in names:
            first, length = name.partition(" ")[0], name.count(" ") + 1
            known = self._lengths.get(first, ())
            if length not in known:
                lengths = tuple(sorted((*known, length), reverse=True))
                self._lengths[first] = shared.setdefault(lengths, lengths)

    def find_all(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield start and end of every name in a sentence, overlapping ones too; at a word the longest first."""
        for start, word in enumerate(words):
            for length in self._lengths.get(word, ()):
                if start + length <= len(words) and " ".join(words[start : start + length]) in self.names:
                    yield start, start + length

    def find(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """Return start and end of names in a sentence that do not overlap: from the left, the longest first."""
        found, free, names, find_lengths = [], 0, self.names, self._lengths.get
        for start, word in enumerate(words):
            if start < free:
                continue
            for length in find_lengths(word, ()):
                if " ".join(words[start : start + length]) in names:
                    free = min(start + length, len(words))
                    found.append((start, free))
                    break
        return found


@dataclass(frozen=True)
class Names:
    """Listed names with the entity types of each, in the order listed; a name is its words joined by single spaces.

    ``counts`` has the lines read, blank lines, names, repeated lines, and names with several types.
    """

    types: Mapping[str, TypeSet]
    counts: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def finder(self) -> NameFinder:
        """Make a finder of these names."""
        return NameFinder(self.types)

    def count_types(self) -> dict[str, int]:
        """Count the names of each type, in alphabetical order."""
        return dict(sorted(Counter(each for types in self.types.values() for each in types).items()))

    def list_types(self) -> str:
        """Return the types with their number of names for a message; of very many those with most names."""
        counts = self.count_types()
        shown = sorted(Counter(counts).most_common(LISTED_TYPES))
        more = f" and {len(counts) - LISTED_TYPES} more" if len(counts) > LISTED_TYPES else ""
        return ", ".join(f"{entity_type} ({count} names)" for entity_type, count in shown) + more


def read_names(paths: Sequence[Path], *, cut: Callable[[str], Sequence[str]] = cut_words) -> Names:
    """Read lists of names, one per line: ``name<TAB>type``. Blank lines are skipped.

    Args:
        paths: The lists.
        cut: Cuts a name into words, as the sentences are cut in which names are looked for.

    Raises:
        CrossNERError: A line is malformed, or there are no names.
    """
    counts = Counter[str](dict.fromkeys(("lines", "blank_lines", "names", "repeated", "names_with_several_types"), 0))
    types: dict[str, TypeSet] = {}
    shared: dict[TypeSet, TypeSet] = {}  # one tuple for all names of the same types
    for text, entity_type in _read_entries(paths, counts):
        name = " ".join(cut(text))
        known = types.get(name, ())
        if entity_type in known:
            counts["repeated"] += 1
            continue
        found = (*known, entity_type)
        types[name] = shared.setdefault(found, found)
        counts["names"] += not known
        counts["names_with_several_types"] += len(found) == 2
    return Names(types, dict(counts))


def _read_entries(paths: Sequence[Path], counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield the names as written, and their types."""
    for path in paths:
        for number, line in open_lines(path):
            counts["lines"] += 1
            fields = line.split("\t")
            if not line.strip():
                counts["blank_lines"] += 1
            elif len(fields) == 2 and fields[0].strip() and is_type(fields[1].strip()):
                yield fields[0], fields[1].strip()
            else:
                raise CrossNERError(
                    f"{path}:{number}: expected '{FORM}', got {line[:200]!r}.",
                    hint="Put exactly one tab between the name and its type. For a list of one type: "
                    "sed 's/$/\\tperson/' names.txt > names.tsv",
                )
    if counts["lines"] == counts["blank_lines"]:
        raise CrossNERError(f"{', '.join(map(str, paths))}: there are no names.", hint=f"Write one per line: {FORM}.")
