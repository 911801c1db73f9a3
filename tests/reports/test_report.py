"""Reports of many runs: tables, curves, comparisons, published numbers, and what is told of what is missing."""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders.runs import damage, random_gold, write_evaluation, write_manifest, write_prepared, write_tagger
from typer.testing import CliRunner

from crossner_cli.cli import app
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import method_names
from crossner_cli.options import Report
from crossner_cli.reports import published
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.reports.curves import _series_of
from crossner_cli.reports.markdown import to_markdown
from crossner_cli.reports.measured import read_runs
from crossner_cli.reports.published import PAPERS, Way, published_results, way_of
from crossner_cli.reports.report_tables import report_tables
from crossner_cli.run.progress import exhaust
from crossner_cli.stages.report import run as report

WORDS, GOLD = random_gold(12)


def tags(share: float, *seeds: int) -> dict[str, Any]:
    return {str(seed): damage(GOLD, share, seed) for seed in seeds}


def make_run(
    path: Path, models: dict[str, dict[str, Any]], *, target: str = "music", train: int = 100, **tagger: Any
) -> Path:
    """A run whose models were all trained in one way."""
    write_prepared(path, target, train)
    inputs = {label: write_tagger(path, label, **{"method": label, **tagger}) for label in models}
    write_evaluation(path / "evaluate", WORDS, GOLD, models, target=target, inputs=inputs)
    return path


