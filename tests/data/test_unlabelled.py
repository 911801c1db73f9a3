"""Documents: text, JSONL, columns and rows of Parquet are read one by one, and a bad one is reported with its place."""

import csv
import datetime
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.documents import write_document
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.documents import Document, TaggedDocument
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats import parquet as module
from crossner_cli.data.unlabelled import read_documents, read_file
from crossner_cli.errors import CrossNERError


def read(data: bytes, input_format: str | None = None, *, name: str = "stdin", skips: bool = False) -> list[Document]:
    return list(read_documents(io.BytesIO(data), name, Repairs(skips_bad_lines=skips), input_format=input_format))


def words_of(document: Document) -> list[str]:
    return [word.text for words in document.sentences for word in words]


def test_keys_and_words_of_objects_are_kept() -> None:
    given = [
        {"id": 7, "words": ["Anna", "met", "New York"], "note": {"a": [1.5, None]}},
        {"text": "Anna  met", "words": ["Anna", "met"]},
        {"words": []},
        {"text": ""},
    ]
    found = read("\n\n".join(map(json.dumps, given)).encode(), "jsonl")
    assert [document.text for document in found] == ["Anna met New York", "Anna  met", "", ""]
    assert found[0].given == given[0] and words_of(found[0]) == given[0]["words"]
    assert words_of(found[1]) == ["Anna", "met"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "stdin:2: .* not a JSON"),
        ("[1]", "stdin:2: .*not a JSON object"),
        ('{"id": 1}', "stdin:2: found neither text nor words, only 'id'"),
        ('{"words": "Anna"}', "stdin:2: words is not a list"),
        ('{"words": ["a", null]}', "stdin:2: words holds a value of type NoneType"),
        ('{"text": 5}', "stdin:2: text holds a value of type int"),
        ('{"text": "\\ud83d"}', "stdin:2: text holds half a surrogate pair"),
        ('{"text": "a b", "words": ["b", "a"]}', "stdin:2: word 2, 'a', is not in the text"),
    ],
)
def test_a_broken_line_is_reported_with_its_number(line: str, message: str) -> None:
    with pytest.raises(CrossNERError, match=message):
        read(('{"text": "fine"}\n' + line + "\n").encode(), "jsonl")


SEVERAL = b'{"text": "a"}\n\n{"text": 5}\nno JSON\n\n[1]\n\xff\n{"words": ["b"]}\n{"id": 1}\n'


@pytest.mark.parametrize(
    ("input_format", "data", "texts"),
    [
        ("jsonl", SEVERAL, ["a", "b"]),
        ("text", b"Anna\ncaf\xe9\n\nPeter\n", ["Anna", "", "Peter"]),
        ("conll", b"Anna\tO\nmet him today\nPeter O\n\ncaf\xe9 O\n\nthere O\n", ["there"]),
    ],
)
def test_bad_lines_are_left_out_if_asked(input_format: str, data: bytes, texts: list[str]) -> None:
    with pytest.raises(CrossNERError):
        read(data, input_format)
    assert [document.text for document in read(data, input_format, skips=True)] == texts


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"Anna B-person\nmet O\nPeter B-person\n", "conll"),
        (b"Anna\tO\nmet\tO\n\nhim\tO", "conll"),
        (b'{"text": "a"}\n{"words": ["b"]}\n', "jsonl"),
        (b'\xef\xbb\xbf{"text": "Anna met Peter."}\n{"text": "Bob"}\n', "jsonl"),
    ],
)
def test_the_first_lines_of_a_file_tell_its_format_unless_it_is_called_text(data: bytes, found: str) -> None:
    repairs = Repairs()
    assert list(read_documents(io.BytesIO(data), "in.txt", repairs)) == read(data, found)
    (note,) = repairs.notes
    assert note.startswith(f"in.txt: read as {found}")
    assert len(read(data, "text", name="in.txt")) == len(data.splitlines())


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("stdin", b'[\n  {\n    "text": "Anna met Peter."\n  }\n]\n', "JSON"),
        ("x.conllu", b"1\tAnna\n", "CoNLL-U"),
    ],
)
def test_what_is_not_text_is_refused_unless_it_is_called_text(name: str, data: bytes, said: str) -> None:
    with pytest.raises(CrossNERError, match=f"{name} .*{said}") as caught:
        read(data, name=name)
    assert "--input-format text" in caught.value.hint
    assert len(read(data, "text", name=name)) == len(data.splitlines())


