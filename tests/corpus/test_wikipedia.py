"""Dumps of Wikipedia: which articles a category has, what text they give, and what is said of broken dumps."""

import bz2
import gzip
import random
import resource

import pytest
from builders.dumps import dump, page
from builders.events import drain
from builders.timing import within
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.corpus import mediawiki_dump
from crossner_cli.corpus.mediawiki_dump import CATEGORY, DumpReader, Site, is_dump
from crossner_cli.corpus.wikipedia import make_category_finder, make_paragraph_finder, reach_categories, write_articles
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress

parser = pytest.importorskip("mwparserfromhell")

# Music > Bands > Rock bands > Bands (a circle); Rock bands > Trios > Quiet trios.
PAGES = [
    page("Category:Music", "All music."),
    page("Category:Bands", "{{Cat|x}} [[Category:music]] [[Category:Rock bands|*]]"),
    page("Category:Rock bands", "[[category : Bands ]]<!-- [[Category:Films]] -->"),
    page("Category:Trios", "[[Category:Rock_bands|Trios]]"),
    page("Category:Quiet trios", "[[Category:Trios]]"),
    page("Category:Films", "[[:Category:Music]]"),
    page("Category:Bands, old", "[[Category:Music]]", redirect="Category:Bands"),
    page("Harp", "The '''harp''' is old.\n[[Category:Music]]"),
    page("The Owls", "The Owls sing.\n\n[[Category:Bands|Owls]]\n[[Category:Films]]"),
    page("Owls", "#REDIRECT [[The Owls]] [[Category:Bands]]", redirect="The Owls"),
    page("Three", "Three play.\n\nThey stop.[[Category:Trios]]"),
    page("Hush", "Hush hums.[[Category:Quiet trios]]"),
    page("Film", "A film runs.[[Category:Films]] <nowiki>[[Category:Music]]</nowiki>"),
    page("Template:Band", "<includeonly>[[Category:Bands]]</includeonly>"),
]


def extract(path, categories, depth=3):
    """Paragraphs, what is recorded, and notices."""
    paths = path if isinstance(path, list) else [path]
    output = paths[0].with_name("text.txt")
    record, events = drain(write_articles(paths, output, categories=categories, depth=depth))
    notices = [event.text for event in events if isinstance(event, Notice)]
    told = [event for event in events if isinstance(event, Progress) and event.total]
    assert all(0 <= event.done <= (event.total or 0) for event in told)
    assert len(told) + len(notices) == len(events)
    return output.read_text(encoding="utf-8").splitlines(), record, notices


@pytest.fixture
def wiki(tmp_path):
    path = tmp_path / "testwiki-pages-articles.xml.bz2"
    path.write_bytes(bz2.compress(dump(PAGES)))
    return path


def refusal(path, category="Music"):
    with pytest.raises(CrossNERError) as found:
        extract(path, [category])
    assert found.value.hint
    return found.value


@pytest.mark.parametrize(("depth", "kept"), [(0, 1), (1, 2), (2, 2), (3, 4), (9, 5)])
def test_depth_bounds_how_far_below_a_category_articles_are_taken(wiki, depth, kept):
    lines = ["The harp is old.", "The Owls sing.", "Three play.", "They stop.", "Hush hums."]
    assert extract(wiki, ["Music"], depth)[0] == lines[:kept]


def test_articles_of_several_categories_are_taken_however_spelt_and_without_one_all(wiki):
    assert extract(wiki, ["Category:films", "quiet_trios"])[0] == ["The Owls sing.", "Hush hums.", "A film runs."]
    lines, record, _ = extract(wiki, [])
    assert record["kept"] == record["articles"] == 5 and len(lines) == 6


def test_the_parts_of_a_dump_and_the_streams_of_each_have_one_graph(tmp_path):
    paths = [tmp_path / name for name in ("w-pages-articles1.xml-p1p9.bz2", "w-pages-articles2.xml-p10p99.bz2")]
    for path, pages in zip(paths, (PAGES[9:], PAGES[:9]), strict=True):
        whole = dump(pages)
        path.write_bytes(b"".join(bz2.compress(whole[start : start + 500]) for start in range(0, len(whole), 500)))
    assert all(map(is_dump, paths))
    lines, record, _ = extract(paths, ["Music"])
    assert lines == ["Three play.", "They stop.", "The harp is old.", "The Owls sing."]
    assert record["pages"] == len(PAGES)


def test_a_wiki_in_another_language_names_its_namespaces_itself(tmp_path):
    pages = [
        page("Kategorie:Musik", ""),
        page("Kategorie:Harfe & Co", "[[Kategorie:Musik]]"),
        page("Harfe", "Die Harfe klingt. [[Datei:H.jpg|mini|Eine Harfe]][[Bild:X.jpg]]\n[[KATEGORIE:harfe &amp; Co]]"),
        page("Geige", "Die Geige auch.[[Image:Y.jpg|Geige]] [[Category:Musik]]"),
        page("Auto", "Ein Auto."),
    ]
    path = tmp_path / "dewiki.xml"
    path.write_bytes(dump(pages, category="Kategorie", file="Datei"))
    lines, record, _ = extract(path, ["Musik"])
    assert lines[0] == "Die Harfe klingt." and lines[1:] == ["Die Geige auch."]
    assert record["categories_by_depth"] == [1, 1]


