"""Names with their types from RDF: the instance types, labels and ontology of DBpedia, or any RDF of that shape.

An entity counts for its most specific classes, by the ontology's hierarchy. Brackets at the end of a label, as in
"Queen (band)", distinguish pages and do not occur in sentences, so they are left out.

Paper: Liu et al. (2021), CrossNER, take sentences with "domain-specialised" entities of the DBpedia Ontology as task
level, and do not say of which classes. Here they are the classes of the types that no other of the five domains and no
news has: the published task levels, 4 to 13% of the text, are too small for countries, awards or events.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.corpus.triples import LABEL, SUBCLASS, TYPE, read_triples
from crossner_cli.data.statistics import STOP_WORDS
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, Work

ENGLISH = "en"
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
_COMMON_NOUNS = (
    "MusicGenre Instrument LiteraryGenre AcademicSubject Enzyme Protein ChemicalCompound ChemicalElement Algorithm"
)
COMMON_NOUN_CLASSES = frozenset(_COMMON_NOUNS.split())
# Classes of RDF terms, or of everything, as owl:Thing.
_TERMS = tuple(
    f"http://www.w3.org/{each}#" for each in ("2002/07/owl", "2000/01/rdf-schema", "1999/02/22-rdf-syntax-ns")
)
_BRACKETS = re.compile(r"\s\([^()]*\)$")
MOST_CLASSES = 1000  # of an entity, and above a class
GIVE = "Give --entities the instance types, the labels and the ontology: instance-types*, labels*, ontology*."

Edges = Mapping[str, set[str]]


@dataclass(frozen=True)
class RdfNames:
    """The names found in RDF: how many of each type, the classes above each class, and what was read and left out."""

    types: Counter[str]
    superclasses: Edges
    counts: dict[str, int]


def reach(names: Iterable[str], edges: Edges) -> set[str]:
    """Return what can be reached from some names, each name by the set of those next to it; itself only in a circle."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        following = edges.get(waiting.pop(), set()) - found
        found |= following
        waiting += following
    return found


def find_most_specific(classes: Sequence[str], superclasses: Edges) -> list[str]:
    """Return the classes that are above no other of them; those of a circle are not above each other.

    Raises:
        CrossNERError: A class has more than 1,000 superclasses; time would grow with the square of such a chain.
    """
    above = {name: reach([name], superclasses) for name in classes}
    for name, found in above.items():
        if len(found) > MOST_CLASSES:
            raise CrossNERError(
                f"The class {name} has {len(found):,} superclasses; at most {MOST_CLASSES:,} are followed.",
                hint="Leave the ontology out of --entities, or take what is wrong out of it.",
            )
    general = {name for other in classes for name in above[other] if name in above and other not in above[name]}
    return [name for name in classes if name not in general]


def find_local_name(address: str) -> str:
    """Return the last part of a class's address, which names the type."""
    return figures.printable(address.rstrip("/#").rpartition("#")[2].rpartition("/")[2]).replace("\n", "\ufffd")


def write_names(paths: Sequence[Path], path: Path) -> Work[RdfNames]:
    """Write the names of the typed entities of RDF files as a list, one per line: ``name<TAB>type``.

    The files are read twice, for the types and then for the labels, in the language that most labels have. Memory grows
    with the number of entities alone, by some 130 bytes each: an entity is known by the hash of its address.

    Raises:
        CrossNERError: A file is malformed, or there are no types, no labels, or none of typed entities.
    """
    classes, superclasses, languages = yield from _read_types(paths)
    for what, found in {"rdf:type with a class": classes, "rdfs:label": languages}.items():
        if not found:
            raise CrossNERError(f"There is no {what} in {', '.join(map(str, paths))}.", hint=GIVE)
    language = max(languages, key=lambda name: (languages[name], name == ENGLISH))

    @cache
    def choose(found: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(map(find_local_name, find_most_specific(found, superclasses)))))

    several = sum(len(choose(found)) > 1 for found in classes.values())
    if several and not superclasses:
        yield Notice(
            f"{several:,} entities have several classes, and no ontology says which is the most specific: all of them"
            " count. Add the ontology to --entities."
        )
    types, left_out = Counter[str](), Counter[str]()
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for event in chain.from_iterable(map(read_triples, paths)):
            if isinstance(event, Progress):
                yield event
            elif event.predicate == LABEL and event.language == language:
                chosen = choose(classes.get(hash(event.subject), ()))
                names = find_written_forms(event.value, chosen) if chosen else []
                stream.writelines(f"{name}\t{entity_type}\n" for name in names for entity_type in chosen)
                types.update(chosen * len(names))
                left_out["labels_without_content" if chosen else "labels_of_untyped"] += not names
    labels, untyped, empty = languages[language], left_out["labels_of_untyped"], left_out["labels_without_content"]
    if not types:
        problem = f"None of the {labels} labels in {', '.join(map(str, paths))} is of an entity with a type."
        raise CrossNERError(problem, hint=GIVE)
    yield Notice(
        f"RDF lists: {len(classes):,} typed entities, {labels:,} labels in {language!r}, {types.total():,} names"
        f" written; {untyped:,} labels belong to no typed entity, {empty:,} are function words or hold no letter."
    )
    counts = {"entities": len(classes), "entities_of_several_types": several, "labels": labels}
    return RdfNames(types, superclasses, {**counts, "labels_of_untyped": untyped, "labels_without_content": empty})