def test_json_is_read_from_arrays_of_texts_and_from_exports_of_label_studio(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    task = {"id": 5, "data": {"body": "Anna met Peter.", "page": 3}, "annotations": []}
    for values, column, document in (
        ([{"text": "Anna met Peter."}], "text", {"text": "Anna met Peter."}),
        ([task], "body", task["data"]),
    ):
        path.write_text(json.dumps(values, indent=1))
        (found,) = read_file(path, Repairs(), column=column)
        assert (found.text, found.given) == ("Anna met Peter.", document)
    path.write_text("[[1]]")
    with pytest.raises(CrossNERError, match="record 1: .*not a JSON object"):
        list(read_file(path, Repairs()))


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5), st.sampled_from(",;\t"))
def test_rows_of_csv_are_documents_and_keep_their_other_columns(rows: list[tuple[str, str]], separator: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=separator, quoting=csv.QUOTE_ALL).writerows([("id", "body"), *rows])
    lines = io.BytesIO(b"\xef\xbb\xbf" + written.getvalue().encode())
    found = list(read_documents(lines, "in.csv", Repairs(), column="body"))
    assert [(each.given["id"], each.text) for each in found] == rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2", "it does not have 3 cells"),
        ("2,a,b,c", "it does not have 3 cells"),
        ('2,"a"b,c', "it is not a row of CSV"),
    ],
)
def test_a_bad_row_of_csv_is_told_with_its_line_or_skipped(row: str, message: str) -> None:
    data = f'id,text,words\n1,"a\nb",7\n\n{row}\n3,"c ""d""",8\n'.encode()
    with pytest.raises(CrossNERError, match=f"in.csv:5: {message}"):
        read(data, name="in.csv")
    assert [each.text for each in read(data, name="in.csv", skips=True)] == ["a\nb", 'c "d"']


def test_csv_needs_the_column_of_its_text() -> None:
    with pytest.raises(CrossNERError, match="has no column 'text': id, body") as caught:
        read(b"id;body\n1;Anna\n", name="in.csv")
    assert "--text-column NAME" in caught.value.hint
    with pytest.raises(CrossNERError, match="two columns of the same name"):
        read(b"id,text,id\n", name="in.csv")
    assert read(b"", name="in.csv") == read(b"text\n", name="in.csv") == []


def test_tokens_that_are_objects_are_not_words_beside_a_text() -> None:
    record = {"text": "Anna met.", "tokens": [{"text": "Anna", "start": 0, "end": 4, "id": 0}]}
    (document,) = read(json.dumps(record).encode(), "jsonl")
    assert words_of(document) == ["Anna", "met", "."]
    with pytest.raises(CrossNERError, match="tokens holds a value of type dict"):
        read(json.dumps({"tokens": record["tokens"]}).encode(), "jsonl")


def test_text_that_begins_with_brackets_is_text() -> None:
    for line in ("[1] Anna met Peter.", "{Anna} met Peter.", '"Anna" met "Peter".', "# Anna", "1\tAnna"):
        assert [document.text for document in read(f"\ufeff{line}\n".encode())] == [line]
    assert len(read(b"Blood of type O\nVitamin O")) == 2


def test_reading_goes_line_by_line() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"Anna met Peter.\n"

    documents = read_documents(endless(), "stdin", Repairs())
    assert [next(documents).text for _ in range(100)] == ["Anna met Peter."] * 100


def write_parquet(path: Path, **columns: Any) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path


