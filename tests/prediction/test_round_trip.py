"""What ``predict`` writes, ``prepare-data`` reads: the same sentences with the same labels, in every format."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.documents import Document, TaggedDocument, Totals
from crossner_cli.data.domains import find_domain
from crossner_cli.data.formats.known import FORMATS
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_tags
from crossner_cli.data.text import segment
from crossner_cli.prediction.output import make_writer

NAMES = {
    "conll": "train.conll",
    "jsonl": "train.jsonl",
    "parquet": "train.parquet",
    "spacy": "train.spacy",
    "brat": "train",
    "label-studio": "train.json",
    "prodigy": "train.jsonl",
    "doccano": "train.jsonl",
}
TYPES = ("person", "place-name")


@st.composite
def tagged_documents(draw: Any) -> TaggedDocument:
    """A text of a few words with entities that overlap in no word and cross no end of a sentence."""
    words = draw(st.lists(st.text("aB1é漢\U0001f600-.'", min_size=1, max_size=5), min_size=1, max_size=12))
    text = words[0] + "".join(draw(st.sampled_from([" ", "  ", ". "])) + word for word in words[1:])
    sentences = segment(text)
    tags, entities = [], []
    for sentence in sentences:
        spans, place = [], 0
        while place < len(sentence):
            length = draw(st.integers(0, 3))
            if length and place + length <= len(sentence):
                spans.append(Span(place, place + length, draw(st.sampled_from(TYPES))))
            place += max(length, 1)
        tags.append(to_tags(spans, len(sentence)))
        for span in spans:
            start, end = sentence[span.start].start, sentence[span.end - 1].end
            entities.append({"start": start, "end": end, "type": span.type, "text": text[start:end], "score": 0.5})
    return TaggedDocument(Document(text, sentences), tags, entities, 0)


def write(documents: list[TaggedDocument], name: str, folder: Path) -> None:
    """Write documents as the command does, and in Label Studio accept all predictions."""
    output = make_writer(name, types=TYPES)
    numbered = list(enumerate(documents, start=1))
    pieces = [*output.begin(), *output.write(numbered, Totals()), *output.end()]
    target = folder / NAMES[name]
    if output.is_kept:
        with target.open("wb") as stream:
            output.write_kept(io.BytesIO(b"".join(data for _, data in pieces)), stream)
    elif not output.has_parts:
        target.write_bytes(b"".join(data for _, data in pieces))
    elif output.is_folder:
        target.mkdir()
        for file, data in pieces:
            (target / file).write_bytes(data)
    else:
        parts = [folder / f"part-{number}" for number in range(len(pieces))]
        for part, (_, data) in zip(parts, pieces, strict=True):
            part.write_bytes(data)
        output.join(parts, target)
    if name == "label-studio":
        tasks = json.loads(target.read_text())
        accepted = [{"data": each["data"], "annotations": each["predictions"]} for each in tasks]
        target.write_text(json.dumps(accepted))


def test_every_format_that_is_written_and_read_is_tried_here() -> None:
    assert {name for name, row in FORMATS.items() if row.reads and row.writes} == NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(documents=st.lists(tagged_documents(), min_size=1, max_size=3))
def test_a_data_set_in_any_format_reads_back_the_same(
    name: str, documents: list[TaggedDocument], tmp_path_factory: pytest.TempPathFactory
) -> None:
    if name in ("parquet", "spacy"):
        pytest.importorskip("pyarrow" if name == "parquet" else "spacy")
    folder = tmp_path_factory.mktemp("data")
    write(documents, name, folder)
    found = read_domain(find_domain(str(folder)).files)
    assert found.splits["train"] == [
        Sentence(tuple(word.text for word in words), tuple(tags))
        for each in documents
        for words, tags in zip(each.document.sentences, each.tags, strict=True)
    ]
    assert not found.repairs.counts
