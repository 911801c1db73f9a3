"""``tagger.json``, the description of a tagger. This module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.data.tags import TagSet
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import check_model_folder, read_json

DESCRIPTION = "tagger.json"
CALIBRATION = "calibration"
THRESHOLDS = "thresholds"
AGAIN = "Train the tagger again."
MODEL = "model.onnx"  # stands for all tensors in the folder of an exported tagger


def is_tagger_folder(folder: Path) -> bool:
    """Return whether a folder holds a tagger."""
    return (folder / DESCRIPTION).is_file()


def is_graph_folder(folder: Path) -> bool:
    """Return whether a folder holds a tagger as an ONNX graph, as ``export`` writes it, and no weights."""
    return (folder / MODEL).is_file() and not any(folder.glob("*.safetensors"))


@dataclass(frozen=True)
class TaggerDescription:
    """The content of ``tagger.json``: the name of the method, the settings that are kept, and what labels taught.

    Args:
        domain: The domain as whose text new text is tagged.
        calibration: As ``read_calibration`` reads it; None where the tagger was saved without one.
        thresholds: As ``read_thresholds`` reads them.
    """

    path: Path
    method: str
    settings: dict[str, Any]
    tag_set: TagSet
    domain: str
    taught_types: list[str]
    calibration: Any
    thresholds: Any

    def list_types(self, domain: str) -> tuple[str, ...]:
        """List the types of a domain, or of all if the tagger lacks this one, as far as they were taught."""
        types = self.tag_set.domains.get(domain, self.tag_set.types)
        return tuple(each for each in types if each in self.taught_types)


def read_description(folder: Path) -> TaggerDescription:
    """Read ``tagger.json``.

    Raises:
        CrossNERError: It is missing or broken, or does not describe a tagger.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        raise CrossNERError(f"{folder} holds no tagger ({DESCRIPTION} is missing).", hint="Give a tagger's folder.")
    check_model_folder(folder)
    record = read_json(path, hint=AGAIN)
    kinds = {"method": str, "hyperparameters": dict, "tag_set": dict, "domain_of_new_text": str, "taught_types": list}
    if not isinstance(record, dict) or not all(isinstance(record.get(key), kind) for key, kind in kinds.items()):
        raise CrossNERError(f"{path} does not describe a tagger: it must hold {', '.join(kinds)}.", hint=AGAIN)
    try:
        tag_set = TagSet.from_json(record["tag_set"])
    except ValueError as error:
        raise CrossNERError(f"{path} does not hold a tag set: {error}.", hint=AGAIN) from None
    method, settings, _, domain, taught = (record[key] for key in kinds)
    if domain not in tag_set.domains:
        raise CrossNERError(f"{path}: no domain of its tag set is called {domain!r}.", hint=AGAIN)
    return TaggerDescription(
        path, method, settings, tag_set, domain, taught, record.get(CALIBRATION), record.get(THRESHOLDS, {})
    )
