"""Names with their types from RDF: the instance types, labels and ontology of DBpedia, or any RDF of that shape.

An entity counts for its most specific classes, by the ontology's hierarchy. Brackets at the end of a label, as in
"Queen (band)", tell pages apart and stand in no sentence, so they are left out.

Paper: Liu et al. (2021), CrossNER, take sentences with "domain-specialised" entities of the DBpedia Ontology as task
level, and do not say of which classes. Here they are the classes of the types that no other of the five domains and no
news has: the published task levels, 4 to 13% of the text, are too small for countries, awards or events.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from crossner_cli import figures
from crossner_cli.corpus.triples import LABEL, SUBCLASS, TYPE, check_xml, read_triples
from crossner_cli.data.statistics import STOP_WORDS
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, Work

HEAD, BATCH, TRIPLES_BETWEEN_SIGNS = 100, 50_000, 100_000
MOST_SUPERCLASSES = 1000
# The classes that are special to a domain with an entity type of the five CrossNER domains.
SPECIALISED_CLASSES = {
    # politics
    "politician": "Politician",
    "politicalparty": "PoliticalParty",
    "election": "Election",
    # science
    "scientist": "Scientist",
    "discipline": "AcademicSubject",
    "enzyme": "Enzyme",
    "protein": "Protein",
    "chemicalcompound": "ChemicalCompound",
    "chemicalelement": "ChemicalElement",
    "astronomicalobject": "CelestialBody",
    "academicjournal": "AcademicJournal",
    # music
    "musicgenre": "MusicGenre",
    "song": "Song Single",
    "band": "Band",
    "album": "Album",
    "musicalartist": "MusicalArtist ClassicalMusicArtist MusicComposer",
    "musicalinstrument": "Instrument",
    # literature
    "book": "Book",
    "writer": "Writer",
    "poem": "Poem",
    "magazine": "Magazine",
    "literarygenre": "LiteraryGenre",
    # artificial intelligence
    "algorithm": "Algorithm",
    "programlang": "ProgrammingLanguage",
    "conference": "AcademicConference",
    "product": "Software",
}
# DBpedia begins every label with a capital; inside a sentence these are written small.
COMMON_NOUN_CLASSES = frozenset(
    [
        "MusicGenre",
        "Instrument",
        "LiteraryGenre",
        "AcademicSubject",
        "Enzyme",
        "Protein",
        "ChemicalCompound",
        "ChemicalElement",
        "Algorithm",
    ]
)
# Classes that say what an RDF term is, or nothing at all, as owl:Thing.
_TERMS = tuple(
    f"http://www.w3.org/{each}#" for each in ("2002/07/owl", "2000/01/rdf-schema", "1999/02/22-rdf-syntax-ns")
)
_BRACKETS = re.compile(r"\s\([^()]*\)$")
COUNTS = (
    "type_triples",
    "types_without_content",
    "other_triples",
    "entities",
    "entities_of_several_types",
    "labels",
    "labels_of_untyped",
    "labels_without_content",
)
GIVE = "Give --entities the instance types, the labels and the ontology: instance-types*, labels*, ontology*."


@dataclass
class Hierarchy:
    """Classes and those above them: the direct superclasses of each class, as addresses."""

    parents: dict[str, set[str]] = field(default_factory=dict)

    def classes(self) -> set[str]:
        """Return every class."""
        return set(self.parents).union(*self.parents.values())

    def above(self, name: str) -> set[str]:
        """Return all superclasses of a class; itself only if it is in a circle.

        Raises:
            CrossNERError: There are more than 1,000; time would grow with the square of such a chain.
        """
        found = _reach([name], self.parents)
        if len(found) > MOST_SUPERCLASSES:
            raise CrossNERError(
                f"The class {name} has {len(found):,} superclasses; at most {MOST_SUPERCLASSES:,} are followed.",
                hint="Leave the ontology out of --entities, or take what is wrong out of it.",
            )
        return found

    def most_specific(self, classes: Sequence[str]) -> list[str]:
        """Return the classes that are above no other of them; those of a circle are above none of it."""
        above = {name: self.above(name) for name in classes}
        wanted = set(classes)
        general = {name for other in classes for name in above[other] & wanted if other not in above[name]}
        return [name for name in classes if name not in general]

    def below(self, type_name: str) -> set[str]:
        """Return the local names of the classes below those of a local name, which is among them."""
        children: dict[str, set[str]] = {}
        for name, parents in self.parents.items():
            for parent in parents:
                children.setdefault(parent, set()).add(name)
        tops = [name for name in children if find_local_name(name) == type_name]
        return {type_name, *map(find_local_name, _reach(tops, children))}


def _reach(names: Iterable[str], edges: Mapping[str, set[str]]) -> set[str]:
    """Return what can be reached from some names, each name by the set of those next to it."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        following = edges.get(waiting.pop(), set()) - found
        found |= following
        waiting += following
    return found


