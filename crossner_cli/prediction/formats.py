"""Tagged documents, counts of them, and their formats; those of annotation tools and spaCy have their own modules."""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from crossner_cli import figures
from crossner_cli.data import documents
from crossner_cli.data.documents import ENDINGS as ENDINGS_READ
from crossner_cli.data.documents import Document
from crossner_cli.data.files import is_writable
from crossner_cli.data.formats.columns import NO_WORD
from crossner_cli.errors import CrossNERError
from crossner_cli.prediction.annotation import to_doccano, to_label_studio, to_prodigy
from crossner_cli.prediction.doc_bin import join_doc_bins, spacy_module, to_doc_bin
from crossner_cli.prediction.order import keep, write_kept
from crossner_cli.run.storage import to_json

# Name and bytes of a file of a folder; of an output that is one file, the bytes that follow.
Piece = tuple[str, bytes]
BYTE_ORDER_MARK = "\ufeff"
BRAT_CONFIGURATION = "annotation.conf"
COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")
# An ending that is read as a format is written as it, too, but for those that have no writer.
WRITTEN = {ending: name for ending, name in ENDINGS_READ.items() if name not in ("csv", "json")}
ENDINGS = {**WRITTEN, ".txt": "text", ".html": "html", ".htm": "html", ".spacy": "spacy", "": "jsonl"}
# What stands before and behind all documents.
HEADS = {"label-studio": b"[\n"}
TAILS = {"label-studio": b"\n]\n", "html": b"</main>\n</body>\n</html>\n"}


@dataclass(frozen=True)
class TaggedDocument:
    """A document with its tags and entities.

    Args:
        document: As read.
        tags: Legal BIO tags of each sentence.
        entities: ``start`` and ``end`` in characters of the text, end exclusive, ``type``, ``text`` and ``score``. The
            score is the probability that the entity is right if the tagger is calibrated; if not, it is the lowest
            probability of the tags of its words, an upper bound of that of the whole.
        repaired: Number of tags that could not follow the tag before them; an ``I-`` became a ``B-``.
        score: The lowest probability of the tag of any word, also outside entities; 1 without words. It is not
            calibrated.
    """

    document: Document
    tags: Sequence[Sequence[str]]
    entities: list[dict[str, Any]]
    repaired: int
    score: float = 1.0


@dataclass
class Totals:
    """Counts of tagged documents.

    Documents that are not written, because an entity scored too low, count as ``unsure_documents``; their entities and
    repairs are not counted. ``reading`` counts what the tagger could not read or left out.
    """

    documents: int = 0
    blank_documents: int = 0
    unsure_documents: int = 0
    sentences: int = 0
    words: int = 0
    repaired: int = 0
    rewritten_words: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    reading: Counter[str] = field(default_factory=Counter)

    def add(self, tagged: TaggedDocument, *, is_written: bool = True) -> None:
        """Count one document."""
        sentences = tagged.document.sentences
        self.documents += 1
        self.blank_documents += not sentences
        self.sentences += len(sentences)
        self.words += sum(map(len, sentences))
        self.unsure_documents += not is_written
        if is_written:
            self.repaired += tagged.repaired
            self.entities.update(entity["type"] for entity in tagged.entities)

    def include(self, others: Mapping[str, Any]) -> None:
        """Add the counts of another ``Totals``, given as the result of ``to_json``."""
        for name, mine in vars(self).items():
            setattr(self, name, mine + type(mine)(others[name]))

    def to_json(self) -> dict[str, Any]:
        """All counts; entities by type, the most frequent first."""
        return {**vars(self), "entities": dict(self.entities.most_common()), "reading": dict(self.reading)}