def test_a_category_that_is_unknown_or_has_no_articles_is_reported_with_a_way_out(wiki):
    found = refusal(wiki, "Band")
    assert "there is no category 'Band'" in found.problem and "Bands, Rock bands" in found.hint
    assert "among 6 categories" in refusal(wiki, "Xylographers").problem
    wiki.write_bytes(dump([page("Category:Music", ""), page("Harp", "A harp.")]))
    found = refusal(wiki)
    assert "None of the 1 articles" in found.problem and "--category-depth" in found.hint


@pytest.mark.parametrize("ending", [".xml", ".xml.gz", ".xml.bz2"])
def test_a_truncated_dump_is_reported_with_the_last_page(tmp_path, ending):
    pack = {".xml": bytes, ".xml.gz": gzip.compress, ".xml.bz2": bz2.compress}[ending]
    pages = [page(f"Category:C{n}", "x" * (n % 97)) for n in range(4000)]
    packed = pack(dump(pages))
    path = tmp_path / f"wiki{ending}"
    path.write_bytes(packed[: len(packed) * 9 // 10])
    problem = refusal(path).problem
    assert str(path) in problem and "cut off" in problem and "pages, the last one 'Category:C" in problem


def test_what_is_no_dump_or_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mediawiki_dump, "LONGEST_PAGE", 300_000)
    path = tmp_path / "wiki.xml"
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 20}">' for n in range(1, 20))
    page_of_entity = "<mediawiki><page><title>&e19;</title></page></mediawiki>"
    for content, said in (
        (b"<html><body/></html>", "root is <html>"),
        (b"no XML at all", "it is not XML"),
        (b"", "cut off"),
        (b"<mediawiki><page></mediawiki>", "it is not XML"),
        (b"<mediawiki>\xff</mediawiki>", "it is not XML"),
        (
            f'<!DOCTYPE mediawiki [<!ENTITY e0 "harp">{entities}]>\n{page_of_entity}'.encode(),
            "declares a document type",
        ),
        (f'<!DOCTYPE mediawiki SYSTEM "x.dtd">\n{page_of_entity}'.encode(), "declares a document type"),
        (dump([page("Category:Music", "x" * 900_000)]), "a page is longer than"),
        (b'<mediawiki a="' + b"x" * 2_000_000 + b'">', "a page is longer than"),
    ):
        path.write_bytes(content)
        assert said in refusal(path).problem


def test_memory_does_not_grow_with_the_dump(tmp_path):
    path = tmp_path / "wiki.xml.gz"
    text = " ".join(random.Random(1).choices(["harp", "plays", "loud"], k=2000))
    path.write_bytes(gzip.compress(dump(page(f"Page {n}", text) for n in range(2500)), 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in DumpReader(path, {0}).pages()) == 2500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 15_000  # KiB


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20), st.integers(0, 5))
def test_categories_are_reached_step_by_step(edges, depth):
    below = {str(name): [str(b) for b, a in edges if a == name] for name in range(8)}
    expected = {"0": 0}
    for step in range(1, depth + 1):
        expected |= {str(b): step for b, a in edges if expected.get(str(a)) == step - 1 and str(b) not in expected}
    assert reach_categories(below, ["0"], depth) == expected