def go(*runs: Path, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = exhaust(report(Report(runs=list(runs), **options)))["result"]
    return result


def table_of(result: dict[str, Any], title: str) -> Table:
    blocks = report_tables({"result": result})
    return next(block for block in blocks if isinstance(block, Table) and title in block.title)


def lines_of(blocks: list[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Line))


@pytest.fixture
def two_targets(tmp_path: Path) -> list[Path]:
    models = {"linear": tags(0.4, 1, 2), "laner": tags(0.2, 1, 2)}
    return [make_run(tmp_path / target, models, target=target) for target in ("music", "ai")]


def test_models_are_rows_and_targets_columns(two_targets: list[Path]) -> None:
    result = go(*two_targets)
    table = table_of(result, "test F1, mean")
    assert table.columns == ("model", "method", "encoder", "start", "seeds", "music", "ai", "mean")
    assert [row[:5] for row in table.rows] == [
        ("linear", "linear", "minilm", "base", "2"), ("laner", "laner", "minilm", "base", "2"),
    ]  # fmt: skip
    model = result["models"][0]
    assert model["f1"]["mean"] == pytest.approx(statistics.fmean(model["seeds"].values()))
    assert f"{model['f1']['mean']:.2f} ± {model['f1']['deviation']:.2f}" == table.rows[0][5]
    first = report_tables({"result": result})[0]
    assert isinstance(first, Line) and first.is_headline and "the best of 4" in first.text


def test_models_given_by_path_are_called_by_the_end_of_it_and_named_whole_below(tmp_path: Path) -> None:
    labels = {"linear": tags(0.4, 1), "/far/away/linear": tags(0.2, 1)}
    run = make_run(tmp_path / "run", labels)
    for baseline in ("away/linear", "/far/away/linear"):
        result = go(run, baseline=baseline)
        assert [one["against"] for one in result["comparisons"]] == ["/far/away/linear"], "files keep the whole path"
        blocks = report_tables({"result": result})
        text = lines_of(blocks)
        assert "against away/linear" in text and "away/linear is /far/away/linear" in text
        assert [row[0] for row in table_of(result, "test F1, mean").rows] == ["linear", "away/linear"]
    with pytest.raises(CrossNERError, match=r"there are: linear, away/linear"):
        go(run, baseline="mine")


def test_a_folder_of_runs_stands_for_them_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for count in (100, 10, 20):
        make_run(tmp_path / str(count), {"linear": tags(1 / count, 1)}, train=count)
    result = go(tmp_path)
    assert [model["train_sentences"] for model in result["models"]] == [10, 20, 100]
    table = table_of(result, "test F1, mean")
    assert table.columns[4] == "sentences" and [row[4] for row in table.rows] == ["10", "20", "100"]


def test_a_rate_given_for_a_transformer_that_is_not_trained_names_no_encoder(tmp_path: Path) -> None:
    for transformer, name in (
        ("none", "word vectors"),
        ("frozen", "word vectors, minilm frozen"),
        ("trained", "minilm"),
    ):
        settings = [f"transformer={transformer}"]
        make_run(tmp_path / transformer, {"words": tags(0.1, 1)}, method="bilstm-crf", settings=settings)
        (measured,) = read_runs([tmp_path / transformer]).models
        assert measured.making is not None and measured.making.encoder == name


def test_what_is_unfinished_missing_or_of_another_encoder_is_told(tmp_path: Path) -> None:
    make_run(tmp_path / "one", {"linear": tags(0.3, 1)})
    (tmp_path / "one" / ".draft-laner").mkdir()
    make_run(tmp_path / "two", {"linear": tags(0.3, 2)}, encoder="bert-base-cased")
    write_prepared(tmp_path / "three")
    (tmp_path / "two" / "linear" / "manifest.json").unlink()
    make_run(tmp_path / "four", {"linear": tags(0.3, 3)}, encoder="bert-base-cased", train=50)
    notes = "\n".join(go(tmp_path)["notes"])
    assert "one: unfinished and left out: laner" in notes
    assert "three: no finished evaluate stage, so no test scores (finished stages: prepare-data)" in notes
    assert "two/evaluate: no manifest tells how these were made: linear" in notes
    assert "of several encoders stand side by side: bert-base-cased, minilm" in notes


def test_taggers_that_two_stages_scored_alike_count_once_and_anew_where_they_were_trained_again(tmp_path: Path) -> None:
    run, models = tmp_path / "run", {"one": tags(0.2, 1), "two": tags(0.3, 1)}
    make_run(run, models)
    inputs = json.loads((run / "evaluate" / "manifest.json").read_text())["inputs"]
    write_evaluation(run / "against", WORDS, GOLD, models, inputs=inputs)
    assert [model["model"] for model in go(run)["models"]] == ["one", "two"]
    write_evaluation(run / "other", WORDS, GOLD, {"one": tags(0.2, 1)}, inputs={"one": "another digest"})
    assert [model["model"] for model in go(run)["models"]] == ["one", "two", "one"]


def test_a_run_that_is_named_twice_counts_once_by_whatever_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", {"linear": tags(0.3, 1)})
    (tmp_path / "link").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    for names in (("run", "link"), ("run", "run/evaluate"), ("run/evaluate", "link"), (run, "run", "link/evaluate")):
        assert len(go(*map(Path, names))["models"]) == 1, names


def test_test_sentences_that_are_not_as_many_everywhere_are_told(tmp_path: Path) -> None:
    one, other = (make_run(tmp_path / name, {"linear": tags(0.3, 1)}) for name in ("one", "other"))
    assert "not the same everywhere" not in "\n".join(go(one, other)["notes"])
    manifest = other / "evaluate" / "manifest.json"
    record = json.loads(manifest.read_text())
    record["result"]["sentences"] = 7
    manifest.write_text(json.dumps(record))
    (note,) = [note for note in go(one, other)["notes"] if "not the same everywhere" in note]
    assert note.startswith("music test is not the same everywhere") and "; 7 of " in note


def test_lines_of_a_curve_that_is_not_drawn_are_told(tmp_path: Path) -> None:
    make_run(tmp_path / "run", {"linear": tags(0.3, 1)})
    assert "--series encoder is not read" in "\n".join(go(tmp_path / "run", series="encoder")["notes"])
    assert "is not read" not in "\n".join(go(tmp_path / "run")["notes"])


def test_a_place_that_is_no_run_and_runs_without_scores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CrossNERError, match="there is no such folder"):
        go(tmp_path / "missing")
    with pytest.raises(CrossNERError, match="holds no finished stage"):
        go(tmp_path)
    write_prepared(tmp_path)
    with pytest.raises(CrossNERError, match=r"no test scores in .*(?s:.*)no finished evaluate stage"):
        go(tmp_path)
    make_run(tmp_path / "run", {"linear": tags(0.3, 1)})
    with pytest.raises(CrossNERError, match="There are no dev scores"):
        go(tmp_path / "run", split="dev")
    with pytest.raises(CrossNERError, match="and report makes none"):
        go(tmp_path / "run", name="mine")


