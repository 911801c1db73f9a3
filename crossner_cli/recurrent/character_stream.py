"""Sentences as two streams of character numbers on disk, one to read forward and one backward, for language models.

A sentence is written as ``StringEncoder`` reads it: a line feed, its words joined by spaces, a space; in the backward
stream the characters between the two are reversed. So both streams have their sentences at the same places.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossner_cli.data.files import open_lines
from crossner_cli.data.text import find_words
from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent.string_embeddings import BEFORE, BETWEEN, SIDES
from crossner_cli.recurrent.word_reader import LONGEST_WORD
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import flush_folder, write_json

TRAIN, HELD_OUT, RECORD = "train", "held-out", "character-stream.json"
UNKNOWN = "<unk>"
# The most frequent characters that occur this often are numbered.
FEWEST, MOST_CHARACTERS = 3, 5000
SENTENCES_OF_CHUNK = 2000

Words = Sequence[str]
Texts = Mapping[str, Iterable[Words]]


@dataclass(frozen=True)
class LinesOfWords:
    """The words of a text file, line by line, without blank lines; may be iterated again."""

    path: Path

    def __iter__(self) -> Iterator[list[str]]:
        for _, line in open_lines(self.path):
            words = [word.text for word in find_words(line)]
            if words:
                yield words


def write_character_stream(texts: Texts, folder: Path, *, held_out: float, window: int) -> Work[dict[str, Any]]:
    """Number the characters of texts, one after the other, and write both directions of two sides, in two passes.

    A sentence is held out by a hash of its words, so equal sentences are on the same side. Nothing is held out if a
    side would be shorter than a window.

    Args:
        texts: Sentences by name, read twice.
        folder: Folder to write; made if needed. The files of a finished call are used again.
        window: Characters that the held-out side has at least.

    Returns:
        ``characters`` (the numbered ones, in order), ``sentences`` and ``length`` (in characters) by text,
        ``held_out_length``, ``held_out_share``, ``unknown_characters`` and ``shortened_words`` (cut after 50
        characters, as taggers do).

    Raises:
        CrossNERError: The texts have no words.
    """
    finished = folder / RECORD
    if finished.is_file():
        record: dict[str, Any] = json.loads(finished.read_text(encoding="utf-8"))
        return record
    folder.mkdir(parents=True, exist_ok=True)
    counted = yield from _count(texts, held_out)
    if not counted.characters:
        raise CrossNERError("There are no words to train on.", hint="Prepare the data with other raw text.")
    is_enough = window <= counted.held_out <= sum(counted.lengths.values()) - window
    share = held_out if is_enough else 0.0
    characters = counted.alphabet()
    record = {
        "characters": characters,
        "sentences": counted.sentences,
        "length": counted.lengths,
        "held_out_length": counted.held_out if is_enough else 0,
        "held_out_share": share,
        "unknown_characters": counted.unknown(characters),
        "shortened_words": counted.shortened_words,
    }
    yield from _write(texts, folder, characters, share, sum(counted.sentences.values()))
    flush_folder(folder)
    write_json(finished, record)
    return record


def join_words(words: Words) -> str:
    """Join the words of a sentence into its characters, without the first and the last one."""
    return BETWEEN.join(word[:LONGEST_WORD] for word in words)


@dataclass
class _Counts:
    """The results of the first pass; lengths are in characters."""

    characters: Counter[str]
    sentences: dict[str, int]
    lengths: dict[str, int]
    held_out: int = 0
    shortened_words: int = 0

    def alphabet(self) -> list[str]:
        """The numbered characters; the first stands for all others."""
        frequent = [
            character
            for character, count in self.characters.most_common(MOST_CHARACTERS)
            if count >= FEWEST and character not in (BEFORE, BETWEEN)
        ]
        return [UNKNOWN, BEFORE, BETWEEN, *frequent]

    def unknown(self, alphabet: Iterable[str]) -> int:
        """The number of characters that are not numbered."""
        known = set(alphabet)
        return sum(count for character, count in self.characters.items() if character not in known)


def _hash(text: str) -> float:
    """Return a number in [0, 1) that depends only on the text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") / 2**64


