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
_DUMP_NAME = re.compile(r"\.xml(?:-p\d+p\d+)?(?:\.(?:gz|bz2|zst))?$", re.IGNORECASE)


def is_dump(path: Path) -> bool:
    """Return whether a file is named as dumps are: ``.xml``, compressed or not, whole or one of its numbered parts."""
    return _DUMP_NAME.search(path.name) is not None


@dataclass(frozen=True)
class Page:
    """A page of a wiki.

    Args:
        namespace: Its number.
        title: Its title, with the name of the namespace.
        is_redirect: Whether it only points to another page; then it has no text.
        text: Its wikitext, in the last revision of the dump.
    """

    namespace: int
    title: str
    is_redirect: bool
    text: str


@dataclass
class Site:
    """The names of a wiki.

    Args:
        names: Names of each namespace in lower case, those of English included, by its number.
        capitalises: Whether the first letter of a title is always a capital.
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
        """Return the bytes of the stored file that were read."""
        return self._file.position() if self._file else 0

    def pages(self) -> Iterator[Page]:
        """Read the pages of the namespaces wanted, redirects among them; raises what ``groups`` does."""
        for group in self.groups():
            yield from group

    def groups(self) -> Iterator[list[Page]]:
        """Read the same pages by chunks of the file; those of a chunk, which may have none.

        Raises:
            CrossNERError: The file is no dump, is cut off or broken, or declares a document type.
        """
        parser: Any = XMLPullParser(("start", "end"))
        with open_decompressed(self.path) as self._file:
            chunk, head, unfinished = b"-", b"", 0
            while chunk:
                chunk = self._read_chunk(self._file)
                if self._root is None:
                    head += chunk
                    self._refuse_document_type(head)
                before = self.counts["pages"]
                group = self._parse(parser, chunk)
                unfinished = unfinished + len(chunk) if self.counts["pages"] == before else 0
                if unfinished > LONGEST_PAGE:
                    raise CrossNERError(
                        f"{self.path}: a page is longer than {LONGEST_PAGE >> 20} MiB, after {self._place()}.",
                        hint="Give a dump that MediaWiki wrote.",
                    )
                yield group

    def _read_chunk(self, file: OpenFile) -> bytes:
        try:
            return file.stream.read1(CHUNK)
        except BrokenFileError as problem:
            raise problem.after(self._place()) from None

    def _refuse_document_type(self, head: bytes) -> None:
        if b"<!DOCTYPE" in head:
            raise CrossNERError(
                f"{self.path}: it declares a document type, which no dump does.",
                hint="Give a dump that MediaWiki wrote.",
            )

    def _parse(self, parser: Any, chunk: bytes) -> list[Page]:
        """Parse the next bytes of the file, of which none are left at its end."""
        try:
            if chunk:
                parser.feed(chunk)
            else:
                parser.close()
            return list(self._read_events(parser))
        except ParseError as problem:
            place = f"{self.path}:{problem.position[0]}"
            if not chunk:
                raise CrossNERError(f"{place}: the dump is cut off, after {self._place()}.", hint=FETCH_AGAIN) from None
            raise CrossNERError(
                f"{place}: this is no XML ({problem}), after {self._place()}.", hint=FETCH_AGAIN
            ) from None

    def _place(self) -> str:
        return f"{self.counts['pages']} pages, the last one {self._last!r}"

    def _read_events(self, parser: Any) -> Iterator[Page]:
        page_tag, namespace_tag = f"{self._prefix}page", f"{self._prefix}namespace"
        for event, element in parser.read_events():
            if self._root is None:
                self._root = self._check_root(element)
                page_tag, namespace_tag = f"{self._prefix}page", f"{self._prefix}namespace"
            if event == "start":
                continue
            if element.tag == page_tag:
                page = self._read_page(element)
                self._root.clear()
                if page is not None:
                    yield page
            elif element.tag == namespace_tag:
                self._read_namespace(element)

    def _check_root(self, root: Element) -> Element:
        name = root.tag.rpartition("}")[2]
        if name != "mediawiki":
            raise CrossNERError(
                f"{self.path}: its root is <{name}>, expected <mediawiki>.",
                hint="Give a MediaWiki dump: a file called …-pages-articles.xml.bz2.",
            )
        self._prefix = root.tag.removesuffix(name)
        return root

    def _read_namespace(self, element: Element) -> None:
        key = element.get("key", "")
        if key == str(CATEGORY):
            self.site.capitalises = element.get("case", "first-letter") == "first-letter"
        if key.isdecimal() and element.text:
            self.site.names.setdefault(int(key), set()).add(element.text.lower())

    def _read_page(self, element: Element) -> Page | None:
        """Read a page; None if it is of no namespace wanted."""
        self.counts["pages"] += 1
        self._last = element.findtext(self._prefix + "title", "")
        number = element.findtext(self._prefix + "ns", "").strip()
        namespace = int(number) if number.lstrip("-").isdecimal() else None
        if namespace is None or namespace not in self.namespaces:
            return None
        is_redirect = element.find(self._prefix + "redirect") is not None
        self.counts["redirects"] += is_redirect
        texts = [] if is_redirect else element.findall(f"{self._prefix}revision/{self._prefix}text")
        return Page(namespace, self._last, is_redirect, (texts[-1].text or "") if texts else "")
