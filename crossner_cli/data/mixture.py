"""Several data sets as one domain, new names of their types, and sentences of one that another is scored on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crossner_cli.data.domains import Domain, LabelledDomain
from crossner_cli.data.files import Repairs
from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.sentences import SPLITS, Sentence
from crossner_cli.data.tags import OUTSIDE, TYPE_HINT, is_type
from crossner_cli.errors import CrossNERError

LEAK = "training sentence that is in the dev or test of another data set left out"
TRAIN = "train"
# Other names of the types of CoNLL-2003.
SYNONYMS = {
    "per": "person",
    "org": "organisation",
    "organization": "organisation",
    "loc": "location",
    "miscellaneous": "misc",
}


def places_of(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """The data sets that options of ``prepare-data`` name, by place.

    Args:
        options: The options, as a manifest keeps them.

    Returns:
        Names by ``source``, ``source-2`` and so on, ``target`` and ``silver``.

    Raises:
        CrossNERError: A name is not a text, as in a broken manifest.
    """
    sources = options.get("source") or []
    sources = sources if isinstance(sources, list) else [sources]
    named = {f"source-{number}" if number > 1 else "source": [name] for number, name in enumerate(sources, start=1)}
    others = {role: options[role] for role in ("target", "silver") if options.get(role)}
    named |= {role: names if isinstance(names, list) else [names] for role, names in others.items()}
    for place, names in named.items():
        if not all(isinstance(name, str) for name in names):
            raise CrossNERError(f"prepare-data: the name of the {place} is {names!r}.", hint="Prepare the data again.")
    return named


def parse_type_maps(text: str, types: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Read new names of entity types: ``old=new`` pairs separated by commas; ``O`` as the new name drops a type.

    ``NAME:old=new`` renames a type of one data set, and without a name it is of all that have it.

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
            raise CrossNERError(f"--map-types {text!r}: {new!r} is no name of an entity type.", hint=TYPE_HINT)
        having = [name for name in of or types if old in types[name] and old not in found[name]]
        if not new or not having:
            known = "; ".join(f"{name}: {', '.join(kinds)}" for name, kinds in types.items())
            known = known if len(types) > 1 else known.partition(": ")[2]
            raise CrossNERError(
                f"--map-types {text!r}: {old!r} is no entity type of the source, is renamed twice, or has no new name.",
                hint=f"Write old=new,…; the source's types are {known}.",
            )
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


def parse_times(given: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Read how often the training sentences of each source count, as ``NAME=3``.

    Raises:
        CrossNERError: One is malformed, or names no source.
    """
    times = dict.fromkeys(names, 1)
    for text in given:
        name, _, number = text.rpartition("=")
        if name not in times or not number.isdecimal() or not 1 <= int(number[:6]) <= 1000:
            raise CrossNERError(
                f"--upsample-source {text!r} is no source with a number from 1 to 1000.",
                hint=f"Write NAME=3; the sources are {', '.join(names)}.",
            )
        times[name] = int(number)
    return times


def leave_out_leaks(train: LabelledDomain, others: Iterable[LabelledDomain]) -> LabelledDomain:
    """Leave out the training sentences of a data set that stand in the dev or test of another, and count them.

    Sentences are the same if they differ only in case, final stop and the way they are cut into words.

    Raises:
        CrossNERError: None is left.
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
    for number, sentence in enumerate(train, start=1):
        if make_leak_key(" ".join(sentence.words)) in keys:
            repairs.add(kind, f"sentence {number}")
        else:
            kept.append(sentence)
    return kept


def join(found: Mapping[str, LabelledDomain], times: Mapping[str, int], name: str) -> LabelledDomain:
    """Join data sets into one, whose training sentences count so many times."""
    splits: dict[str, list[Sentence]] = {}
    repairs = Repairs()
    for label, each in found.items():
        for split, sentences in each.splits.items():
            renamed = [dataclasses.replace(sentence, domain=name) for sentence in sentences]
            splits.setdefault(split, []).extend(renamed * (times[label] if split == TRAIN else 1))
        repairs.counts.update(each.repairs.counts)
        for kind, examples in each.repairs.examples.items():
            repairs.examples.setdefault(kind, []).extend(examples)
        repairs.warnings += each.repairs.warnings
    return LabelledDomain(
        {split: splits[split] for split in SPLITS if split in splits},
        tuple(dict.fromkeys(kind for each in found.values() for kind in each.types)),
        ", ".join(dict.fromkeys(each.found_scheme for each in found.values())),
        repairs,
    )


def join_places(domains: Sequence[Domain]) -> Domain:
    """The data sets at hand as one; its files are those of all, by place."""
    if len(domains) == 1:
        return domains[0]
    files = {f"{domain.name}/{split}": paths for domain in domains for split, paths in domain.files.items()}
    origins = {f"{domain.name}/{split}": domain.origins[split] for domain in domains for split in domain.files}
    return Domain("+".join(domain.name for domain in domains), files, origins)
