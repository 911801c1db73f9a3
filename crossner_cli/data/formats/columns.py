"""Columns of words and tags: CoNLL 2003 and its kin, CoNLL-U Plus, OntoNotes, GermEval, with comments and indices.

Words stay as they are, U+00A0 and U+0085 included; what had to be repaired is counted. Tags keep the scheme of their
file.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from crossner_cli.data.files import BAD_LINE, Repairs, number_lines
from crossner_cli.data.formats.spans import Located, abbreviate
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import (
    OTHER_TAG,
    OUTSIDE,
    are_tags,
    first_tag,
    is_tag,
    is_type,
    read_tag,
    to_spans,
    types_of,
)
from crossner_cli.errors import BadLine, CrossNERError

DOCSTART = "-DOCSTART-"
# Stands for a word that is empty or white space: the row keeps its place and its tag.
NO_WORD = "\ufffd"
# str.strip() would take U+00A0 and U+0085 too, which are words in published data.
BLANK = " \t"
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
MOST_FIELDS = 5  # of a row with spaces that is likely one; a line with more is likely text
SAMPLE = 20_000  # lines that tell the layout
FEWEST_TAGS, FEWEST_OUTSIDE, MOST_TYPES = 0.9, 0.2, 100  # of a column that holds tags; types without prefix
CHUNKS = frozenset(["NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP", "NX", "VX"])
GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.+)")
ONTONOTES, ONTONOTES_WORD, ONTONOTES_TAG = "#begin document", 3, 10
INDEX, INDEX_OF_OTHERS = re.compile(r"\d+$"), re.compile(r"\d+[-.]\d+$")


@dataclass(frozen=True)
class Layout:
    """Where words and tags stand in the rows of a file.

    Args:
        word: Column of the word, from 0.
        tag: Column of the tag, from 0; -1: the last one.
        columns: Number of columns, None if it does not matter.
        form: How tags are written: ``prefix`` (B-person), ``other`` (B_person), ``type`` (person) or ``brackets``.
        has_index: Whether the first column counts the words of a sentence.
        tag_columns: For the user: each column that holds tags, with its numbers of entities and types.
    """

    word: int = 0
    tag: int = -1
    columns: int | None = None
    form: str = "prefix"
    has_index: bool = False
    tag_columns: tuple[tuple[int, int, int], ...] = ()

    def describe(self) -> str:
        """Describe what is read; with several columns of tags, all of them and how to choose."""
        form = {"type": " without prefixes: neighbours of one type are one entity", "brackets": " in brackets"}
        text = f"columns, word {self.word + 1}, tag {self.tag + 1 if self.tag >= 0 else 'in the last'}"
        text += form.get(self.form, "")
        if len(self.tag_columns) > 1:
            each = ", ".join(
                f"{column + 1} ({entities} entities of {types} types)" for column, entities, types in self.tag_columns
            )
            text += f"; columns of tags: {each}; --columns word={self.word + 1},tag=N takes another"
        return text


def split_fields(text: str) -> list[str]:
    """The columns of a row: separated by tabs if it has one, else by spaces."""
    if "\t" in text:
        return text.split("\t")
    fields = text.split(" ")
    if not fields[0] and len(text.split()) > 1:  # indented: the word is not empty
        fields = text.strip(" ").split(" ")
    return fields


def parse_layout(text: str) -> Layout:
    """Read ``--columns word=2,tag=4``; columns count from 1.

    Raises:
        CrossNERError: It has another form.
    """
    found = re.fullmatch(r"\s*word\s*=\s*([1-9]\d?)\s*,\s*tag\s*=\s*([1-9]\d?)\s*", text)
    if found is None or found[1] == found[2]:
        raise CrossNERError(f"--columns {text!r} names no two columns.", hint="Count from 1: --columns word=2,tag=4")
    return Layout(int(found[1]) - 1, int(found[2]) - 1)


def find_layout(lines: Iterable[str], chosen: Layout | None = None) -> Layout:
    """Find the columns of words and tags from the first lines of a file.

    Of several columns of tags it is the one with most entities, that of phrases (``B-NP``) aside; of equals the last.
    Where the first column counts up from 1 in every sentence, the second holds the words.

    Args:
        lines: Lines without their ends.
        chosen: The user's choice, of which only the form of its tags is found.
    """
    rows: list[list[str]] = []
    index_of_word, is_index, has_rows = 0, True, False
    for text in itertools.islice((line.rstrip(BLANK) for line in lines), SAMPLE):
        if text.startswith(ONTONOTES) and chosen is None:
            return Layout(ONTONOTES_WORD, ONTONOTES_TAG, form="brackets")
        if (named := GLOBAL_COLUMNS.match(text)) and chosen is None:
            return _named_layout(named[1].split())
        fields = split_fields(text)
        if not text or text.startswith(DOCSTART):
            index_of_word = 0
        elif not _may_be_comment(fields, text):
            rows.append([field.strip(" ") for field in fields if field] if "\t" not in text else fields)
            if INDEX_OF_OTHERS.match(fields[0]):
                continue
            index_of_word, has_rows = index_of_word + 1, True
            is_index &= fields[0] == str(index_of_word) and len(fields) > 2
    usual = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    return _choose_columns([row for row in rows if len(row) == usual], usual, is_index and has_rows, chosen)


def _named_layout(names: Sequence[str]) -> Layout:
    """The layout of CoNLL-U Plus, whose first line names its columns."""
    lower = [name.lower() for name in names]
    word = next((lower.index(name) for name in ("form", "word", "token") if name in lower), 1)
    kinds = ("ner", "ne", "entity", "tag", "bio")
    tag = next((number for number, name in enumerate(lower) if any(kind in name.split(":") for kind in kinds)), -1)
    tag = tag if tag >= 0 else next((n for n, name in enumerate(lower) if any(kind in name for kind in kinds[:3])), -1)
    return Layout(word, tag, has_index=lower[0] == "id")


def _choose_columns(rows: Sequence[Sequence[str]], columns: int, has_index: bool, chosen: Layout | None) -> Layout:
    word = 1 if has_index else 0
    if chosen is not None:
        form = _form_of([row[chosen.tag] for row in rows if chosen.tag < len(row)])
        return replace(chosen, columns=columns or None, form=form or "prefix", has_index=has_index)
    found: list[tuple[int, int, int]] = []
    of_phrases = []
    for column in range(word + 1, columns):
        values = [row[column] for row in rows]
        if _form_of(values) in ("prefix", "other"):
            tags = [read_tag(first_tag(value)) or OUTSIDE for value in values]
            spans, types = to_spans(tags), set(types_of([tags]))
            found.append((column, len(spans), len(types)))
            of_phrases += [found[-1]] if spans and types <= CHUNKS else []
    named = [each for each in found if each not in of_phrases] or found
    if named:
        tag = max(named, key=lambda each: (each[1], each[0]))[0]
        form = _form_of([row[tag] for row in rows]) or "prefix"
        # What is read when nothing is chosen is the last column, which also allows rows of other numbers.
        tag = -1 if tag == columns - 1 and not has_index else tag
        shown = tuple(found) if len([each for each in found if each[1]]) > 1 else ()
        return Layout(word, tag, columns, form=form, has_index=has_index, tag_columns=shown)
    if columns > word + 1 and _form_of([row[-1] for row in rows]) == "type":
        return Layout(word, -1, columns, form="type", has_index=has_index)
    return Layout(word, -1, has_index=has_index)


def _form_of(values: Sequence[str]) -> str | None:
    """How the values of a column write tags: ``prefix``, ``other`` or ``type``; None if they are not tags."""
    counts = Counter(values)
    for form, is_in_form in (("prefix", is_tag), ("other", read_tag)):
        tags = sum(count for value, count in counts.items() if is_in_form(first_tag(value)))
        if values and tags >= FEWEST_TAGS * len(values) and (form == "prefix" or are_tags(counts)):
            return form
    types = [value for value in counts if value != OUTSIDE]
    is_plain = types and len(types) <= MOST_TYPES and all(is_type(each) and not is_tag(each) for each in types)
    return "type" if is_plain and counts[OUTSIDE] >= FEWEST_OUTSIDE * len(values) else None


def _may_be_comment(fields: Sequence[str], text: str) -> bool:
    return text.startswith("#") and not any(map(is_tag, fields[1:]))


def parse_columns(
    stream: Iterable[bytes],
    name: str,
    repairs: Repairs,
    *,
    tags_required: bool = True,
    layout: Layout | None = None,
) -> Iterator[Located]:
    """Read sentences in columns: the first is the word and the last its tag, or as a layout has it.

    Columns are separated by tabs if the line has one, else by spaces. A line of spaces ends a sentence as an empty
    one does; ``<TAB>O`` is a word that is empty. Rows of more or fewer columns than the others are counted; where
    spaces separate, what a row has more is part of its word. A sentence with a bad line is left out whole. With a
    layout, lines that begin with # and hold no tag are comments.

    Args:
        stream: Lines as bytes.
        name: The file's name, for messages.
        repairs: Counts repairs.
        tags_required: Whether every word must have a tag; if not, a sentence without them has ``tags`` None.
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
                yield Located(Sentence(tuple(words), known if len(known) == len(words) else None), lines)
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
    """Splits rows; remembers the tags already checked, and the type of a bracket that is open."""

    def __init__(self, layout: Layout | None, tags_required: bool) -> None:
        self.layout, self.tags_required = layout, tags_required
        self.word, self.tag = (layout.word, layout.tag) if layout else (0, -1)
        self.form = layout.form if layout else "prefix"
        self.columns = (layout and layout.columns) or 0
        self.known = {OUTSIDE}
        self.repaired = ""  # what was repaired in the last row
        self.open_type = ""

    def __call__(self, text: str) -> tuple[str, str, str | None]:
        """The reason to skip a row, empty if there is none, its word, and its tag if there is one."""
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
        return is_other or _may_be_comment(filled, text)

    def _split(self, text: str, fields: list[str]) -> tuple[str, str | None]:
        filled = fields if "\t" in text else [field for field in fields if field]
        more = len(filled) - self.columns if self.columns and "\t" not in text else 0
        if self.word or self.tag >= 0 or more > 0:
            fields = filled
        if fields[0] == DOCSTART:
            return DOCSTART, None
        if more > 0:
            behind = self.word + more + 1
            if any(map(is_tag, fields[self.word + 1 : behind])):
                problem = f"found {len(fields)} columns in {abbreviate(text)}, where other rows have {self.columns}."
                raise BadLine(problem, hint="Give every row as many columns, or separate them by tabs.")
            fields = [*fields[: self.word], " ".join(fields[self.word : behind]), *fields[behind:]]
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
                problem = f"found {abbreviate(text)}, expected a word alone or a word and a tag."
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
        """The tag that a value stands for: ``person`` is I-person, ``(person*`` begins one."""
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
