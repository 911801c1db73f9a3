"""Other splits and types of a data set: dev taken from train, fewer training sentences, types renamed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

from crossner_cli.data.domains import LabelledDomain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, TYPE_HINT, is_tag
from crossner_cli.errors import CrossNERError


def parse_type_map(text: str, types: tuple[str, ...]) -> dict[str, str]:
    """Read new names of entity types.

    Args:
        text: ``old=new`` pairs separated by commas; ``O`` as the new name drops a type.
        types: The types there are.

    Raises:
        CrossNERError: A pair is malformed or names no type, or a type is renamed twice.
    """
    names: dict[str, str] = {}
    for pair in text.split(","):
        old, _, new = (part.strip() for part in pair.partition("="))
        if new and new != OUTSIDE and not is_tag(f"B-{new}"):
            raise CrossNERError(f"--map-types {text!r}: {new!r} is no name of an entity type.", hint=TYPE_HINT)
        if not new or old not in types or old in names:
            raise CrossNERError(
                f"--map-types {text!r}: {old!r} is no entity type of the source, is renamed twice, or has no new name.",
                hint=f"Write old=new,…; the source's types are {', '.join(types)}.",
            )
        names[old] = new
    return names


def rename_types(labelled: LabelledDomain, names: Mapping[str, str]) -> LabelledDomain:
    """Give the entity types of a domain new names; those that are renamed to ``O`` are dropped."""

    def rename(tag: str) -> str:
        prefix, hyphen, entity_type = tag.partition("-")
        new = names.get(entity_type, entity_type)
        return OUTSIDE if new == OUTSIDE else f"{prefix}{hyphen}{new}"

    splits = {
        split: [dataclasses.replace(item, tags=tuple(map(rename, item.tags or ()))) for item in sentences]
        for split, sentences in labelled.splits.items()
    }
    types = dict.fromkeys(names.get(entity_type, entity_type) for entity_type in labelled.types)
    return dataclasses.replace(labelled, splits=splits, types=tuple(name for name in types if name != OUTSIDE))


def take_dev(train: list[Sentence], share: float) -> tuple[list[Sentence], list[Sentence]]:
    """Split a share of train off as dev, by the sentences alone: those whose words have the smallest SHA-256.

    So neither the order of the file nor a seed matters, and sentences of the same words stay on one side.

    Returns:
        Train and dev, each in the order of the file.

    Raises:
        CrossNERError: Nothing would be left to train on.
    """
    wanted = max(1, round(share * len(train)))
    places: dict[tuple[str, ...], list[int]] = {}
    for number, sentence in enumerate(train):
        places.setdefault(sentence.words, []).append(number)
    taken: set[int] = set()
    for words in sorted(places, key=lambda words: hashlib.sha256("\n".join(words).encode()).digest()):
        if len(taken) >= wanted:
            break
        taken.update(places[words])
    if len(taken) == len(train):
        raise CrossNERError(
            f"--dev-from-train {share} takes all {len(train)} training sentences.",
            hint="Take a smaller share, or give a dev file.",
        )
    rest = [sentence for number, sentence in enumerate(train) if number not in taken]
    return rest, [train[number] for number in sorted(taken)]


def limit_train(train: list[Sentence], limit: int, seed: int | None) -> list[Sentence]:
    """Keep the first sentences, or with a seed those whose SHA-256 of ``seed:number`` is smallest, in file order.

    A smaller limit of the same seed keeps a part of what a larger one keeps.
    """
    if seed is None:
        return train[:limit]
    drawn = sorted(range(len(train)), key=lambda number: hashlib.sha256(f"{seed}:{number}".encode()).digest())
    return [train[number] for number in sorted(drawn[:limit])]
