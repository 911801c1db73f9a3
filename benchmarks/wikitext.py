"""Speed of reading a MediaWiki dump, part by part, on a dump made here; see README.md beside this file.

python benchmarks/wikitext.py [--pages 400] [--rounds 3] [--dump FILE]
"""

from __future__ import annotations

import argparse
import bz2
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from crossner_cli.corpus.mediawiki_dump import ARTICLE, DumpReader, Site
from crossner_cli.corpus.wikipedia import make_category_finder, make_paragraph_finder, write_articles
from crossner_cli.data.files import open_decompressed
from crossner_cli.run.environment import import_optional
from crossner_cli.run.progress import exhaust

WORDS = ["the", "band", "formed", "in", "a", "town", "and", "later", "signed", "with", "one", "label", "that", "sold"]
HEAD = '<mediawiki><siteinfo><namespaces><namespace key="14">Category</namespace></namespaces></siteinfo>\n'


def main(arguments: Sequence[str] | None = None) -> None:
    """Time every part and print a table."""
    parser = argparse.ArgumentParser(description="Speed of reading a MediaWiki dump.")
    parser.add_argument("--pages", type=int, default=400, help="articles of the dump that is made")
    parser.add_argument("--rounds", type=int, default=3, help="times each part runs; the fastest counts")
    parser.add_argument("--dump", type=Path, help="a dump to read instead of one that is made; all of it is read")
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = wanted.dump or make_dump(Path(folder) / "made.xml.bz2", wanted.pages)
        print(tabulate(measure(path, Path(folder) / "text.txt", wanted.rounds)))


def measure(path: Path, output: Path, rounds: int) -> list[tuple[str, float, float, float]]:
    """Name, seconds of the processor, megabytes and articles a second of each part."""
    pages = [page.text for page in DumpReader(path, {ARTICLE}).pages() if not page.is_redirect]
    characters = sum(map(len, pages))
    size = read_all(path)
    categories, paragraphs = make_category_finder(Site()), make_paragraph_finder(Site())
    parse = import_optional("mwparserfromhell", "Wikitext is read with mwparserfromhell", extra="corpora").parse
    parts: dict[str, tuple[Callable[[], object], int]] = {
        "decompress": (lambda: read_all(path), size),
        "decompress and read XML": (lambda: sum(1 for _ in DumpReader(path, {ARTICLE}).pages()), size),
        "find categories in text": (lambda: [categories(text) for text in pages], characters),
        "text to paragraphs": (lambda: [paragraphs(text) for text in pages], characters),
        "mwparserfromhell alone: strip_code": (lambda: [parse(text).strip_code() for text in pages], characters),
        "all: every article of the dump": (
            lambda: exhaust(write_articles([path], output, categories=[], depth=0)),
            size,
        ),
    }
    found = []
    for name, (call, bulk) in parts.items():
        seconds = min(time_of(call) for _ in range(rounds))
        found.append((name, seconds, bulk / seconds / 1e6, len(pages) / seconds))
    return found


def time_of(call: Callable[[], object]) -> float:
    """Seconds of the processor that a call takes."""
    start = time.process_time()
    call()
    return time.process_time() - start


def read_all(path: Path) -> int:
    """Decompress a file; bytes."""
    size = 0
    with open_decompressed(path) as file:
        while chunk := file.stream.read(1 << 20):
            size += len(chunk)
    return size


def tabulate(rows: list[tuple[str, float, float, float]]) -> str:
    """A table in Markdown."""
    lines = ["| part | seconds | MB/s | articles/s |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {seconds:.2f} | {megabytes:.1f} | {pages:,.0f} |" for name, seconds, megabytes, pages in rows
    ]
    return "\n".join(lines)


def make_dump(path: Path, pages: int) -> Path:
    """Write a dump whose articles have what those of Wikipedia have: infobox, references, tables, links, lists."""
    draw = random.Random(1)
    with bz2.open(path, "wt", encoding="utf-8") as stream:
        stream.write(HEAD)
        for number in range(pages):
            text = escape(make_article(draw), quote=False)
            stream.write(
                f"<page><title>Page {number}</title><ns>0</ns><revision><text>{text}</text></revision></page>\n"
            )
        stream.write("</mediawiki>\n")
    return path


def make_article(draw: random.Random) -> str:
    """Some 12,000 characters of wikitext, a third of them prose."""
    text = "{{Infobox musical artist\n" + "".join(f"| key{n} = {make_sentence(draw)}\n" for n in range(10)) + "}}\n"
    for number in range(4):
        text += f"== Part {number} ==\n" + "\n\n".join(make_paragraph(draw) for _ in range(3))
        text += "\n\n" + "".join(f"* [[Item {n}]] – {make_sentence(draw)}\n" for n in range(4))
        rows = "".join(f"|-\n| [[Album {n}]] || {make_sentence(draw)}\n" for n in range(5))
        text += f'{{| class="wikitable"\n! title !! text\n{rows}|}}\n[[File:A.jpg|thumb|A [[caption]]]]\n'
    return text + "[[Category:Bands]]\n[[Category:People|x]]\n"


def make_paragraph(draw: random.Random) -> str:
    """Sentences with links, styles and references."""
    sentences = []
    for _ in range(4):
        words = make_sentence(draw).split()
        words[3], words[6] = f"[[Town|{words[3]}]]", f"''{words[6]}''"
        reference = f"<ref>{{{{cite web|url=http://example.org/{draw.random()}|title=A title|year=2010}}}}</ref>"
        sentences.append(" ".join(words) + reference)
    return " ".join(sentences)


def make_sentence(draw: random.Random) -> str:
    """Fifteen words."""
    return " ".join(draw.choices(WORDS, k=15)).capitalize() + "."


if __name__ == "__main__":
    main()
