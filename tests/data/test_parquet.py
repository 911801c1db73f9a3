"""Parquet: rows are documents, other columns are passed through, and parts are joined."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from crossner_cli.data import parquet as parquet_files
from crossner_cli.data.documents import read_documents, read_parquet_documents
from crossner_cli.data.files import Repairs
from crossner_cli.errors import CrossNERError
from crossner_cli.prediction.formats import TaggedDocument, to_jsonl, to_row


def write_parquet(path: Path, **columns: Any) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path


def test_rows_of_parquet_are_documents_of_text_or_words_and_other_columns_are_passed_through(tmp_path: Path) -> None:
    texts = ["Anna met Peter.", "", "a\nb", "Zoë", "x"]
    day = datetime.date(2020, 1, 2)
    path = write_parquet(tmp_path / "in.parquet", id=[5, 4, 3, 2, 1], text=texts, day=[day] * 5, raw=[b"\xff"] * 5)
    documents = list(read_parquet_documents(path, Repairs()))
    assert [document.text for document in documents] == texts
    assert [document.given["id"] for document in documents] == [5, 4, 3, 2, 1]
    line = to_jsonl(TaggedDocument(documents[0], [["O"] * 4], [], 0))
    assert json.loads(line)["day"] == "2020-01-02" and json.loads(line)["raw"] == "ff"
    schema = parquet_files.output_schema(parquet_files.read_schema(path))
    assert schema.names == ["id", "day", "raw", *parquet_files.COLUMNS]
    assert str(schema.field("day").type) == "date32[day]"
    path = write_parquet(tmp_path / "words.parquet", tokens=[["Anna", "met"], [], ["New York"]])
    found = [
        [word.text for words in each.sentences for word in words] for each in read_parquet_documents(path, Repairs())
    ]
    assert found == [["Anna", "met"], [], ["New York"]]


def test_rows_without_text_are_told_or_skipped(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = write_parquet(tmp_path / "in.parquet", text=["a", None, "c"])
    with pytest.raises(CrossNERError, match=r"in\.parquet, row 2: found neither text nor words"):
        list(read_parquet_documents(path, Repairs()))
    repairs = Repairs(skips_bad_lines=True)
    assert [document.text for document in read_parquet_documents(path, repairs)] == ["a", "c"]
    assert repairs.to_json() == {"bad line skipped": {"count": 1, "first": [f"{path}, row 2"]}}
    broken = pyarrow.array([b"a", b"\xff", b"c"]).cast(pyarrow.binary()).view(pyarrow.string())
    with pytest.raises(CrossNERError, match="row 2: it holds text that is not UTF-8"):
        list(read_parquet_documents(write_parquet(tmp_path / "bytes.parquet", text=broken), Repairs()))


@pytest.mark.parametrize("kind", ["date32", "timestamp", "time64"])
def test_values_that_python_cannot_hold_are_told_or_their_rows_skipped(tmp_path: Path, kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    kinds = {
        "date32": (pyarrow.date32(), 10**7),
        "timestamp": (pyarrow.timestamp("ms"), 10**15),
        "time64": (pyarrow.time64("ns"), 1),
    }
    of_column, beyond = kinds[kind]
    path = write_parquet(tmp_path / "in.parquet", text=["a", "b"], t=pyarrow.array([0, beyond], of_column))
    with pytest.raises(CrossNERError, match=r"in\.parquet, row 2: the column 't' holds a value that cannot") as caught:
        list(read_parquet_documents(path, Repairs()))
    assert "as text, or leave it out" in caught.value.hint
    repairs = Repairs(skips_bad_lines=True)
    assert [document.text for document in read_parquet_documents(path, repairs)] == ["a"]
    assert repairs.counts == {"bad line skipped": 1}


def test_what_is_no_parquet_is_told(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    whole = write_parquet(tmp_path / "in.parquet", text=["some text"] * 5000).read_bytes()
    broken = bytearray(whole)
    broken[4:200] = b"\xff" * 196
    for name, data in {"empty": b"", "text": b"Anna\n", "cut": whole[:-20], "broken": bytes(broken)}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CrossNERError, match=f"{name} cannot be read as Parquet"):
            list(read_parquet_documents(tmp_path / name, Repairs()))
    with pytest.raises(CrossNERError, match="has no column of text or words, only id"):
        list(read_parquet_documents(write_parquet(tmp_path / "ids.parquet", id=[1]), Repairs()))
    with pytest.raises(CrossNERError, match="cannot be read from a stream"):
        read_documents([b""], "stdin", Repairs(), input_format="parquet")


def test_parquet_parts_are_joined_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(parquet_files, "ROWS_WRITTEN", 5)
    schema, parts = parquet_files.output_schema(), []
    for number in range(7):
        rows = [{"text": f"{number} {row}", "words": [], "tags": []} for row in range(2)]
        parts.append(tmp_path / f"{number}.parquet")
        parts[-1].write_bytes(parquet_files.rows_to_bytes(rows, schema))
    parquet_files.join_files(parts, schema, tmp_path / "whole")
    whole = parquet.ParquetFile(tmp_path / "whole")
    assert whole.read().column("text").to_pylist() == [f"{number} {row}" for number in range(7) for row in range(2)]
    assert [whole.metadata.row_group(number).num_rows for number in range(whole.num_row_groups)] == [6, 6, 2]
    parquet_files.join_files([], schema, tmp_path / "none")
    assert parquet.read_table(tmp_path / "none").num_rows == 0


def test_numbers_that_json_lacks_are_null(tmp_path: Path) -> None:
    values = [float("nan"), float("inf"), 0.5]
    path = write_parquet(tmp_path / "in.parquet", text=["a", "b", "c"], x=values, pair=[{"y": each} for each in values])
    tagged = [TaggedDocument(each, [["O"]], [], 0) for each in read_parquet_documents(path, Repairs())]
    lines = "".join(map(to_jsonl, tagged))
    read = list(read_documents([line.encode() for line in lines.splitlines()], "again.jsonl", Repairs()))
    found = [(each.given["x"], each.given["pair"]) for each in read]
    assert found == [(None, {"y": None}), (None, {"y": None}), (0.5, {"y": 0.5})]
    assert to_row(tagged[0], False)["given"] == '{"x": null, "pair": {"y": null}}'
