"""Tables of every stage: the number that matters first, every number whole, at any width."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.results import adapted, adapted_strings, assert_fits, evaluated, exported, tagged, trained

from crossner_cli import console
from crossner_cli.console import print_blocks
from crossner_cli.data.domains import bundled_domains, known_domains
from crossner_cli.options_data import PrepareData
from crossner_cli.reports.blocks import Block, Line
from crossner_cli.reports.evaluation_tables import result_tables
from crossner_cli.reports.methods import describe_methods, method_details, method_tables
from crossner_cli.reports.tables import known_domain_tables, prepared_tables
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import exhaust
from crossner_cli.run.records import read_result
from crossner_cli.run.results import EvaluateResult, PrepareDataResult
from crossner_cli.stages import prepare_data, status
from crossner_cli.stages.table import make_tables


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The manifest of the bundled sample."""
    run = tmp_path_factory.mktemp("run")
    sample = [Path("sample-target")]
    options = PrepareData(
        run=run, source=["sample-source"], target="sample-target", corpus=sample, entities=sample, weak_labels=True
    )
    return {**exhaust(prepare_data.run(RunDirectory(run), options)), "run": str(run)}


def shown(manifest: Manifest, capsys: pytest.CaptureFixture[str]) -> str:
    console.show_manifest(manifest)
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_prepared_data_are_counted_by_domain_split_and_type(
    prepared: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = {**prepared["result"], "repairs": {"source": {"odd [x] tags": 1234}}, "warnings": ["mind [the] gap"]}
    text = shown({**prepared, "result": result}, capsys)
    for domain in result["domains"].values():
        assert domain["name"] in text
        for counts in domain["splits"].values():
            assert f"{counts['words']:,}" in text
    assert "Entity types of the target: 7, 3 of them new (spacecraft, astronomicalobject, telescope)" in text
    for level, counts in result["corpus"]["levels"].items():
        assert re.search(rf"{level} +{counts['sentences']:,} ", text)
    assert re.search(r"Labelled by names, in weak-labels/: \d+ sentences, [\d,]+ names", text)
    assert "Vocabulary overlap" not in text, "a screen has what matters"
    full = list(text_of(prepared_tables(read_result(prepared, PrepareDataResult), is_short=False)))
    assert any("Vocabulary overlap" in cell for cell in full) and "telescope" in full
    assert re.search(r"odd \[x\] tags +1,234", text)
    assert "Warning: mind [the] gap" in text
    console.show_manifest({**prepared, "name": "päckchen"}, json=True)
    line = capsys.readouterr().out
    assert json.loads(line)["name"] == "päckchen" and line.isascii() and line.count("\n") == 1
    work = prepare_data.run(RunDirectory(tmp_path), PrepareData(run=tmp_path, target="sample-target"))
    alone = shown(exhaust(work), capsys)
    assert "sample-target" in alone and "source" not in alone


def test_the_number_that_matters_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(trained(61.2), capsys).startswith("finetune: dev F1 61.20\n")
    assert shown(trained(60.0, 62.5), capsys).startswith("finetune: dev F1 61.25 ± 1.77 over 2 seeds\n")
    assert shown(adapted(), capsys).startswith("dapt-token: held-out perplexity 5,432.10 -> 12.30 (chance: 30,522)\n")
    strings = shown(adapted_strings(), capsys)
    assert strings.startswith("strings: held-out perplexity a character 50.00 -> 5.00 (chance: 99)\n")
    few = adapted()
    few["result"]["updates"] = 12
    assert "Warning: 12 updates on 512,000 subwords of text change a model little" in shown(few, capsys)
    console.show_warnings(few)  # of --quiet
    assert capsys.readouterr().err.startswith("Warning: 12 updates on 512,000 subwords of text")
    assert "no held-out text" in shown(adapted(None, None), capsys)


def test_one_model_is_shown_by_type_and_several_are_shown_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(evaluated(("mind the gap",), finetune=[61.0, 62.0]), capsys)
    assert text.startswith("F1 61.50 ± 0.75 on politics test\n")
    assert re.search(r"F1 +61\.50 ± 0\.75\n", text)
    assert re.search(r"repaired tags +1,234\n", text) and "repaired tags in gold" not in text
    assert "F1 by entity type: per_type.csv; lowest of finetune: planet 1.25, star 4.25\n" in text
    assert "types it does not know: moon" in text and "Warning: mind the gap" in text
    text = shown(evaluated(finetune=[61.0], joint=[63.0, 64.0]), capsys)
    assert re.search(r"score +finetune +joint\n", text)
    assert re.search(r"F1 +61\.00 +63\.50 ± 0\.75\n", text)
    assert "lowest of joint: planet 1.25, star 4.25\n" in text
    text = shown(evaluated(**{f"a/long/{name}/path/to/predictions.jsonl": [61.0] for name in ("one", "two")}), capsys)
    assert re.search(r" one/path/to/ +two/path/to/ *\nscore +predictions\.jsonl +predictions\.jsonl\n", text)
    assert "one/path/to/predictions.jsonl is a/long/one/path/to/predictions.jsonl\n" in text


def test_tagging_and_exporting_tell_what_they_found_and_what_they_could_not_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.show_manifest(tagged(), to_stderr=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "predict: 1,234 entities in 5,000 sentences, 98,765 words, 4,321 words/s",
        "star 1,200, planet 34",
        "entities left out, as they score too low: 1,300",
        "blank documents: 2",
        "unreadable words: 7",
        "discarded sequences: 11",
        "odd lines: 3",
        "Written to out/entities.jsonl",
    ]
    assert re.search(r"ONNX int8 +61\.25 +12 +3,100 +1\.00 +90\.0 MB", shown(exported(), capsys))
    assert "Nothing was measured" in shown(exported(sentences=0), capsys)


def all_manifests(prepared: Manifest) -> list[Manifest]:
    """A manifest of every stage."""
    models = {"one": [1.0], "two": [2.0, 3.0]}
    stages = [prepared, trained(60.0, 62.5), adapted(), adapted_strings(), evaluated(**models), tagged(), exported()]
    return [*stages, exported(sentences=0)]


def text_of(blocks: list[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Line):
            yield block.text
        else:
            for row in (block.columns, *block.rows, *block.summary):
                assert len(row) == len(block.columns)
                yield from row


def test_every_cell_of_every_table_is_printed_at_the_one_width_of_pipes(
    prepared: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for manifest in all_manifests(prepared):
        blocks, printed = make_tables(manifest), set()
        for columns in ("20", "200"):
            monkeypatch.setenv("COLUMNS", columns)
            stream = io.StringIO()
            print_blocks(blocks, stream)
            printed.add(stream.getvalue())
        (text,) = printed
        assert "\x1b" not in text and "…" not in text
        assert all(part in text for cell in text_of(blocks) for part in cell.split())


@pytest.mark.parametrize("width", [80, 100])
def test_every_table_fits_and_its_column_heads_stay_whole(
    prepared: Manifest, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for manifest in all_manifests(prepared):
        assert_fits(make_tables(manifest), width, monkeypatch)
        if manifest["stage"] == "evaluate":
            assert_fits(result_tables(read_result(manifest, EvaluateResult), is_short=False), width, monkeypatch)
    assert_fits(prepared_tables(read_result(prepared, PrepareDataResult), is_short=False), width, monkeypatch)
    blocks, _ = status.run(RunDirectory(Path(prepared["run"])))
    assert_fits(blocks, width, monkeypatch)
    assert_fits(known_domain_tables(known_domains(), bundled_domains()), width, monkeypatch)
    methods = describe_methods()
    for blocks in (method_tables(methods), *map(method_details, methods)):
        assert_fits(blocks, width, monkeypatch)
