"""Data sets: found by name or folder, fetched from a mirror or the network, read in any scheme and written in one."""

import hashlib
import http.server
import json
import os
import shutil
import socket
import threading
from pathlib import Path

import pytest
from builders.spans import sentences_with_spans
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from crossner_cli.data import domains
from crossner_cli.data.domains import (
    SAMPLES,
    KnownDomain,
    KnownFile,
    find_bundled,
    find_domain,
    find_domains,
    hides_folder,
    known_domains,
)
from crossner_cli.data.files import BYTE_ORDER_MARK_REMOVED
from crossner_cli.data.labelled import COPY, ILLEGAL_TAG, read_domain
from crossner_cli.data.sentences import SPLITS, Sentence
from crossner_cli.data.splits import take_dev
from crossner_cli.data.statistics import count_split
from crossner_cli.data.tags import Span, to_spans, to_tags
from crossner_cli.data.types import rename_types
from crossner_cli.errors import CrossNERError

MIRROR = os.environ.get("CROSSNER_MIRROR", "")
NOT_IN_MIRROR = {"science", "literature"}
CONTENT = b"Paris\tB-location\n\n" * 50
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def failure(name):
    with pytest.raises(CrossNERError) as raised:
        find_domain(name)
    assert raised.value.hint
    return str(raised.value)


@pytest.mark.parametrize("name", [*(f"train{ending}" for ending in domains.ENDINGS), "Train.CoNLL"])
def test_a_folder_is_read_by_the_names_of_its_files_whatever_their_capitals_and_order(tmp_path, name):
    others = ("README.txt", "train.csv", "training.txt", "dev.py")
    for dev in ("dev", "valid", "devel", "eval", "validation", "DEV"):
        folder = tmp_path / dev
        folder.mkdir()
        for file in ("test.TXT", f"{dev}.tsv", name, *others):
            (folder / file).touch()
        found = find_domain(str(folder))
        assert found.name == dev and tuple(found.files) == SPLITS
        assert found.files == {"train": [folder / name], "dev": [folder / f"{dev}.tsv"], "test": [folder / "test.TXT"]}


@pytest.mark.parametrize("files", [["dev.txt", "valid.txt"], ["train.txt", "train.jsonl"], ["notes.md"]])
def test_two_files_for_one_split_or_none_at_all_are_an_error_that_names_what_is_there(tmp_path, files):
    for file in files:
        (tmp_path / file).touch()
    message = failure(str(tmp_path))
    assert all(each in message for each in files)


def test_a_known_name_wins_over_a_folder_unless_written_as_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "sample-target"
    (folder / "prepare-data").mkdir(parents=True)  # a run called as its target
    assert not hides_folder("sample-target")
    (folder / "train.txt").touch()
    assert hides_folder("sample-target") and not hides_folder("./sample-target")
    source, target = find_domain("sample-source"), find_domain("sample-target")
    assert list(source.files) == ["train", "dev"] and list(target.files) == ["train", "dev", "test"]
    assert find_bundled("sample-target", "raw.txt") and not find_bundled("sample-source", "raw.txt")
    assert not find_bundled("../known_domains.json", "")
    for name in ("./sample-target", "sample-target/", str(folder)):
        assert list(find_domain(name).files) == ["train"]
        assert find_domain(name).name == "sample-target"


def test_an_unknown_name_is_answered_with_a_close_one_and_all_known_ones():
    for name, close in {"politic": "politics", "CoNLL2003": "conll2003", "sample_target": "sample-target"}.items():
        assert f"Did you mean {close!r}? Known: {', '.join(known_domains())}" in failure(name)


def test_any_other_text_any_path_that_is_no_file_and_a_file_without_sentences_are_an_error(tmp_path):
    for name in ("", "x" * 5000, "../../etc", "a\0b", "~"):
        failure(name)
    (tmp_path / "folder.txt").mkdir()
    for name in ("missing.txt", "folder.txt", "x" * 5000 + ".txt", "nul\0.txt"):
        with pytest.raises(CrossNERError, match="cannot be read"):
            read_domain({"train": [tmp_path / name]})
    for content in (b"", b"\n\n", b"\xef\xbb\xbf", b"-DOCSTART- O\n\n"):
        (tmp_path / "train.txt").write_bytes(content)
        with pytest.raises(CrossNERError, match="holds no sentence") as raised:
            read_domain({"train": [tmp_path / "train.txt"]})
        assert "word<TAB>tag" in raised.value.hint


