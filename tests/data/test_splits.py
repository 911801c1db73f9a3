"""Several data sets as one domain, and nothing that is scored on in what is trained on."""

from itertools import pairwise

import pytest

from crossner_cli.data.files import Repairs
from crossner_cli.data.labelled import LabelledDomain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.splits import LEAK, join, leave_out_leaks, limit_train, parse_limit, split_weight
from crossner_cli.data.types import match_types, parse_type_maps
from crossner_cli.errors import CrossNERError


def labelled(**splits):
    """A data set of one-word sentences, given by split."""
    found = {
        split: [
            Sentence((word,), ("B-x",), "a", place=f"{split}:{number}") for number, word in enumerate(words.split(), 1)
        ]
        for split, words in splits.items()
    }
    return LabelledDomain(found, ("x",), "bio", Repairs())


def words(domain, split="train"):
    return " ".join(sentence.words[0] for sentence in domain.splits[split])


MAPS = {
    "person=a\tb": "is not a name of an entity type",
    "nobody=PER": "'nobody' is not an entity type of the source",
    "person": "has no new name",
    "person=": "has no new name",
    "": "not an entity type",
    "person=PER,person=per": "renamed twice",
}


@pytest.mark.parametrize("text", MAPS)
def test_a_map_that_names_no_type_or_gives_none_is_refused(text):
    with pytest.raises(CrossNERError, match=f"--map-types .*{MAPS[text]}") as caught:
        parse_type_maps(text, {"news": ("person", "place")})
    assert caught.value.hint


def test_a_type_is_renamed_in_all_data_sets_that_have_it_or_in_the_one_that_is_named():
    types = {"a": ("PER", "LOC"), "b": ("PER", "x:y")}
    assert parse_type_maps("PER=person", types) == {"a": {"PER": "person"}, "b": {"PER": "person"}}
    assert parse_type_maps("a:PER=person,b:PER=O", types) == {"a": {"PER": "person"}, "b": {"PER": "O"}}
    assert parse_type_maps("x:y=z", types)["b"] == {"x:y": "z"}, "a type may hold a colon"
    with pytest.raises(CrossNERError, match="no data set is called 'c'"):
        parse_type_maps("c:LOC=place", types)
    with pytest.raises(CrossNERError) as caught:
        parse_type_maps("b:LOC=place", types)
    assert caught.value.hint == "Write old=new,…; the source's types are a: PER, LOC; b: PER, x:y."


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        (["PER", "LOC", "misc"], ["person", "location", "misc"], {"PER": "person", "LOC": "location"}),
        (["organisation", "MISC"], ["ORG", "miscellaneous"], {"organisation": "ORG", "MISC": "miscellaneous"}),
        (["Cell_Type", "PER"], ["cell-type", "PER", "person"], {"Cell_Type": "cell-type"}),
        (["PER", "person"], ["person"], {"PER": "person"}),
        (["per"], ["Person", "PERSON"], {"per": "Person"}),
        (["organisation", "PERCENT", "art", "C++"], ["Organ", "PER", "artist", "C#"], {}),
    ],
    ids=["short", "long", "case and hyphens", "both in the source", "the first of two", "other words"],
)
def test_types_match_where_they_differ_by_case_or_are_the_two_names_of_a_type_of_conll(source, target, found):
    assert match_types(source, target) == found


def test_training_sentences_that_another_data_set_is_scored_on_are_left_out_and_counted():
    train, other = labelled(train="a B. c d", dev="a"), labelled(train="c", dev="b", test="D")
    found = leave_out_leaks(train, [other])
    assert words(found) == "a c", "its own dev is its own affair, and another's train is none"
    assert found.repairs.counts == {LEAK: 2} and found.repairs.examples[LEAK] == ["train:2", "train:4"]
    with pytest.raises(CrossNERError, match="All 1 training sentences"):
        leave_out_leaks(labelled(train="d"), [other])


def test_sources_are_joined_and_counted_as_often_as_asked():
    assert [split_weight(each) for each in ("a", "a=3", "b/c=d=12", "a=0", "a=", "=2")] == [
        ("a", 1),
        ("a", 3),
        ("b/c=d", 12),
        ("a=0", 1),
        ("a=", 1),
        ("=2", 1),
    ]
    found = join([labelled(train="a b", dev="c"), labelled(train="d", test="e")], [1, 3], "one+two")
    assert (words(found), words(found, "dev"), words(found, "test")) == ("a b d d d", "c", "e")
    assert {sentence.domain for sentences in found.splits.values() for sentence in sentences} == {"one+two"}


def test_samples_of_one_seed_are_nested_and_of_two_seeds_differ():
    train = [Sentence((str(number),), ("O",)) for number in range(50)]
    samples = [limit_train(train, *parse_limit(f"{limit}:7")) for limit in (5, 20, 50, 80)]
    assert [len(sample) for sample in samples] == [5, 20, 50, 50]
    assert all(set(smaller) <= set(larger) for smaller, larger in pairwise(samples))
    assert limit_train(train, 20, 8) != samples[1]
    assert limit_train(train, *parse_limit("3")) == train[:3]
    for text in ("0", "-1", "x", "5:", "5:x", "1.5"):
        with pytest.raises(CrossNERError, match="is not a number of sentences"):
            parse_limit(text)
