"""Lists of names with their entity types, and the names in a sentence of words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from crossner_cli.data.files import open_lines
from crossner_cli.data.text import cut_words
from crossner_cli.errors import CrossNERError

Name = tuple[str, ...]
Entry = tuple[str, str]
FORM = "name<TAB>type"


class NameFinder:
    """A finder of names in sentences of words.

    Args:
        names: Words of each name; a name without words is nowhere.
    """

    def __init__(self, names: Iterable[Name]) -> None:
        self.names = frozenset(names) - {()}
        lengths: dict[str, set[int]] = defaultdict(set)
        for name in self.names:
            lengths[name[0]].add(len(name))
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    def find_all(self, words: Name) -> Iterator[tuple[int, int]]:
        """Yield start and end of every name in a sentence, overlapping ones too; at a word the longest first."""
        for start, word in enumerate(words):
            for length in self._lengths.get(word, ()):
                name = words[start : start + length]
                if len(name) == length and name in self.names:
                    yield start, start + length

    def find(self, words: Name) -> list[tuple[int, int]]:
        """Return start and end of names in a sentence that do not overlap: from the left, the longest first."""
        found, free = [], 0
        for start, end in self.find_all(words):
            if start >= free:
                found.append((start, end))
                free = end
        return found


@dataclass(frozen=True)
class Names:
    """Listed names as words.

    Args:
        types: The entity types of each name, in the order listed.
        counts: Lines, blank lines, distinct names, repeated lines, names listed with several types.
    """

    types: dict[Name, tuple[str, ...]]
    counts: dict[str, int]

    @cached_property
    def finder(self) -> NameFinder:
        """A finder of these names."""
        return NameFinder(self.types)


def read_names(paths: Sequence[Path]) -> Names:
    """Read lists of names, a line each: ``name<TAB>type``. Blank lines are skipped.

    Raises:
        CrossNERError: A line is malformed, or there is no name at all.
    """
    types: dict[Name, tuple[str, ...]] = {}
    counts = Counter[str]()
    for text, entity_type in read_entries(paths, counts):
        name = cut_words(text)
        known = types.setdefault(name, ())
        counts["repeated"] += entity_type in known
        if entity_type not in known:
            types[name] = (*known, entity_type)
    counts.update(names=len(types), names_with_several_types=sum(len(of_name) > 1 for of_name in types.values()))
    return Names(types, dict(counts))


def read_entries(paths: Sequence[Path], counts: Counter[str]) -> Iterator[Entry]:
    """Read lists of names, a line each: ``name<TAB>type``; yield names as written, and types.

    Args:
        paths: The lists.
        counts: Where ``lines`` and ``blank_lines`` are counted; the counts of names start at 0.

    Raises:
        CrossNERError: A line is malformed, or there is no name at all.
    """
    counts.update(dict.fromkeys(("lines", "blank_lines", "names", "repeated", "names_with_several_types"), 0))
    for path in paths:
        for number, line in open_lines(path):
            counts["lines"] += 1
            if line.strip():
                yield _parse_entry(path, number, line)
            else:
                counts["blank_lines"] += 1
    if counts["lines"] == counts["blank_lines"]:
        raise CrossNERError(f"{', '.join(map(str, paths))}: no name was found.", hint=f"Write a line each: {FORM}.")


def _parse_entry(path: Path, number: int, line: str) -> Entry:
    fields = line.split("\t")
    if len(fields) != 2 or not all(field.strip() for field in fields):
        raise CrossNERError(
            f"{path}:{number}: expected '{FORM}', got {line[:200]!r}.",
            hint="Put exactly one tab between the name and its type. For a list of one type: "
            "sed 's/$/\\tperson/' names.txt > names.tsv",
        )
    return fields[0], fields[1].strip()