def test_the_scheme_is_detected_over_all_splits_and_illegal_tags_are_counted(tmp_path):
    (tmp_path / "train.txt").write_text("a B-x\nb E-x\n\nc S-y\n")
    (tmp_path / "test.txt").write_text("a B-x\nb I-x\nc O\n\nd I-y\n")
    found = read_domain({"train": [tmp_path / "train.txt"], "test": [tmp_path / "test.txt"]}, name="toy")
    assert found.found_scheme == "bioes"
    assert found.types == ("x", "y")
    assert found.splits["train"] == [Sentence(("a", "b"), ("B-x", "I-x"), "toy"), Sentence(("c",), ("B-y",), "toy")]
    assert [sentence.tags for sentence in found.splits["test"]] == [("B-x", "I-x", "O"), ("B-y",)]
    places = [f"{tmp_path}/test.txt:{line}" for line in (3, 5, 5)]
    assert found.repairs.to_json() == {ILLEGAL_TAG: {"count": 3, "first": places}}


PREFIXES = {"bio": "BIII", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}
CHARACTERS = st.characters(exclude_characters="\n\r\t \ufeff", exclude_categories=["Cs"])
WORDS = st.text(CHARACTERS, min_size=1, max_size=6).filter(lambda word: word != "-DOCSTART-")


@st.composite
def labelled_sentences(draw):
    """Words, and spans that do not overlap."""
    spans, length = draw(sentences_with_spans(most=3))
    return draw(st.lists(WORDS, min_size=max(1, length), max_size=max(1, length))), spans


def write_tags(spans, length, scheme):
    """An independent writer of every scheme."""
    tags, before = ["O"] * length, Span(-1, -1, "")
    for span in spans:
        size = span.end - span.start
        begin, inside, end, single = PREFIXES.get(scheme, "BIII")
        if scheme == "iob1" and (before.end, before.type) != (span.start, span.type):
            begin = "I"
        if scheme in ("iob1", "bio"):
            single = begin
        prefixes = single if size == 1 else begin + inside * (size - 2) + end
        tags[span.start : span.end] = [f"{prefix}-{span.type}" for prefix in prefixes]
        before = span
    return tags


@settings(max_examples=80)
@given(
    st.lists(labelled_sentences(), min_size=1, max_size=4),
    st.sampled_from(["iob1", *PREFIXES]),
    st.sampled_from(["\t", " ", " NN x ", "\tNN\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\n\n"]),
    st.booleans(),
    st.sampled_from(["bio", "bioes"]),
)
def test_sentences_come_back_from_any_scheme_separator_and_line_end(
    tmp_path_factory, sentences, scheme, separator, newline, end, has_mark, wanted
):
    path = tmp_path_factory.getbasetemp() / "sentences.txt"
    blocks = []
    for words, spans in sentences:
        rows = zip(words, write_tags(spans, len(words), scheme), strict=True)
        blocks.append("\n".join(f"{word}{separator}{tag}" for word, tag in rows))
    text = ("\n\n".join(blocks) + end).replace("\n", newline)
    path.write_bytes((b"\xef\xbb\xbf" if has_mark else b"") + text.encode())
    found = read_domain({"train": [path]}, scheme=wanted)
    assert [list(sentence.words) for sentence in found.splits["train"]] == [words for words, _ in sentences]
    assert [list(sentence.tags) for sentence in found.splits["train"]] == [
        to_tags(spans, len(words), wanted) for words, spans in sentences
    ]
    assert found.repairs.counts == ({BYTE_ORDER_MARK_REMOVED: 1} if has_mark else {})


@settings(max_examples=80)
@given(st.lists(st.sampled_from(["O", *(f"{prefix}-{name}" for prefix in "BIES" for name in "xy")]), min_size=1))
def test_malformed_sequences_are_repaired_as_seqeval_reads_them(tmp_path_factory, tags):
    path = tmp_path_factory.getbasetemp() / "malformed.txt"
    path.write_text("".join(f"w {tag}\n" for tag in tags))
    (repaired,) = read_domain({"train": [path]}).splits["train"]
    assert get_entities(list(repaired.tags)) == get_entities(tags)


