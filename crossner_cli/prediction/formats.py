"""What tagged documents are written as: JSONL, CoNLL, brat, HTML, and by other modules Parquet and spaCy."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.data.columns import NO_WORD
from crossner_cli.data.documents import ENDINGS as ENDINGS_READ
from crossner_cli.data.jsonl import is_writable
from crossner_cli.data.parquet import COLUMNS, GIVEN
from crossner_cli.errors import CrossNERError
from crossner_cli.prediction.chunks import TaggedDocument, Totals
from crossner_cli.run.storage import to_json

# Name and bytes of a file; where the output is one file, what is next in it.
Piece = tuple[str, bytes]
BYTE_ORDER_MARK = "\ufeff"
BRAT_CONFIGURATION, BRAT_NAME = "annotation.conf", r"[A-Za-z0-9_-]+"
# What is read by an ending is written by it too.
ENDINGS = {**ENDINGS_READ, ".html": "html", ".htm": "html", ".spacy": "spacy"}


@dataclass(frozen=True)
class OutputFormat:
    """How tagged documents are written.

    Args:
        name: As ``--format`` has it.
        types: Entity types there can be.
        is_calibrated: Whether scores are probabilities of being right.
        passed_through: Of Parquet, the schema of the rows that are read.
    """

    name: str
    types: tuple[str, ...] = ()
    is_calibrated: bool = False
    passed_through: Any = None

    @property
    def has_parts(self) -> bool:
        """Whether the output is drafted as a folder of files."""
        return self.name in ("brat", "spacy", "parquet")

    @property
    def notes(self) -> list[str]:
        """What a user should know before the output is read."""
        renamed = brat_names(self.types).items() if self.name == "brat" else ()
        told = ", ".join(f"{name} for {entity_type!r}" for entity_type, name in renamed if name != entity_type)
        return [f"brat names types with letters, digits, - and _ only; written: {told}."] if told else []

    def begin(self) -> list[Piece]:
        """What stands before all documents."""
        if self.name == "brat":
            return [(BRAT_CONFIGURATION, _brat_configuration(self.types))]
        return [("", _html_head(self.types))] if self.name == "html" else []

    def end(self) -> list[Piece]:
        """What stands behind all documents."""
        return [("", b"</main>\n</body>\n</html>\n")] if self.name == "html" else []

    def write(self, numbered: Sequence[tuple[int, TaggedDocument]], totals: Totals) -> list[Piece]:
        """Write some documents.

        Args:
            numbered: The documents, one at least, each behind its number among all that were read, from 1. A file is
                called by the number of the first document in it.
            totals: Where what is rewritten is counted.
        """
        if self.name == "brat":
            names = brat_names(self.types)
            return [piece for number, each in numbered for piece in to_brat(each, number, totals, names)]
        first, tagged = numbered[0][0], [each for _, each in numbered]
        if self.name == "spacy":
            from crossner_cli.prediction.spacy_files import to_doc_bin

            return [(f"{first:09}.spacy", to_doc_bin(tagged, totals))]
        if self.name == "parquet":
            from crossner_cli.data.parquet import output_schema, rows_to_bytes

            rows = [to_row(each, self.is_calibrated) for each in tagged]
            return [(f"{first:09}.parquet", rows_to_bytes(rows, output_schema(self.passed_through)))]
        texts: dict[str, Callable[[TaggedDocument], str]] = {
            "jsonl": lambda each: to_jsonl(each, self.is_calibrated),
            "conll": lambda each: to_conll(each, totals),
            "html": lambda each: to_html(each, self.types),
        }
        return [("", "".join(map(texts[self.name], tagged)).encode())]

    def join(self, parts: Sequence[Path], target: Path) -> None:
        """Put the files of a folder into one."""
        if self.name == "parquet":
            from crossner_cli.data.parquet import join_files, output_schema

            join_files(parts, output_schema(self.passed_through), target)
            return
        from crossner_cli.prediction import spacy_files

        spacy_files.join_files(parts, target)


def choose_format(name: str, output: Path | None) -> str:
    """The format of an output: as asked for, else by the ending of its name, else JSONL.

    Raises:
        CrossNERError: The format needs an output that can be named, or a package that is not installed.
    """
    if name == "auto":
        name = ENDINGS.get(output.suffix.lower(), "jsonl") if output is not None else "jsonl"
    if output is None and name in ("brat", "spacy", "parquet"):
        raise CrossNERError(
            f"--format {name} cannot be written to stdout.",
            hint=f"Name {'a folder: --output tagged' if name == 'brat' else f'a file: --output tagged.{name}'}",
        )
    if name == "spacy":
        from crossner_cli.prediction.spacy_files import spacy_module

        spacy_module("spacy.tokens")
    if name == "parquet":
        from crossner_cli.data.parquet import pyarrow_module

        pyarrow_module("pyarrow.parquet")
    return name


def is_folder(name: str, output: Path) -> bool:
    """Whether an output of a format is a folder: brat's always, spaCy's unless its name ends in ``.spacy``."""
    return name == "brat" or (name == "spacy" and ENDINGS.get(output.suffix.lower()) != "spacy")


def to_record(tagged: TaggedDocument, is_calibrated: bool) -> dict[str, Any]:
    """A document as one object. Keys of the object read are kept, those written here win.

    ``sentences`` holds the first word and the word after the last of each sentence; ``calibrated`` tells whether scores
    are probabilities of being right.
    """
    document = tagged.document
    ends = [0]
    for words in document.sentences:
        ends.append(ends[-1] + len(words))
    return {
        **document.given,
        "text": document.text,
        "words": [word.text for words in document.sentences for word in words],
        "tags": [tag for tags in tagged.tags for tag in tags],
        "entities": tagged.entities,
        "sentences": [[ends[number], ends[number + 1]] for number in range(len(document.sentences))],
        "calibrated": is_calibrated,
    }


def to_row(tagged: TaggedDocument, is_calibrated: bool) -> dict[str, Any]:
    """``to_record``, with a JSON object of the keys that were read and are not written here as ``given``."""
    record = to_record(tagged, is_calibrated)
    others = {key: value for key, value in tagged.document.given.items() if key not in COLUMNS}
    return {GIVEN: to_json(others, default=_as_text) if others else None, **record}


def to_jsonl(tagged: TaggedDocument, is_calibrated: bool = False) -> str:
    """``to_record`` on one line. Values of Parquet that JSON lacks become text, bytes hexadecimal, NaN null."""
    record = to_record(tagged, is_calibrated)
    line = to_json(record, ensure_ascii=False, default=_as_text)
    # Half a surrogate pair in a value passed through can only be written as the escape it was read from.
    return (line if is_writable(line) else to_json(record, default=_as_text)) + "\n"


def _as_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def to_conll(tagged: TaggedDocument, totals: Totals) -> str:
    """A line a word, word and tag separated by a tab; an empty line behind each sentence.

    White space that would break the columns becomes a space, a word without a character U+FFFD, and a byte order mark
    before a word, which nobody reads back at the beginning of a file, is left out; all are counted.
    """
    lines: list[str] = []
    for words, tags in zip(tagged.document.sentences, tagged.tags, strict=True):
        for word, tag_text in zip(words, tags, strict=True):
            text = word.text.lstrip(BYTE_ORDER_MARK)
            if not text.strip(" \t\r\n"):
                text = NO_WORD
            elif "\t" in text or "\n" in text or "\r" in text:
                text = text.replace("\t", " ").replace("\r", " ").replace("\n", " ")
            totals.rewritten_words += text != word.text
            lines.append(f"{text}\t{tag_text}\n")
        lines.append("\n")
    return "".join(lines)


def to_brat(tagged: TaggedDocument, number: int, totals: Totals, names: Mapping[str, str]) -> list[Piece]:
    """A text file and its standoff annotations, ``000000001.txt`` and ``.ann``.

    An entity that goes on in the next line is given piece by piece, as ``T1<TAB>person 0 4;5 10<TAB>Anna Smith``. The
    score is a note on it, ``#1<TAB>AnnotatorNotes T1<TAB>score 0.9``. Line ends in texts stay as they are. An entity
    without a character to show is left out and counted among the words rewritten. ``names`` is of ``brat_names``.
    """
    lines: list[str] = []
    for count, entity in enumerate(tagged.entities, start=1):
        parts = _one_line_parts(entity["text"])
        if not parts:
            totals.rewritten_words += 1
            continue
        places = ";".join(f"{entity['start'] + start} {entity['start'] + end}" for start, end in parts)
        text = " ".join(entity["text"][start:end] for start, end in parts)
        lines.append(f"T{count}\t{names[entity['type']]} {places}\t{text}\n")
        lines.append(f"#{count}\tAnnotatorNotes T{count}\tscore {entity['score']}\n")
    name = f"{number:09}"
    return [(f"{name}.txt", tagged.document.text.encode()), (f"{name}.ann", "".join(lines).encode())]


def _one_line_parts(text: str) -> list[tuple[int, int]]:
    """Where the lines of a text are in it; those without a character are none."""
    return [match.span() for match in re.finditer(r"[^\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+", text)]


def brat_names(types: Iterable[str]) -> dict[str, str]:
    """Entity types as brat can name them, of letters, digits, hyphens and underscores, each by a name of its own."""
    names: dict[str, str] = {}
    taken = {entity_type for entity_type in types if re.fullmatch(BRAT_NAME, entity_type)}
    for entity_type in types:
        name = entity_type
        if entity_type not in taken:
            plain = re.sub(r"[^A-Za-z0-9_-]", "_", entity_type)
            numbered = (f"{plain}_{number}" for number in itertools.count(2))
            name = next(each for each in itertools.chain([plain], numbered) if each not in taken)
            taken.add(name)
        names[entity_type] = name
    return names


def _brat_configuration(types: Sequence[str]) -> bytes:
    """What brat reads the types of a folder from."""
    return "\n".join(
        ["[entities]", *brat_names(types).values(), "[relations]", "[events]", "[attributes]", ""]
    ).encode()


def to_html(tagged: TaggedDocument, types: Sequence[str]) -> str:
    """A paragraph with its entities marked. Whatever a document holds is text there, never markup."""
    text, parts, behind = tagged.document.text, [], 0
    for entity in sorted(tagged.entities, key=lambda entity: (entity["start"], entity["end"])):
        kind = types.index(entity["type"]) if entity["type"] in types else len(types)
        parts.append(_escape(text[behind : entity["start"]]))
        shown = _escape(entity["text"])
        title = _escape(f"{entity['type']} {entity['score']}")
        parts.append(f'<mark class="t{kind}" title="{title}">{shown}<small>{_escape(entity["type"])}</small></mark>')
        behind = entity["end"]
    parts.append(_escape(text[behind:]))
    return f"<p>{''.join(parts)}</p>\n"


def _escape(text: str) -> str:
    """Text that a browser shows as it is: no markup, line ends kept, U+FFFD for what HTML cannot hold."""
    escaped = html.escape(text).replace("\r", "&#13;")
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]", NO_WORD, escaped)


def _html_head(types: Sequence[str]) -> bytes:
    """The start of a page that needs nothing else and may load nothing."""
    colours = [f".t{number} {{ background: hsl({number * 137.5 % 360:.0f} 75% 85%) }}" for number in range(len(types))]
    legend = " ".join(f'<mark class="t{number}">{_escape(name)}</mark>' for number, name in enumerate(types))
    return "\n".join([
        "<!DOCTYPE html>", '<html lang="">', "<head>", '<meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<title>Tagged text</title>", "<style>",
        "body { max-width: 60em; margin: 2em auto; padding: 0 1em; font: 1em/1.7 sans-serif; color: #111;"
        " background: #fff }",
        "p { white-space: pre-wrap; overflow-wrap: anywhere }",
        "mark { color: inherit; border-radius: .25em; padding: .1em .3em; background: #ddd }",
        "small { margin-left: .4em; font-size: .7em; opacity: .7 }",
        *colours, "</style>", "</head>", "<body>", f"<header>{legend}</header>", "<main>", "",
    ]).encode()  # fmt: skip