@dataclass(frozen=True)
class OutputFormat:
    """A format of tagged documents.

    Args:
        name: As ``--format`` has it.
        types: Entity types of the tagger.
        is_calibrated: Whether scores are probabilities of being right.
        passed_through: The schema of the rows that are read, if the output is Parquet and all input is.
        is_coloured: Whether text goes to a terminal that shows colours.
        order: As ``--order`` has it.
        model: The name of the tagger.
    """

    name: str
    types: tuple[str, ...] = ()
    is_calibrated: bool = False
    passed_through: Any = None
    is_coloured: bool = False
    order: Literal["input", "uncertain"] = "input"
    model: str = ""

    @property
    def is_folder(self) -> bool:
        """Return whether an output is a folder of files."""
        return self.name == "brat"

    @property
    def has_parts(self) -> bool:
        """Return whether documents are first written to several files in a folder."""
        return self.name in ("brat", "spacy", "parquet")

    @property
    def is_kept(self) -> bool:
        """Return whether documents are kept until all are tagged: to sort them, or since half an array is no JSON."""
        return self.order == "uncertain" or self.name == "label-studio"

    @property
    def notes(self) -> list[str]:
        """Return notes for readers of the output."""
        renamed = brat_names(self.types).items() if self.name == "brat" else ()
        changed = ", ".join(f"{entity_type!r} as {name}" for entity_type, name in renamed if name != entity_type)
        return [f"Type names of brat hold only letters, digits, - and _; written: {changed}."] if changed else []

    def begin(self) -> list[Piece]:
        """Return the pieces that come before all documents."""
        if self.name == "brat":
            sections = ["[entities]", *brat_names(self.types).values(), "[relations]", "[events]", "[attributes]", ""]
            return [(BRAT_CONFIGURATION, "\n".join(sections).encode())]
        return [] if self.has_parts or self.is_kept else [("", self._head())]

    def end(self) -> list[Piece]:
        """Return the pieces that come after all documents."""
        return [] if self.has_parts or self.is_kept else [("", TAILS.get(self.name, b""))]

    def _head(self) -> bytes:
        return _html_head(self.types) if self.name == "html" else HEADS.get(self.name, b"")

    def write(self, numbered: Sequence[tuple[int, TaggedDocument]], totals: Totals) -> list[Piece]:
        """Write documents as bytes.

        Args:
            numbered: At least one document, each with its number among all that were read, from 1. The name of a file
                is the number of its first document.
            totals: Counts the words that are rewritten.
        """
        first, tagged = numbered[0][0], [each for _, each in numbered]
        match self.name:
            case "brat":
                names = brat_names(self.types)
                return [piece for number, each in numbered for piece in to_brat(each, number, totals, names)]
            case "spacy":
                return [(f"{first:09}.spacy", to_doc_bin(tagged, totals))]
            case "parquet":
                rows = [to_row(each, self.is_calibrated) for each in tagged]
                schema = documents.output_schema(self.passed_through)
                return [(f"{first:09}.parquet", documents.rows_to_bytes(rows, schema))]
        texts = [self._write_one(each, totals).encode() for each in tagged]
        if self.is_kept:
            texts = [keep(each.score, text) for each, text in zip(tagged, texts, strict=True)]
        return [("", b"".join(texts))]

    def _write_one(self, tagged: TaggedDocument, totals: Totals) -> str:
        match self.name:
            case "conll":
                return to_conll(tagged, totals)
            case "text":
                return to_text(tagged, self.types, is_coloured=self.is_coloured)
            case "html":
                return to_html(tagged, self.types)
            case "label-studio":
                return _to_json(to_label_studio(_without_blanks(tagged, totals), self.model))
            case "prodigy":
                return _to_json(to_prodigy(_without_blanks(tagged, totals))) + "\n"
            case "doccano":
                return _to_json(to_doccano(_without_blanks(tagged, totals))) + "\n"
        return to_jsonl(tagged, self.is_calibrated)

    def write_kept(self, kept: BinaryIO, output: BinaryIO) -> None:
        """Write the whole output, given the file of what ``write`` returned."""
        output.write(self._head())
        between = b",\n" if self.name == "label-studio" else b""
        write_kept(kept, output, between=between, is_sorted=self.order == "uncertain")
        output.write(TAILS.get(self.name, b""))

    def join(self, parts: Sequence[Path], target: Path) -> None:
        """Join the files of a folder into one file."""
        if self.name == "parquet":
            documents.join_files(parts, documents.output_schema(self.passed_through), target)
            return
        join_doc_bins(parts, target)


