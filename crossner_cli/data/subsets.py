"""Parts of data sets: a share of train as dev, fewer training sentences, and types renamed or dropped."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

from crossner_cli.data.domains import LabelledDomain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.errors import CrossNERError


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


def take_dev(train: list[Sentence], share: float) -> tuple[list[Sentence], list[Sentence]]:
    """Split a share of train off as dev, by the sentences alone: those whose words have the smallest SHA-256.

    So neither the order of the file nor a seed matters, and sentences of the same words stay on one side. Both parts
    keep the order of the file.

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
