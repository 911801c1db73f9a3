"""Raw text in every format: the texts read, and the messages about broken files."""

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

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.corpus.raw_files import digest_corpus, find_corpus_files, read_texts, refuse_labelled
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


def read(path, column="text"):
    return list(read_texts(path, column=column, counts=Counter()))


def refusal(path, column="text"):
    with pytest.raises(CrossNERError) as found:
        read(path, column)
    assert found.value.hint
    return found.value


def write_table(path, values, column="text", **options):
    parquet.write_table(pyarrow.table({column: values, "id": range(len(values))}), path, **options)
    return path


@pytest.mark.parametrize("ending", COMPRESS)
def test_lines_and_records_are_read_whatever_compresses_them(tmp_path, ending):
    for name in ("corpus.txt", "corpus", "corpus.of.mine"):
        (tmp_path / (name + ending)).write_bytes(COMPRESS[ending]("\ufeff".encode() + "\r\n".join(TEXTS).encode()))
        assert read(tmp_path / (name + ending)) == TEXTS
    lines = [json.dumps({"id": number, "body": text}) for number, text in enumerate([*TEXTS, "two\nlines"])]
    for name in ("corpus.jsonl", "corpus.ndjson", "corpus.JSON"):
        (tmp_path / (name + ending)).write_bytes(COMPRESS[ending]("\n".join(lines).encode() + b"\n\n"))
        assert read(tmp_path / (name + ending), "body") == [*TEXTS, "two\nlines", ""]


def test_the_content_decides_the_compression_and_not_the_name(tmp_path):
    window = {zstd.CompressionParameter.window_log: 30, zstd.CompressionParameter.compression_level: 1}
    longest = zstd.ZstdCompressor(options=window)
    for name, content, texts in (
        ("plain.txt.gz", b"Ada\n", ["Ada"]),
        ("packed.txt", gzip.compress(b"Ada\n") + gzip.compress(b"Bob\n"), ["Ada", "Bob"]),
        ("word.txt", b"BZh is a word.\nBZh9 is none.\n", ["BZh is a word.", "BZh9 is none."]),
        ("window.txt", longest.compress(b"Ada\n" * 9) + longest.flush(), ["Ada"] * 9),
    ):
        (tmp_path / name).write_bytes(content)
        assert read(tmp_path / name) == texts


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.string(),
        pyarrow.large_string(),
        pyarrow.string_view(),
        pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    ],
)
def test_a_column_of_parquet_is_read_as_records_are_and_null_texts_are_counted(tmp_path, kind):
    values = pyarrow.array([*TEXTS, None])
    values = values.dictionary_encode() if pyarrow.types.is_dictionary(kind) else values.cast(kind)
    write_table(tmp_path / "corpus.parquet", values, "body", compression="zstd", row_group_size=2)
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in [*TEXTS, None]))
    for name in ("corpus.parquet", "corpus.jsonl"):
        counts: Counter[str] = Counter()
        assert list(read_texts(tmp_path / name, column="body", counts=counts)) == TEXTS
        assert counts == {"null_texts": 1}


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")), min_size=1, max_size=6))
def test_every_format_gives_the_same_texts(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("formats")
    text = texts if not texts[0].startswith("\ufeff") else ["", *texts]
    (folder / "a.txt").write_bytes("".join(f"{line}\n" for line in text).encode())
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in text))
    write_table(folder / "a.parquet", text)
    assert read(folder / "a.txt") == read(folder / "a.jsonl") == read(folder / "a.parquet") == text


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("name", ["corpus.txt", "corpus.jsonl"])
def test_what_is_cut_off_is_reported_with_the_last_line(tmp_path, name, ending):
    lines = b"".join(b'{"text": "Sentence %d."}\n' % (number * 7919 % 10007) for number in range(20000))
    packed = COMPRESS[ending](lines)
    path = tmp_path / (name + ending)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    problem = refusal(path).problem
    assert "is cut off" in problem and str(path) in problem
    assert int(problem.partition(", after line ")[2].rstrip(".")) > 1000 and "Fetch it again" in refusal(path).hint


@pytest.mark.parametrize("ending", COMPRESS)
def test_bytes_that_are_not_utf8_are_reported_with_their_line(tmp_path, ending):
    path = tmp_path / f"corpus.txt{ending}"
    path.write_bytes(COMPRESS[ending](b"Ada\ncaf\xe9\n"))
    found = refusal(path)
    assert f"{path}:2: byte 0xe9 at position 4" in found.problem and "iconv" in found.hint
    path.write_bytes(COMPRESS[ending]("Ada saw Bob.\n".encode("utf-16")))
    assert "iconv -f UTF-16 -t UTF-8" in refusal(path).hint


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "Bob"', "not a JSON object"),
        ('["Bob"]', "not a JSON object"),
        ('{"text": "Bob", "text": "Eve"}', "(the key 'text' occurs twice)"),
        ("[" * 10**5, "not a JSON object"),
        ('{"text": 1}', "a value of type int"),
        ('{"text": "\\ud83d"}', "half a surrogate pair"),
        ('{"id": 1, "body": "x"}', "no column 'text', only 'id', 'body'."),
    ],
)
def test_a_broken_record_is_reported_with_its_line(tmp_path, line, said):
    path = tmp_path / "corpus.jsonl"
    path.write_text(f'{{"text": "Ada"}}\n\n{line}\n')
    found = refusal(path)
    assert f"{path}:3:" in found.problem and said in found.problem
    assert len(str(found)) < 600


