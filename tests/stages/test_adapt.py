"""``crossner adapt``: ordinary stages, planned first, that an interruption or a second target does not make again."""

import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.commands import invoke, refused, told
from builders.encoders import make_encoder

from crossner_cli.data.domains import SAMPLES
from crossner_cli.errors import INTERRUPTED, IS_STEP, CrossNERError, known_problems
from crossner_cli.options_adapt import Adapt
from crossner_cli.run.directory import RunDirectory, read_manifest
from crossner_cli.run.progress import exhaust
from crossner_cli.stages import adapt as stage
from crossner_cli.stages import adapt_plan
from crossner_cli.stages.adapt_plan import Facts, Step, make_steps
from crossner_cli.stages.status import suggest_next
from crossner_cli.taggers.sources import find_taggers

CPU = ("--device", "cpu", "--threads", "1")
SAMPLE = ("--source", "sample-source", "--target", "sample-target")


def plan(
    tmp_path: Path,
    *,
    head: bool = False,
    cased: bool = False,
    sentences: int = 100,
    corpus_words: int = 500_000,
    **given: Any,
) -> list[Step]:
    """The steps for a target with test sentences."""
    words = {"train": 1000, "dev": 1000, "test": 1000, "source": 9000, "corpus": corpus_words, "silver": 500}
    facts = Facts(words, sentences, has_test=True, ignores_case=not cased, has_masked_lm_head=head)
    options = Adapt(**{"run": tmp_path / "run", "target": "music", **given})
    return make_steps(options, facts, has_labels=False)


def names(steps: list[Step]) -> list[str]:
    return [step.options.name or step.command for step in steps]


def test_steps_follow_from_what_there_is(tmp_path):
    corpus = [tmp_path / "raw"]
    assert names(plan(tmp_path)) == ["prepare-data", "pretrain-source", "target-alone", "tagger", "evaluate"]
    taught = ["target-alone", "after-source", "label", "prepare-data", "tagger", "evaluate"]
    assert names(plan(tmp_path, corpus=corpus)) == ["prepare-data", "pretrain-source", *taught]
    assert names(plan(tmp_path, corpus=corpus, head=True)) == ["prepare-data", "dapt", "pretrain-source", *taught]
    with_names = plan(tmp_path, corpus=corpus, entities=[tmp_path / "names.tsv"])
    assert names(with_names) == ["prepare-data", "prepare-data", "pretrain-source", *taught]
    assert "target-alone" in names(plan(tmp_path, corpus=corpus, size="quick"))
    assert "label" not in names(plan(tmp_path, corpus=corpus, size="quick"))
    given = plan(tmp_path, silver="labels")
    assert names(given) == ["prepare-data", "pretrain-source", "target-alone", "after-source", "tagger", "evaluate"]
    assert "--silver labels" in shlex.join(given[0].line)


def test_types_of_the_source_are_renamed_where_they_are_named_alike_or_as_the_user_says(tmp_path):
    given = {"corpus": [tmp_path / "raw"], "entities": [tmp_path / "names.tsv"]}
    for options, renamed in (({}, "auto"), ({"map_types": "PER=person"}, "PER=person")):
        lines = [shlex.join(step.line) for step in plan(tmp_path, **given, **options) if step.command == "prepare-data"]
        assert [f"--map-types {renamed}" in line for line in lines] == [False, True, True]


def test_only_an_uncased_encoder_reads_shapes(tmp_path):
    for cased in (False, True):
        lines = [shlex.join(step.line) for step in plan(tmp_path, cased=cased)]
        assert [("--word-shapes" in line) for line in lines] == [False, not cased, not cased, False, False]


def test_the_size_sets_the_number_of_teachers_and_of_the_sentences_they_label(tmp_path):
    corpus = [tmp_path / "raw"]
    for size, seeds, sentences in (("standard", "1,2,3", 6000), ("thorough", "1,2,3,4,5", 20000)):
        steps = {step.options.name or step.command: step.options for step in plan(tmp_path, corpus=corpus, size=size)}
        assert steps["after-source"].seeds == seeds and steps["label"].sentences == sentences
        assert steps["tagger"].seeds == "1"
    steps = plan(tmp_path, corpus=corpus, seeds="7,8")
    assert [step.options.seeds for step in steps if hasattr(step.options, "seeds")][1:] == ["7", "7,8", "7"]


