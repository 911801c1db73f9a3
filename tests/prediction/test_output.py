"""An output is complete or absent, and a killed command continues to the same bytes."""

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

from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Predict
from crossner_cli.prediction import inputs
from crossner_cli.prediction import output as module
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Progress
from crossner_cli.stages.predict import run as predict

LINES = 70  # three chunks and a half
OUTPUTS = {
    "jsonl": "out.jsonl",
    "conll": "out.conll",
    "html": "out.html",
    "brat": "out",
    "spacy": "out.spacy",
    "parquet": "out.parquet",
    "label-studio": "out.json",
}


@pytest.fixture(autouse=True)
def _records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the progress after each chunk."""
    monkeypatch.setattr(module, "SECONDS_BETWEEN_RECORDS", 0.0)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"Anna {number} met Peter in London\n" for number in range(LINES)))
    return path


@pytest.fixture
def begin(engine: Engine, folder: Path, text: Path) -> Callable[..., Any]:
    """Begin the command; nothing is done before its events are asked for."""

    def start(output: Path, **options: Any) -> Any:
        given = Predict(**{"model": [str(folder)], "input": [text], "output": output, **options})
        return predict(RunDirectory(output.parent / "no-run"), given, engine)

    return start


@pytest.fixture
def whole(begin: Any, tmp_path: Path) -> Callable[..., Any]:
    """The bytes of a command that nothing interrupts, and its result."""

    def write(name: str = "out.jsonl", **options: Any) -> tuple[Any, dict[str, Any]]:
        (tmp_path / "whole").mkdir()
        result, _ = finish(begin(tmp_path / "whole" / name, **options))
        return content(tmp_path / "whole" / name), result

    return write


def finish(work: Any) -> tuple[dict[str, Any], list[str]]:
    """Run to the end; return the result and the notices."""
    told = []
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            return end.value["result"], told
        if isinstance(event, Notice):
            told.append(event.text)


def interrupt(work: Any, chunks: int) -> None:
    """Run until so many chunks are written, and stop as at Ctrl-C."""
    run_until(work, chunks)
    work.close()


def run_until(work: Any, chunks: int) -> None:
    """Run until so many chunks are written."""
    while chunks:
        chunks -= isinstance(next(work), Progress)


def content(path: Path) -> Any:
    """The bytes of a file, or of every file of a folder."""
    return {each.name: each.read_bytes() for each in path.iterdir()} if path.is_dir() else path.read_bytes()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def as_a_kill_leaves_it(begin: Any, folder: Path, name: str, chunks: int, **options: Any) -> Path:
    """Copy the folder of an output while the command is there and so many chunks are written."""
    (folder / "living").mkdir()
    work = begin(folder / "living" / name, **options)
    run_until(work, chunks)
    shutil.copytree(folder / "living", folder / "killed")
    work.close()
    return folder / "killed" / name


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_killed_command_continues_to_the_same_bytes(begin: Any, whole: Any, tmp_path: Path, kind: str) -> None:
    if kind in ("spacy", "parquet"):
        pytest.importorskip({"spacy": "spacy", "parquet": "pyarrow"}[kind])
    expected, counts = whole(OUTPUTS[kind], format=kind)
    output = as_a_kill_leaves_it(begin, tmp_path, OUTPUTS[kind], 2, format=kind)
    draft = output.with_name(f".{output.name}.draft")
    if draft.is_dir():  # what was being written when the kill came
        (draft / "000000041.txt").write_bytes(b"half")
        (draft / "whole").write_bytes(b"half")
    else:
        draft.write_bytes(draft.read_bytes() + b"half a line")
    result, told = finish(begin(output, format=kind))
    assert f"{output}: continued after the 40 documents tagged before." in told
    assert content(output) == expected and names_in(output.parent) == [output.name]
    for name in ("documents", "sentences", "words", "entities", "repaired", "unreadable_words", "format"):
        assert result[name] == counts[name], name
    assert (counts["words_before"], result["words_before"]) == (0, counts["words"] * 40 // LINES)


def test_a_killed_command_that_sorts_continues_to_the_same_bytes(begin: Any, whole: Any, tmp_path: Path) -> None:
    expected, _ = whole(order="uncertain")
    texts = [json.loads(line)["text"] for line in expected.splitlines()]
    assert len(texts) == LINES and texts != sorted(texts, key=lambda text: int(text.split()[1]))
    output = as_a_kill_leaves_it(begin, tmp_path, "out.jsonl", 2, order="uncertain")
    output.with_name(".out.jsonl.whole").write_bytes(b"half")
    _, told = finish(begin(output, order="uncertain"))
    assert f"{output}: continued after the 40 documents tagged before." in told
    assert content(output) == expected and names_in(output.parent) == [output.name]


@pytest.mark.parametrize("was_recorded", [False, True])
def test_a_kill_before_the_first_record_and_one_at_the_end_change_nothing(
    begin: Any, whole: Any, tmp_path: Path, was_recorded: bool
) -> None:
    expected, counts = whole()
    output = as_a_kill_leaves_it(begin, tmp_path, "out.jsonl", 4)
    if not was_recorded:
        output.with_name(".out.jsonl.progress.json").unlink()
    result, told = finish(begin(output))
    assert result["words_before"] == (counts["words"] if was_recorded else 0)
    assert any("continued" in text for text in told) is was_recorded and content(output) == expected


def test_a_command_can_be_interrupted_again_and_again(begin: Any, whole: Any, tmp_path: Path) -> None:
    expected, _ = whole()
    output = tmp_path / "out.jsonl"
    for _ in range(3):
        interrupt(begin(output), 1)
        assert names_in(tmp_path) == [".out.jsonl.draft", ".out.jsonl.progress.json", "in.txt", "whole"]
    result, _ = finish(begin(output))
    assert result["words_before"] == result["words"] * 60 // LINES and content(output) == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "input 1: "),
        ({}, "the draft has changed"),
        ({"decoding": "any"}, "decoding: trained -> any"),
        ({"format": "brat"}, "format: "),
        ({"input": [Path("/dev/null")]}, "stdin cannot be read again"),
    ],
)
def test_another_command_starts_again_and_says_why(
    begin: Any, whole: Any, tmp_path: Path, text: Path, options: dict[str, Any], told: str
) -> None:
    output = as_a_kill_leaves_it(begin, tmp_path, "out", 2, format="jsonl")
    options = {"format": "jsonl", **options}
    if told.startswith("input"):
        text.write_text(text.read_text().replace("Peter", "Paul", 1))
    if told.startswith("the draft"):
        output.with_name(".out.draft").write_bytes(b"")
    result, notices = finish(begin(output, **options))
    assert result["words_before"] == 0
    assert any("is dropped (" in line and told in line for line in notices), notices
    assert content(output) == whole("out", **options)[0] and names_in(output.parent) == ["out"]


def test_what_does_not_change_the_bytes_does_not_start_again(begin: Any, tmp_path: Path, text: Path) -> None:
    source = text.rename(tmp_path / "in.jsonl")
    chunks = '{"text": "Anna met Peter"}\n' * 2 * inputs.CHUNK_SENTENCES
    source.write_text(chunks + "broken\n" + '{"text": "London"}\n')
    output = tmp_path / "out.jsonl"
    with pytest.raises(CrossNERError, match=r"in\.jsonl:41"):
        finish(begin(output, input=[source]))
    result, told = finish(begin(output, input=[source], skip_bad_lines=True, batch_subwords=512))
    assert f"{output}: continued after the 40 documents tagged before." in told
    assert result["documents"] == 41 and result["repairs"] == {"bad line skipped": 1}
    assert json.loads(output.read_text().splitlines()[-1])["text"] == "London"


def test_a_brat_project_of_somebody_is_never_replaced(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("annotation.conf", "doc1.txt", "doc1.ann"):
        (project / name).touch()
    with pytest.raises(CrossNERError, match="holds files that are not tagged documents"):
        module.check_output(project, is_folder=True, is_forced=True, inputs=[])
    assert names_in(project) == ["annotation.conf", "doc1.ann", "doc1.txt"]


def test_with_force_an_interrupted_replacement_is_continued(begin: Any, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("old")
    with pytest.raises(CrossNERError, match=r"out\.jsonl exists"):
        finish(begin(output))
    interrupt(begin(output, force=True), 2)
    assert output.read_text() == "old"
    result, _ = finish(begin(output, force=True))
    assert result["words_before"] and len(output.read_text().splitlines()) == LINES


@pytest.mark.parametrize("order", ["input", "uncertain"])
def test_an_interruption_while_the_end_is_written_leaves_one_end(
    begin: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    expected, _ = whole("out.html", order=order)
    output = tmp_path / "out.html"
    work = begin(output, order=order)
    run_until(work, 4)

    def be_interrupted(path: Path) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_flush", be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(work)
    assert names_in(tmp_path) == [".out.html.draft", ".out.html.progress.json", "in.txt", "whole"]
    _, told = finish(begin(output, order=order))
    assert any("continued after the 70 documents" in text for text in told) and content(output) == expected


def test_what_a_kill_left_of_a_replaced_folder_is_removed(begin: Any, tmp_path: Path) -> None:
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


def test_a_folder_is_replaced_only_if_it_holds_tagged_documents(begin: Any, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    finish(begin(output, format="brat"))
    assert len(list(output.glob("*.ann"))) == len(list(output.glob("*.txt"))) == LINES
    assert (output / "annotation.conf").read_text().startswith("[entities]\nperson\nplace-name\n")
    with pytest.raises(CrossNERError, match="out exists"):
        finish(begin(output, format="brat"))
    finish(begin(output, format="brat", force=True))
    (output / "annotation.conf").unlink()
    with pytest.raises(CrossNERError, match="was not made by this command"):
        finish(begin(output, format="brat", force=True))
    assert len(list(output.iterdir())) == 2 * LINES


def test_an_output_of_the_wrong_kind_or_without_a_folder_is_refused(begin: Any, tmp_path: Path, text: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place, output_format, message in (
        (tmp_path / "folder", "jsonl", "is a folder, and a file"),
        (text, "jsonl", "is or holds a file to tag"),
        (text.parent, "brat", "is or holds a file to tag"),
        (tmp_path / "there" / "out.jsonl", "jsonl", "There is no folder"),
    ):
        with pytest.raises(CrossNERError, match=message):
            finish(begin(place, format=output_format, force=True))
    assert text.read_text().startswith("Anna 0 met")


@pytest.mark.parametrize("has_target", [True, False])
def test_a_link_stays_and_its_target_is_written(begin: Any, tmp_path: Path, has_target: bool) -> None:
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
    assert names_in(target.parent) == ["real"]


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_names_of_stdout_are_stdout_and_open_streams_are_written_directly(
    engine: Engine, folder: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = Predict(model=[str(folder)], input=[text], output=Path(name))
    assert given.has_data_on_stdout
    stdout = io.BytesIO()
    result, _ = finish(predict(RunDirectory(tmp_path), given, engine, stdout=stdout))
    assert result["output"] is None and stdout.getvalue().count(b"\n") == LINES
    assert not (tmp_path / "-").exists()
    with (tmp_path / "open").open("wb") as stream:
        place = Path(f"/dev/fd/{stream.fileno()}")
        finish(predict(RunDirectory(tmp_path), dataclasses.replace(given, output=place), engine))
        assert (tmp_path / "open").read_bytes() == stdout.getvalue()


KILLED = """
import os, signal, sys
from pathlib import Path
from crossner_cli.prediction import inputs, output
from crossner_cli.engine.devices import start_engine
from crossner_cli.options import Predict
from crossner_cli.run.progress import Progress
from crossner_cli.run.directory import RunDirectory
from crossner_cli.stages.predict import run

