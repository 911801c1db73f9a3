"""The pages of a MediaWiki XML dump (``pages-articles.xml.bz2``), one after the other in constant memory.

A dump has no document type declaration; a file with one is refused, so that no entity is ever expanded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from crossner_cli.data.files import BrokenFileError, OpenFile, open_decompressed
from crossner_cli.errors import CrossNERError

ARTICLE, FILE, CATEGORY = 0, 6, 14  # namespace numbers, the same in every wiki
CHUNK = 1 << 18  # bytes
LONGEST_PAGE = 1 << 26  # bytes; a wiki stores 2 MiB a page
FETCH_AGAIN = "Fetch the dump again; compare its size with the one on the server."
GIVE = "Give a MediaWiki dump: a file called …-pages-articles.xml.bz2."
_DUMP_NAME = re.compile(r"\.xml(?:-p\d+p\d+)?(?:\.(?:gz|bz2|zst))?$", re.IGNORECASE)


def is_dump(path: Path) -> bool:
    """Return whether a file has the name of a dump: ``.xml``, compressed or not, whole or one of its numbered parts."""
    return _DUMP_NAME.search(path.name) is not None


@dataclass(frozen=True)
class Page:
    """A page of a wiki: its title with the name of the namespace, and the wikitext of its last revision.

    A redirect only points to another page and has no text.
    """

    namespace: int
    title: str
    is_redirect: bool
    text: str


@dataclass
class Site:
    """The names of a wiki's namespaces of files and categories, in lower case, with the English ones.

    ``capitalises`` is true if the first letter of a title is always a capital.
    """

    names: dict[int, set[str]] = field(default_factory=lambda: {FILE: {"file", "image"}, CATEGORY: {"category"}})
    capitalises: bool = True

    def normalise(self, title: str) -> str:
        """Return a title as the wiki stores it."""
        words = " ".join(title.replace("_", " ").split())
        return words[:1].upper() + words[1:] if self.capitalises else words


@dataclass
class DumpReader:
    """Reads one dump once.

    Args:
        path: The dump.
        namespaces: Numbers of the namespaces whose pages are wanted.
        site: The names of its wiki; complete before the first page.
        counts: Pages read, and redirects in the namespaces wanted.
    """

    path: Path
    namespaces: Collection[int]
    site: Site = field(default_factory=Site)
    counts: Counter[str] = field(default_factory=Counter)
    _file: OpenFile | None = None
    _root: Element | None = None
    _prefix: str = ""
    _last: str = ""

    def position(self) -> int:
        """Return the number of bytes of the stored file that were read."""
        return self._file.position() if self._file else 0

    def pages(self) -> Iterator[Page]:
        """Read the pages of the namespaces wanted, redirects included; raises what ``groups`` does."""
        for group in self.groups():
            yield from group

    def groups(self) -> Iterator[list[Page]]:
        """Read the same pages chunk by chunk of the file; a chunk may have none.

        Raises:
            CrossNERError: The file is not a dump, is cut off or broken, or declares a document type.
        """
        parser: Any = XMLPullParser(("start", "end"))
        with open_decompressed(self.path) as self._file:
            chunk, head, unfinished = b"-", b"", 0
            while chunk:
                try:
                    chunk = self._file.stream.read1(CHUNK)
                except BrokenFileError as problem:
                    raise problem.after(self._place()) from None
                if self._root is None:
                    head += chunk
                    if b"<!DOCTYPE" in head:
                        raise CrossNERError(f"{self.path}: it declares a document type, which no dump does.", hint=GIVE)
                before = self.counts["pages"]
                group = self._parse(parser, chunk)
                unfinished = unfinished + len(chunk) if self.counts["pages"] == before else 0
                if unfinished > LONGEST_PAGE:
                    longest = f"{LONGEST_PAGE >> 20} MiB"
                    raise CrossNERError(
                        f"{self.path}: a page is longer than {longest}, after {self._place()}.", hint=GIVE
                    )
                yield group

    def _parse(self, parser: Any, chunk: bytes) -> list[Page]:
        """Parse the next bytes of the file; empty at its end."""
        try:
            if chunk:
                parser.feed(chunk)
            else:
                parser.close()
            return list(self._read_events(parser))
        except ParseError as problem:
            said = f"it is not XML ({problem})" if chunk else "the dump is cut off"
            place = f"{self.path}:{problem.position[0]}"
            raise CrossNERError(f"{place}: {said}, after {self._place()}.", hint=FETCH_AGAIN) from None

    def _place(self) -> str:
        return f"{self.counts['pages']} pages, the last one {self._last!r}"

    def _read_events(self, parser: Any) -> Iterator[Page]:
        for event, element in parser.read_events():
            if self._root is None:
                self._root, name = element, element.tag.rpartition("}")[2]
                if name != "mediawiki":
                    raise CrossNERError(f"{self.path}: its root is <{name}>, expected <mediawiki>.", hint=GIVE)
                self._prefix = element.tag.removesuffix(name)
            if event == "start":
                continue
            if element.tag == f"{self._prefix}page":
                page = self._read_page(element)
                self._root.clear()
                if page is not None:
                    yield page
            elif element.tag == f"{self._prefix}namespace":
                key = element.get("key", "")
                if key == str(CATEGORY):
                    self.site.capitalises = element.get("case", "first-letter") == "first-letter"
                for number in (FILE, CATEGORY):
                    if key == str(number) and element.text:
                        self.site.names[number].add(element.text.lower())

    def _read_page(self, element: Element) -> Page | None:
        """Read a page; None if its namespace is not wanted."""
        self.counts["pages"] += 1
        self._last = element.findtext(self._prefix + "title", "")
        number = element.findtext(self._prefix + "ns", "").strip()
        namespace = next((each for each in self.namespaces if str(each) == number), None)
        if namespace is None:
            return None
        is_redirect = element.find(self._prefix + "redirect") is not None
        self.counts["redirects"] += is_redirect
        texts = [] if is_redirect else element.findall(f"{self._prefix}revision/{self._prefix}text")
        return Page(namespace, self._last, is_redirect, (texts[-1].text or "") if texts else "")
