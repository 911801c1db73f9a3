"""The command line: flags out of options, published values, exit statuses, and what goes to which stream."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from safetensors import SafetensorError
from typer.testing import CliRunner

from crossner_cli import __version__, figures, options
from crossner_cli.cli import app, settings_of_the_paper, takes
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import method_names
from crossner_cli.option_fields import NOT_PUBLISHED, Command, option
from crossner_cli.options import Finetune, Predict, PretrainSource
from crossner_cli.prediction.place import output_place
from crossner_cli.problems import known_problems
from crossner_cli.reports.catalogue import list_settings
from crossner_cli.reports.method_facts import describe_methods

COMMANDS = {
    "prepare-data": options.PrepareData,
    "dapt": options.Dapt,
    "pretrain-source": options.PretrainSource,
    "finetune": options.Finetune,
    "joint-train": options.JointTrain,
    "evaluate": options.Evaluate,
    "predict": options.Predict,
    "inspect": options.Inspect,
    "export": options.Export,
    "report": options.Report,
}
PREPARE = ["prepare-data", "--source", "sample-source", "--target", "sample-target"]


@dataclass(frozen=True, kw_only=True)
class Sample(Command):
    """Every kind of field there is."""

    files: list[Path] = option([], "Files.", argument=True)
    word: str = option("one", "A word.", paper="published")
    number: int | None = option(None, "A number.", minimum=1, paper=7)
    share: float = option(0.5, "A share.", minimum=0.0, maximum=1.0)
    rate: float = option(1.0, "A rate.", minimum=0.0)
    choice: Literal["left", "right"] = option("left", "A side.")
    pairs: list[str] = option([], "Pairs.", "--set")
    plain: bool = option(False, "A plain switch.", "--plain")
    both: bool = option(False, "A switch with two forms.", paper=True)
    paper: bool = option(False, "Published values.", "--paper", counts=False)
    batch_size: int = option(16, "Sentences.")
    accumulate: int = option(1, "Parts.")


def parse(*arguments: str, body: Callable[[Sample], None] | None = None) -> tuple[Any, list[Sample]]:
    """Run a command that takes ``Sample``; return the result and the options its body was given."""
    given: list[Sample] = []
    sample_app = typer.Typer(pretty_exceptions_enable=False)
    sample_app.command()(takes(Sample)(body or given.append))
    return CliRunner().invoke(sample_app, list(arguments)), given


def options_of(*arguments: str) -> Sample:
    result, given = parse(*arguments)
    assert result.exit_code == 0, result.output
    return given[0]


def crossner(*arguments: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does, in a process of its own."""
    command = [sys.executable, "-m", "crossner_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **changes)


def test_without_flags_every_option_has_its_declared_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSNER_RUN", raising=False)
    assert options_of() == Sample()


def test_every_kind_of_field_is_read_from_its_flag() -> None:
    given = options_of(
        "a.txt", "-", "--word", "two", "--number", "3", "--share", "0.25", "--choice", "right",
        "--set", "a=1", "--set", "b=2", "--plain", "--both", "--run", "elsewhere", "--name", "mine", "--force",
    )  # fmt: skip
    assert given == Sample(
        files=[Path("a.txt"), Path("-")], word="two", number=3, share=0.25, choice="right", pairs=["a=1", "b=2"],
        plain=True, both=True, run=Path("elsewhere"), name="mine", force=True,
    )  # fmt: skip


def test_a_list_is_fresh_each_time() -> None:
    assert options_of("--set", "a=1").pairs == ["a=1"]
    assert options_of().pairs == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--number", "0"],
        ["--number", "many"],
        ["--share", "1.5"],
        ["--share", "-0.1"],
        ["--choice", "up"],
        ["--no-plain"],
        ["--unknown"],
    ],
)
def test_wrong_usage_ends_with_status_2(arguments: list[str]) -> None:
    result, given = parse(*arguments)
    assert (result.exit_code, given) == (2, [])


def test_a_switch_has_a_no_form_only_where_the_options_give_no_flag() -> None:
    assert not options_of("--both", "--no-both").both
    help_text = CliRunner().invoke(app, ["finetune", "--help"], env={"COLUMNS": "200"}).output
    assert "--no-train-embeddings" in help_text
    assert "--no-force" not in help_text and "--no-json" not in help_text


