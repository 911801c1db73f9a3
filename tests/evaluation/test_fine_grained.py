"""Taggers taken apart: averages over seeds, frequent errors, tables, CSV, Markdown and the page."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import statistics
from html.parser import HTMLParser
from pathlib import Path

import pytest

from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.fine_grained import FineGrained, Tagging, analyse, over_seeds
from crossner_cli.evaluation.scores import describe_mode, score
from crossner_cli.evaluation.surroundings import Surroundings
from crossner_cli.reports.blocks import Line, Table, escape_markdown
from crossner_cli.reports.charts import Bar, bar_chart, heat_map
from crossner_cli.reports.fine_grained_files import with_fine_grained, write_reports
from crossner_cli.reports.fine_grained_tables import fine_grained_blocks
from crossner_cli.reports.html_report import page
from crossner_cli.reports.markup import escape, printable
from crossner_cli.reports.page_style import SCRIPT, STYLE
from crossner_cli.run.progress import exhaust

NASTY = "<script>alert(1)</script>"
GOLD = [
    ("Anna Smith met Bob in Paris .", "B-politician I-politician O B-person O B-place O"),
    ("Bob saw Paris .", "B-person O B-place O"),
    ("Nothing here .", "O O O"),
    (f"{NASTY} & \x1b[31m\u202ered 'quoted' .", "B-song O B-song O O"),
]
FIRST = ["B-person I-person O B-person O O O", "B-person O O O", "O O I-place", "O O B-song I-song O"]
SECOND = ["B-politician O O B-person O B-place O", "B-person O O O", "O O O", "B-person O B-song O O"]
TRAIN = [Sentence(("Bob", "saw", "Bob"), ("B-person", "O", "B-person"))]


def sentences() -> list[Sentence]:
    return [Sentence(tuple(words.split(" ")), tuple(tags.split())) for words, tags in GOLD]


def take_apart(*sides: list[str], labels: tuple[str, ...] = ("model", "model"), **more) -> FineGrained:
    taggings = [
        Tagging(label, str(number), [tags.split() for tags in side], is_shown=number == 2 or len(set(labels)) > 1)
        for number, (label, side) in enumerate(zip(labels, sides, strict=False), start=1)
    ]
    surroundings = more.pop("surroundings", Surroundings(TRAIN))
    return exhaust(analyse(sentences(), taggings, surroundings, parents={"politician": "person"}, **more))


def result_of(found: FineGrained) -> dict:
    """What the stage tells of the same models, as far as tables show it."""
    models = {}
    for label, model in found.models.items():
        averages = {name: model.record["mean"]["scores"]["micro"][name] for name in ("f1", "precision", "recall")}
        models[label] = {
            **averages, "macro_f1": averages["f1"], "other_mode": {"mode": "strict", "f1": averages["f1"]},
            "seeds": model.record["seeds"], "per_type": [], "unknown_types": [], "extra_types": [], "support": 6,
        }  # fmt: skip
    return {"domain": "news", "split": "test", **describe_mode("conll"), "sentences": 4, "words": 20,
              "warnings": [], "models": models}  # fmt: skip


def complete(found: FineGrained) -> dict:
    return with_fine_grained(result_of(found), found)


def test_numbers_are_means_over_seeds_with_their_deviation():
    found = take_apart(FIRST, SECOND)
    record = found.models["model"].record
    each = [score([s.tags for s in sentences()], [tags.split() for tags in side]).f1 for side in (FIRST, SECOND)]
    assert record["mean"]["scores"]["micro"]["f1"] == pytest.approx(
        {"mean": statistics.fmean(each), "deviation": statistics.stdev(each)}
    )
    assert [record["seeds"][seed]["scores"]["micro"]["f1"] for seed in "12"] == pytest.approx(each)
    # A seed that never makes an error of a kind counts as 0.
    assert record["mean"]["illegal_tags"]["sequences"]["O I-place"]["mean"] == 0.5
    assert record["mean"]["hierarchy"]["too_general"]["mean"] == 0.5
    assert take_apart(FIRST, labels=("model",)).models["model"].record["mean"]["scores"]["support"] == {
        "mean": 7.0, "deviation": None,
    }  # fmt: skip


def test_over_seeds_takes_what_is_not_there_as_zero():
    assert over_seeds([{"a": 1, "kind": "x"}, {"a": 3, "b": {"c": 4}, "kind": "x"}]) == {
        "a": {"mean": 2.0, "deviation": pytest.approx(2**0.5)}, "kind": "x",
        "b": {"c": {"mean": 2.0, "deviation": pytest.approx(8**0.5)}},
    }  # fmt: skip


def test_a_share_of_nothing_counts_for_no_seed():
    records = [{"accuracy": 100.0, "right_spans": 1}, {"accuracy": None, "right_spans": 0}, {"right_spans": 1}]
    assert over_seeds(records)["accuracy"] == {"mean": 100.0, "deviation": None}
    assert over_seeds(records[1:])["accuracy"] == {"mean": None, "deviation": None}
    types = [{"percent": {"f1": 50.0}, "accuracy": {"f1": 25.0}}, {"percent": {"f1": 100.0}}]
    averages = {name: over_seeds(types)[name]["f1"]["mean"] for name in ("percent", "accuracy")}
    assert averages == {"percent": 75.0, "accuracy": 12.5}, "types may be called so, as MUC's percent is"
    nothing = ["O O O O O O O", "O O O O", "O O O", "O O B-song O O"]
    typing = take_apart(FIRST, nothing).models["model"].record["mean"]["typing"]["per_type"]
    alone = take_apart(FIRST, labels=("model",)).models["model"].record["mean"]["typing"]["per_type"]
    assert typing["person"]["accuracy"] == alone["person"]["accuracy"], "what is missed says nothing about types"


def test_seeds_that_invent_different_types_are_taken_apart_together(tmp_path):
    """The cell of one seed's own type and another's is in no seed's table, but in that of both."""
    sides = ([*FIRST[:2], "O O B-tool", FIRST[3]], [*FIRST[:2], "O O B-ship", FIRST[3]])
    found = take_apart(*sides)
    confusion = found.models["model"].record["mean"]["confusion"]
    assert confusion["tool"]["ship"]["mean"] == confusion["ship"]["tool"]["mean"] == 0
    assert confusion["O"]["tool"]["mean"] == confusion["O"]["ship"]["mean"] == 0.5
    assert all(row.keys() == confusion.keys() for row in confusion.values())
    write_reports(tmp_path, complete(found), found)


