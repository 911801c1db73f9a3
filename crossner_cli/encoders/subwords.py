"""Sentences as padded batches of subwords; long sentences are read in overlapping windows, and nothing is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.word_borders import find_differently_cut
from crossner_cli.encoders.word_shapes import find_shape
from crossner_cli.errors import CrossNERError

Ids = NDArray[np.int64]
MOST_PER_BYTE = 16  # subwords of a byte; normalisation makes at most 6 letters of one
MOST_WORDS = 500_000  # distinct words remembered
UNLABELLED = -1  # tag id of a word of raw text outside the dictionary


@dataclass(frozen=True)
class EncodedSentence:
    """One sentence as the encoder reads it.

    Args:
        windows: Subword ids of each window without special ids; one window unless the sentence is long.
        places: For each word, (W, 2): the window it is read from and the position of its first subword there.
        tags: Tag ids, (W,), or None.
        words: Its words, for encoders that read more than subwords.
        frozen_states: Vectors of the words by frozen models, (W, D); None if they are not known.
        soft: A teacher's probability of each tag, (W, K); None without any.
        shapes: The shape of the word of each subword, a window as in ``windows``; empty if they are not read.
    """

    windows: tuple[Ids, ...]
    places: Ids
    tags: Ids | None
    domain: str
    words: tuple[str, ...] = ()
    frozen_states: Tensor | None = None
    soft: NDArray[np.float32] | None = None
    shapes: tuple[Ids, ...] = ()

    @property
    def subwords(self) -> int:
        """Subwords read, all windows together, special ones included."""
        return sum(len(window) + 2 for window in self.windows)

    @property
    def longest_window(self) -> int:
        """Subwords of the longest window, special ones included."""
        return max(len(window) for window in self.windows) + 2


@dataclass
class Batch:
    """B sentences, padded. Long sentences take several of the R rows that the encoder reads.

    Args:
        input_ids: Subwords, (R, T).
        attention_mask: 1 at subwords, (R, T); None without padding.
        word_places: Index of each word's first subword in the flattened (R*T) positions, (B, W); 0 at padding.
        word_mask: True at words, (B, W).
        tags: Tag ids, (B, W), 0 at padding; None for unlabelled words.
        word_ids: Numbers of the words, (B, W), 0 for unknown ones; None for encoders without static vectors.
        characters: Numbers of the characters or n-grams of each word, (B, W, C); None for encoders that read none.
        character_mask: Where a character is, (B, W, C).
        strings: Numbers of the characters of whole sentences, forward and backward, (2, B, S); None if none are read.
        string_places: Where each word is read from, forward and backward, (2, B, W).
        is_raw: True for raw text; its tags are None, or ``UNLABELLED`` for words outside the dictionary.
        frozen_states: Vectors of the words by frozen models, (B, W, D); None unless known for all sentences.
        most_subwords: Subwords that an encoder reads at once without a gradient; None for all.
        soft: The probability of each tag that is to be learnt, (B, W, K): a teacher's where a sentence has them, else 1
            for its tag; None if no sentence has any.
        shapes: The shape of the word of each subword, (R, T), 0 at padding; None if they are not read.
    """

    input_ids: Tensor
    attention_mask: Tensor | None
    word_places: Tensor
    word_mask: Tensor
    tags: Tensor | None
    domains: tuple[str, ...]
    words: int
    word_ids: Tensor | None = None
    characters: Tensor | None = None
    character_mask: Tensor | None = None
    strings: Tensor | None = None
    string_places: Tensor | None = None
    is_raw: bool = False
    frozen_states: Tensor | None = None
    most_subwords: int | None = None
    soft: Tensor | None = None
    shapes: Tensor | None = None

    @property
    def domain(self) -> str:
        """The only domain of the batch.

        Raises:
            ValueError: The batch mixes domains.
        """
        if len(set(self.domains)) != 1:
            raise ValueError(f"a batch of one domain was expected, this one mixes {sorted(set(self.domains))}")
        return self.domains[0]

    def __len__(self) -> int:
        return len(self.domains)

    @property
    def slices(self) -> list[tuple[int, int]]:
        """The rows that are read at once: first row and the row after the last."""
        rows, width = self.input_ids.shape
        if self.most_subwords is None or torch.is_grad_enabled():
            return [(0, rows)]
        step = max(1, self.most_subwords // width)
        return [(first, min(first + step, rows)) for first in range(0, rows, step)]

    def to(self, device: torch.device) -> Batch:
        """Return the same batch on another device."""
        moved = {
            name: value.to(device, non_blocking=True) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)  # type: ignore[arg-type]


def read_slices(batch: Batch, read: Callable[[int, int, Tensor], Tensor]) -> Tensor:
    """One vector per word, (B, W, H), read slice by slice.

    Args:
        batch: Its ``slices`` are read one after another.
        read: Returns vectors, (N, H), for the first row of a slice, the row after its last one, and N of its flattened
            positions, (N,).
    """
    slices, places, width = batch.slices, batch.word_places.flatten(), batch.input_ids.shape[1]
    if len(slices) == 1:
        return read(*slices[0], places).view(*batch.word_places.shape, -1)
    words, found = [], []
    for first, end in slices:
        words.append(((places >= first * width) & (places < end * width)).nonzero()[:, 0])
        found.append(read(first, end, places[words[-1]] - first * width))
    return torch.cat(found)[torch.cat(words).argsort()].view(*batch.word_places.shape, -1)


class SubwordReader:
    """Cuts words into subwords, each word alone and each distinct word once.

    Args:
        max_length: Positions of the encoder, special subwords included.

    Attributes:
        reads_shapes: True if batches hold the shapes of words.
        unreadable_words: Distinct words without a subword, read as an unknown one.
        shortened_words: Distinct words longer than a window, whose beginning is read.
        unknown_words: Always 0: every word is read by its subwords.
        differently_cut: Words that the tokenizer cuts differently inside a text; empty for encoders in wide use.

    Raises:
        CrossNERError: The tokenizer marks no start, end or padding, a window has no room for a word, or (in reading)
            the tokenizer makes far more of a word than it holds.
    """

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        self.first_id = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        self.last_id = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        self.pad_id = tokenizer.pad_token_id
        if self.first_id is None or self.last_id is None or self.pad_id is None:
            raise CrossNERError(
                "The encoder's tokenizer lacks a start, end or padding token.",
                hint="Use a bidirectional encoder such as BERT, RoBERTa, DeBERTa or minilm.",
            )
        if self.room < 1:
            raise CrossNERError(
                f"The encoder reads {max_length} subwords at once: no word fits between start and end.",
                hint="Check max_position_embeddings in config.json and model_max_length in tokenizer_config.json.",
            )
        self.reads_shapes = False
        self.unreadable_words = 0
        self.shortened_words = 0
        self.unknown_words = 0
        self.differently_cut = find_differently_cut(tokenizer)
        self._subwords: dict[str, list[int]] = {}

    @property
    def room(self) -> int:
        """Subwords of one window, special ones not included."""
        return self.max_length - 2

    def _cut(self, words: list[str]) -> list[list[int]]:
        """Cut words into the ids of their subwords, each word by itself."""
        cutter = self.tokenizer.backend_tokenizer  # the method above this one takes twice as long
        cutter.no_truncation()
        cutter.no_padding()
        rows = cutter.encode_batch_fast([[word] for word in words], is_pretokenized=True, add_special_tokens=False)
        return [row.ids for row in rows]

    def _learn(self, words: list[str]) -> None:
        """Cut all words that are new."""
        for word, ids in zip(words, self._cut(words), strict=True):
            if not ids:  # as of control characters: the encoder still gets one position for the word
                self.unreadable_words += 1
                ids = [self.tokenizer.unk_token_id if self.tokenizer.unk_token_id is not None else self.pad_id]
            if len(ids) > self.room:
                if len(ids) > MOST_PER_BYTE * len(word.encode("utf-8", "surrogatepass")):
                    raise CrossNERError(
                        f"The tokenizer cuts the word {word!r} into {len(ids):,} subwords.",
                        hint="Put the tokenizer that belongs to the model into its folder.",
                    )
                self.shortened_words += 1
                ids = ids[: self.room]
            self._subwords[word] = ids

    def count_subwords(self, sentences: Sequence[Sentence]) -> float:
        """Return the mean number of subwords of a word."""
        words = [word for each in sentences for word in each.words]
        return sum(map(len, self._cut(words))) / max(1, len(words))

    def encode(self, sentences: Sequence[Sentence], tag_set: TagSet | None = None) -> list[EncodedSentence]:
        """Encode sentences, with their tags if ``tag_set`` is given."""
        if len(self._subwords) > MOST_WORDS:
            self._subwords.clear()  # a stream of any length is read in constant memory
        new = dict.fromkeys(word for sentence in sentences for word in sentence.words if word not in self._subwords)
        if new:
            self._learn(list(new))
        return [self._encode(sentence, tag_set) for sentence in sentences]

    def _encode(self, sentence: Sentence, tag_set: TagSet | None) -> EncodedSentence:
        pieces = [self._subwords[word] for word in sentence.words]
        lengths = np.fromiter((len(ids) for ids in pieces), np.int64, len(pieces))
        flat = np.fromiter((number for ids in pieces for number in ids), np.int64, int(lengths.sum()))
        starts = np.cumsum(lengths) - lengths
        tags, soft = number_tags(sentence, tag_set), number_soft(sentence, tag_set)
        if len(flat) <= self.room:
            places = np.stack([np.zeros_like(starts), starts + 1], axis=1)
            windows: tuple[Ids, ...] = (flat,)
        else:
            windows, places = cut_windows(flat, starts, self.room)
        encoded = EncodedSentence(windows, places, tags, sentence.domain, soft=soft)
        if not self.reads_shapes:
            return encoded
        shapes = np.repeat(np.fromiter(map(find_shape, sentence.words), np.int64, len(lengths)), lengths)
        cut = (shapes,) if len(windows) == 1 else cut_windows(shapes, starts, self.room)[0]
        return replace(encoded, shapes=cut)

    def collate(self, sentences: Sequence[EncodedSentence]) -> Batch:
        """Pad sentences into one batch."""
        batch = pad_words(sentences)
        lengths = np.array([len(window) + 2 for sentence in sentences for window in sentence.windows])
        width = int(lengths.max())
        input_ids = np.full((len(lengths), width), self.pad_id, np.int64)
        shapes = np.zeros_like(input_ids)
        places = np.zeros(tuple(batch.word_mask.shape), np.int64)
        row = 0
        for number, sentence in enumerate(sentences):
            places[number, : len(sentence.places)] = (row + sentence.places[:, 0]) * width + sentence.places[:, 1]
            for number_of_window, window in enumerate(sentence.windows):
                end = len(window) + 1
                input_ids[row, 0], input_ids[row, 1:end], input_ids[row, end] = self.first_id, window, self.last_id
                if self.reads_shapes:
                    shapes[row, 1:end] = sentence.shapes[number_of_window]
                row += 1
        batch.shapes = torch.from_numpy(shapes) if self.reads_shapes else None
        batch.input_ids, batch.word_places = torch.from_numpy(input_ids), torch.from_numpy(places)
        batch.soft = _pad_soft(sentences, batch.word_mask.shape[1])
        if (lengths != lengths[0]).any():
            batch.attention_mask = torch.from_numpy((np.arange(width) < lengths[:, None]).astype(np.int64))
        return batch


def number_tags(sentence: Sentence, tag_set: TagSet | None) -> Ids | None:
    """Number the tags of a sentence, (W,); None without tags or tag set."""
    if tag_set is None or sentence.tags is None:
        return None
    return np.asarray(tag_set.to_ids(sentence.tags), np.int64)


def number_soft(sentence: Sentence, tag_set: TagSet | None) -> NDArray[np.float32] | None:
    """Return a teacher's probability of each tag of the words of a sentence, (W, K); None without any.

    Tags that the set lacks are left out, and the rest sums to 1; a word without a rest has its tag alone.
    """
    if tag_set is None or sentence.soft is None or sentence.tags is None:
        return None
    numbers = {name: number for number, name in enumerate(tag_set.tags)}
    soft = np.zeros((len(sentence.words), len(numbers)), np.float32)
    for row, shares in zip(soft, sentence.soft, strict=True):
        for name, share in shares.items():
            if name in numbers:
                row[numbers[name]] = share
    empty = soft.sum(1) == 0
    soft[empty, np.asarray(tag_set.to_ids(sentence.tags))[empty]] = 1
    normalised: NDArray[np.float32] = soft / soft.sum(1, keepdims=True)
    return normalised


def _pad_soft(sentences: Sequence[EncodedSentence], width: int) -> Tensor | None:
    known = [sentence.soft for sentence in sentences if sentence.soft is not None]
    if not known:
        return None
    soft = np.zeros((len(sentences), width, known[0].shape[1]), np.float32)
    for rows, sentence in zip(soft, sentences, strict=True):
        words = len(sentence.places)
        if sentence.soft is not None:
            rows[:words] = sentence.soft
        elif sentence.tags is not None:
            rows[np.arange(words), sentence.tags] = 1
    return torch.from_numpy(soft)


def pad_words(sentences: Sequence[EncodedSentence]) -> Batch:
    """Make a batch of words and tags without subwords: one padding id per sentence stands for them."""
    shape = (len(sentences), max(len(sentence.places) for sentence in sentences))
    mask, tags = np.zeros(shape, bool), np.zeros(shape, np.int64)
    for row, sentence in enumerate(sentences):
        words = len(sentence.places)
        mask[row, :words] = True
        if sentence.tags is not None:
            tags[row, :words] = sentence.tags
    has_tags = all(sentence.tags is not None for sentence in sentences)
    return Batch(
        input_ids=torch.zeros(len(sentences), 1, dtype=torch.long),
        attention_mask=None,
        word_places=torch.zeros(shape, dtype=torch.long),
        word_mask=torch.from_numpy(mask),
        tags=torch.from_numpy(tags) if has_tags else None,
        domains=tuple(sentence.domain for sentence in sentences),
        words=int(mask.sum()),
    )


def cut_windows(flat: Ids, starts: Ids, room: int) -> tuple[tuple[Ids, ...], Ids]:
    """Cut a long sentence into overlapping windows at word borders.

    Neighbours share about half a window, and each word is read in the window whose border is farthest away.

    Args:
        flat: Subwords of the sentence, (T,).
        starts: First subword of each word, (W,).
        room: Subwords a window holds; no word is longer.

    Returns:
        The windows, and for each word, (W, 2), its window and its position there, counted after the start token.
    """
    ends = np.append(starts[1:], len(flat))
    windows, borders, first = [], [], 0
    while True:
        # The last word whose end still fits; a single word always does.
        last = int(np.searchsorted(ends, starts[first] + room, side="right")) - 1
        borders.append((first, last))
        windows.append(flat[starts[first] : ends[last]])
        if last == len(starts) - 1:
            break
        middle = int(np.searchsorted(starts, starts[first] + room // 2, side="left"))
        first = min(max(middle, first + 1), last + 1)
    places = np.zeros((len(starts), 2), np.int64)
    best = np.full(len(starts), -1, np.int64)
    for number, (first, last) in enumerate(borders):
        inside = slice(first, last + 1)
        left = starts[inside] - starts[first] if first else np.full(last + 1 - first, len(flat))
        right = ends[last] - ends[inside] if last < len(starts) - 1 else np.full(last + 1 - first, len(flat))
        context = np.minimum(left, right)
        better = context > best[inside]
        best[inside][better] = context[better]
        chosen = np.flatnonzero(better) + first
        places[chosen, 0] = number
        places[chosen, 1] = starts[chosen] - starts[first] + 1
    return tuple(windows), places


def batches_by_length(encoded: Sequence[EncodedSentence], batch_subwords: int) -> Iterator[list[int]]:
    """Group sentences by length, the longest first, with at most ``batch_subwords`` padded subwords in a group."""
    order = sorted(range(len(encoded)), key=lambda number: -encoded[number].longest_window)
    group: list[int] = []
    rows, width = 0, 0
    for number in order:
        sentence = encoded[number]
        if group and (rows + len(sentence.windows)) * width > batch_subwords:
            yield group
            group, rows, width = [], 0, 0
        group.append(number)
        rows += len(sentence.windows)
        width = max(width, sentence.longest_window)
    if group:
        yield group
