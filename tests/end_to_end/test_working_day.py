"""The loop of a working day: label, train, look at the scores, label more, bring up to date, compare."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders.commands import QUICK, crossner, invoke, refused

from crossner_cli.data.domains import SAMPLES
from crossner_cli.options import Finetune
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.stage import open_stage


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_folder: Path) -> Path:
    """A folder with labelled sentences, and a run in which they were trained on and scored."""
    place = tmp_path_factory.mktemp("day")
    shutil.copytree(SAMPLES / "sample-target", place / "mine")
    train = place / "mine" / "train.txt"
    sentences = train.read_text().strip().split("\n\n")
    train.write_text("\n\n".join(sentences[:-20]) + "\n")
    (place / "more.txt").write_text("\n\n".join(sentences[-20:]) + "\n")
    here = ("--run", place / "run")
    crossner("prepare-data --source sample-source --corpus sample-target", *here, "--target", place / "mine")
    crossner("dapt --block-size 32 --max-steps 2", *here, *QUICK, "--encoder", tiny_encoder_folder)
    crossner("pretrain-source --start-from dapt --max-steps 4", *here, *QUICK)
    crossner("finetune --start-from pretrain-source --max-steps 4", *here, *QUICK)
    crossner("evaluate --model finetune", *here, *QUICK)
    return place


@pytest.fixture
def day(first_day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The day before, to go on with: the folder with the labels is the current one."""
    shutil.copytree(first_day, tmp_path / "day")
    for manifest in (tmp_path / "day").glob("run/*/manifest.json"):
        manifest.write_text(manifest.read_text().replace(str(first_day), str(tmp_path / "day")))
    monkeypatch.chdir(tmp_path / "day")
    return tmp_path / "day"


def label_more(day: Path) -> None:
    train = day / "mine" / "train.txt"
    train.write_text(train.read_text() + "\n" + (day / "more.txt").read_text())


def states(day: Path) -> dict[str, str]:
    return {stage["name"]: stage["state"] for stage in crossner("status")["stages"]}


def test_more_labels_leave_the_source_alone_and_rerun_keeps_the_tagger_of_before_to_compare_with(day: Path) -> None:
    run = RunDirectory(day / "run")
    assert set(states(day).values()) == {"up to date"}
    before = {name: run.digest(name) for name in run.stages()}
    label_more(day)
    assert states(day)["prepare-data"] == "target/train has changed"
    assert crossner("status")["next"] == "crossner rerun"

    told = invoke("rerun").stdout
    assert "2 of the stages were out of date" in told
    assert "Compare: crossner evaluate --model finetune-previous --model finetune" in told
    after = {name: run.digest(name) for name in run.stages()}
    assert {name for name in before if before[name] != after[name]} == {"prepare-data", "finetune", "evaluate-finetune"}
    assert after["finetune-previous"] == before["finetune"]
    assert run.read("finetune")["options"] == run.read("finetune-previous")["options"]
    scored = crossner("evaluate --model finetune-previous --model finetune", *QUICK)
    assert set(scored["result"]["models"]) == {"finetune", "finetune-previous"}
    found = states(day)
    assert found.pop("finetune-previous") == "kept from before" and set(found.values()) == {"up to date"}
    assert "Nothing was out of date." in invoke("rerun").stdout


def test_data_that_are_prepared_again_say_what_changed_and_destroy_no_tagger(day: Path) -> None:
    again = ("prepare-data --source sample-source --corpus sample-target --target", day / "mine")
    assert "out of date" not in invoke(*again, "--force").stderr, "the same files leave everything valid"
    label_more(day)
    told = invoke(*again).stderr
    assert "target train: sentences added: 20, removed: 0, with other labels: 0." in told
    assert "finetune is out of date: prepare-data/target/train.jsonl has changed." in told
    assert "pretrain-source is out of date" not in told and "dapt is out of date" not in told
    assert "crossner rerun --run run" in told and "  crossner finetune --start-from pretrain-source" in told
    stale = "trained on earlier data: prepare-data/target/train.jsonl has changed"
    assert stale in invoke("predict", "more.txt", "--format jsonl", *QUICK).stderr
    assert stale in invoke("evaluate", *QUICK, "--quiet").stderr
    assert "is out of date" in refused("finetune --start-from pretrain-source --max-steps 4", *QUICK)


def test_a_stage_whose_files_were_edited_is_built_on_by_nobody(day: Path) -> None:
    tokenizer = day / "run" / "pretrain-source" / "tagger" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    again = "finetune --name other --start-from pretrain-source --max-steps 4"
    assert "tokenizer.json is not the file listed in its manifest" in refused(again, *QUICK)
    for command in (("predict", "more.txt"), ("inspect --sentence Anna",)):
        assert "tokenizer.json is not the file" in refused(*command, "--model pretrain-source", *QUICK)
    config = day / "run" / "dapt" / "encoder" / "config.json"
    config.write_text(config.read_text() + " ")
    assert "config.json is not the file" in refused(
        "dapt --name other --start-from dapt --max-steps 2 --block-size 32", *QUICK
    )


def test_status_names_what_is_at_work_or_was_interrupted_and_how_it_goes_on(day: Path) -> None:
    options = Finetune(name="longer", method="crf", start_from="dapt", epochs=400)
    with (
        contextlib.suppress(KeyboardInterrupt),
        open_stage(RunDirectory(day / "run"), options.stage_request({})) as stage,
    ):
        (stage.draft / "checkpoint").mkdir()
        assert states(day)["longer"] == "at work" and crossner("status")["next"] is None
        raise KeyboardInterrupt
    assert states(day)["longer"] == "interrupted"
    line = "crossner finetune --method crf --start-from dapt --epochs 400 --name longer --run run"
    assert crossner("status")["next"] == line


