"""Statistics of labelled data as plain JSON, and warnings about it."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from crossner_cli.data.domains import Domain
from crossner_cli.data.labelled import LabelledDomain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.data.text import cut_words
from crossner_cli.data.types import match_types

VOCABULARY_SIZE = 5000
# English function words: articles, pronouns, prepositions, conjunctions, auxiliaries and their clitics as tokenised.
FUNCTION_WORDS = """
    a about above after again against all also although am among an and any are as at be because been before being
    below between both but by can cannot could did do does doing down during each either few for from further had has
    have having he her here hers herself him himself his how however i if in into is it its itself just may me might
    more most much must my myself neither no nor not now of off on once one only or other our ours ourselves out over
    own per same shall she should since so some such than that the their theirs them themselves then there these they
    this those though through to too toward towards under until up upon us very via was we were what when where whether
    which while who whom whose why will with within without would yet you your yours yourself yourselves
    's 're 've 'll 'd 'm n't ca wo s t -lrb- -rrb- -lsb- -rsb-
"""
STOP_WORDS = frozenset(FUNCTION_WORDS.split())
RAW_WORD = re.compile(r"\w+(?:[-'’]\w+)*")

# Share of words; published data sets have up to 0.6 % that are cut differently in plain text.
CUT_OTHERWISE = 0.02
FEWEST = 20  # words that show whether each is a sentence, or a letter of a longer word
LISTED_TYPES = 8  # in a warning
LONG_SENTENCES = 100  # words on average: no published data set has half as many
MOST_TYPES_BY_HAND = 200  # with more, typing errors are not searched, which takes quadratic time
FEW_SENTENCES = 3  # sentences of train, or one entity in all
SWAPPED = 10  # times as many sentences in the target's train as in the source's: more is learnt from the source
TYPING_ERROR = 0.8  # likeness of two names of types, by difflib
WITHOUT_ENTITIES = {
    "train": "nothing can be learnt from it",
    "dev": "no epoch can be chosen on it",
    "test": "its scores mean nothing",
}

Mention = tuple[tuple[str, ...], str]
Labelled = Mapping[str, LabelledDomain]


def count_split(sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Count sentences, words, words of the longest sentence, and entities of each type."""
    lengths = [len(sentence.words) for sentence in sentences]
    entities = Counter(span.type for sentence in sentences for span in to_spans(sentence.tags or ()))
    return {
        "sentences": len(lengths),
        "words": sum(lengths),
        "longest_sentence": max(lengths, default=0),
        "entities": dict(sorted(entities.items(), key=lambda item: (-item[1], item[0]))),
    }


def domain_statistics(
    splits: Mapping[str, Sequence[Sentence]], source_train: Sequence[Sentence] | None = None
) -> dict[str, Any]:
    """Count the splits of a domain, what they share, and the mentions that are also in train and in the source's train.

    Returns:
        ``splits`` (see ``count_split``); ``shared_sentences``: for each pair of splits (``test in train``), those of
        the later one whose words the earlier has; ``mentions`` of dev and test; ``dev_is_test``: both hold the same
        sentences, so that selecting on dev is selecting on test.
    """
    words = {split: {sentence.words for sentence in sentences} for split, sentences in splits.items()}
    seen_in = {"train": splits.get("train"), "source_train": source_train}
    places = {place: mentions(sentences) for place, sentences in seen_in.items() if sentences is not None}
    ends = [[(sentence.words, sentence.tags) for sentence in splits.get(split, ())] for split in ("dev", "test")]
    return {
        "splits": {split: count_split(sentences) for split, sentences in splits.items()},
        "shared_sentences": {
            f"{later} in {earlier}": sum(sentence.words in words[earlier] for sentence in splits[later])
            for earlier, later in combinations(splits, 2)
        },
        "mentions": {
            split: seen_mentions(mentions(splits[split]), places) for split in ("dev", "test") if split in splits
        },
        "dev_is_test": "dev" in splits and "test" in splits and ends[0] == ends[1],
    }


def mentions(sentences: Iterable[Sentence]) -> Counter[Mention]:
    """Count each entity by its words and type."""
    return Counter(
        (sentence.words[span.start : span.end], span.type)
        for sentence in sentences
        for span in to_spans(sentence.tags or ())
    )


def seen_mentions(found: Counter[Mention], places: Mapping[str, Counter[Mention]]) -> dict[str, Any]:
    """Count mentions, distinct and in all, and those that also occur in each place with the same type."""
    seen: dict[str, Any] = {"distinct": len(found), "occurrences": found.total()}
    for place, known in places.items():
        both = [mention for mention in found if mention in known]
        seen[f"seen_in_{place}"] = {"distinct": len(both), "occurrences": sum(found[mention] for mention in both)}
    return seen


