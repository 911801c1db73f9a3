"""Scores of a file of predicted tags against a gold file: columns or JSONL, each in its own tag scheme."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from crossner_cli.data.columns import Located
from crossner_cli.data.domains import read_labelled
from crossner_cli.data.files import Repairs
from crossner_cli.data.jsonl import JOINED_SENTENCE
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import AnyScheme, detect_scheme
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import Mode, Scores, other_mode, score


@dataclass(frozen=True)
class ScoredFiles:
    """Scores of one file against another; pairs are of gold and of predictions.

    Args:
        scores: Scores in the chosen mode.
        other: Scores in the other mode.
        words: Number of words.
        schemes: Detected tag schemes.
        reading: Repairs made while reading.
        sentences: Sentences with the tags of their file.
    """

    scores: Scores
    other: Scores
    words: int
    schemes: tuple[AnyScheme, AnyScheme]
    reading: tuple[Repairs, Repairs]
    sentences: tuple[list[Sentence], list[Sentence]]


def score_files(gold: Path, predictions: Path, *, mode: Mode) -> ScoredFiles:
    """Score a file of predictions.

    Each file is read in its own scheme. Predictions without ``E-`` and ``S-`` are taken to be in the scheme of a BIO
    gold file, so that a file of few or broken tags is not mistaken for IOB1.

    Raises:
        CrossNERError: A file cannot be read or holds no sentence, or the two differ in sentences or words.
    """
    reading = (Repairs(), Repairs())
    golds, others = _read(gold, reading[0]), _read(predictions, reading[1])
    if reading[0].counts[JOINED_SENTENCE]:
        others = _join_as_gold(golds, others)
    _check_same_words(golds, others, gold, predictions)
    gold_tags, predicted_tags = ([located.sentence.tags or () for located in side] for side in (golds, others))
    gold_scheme, scheme = detect_scheme(gold_tags), detect_scheme(predicted_tags)
    if gold_scheme == "bio" and scheme == "iob1":
        scheme = "bio"
    scores, other = (
        score(gold_tags, predicted_tags, mode=each, scheme=scheme, gold_scheme=gold_scheme)
        for each in (mode, other_mode(mode))
    )
    return ScoredFiles(
        scores,
        other,
        sum(map(len, gold_tags)),
        (gold_scheme, scheme),
        reading,
        ([located.sentence for located in golds], [located.sentence for located in others]),
    )


def _read(path: Path, repairs: Repairs) -> list[Located]:
    found = list(read_labelled(path, repairs))
    if not found:
        raise CrossNERError(f"{path} holds no sentence.", hint="Give a file of words with tags, in columns or JSONL.")
    return found


def _join_as_gold(golds: list[Located], others: list[Located]) -> list[Located]:
    """Join sentences of predictions that are one sentence in gold.

    Reading gold joins sentences of a line if an entity crosses their border, which a tagger cannot know.
    """
    joined, rest = [], deque(others)
    for one in golds:
        pieces: list[Located] = []
        while rest and sum(len(each.lines) for each in pieces) < len(one.lines):
            if pieces and rest[0].lines[0] != pieces[0].lines[0]:
                break
            pieces.append(rest.popleft())
        if pieces:
            joined.append(_join(pieces))
    return [*joined, *rest]


def _join(pieces: list[Located]) -> Located:
    """Join sentences into one; no entity crosses their borders."""
    tags: list[str] = []
    for each in pieces:
        for place, tag in enumerate(each.sentence.tags or ()):
            begins = place == 0 and tags and tag.startswith("I-") and tags[-1].partition("-")[2] == tag[2:]
            tags.append(f"B-{tag[2:]}" if begins else tag)
    words = tuple(word for each in pieces for word in each.sentence.words)
    return Located(Sentence(words, tuple(tags)), [line for each in pieces for line in each.lines])


def _check_same_words(golds: list[Located], others: list[Located], gold: Path, predictions: Path) -> None:
    """Refuse files of different words; name the first difference."""
    is_jsonl = predictions.suffix.lower() == ".jsonl"
    for number, (one, other) in enumerate(zip(golds, others, strict=False), start=1):
        pairs = zip(one.sentence.words, other.sentence.words, one.lines, other.lines, strict=False)
        for word, word_there, line, line_there in pairs:
            if word != word_there:
                raise CrossNERError(
                    f"{predictions}:{line_there}: found the word {word_there!r}, {gold}:{line} has {word!r} there.",
                    hint="The two files must hold the same words in the same sentences and order.",
                )
        lengths = len(one.sentence.words), len(other.sentence.words)
        if lengths[0] != lengths[1]:
            raise CrossNERError(
                f"{predictions}:{other.lines[0]}: sentence {number} has {lengths[1]} words, and {lengths[0]} in "
                f"{gold}:{one.lines[0]}.",
                hint="Nothing may have been cut, and sentences must end where those of the other file do"
                f"{'' if is_jsonl else ': check the empty lines'}.",
            )
    if len(golds) != len(others):
        shorter, longer = (golds, others) if len(golds) < len(others) else (others, golds)
        path = predictions if longer is others else gold
        raise CrossNERError(
            f"{path}:{longer[len(shorter)].lines[0]}: sentence {len(shorter) + 1} is in this file alone "
            f"({gold}: {len(golds)} sentences, {predictions}: {len(others)}).",
            hint="The two files must hold the same sentences.",
        )
