"""Labels that contradict others are found without a tagger, and those that agree are not."""

from __future__ import annotations

from crossner_cli.data.inconsistencies import Suspect, find_inconsistencies
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span


def sentence(text: str) -> Sentence:
    """Words, each with a type behind a slash if it begins an entity, ``/-`` if it continues one."""
    words, tags = [], []
    for part in text.split():
        word, _, kind = part.partition("/")
        last = tags[-1][2:] if tags else ""
        words.append(word)
        tags.append("O" if not kind else f"I-{last}" if kind == "-" else f"B-{kind}")
    return Sentence(tuple(words), tuple(tags))


def find(*texts: str) -> list[tuple[int, int, int, str | None, str | None, str]]:
    return [
        (
            each.sentence,
            each.place.start,
            each.place.end,
            each.gold and each.gold.type,
            each.found and each.found.type,
            each.kind,
        )
        for each in find_inconsistencies([*map(sentence, texts)])
    ]


def test_labels_that_agree_are_not_suspect() -> None:
    assert find("Anna/person saw Rome/place .", "Rome/place saw Anna/person .", "Anna/person left .") == []


def test_a_sentence_that_is_labelled_in_two_ways_is_compared_with_most_of_its_copies() -> None:
    found = find("Rome/place won .", "Rome/place won .", "rome/club won .", "Rome won .")
    assert (2, 0, 1, "club", "place", "labelled in two ways") in found
    assert (3, 0, 1, None, "place", "not labelled") in found
    assert {number for number, *_ in found} == {2, 3}


def test_a_string_that_has_one_type_nine_times_and_another_once_is_suspect_there() -> None:
    texts = [f"{word} Rome/place {word}" for word in "abcdefghi"]
    assert find(*texts, "x Rome/person y") == [(9, 1, 2, "person", "place", "rare type")]


def test_a_name_that_is_labelled_in_most_places_is_suspect_where_it_is_not() -> None:
    texts = ["a New/place York/- b", "c New/place York/- d", "e New York f"]
    assert find(*texts) == [(2, 1, 3, None, "place", "not labelled")]
    (suspect,) = find_inconsistencies([*map(sentence, texts)])
    assert suspect == Suspect(2, None, Span(1, 3, "place"), "not labelled", 2 / 3)


def test_a_word_that_is_labelled_once_and_not_in_most_places_is_suspect_where_it_is() -> None:
    assert find("a we/person b", *(f"{word} we {word}" for word in "cdefg")) == [
        (0, 1, 2, "person", None, "seldom labelled")
    ]


def test_an_article_or_stop_at_the_edge_is_suspect_where_most_have_it_outside() -> None:
    texts = [f"{word} the Alps{word}/place ." for word in "abcdef"]
    assert find(*texts, "x the/place Jura/- .") == [(6, 1, 3, "place", "place", "edge")]
    assert find(*texts, "x the Jura/place ./-") == [(6, 2, 4, "place", "place", "edge")]


def test_a_capital_article_and_a_closed_bracket_belong_to_the_name() -> None:
    texts = [f"{word} the Alps{word}/place ) ." for word in "abcdef"]
    assert find(*texts, "x The/place Hague/- .", "x Rad/club (/- B/- )/- .") == []