def count_words(sentences: Iterable[Sentence]) -> Counter[str]:
    """Count lower-cased words of labelled sentences."""
    return Counter(word.lower() for sentence in sentences for word in sentence.words)


def count_raw_words(lines: Iterable[str]) -> Counter[str]:
    """Count lower-cased words of raw text: runs of letters and digits, joined by hyphens or apostrophes."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(RAW_WORD.findall(line.lower()))
    return counts


def is_content_word(word: str) -> bool:
    """Return whether a word has a letter or digit and is not a function word."""
    return any(map(str.isalnum, word)) and word.lower() not in STOP_WORDS


def vocabulary_overlap(source: Counter[str], target: Counter[str], size: int = VOCABULARY_SIZE) -> dict[str, Any]:
    """Compute the share of the most frequent words that two domains have in common (Liu et al. 2021, Figure 1).

    The paper takes 5,000 words of each domain, without stop words and words without a letter or digit; ties go by the
    alphabet. If a domain has fewer, the percentage is of the smaller vocabulary.

    Returns:
        ``percent`` (None if a domain has no words), ``shared``, and ``source`` and ``target``: vocabulary sizes.
    """
    ours, theirs = (
        set(sorted(filter(is_content_word, counts), key=lambda word: (-counts[word], word))[:size])
        for counts in (source, target)
    )
    smaller = min(len(ours), len(theirs))
    shared = len(ours & theirs)
    percent = round(100 * shared / smaller, 2) if smaller else None
    return {"percent": percent, "shared": shared, "source": len(ours), "target": len(theirs)}


def domain_warnings(role: str, name: str, labelled: LabelledDomain, statistics: Mapping[str, Any]) -> list[str]:
    """Warn of oddities of one data set in any run, given its ``domain_statistics``."""
    who = f"The {role} {name!r}"
    return [
        *labelled.repairs.warnings,
        *_split_warnings(who, labelled),
        *_type_warnings(who, labelled, statistics),
    ]


def data_warnings(domains: Mapping[str, Domain], labelled: Labelled, statistics: Mapping[str, Any]) -> list[str]:
    """Warn of problems of data sets for this run or its scores, given by role with their ``domain_statistics``."""
    found: list[str] = []
    for role, domain in labelled.items():
        who = f"The {role} {domains[role].name!r}"
        found += [warning for split in ("dev", "test") for warning in score_warnings(who, statistics[role], split)]
        if "dev" not in domain.splits:
            ways = ["--dev-from-train 0.1 takes it from train"] if "train" in domain.splits else []
            ways += [f"--select-on {other}" for other, each in labelled.items() if "dev" in each.splits]
            way = ", or ".join(ways) or "add a dev file"
            found.append(f"{who} has no dev sentences to choose the best epoch on: {way}.")
        if role == "target" and "test" not in domain.splits:
            found.append(f"{who} has no test sentences, which evaluate needs: add a file of sentences not trained on.")
    if "target" in labelled:
        found += _word_warnings(f"The target {domains['target'].name!r}", labelled["target"])
    if len(labelled) == 2 and domains["source"].files == domains["target"].files:
        found.append(f"Source and target are the same data, {domains['source'].name!r}.")
    trains = {role: statistics[role]["splits"].get("train", {}).get("sentences", 0) for role in labelled}
    if trains.get("target", 0) > SWAPPED * trains.get("source", trains.get("target", 0)):
        counts = " and ".join(f"{count:,} sentences of the {role}" for role, count in trains.items())
        found.append(f"There are {counts} to learn from: are --source and --target swapped?")
    return found


def alike_type_warnings(alike: Sequence[str]) -> list[str]:
    """Warn of types that seem to be the same under two names, given as pairs for ``--map-types``."""
    if not alike:
        return []
    mapped = ",".join(alike[:LISTED_TYPES]) + ",…" * (len(alike) > LISTED_TYPES)
    return [
        "Types of the source and the target with similar names count as different. If they mean the same:"
        f" --map-types {mapped}"
    ]


def mapped_type_warnings(new: Iterable[str], targets: Sequence[str]) -> list[str]:
    """Warn of types that ``--map-types`` gives the source and the target lacks: likely typing errors."""
    missing = ", ".join(name for name in dict.fromkeys(new) if name not in targets)
    return [f"--map-types: the target has no type {missing}; its types are {', '.join(targets)}."] if missing else []


def listed_type_warnings(types: Mapping[str, int], labelled: Labelled, *, alike_is_known: bool = False) -> list[str]:
    """Warn of types of the entity lists, given with their number of names, that no data set of the run has.

    Args:
        types: Number of names by type.
        labelled: The data sets.
        alike_is_known: True if a type counts as known when a data set has one with a similar name.
    """
    known = {name for domain in labelled.values() for name in domain.types}
    alike = match_types(list(types), list(known)) if alike_is_known else {}
    others = {name: count for name, count in types.items() if name not in known and name not in alike}
    if not known or not others:
        return []
    shown = ", ".join(f"{name} ({count:,})" for name, count in list(others.items())[:LISTED_TYPES])
    more = f" and {len(others) - LISTED_TYPES:,} more" if len(others) > LISTED_TYPES else ""
    return [
        f"Types of the entity lists, with their names, that neither data set has: {shown}{more}. A line of a list is"
        " name<TAB>type, with no heading."
    ]


def score_warnings(who: str, statistics: Mapping[str, Any], split: str) -> Iterator[str]:
    """Warn of what changes the meaning of scores on dev or test: repeated sentences and missing entities."""
    counts = statistics["splits"].get(split, {})
    if counts and not counts["entities"]:
        yield f"{who}: {split} has no entities: every tag is O, so {WITHOUT_ENTITIES[split]}."
    if statistics["dev_is_test"] and split == "dev":
        return
    if repeated := statistics["shared_sentences"].get(f"{split} in train"):
        yield f"{who}: {repeated} of {counts['sentences']} {split} sentences are in train, word for word."
    if statistics["dev_is_test"]:
        yield f"{who}: dev equals test, so scores on test are those of sentences that chose the epoch."
    train = statistics["splits"].get("train", {"entities": {}})["entities"]
    if split == "test" and counts and counts["entities"] and (unscored := set(train) - set(counts["entities"])):
        yield f"{who}: types of train that test lacks, so that no score shows them: {', '.join(sorted(unscored))}."


def _split_warnings(who: str, labelled: LabelledDomain) -> Iterator[str]:
    """Warn of sentences or columns that were probably read wrongly."""
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
        if len(words) == len(sentences) >= FEWEST:
            yield f"{who}: every sentence of {split} is a single word: is there an empty line after each word?"
        elif len(words) == len("".join(words)) >= FEWEST > 2 * len(cut_words("".join(words[:FEWEST]))):
            yield f"{who}: every word of {split} is a single letter, and predict cuts text into whole words."


def _type_warnings(who: str, labelled: LabelledDomain, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Warn of splits without entities, of types that differ by case only, and of types that train lacks."""
    entities = {split: counts["entities"] for split, counts in statistics["splits"].items()}
    if "train" in entities and not entities["train"]:
        yield f"{who}: train has no entities: every tag is O, so {WITHOUT_ENTITIES['train']}."
    alike: dict[str, list[str]] = {}
    for name in labelled.types:
        alike.setdefault(name.casefold(), []).append(name)
    for names in alike.values():
        if len(names) > 1:
            yield f"{who}: {' and '.join(names)} differ by case only: {len(names)} types."
    if joined := [name for name in labelled.types if re.search(r"\w[|;,]\w", name)]:
        yield f"{who}: these types look like several in one cell, keep one: {', '.join(joined[:LISTED_TYPES])}."
    totals = Counter(dict.fromkeys(labelled.types, 0))
    for counts in entities.values():
        totals.update(counts)
    once = [name for name, count in totals.items() if count == 1]
    for name in once if len(totals) <= MOST_TYPES_BY_HAND else ():
        others = [other for other, count in totals.items() if count > 1 and other.casefold() != name.casefold()]
        if close := difflib.get_close_matches(name, others, n=1, cutoff=TYPING_ERROR):
            yield f"{who}: the type {name} occurs once and resembles {close[0]}: is it a typing error?"
    train = statistics["splits"].get("train", {"sentences": 0, "entities": {}})
    if 0 < train["sentences"] <= FEW_SENTENCES or sum(train["entities"].values()) == 1:
        count = sum(train["entities"].values())
        yield f"{who}: train has {train['sentences']} sentences with {count} entities, too few to learn from."
    untrained = set(labelled.types) - set(entities.get("train", {}))
    if entities.get("train") and untrained:
        yield f"{who}: types that train does not show: {', '.join(sorted(untrained))}."


def _word_warnings(who: str, labelled: LabelledDomain) -> list[str]:
    """Warn of labelled words that plain text cuts differently: a tagger trained on them meets other words later."""
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
        f"{who}: {100 * share:.1f} % of its words are cut differently in plain text, as {word!r} -> {pieces!r}, by"
        " raw text and predict alike. Label words as they are cut there, or give predict words: CoNLL, or JSONL with"
        " words."
    ]
