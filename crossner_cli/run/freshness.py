"""Stages that are out of date: their data or stages have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crossner_cli.run.directory import (
    MANIFEST,
    PREPARED,
    PREVIOUS,
    Manifest,
    RunDirectory,
    digest_stage,
    given_in,
    read_manifest,
)


def find_outdated(run: RunDirectory) -> dict[str, list[str]]:
    """Find the stages of a run that are out of date, each with what has changed, in the order to make them again.

    Only prepared data and finished stages are looked at; other files, such as word vectors, are compared when the
    command is given again. A stage that was kept as ``NAME-previous`` is not listed.
    """
    manifests = {name: run.read(name) for name in run.stages()}
    prepared = manifests.pop(PREPARED, None)
    found: dict[str, list[str]] = {}
    for name in in_order_of_making(run, manifests):
        changed = [] if prepared is None else changed_data(manifests[name], prepared.get("outputs", {}))
        for place, digest in manifests[name]["inputs"].items():
            folder = run.stage_or_path(place, given_in(manifests[name]))
            if folder.name in found and folder.parent == run.path:
                changed.append(place)  # which will change
            elif (folder / MANIFEST).is_file() and digest_stage(read_manifest(folder)) != digest:
                changed.append(place)
        if changed and not name.endswith(PREVIOUS):
            found[name] = changed
    return found


def changed_data(manifest: Manifest, digests: Mapping[str, str]) -> list[str]:
    """Name the prepared files that a stage read and that have changed, by the digests of the present ones."""
    return [
        place
        for place, digest in manifest["inputs"].items()
        if place.startswith(f"{PREPARED}/") and digests.get(place.partition("/")[2]) != digest
    ]


def in_order_of_making(run: RunDirectory, manifests: dict[str, Manifest]) -> list[str]:
    """Sort names of stages, each after those that it was made from."""
    ordered: dict[str, None] = {}

    def add(name: str, waiting: frozenset[str]) -> None:
        for place in manifests[name]["inputs"]:
            folder = run.stage_or_path(place)
            if folder.parent == run.path and folder.name in manifests and folder.name not in waiting:
                add(folder.name, waiting | {folder.name})
        ordered[name] = None

    for name in sorted(manifests, key=lambda name: (name != PREPARED, name)):
        add(name, frozenset({name}))
    return [*ordered]


def describe_changed(names: Sequence[str]) -> str:
    """Say what has changed, as ``prepare-data/target/train.jsonl has changed``."""
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} changed"
