"""A tagger used from Python gives what ``crossner predict`` writes."""

import dataclasses
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from builders.commands import crossner
from builders.starts import save_stage
from builders.taggers import TAG_SET, make_tagger

from crossner_cli import load_tagger
from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import RunDirectory
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.tagging import CALIBRATION, Calibration

TEXTS = ["Anna met Peter. They visited London.", "", "Zoë’s naïve 東京 👍🏽 text", *["the acme of paris"] * 30]


def predict(model: Path, output: Path, texts: list[str]) -> list[list[dict[str, Any]]]:
    """The entities that the command writes for each text."""
    given = output.with_suffix(".in.jsonl")
    given.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    crossner("predict", given, "--format", "jsonl", "--output", output, "--model", model)
    return [json.loads(line)["entities"] for line in output.read_text().splitlines()]


@pytest.fixture(scope="module")
def stage(tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stage of two seeds, the second the better one on dev."""
    taggers = {seed: make_tagger(tiny_encoder_folder, "linear", TAG_SET, seed=seed) for seed in (1, 2)}
    return save_stage(RunDirectory(tmp_path_factory.mktemp("run")), "finetune", taggers, [10.0, 20.0])


def test_entities_are_those_that_predict_writes(stage: Path, tmp_path: Path) -> None:
    texts = [*TEXTS, "two lines\nof Anna"]
    found = load_tagger(stage).tag(texts)
    assert [[dataclasses.asdict(entity) for entity in each] for each in found] == predict(
        stage, tmp_path / "out.jsonl", texts
    )
    assert sum(map(len, found)) > 5 and found[1] == []
    for text, entities in zip(texts, found, strict=True):
        assert all(text[entity.start : entity.end] == entity.text and 0 <= entity.score <= 1 for entity in entities)


def test_four_threads_find_what_one_finds(tiny_encoder_folder: Path, tmp_path: Path) -> None:
    tagger = make_tagger(tiny_encoder_folder, "linear", TAG_SET)
    shared = load_tagger(save_stage(RunDirectory(tmp_path), "finetune", {1: tagger}, [10.0]))
    texts = [" ".join(["Anna met Peter in London."] * count) for count in (1, 9, 2, 5)]
    batches = [[text, "Paris"] for text in texts]  # of different lengths, so that there is padding to leave out
    alone = [shared.tag(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(shared.tag, batches * 20)) == alone * 20


def test_a_stage_stands_for_its_best_seed_on_dev_as_in_predict(stage: Path) -> None:
    found = load_tagger(str(stage)).tag(TEXTS)
    assert (
        found
        == load_tagger(stage / "tagger-seed-2").tag(iter(TEXTS))
        != load_tagger(stage / "tagger-seed-1").tag(TEXTS)
    )


def test_scores_are_calibrated_as_in_predict(tiny_encoder_folder: Path, tmp_path: Path) -> None:
    calibration = {CALIBRATION: Calibration(0.5, -2.0, 8, 6).to_json()}
    save_tagger(make_tagger(tiny_encoder_folder, "crf"), tmp_path / "tagger", **calibration)
    found = [dataclasses.asdict(entity) for (entity, *_) in load_tagger(tmp_path / "tagger").tag(TEXTS[:1])]
    assert found == [predict(tmp_path / "tagger", tmp_path / "out.jsonl", TEXTS[:1])[0][0]]


def test_the_example_of_the_page_runs(stage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    exec(code.replace("run/finetune", str(stage)), {})
    (found,) = load_tagger(stage).tag(["Anna met Peter in Paris."])
    assert (
        capsys.readouterr().out.splitlines() == [" ".join(map(str, dataclasses.astuple(each))) for each in found] != []
    )


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys; from crossner_cli import load_tagger; sys.exit(bool({'torch', 'transformers'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_no_tagger_and_no_list_of_texts_is_a_known_problem(stage: Path) -> None:
    with pytest.raises(CrossNERError, match="There is no folder") as caught:
        load_tagger(stage.parent / "finetnue")
    assert "Did you mean 'finetune'?" in caught.value.hint
    with pytest.raises(CrossNERError, match="holds neither a finished stage"):
        load_tagger(stage.parent)
    tagger = load_tagger(stage)
    assert tagger.tag([]) == []
    for wrong in ("Anna met Peter.", [1], ["\ud83d"]):
        with pytest.raises(CrossNERError):
            tagger.tag(wrong)  # type: ignore[arg-type]
