"""Tags and spans: one rule for every scheme, nothing lost on the way there and back."""

from itertools import pairwise

import pytest
from builders.scores import conll_entities
from builders.spans import sentences_with_spans
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.tags import (
    Span,
    TagSet,
    are_tags,
    detect_scheme,
    first_tag,
    illegal_positions,
    read_tag,
    split_tag,
    to_spans,
    to_tags,
)
from crossner_cli.errors import CrossNERError


def prefixed(prefixes: str, types: tuple[str, ...] = ("x", "y")) -> st.SearchStrategy[list[str]]:
    tags = [f"{prefix}-{entity_type}" for prefix in prefixes for entity_type in types]
    return st.lists(st.sampled_from(["O", *tags]), max_size=8)


@given(sentences_with_spans(), st.sampled_from(["bio", "bioes"]))
def test_spans_survive_being_written_as_tags(case, scheme):
    spans, length = case
    tags = to_tags(spans, length, scheme)
    assert len(tags) == length
    assert to_spans(tags) == spans
    assert illegal_positions(tags, scheme) == []


@given(prefixed("BIES"))
def test_any_sequence_is_read_as_conlleval_reads_it(tags):
    assert [to_spans(tags)] == conll_entities([tags])


def test_bilou_and_bmes_are_read_as_bioes_and_nothing_as_bio():
    expected = [Span(0, 3, "x"), Span(4, 5, "y")]
    assert to_spans(["B-x", "I-x", "L-x", "O", "U-y"]) == expected
    assert to_spans(["B-x", "M-x", "E-x", "O", "S-y"]) == expected
    assert to_spans(["B-x", "I-x", "E-x", "O", "S-y"]) == expected
    assert detect_scheme([["U-x"]]) == detect_scheme([["B-x", "M-x", "E-x"]]) == "bioes"
    assert detect_scheme([]) == detect_scheme([["O", "O"], []]) == "bio"


@pytest.mark.parametrize("text", ["", "B", "B-", "-x", "X-x", "o", "b-x", "person", "BI-x", "O-x", " O"])
def test_what_is_no_tag_is_refused(text):
    with pytest.raises(ValueError, match="^" + text):
        split_tag(text)
    with pytest.raises(ValueError):
        to_spans(["O", text])


LEGAL = {
    "bio": lambda p, q, same: q[0] != "I" or (p[0] in "BI" and same),
    "iob1": lambda p, q, same: q[0] != "B" or (p[0] in "BI" and same),
    "bioes": lambda p, q, same: (p[0] in "BI") == (q[0] in "IE") and (same or p[0] not in "BI"),
}


@given(st.data(), st.sampled_from(sorted(LEGAL)))
def test_a_position_is_illegal_where_no_sequence_of_the_scheme_has_that_pair(data, scheme):
    tags = data.draw(prefixed("BIES" if scheme == "bioes" else "BI"))
    pairs = enumerate(pairwise(["O", *tags, "O"]))
    expected = [place for place, (p, q) in pairs if not LEGAL[scheme](p, q, p[1:] == q[1:])]
    assert illegal_positions(tags, scheme) == expected


@pytest.mark.parametrize("scheme", ["iob1", "bio", "bioes"])
def test_the_scheme_is_the_one_that_the_tags_break_least_often(scheme):
    tags = {"iob1": ["I-x", "B-x", "I-y"], "bio": ["B-x", "B-x", "B-y"], "bioes": ["S-x", "S-x", "S-y"]}[scheme]
    assert detect_scheme([["O"], tags]) == scheme


TAG_SET = TagSet({"news": ("person", "place"), "songs": ("artist", "person")})


def test_a_tag_set_is_the_union_of_its_domains_in_order_and_an_unknown_domain_uses_all():
    assert TAG_SET.types == ("person", "place", "artist")
    assert TAG_SET.tags == ("O", "B-person", "I-person", "B-place", "I-place", "B-artist", "I-artist")
    assert len(TAG_SET) == 7
    assert TagSet({"news": ("x",)}, "bioes").tags == ("O", "B-x", "I-x", "E-x", "S-x")
    used = [tag for tag, is_used in zip(TAG_SET.tags, TAG_SET.of("songs"), strict=True) if is_used]
    assert used == ["O", "B-person", "I-person", "B-artist", "I-artist"]
    assert all(TAG_SET.of("elsewhere"))
    assert TagSet({"a": ("x",), "b": ()}).of("b") == [True, False, False]


@given(st.lists(st.sampled_from(TAG_SET.tags), max_size=10))
def test_tags_become_numbers_and_come_back_and_an_unknown_one_is_named(tags):
    ids = TAG_SET.to_ids(tags)
    assert all(0 <= number < len(TAG_SET) for number in ids)
    assert TAG_SET.from_ids(ids) == tags
    with pytest.raises(CrossNERError) as caught:
        TAG_SET.to_ids([*tags, "B-planet", "B-moon"])
    assert caught.value.problem == "Tag 'B-planet' is not among the types of this model: person, place, artist."
    assert "Train on data that has this type" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "types", "domain"),
    [
        ("songs", ["song", "person"], "songs"),
        ("news", ["place", "unheard"], "news"),
        ("news", ["song"], "songs"),
        ("news", ["song", "place"], ""),
        ("elsewhere", ["song"], "songs"),
        ("elsewhere", ["place"], "news"),
        ("elsewhere", ["song", "place"], ""),
        ("elsewhere", ["unheard"], "elsewhere"),
    ],
)
def test_a_data_set_is_known_by_its_name_but_not_where_its_types_are_those_of_another_domain(name, types, domain):
    tag_set = TagSet({"songs": ("person", "song"), "news": ("person", "place")})
    assert tag_set.choose_domain(name, types) == domain
    assert all(tag_set.of("elsewhere")) and all(tag_set.of(""))


@pytest.mark.parametrize("form", ["{0}-{1}", "{0}_{1}", "{0}:{1}", "{0}/{1}", "{0}.{1}", "{1}-{0}", "{1}_{0}"])
@pytest.mark.parametrize("kind", ["PER", "Multi-tissue_structure", "a b"])
def test_a_tag_is_read_in_every_form_and_case_of_its_prefix(form: str, kind: str) -> None:
    for prefix in "BIESLUM":
        assert read_tag(form.format(prefix, kind)) == f"{prefix}-{kind}"
    assert read_tag(f"b-{kind}") == f"B-{kind}" and read_tag("S") == "S-entity" and read_tag("o") == "O"


@pytest.mark.parametrize("text", ["", "-", "person", "X-person", "B-", "B- ", "B_\x00", "-DOCSTART-", "1"])
def test_other_texts_are_not_tags(text: str) -> None:
    assert read_tag(text) == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["B_PER", "I_PER", "O"], True),
        (["PER-B", "LOC-B"], True),
        (["B", "I", "O"], True),
        (["B", "O"], True),
        (["B_cell", "O"], False),
        (["B_cell", "T_cell"], False),
        (["M_phase", "S_phase"], False),
        (["E", "L", "O"], False),
        (["person", "place"], False),
    ],
)
def test_names_of_types_that_look_like_tags_are_not_taken_for_them(values: list[str], expected: bool) -> None:
    assert are_tags(values) == expected


def test_of_several_tags_the_first_that_is_not_o_is_taken() -> None:
    texts = ["B-x|I-y", "O;B-y", "O|O", "B-x|y", "a;b"]
    assert [*map(first_tag, texts)] == ["B-x", "B-y", "O", "B-x|y", "a;b"]
