"""What a person should know of labelled data before training on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from crossner_cli.data.domains import FOLDER_HINT, Domain
from crossner_cli.data.labelled_domain import LabelledDomain
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.data.text import find_words
from crossner_cli.options import PrepareData

# Share of words above which it is no matter of single abbreviations: data sets of the field have up to 0.6 %.
CUT_OTHERWISE = 0.02
LISTED_TYPES = 8  # in a warning
LONG_SENTENCES = 100  # words on average: no data set of the field has half as many
WITHOUT_ENTITIES = {
    "train": "nothing can be learnt from it",
    "dev": "no epoch can be chosen on it",
    "test": "no score of it means anything",
}
FEWEST_WORDS = 5  # shorter sentences, as a name alone, are in any two data sets of news


def data_warnings(
    domains: Mapping[str, Domain], labelled: Mapping[str, LabelledDomain], statistics: dict[str, Any],
    options: PrepareData,
) -> list[str]:  # fmt: skip
    """Say what is wrong or odd about the data of a run.

    Args:
        domains: Source and target, as they were found.
        labelled: What was read of them and chosen.
        statistics: What was counted of them.
        options: The options of ``prepare-data``.
    """
    found = [
        f"The {role} {domain.name!r}: not read: {', '.join(domain.passed_over)}. {FOLDER_HINT}"
        for role, domain in domains.items()
        if domain.passed_over
    ]
    for role, domain in labelled.items():
        others = [other for other, each in labelled.items() if other != role and "dev" in each.splits]
        found += _domain_warnings(f"{role} {domains[role].name!r}", domain, statistics[role], others)
    train = labelled["target"].splits.get("train", []) if "target" in labelled else []
    if options.train_limit and len(train) < options.train_limit:
        found.append(f"--train-limit {options.train_limit}: the target has only {len(train)} training sentences.")
    if options.dev_from_train and all("dev" in domain.files for domain in domains.values()):
        found.append(f"--dev-from-train {options.dev_from_train} took nothing: every domain has dev sentences.")
    if "target" in labelled:
        found += _cut_warnings(f"target {domains['target'].name!r}", labelled["target"])
    if len(labelled) == 2:
        found += _pair_warnings(domains, labelled)
        found += _map_warnings(options.map_types or "", labelled)
    return found


def _cut_warnings(who: str, labelled: LabelledDomain) -> list[str]:
    """Tell of labelled words that would be others in plain text: a tagger trained on them meets the others later."""
    counts = Counter(
        word for sentences in labelled.splits.values() for sentence in sentences for word in sentence.words
    )
    cut = {word: count for word, count in counts.items() if len(find_words(word)) != 1}
    share = sum(cut.values()) / max(1, counts.total())
    if share < CUT_OTHERWISE:
        return []
    word = max(cut, key=lambda each: cut[each])
    pieces = " ".join(piece.text for piece in find_words(word))
    return [
        f"The {who}: {100 * share:.1f} % of its words are others in plain text, as {word!r} -> {pieces!r}: raw text "
        "and predict are cut so. Label words as they are cut there, or give predict words: CoNLL, or JSONL with words."
    ]


def _map_warnings(map_types: str, labelled: Mapping[str, LabelledDomain]) -> list[str]:
    """Names of ``--map-types`` that the target has not got: a slip, since they make no type alike."""
    targets = labelled["target"].types
    new = dict.fromkeys(pair.partition("=")[2].strip() for pair in map_types.split(",") if map_types)
    missing = [name for name in new if name not in (*targets, OUTSIDE)]
    return [
        f"--map-types: the target has no type {', '.join(missing)}; its types are {', '.join(targets) or 'none'}."
    ] if missing else []  # fmt: skip


def _domain_warnings(
    who: str, labelled: LabelledDomain, statistics: dict[str, Any], others_with_dev: Sequence[str]
) -> list[str]:
    splits, found = labelled.splits, []
    if "dev" not in splits:
        ways = ["--dev-from-train 0.1 takes it from train"] * ("train" in splits)
        ways += [f"--select-on {role}" for role in others_with_dev]
        way = ", or ".join(ways) or "add a dev file"
        found.append(f"The {who} has no dev sentences to choose the best epoch on: {way}.")
    for split in ("test",) if statistics["dev_is_test"] else ("dev", "test"):
        if repeated := statistics["shared_sentences"].get(f"{split} in train"):
            count = len(splits[split])
            found.append(f"The {who}: {repeated} of {count} {split} sentences are in train, word for word.")
    found += _shape_warnings(who, labelled)
    if statistics["dev_is_test"]:
        found.append(f"The {who}: dev equals test, so scores on test are of sentences that chose the epoch.")
    if not labelled.types:
        found.append(f"The {who} has no entity: every tag is O, and nothing can be learnt from it.")
    else:
        found += [
            f"The {who}: {split} has no entity: every tag is O, so {WITHOUT_ENTITIES[split]}."
            for split in splits
            if not statistics["splits"][split]["entities"]
        ]
    folded = Counter(name.casefold() for name in labelled.types)
    for alike in (
        [name for name in labelled.types if name.casefold() == key] for key, count in folded.items() if count > 1
    ):
        found.append(f"The {who}: {' and '.join(alike)} differ by case only: {len(alike)} types.")
    if "train" in splits:
        trained = statistics["splits"]["train"]["entities"]
        untrained = set(labelled.types) - set(trained)
        if trained and untrained:  # else it was told above
            found.append(f"The {who}: types that train does not show: {', '.join(sorted(untrained))}.")
    return found


def _shape_warnings(who: str, labelled: LabelledDomain) -> list[str]:
    """Tell of splits whose columns or sentences are likely others than they were read as."""
    found = []
    for split, sentences in labelled.splits.items():
        words = [word for sentence in sentences for word in sentence.words]
        numbers = sum(word.isdecimal() for word in words)
        if 2 * numbers > len(words):
            found.append(
                f"The {who}: {numbers:,} of {len(words):,} words of {split} are numbers, as {words[0]!r}: is the word"
                " in another column than the first?"
            )
        if len(words) > LONG_SENTENCES * len(sentences):
            found.append(
                f"The {who}: {split} has {len(words) / len(sentences):,.0f} words a sentence: does an empty line stand"
                " behind each?"
            )
    return found


def name_warnings(types: Mapping[str, int], labelled: Mapping[str, LabelledDomain]) -> list[str]:
    """Tell of types of the entity lists, with their number of names, that no data set of the run has: likely slips."""
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


def _leak_warnings(labelled: Mapping[str, LabelledDomain]) -> list[str]:
    """Sentences that a tagger of the source is trained on and one of the target is scored on."""
    seen = {sentence.words for sentence in labelled["source"].splits.get("train", [])}
    found = []
    for split in ("dev", "test"):
        sentences = labelled["target"].splits.get(split, [])
        repeated = sum(len(sentence.words) >= FEWEST_WORDS and sentence.words in seen for sentence in sentences)
        if repeated:
            found.append(
                f"{repeated} of {len(sentences)} {split} sentences of the target are in the source's train, word for"
                f" word (those of at least {FEWEST_WORDS} words are looked for)."
            )
    return found


def _pair_warnings(domains: Mapping[str, Domain], labelled: Mapping[str, LabelledDomain]) -> list[str]:
    found = []
    if domains["source"].files == domains["target"].files:
        found.append(f"Source and target are the same data, {domains['source'].name!r}.")
    else:
        found += _leak_warnings(labelled)
    folded = {name.casefold(): name for name in labelled["source"].types}
    for name in labelled["target"].types:
        other = folded.get(name.casefold(), name)
        if other != name and name not in labelled["source"].types:
            found.append(f"The type {other!r} of the source and {name!r} of the target differ by case only: two types.")
    return found
