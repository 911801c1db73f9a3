"""The command line: help, exit statuses, and what goes to which stream."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from builders.commands import invoke, refused
from builders.commands import run_process as crossner
from typer.testing import CliRunner

from crossner_cli import options
from crossner_cli.__main__ import main
from crossner_cli.cli import app
from crossner_cli.option_fields import fields_in_order, flag_of
from crossner_cli.options_adapt import Adapt
from crossner_cli.options_data import PrepareData
from crossner_cli.options_label import Label
from crossner_cli.options_trust import CheckLabels, CrossValidate

COMMANDS = {
    "adapt": Adapt,
    "prepare-data": PrepareData,
    "dapt": options.Dapt,
    "pretrain-source": options.PretrainSource,
    "finetune": options.Finetune,
    "joint-train": options.JointTrain,
    "cross-validate": CrossValidate,
    "check-labels": CheckLabels,
    "evaluate": options.Evaluate,
    "predict": options.Predict,
    "label": Label,
    "inspect": options.Inspect,
    "export": options.Export,
    "report": options.Report,
    "status": options.Status,
    "rerun": options.Rerun,
}
PREPARE = ["prepare-data", "--source", "sample-source", "--target", "sample-target"]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_shows_every_option_whole_at_80_columns(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(result.output.split())
    for field in dataclasses.fields(COMMANDS[name]):
        assert " ".join(field.metadata["typer"]["help"].split()[:4]) in words or field.name == "name"
        if not field.metadata["argument"] and field in fields_in_order(COMMANDS[name]):
            assert sum(line.startswith(f"  {flag_of(field)}") for line in lines) >= 1, field.name
    groups = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert groups[-1] == "Every command:" and ("Options:" in groups[:2] or name in ("status", "rerun"))


def test_help_answers_at_once() -> None:
    def seconds() -> float:
        before = os.times()
        assert crossner("finetune", "--help").returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # Processor time, and the best of several: other work on the machine says nothing about this program.
    assert min(seconds() for _ in range(4)) < 0.6


def test_before_pytorch_is_loaded_a_line_says_so_and_what_needs_none_is_answered(tmp_path: Path) -> None:
    run = ["--run", str(tmp_path)]
    for command in (["finetune", *run], ["predict", str(tmp_path / "nothing.txt"), *run]):
        result = crossner(*command)
        assert result.returncode == 1 and "loading PyTorch" not in result.stderr
    assert CliRunner().invoke(app, [*PREPARE, *run]).exit_code == 0
    result = crossner("finetune", *run, "--method", "lanner")
    assert result.returncode == 1 and "loading PyTorch" not in result.stderr
    assert "Did you mean 'laner'?" in result.stderr
    frozen = ("finetune", *run, "--method", "bilstm-crf", "--set", "words=frozen")
    result = crossner(*frozen)
    assert result.returncode == 1 and result.stderr.startswith(
        "loading PyTorch and transformers\nProblem: words=frozen"
    )
    assert crossner(*frozen, "--quiet").stderr.startswith("Problem: ")


def test_an_option_without_effect_is_refused(tmp_path: Path) -> None:
    result = crossner(*PREPARE, "--run", str(tmp_path / "run"), "--min-entities", "3")
    assert result.returncode == 1
    assert "--min-entities 3 has no effect without --entities." in result.stderr


def test_there_are_exactly_the_known_commands_and_the_list_of_methods() -> None:
    assert [command.name for command in app.registered_commands] == [*COMMANDS, "methods"]


def test_methods_named_are_explained_with_every_setting_its_values_and_what_it_means() -> None:
    record = json.loads(CliRunner().invoke(app, ["methods", "cross-domain-lm", "robust-tagger", "--json"]).stdout)
    assert [method["name"] for method in record["methods"]] == ["cross-domain-lm", "robust-tagger"]
    generated, robust = record["methods"]
    assert generated["values"]["generator"] == "full | domain | task | none"
    assert generated["values"]["crf"] == "auto | shared | domain", "of a dataclass that it extends"
    assert robust["meaning"]["lstm_layers"] == "Layers of the first BiLSTM.", "declared anew"
    shown = CliRunner().invoke(app, ["methods", "laner"], env={"COLUMNS": "200"}).stdout
    assert (
        "Hu et al. (2022)" in shown
        and "Differs: " in shown
        and "label_size" in shown
        and "linear" not in shown.split()[0]
    )


def test_a_method_that_is_not_there_is_told_without_a_traceback() -> None:
    result = CliRunner().invoke(app, ["methods", "lanner"])
    assert result.exit_code == 1 and "There is no method 'lanner'." in result.stderr and "laner" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from crossner_cli.cli import app; app(sys.argv[1:], standalone_mode=False);"
        "heavy = {'torch', 'transformers', 'pandas', 'numpy', 'seqeval', 'accelerate', 'tokenizers', 'click'};"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("HEAVY []\n")


def test_progress_goes_to_stderr_and_results_to_stdout_as_tables_or_one_object(tmp_path: Path) -> None:
    given = [*PREPARE, "--run", str(tmp_path / "run")]
    shown = crossner(*given)
    assert shown.returncode == 0 and "sample-target" in shown.stdout and "sentences" in shown.stdout
    assert "read the source sample-source" in shown.stderr
    assert "\x1b" not in shown.stdout + shown.stderr
    again = crossner(*given)
    assert (again.returncode, again.stdout) == (0, shown.stdout) and "same options and inputs" in again.stderr
    result = crossner(*given, "--json", "--force")
    assert json.loads(result.stdout)["stage"] == "prepare-data" and result.stdout.count("\n") == 1
    assert "read the source" in result.stderr
    silent = crossner(*given, "--quiet")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    silent = crossner(*given, "--quiet", "--json")
    assert json.loads(silent.stdout)["stage"] == "prepare-data" and silent.stderr == ""


@pytest.mark.parametrize("place", ["file", "file/run"])
def test_a_run_directory_that_cannot_be_made_is_a_known_problem(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    result = crossner(*PREPARE, "--run", str(tmp_path / place))
    assert result.returncode == 1
    assert str(tmp_path / place) in result.stderr and "Traceback" not in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_stdout_that_is_full_is_a_known_problem_and_one_without_a_reader_no_noise(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crossner_cli", *PREPARE, "--run", str(tmp_path / "run"), "--json"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr and "Traceback" not in result.stderr
    reading, writing = os.pipe()
    os.close(reading)
    command.append("--quiet")
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_scheduler_end_a_command_with_130_and_tell_how_it_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    code = (
        "import signal, time, crossner_cli.stages.prepare_data as stage\n"
        # A shell that starts the tests in the background has Ctrl-C ignored, here as in all that it starts.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from crossner_cli.run.progress import Progress\n"
        "def run(run, options):\n"
        "    try:\n"
        "        yield Progress('wait', 0, 1)\n"
        "        time.sleep(60)\n"
        "    finally:\n"
        "        print('let go', flush=True)\n"
        "stage.run = run\n"
        "from crossner_cli.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, *PREPARE, "--run", str(tmp_path / "a run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "wait  0/1 steps\n"
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == "let go\n"
    assert stderr.startswith("Interrupted.\nThe same command continues: crossner prepare-data")
    assert f"--run '{tmp_path / 'a run'}'" in stderr


def test_the_known_data_sets_are_listed_for_people_and_for_programs() -> None:
    known = json.loads(crossner("prepare-data", "--list", "--json").stdout)
    shown = crossner("prepare-data", "--list")
    assert shown.returncode == 0
    assert {"conll2003", "politics", "mit-movie"} <= set(known["known"])
    for name, domain in known["known"].items():
        assert name in shown.stdout and domain["source"] in shown.stdout
        assert all(f"{file['sentences']:,}" in shown.stdout for file in domain["files"].values())
    assert known["bundled"] == ["sample-source", "sample-target"] == list(known["known"])[-2:]


@pytest.mark.parametrize("name", ["dapt", "pretrain-source", "finetune", "joint-train"])
def test_training_without_prepared_data_names_the_command_that_makes_it(name: str, tmp_path: Path) -> None:
    assert "crossner prepare-data" in refused(name, "--run", tmp_path, "--device cpu")


@pytest.mark.parametrize("options", ["--device abacus", "--device cuda:77", "--gpus one,two"])
def test_devices_that_do_not_exist_are_known_problems(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossner_cli.stages.checks.check_early", lambda *_: None)
    flag, value = options.split()
    assert f"{flag} {value}" in refused("evaluate", options, "--run", tmp_path).replace("'", "")


def test_processes_made_for_several_gpus_give_their_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossner_cli.stages.checks.check_early", lambda *_: None)
    monkeypatch.setattr("crossner_cli.engine.processes.launch_processes", lambda gpus, argv: 77)
    assert CliRunner().invoke(app, ["evaluate", "--gpus", "0,1"]).exit_code == 77


def test_a_terminal_that_knows_only_ascii_shows_a_question_mark_instead_of_ending_the_command() -> None:
    code = "import crossner_cli.cli as cli; cli.app = lambda **names: print('68.4 \\u00b1 0.8'); cli.main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "68.4 ? 0.8\n"), done.stderr


def test_an_interruption_while_a_command_is_loaded_ends_it_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crossner_cli.cli.main", interrupt)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_a_message_holds_no_more_than_500_characters_of_a_value(tmp_path: Path) -> None:
    for value in ("x" * 100_000, "x y" * 40_000):
        done = invoke("evaluate", "--run", tmp_path, "--model", value)
        assert done.exit_code == 1 and len(done.stderr) < 1500
