"""The prompt of a language model and its answers: labelled sentences as text with tags, and back."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.errors import CrossNERError
from crossner_cli.labelling.prompt import (
    ALTERED,
    FREED,
    OTHER_CASE,
    UNKNOWN_TYPE,
    choose_shots,
    make_prompt,
    read_answer,
    read_descriptions,
    write_tags,
)

TYPES = ("person", "song title", "entity", "Gene_or_gene-product")


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    words = draw(st.lists(st.sampled_from(["Anna", "met", ".", "5", "x-ray", "“", "café"]), min_size=1, max_size=12))
    tags: list[str] = []
    while len(tags) < len(words):
        kind, length = draw(st.sampled_from([None, *TYPES])), draw(st.integers(1, 3))
        tags += ["O"] if kind is None else [f"B-{kind}", *[f"I-{kind}"] * length]
    return Sentence(tuple(words), tuple(tags[: len(words)]))


@given(sentences())
def test_what_is_shown_as_an_answer_is_read_back(sentence: Sentence) -> None:
    repairs: Counter[str] = Counter()
    assert read_answer(write_tags(sentence), " ".join(sentence.words), TYPES, repairs) == (sentence, "")
    assert not repairs


@given(sentences(), st.integers(0, 30), st.sampled_from(["x", "<", "Anna ", "\u200b", "</person>"]))
def test_an_answer_with_anything_more_in_it_is_never_taken_for_the_text(sentence: Sentence, at: int, more: str) -> None:
    answer = write_tags(sentence)
    at = min(at, len(answer))
    found, reason = read_answer(answer[:at] + more + answer[at:], " ".join(sentence.words), (), Counter())
    assert (found is None) == bool(reason)
    if found is not None:  # it changed the name of a type, or fell into a tag
        assert found.words == sentence.words and not to_spans(found.tags or ())


def test_white_space_may_differ() -> None:
    found, _ = read_answer("<person>Anna</person>\nmet  Peter .", "Anna met Peter.", TYPES, Counter())
    assert found == Sentence(("Anna", "met", "Peter", "."), ("B-person", "O", "O", "O"))
    assert read_answer("anna met Peter.", "Anna met Peter.", TYPES, Counter()) == (None, ALTERED)


MARKED = "<person>Anna</person> met Peter ."


@pytest.mark.parametrize(
    "answer",
    [
        f"```\n{MARKED}\n```",
        f"```text\n{MARKED}```\nI hope that this helps.",
        f"Here is the text with tags:\n\n{MARKED}",
        f'"{MARKED}"',
        f"“{MARKED}”",
        f'Sure, the answer: \n```xml\nText:\n"{MARKED}"\n```',
    ],
)
def test_what_models_put_around_an_answer_is_taken_off(answer: str) -> None:
    repairs: Counter[str] = Counter()
    found, reason = read_answer(answer, "Anna met Peter.", TYPES, repairs)
    assert reason == "" and found is not None and found.tags == ("B-person", "O", "O", "O")
    assert repairs == {FREED: 1}


@pytest.mark.parametrize("text", ['"Anna met Peter."', "He said:\nAnna met Peter.", "```\nAnna met Peter.\n```"])
def test_what_is_part_of_the_text_is_not_taken_off(text: str) -> None:
    repairs: Counter[str] = Counter()
    found, _ = read_answer(text.replace("Anna", "<person>Anna</person>"), text, TYPES, repairs)
    assert found is not None and "".join(found.words) == "".join(text.split()) and not repairs
    assert to_spans(found.tags or ())


def test_a_type_that_differs_by_case_alone_is_taken_if_there_is_only_one() -> None:
    repairs: Counter[str] = Counter()
    found, _ = read_answer(
        "<PERSON>Anna</PERSON> met <Gene>X</Gene>", "Anna met X", ("person", "GENE", "gene"), repairs
    )
    assert found is not None and found.tags == ("B-person", "O", "O")
    assert repairs == {OTHER_CASE: 1, UNKNOWN_TYPE: 1}


def gold(*tags: str) -> list[Sentence]:
    return [Sentence(tuple(f"w{number}" for number in range(len(row.split()))), tuple(row.split())) for row in tags]


def test_shots_show_every_type_and_then_the_first_sentences() -> None:
    rows = gold("O O", "B-a O", "O", "B-b B-a", "B-c O", "O O O")
    assert choose_shots(rows, 2) == [rows[3], rows[4]]
    assert choose_shots(rows, 4) == [rows[0], rows[1], rows[3], rows[4]]
    assert choose_shots(rows, 99) == rows
    assert choose_shots([Sentence(("<b>", "x"), ("O", "B-a"))], 3) == []


def test_types_that_no_tag_can_name_and_missing_sentences_are_refused() -> None:
    with pytest.raises(CrossNERError, match="cannot be written as a tag"):
        make_prompt(gold("O"), ['a"b'], 1, {})
    with pytest.raises(CrossNERError, match="no labelled training sentences to show"):
        make_prompt([], ["a"], 1, {})
    prompt = make_prompt(gold("B-song O"), ["song title", "song"], 1, {"song": "what one sings"})
    assert prompt.messages[0]["content"].endswith(
        '<entity type="song title">…</entity>: song title\n<song>…</song>: what one sings'
    )


def test_a_malformed_line_of_descriptions_is_named(tmp_path: Path) -> None:
    path = tmp_path / "types.tsv"
    path.write_text("\nperson\tsomeone\nplace somewhere\n")
    with pytest.raises(CrossNERError, match="types.tsv:3: expected 'type<TAB>description', got 'place somewhere'"):
        read_descriptions(path, TYPES)
    assert read_descriptions(None, TYPES) == {}
