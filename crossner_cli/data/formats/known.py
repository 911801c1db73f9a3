"""The formats that are known: a new one is a module with a ``FORMAT``, and its name in ``MODULES``."""

from __future__ import annotations

from importlib import import_module

from crossner_cli.data.formats import jsonl
from crossner_cli.data.formats.format import Format

# Formats are recognised in this order: of several that fit equally well, the first is read.
MODULES = (
    "brat",
    "parquet",
    "spacy_files",
    "gliner",
    "gliner2",
    "langextract",
    "spacy_lists",
    "label_studio",
    "prodigy",
    "strings",
    "doccano",
    "jsonl",
    "tagged_text",
    "conll",
    "text",
    "html_page",
    "csv_files",
)
ROWS: tuple[Format, ...] = (*(import_module(f"{__package__}.{name}").FORMAT for name in MODULES), jsonl.ARRAY)
FORMATS = {row.name: row for row in ROWS}
LABELLED = {name: row for name, row in FORMATS.items() if row.reads}
