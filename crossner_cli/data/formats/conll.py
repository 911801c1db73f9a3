"""Columns of words and tags: CoNLL 2003 and its kin, CoNLL-U Plus, OntoNotes, GermEval, with comments and indices.

Words stay as they are, U+00A0 and U+0085 included; repairs are counted. Tags keep the scheme of their file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from crossner_cli.data.documents import Document, TaggedDocument, Totals, document_of_words
from crossner_cli.data.files import BAD_LINE, Repairs, number_lines, open_bytes
from crossner_cli.data.formats.format import Format, Source
from crossner_cli.data.formats.layout import (
    BLANK,
    DOCSTART,
    INDEX_OF_OTHERS,
    SAMPLE,
    Layout,
    find_layout,
    may_be_comment,
    split_fields,
)
from crossner_cli.data.formats.spans import Located, abbreviate
from crossner_cli.data.formats.writer import Writer
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OTHER_TAG, OUTSIDE, first_tag, is_tag, read_tag
from crossner_cli.errors import BadLine

# Replaces a word that is empty or white space: the row keeps its place and its tag.
NO_WORD = "\ufffd"
WHITE_SPACE_BREAK = "white-space line read as the end of a sentence"
EMPTY_WORD = "empty word replaced by U+FFFD"
DOCSTART_DROPPED = "-DOCSTART- dropped"
OTHER_COLUMNS = "row of another number of columns than the others, read as its first and its last column"
SPACED_WORD = "word with spaces in columns set apart by spaces, read whole"
BAD_SENTENCE = "sentence with a bad line left out"
COMMENT = "comment line skipped"
SURFACE_ROW = "row of several words or of none (index 1-2 or 1.1) skipped"
COLUMNS_HINT = "A line is word<TAB>tag, or word and tag separated by a space; an empty line ends a sentence."
WORDS_HINT = f"{COLUMNS_HINT} For running text, give --input-format text."
TAG_HINT = "A tag is O or prefix-type, as B-person; prefixes of IOB, BIOES, BILOU and BMES are read."
MOST_FIELDS = 5  # most columns of a row with spaces; a line with more is likely text


def parse_columns(
    stream: Iterable[bytes],
    name: str,
    repairs: Repairs,
    *,
    tags_required: bool = True,
    layout: Layout | None = None,
) -> Iterator[Located]:
    """Read sentences in columns: the first is the word and the last its tag, or as a layout has it.

    Columns are separated by tabs if the line has one, else by spaces. A line of spaces ends a sentence as an empty one
    does; ``<TAB>O`` is an empty word. Rows of more or fewer columns than the others are counted; where spaces separate,
    the surplus of a row is part of its word. A sentence with a bad line is left out. With a layout, lines that begin
    with # and hold no tag are comments.

    Args:
        stream: Lines as bytes.
        name: The file's name, for messages.
        repairs: Counts repairs.
        tags_required: True if every word must have a tag; else a sentence without tags has ``tags`` None.
        layout: The columns of word and tag.

    Raises:
        CrossNERError: A line is malformed.
    """
    words: list[str] = []
    tags: list[str | None] = []
    lines: list[int] = []
    split = _Rows(layout, tags_required)
    bad_lines = repairs.counts[BAD_LINE]  # before the sentence
    for number, line in itertools.chain(number_lines(stream, name, repairs), [(0, "")]):
        text = line.rstrip(BLANK)
        try:
            skipped, word, tag = split(text) if text else (WHITE_SPACE_BREAK * bool(line), "", None)
        except BadLine as problem:
            repairs.refuse(problem, f"{name}:{number}")
            continue
        if skipped or (text and split.repaired):
            repairs.add(skipped or split.repaired, f"{name}:{number}")
        if not text or skipped == DOCSTART_DROPPED:
            if words and repairs.counts[BAD_LINE] > bad_lines:
                repairs.add(BAD_SENTENCE, f"{name}:{lines[0]}")
            elif words:
                known = tuple(tag for tag in tags if tag is not None)
                sentence = Sentence(
                    tuple(words), known if len(known) == len(words) else None, place=f"{name}:{lines[0]}"
                )
                yield Located(sentence, lines)
            words, tags, lines, bad_lines = [], [], [], repairs.counts[BAD_LINE]
        if skipped or not text:
            continue
        if not word.strip(BLANK):
            repairs.add(EMPTY_WORD, f"{name}:{number}")
            word = NO_WORD
        words.append(word)
        tags.append(tag)
        lines.append(number)


class _Rows:
    """Splits rows; remembers the tags already checked, and the type of an open bracket."""

    def __init__(self, layout: Layout | None, tags_required: bool) -> None:
        self.layout, self.tags_required = layout, tags_required
        self.word, self.tag = (layout.word, layout.tag) if layout else (0, -1)
        self.form = layout.form if layout else "prefix"
        self.columns = (layout and layout.columns) or 0
        self.known = {OUTSIDE}
        self.repaired = ""  # repairs in the last row
        self.open_type = ""

    def __call__(self, text: str) -> tuple[str, str, str | None]:
        """Return the reason to skip a row, or an empty text, its word, and its tag, if any."""
        self.repaired = ""
        if "\r" in text:
            raise BadLine(
                f"found a carriage return inside a line, {abbreviate(text)}.",
                hint="Convert the line ends to LF, as: tr '\\r' '\\n' < FILE > CONVERTED",
            )
        fields = split_fields(text)
        if self.layout is not None and self._is_comment(fields, text):
            return COMMENT, "", None
        if self.layout is not None and self.layout.has_index and INDEX_OF_OTHERS.match(fields[0]):
            return SURFACE_ROW, "", None
        word, tag = self._split(text, fields)
        return DOCSTART_DROPPED if word == DOCSTART else "", word, tag

    def _is_comment(self, fields: Sequence[str], text: str) -> bool:
        if not text.startswith("#"):
            return False
        usual = self.layout.columns if self.layout else None
        filled = [field for field in fields if field]
        is_other = usual is not None and usual not in (len(filled), len(fields))
        return is_other or may_be_comment(filled, text)

    def _split(self, text: str, fields: list[str]) -> tuple[str, str | None]:
        filled = fields if "\t" in text else [field for field in fields if field]
        more = len(filled) - self.columns if self.columns and "\t" not in text else 0
        if self.word or self.tag >= 0 or more > 0:
            fields = filled
        if fields[0] == DOCSTART:
            return DOCSTART, None
        if more > 0:
            after = self.word + more + 1
            if any(map(is_tag, fields[self.word + 1 : after])):
                problem = f"found {len(fields)} columns in {abbreviate(text)}, where other rows have {self.columns}."
                raise BadLine(problem, hint="Give every row the same number of columns, or separate them by tabs.")
            fields = [*fields[: self.word], " ".join(fields[self.word : after]), *fields[after:]]
            self.repaired = SPACED_WORD
        if len(fields) == 1:
            if self.tags_required and text != DOCSTART:
                raise BadLine(f"found one column, {abbreviate(text)}, expected a word and a tag.", hint=COLUMNS_HINT)
            return text, None
        last = max(self.word, self.tag)
        if last >= len(fields):
            raise BadLine(
                f"found {len(fields)} columns in {abbreviate(text)}, expected {last + 1}.",
                hint="Give other --columns, or leave the option out.",
            )
        word, value = fields[self.word], fields[self.tag].strip(" ")
        tag = self._to_tag(value if value in self.known else first_tag(value))
        if tag not in self.known and not is_tag(tag):
            if not self.tags_required:
                problem = f"found {abbreviate(text)}, expected a word, or a word and a tag."
                raise BadLine(problem, hint=WORDS_HINT)
            hint = f"{TAG_HINT} Numbers have no names." if tag.isdecimal() else TAG_HINT
            hint = f"{hint} Raw text is for --corpus, or for crossner label." if len(fields) > MOST_FIELDS else hint
            if others := [column for column in range(self.word + 1, len(fields)) if is_tag(fields[column])]:
                hint = f"{hint} Column {others[0] + 1} holds tags: --columns word={self.word + 1},tag={others[0] + 1}"
            raise BadLine(f"found the tag {abbreviate(tag)} in {abbreviate(text)}.", hint=hint)
        self.known.add(tag)
        if tag != value and self.form in ("prefix", "other"):
            self.repaired = OTHER_TAG
        elif word and not self.repaired and self.columns not in (len(filled), len(filled) - filled.count("")):
            self.repaired = OTHER_COLUMNS if self.columns and self.tag < 0 else ""
            self.columns = self.columns or len(filled)
        return word, tag

    def _to_tag(self, value: str) -> str:
        """Return the tag that a value stands for: ``person`` is I-person, ``(person*`` begins an entity."""
        if self.form == "type" and value != OUTSIDE and not is_tag(value):
            return f"I-{value}"
        if self.form == "other":
            return read_tag(value) or value
        if self.form != "brackets":
            return value
        opened = re.fullmatch(r"\(([^()*\s]+)\*?(\)?)", value)
        if opened:
            self.open_type = "" if opened[2] else opened[1]
            return f"B-{opened[1]}"
        if value in ("*", "*)", "-", OUTSIDE):
            tag = f"I-{self.open_type}" if self.open_type else OUTSIDE
            self.open_type = "" if value == "*)" else self.open_type
            return tag
        return value


def read_columns(path: Path, repairs: Repairs, chosen: Layout | None = None) -> Iterator[Located]:
    """Read a file in the columns chosen, or in those found in its first lines; note them.

    Raises:
        CrossNERError: A line is malformed.
    """
    with open_bytes(path) as stream:
        lines = (line.decode("utf-8", errors="replace").rstrip("\r\n") for line in itertools.islice(stream, SAMPLE))
        layout = find_layout((line.removeprefix("\ufeff") for line in lines), chosen)
    if layout.tag >= 0 or layout.form != "prefix" or layout.tag_columns or layout.word:
        repairs.notes.append(f"{path}: read as {layout.describe()}")
    with open_bytes(path) as stream:
        yield from parse_columns(stream, str(path), repairs, layout=layout)


def _read_documents(source: Source) -> Iterator[Document]:
    located = parse_columns(source.lines, source.name, source.repairs, tags_required=False)
    return (document_of_words(each.sentence.words) for each in located)


class ConllWriter(Writer):
    """Writes a word and its tag per line, separated by a tab, and an empty line after each sentence."""

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write the sentences of a document.

        White space that would break the columns becomes a space, an empty word becomes U+FFFD, and byte order marks
        before a word are dropped, because readers drop them too. All of these are counted in ``totals``.
        """
        lines: list[str] = []
        for words, tags in zip(tagged.document.sentences, tagged.tags, strict=True):
            for word, tag_text in zip(words, tags, strict=True):
                text = word.text.lstrip("\ufeff")
                if not text.strip(" \t\r\n"):
                    text = NO_WORD
                elif "\t" in text or "\n" in text or "\r" in text:
                    text = text.replace("\t", " ").replace("\r", " ").replace("\n", " ")
                totals.rewritten_words += text != word.text
                lines.append(f"{text}\t{tag_text}\n")
            lines.append("\n")
        return "".join(lines)


FORMAT = Format(
    "conll",
    "columns",
    "sentences",
    reads=read_columns,
    writes=ConllWriter,
    reads_documents=_read_documents,
    endings=(".conll", ".tsv", ".bio", ".iob", ".iob2", ".bioes"),
)
