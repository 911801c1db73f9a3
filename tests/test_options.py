"""Options: one declaration is the flag, its help, its limits, its published value and its entry in the manifest."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from builders.commands import Sample, parse
from typer.testing import CliRunner

from crossner_cli.cli import app, paper_of
from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import Command, fields_in_order
from crossner_cli.options import Dapt, Evaluate, Finetune, Inspect, JointTrain, Predict, PretrainSource, Report
from crossner_cli.options_data import PrepareData
from crossner_cli.options_label import Label

TRAINING = {"dapt": Dapt, "pretrain-source": PretrainSource, "finetune": Finetune, "joint-train": JointTrain}


def options_of(*arguments: str) -> Sample:
    result, given = parse(*arguments)
    assert result.exit_code == 0, result.output
    return given[0]


def test_without_flags_every_option_has_its_declared_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSNER_RUN", raising=False)
    assert options_of() == Sample()


def test_every_kind_of_field_is_read_from_its_flag() -> None:
    line = "a.txt - --word two --number 3 --share 0.25 --choice right --set a=1 --set b=2 --plain --both"
    assert options_of(*line.split(), "--run", "elsewhere", "--name", "mine", "--force") == Sample(
        files=[Path("a.txt"), Path("-")],
        word="two",
        number=3,
        share=0.25,
        choice="right",
        pairs=["a=1", "b=2"],
        plain=True,
        both=True,
        run=Path("elsewhere"),
        name="mine",
        force=True,
    )
    assert options_of().pairs == [], "a list is fresh each time"


@pytest.mark.parametrize(
    "line", ["--number 0", "--number many", "--share 1.5", "--choice up", "--no-plain", "--unknown"]
)
def test_wrong_usage_ends_with_status_2(line: str) -> None:
    result, given = parse(*line.split())
    assert (result.exit_code, given) == (2, [])


def test_the_run_directory_comes_from_the_environment_unless_a_flag_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSNER_RUN", "from-environment")
    assert options_of().run == Path("from-environment")
    assert options_of("--run", "from-flag").run == Path("from-flag")


def test_an_option_is_shown_as_it_is_written_unless_it_has_its_default() -> None:
    sample = options_of("--set", "a=1", "--set", "b=2", "--plain", "--both", "--word", "two")
    shown = [sample.given(name) for name in ("pairs", "plain", "both", "word", "number")]
    assert shown == [["--set", "a=1", "--set", "b=2"], ["--plain"], ["--both"], ["--word", "two"], []]
    record = {**sample.record(), "of another version": 1}
    assert options_of(*Sample.arguments_of(record)).record() == sample.record()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Sample(near=2), "--near 2 has no effect without --number or --choice right."),
        (PrepareData(min_entities=3), "--min-entities 3 has no effect without --entities."),
        (Dapt(encoder="strings", masking="token"), "--masking token has no effect with --encoder strings."),
        (Dapt(text="both"), "--text both has no effect without --encoder strings."),
    ],
)
def test_an_option_without_the_one_it_needs_is_refused(options: Any, told: str) -> None:
    with pytest.raises(CrossNERError, match=re.escape(told)) as caught:
        options.check_needs()
    assert caught.value.hint.lower().endswith(f"leave {told.split()[0]} out.")


def test_a_number_is_finite() -> None:
    for value in (float("inf"), float("nan")):
        with pytest.raises(CrossNERError, match=f"--learning-rate {value} is not a finite number"):
            Finetune(learning_rate=value).check_needs()


def test_an_option_with_the_one_it_needs_is_taken_and_every_needed_one_exists() -> None:
    for taken in (Sample(near=2, number=3), Sample(near=2, choice="right"), Sample(), Dapt(masking="token")):
        taken.check_needs()
    for options in (PrepareData, Dapt, Finetune, Evaluate, Predict, Label, Inspect, Report):
        names = {field.name for field in dataclasses.fields(options)}
        for field in dataclasses.fields(options):
            assert {need.replace("!", "").partition("=")[0] for need in field.metadata["needs"]} <= names


@pytest.mark.parametrize(
    ("given", "is_resumable"),
    [
        ({}, False),
        ({"input": ["-"], "output": "o.jsonl"}, False),
        ({"input": ["in.txt"]}, False),
        ({"input": ["in.txt"], "output": "/dev/stdout"}, False),
        ({"input": ["in.txt"], "output": "/dev/null"}, False),
        ({"input": ["in.txt"], "output": "o.jsonl"}, True),
    ],
)
def test_predict_continues_if_its_input_and_output_are_files(
    given: dict[str, Any], is_resumable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("Anna\n")
    output = Path(given["output"]) if "output" in given else None
    assert Predict(input=[Path(name) for name in given.get("input", [])], output=output).is_resumable is is_resumable


def test_paper_takes_every_published_value_but_a_flag_wins() -> None:
    given = options_of("--paper")
    assert (given.word, given.number, given.both) == ("published", 7, True)
    assert (given.share, given.choice) == (0.5, "left")
    given = options_of("--paper", "--word", "one", "--no-both")
    assert (given.word, given.number, given.both) == ("one", 7, False), "even a flag that repeats the default"


ON_TARGET_TEXT = "tasks=source-ner,target-lm"


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("linear", "", "dropout=0 legal=false"),
        ("laner", "dropout=0.3", "legal=false"),
        ("robust-tagger", "lower_case=false", "word_size=300 characters=none legal=false"),
        ("multi-cell-lstm", "digits=kept", "character_dropout=0.5 legal=false raw_minimum=1"),
        (
            "multi-cell-lstm",
            f"{ON_TARGET_TEXT} digits=kept character_dropout=0 legal=true",
            "raw_minimum=1 entity_weight=0.1 attention_weight=0.5",
        ),
        ("cross-domain-lm", ON_TARGET_TEXT, "digits=zeros character_dropout=0.5 legal=false"),
        ("nomethod", "", ""),
    ],
)
def test_paper_takes_the_published_settings_of_the_method_and_a_given_one_wins(
    method: str, settings: str, expected: str
) -> None:
    assert paper_of(Finetune(method=method, settings=settings.split()))[1] == expected.split()


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options with which commands begin, which end there."""
    found: list[Any] = []

    def catch(options: Any) -> None:
        found.append(options)
        raise CrossNERError("far enough")

    monkeypatch.setattr("crossner_cli.cli.start", catch)
    return found


