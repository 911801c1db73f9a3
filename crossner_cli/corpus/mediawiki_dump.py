"""Pages of a MediaWiki XML dump (``pages-articles.xml.bz2``), one after the other in constant memory.

The XML is read with expat. A dump has no document type declaration; one that has is refused, so that no entity is ever
expanded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from crossner_cli.data.files import BrokenFileError, OpenFile, open_decompressed
from crossner_cli.errors import CrossNERError

ARTICLE, FILE, CATEGORY = 0, 6, 14  # namespace numbers, the same in every wiki
CHUNK = 1 << 18  # bytes
LONGEST_TEXT = 1 << 26  # characters; a wiki stores 2 MiB a page
FETCH_AGAIN = "Fetch the dump again; compare its size with the one on the server."
_DUMP_NAME = re.compile(r"\.xml(?:-p\d+p\d+)?(?:\.(?:gz|bz2|zst))?$", re.IGNORECASE)
_CAPTURED = frozenset(["title", "ns", "text", "namespace"])


def is_dump(path: Path) -> bool:
    """Whether a file is called as dumps are: ``.xml``, compressed or not, whole or one of its numbered parts."""
    return _DUMP_NAME.search(path.name) is not None


@dataclass(frozen=True)
class Page:
    """A page of a wiki.

    Args:
        namespace: Its number.
        title: Its title, with the name of the namespace.
        is_redirect: Whether it only points to another page; then there is no text.
        text: Its wikitext, in the last revision of the dump.
    """

    namespace: int
    title: str
    is_redirect: bool
    text: str


@dataclass
class Site:
    """What a dump says of its wiki.

    Args:
        names: Names of each namespace in lower case, those of English included, by its number.
        capitalises: Whether the first letter of a title is always a capital.
    """

    names: dict[int, set[str]] = field(default_factory=lambda: {FILE: {"file", "image"}, CATEGORY: {"category"}})
    capitalises: bool = True

    def normalise(self, title: str) -> str:
        """A title as the wiki stores it."""
        words = " ".join(title.replace("_", " ").split())
        return words[:1].upper() + words[1:] if self.capitalises else words


@dataclass
class DumpReader:
    """Reads one dump once.

    Args:
        path: The dump.
        namespaces: Numbers of the namespaces whose pages are wanted; of others no text is kept.
        site: What it says of its wiki; complete before the first page.
        counts: Pages read, of them redirects (of the namespaces wanted).
    """

    path: Path
    namespaces: Collection[int]
    site: Site = field(default_factory=Site)
    counts: Counter[str] = field(default_factory=Counter)
    _file: OpenFile | None = None
    _ready: list[Page] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _characters: int = 0
    _title: str = ""
    _last: str = ""
    _namespace: int | None = None
    _is_redirect: bool = False
    _text: str = ""
    _key: str = ""

    def position(self) -> int:
        """Bytes of the stored file that were read."""
        return self._file.position() if self._file else 0

    def pages(self) -> Iterator[Page]:
        """The pages of the namespaces wanted, redirects among them; raises what ``groups`` does."""
        for group in self.groups():
            yield from group

    def groups(self) -> Iterator[list[Page]]:
        """The same pages as they are read: those of each part of the file, which may have none.

        Raises:
            CrossNERError: The file is no dump, is cut off or broken, or declares a document type.
        """
        parser = self._make_parser()
        with open_decompressed(self.path) as self._file:
            fed, chunk = 0, b"-"
            while chunk:
                chunk = self._next_chunk(self._file)
                self._feed(parser, chunk)
                fed += len(chunk)
                if fed - parser.CurrentByteIndex > LONGEST_TEXT:
                    raise self._too_long("tag")
                ready, self._ready = self._ready, []
                yield ready

    def _next_chunk(self, file: OpenFile) -> bytes:
        try:
            return file.stream.read1(CHUNK)
        except BrokenFileError as problem:
            raise problem.after(self._place()) from None

    def _feed(self, parser: Any, chunk: bytes) -> None:
        try:
            parser.Parse(chunk, not chunk)
        except expat.ExpatError as problem:
            place = f"{self.path}:{problem.lineno}"
            if not chunk:
                raise CrossNERError(f"{place}: the dump is cut off, after {self._place()}.", hint=FETCH_AGAIN) from None
            said = expat.ErrorString(problem.code)
            raise CrossNERError(f"{place}: this is no XML ({said}), after {self._place()}.", hint=FETCH_AGAIN) from None

    def _place(self) -> str:
        return f"{self.counts['pages']} pages, the last one {self._last!r}"

    def _too_long(self, what: str) -> CrossNERError:
        return CrossNERError(
            f"{self.path}: a {what} is longer than {LONGEST_TEXT >> 20} MiB, after {self._place()}.",
            hint="Give a dump that MediaWiki wrote.",
        )

    def _make_parser(self) -> Any:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.buffer_size = 1 << 16

        def refuse(*_: Any) -> None:
            raise CrossNERError(
                f"{self.path}:{parser.CurrentLineNumber}: it declares a document type, which no dump does and which is"
                " not read.",
                hint="Give a dump that MediaWiki wrote.",
            )

        def check_root(name: str, attributes: dict[str, str]) -> None:
            if name != "mediawiki":
                raise CrossNERError(f"{self.path}: its root is <{name}>, expected <mediawiki>.",
                                    hint="Give a MediaWiki dump: a file called …-pages-articles.xml.bz2.")  # fmt: skip
            parser.StartElementHandler = start

        def start(name: str, attributes: dict[str, str]) -> None:
            parser.CharacterDataHandler = self._add if self._start(name, attributes) else None

        def end(name: str) -> None:
            parser.CharacterDataHandler = None
            self._end(name)

        parser.StartDoctypeDeclHandler, parser.EntityDeclHandler = refuse, refuse
        parser.StartElementHandler, parser.EndElementHandler = check_root, end
        return parser

    def _start(self, name: str, attributes: dict[str, str]) -> bool:
        """Note an element that begins; tell whether its characters are wanted."""
        if name == "page":
            self._title, self._namespace, self._is_redirect, self._text = "", None, False, ""
        elif name == "redirect":
            self._is_redirect = True
        elif name == "namespace":
            self._key = attributes.get("key", "")
            if self._key == str(CATEGORY):
                self.site.capitalises = attributes.get("case", "first-letter") == "first-letter"
        self._pieces, self._characters = [], 0
        return name in _CAPTURED and (name != "text" or (self._namespace in self.namespaces and not self._is_redirect))

    def _add(self, characters: str) -> None:
        self._pieces.append(characters)
        self._characters += len(characters)
        if self._characters > LONGEST_TEXT:
            raise self._too_long("text")

    def _end(self, name: str) -> None:
        if name in _CAPTURED:
            found = "".join(self._pieces)
            if name == "title":
                self._title = found
            elif name == "ns":
                self._namespace = int(found) if found.strip().lstrip("-").isdecimal() else None
            elif name == "text":
                self._text = found
            elif self._key.isdecimal() and found:
                self.site.names.setdefault(int(self._key), set()).add(found.lower())
        elif name == "page":
            self.counts["pages"] += 1
            self._last = self._title
            if self._namespace in self.namespaces and self._namespace is not None:
                self.counts["redirects"] += self._is_redirect
                self._ready.append(Page(self._namespace, self._title, self._is_redirect, self._text))