def test_errors_as_text_are_of_the_shown_seed_and_grouped():
    record = take_apart(FIRST, SECOND).models["model"].record
    assert record["shown_seed"] == "2"
    kinds = [error["kind"] for error in record["frequent_errors"]]
    assert kinds == ["boundary_right", "missed", "type"]
    first = record["frequent_errors"][0]
    assert first["gold"] == {"text": "Anna Smith", "type": "politician"} and first["predicted"]["text"] == "Anna"
    assert first["context"] == "Anna Smith met Bob in Paris ." and first["sentence"] == 1
    both = take_apart(FIRST, labels=("model",)).models["model"].record["frequent_errors"]
    assert both[0] == {
        "kind": "missed", "count": 2, "gold": {"text": "Paris", "type": "place"}, "predicted": None, "sentence": 1,
        "context": "Anna Smith met Bob in Paris .",
    }  # fmt: skip
    assert [error["predicted"]["text"] for error in both if error["kind"] == "spurious"] == ["."]


def test_illegal_tags_are_told_with_what_stands_before_them():
    broken = ["I-person B-person I-place O O O O", "O O O O", "O O O", "O O O O O"]
    counts = take_apart(broken, labels=("model",)).models["model"].record["seeds"]["1"]["illegal_tags"]
    assert counts == {"count": 2, "sequences": {"(start) I-person": 1, "B-person I-place": 1}}
    ends = ["B-person O O O O O O", "O O O B-place", "O O O", "O O O O E-song"]
    tagging = Tagging("model", "-", [tags.split() for tags in ends], "bioes")
    found = exhaust(analyse(sentences(), [tagging], Surroundings(), parents={}))
    assert found.models["model"].record["seeds"]["-"]["illegal_tags"]["sequences"] == {
        "B-person O": 1, "B-place (end)": 1, "O E-song": 1,
    }  # fmt: skip


