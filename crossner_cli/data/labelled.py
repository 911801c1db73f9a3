"""Files and folders of labelled sentences: their format is recognised by what they hold, and read by its row."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from crossner_cli.data.files import BYTE_ORDER_MARK, Repairs, has_many_zero_bytes, open_bytes
from crossner_cli.data.formats import conll, jsonl
from crossner_cli.data.formats.conll import COLUMNS_HINT
from crossner_cli.data.formats.format import Format, Sample
from crossner_cli.data.formats.known import LABELLED
from crossner_cli.data.formats.layout import parse_layout
from crossner_cli.data.formats.records import read_records
from crossner_cli.data.formats.spans import Located, abbreviate, to_sentences
from crossner_cli.data.formats.words import JSONL_HINT
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
HINTS = {conll.FORMAT: COLUMNS_HINT, jsonl.FORMAT: JSONL_HINT}


def recognise(path: Path) -> Format:
    """Recognise the format of a file or folder from its content.

    Raises:
        CrossNERError: It cannot be read, or is a format that is not read.
    """
    sample = _take_sample(path)
    counts = {name: row.recognises(sample) for name, row in LABELLED.items() if row.recognises}
    name = max(counts, key=counts.__getitem__)  # the first of equals
    if counts[name]:
        return LABELLED[name]
    if os.path.isdir(path):  # noqa: PTH112 - pathlib raises for names that are too long
        raise CrossNERError(
            f"{path} cannot be read: it is a folder without .txt and .ann of brat.", hint="Give a file of the folder."
        )
    if sample.values:
        keys = dict.fromkeys(key for value in sample.values if isinstance(value, dict) for key in value)
        held = abbreviate(", ".join(keys) or sample.values[0])
        problem = f"{path} is JSON without labels, or of a form that is not read. It holds: {held}."
        hint = f"These are read: {', '.join(row.title for row in LABELLED.values())}. {JSONL_HINT}"
        raise CrossNERError(problem, hint=hint)
    return jsonl.FORMAT if path.suffix.lower() in JSON_ENDINGS else conll.FORMAT


def _take_sample(path: Path) -> Sample:
    """The beginning of a file; refuse one that is known not to be read."""
    if os.path.isdir(path):  # noqa: PTH112
        return Sample(path)
    with open_bytes(path) as stream:
        head = stream.read(HEAD_BYTES)
    if path.suffix.lower() == ".csv":
        raise CrossNERError(f"{path} is CSV, which is not read.", hint=f"Write columns or JSONL. {COLUMNS_HINT}")
    if head.startswith(b"PAR1") or path.suffix.lower() == ".spacy":  # binary
        return Sample(path, head)
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) and has_many_zero_bytes(head.decode("latin-1")):
        raise CrossNERError(
            f"{path} holds zero bytes, as text in UTF-16 does.",
            hint="Convert it first, as: iconv -f UTF-16LE -t UTF-8 FILE > TEXT",
        )
    head = head.removeprefix(BYTE_ORDER_MARK)
    for start, what, hint in NOT_READ:
        if re.match(rb"\s*(?:" + start + rb")", head):
            raise CrossNERError(f"{path} is {what}, which is not read.", hint=hint.replace("FILE", str(path)))
    if path.suffix.lower() not in JSON_ENDINGS and not _looks_like_json(head):
        return Sample(path, head)
    records = read_records(path, Repairs(skips_bad_lines=True), JSONL_HINT)
    return Sample(path, head, [record.value for record in islice(records, HEAD_RECORDS)])


def _looks_like_json(head: bytes) -> bool:
    start = head.lstrip()[:200].split()
    return bool(start) and (start[0].startswith((b'{"', b"[{", b"[[")) or start[0] in (b"{", b"[")) and b'"' in head


def check_format(name: str | None) -> None:
    """Refuse the name of a format that is not read."""
    if name is not None and name not in LABELLED:
        raise CrossNERError(
            f"--labels-format {name!r} is not a format that is read.",
            hint=f"{suggest(name, LABELLED)}{', '.join(LABELLED)}",
        )


def read_labelled(
    path: Path, repairs: Repairs, *, labels_format: str | None = None, columns: str | None = None
) -> Iterator[Located]:
    """Read a file of sentences with tags, or a folder of brat.

    Args:
        path: The file or folder.
        repairs: Counts repairs, and notes the format.
        labels_format: The name of a format, if the content does not tell.
        columns: The columns of word and tag, as ``word=2,tag=4``.

    Raises:
        CrossNERError: The file cannot be read, is not UTF-8, or a line is malformed.
    """
    check_format(labels_format)
    name = labels_format or (conll.FORMAT.name if columns else None)
    row = LABELLED[name] if name else recognise(path)
    try:
        if row is conll.FORMAT:
            yield from conll.read_columns(path, repairs, parse_layout(columns) if columns else None)
        else:
            yield from _read_with_note(path, row, repairs)
    except CrossNERError as error:
        found = recognise(path) if labels_format else row
        if found is not row:
            hint = f"It looks like {found.title}: leave --labels-format out, or give {found.name}."
            raise CrossNERError(error.problem, hint=hint) from None
        raise


def _read_with_note(path: Path, row: Format, repairs: Repairs) -> Iterator[Located]:
    """Read a file of another format than columns, and note how."""
    before = Counter(repairs.counts)  # of other files
    items = list(row.reads(path, repairs)) if row.reads else []
    yield from to_sentences(items, str(path), repairs, unit=row.offsets)
    left = [
        f", {times:,} {row.left_out[kind]}" for kind, times in (repairs.counts - before).items() if kind in row.left_out
    ]
    count = len({item.number for item in items})
    repairs.notes.append(f"{path}: read as {row.title}, {count:,} {row.unit}{''.join(left)}")


def form_of(path: Path) -> str:
    """What to do about a file that holds no sentence."""
    return f"{HINTS.get(recognise(path), 'Label some of it.')} Or remove the file."