@pytest.mark.parametrize(
    "broken",
    [{"result": {"seeds": {"1": {"history": [1]}}}}, {"lineage": [{"stage": "dapt"}]}, {"lineage": 3},
     {"options": {"method": "linear", "settings": 1}, "lineage": []}, {"inputs": {"prepare-data": []}}],
)  # fmt: skip
def test_a_broken_manifest_is_a_known_problem(tmp_path: Path, broken: dict[str, Any]) -> None:
    run = make_run(tmp_path / "run", {"linear": tags(0.3, 1)})
    path = run / "linear" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **broken}))
    with pytest.raises(CrossNERError, match="'linear' .* is broken"):
        go(run)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CrossNERError, match="cannot be read"):
        go(run)


def test_two_models_are_compared_and_more_with_the_baseline_named(two_targets: list[Path]) -> None:
    (only,) = go(two_targets[0])["comparisons"]
    assert (only["model"], only["against"]) == ("laner", "linear")
    assert go(*two_targets)["comparisons"] == []
    found = go(*two_targets, baseline="linear")["comparisons"]
    assert [(one["model"], one["target"]) for one in found] == [("laner", "music"), ("laner", "ai")]
    (one,) = go(*two_targets, baseline="ai/laner")["comparisons"]
    assert (one["model"], one["against"], one["target"]) == ("linear", "laner", "ai")
    assert "+" in lines_of(report_tables({"result": go(two_targets[0])})[:1])
    with pytest.raises(CrossNERError, match="'coach' is none of the models .*linear, laner"):
        go(*two_targets, baseline="coach")


def test_a_baseline_that_stands_for_several_models_of_a_target_is_refused(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(number), {"linear": tags(0.3, number)}) for number in (1, 2)]
    with pytest.raises(CrossNERError, match="stands for several models on music: 1/linear, 2/linear"):
        go(*runs, baseline="linear")
    assert len(go(*runs, baseline=f"{runs[0]}/linear")["comparisons"]) == 1


def test_a_model_evaluated_in_several_stages_is_named_by_its_stage(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"linear": tags(0.3, 1)})
    write_evaluation(run / "any", WORDS, GOLD, {"linear": tags(0.4, 1)})
    with pytest.raises(CrossNERError, match=r"on music: any/linear, evaluate/linear\.") as error:
        go(run, baseline="linear")
    assert "--baseline evaluate/linear" in error.value.hint
    for name in ("any/linear", "run/any/linear", f"{run}/any/linear"):
        (found,) = go(run, baseline=name)["comparisons"]
        assert found["against_place"] == str(run / "any")


def test_rows_of_comparisons_tell_decoding_and_place_where_both_sides_are_not_of_one(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, {"a": tags(0.3, 1), "b": tags(0.4, 2)}) for name in ("70", "100")]
    write_evaluation(runs[0] / "any", WORDS, GOLD, {"a": tags(0.5, 3)}, decoding="any")
    table = table_of(go(*runs, baseline="70/evaluate/b"), "Compared on the same sentences")
    names = [row[:2] for row in table.rows]
    assert len(set(names)) == len(names) == 4
    assert ("a", "b") in names and (f"b of {runs[1]}/evaluate", f"b of {runs[0]}/evaluate") in names
    assert (f"a (any) of {runs[0]}/any", f"b of {runs[0]}/evaluate") in names


def test_targets_without_the_baseline_are_told(two_targets: list[Path]) -> None:
    result = go(*two_targets, baseline="ai/laner")
    assert "Not compared, since there is no ai/laner: music." in result["notes"]


def test_models_that_no_comparison_holds_are_told_and_no_others(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"linear": tags(0.4, 1), "/far/away/laner": tags(0.2, 1)})
    assert not [note for note in go(run, baseline="laner")["notes"] if "Not compared" in note], (
        "laner is its short name"
    )
    write_evaluation(run / "strict", WORDS, GOLD, {"crf": tags(0.3, 1)}, mode="strict")
    notes = go(run, baseline="linear")["notes"]
    assert "Not compared with linear, whose tags were read as conll: crf (strict)." in notes
    result = go(run, baseline="crf")
    assert result["comparisons"] == []
    assert any(
        note.startswith("Not compared with crf, whose tags were read as strict: linear") for note in result["notes"]
    )