@pytest.mark.skipif(not MIRROR, reason="CROSSNER_MIRROR is not set")
@pytest.mark.parametrize("name", sorted(set(known_domains()) - NOT_IN_MIRROR))
def test_published_data_sets_have_the_published_counts(name):
    known = known_domains()[name]
    folder = Path(MIRROR) / name if known.upstream else SAMPLES / name
    files = {split: [folder / file.name] for split, file in known.files.items()}
    found = read_domain(files)
    assert set(found.types) == set(known.types)
    for split, file in known.files.items():
        assert count_split(found.splits[split]) == {
            "sentences": file.sentences,
            "words": file.words,
            "longest_sentence": file.longest_sentence,
            "entities": {kind: count for kind, count in file.entities.items() if count},
        }
    malformed = {"cbs-scitech-2019": 20, "cbs-scitech-2020": 6}.get(name, 0)
    assert found.repairs.counts[ILLEGAL_TAG] == malformed


def test_dev_depends_on_the_sentences_alone_and_keeps_repeated_ones_together():
    train = [Sentence((word,), ("O",)) for word in "abcdefghij" * 3]
    rest, dev = take_dev(train, 0.2)
    assert len(dev) == 6
    assert not set(rest) & set(dev)
    again, reversed_dev = take_dev(train[::-1], 0.2)
    assert set(reversed_dev) == set(dev)
    assert again == rest[::-1]
    with pytest.raises(CrossNERError, match="takes all 2 training sentences"):
        take_dev([Sentence(("one",), ("B-dish",))] * 2, 0.1)