def test_the_run_directory_comes_from_the_environment_unless_a_flag_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSNER_RUN", "from-environment")
    assert options_of().run == Path("from-environment")
    assert options_of("--run", "from-flag").run == Path("from-flag")


def test_paper_takes_every_published_value() -> None:
    given = options_of("--paper")
    assert (given.word, given.number, given.both) == ("published", 7, True)
    assert (given.share, given.choice) == (0.5, "left")


def test_a_flag_wins_over_paper_even_where_it_repeats_the_default() -> None:
    given = options_of("--paper", "--word", "one", "--no-both")
    assert (given.word, given.number, given.both) == ("one", 7, False)


def test_paper_takes_the_published_settings_of_the_method_and_a_given_one_wins() -> None:
    for method, settings, expected in (
        ("linear", [], ["dropout=0", "legal=false"]),
        ("laner", ["dropout=0.3"], ["legal=false"]),
        ("coach", [], ["word_size=300", "input_dropout=0.5", "characters=none", "legal=false"]),
        ("robust-tagger", ["lower_case=false"], ["word_size=300", "characters=none", "legal=false"]),
        ("moee", [], ["word_size=300", "characters=none", "legal=false"]),
        ("multi-cell-lstm", ["digits=kept"], ["character_dropout=0.5", "legal=false"]),
        (
            "multi-cell-lstm",
            ["tasks=source-ner,target-lm", "entity_weight=1"],
            ["digits=zeros", "character_dropout=0.5", "legal=false", "attention_weight=0.5"],
        ),
        (
            "multi-cell-lstm",
            ["tasks=source-ner,target-lm", "digits=kept", "character_dropout=0", "legal=true"],
            ["entity_weight=0.1", "attention_weight=0.5"],
        ),
        ("cross-domain-lm", [], ["digits=zeros", "character_dropout=0.5", "legal=false", "lm_text=labelled"]),
        (
            "cross-domain-lm",
            ["tasks=source-ner,target-lm,source-lm"],
            ["digits=zeros", "character_dropout=0.5", "legal=false"],
        ),
        ("nomethod", [], []),
    ):
        assert settings_of_the_paper(Finetune(method=method, settings=settings)) == expected


@pytest.mark.parametrize("settings", [[], ["tasks=source-ner"], ["tasks=target-ner,source-ner"]])
def test_paper_weighs_types_as_without_target_labels_where_the_source_alone_is_trained_however_that_is_said(
    settings: list[str],
) -> None:
    found = settings_of_the_paper(PretrainSource(method="multi-cell-lstm", settings=settings))
    assert {"entity_weight=0.1", "attention_weight=0.5"} <= set(found)