def test_runs_of_other_test_sentences_are_not_compared(tmp_path: Path) -> None:
    first = make_run(tmp_path / "1", {"linear": tags(0.3, 1)})
    second = make_run(tmp_path / "2", {"laner": tags(0.3, 1)})
    inputs = {"laner": write_tagger(second, "laner", method="laner")}
    changed = [["else", *WORDS[0][1:]], *WORDS[1:]]
    write_evaluation(second / "evaluate", changed, GOLD, {"laner": tags(0.3, 1)}, inputs=inputs)
    result = go(first, second)
    assert result["comparisons"] == [] and "Not compared: Sentence 1 has other words" in result["notes"][-1]
    with pytest.raises(CrossNERError, match="Sentence 1 has other words"):
        go(first, second, baseline="linear")


def test_f1_is_drawn_against_target_sentences_over_seeds(tmp_path: Path) -> None:
    for count in (10, 40):
        make_run(tmp_path / str(count), {"linear": tags(0.4, 1, 2), "laner": tags(0.2, 1, 2)}, train=count)
    result = go(tmp_path, x="train-sentences")
    curves = result["curves"]
    assert {name: [point["x"] for point in points] for name, points in curves["series"].items()} == {
        "linear": [10, 40], "laner": [10, 40],
    }  # fmt: skip
    of_ten = next(model for model in result["models"] if model["method"] == "laner")
    point = curves["series"]["laner"][0]
    assert point["values"] == list(of_ten["seeds"].values()) and point["mean"] == pytest.approx(of_ten["f1"]["mean"])
    table = table_of(result, "by labelled target sentences")
    assert [row[0] for row in table.rows] == ["10", "40"] and table.columns[1:] == ("linear", "laner")
    regime = go(tmp_path, x="train-sentences", series="regime")["curves"]["series"]
    assert list(regime) == ["finetune (linear)", "finetune (laner)"]


def test_settings_and_shares_of_the_corpus_can_be_the_axis(tmp_path: Path) -> None:
    write_prepared(tmp_path)
    inputs = {}
    for share in ("0.1", "1"):
        digest = write_manifest(tmp_path / f"dapt-{share}", "dapt", options={"corpus_share": float(share)})
        chain = [{"stage": "dapt", "name": f"dapt-{share}", "digest": digest}]
        inputs[f"from-{share}"] = write_tagger(tmp_path, f"from-{share}", lineage=chain, settings=["label-size=5"])
    inputs["base"] = write_tagger(tmp_path, "base", settings=["label_size=50"])
    models = {label: tags(0.3, number) for number, label in enumerate(inputs)}
    write_evaluation(tmp_path / "evaluate", WORDS, GOLD, {**models, "gone": tags(0.3, 9)}, inputs=inputs)
    curves = go(tmp_path, x="corpus-share")["curves"]
    assert [point["x"] for point in curves["series"]["linear"]] == [0, 0.1, 1]
    assert "since no manifest tells how it was made: gone" in curves["notes"][0]
    sizes = go(tmp_path, x="label-size")["curves"]["series"]
    assert sorted(point["x"] for points in sizes.values() for point in points) == [5, 5, 50]
    assert "linear (from-0.1)" in sizes  # two models of one method at one place are told apart
    with pytest.raises(CrossNERError, match="--x colour: none of the models has a number for it"):
        go(tmp_path, x="colour")
    with pytest.raises(CrossNERError, match="--series colour: none of the models has such an option"):
        go(tmp_path, x="corpus-share", series="colour")
    without = SimpleNamespace(settings={"embeddings": None})
    assert _series_of(without, "a", "run", "embeddings") == "embeddings none"  # type: ignore[arg-type]
    sizes = go(tmp_path, x="corpus-share", series="label-size")["curves"]
    assert set(sizes["series"]) == {"label-size 5", "label-size 50"}
    inputs["plain"] = write_tagger(tmp_path, "plain")
    write_evaluation(tmp_path / "more", WORDS, GOLD, {"plain": tags(0.2, 5)}, inputs=inputs)
    notes = go(tmp_path, x="corpus-share", series="label-size")["curves"]["notes"]
    assert "1 left out of the curves, since it has no label-size: plain" in notes


def test_dev_f1_of_each_epoch_needs_no_evaluation(tmp_path: Path) -> None:
    write_prepared(tmp_path)
    write_tagger(tmp_path, "finetune", history={"1": [10.0, 30.0], "2": [20.0]})
    curves = go(tmp_path, x="epoch")["curves"]
    (points,) = curves["series"].values()
    assert curves["y"] == "dev F1"
    assert [(point["x"], point["mean"], len(point["values"])) for point in points] == [(1, 15.0, 2), (2, 30.0, 1)]


