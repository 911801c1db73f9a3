"""Files and folders of labelled sentences: their format is recognised from what they hold, and read by its module."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from crossner_cli.data.files import BYTE_ORDER_MARK, Repairs, has_many_zero_bytes, open_bytes
from crossner_cli.data.formats import brat, label_studio, strings, texts
from crossner_cli.data.formats.columns import COLUMNS_HINT, SAMPLE, Layout, find_layout, parse_columns, parse_layout
from crossner_cli.data.formats.hugging_face import names_of_tags, read_labelled_rows
from crossner_cli.data.formats.records import Record, read_records
from crossner_cli.data.formats.spacy_files import read_doc_bin
from crossner_cli.data.formats.spans import Item, Located, SpannedText, abbreviate, to_sentences
from crossner_cli.data.formats.words import JSONL_HINT, TAGS, TEXT, WORDS, read_gliner
from crossner_cli.errors import CrossNERError, suggest

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
HEAD_BYTES, HEAD_RECORDS = 1 << 16, 50
# How files begin that are not read, what they are, and a way out.
LITERAL = rb"\w+\s*=\s*\[|[\[{][\s\[{]*(?:'|\(\s*[\"'])"
TO_JSON = (
    "import ast, json; [print(json.dumps(ast.literal_eval(x.value))) for x in ast.parse(open('FILE').read()).body]"
)
NOT_READ = (
    (rb"#FORMAT=WebAnno", "WebAnno TSV", "Export again: choose CoNLL 2002, one column of named entities."),
    (rb"<[?!]|<collection>", "XML or HTML", f"Export again in brat's format, or write JSONL. {JSONL_HINT}"),
    (LITERAL, "Python", f'Convert it: python -c "{TO_JSON}" > NAME.jsonl'),
)


@dataclass(frozen=True)
class Format:
    """A format of labelled data: its name for ``--labels-format``, and for people."""

    name: str
    title: str
    unit: str


FORMATS = {
    each.name: each
    for each in (
        Format("columns", "columns", "sentences"),
        Format("jsonl", "JSONL", "lines"),
        Format("label-studio", "Label Studio JSON", "tasks"),
        Format("prodigy", "Prodigy JSONL", "examples"),
        Format("doccano", "doccano JSONL", "texts"),
        Format("spacy-lists", "spaCy's training lists", "examples"),
        Format("spacy", "spaCy DocBin", "documents"),
        Format("brat", "brat standoff", "texts"),
        Format("parquet", "Parquet", "rows"),
        Format("gliner", "GLiNER JSON", "records"),
        Format("gliner2", "GLiNER2 JSONL", "records"),
        Format("langextract", "LangExtract JSONL", "documents"),
        Format("strings", "entities as strings", "texts"),
        Format("tags", "text with tags", "lines"),
    )
}


def _is_gliner(value: Any) -> bool:
    return isinstance(value, dict) and {"tokenized_text", "ner"} <= value.keys()


def _is_gliner2(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("output"), dict) and "input" in value


def _is_langextract(value: Any) -> bool:
    return isinstance(value, dict) and "extractions" in value and TEXT in value


def _is_spacy_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def _is_prodigy(value: Any) -> bool:
    return isinstance(value, dict) and TEXT in value and any(key in value for key in texts.PRODIGY_KEYS)


def _is_doccano(value: Any) -> bool:
    is_text = isinstance(value, dict) and any(isinstance(value.get(key), str) for key in (TEXT, texts.DATA))
    return is_text and any(isinstance(value.get(key), list) for key in ("label", "labels")) and "id" in value


def _is_own(value: Any) -> bool:
    return isinstance(value, dict) and (
        any(key in value for key in WORDS) or any(key in value for key in (*texts.ENTITIES, *TAGS))
    )


# How a record of each JSON format is recognised. The format of most records is taken; of equals the first.
LOOKS: dict[str, Callable[[Any], bool]] = {
    "gliner": _is_gliner,
    "gliner2": _is_gliner2,
    "langextract": _is_langextract,
    "spacy-lists": _is_spacy_list,
    "label-studio": label_studio.is_export,
    "prodigy": _is_prodigy,
    "strings": strings.is_strings,
    "doccano": _is_doccano,
    "jsonl": _is_own,
}
JSON_READERS: dict[str, Callable[[Iterable[Record], Repairs], Iterable[Item]]] = {
    "gliner": read_gliner,
    "label-studio": label_studio.read_tasks,
    "langextract": texts.read_langextract,
    "prodigy": texts.read_prodigy,
    "spacy-lists": texts.read_spacy_lists,
}


def recognise(path: Path) -> str:
    """Recognise the format of a file or folder from its content; return its name.

    Raises:
        CrossNERError: It cannot be read, or is a format that is not read.
    """
    if os.path.isdir(path):  # noqa: PTH112 - pathlib raises for names that are too long
        if brat.is_brat(path):
            return "brat"
        raise CrossNERError(
            f"{path} cannot be read: it is a folder without .txt and .ann of brat.", hint="Give a file of the folder."
        )
    with open_bytes(path) as stream:
        head = stream.read(HEAD_BYTES)
    if path.suffix.lower() == ".csv":
        raise CrossNERError(f"{path} is CSV, which is not read.", hint=f"Write columns or JSONL. {COLUMNS_HINT}")
    if head.startswith(b"PAR1"):
        return "parquet"
    if path.suffix.lower() == ".spacy":
        return "spacy"
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) and has_many_zero_bytes(head.decode("latin-1")):
        raise CrossNERError(
            f"{path} holds zero bytes, as text in UTF-16 does.",
            hint="Convert it first, as: iconv -f UTF-16LE -t UTF-8 FILE > TEXT",
        )
    head = head.removeprefix(BYTE_ORDER_MARK)
    for start, what, hint in NOT_READ:
        if re.match(rb"\s*(?:" + start + rb")", head):
            raise CrossNERError(f"{path} is {what}, which is not read.", hint=hint.replace("FILE", str(path)))
    if path.suffix.lower() in JSON_ENDINGS or _looks_like_json(head):
        return _recognise_records(path)
    text = head.decode("utf-8", errors="replace")
    return "tags" if "\t" not in text and any(map(strings.has_tags, text.split("\n"))) else "columns"


def _looks_like_json(head: bytes) -> bool:
    start = head.lstrip()[:200].split()
    return bool(start) and (start[0].startswith((b'{"', b"[{", b"[[")) or start[0] in (b"{", b"[")) and b'"' in head


def _recognise_records(path: Path) -> str:
    sample = [
        each.value for each in islice(read_records(path, Repairs(skips_bad_lines=True), JSONL_HINT), HEAD_RECORDS)
    ]
    found = {name: sum(map(looks, sample)) for name, looks in LOOKS.items()}
    name = max(found, key=found.__getitem__)  # the first of equals
    if sample and not found[name]:
        keys = dict.fromkeys(key for value in sample if isinstance(value, dict) for key in value)
        held = abbreviate(", ".join(keys) or sample[0])
        problem = f"{path} is JSON without labels, or of a form that is not read. It holds: {held}."
        hint = f"These are read: {', '.join(each.title for each in FORMATS.values())}. {JSONL_HINT}"
        raise CrossNERError(problem, hint=hint)
    return name


def check_format(name: str | None) -> None:
    """Refuse the name of a format that is not read."""
    if name is not None and name not in FORMATS:
        raise CrossNERError(
            f"--labels-format {name!r} is no format that is read.", hint=f"{suggest(name, FORMATS)}{', '.join(FORMATS)}"
        )


def read_labelled(
    path: Path, repairs: Repairs, *, labels_format: str | None = None, columns: str | None = None
) -> Iterator[Located]:
    """Read a file of sentences with tags, or a folder of brat.

    Args:
        path: The file or folder.
        repairs: Counts repairs, and notes the format.
        labels_format: A name of ``FORMATS``, if the content does not tell.
        columns: The columns of word and tag, as ``word=2,tag=4``.

    Raises:
        CrossNERError: The file cannot be read, is not UTF-8, or a line is malformed.
    """
    check_format(labels_format)
    name = labels_format or ("columns" if columns else recognise(path))
    try:
        if name == "columns":
            yield from _read_columns(path, repairs, parse_layout(columns) if columns else None)
        else:
            yield from _read_with_note(path, name, repairs)
    except CrossNERError as error:
        found = recognise(path) if labels_format else name
        if found != name:
            hint = f"It looks like {FORMATS[found].title}: leave --labels-format out, or give {found}."
            raise CrossNERError(error.problem, hint=hint) from None
        raise


def _read_with_note(path: Path, name: str, repairs: Repairs) -> Iterator[Located]:
    """Read a file of another format than columns, and note how."""
    counted = _Counter()
    before = Counter(repairs.counts)  # of other files
    items = counted(_read_items(path, name, repairs))
    unit = label_studio.UNIT if name == "label-studio" else None
    yield from to_sentences(items, str(path), repairs, unit=unit)
    left = [f", {times:,} {LEFT_OUT[kind]}" for kind, times in (repairs.counts - before).items() if kind in LEFT_OUT]
    told = FORMATS[name]
    repairs.notes.append(f"{path}: read as {told.title}, {counted.count:,} {told.unit}{''.join(left)}")


class _Counter:
    """Counts the texts, or lines of words, that pass."""

    def __init__(self) -> None:
        self.count = 0
        self.last: Any = None

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            number = item.number if isinstance(item, SpannedText) else item.lines[0]
            self.count += number != self.last
            self.last = number
            yield item


# Whole records that are left out, for the line that tells the format.
LEFT_OUT = {
    label_studio.SKIPPED_TASK: "skipped",
    label_studio.UNLABELLED_TASK: "unlabelled",
    texts.REFUSED_EXAMPLE: "refused",
    texts.MERGED_EXAMPLE: "merged",
    brat.UNLABELLED: "without .ann",
}


def _read_columns(path: Path, repairs: Repairs, chosen: Layout | None) -> Iterator[Located]:
    with open_bytes(path) as stream:
        lines = (line.decode("utf-8", errors="replace").rstrip("\r\n") for line in islice(stream, SAMPLE))
        layout = find_layout((line.removeprefix("\ufeff") for line in lines), chosen)
    if layout.tag >= 0 or layout.form != "prefix" or layout.tag_columns or layout.word:
        repairs.notes.append(f"{path}: read as {layout.describe()}")
    with open_bytes(path) as stream:
        yield from parse_columns(stream, str(path), repairs, layout=layout)


def _read_items(path: Path, name: str, repairs: Repairs) -> Iterable[Item]:
    """The sentences or texts of a file that is not in columns."""
    if name == "brat":
        return brat.read_brat(path, repairs)
    if name == "spacy":
        return read_doc_bin(path, repairs)
    if name == "tags":
        return _read_tags(path, repairs)
    if name == "parquet":
        rows, names = read_labelled_rows(path, repairs)
        return texts.read_objects(rows, repairs, names)
    records = read_records(path, repairs, JSONL_HINT)
    return _read_json(records, path, name, repairs)


def _read_tags(path: Path, repairs: Repairs) -> Iterator[Item]:
    with open_bytes(path) as stream:
        yield from strings.read_tagged_lines(stream, str(path), repairs)


def _read_json(records: Iterator[Record], path: Path, name: str, repairs: Repairs) -> Iterable[Item]:
    if name in ("gliner2", "strings"):
        return strings.read_strings(records, str(path), repairs)
    if name in JSON_READERS:
        return JSON_READERS[name](records, repairs)
    return texts.read_objects(records, repairs, cache(lambda: names_of_tags(path)))


def form_of(path: Path) -> str:
    """What to do about a file that holds no sentence."""
    forms = {"columns": COLUMNS_HINT, "jsonl": JSONL_HINT}
    return f"{forms.get(recognise(path), 'Label some of it.')} Or remove the file."
