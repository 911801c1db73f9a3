"""Columns of words and tags (CoNLL and its kin), in any usual tag scheme.

Words stay as they are, U+00A0 and U+0085 included; what had to be repaired is counted. Tags keep the scheme of their
file; ``read_domain`` writes them in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from crossner_cli.data.files import Repairs, number_lines
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, is_tag
from crossner_cli.errors import BadLine

DOCSTART = "-DOCSTART-"
# Stands for a word that is empty or white space: the row keeps its place and its tag.
NO_WORD = "\ufffd"
# str.strip() would take U+00A0 and U+0085 too, which are words in published data.
BLANK = " \t"

WHITE_SPACE_BREAK = "white-space line read as the end of a sentence"
EMPTY_WORD = "empty word replaced by U+FFFD"
EMPTY_SENTENCE = "sentence without words dropped"
DOCSTART_DROPPED = "-DOCSTART- dropped"
OTHER_COLUMNS = "row of another number of columns than the first, read as its first and its last column"
ILLEGAL_TAG = "tag that cannot follow the one before it repaired"

COLUMNS_HINT = "A line is word<TAB>tag, or word and tag separated by a space; an empty line ends a sentence."
WORDS_HINT = f"{COLUMNS_HINT} For running text, give --input-format text."
TAG_HINT = "A tag is O or prefix-type, as B-person; prefixes of IOB, BIOES, BILOU and BMES are read."


@dataclass(frozen=True)
class Located:
    """A sentence as the file has it, and the line of each word."""

    sentence: Sentence
    lines: Sequence[int]


class Row(NamedTuple):
    """A row of a file: its word, its tag if there is one, and its number of columns."""

    word: str
    tag: str | None
    columns: int


def parse_columns(
    stream: Iterable[bytes], name: str, repairs: Repairs, *, tags_required: bool = True, keep_docstart: bool = False
) -> Iterator[Located]:
    """Read sentences in columns: the first is the word, the last its tag.

    Columns are separated by tabs if the line has one, else by spaces. A line of spaces ends a sentence as an empty
    one does; ``<TAB>O`` is a word that is empty. Rows of more or fewer columns than the first one are counted: a word
    with a space in it loses what stands behind the space.

    Args:
        stream: Lines as bytes.
        name: The file's name, for messages.
        repairs: Counts repairs.
        tags_required: Whether every word must have a tag; else a line may be a word alone.
        keep_docstart: Keep ``-DOCSTART-`` as a sentence of one word.

    Raises:
        CrossNERError: A line is malformed.
    """
    words: list[str] = []
    tags: list[str | None] = []
    known = {OUTSIDE}
    number = usual = 0
    for number, line in number_lines(stream, name, repairs):
        place = f"{name}:{number}"
        text = line.rstrip(BLANK)
        if not text:
            if line:
                repairs.add(WHITE_SPACE_BREAK, place)
            if words:
                yield _locate(words, tags, number)
                words, tags = [], []
            continue
        try:
            row = _split_row(text, place, known, tags_required)
        except BadLine as problem:
            repairs.refuse(problem, place)
            continue
        if row.word == DOCSTART:
            if words:
                yield _locate(words, tags, number)
                words, tags = [], []
            if keep_docstart:
                yield Located(Sentence((DOCSTART,), (OUTSIDE,)), [number])
            else:
                repairs.add(DOCSTART_DROPPED, place)
            continue
        if row.tag is not None and row.word:
            usual = usual or row.columns
            if row.columns != usual:
                repairs.add(OTHER_COLUMNS, place)
        words.append(replace_empty(row.word, place, repairs))
        tags.append(row.tag)
    if words:
        yield _locate(words, tags, number + 1)


def _locate(words: Sequence[str], tags: Sequence[str | None], end: int) -> Located:
    """The sentence whose last row is on the line before ``end``."""
    known = tuple(tag for tag in tags if tag is not None)
    sentence = Sentence(tuple(words), known if len(known) == len(words) else None)
    return Located(sentence, range(end - len(words), end))


def _split_row(text: str, place: str, known: set[str], tags_required: bool) -> Row:
    """Split a row into columns. ``known`` holds the tags already checked."""
    if "\r" in text:
        raise BadLine(
            f"{place}: found a carriage return inside a line, {abbreviate(text)}.",
            hint="Convert the line ends to LF, as: tr '\\r' '\\n' < FILE > CONVERTED",
        )
    separator = "\t" if "\t" in text else " "
    fields = text.split(separator)
    if separator == " " and not fields[0] and len(text.split()) > 1:  # indented: the word is not empty
        fields = text.strip(" ").split(" ")
    if len(fields) == 1:
        if tags_required and text != DOCSTART:
            raise BadLine(
                f"{place}: found one column, {abbreviate(text)}, expected a word and a tag.", hint=COLUMNS_HINT
            )
        return Row(text, None, 1)
    word, tag = fields[0], fields[-1].strip(" ")
    columns = len(fields) - (fields.count("") if separator == " " else 0)
    if tag in known:
        return Row(word, tag, columns)
    if is_tag(tag):
        known.add(tag)
        return Row(word, tag, columns)
    if word == DOCSTART:
        return Row(word, None, columns)
    if tags_required:
        raise BadLine(f"{place}: found the tag {abbreviate(tag)} in {abbreviate(text)}.", hint=TAG_HINT)
    raise BadLine(
        f"{place}: found {abbreviate(text)}, expected a word alone or a word and a tag.",
        hint=WORDS_HINT,
    )


def replace_empty(word: str, place: str, repairs: Repairs) -> str:
    """Return the word, or U+FFFD in place of one that is empty or white space."""
    if word.strip(BLANK):
        return word
    repairs.add(EMPTY_WORD, place)
    return NO_WORD


def abbreviate(value: Any) -> str:
    """A value for a message, cut if it is long."""
    text = repr(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:80]} …"