@dataclass(frozen=True)
class RdfNames:
    """The names found in RDF: those written, by type, the ontology's classes, and what was read and left out."""

    types: Counter[str]
    hierarchy: Hierarchy
    counts: dict[str, int]


def find_local_name(address: str) -> str:
    """Return the last part of a class's address, which names the type."""
    return figures.printable(address.rstrip("/#").rpartition("#")[2].rpartition("/")[2]).replace("\n", "\ufffd")


def write_names(paths: Sequence[Path], path: Path, *, language: str) -> Work[RdfNames]:
    """Write the names of the typed entities of RDF files as a list, a line each: ``name<TAB>type``.

    Memory grows with the number of entities, by 12 bytes each: entities are known by 64 bits of their address's hash,
    which for 10 million entities lets two be taken for one with a probability of 0.0003%.

    Raises:
        CrossNERError: A file is malformed, or there are no types, no labels of the language, or none of those typed.
    """
    for each in paths:
        check_xml(each)
    labels_only = [each for each in paths if _holds_only_labels(each)]
    types, with_labels = _Types(), list(labels_only)
    for each in paths:
        if each not in labels_only and (yield from types.read(each)):
            with_labels.append(each)
    if not types.counts["type_triples"]:
        raise CrossNERError(f"There is no rdf:type with a class in {', '.join(map(str, paths))}.", hint=GIVE)
    known = types.choose()
    if types.counts["entities_of_several_types"] and not types.hierarchy.parents:
        yield Notice(
            f"{types.counts['entities_of_several_types']:,} entities have several classes, and no ontology tells the"
            " most specific: all of them count. Add the ontology to --entities."
        )
    writer = _Writer(known, language.lower(), labels_only)
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for each in with_labels:
            yield from writer.write(each, stream)
    writer.check(paths)
    counts = {name: types.counts[name] + writer.counts[name] for name in COUNTS}
    yield Notice(
        f"RDF lists: {counts['entities']:,} typed entities, {counts['labels']:,} labels in {language!r},"
        f" {writer.types.total():,} names written; {counts['labels_of_untyped']:,} labels are of no typed entity,"
        f" {counts['labels_without_content']:,} are function words or hold no letter."
    )
    return RdfNames(writer.types, types.hierarchy, counts)


def _holds_only_labels(path: Path) -> bool:
    head = [triple for _, triple in islice(read_triples(path), HEAD)]
    return bool(head) and all(triple is not None and triple.predicate == LABEL for triple in head)