def choose_format(name: str, output: Path | None, *, on_terminal: bool = False) -> str:
    """Choose the format of an output: the one asked for, else by the ending of its name, else JSONL.

    On a terminal, where ``output`` is None, it is text.

    Raises:
        CrossNERError: The format cannot be written to stdout, or needs a package that is not installed.
    """
    if name == "auto":
        ending = "" if output is None else output.suffix.lower()
        if ending not in ENDINGS:
            hint = f"Choose one of {' '.join(filter(None, ENDINGS))}, or name the format, as --format jsonl."
            raise CrossNERError(f"--output {output}: {ending} is not the ending of a format.", hint=hint)
        name = "text" if output is None and on_terminal else ENDINGS[ending]
    if output is None and OutputFormat(name).has_parts:
        example = "tagged" if name == "brat" else f"tagged.{name}"
        raise CrossNERError(f"--format {name} cannot be written to stdout.", hint=f"Give --output {example}.")
    if name == "spacy":
        spacy_module("spacy.tokens")
    if name == "parquet":
        documents.pyarrow_module("pyarrow.parquet")
    return name


def to_record(tagged: TaggedDocument, is_calibrated: bool) -> dict[str, Any]:
    """Make one JSON object of a document. Keys that were read are kept unless this function sets them.

    ``sentences`` holds the first word of each sentence and the word after its last one; ``calibrated`` says whether
    scores are probabilities of being right.
    """
    document = tagged.document
    ends = list(itertools.accumulate(map(len, document.sentences), initial=0))
    return {
        **document.given,
        "text": document.text,
        "words": [word.text for words in document.sentences for word in words],
        "tags": [tag for tags in tagged.tags for tag in tags],
        "entities": tagged.entities,
        "sentences": [[start, end] for start, end in itertools.pairwise(ends)],
        "calibrated": is_calibrated,
    }


def to_row(tagged: TaggedDocument, is_calibrated: bool) -> dict[str, Any]:
    """Make a row of Parquet: ``to_record``, and other keys that were read as one JSON object in ``given``."""
    record = to_record(tagged, is_calibrated)
    others = {key: value for key, value in tagged.document.given.items() if key not in documents.COLUMNS}
    return {documents.GIVEN: to_json(others, default=_to_text) if others else None, **record}


def to_jsonl(tagged: TaggedDocument, is_calibrated: bool = False) -> str:
    """Write ``to_record`` on one line. Values of Parquet that JSON lacks become text, bytes hexadecimal, NaN null."""
    return _to_json(to_record(tagged, is_calibrated)) + "\n"


def _without_blanks(tagged: TaggedDocument, totals: Totals) -> TaggedDocument:
    """Leave out entities without visible characters, which annotation tools refuse, and count them."""
    visible = [entity for entity in tagged.entities if entity["text"].strip()]
    totals.rewritten_words += len(tagged.entities) - len(visible)
    return replace(tagged, entities=visible)


def _to_json(record: dict[str, Any]) -> str:
    line = to_json(record, ensure_ascii=False, default=_to_text)
    # Half a surrogate pair in a value passed through can only be written as the escape it was read from.
    return line if is_writable(line) else to_json(record, default=_to_text)


