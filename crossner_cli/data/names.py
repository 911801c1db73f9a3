"""Lists of names with their entity types, and two finders of names.

``NameFinder`` finds names in sentences of words, a sentence at a time. ``NameIndex`` finds millions of names in much
text at once: every name is a sequence of words of ``word_scan``, kept as one 64-bit hash, and so is every beginning of
a name. A search looks up the first word of all places, then two words of the places where a longer name may begin, and
so on. So the time hardly depends on the number of names, a name takes some thirty bytes, and processes share the
memory. Two sequences are taken for one another with a probability of about one in 10^13 for a million names.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.files import open_lines
from crossner_cli.data.tags import is_type
from crossner_cli.data.text import cut_words
from crossner_cli.data.word_scan import Hashes, Places, WordScan, mix_hashes, scan_words
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import save_array

Name = tuple[str, ...]
Entry = tuple[str, str]
FORM = "name<TAB>type"
Case = Literal["exact", "ignore"]
Gathered = dict[int, list[Hashes]]
TypeSet = tuple[str, ...]
BEGINS_NAME, IS_NAME = 1, 2
SEQUENCE_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
SLOTS_PER_SEQUENCE = 8
NAMES_AT_ONCE = 1 << 16
LISTED_TYPES = 40  # DBpedia has hundreds
ARRAYS = ("first", "longer", "hashes", "buckets", "type_numbers")
NAME_COUNTS = ("lines", "blank_lines", "names", "repeated", "names_with_several_types")


class NameFinder:
    """A finder of names, given as words, in sentences of words; a name without words is nowhere."""

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
    """Listed names as words, with the entity types of each in the order listed."""

    types: dict[Name, TypeSet]

    @cached_property
    def finder(self) -> NameFinder:
        """A finder of these names."""
        return NameFinder(self.types)


def read_names(paths: Sequence[Path]) -> Names:
    """Read lists of names, a line each: ``name<TAB>type``. Blank lines are skipped.

    Raises:
        CrossNERError: A line is malformed, or there is no name at all.
    """
    types: dict[Name, TypeSet] = {}
    for text, entity_type in read_entries(paths, Counter()):
        known = types.setdefault(name := cut_words(text), ())
        if entity_type not in known:
            types[name] = (*known, entity_type)
    return Names(types)


def read_entries(paths: Sequence[Path], counts: Counter[str]) -> Iterator[Entry]:
    """Read lists of names, a line each: ``name<TAB>type``; yield names as written, and types.

    ``lines`` and ``blank_lines`` are counted; the other ``NAME_COUNTS`` start at 0.

    Raises:
        CrossNERError: A line is malformed, or there is no name at all.
    """
    counts.update(dict.fromkeys(NAME_COUNTS, 0))
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
        raise CrossNERError(f"{', '.join(map(str, paths))}: no name was found.", hint=f"Write a line each: {FORM}.")


@dataclass(frozen=True)
class Mentions:
    """Names in a text from the left, (M,): first word, the word behind, number of the name; none overlaps another."""

    starts: Places
    ends: Places
    names: Places


@dataclass(frozen=True)
class NameIndex:
    """Listed names with their types.

    Args:
        first: Flags of the first words of names by the low bits of their hash, (a power of two,).
        longer: Flags of longer sequences in the same way.
        hashes: The hash of each name, ascending, (N,).
        buckets: The first place in ``hashes`` of each beginning of bits, then N, (a power of two + 1,).
        type_numbers: The number of each name's types in ``type_sets``, (N,).
        type_sets: The entity types that names have, each in the order listed.
        counts: ``NAME_COUNTS``.
    """

    ignore_case: bool
    first: NDArray[np.uint8]
    longer: NDArray[np.uint8]
    hashes: Hashes
    buckets: NDArray[np.uint32]
    type_numbers: NDArray[np.uint32]
    type_sets: tuple[TypeSet, ...]
    counts: dict[str, int]

    def count_types(self) -> dict[str, int]:
        """Count the names of each type, in alphabetical order."""
        found: Counter[str] = Counter()
        for number, count in enumerate(np.bincount(self.type_numbers, minlength=len(self.type_sets)).tolist()):
            found.update(dict.fromkeys(self.type_sets[number], count))
        return dict(sorted(found.items()))

    def list_types(self) -> str:
        """Return the types with their number of names for a message; of very many those with most names."""
        counts = self.count_types()
        shown = sorted(Counter(counts).most_common(LISTED_TYPES))
        more = f" and {len(counts) - LISTED_TYPES} more" if len(counts) > LISTED_TYPES else ""
        return ", ".join(f"{entity_type} ({count} names)" for entity_type, count in shown) + more

    def find(self, scan: WordScan) -> Mentions:
        """Find the names in some lines: from the left, the longest first, over whole words, within a line."""
        words = scan.hash_words(ignore_case=self.ignore_case)
        lines = np.append(scan.line_of_word, -1)
        lengths, names = np.zeros(len(words), np.int32), np.zeros(len(words), np.int64)
        flags = _flags_of(self.first, words)
        places, length = np.flatnonzero(flags), 1
        flags, sequences = flags[places], words[places]
        while len(places):
            whole = np.flatnonzero(flags & IS_NAME)
            found, numbers = self._look_up(sequences[whole])
            lengths[places[whole[found]]] = length  # a longer name overwrites a shorter one
            names[places[whole[found]]] = numbers
            longer = np.flatnonzero(flags & BEGINS_NAME)
            longer = longer[lines[places[longer] + length] == lines[places[longer]]]
            places = places[longer]
            sequences = _lengthen(sequences[longer], words[places + length])
            flags, length = _flags_of(self.longer, sequences), length + 1
        starts = np.flatnonzero(lengths)
        starts = starts[_choose_leftmost(starts, starts + lengths[starts])]
        return Mentions(starts, starts + lengths[starts], names[starts])

    def _look_up(self, hashes: Hashes) -> tuple[Places, Places]:
        """Return which of some hashes are names, and which names."""
        buckets = (hashes >> np.uint64(64 - (len(self.buckets) - 1).bit_length() + 1)).astype(np.int64)
        places, ends = self.buckets[buckets].astype(np.int64), self.buckets[buckets + 1]
        rows, found = np.flatnonzero(places < ends), [places[:0]]
        while len(rows):
            same = self.hashes[places[rows]] == hashes[rows]
            found.append(rows[same])
            rows = rows[~same]
            places[rows] += 1
            rows = rows[places[rows] < ends[rows]]
        whole = np.concatenate(found)
        return whole, places[whole]

    def save(self, folder: Path) -> None:
        """Write it as NumPy arrays and a JSON record, for processes to map instead of read."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ARRAYS:
            save_array(folder / f"{name}.npy", getattr(self, name))
        record = {"ignore_case": self.ignore_case, "type_sets": self.type_sets, "counts": self.counts}
        (folder / "names.json").write_text(json.dumps(record), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> NameIndex:
        """Map what ``save`` wrote; processes of one machine share the memory."""
        record: dict[str, Any] = json.loads((folder / "names.json").read_text(encoding="utf-8"))
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
        return cls(
            ignore_case=record["ignore_case"],
            **{name: np.asarray(array) for name, array in arrays.items()},
            type_sets=tuple(map(tuple, record["type_sets"])),
            counts=record["counts"],
        )


def read_name_index(paths: Sequence[Path], *, case: Case = "exact") -> NameIndex:
    """Read lists of names, a line each: ``name<TAB>type``; with ``case`` ``ignore`` they are found in any case.

    Raises:
        CrossNERError: A line is malformed, or there is no name at all.
    """
    counts = Counter[str]()
    return index_names(read_entries(paths, counts), case=case, counts=counts)


def index_names(entries: Iterable[Entry], *, case: Case = "exact", counts: Counter[str] | None = None) -> NameIndex:
    """Make an index of names and their types; ``counts`` are carried on."""
    counts = Counter() if counts is None else counts
    types: dict[str, int] = {}
    hashes, numbers = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint32)]
    first, longer = ({flag: [np.zeros(0, np.uint64)] for flag in (IS_NAME, BEGINS_NAME)} for _ in range(2))
    stream = iter(entries)
    while some := list(islice(stream, NAMES_AT_ONCE)):
        scan = scan_words("\n".join(" ".join(name.split()) for name, _ in some))
        hashes.append(_hash_names(scan, first, longer, ignore_case=case == "ignore"))
        numbers.append(np.array([types.setdefault(entity_type, len(types)) for _, entity_type in some], np.uint32))
    names, type_numbers, type_sets = _join_types(np.concatenate(hashes), np.concatenate(numbers), tuple(types), counts)
    # There are about as many beginnings of bits as names.
    bits = max(1, (len(names) - 1).bit_length())
    beginnings = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return NameIndex(
        ignore_case=case == "ignore",
        first=_make_flags(first),
        longer=_make_flags(longer),
        hashes=names,
        buckets=np.append(np.searchsorted(names, beginnings), len(names)).astype(np.uint32),
        type_numbers=type_numbers,
        type_sets=type_sets,
        counts=dict(counts),
    )


