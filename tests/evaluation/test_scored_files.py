"""Scores of a file of predictions against a gold file."""

from __future__ import annotations

import pytest
from builders.files import tag_columns, write_pair

from crossner_cli.data.domains import read_labelled
from crossner_cli.data.files import Repairs
from crossner_cli.data.sentences import Sentence
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scored_files import score_files


@pytest.mark.parametrize(
    ("gold", "predicted", "conll", "strict"),
    [
        (["O B-x", "B-x O"], ["O B-x", "I-x O"], 100, 200 / 3),
        (["B-x E-x S-y"], ["B-x I-x B-y"], 100, 100),  # whole entities, each file in its own scheme
        (["I-x I-x B-x O I-y"], ["B-x I-x B-x O B-y"], 100, 100),  # IOB1 against BIO
        (["B-x L-x U-y"], ["B-x E-x S-y"], 100, 100),
    ],
)
def test_files_of_any_scheme_are_scored(tmp_path, gold, predicted, conll, strict):
    paths = write_pair(tmp_path, tag_columns(*gold), tag_columns(*predicted))
    found = score_files(*paths, mode="conll")
    assert (found.scores.f1, found.other.f1) == (pytest.approx(conll), pytest.approx(strict))
    swapped = score_files(*paths, mode="strict")
    assert (swapped.scores, swapped.other) == (found.other, found.scores)


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ("a\tO\nx\tO\n\nc\tO\n", r"predictions\.conll:2: found the word 'x', .*gold\.conll:2 has 'b'"),
        ("a\tO\n\nc\tO\n", r"predictions\.conll:1: sentence 1 has 1 words, and 2 in .*gold\.conll:1"),
        ("a\tO\nb\tO\n", r"gold\.conll:4: sentence 2 is in this file alone"),
        ("", "holds no sentence"),
    ],
)
def test_files_of_other_words_are_refused_with_the_place(tmp_path, predicted, message):
    paths = write_pair(tmp_path, "a\tO\nb\tO\n\nc\tO\n", predicted)
    with pytest.raises(CrossNERError, match=message):
        score_files(*paths, mode="conll")


def test_real_gold_against_itself_scores_hundred(mirror):
    for name in ("politics", "bionlp13cg"):
        path = next((mirror / name).glob("test.*"))
        found = score_files(path, path, mode="strict")
        assert found.other.f1 == 100
        sentences: list[Sentence] = [located.sentence for located in read_labelled(path, Repairs())]
        assert found.scores.sentences == len(sentences)