def _to_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def to_text(tagged: TaggedDocument, types: Sequence[str], *, is_coloured: bool = False) -> str:
    """Write the text of a document on one line, as ``[Anna Smith person 0.98] lives in [Rome city 0.91].``.

    Characters that a terminal would obey are replaced. Colours are by type.
    """
    import typer

    text, parts, behind = tagged.document.text, [], 0
    for entity in sorted(tagged.entities, key=lambda entity: (entity["start"], entity["end"])):
        shown, label = _on_one_line(entity["text"]), _on_one_line(f" {entity['type']} {entity['score']:.2f}")
        if is_coloured:
            colour = COLOURS[types.index(entity["type"]) % len(COLOURS)]
            shown, label = typer.style(shown, fg=colour, bold=True), typer.style(label, fg=colour)
        parts += [_on_one_line(text[behind : entity["start"]]), f"[{shown}{label}]"]
        behind = entity["end"]
    return f"{''.join(parts)}{_on_one_line(text[behind:])}\n"


def _on_one_line(text: str) -> str:
    return figures.printable(text.replace("\t", " ").replace("\r", " ").replace("\n", " "))


def to_conll(tagged: TaggedDocument, totals: Totals) -> str:
    """Write a word and its tag per line, separated by a tab, and an empty line after each sentence.

    White space that would break the columns becomes a space, an empty word becomes U+FFFD, and byte order marks before
    a word are dropped, because readers drop them too. All of these are counted in ``totals``.
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
    """Write a text file and its standoff annotations, ``000000001.txt`` and ``000000001.ann``.

    An entity over several lines is given piece by piece, as ``T1<TAB>person 0 4;5 10<TAB>Anna Smith``. Its score is a
    note: ``#1<TAB>AnnotatorNotes T1<TAB>score 0.9``. An entity without visible characters is left out and counted in
    ``totals``. ``names`` is the result of ``brat_names``.
    """
    lines: list[str] = []
    for count, entity in enumerate(tagged.entities, start=1):
        # brat wants the lines of an entity one by one.
        parts = [match.span() for match in re.finditer(r"[^\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+", entity["text"])]
        if not parts:
            totals.rewritten_words += 1
            continue
        places = ";".join(f"{entity['start'] + start} {entity['start'] + end}" for start, end in parts)
        text = " ".join(entity["text"][start:end] for start, end in parts)
        lines.append(f"T{count}\t{names[entity['type']]} {places}\t{text}\n")
        lines.append(f"#{count}\tAnnotatorNotes T{count}\tscore {entity['score']}\n")
    name = f"{number:09}"
    return [(f"{name}.txt", tagged.document.text.encode()), (f"{name}.ann", "".join(lines).encode())]


def brat_names(types: Sequence[str]) -> dict[str, str]:
    """Give each entity type a name that brat allows, of letters, digits, hyphens and underscores; no two share one."""
    names: dict[str, str] = {}
    for entity_type in types:
        taken = {*types, *names.values()} - {entity_type}
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", entity_type)
        numbered = (f"{plain}_{number}" for number in itertools.count(2))
        names[entity_type] = next(name for name in itertools.chain([plain], numbered) if name not in taken)
    return names


def to_html(tagged: TaggedDocument, types: Sequence[str]) -> str:
    """Write a paragraph with its entities marked. The document's text is escaped, so it is never markup."""
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
    """Escape markup, keep line ends, and replace characters that HTML cannot hold or that turn a line by U+FFFD."""
    escaped = html.escape(figures.printable(text, keep="\t\n\r\u2028\u2029")).replace("\r", "&#13;")
    return re.sub(r"[\ufdd0-\ufdef\ufffe\uffff]", NO_WORD, escaped)


def _html_head(types: Sequence[str]) -> bytes:
    """The start of a page that loads nothing, with a colour for each type."""
    import jinja2

    source = (Path(__file__).parent / "templates" / "head.html").read_text(encoding="utf-8")
    template = jinja2.Template(source, trim_blocks=True, keep_trailing_newline=True)
    head: str = template.render(types=list(map(_escape, types)))
    return head.encode()
