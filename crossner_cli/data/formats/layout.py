"""The columns of words and tags in a file, found from its first lines."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from crossner_cli.data.tags import OUTSIDE, are_tags, first_tag, is_tag, is_type, read_tag, to_spans, types_of
from crossner_cli.errors import CrossNERError

DOCSTART = "-DOCSTART-"
# str.strip() would strip U+00A0 and U+0085 too, which are words in published data.
BLANK = " \t"
SAMPLE = 20_000  # lines that show the layout
FEWEST_TAGS, FEWEST_OUTSIDE, MOST_TYPES = 0.9, 0.2, 100  # share of tags in a column of tags; types without prefix
CHUNKS = frozenset(["NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP", "NX", "VX"])
GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.+)")
ONTONOTES, ONTONOTES_WORD, ONTONOTES_TAG = "#begin document", 3, 10
INDEX, INDEX_OF_OTHERS = re.compile(r"\d+$"), re.compile(r"\d+[-.]\d+$")


@dataclass(frozen=True)
class Layout:
    """The columns of words and tags in a file.

    Args:
        word: Column of the word, from 0.
        tag: Column of the tag, from 0; -1: the last one.
        columns: Number of columns, None if it does not matter.
        form: The form of tags: ``prefix`` (B-person), ``other`` (B_person), ``type`` (person) or ``brackets``.
        has_index: True if the first column counts the words of a sentence.
        tag_columns: For the user: each column that holds tags, with its numbers of entities and types.
    """

    word: int = 0
    tag: int = -1
    columns: int | None = None
    form: str = "prefix"
    has_index: bool = False
    tag_columns: tuple[tuple[int, int, int], ...] = ()

    def describe(self) -> str:
        """Describe the columns read; with several columns of tags, all of them and how to choose."""
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
    """Split a row into columns: at tabs if it has one, else at spaces."""
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

    The column with most entities is that of the tags, except phrases (``B-NP``); the last of equals. Where the first
    column counts up from 1 in every sentence, the second holds the words.

    Args:
        lines: Lines without their ends.
        chosen: The user's choice; only the form of its tags is found.
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
        elif not may_be_comment(fields, text):
            rows.append([field.strip(" ") for field in fields if field] if "\t" not in text else fields)
            if INDEX_OF_OTHERS.match(fields[0]):
                continue
            index_of_word, has_rows = index_of_word + 1, True
            is_index &= fields[0] == str(index_of_word) and len(fields) > 2
    usual = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    return _choose_columns([row for row in rows if len(row) == usual], usual, is_index and has_rows, chosen)


def _named_layout(names: Sequence[str]) -> Layout:
    """Read the layout of CoNLL-U Plus, whose first line names its columns."""
    lower = [name.lower() for name in names]
    word = next((lower.index(name) for name in ("form", "word", "token") if name in lower), 1)
    kinds = ("ner", "ne", "entity", "tag", "bio")
    tag = next((number for number, name in enumerate(lower) if any(kind in name.split(":") for kind in kinds)), -1)
    tag = tag if tag >= 0 else next((n for n, name in enumerate(lower) if any(kind in name for kind in kinds[:3])), -1)
    return Layout(word, tag, has_index=lower[0] == "id")


def _choose_columns(rows: Sequence[Sequence[str]], columns: int, has_index: bool, chosen: Layout | None) -> Layout:
    word = 1 if has_index else 0
    if chosen is not None:
        form = _find_form([row[chosen.tag] for row in rows if chosen.tag < len(row)])
        return replace(chosen, columns=columns or None, form=form or "prefix", has_index=has_index)
    found: list[tuple[int, int, int]] = []
    of_phrases = []
    for column in range(word + 1, columns):
        values = [row[column] for row in rows]
        if _find_form(values) in ("prefix", "other"):
            tags = [read_tag(first_tag(value)) or OUTSIDE for value in values]
            spans, types = to_spans(tags), set(types_of([tags]))
            found.append((column, len(spans), len(types)))
            of_phrases += [found[-1]] if spans and types <= CHUNKS else []
    named = [each for each in found if each not in of_phrases] or found
    if named:
        tag = max(named, key=lambda each: (each[1], each[0]))[0]
        form = _find_form([row[tag] for row in rows]) or "prefix"
        # Without a choice the last column is read, which also allows rows with other numbers of columns.
        tag = -1 if tag == columns - 1 and not has_index else tag
        shown = tuple(found) if len([each for each in found if each[1]]) > 1 else ()
        return Layout(word, tag, columns, form=form, has_index=has_index, tag_columns=shown)
    if columns > word + 1 and _find_form([row[-1] for row in rows]) == "type":
        return Layout(word, -1, columns, form="type", has_index=has_index)
    return Layout(word, -1, has_index=has_index)


def _find_form(values: Sequence[str]) -> str | None:
    """Find the form of the tags in a column: ``prefix``, ``other`` or ``type``; None if they are not tags."""
    counts = Counter(values)
    for form, is_in_form in (("prefix", is_tag), ("other", read_tag)):
        tags = sum(count for value, count in counts.items() if is_in_form(first_tag(value)))
        if values and tags >= FEWEST_TAGS * len(values) and (form == "prefix" or are_tags(counts)):
            return form
    types = [value for value in counts if value != OUTSIDE]
    is_plain = types and len(types) <= MOST_TYPES and all(is_type(each) and not is_tag(each) for each in types)
    return "type" if is_plain and counts[OUTSIDE] >= FEWEST_OUTSIDE * len(values) else None


def may_be_comment(fields: Sequence[str], text: str) -> bool:
    """Return whether a row begins with # and holds no tag."""
    return text.startswith("#") and not any(map(is_tag, fields[1:]))