@pytest.mark.parametrize(
    ("name", "method", "published", "own"),
    [
        ("joint-train", "bilstm-crf", {"head_learning_rate": 1e-3, "batch_size": 32, "upsample": 10, "patience": 8},
         ("encoder", "learning_rate", "train_embeddings")),
        ("joint-train", "coach", {"head_learning_rate": 1e-4, "batch_size": 32, "upsample": 10},
         ("encoder", "learning_rate", "train_embeddings")),
        ("pretrain-source", "concept-tagger", {"head_learning_rate": 1e-4, "patience": 5, "epochs": 300},
         ("encoder", "keep")),
        ("pretrain-source", "moee", {"head_learning_rate": 1e-3, "batch_size": 32}, ("epochs", "patience", "keep")),
        ("joint-train", "cross-domain-lm", {"batch_size": 30, "epochs": 100},
         ("head_learning_rate", "schedule", "raw_minimum")),
        ("joint-train", "multi-cell-lstm", {"batch_size": 10, "epochs": 100, "raw_minimum": 1, "upsample": 1,
                                            "weight_decay": 1e-8}, ("schedule",)),
        ("finetune", "bartner", {"encoder": "facebook/bart-base", "learning_rate": 1e-5, "weight_decay": 0.01,
                                 "epochs": 30, "warmup": 0.01, "schedule": "linear"}, ("clip_norm", "patience")),
        ("finetune", "laner", {"learning_rate": 5e-5, "patience": 16, "epochs": 100}, ("seeds",)),
        ("pretrain-source", "laner", {"learning_rate": 5e-5, "epochs": 2, "patience": 8}, ("seeds",)),
    ],
)  # fmt: skip
def test_paper_takes_what_the_paper_of_the_method_has_and_leaves_what_none_has(
    name: str, method: str, published: dict[str, Any], own: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def catch(options: Any) -> None:
        given.append(options)
        raise CrossNERError("far enough")

    monkeypatch.setattr("crossner_cli.cli.start", catch)
    assert CliRunner().invoke(app, [name, "--paper", "--method", method]).exit_code == 1
    assert {field: getattr(given[0], field) for field in published} == published
    defaults = {field.name: field.default for field in dataclasses.fields(COMMANDS[name])}
    assert {field: getattr(given[0], field) for field in own} == {field: defaults[field] for field in own}


@pytest.mark.parametrize("name", ["dapt", "pretrain-source", "finetune", "joint-train"])
def test_paper_reaches_the_stage_of_every_training_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def catch(options: Any) -> None:
        given.append(options)
        raise CrossNERError("far enough")

    monkeypatch.setattr("crossner_cli.cli.start", catch)
    assert CliRunner().invoke(app, [name, "--paper", "--batch-size", "5"]).exit_code == 1
    published = {
        field.name: field.metadata["paper"]
        for field in dataclasses.fields(COMMANDS[name])
        if field.metadata["paper"] is not NOT_PUBLISHED
    }
    assert published.pop("batch_size") != 5
    assert {field: getattr(given[0], field) for field in published} == published
    assert given[0].batch_size == 5


def test_there_are_exactly_the_known_commands_and_the_list_of_methods() -> None:
    assert [command.name for command in app.registered_commands] == [*COMMANDS, "methods"]


def test_the_list_of_methods_shows_paper_inputs_and_settings_of_each() -> None:
    result = CliRunner().invoke(app, ["methods", "--json"])
    assert result.exit_code == 0
    methods = {record["name"]: record for record in json.loads(result.stdout)["methods"]}
    assert sorted(methods) == method_names() and next(iter(methods)) == "linear"
    for record in methods.values():
        assert record["paper"] and record["differs"] and record["title"].endswith(".")
        assert list(record["meaning"]) == list(record["values"]) == list(record["settings"])
        assert all(record["meaning"].values()) and all(record["values"].values())
    assert methods["linear"]["reads"] == "subwords" and methods["bilstm-crf"]["reads"] == "words"
    shown = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"})
    assert all(name in shown.stdout for name in methods)


def test_settings_that_all_methods_of_words_share_stand_once_and_no_setting_is_lost() -> None:
    facts = describe_methods()
    rows = dict(list_settings(facts))
    shared = rows.pop("all that read words").split(", ")
    assert "words=trained" in shared and "input_dropout=0.3" not in shared, "multi-cell-lstm's is another"
    for one in facts:
        own = rows[one.name].split(", ")
        told = own + shared if one.reads == "words" else own
        assert sorted(told) == sorted(f"{name}={figures.setting(value)}" for name, value in one.settings.items())
    assert dict(list_settings([facts[0]])).keys() == {facts[0].name}


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


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_shows_every_option_and_its_sentence(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "250", "TERMINAL_WIDTH": "250"})
    assert result.exit_code == 0
    for field in dataclasses.fields(COMMANDS[name]):
        if not field.metadata["argument"]:
            flags = field.metadata["flags"] or (f"--{field.name.replace('_', '-')}",)
            assert all(flag in result.output for flag in flags)
        assert field.metadata["typer"]["help"].split(".")[0][:40] in result.output


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from crossner_cli.cli import app; app(sys.argv[1:], standalone_mode=False);"
        "heavy = {'torch', 'transformers', 'pandas', 'numpy', 'seqeval', 'accelerate', 'tokenizers', 'click'};"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("HEAVY []\n")


def test_importing_the_command_line_does_not_import_rich() -> None:
    code = "import sys, crossner_cli.cli; print('rich' in sys.modules, 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == (
        "False False\n"
    )


def test_help_answers_at_once() -> None:
    def seconds() -> float:
        before = os.times()
        assert crossner("finetune", "--help").returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # Processor time, and the best of several: other work on the machine says nothing about this program.
    assert min(seconds() for _ in range(4)) < 0.8


def test_version_is_printed() -> None:
    assert crossner("--version").stdout == f"crossner {__version__}\n"


