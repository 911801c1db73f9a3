"""Millions of names found in a text at once: hashes of words and of sequences of words, looked up with NumPy.

Every name is a sequence of words of ``word_scan``, kept as one 64-bit hash, and so is every beginning of a name. A
search looks up the first word of all places, then two words of the places that may begin a longer name, and so on. So
the time hardly depends on how many names there are, and a name takes some thirty bytes, whatever its length. Two
different sequences are taken for one another with a chance of about one in 10^13 for a million names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.names import read_entries
from crossner_cli.data.word_scan import Hashes, Places, WordScan, mix, scan_words
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import save_array

Case = Literal["exact", "smart", "ignore"]
TypeSet = tuple[str, ...]
Entry = tuple[str, str]
BEGINS_NAME, IS_NAME = 1, 2
SEQUENCE_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
SLOTS_PER_SEQUENCE = 8
NAMES_AT_ONCE = 1 << 16
LISTED_TYPES = 40  # DBpedia has hundreds
ARRAYS = ("first", "longer", "hashes", "buckets", "type_sets")


@dataclass(frozen=True)
class Mentions:
    """Names in a text, none overlapping another, from the left.

    Args:
        starts: The first word of each, counted through the text, (M,).
        ends: The word behind each, (M,).
        names: The number of the name, (M,).
    """

    starts: Places
    ends: Places
    names: Places


@dataclass(frozen=True)
class NameTable:
    """Names whose case is treated alike.

    Args:
        folded: Whether they are found in any case.
        first: Flags of the first words, by the low bits of their hash; a power of two of them.
        longer: Flags of longer sequences, in the same way.
        hashes: Hash of each name, ascending, (N,).
        buckets: Where in ``hashes`` those begin that have the same high bits, by these; a power of two and one more.
        type_sets: The number of each name's types in ``NameIndex.type_sets``, (N,).
    """

    folded: bool
    first: NDArray[np.uint8]
    longer: NDArray[np.uint8]
    hashes: Hashes
    buckets: NDArray[np.uint32]
    type_sets: NDArray[np.uint32]

    def find(self, scan: WordScan) -> Iterator[tuple[int, Places, Places]]:
        """Every sequence of words that is a name: how many words, where it begins, which name; the shortest first."""
        if not len(self.hashes):
            return
        words, lines = scan.hashes(folded=self.folded), scan.line_of_word
        flags = self.first[words & np.uint64(len(self.first) - 1)]
        places = np.flatnonzero(flags)
        flags, sequences, length = flags[places], words[places], 1
        while len(places):
            whole = np.flatnonzero(flags & IS_NAME)
            found, names = self._look_up(sequences[whole])
            if len(found):
                yield length, places[whole[found]], names
            goes_on = np.flatnonzero((flags & BEGINS_NAME) != 0)
            goes_on = goes_on[places[goes_on] + length < len(words)]
            goes_on = goes_on[lines[places[goes_on] + length] == lines[places[goes_on]]]
            places = places[goes_on]
            sequences = _lengthened(sequences[goes_on], words[places + length])
            flags = self.longer[sequences & np.uint64(len(self.longer) - 1)]
            may_be = np.flatnonzero(flags)
            places, sequences, flags, length = places[may_be], sequences[may_be], flags[may_be], length + 1

    def _look_up(self, hashes: Hashes) -> tuple[Places, Places]:
        """Which of some hashes are names, and which names."""
        rows = np.arange(len(hashes))
        places, ends = self._bucket(hashes)
        found, names = [rows[:0]], [rows[:0]]
        while len(rows):
            left = np.flatnonzero(places < ends)
            rows, places, ends = rows[left], places[left], ends[left]
            same = self.hashes[places] == hashes[rows]
            found.append(rows[same])
            names.append(places[same])
            rows, places, ends = rows[~same], places[~same] + 1, ends[~same]
        return np.concatenate(found), np.concatenate(names)

    def _bucket(self, hashes: Hashes) -> tuple[Places, Places]:
        numbers = (hashes >> np.uint64(64 - (len(self.buckets) - 1).bit_length() + 1)).astype(np.int64)
        return self.buckets[numbers].astype(np.int64), self.buckets[numbers + 1].astype(np.int64)


@dataclass(frozen=True)
class NameIndex:
    """Listed names with their types, made to be found in much text.

    Args:
        tables: Names by how their case is treated; a name's number counts through them.
        type_sets: The entity types that names have, each in the order listed.
        counts: Lines, blank lines, distinct names, repeated lines, names listed with several types.
    """

    tables: tuple[NameTable, ...]
    type_sets: tuple[TypeSet, ...]
    counts: dict[str, int] = field(default_factory=dict)

    def names_of_type(self) -> dict[str, int]:
        """How many names each type has, by type in alphabetical order."""
        found: Counter[str] = Counter()
        for table in self.tables:
            for number, count in enumerate(np.bincount(table.type_sets, minlength=len(self.type_sets)).tolist()):
                found.update(dict.fromkeys(self.type_sets[number], count))
        return dict(sorted(found.items()))

    def list_types(self) -> str:
        """The types with their number of names, as a message shows them: of very many those with most names."""
        counts = self.names_of_type()
        shown = sorted(Counter(counts).most_common(LISTED_TYPES))
        more = f" and {len(counts) - LISTED_TYPES} more" if len(counts) > LISTED_TYPES else ""
        return ", ".join(f"{entity_type} ({count} names)" for entity_type, count in shown) + more

    def sets_of_names(self) -> NDArray[np.uint32]:
        """The number of each name's types in ``type_sets``, (N,)."""
        return np.concatenate([table.type_sets for table in self.tables])

    def find(self, scan: WordScan) -> Mentions:
        """Find the names in some lines: from the left, the longest first, over whole words, none over a line's end.

        Of two names of one length, one in its own case goes before one in any case.
        """
        lengths = np.zeros(len(scan.starts), np.int32)
        names = np.zeros(len(scan.starts), np.int64)
        before = 0
        for table in self.tables:
            for length, places, found in table.find(scan):
                longer = lengths[places] < length
                lengths[places[longer]] = length
                names[places[longer]] = found[longer] + before
            before += len(table.hashes)
        starts = np.flatnonzero(lengths)
        chosen = starts[_leftmost(starts, starts + lengths[starts])]
        return Mentions(chosen, chosen + lengths[chosen], names[chosen])

    def save(self, folder: Path) -> None:
        """Write it as NumPy arrays and a JSON record, for processes to map instead of read."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, table in enumerate(self.tables):
            for part in ARRAYS:
                save_array(folder / f"{number}-{part}.npy", getattr(table, part))
        record = {"folded": [table.folded for table in self.tables], "type_sets": self.type_sets, "counts": self.counts}
        (folder / "names.json").write_text(json.dumps(record), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> NameIndex:
        """Map what ``save`` wrote; processes of one machine share the memory."""
        record: dict[str, Any] = json.loads((folder / "names.json").read_text(encoding="utf-8"))
        tables = []
        for number, folded in enumerate(record["folded"]):
            arrays = [np.load(folder / f"{number}-{part}.npy", mmap_mode="r", allow_pickle=False) for part in ARRAYS]
            tables.append(NameTable(folded, *map(np.asarray, arrays)))
        return cls(tuple(tables), tuple(map(tuple, record["type_sets"])), record["counts"])


def read_name_index(paths: Sequence[Path], *, case: Case = "exact") -> NameIndex:
    """Read lists of names.

    Args:
        paths: The lists, as ``read_entries`` reads them.
        case: ``exact``: names are found as they are written; ``ignore``: in any case; ``smart``: names without a
            capital letter in any case, all others as they are written.

    Raises:
        CrossNERError: A line is malformed, or there is no name at all.
    """
    counts = Counter({"lines": 0, "blank_lines": 0, "names": 0, "repeated": 0, "names_with_several_types": 0})
    index = index_names(read_entries(paths, counts), case=case, counts=counts)
    if not index.counts["names"]:
        raise CrossNERError(
            f"The entity lists hold no name: {', '.join(map(str, paths))}.", hint="Write a line each: name<TAB>type."
        )
    return index


def index_names(entries: Iterable[Entry], *, case: Case = "exact", counts: Counter[str] | None = None) -> NameIndex:
    """Make an index of names and their types; ``counts`` are carried on."""
    exact, folded = _Collected(), _Collected()
    types: dict[str, int] = {}
    stream = iter(entries)
    while some := list(islice(stream, NAMES_AT_ONCE)):
        names = [" ".join(name.split()) for name, _ in some]
        numbers = np.array([types.setdefault(entity_type, len(types)) for _, entity_type in some], np.uint32)
        is_folded = np.array([case == "ignore" or (case == "smart" and name == name.lower()) for name in names])
        exact.add([name for name, fold in zip(names, is_folded, strict=True) if not fold], numbers[~is_folded], False)
        folded.add([name for name, fold in zip(names, is_folded, strict=True) if fold], numbers[is_folded], True)
    listed, type_sets = tuple(types), dict[TypeSet, int]()
    counts = Counter() if counts is None else counts
    tables = (exact.table(False, listed, type_sets, counts), folded.table(True, listed, type_sets, counts))
    return NameIndex(tables, tuple(type_sets), dict(counts))


class _Collected:
    """Hashes of names and of their beginnings, gathered from the pieces of a list."""

    def __init__(self) -> None:
        self.names: list[Hashes] = []
        self.types: list[NDArray[np.uint32]] = []
        self.first: dict[int, list[Hashes]] = {BEGINS_NAME: [], IS_NAME: []}
        self.longer: dict[int, list[Hashes]] = {BEGINS_NAME: [], IS_NAME: []}

    def add(self, names: Sequence[str], types: NDArray[np.uint32], folded: bool) -> None:
        """Take in names without repeated spaces, and the number of each one's type."""
        if not names:
            return
        scan = scan_words("\n".join(names))
        words, counts, first = scan.hashes(folded=folded), scan.words_of_lines, scan.first_words[:-1]
        hashes = np.zeros(len(names), np.uint64)
        rows, sequences, length = np.arange(len(names)), words[first], 1
        while len(rows):
            flags = self.first if length == 1 else self.longer
            ends = counts[rows] == length
            hashes[rows[ends]] = sequences[ends]
            for flag, chosen in ((IS_NAME, ends), (BEGINS_NAME, ~ends)):
                flags[flag].append(np.unique(sequences[chosen]))
            rows, sequences = rows[~ends], sequences[~ends]
            sequences = _lengthened(sequences, words[first[rows] + length])
            length += 1
        self.names.append(hashes)
        self.types.append(types)

    def table(self, folded: bool, types: TypeSet, type_sets: dict[TypeSet, int], counts: Counter[str]) -> NameTable:
        """Make the table, adding the sets of types that names have to ``type_sets``."""
        first, longer = _flags(self.first), _flags(self.longer)
        if not self.names:
            nothing = np.zeros(0, np.uint64)
            return NameTable(folded, first, longer, nothing, _buckets(nothing), nothing.astype(np.uint32))
        hashes, numbers = np.concatenate(self.names), np.concatenate(self.types)
        order = np.argsort(hashes, kind="stable")
        hashes, numbers = hashes[order], numbers[order]
        begins = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
        sizes = np.diff(np.append(begins, len(hashes)))
        singles = np.array([type_sets.setdefault((name,), len(type_sets)) for name in types], np.uint32)
        sets = singles[numbers[begins]]
        distinct = len(begins)
        for row in np.flatnonzero(sizes > 1).tolist():
            listed = dict.fromkeys(numbers[begins[row] : begins[row] + sizes[row]].tolist())
            distinct += len(listed) - 1
            sets[row] = type_sets.setdefault(tuple(types[number] for number in listed), len(type_sets))
            counts["names_with_several_types"] += len(listed) > 1
        counts["names"] += len(begins)
        counts["repeated"] += len(hashes) - distinct
        return NameTable(folded, first, longer, hashes[begins], _buckets(hashes[begins]), sets)


