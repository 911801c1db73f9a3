"""The formats that are known, in the order in which they are tried: of several that fit as well, the first is read."""

from __future__ import annotations

from crossner_cli.data.formats import (
    brat,
    conll,
    csv_files,
    doccano,
    gliner,
    gliner2,
    html_page,
    jsonl,
    label_studio,
    langextract,
    parquet,
    prodigy,
    spacy_files,
    spacy_lists,
    strings,
    tagged_text,
    text,
)
from crossner_cli.data.formats.format import Format

ROWS = (
    brat.FORMAT,
    parquet.FORMAT,
    spacy_files.FORMAT,
    gliner.FORMAT,
    gliner2.FORMAT,
    langextract.FORMAT,
    spacy_lists.FORMAT,
    label_studio.FORMAT,
    prodigy.FORMAT,
    strings.FORMAT,
    doccano.FORMAT,
    jsonl.FORMAT,
    tagged_text.FORMAT,
    conll.FORMAT,
    text.FORMAT,
    html_page.FORMAT,
    jsonl.ARRAY,
    csv_files.FORMAT,
)
FORMATS: dict[str, Format] = {row.name: row for row in ROWS}
LABELLED = {name: row for name, row in FORMATS.items() if row.reads}