def _read_types(
    paths: Sequence[Path],
) -> Work[tuple[dict[int, tuple[str, ...]], dict[str, set[str]], Counter[str]]]:
    """Read the classes of each entity, by the hash of its address, and those directly above each class; count labels.

    Raises:
        CrossNERError: A file is malformed, or an entity has more than 1,000 classes.
    """
    languages = Counter[str]()
    classes: dict[int, tuple[str, ...]] = {}
    superclasses: dict[str, set[str]] = {}
    single: dict[str, tuple[str, ...]] = {}  # one tuple for all entities of a class
    for event in chain.from_iterable(map(read_triples, paths)):
        if isinstance(event, Progress):
            yield event
        elif event.predicate == LABEL:
            languages[event.language] += 1
        elif event.predicate == SUBCLASS and not event.value.startswith(_TERMS):
            superclasses.setdefault(event.subject, set()).add(event.value)
        elif event.predicate == TYPE and not event.value.startswith(_TERMS):
            known = classes.setdefault(hash(event.subject), single.setdefault(event.value, (event.value,)))
            if event.value in known:
                continue
            if len(known) == MOST_CLASSES:
                raise CrossNERError(
                    f"{event.subject} has more than {MOST_CLASSES:,} classes.",
                    hint="Leave the file out of --entities, or take what is wrong out of it.",
                )
            classes[hash(event.subject)] = (*known, event.value)
    return classes, superclasses, languages


def find_written_forms(label: str, types: Sequence[str]) -> list[str]:
    """Return the forms in which a label may stand in a sentence: none of a function word or without a letter."""
    name = " ".join(_BRACKETS.sub("", " ".join(label.split())).split())
    words = name.split()
    if len(name) < 2 or not any(map(str.isalpha, name)) or STOP_WORDS.issuperset(name.lower().split()):
        return []
    rest = words[0][1:] + "".join(words[1:])
    may_be_common = len(words) > 1 or not COMMON_NOUN_CLASSES.isdisjoint(types)
    if may_be_common and rest == rest.lower() and words[0][0].isupper():
        return [name, name[0].lower() + name[1:]]
    return [name]


def expand_types(wanted: Iterable[str], found: RdfNames) -> tuple[set[str], dict[str, Any]]:
    """Replace a type by the classes below it that have names.

    Args:
        wanted: Types asked for; the case of classes does not matter.

    Returns:
        The types to look for, and which classes each type stands for.
    """
    subclasses: dict[str, set[str]] = {}  # by local names
    for name, parents in found.superclasses.items():
        for parent in parents:
            subclasses.setdefault(find_local_name(parent), set()).add(find_local_name(name))
    known = {*subclasses, *found.types}.union(*subclasses.values())
    folded = {name.casefold(): name for name in known}
    stands_for: dict[str, Any] = {}
    expanded: set[str] = set()
    for name in sorted(wanted):
        top = name if name in found.types else folded.get(name.casefold(), name)
        classes = sorted({top, *reach([top], subclasses)} & found.types.keys())
        if classes:
            stands_for[name] = classes
        expanded |= set(classes) or {name}
    return expanded, stands_for
