"""Pre-annotations for Label Studio, Prodigy and doccano, and the order that puts the least certain documents first."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.documents import write_document
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.documents import Document, TaggedDocument, Totals
from crossner_cli.data.formats.label_studio import to_prediction
from crossner_cli.data.formats.writer import KEPT_HEAD, Writer
from crossner_cli.data.text import segment
from crossner_cli.prediction.tagging import to_tagged_document
from crossner_cli.taggers.tagging import Tagged

Predicted = Callable[..., tuple[dict[str, Any], list[str]]]
LINES = [f"Anna {number} 👍🏽 met Peter in London" + " and Paris" * (number % 17) for number in range(60)]
DATA = "\n".join([*LINES, ""]).encode()


def in_utf16(text: str, start: int, end: int) -> str:
    """The text between two places of JavaScript."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


@given(st.lists(st.tuples(st.text("aé東👍🏽🇫\n "), st.text("b👍🏽東 ", min_size=1)), max_size=6))
def test_places_of_label_studio_hold_the_entities_in_utf16(pieces: list[tuple[str, str]]) -> None:
    text, entities = "", []
    for before, inside in pieces:
        start = len(text) + len(before)
        entities.append({"start": start, "end": start + len(inside), "type": "x", "text": inside, "score": 0.5})
        text += before + inside
    tagged = TaggedDocument(Document(text + "👍", []), [], entities, 0, 0.25)
    prediction = to_prediction(tagged, "mine")
    assert (prediction["model_version"], prediction["score"]) == ("mine", 0.25)
    found = [region["value"] for region in prediction["result"]]
    assert [in_utf16(tagged.document.text, value["start"], value["end"]) for value in found] == [
        inside for _, inside in pieces
    ]
    assert [value["text"] for value in found] == [inside for _, inside in pieces]
    assert len({region["id"] for region in prediction["result"]}) == len(pieces)


def test_label_studio_gets_one_array_of_tasks_with_a_prediction_each(predicted: Predicted, folder: Path) -> None:
    _, plain = predicted(DATA)
    _, lines = predicted(DATA, format="label-studio")
    tasks = json.loads("\n".join(lines))
    assert [task["data"] for task in tasks] == [{"text": line} for line in LINES]
    for task, line in zip(tasks, plain, strict=True):
        ((prediction,), record) = task["predictions"], json.loads(line)
        assert prediction.keys() == {"model_version", "score", "result"}
        assert prediction["model_version"] == str(folder)
        assert 0 < prediction["score"] <= min(entity["score"] for entity in record["entities"])
        for region, entity in zip(prediction["result"], record["entities"], strict=True):
            assert (region["from_name"], region["to_name"], region["type"]) == ("label", "text", "labels")
            value = region["value"]
            assert value["labels"] == [entity["type"]] and region["score"] == entity["score"]
            assert in_utf16(record["text"], value["start"], value["end"]) == value["text"] == entity["text"]


def test_prodigy_and_doccano_get_lines_with_places_in_characters(predicted: Predicted) -> None:
    records = [json.loads(line) for line in predicted(DATA)[1]]
    tasks = [json.loads(line) for line in predicted(DATA, format="prodigy")[1]]
    examples = [json.loads(line) for line in predicted(DATA, format="doccano")[1]]
    for record, task, example in zip(records, tasks, examples, strict=True):
        places = [(entity["start"], entity["end"], entity["type"]) for entity in record["entities"]]
        assert example == {"text": record["text"], "label": [list(place) for place in places]}
        assert task.keys() == {"text", "spans", "meta"} and task["text"] == record["text"]
        assert [(span["start"], span["end"], span["label"]) for span in task["spans"]] == places
        assert [span["score"] for span in task["spans"]] == [entity["score"] for entity in record["entities"]]
        assert 0 < task["meta"]["score"] <= 1


@pytest.mark.parametrize("kind", ["label-studio", "prodigy", "doccano"])
def test_entities_without_visible_characters_are_left_out_and_counted(kind: str) -> None:
    entities = [
        {"start": 0, "end": 0, "type": "x", "text": "", "score": 0.5},
        {"start": 1, "end": 5, "type": "x", "text": "Anna", "score": 0.5},
    ]
    totals = Totals()
    written = write_document(kind, TaggedDocument(Document(" Anna", []), [], entities, 0), totals)
    assert written.count('"x"') == totals.rewritten_words == 1


def test_the_score_of_a_document_is_that_of_its_least_certain_word() -> None:
    document = Document("Anna met Bob. Yes", segment("Anna met Bob. Yes"))
    tagged = [Tagged(("B-x", "O", "B-x", "O"), (0.9, 0.4, 0.8, 1.0)), Tagged(("O",), (0.7,))]
    assert to_tagged_document(document, tagged, "bio").score == 0.4
    assert to_tagged_document(Document("", []), [], "bio").score == 1.0


def cut(lines: list[str], kind: str) -> tuple[list[str], list[str], list[str]]:
    """What stands before all documents, each document, and what stands behind them."""
    if kind == "conll":
        return [], "\n".join(lines).strip("\n").split("\n\n"), []
    begins = {"html": "<p>", "text": ("Anna", "[")}.get(kind, "{")
    places = [number for number, line in enumerate(lines) if line.startswith(begins)]
    first, last = places[0], places[-1] + 1
    return lines[:first], [line.rstrip(",") for line in lines[first:last]], lines[last:]


@pytest.mark.parametrize("kind", ["jsonl", "conll", "text", "html", "label-studio", "prodigy", "doccano"])
def test_the_least_certain_documents_come_first(predicted: Predicted, tmp_path: Path, kind: str) -> None:
    scores = [json.loads(line)["meta"]["score"] for line in predicted(DATA, format="prodigy")[1]]
    order = sorted(range(len(LINES)), key=scores.__getitem__)
    assert order != list(range(len(LINES)))
    head, documents, tail = cut(predicted(DATA, format=kind)[1], kind)
    _, found = predicted(DATA, format=kind, order="uncertain")
    assert cut(found, kind) == (head, [documents[number] for number in order], tail)
    predicted(DATA, format=kind, order="uncertain", output=tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == found


class Lines(Writer):
    between = b"|"


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5]), st.binary(max_size=3))), st.booleans())
def test_kept_documents_come_out_whole_and_equal_scores_in_the_order_of_the_input(
    documents: list[tuple[float, bytes]], is_sorted: bool
) -> None:
    kept = b"".join(KEPT_HEAD.pack(score, len(data)) + data for score, data in documents)
    output = io.BytesIO()
    Lines(order="uncertain" if is_sorted else "input").write_kept(io.BytesIO(kept), output)
    expected = sorted(documents, key=lambda each: each[0]) if is_sorted else documents
    assert output.getvalue() == b"|".join(data for _, data in expected)
