"""Formats of tagged documents, each read back by other means than those that wrote it."""

import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints
from xml.etree import ElementTree

import pytest
from builders.documents import write_document
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.data.documents import Document, TaggedDocument, Totals, document_of_words
from crossner_cli.data.formats.brat import brat_names
from crossner_cli.data.formats.known import FORMATS
from crossner_cli.data.formats.spacy_files import to_doc_bin
from crossner_cli.data.text import segment
from crossner_cli.errors import CrossNERError
from crossner_cli.options import OutputName, Predict
from crossner_cli.prediction.output import choose_format, make_writer
from crossner_cli.run import environment

TYPES = ("person", "place-name", 'odd "<type>&')
TEXTS = st.text(st.sampled_from("aZ é東\u200d👍\n\r\t\x00\x0b\x1c\x85\u2028\ufdd0<>&\"';T#."), max_size=40)


@st.composite
def tagged_documents(draw: Any) -> TaggedDocument:
    """A document and entities that hold whole words, as ``ChunkTagger.tag`` makes them."""
    if draw(st.booleans()):
        document = Document(text := draw(TEXTS), segment(text))
    else:
        document = document_of_words(draw(st.lists(TEXTS, max_size=6)))
    entities, tags = [], []
    for words in document.sentences:
        row = ["O"] * len(words)
        position = 0
        while position < len(words):
            length = draw(st.integers(0, 3))
            end = min(len(words), position + length)
            if length:
                kind = draw(st.sampled_from(TYPES))
                row[position:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - position - 1)]
                first, last = words[position].start, words[end - 1].end
                entity = {"start": first, "end": last, "type": kind, "text": document.text[first:last]}
                entities.append(entity | {"score": 0.25})
            position = end + 1
        tags.append(row)
    return TaggedDocument(document, tags, entities, 0)


def read_brat(text: str, annotations: str) -> list[tuple[str, list[tuple[int, int]], str]]:
    """Entities of a standoff file: type, fragments, text. A parser of its own, strict about lines and tabs."""
    found = []
    for line in annotations.split("\n")[:-1]:
        fields = line.split("\t")
        assert len(fields) == 3
        if line.startswith("#"):
            assert re.fullmatch(r"AnnotatorNotes T\d+", fields[1]) and re.fullmatch(r"score [\d.]+", fields[2])
            continue
        assert re.fullmatch(r"T[1-9]\d*", fields[0])
        kind, places = fields[1].split(" ", 1)
        fragments = [(int(one.split(" ")[0]), int(one.split(" ")[1])) for one in places.split(";")]
        assert " ".join(text[start:end] for start, end in fragments) == fields[2]
        assert not re.search(r"[\r\n]", fields[2])
        found.append((kind, fragments, fields[2]))
    return found


@given(tagged_documents())
def test_brat_finds_every_entity_at_its_characters(tagged: TaggedDocument) -> None:
    totals = Totals()
    (text_name, text), (name, annotations) = make_writer("brat", types=TYPES).write([(7, tagged)], totals)
    assert (text_name, name) == ("000000007.txt", "000000007.ann")
    assert text.decode() == tagged.document.text
    found = read_brat(text.decode(), annotations.decode())
    assert len(found) + totals.rewritten_words == len(tagged.entities)
    seen = [entity for entity in tagged.entities if entity["text"].strip("\r\n\t\v\f\x1c\x1d\x1e\x85\u2028\u2029")]
    for (kind, fragments, _), entity in zip(found, seen, strict=True):
        assert kind == brat_names(TYPES)[entity["type"]]
        assert entity["start"] <= fragments[0][0] and fragments[-1][1] <= entity["end"]
        inside = "".join(tagged.document.text[start:end] for start, end in fragments)
        assert inside == re.sub(r"[\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]", "", entity["text"])


