"""What a killed predict left is continued, and the end is the same as if nothing had happened."""

from __future__ import annotations

import dataclasses
import io
import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.engine.devices import Engine, start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Predict
from crossner_cli.prediction import chunks as prediction
from crossner_cli.prediction import resumable as resumable_output
from crossner_cli.problems import has_data_on_stdout
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Progress
from crossner_cli.stages.predict import run as predict
from crossner_cli.taggers.folder import save_tagger

CHUNK, LINES = 20, 70  # the last chunk is half full
OUTPUTS = {
    "jsonl": "out.jsonl", "conll": "out.conll", "html": "out.html", "brat": "out", "spacy": "out.spacy",
    "parquet": "out.parquet",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few lines fill several chunks, each of which is recorded."""
    monkeypatch.setattr(prediction, "CHUNK_SENTENCES", CHUNK)
    monkeypatch.setattr(resumable_output, "SECONDS_BETWEEN_RECORDS", 0.0)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return start_engine(Predict(device="cpu", precision="fp32", threads=1))


@pytest.fixture(scope="module")
def tagger(tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    encoder, _ = load_encoder(str(tiny_encoder_folder))
    folder = tmp_path_factory.mktemp("trained") / "tagger"
    save_tagger(LinearTagger(encoder, TagSet({"news": ("person", "place")}), LinearTagger.Hyperparameters()), folder)
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"Anna {number} met Peter in London\n" for number in range(LINES)))
    return path


@pytest.fixture
def begin(engine: Engine, tagger: Path, text: Path) -> Callable[..., Any]:
    """Begin the command; nothing is done before its events are asked for."""

    def start(output: Path, **options: Any) -> Any:
        given = Predict(**{"model": str(tagger), "input": [text], "output": output, **options})
        return predict(RunDirectory(output.parent / "no-run"), given, engine)

    return start


def finish(work: Any) -> tuple[dict[str, Any], list[str]]:
    """Run to the end; give the result and what was told."""
    told = []
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            return end.value["result"], told
        if isinstance(event, Notice):
            told.append(event.text)


def run_until(work: Any, chunks: int) -> None:
    """Run until so many chunks are written."""
    while chunks:
        chunks -= isinstance(next(work), Progress)


def content(path: Path) -> Any:
    """The bytes of a file, or of every file of a folder."""
    return {each.name: each.read_bytes() for each in path.iterdir()} if path.is_dir() else path.read_bytes()


def as_a_kill_leaves_it(begin: Any, folder: Path, name: str, chunks: int, **options: Any) -> Path:
    """The folder of an output as it is on the disk while so many chunks are written and the command is still there."""
    (folder / "living").mkdir()
    work = begin(folder / "living" / name, **options)
    run_until(work, chunks)
    shutil.copytree(folder / "living", folder / "killed")
    work.close()
    return folder / "killed" / name


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_killed_command_goes_on_and_ends_with_the_same_bytes(begin: Any, tmp_path: Path, kind: str) -> None:
    if kind in ("spacy", "parquet"):
        pytest.importorskip({"spacy": "spacy", "parquet": "pyarrow"}[kind])
    (tmp_path / "whole").mkdir()
    whole, _ = finish(begin(tmp_path / "whole" / OUTPUTS[kind], format=kind))
    output = as_a_kill_leaves_it(begin, tmp_path, OUTPUTS[kind], 2, format=kind)
    # What was being written when the kill came is behind what the record tells of.
    parts, draft = output.with_name(f".{output.name}.parts"), output.with_name(f".{output.name}.draft")
    if parts.is_dir():
        (parts / "000000041.txt").write_bytes(b"half")
        (parts / "whole").write_bytes(b"half")
    else:
        draft.write_bytes(draft.read_bytes() + b"half a line")
    result, told = finish(begin(output, format=kind))
    assert f"{output}: continued behind the 40 documents tagged before." in told
    assert content(output) == content(tmp_path / "whole" / OUTPUTS[kind])
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    for name in ("documents", "sentences", "words", "entities", "repaired", "unreadable_words", "format"):
        assert result[name] == whole[name], name
    assert (whole["words_before"], result["words_before"]) == (0, whole["words"] * 40 // LINES)


def test_a_kill_before_the_first_record_and_one_at_the_end_change_nothing(begin: Any, tmp_path: Path) -> None:
    finish(begin(tmp_path / "whole.jsonl"))
    output = as_a_kill_leaves_it(begin, tmp_path, "out.jsonl", 4)
    output.with_name(".out.jsonl.progress.json").unlink()
    result, told = finish(begin(output))
    assert result["words_before"] == 0 and not any("continued" in text for text in told)
    assert content(output) == content(tmp_path / "whole.jsonl")
    late = as_a_kill_leaves_it(begin, tmp_path / "killed", "late.jsonl", 4)
    result, _ = finish(begin(late))
    assert result["words_before"] == result["words"] and content(late) == content(tmp_path / "whole.jsonl")


def test_a_command_can_be_killed_again_and_again(begin: Any, tmp_path: Path) -> None:
    finish(begin(tmp_path / "whole.jsonl"))
    output = tmp_path / "out.jsonl"
    for _ in range(3):
        work = begin(output)
        run_until(work, 1)
        work.close()
    result, _ = finish(begin(output))
    assert result["words_before"] == result["words"] * 60 // LINES
    assert content(output) == content(tmp_path / "whole.jsonl")


@pytest.mark.parametrize(
    ("change", "told"),
    [("input", "input 1: "), ("options", "decoding: 'trained' -> 'any'"), ("--force", "--force"),
     ("draft", "the draft is not what it was"), ("stdin", "stdin cannot be read again"), ("format", "format: ")],
)  # fmt: skip
def test_another_command_begins_anew_and_says_why(
    begin: Any, tmp_path: Path, text: Path, change: str, told: str
) -> None:
    output = as_a_kill_leaves_it(begin, tmp_path, "out", 2, format="jsonl")
    options: dict[str, Any] = {"format": "jsonl"}
    if change == "input":
        text.write_text(text.read_text().replace("Peter", "Paul", 1))
    elif change == "draft":
        output.with_name(".out.draft").write_bytes(b"")
    else:
        options |= {
            "options": {"decoding": "any"}, "--force": {"force": True}, "stdin": {"input": [Path("/dev/null")]},
            "format": {"format": "brat"},
        }[change]  # fmt: skip
    result, notices = finish(begin(output, **options))
    assert result["words_before"] == 0
    assert any("is not continued (" in line and told in line for line in notices), notices
    if change != "stdin":
        (tmp_path / "again").mkdir()
        finish(begin(tmp_path / "again" / "out", **options))
        assert content(output) == content(tmp_path / "again" / "out")
    assert [path.name for path in output.parent.iterdir()] == ["out"]


def test_an_input_that_is_read_in_another_format_begins_anew(begin: Any, tmp_path: Path, text: Path) -> None:
    text.write_text("".join(f"Anna{number}\nPeter\n\n" for number in range(LINES)))
    output = tmp_path / "out.jsonl"
    work = begin(output)
    run_until(work, 1)
    work.close()
    columns = text.rename(tmp_path / "in.conll")
    result, told = finish(begin(output, input=[columns]))
    assert any("is not continued (input 1: " in line and "as text" in line and "as conll" in line for line in told)
    assert (result["documents"], result["words_before"]) == (LINES, 0)


def test_what_does_not_change_the_bytes_does_not_begin_anew(begin: Any, tmp_path: Path, text: Path) -> None:
    text.rename(tmp_path / "in.jsonl")
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "Anna met Peter"}\n' * 2 * CHUNK + "broken\n" + '{"text": "London"}\n')
    output = tmp_path / "out.jsonl"
    with pytest.raises(CrossNERError, match=r"in\.jsonl:41"):
        finish(begin(output, input=[source]))
    result, told = finish(begin(output, input=[source], skip_bad_lines=True, batch_subwords=512))
    assert f"{output}: continued behind the 40 documents tagged before." in told
    assert result["documents"] == 41 and result["repairs"] == {"bad line skipped": 1}
    assert json.loads(output.read_text().splitlines()[-1])["text"] == "London"


def test_with_force_an_interrupted_replacement_is_continued(begin: Any, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("old")
    work = begin(output, force=True)
    run_until(work, 2)
    work.close()
    assert output.read_text() == "old"
    result, _ = finish(begin(output, force=True))
    assert result["words_before"] and len(output.read_text().splitlines()) == LINES


def test_an_interruption_while_the_end_is_written_leaves_one_end(
    begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").mkdir()
    finish(begin(tmp_path / "whole" / "out.html"))

    output = tmp_path / "out.html"
    work, flush, asked = begin(output), resumable_output._flush, []
    run_until(work, -(-LINES // CHUNK))

    def interrupted_at_first(path: Path) -> None:
        asked.append(path)
        if len(asked) == 1:
            raise KeyboardInterrupt
        flush(path)

    monkeypatch.setattr(resumable_output, "_flush", interrupted_at_first)
    with pytest.raises(KeyboardInterrupt):
        next(work)
    assert not output.exists()
    _, told = finish(begin(output))
    assert any("continued behind the 70 documents" in text for text in told)
    assert content(output) == content(tmp_path / "whole" / "out.html")


def test_what_a_kill_left_of_a_folder_that_was_replaced_is_removed(begin: Any, tmp_path: Path) -> None:
    output, left = tmp_path / "out", tmp_path / ".out.replaced"
    for _ in range(2):
        left.mkdir()
        (left / "000000001.txt").write_text("old")
        finish(begin(output, format="brat", force=True))
        assert (output / "000000001.txt").read_text().startswith("Anna 0") and not left.exists()


@pytest.mark.parametrize("kind", ["jsonl", "brat"])
def test_two_commands_do_not_write_one_output(begin: Any, tmp_path: Path, kind: str) -> None:
    first = begin(tmp_path / "out", format=kind)
    run_until(first, 1)
    with pytest.raises(CrossNERError, match="Another process is writing"):
        finish(begin(tmp_path / "out", format=kind))
    result, _ = finish(first)
    assert result["documents"] == LINES


def test_a_folder_is_only_replaced_if_it_holds_tagged_documents(begin: Any, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    finish(begin(output, format="brat"))
    assert len(list(output.glob("*.ann"))) == len(list(output.glob("*.txt"))) == LINES
    assert (output / "annotation.conf").read_text().startswith("[entities]\nperson\nplace\n")
    with pytest.raises(CrossNERError, match="out exists"):
        finish(begin(output, format="brat"))
    finish(begin(output, format="brat", force=True))
    (output / "thesis.txt").write_text("mine")
    with pytest.raises(CrossNERError, match="holds other files"):
        finish(begin(output, format="brat", force=True))
    assert (output / "thesis.txt").read_text() == "mine"
    (output / "thesis.txt").unlink()
    (output / "2023").mkdir()
    (output / "2023" / "thesis.doc").write_text("mine")
    with pytest.raises(CrossNERError, match="holds other files"):
        finish(begin(output, format="brat", force=True))
    assert (output / "2023" / "thesis.doc").read_text() == "mine"
    for name in ("123456789.jpg", "2024010112.csv", "123456789.txt", "123456789.ann"):
        photos = tmp_path / f"photos-{name}"
        photos.mkdir()
        (photos / name).write_text("mine")
        with pytest.raises(CrossNERError, match="holds other files"):
            finish(begin(photos, format="brat", force=True))
        assert (photos / name).read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(CrossNERError, match="is a file"):
        finish(begin(tmp_path / "file", format="brat"))
    with pytest.raises(CrossNERError, match="is a folder"):
        finish(begin(output, format="jsonl"))


@pytest.mark.parametrize("name", ["1.txt", "000000001.txt"])
def test_a_folder_of_what_is_to_be_tagged_is_never_replaced(begin: Any, tmp_path: Path, name: str) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / name).write_text("Anna met Peter.\n")
    with pytest.raises(CrossNERError, match="holds files to tag"):
        finish(begin(texts, format="brat", force=True, input=[texts / name]))
    assert (texts / name).read_text() == "Anna met Peter.\n"


def test_a_device_takes_what_can_be_written_as_it_goes(begin: Any) -> None:
    result, _ = finish(begin(Path("/dev/null"), format="html", force=True))
    assert result["documents"] == LINES
    with pytest.raises(CrossNERError, match="--format brat cannot be written to /dev/null"):
        finish(begin(Path("/dev/null"), format="brat"))


@pytest.mark.parametrize("has_target", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_written(begin: Any, tmp_path: Path, has_target: bool) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real", tmp_path / "out.conll"
    link.symlink_to("there/real")
    if has_target:
        target.write_text("old")
        with pytest.raises(CrossNERError, match="real exists"):
            finish(begin(link))
    result, _ = finish(begin(link, force=has_target))
    assert link.is_symlink() and result["format"] == "conll"
    assert len(target.read_text().splitlines()) == result["words"] + LINES
    assert [path.name for path in target.parent.iterdir()] == ["real"]


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_other_names_of_stdout_are_stdout_and_open_streams_are_written_as_they_are(
    engine: Engine, tagger: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = Predict(model=str(tagger), input=[text], output=Path(name))
    assert has_data_on_stdout(given)
    stdout = io.BytesIO()
    result, _ = finish(predict(RunDirectory(tmp_path), given, engine, stdout=stdout))
    assert result["output"] is None and stdout.getvalue().count(b"\n") == LINES
    assert not (tmp_path / "-").exists()
    with (tmp_path / "open").open("wb") as stream:
        place = Path(f"/dev/fd/{stream.fileno()}")
        finish(predict(RunDirectory(tmp_path), dataclasses.replace(given, output=place), engine))
        assert (tmp_path / "open").read_bytes() == stdout.getvalue()
        with pytest.raises(CrossNERError, match="--format brat cannot be written to stdout"):
            finish(predict(RunDirectory(tmp_path), dataclasses.replace(given, format="brat"), engine))


def test_spacy_files_of_a_folder_hold_a_chunk_each(begin: Any, tmp_path: Path) -> None:
    tokens, vocab = pytest.importorskip("spacy.tokens"), pytest.importorskip("spacy.vocab")
    finish(begin(tmp_path / "out", format="spacy"))
    finish(begin(tmp_path / "out.spacy"))
    files = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in files] == [f"{first:09}.spacy" for first in (1, 21, 41, 61)]
    texts = [doc.text for path in files for doc in tokens.DocBin().from_disk(path).get_docs(vocab.Vocab())]
    whole = tokens.DocBin().from_disk(tmp_path / "out.spacy").get_docs(vocab.Vocab())
    assert texts == [doc.text for doc in whole] and len(texts) == LINES


def test_columns_of_parquet_go_through_and_other_keys_become_json(begin: Any, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"id": list(range(LINES)), "text": [f"Anna {n}" for n in range(LINES)], "tags": [1] * LINES})
    parquet.write_table(table, tmp_path / "in.parquet")
    finish(begin(tmp_path / "out.parquet", input=[tmp_path / "in.parquet"]))
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column_names == ["id", "text", "words", "tags", "entities", "sentences", "calibrated"]
    assert found.column("id").to_pylist() == list(range(LINES))
    assert found.column("tags").to_pylist()[0] != 1
    (tmp_path / "in.jsonl").write_text('{"text": "a", "id": 7, "tags": 1}\n{"text": "b"}\n')
    finish(begin(tmp_path / "other.parquet", input=[tmp_path / "in.jsonl", tmp_path / "in.parquet"]))
    given = parquet.read_table(tmp_path / "other.parquet").column("given").to_pylist()
    assert given[:3] == ['{"id": 7}', None, '{"id": 0}']
    parquet.write_table(pyarrow.table({"text": ["x"]}), tmp_path / "two.parquet")
    with pytest.raises(CrossNERError, match="has other columns"):
        finish(begin(tmp_path / "three.parquet", input=[tmp_path / "in.parquet", tmp_path / "two.parquet"]))


KILLED = """
import sys
from pathlib import Path
from crossner_cli.prediction import chunks as prediction
from crossner_cli.prediction import resumable as resumable_output
from crossner_cli.engine.devices import start_engine
from crossner_cli.options import Predict
from crossner_cli.run.progress import Progress
from crossner_cli.run.directory import RunDirectory
from crossner_cli.stages.predict import run

prediction.CHUNK_SENTENCES, resumable_output.SECONDS_BETWEEN_RECORDS = 20, 0.0
options = Predict(model=sys.argv[1], input=[Path(sys.argv[2])], output=Path(sys.argv[3]), device="cpu",
                  precision="fp32", threads=1)
for event in run(RunDirectory(Path("no-run")), options, start_engine(options)):
    if isinstance(event, Progress):
        print(int(event.values["sentences"]), flush=True)
        sys.stdin.readline()
"""


def test_a_command_that_is_killed_is_continued_to_the_same_bytes(
    begin: Any, tagger: Path, text: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    command = [sys.executable, "-c", KILLED, str(tagger), str(text), str(output)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "20\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "40\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not output.exists()
    result, told = finish(begin(output, precision="fp32"))
    assert f"{output}: continued behind the 40 documents tagged before." in told
    assert result["documents"] == LINES
    finish(begin(tmp_path / "whole.jsonl", precision="fp32"))
    assert content(output) == content(tmp_path / "whole.jsonl")


def test_several_processes_write_the_bytes_of_one(begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked = multiprocessing.get_context("fork")  # torch is imported once, not three times
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: forked)
    one, _ = finish(begin(tmp_path / "one.jsonl", threads=1))
    work = begin(tmp_path / "two.jsonl", threads=1, workers=2)
    run_until(work, 1)
    work.close()
    two, told = finish(begin(tmp_path / "two.jsonl", threads=1, workers=2))
    assert f"{tmp_path / 'two.jsonl'}: continued behind the 20 documents tagged before." in told
    assert content(tmp_path / "one.jsonl") == content(tmp_path / "two.jsonl")
    assert {name: one[name] for name in ("documents", "words", "entities")} == {
        name: two[name] for name in ("documents", "words", "entities")
    }
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n' * CHUNK + "broken\n")
    with pytest.raises(CrossNERError, match=r"bad\.jsonl:21"):
        finish(begin(tmp_path / "out", input=[tmp_path / "bad.jsonl"], workers=2))
    assert json.loads((tmp_path / ".out.progress.json").read_text())["documents"] == CHUNK
