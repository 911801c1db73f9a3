"""Problems: what a user can cause ends in a message, a way out and an exit status; a defect keeps its traceback."""

import errno
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from builders.commands import Sample, parse, run_process
from safetensors import SafetensorError

from crossner_cli.errors import CrossNERError, known_problems, suggest
from crossner_cli.options import Predict


def raising(error: BaseException) -> Callable[[Sample], None]:
    def body(options: Sample) -> None:
        raise error

    return body


def test_a_known_problem_is_reported_on_stderr_with_its_way_out_and_status_1() -> None:
    result, _ = parse(body=raising(CrossNERError("No such \x1b[2Jthing.", hint="Take another.")))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Problem: No such \ufffd[2Jthing.\nWay out: Take another.\n", "nothing steers the terminal"
    result, _ = parse("--json", body=raising(CrossNERError("Näh [red].", hint="Take another.")))
    assert json.loads(result.stdout) == {"error": "Näh [red].", "hint": "Take another."}
    assert result.stdout.count("\n") == 1
    result, _ = parse("--verbose", body=raising(CrossNERError("No such thing.")))
    assert result.exit_code == 1 and "Traceback" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said", "way_out"),
    [
        (["finetune", "--json", "--epochs", "x"], "Invalid value for '--epochs'", "crossner finetune --help"),
        (["report", "--nope", "--json"], "No such option: --nope", "crossner report --help"),
        (["predict", "--json", "--nope", "--output", "x.jsonl"], "No such option: --nope", "crossner predict --help"),
        (["nope", "--json"], "No such command 'nope'", "crossner --help"),
        (["--run", "x", "--json"], "No such option: --run", "crossner --help"),
    ],
)
def test_a_wrong_usage_is_reported_as_any_problem_is(arguments: list[str], said: str, way_out: str) -> None:
    result = run_process(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(f"Problem: {said}") and result.stderr.endswith(f"Way out: {way_out}\n")
    told = json.loads(result.stdout)
    assert said in told["error"] and told["hint"] == way_out


def test_a_misspelt_name_is_answered_with_the_one_that_resembles_it() -> None:
    assert "Did you mean 'finetune'" in run_process("finetun").stderr
    assert suggest("lanner", ["linear", "laner"]) == "Did you mean 'laner'? "
    assert suggest("xyz", ["linear", "laner"]) == ""


@pytest.mark.parametrize(
    ("number", "way_out"),
    [(errno.ENOSPC, "space"), (errno.EACCES, "yours"), (errno.EROFS, "written"), (errno.ENOTDIR, "Check the path")],
)
def test_what_the_system_refuses_names_the_file_the_reason_and_a_way_out(number: int, way_out: str) -> None:
    result, _ = parse(body=raising(OSError(number, os.strerror(number), "some/file")))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Problem: some/file: {os.strerror(number)}.\nWay out: ")
    assert way_out in result.stderr


def test_weights_that_a_full_disk_does_not_take_are_a_known_problem() -> None:
    full = SafetensorError("I/O error: No space left on device (os error 28)")
    result, _ = parse(body=raising(full))
    assert result.exit_code == 1
    assert result.stderr.startswith("Problem: Weights cannot be written: I/O error: No space left")
    assert "space" in result.stderr.partition("Way out: ")[2]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nlong story"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
        MemoryError(),
    ],
)
def test_full_memory_is_a_known_problem_with_the_options_that_help(error: Exception) -> None:
    result, _ = parse(body=raising(error))
    assert result.exit_code == 1 and "--accumulate" in result.stderr and "long story" not in result.stderr


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), KeyError("x"), OSError("no number")])
def test_a_defect_keeps_its_traceback(error: Exception) -> None:
    result, _ = parse(body=raising(error))
    assert result.exception is error


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        (Sample(), "The same command continues: crossner"),
        (Predict(), "Nothing is left of it to continue."),
    ],
)
def test_an_interruption_ends_with_130_and_says_how_to_continue(
    options: Any, way_out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="130"), known_problems(options):
        raise KeyboardInterrupt
    assert way_out in (told := capsys.readouterr().err) and "Problem" not in told


def test_problems_that_processes_share_are_reported_once_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossner_cli.errors.SECONDS_FOR_OTHERS", 0.0)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    result, _ = parse("--json", body=raising(CrossNERError("shared")))
    assert (result.exit_code, result.output) == (1, "")
    result, _ = parse("--json", body=raising(MemoryError()))
    assert "memory" in result.stderr and result.stdout == ""