def test_files_scored_against_each_other_are_reported_beside_runs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"linear": tags(0.4, 1)})
    write_evaluation(run / "files", WORDS, GOLD, {"theirs.conll": tags(0.2, 1)}, target="music", split=None)
    result = go(run)
    assert [model["model"] for model in result["models"]] == ["linear", "theirs.conll"]
    assert not any("left out" in note for note in result["notes"]) and len(result["comparisons"]) == 1
    alone = report_tables({"result": go(run / "files", split="dev")})
    assert "on music, the best of 1" in lines_of(alone), "two files are of no split"
    assert any(isinstance(block, Table) and block.title.startswith("F1, mean") for block in alone)


def test_dev_f1_of_the_source_is_not_drawn_as_the_target_s(tmp_path: Path) -> None:
    write_prepared(tmp_path)
    write_tagger(tmp_path, "finetune", history={"1": [10.0, 30.0]})
    write_tagger(tmp_path, "source", stage="pretrain-source", history={"1": [90.0, 93.0]})
    series = go(tmp_path, x="epoch")["curves"]["series"]
    (of_source,) = [name for name in series if "source's dev" in name]
    assert [point["mean"] for point in series[of_source]] == [90.0, 93.0] and len(series) == 2


def test_the_files_of_a_report_are_whole_and_the_same_each_time(tmp_path: Path, two_targets: list[Path]) -> None:
    pytest.importorskip("matplotlib")
    output = tmp_path / "out" / "report"
    with pytest.raises(CrossNERError, match="There is no folder"):
        go(*two_targets, output=output)
    output.parent.mkdir()
    result = go(*two_targets, x="epoch", baseline="linear", published=True, output=output)
    names = {"report.json", "report.csv", "report.md", "curve.csv", "curve-epoch.png", "curve-epoch.svg"}
    assert {path.name for path in output.iterdir()} == names == set(result["written"])
    assert [path.name for path in output.parent.iterdir()] == ["report"]
    assert json.loads((output / "report.json").read_text())["result"]["models"] == result["models"]
    with (output / "report.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["f1"]) for row in rows] == [f1 for model in result["models"] for f1 in model["seeds"].values()]
    assert (output / "curve-epoch.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (output / "curve-epoch.svg").read_text()
    before = {path.name: path.read_bytes() for path in output.iterdir() if path.name != "report.json"}
    with pytest.raises(CrossNERError, match="report exists."):
        go(*two_targets, output=output)
    go(*two_targets, x="epoch", baseline="linear", published=True, output=output, force=True)
    assert before == {path.name: path.read_bytes() for path in output.iterdir() if path.name != "report.json"}


def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path, two_targets: list[Path]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    for force in (False, True):
        with pytest.raises(CrossNERError, match=r"is none that this command made \(it has no report\.json\)"):
            go(*two_targets, output=tmp_path / "mine", force=force)
    with pytest.raises(CrossNERError, match=r"is none that this command made \(it has no report\.json\)"):
        go(*two_targets, output=tmp_path / "mine" / "thesis.tex")


def test_without_matplotlib_plots_are_refused_with_the_way_out(
    tmp_path: Path, two_targets: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CrossNERError, match="matplotlib") as error:
        go(*two_targets, x="epoch", output=tmp_path / "report")
    assert "pip install 'crossner[plots]'" in error.value.hint and not (tmp_path / "report").exists()
    assert go(*two_targets, x="epoch")["curves"]


def test_published_numbers_stand_apart_with_their_encoder(two_targets: list[Path]) -> None:
    result = go(*two_targets, published=True)
    measured = table_of(result, "test F1, mean")
    table = table_of(result, "Published, not measured here: Liu et al. (2021), CrossNER, table 2")
    assert ("bert-base-cased", "BERT tagger; directly fine-tune; w/o DAPT", "none", "66.59", "50.37") in table.rows
    assert not {"66.59", "50.37"} & {cell for row in measured.rows for cell in row}
    assert "older than their correction" in lines_of(report_tables({"result": result}))


def test_published_rows_are_shown_where_method_regime_and_adaptation_were_measured(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"linear": tags(0.3, 1)})
    result = go(run, published=True, output=tmp_path / "report")
    shown = [row[1] for block in report_tables({"result": result}) if isinstance(block, Table)
             and "Published" in block.title for row in block.rows]  # fmt: skip
    assert shown == [
        "BERT tagger; directly fine-tune; w/o DAPT", "BERT-tagger; w/o LB+LC",
        "BERT tagger (w/o DAPT); in-domain training only",
    ]  # fmt: skip
    assert f": {tmp_path / 'report' / 'report.md'}" in lines_of(report_tables({"result": result}))
    whole = (tmp_path / "report" / "report.md").read_text()
    assert "Multi-Cell LSTM" in whole and "Published rows of other" not in whole
    rows = published_results(["music"])
    adapted = {(row.method, row.variant) for row in rows if way_of(row).is_like(Way("laner", None, True))}
    assert ("LANER", "DAPT; LB+LC") in adapted and ("LANER", "BERT; LB+LC") in adapted
    assert not any(way_of(row).is_adapted for row in rows if row.encoder.startswith("GloVe"))


def test_methods_of_papers_are_methods_that_can_be_chosen() -> None:
    assert {name for _, name in published.METHODS} <= set(method_names())


@pytest.mark.parametrize(
    ("printed", "method"),
    [
        ("BILSTM-BASED", "multi-task-lstm"), ("MULTITASK(NER)", "multi-task-lstm"),
        ("MULTITASK(NER+LM)", "cross-domain-lm"), ("STM-TARGET", "cross-domain-lm"), ("CO-NER", "cross-domain-lm"),
        ("BILSTM+LM+DICT", "cross-domain-lm"), ("STACKED BILSTMS", "multi-task-lstm"), ("Flair", "bilstm-crf"),
        ("MULTI-CELL LSTM+LM", "multi-cell-lstm"), ("BERT-BASE", None),
    ],
)  # fmt: skip
def test_rows_of_papers_stand_beside_the_method_that_the_recipes_run_them_with(
    printed: str, method: str | None
) -> None:
    rows = [row for row in published_results() if row.method == printed]
    assert rows and {way_of(row).method for row in rows} == {method}


def test_a_target_that_no_paper_has_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"linear": tags(0.3, 1)}, target="chess")
    assert "The five papers print no F1 on chess." in go(run, published=True)["notes"]


