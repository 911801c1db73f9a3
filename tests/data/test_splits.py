"""Dev taken from train, fewer training sentences, and renamed types."""

import pytest

from crossner_cli.data.domains import find_domain, read_domain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.splits import limit_train, parse_type_map, rename_types, take_dev
from crossner_cli.data.tags import to_spans
from crossner_cli.errors import CrossNERError


def test_samples_of_one_seed_are_nested_and_of_two_seeds_differ():
    train = [Sentence((str(number),), ("O",)) for number in range(50)]
    samples = [limit_train(train, limit, 7) for limit in (5, 20, 50, 80)]
    assert [len(sample) for sample in samples] == [5, 20, 50, 50]
    for smaller, larger in zip(samples, samples[1:], strict=False):
        assert set(smaller) <= set(larger)
    assert limit_train(train, 20, 8) != samples[1]
    assert limit_train(train, 3, None) == train[:3]


def test_dev_depends_on_the_sentences_alone_and_keeps_repeated_ones_together():
    train = [Sentence((word,), ("O",)) for word in "abcdefghij" * 3]
    rest, dev = take_dev(train, 0.2)
    assert len(dev) == 6
    assert not set(rest) & set(dev)
    again, reversed_dev = take_dev(train[::-1], 0.2)
    assert set(reversed_dev) == set(dev)
    assert again == rest[::-1]


def test_taking_the_whole_train_as_dev_is_an_error():
    with pytest.raises(CrossNERError, match="takes all 2 training sentences"):
        take_dev([Sentence(("one",), ("B-dish",))] * 2, 0.1)


def test_types_are_renamed_merged_and_dropped():
    before = read_domain(find_domain("sample-source").files)
    names = parse_type_map("person=PER, misc=O,location=place,organisation=place", before.types)
    after = rename_types(before, names)
    assert sorted(after.types) == ["PER", "place"]
    for old, new in zip(before.splits["dev"], after.splits["dev"], strict=True):
        kept = [(start, end, names[name]) for start, end, name in to_spans(old.tags) if names[name] != "O"]
        assert [tuple(span) for span in to_spans(new.tags)] == kept


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("person=a\tb", "is no name of an entity type"),
        ("nobody=PER", "'nobody' is no entity type of the source"),
        ("person", "has no new name"),
        ("person=", "has no new name"),
        ("", "no entity type"),
        ("person=PER,person=per", "renamed twice"),
    ],
)
def test_a_map_that_names_no_type_or_gives_none_is_refused(text, problem):
    with pytest.raises(CrossNERError, match="--map-types") as caught:
        parse_type_map(text, ("person", "place"))
    assert problem in caught.value.problem and caught.value.hint
