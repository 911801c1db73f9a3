"""Statistics of labelled data: sizes of splits, what splits share, and how much vocabulary two domains share.

Everything returned is plain JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans

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

Mention = tuple[tuple[str, ...], str]


def count_split(sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Sentences, words, words of the longest sentence, and entities of each type."""
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
    """Count the splits of a domain, what they share, and the mentions that train has, too.

    Args:
        splits: Sentences by split.
        source_train: Training sentences of the source, if the domain is a target.

    Returns:
        ``splits`` (see ``count_split``), ``shared_sentences``, ``mentions`` of dev and test, ``dev_is_test``.
    """
    seen_in = {"train": splits.get("train"), "source_train": source_train}
    places = {place: mentions(sentences) for place, sentences in seen_in.items() if sentences is not None}
    return {
        "splits": {split: count_split(sentences) for split, sentences in splits.items()},
        "shared_sentences": shared_sentences(splits),
        "mentions": {
            split: seen_mentions(mentions(splits[split]), places) for split in ("dev", "test") if split in splits
        },
        "dev_is_test": dev_is_test(splits),
    }


def shared_sentences(splits: Mapping[str, Sequence[Sentence]]) -> dict[str, int]:
    """Count, for each pair of splits (``test in train``), sentences of the later one whose words the earlier has."""
    words = {split: {sentence.words for sentence in sentences} for split, sentences in splits.items()}
    return {
        f"{later} in {earlier}": sum(sentence.words in words[earlier] for sentence in splits[later])
        for earlier, later in combinations(splits, 2)
    }


def dev_is_test(splits: Mapping[str, Sequence[Sentence]]) -> bool:
    """Return whether dev and test hold the same sentences, so that selecting on dev is selecting on test."""
    if "dev" not in splits or "test" not in splits:
        return False
    dev, test = ([(sentence.words, sentence.tags) for sentence in splits[split]] for split in ("dev", "test"))
    return dev == test


def mentions(sentences: Iterable[Sentence]) -> Counter[Mention]:
    """Count each entity by its words and type."""
    return Counter(
        (sentence.words[span.start : span.end], span.type)
        for sentence in sentences
        for span in to_spans(sentence.tags or ())
    )


def seen_mentions(found: Counter[Mention], places: Mapping[str, Counter[Mention]]) -> dict[str, Any]:
    """Count mentions, distinct and in all, and those that each place has with the same type."""
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
    """True if a word has a letter or digit and is no function word."""
    return any(map(str.isalnum, word)) and word.lower() not in STOP_WORDS


def vocabulary(counts: Counter[str], size: int = VOCABULARY_SIZE) -> list[str]:
    """The most frequent words without stop words and words without a letter or digit; ties go by the alphabet."""
    return sorted(filter(is_content_word, counts), key=lambda word: (-counts[word], word))[:size]


def vocabulary_overlap(source: Counter[str], target: Counter[str], size: int = VOCABULARY_SIZE) -> dict[str, Any]:
    """Share of the most frequent words that two domains have in common (Liu et al. 2021, Figure 1).

    The paper takes 5,000 words of each domain. If a domain has fewer, the percentage is of the smaller vocabulary.

    Returns:
        ``percent`` (None if a domain has no word), ``shared``, and ``source`` and ``target``: vocabulary sizes.
    """
    ours, theirs = set(vocabulary(source, size)), set(vocabulary(target, size))
    smaller = min(len(ours), len(theirs))
    shared = len(ours & theirs)
    percent = round(100 * shared / smaller, 2) if smaller else None
    return {"percent": percent, "shared": shared, "source": len(ours), "target": len(theirs)}