def _count(texts: Texts, held_out: float) -> Work[_Counts]:
    counted = _Counts(Counter(), dict.fromkeys(texts, 0), dict.fromkeys(texts, 0))
    for name, sentences in texts.items():
        for words in sentences:
            text = join_words(words)
            length, place = len(BEFORE + text + BETWEEN), _hash(text)
            counted.characters.update(text)
            counted.sentences[name] += 1
            counted.lengths[name] += length
            counted.shortened_words += sum(len(word) > LONGEST_WORD for word in words)
            counted.held_out += length if place < held_out else 0
            if counted.sentences[name] % SENTENCES_OF_CHUNK == 0:
                yield Progress("count characters", sum(counted.sentences.values()), None, "sentences")
    return counted


def _write(texts: Texts, folder: Path, characters: Sequence[str], share: float, total: int) -> Work[None]:
    """Write the streams of both directions, train and held-out."""
    numbers = {character: number for number, character in enumerate(characters)}
    done = 0
    paths = {(side, held): _path(folder, held, side) for side in SIDES for held in (TRAIN, HELD_OUT)}
    streams = {key: path.open("wb") for key, path in paths.items()}
    try:
        for words in (words for sentences in texts.values() for words in sentences):
            text = join_words(words)
            held = HELD_OUT if _hash(text) < share else TRAIN
            for side, read in zip(SIDES, (text, text[::-1]), strict=True):
                ids = [numbers.get(character, 0) for character in BEFORE + read + BETWEEN]
                streams[side, held].write(np.asarray(ids, "<u2").tobytes())
            done += 1
            if done % SENTENCES_OF_CHUNK == 0:
                yield Progress("number characters", done, total, "sentences")
        for stream in streams.values():
            stream.flush()
            os.fsync(stream.fileno())
    finally:
        for stream in streams.values():
            stream.close()


def _path(folder: Path, held: str, side: str) -> Path:
    return folder / f"{held}-{side}.bin"


@dataclass
class CharacterBatch:
    """A window of each row of the text, both directions.

    Args:
        read: Numbers of characters, (2, B, T).
        following: The character after each, (2, B, T).
        begins: True for the first window of an epoch.
        words: Characters to predict in one direction.
    """

    read: Tensor
    following: Tensor
    begins: bool
    words: int

    def to(self, device: torch.device) -> CharacterBatch:
        """The same batch on another device."""
        return CharacterBatch(self.read.to(device), self.following.to(device), self.begins, self.words)


class CharacterStream:
    """A side of the text as rows that are read in parallel, window after window, so that states carry over.

    An epoch reads every row to its end; the beginnings of rows depend on seed and epoch.

    Args:
        held: ``TRAIN`` or ``HELD_OUT``.
        rows: Number of rows; fewer if a row would be shorter than a window.
        window: Characters of a window, T; the last one of a row may be shorter.
        seed: Seed of the beginnings; None always begins at 0.
    """

    def __init__(self, folder: Path, held: str, rows: int, window: int, seed: int | None) -> None:
        paths = [_path(folder, held, side) for side in SIDES]
        self.length = paths[0].stat().st_size // 2
        self._sides = [np.memmap(path, "<u2", "r") for path in paths] if self.length else []
        self.window, self.seed = window, seed
        self.rows = max(1, min(rows, (self.length - 1) // window))
        self.row_length = (self.length - 1) // self.rows if self.length > 1 else 0

    def close(self) -> None:
        """Close the files: some network file systems cannot delete mapped files."""
        self._sides = []

    def epoch(self, number: int) -> list[list[int]]:
        """Return the numbers of the windows, one per update."""
        return [[place] for place in range(-(-self.row_length // self.window))]

    def batch(self, items: Sequence[int], epoch: int) -> CharacterBatch:
        """Read one window of each row; after its end, the text continues at its beginning."""
        (place,) = items
        start = 0 if self.seed is None else int(np.random.default_rng([self.seed, epoch]).integers(self.length))
        first = start + self.row_length * np.arange(self.rows)[:, None] + place * self.window
        width = min(self.window, self.row_length - place * self.window)
        places = (first + np.arange(width + 1)) % self.length
        ids = torch.from_numpy(np.stack([side[places] for side in self._sides]).astype(np.int64))
        return CharacterBatch(ids[..., :-1], ids[..., 1:], place == 0, self.rows * width)