def texts_of(blocks) -> str:
    rows = [
        row
        for block in blocks
        for row in ([(block.text,)] if isinstance(block, Line) else [(block.title,), *block.rows, *block.summary])
    ]
    return "\n".join(" | ".join(row) for row in rows)


def test_tables_show_one_model_whole_and_of_several_the_best():
    one = fine_grained_blocks(complete(take_apart(FIRST, SECOND)))
    titles = [block.title for block in one if isinstance(block, Table)]
    assert titles == [
        "Entities, words and types", "Errors by kind", "What became of the gold entities", "Confused types",
        "Parts of the sentences", "Most frequent errors, seed 2",
    ]  # fmt: skip
    several = take_apart(FIRST, SECOND, labels=("a", "b"))
    text = texts_of(fine_grained_blocks(complete(several)))
    assert "Confused types of b" in text and "Confused types of a" not in text and "Details of the other" in text
    text = texts_of(fine_grained_blocks(complete(several), is_short=False))
    assert "Confused types of a" in text and "By entity type of b" in text
    assert "Not told: seen in raw text, since there is no raw text of the target" in text
    assert "O I-place 1" in text and "politician -> person 1" in text


def test_tables_hold_nothing_that_steers_a_terminal():
    text = texts_of(fine_grained_blocks(complete(take_apart(FIRST, labels=("mo\x1bdel",))), is_short=False))
    assert "\x1b" not in text and "\u202e" not in text and "\ufffd[31m\ufffdred" in text


def test_csv_and_json_hold_every_number(tmp_path):
    found = take_apart(FIRST, SECOND)
    write_reports(tmp_path, result_of(found), found)
    with (tmp_path / "fine_grained.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    mean = found.models["model"].record["mean"]
    leaves = {(row["section"], row["group"], row["name"], row["measure"]): row for row in rows}
    assert len(leaves) == len(rows)
    place = leaves["buckets", "seen in target train", "seen, this type", "f1"]
    assert float(place["mean"]) == mean["buckets"]["seen in target train"]["seen, this type"]["f1"]["mean"]
    assert float(leaves["confusion", "place", "", "O"]["mean"]) == mean["confusion"]["place"]["O"]["mean"] == 1.5
    assert leaves["errors", "all", "", "missed"]["deviation"] == str(mean["errors"]["all"]["missed"]["deviation"])
    assert {row["section"] for row in rows} == {
        "scores", "span_detection", "typing", "errors", "confusion", "hierarchy", "illegal_tags", "buckets",
    }  # fmt: skip
    assert json.loads(json.dumps(with_fine_grained({"models": {"model": {}}}, found, has_seeds=True)))


def test_markdown_shows_text_as_it_is(tmp_path):
    found = take_apart(FIRST, labels=("mo|del",))
    write_reports(tmp_path, result_of(found), found)
    text = (tmp_path / "fine_grained.md").read_text()
    assert text.startswith("# Errors\n\n**F1 ") and "\\<script\\>" in text and not re.search(r"(?<!\\)<", text)
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().split("\n")}
        assert len(widths) == 1, table
    assert escape_markdown("a|b\n*c* & <d>") == r"a\|b \*c\* \& \<d\>"


