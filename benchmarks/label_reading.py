"""Seconds of processor time that reading labelled sentences takes, format by format.

python benchmarks/label_reading.py [--sentences 100000] [--formats label-studio prodigy]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossner_cli.data.documents import Document, TaggedDocument, Totals
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.text import segment
from crossner_cli.prediction.output import make_writer

TEXT = "Anna Beck lives in Rome."
WORDS, TAGS = ["Anna", "Beck", "lives", "in", "Rome", "."], ["B-per", "I-per", "O", "O", "B-loc", "O"]
SPANS = [[0, 9, "per"], [19, 23, "loc"]]
STRINGS = [{"text": TEXT[start:end], "type": kind} for start, end, kind in SPANS]
LABELS = [{"type": "labels", "value": {"start": a, "end": b, "labels": [kind]}} for a, b, kind in SPANS]
RECORDS: dict[str, Any] = {
    "jsonl": {"words": WORDS, "tags": TAGS},
    "label-studio": {"data": {"text": TEXT}, "annotations": [{"result": LABELS}]},
    "prodigy": {
        "text": TEXT,
        "spans": [{"start": a, "end": b, "label": kind} for a, b, kind in SPANS],
        "answer": "accept",
    },
    "doccano": {"id": 1, "text": TEXT, "label": SPANS},
    "spacy-lists": [TEXT, {"entities": SPANS}],
    "gliner": {"tokenized_text": WORDS, "ner": [[0, 1, "per"], [4, 4, "loc"]]},
    "gliner2": {"input": TEXT, "output": {"entities": {"per": ["Anna Beck"], "loc": ["Rome"]}}},
    "langextract": {
        "text": TEXT,
        "extractions": [
            {"extraction_class": kind, "char_interval": {"start_pos": a, "end_pos": b}} for a, b, kind in SPANS
        ],
    },
    "strings": {"text": TEXT, "entities": STRINGS},
}
LINES = {
    "conll": "".join(f"{word}\t{tag}\n" for word, tag in zip(WORDS, TAGS, strict=True)) + "\n",
    "tags": "<per>Anna Beck</per> lives in <loc>Rome</loc>.\n",
}
WRITTEN = {"parquet": "train.parquet", "spacy": "train.spacy", "brat": "train"}  # by predict itself
FORMATS = (*LINES, *RECORDS, *WRITTEN)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line a format."""
    parser = argparse.ArgumentParser(description="Seconds that reading labelled sentences takes.")
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    given = parser.parse_args(arguments)
    for name in given.formats:
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), name, given.sentences)
            began = time.process_time()
            found = len(read_domain({"train": [path]}).splits["train"])
            print(f"{name}: {found:,} sentences in {time.process_time() - began:.1f} s")


def write(folder: Path, name: str, count: int) -> Path:
    """Write so many sentences in a format; return the file, or of brat the folder."""
    if name in WRITTEN:
        return write_predicted(folder, name, count)
    path = folder / ("train.txt" if name in LINES else "train.jsonl")
    path.write_text((LINES[name] if name in LINES else json.dumps(RECORDS[name]) + "\n") * count)
    return path


def write_predicted(folder: Path, name: str, count: int) -> Path:
    """Write so many sentences as ``predict`` does."""
    sentences = segment(TEXT)
    entities = [{"start": a, "end": b, "type": kind, "text": TEXT[a:b], "score": 0.9} for a, b, kind in SPANS]
    document = TaggedDocument(Document(TEXT, sentences), [TAGS], entities, 0)
    output, target = make_writer(name, types=("per", "loc")), folder / WRITTEN[name]
    pieces = output.write([(number, document) for number in range(1, count + 1)], Totals())
    if output.is_folder:
        target.mkdir()
        for file, data in pieces:
            (target / file).write_bytes(data)
        return target
    (folder / "part").write_bytes(pieces[0][1])
    output.join([folder / "part"], target)
    return target


if __name__ == "__main__":
    main()