def paragraphs(text):
    return make_paragraph_finder(Site())(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'''Ada''' ''met'' [[Bob Roe|Bob]] in [[Paris]]s.", ["Ada met Bob in Pariss."]),
        ("One line\ngoes on.\n\nAnother.", ["One line goes on.", "Another."]),
        ("{{Info|a={{b|c}}|[[d]]}}A harp.{{ref|x}}", ["A harp."]),
        ("A<ref>b [[c]]</ref> harp<ref name=x /> plays<REF group=n>{{cite|y}}</REF >.", ["A harp plays."]),
        ("A <!-- b [[c]] -->harp.<!-- open", ["A harp."]),
        ("== Life ==\nAda.\n=== Youth ===\nBob.", ["Ada.", "Bob."]),
        ("* one [[harp]]\n* two\n** three\n# four\n: five\n; six", ["one harp", "two", "three", "four", "five", "six"]),
        ("Ada.\n{| class=x\n! a !! b\n|-\n| c || [[d]]\n|}\nBob.", ["Ada.", "Bob."]),
        ("{|\n| unclosed\nAda.", ["Ada."]),
        ("[[File:a.jpg|thumb|The [[harp]] of {{x}}]]Ada [[image:b.png]]met Bob.[[Category:C]]", ["Ada met Bob."]),
        ("[[:Category:Harps]] and [[de:Harfe]][[fr:Harpe]].", ["Category:Harps and ."]),
        ("[http://a.org The site], http://b.org and [//c.org].", ["The site, and ."]),
        ("A &amp; B&nbsp;C &lt;x&gt; &#65;", ["A & B C <x> A"]),
        ("x<sub>2</sub> <b>y</b><br/>z <math>a<b</math>w", ["x2 y z w"]),
        ("<div class=x>Ada.</div><blockquote>Bob.</blockquote>", ["Ada.", "Bob."]),
        ("<gallery>\nFile:a.jpg|Harp\n</gallery>Ada.<syntaxhighlight lang=c>x</syntaxhighlight>", ["Ada."]),
        (
            "Ada (listen{{x}}; {{born}}) met Bob ({{y}}) and Cid ({{z}}; born).",
            ["Ada (listen) met Bob and Cid (born)."],
        ),
        ("__NOTOC__Ada.\n----\nBob. 1 < 2 and 3 > 2.", ["Ada.", "Bob. 1 < 2 and 3 > 2."]),
        ("{{Reflist}}\n\n&nbsp;\n\n---\n\n12.5", []),
        ("The character &#xD83D; is half a pair.", ["The character \ufffd is half a pair."]),
        ("A harp</ref> plays.</references >", ["A harp plays."]),
        (  # Letters that grow when they are lowered lose nothing after an element.
            "İzmir, İznik, İskenderun, İmroz and İnegöl are towns.<ref>Census.</REF> They have ports.\n\nThis stays.",
            ["İzmir, İznik, İskenderun, İmroz and İnegöl are towns. They have ports.", "This stays."],
        ),
        # Lines that begin as cells of tables do are text outside of tables.
        ("!Kung is old.\nIt has clicks.\n\n!!! are a band.", ["!Kung is old. It has clicks.", "!!! are a band."]),
        ("Left of a table:\n! Name !! Year\n| Ada | 1815\n|-\nText.", ["Left of a table: Text."]),
    ],
)
def test_wikitext_becomes_plain_paragraphs(text, expected):
    assert paragraphs(text) == expected


MARKUP = "{{ }} [[ ]] {| |} | <ref> </ref> <!-- --> ''' == File: Category: <div> </div> ] &amp; <table> http://b = {{{"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*MARKUP.split(), "}}}", "\n", "* ", "harp ", "[http://a "]), max_size=30))
def test_any_wikitext_gives_whole_lines_without_links_and_comments(parts):
    found = paragraphs("".join(parts))
    assert found is not None
    for line in found:
        assert line == " ".join(line.split()) and any(map(str.isalpha, line))
        assert "<!--" not in line and "<ref" not in line


PROSE = ["harp ", "plays ", "[[Owl|owls]] ", "''old'' ", "[[Bob]] ", "{{x|y}}", "loud. "]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PROSE), min_size=1, max_size=20))
def test_prose_is_what_the_parser_itself_leaves_of_it(parts):
    expected = " ".join(parser.parse("".join(parts)).strip_code().split())
    assert paragraphs("".join(parts)) == ([expected] if expected else [])


@pytest.mark.parametrize(
    "part",
    [
        *["{{a|", "[[a|", "{|\n|-\n| a\n", "{{a|[[b|", "[http://a ", "{{{a|", "[[a|{{b|{|\n|"],
        *["<ref>", "<div>", "<!--", "</ref>", "(", "'''", "&#", "<x>", "<x y=", "<br x="],
    ],
)
def test_a_page_that_closes_nothing_takes_no_time(part):
    with within(10):
        found = paragraphs(part * 20_000)  # the parser alone takes minutes and more
    assert found in (None, [], [part * 20_000])  # malformed, nothing, or no markup at all


def test_a_title_of_colons_takes_no_time():
    with within(10):
        assert paragraphs("[[a" + ":" * (1 << 18) + "]]") == ["a" + ":" * (1 << 18)]


@pytest.mark.parametrize("number", ["--5", "5" * 5000, "", "x"])
def test_a_namespace_that_is_no_number_is_none_that_is_wanted(tmp_path, number):
    path = tmp_path / "wiki.xml"
    pages = dump([page("Harp", "A harp."), page("Odd", "It.").replace("<ns>0<", f"<ns>{number}<")])
    path.write_bytes(pages.replace(b'key="10"', f'key="{number}"'.encode()))
    assert extract(path, [])[0] == ["A harp."]


def test_categories_are_named_as_the_wiki_stores_them():
    site = Site(names={CATEGORY: {"category", "kategorie", "user category"}})
    text = "[[category:rock_bands ]][[Kategorie : A&amp;B|x]][[User category:C]][[:Category:D]]"
    text += "[[Category:E{{x}}]][[Cat:F]]"
    assert make_category_finder(site)(text) == ["Rock bands", "A&B", "C"]
    site.capitalises = False
    assert make_category_finder(site)("[[Category:rock]]") == ["rock"]
