"""Reports of many runs: tables, comparisons, published numbers, files, and what is noted of what is missing."""

import csv
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders.results import assert_fits
from builders.runs import damage, make_run, random_gold, write_evaluation, write_prepared, write_tagger
from typer.testing import CliRunner

from crossner_cli.cli import app
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Report
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.reports.report_tables import ReportResult, report_tables
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import exhaust
from crossner_cli.run.records import read_result
from crossner_cli.stages.report import run as report

WORDS, GOLD = random_gold(12)


def go(*runs: Path, **options: Any) -> ReportResult:
    return read_result(exhaust(report(RunDirectory(Path()), Report(runs=list(runs), **options))), ReportResult)


def table_of(result: ReportResult, title: str) -> Table:
    return next(block for block in report_tables(result) if isinstance(block, Table) and title in block.title)


def lines_of(blocks: list[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Line))


def labels(result: ReportResult) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in result.models))


@pytest.fixture
def two_targets(tmp_path: Path) -> list[Path]:
    shares = {"linear": {"1": 0.4, "2": 0.4}, "laner": {"1": 0.2, "2": 0.2}}
    return [make_run(tmp_path / target, shares, target=target) for target in ("music", "ai")]


def test_models_are_rows_and_targets_columns(two_targets: list[Path], tmp_path: Path) -> None:
    result = go(*two_targets)
    table = table_of(result, "test F1, mean ± deviation over seeds")
    assert table.columns == ("model", "method", "seeds", "music", "ai", "mean")
    assert [row[0] for row in table.rows] == ["linear", "laner"]
    values = [row["f1"] for row in result.models if (row["model"], row["target"]) == ("linear", "music")]
    assert table.rows[0][3] == f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"
    means = [statistics.fmean(row["f1"] for row in result.models if row["model"] == name) for name in labels(result)]
    assert [row[-1] for row in table.rows] == [f"{mean:.2f}" for mean in means]
    first = report_tables(result)[0]
    assert isinstance(first, Line) and first.is_headline and "the highest of 4" in first.text
    # A target without a score has no mean, and seeds that differ are counted.
    make_run(tmp_path / "1", {"linear": {"1": 0.4, "2": 0.4}, "laner": {"1": 0.4}})
    make_run(tmp_path / "2", {"linear": {"1": 0.4}}, target="ai")
    table = table_of(go(tmp_path / "1", tmp_path / "2"), "test F1")
    assert table.columns == ("model", "method", "seeds", "music", "ai", "mean")
    assert [row[2] for row in table.rows] == ["1/2", "1"]
    assert table.rows[1][4:] == ("–", "–") and "±" in table.rows[0][3]


def test_runs_of_one_model_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    for count in (10, 20):
        make_run(tmp_path / str(count), {"linear": {"1": 0.1}}, train=count)
    table = table_of(go(tmp_path), "test F1")
    assert table.columns == ("model", "sentences", "seeds", "music") and [row[1] for row in table.rows] == ["10", "20"]
    curve = table_of(go(tmp_path, x="train-sentences"), "by labelled target sentences")
    assert curve.columns == ("labelled target sentences", "linear") and [row[0] for row in curve.rows] == ["10", "20"]
    make_run(tmp_path / "30", {"linear": {"1": 0.1}}, train=10)
    table = table_of(go(tmp_path), "test F1")
    assert table.columns == ("model", "sentences", "corpus", "from", "seeds", "music")
    assert [row[3] for row in table.rows] == [f"{tmp_path}/{count}/evaluate" for count in (10, 20, 30)]


def test_runs_without_scores_are_refused(tmp_path: Path) -> None:
    write_prepared(tmp_path)
    with pytest.raises(CrossNERError, match=r"no test scores in "):
        go(tmp_path)
    with pytest.raises(CrossNERError, match="There are no dev scores"):
        go(make_run(tmp_path / "run", {"linear": {"1": 0.3}}), split="dev")


def test_two_models_are_compared_and_more_with_the_baseline_named(two_targets: list[Path]) -> None:
    (only,) = go(two_targets[0]).comparisons
    assert (only["model"], only["against"]) == ("laner", "linear")
    assert go(*two_targets).comparisons == []
    found = go(*two_targets, baseline="linear").comparisons
    assert [(one["model"], one["target"]) for one in found] == [("laner", "music"), ("laner", "ai")]
    result = go(*two_targets, baseline="ai/laner")
    (one,) = result.comparisons
    assert (one["model"], one["against"], one["target"]) == ("linear", "laner", "ai")
    assert any(note.startswith("Not compared, without ai/laner") and "music" in note for note in result.notes)
    assert "+" in lines_of(report_tables(go(two_targets[0]))[:1])
    with pytest.raises(CrossNERError, match="'coach' is not one of the models .*linear, laner"):
        go(*two_targets, baseline="coach")


def test_a_baseline_that_stands_for_several_models_is_refused_with_their_names(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(number), {"linear": {str(number): 0.3}}) for number in (1, 2)]
    with pytest.raises(CrossNERError, match="several models on music: .*/1/evaluate/linear, .*/2/evaluate/linear"):
        go(*runs, baseline="linear")
    assert len(go(*runs, baseline=f"{runs[0]}/linear").comparisons) == 1
    write_evaluation(runs[0] / "any", WORDS, GOLD, {"linear": {"1": damage(GOLD, 0.4, 1)}})
    with pytest.raises(CrossNERError, match=r"any/linear, .*evaluate/linear\.") as error:
        go(runs[0], baseline="linear")
    assert f"--baseline {runs[0]}/evaluate/linear" in error.value.hint
    for name in ("any/linear", "1/any/linear", f"{runs[0]}/any/linear"):
        (found,) = go(runs[0], baseline=name).comparisons
        assert found["against_place"] == str(runs[0] / "any")