@pytest.mark.parametrize(
    ("name", "method", "published", "own"),
    [
        ("joint-train", "bilstm-crf", {"head_learning_rate": 1e-3, "upsample": 10, "patience": 8}, "encoder"),
        ("pretrain-source", "concept-tagger", {"head_learning_rate": 1e-4, "epochs": 300}, "keep"),
        ("finetune", "bartner", {"encoder": "facebook/bart-base", "schedule": "linear"}, "clip_norm"),
        ("finetune", "laner", {"learning_rate": 5e-5, "patience": 16, "epochs": 100}, "seeds"),
        ("pretrain-source", "laner", {"learning_rate": 5e-5, "epochs": 2, "patience": 8}, "seeds"),
    ],
)
def test_paper_takes_the_options_of_the_method_and_leaves_those_that_no_paper_gives(
    name: str, method: str, published: dict[str, Any], own: str, caught: list[Any]
) -> None:
    assert CliRunner().invoke(app, [name, "--paper", "--method", method]).exit_code == 1
    assert {field: getattr(caught[0], field) for field in published} == published
    assert getattr(caught[0], own) == getattr(TRAINING[name](), own)


@pytest.mark.parametrize(("command", "most"), [(Finetune, 36), (PrepareData, 30)])
def test_the_help_of_a_command_shows_few_options(command: type[Command], most: int) -> None:
    """What one method alone reads is a setting."""
    assert len(fields_in_order(command)) <= most
