"""Scores counted by independent code."""

from __future__ import annotations

from collections.abc import Sequence


def conlleval_chunks(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """The rule of the CoNLL-2000 script for one sentence, written from its description."""
    chunks, start, inside = set(), 0, False
    previous, previous_type = "O", ""
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, entity_type = tag.partition("-")
        changed = entity_type != previous_type
        ends = previous in ("E", "S") or (previous in ("B", "I") and prefix in ("B", "S", "O"))
        ends = ends or (previous != "O" and changed)
        starts = prefix in ("B", "S") or (previous in ("E", "S", "O") and prefix in ("E", "I"))
        starts = starts or (prefix != "O" and changed)
        if inside and ends:
            chunks.add((previous_type, start, position))
            inside = False
        if starts:
            start, inside = position, True
        previous, previous_type = prefix, entity_type
    return chunks