def test_types_are_renamed_merged_and_dropped():
    before = read_domain(find_domain("sample-source").files)
    names = {"person": "PER", "misc": "O", "location": "place", "organisation": "place"}
    after = rename_types(before, names)
    assert sorted(after.types) == ["PER", "place"]
    for old, new in zip(before.splits["dev"], after.splits["dev"], strict=True):
        kept = [(start, end, names[name]) for start, end, name in to_spans(old.tags) if names[name] != "O"]
        assert [tuple(span) for span in to_spans(new.tags)] == kept


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each path with the next of its replies, the last one for ever; keeps what was asked."""

    def do_GET(self):
        self.server.asked.append(self.path)
        replies = self.server.replies.get(self.path, [(404, b"", 0)])
        status, content, missing = replies.pop(0) if len(replies) > 1 else replies[0]
        if status == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) - missing])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.url, server.replies, server.asked = f"http://127.0.0.1:{server.server_address[1]}", {}, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("CROSSNER_CACHE", str(folder))
    monkeypatch.delenv("CROSSNER_MIRROR", raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return folder


@pytest.fixture
def toy(cache, server, monkeypatch):
    """A known data set of one file, which the server has upstream."""
    file = KnownFile("tech.test", DIGEST, len(CONTENT), 50, 50, 1, {"location": 50})
    known = KnownDomain("toy", {"test": file}, ("location",), "source", "licence", f"{server.url}/upstream")
    monkeypatch.setattr(domains, "known_domains", lambda: {"toy": known})
    server.replies["/upstream/tech.test"] = [(200, CONTENT, 0)]
    return cache / "toy" / "tech.test"


def left_in(cache):
    return [path.name for path in cache.rglob("*") if path.is_file()]


def test_a_known_name_is_fetched_once_and_then_read_from_the_cache(toy, server):
    first = find_domain("toy")
    assert (first.files, first.origins) == ({"test": [toy]}, {"test": f"{server.url}/upstream/tech.test"})
    assert toy.read_bytes() == CONTENT
    assert toy.stat().st_mode & 0o444 == 0o444, "a cache may be shared"
    server.replies.clear()
    assert find_domain("toy").origins == {"test": "cache"}
    assert server.asked == ["/upstream/tech.test"]


@pytest.mark.parametrize("broken", [(200, CONTENT, 10), (200, CONTENT, len(CONTENT)), ("reset", b"", 0), (503, b"", 0)])
def test_a_cut_connection_is_tried_again(toy, server, cache, broken):
    server.replies["/upstream/tech.test"] = [broken, broken, (200, CONTENT, 0)]
    find_domain("toy")
    assert toy.read_bytes() == CONTENT
    assert len(server.asked) == 3
    assert left_in(cache) == ["tech.test"]


OTHER = CONTENT.replace(b"Paris", b"Rome!")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((200, CONTENT, 10), "IncompleteRead"),
        ((404, b"", 0), "404 Client Error"),
        ((200, OTHER, 0), f"expected sha256:{DIGEST} but got {hashlib.sha256(OTHER).hexdigest()}"),
        (("reset", b"", 0), "no connection"),
    ],
    ids=["cut", "gone", "other-version", "no-network"],
)
def test_a_file_that_cannot_be_fetched_is_an_error_that_leaves_nothing(toy, server, cache, reply, reason):
    server.replies["/upstream/tech.test"] = [reply]
    message = failure("toy")
    assert f"{server.url}/upstream/tech.test: " in message and reason in message
    assert "CROSSNER_MIRROR=FOLDER, which holds toy/tech.test" in message
    assert len(server.asked) >= 1 + domains.RETRIES
    assert left_in(cache) == []


def test_a_mirror_is_asked_first(toy, server, tmp_path, monkeypatch):
    (tmp_path / "mirror" / "toy").mkdir(parents=True)
    (tmp_path / "mirror" / "toy" / "tech.test").write_bytes(CONTENT)
    server.replies["/mirror/toy/tech.test"] = [(200, CONTENT, 0)]
    for mirror, asked in ((str(tmp_path / "mirror"), []), (f"{server.url}/mirror/", ["/mirror/toy/tech.test"])):
        monkeypatch.setenv("CROSSNER_MIRROR", mirror)
        assert find_domain("toy").files == {"test": [toy]}
        assert toy.read_bytes() == CONTENT
        assert server.asked == asked
        toy.unlink()


@pytest.mark.parametrize("mirror", ["{server}/mirror", "{folder}/missing", "{folder}/other", "http://["])
def test_a_mirror_without_that_version_of_the_file_is_passed_over(toy, server, cache, tmp_path, monkeypatch, mirror):
    (tmp_path / "other" / "toy").mkdir(parents=True)
    (tmp_path / "other" / "toy" / "tech.test").write_bytes(b"other")
    monkeypatch.setenv("CROSSNER_MIRROR", mirror.format(server=server.url, folder=tmp_path))
    assert find_domain("toy").origins == {"test": f"{server.url}/upstream/tech.test"}
    assert left_in(cache) == ["tech.test"]


def test_a_damaged_cached_file_is_fetched_again_and_a_cache_that_cannot_be_written_is_an_error(toy, cache):
    for damage in (b"", CONTENT[:-1], CONTENT + b"x"):
        find_domain("toy")
        toy.write_bytes(damage)
        assert find_domain("toy").origins["test"] != "cache"
        assert toy.read_bytes() == CONTENT
    shutil.rmtree(cache)
    cache.write_text("a file where the folder should be")
    assert "cannot be written" in failure("toy") and "CROSSNER_CACHE" in failure("toy")


def test_the_list_tells_size_types_licence_and_source_of_every_data_set_and_only_safe_names_and_addresses():
    listed = known_domains()
    names = """conll2003 politics science music literature ai mit-movie mit-restaurant broad-twitter bionlp13cg
        bionlp13pc cbs-scitech-2019 cbs-scitech-2020 sample-source sample-target"""
    assert list(listed) == names.split()
    for known in listed.values():
        assert known.types and known.licence and known.source and set(known.files) <= set(SPLITS)
        assert known.upstream.startswith("https://raw.githubusercontent.com/") or known.name.startswith("sample-")
        for file in known.files.values():
            assert Path(file.name).name == file.name and not file.name.startswith(".")
            assert file.words > 0 and set(file.entities) <= set(known.types) and len(file.sha256) == 64


@pytest.mark.skipif(not (Path(MIRROR) / "SHA256SUMS").is_file(), reason="CROSSNER_MIRROR has no SHA256SUMS")
def test_digests_and_addresses_are_those_of_the_list_beside_the_mirror():
    listed = {}
    for line in (Path(MIRROR) / "SHA256SUMS").read_text().splitlines():
        if not line.startswith("#"):
            name, digest, upstream = line.split()
            repository, place = upstream.split("@")
            listed[name] = (digest, f"https://raw.githubusercontent.com/{repository}/{place.replace(':', '/')}")
    known = [each for each in known_domains().values() if each.upstream]
    files = [(each, file) for each in known for file in each.files.values()]
    ours = {f"{each.name}/{file.name}": (file.sha256, f"{each.upstream}/{file.name}") for each, file in files}
    assert ours == listed


def write_tasks(path: Path, *tasks: tuple[int, str, str]) -> Path:
    """An export of Label Studio of tasks: number, text and the type of its first word."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spans = [{"start": 0, "end": len(text.split()[0]), "labels": [kind]} for _, text, kind in tasks]
    records = [
        {"id": number, "data": {"text": text}, "annotations": [{"result": [{"type": "labels", "value": span}]}]}
        for (number, text, _), span in zip(tasks, spans, strict=True)
    ]
    path.write_text(json.dumps(records))
    return path