def raising(error: BaseException) -> Callable[[Sample], None]:
    def body(options: Sample) -> None:
        raise error

    return body


def test_a_known_problem_is_told_on_stderr_with_its_way_out_and_status_1() -> None:
    result, _ = parse(body=raising(CrossNERError("No such thing.", hint="Take another.")))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "Problem: No such thing.\nWay out: Take another.\n"


def test_with_json_a_known_problem_is_one_object_on_stdout() -> None:
    result, _ = parse("--json", body=raising(CrossNERError("Näh [red].", hint="Take another.")))
    assert json.loads(result.stdout) == {"error": "Näh [red].", "hint": "Take another."}
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said", "way_out"),
    [
        (["finetune", "--json", "--epochs", "x"], "Invalid value for '--epochs'", "crossner finetune --help"),
        (["report", "--nope", "--json"], "No such option: --nope", "crossner report --help"),
        (["predict", "--json", "--nope", "--output", "x.jsonl"], "No such option: --nope", "crossner predict --help"),
        (["nope", "--json"], "No such command 'nope'", "crossner --help"),
    ],
)
def test_with_json_a_wrong_usage_is_one_object_on_stdout_too(arguments: list[str], said: str, way_out: str) -> None:
    result = crossner(*arguments)
    assert result.returncode == 2 and "Usage: crossner" in result.stderr
    told = json.loads(result.stdout)
    assert said in told["error"] and told["hint"] == way_out


def test_a_wrong_usage_says_nothing_where_tagged_text_would_go() -> None:
    assert crossner("finetune", "--nope").stdout == ""
    result = crossner("predict", "--json", "--nope")
    assert result.returncode == 2 and result.stdout == "" and json.loads(result.stderr.splitlines()[0])


def test_verbose_shows_where_a_known_problem_arose() -> None:
    result, _ = parse("--verbose", body=raising(CrossNERError("No such thing.")))
    assert result.exit_code == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    ("number", "way_out"),
    [(errno.ENOSPC, "space"), (errno.EDQUOT, "quota"), (errno.EACCES, "yours"), (errno.EROFS, "written"),
     (errno.ENOTDIR, "Check the path")],
)  # fmt: skip
def test_what_the_system_refuses_names_the_file_the_reason_and_a_way_out(number: int, way_out: str) -> None:
    result, _ = parse(body=raising(OSError(number, os.strerror(number), "some/file")))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Problem: some/file: {os.strerror(number)}.\nWay out: ")
    assert way_out in result.stderr


def test_weights_that_a_full_disk_does_not_take_are_a_known_problem() -> None:
    full = SafetensorError("I/O error: No space left on device (os error 28)")
    result, _ = parse(body=raising(full))
    assert result.exit_code == 1
    assert result.stderr.startswith("Problem: Weights cannot be written: I/O error: No space left") and (
        "space" in result.stderr.partition("Way out: ")[2]
    )


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf"])
def test_numbers_that_are_not_finite_are_wrong_usage(value: str) -> None:
    for flag in ("--share", "--rate"):
        result, _ = parse(flag, value)
        assert result.exit_code == 2
        assert f"Invalid value for '{flag}'" in result.stderr
        assert parse(flag, "0.25")[0].exit_code == 0


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nlong story"),
        RuntimeError("MPS backend out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
        MemoryError(),
    ],
)
def test_full_memory_is_a_known_problem_with_the_flags_that_help(error: Exception) -> None:
    result, _ = parse("--accumulate", "2", body=raising(error))
    assert result.exit_code == 1
    assert "--accumulate 4" in result.stderr and "--batch-size 8" in result.stderr
    assert "long story" not in result.stderr


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["lstm_size=9999999", "dropout=0.1", "label-size=9"], " --set lstm_size, --set label-size."),
        (["lstm_layers=9999999"], " --set lstm_layers."),
        (["dropout=1"], ""),
    ],
)
def test_full_memory_names_the_sizes_that_were_set(settings: list[str], named: str, capsys: Any) -> None:
    with pytest.raises(typer.Exit), known_problems(Finetune(settings=settings)):
        raise MemoryError
    assert " ".join(capsys.readouterr().err.split()).partition("smaller values of")[2] == named


