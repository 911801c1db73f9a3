"""Data sets of Hugging Face: fetched from the hub, and the names of their tags."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crossner_cli.data.formats.words import TAGS
from crossner_cli.errors import CrossNERError

HUB = "hf://datasets/"
HUB_HINT = f"Write {HUB}OWNER/NAME, with @REVISION and /FOLDER if needed."
# The files of a data set that are fetched: no scripts.
PATTERNS = ["*.parquet", "*.json", "*.jsonl", "*.ndjson", "*.md", "*.txt", "*.conll", "*.tsv", "*.bio", "*.iob*"]
PATTERNS += ["*.conllu", "*.conllup", "*.spacy"]


def fetch_from_hub(address: str) -> Path:
    """Fetch a data set from the hub into its cache; return its folder.

    Raises:
        CrossNERError: The address is malformed, or the data set cannot be fetched.
    """
    found = re.fullmatch(rf"{HUB}([\w.-]+/[\w.-]+)(?:@([\w./-]+?))?((?:/[\w.-]+)*)", address)
    if found is None or ".." in address:
        raise CrossNERError(f"{address!r} is not the address of a data set on the hub.", hint=HUB_HINT)
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    try:
        folder = huggingface_hub.snapshot_download(
            found[1], repo_type="dataset", revision=found[2], allow_patterns=PATTERNS
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CrossNERError(
            f"{address} cannot be fetched: {reason}",
            hint="Check the name and the network; for a private one: hf auth login.",
        ) from None
    return Path(folder + found[3])


def names_of_tags(path: Path) -> tuple[str, ...]:
    """Find the names of tags that are numbers, in the ``dataset_infos.json`` or ``README.md`` nearest above a file.

    Returns:
        The names in the order of their numbers; empty if no file has them, or several have different orders.
    """
    for folder in list(path.absolute().parents)[:3]:
        found = {names for features in _features_of(folder) if (names := names_in(features))}
        if len(found) == 1:
            return found.pop()
    return ()


def _features_of(folder: Path) -> Iterator[Any]:
    """Read the features of each configuration that a folder describes."""
    infos, card = folder / "dataset_infos.json", folder / "README.md"
    if infos.is_file():
        try:
            described = json.loads(infos.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise CrossNERError(f"{infos} is not JSON.", hint="Fetch it again.") from None
        if isinstance(described, dict):
            yield from (each.get("features") for each in described.values() if isinstance(each, dict))
    if card.is_file():
        import yaml  # type: ignore[import-untyped]

        found = re.match(r"---\n(.*?)\n---\s", card.read_text(encoding="utf-8", errors="replace"), re.DOTALL)
        try:
            data = yaml.safe_load(found[1]) if found else {}
        except (yaml.YAMLError, ValueError, RecursionError):
            return
        described = data.get("dataset_info", []) if isinstance(data, dict) else []
        described = described if isinstance(described, list) else [described]
        yield from (each.get("features") for each in described if isinstance(each, dict))


def names_in(features: Any) -> tuple[str, ...]:
    """Find the names of tags in features, as ``datasets`` writes them: a mapping, or the list of a card."""
    if isinstance(features, list):
        features = {each.get("name"): each for each in features if isinstance(each, dict)}
    if not isinstance(features, dict):
        return ()
    for key in TAGS:
        names = _class_names(features.get(key))
        if names:
            return names
    return ()


def _class_names(feature: Any) -> tuple[str, ...]:
    """Find the names of the class label somewhere inside a feature."""
    if isinstance(feature, list):
        return next(filter(None, map(_class_names, feature)), ())
    if not isinstance(feature, dict):
        return ()
    names = feature.get("names")
    if isinstance(names, dict) and all(re.fullmatch(r"\d{1,9}", str(key)) for key in names):
        by_number = {int(key): name for key, name in names.items()}
        names = [by_number[number] for number in sorted(by_number)] if sorted(by_number) == [*range(len(names))] else ()
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        return tuple(names)
    return next(filter(None, map(_class_names, feature.values())), ())
