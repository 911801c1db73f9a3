"""What is to be tagged: which files are refused, and how they are cut into chunks."""

import io
import os
import threading
from pathlib import Path

import pytest

from crossner_cli.data.files import Repairs
from crossner_cli.errors import CrossNERError
from crossner_cli.prediction.inputs import Inputs


def read_texts(inputs: Inputs, repairs: Repairs | None = None, *, done: int = 0) -> list[str]:
    found = inputs.read_chunks(repairs or Repairs(), done=done)
    return [document.text for chunk in found for document in chunk.documents]


def test_files_and_stdin_are_read_in_the_order_given(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("first\n")
    (tmp_path / "two.jsonl").write_text('{"text": "third"}\n')
    paths = [tmp_path / "one.txt", Path("-"), tmp_path / "two.jsonl"]
    assert read_texts(Inputs(paths, stdin=io.BytesIO(b"second\n"))) == ["first", "second", "third"]


def test_documents_that_are_done_are_counted_and_not_given_again(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("broken\n" + "".join(f'{{"text": "{number}"}}\n' for number in range(50)))
    repairs = Repairs(skips_bad_lines=True)
    (first, *_), *_ = Inputs([source]).read_chunks(repairs, done=30)
    assert first == 31 and repairs.counts == {"bad line skipped": 1}
    assert read_texts(Inputs([source]), Repairs(skips_bad_lines=True), done=30) == [str(each) for each in range(30, 50)]


def test_a_bad_line_is_reported_with_the_option_that_skips_it(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\nbad\n')
    with pytest.raises(CrossNERError, match=r"in\.jsonl:2") as caught:
        read_texts(Inputs([tmp_path / "in.jsonl"]))
    assert caught.value.hint.endswith("Or leave such lines out: --skip-bad-lines.")


def test_a_pipe_is_opened_once_and_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"Anna met Peter.\n" * 3,), daemon=True)
    writer.start()
    inputs = Inputs([pipe])
    inputs.check()
    assert read_texts(inputs) == ["Anna met Peter."] * 3
    writer.join(timeout=10)


def test_folders_are_read_file_by_file_and_other_files_of_them_are_named(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name, text in (("b.txt", "second"), ("a.jsonl", '{"text": "first"}'), ("inner/c.csv", "text\nthird")):
        (tmp_path / name).write_text(text)
    for name in ("scan.png", ".hidden.txt"):
        (tmp_path / name).write_bytes(b"\x89PNG")
    inputs = Inputs([tmp_path, tmp_path / "b.txt"])
    inputs.check()
    assert inputs.notes == [f"Not read of {tmp_path}, because of their endings: 1 files (scan.png)."]
    documents = [each for chunk in inputs.read_chunks(Repairs()) for each in chunk.documents]
    assert [each.text for each in documents] == ["first", "second", "third", "second"]
    assert documents[2].given == {"file": str(tmp_path / "inner" / "c.csv"), "text": "third"}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("b.docx", b"PK\x03\x04", "pandoc -t plain FILE"),
        ("b.csv", b"id,body\n1,Anna\n", "--text-column NAME"),
        ("b.txt", "Anna".encode("utf-16"), "iconv"),
        ("b.parquet", b"PAR1", "whole Parquet file"),
        ("b.json", b'[{"text": "An', "cut off"),
    ],
)
def test_every_file_is_looked_at_before_the_first_is_tagged(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / "a.txt").write_text("Anna met Peter.\n")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CrossNERError, match=rf"b\.{name[2:]}") as caught:
        Inputs([tmp_path / "a.txt", tmp_path / name]).check()
    assert said in caught.value.hint


def test_a_missing_file_is_told_with_the_name_that_resembles_it_and_how_to_give_text(tmp_path: Path) -> None:
    (tmp_path / "new-text.txt").write_text("Anna met Peter.\n")
    with pytest.raises(CrossNERError, match="There is no file") as caught:
        Inputs([tmp_path / "new_text.txt"]).check()
    assert caught.value.hint.startswith("Did you mean 'new-text.txt'? ") and "--text 'Anna" in caught.value.hint


def test_texts_are_read_line_by_line_and_not_beside_files(tmp_path: Path) -> None:
    texts = Inputs([], texts=["Anna met Peter.\nIn Rome.", "Bye."])
    texts.check()
    assert read_texts(texts) == ["Anna met Peter.", "In Rome.", "Bye."]
    with pytest.raises(CrossNERError, match="--text is given beside"):
        Inputs([tmp_path], texts=["Anna"]).check()


def test_columns_pass_through_where_all_files_have_the_same_ones(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    one, two, other = (tmp_path / f"{name}.parquet" for name in ("one", "two", "other"))
    for path, columns in ((one, {"text": ["a"]}), (two, {"text": ["b"]}), (other, {"text": ["c"], "id": [1]})):
        parquet.write_table(pyarrow.table(columns), path)
    (tmp_path / "lines.jsonl").write_text('{"text": "d"}\n')
    assert Inputs([one, two]).shared_schema().names == ["text"]
    assert Inputs([one, tmp_path / "lines.jsonl"]).shared_schema() is Inputs([one, other]).shared_schema() is None