def test_full_memory_while_tagging_names_the_flag_of_tagging() -> None:
    with pytest.raises(typer.Exit), known_problems(Predict(json=True)):
        raise MemoryError


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), KeyError("x"), OSError("no number")])
def test_a_defect_keeps_its_traceback(error: Exception) -> None:
    result, _ = parse(body=raising(error))
    assert result.exception is error


def test_an_interruption_ends_with_130_and_says_how_to_continue() -> None:
    result, _ = parse(body=raising(KeyboardInterrupt()))
    assert result.exit_code == 130
    assert "The same command continues: crossner" in result.stderr
    assert "Problem" not in result.stderr


@pytest.mark.parametrize(
    ("given", "continues"),
    [({}, False), ({"input": ["-"], "output": "o.jsonl"}, False), ({"input": ["in.txt"]}, False),
     ({"input": ["in.txt"], "output": "/dev/stdout"}, False), ({"input": ["in.txt"], "output": "/dev/null"}, False),
     ({"input": ["in.txt"], "output": "o.jsonl"}, True)],
)  # fmt: skip
def test_an_interrupted_predict_says_that_it_continues_only_where_it_does(
    given: dict[str, Any], continues: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("Anna\n")
    output = Path(given["output"]) if "output" in given else None
    options_given = Predict(input=[Path(name) for name in given.get("input", [])], output=output)
    with pytest.raises(typer.Exit), known_problems(options_given):
        raise KeyboardInterrupt
    told = capsys.readouterr().err
    assert ("The same command continues: crossner" in told) is continues
    assert ("Give it again; name files and --output so that it can be continued." in told) is not continues


def test_problems_that_processes_share_are_told_once_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossner_cli.problems.SECONDS_TO_TELL", 0.0)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    result, _ = parse("--json", body=raising(CrossNERError("shared")))
    assert (result.exit_code, result.output) == (1, "")
    result, _ = parse("--json", body=raising(MemoryError()))
    assert "memory" in result.stderr and result.stdout == ""


def test_prepare_data_shows_progress_on_stderr_and_tables_on_stdout(tmp_path: Path) -> None:
    result = crossner(*PREPARE, "--run", str(tmp_path / "run"))
    assert result.returncode == 0, result.stderr
    assert "sample-target" in result.stdout and "sentences" in result.stdout
    assert "read the source sample-source" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr


def test_with_json_stdout_is_one_object_and_nothing_else(tmp_path: Path) -> None:
    result = crossner(*PREPARE, "--run", str(tmp_path / "run"), "--json")
    assert json.loads(result.stdout)["stage"] == "prepare-data"
    assert result.stdout.count("\n") == 1
    assert "read the source" in result.stderr


def test_quiet_says_nothing_but_still_answers_json(tmp_path: Path) -> None:
    result = crossner(*PREPARE, "--run", str(tmp_path / "run"), "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    result = crossner(*PREPARE, "--run", str(tmp_path / "run"), "--quiet", "--json")
    assert json.loads(result.stdout)["stage"] == "prepare-data"
    assert result.stderr == ""


def test_a_finished_stage_shows_its_result_again_and_ends_with_0(tmp_path: Path) -> None:
    first, again = (crossner(*PREPARE, "--run", str(tmp_path / "run")) for _ in range(2))
    assert again.returncode == 0
    assert again.stdout == first.stdout
    assert "same options and inputs" in again.stderr


def test_a_finished_stage_with_other_options_is_a_problem_that_says_what_differs(tmp_path: Path) -> None:
    run = ["--run", str(tmp_path / "run")]
    crossner(*PREPARE, *run)
    result = crossner(*PREPARE, *run, "--train-limit", "5", "--json")
    assert result.returncode == 1
    assert "train_limit: None -> 5" in json.loads(result.stdout)["error"]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("place", ["file", "file/run"])
def test_a_run_directory_that_cannot_be_made_is_a_known_problem(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    result = crossner(*PREPARE, "--run", str(tmp_path / place))
    assert result.returncode == 1
    assert str(tmp_path / place) in result.stderr and "Traceback" not in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_stdout_is_a_known_problem(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crossner_cli", *PREPARE, "--run", str(tmp_path / "run"), "--json"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr and "Traceback" not in result.stderr


def test_a_reader_that_goes_away_is_no_reason_for_noise(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "crossner_cli", *PREPARE, "--run", str(tmp_path / "run"), "--quiet", "--json"]
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


def test_ctrl_c_in_a_terminal_ends_with_130_and_the_command_to_repeat(tmp_path: Path) -> None:
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
    process.send_signal(signal.SIGINT)
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


@pytest.mark.parametrize("name", ["predict", "inspect", "export", "report"])
def test_commands_that_make_no_stage_refuse_a_name_for_it(name: str) -> None:
    found = CliRunner().invoke(app, [name, "--name", "mine", *(["--sentence", "Ada"] if name == "inspect" else [])])
    assert found.exit_code == 1 and f"--name names a stage's folder, and {name} makes none" in found.stderr


def test_an_option_is_told_as_it_is_written_unless_it_has_its_default() -> None:
    sample = options_of("--set", "a=1", "--set", "b=2", "--plain", "--both", "--word", "two")
    assert [sample.given(name) for name in ("pairs", "plain", "both", "word", "number")] == [
        "--set a=1 --set b=2", "--plain", "--both", "--word two", None,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["dapt", "pretrain-source", "finetune", "joint-train"])
def test_training_without_prepared_data_names_the_command_that_makes_it(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [name, "--run", str(tmp_path), "--device", "cpu"])
    assert result.exit_code == 1
    assert "crossner prepare-data" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--device", "abacus"], "--device 'abacus'"),
        (["--device", "cuda:77"], "--device cuda:77"),
        (["--gpus", "one,two"], "--gpus 'one,two'"),
        (["--device", "cpu", "--method", "guess"], "guess"),
        (["--device", "cpu", "--seeds", "1,x"], "--seeds '1,x'"),
    ],
)
def test_wrong_values_are_known_problems(arguments: list[str], text: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["finetune", "--run", str(tmp_path), *arguments])
    assert result.exit_code == 1
    assert text in result.stderr


def test_processes_made_for_several_gpus_give_their_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossner_cli.engine.processes.launch_processes", lambda options, argv: 77)
    assert CliRunner().invoke(app, ["finetune", "--gpus", "0,1"]).exit_code == 77


def test_options_of_the_tests_cover_every_command() -> None:
    assert len(COMMANDS) == 10 and COMMANDS["finetune"] is Finetune


def test_a_terminal_that_knows_only_ascii_shows_a_question_mark_instead_of_ending_the_command() -> None:
    code = "import crossner_cli.cli as cli; cli.app = lambda **names: print('68.4 \\u00b1 0.8'); cli.main()"
    for environment in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "68.4 ? 0.8\n"), done.stderr


def test_fine_grained_evaluation_of_two_files_is_one_command(tmp_path: Path) -> None:
    for name, tags in (("gold", "B-person I-person O"), ("predictions", "B-person O O")):
        words = zip(("Anna", "Smith", "waits"), tags.split(), strict=True)
        (tmp_path / f"{name}.conll").write_text("".join(f"{word}\t{tag}\n" for word, tag in words))
    command = [
        "evaluate", "--gold", str(tmp_path / "gold.conll"), "--predictions", str(tmp_path / "predictions.conll"),
        "--run", str(tmp_path / "run"), "--fine-grained",
    ]  # fmt: skip
    found = CliRunner().invoke(app, [*command, "--json", "--quiet"])
    assert found.exit_code == 0, found.output
    model = next(iter(json.loads(found.stdout)["result"]["models"].values()))
    assert model["fine_grained"]["mean"]["errors"]["all"]["boundary_right"]["mean"] == 1
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0 and "boundary, right" in again.stdout and "already done" in again.output
    assert "Anna Smith [person]" in again.stdout
    refused = CliRunner().invoke(app, [*command[:5], "--type-parents", "person=thing"])
    assert refused.exit_code == 1 and "--fine-grained only" in refused.output


def test_a_file_called_like_stdin_and_stdout_is_named_by_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    given: list[Predict] = []
    predict_app = typer.Typer(pretty_exceptions_enable=False)
    predict_app.command()(takes(Predict)(given.append))
    for arguments in (["-", "--output", "-"], ["./-", "--output", "./-"], ["in/-", "--output=out.jsonl"]):
        assert CliRunner().invoke(predict_app, arguments).exit_code == 0
    assert [(each.input, output_place(each)) for each in given] == [
        ([Path("-")], None), ([tmp_path / "-"], tmp_path / "-"), ([Path("in/-")], Path("out.jsonl")),
    ]  # fmt: skip
