"""Entities read by independent code, and random tags."""

import random
from collections.abc import Sequence

from crossner_cli.data.tags import Span

Tags = list[list[str]]
TYPES = ("person", "place", "tool")


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


def whole_chunks(tags: Sequence[str], *, bioes: bool) -> set[tuple[str, int, int]]:
    """Whole entities only: B I* in BIO; B I* E or S in BIOES. The tag after an entity need not be legal."""
    chunks = set()
    for start, tag in enumerate(tags):
        prefix, _, entity_type = tag.partition("-")
        if prefix == "S" and bioes:
            chunks.add((entity_type, start, start + 1))
        if prefix != "B":
            continue
        end = start + 1
        while end < len(tags) and tags[end] == f"I-{entity_type}":
            end += 1
        if not bioes:
            chunks.add((entity_type, start, end))
        elif end < len(tags) and tags[end] == f"E-{entity_type}":
            chunks.add((entity_type, start, end + 1))
    return chunks


def random_tags(prefixes: str, count: int, seed: int = 5, types: Sequence[str] = TYPES) -> tuple[Tags, Tags]:
    """Two taggings that agree in part; most sentences break the scheme somewhere."""
    generator = random.Random(seed)
    tags = ["O"] * (3 * len(prefixes)) + [f"{prefix}-{name}" for prefix in prefixes for name in types]
    gold = [generator.choices(tags, k=generator.randint(1, 6)) for _ in range(count)]
    return gold, [[old if generator.random() < 0.7 else generator.choice(tags) for old in side] for side in gold]


def conll_entities(sentences: Sequence[Sequence[str]]) -> list[list[Span]]:
    """The entities of each sentence by ``conlleval_chunks``, in order."""
    return [sorted(Span(start, end, name) for name, start, end in conlleval_chunks(tags)) for tags in sentences]
