"""``tagger.json``: what a tagger is, and what it was taught. This module imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossner_cli.data.tags import TagSet
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import check_model_folder, read_json

DESCRIPTION = "tagger.json"
AGAIN = "Train the tagger again."
MODEL = "model.onnx"  # stands for all tensors in the folder of an exported tagger


def is_tagger_folder(folder: Path) -> bool:
    """Return whether a folder holds a tagger."""
    return (folder / DESCRIPTION).is_file()


def is_graph_folder(folder: Path) -> bool:
    """Return whether a folder holds a tagger as an ONNX graph, as ``export`` writes it, and no weights."""
    return (folder / MODEL).is_file() and not any(folder.glob("*.safetensors"))


def read_description(folder: Path) -> dict[str, Any]:
    """Read ``tagger.json``; refuse one that is missing, broken, or describes no tagger."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise CrossNERError(f"{folder} holds no tagger ({DESCRIPTION} is missing).", hint="Give a tagger's folder.")
    check_model_folder(folder)
    description = read_json(path, hint=AGAIN)
    kinds = {"method": str, "hyperparameters": dict, "tag_set": dict, "domain_of_new_text": str, "taught_types": list}
    if not isinstance(description, dict) or not all(
        isinstance(description.get(key), kind) for key, kind in kinds.items()
    ):
        raise CrossNERError(f"{path} describes no tagger: it must hold {', '.join(kinds)}.", hint=AGAIN)
    return description


def read_tag_set(folder: Path) -> TagSet:
    """Read the tag set of a tagger's folder."""
    record = read_description(folder)["tag_set"]
    try:
        return TagSet.from_json(record)
    except ValueError as error:
        raise CrossNERError(f"{folder / DESCRIPTION} holds no tag set: {error}.", hint=AGAIN) from None


def read_domain_of_new_text(folder: Path) -> str:
    """Read the domain as whose text a tagger tags new text."""
    domain: str = read_description(folder)["domain_of_new_text"]
    if domain not in read_tag_set(folder).domains:
        raise CrossNERError(f"{folder / DESCRIPTION}: no domain of its tag set is called {domain!r}.", hint=AGAIN)
    return domain


def read_types(folder: Path, domain: str) -> tuple[str, ...]:
    """Read the types of a domain, or of all if the tagger lacks this one, as far as they were taught."""
    taught, tag_set = read_description(folder)["taught_types"], read_tag_set(folder)
    return tuple(each for each in tag_set.domains.get(domain, tag_set.types) if each in taught)
