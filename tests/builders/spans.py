"""Entities in sentences, for property tests."""

from typing import Any

from hypothesis import strategies as st

from crossner_cli.data.tags import Span

# Names of entity types that are hard to tell from tags.
TYPES = ("person", "Multi-tissue_structure", "O", "B-", "B-I", "é")


@st.composite
def sentences_with_spans(draw: Any, *, most: int = 6) -> tuple[list[Span], int]:
    """Spans in order that do not overlap, and a length that holds them."""
    spans, position = [], 0
    pieces = st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from(TYPES))
    for gap, length, entity_type in draw(st.lists(pieces, max_size=most)):
        spans.append(Span(position + gap, position + gap + length, entity_type))
        position += gap + length
    return spans, position + draw(st.integers(0, 3))
