"""Which entity types specialise which: a politician is a person, and calling one a person is a smaller error.

A confusion of two types is one of the hierarchy where a parent was predicted for its child (``too_general``), a child
for its parent (``too_specific``), or one child of a parent for another (``sibling``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from crossner_cli.errors import CrossNERError

# The specialised types of CrossNER's five domains (Liu et al. 2021, Table 1) below the types of CoNLL-2003. Types that
# its "misc" may or may not cover, as song or award, have no parent here.
DEFAULT_PARENTS = {
    "politician": "person", "scientist": "person", "musicalartist": "person", "writer": "person",
    "researcher": "person", "politicalparty": "organisation", "university": "organisation", "band": "organisation",
    "country": "location",
}  # fmt: skip
KINDS = ("too_general", "too_specific", "sibling")
OPTION_HINT = "Write child=parent,… as --type-parents politician=person,band=organisation; child=none takes one out."
NO_PARENT = "none"


def read_parents(text: str | None, types: Collection[str]) -> dict[str, str]:
    """The parents of types: the default table, changed by what ``--type-parents`` says.

    Args:
        text: ``child=parent,…``; None changes nothing.
        types: The entity types there are.

    Raises:
        CrossNERError: It is not of that form, names a child that is no type or twice, or goes in a circle.
    """
    parents = {child: parent for child, parent in DEFAULT_PARENTS.items() if child in types}
    given: set[str] = set()
    for part in (text or "").split(",") if text is not None else ():
        child, equals, parent = (piece.strip() for piece in part.partition("="))
        if not (child and equals and parent) or "=" in parent:
            raise CrossNERError(f"--type-parents: {part!r} is not of the form child=parent.", hint=OPTION_HINT)
        if child in given:
            raise CrossNERError(f"--type-parents gives {child!r} twice.", hint="Each type has one parent.")
        if child not in types:
            raise CrossNERError(
                f"--type-parents: {child!r} is none of the entity types: {', '.join(sorted(types)) or 'none'}.",
                hint=OPTION_HINT,
            )
        given.add(child)
        parents[child] = parent
    parents = {child: parent for child, parent in parents.items() if parent != NO_PARENT}
    _refuse_circles(parents)
    return parents


def _refuse_circles(parents: Mapping[str, str]) -> None:
    for child in parents:
        if child in ancestors(child, parents):
            raise CrossNERError(
                f"--type-parents goes in a circle: {child!r} is above itself.", hint="Take one of the pairs out."
            )


def ancestors(child: str, parents: Mapping[str, str]) -> list[str]:
    """The types above a type, the nearest first; each once."""
    found: list[str] = []
    while child in parents and parents[child] not in found:
        child = parents[child]
        found.append(child)
    return found


def relation(gold: str, predicted: str, parents: Mapping[str, str]) -> str | None:
    """What the confusion of two types is in the hierarchy; None where it is none of it."""
    if predicted in ancestors(gold, parents):
        return "too_general"
    if gold in ancestors(predicted, parents):
        return "too_specific"
    return "sibling" if gold in parents and parents[gold] == parents.get(predicted) else None


def hierarchy_confusions(confusion: Mapping[str, Mapping[str, int]], parents: Mapping[str, str]) -> dict[str, Any]:
    """How many confusions of types are of the hierarchy.

    Args:
        confusion: By gold type, by predicted type; ``O`` among them counts for nothing.
        parents: Parent by child.

    Returns:
        ``type_errors`` (pairs of another type, whatever their words), a count for each of ``KINDS``, their share in
        percent (None of no errors), and ``pairs``, as ``politician -> person``.
    """
    counts, pairs, wrong = dict.fromkeys(KINDS, 0), {}, 0
    for gold, row in confusion.items():
        for predicted, number in row.items():
            if gold == predicted or "O" in (gold, predicted) or not number:
                continue
            wrong += number
            kind = relation(gold, predicted, parents)
            if kind:
                counts[kind] += number
                pairs[f"{gold} -> {predicted}"] = {"kind": kind, "count": number}
    share = 100 * sum(counts.values()) / wrong if wrong else None
    return {"type_errors": wrong, **counts, "percent": share, "pairs": pairs}