def test_raw_text_far_shorter_than_what_was_measured_is_not_labelled_and_the_plan_says_so(tmp_path):
    given = {"corpus": [tmp_path / "raw"], "corpus_words": 2999 * adapt_plan.MEAN_WORDS}
    steps = plan(tmp_path, **given)
    assert names(steps) == ["prepare-data", "pretrain-source", "target-alone", "tagger", "evaluate"]
    assert steps[3].brings == "the tagger; raw text of about 2,999 sentences is not labelled: 3,000 are needed"
    assert not any("teach" in step.brings for step in steps) and "--seeds 1,2,3" in shlex.join(steps[3].line)
    given["corpus_words"] += adapt_plan.MEAN_WORDS
    assert "label" in names(plan(tmp_path, **given))
    assert "label" not in names(plan(tmp_path, **given, size="thorough"))
    assert plan(tmp_path)[3].brings == plan(tmp_path, **given, size="quick")[3].brings == "the tagger"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for runs that share a cache; commands run in this process, which saves loading PyTorch."""
    place = tmp_path_factory.mktemp("adapt")
    make_encoder(place / "encoder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSNER_CACHE", str(place / "cache"))
        patch.setattr(adapt_plan, "READINGS", 2)
        patch.setattr(adapt_plan, "FEWEST_PASSES", 2)
        patch.setitem(adapt_plan.SIZES, "standard", adapt_plan.Size(3, 600))
        yield place


LOG: list[str] = []


def device_of(line: list[str]) -> tuple[str, ...]:
    return () if line[1] == "prepare-data" else CPU


def execute(arguments: list[str]) -> None:
    LOG.append(told(*arguments))


def options_for(place: Path, run: str) -> Adapt:
    return Adapt(
        run=place / run,
        source=["sample-source"],
        target=["sample-target"],
        corpus=[Path("sample-target")],
        entities=[Path("sample-target")],
        encoder=str(place / "encoder"),
        seeds="1,2",
        device="cpu",
        threads=1,
    )


def adapt(place: Path, run: str) -> dict[str, Any]:
    """Run all steps; ``LOG`` has what they said."""
    options, folder = options_for(place, run), RunDirectory(place / run)
    LOG.clear()
    return stage.run(folder, options, exhaust(stage.plan(folder, options)), execute)


@pytest.fixture(scope="module")
def first(place: Path) -> dict[str, Any]:
    return adapt(place, "first")


def test_adapt_ends_with_the_tagger_beside_simpler_ones(place, first):
    models = first["models"]
    assert list(models) == ["target-alone", "after-source", "tagger"] and models[first["use"]]["gain"] is None
    compared = {name: model["gain"] for name, model in models.items() if model["gain"]}
    assert compared and all(low <= gain <= high for gain, low, high in compared.values())
    for name, (gain, _, _) in compared.items():
        assert gain == pytest.approx(models[first["use"]]["f1"] - models[name]["f1"])
    tagger = read_manifest(place / "first" / "tagger")
    assert tagger["result"]["train_sentences"]["silver"] > 0
    assert (place / "first" / "tagger" / "tagger" / "word_shapes.safetensors").is_file()


def test_the_tagger_that_is_best_on_dev_is_the_one_to_use(place, first, tmp_path):
    run = shutil.copytree(place / "first", tmp_path / "run")
    scores = {"target-alone": 50.0, "after-source": 88.2, "tagger": 86.4}
    for better in ("after-source", "tagger"):
        scores["tagger"] = 88.2 if better == "tagger" else 86.4  # of equals the last
        for name, score in scores.items():
            path = run / name / "manifest.json"
            manifest = json.loads(path.read_text())
            manifest["result"]["dev_f1"] = score
            path.write_text(json.dumps(manifest))
        proposed = f"crossner predict FILE --model {better} --run {run}"
        assert suggest_next(RunDirectory(run)) == proposed
        with pytest.raises(CrossNERError, match=r"after-source \(dev F1 88.20\)") as asked:
            find_taggers(RunDirectory(run), [], wanted_by="predict")
        assert asked.value.hint.endswith(proposed.replace("FILE ", ""))


def test_a_second_command_finds_all_done_and_changes_nothing(place, first):
    before = {name: read_manifest(place / "first" / name) for name in ("pretrain-source", "after-source", "tagger")}
    assert adapt(place, "first")["models"] == first["models"]
    assert before == {name: read_manifest(place / "first" / name) for name in before}
    assert LOG == []


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (SystemExit(1), pytest.raises(CrossNERError, match="prepare-data failed")),
        (SystemExit(INTERRUPTED), pytest.raises(KeyboardInterrupt)),
    ],
)
def test_a_step_that_ends_early_ends_adapt_which_goes_on_there(place, first, monkeypatch, end, expected):
    options = options_for(place, "first")
    run = RunDirectory(options.run)
    steps = exhaust(stage.plan(run, options))

    def ends(arguments: list[str]) -> None:
        assert sys.argv == ["crossner", *arguments] and os.environ[IS_STEP] == "1"
        raise end

    shutil.rmtree(place / "first" / "prepare-data")
    with expected:
        stage.run(run, options, steps, ends)
    assert IS_STEP not in os.environ
    assert adapt(place, "first")["models"] == first["models"]


SHORT = """
import sys
import crossner_cli.cli as cli
from crossner_cli.stages import adapt_plan
adapt_plan.READINGS, adapt_plan.FEWEST_PASSES = 2, 2
adapt_plan.SIZES["standard"] = adapt_plan.Size(3, 600)
try:
    cli.main()