def test_a_missing_column_of_parquet_lists_those_there_are(tmp_path):
    path = write_table(tmp_path / "corpus.parquet", TEXTS, "body")
    found = refusal(path)
    assert "no column 'text', only 'body', 'id'." in found.problem and "--text-column" in found.hint
    assert "row 1: id holds a value of type int, expected a string" in refusal(path, "id").problem


def test_broken_parquet_is_reported(tmp_path):
    path = write_table(tmp_path / "corpus.parquet", [f"Sentence {n}." for n in range(5000)], compression="none")
    whole = path.read_bytes()
    for content, said in (
        (whole[:-20], "cannot be read as Parquet"),
        (whole.replace(b"Sentence 4000.", b"Sentence 400\xff."), "row 4001: text is not UTF-8"),
        (whole.replace(b"text", b"te\xfft"), "the name of a column is not UTF-8"),
        (b"", "cannot be read as Parquet"),
        (gzip.compress(whole), "cannot be read as Parquet"),
    ):
        path.write_bytes(content)
        assert said in refusal(path).problem


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"PK\x03\x04rest", "is a zip archive"),
        ("a.xml.bz2", b"", "is XML"),
        ("a.txt", b"x" * 3000, "is longer than"),
    ],
)
def test_what_is_not_raw_text_is_refused(tmp_path, monkeypatch, name, content, said):
    monkeypatch.setattr(files_module, "LONGEST_LINE", 2000)
    (tmp_path / name).write_bytes(content)
    assert said in refusal(tmp_path / name).problem


def test_a_missing_package_is_reported_with_the_command_that_brings_it(tmp_path, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet", "backports.zstd", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    for name, content in (("a.parquet", b"PAR1"), ("a.zst", b"\x28\xb5\x2f\xfd")):
        (tmp_path / name).write_bytes(content)
        assert refusal(tmp_path / name).hint == 'pip install "crossner[corpora]"'


def test_a_folder_gives_its_files_of_raw_text_once(tmp_path):
    (tmp_path / "below").mkdir()
    names = ["b.txt", "a.jsonl.gz", "below/c.parquet", "below/d.ndjson", "below/shard.zst", "below/E.TXT.BZ2"]
    for name in [*names, "info.json", "notes.md", "dump.xml.bz2", "all.tar.gz", "table.csv.gz", "below/x", ".hidden"]:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    found = find_corpus_files([tmp_path / "below" / "c.parquet", tmp_path])
    ignored = "all.tar.gz x dump.xml.bz2 gone.txt info.json notes.md table.csv.gz"
    assert [path.name for path in found.ignored] == ignored.split()
    assert found.files[0].name == "c.parquet" and found.files[1:] == sorted(found.files[1:])
    assert {path.relative_to(tmp_path).as_posix() for path in found.files} == {*names}
    named = [tmp_path / "info.json", tmp_path / "missing.parquet"]
    assert find_corpus_files([*named, named[0]]).files == named, "what is named is taken whatever its name"
    named[0].write_text('{"text": "Ada"}')
    assert read(named[0]) == ["Ada"]
    assert "cannot be read as Parquet" in refusal(named[1]).problem


def test_folders_that_links_lead_to_are_read_once_and_hidden_copies_are_named(tmp_path):
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


def make_stage(folder):
    folder.mkdir(parents=True)
    (folder / "domain.txt").write_text("Ada went home.")
    write_json(folder / "manifest.json", {"stage": "x", "name": "x", "options": {}, "inputs": {}, "result": {}})
    return folder


def test_stages_of_run_directories_in_a_folder_are_no_raw_text_of_it(tmp_path):
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
    make_stage(tmp_path / "other" / "prepare-data")
    with pytest.raises(CrossNERError, match=r"holds no files of raw text \(\*.txt, \*.jsonl"):
        find_corpus_files([tmp_path / "other"])


@pytest.mark.parametrize(
    ("name", "content", "problem", "hint"),
    [
        ("notes.csv", b"id,text\n1,Anna eats.\n", "is CSV, not raw text", ""),
        ("notes.CSV.gz", b"id,text\n1,Anna eats.\n", "is CSV, not raw text", ""),
        ("raw.txt", "Ada saw Bob.\n".encode("utf-16-le"), "holds zero bytes", "iconv -f UTF-16LE -t UTF-8 "),
        ("train.txt.gz", gzip.compress(b"Ada\tB-person\nlives\tO\nhere\tO\n", mtime=0), "look like conll", ""),
        ("train.txt.gz", gzip.compress(b'{"text": "Ada"}\n', mtime=0), "look like jsonl", "*.jsonl"),
    ],
)
def test_tables_and_labelled_data_are_no_raw_text(tmp_path, name, content, problem, hint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CrossNERError, match=problem) as found:
        refuse_labelled(tmp_path / name)
    assert hint in found.value.hint
    (tmp_path / "raw.jsonl.gz").write_bytes(gzip.compress(b'{"text": "Ada"}\n'))
    refuse_labelled(tmp_path / "raw.jsonl.gz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(gzip.compress(b"Ada\nBob\n")))
    refuse_labelled(path)
    writer.start()
    assert read(path) == ["Ada", "Bob"]
    writer.join()


def test_memory_does_not_grow_with_what_is_compressed(tmp_path):
    path = tmp_path / "corpus.txt.gz"
    path.write_bytes(gzip.compress(b"Ada lived in London.\n" * 2_000_000, 1))
    write_table(tmp_path / "corpus.parquet", [f"{'Ada ' * 200}{n}" for n in range(25_000)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in read_texts(path, counts=Counter())) == 2_000_000
    assert sum(1 for _ in read_texts(tmp_path / "corpus.parquet", counts=Counter())) == 25_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB
