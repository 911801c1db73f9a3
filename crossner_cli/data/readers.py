"""Lines of files as people publish them, and columns of words and tags (CoNLL and its kin) in any usual scheme.

What is read is UTF-8 with LF or CRLF line ends. Words stay as they are, U+00A0 and U+0085 included; what had to be
repaired is counted. Tags keep the scheme of their file; ``crossner_cli.labelled_domain`` writes them in one.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from crossner_cli.data.other_content import NEVER_TEXT, refuse_other_content
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, split_tag
from crossner_cli.errors import BadLine, CrossNERError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DOCSTART = "-DOCSTART-"
# What stands for a word that is empty or white space: the row keeps its place and its tag.
NO_WORD = "\ufffd"
# str.strip() would take U+00A0 and U+0085 too, which are words in published data.
BLANK = " \t"
# Unicode categories of control characters, line and paragraph separators, and halves of a character.
STEERING = ("Cc", "Zl", "Zp", "Cs")
EXAMPLES = 5

BYTE_ORDER_MARK_REMOVED = "byte-order mark removed"
WHITE_SPACE_BREAK = "white-space line read as the end of a sentence"
EMPTY_WORD = "empty word replaced by U+FFFD"
EMPTY_SENTENCE = "sentence without words dropped"
DOCSTART_DROPPED = "-DOCSTART- dropped"
BAD_LINE = "bad line skipped"
OTHER_COLUMNS = "row of another number of columns than the first, read as its first and its last column"
ILLEGAL_TAG = "tag that cannot follow the one before it repaired"

COLUMNS_HINT = "A line is word<TAB>tag, or word and tag separated by a space; an empty line ends a sentence."
COLUMN_HINT = (
    "Keep the column of words, as: cut -f 1 FILE > WORDS.conll; of texts, as: cut -f 2 FILE > TEXTS.txt; of CoNLL-U,"
    " as: grep -vE '^(#|[0-9]+[-.])' FILE | cut -f 2 > WORDS.conll"
)
RUNNING_TEXT_HINT = "If this is running text, say so: --input-format text, or a file that ends in .txt."
TAG_HINT = "A tag is O or prefix-type, as B-person; prefixes of IOB, BIOES, BILOU and BMES are read."


@dataclass
class Repairs:
    """What reading had to repair or drop: how often, and where first (``file:line``).

    Args:
        counts: Times, by kind.
        examples: First places, by kind.
        skips_bad_lines: Whether a line that cannot be read is dropped and counted, not refused.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    skips_bad_lines: bool = False

    def add(self, kind: str, place: str, times: int = 1) -> None:
        """Count what was repaired at a place."""
        self.counts[kind] += times
        places = self.examples.setdefault(kind, [])
        if len(places) < EXAMPLES:
            places.append(place)

    def refuse(self, error: BadLine, place: str) -> None:
        """Raise what is wrong with a line, or count the line where such lines are dropped."""
        if not self.skips_bad_lines:
            raise error from None
        self.add(BAD_LINE, place)

    def to_json(self) -> dict[str, Any]:
        """Count and first places of each kind."""
        return {kind: {"count": count, "first": self.examples[kind]} for kind, count in self.counts.items()}


