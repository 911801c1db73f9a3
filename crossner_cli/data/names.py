"""Lists of names with their entity types, and where the names are in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crossner_cli.data.text import find_words
from crossner_cli.data.text_files import open_lines
from crossner_cli.errors import CrossNERError

Name = tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """Listed names as words, made to be found in sentences.

    Args:
        types: The entity types of each name, in the order listed.
        lengths: By first word, how many words its names have, longest first.
        counts: Lines, blank lines, distinct names, repeated lines, names listed with several types.
    """

    types: dict[Name, tuple[str, ...]]
    lengths: dict[str, tuple[int, ...]]
    counts: dict[str, int]

    def find(self, words: Name) -> list[tuple[int, int]]:
        """Spans of the names in a sentence, in words, end exclusive: from the left, the longest first."""
        found, free = [], 0
        for start in [position for position, word in enumerate(words) if word in self.lengths]:
            if start < free:
                continue
            for length in self.lengths[words[start]]:
                name = words[start : start + length]
                if name in self.types:
                    free = start + len(name)
                    found.append((start, free))
                    break
        return found


def read_names(paths: Sequence[Path]) -> Names:
    """Read lists of names, a line each: ``name<TAB>type``. Blank lines are passed over.

    Raises:
        CrossNERError: A line is not of that form, or there is no name at all.
    """
    types: dict[Name, tuple[str, ...]] = {}
    counts = Counter({"lines": 0, "blank_lines": 0, "names": 0, "repeated": 0, "names_with_several_types": 0})
    for text, entity_type in read_entries(paths, counts):
        name = tuple(word.text for word in find_words(text))
        known = types.setdefault(name, ())
        counts["repeated"] += entity_type in known
        if entity_type not in known:
            types[name] = (*known, entity_type)
    if not types:
        raise CrossNERError(
            f"The lists of names hold no name: {', '.join(map(str, paths))}.", hint="Write a line each: name<TAB>type."
        )
    counts.update(names=len(types), names_with_several_types=sum(len(of_name) > 1 for of_name in types.values()))
    lengths: dict[str, set[int]] = {}
    for name in types:
        lengths.setdefault(name[0], set()).add(len(name))
    return Names(types, {word: tuple(sorted(found, reverse=True)) for word, found in lengths.items()}, dict(counts))


def read_entries(paths: Sequence[Path], counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Read lists of names, a line each: ``name<TAB>type``; return names as written, and types.

    Args:
        paths: The lists.
        counts: Where ``lines`` and ``blank_lines`` are counted.

    Raises:
        CrossNERError: A line is not of that form.
    """
    for path in paths:
        for number, line in open_lines(path):
            counts["lines"] += 1
            if line.strip():
                yield _parse_entry(path, number, line)
            else:
                counts["blank_lines"] += 1


def _parse_entry(path: Path, number: int, line: str) -> tuple[str, str]:
    """Read a line of an entity list."""
    fields = line.split("\t")
    if len(fields) != 2 or not all(field.strip() for field in fields):
        raise CrossNERError(
            f"{path}:{number}: expected 'name<TAB>type', got {line[:200]!r}.",
            hint="Put one tab between the name and its type, and none elsewhere. A list of one type becomes such a file"
            " with: sed 's/$/\\tperson/' names.txt > names.tsv",
        )
    return fields[0], fields[1].strip()
