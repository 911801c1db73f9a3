"""Warnings about labelled data: one for each thing that would go wrong without a word."""

import pytest

from crossner_cli.data.domains import Domain, read_domain
from crossner_cli.data.statistics import domain_statistics
from crossner_cli.data.warnings import data_warnings, listed_type_warnings, mapped_type_warnings

SPLITS = {
    "source/train": "Rome\tB-location\n\nIt\tO\n",
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
                    files[split] = tmp_path / f"{role}-{split}.txt"
                    files[split].write_text(text, encoding="utf-8")
            domains[role] = Domain(role, files)
            labelled[role] = read_domain(files)
        statistics = {role: domain_statistics(found.splits) for role, found in labelled.items()}
        return data_warnings(domains, labelled, statistics)

    return warn


def rows(*words):
    return "".join(f"{word}\tO\n" for word in words)


DAYS = rows("It", "rained", "in", "Rome", "today")


NO_DEV = "The {0} '{0}' has no dev sentences to choose the best epoch on: --dev-from-train 0.1 takes it from train"
FAULTS = {
    "no-dev": ({"target/dev": None}, f"{NO_DEV.format('target')}, or --select-on source."),
    "dev-in-train": (
        {"target/dev": "w1\tB-dish\n\nx1\tB-dish\n"},
        "The target 'target': 1 of 2 dev sentences are in train, word for word.",
    ),
    "dev-is-test": (
        {"target/test": "x1\tB-dish\n"},
        "The target 'target': dev equals test, so scores on test are of sentences that chose the epoch.",
    ),
    "no-entity": (
        {"source/train": rows("Rome"), "source/dev": rows("Paris")},
        "The source 'source' has no entity: every tag is O, and nothing can be learnt from it.",
    ),
    "no-entity-in-test": (
        {"target/test": rows("y1")},
        "The target 'target': test has no entity: every tag is O, so no score of it means anything.",
    ),
    "case": (
        {"target/train": "a\tB-dish\nb\tB-Dish\n"},
        "The target 'target': dish and Dish differ by case only: 2 types.",
    ),
    "untrained": ({"target/test": "y1\tB-drink\n"}, "The target 'target': types that train does not show: drink."),
    "case-of-both": (
        {"target/test": "y1\tB-Location\n"},
        "The type 'location' of the source and 'Location' of the target differ by case only: two types.",
    ),
    "numbers": (
        {"target/train": "".join(f"{number}\tdish\tB-dish\n" for number in range(9))},
        "The target 'target': 9 of 9 words of train are numbers, as '0': is the word in another column than the first?",
    ),
    "long": (
        {"target/dev": "soup\tB-dish\n" * 150},
        "The target 'target': dev has 150 words a sentence: is there an empty line after each?",
    ),
    "source-in-test": (
        {"source/train": DAYS, "target/test": DAYS + "\nw1\tB-dish\n"},
        "1 of 2 test sentences of the target are in the source's train, word for word (sentences of at least 5"
        " words are compared).",
    ),
    "words": (
        {"target/test": "糖尿病\tB-dish\n"},
        "The target 'target': 8.3 % of its words are cut otherwise in plain text, as '糖尿病' -> '糖 尿 病', by raw"
        " text and predict alike. Label words as they are cut there, or give predict words: CoNLL, or JSONL with"
        " words.",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_warning_and_data_without_one_have_none(warn, fault):
    changed, warning = FAULTS[fault]
    assert warning in warn(changed)
    assert warn({}) == []


@pytest.mark.parametrize("role", ["source", "target"])
def test_the_way_to_an_epoch_names_only_dev_sentences_that_are_there(warn, role):
    assert warn({f"{role}/dev": None}, role) == [f"{NO_DEV.format(role)}."]


def test_the_same_data_twice_is_a_warning(warn, tmp_path):
    files = {"train": tmp_path / "train.txt"}
    files["train"].write_text(SPLITS["source/train"])
    labelled = {role: read_domain(files) for role in ("source", "target")}
    statistics = {role: domain_statistics(found.splits) for role, found in labelled.items()}
    found = data_warnings(dict.fromkeys(labelled, Domain("news", files)), labelled, statistics)
    assert "Source and target are the same data, 'news'." in found


def test_names_of_types_that_no_data_set_has_are_a_warning(tmp_path):
    files = {"train": tmp_path / "train.txt"}
    files["train"].write_text("soup\tB-dish\n")
    labelled = {"target": read_domain(files)}
    (warning,) = listed_type_warnings({"dish": 3, "city": 1, "type": 1}, labelled)
    assert "neither data set has: city (1), type (1)." in warning and "no heading" in warning
    assert listed_type_warnings({"dish": 3}, labelled) == []
    (warning,) = mapped_type_warnings(["Dish", "dish"], labelled["target"].types)
    assert warning == "--map-types: the target has no type Dish; its types are dish."
    assert mapped_type_warnings(["dish"], labelled["target"].types) == []
