"""Warnings about labelled data, to be read before training on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from crossner_cli.data.domains import Domain, LabelledDomain
from crossner_cli.data.text import cut_words

# Share of words; data sets of the field have up to 0.6 % that plain text cuts otherwise.
CUT_OTHERWISE = 0.02
LISTED_TYPES = 8  # in a warning
LONG_SENTENCES = 100  # words on average: no data set of the field has half as many
FEWEST_WORDS = 5  # shorter sentences, as a name alone, are in any two data sets of news
WITHOUT_ENTITIES = {
    "train": "nothing can be learnt from it",
    "dev": "no epoch can be chosen on it",
    "test": "no score of it means anything",
}

Labelled = Mapping[str, LabelledDomain]


def data_warnings(domains: Mapping[str, Domain], labelled: Labelled, statistics: Mapping[str, Any]) -> list[str]:
    """Warn of what is wrong or odd about the data of a run.

    Args:
        domains: Source and target, by role.
        labelled: Their sentences.
        statistics: Their statistics, as ``domain_statistics`` counts them.
    """
    found: list[str] = []
    for role, domain in labelled.items():
        who = f"The {role} {domains[role].name!r}"
        if "dev" not in domain.splits:
            others = [other for other, each in labelled.items() if other != role and "dev" in each.splits]
            found.append(f"{who} has no dev sentences to choose the best epoch on: {_ways_to_dev(domain, others)}.")
        found += _split_warnings(who, domain, statistics[role])
        found += _type_warnings(who, domain, statistics[role])
    if "target" in labelled:
        found += _word_warnings(f"The target {domains['target'].name!r}", labelled["target"])
    if len(labelled) == 2:
        found += _pair_warnings(domains, labelled)
    return found


def mapped_type_warnings(new: Iterable[str], targets: Sequence[str]) -> list[str]:
    """Warn of types that ``--map-types`` gives the source and the target lacks: likely typing errors."""
    missing = [name for name in dict.fromkeys(new) if name not in targets]
    if not missing:
        return []
    types = ", ".join(targets) or "none"
    return [f"--map-types: the target has no type {', '.join(missing)}; its types are {types}."]


def listed_type_warnings(types: Mapping[str, int], labelled: Labelled) -> list[str]:
    """Warn of types of the entity lists, given with their number of names, that no data set of the run has."""
    known = {name for domain in labelled.values() for name in domain.types}
    others = {name: count for name, count in types.items() if name not in known}
    if not known or not others:
        return []
    shown = ", ".join(f"{name} ({count:,})" for name, count in list(others.items())[:LISTED_TYPES])
    more = f" and {len(others) - LISTED_TYPES:,} more" if len(others) > LISTED_TYPES else ""
    return [
        f"Types of the entity lists, with their names, that neither data set has: {shown}{more}. A line of a list is"
        " name<TAB>type, with no heading."
    ]


def _ways_to_dev(labelled: LabelledDomain, others: Sequence[str]) -> str:
    ways = ["--dev-from-train 0.1 takes it from train"] if "train" in labelled.splits else []
    ways += [f"--select-on {role}" for role in others]
    return ", or ".join(ways) or "add a dev file"


def _split_warnings(who: str, labelled: LabelledDomain, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Warn of splits that repeat each other, and of sentences or columns that were likely meant otherwise."""
    for split in ("test",) if statistics["dev_is_test"] else ("dev", "test"):
        if repeated := statistics["shared_sentences"].get(f"{split} in train"):
            count = len(labelled.splits[split])
            yield f"{who}: {repeated} of {count} {split} sentences are in train, word for word."
    for split, sentences in labelled.splits.items():
        words = [word for sentence in sentences for word in sentence.words]
        numbers = sum(word.isdecimal() for word in words)
        if 2 * numbers > len(words):
            yield (
                f"{who}: {numbers:,} of {len(words):,} words of {split} are numbers, as {words[0]!r}: is the word in"
                " another column than the first?"
            )
        if len(words) > LONG_SENTENCES * len(sentences):
            yield (
                f"{who}: {split} has {len(words) / len(sentences):,.0f} words a sentence: is there an empty line after"
                " each?"
            )
    if statistics["dev_is_test"]:
        yield f"{who}: dev equals test, so scores on test are of sentences that chose the epoch."


def _type_warnings(who: str, labelled: LabelledDomain, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Warn of splits without entities, of types that differ by case only, and of types that train lacks."""
    entities = {split: counts["entities"] for split, counts in statistics["splits"].items()}
    if not labelled.types:
        yield f"{who} has no entity: every tag is O, and nothing can be learnt from it."
        return
    for split, counts in entities.items():
        if not counts:
            yield f"{who}: {split} has no entity: every tag is O, so {WITHOUT_ENTITIES[split]}."
    alike: dict[str, list[str]] = {}
    for name in labelled.types:
        alike.setdefault(name.casefold(), []).append(name)
    for names in alike.values():
        if len(names) > 1:
            yield f"{who}: {' and '.join(names)} differ by case only: {len(names)} types."
    untrained = set(labelled.types) - set(entities.get("train", {}))
    if entities.get("train") and untrained:
        yield f"{who}: types that train does not show: {', '.join(sorted(untrained))}."


def _word_warnings(who: str, labelled: LabelledDomain) -> list[str]:
    """Warn of labelled words that plain text cuts otherwise: a tagger trained on them meets other words later."""
    counts = Counter(
        word for sentences in labelled.splits.values() for sentence in sentences for word in sentence.words
    )
    cut = {word: count for word, count in counts.items() if len(cut_words(word)) != 1}
    share = sum(cut.values()) / max(1, counts.total())
    if share < CUT_OTHERWISE:
        return []
    word = max(cut, key=lambda each: cut[each])
    pieces = " ".join(cut_words(word))
    return [
        f"{who}: {100 * share:.1f} % of its words are cut otherwise in plain text, as {word!r} -> {pieces!r}, by raw"
        " text and predict alike. Label words as they are cut there, or give predict words: CoNLL, or JSONL with words."
    ]


def _pair_warnings(domains: Mapping[str, Domain], labelled: Labelled) -> Iterator[str]:
    """Warn of sentences and types that source and target have in common."""
    if domains["source"].files == domains["target"].files:
        yield f"Source and target are the same data, {domains['source'].name!r}."
    else:
        seen = {sentence.words for sentence in labelled["source"].splits.get("train", [])}
        for split in ("dev", "test"):
            sentences = labelled["target"].splits.get(split, [])
            repeated = sum(len(sentence.words) >= FEWEST_WORDS and sentence.words in seen for sentence in sentences)
            if repeated:
                yield (
                    f"{repeated} of {len(sentences)} {split} sentences of the target are in the source's train, word"
                    f" for word (sentences of at least {FEWEST_WORDS} words are compared)."
                )
    folded = {name.casefold(): name for name in labelled["source"].types}
    for name in labelled["target"].types:
        other = folded.get(name.casefold(), name)
        if other != name and name not in labelled["source"].types:
            yield f"The type {other!r} of the source and {name!r} of the target differ by case only: two types."