def _flags(sequences: dict[int, list[Hashes]]) -> NDArray[np.uint8]:
    """Flags by the low bits of hashes, in a table sparse enough to be wrong about few others."""
    gathered = {flag: np.unique(np.concatenate(parts)) for flag, parts in sequences.items() if parts}
    total = sum(map(len, gathered.values()))
    flags = np.zeros(1 << max(8, (SLOTS_PER_SEQUENCE * total - 1).bit_length()), np.uint8)
    for flag, hashes in gathered.items():
        flags[hashes & np.uint64(len(flags) - 1)] |= np.uint8(flag)
    return flags


def _buckets(hashes: Hashes) -> NDArray[np.uint32]:
    """Where those of each beginning of bits start; there are about as many beginnings as hashes."""
    bits = max(1, (len(hashes) - 1).bit_length())
    beginnings = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return np.append(np.searchsorted(hashes, beginnings), len(hashes)).astype(np.uint32)


def _lengthened(sequences: Hashes, words: Hashes) -> Hashes:
    return mix(sequences * SEQUENCE_MULTIPLIER + words)


def _leftmost(starts: Places, ends: Places) -> NDArray[np.bool_]:
    """Choose from the left what does not overlap what was chosen before; the starts ascend."""
    chosen = np.ones(len(starts), np.bool_)
    if len(starts) < 2:
        return chosen
    overlaps = starts[1:] < np.maximum.accumulate(ends)[:-1]
    touched = np.flatnonzero(np.append(overlaps, False) | np.insert(overlaps, 0, False))
    chosen[touched] = False
    # Of a row of places that overlap one another the first is chosen, then the first that begins behind it, and so on;
    # all rows at once.
    begins = np.flatnonzero(~overlaps[np.maximum(touched - 1, 0)] | (touched == 0))
    row_ends = np.append(begins[1:], len(touched))
    following = np.searchsorted(starts[touched], ends[touched])
    while len(begins):
        chosen[touched[begins]] = True
        begins = following[begins]
        left = begins < row_ends
        begins, row_ends = begins[left], row_ends[left]
    return chosen
