"""Tables of numbers as CSV: what was written is read back, and nothing in it is run by a spreadsheet."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.run.storage import write_csv

NUMBERS = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\x00"), max_size=6)


def read_back(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


@given(st.lists(st.tuples(TEXTS, NUMBERS, NUMBERS), max_size=5))
def test_every_cell_is_read_back_as_it_was_and_text_begins_no_formula(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    write_csv(path, ("type", "first", "second"), rows)
    header, *found = read_back(path)
    assert header == ["type", "first", "second"] and len(found) == len(rows)
    for (text, *numbers), (said, *cells) in zip(rows, found, strict=True):
        assert said in (text, f"'{text}")
        assert len(said) < 2 or said[0] not in "=+-@"
        assert cells == ["" if number is None else str(number) for number in numbers]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-x", "@SUM(1)", '=HYPERLINK("file")'])
def test_text_that_a_spreadsheet_would_run_is_marked_as_text(tmp_path, text):
    write_csv(tmp_path / "table.csv", ("type", "f1"), [[text, -0.5], ["person", 1]])
    assert read_back(tmp_path / "table.csv")[1:] == [[f"'{text}", "-0.5"], ["person", "1"]]


def test_a_dash_alone_stands_as_it_is(tmp_path):
    write_csv(tmp_path / "table.csv", ("model", "seed"), [["base", "-"]])
    assert read_back(tmp_path / "table.csv")[1:] == [["base", "-"]]


def test_a_name_with_half_a_surrogate_pair_is_written_with_a_backslash(tmp_path):
    write_csv(tmp_path / "table.csv", ("model",), [["\udcff"]])
    assert read_back(tmp_path / "table.csv")[1:] == [["\\udcff"]]
