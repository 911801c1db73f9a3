"""Entity types in words: what methods that compare words with types read of a type."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Names of types that are no words, or several in one, in the data sets of the field; lower-cased without hyphens.
WORDS: dict[str, str] = {
    "academicjournal": "academic journal",
    "astronomicalobject": "astronomical object",
    "chemicalcompound": "chemical compound",
    "chemicalelement": "chemical element",
    "literarygenre": "literary genre",
    "loc": "location",
    "misc": "miscellaneous",
    "musicalartist": "musical artist",
    "musicalinstrument": "musical instrument",
    "musicgenre": "music genre",
    "org": "organization",
    "per": "person",
    "politicalparty": "political party",
    "programlang": "programming language",
}


def describe_type(entity_type: str) -> list[str]:
    """Words of an entity type, lower-cased: those of the table, else the parts of its name.

    ``politicalparty`` is political party, ``Gene_or_gene_product`` gene or gene product, ``Multi-tissue_structure``
    multi tissue structure, ``chemicalFormula`` chemical formula. Never empty.
    """
    known = WORDS.get(entity_type.lower())
    if known:
        return known.split()
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", entity_type)
    return [part.lower() for part in parts] or [entity_type.lower()]


def description_words(types: Iterable[str]) -> list[str]:
    """Distinct words of all descriptions, in order."""
    return list(dict.fromkeys(word for entity_type in types for word in describe_type(entity_type)))
