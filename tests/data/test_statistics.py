"""Statistics of labelled data, against counts by hand and by brute force, and a warning for each thing gone wrong."""

import os
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from builders.timing import within
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.domains import Domain, known_domains
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.statistics import (
    alike_type_warnings,
    count_raw_words,
    count_split,
    count_words,
    data_warnings,
    domain_statistics,
    domain_warnings,
    listed_type_warnings,
    mapped_type_warnings,
    mentions,
    seen_mentions,
    vocabulary_overlap,
)
from crossner_cli.data.tags import TagSet
from crossner_cli.data.types import match_types

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
    shared = {"dev in train": 0, "test in train": 2, "test in dev": 1}
    assert domain_statistics(splits)["shared_sentences"] == shared
    assert domain_statistics({"test": [PARIS]})["shared_sentences"] == {}


def test_dev_equals_test_only_if_every_word_and_tag_does():
    assert domain_statistics({"dev": [PARIS, ROME], "test": [PARIS, ROME]})["dev_is_test"]
    for splits in ({"dev": [ROME, PARIS]}, {"dev": [PARIS, sentence("Rome/B-city won")]}, {}):
        assert not domain_statistics({**splits, "test": [PARIS, ROME]})["dev_is_test"]


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


def test_words_are_lower_cased_and_neither_stop_words_nor_punctuation_count_as_vocabulary():
    assert count_words([PARIS, PARIS]) == {"paris": 2, "is": 2, "here": 2}
    raw = count_raw_words(["Mars, (the) well-known", "planet's Mars."])
    assert raw == {"mars": 2, "the": 1, "well-known": 1, "planet's": 1}
    counts = Counter({"the": 99, ",": 98, "n't": 97, "mars": 3, "venus": 5, "2": 3, "--": 50, "io": 1})
    known = Counter(["venus", "2", "mars", "the", ","])
    assert vocabulary_overlap(counts, known, 3) == {"percent": 100.0, "shared": 3, "source": 3, "target": 3}


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
    files = {split: [Path(MIRROR) / name / file.name] for split, file in known_domains()[name].files.items()}
    return read_domain(files).splits


@pytest.mark.skipif(not (Path(MIRROR) / "corpora").is_dir(), reason="CROSSNER_MIRROR has no raw text")
def test_repeated_sentences_and_overlap_of_published_sets_are_near_the_published_ones():
    assert domain_statistics(read_known("music"))["shared_sentences"]["test in train"] == 6
    news = count_words(read_known("conll2003")["train"])
    with (Path(MIRROR) / "corpora" / "ai_abstracts.txt").open(encoding="utf-8") as lines:
        machine_learning = count_raw_words(lines)
    # The paper measured 25.4 on its own raw text of both domains.
    assert vocabulary_overlap(news, machine_learning)["percent"] == pytest.approx(25.4, abs=3)


SPLITS = {
    "source/train": "Rome\tB-location\n\nIt\tO\n\nOslo\tB-location\n\nHe\tO\n",
    "source/dev": "Paris\tB-location\n",
    "target/train": "\n".join(f"w{number}\tB-dish\n" for number in range(10)),
    "target/dev": "x1\tB-dish\n",
    "target/test": "y1\tB-dish\n",
}


@pytest.fixture
def warn(tmp_path):
    """Warnings about the splits above, some of them changed or left out (None)."""

    def warn(changed, *roles):
        domains, labelled = {}, {}
        for role in roles or ("source", "target"):
            files = {}
            for split in ("train", "dev", "test"):
                text = {**SPLITS, **changed}.get(f"{role}/{split}")
                if text is not None:
                    files[split] = [tmp_path / f"{role}-{split}.txt"]
                    files[split][0].write_text(text, encoding="utf-8")
            domains[role] = Domain(role, files)
            labelled[role] = read_domain(files)
        statistics = {role: domain_statistics(found.splits) for role, found in labelled.items()}
        found = data_warnings(domains, labelled, statistics)
        for role, each in labelled.items():
            found += domain_warnings(role, role, each, statistics[role])
        if len(labelled) == 2:
            alike = match_types(labelled["source"].types, labelled["target"].types)
            found += alike_type_warnings([*map("=".join, alike.items())])
        return found

    return warn


def rows(*words):
    return "".join(f"{word}\tO\n" for word in words)


