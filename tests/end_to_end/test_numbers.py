"""Numbers in the pages: each F1 is in the list of measurements, each speed in the benchmarks, and pages stay short."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
RECIPES, BENCHMARKS = ROOT / "recipes" / "README.md", ROOT / "benchmarks" / "README.md"
MEASURED, TRIED = ROOT / "recipes" / "measured.csv", ROOT / "recipes" / "tried.csv"
MEAN = "mean of ai, music, politics"
# Two digits before and after the point, or followed by a deviation: not a version, a time, a ratio or an interval.
F1 = re.compile(r"(?<![\w.,:-])(\d\d\.\d\d|\d\.\d\d(?= ±))(?: ± (\d+\.\d\d))?(?!\d|\.\d| ?%)")
SPEED = re.compile(r"(\d+\.\d) times")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def prose_of(text: str) -> str:
    """Tables and sentences of a page on one line. Of code it keeps the lines of blocks that begin with F1."""
    blocks = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    kept = blocks.sub(lambda block: "\n".join(re.findall(r"^F1.*", block[0], re.MULTILINE)), text)
    return " ".join(re.sub(r"`[^`]*`", "", kept).split())


def f1_in(text: str) -> list[tuple[str, str]]:
    """Each F1 of a text, and its deviation if it has one."""
    return [(found[1], found[2] or "") for found in F1.finditer(text)]


def unknown_f1(text: str, rows: Iterable[dict[str, str]]) -> list[tuple[str, str]]:
    """Each F1 of a text that no row has with the same deviation, or likewise without one."""
    known = {pair for row in rows if row["kind"] in ("published", "measured") for pair in f1_in(row["f1"])}
    return [pair for pair in f1_in(text) if pair not in known]


def test_an_f1_differs_from_a_version_a_time_a_ratio_and_an_interval() -> None:
    text = "Python 3.11 took 1:59.20 minutes, 1.01 times; 5.1 [3.30, 6.91], 41.58 %. F1 is 66.34, then 9.87 ± 0.50."
    assert f1_in(text) == [("66.34", ""), ("9.87", "0.50")]


def test_an_f1_that_no_row_has_is_found() -> None:
    rows = [{"kind": "measured", "f1": "61.41 ± 0.62"}, {"kind": "difference", "f1": "12.34"}]
    assert unknown_f1("61.41 ± 0.62", rows) == []
    assert unknown_f1("61.41, 61.41 ± 0.63, 12.34", rows) == [("61.41", ""), ("61.41", "0.63"), ("12.34", "")]


def test_code_counts_only_where_a_line_begins_with_f1() -> None:
    text = "20.00\n± 1.00 `30.00`\n```\nF1  40.00 ± 2.00\nrecall  50.00\n```\n"
    assert f1_in(prose_of(text)) == [("20.00", "1.00"), ("40.00", "2.00")]


@pytest.mark.parametrize("path", [README, RECIPES], ids=["README", "recipes"])
def test_every_f1_of_a_page_is_measured_or_published(path: Path) -> None:
    text = prose_of(path.read_text(encoding="utf-8"))
    assert f1_in(text)
    assert unknown_f1(text, rows_of(MEASURED)) == []


def test_every_row_has_a_number_and_says_how_many_seeds_it_has() -> None:
    for row in rows_of(MEASURED):
        assert row["kind"] in ("published", "measured", "difference"), row
        assert re.match(r"-?\d", row["f1"]), row
        assert (row["kind"] == "measured") == bool(row["seeds"]), row
    assert all(re.fullmatch(r"\d\d\.\d(\d( ± \d\.\d\d)?)?", row["f1"]) for row in rows_of(TRIED))


def test_a_mean_of_domains_is_the_mean_of_its_parts() -> None:
    rows = {(row["experiment"], row["row"], row["column"]): row["f1"] for row in rows_of(MEASURED)}
    means = {key: float(f1) for key, f1 in rows.items() if MEAN in key[2] and F1.fullmatch(f1)}
    assert len(means) >= 7
    for (experiment, row, column), mean in means.items():
        names = [column.replace(MEAN, domain) for domain in ("ai", "music", "politics")]
        parts = [float(rows[experiment, row, name].split()[0]) for name in names]
        assert mean == pytest.approx(sum(parts) / 3, abs=0.01), (row, column)


@pytest.mark.parametrize(
    ("path", "words"),
    [(README, 1000), (CONTRIBUTING, 700), (RECIPES, 4500), (BENCHMARKS, 1800)],
    ids=["README", "contributing", "recipes", "benchmarks"],
)
def test_a_page_stays_short(path: Path, words: int) -> None:
    assert len(path.read_text(encoding="utf-8").split()) <= words


def test_every_speed_of_the_readme_is_one_of_the_benchmarks() -> None:
    speeds = SPEED.findall(prose_of(README.read_text(encoding="utf-8")))
    shown = re.findall(r"(?<![\d.])\d+\.\d(?!\d)", BENCHMARKS.read_text(encoding="utf-8"))
    assert speeds
    assert set(speeds) <= set(shown)
