"""Small MediaWiki dumps, made here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

SITE = """<siteinfo><sitename>Test</sitename><dbname>testwiki</dbname><case>first-letter</case><namespaces>
<namespace key="-1" case="first-letter">Special</namespace>
<namespace key="0" case="first-letter" />
<namespace key="6" case="first-letter">{file}</namespace>
<namespace key="10" case="first-letter">Template</namespace>
<namespace key="14" case="first-letter">{category}</namespace>
</namespaces></siteinfo>
"""
NAMESPACES = {"Category": 14, "Kategorie": 14, "Template": 10}


def page(title: str, text: str, *, redirect: str | None = None) -> str:
    """A page as a dump has it; its namespace is told by its title."""
    namespace = NAMESPACES.get(title.partition(":")[0], 0)
    target = f'<redirect title="{escape(redirect)}" />' if redirect else ""
    return (
        f"<page>\n<title>{escape(title)}</title>\n<ns>{namespace}</ns>\n<id>7</id>\n{target}\n<revision><id>8</id>"
        f"<contributor><username>Title</username></contributor><comment>text</comment>"
        f'<text bytes="9" xml:space="preserve">{escape(text)}</text><sha1>x</sha1></revision>\n</page>\n'
    )


def dump(pages: Iterable[str], *, category: str = "Category", file: str = "File") -> bytes:
    """A dump of these pages."""
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">\n'
    return (head + SITE.format(category=category, file=file) + "".join(pages) + "</mediawiki>\n").encode()