NO_DEV = "The {0} '{0}' has no dev sentences to choose the best epoch on: --dev-from-train 0.1 takes it from train"
FAULTS = {
    "no-dev": ({"target/dev": None}, f"{NO_DEV.format('target')}, or --select-on source."),
    "dev-in-train": (
        {"target/dev": "w1\tB-dish\n\nx1\tB-dish\n"},
        "The target 'target': 1 of 2 dev sentences are in train, word for word.",
    ),
    "dev-is-test": (
        {"target/test": "x1\tB-dish\n"},
        "The target 'target': dev equals test, so scores on test are those of sentences that chose the epoch.",
    ),
    "no-entity": (
        {"source/train": rows("Rome"), "source/dev": rows("Paris")},
        "The source 'source': train has no entities: every tag is O, so nothing can be learnt from it.",
    ),
    "words-as-sentences": (
        {"source/train": "\n".join(rows(f"w{number}") for number in range(20)) + "\nRome\tB-location\n"},
        "The source 'source': every sentence of train is a single word: is there an empty line after each word?",
    ),
    "letters-as-words": (
        {"source/train": rows(*"ItrainedinParisandIstayed") + "\nR\tB-location\n"},
        "The source 'source': every word of train is a single letter, and predict cuts text into whole words.",
    ),
    "several-types-in-a-cell": (
        {"source/train": "Rome\tB-location\n\nIt\tB-location|dish\n"},
        "The source 'source': these types look like several in one cell, keep one: location|dish.",
    ),
    "no-entity-in-test": (
        {"target/test": rows("y1")},
        "The target 'target': test has no entities: every tag is O, so its scores mean nothing.",
    ),
    "case": (
        {"target/train": "a\tB-dish\nb\tB-Dish\n"},
        "The target 'target': dish and Dish differ by case only: 2 types.",
    ),
    "untrained": ({"target/test": "y1\tB-drink\n"}, "The target 'target': types that train does not show: drink."),
    "case-of-both": (
        {"target/test": "y1\tB-Location\n"},
        "Types of the source and the target with similar names count as different. If they mean the same:"
        " --map-types location=Location",
    ),
    "abbreviation": (
        {"target/test": "y1\tB-LOC\n"},
        "Types of the source and the target with similar names count as different. If they mean the same:"
        " --map-types location=LOC",
    ),
    "typing-error": (
        {"target/test": "y1\tB-dishs\n"},
        "The target 'target': the type dishs occurs once and resembles dish: is it a typing error?",
    ),
    "unscored": (
        {"target/train": f"{SPLITS['target/train']}\nx\tB-drink\n\ny\tB-drink\n"},
        "The target 'target': types of train that test lacks, so that no score shows them: drink.",
    ),
    "few-sentences": (
        {"target/train": "a\tB-dish\n\nb\tB-dish\n"},
        "The target 'target': train has 2 sentences with 2 entities, too few to learn from.",
    ),
    "one-entity": (
        {"target/train": f"a\tB-dish\n\n{''.join(f'w{number}{chr(9)}O{chr(10) * 2}' for number in range(9))}"},
        "The target 'target': train has 10 sentences with 1 entities, too few to learn from.",
    ),
    "swapped": (
        {"target/train": "\n".join(f"w{number}\tB-dish\n" for number in range(41))},
        "There are 4 sentences of the source and 41 sentences of the target to learn from: are --source and --target"
        " swapped?",
    ),
    "numbers": (
        {"target/train": "".join(f"{number}\tdish\tB-dish\n" for number in range(9))},
        "The target 'target': 9 of 9 words of train are numbers, as '0': is the word in another column than the first?",
    ),
    "long": (
        {"target/dev": "soup\tB-dish\n" * 150},
        "The target 'target': dev has 150 words a sentence: is there an empty line after each?",
    ),
    "words": (
        {"target/test": "糖尿病\tB-dish\n"},
        "The target 'target': 8.3 % of its words are cut differently in plain text, as '糖尿病' -> '糖 尿 病', by"
        " raw text and predict alike. Label words as they are cut there, or give predict words: CoNLL, or JSONL with"
        " words.",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_warning_and_data_without_one_have_none(warn, fault):
    changed, warning = FAULTS[fault]
    assert warning in warn(changed)
    assert warn({}) == []


def test_thousands_of_types_that_differ_by_case_only_take_no_time(warn):
    types = ["".join(letters) for letters in product(*((each, each.upper()) for each in "abcdefghijklmn"))]
    train = [f"w{number}\tB-{each}\n\n" for number, each in enumerate(types)]
    with within(20):
        assert warn({"source/train": "".join(train[::2]), "target/train": "".join(train[1::2])})
        assert sum(TagSet({"source": tuple(types[::2]), "target": tuple(types)}).of("source")) == len(types) + 1


def test_the_same_data_twice_is_a_warning(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(SPLITS["source/train"])
    labelled = dict.fromkeys(("source", "target"), read_domain({"train": [path]}))
    statistics = {role: domain_statistics(found.splits) for role, found in labelled.items()}
    found = data_warnings(dict.fromkeys(labelled, Domain("news", {"train": path})), labelled, statistics)
    assert "Source and target are the same data, 'news'." in found


@pytest.mark.parametrize("role", ["source", "target"])
def test_the_way_to_an_epoch_names_only_dev_sentences_that_are_there(warn, role):
    assert warn({f"{role}/dev": None}, role) == [f"{NO_DEV.format(role)}."]


def test_names_of_types_that_no_data_set_has_are_a_warning(tmp_path):
    files = {"train": [tmp_path / "train.txt"]}
    files["train"][0].write_text("soup\tB-dish\n")
    labelled = {"target": read_domain(files)}
    (warning,) = listed_type_warnings({"dish": 3, "city": 1, "type": 1}, labelled)
    assert "neither data set has: city (1), type (1)." in warning and "no heading" in warning
    assert listed_type_warnings({"dish": 3}, labelled) == []
    assert listed_type_warnings({"Dish": 3}, labelled) and not listed_type_warnings(
        {"Dish": 3}, labelled, alike_is_known=True
    )
    (warning,) = mapped_type_warnings(["Dish", "dish"], labelled["target"].types)
    assert warning == "--map-types: the target has no type Dish; its types are dish."
    assert mapped_type_warnings(["dish"], labelled["target"].types) == []
