"""Texts with entities at places in them, as annotation tools export them, made into sentences of words with tags.

Words and sentences are found as in ``predict``: a tagger is trained on the words that it meets later.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from crossner_cli.data.files import Repairs, is_writable
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TYPE_HINT, Span, is_type, to_tags
from crossner_cli.data.text import find_words, segment
from crossner_cli.errors import BadLine

WIDENED_ENTITY = "entity that begins or ends inside a word given the whole word"
OVERLAPPING_ENTITY = "entity that shares a word with a longer one dropped"
BLANK_ENTITY = "entity of white space dropped"
JOINED_SENTENCE = "sentence end inside an entity taken out"
EMPTY_SENTENCE = "sentence without words dropped"
OTHER_TEXT = "entity whose text differs from its place in white space, escapes or parts of words, read by its place"
ENTITIES_HINT = (
    'An entity is [start, end, type] or {"start": 3, "end": 8, "type": "location"}: characters of the text, counted'
    " from 0, end exclusive; a character beyond U+FFFF counts as one."
)
MOST_CUT, FEWEST_ENTITIES = 0.5, 2  # share and number of cut entities from which a warning is given


@dataclass(frozen=True)
class Located:
    """A sentence as in the file, the line of each word, and the number of its task in the tool that wrote it."""

    sentence: Sentence
    lines: Sequence[int]
    task: int | str | None = None

    @property
    def number(self) -> int:
        """Return the line or record that it begins in."""
        return self.lines[0]


@dataclass(frozen=True)
class Entity:
    """An entity as in a file: first character, the one after the last, type, and its text if it is given."""

    start: int
    end: int
    type: str
    text: str | None = None

    def __str__(self) -> str:
        text = "" if self.text is None else f", {self.text!r}"
        return f"[{self.start}, {self.end}, {self.type!r}{text}]"


@dataclass(frozen=True)
class SpannedText:
    """A text with entities, and its place.

    Args:
        text: The text.
        entities: Its entities.
        number: The line or record that it stands in.
        place: That place with the name of the file.
        task: Its number in the tool that wrote it, the same in several exports.
    """

    text: str
    entities: Sequence[Entity]
    number: int
    place: str
    task: int | str | None = None


# A reader gives whole sentences, or texts that are cut into sentences when all of them are known.
Item = Located | SpannedText


def check_strings(values: Sequence[Any], key: str, hint: str) -> None:
    """Refuse values of a key that are not strings, or that cannot be written to a file.

    Raises:
        BadLine: There is one.
    """
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise BadLine(f"{key} holds a value of type {type(wrong[0]).__name__}, expected strings.", hint=hint)
    if not is_writable("".join(values)):
        way_out = "Write whole characters, as \\ud83d\\ude00 or the character itself."
        raise BadLine(f"{key} holds half a surrogate pair, which is not a character.", hint=way_out)


def abbreviate(value: Any) -> str:
    """Write a value for a message, cut if it is long."""
    text = repr(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:80]} …"


def check_type(name: Any) -> str:
    """Return the name of an entity type; refuse what cannot be one."""
    if isinstance(name, int | float) and not isinstance(name, bool):
        raise BadLine(
            f"found the type {name}, a number: the file does not say which type it stands for.",
            hint="Export again with the names of the labels.",
        )
    if not isinstance(name, str) or not is_type(name):
        raise BadLine(f"found the type {abbreviate(name)}.", hint=TYPE_HINT)
    return name


def to_sentences(
    items: Sequence[Item], name: str, repairs: Repairs, *, counts_utf16: bool = False
) -> Iterator[Located]:
    """Cut texts into sentences; sentences pass through.

    Args:
        items: Sentences and texts of a file.
        name: The file's name, for messages.
        repairs: Counts repairs, and warns of offsets that cut words.
        counts_utf16: True if offsets count UTF-16 code units, not characters.

    Raises:
        CrossNERError: An entity is not in its text.
    """
    if not counts_utf16:
        _warn_of_cut_entities([each for each in items if isinstance(each, SpannedText)], name, repairs)
    for item in items:
        if isinstance(item, Located):
            yield item
            continue
        try:
            find = _character_of(item.text, counts_utf16=counts_utf16)
            places = [_place(each, item, find, repairs) for each in item.entities]
        except BadLine as problem:
            repairs.refuse(problem, item.place)
            continue
        sentences, counts = tag_text(item.text, places)
        for kind, times in counts.items():
            repairs.add(kind, item.place, times)
        for sentence in sentences:
            yield Located(replace(sentence, place=item.place), [item.number] * len(sentence.words), item.task)


def _place(entity: Entity, item: SpannedText, find: Callable[[int], int], repairs: Repairs) -> tuple[int, int, str]:
    """Return the characters of an entity, which are checked against its own text."""
    start, end, text = find(entity.start), find(entity.end), item.text
    if not 0 <= start < end:
        raise BadLine(f"found the entity {entity} in a text of {len(text)} characters.", hint=ENTITIES_HINT)
    if entity.text is not None and entity.text != text[start:end]:
        if not _is_same(entity.text, text[start:end]):
            problem = f"found the entity {entity}, which is {abbreviate(text[start:end])} in the text."
            raise BadLine(problem, hint=ENTITIES_HINT)
        repairs.add(OTHER_TEXT, item.place)
    return start, end, entity.type


def _is_same(given: str, placed: str) -> bool:
    """Return whether a text is that of its place, except for white space and the rest of the words at its ends."""
    before, found, after = placed.partition(given)
    return _plain(given) == _plain(placed) or (bool(found) and not any(map(str.isspace, before + after)))


def _plain(text: str) -> str:
    """Remove white space, and escapes of it, from a text."""
    for escape in ("\\n", "\\r", "\\t"):
        text = text.replace(escape, "")
    return "".join(text.split())


def _character_of(text: str, *, counts_utf16: bool) -> Callable[[int], int]:
    """Make a function that returns the character at an offset of a text, its end included; -1 without one."""
    places: Sequence[int] = range(len(text) + 1)
    if counts_utf16 and not text.isascii():
        units = [[place, -1] if character > "\uffff" else [place] for place, character in enumerate(text)]
        places = [*chain.from_iterable(units), len(text)]
    return lambda offset: places[offset] if 0 <= offset < len(places) else -1


def _warn_of_cut_entities(texts: Sequence[SpannedText], name: str, repairs: Repairs) -> None:
    """Warn if most entities begin or end inside words, in all texts or in those that are not only ASCII."""
    for considered in (texts, [each for each in texts if not each.text.isascii()]):
        entities = sum(len(each.entities) for each in considered)
        cut = sum(map(_count_cut, considered))
        if entities >= FEWEST_ENTITIES and cut > MOST_CUT * entities:
            repairs.warnings.append(
                f"{name}: {cut} of {entities} entities begin or end inside words. An entity gets whole words, the"
                " particles of Korean with them: label whole words. Or do offsets count another text, or bytes, or"
                " UTF-16 code units?"
            )
            return


def _count_cut(text: SpannedText) -> int:
    """Count the entities of a text that begin or end inside a word, or have another text than their place."""
    words = find_words(text.text) if text.entities else []
    inside = {place for word in words for place in range(word.start + 1, word.end)}
    return sum(
        each.start in inside
        or each.end in inside
        or (each.text is not None and not _is_same(each.text, text.text[each.start : each.end]))
        for each in text.entities
    )


def tag_text(text: str, entities: Sequence[tuple[int, int, str]]) -> tuple[list[Sentence], Counter[str]]:
    """Cut a text into sentences of words and tag those in BIO that its entities touch; count what is repaired.

    An entity, given as its first character, the one after the last, and its type, is widened to whole words; of two
    that share a word the longer one stays, or the first of equally long ones; the end of a sentence inside an entity is
    removed.
    """
    sentences = segment(text)
    words = [word for sentence in sentences for word in sentence]
    starts, ends = [word.start for word in words], [word.end for word in words]
    spans, widened = [], set()
    for start, end, entity_type in entities:
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if first >= last:
            continue
        span = Span(first, last, entity_type)
        spans.append(span)
        if starts[first] < start or ends[last - 1] > end:
            widened.add(span)
    kept = drop_overlaps(spans, len(words))
    borders = [0]
    for sentence in sentences:
        borders.append(borders[-1] + len(sentence))
    inside = {border for span in kept for border in range(span.start + 1, span.end)}
    whole = [border for border in borders if border not in inside]
    tags = to_tags(kept, len(words))
    counts = {
        WIDENED_ENTITY: len(widened.intersection(kept)),
        OVERLAPPING_ENTITY: len(spans) - len(kept),
        BLANK_ENTITY: len(entities) - len(spans),
        JOINED_SENTENCE: len(borders) - len(whole),
        EMPTY_SENTENCE: int(not words),
    }
    tagged = [Sentence(tuple(word.text for word in words[a:b]), tuple(tags[a:b])) for a, b in pairwise(whole)]
    return tagged, +Counter(counts)


def drop_overlaps(spans: Sequence[Span], words: int) -> list[Span]:
    """Return the longest spans, no two of which share a word, in order."""
    taken, kept = bytearray(words), []
    for span in sorted(spans, key=lambda each: each.start - each.end):  # of equal length: in their order
        if not (taken[span.start] or taken[span.end - 1]):  # else it begins or ends in a longer one
            taken[span.start : span.end] = b"\x01" * (span.end - span.start)
            kept.append(span)
    return sorted(kept)


def first_of(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Return the value of the first key that an object has; None without one."""
    return next((record[key] for key in keys if key in record), None)