def test_brat_gives_every_type_a_name_of_its_own_and_reports_those_it_changed() -> None:
    types = ("人物", "場所", "a b", "a_b", "a/b", "place")
    names = brat_names(types)
    assert names == {"人物": "__", "場所": "___2", "a b": "a_b_2", "a_b": "a_b", "a/b": "a_b_3", "place": "place"}
    writer = make_writer("brat", types=types)
    ((_, configuration),) = writer.begin()
    assert configuration.decode().split("\n")[1:7] == list(names.values())
    (note,) = writer.notes
    assert "'場所' as ___2" in note and "place" not in note
    assert make_writer("jsonl", types=types).notes == make_writer("brat", types=("place",)).notes == []


def read_paragraph(markup: str) -> tuple[str, list[tuple[int, int, str]]]:
    """The text of a paragraph without the names of types, and its marks: start, end and type."""
    paragraph = ElementTree.fromstring(markup)
    assert paragraph.tag == "p" and not paragraph.attrib
    text, marks = paragraph.text or "", []
    for mark in paragraph:
        (name,) = mark
        assert (mark.tag, name.tag, mark.keys(), name.keys()) == ("mark", "small", ["class", "title"], [])
        marks.append((len(text), len(text + (mark.text or "")), name.text or ""))
        text += (mark.text or "") + (mark.tail or "")
    return text, marks


def shown(text: str) -> str:
    """Text as a page has it: what HTML cannot hold or what shows a line backwards is U+FFFD."""
    return re.sub(
        r"[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]", "\ufffd", text
    )


@given(tagged_documents())
def test_a_page_shows_the_text_and_marks_the_entities_and_nothing_else(tagged: TaggedDocument) -> None:
    text, marks = read_paragraph(write_document("html", tagged, types=TYPES))
    assert text == shown(tagged.document.text)
    assert marks == [(entity["start"], entity["end"], entity["type"]) for entity in tagged.entities]


def test_no_character_shows_a_line_of_text_or_of_a_page_backwards() -> None:
    (words,) = segment("Anna \u202etem reteP")
    tagged = TaggedDocument(Document("Anna \u202etem reteP", [words]), [["O"] * len(words)], [], 0)
    for name in ("html", "text"):
        assert "Anna \ufffdtem reteP" in write_document(name, tagged, types=TYPES)


def test_markup_in_text_and_types_stays_text_in_a_page_that_loads_nothing() -> None:
    text = '<script>alert(1)</script> <img src=x onerror=alert(1)> &amp; "Anna" \''
    entity = {"start": 0, "end": 8, "type": 'odd "<type>&', "text": "<script>", "score": 0.5}
    writer = make_writer("html", types=TYPES)
    written = writer.write([(1, TaggedDocument(Document(text, segment(text)), [], [entity], 0))], Totals())
    assert read_paragraph(written[0][1].decode()) == (text, [(0, 8, 'odd "<type>&')])
    whole = b"".join(data for _, data in [*writer.begin(), *written, *writer.end()]).decode()
    assert not re.search("<(script|img|link|type)", whole) and "http:" not in whole
    assert whole.startswith("<!DOCTYPE html>") and whole.endswith("</html>\n")
    assert "default-src 'none'" in whole and whole.count("hsl(") == whole.split("<main>")[0].count("<mark") == 3