def _key(address: str) -> int:
    return int.from_bytes(hashlib.blake2b(address.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class _Known:
    """Entities, sorted by key, each with the place of its types in ``choices``."""

    keys: NDArray[np.uint64]
    places: NDArray[np.uint32]
    choices: list[tuple[str, ...]]


class _Types:
    def __init__(self) -> None:
        self.hierarchy, self.counts = Hierarchy(), Counter[str]()
        self._keys, self._classes = array("Q"), array("I")
        self._numbers: dict[str, int] = {}

    def read(self, path: Path) -> Work[bool]:
        """Read the types and the hierarchy of a file; return whether it has labels, too."""
        has_labels = False
        total = path.stat().st_size
        for number, (position, triple) in enumerate(read_triples(path)):
            if number % TRIPLES_BETWEEN_SIGNS == 0:
                yield Progress(f"read types in {path.name}", position, total, "bytes", {"triples": float(number)})
            if triple is None:
                self.counts["other_triples"] += 1
            elif triple.predicate == LABEL:
                has_labels = True
            elif triple.value.startswith(_TERMS):
                self.counts["types_without_content"] += triple.predicate == TYPE
            elif triple.predicate == SUBCLASS:
                self.hierarchy.parents.setdefault(triple.subject, set()).add(triple.value)
            else:
                self.counts["type_triples"] += 1
                self._keys.append(_key(triple.subject))
                self._classes.append(self._numbers.setdefault(triple.value, len(self._numbers)))
        return has_labels

    def choose(self) -> _Known:
        keys, classes = np.array(self._keys, dtype=np.uint64), np.array(self._classes, dtype=np.uint32)
        self._keys, self._classes = array("Q"), array("I")
        order = np.lexsort((classes, keys))
        keys, classes = keys[order], classes[order]
        distinct = np.ones(len(keys), dtype=bool)
        distinct[1:] = (keys[1:] != keys[:-1]) | (classes[1:] != classes[:-1])
        keys, classes = keys[distinct], classes[distinct]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        ends = np.append(starts[1:], len(keys))
        places = classes[starts].copy()
        names = list(self._numbers)
        choices: list[tuple[str, ...]] = [(find_local_name(name),) for name in names]
        found: dict[bytes, int] = {}
        for entity in np.flatnonzero(ends - starts > 1).tolist():
            mixture = classes[starts[entity] : ends[entity]]
            place = found.get(mixture.tobytes())
            if place is None:
                place = found[mixture.tobytes()] = len(choices)
                chosen = self.hierarchy.most_specific([names[number] for number in mixture.tolist()])
                choices.append(tuple(sorted(set(map(find_local_name, chosen)))))
            places[entity] = place
            self.counts["entities_of_several_types"] += len(choices[place]) > 1
        self.counts["entities"] = len(starts)
        return _Known(keys[starts], places, choices)


class _Writer:
    def __init__(self, known: _Known, language: str, labels_only: Sequence[Path]) -> None:
        self._known, self._language, self._labels_only = known, language, labels_only
        self.types, self.counts, self.languages = Counter[str](), Counter[str](), Counter[str]()

    def write(self, path: Path, stream: TextIO) -> Work[None]:
        total = path.stat().st_size
        for position, batch in self._batches(path):
            keys = np.array([_key(subject) for subject, _ in batch], dtype=np.uint64)
            places = np.searchsorted(self._known.keys, keys).clip(max=len(self._known.keys) - 1)
            typed = self._known.keys[places] == keys
            self.counts["labels_of_untyped"] += int(len(batch) - typed.sum())
            for number in np.flatnonzero(typed).tolist():
                types = self._known.choices[self._known.places[places[number]]]
                for name in self._names(batch[number][1], types):
                    stream.writelines(f"{name}\t{entity_type}\n" for entity_type in types)
                    self.types.update(types)
            values = {"names": float(self.types.total())}
            yield Progress(f"read labels in {path.name}", position, total, "bytes", values)

    def _batches(self, path: Path) -> Iterator[tuple[int, list[tuple[str, str]]]]:
        batch: list[tuple[str, str]] = []
        position, labels_only = 0, path in self._labels_only
        for position, triple in read_triples(path):
            if triple is None or triple.predicate != LABEL:
                if labels_only and triple is not None and triple.predicate == TYPE:
                    raise CrossNERError(
                        f"{path} begins with {HEAD} labels, and has types behind them, which were not read.",
                        hint=f"Put the types first, or into a file of their own: grep '{TYPE}' {path} > types.nt",
                    )
                continue
            self.languages[triple.language] += 1
            if triple.language == self._language:
                self.counts["labels"] += 1
                batch.append((triple.subject, triple.value))
                if len(batch) == BATCH:
                    yield position, batch
                    batch = []
        yield position, batch

    def _names(self, label: str, types: tuple[str, ...]) -> list[str]:
        """Return the forms in which a label may stand in a sentence."""
        name = " ".join(_BRACKETS.sub("", " ".join(label.split())).split())
        words = name.split()
        if len(name) < 2 or not any(map(str.isalpha, name)) or STOP_WORDS.issuperset(name.lower().split()):
            self.counts["labels_without_content"] += 1
            return []
        rest = words[0][1:] + "".join(words[1:])
        may_be_common = len(words) > 1 or not COMMON_NOUN_CLASSES.isdisjoint(types)
        if may_be_common and rest == rest.lower() and words[0][0].isupper():
            return [name, name[0].lower() + name[1:]]
        return [name]

    def check(self, paths: Sequence[Path]) -> None:
        if self.types:
            return
        files = ", ".join(map(str, paths))
        if self.counts["labels"]:
            problem = f"None of the {self.counts['labels']} labels in {files} is of an entity with a type."
            raise CrossNERError(problem, hint=GIVE)
        found = ", ".join(f"{name} ({count})" for name, count in self.languages.most_common(12)) or "no label at all"
        raise CrossNERError(
            f"There is no rdfs:label in {self._language!r} in {files}; found: {found}.",
            hint=f"Choose one with --language LANGUAGE. {GIVE}",
        )


def expand_types(wanted: Iterable[str], found: RdfNames) -> tuple[set[str], dict[str, Any]]:
    """Put the classes below a type in its place, those that have names.

    Args:
        wanted: Types asked for; the case of classes does not matter.

    Returns:
        The types to look for, and which classes each type stands for.
    """
    folded = {name.casefold(): name for name in {*map(find_local_name, found.hierarchy.classes()), *found.types}}
    stands_for: dict[str, Any] = {}
    expanded: set[str] = set()
    for name in sorted(wanted):
        top = name if name in found.types else folded.get(name.casefold(), name)
        classes = sorted(found.hierarchy.below(top) & found.types.keys())
        if classes:
            stands_for[name] = classes
        expanded |= set(classes) or {name}
    return expanded, stands_for
