"""Fine-grained analyses: averages over seeds, examples and illegal tags."""

from __future__ import annotations

import statistics

import pytest
from builders.analyses import FIRST, SECOND, analyse, gold_sentences
from builders.scores import TYPES, random_tags

from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import Tagging, analyse_taggings, average_records
from crossner_cli.evaluation.scores import score
from crossner_cli.run.progress import exhaust


def test_numbers_are_means_over_seeds_with_their_deviation():
    record = analyse(FIRST, SECOND).models["model"].record
    gold = [sentence.tags or () for sentence in gold_sentences()]
    each = [score(gold, [tags.split() for tags in side]).f1 for side in (FIRST, SECOND)]
    expected = {"mean": statistics.fmean(each), "deviation": statistics.stdev(each)}
    assert record["mean"]["scores"]["micro"]["f1"] == expected
    assert [record["seeds"][seed]["scores"]["micro"]["f1"] for seed in "12"] == each
    # A seed that never makes an error of a kind counts as 0.
    assert record["mean"]["illegal_tags"]["sequences"]["O I-place"]["mean"] == 0.5
    assert record["mean"]["hierarchy"]["too_general"]["mean"] == 0.5
    single = analyse(FIRST, labels=("model",)).models["model"].record
    assert single["mean"]["scores"]["support"] == {"mean": 7.0, "deviation": None}


@pytest.mark.parametrize("mode", ["conll", "strict"])
@pytest.mark.parametrize(("prefixes", "scheme"), [("BI", "bio"), ("BIES", "bioes")])
def test_scores_by_type_are_those_of_the_evaluation(prefixes, scheme, mode):
    gold, predicted = random_tags(prefixes, 200)
    sentences = [Sentence(("w",) * len(tags), tuple(tags)) for tags in gold]
    taggings = [Tagging("m", "-", predicted, scheme)]
    work = analyse_taggings(sentences, taggings, KnownText(), mode=mode, gold_scheme=scheme, parents={})
    record = exhaust(work).models["m"].record["seeds"]["-"]
    expected = score(gold, predicted, mode=mode, scheme=scheme)
    assert record["scores"]["micro"] == {name: getattr(expected, name) for name in ("precision", "recall", "f1")}
    assert record["scores"]["macro"]["f1"] == expected.macro_f1
    assert record["scores"]["per_type"] == {name: vars(row) for name, row in expected.per_type.items()}
    assert record["illegal_tags"]["count"] == expected.repaired
    assert sorted(record["scores"]["per_type"]) == sorted(TYPES)


def test_averages_take_a_missing_number_as_zero_and_a_share_of_nothing_as_none():
    assert average_records([{"a": 1, "kind": "x"}, {"a": 3, "b": {"c": 4}, "kind": "x"}]) == {
        "a": {"mean": 2.0, "deviation": pytest.approx(2**0.5)},
        "kind": "x",
        "b": {"c": {"mean": 2.0, "deviation": pytest.approx(8**0.5)}},
    }
    records = [{"accuracy": 100.0, "right_spans": 1}, {"accuracy": None, "right_spans": 0}, {"right_spans": 1}]
    assert average_records(records)["accuracy"] == {"mean": 100.0, "deviation": None}
    assert average_records(records[1:])["accuracy"] == {"mean": None, "deviation": None}
    types = [{"percent": {"f1": 50.0}, "accuracy": {"f1": 25.0}}, {"percent": {"f1": 100.0}}]
    averages = {name: average_records(types)[name]["f1"]["mean"] for name in ("percent", "accuracy")}
    assert averages == {"percent": 75.0, "accuracy": 12.5}, "types may be called so, as MUC's percent is"
    nothing = ["O O O O O O O", "O O O O", "O O O", "O O B-song O O"]
    typing = analyse(FIRST, nothing).models["model"].record["mean"]["typing"]["per_type"]
    alone = analyse(FIRST, labels=("model",)).models["model"].record["mean"]["typing"]["per_type"]
    assert typing["person"]["accuracy"] == alone["person"]["accuracy"], "a missed entity has no predicted type"


def test_seeds_that_invent_different_types_are_analysed_together():
    """The cell of one seed's own type and another's is in no seed's table, but in that of both."""
    found = analyse([*FIRST[:2], "O O B-tool", FIRST[3]], [*FIRST[:2], "O O B-ship", FIRST[3]])
    confusion = found.models["model"].record["mean"]["confusion"]
    assert confusion["tool"]["ship"]["mean"] == confusion["ship"]["tool"]["mean"] == 0
    assert confusion["O"]["tool"]["mean"] == confusion["O"]["ship"]["mean"] == 0.5
    assert all(row.keys() == confusion.keys() for row in confusion.values())


def test_frequent_errors_are_of_the_shown_seed_and_grouped():
    record = analyse(FIRST, SECOND).models["model"].record
    assert record["shown_seed"] == "2"
    assert [error["kind"] for error in record["frequent_errors"]] == ["boundary_right", "missed", "type"]
    first = record["frequent_errors"][0]
    assert first["gold"] == {"text": "Anna Smith", "type": "politician"} and first["predicted"]["text"] == "Anna"
    assert first["context"] == "Anna Smith met Bob in Paris ." and first["sentence"] == 1
    alone = analyse(FIRST, labels=("model",)).models["model"].record["frequent_errors"]
    assert alone[0] == {
        "kind": "missed",
        "count": 2,
        "gold": {"text": "Paris", "type": "place"},
        "predicted": None,
        "sentence": 1,
        "context": "Anna Smith met Bob in Paris .",
    }
    assert [error["predicted"]["text"] for error in alone if error["kind"] == "spurious"] == ["."]


def test_illegal_tags_are_counted_by_what_stands_before_them():
    broken = ["I-person B-person I-place O O O O", "O O O O", "O O O", "O O O O O"]
    counts = analyse(broken, labels=("model",)).models["model"].record["seeds"]["1"]["illegal_tags"]
    assert counts == {"count": 2, "sequences": {"(start) I-person": 1, "B-person I-place": 1}}
    ends = ["B-person O O O O O O", "O O O B-place", "O O O", "O O O O E-song"]
    tagging = Tagging("model", "-", [tags.split() for tags in ends], "bioes")
    found = exhaust(analyse_taggings(gold_sentences(), [tagging], KnownText(), parents={}))
    sequences = found.models["model"].record["seeds"]["-"]["illegal_tags"]["sequences"]
    assert sequences == {"B-person O": 1, "B-place (end)": 1, "O E-song": 1}
