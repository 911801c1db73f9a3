"""Raw text in every format: the texts read, and the messages about broken files."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.corpus.raw_files import digest_corpus, find_corpus_files, raw_format, read_texts, refuse_labelled
from crossner_cli.data import files as files_module
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import digest_folder, write_json

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    zstd = pytest.importorskip("backports.zstd")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": partial(bz2.compress, compresslevel=1),
    ".zst": zstd.compress,
}
TEXTS = ["Ada lived in Kürten.", "", "Bob \u2028did\u0085not."]


def read(path: Path, column: str = "text") -> list[str]:
    return list(read_texts(path, column=column, counts=Counter()))


def refusal(path: Path, column: str = "text") -> CrossNERError:
    with pytest.raises(CrossNERError) as found:
        read(path, column)
    assert found.value.hint
    return found.value


def write_table(path: Path, values: list[Any], column: str = "text", **options: Any) -> Path:
    parquet.write_table(pyarrow.table({column: values, "id": range(len(values))}), path, **options)
    return path


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", ["corpus.txt", "corpus", "corpus.of.mine"])
def test_lines_of_text_are_read_whatever_compresses_them(tmp_path: Path, name: str, ending: str) -> None:
    path = tmp_path / (name + ending)
    path.write_bytes(COMPRESS[ending]("\ufeff".encode() + "\r\n".join(TEXTS).encode()))
    assert read(path) == TEXTS


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.ndjson", "corpus.JSON"])
def test_records_are_read_whatever_compresses_them(tmp_path: Path, name: str, ending: str) -> None:
    path = tmp_path / (name + ending)
    lines = [json.dumps({"id": number, "body": text}) for number, text in enumerate([*TEXTS, "two\nlines"])]
    path.write_bytes(COMPRESS[ending]("\n".join(lines).encode() + b"\n\n"))
    assert read(path, "body") == [*TEXTS, "two\nlines", ""]


def test_the_content_tells_the_compression_and_not_the_name(tmp_path: Path) -> None:
    (tmp_path / "plain.txt.gz").write_bytes(b"Ada\n")
    (tmp_path / "packed.txt").write_bytes(gzip.compress(b"Ada\n") + gzip.compress(b"Bob\n"))
    assert read(tmp_path / "plain.txt.gz") == ["Ada"]
    assert read(tmp_path / "packed.txt") == ["Ada", "Bob"]


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.string(),
        pyarrow.large_string(),
        pyarrow.string_view(),
        pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    ],
)
def test_a_column_of_parquet_is_read(tmp_path: Path, kind: Any) -> None:
    values = pyarrow.array([*TEXTS, None]).cast(pyarrow.string())
    if pyarrow.types.is_dictionary(kind):
        values = values.dictionary_encode()
    elif kind != pyarrow.string():
        values = values.cast(kind)
    path = write_table(tmp_path / "corpus.parquet", values, "body", compression="zstd", row_group_size=2)
    counts: Counter[str] = Counter()
    assert list(read_texts(path, column="body", counts=counts)) == TEXTS
    assert counts == {"null_texts": 1}


def test_null_texts_of_records_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": null}\n{"text": "Ada"}\n{"text": null}\n')
    counts: Counter[str] = Counter()
    assert list(read_texts(path, counts=counts)) == ["Ada"]
    assert counts == {"null_texts": 2}


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")), min_size=1, max_size=6))
def test_every_format_gives_the_same_texts(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("formats")
    text = texts if not texts[0].startswith("\ufeff") else ["", *texts]
    (folder / "a.txt").write_bytes("".join(f"{line}\n" for line in text).encode())
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in text))
    write_table(folder / "a.parquet", text)
    assert read(folder / "a.txt") == read(folder / "a.jsonl") == read(folder / "a.parquet") == text


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("name", ["corpus.txt", "corpus.jsonl"])
def test_what_is_cut_off_is_told_with_the_last_line(tmp_path: Path, name: str, ending: str) -> None:
    lines = b"".join(b'{"text": "Sentence %d."}\n' % (number * 7919 % 10007) for number in range(20000))
    packed = COMPRESS[ending](lines)
    path = tmp_path / (name + ending)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    problem = refusal(path).problem
    assert "is cut off" in problem and str(path) in problem
    assert int(problem.partition(", after line ")[2].rstrip(".")) > 1000 and "Fetch it again" in refusal(path).hint


def test_the_longest_window_of_zstd_is_read(tmp_path: Path) -> None:
    window = {zstd.CompressionParameter.window_log: 30, zstd.CompressionParameter.compression_level: 1}
    path = tmp_path / "corpus.txt.zst"
    compressor = zstd.ZstdCompressor(options=window)
    path.write_bytes(compressor.compress(b"Ada\n" * 9) + compressor.flush())
    assert read(path) == ["Ada"] * 9


@pytest.mark.parametrize("ending", COMPRESS)
def test_bytes_that_are_not_utf8_are_told_with_their_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"corpus.txt{ending}"
    path.write_bytes(COMPRESS[ending](b"Ada\ncaf\xe9\n"))
    found = refusal(path)
    assert f"{path}:2: byte 0xe9 at position 4" in found.problem and "iconv" in found.hint


def test_utf16_is_told_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes("Ada saw Bob.\n".encode("utf-16"))
    assert "iconv -f UTF-16 -t UTF-8" in refusal(path).hint


def test_text_that_begins_as_bzip2_does_is_text(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("BZh is a word.\nBZh9 is none.\n")
    assert list(read_texts(path, counts=Counter())) == ["BZh is a word.", "BZh9 is none."]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "Bob"', "expected a JSON object"),
        ('["Bob"]', "expected a JSON object"),
        ("[" * 10**5, "expected a JSON object"),
        ('{"text": 1}', "a value of type int"),
        ('{"text": "\\ud83d"}', "half a surrogate pair"),
        ('{"id": 1, "body": "x"}', "no column 'text', only 'id', 'body'."),
    ],
)
def test_a_broken_record_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(f'{{"text": "Ada"}}\n\n{line}\n')
    found = refusal(path)
    assert f"{path}:3:" in found.problem and said in found.problem
    assert len(str(found)) < 600


def test_a_missing_column_of_parquet_lists_those_there_are(tmp_path: Path) -> None:
    path = write_table(tmp_path / "corpus.parquet", TEXTS, "body")
    found = refusal(path)
    assert "no column 'text', only 'body', 'id'." in found.problem and "--text-column" in found.hint
    assert "holds int64, expected strings" in refusal(path, "id").problem


def test_broken_parquet_is_told(tmp_path: Path) -> None:
    path = write_table(tmp_path / "corpus.parquet", [f"Sentence {n}." for n in range(5000)], compression="none")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert "cannot be read as Parquet" in refusal(path).problem
    path.write_bytes(whole.replace(b"Sentence 4000.", b"Sentence 400\xff."))
    assert "row 4001: text is not UTF-8" in refusal(path).problem
    path.write_bytes(b"")
    assert "cannot be read as Parquet" in refusal(path).problem
    path.write_bytes(gzip.compress(whole))
    assert "Parquet inside gzip" in refusal(path).problem


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"PK\x03\x04rest", "is a zip archive"),
        ("a.xml.bz2", b"", "is XML"),
        ("a.txt", b"x" * 3000, "is longer than"),
    ],
)
def test_what_is_no_raw_text_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, said: str
) -> None:
    monkeypatch.setattr(files_module, "LONGEST_LINE", 2000)
    (tmp_path / name).write_bytes(content)
    assert said in refusal(tmp_path / name).problem


def test_a_missing_package_is_told_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "pyarrow.parquet", "backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    for name in ("a.parquet", "a.zst"):
        assert refusal(tmp_path / name).hint == 'pip install "crossner[corpora]"'


def test_a_folder_gives_its_files_of_raw_text_once(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    names = ["b.txt", "a.jsonl.gz", "below/c.parquet", "below/d.ndjson", "below/shard.zst", "below/E.TXT.BZ2"]
    for name in [*names, "info.json", "notes.md", "dump.xml.bz2", "all.tar.gz", "table.csv.gz", "below/x"]:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".hidden").write_bytes(b"")
    found = find_corpus_files([tmp_path / "below" / "c.parquet", tmp_path])
    files = found.files
    ignored = "all.tar.gz x dump.xml.bz2 gone.txt info.json notes.md table.csv.gz"
    assert [path.name for path in found.ignored] == ignored.split()
    assert files[0].name == "c.parquet"
    assert {path.relative_to(tmp_path).as_posix() for path in files} == {*names}
    assert files[1:] == sorted(files[1:])


def test_folders_behind_links_are_read_once_and_hidden_copies_are_told(tmp_path: Path) -> None:
    corpus, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    for folder in (corpus, elsewhere, corpus / ".ipynb_checkpoints"):
        folder.mkdir()
    for path in (corpus / "a.txt", elsewhere / "b.txt", corpus / ".ipynb_checkpoints" / "a-checkpoint.txt"):
        path.write_text("Ada saw Bob.")
    before = digest_folder(corpus)
    (corpus / "linked").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(corpus)
    found = find_corpus_files([corpus])
    assert [path.name for path in found.files] == ["a.txt", "b.txt"]
    assert [path.name for path in found.ignored] == ["a-checkpoint.txt"]
    assert "1 files in folders of the corpus are ignored because they are hidden" in found.notes()[0]
    linked = digest_folder(corpus)
    (elsewhere / "b.txt").write_text("Ada saw Cid.")
    assert len({before, linked, digest_folder(corpus)}) == 3, "a file behind a link counts as any other"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ada saw Bob.")
    (tmp_path / "locked").mkdir(mode=0)
    with pytest.raises(PermissionError, match="locked"):
        find_corpus_files([tmp_path])


def test_utf16_without_a_mark_is_refused_as_a_corpus(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes("Ada saw Bob.\n".encode("utf-16-le"))
    with pytest.raises(CrossNERError, match="holds zero bytes") as caught:
        refuse_labelled(path)
    assert "iconv -f UTF-16LE -t UTF-8 " in caught.value.hint


def test_files_that_are_named_are_taken_whatever_their_name(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text('{"text": "Ada"}')
    assert find_corpus_files([path, tmp_path / "missing", path]).files == [path, tmp_path / "missing"]
    assert read(path) == ["Ada"]
    assert "cannot be read: No such file" in refusal(tmp_path / "missing.parquet").problem


def make_stage(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "domain.txt").write_text("Ada went home.")
    write_json(folder / "manifest.json", {"stage": "x", "name": "x", "options": {}, "inputs": {}, "result": {}})
    return folder


def test_stages_of_run_directories_in_a_folder_are_no_raw_text_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ada came back.")
    before = digest_corpus(tmp_path)
    stage = make_stage(tmp_path / "run" / "prepare-data")
    (tmp_path / "run" / ".lock-prepare-data").touch()
    found = find_corpus_files([tmp_path])
    assert (found.files, found.stages) == ([tmp_path / "a.txt"], [stage])
    assert f"1 stages of run directories in folders of the corpus are ignored: {stage}." in found.notes()[-1]
    assert digest_corpus(tmp_path) == before, "a run directory is no other corpus"
    assert find_corpus_files([stage]).files == [stage / "domain.txt"], "one that is named is read"
    (stage / "manifest.json").write_text('{"of": "another program"}')
    assert find_corpus_files([tmp_path]).files == [tmp_path / "a.txt", stage / "domain.txt"]
    assert digest_corpus(tmp_path) != before


def test_a_folder_without_raw_text_is_refused(tmp_path: Path) -> None:
    make_stage(tmp_path / "run" / "prepare-data")
    with pytest.raises(CrossNERError, match=r"holds no file of raw text \(\*.txt, \*.jsonl"):
        find_corpus_files([tmp_path])


@pytest.mark.parametrize("name", ["notes.csv", "notes.CSV.gz"])
def test_a_table_of_commas_is_no_raw_text(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("id,text\n1,Anna eats.\n")
    with pytest.raises(CrossNERError, match="is CSV, not raw text"):
        refuse_labelled(tmp_path / name)


def test_labelled_data_is_refused_inside_compression(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(b"Ada\tB-person\nlives\tO\nhere\tO\n"))
    with pytest.raises(CrossNERError, match="look like conll"):
        refuse_labelled(path)
    path.write_bytes(gzip.compress(b'{"text": "Ada"}\n'))
    with pytest.raises(CrossNERError, match="look like jsonl") as found:
        refuse_labelled(path)
    assert "*.jsonl" in found.value.hint
    refuse_labelled(path.rename(tmp_path / "train.jsonl.gz"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(gzip.compress(b"Ada\nBob\n")))
    refuse_labelled(path)
    writer.start()
    assert read(path) == ["Ada", "Bob"]
    writer.join()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("a.JSONL.GZ", "jsonl"),
        ("a.parquet", "parquet"),
        ("a.xml.bz2", "xml"),
        ("a.xml-p1p41242.bz2", "xml"),
        ("a.gz.txt", "text"),
        (".gz", "text"),
    ],
)
def test_the_name_tells_the_format(name: str, form: str) -> None:
    assert raw_format(Path(name)) == form


def test_memory_does_not_grow_with_what_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt.gz"
    path.write_bytes(gzip.compress(b"Ada lived in London.\n" * 2_000_000, 1))
    write_table(tmp_path / "corpus.parquet", [f"{'Ada ' * 200}{n}" for n in range(25_000)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in read_texts(path, counts=Counter())) == 2_000_000
    assert sum(1 for _ in read_texts(tmp_path / "corpus.parquet", counts=Counter())) == 25_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB
