"""Splits of data sets: joined, without sentences that others are scored on, with dev taken from train."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crossner_cli.data.domains import Domain
from crossner_cli.data.files import Repairs
from crossner_cli.data.labelled import LabelledDomain
from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.sentences import SPLITS, Sentence
from crossner_cli.errors import CrossNERError

LEAK = "training sentence that is in the dev or test of another data set left out"
TRAIN = "train"


def list_sets(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """The data sets that options of ``prepare-data`` name, by their part in the run.

    Args:
        options: The options, as a manifest keeps them.

    Returns:
        Names by ``source``, ``source-2`` and so on, ``target`` and ``silver``; those of sources without their weights.

    Raises:
        CrossNERError: A name is not a text, as in a broken manifest.
    """
    sources = options.get("source") or []
    sources = sources if isinstance(sources, list) else [sources]
    named = {f"source-{number}" if number > 1 else "source": [name] for number, name in enumerate(sources, start=1)}
    others = {role: options[role] for role in ("target", "silver") if options.get(role)}
    named |= {role: names if isinstance(names, list) else [names] for role, names in others.items()}
    for part, names in named.items():
        if not all(isinstance(name, str) for name in names):
            raise CrossNERError(f"prepare-data: the name of the {part} is {names!r}.", hint="Prepare the data again.")
        if part.startswith("source"):
            named[part] = [split_weight(name)[0] for name in names]
    return named


def split_weight(source: str) -> tuple[str, int]:
    """Split a source, as ``NAME=3``, into its name and the times that its training sentences count, 1 by default."""
    found = re.fullmatch(r"(.+)=([1-9]\d{0,2})", source, re.DOTALL)
    return (found[1], int(found[2])) if found else (source, 1)


def leave_out_leaks(train: LabelledDomain, others: Iterable[LabelledDomain]) -> LabelledDomain:
    """Leave out the training sentences of a data set that are in the dev or test of another, and count them.

    Sentences are the same if they differ only in case, final stop and word borders.

    Raises:
        CrossNERError: No sentences are left.
    """
    scored = [sentence for other in others for split in SPLITS[1:] for sentence in other.splits.get(split, ())]
    if not scored or TRAIN not in train.splits:
        return train
    kept = leave_out(train.splits[TRAIN], scored, LEAK, train.repairs)
    if train.splits[TRAIN] and not kept:
        raise CrossNERError(
            f"All {len(train.splits[TRAIN])} training sentences are in the dev or test of another data set.",
            hint="Give other data to train on.",
        )
    return dataclasses.replace(train, splits={**train.splits, TRAIN: kept})


def leave_out(train: Sequence[Sentence], others: Iterable[Sentence], kind: str, repairs: Repairs) -> list[Sentence]:
    """Leave out the sentences that are among others, and count them as ``kind``."""
    keys = {make_leak_key(" ".join(sentence.words)) for sentence in others}
    kept = []
    for sentence in train:
        if make_leak_key(" ".join(sentence.words)) in keys:
            repairs.add(kind, sentence.place)
        else:
            kept.append(sentence)
    return kept


def join(found: Sequence[LabelledDomain], weights: Sequence[int], name: str) -> LabelledDomain:
    """Join data sets into one, in which the training sentences of each count so many times."""
    splits: dict[str, list[Sentence]] = {}
    repairs = Repairs()
    for each, weight in zip(found, weights, strict=True):
        for split, sentences in each.splits.items():
            renamed = [dataclasses.replace(sentence, domain=name) for sentence in sentences]
            splits.setdefault(split, []).extend(renamed * (weight if split == TRAIN else 1))
        repairs.counts.update(each.repairs.counts)
        for kind, examples in each.repairs.examples.items():
            repairs.examples.setdefault(kind, []).extend(examples)
        repairs.warnings += each.repairs.warnings
    return LabelledDomain(
        {split: splits[split] for split in SPLITS if split in splits},
        tuple(dict.fromkeys(kind for each in found for kind in each.types)),
        ", ".join(dict.fromkeys(each.found_scheme for each in found)),
        repairs,
    )


def join_domains(domains: Sequence[Domain]) -> Domain:
    """The data sets at hand as one; its files are those of all, by name."""
    if len(domains) == 1:
        return domains[0]
    files = {f"{domain.name}/{split}": paths for domain in domains for split, paths in domain.files.items()}
    origins = {f"{domain.name}/{split}": domain.origins[split] for domain in domains for split in domain.files}
    return Domain("+".join(domain.name for domain in domains), files, origins)


def take_dev(train: list[Sentence], share: float) -> tuple[list[Sentence], list[Sentence]]:
    """Split a share of train off as dev: the sentences whose words have the smallest SHA-256.

    So neither the order of the file nor a seed matters, and sentences of the same words stay together. Both parts keep
    the order of the file.

    Raises:
        CrossNERError: Nothing would be left to train on.
    """
    wanted = max(1, round(share * len(train)))
    numbers: dict[tuple[str, ...], list[int]] = {}
    for number, sentence in enumerate(train):
        numbers.setdefault(sentence.words, []).append(number)
    taken: set[int] = set()
    for words in sorted(numbers, key=lambda words: hashlib.sha256("\n".join(words).encode()).digest()):
        if len(taken) >= wanted:
            break
        taken.update(numbers[words])
    if len(taken) == len(train):
        raise CrossNERError(
            f"--dev-from-train {share} takes all {len(train)} training sentences.",
            hint="Take a smaller share, or give a dev file.",
        )
    rest = [sentence for number, sentence in enumerate(train) if number not in taken]
    return rest, [train[number] for number in sorted(taken)]


def parse_limit(text: str) -> tuple[int, int | None]:
    """Read ``--train-limit``: ``100``, or with a seed ``100:7``.

    Raises:
        CrossNERError: It has another form.
    """
    found = re.fullmatch(r"([1-9]\d{0,8})(?::(\d{1,9}))?", text)
    if found is None:
        hint = "Write a number from 1, as 100, or with a seed, as 100:7."
        raise CrossNERError(f"--train-limit {text!r} is not a number of sentences.", hint=hint)
    return int(found[1]), None if found[2] is None else int(found[2])


def limit_train(train: list[Sentence], limit: int, seed: int | None) -> list[Sentence]:
    """Keep the first sentences, or with a seed those whose SHA-256 of ``seed:number`` is smallest, in file order.

    A smaller limit of the same seed keeps a part of what a larger one keeps.
    """
    if seed is None:
        return train[:limit]
    drawn = sorted(range(len(train)), key=lambda number: hashlib.sha256(f"{seed}:{number}".encode()).digest())
    return [train[number] for number in sorted(drawn[:limit])]