finally:
    print("PyTorch is loaded:", "torch" in sys.modules, file=sys.stderr)
"""


def test_a_signal_to_adapt_alone_ends_the_step_at_work_and_the_same_command_goes_on(place, first):
    run = place / "first"
    for name in ("tagger", "evaluate-target-alone-after-source-tagger"):
        shutil.rmtree(run / name)
    before = {name: read_manifest(run / name) for name in ("prepare-data", "pretrain-source", "after-source")}
    options = options_for(place, "first")
    given = [*options.arguments_of(options.record()), *CPU, "--run", str(run)]
    command = [sys.executable, "-c", SHORT, "adapt", *given]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    said = []
    while "tagger, seed 1" not in (line := process.stderr.readline()):
        assert line, said
        said.append(line)
    process.send_signal(signal.SIGINT)
    said.append(process.communicate(timeout=50)[1])
    assert process.returncode == INTERRUPTED, said
    assert "Interrupted.\nThe same command continues: crossner adapt" in said[-1]
    assert sum("loading PyTorch" in each for each in said) == 1
    assert before == {name: read_manifest(run / name) for name in before}
    assert not (run / "tagger").exists()
    assert adapt(place, "first")["models"] == first["models"]


def test_a_finished_run_is_found_so_without_pytorch_and_the_first_line_comes_at_once(place, first):
    options = options_for(place, "first")
    given = [*options.arguments_of(options.record()), "--run", str(options.run)]
    done = subprocess.run([sys.executable, "-c", SHORT, "adapt", *given], capture_output=True, text=True, check=True)
    assert done.stderr == "reading the target sample-target\nPyTorch is loaded: False\n"
    assert f"{first['use']} is better by" in done.stdout


def test_a_step_leaves_it_to_its_caller_to_say_what_comes_next(tmp_path, monkeypatch):
    prepare = ("prepare-data", *SAMPLE, "--run", tmp_path / "run")
    assert "Next: " in invoke(*prepare).stdout
    monkeypatch.setenv(IS_STEP, "1")
    again = invoke(*prepare)
    assert again.exit_code == 0 and "Next: " not in again.stdout
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended, known_problems(Adapt()):
        patch.setattr(sys, "stderr", None)  # nothing is written
        raise KeyboardInterrupt
    assert ended.value.code == INTERRUPTED


def test_the_plan_marks_what_is_made(place, first):
    def minutes(run: str) -> list[str]:
        options = options_for(place, run)
        steps = exhaust(stage.plan(RunDirectory(options.run), options))
        table, *_ = stage.describe_plan(steps)
        return [row[-1] for row in table.rows]

    assert "made" not in minutes("none")
    assert set(minutes("first")) == {"made"}


def test_a_run_with_the_same_source_takes_its_tagger_from_the_cache(place, first):
    assert adapt(place, "second")["models"] == first["models"]
    said = " ".join(LOG)
    assert "pretrain-source: already done (same options and inputs)." in said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"target": "sample-source", "source": ["sample-target"]}, "target: sample-target -> sample-source"),
        ({"seeds": "1"}, "The stage 'after-source' of"),
        ({"size": "quick", "seeds": "2"}, "The stage 'target-alone' of"),
    ],
)
def test_a_run_made_with_other_options_is_refused_before_anything_changes(place, first, changed, said):
    run, before = RunDirectory(place / "first"), (place / "first" / "prepare-data" / "manifest.json").read_text()
    options = dataclasses.replace(options_for(place, "first"), **changed)
    with pytest.raises(CrossNERError) as caught:
        exhaust(stage.plan(run, options))
    assert said in caught.value.problem and "Give another --run; or --force" in caught.value.hint
    assert (place / "first" / "prepare-data" / "manifest.json").read_text() == before
    exhaust(stage.plan(run, dataclasses.replace(options, force=True)))
    exhaust(stage.plan(RunDirectory(place / "other"), dataclasses.replace(options, run=place / "other")))


def test_labels_that_were_removed_are_made_again(place, first):
    shutil.rmtree(place / "first" / "labels")
    assert adapt(place, "first")["models"] == first["models"]
    assert (place / "first" / "labels" / "silver" / "train.jsonl").is_file()


def test_the_source_is_not_trained_again_by_force(place, first):
    folder = place / "first" / "pretrain-source" / "manifest.json"
    before = folder.read_text()
    options = dataclasses.replace(options_for(place, "first"), force=True)
    run = RunDirectory(place / "first")
    assert stage.run(run, options, exhaust(stage.plan(run, options)), execute)["models"] == first["models"]
    assert folder.read_text() == before


def test_the_planned_commands_by_hand_make_the_same_tagger(place, first):
    folder = RunDirectory(place / "third")
    (place / "third" / "labels").mkdir(parents=True)
    for step in exhaust(stage.plan(folder, options_for(place, "third"))):
        told(*step.line[1:], *device_of(step.line))
    made = [place / run / "tagger" / "tagger" / "model.safetensors" for run in ("first", "third")]
    assert made[0].read_bytes() == made[1].read_bytes()


def test_dev_sentences_are_taken_from_train_only_where_the_user_says_so(tmp_path):
    make_encoder(tmp_path / "encoder")
    (tmp_path / "mine.txt").write_text("anna\tB-person\n\nit\tO\n\n")
    given = ("--source", "sample-source", "--encoder", tmp_path / "encoder", "--plan", "--run", tmp_path / "run", *CPU)

    def shown(*more: Any) -> str:
        return " ".join(invoke("adapt", *given, *more).stdout.split())

    assert "--dev-from-train" not in shown("--target", tmp_path / "mine.txt") and not (tmp_path / "run").exists()
    assert "--dev-from-train 0.5 " in shown("--target", tmp_path / "mine.txt", "--dev-from-train", "0.5")


def test_without_test_and_dev_the_last_table_is_out_of_fold_and_no_sentence_is_taken_away(place):
    target = place / "target"
    target.mkdir()
    shutil.copy(SAMPLES / "sample-target" / "train.txt", target)
    options = dataclasses.replace(options_for(place, "folds"), target=[str(target)], corpus=[], entities=[])
    steps = exhaust(stage.plan(RunDirectory(options.run), options))
    made = ["prepare-data", "pretrain-source", "target-alone", "tagger", "folds-alone", "folds", "evaluate"]
    assert names(steps) == made
    found = stage.run(RunDirectory(options.run), options, steps, execute)
    assert found["split"] == "out of fold, 60 training sentences" and list(found["models"]) == ["folds-alone", "folds"]
    best = max(found["chosen_f1"], key=lambda name: (found["chosen_f1"][name], name == "tagger"))
    assert found["use"] == best and found["chosen_on"] == "folds"
    assert read_manifest(options.run / "tagger")["result"]["train_sentences"]["target"] == 60
    table, use, _ = stage.describe_result(RunDirectory(options.run), found)
    assert table.title == "F1 out of fold, 60 training sentences of target" and "the best out of fold" in use.text
    assert "FILE --model" in suggest_next(RunDirectory(options.run))
    for name, start in (("folds-alone", "base"), ("folds", "pretrain-source")):
        made_with = read_manifest(options.run / name)["options"]
        of_tagger = read_manifest(options.run / ("tagger" if name == "folds" else "target-alone"))["options"]
        assert made_with["start_from"] == start and made_with["seeds"] == "1"
        assert {key for key in of_tagger if of_tagger[key] != made_with[key]} <= {"seeds", "silver_weight"}
    (target / "train.txt").write_text("anna\tB-person\n\n")
    with pytest.raises(CrossNERError, match="one training sentence and no test"):
        exhaust(stage.plan(RunDirectory(place / "none"), options))


def test_a_target_without_labels_or_without_a_name_is_refused(tmp_path):
    assert "Add --target DATASET" in refused("adapt", "--run", tmp_path / "run", *CPU)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.txt").write_text("anna\tB-person\n\n")
    message = refused(
        "adapt", "--source", "sample-source", "--target", tmp_path / "data", "--run", tmp_path / "run", *CPU
    )
    assert "has no training sentences" in message
    (tmp_path / "data" / "train.txt").write_text("anna\tB-person\n\n")
    assert "--seeds 'a' is not a list" in refused("adapt", *SAMPLE, "--seeds", "a", "--run", tmp_path / "run", *CPU)
    (tmp_path / "silver").mkdir()
    (tmp_path / "silver" / "dev.jsonl").write_text('{"words": ["Anna"], "tags": ["B-person"]}\n')
    told("adapt", *SAMPLE, "--silver", tmp_path / "silver", "--plan", "--run", tmp_path / "run", *CPU)
    missing = refused("adapt", *SAMPLE, "--corpus", "nowhere", "--plan", "--run", tmp_path / "run", *CPU)
    assert "--corpus: there is no file or folder nowhere" in missing
    assert "--entities" in refused("adapt", *SAMPLE, "--entities", "sample-target", "--run", tmp_path / "run", *CPU)
