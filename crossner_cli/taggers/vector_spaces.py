"""Whether vectors that a stage is given lie in one space with those that its start has."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.encoders.vector_files import read_vector_width
from crossner_cli.encoders.word_encoder import TENSORS, VOCABULARY
from crossner_cli.encoders.word_reader import WordInputs
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, read_settings
from crossner_cli.options import Optimisation
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory, read_manifest
from crossner_cli.run.storage import digest_file
from crossner_cli.taggers.known_words import CORPUS
from crossner_cli.taggers.sources import Start, digest_start


@dataclass(frozen=True)
class Origin:
    """What the vectors of a start began as.

    Args:
        manifest: Of the stage that was given them, or that drew them at random; None where that is not known.
        lost: Why it is not known.
    """

    manifest: Manifest | None
    lost: str = ""


def notes_on_vectors(start: Start, options: Optimisation, inputs: Mapping[str, str]) -> list[str]:
    """What a person should know who gives other vectors, of words or of n-grams, than the start has.

    Args:
        start: Whose words keep their vectors, where these are as wide.
        options: The stage's.
        inputs: Digests of what the stage reads.
    """
    hyper = read_settings(find_method(options.method), options.settings)
    if not isinstance(hyper, WordInputs) or not start.has_words or start.folder is None:
        return []
    sizes, notes = start.vector_sizes(hyper), []
    tables = (("embeddings", "word_size", "words"), ("ngram_embeddings", "character_size", "n-grams"))
    for name, size_name, what in tables:
        given, old = getattr(options, name), sizes.get(size_name)
        if given is None or old is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        size = hyper.word_size if given == CORPUS and name == "embeddings" else read_vector_width(Path(given))
        if size != old:
            notes.append(
                f"{flag} {given} has {size} values a vector, the start {start.name!r} {old}: its vectors of {what} are "
                f"left, and {what} that only it knows are unknown."
            )
        elif (doubt := _doubt(find_origin(start.folder, name), name, options, inputs)) is not None:
            began, spaces = doubt
            notes.append(
                f"{flag} {given}: {what} of the start {start.name!r} keep its vectors{began}; {what} that only {given} "
                f"has get theirs, and {spaces}. Leave {flag} out, or start from base."
            )
    return notes


def _doubt(origin: Origin, name: str, options: Optimisation, inputs: Mapping[str, str]) -> tuple[str, str] | None:
    """What the start's vectors began as, and what follows for the space; None where they began as those given."""
    given = getattr(options, name)
    if origin.manifest is None:
        return f" ({origin.lost})", f"the two are one space only if the start's began as vectors of {given}"
    before, others = origin.manifest["options"].get(name), ""
    if name in inputs:
        is_same = origin.manifest["inputs"].get(name) == inputs[name]
    else:  # vectors of the raw text, which are of no file
        others = _other_training(origin.manifest, options, inputs) if before == given else ""
        is_same = before == given and not others
    if is_same:
        return None
    return "" if before is None else f", which began as those of {before}{others}", "the two are no common space"


def _other_training(manifest: Manifest, options: Optimisation, inputs: Mapping[str, str]) -> str:
    """How vectors of the raw text of a run were trained otherwise than a stage's own are; empty where they were not.

    Every training draws its axes anew: vectors of the same text lie in one space only if all that made them is the
    same.
    """
    hyper: Any = read_settings(find_method(options.method), options.settings)
    settings = manifest["result"].get("settings", {})
    pairs = [("--seed", manifest["options"].get("seed"), options.seed)]
    pairs += [(key, settings.get(key), getattr(hyper, key)) for key in ("digits", "lower_case")]
    told = [
        f"{key}={figures.setting(before)} (here {figures.setting(now)})"
        for key, before, now in pairs
        if before not in (None, now)
    ]
    if manifest["inputs"].get("prepare-data") != inputs["prepare-data"]:
        told.insert(0, "data prepared otherwise")
    return f" with {', '.join(told)}" if told else ""


def find_origin(folder: Path, name: str) -> Origin:
    """Follow the starts of a stage or tagger folder to the stage that was given the option ``name``, else to the one
    that drew its vectors at random.

    A stage is followed only where it is the one that was started from: manifests hold the digests of their starts,
    which no stage that was made again has, so that the way back cannot go round in circles.
    """
    while True:
        stage = _stage_of(folder)
        if stage is None:
            return Origin(None, f"{folder} is no stage's, and tells nothing of what they began as")
        manifest = read_manifest(stage)
        start = manifest["options"].get("start_from")
        if manifest["options"].get(name) is not None or start in (None, "base"):
            return Origin(manifest)
        folder = RunDirectory(stage.parent).stage_or_path(start)
        if not folder.is_dir() or digest_start(folder) != manifest["inputs"].get("start"):
            return Origin(None, f"{stage} started from {start}, which was made again or is not to be found")
        if not _holds_words(folder):
            return Origin(manifest)


def _stage_of(folder: Path) -> Path | None:
    """The folder of a stage, or of the one whose tagger a folder holds, as it was made."""
    if (folder / MANIFEST).is_file():
        return folder.resolve()
    stage, tensors = folder.resolve().parent, folder / TENSORS
    with contextlib.suppress(CrossNERError):  # what stands beside a folder need not be a stage
        recorded = read_manifest(stage).get("outputs", {}).get(f"{folder.resolve().name}/{TENSORS}")
        if tensors.is_file() and recorded == digest_file(tensors):
            return stage
    return None


def _holds_words(folder: Path) -> bool:
    """Whether a stage or tagger folder holds an encoder of words."""
    return (folder / VOCABULARY).is_file() or any(folder.glob(f"*/{VOCABULARY}"))