def test_every_published_number_names_its_encoder_and_means_are_those_of_the_five() -> None:
    numbers = published_results()
    assert {number.paper for number in numbers} == set(PAPERS)
    assert len(numbers) > 350 and all(number.encoder and 0 < number.value < 100 for number in numbers)
    rows: dict[Any, dict[str, float]] = {}
    for number in numbers:
        rows.setdefault(number.row, {})[number.target] = number.value
    means = {row: values for row, values in rows.items() if "average" in values}
    assert len(means) >= 40
    for row, values in means.items():
        five = statistics.fmean(values[name] for name in ("politics", "science", "music", "literature", "ai"))
        # One printed mean is off by more than rounding: LANER's ablation without label context.
        assert values["average"] == pytest.approx(five, abs=0.08 if row[3] == "BERT; w/o LC" else 0.025)
    by_type = published_results(["music:song"])
    assert len(by_type) == 4 and {number.table for number in by_type} == {"Table 4"}


def test_markdown_keeps_tables_whole_whatever_names_hold() -> None:
    table = Table("a_b", ("model", "F1"), [("x|y\nz", "1.00")])
    assert to_markdown([Line("<b>", True), table], level=3) == (
        "**\\<b\\>**\n\n### a\\_b\n\n| model | F1 |\n| --- | ---: |\n| x\\|y z | 1.00 |\n"
    )


def test_the_command_shows_tables_or_json(two_targets: list[Path]) -> None:
    shown = CliRunner().invoke(app, ["report", *map(str, two_targets), "--baseline", "linear"])
    assert shown.exit_code == 0 and "95 % interval" in shown.stdout and "laner" in shown.stdout
    as_json = CliRunner().invoke(app, ["report", str(two_targets[0]), "--json"])
    assert json.loads(as_json.stdout)["result"]["models"][0]["model"] == "linear"
    refused = CliRunner().invoke(app, ["report", str(two_targets[0] / "missing")])
    assert refused.exit_code == 1 and "Way out:" in refused.stderr


def test_a_table_of_runs_loads_nothing_heavy(two_targets: list[Path]) -> None:
    code = (
        "import sys; from crossner_cli.cli import app\n"
        f"try: app(['report', {str(two_targets[0])!r}, {str(two_targets[1])!r}, '--quiet'])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'torch', 'transformers', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