def test_rows_of_parquet_are_documents_of_text_or_words_and_other_columns_are_passed_through(tmp_path: Path) -> None:
    texts = ["Anna met Peter.", "", "a\nb", "Zoë", "x"]
    day = datetime.date(2020, 1, 2)
    path = write_parquet(tmp_path / "in.parquet", id=[5, 4, 3, 2, 1], text=texts, day=[day] * 5, raw=[b"\xff"] * 5)
    documents = list(read_file(path, Repairs(), input_format="parquet"))
    assert [document.text for document in documents] == texts
    assert [document.given["id"] for document in documents] == [5, 4, 3, 2, 1]
    line = write_document("jsonl", TaggedDocument(documents[0], [["O"] * 4], [], 0))
    assert json.loads(line)["day"] == "2020-01-02" and json.loads(line)["raw"] == "ff"
    schema = module.output_schema(module.read_schema(path))
    assert schema.names == ["id", "day", "raw", *module.COLUMNS]
    assert str(schema.field("day").type) == "date32[day]"
    path = write_parquet(tmp_path / "words.parquet", tokens=[["Anna", "met"], [], ["New York"]])
    assert [words_of(each) for each in read_file(path, Repairs(), input_format="parquet")] == [
        ["Anna", "met"],
        [],
        ["New York"],
    ]


def test_rows_without_text_are_told_or_skipped(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write_parquet(tmp_path / "in.parquet", text=["a", None, "c"])
    with pytest.raises(CrossNERError, match=r"in\.parquet, row 2: found neither text nor words"):
        list(read_file(path, Repairs(), input_format="parquet"))
    repairs = Repairs(skips_bad_lines=True)
    assert [document.text for document in read_file(path, repairs, input_format="parquet")] == ["a", "c"]
    assert repairs.to_json() == {"bad line skipped": {"count": 1, "first": [f"{path}, row 2"]}}


def test_what_is_not_parquet_or_holds_values_that_python_cannot_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    broken_text = pyarrow.array([b"a", b"\xff"]).cast(pyarrow.binary()).view(pyarrow.string())
    far = pyarrow.array([0, 10**7], "date32[day]")
    for columns in ({"text": broken_text}, {"text": ["a", "b"], "day": far}):
        with pytest.raises(CrossNERError, match="in.parquet cannot be read as Parquet"):
            list(read_file(write_parquet(tmp_path / "in.parquet", **columns), Repairs(), input_format="parquet"))
    whole = write_parquet(tmp_path / "in.parquet", text=["some text"] * 5000).read_bytes()
    broken = bytearray(whole)
    broken[4:200] = b"\xff" * 196
    for name, data in {"empty": b"", "text": b"Anna\n", "cut": whole[:-20], "broken": bytes(broken)}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CrossNERError, match=f"{name} cannot be read as Parquet"):
            list(read_file(tmp_path / name, Repairs(), input_format="parquet"))
    (tmp_path / "name").write_bytes(whole.replace(b"text", b"te\xfft"))
    with pytest.raises(CrossNERError, match="name cannot be read as Parquet"):
        list(read_file(tmp_path / "name", Repairs(), input_format="parquet"))
    with pytest.raises(CrossNERError, match="has no column of text or words, only id"):
        list(read_file(write_parquet(tmp_path / "ids.parquet", id=[1]), Repairs(), input_format="parquet"))
    with pytest.raises(CrossNERError, match="cannot be read from a stream"):
        read_documents([b""], "stdin", Repairs(), input_format="parquet")


def test_numbers_that_json_lacks_are_null(tmp_path: Path) -> None:
    values = [float("nan"), float("inf"), 0.5]
    path = write_parquet(tmp_path / "in.parquet", text=["a", "b", "c"], x=values, pair=[{"y": each} for each in values])
    tagged = [TaggedDocument(each, [["O"]], [], 0) for each in read_file(path, Repairs(), input_format="parquet")]
    lines = "".join(write_document("jsonl", each) for each in tagged)
    read = list(read_documents([line.encode() for line in lines.splitlines()], "again.jsonl", Repairs()))
    found = [(each.given["x"], each.given["pair"]) for each in read]
    assert found == [(None, {"y": None}), (None, {"y": None}), (0.5, {"y": 0.5})]
    assert module.to_row(tagged[0], False)["given"] == '{"x": null, "pair": {"y": null}}'