def test_runs_of_other_test_sentences_are_not_compared(tmp_path: Path) -> None:
    first = make_run(tmp_path / "1", {"linear": {"1": 0.3}})
    second = make_run(tmp_path / "2", {"laner": {"1": 0.3}})
    changed = [["else", *WORDS[0][1:]], *WORDS[1:]]
    inputs = {"laner": write_tagger(second, "laner", method="laner")}
    write_evaluation(second / "evaluate", changed, GOLD, {"laner": {"1": damage(GOLD, 0.3, 1)}}, inputs=inputs)
    result = go(first, second)
    assert result.comparisons == [] and "Not compared: Sentence 1 has other words" in result.notes[-1]
    with pytest.raises(CrossNERError, match="Sentence 1 has other words"):
        go(first, second, baseline="linear")


def test_the_files_of_a_report_are_whole_and_the_same_each_time(tmp_path: Path, two_targets: list[Path]) -> None:
    pytest.importorskip("matplotlib")
    output = tmp_path / "out" / "report"
    output.parent.mkdir()
    options: dict[str, Any] = {"x": "epoch", "baseline": "linear", "published": True, "output": output}
    result = go(*two_targets, **options)
    names = {"report.json", "report.csv", "report.md", "curve.csv", "curve-epoch.png", "curve-epoch.svg"}
    assert {path.name for path in output.iterdir()} == names == set(result.written)
    assert [path.name for path in output.parent.iterdir()] == ["report"]
    assert json.loads((output / "report.json").read_text())["result"]["models"] == result.models
    with (output / "report.csv").open() as stream:
        assert [float(row["f1"]) for row in csv.DictReader(stream)] == [row["f1"] for row in result.models]
    assert (output / "curve-epoch.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (output / "curve-epoch.svg").read_text()
    before = {path.name: path.read_bytes() for path in output.iterdir() if path.name != "report.json"}
    with pytest.raises(CrossNERError, match="report exists."):
        go(*two_targets, output=output)
    go(*two_targets, **options, force=True)
    assert before == {path.name: path.read_bytes() for path in output.iterdir() if path.name != "report.json"}


def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    tmp_path: Path, two_targets: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    for force in (False, True):
        with pytest.raises(CrossNERError, match=r"report\.json"):
            go(*two_targets, output=tmp_path / "mine", force=force)
    with pytest.raises(CrossNERError, match="There is no folder"):
        go(*two_targets, output=tmp_path / "out" / "report")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CrossNERError, match="matplotlib") as error:
        go(*two_targets, x="epoch", output=tmp_path / "report")
    assert "crossner[plots]" in error.value.hint and not (tmp_path / "report").exists()
    assert go(*two_targets, x="epoch").curves


def test_published_numbers_stand_apart_with_their_encoder(two_targets: list[Path], tmp_path: Path) -> None:
    result = go(*two_targets, published=True, output=tmp_path / "report")
    measured = table_of(result, "test F1")
    table = table_of(result, "Published, not measured here: Liu et al. (2021), CrossNER, table 2")
    assert ("BERT tagger; directly fine-tune; w/o DAPT; bert-base-cased", "none", "66.59", "50.37") in table.rows
    assert not {"66.59", "50.37"} & {cell for row in measured.rows for cell in row}
    assert "before their labels were corrected" in lines_of(report_tables(result))
    assert "Multi-Cell LSTM" not in (tmp_path / "report" / "report.md").read_text(), "another method"
    run = make_run(tmp_path / "run", {"linear": {"1": 0.3}}, target="chess")
    assert any("The five papers print no F1" in note for note in go(run, published=True).notes)


@pytest.mark.parametrize("width", [80, 100])
def test_every_table_fits_and_its_column_heads_stay_whole(
    tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = {"linear": {"1": 0.4, "2": 0.5}, "multi-cell-lstm": {"1": 0.2, "2": 0.3}}
    for count, target in ((10, "literature"), (20, "literature"), (30, "music")):
        make_run(tmp_path / f"{target}-{count}", shares, target=target, train=count)
    one = tmp_path / "literature-10"
    for result in (go(one), go(tmp_path, published=True), go(one, baseline="linear", x="train-sentences")):
        assert_fits(report_tables(result), width, monkeypatch)


def test_the_command_shows_tables_or_json(two_targets: list[Path]) -> None:
    shown = CliRunner().invoke(app, ["report", *map(str, two_targets), "--baseline", "linear"])
    assert (
        shown.exit_code == 0
        and "no measurable difference between laner and linear on music" in shown.stdout
        and "laner" in shown.stdout
    )
    as_json = CliRunner().invoke(app, ["report", str(two_targets[0]), "--json"])
    assert json.loads(as_json.stdout)["result"]["models"][0]["model"] == "linear"
    refused = CliRunner().invoke(app, ["report", str(two_targets[0] / "missing")])
    assert refused.exit_code == 1 and "Way out:" in refused.stderr


def test_a_table_of_runs_loads_nothing_heavy(two_targets: list[Path]) -> None:
    code = (
        "import sys; from crossner_cli.cli import app\n"
        f"try: app(['report', {str(two_targets[0])!r}, {str(two_targets[1])!r}, '--quiet'])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'torch', 'transformers', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
