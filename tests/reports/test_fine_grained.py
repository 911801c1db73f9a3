"""Files and tables of ``evaluate --fine-grained``: CSV, Markdown and the page."""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from html.parser import HTMLParser

from builders.analyses import FIRST, NASTY, SECOND, analyse, evaluate, evaluation_of, gold_sentences

from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import Tagging, analyse_taggings
from crossner_cli.reports import fine_grained
from crossner_cli.reports.blocks import Line, Table
from crossner_cli.reports.evaluation_tables import result_tables
from crossner_cli.reports.fine_grained import (
    TEMPLATES,
    add_fine_grained,
    fine_grained_blocks,
    render_page,
    write_reports,
)
from crossner_cli.run.progress import exhaust

STYLE, SCRIPT = ((TEMPLATES / name).read_text() for name in ("errors.css", "errors.js"))


def blocks_of(*sides, is_short=True, **labels) -> list[Line | Table]:
    result = add_fine_grained(evaluate(*sides, **labels), analyse(*sides, **labels))
    return fine_grained_blocks(result, is_short=is_short)


def texts_of(blocks) -> str:
    rows = [
        row
        for block in blocks
        for row in ([(block.text,)] if isinstance(block, Line) else [(block.title,), *block.rows, *block.summary])
    ]
    return "\n".join(" | ".join(row) for row in rows)


def test_a_screen_shows_the_kinds_of_error_and_files_every_table_of_every_model():
    titles = [block.title for block in blocks_of(FIRST, SECOND) if isinstance(block, Table)]
    assert titles == ["Errors by kind"]
    text = texts_of(blocks_of(FIRST, SECOND, labels=("a", "b"), is_short=False))
    assert "Confused types of a" in text and "By entity type of b" in text
    assert "O I-place 1" in text and "a parent for its child 1" in text


def test_csv_holds_every_number(tmp_path):
    found = analyse(FIRST, SECOND)
    write_reports(tmp_path, evaluate(FIRST, SECOND), gold_sentences(), found)
    with (tmp_path / "fine_grained.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    mean = found["model"].record["mean"]
    leaves = {(row["section"], row["group"], row["name"], row["measure"]): row for row in rows}
    assert len(leaves) == len(rows)
    place = leaves["buckets", "seen in target train", "seen, this type", "f1"]
    assert float(place["mean"]) == mean["buckets"]["seen in target train"]["seen, this type"]["f1"]["mean"]
    assert float(leaves["confusion", "place", "", "O"]["mean"]) == mean["confusion"]["place"]["O"]["mean"] == 1.5
    assert leaves["errors", "all", "", "missed"]["deviation"] == str(mean["errors"]["all"]["missed"]["deviation"])
    sections = {"scores", "span_detection", "typing", "errors", "confusion", "hierarchy", "illegal_tags", "buckets"}
    assert {row["section"] for row in rows} == sections


def test_markdown_shows_text_as_it_is(tmp_path):
    label = ("mo|d\x1bel",)
    write_reports(tmp_path, evaluate(FIRST, labels=label), gold_sentences(), analyse(FIRST, labels=label))
    text = (tmp_path / "fine_grained.md").read_text()
    assert text.startswith("# Errors\n\n**F1 ") and "\\<script\\>" in text and not re.search(r"(?<!\\)<", text)
    assert "\x1b" not in text, "nothing steers a terminal"
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().split("\n")}
        assert len(widths) == 1, table


