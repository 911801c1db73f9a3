"""Entity types of several data sets: matched by name, and renamed or dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from crossner_cli.data.labelled import LabelledDomain
from crossner_cli.data.tags import OUTSIDE, TYPE_HINT, is_type
from crossner_cli.errors import CrossNERError

AUTO = "auto"
# Other names of the types of CoNLL-2003.
SYNONYMS = {
    "per": "person",
    "org": "organisation",
    "organization": "organisation",
    "loc": "location",
    "miscellaneous": "misc",
}


def find_type_maps(
    text: str | None, types: Mapping[str, Sequence[str]], target: Sequence[str] | None
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Find the new names of types.

    Args:
        text: The value of ``--map-types``: pairs as ``person=PER``, and ``auto`` to rename what is named alike, too.
        types: The types of each data set except the target, by its name.
        target: Those of the target; None without one.

    Returns:
        The new names of types for each data set, by its name; and pairs, as ``--map-types`` takes them, of types with
        similar names that are not renamed.

    Raises:
        CrossNERError: A pair is malformed or names no type, or names are to be matched without a target.
    """
    alike = {name: match_types(each, target or ()) for name, each in types.items()}
    parts = [part.strip() for part in text.split(",")] if text else []
    pairs = [part for part in parts if part != AUTO]
    maps = parse_type_maps(",".join(pairs), types) if pairs else {}
    if AUTO in parts:
        if target is None:
            raise CrossNERError("--map-types auto needs a target, whose names it takes.", hint="Add --target DATASET.")
        maps = {name: alike[name] | maps.get(name, {}) for name in types}
    left = []
    for name, each in alike.items():
        of = f"{name}:" if len(types) > 1 else ""
        left += [f"{of}{old}={new}" for old, new in each.items() if old not in maps.get(name, {})]
    return maps, left


def parse_type_maps(text: str, types: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Read new names of entity types: ``old=new`` pairs separated by commas; ``O`` as the new name drops a type.

    ``NAME:old=new`` renames a type of one data set, and without a name it applies to all that have the type.

    Args:
        text: The pairs.
        types: Types of each data set, by its name.

    Returns:
        The new names of types, for each data set.

    Raises:
        CrossNERError: A pair is malformed or names no type, or a type is renamed twice.
    """
    found: dict[str, dict[str, str]] = {name: {} for name in types}
    for pair in text.split(","):
        old, _, new = (part.strip() for part in pair.partition("="))
        named, colon, rest = old.partition(":")
        is_type_itself = any(old in kinds for kinds in types.values())
        of = [named] if colon and named in types and not is_type_itself else []
        if colon and not of and not is_type_itself:
            raise CrossNERError(
                f"--map-types {text!r}: no data set is called {named!r}.", hint=f"They are called {', '.join(types)}."
            )
        old = rest if of else old
        if new and new != OUTSIDE and not is_type(new):
            raise CrossNERError(f"--map-types {text!r}: {new!r} is not a name of an entity type.", hint=TYPE_HINT)
        having = [name for name in of or types if old in types[name] and old not in found[name]]
        if not new or not having:
            known = "; ".join(f"{name}: {', '.join(kinds)}" for name, kinds in types.items())
            known = known if len(types) > 1 else known.partition(": ")[2]
            problem = f"{old!r} is not an entity type of the source, is renamed twice, or has no new name."
            hint = f"Write old=new,…; the source's types are {known}."
            raise CrossNERError(f"--map-types {text!r}: {problem}", hint=hint)
        for name in having:
            found[name][old] = new
    return found


def match_types(source: Sequence[str], target: Sequence[str]) -> dict[str, str]:
    """Match types whose names differ only by case, ``-`` and ``_``, or are ``SYNONYMS``.

    Returns:
        The target's names of types that only the source has, by the source's name.
    """
    names = {_fold(name): name for name in reversed(target)}
    known = set(target)
    return {name: names[_fold(name)] for name in source if name not in known and _fold(name) in names}


def _fold(name: str) -> str:
    folded = name.casefold().replace("-", "").replace("_", "")
    return SYNONYMS.get(folded, folded)


def rename_types(labelled: LabelledDomain, names: Mapping[str, str]) -> LabelledDomain:
    """Give the entity types of a domain new names; those that are renamed to ``O`` are dropped."""

    def rename(tag: str) -> str:
        prefix, hyphen, entity_type = tag.partition("-")
        new = names.get(entity_type, entity_type)
        return OUTSIDE if new == OUTSIDE else f"{prefix}{hyphen}{new}"

    def rename_soft(soft: tuple[Mapping[str, float], ...] | None) -> tuple[Mapping[str, float], ...] | None:
        if soft is None:
            return None
        found: list[dict[str, float]] = [{} for _ in soft]
        for shares, given in zip(found, soft, strict=True):
            for tag, share in given.items():
                shares[rename(tag)] = shares.get(rename(tag), 0.0) + share
        return tuple(found)

    splits = {
        split: [
            dataclasses.replace(item, tags=tuple(map(rename, item.tags or ())), soft=rename_soft(item.soft))
            for item in sentences
        ]
        for split, sentences in labelled.splits.items()
    }
    types = dict.fromkeys(names.get(entity_type, entity_type) for entity_type in labelled.types)
    return dataclasses.replace(labelled, splits=splits, types=tuple(name for name in types if name != OUTSIDE))
