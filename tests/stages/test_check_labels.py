"""Spoilt labels stand among the first suspects, with their place in the user's own file, and go to annotation tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.commands import QUICK, crossner, invoke, refused

from crossner_cli.data.files import Repairs
from crossner_cli.data.labelled import read_labelled
from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.folds import FoldPrediction
from crossner_cli.evaluation.suspects import find_suspects

FIELDS = "rank file line sentence words start end gold found found_start found_end kind score"


def predict(sentence: Sentence, tags: str, sure: float = 0.9) -> FoldPrediction:
    """The prediction of a tagger that gives these tags this probability, and the gold ones what is left."""
    found = tuple(tags.split())
    shares = tuple(
        {tag: sure, gold: 1 - sure} if tag != gold else {tag: sure, "B-other": 1 - sure}
        for tag, gold in zip(found, sentence.tags or (), strict=True)
    )
    return FoldPrediction(0, found, (sure,) * len(found), shares)


def test_each_kind_of_mistake_is_named_with_both_labels() -> None:
    words = ("Anna", "met", "Ben", "in", "New", "York")
    gold = Sentence(words, ("B-person", "O", "O", "O", "B-place", "I-place"))
    same = "B-person O O O B-place I-place"
    cases = {
        "type": ("B-place O O O B-place I-place", (0, 1, "person", "place")),
        "no entity": ("O O O O B-place I-place", (0, 1, "person", None)),
        "missing": ("B-person O B-person O B-place I-place", (2, 3, None, "person")),
        "border": ("B-person O O O O B-place", (4, 6, "place", "place")),
        "type and border": ("B-person O O O O B-person", (4, 6, "place", "person")),
    }
    for kind, (tags, expected) in cases.items():
        sentences = [gold, *[gold] * 9]
        (first, *_) = find_suspects(sentences, [[predict(gold, tags), *[predict(gold, same)] * 9]])
        assert (first.kind, first.sentence) == (kind, 0)
        assert (*first.place[:2], first.gold and first.gold.type, first.found and first.found.type) == expected
    assert find_suspects([gold], [[predict(gold, same)]]) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_folder: Path) -> Path:
    """A run whose target has one label of another type among thirty of easy sentences."""
    folder = tmp_path_factory.mktemp("labels")
    names = ["Anna", "Ben", "Carl", "Dora", "Emil"]
    lines = [f"{names[number % 5]}\tB-person\nwent{number}\tO\nto\tO\nParis\tB-place" for number in range(30)]
    lines[7] = lines[7].replace("B-person", "B-place")
    (folder / "train.conll").write_text("\n\n".join(lines) + "\n", "utf-8")
    invoke("prepare-data --target", folder / "train.conll", "--quiet --run", folder / "run")
    given = ("--folds 3 --epochs 20 --learning-rate 0.01 --encoder", tiny_encoder_folder, *QUICK)
    crossner("check-labels --format label-studio", *given, "--run", folder / "run")
    return folder / "run"


def read(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "check-labels" / name).read_text("utf-8").splitlines()]


def test_a_spoilt_label_is_the_first_suspect_at_its_line_of_the_users_file(run: Path) -> None:
    first = read(run, "suspects.jsonl")[0]
    assert " ".join(first) == FIELDS
    assert (first["rank"], first["sentence"], first["start"], first["end"]) == (1, 7, 0, 1)
    assert (first["gold"], first["found"], first["kind"]) == ("place", "person", "type")
    assert first["file"].endswith("train.conll") and first["line"] == 36
    assert (run / "folds" / "manifest.json").is_file()
    page = (run / "check-labels" / "suspects.html").read_text("utf-8")
    assert "train.conll:36" in page and "<script" not in page
    assert [(each["kind"], each["gold"]) for each in read(run, "inconsistencies.jsonl")] == [("rare type", "place")]


def test_folds_that_are_there_are_used_and_other_options_are_told(run: Path) -> None:

    shown = invoke("check-labels --name again", *QUICK, "--run", run)
    assert "the folds of" in shown.stderr and "train.conll:36" in shown.stdout and "[Carl]" in shown.stdout
    assert "epochs: 20 -> 3" in refused("check-labels --name other --epochs 3", *QUICK, "--run", run)
    assert "bartner does not tell" in refused("check-labels --name other --method bartner", *QUICK, "--run", run)


def test_tasks_hold_the_gold_label_and_what_the_others_say_and_come_back(run: Path, tmp_path: Path) -> None:
    tasks = json.loads((run / "check-labels" / "tasks.json").read_text("utf-8"))
    (gold,) = tasks[0]["annotations"]
    (other,) = tasks[0]["predictions"]
    assert [each["value"]["labels"] for each in gold["result"]] == [["place"], ["place"]]
    assert [each["value"]["labels"] for each in other["result"]] == [["person"], ["place"]]
    located = list(read_labelled(run / "check-labels" / "tasks.json", Repairs()))
    assert located[0].sentence.tags == ("B-place", "O", "O", "B-place")
    for name in ("prodigy", "doccano"):
        crossner("check-labels --name", name, "--format", name, *QUICK, "--run", run)
        first = json.loads((run / name / "tasks.jsonl").read_text("utf-8").splitlines()[0])
        assert first["meta"]["others say"] == "person: Carl, place: Paris"
        assert ("spans" in first) == (name == "prodigy") and ("label" in first) == (name == "doccano")