@settings(max_examples=40)
@given(st.lists(tagged_documents(), max_size=4))
def test_spacy_reads_the_text_and_entities_at_the_same_characters(tagged: list[TaggedDocument]) -> None:
    tokens = pytest.importorskip("spacy.tokens")
    vocabulary = pytest.importorskip("spacy.vocab").Vocab()
    totals = Totals()
    docs = list(tokens.DocBin().from_bytes(to_doc_bin(tagged, totals)).get_docs(vocabulary))
    assert [doc.text for doc in docs] == [each.document.text for each in tagged]
    for doc, each in zip(docs, tagged, strict=True):
        words = [word for sentence in each.document.sentences for word in sentence if word.text]
        places = {(token.idx, token.idx + len(token.text)) for token in doc}
        assert {(word.start, word.end) for word in words} <= places
        found = [(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents]
        whole = [(one["start"], one["end"], one["type"]) for one in each.entities if one["text"].strip()]
        assert set(whole) <= set(found) or totals.rewritten_words
        assert [str(span) for span in doc.spans["sc"]] == [str(entity) for entity in doc.ents]
        assert doc.spans["sc"].attrs["scores"] == [0.25] * len(doc.ents)
        starts = {sentence[0].start for words in each.document.sentences if (sentence := [w for w in words if w.text])}
        assert {token.idx for token in doc if token.is_sent_start and token.i} <= starts
        assert len(starts) <= max(1, len(list(doc.sents)))


@given(tagged_documents())
def test_text_shows_entities_in_brackets_and_nothing_that_a_terminal_obeys(tagged: TaggedDocument) -> None:
    (line,) = write_document("text", tagged, types=TYPES).split("\n")[:-1]
    bare = re.sub(r"\[(.*?) (?:person|place-name|odd \"<type>&) 0.25\]", r"\1", line)
    assert len(bare) == len(tagged.document.text) and not re.search("[\x00-\x1f\x7f-\x9f]", line)
    assert line.count(" 0.25]") == len(tagged.entities)
    coloured = write_document("text", tagged, types=TYPES, is_coloured=True)
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == f"{line}\n"
    assert ("\x1b" in coloured) == bool(tagged.entities)


@settings(max_examples=25)
@given(st.lists(tagged_documents(), min_size=1, max_size=4))
def test_parquet_holds_the_same_as_jsonl(tagged: list[TaggedDocument]) -> None:
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    ((name, data),) = make_writer("parquet", types=TYPES, is_calibrated=True).write([*enumerate(tagged, 3)], Totals())
    assert name == "000000003.parquet"
    rows = parquet.read_table(pyarrow.BufferReader(data)).to_pylist()
    assert [row.pop("given") for row in rows] == [None] * len(tagged)
    assert rows == [json.loads(write_document("jsonl", each, is_calibrated=True)) for each in tagged]


@pytest.mark.parametrize(
    ("asked", "output", "found"),
    [
        ("auto", None, "jsonl"),
        ("auto", "x.txt", "text"),
        ("auto", "x", "jsonl"),
        ("auto", "x.HTML", "html"),
        ("auto", "x.tsv", "conll"),
        ("auto", "x.parquet", "parquet"),
        ("jsonl", "x.html", "jsonl"),
        ("brat", "folder", "brat"),
    ],
)
def test_the_format_is_asked_for_or_follows_from_the_name(asked: str, output: str | None, found: str) -> None:
    assert choose_format(asked, None if output is None else Path(output)) == found
    on_terminal = "text" if (asked, output) == ("auto", None) else found
    assert choose_format(asked, None if output is None else Path(output), on_terminal=True) == on_terminal


@pytest.mark.parametrize("name", ["x.docx", "x.csv", "x.json"])
def test_an_ending_that_no_format_has_is_refused_unless_the_format_is_named(name: str) -> None:
    with pytest.raises(CrossNERError, match=f"{name[1:]} is not the ending of a format") as caught:
        choose_format("auto", Path(name))
    assert "--format jsonl" in caught.value.hint
    assert choose_format("label-studio", Path(name)) == "label-studio"


def test_what_is_no_stream_needs_a_name() -> None:
    for name in ("brat", "spacy", "parquet"):
        with pytest.raises(CrossNERError, match=f"--format {name} cannot be written to stdout"):
            choose_format(name, None)


@pytest.mark.parametrize(("name", "extra"), [("spacy", "spacy"), ("parquet", "parquet")])
def test_a_package_that_is_not_installed_is_reported_with_the_command(
    monkeypatch: pytest.MonkeyPatch, name: str, extra: str
) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(environment, "import_module", missing)
    with pytest.raises(CrossNERError) as caught:
        choose_format(name, Path("x"))
    assert caught.value.hint == f'pip install "crossner[{extra}]"'


def test_the_options_of_predict_name_every_format_that_is_written_or_read() -> None:
    written = {name for name, row in FORMATS.items() if row.writes}
    read = {name for name, row in FORMATS.items() if row.reads_documents}
    assert set(get_args(OutputName)) == {"auto", *written}
    assert set(get_args(get_type_hints(Predict)["input_format"])) == {"auto", *read}