def _make_flags(gathered: Gathered) -> NDArray[np.uint8]:
    """Make a table of flags by the low bits of hashes, sparse enough to be wrong about few others."""
    distinct = {flag: np.unique(np.concatenate(parts)) for flag, parts in gathered.items()}
    slots = SLOTS_PER_SEQUENCE * sum(map(len, distinct.values()))
    table = np.zeros(1 << max(8, (slots - 1).bit_length()), np.uint8)
    for flag, hashes in distinct.items():
        table[hashes & np.uint64(len(table) - 1)] |= np.uint8(flag)
    return table


def _hash_names(scan: WordScan, first: Gathered, longer: Gathered, *, ignore_case: bool) -> Hashes:
    """Hash names, a line each, (n,), and gather all names and beginnings of names: of one word, and longer ones."""
    words, counts, begins = scan.hash_words(ignore_case=ignore_case), scan.words_of_lines, scan.first_words[:-1]
    hashes = np.zeros(len(counts), np.uint64)
    rows, sequences, length = np.arange(len(counts)), words[begins], 1
    while len(rows):
        is_whole = counts[rows] == length
        hashes[rows[is_whole]] = sequences[is_whole]
        gathered = first if length == 1 else longer
        gathered[IS_NAME].append(np.unique(sequences[is_whole]))
        gathered[BEGINS_NAME].append(np.unique(sequences[~is_whole]))
        rows = rows[~is_whole]
        sequences = _lengthen(sequences[~is_whole], words[begins[rows] + length])
        length += 1
    return hashes


