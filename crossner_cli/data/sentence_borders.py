"""Where the sentences of an object end that tells: what ``predict`` wrote is read again as it was tagged."""

from __future__ import annotations

from typing import Any

SENTENCES = "sentences"


def sentence_borders(record: dict[str, Any], words: int) -> list[tuple[int, int]]:
    """First word and the word after the last of each sentence of an object.

    Args:
        record: With ``sentences`` as pairs of those numbers, which hold every word once and in order; whatever else
            stands there is another's, and passed over.
        words: How many words it has.

    Returns:
        One pair a sentence; of an object that does not tell, all words are one. None without words.
    """
    pairs, end = record.get(SENTENCES), 0
    whole = [(0, words)] if words else []
    if not isinstance(pairs, list):
        return whole
    for pair in pairs:
        if not isinstance(pair, list) or [type(number) for number in pair] != [int, int]:
            return whole
        if not end == pair[0] < pair[1]:
            return whole
        end = pair[1]
    return [(first, last) for first, last in pairs] if end == words else whole