FIRST = ((1, "Anna met Peter. Rome is far.", "per"), (2, "Paris is far.", "per"))
SECOND = ((2, "Paris is far.", "loc"), (3, "Zoe left.", "per"))


@pytest.mark.parametrize(
    "names", [("train-1.json", "train-2.json"), ("train/a.json", "train/b.json"), ("a.json", "b.json")]
)
def test_exports_of_one_project_are_one_split_and_the_later_copy_of_a_text_wins(tmp_path: Path, names) -> None:
    paths = [write_tasks(tmp_path / name, *tasks) for name, tasks in zip(names, (FIRST, SECOND), strict=True)]
    given = list(map(str, paths)) if names[0] == "a.json" else [str(tmp_path)]
    found = find_domains(given)
    assert found.files == {"train": paths} and not found.left
    read = read_domain(found.files)
    words = [(sentence.words[0], sentence.tags[0]) for sentence in read.splits["train"]]
    assert words == [("Anna", "B-per"), ("Rome", "O"), ("Paris", "B-loc"), ("Zoe", "B-per")]
    assert read.repairs.counts == {COPY: 1} and str(paths[0]) in read.repairs.examples[COPY][0]
    assert find_domains([*given, *given]).files == found.files, "a file that is named twice is read once"


def test_a_corrected_text_of_a_later_export_replaces_that_of_its_task(tmp_path: Path) -> None:
    first = write_tasks(tmp_path / "a.json", (1, "Ana met Peter in Rome.", "per"), (2, "Paris is far.", "per"))
    second = write_tasks(tmp_path / "b.json", (1, "Anna met Peter in Rome.", "per"), (2, "Zoe left early.", "per"))
    read = read_domain({"train": [first, second]})
    words = [" ".join(sentence.words) for sentence in read.splits["train"]]
    assert words == ["Paris is far .", "Anna met Peter in Rome .", "Zoe left early ."], "2 is a task of another project"
    assert read.repairs.to_json() == {COPY: {"count": 1, "first": [f"{first}, record 1"]}}


@pytest.mark.parametrize("name", ["doccano", "prodigy"])
def test_tasks_of_other_tools_are_known_again_too(tmp_path: Path, name: str) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, text in zip(paths, ("Ana met Peter in Rome.", "Anna met Peter in Rome."), strict=True):
        end = text.index(" ")
        tasks = {
            "doccano": {"id": 7, "label": [[0, end, "per"]]},
            "prodigy": {"_input_hash": 7, "spans": [{"start": 0, "end": end, "label": "per"}]},
        }
        path.write_text(json.dumps({"text": text, **tasks[name]}))
    (sentence,) = read_domain({"train": paths}).splits["train"]
    assert sentence.words[0] == "Anna" and sentence.place == f"{paths[1]}:1"


def test_a_text_that_one_file_has_twice_stays_twice(tmp_path: Path) -> None:
    path = write_tasks(tmp_path / "a.json", *SECOND, *SECOND)
    assert len(read_domain({"train": [path]}).splits["train"]) == 4


def test_what_is_not_read_of_a_folder_is_kept_to_be_named(tmp_path: Path) -> None:
    write_tasks(tmp_path / "train" / "a.json", *FIRST)
    for name in ("export.json", "train/notes.md", ".hidden.json", "train_old.json"):
        (tmp_path / name).write_text("[]")
    left = find_domains([str(tmp_path)]).left
    assert sorted(path.name for path in left) == ["export.json", "notes.md", "train_old.json"]