def test_sentences_without_any_entity_and_words_that_are_no_unicode_make_whole_files(tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("Anna\n")
    out = tmp_path / "out"
    out.mkdir()
    known = KnownText([], [], raw, ())
    for sentence, predicted in (
        (None, []),
        (Sentence(("a", "b"), ("O", "O")), ["O", "O"]),
        (Sentence(("\ud800", "b"), ("B-\udc80", "O")), ["O", "B-\udc80"]),
    ):
        sentences, tags = ([sentence], [predicted]) if sentence else ([], [])
        found = exhaust(analyse_taggings(sentences, [Tagging("m", "-", tags)], known))
        write_reports(out, evaluation_of(sentences, {"m": {"-": tags}}), sentences, found)
        assert {path.name for path in out.iterdir()} == {"fine_grained.csv", "fine_grained.md", "errors.html"}
        assert len(found["m"].record["mean"]["buckets"]) == 8
        assert bool(found["m"].record["frequent_errors"]) == ("B-\udc80" in predicted)


class Page(HTMLParser):
    """Checks that elements nest, and collects what tests ask for."""

    VOID = ("meta", "input", "rect", "path", "br")

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


def page_of(*sides, **labels) -> str:
    result, found = evaluate(*sides, **labels), analyse(*sides, **labels)
    blocks = [
        *result_tables(result, is_short=False),
        *fine_grained_blocks(add_fine_grained(result, found), is_short=False),
    ]
    return "".join(render_page(result, gold_sentences(), found, blocks))


def test_the_page_is_whole_and_loads_nothing():
    parsed = Page(page_of(FIRST, SECOND, labels=("a", "<b>")))
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
    text = page_of(FIRST, labels=(NASTY,))
    assert text.count("<script>") == 1 and "\x1b" not in text and "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "&#39;quoted&#39;" in text
    parsed = Page(text)
    found = analyse(FIRST, labels=(NASTY,))
    marks = [each["class"] for each in parsed.named("mark")]
    assert len(marks) == len(found[NASTY].entities)
    assert marks.count("missed") == 3 and marks.count("spurious") == 1 and marks.count("type") == 2
    articles = parsed.named("article")
    assert [each["data-words"] for each in articles[:3]] == [" ".join(each.words) for each in gold_sentences()[:3]]
    assert len(articles) == 4
    types = ["person", "place", "politician", "song"]
    person, place, politician = (types.index(name) for name in ("person", "place", "politician"))
    tokens = {f"type.{politician}", f"type.{person}", f"correct.{person}", f"missed.{place}"}
    assert set(str(articles[0]["data-spans"]).split()) == tokens
    for name in ("model", "kind", "entity-type", "words", "count", "filters"):
        assert sum(each.get("id") == name for _, each in parsed.elements) == 1
        assert f'get("{name}")' in SCRIPT


def test_of_many_sentences_the_page_shows_those_with_errors_first(monkeypatch):
    monkeypatch.setattr(fine_grained, "SENTENCES", 2)
    text = page_of(["O O O O O O O", "B-person O B-place O", "O O O", "O O O O O"], labels=("model",))
    assert "2 of 4 sentences, those with errors first." in text
    assert re.findall(r'<span class="faint">(\d+)</span>', text) == ["1", "4"]


def test_charts_stay_in_their_frame():
    parsed = Page(page_of(FIRST, SECOND))
    bars = [float(each["width"]) for each in parsed.named("rect")]
    assert bars and all(0 <= width <= 100 for width in bars)
    whiskers = [re.fullmatch(r"M([\d.]+) 5H([\d.]+)", str(each["d"])) for each in parsed.named("path")]
    assert whiskers and all(0 <= float(each[1]) <= float(each[2]) <= 100 for each in whiskers)
    cells = [str(each["class"]) for each in parsed.named("td") if "title" in each]
    assert len(cells) == 25 and sum(each.endswith(" same") for each in cells) == 5
    assert {each.split()[0] for each in cells} <= {f"share{number}" for number in range(11)}


def test_the_page_begins_with_every_model_the_headlines_and_the_warnings():
    result, found = evaluate(FIRST, SECOND, labels=("one", "<b>")), analyse(FIRST, SECOND, labels=("one", "<b>"))
    blocks = [Line("<b> is better", is_headline=True), Line("Warning: odd & old"), Line("Read as conll")]
    page = "".join(render_page(result, gold_sentences(), found, blocks))
    assert "<title>one and &lt;b&gt; on news test - crossner</title>" in page
    begin, rest = page.split("<details>", 1)
    assert '<h1>one and &lt;b&gt; on news test</h1>\n<p class="verdict">&lt;b&gt; is better</p>' in begin
    assert "<p>Warning: odd &amp; old</p>" in begin and "Read as" not in begin and "Read as" in rest
