"""Files as lines: any compression, any line end, and a clear error for everything that is not text."""

import bz2
import gzip
import io
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.files import BYTE_ORDER_MARK_REMOVED, Repairs, number_lines, open_lines, read_part
from crossner_cli.errors import CrossNERError

OTHER = {
    "xz": (lzma.compress(b"Anna met Peter.\n" * 50), "an xz file", "xz -d FILE"),
    "pdf": (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "a PDF", "pdftotext FILE"),
    "docx": (b"PK\x03\x04\x14\x00\x08\n", "a zip archive", "pandoc -t plain FILE.docx > TEXT"),
    "utf-16": ("Anna met Peter.\n".encode("utf-16"), "UTF-16", "iconv -f UTF-16"),
}


@pytest.mark.parametrize(("data", "content", "command"), OTHER.values(), ids=OTHER)
@pytest.mark.parametrize("skip", [False, True])
def test_other_content_than_text_is_refused_whether_or_not_bad_lines_are_skipped(
    tmp_path, data, content, command, skip
):
    (tmp_path / "t.txt").write_bytes(data)
    for read in (
        lambda: list(number_lines(io.BytesIO(data), "t.txt", Repairs(skips_bad_lines=skip))),
        lambda: list(open_lines(tmp_path / "t.txt")),
    ):
        with pytest.raises(CrossNERError, match=rf"t\.txt is {content}.*, not text in UTF-8") as caught:
            read()
        assert command in caught.value.hint


@pytest.mark.parametrize(("compress", "name"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2")])
def test_a_stream_that_is_compressed_is_refused_with_the_command_that_unpacks_it(compress, name):
    with pytest.raises(CrossNERError, match=f"is compressed with {name}") as caught:
        list(number_lines(io.BytesIO(compress(b"Anna met Peter.\n" * 50)), "t.txt", Repairs(skips_bad_lines=True)))
    assert f"{name} -d FILE" in caught.value.hint


def test_only_the_first_places_of_a_repair_are_kept():
    repairs = Repairs()
    for line in range(1, 101):
        repairs.add("kind", f"file:{line}")
    assert repairs.to_json() == {"kind": {"count": 100, "first": [f"file:{line}" for line in range(1, 6)]}}


def test_a_byte_order_mark_is_no_part_of_the_first_line_and_is_counted():
    repairs = Repairs()
    assert list(number_lines([b"\xef\xbb\xbfIn\n"], "file", repairs)) == [(1, "In")]
    assert repairs.counts == {BYTE_ORDER_MARK_REMOVED: 1}


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff")), max_size=8),
    st.sampled_from(["\n", "\r\n", "\r\r\n"]),
    st.booleans(),
    st.integers(1, 9),
)
def test_lines_come_back_from_any_line_end_and_in_any_pieces(tmp_path_factory, lines, newline, is_ended, size):
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    text = newline.join(lines) + (newline if is_ended and lines else "")
    path.write_bytes(text.encode())
    wanted = lines if is_ended or lines[-1:] != [""] else lines[:-1]
    assert [line for _, line in open_lines(path)] == wanted
    end = path.stat().st_size
    assert [line for start in range(0, end, size) for line in read_part(path, start, min(start + size, end))] == wanted
