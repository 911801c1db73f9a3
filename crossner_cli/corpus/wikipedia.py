"""The text of a category of Wikipedia, from a dump of it.

Paper: Liu et al. (2021), CrossNER, take the pages of a domain's category and of its sub-categories as its raw text.
Differs: their depth is not published; here ``depth`` limits it, as most of Wikipedia is below every category.
Categories that only a template puts a page into are not found, because no template is expanded.

Of wikitext, templates, tables, references, files, comments, formulas and headings are dropped, since they hold no
sentences. Links and styles leave their words. Markup is read by mwparserfromhell; tags of HTML are taken out before, in
one pass each, because the parser takes quadratic time or more for tags that are never closed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

from crossner_cli.corpus.mediawiki_dump import ARTICLE, CATEGORY, FILE, DumpReader, Page, Site
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional
from crossner_cli.run.progress import Notice, Progress, Work

GROUPS_BETWEEN_SIGNS = 8  # of 256 KiB at most
SHOWN = 8
UNCLOSED = 50  # brackets a page may leave open; the parser's time grows with the square of their number
_DROPPED = (
    "ref references gallery math chem ce score timeline syntaxhighlight source imagemap hiero graph mapframe maplink"
    " templatedata templatestyles inputbox categorytree indicator table style script pre"
)
_BLOCKS = "div p center blockquote poem li ul ol dl dt dd hr section h1 h2 h3 h4 h5 h6 tr td th caption"
_DROPPED_TAG = re.compile(rf"<({'|'.join(_DROPPED.split())})(?![\w-])[^<>]*>", re.IGNORECASE)
_DROPPED_END = re.compile(rf"</(?:{'|'.join(_DROPPED.split())})\s*>", re.IGNORECASE)
_BLOCK_TAG = re.compile(rf"</?(?:{'|'.join(_BLOCKS.split())})(?![\w-])[^<>]*>", re.IGNORECASE)
_LINE_BREAK_TAG = re.compile(r"<br(?![\w-])[^<>]*>", re.IGNORECASE)
_OTHER_TAG = re.compile(r"</?[a-z][\w-]*(?:\s[^<>]*)?/?>", re.IGNORECASE)
_NO_TAG = "\x01"  # replaces a < that does not begin a tag, which costs the parser much time; no dump has it
_BRACKET = re.compile(r"\{\{|\}\}|\{\||\|\}|\[\[|\]\]|\[(?=[a-z]*:?//)|\]")
_CLOSES = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "["}
_STYLE, _SWITCH = re.compile(r"'{2,5}"), re.compile(r"__[A-Z]{3,30}__")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")
# A template that was removed leaves its brackets and commas: (listen; born 1950), ( ).
_EMPTY_BRACKETS, _FIRST_SEPARATOR = re.compile(r" ?\([\s,;:–-]*\)"), re.compile(r"\(\s*[,;:]\s*")
_LAST_SEPARATOR = re.compile(r" ?[,;:] ?\)")
# Former names of the namespace of files, such as Bild, are not in dumps.
_FILE = re.compile(r"\.(?:jpe?g|png|svg|gif|tiff?|web[mp]|og[gav]|mp[34]|wav|flac|midi?|pdf|djvu)$", re.IGNORECASE)
_INTERWIKI = re.compile(r"[a-z][a-z-]{1,11}:")
_LEFT_OF_TABLES = re.compile(r"\s*(?:\{?\||!(?!!).*(?:!!|\|))")


def reach_categories(below: Mapping[str, Sequence[str]], names: Sequence[str], depth: int) -> dict[str, int]:
    """Return the categories at most ``depth`` steps below those named, with their least number of steps.

    Args:
        below: The categories directly in each category; circles are usual.
        names: Where to begin.
        depth: 0 is these alone.
    """
    steps, level = dict.fromkeys(names, 0), list(names)
    for step in range(1, depth + 1):
        level = list({name for each in level for name in below[each] if name not in steps})
        steps.update(dict.fromkeys(level, step))
    return steps


def write_articles(dumps: Sequence[Path], path: Path, *, categories: Sequence[str], depth: int) -> Work[dict[str, Any]]:
    """Write the text of a wiki's articles, one paragraph per line, in constant memory apart from the category graph.

    With categories the dumps are read twice: for the graph, then for the articles.

    Args:
        dumps: A dump, or the parts of one.
        path: Where to write.
        categories: Only the articles of these and of those at most ``depth`` steps below; without any, every article is
            taken.
        depth: 0 is the category alone.

    Returns:
        Pages read, redirects, articles kept, paragraphs, and categories and articles by steps.

    Raises:
        CrossNERError: A category is not in the dump, it has no articles, or a dump is cut off or broken.
    """
    reached: dict[str, int] = {}
    if categories:
        below = yield from _read_graph(dumps)
        reached = reach_categories(below, _check_categories(below, categories, dumps), depth)
        steps = Counter(reached.values())
        shown = ", ".join(f"{steps[step]} at depth {step}" for step in sorted(steps))
        yield Notice(f"Categories reached from {', '.join(categories)}: {shown}.")
        del below
    counts = yield from _write_kept(dumps, path, reached)
    if not counts["kept"]:
        raise CrossNERError(
            f"None of the {counts['articles']} articles of {', '.join(map(str, dumps))} is in the categories"
            f" {', '.join(categories)}, {depth} steps deep.",
            hint="Raise --category-depth, or name another --wikipedia-category.",
        )
    malformed = f"; {counts['malformed']:,} left out for more than {UNCLOSED} brackets that are never closed"
    yield Notice(
        f"Wikipedia: {counts['pages']:,} pages read, {counts['redirects']:,} redirects skipped, {counts['kept']:,} of"
        f" {counts['articles']:,} articles kept with {counts['paragraphs']:,} paragraphs"
        f"{malformed if counts['malformed'] else ''}."
    )
    return {
        "categories": list(categories),
        "depth": depth,
        "categories_by_depth": [Counter(reached.values())[step] for step in sorted(set(reached.values()))],
        **dict(counts),
    }


def _read_graph(dumps: Sequence[Path]) -> Work[dict[str, list[str]]]:
    """Read the categories directly in each category, by their names without the namespace."""
    below, counts = dict[str, list[str]](), Counter[str]()
    for reader, page, find in _pages(dumps, CATEGORY, counts, make_category_finder):
        if page is None:
            yield _sign("read categories", dumps, reader, len(below), "categories")
        elif not page.is_redirect:
            name = reader.site.normalise(page.title.partition(":")[2])
            below.setdefault(name, [])
            for parent in find(page.text):
                below.setdefault(parent, []).append(name)
    return below


def _write_kept(dumps: Sequence[Path], path: Path, reached: dict[str, int]) -> Work[Counter[str]]:
    """Write the articles of the categories reached, or all articles without categories."""

    def make_finders(site: Site) -> tuple[Callable[[str], list[str]], Callable[[str], list[str] | None]]:
        return make_category_finder(site), make_paragraph_finder(site)

    counts = Counter(dict.fromkeys(("pages", "redirects", "articles", "kept", "paragraphs", "malformed"), 0))
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for reader, page, finders in _pages(dumps, ARTICLE, counts, make_finders):
            if page is None:
                yield _sign("read articles", dumps, reader, counts["kept"], "articles kept")
                continue
            if page.is_redirect:
                continue
            find, extract = finders
            counts["articles"] += 1
            if reached and reached.keys().isdisjoint(find(page.text)):
                continue
            paragraphs = extract(page.text)
            counts["malformed" if paragraphs is None else "kept"] += 1
            counts["paragraphs"] += len(paragraphs or ())
            stream.writelines(f"{paragraph}\n" for paragraph in paragraphs or ())
    return counts


def _pages(
    dumps: Sequence[Path], namespace: int, counts: Counter[str], make: Callable[[Site], Any]
) -> Iterator[tuple[DumpReader, Page | None, Any]]:
    """Read the pages of one namespace, with what ``make`` returns for their wiki; sometimes None, for progress."""
    for path in dumps:
        reader = DumpReader(path, {namespace})
        made = None
        for number, group in enumerate(reader.groups()):
            made = made or (make(reader.site) if group else None)
            for page in group:
                yield reader, page, made
            if number % GROUPS_BETWEEN_SIGNS == 0:
                yield reader, None, made
        counts.update(reader.counts)


def _sign(task: str, dumps: Sequence[Path], reader: DumpReader, number: int, what: str) -> Progress:
    sizes = [path.stat().st_size for path in dumps]
    total = sum(sizes)
    done = min(sum(sizes[: dumps.index(reader.path)]) + reader.position(), total)
    return Progress(task, done, total, "bytes", {what: float(number)})


def _check_categories(known: Mapping[str, Any], categories: Sequence[str], dumps: Sequence[Path]) -> list[str]:
    """Return the names of categories as the wiki stores them."""
    found = []
    for category in categories:
        forms = [category, Site().normalise(category), Site().normalise(category.partition(":")[2])]
        name = next((form for form in forms if form and form in known), None)
        if name is None:
            holding = sorted((each for each in known if category.lower() in each.lower()), key=len)[:SHOWN]
            files = ", ".join(map(str, dumps))
            raise CrossNERError(
                f"{files}: there is no category {category!r} among {len(known)} categories.",
                hint=f"Categories with this in their names: {', '.join(holding) or 'none'}.",
            )
        found.append(name)
    return found


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
    """Make a function that turns wikitext into paragraphs, one per line; None if too many brackets are never closed.

    Each item of a list is a paragraph.

    Raises:
        CrossNERError: mwparserfromhell is not installed.
    """
    parse: Any = import_optional("mwparserfromhell", "Wikitext is read with mwparserfromhell", extra="corpora").parse
    dropped = site.names[FILE] | site.names[CATEGORY]

    def find(text: str) -> list[str] | None:
        text = _remove_elements(_remove_comments(text), _DROPPED_TAG)
        text = _DROPPED_END.sub("", text)  # of an element that was removed before
        text = _OTHER_TAG.sub("", _BLOCK_TAG.sub("\n\n", _LINE_BREAK_TAG.sub(" ", text))).replace("<", _NO_TAG)
        if _count_unclosed(text) > UNCLOSED:
            return None
        plain = "".join(_plain(parse(text, skip_style_tags=True).nodes, dropped)).replace(_NO_TAG, "<")
        return [paragraph for part in _PARAGRAPH_END.split(plain) if (paragraph := _tidy(part))]

    return find


def _remove_comments(text: str) -> str:
    """Remove comments; one that is never closed extends to the end, as in MediaWiki."""
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
            yield re.sub("[\ud800-\udfff]", "\ufffd", node.normalize())  # half a pair is not a character
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
    namespace, _, name = title.partition(":")
    if namespace.strip().replace("_", " ").lower() in dropped or _FILE.search(name):
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