def _join_types(
    hashes: Hashes, numbers: NDArray[np.uint32], types: TypeSet, counts: Counter[str]
) -> tuple[Hashes, NDArray[np.uint32], tuple[TypeSet, ...]]:
    """Join the lines of each name, given the name and the number of the type of each, (n,), and the types; count them.

    Returns:
        Distinct hashes, ascending, (N,); the number of each one's types, (N,); and the sets of types.
    """
    order = np.argsort(hashes, kind="stable")
    hashes, numbers = hashes[order], numbers[order]
    names, begins, sizes = np.unique(hashes, return_index=True, return_counts=True)
    type_sets = {(name,): number for number, name in enumerate(types)}
    sets, distinct = numbers[begins], len(names)
    for row in np.flatnonzero(sizes > 1).tolist():
        listed = dict.fromkeys(numbers[begins[row] : begins[row] + sizes[row]].tolist())
        sets[row] = type_sets.setdefault(tuple(types[number] for number in listed), len(type_sets))
        distinct += len(listed) - 1
        counts["names_with_several_types"] += len(listed) > 1
    counts["names"] += len(names)
    counts["repeated"] += len(hashes) - distinct
    return names, sets, tuple(type_sets)


def _flags_of(table: NDArray[np.uint8], hashes: Hashes) -> NDArray[np.uint8]:
    return np.asarray(table[hashes & np.uint64(len(table) - 1)])


def _lengthen(sequences: Hashes, words: Hashes) -> Hashes:
    return mix_hashes(sequences * SEQUENCE_MULTIPLIER + words)


def _choose_leftmost(starts: Places, ends: Places) -> NDArray[np.bool_]:
    """Choose from the left what does not overlap what was chosen before; the starts ascend."""
    overlaps = starts[1:] < np.maximum.accumulate(ends)[:-1]
    touched = np.append(overlaps, False) | np.append(False, overlaps) if len(starts) else np.zeros(0, np.bool_)
    chosen, free = ~touched, 0
    for number in np.flatnonzero(touched).tolist():
        if starts[number] >= free:
            chosen[number], free = True, ends[number]
    return chosen
