"""The prompt for a language model, and the reading of its answers: the text again, with a tag around each entity."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from crossner_cli.data.files import open_lines
from crossner_cli.data.formats.spans import OVERLAPPING_ENTITY, WIDENED_ENTITY, drop_overlaps
from crossner_cli.data.formats.tagged_text import NESTED_TAG, parse_tags
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Span, to_spans, to_tags
from crossner_cli.data.text import cut_words
from crossner_cli.encoders.type_descriptions import describe_type
from crossner_cli.errors import BadLine, CrossNERError, suggest

Message = dict[str, str]
ALTERED, BROKEN = "as answers that change the text", "as answers with broken tags"
UNKNOWN_TYPE = "entity of an unknown type dropped"
OTHER_CASE = "type in another case accepted"
FREED = "text around an answer removed"
INSTRUCTION = (
    "You mark the named entities of a text. Write the text again, letter by letter, and put a tag around each entity."
    " Change nothing else: no letter, no mark, no order. Tags never stand inside each other. A text without entities"
    " stays as it is. Answer with the text alone.\n\nThe types of entities, and no others:\n"
)
REMINDER = (
    "Look at your answer again. Check each entity: is it one, is its type right, does it begin and end at the right"
    " word? Check that none is missing and that the text is unchanged. Answer with the whole text and its tags alone."
)
_TAG_NAME = re.compile(r"[^\W\d][\w.-]*")
_FENCE = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)
_QUOTES = frozenset("\"'`“”„«»‘’‚‹›「」")


@dataclass(frozen=True)
class Prompt:
    """The prompt of all sentences: the instruction with the types, and labelled sentences as a conversation."""

    messages: tuple[Message, ...]
    types: tuple[str, ...]
    shown_types: frozenset[str]

    def ask(self, text: str) -> list[Message]:
        """Return the messages that ask for the tags of a text."""
        return [*self.messages, _say("user", text)]

    def ask_again(self, text: str, answer: str) -> list[Message]:
        """Return the messages that show a first answer and ask to check it."""
        return [*self.ask(text), _say("assistant", answer), _say("user", REMINDER)]


def make_prompt(gold: Sequence[Sentence], types: Sequence[str], count: int, descriptions: Mapping[str, str]) -> Prompt:
    """Make a prompt from labelled sentences.

    Args:
        descriptions: The meanings of types; the others are described by the words of their names.

    Raises:
        CrossNERError: No sentence can be shown, or a type cannot be written as a tag.
    """
    for name in types:
        if set(name) & set("<>\"'"):
            raise CrossNERError(
                f"The type {name!r} cannot be written as a tag, because of its signs.",
                hint="Rename it in the data set, without the signs < > ' \".",
            )
    shots = choose_shots(gold, count)
    if not shots:
        raise CrossNERError(
            "The target has no labelled training sentences to show to the language model.",
            hint="Prepare the run with some: crossner prepare-data --target DATASET",
        )
    listed = "\n".join(
        f"{_open_tag(name)}…{_close_tag(name)}: {descriptions.get(name) or ' '.join(describe_type(name))}"
        for name in types
    )
    messages = [_say("system", INSTRUCTION + listed)]
    for sentence in shots:
        messages += [_say("user", " ".join(sentence.words)), _say("assistant", write_tags(sentence))]
    shown = frozenset(span.type for sentence in shots for span in to_spans(sentence.tags or ()))
    return Prompt(tuple(messages), tuple(types), shown)


def choose_shots(gold: Sequence[Sentence], count: int) -> list[Sentence]:
    """Choose sentences that show as many types as possible, then the first ones; they stay in order.

    Sentences with a sign of tags in their text are left out.
    """
    types = [frozenset(span.type for span in to_spans(sentence.tags or ())) for sentence in gold]
    free = [number for number, sentence in enumerate(gold) if not any("<" in word for word in sentence.words)]
    chosen: list[int] = []
    missing = set().union(*(types[number] for number in free))
    while missing and len(chosen) < count:
        best = max(free, key=lambda number: (len(missing & types[number]), -number))
        chosen.append(best)
        missing -= types[best]
    chosen += [number for number in free if number not in set(chosen)][: count - len(chosen)]
    return [gold[number] for number in sorted(chosen)]


def write_tags(sentence: Sentence) -> str:
    """Write a labelled sentence as a text with tags, as ``In <location>Paris</location> .``"""
    words = list(sentence.words)
    for start, end, kind in to_spans(sentence.tags or ()):
        words[start] = _open_tag(kind) + words[start]
        words[end - 1] += _close_tag(kind)
    return " ".join(words)


def _open_tag(kind: str) -> str:
    return f"<{kind}>" if _TAG_NAME.fullmatch(kind) else f'<entity type="{kind}">'


def _close_tag(kind: str) -> str:
    return f"</{kind}>" if _TAG_NAME.fullmatch(kind) else "</entity>"


def _say(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def read_answer(answer: str, text: str, types: Collection[str], repairs: Counter[str]) -> tuple[Sentence | None, str]:
    """Read the tags of an answer into BIO tags of the words of the text.

    The answer without its tags must be the text, except for white space; nothing is repaired. Text around an answer is
    removed.

    Args:
        types: The types that are known; entities of others are dropped.
        repairs: Counts what is dropped, removed, accepted in another case, or widened to a whole word.

    Returns:
        The sentence and nothing, or None and the reason why the answer is not usable: ``ALTERED`` or ``BROKEN``.
    """
    for part in _free(answer):
        try:
            plain, entities, nested = parse_tags(part)
        except BadLine:
            reason = BROKEN
            continue
        if "".join(plain.split()) == "".join(text.split()):
            break
        reason = ALTERED
    else:
        return None, reason
    words = cut_words(text)
    ends = [*accumulate(map(len, words))]  # in letters, without white space
    starts = [0, *ends[:-1]]
    letters = [0, *accumulate(not character.isspace() for character in plain)]
    spans: list[Span] = []
    found: Counter[str] = Counter({NESTED_TAG: nested, FREED: part != answer.strip()})
    for entity in entities:
        start, end = letters[entity.start], letters[entity.end]
        kind = _find_type(entity.type, types)
        if kind is None:
            found[UNKNOWN_TYPE] += 1
        elif start < end:
            first, last = bisect_right(ends, start), bisect_left(starts, end)
            spans.append(Span(first, last, kind))
            found[OTHER_CASE] += kind != entity.type
            found[WIDENED_ENTITY] += starts[first] < start or ends[last - 1] > end
    kept = drop_overlaps(spans, len(words))
    found[OVERLAPPING_ENTITY] = len(spans) - len(kept)
    repairs.update(+found)
    return Sentence(words, tuple(to_tags(kept, len(words)))), ""


def _free(answer: str) -> Iterator[str]:
    """Yield an answer, then the answer without a code fence, a first line that ends in a colon, and quotation marks."""
    yield (part := answer.strip())
    if fenced := _FENCE.search(part):
        yield (part := fenced[1].strip())
    first, _, rest = part.partition("\n")
    if first.rstrip().endswith(":"):
        yield (part := rest.strip())
    if part[:1] in _QUOTES and part[-1:] in _QUOTES:
        yield part[1:-1].strip()


def _find_type(name: str, types: Collection[str]) -> str | None:
    """Find the type of this name, else the only one that differs from it only in case."""
    alike = [name] if name in types else [each for each in types if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def read_descriptions(path: Path | None, types: Sequence[str]) -> dict[str, str]:
    """Read descriptions of types, one per line: ``type<TAB>description``. Blank lines are skipped.

    Raises:
        CrossNERError: A line is of another form, or names a type that the target lacks.
    """
    found: dict[str, str] = {}
    for number, line in open_lines(path) if path is not None else ():
        name, _, description = (part.strip() for part in line.partition("\t"))
        if not line.strip():
            continue
        if not name or not description:
            raise CrossNERError(
                f"{path}:{number}: expected 'type<TAB>description', got {line[:200]!r}.",
                hint="Put one tab between the type and what it means.",
            )
        if name not in types:
            raise CrossNERError(
                f"{path}:{number}: the target has no type {name!r}.",
                hint=f"{suggest(name, types)}Types: {', '.join(types)}.",
            )
        found[name] = description
    return found
