"""Which classes of the DBpedia ontology are special to the domains of CrossNER.

Paper: Liu et al. (2021), CrossNER, take sentences with "domain-specialised" entities of the DBpedia Ontology as task
level, and do not say of which classes. Here they are the classes of the types that no other of the five domains and no
news has: the published task levels, 4 to 13% of the text, are too small for countries, awards or events.
"""

from __future__ import annotations

from collections.abc import Iterable

SPECIALISED_CLASSES: dict[str, dict[str, tuple[str, ...]]] = {
    "politics": {
        "politician": ("Politician",),
        "politicalparty": ("PoliticalParty",),
        "election": ("Election",),
    },
    "science": {
        "scientist": ("Scientist",),
        "discipline": ("AcademicSubject",),
        "enzyme": ("Enzyme",),
        "protein": ("Protein",),
        "chemicalcompound": ("ChemicalCompound",),
        "chemicalelement": ("ChemicalElement",),
        "astronomicalobject": ("CelestialBody",),
        "academicjournal": ("AcademicJournal",),
    },
    "music": {
        "musicgenre": ("MusicGenre",),
        "song": ("Song", "Single"),
        "band": ("Band",),
        "album": ("Album",),
        "musicalartist": ("MusicalArtist", "ClassicalMusicArtist", "MusicComposer"),
        "musicalinstrument": ("Instrument",),
    },
    "literature": {
        "book": ("Book",),
        "writer": ("Writer",),
        "poem": ("Poem",),
        "magazine": ("Magazine",),
        "literarygenre": ("LiteraryGenre",),
    },
    "ai": {
        "algorithm": ("Algorithm",),
        "programlang": ("ProgrammingLanguage",),
        "conference": ("AcademicConference",),
        "product": ("Software",),
    },
}  # fmt: skip
# DBpedia begins every label with a capital; inside a sentence these are written small.
COMMON_NOUN_CLASSES = frozenset([
    "MusicGenre", "Instrument", "LiteraryGenre", "AcademicSubject", "Enzyme", "Protein", "ChemicalCompound",
    "ChemicalElement", "Algorithm",
])  # fmt: skip


def classes_of_types(types: Iterable[str]) -> set[str]:
    """The classes that are special to a domain with these entity types."""
    table = {name: classes for domain in SPECIALISED_CLASSES.values() for name, classes in domain.items()}
    return {each for name in types for each in table.get(name, ())}