def test_sentences_without_any_entity_make_whole_files(tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("Anna\n")
    for words in ([], [Sentence(("a", "b"), ("O", "O"))]):
        for train in ([], [Sentence(("a",), ("B-x",))]):
            tagging = Tagging("m", "-", [["O"] * len(each.words) for each in words])
            found = exhaust(analyse(words, [tagging], Surroundings(train, train, raw, ()), parents={}))
            write_reports(tmp_path, result_of(found), found)
            assert found.models["m"].record["frequent_errors"] == []
            assert found.models["m"].record["mean"]["scores"]["micro"]["f1"]["mean"] == 0
            assert len(found.models["m"].record["mean"]["buckets"]) == 8


class Page(HTMLParser):
    """Checks that elements nest, and collects what tests ask for."""

    VOID = ("meta", "input", "rect", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_the_page_is_whole_and_loads_nothing():
    found = take_apart(FIRST, SECOND, labels=("a", "<b>"))
    parsed = Page("".join(page(complete(found), found)))
    names = {name for _, attributes in parsed.elements for name in attributes}
    assert not names & {"src", "href", "style", "srcset", "action"} and not any(name.startswith("on") for name in names)
    assert {tag for tag, _ in parsed.elements} & {"img", "link", "iframe", "object", "a"} == set()
    assert "http" not in "".join(part for parts in parsed.texts.values() for part in parts)
    assert "url(" not in STYLE and "innerHTML" not in SCRIPT and "eval" not in SCRIPT
    policy = next(each["content"] for each in parsed.named("meta") if each.get("http-equiv"))
    for kind, text in (("style", STYLE), ("script", SCRIPT)):
        assert parsed.texts[kind] == [text]
        assert f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy


def test_the_page_escapes_everything_and_marks_every_entity():
    found = take_apart(FIRST, labels=(NASTY,))
    text = "".join(page(complete(found), found))
    assert text.count("<script>") == 1 and "\x1b" not in text and "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "&#x27;quoted&#x27;" in text
    parsed = Page(text)
    analysis = found.models[NASTY].analysis
    marks = [each["class"] for each in parsed.named("mark")]
    assert len(marks) == len(analysis.gold) + len(analysis.predicted)
    assert marks.count("missed") == 3 and marks.count("spurious") == 1 and marks.count("type") == 2
    articles = parsed.named("article")
    assert len(articles) == 4
    assert [each["data-words"] for each in articles[:3]] == [" ".join(each.words) for each in found.sentences[:3]]
    assert "article.dataset.words" in SCRIPT, "what is searched: neither row labels nor names of types"
    person, politician = (found.types.index(name) for name in ("person", "politician"))
    assert set(str(articles[0]["data-spans"]).split()) == {
        f"type.{politician}", f"type.{person}", f"correct.{person}", f"missed.{found.types.index('place')}",
    }  # fmt: skip
    for name in ("model", "kind", "entity-type", "words", "count", "filters"):
        assert sum(each.get("id") == name for _, each in parsed.elements) == 1
        assert f'get("{name}")' in SCRIPT


def test_of_many_sentences_the_page_shows_those_with_errors_first(monkeypatch):
    monkeypatch.setattr("crossner_cli.reports.html_report.SENTENCES", 2)
    found = take_apart(["O O O O O O O", "B-person O B-place O", "O O O", "O O O O O"], labels=("model",))
    text = "".join(page(complete(found), found))
    assert "2 of 4 sentences, those with errors first." in text
    assert re.findall(r'<span class="faint">(\d+)</span>', text) == ["1", "4"]


def test_charts_stay_in_their_frame():
    chart = bar_chart("x", [Bar("a" * 99, 50, "50", 80), Bar("b", 0, "0"), Bar("c", 900, "900")], 100)
    widths = [float(width) for width in re.findall(r'class="bar"[^>]*? width="([\d.]+)"', chart)]
    assert widths == [110.0, 0.0, 220.0]
    assert bar_chart("nothing", []) and heat_map("nothing", [], [], [])
    cells = re.findall(r'fill-opacity="([\d.]+)"', heat_map("y", ["a", "b"], ["a", "b"], [[3, 1], [0, 0]]))
    assert cells == ["0.450", "0.150", "0.000", "0.000"]


def test_text_is_escaped_and_printable():
    assert escape("<a href='x'>\u202e\ud800&\0") == "&lt;a href=&#x27;x&#x27;&gt;\ufffd\ufffd&amp;\ufffd"
    assert printable("naïve Ünïcode 漢字 🙂") == "naïve Ünïcode 漢字 🙂"


def test_files_hold_words_that_are_no_unicode(tmp_path: Path):
    words = [Sentence(("\ud800", "b"), ("B-\udc80", "O"))]
    found = exhaust(analyse(words, [Tagging("m", "-", [["O", "B-\udc80"]])], Surroundings(), parents={}))
    write_reports(tmp_path, result_of(found), found)
    assert {path.name for path in tmp_path.iterdir()} == {"fine_grained.csv", "fine_grained.md", "errors.html"}