inputs.CHUNK_SENTENCES, output.SECONDS_BETWEEN_RECORDS = 20, 0.0
options = Predict(model=[sys.argv[1]], input=[Path(sys.argv[2])], output=Path(sys.argv[3]), device="cpu",
                  precision="fp32", threads=1)
for event in run(RunDirectory(Path("no-run")), options, start_engine(options)):
    if isinstance(event, Progress) and event.values["sentences"] == 40:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_is_continued_to_the_same_bytes(
    begin: Any, whole: Any, folder: Path, text: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(text), str(output)], check=False)
    assert done.returncode == -signal.SIGKILL and not output.exists()
    result, told = finish(begin(output, precision="fp32"))
    assert f"{output}: continued after the 40 documents tagged before." in told
    assert result["documents"] == LINES and content(output) == whole(precision="fp32")[0]


@pytest.mark.parametrize("order", ["input", "uncertain"])
def test_several_processes_write_the_bytes_of_one(
    begin: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    forked = multiprocessing.get_context("fork")  # torch is imported once, not three times
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: forked)
    expected, one = whole(threads=1, order=order)
    output = tmp_path / "two.jsonl"
    interrupt(begin(output, threads=1, workers=2, order=order), 1)
    two, told = finish(begin(output, threads=1, workers=2, order=order))
    assert f"{output}: continued after the 20 documents tagged before." in told
    assert content(output) == expected
    for name in ("documents", "words", "entities"):
        assert one[name] == two[name]
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n' * inputs.CHUNK_SENTENCES + "broken\n")
    with pytest.raises(CrossNERError, match=r"bad\.jsonl:21"):
        finish(begin(tmp_path / "out", input=[tmp_path / "bad.jsonl"], workers=2))
    assert json.loads((tmp_path / ".out.progress.json").read_text())["totals"]["documents"] == 20
