"""Curves of F1, named by what tells them apart."""

from pathlib import Path

import pytest
from builders.runs import damage, make_run, random_gold, write_evaluation, write_manifest, write_prepared, write_tagger

from crossner_cli.errors import CrossNERError
from crossner_cli.reports.report_tables import Curves, draw_curves
from crossner_cli.reports.runs import read_runs

WORDS, GOLD = random_gold(12)


def curves_of(path: Path, x: str, notes: list[str] | None = None) -> Curves:
    found = read_runs([path])
    return draw_curves(found.trained, found.models, x, [] if notes is None else notes)


def places(curves: Curves) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, place in curves.cells().index:
        found.setdefault(name, []).append(place)
    return found


def test_f1_is_drawn_against_target_sentences_over_seeds_and_named_by_what_varies(tmp_path: Path) -> None:
    shares = {"linear": {"1": 0.4, "2": 0.4}, "laner": {"1": 0.2, "2": 0.2}}
    for count in (10, 40):
        make_run(tmp_path / "runs" / str(count), shares, train=count)
    curves = curves_of(tmp_path / "runs", "train-sentences")
    assert places(curves) == {"linear": [10, 40], "laner": [10, 40]}
    (laner,) = (model for model in read_runs([tmp_path / "runs" / "10"]).models if model.label == "laner")
    scores = laner.model.scores
    f1 = [point["f1"] for point in curves.points if (point["series"], point["x"]) == ("laner", 10)]
    assert f1 == [each.f1 for each in scores.seeds.values()]
    assert list(curves.cells().loc["laner", 10]) == pytest.approx([scores.f1.mean, scores.f1.deviation])
    source = [{"stage": "pretrain-source", "name": "source", "digest": "0"}]
    make_run(tmp_path / "ways" / "one", {"linear": {"1": 0.4}}, train=10)
    make_run(tmp_path / "ways" / "two", {"linear": {"1": 0.4}}, train=10, lineage=source)
    assert set(places(curves_of(tmp_path / "ways", "train-sentences"))) == {"finetune", "pretrain-source > finetune"}


def test_settings_and_shares_of_the_corpus_can_be_the_axis(tmp_path: Path) -> None:
    write_prepared(tmp_path)
    inputs = {}
    for share in ("0.1", "1"):
        digest = write_manifest(tmp_path / f"dapt-{share}", "dapt", options={"corpus_share": float(share)})
        chain = [{"stage": "dapt", "name": f"dapt-{share}", "digest": digest}]
        inputs[f"from-{share}"] = write_tagger(tmp_path, f"from-{share}", lineage=chain, label_size=5)
    inputs["base"] = write_tagger(tmp_path, "base", label_size=50)
    models = {label: {"1": damage(GOLD, 0.3, number)} for number, label in enumerate([*inputs, "gone"])}
    write_evaluation(tmp_path / "evaluate", WORDS, GOLD, models, inputs=inputs)
    notes: list[str] = []
    assert places(curves_of(tmp_path, "corpus-share", notes)) == {"linear": [0.1, 1, 0]}
    assert notes == ["1 of 4 models are left out of the curves: their corpus-share is not known."]
    # Two models of one method at one place are told apart by their names.
    assert places(curves_of(tmp_path, "label-size")) == {
        "linear, from-0.1": [5],
        "linear, from-1": [5],
        "linear, base": [50],
    }
    with pytest.raises(CrossNERError, match="--x colour: none of the models has a number for it"):
        curves_of(tmp_path, "colour")


def test_dev_f1_of_each_epoch_needs_no_evaluation_and_the_source_s_is_another_curve(tmp_path: Path) -> None:
    write_prepared(tmp_path)
    write_tagger(tmp_path, "finetune", history={"1": [10.0, 30.0], "2": [20.0]})
    write_tagger(tmp_path, "source", stage="pretrain-source", history={"1": [90.0, 93.0]})
    curves = curves_of(tmp_path, "epoch")
    assert curves.y == "dev F1"
    means = curves.cells()["mean"]
    assert means["finetune"].to_dict() == {1: 15.0, 2: 30.0}
    assert means["pretrain-source"].to_dict() == {1: 90.0, 2: 93.0}