@dataclass(frozen=True)
class Located:
    """A sentence as the file has it, and the line of each word."""

    sentence: Sentence
    lines: Sequence[int]


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        CrossNERError: It is missing, a folder, or may not be read.
    """
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CrossNERError(f"{path} cannot be read: {reason}.", hint="Give a file that exists and is yours.") from None


def numbered_lines(stream: Iterable[bytes], name: str, repairs: Repairs) -> Iterator[tuple[int, str]]:
    """Decode lines one at a time, without their ends, numbered from 1.

    Args:
        stream: Lines that end in LF or CRLF, the last one perhaps in neither: a file opened in binary.
        name: What to call the file in messages.
        repairs: Where a byte-order mark is counted.

    Raises:
        CrossNERError: A line is not UTF-8, or the first one shows that all of it is something else.
    """
    for number, raw in enumerate(stream, start=1):
        if number == 1 and raw.startswith(BYTE_ORDER_MARK):
            raw = raw[len(BYTE_ORDER_MARK) :]
            repairs.add(BYTE_ORDER_MARK_REMOVED, f"{name}:1")
        if number == 1 and raw.startswith(NEVER_TEXT):
            refuse_other_content(raw, name)
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if number == 1:
                refuse_other_content(raw, name)
            problem = BadLine(
                f"{name}:{number}: byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8.",
                hint="Convert the file, as: iconv -f ISO-8859-1 -t UTF-8 FILE > CONVERTED",
            )
            repairs.refuse(problem, f"{name}:{number}")
            continue
        yield number, line.rstrip("\r\n")


def parse_columns(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, tags_required: bool = True, keep_docstart: bool = False
) -> Iterator[Located]:
    """Read sentences in columns: the first is the word, the last its tag.

    Columns are separated by tabs where the line has one, else by spaces. With ``tags_required`` False a line may be a
    word alone. A line of spaces ends a sentence as an empty one does; ``<TAB>O`` is a word that is empty. Rows of more
    or fewer columns than the first one are counted: a word with a space in it loses what stands behind the space.

    Raises:
        CrossNERError: A line is malformed.
    """
    words: list[str] = []
    tags: list[str | None] = []
    known = {OUTSIDE}
    number = usual = 0
    for number, line in numbered_lines(stream, name, repairs):
        text = line.rstrip(BLANK)
        if not text:
            if line:
                repairs.add(WHITE_SPACE_BREAK, f"{name}:{number}")
            if words:
                yield _located(words, tags, number)
                words, tags = [], []
            continue
        try:
            word, tag, columns = _split_row(text, f"{name}:{number}", known, tags_required)
        except BadLine as problem:
            repairs.refuse(problem, f"{name}:{number}")
            continue
        if tag is not None and word not in ("", DOCSTART) and columns != (usual := usual or columns):
            repairs.add(OTHER_COLUMNS, f"{name}:{number}")
        if word == DOCSTART:
            if words:
                yield _located(words, tags, number)
                words, tags = [], []
            if keep_docstart:
                yield Located(Sentence((DOCSTART,), (OUTSIDE,)), [number])
            else:
                repairs.add(DOCSTART_DROPPED, f"{name}:{number}")
            continue
        words.append(whole_word(word, f"{name}:{number}", repairs))
        tags.append(tag)
    if words:
        yield _located(words, tags, number + 1)


def _located(words: list[str], tags: list[str | None], end: int) -> Located:
    """A sentence whose last row is on the line before ``end``."""
    complete = tuple(tag for tag in tags if tag is not None)
    sentence = Sentence(tuple(words), complete if len(complete) == len(words) else None)
    return Located(sentence, range(end - len(words), end))


def _split_row(text: str, place: str, known: set[str], tags_required: bool) -> tuple[str, str | None, int]:
    """Word, tag and number of columns of a row. ``known`` holds the tags already checked."""
    if "\r" in text:
        raise BadLine(
            f"{place}: found a carriage return inside a line, {shown(text)}.",
            hint="Convert the line ends to LF, as: tr '\\r' '\\n' < FILE > CONVERTED",
        )
    separator = "\t" if "\t" in text else " "
    fields = text.split(separator)
    if separator == " " and not fields[0] and len(text.split()) > 1:  # indented: the word is not empty
        fields = text.strip(" ").split(" ")
    if len(fields) == 1:
        if tags_required and text != DOCSTART:
            raise BadLine(f"{place}: found one column, {shown(text)}, expected a word and a tag.",
                          hint=_hint_on_columns(text))  # fmt: skip
        return text, None, 1
    word, tag = fields[0], fields[-1].strip(" ")
    columns = len(fields) - (fields.count("") if separator == " " else 0)
    if tag in known:
        return word, tag, columns
    if is_tag(tag):
        known.add(tag)
        return word, tag, columns
    if word == DOCSTART:
        return word, None, columns
    if tags_required:
        raise BadLine(f"{place}: found the tag {shown(tag)} in {shown(text)}.", hint=TAG_HINT)
    raise BadLine(
        f"{place}: found {shown(text)}, expected a word alone or a word and a tag.",
        hint=COLUMN_HINT if separator == "\t" or word == "#" else RUNNING_TEXT_HINT,
    )


def _hint_on_columns(text: str) -> str:
    """How columns are written, or how to convert those that stand between other marks."""
    for mark in ",;|":
        word, found, tag = text.rpartition(mark)
        if word and found and is_tag(tag.strip()):
            last = f"'s/{mark}\\([^{mark}]*\\)$/\\t\\1/'"
            return f"Columns stand between tabs or spaces. Convert: sed {last} FILE > CONVERTED"
    return COLUMNS_HINT


def is_tag(text: str) -> bool:
    """Whether a text is a tag whose type neither breaks lines and columns, steers a terminal nor ends in spaces."""
    try:
        _, entity_type = split_tag(text)
    except ValueError:
        return False
    if entity_type.strip() != entity_type:
        return False
    return entity_type.isprintable() or not any(unicodedata.category(each) in STEERING for each in entity_type)


def whole_word(word: str, place: str, repairs: Repairs) -> str:
    """The word, or what stands for it where it is empty or white space."""
    if word.strip(BLANK):
        return word
    repairs.add(EMPTY_WORD, place)
    return NO_WORD


def shown(text: str) -> str:
    """A text for a message, cut where it is long."""
    return repr(text) if len(text) <= 80 else f"{text[:80]!r} …"
