"""Descriptions of entity types in words, for methods that compare words with types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from crossner_cli.errors import CrossNERError

# Type names of known data sets that are not words, or several in one; lower-cased without hyphens.
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


def describe_type(entity_type: str, given: Mapping[str, Iterable[str]] | None = None) -> list[str]:
    """Describe an entity type: by the given words, else those of the table, else the parts of its name, lower-cased.

    ``politicalparty`` is political party, ``Gene_or_gene_product`` gene or gene product, ``Multi-tissue_structure``
    multi tissue structure, ``chemicalFormula`` chemical formula. Never empty.
    """
    if given and entity_type in given:
        return list(given[entity_type])
    known = WORDS.get(entity_type.lower())
    if known:
        return known.split()
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", entity_type)
    return [part.lower() for part in parts] or [entity_type.lower()]


def description_words(types: Iterable[str], given: Mapping[str, Iterable[str]] | None = None) -> list[str]:
    """List the distinct words of all descriptions, in order."""
    return list(dict.fromkeys(word for entity_type in types for word in describe_type(entity_type, given)))


def parse_type_words(
    text: str, setting: str, example: str, split: Callable[[str], list[str]]
) -> dict[str, tuple[str, ...]]:
    """Parse a setting that gives words of types, ``type=...;type=...``.

    Args:
        example: A valid value, for messages.
        split: Splits the text after ``=`` into words.

    Raises:
        CrossNERError: The text is not of this form, or names a type twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in filter(str.strip, text.split(";")):
        name, _, listed = part.partition("=")
        name, words = name.strip(), tuple(word.strip() for word in split(listed))
        if not name or not words or not all(words) or name in found:
            raise CrossNERError(
                f"{setting}: {part.strip()!r} is not a type with its words, or names a type again.",
                hint=f"Write --set '{setting}={example}'.",
            )
        found[name] = words
    return found
