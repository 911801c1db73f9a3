"""Files and tables of ``evaluate --fine-grained``: the CSV file and the page."""

import base64
import csv
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

from builders.analyses import FIRST, NASTY, SECOND, analyse, evaluate, evaluation_of, gold_sentences

from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import Tagging, analyse_taggings
from crossner_cli.reports.blocks import Line, Table
from crossner_cli.reports.error_page import TEMPLATES, write_reports
from crossner_cli.reports.fine_grained import fine_grained_blocks
from crossner_cli.run.progress import exhaust

STYLE, SCRIPT = ((TEMPLATES / name).read_text() for name in ("errors.css", "errors.js"))


def test_a_screen_shows_the_kinds_of_error_and_the_page_every_table_of_every_model(tmp_path):
    result = write_reports(tmp_path, evaluate(FIRST, SECOND), gold_sentences(), analyse(FIRST, SECOND))
    (table, line) = fine_grained_blocks(result.models, is_short=True)
    assert isinstance(table, Table) and isinstance(line, Line) and table.title == "Errors by kind"
    assert table.rows[0][:3] == ("missed", "2", "44.4 %")
    text = page_of(tmp_path, FIRST, SECOND, labels=("a", "b"))
    for title in ("Errors by kind", "Confused types of a", "Parts of the entities of b", "Most frequent errors of b"):
        assert f"<h2>{title}</h2>" in text


def test_csv_holds_every_part(tmp_path):
    found = analyse(FIRST, SECOND)
    write_reports(tmp_path, evaluate(FIRST, SECOND), gold_sentences(), found)
    with (tmp_path / "fine_grained.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    parts = found["model"].record["parts"]
    assert len(rows) == len(parts) == 13
    for row, part in zip(rows, parts, strict=True):
        assert row == {"model": "model", **{name: str(value) for name, value in part.items()}}


def test_sentences_without_any_entity_and_words_that_are_not_unicode_make_whole_files(tmp_path):
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
        assert {path.name for path in out.iterdir()} == {"fine_grained.csv", "errors.html"}
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


def page_of(folder, *sides, warnings=(), **labels) -> str:
    result = dataclasses.replace(evaluate(*sides, **labels), warnings=list(warnings))
    write_reports(folder, result, gold_sentences(), analyse(*sides, **labels))
    return (folder / "errors.html").read_text()


def test_the_page_is_whole_and_loads_nothing(tmp_path):
    parsed = Page(page_of(tmp_path, FIRST, SECOND, labels=("a", "<b>")))
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


def test_the_page_escapes_everything_and_marks_every_entity(tmp_path):
    text = page_of(tmp_path, FIRST, labels=(NASTY,))
    assert text.count("<script>") == 1 and "\x1b" not in text and "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "&#39;quoted&#39;" in text
    parsed = Page(text)
    marks = [each["class"] for each in parsed.named("mark")]
    events = analyse(FIRST, labels=(NASTY,))[NASTY].events
    assert len(marks) == sum((event.gold is not None) + (event.predicted is not None) for event in events)
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


def test_the_page_begins_with_every_model_the_headlines_and_the_warnings(tmp_path):
    page = page_of(tmp_path, FIRST, SECOND, labels=("one", "<b>"), warnings=["odd & old"])
    assert "<title>one and &lt;b&gt; on news test - crossner</title>" in page
    begin, rest = page.split("<details>", 1)
    assert re.search(r'<h1>one and &lt;b&gt; on news test</h1>\n<p class="verdict">F1 [\d.]+ on news test</p>', begin)
    assert "<p>Warning: odd &amp; old</p>" in begin and "Read as" not in begin and "Read as" in rest
