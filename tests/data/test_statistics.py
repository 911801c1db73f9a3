"""Statistics of labelled data, against counts by hand and by brute force."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.domains import known_domains, read_domain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.statistics import (
    count_raw_words,
    count_split,
    count_words,
    dev_is_test,
    domain_statistics,
    mentions,
    seen_mentions,
    shared_sentences,
    vocabulary,
    vocabulary_overlap,
)

MIRROR = os.environ.get("CROSSNER_MIRROR", "")


def sentence(text):
    """``Paris/B-city is`` as a sentence."""
    pairs = [word.partition("/") for word in text.split()]
    return Sentence(tuple(word for word, _, _ in pairs), tuple(tag or "O" for _, _, tag in pairs))


PARIS = sentence("Paris/B-city is here")
NEW_YORK = sentence("New/B-city York/I-city and/O Rome/B-city")
ROME = sentence("Rome/B-club won")


def test_a_split_is_counted():
    counts = {"sentences": 3, "words": 9, "longest_sentence": 4, "entities": {"city": 3, "club": 1}}
    assert count_split([PARIS, NEW_YORK, ROME]) == counts
    assert count_split([]) == {"sentences": 0, "words": 0, "longest_sentence": 0, "entities": {}}


def test_sentences_of_a_split_that_an_earlier_one_has_are_counted_each_time():
    other_case = sentence("paris/B-city is here")
    splits = {"train": [PARIS, ROME], "dev": [NEW_YORK, other_case], "test": [PARIS, PARIS, NEW_YORK]}
    assert shared_sentences(splits) == {"dev in train": 0, "test in train": 2, "test in dev": 1}
    assert shared_sentences({"test": [PARIS]}) == {}


def test_dev_equals_test_only_if_every_word_and_tag_does():
    assert dev_is_test({"dev": [PARIS, ROME], "test": [PARIS, ROME]})
    assert not dev_is_test({"dev": [PARIS, ROME], "test": [ROME, PARIS]})
    assert not dev_is_test({"dev": [sentence("Paris/B-club is here")], "test": [PARIS]})
    assert not dev_is_test({"test": [PARIS]})


def test_a_mention_is_seen_only_with_the_same_words_and_type():
    found = mentions([NEW_YORK, ROME, ROME])
    assert found == {(("New", "York"), "city"): 1, (("Rome",), "city"): 1, (("Rome",), "club"): 2}
    places = {"train": mentions([sentence("Rome/B-club")]), "source_train": mentions([sentence("York/B-city")])}
    assert seen_mentions(found, places) == {
        "distinct": 3,
        "occurrences": 4,
        "seen_in_train": {"distinct": 1, "occurrences": 2},
        "seen_in_source_train": {"distinct": 0, "occurrences": 0},
    }


def test_a_domain_without_train_is_compared_with_the_source_only():
    found = domain_statistics({"test": [ROME]}, [sentence("Rome/B-club")])
    assert found["mentions"] == {
        "test": {"distinct": 1, "occurrences": 1, "seen_in_source_train": {"distinct": 1, "occurrences": 1}}
    }
    assert json.loads(json.dumps(found)) == found


def test_words_are_lower_cased_and_a_vocabulary_is_the_most_frequent_ones_that_are_no_stop_words_or_punctuation():
    assert count_words([PARIS, PARIS]) == {"paris": 2, "is": 2, "here": 2}
    raw = count_raw_words(["Mars, (the) well-known", "planet's Mars."])
    assert raw == {"mars": 2, "the": 1, "well-known": 1, "planet's": 1}
    counts = Counter({"the": 99, ",": 98, "n't": 97, "mars": 3, "venus": 5, "2": 3, "--": 50, "io": 1})
    assert vocabulary(counts, 3) == ["venus", "2", "mars"]


@settings(max_examples=60)
@given(*[st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 9)) for _ in range(2)], st.integers(1, 6))
def test_overlap_equals_a_count_by_brute_force(source, target, size):
    def most_frequent(counts):
        pairs = sorted((-count, word) for word, count in counts.items() if word not in ("a", "i"))
        return [word for _, word in pairs][:size]

    ours, theirs = most_frequent(source), most_frequent(target)
    shared = sum(word in theirs for word in ours)
    found = vocabulary_overlap(Counter(source), Counter(target), size)
    assert (found["shared"], found["source"], found["target"]) == (shared, len(ours), len(theirs))
    if ours and theirs:
        assert found["percent"] == pytest.approx(100 * shared / min(len(ours), len(theirs)), abs=0.01)
    else:
        assert found["percent"] is None


def read_known(name):
    files = {split: Path(MIRROR) / name / file.name for split, file in known_domains()[name].files.items()}
    return read_domain(files).splits


@pytest.mark.skipif(not (Path(MIRROR) / "corpora").is_dir(), reason="CROSSNER_MIRROR has no raw text")
def test_repeated_sentences_and_overlap_of_published_sets_are_near_the_published_ones():
    assert shared_sentences(read_known("music"))["test in train"] == 6
    news = count_words(read_known("conll2003")["train"])
    with (Path(MIRROR) / "corpora" / "ai_abstracts.txt").open(encoding="utf-8") as lines:
        machine_learning = count_raw_words(lines)
    # The paper measured 25.4 on its own raw text of both domains.
    assert vocabulary_overlap(news, machine_learning)["percent"] == pytest.approx(25.4, abs=3)
