"""Tagged documents as records that annotation tools import: Label Studio, Prodigy and doccano."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crossner_cli.data.formats.words import TEXT

if TYPE_CHECKING:
    from crossner_cli.prediction.formats import TaggedDocument


def to_label_studio(tagged: TaggedDocument, model: str) -> dict[str, Any]:
    """Make a task with one prediction. Keys that were read stand beside the text in ``data``.

    ``model`` is the name of the tagger.
    """
    data = {**tagged.document.given, TEXT: tagged.document.text}
    return {"data": data, "predictions": [to_prediction(tagged, model)]}


def to_prediction(
    tagged: TaggedDocument, model: str, *, from_name: str = "label", to_name: str = "text"
) -> dict[str, Any]:
    """Make a prediction of Label Studio; its offsets count UTF-16 code units, as JavaScript does.

    Args:
        tagged: Its entities are in the order of the text, and none overlap.
        model: The name of the tagger.
        from_name: The name of ``Labels`` in the labelling setup.
        to_name: The name of ``Text`` there.
    """
    text, result = tagged.document.text, []
    behind = units = 0
    for number, entity in enumerate(tagged.entities, start=1):
        start = units + _utf16_units(text[behind : entity["start"]])
        behind, units = entity["end"], start + _utf16_units(entity["text"])
        value = {"start": start, "end": units, "text": entity["text"], "labels": [entity["type"]]}
        names = {"id": str(number), "from_name": from_name, "to_name": to_name, "type": "labels"}
        result.append({**names, "score": entity["score"], "value": value})
    return {"model_version": model, "score": tagged.score, "result": result}


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def to_prodigy(tagged: TaggedDocument) -> dict[str, Any]:
    """Make a task; offsets count characters. Prodigy finds the tokens itself."""
    spans = [
        {"start": entity["start"], "end": entity["end"], "label": entity["type"], "score": entity["score"]}
        for entity in tagged.entities
    ]
    return {"text": tagged.document.text, "spans": spans, "meta": {"score": tagged.score}}


def to_doccano(tagged: TaggedDocument) -> dict[str, Any]:
    """Make an example; offsets count characters."""
    label = [[entity["start"], entity["end"], entity["type"]] for entity in tagged.entities]
    return {"text": tagged.document.text, "label": label}