def test_status_is_quick_and_loads_no_torch(day: Path) -> None:
    code = (
        "import sys, crossner_cli.cli as cli; cli.app(['status'], standalone_mode=False); print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("False\n") and "finetune" in result.stdout


def test_each_stage_says_where_its_files_are_and_what_usually_comes_next(tmp_path: Path) -> None:
    place = ("--run", tmp_path / "run")
    prepared = invoke("prepare-data --source sample-source --target sample-target", *place)
    assert prepared.stdout.rstrip().splitlines()[-2:] == [
        f"Written to {tmp_path}/run/prepare-data",
        f"Next: crossner pretrain-source --run {tmp_path}/run",
    ]
    more = ("prepare-data --source sample-source --target sample-target --corpus sample-target --run", tmp_path / "raw")
    told = invoke(*more).stdout
    assert f"Next: crossner pretrain-source --run {tmp_path}/raw" in told, "the default encoder gains nothing by dapt"
    assert "Next:" not in invoke("prepare-data --source sample-source --target sample-target --quiet", *place).stdout


def test_status_says_when_what_a_stage_was_made_from_is_gone_or_was_edited(day: Path) -> None:
    shutil.move("run/pretrain-source", "elsewhere")
    assert states(day)["finetune"] == "its start pretrain-source is gone"
    shutil.move("elsewhere", "run/pretrain-source")
    prepared = day / "run" / "prepare-data" / "target" / "train.jsonl"
    before = prepared.read_text()
    prepared.write_text(before.replace("B-", "I-", 1))
    assert states(day)["prepare-data"] == "target/train.jsonl was edited"
    step = crossner("status")["next"]
    assert step.startswith("crossner prepare-data --source sample-source") and step.endswith("--run run --force")
    crossner(*step.split()[1:])
    assert prepared.read_text() == before and set(states(day).values()) == {"up to date"}
    shutil.move("mine", "not-here")
    assert states(day)["prepare-data"] == f"{day / 'mine'} is gone"
    assert crossner("status")["next"] == "crossner predict FILE --model finetune"


def test_relative_paths_are_looked_up_from_where_the_command_was_given(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_encoder_folder: Path
) -> None:
    crossner("prepare-data --source sample-source --target mine --corpus sample-target")
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    here = ("--run", "../day/run")
    assert crossner("status", *here)["stages"][0]["state"] == "up to date"
    label_more(day)
    assert crossner("status", *here)["stages"][0]["state"] == "target/train has changed"
    made = crossner("rerun", *here)["commands"]
    assert [line[1] for line in made] == ["prepare-data", "finetune", "evaluate"]
    assert {stage["state"] for stage in crossner("status", *here)["stages"]} == {"up to date", "kept from before"}


def test_the_next_command_is_one_that_works_and_is_of_use(day: Path, tiny_encoder_folder: Path) -> None:
    label_more(day)
    crossner("rerun")
    assert crossner("status")["next"] == "crossner predict FILE --model finetune", "not evaluate finetune-previous"
    for name in ("direct", "another"):
        made = invoke("finetune --max-steps 1 --name", name, "--encoder", tiny_encoder_folder, *QUICK).stdout
    assert made.rstrip().endswith("Next: crossner evaluate --model another --model direct")
    train = Path("train.txt")
    train.write_text("Anna B-person\nsmiles O\n\nIt O\n\nBob B-person\n")
    told = invoke("prepare-data --run few --target", train).stdout.rstrip().splitlines()[-1]
    assert told == "Next: crossner prepare-data --target train.txt --run few --dev-from-train 0.2"
    assert "Next: crossner finetune --run few" in invoke(*told.split()[2:]).stdout
    Path("only").mkdir()
    Path("only/test.txt").write_text("Anna B-person\nsmiles O\n")
    invoke("prepare-data --run only/run --source sample-source --target only")
    made = invoke("pretrain-source --max-steps 1 --run only/run --encoder", tiny_encoder_folder, *QUICK).stdout
    assert "Next: crossner evaluate --model pretrain-source --run only/run" in made


@pytest.mark.parametrize(
    ("stage", "part", "key", "value"),
    [
        ("finetune", "result", "dev_f1", "x"),
        ("prepare-data", "result", "domains", [1]),
        ("prepare-data", "options", "source", 5),
        ("prepare-data", "options", "target", 5),
        ("evaluate-finetune", "result", "models", {"finetune": 1}),
    ],
)
def test_a_broken_manifest_is_named(day: Path, stage: str, part: str, key: str, value: object) -> None:
    path = day / "run" / stage / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[part][key] = value
    path.write_text(json.dumps(manifest))
    said = refused("status")
    assert stage in said and str(value if key != "models" else 1) in said and "Way out: " in said


def test_an_empty_run_is_told_how_to_begin(tmp_path: Path) -> None:
    record = crossner("status --run", tmp_path / "none")
    assert record["stages"] == [] and record["next"].startswith("crossner prepare-data --source DATASET")
    assert "needs the stage 'prepare-data'" in refused("rerun --run", tmp_path / "none")
    assert json.loads(invoke("status --json --run", tmp_path / "none").stdout) == record
