"""Wikitext to paragraphs of plain text.

Templates, tables, references, files, comments, formulas and headings are dropped, since they hold no sentences. Links
and styles leave their words. Markup is read by mwparserfromhell; elements of HTML are taken out before, in one pass
each, because the parser takes quadratic time, or worse, for elements that are never closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

from crossner_cli.corpus.mediawiki_dump import CATEGORY, FILE, Site
from crossner_cli.run.environment import import_optional

UNCLOSED = 50  # brackets a page may leave open; the parser's time grows with the square of their number
_DROPPED = (
    "ref references gallery math chem ce score timeline syntaxhighlight source imagemap hiero graph mapframe maplink"
    " templatedata templatestyles inputbox categorytree indicator table style script pre"
)
_INLINE = (
    "b i u s small big sub sup span font cite code em strong abbr var kbd samp tt dfn del ins strike q mark time bdi"
    " bdo wbr ruby rt rp rb a noinclude includeonly onlyinclude nowiki"
)
_BLOCKS = "div p center blockquote poem li ul ol dl dt dd hr section h1 h2 h3 h4 h5 h6 tr td th caption"
_DROPPED_TAG = re.compile(rf"<({'|'.join(_DROPPED.split())})(?![\w-])[^<>]*>", re.IGNORECASE)
_DROPPED_END = re.compile(rf"</(?:{'|'.join(_DROPPED.split())})\s*>", re.IGNORECASE)
_INLINE_TAG = re.compile(rf"</?(?:{'|'.join(_INLINE.split())})(?![\w-])[^<>]*>", re.IGNORECASE)
_BLOCK_TAG = re.compile(rf"</?(?:{'|'.join(_BLOCKS.split())})(?![\w-])[^<>]*>", re.IGNORECASE)
_LINE_BREAK_TAG = re.compile(r"<br(?![\w-])[^<>]*>", re.IGNORECASE)
_BRACKET = re.compile(r"\{\{|\}\}|\{\||\|\}|\[\[|\]\]|\[(?=[a-z]*:?//)|\]")
_CLOSES = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "["}
_STYLE, _SWITCH = re.compile(r"'{2,5}"), re.compile(r"__[A-Z]{3,30}__")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")
# A template that was removed leaves its brackets and commas: (listen; born 1950), ( ).
_EMPTY_BRACKETS, _FIRST_SEPARATOR = re.compile(r" ?\([\s,;:–-]*\)"), re.compile(r"\(\s*[,;:]\s*")
_LAST_SEPARATOR = re.compile(r" ?[,;:] ?\)")
# Former names of the namespace of files, as Bild, are in no dump.
_FILE = re.compile(r":.*\.(?:jpe?g|png|svg|gif|tiff?|web[mp]|og[gav]|mp[34]|wav|flac|midi?|pdf|djvu)$", re.IGNORECASE)
_INTERWIKI = re.compile(r"[a-z][a-z-]{1,11}:")
_LEFT_OF_TABLES = re.compile(r"\s*(?:\{?\||!(?!!).*(?:!!|\|))")


def make_category_finder(site: Site) -> Callable[[str], list[str]]:
    """Make a function that lists the categories of a page from its wikitext, as the wiki stores their names."""
    names = "|".join(re.escape(name).replace(r"\ ", "[ _]") for name in sorted(site.names[CATEGORY]))
    link = re.compile(rf"\[\[[ _\t]*(?:{names})[ _\t]*:([^\[\]|{{}}<>\n]+)(?:\||\]\])", re.IGNORECASE)

    def find(text: str) -> list[str]:
        if "<!--" in text:
            text = _remove_comments(text)
        if "<nowiki>" in text:
            text = _remove_elements(text, re.compile("<(nowiki)>"))
        return [site.normalise(unescape(match.group(1))) for match in link.finditer(text)]

    return find


def make_paragraph_finder(site: Site) -> Callable[[str], list[str] | None]:
    """Make a function that turns wikitext into paragraphs, each a line; None if too many brackets are never closed.

    An item of a list is a paragraph of its own.

    Raises:
        CrossNERError: mwparserfromhell is not installed.
    """
    parse: Any = import_optional("mwparserfromhell", "Wikitext is read with mwparserfromhell", extra="corpora").parse
    dropped = site.names[FILE] | site.names[CATEGORY]

    def find(text: str) -> list[str] | None:
        text = _remove_elements(_remove_comments(text), _DROPPED_TAG)
        text = _DROPPED_END.sub("", text)  # of an element that was gone before
        text = _INLINE_TAG.sub("", _BLOCK_TAG.sub("\n\n", _LINE_BREAK_TAG.sub(" ", text)))
        if _count_unclosed(text) > UNCLOSED:
            return None
        plain = "".join(_plain(parse(text, skip_style_tags=True).nodes, dropped))
        return [paragraph for part in _PARAGRAPH_END.split(plain) if (paragraph := _tidy(part))]

    return find


def _remove_comments(text: str) -> str:
    """Remove comments; one that is never closed takes the rest with it, as in MediaWiki."""
    kept, start = [], 0
    while (found := text.find("<!--", start)) >= 0:
        kept.append(text[start:found])
        end = text.find("-->", found + 4)
        if end < 0:
            return "".join(kept)
        start = end + 3
    return "".join([*kept, text[start:]])


def _remove_elements(text: str, tag: re.Pattern[str]) -> str:
    """Remove elements of HTML with their content; of an element that is never closed only the tag."""
    kept, start = [], 0
    never_closed: set[str] = set()
    for match in tag.finditer(text):
        if match.start() < start:
            continue
        kept.append(text[start : match.start()])
        start, name = match.end(), match.group(1).lower()
        if match.group().endswith("/>") or name in never_closed:
            continue
        found = re.compile(f"</{re.escape(name)}", re.IGNORECASE).search(text, start)
        if found is None:
            never_closed.add(name)
            continue
        closing = text.find(">", found.end())
        start = closing + 1 if closing >= 0 else len(text)
    return "".join([*kept, text[start:]])


def _count_unclosed(text: str) -> int:
    """Count the brackets of markup that are opened and never closed."""
    open_brackets: list[str] = []
    unclosed = 0
    for match in _BRACKET.finditer(text):
        bracket = match.group()
        opening = _CLOSES.get(bracket)
        if opening is None:
            open_brackets.append(bracket)
        elif opening in open_brackets[-UNCLOSED:]:
            while open_brackets.pop() != opening:
                unclosed += 1
    return unclosed + len(open_brackets)


def _plain(nodes: list[Any], dropped: set[str]) -> Iterator[str]:
    """Yield the words that nodes of a parse tree show, paragraphs apart."""
    for node in nodes:
        kind = type(node).__name__
        if kind == "Text":
            yield node.value
        elif kind == "Wikilink":
            yield from _plain_link(node, dropped)
        elif kind == "ExternalLink" and node.title is not None:
            yield from _plain(node.title.nodes, dropped)
        elif kind == "HTMLEntity":
            yield re.sub("[\ud800-\udfff]", "\ufffd", node.normalize())  # half a pair is no character
        elif kind == "Heading":
            yield "\n\n"
        elif kind == "Tag":
            tag = str(node.tag).strip().lower()
            if node.wiki_markup and tag != "table":  # items of lists, indented lines, rules
                yield "\n\n"
            if tag != "table" and node.contents is not None:
                yield from _plain(node.contents.nodes, dropped)


def _plain_link(node: Any, dropped: set[str]) -> Iterator[str]:
    title = str(node.title).strip()
    if title.partition(":")[0].strip().replace("_", " ").lower() in dropped or _FILE.search(title):
        return
    if node.text is not None:
        yield from _plain(node.text.nodes, dropped)
    elif not _INTERWIKI.match(title):
        yield title.removeprefix(":").replace("_", " ")


def _tidy(part: str) -> str:
    """Return a paragraph as one line; empty if it has no letter."""
    lines = [line for line in part.split("\n") if not _LEFT_OF_TABLES.match(line)]
    text = _SWITCH.sub("", _STYLE.sub("", " ".join(lines)))
    text = _FIRST_SEPARATOR.sub("(", _EMPTY_BRACKETS.sub("", text))
    text = _LAST_SEPARATOR.sub(")", " ".join(text.split()))
    return text if any(map(str.isalpha, text)) else ""
