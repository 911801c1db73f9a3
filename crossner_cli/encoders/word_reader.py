"""Sentences to numbers of words, characters and n-grams: what an encoder of words reads."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.string_embeddings import StringEncoder
from crossner_cli.encoders.subwords import (
    MOST_WORDS,
    Batch,
    EncodedSentence,
    Ids,
    SubwordReader,
    number_tags,
    pad_words,
)
from crossner_cli.encoders.word_vectors import WordVectors, character_ngrams, fallback_forms, replace_digits
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import check_range, check_rate

UNKNOWN = 0
LONGEST_WORD = 50  # characters that are read of a word


@dataclass(frozen=True)
class WordInputs:
    """words: how static word vectors are used: trained, frozen or none; words met once that no file and no start has a
    vector of are read as unknown half of the time in training. word_size: their width where no --embeddings give one.
    characters: cnn (a convolution), ngrams (the mean of the vectors of 2-, 3- and 4-grams) or none. character_size:
    width of that. character_dropout: share of the values of characters dropped before the convolution. strings: whether
    two frozen language models of characters read the sentence (Flair); none or frozen, from --string-embeddings.
    transformer: whether the --encoder reads along: none, frozen or trained. input_dropout: share of the values of a
    word's vector dropped. lower_case: look words up lower-cased. digits: kept, or read as zeros in words and
    characters, so that all years look alike; models of strings and the --encoder read them as they are.
    """

    words: Literal["trained", "frozen", "none"] = "trained"
    word_size: int = 100
    characters: Literal["cnn", "ngrams", "none"] = "cnn"
    character_size: int = 50
    character_dropout: float = 0.0
    strings: Literal["none", "frozen"] = "none"
    transformer: Literal["none", "frozen", "trained"] = "none"
    input_dropout: float = 0.3
    lower_case: bool = False
    digits: Literal["kept", "zeros"] = "kept"

    def normalise_word(self, word: str) -> str:
        """A word as its static vector is looked up."""
        word = self.normalise_letters(word)
        return word.lower() if self.lower_case else word

    def normalise_letters(self, word: str) -> str:
        """A word as its characters are read."""
        return replace_digits(word) if self.digits == "zeros" else word

    def __post_init__(self) -> None:
        check_rate(self.input_dropout, "input_dropout")
        check_rate(self.character_dropout, "character_dropout")
        if self.words == self.characters == self.strings == self.transformer == "none":
            raise CrossNERError(
                "words, characters, strings and transformer are all none: there is nothing to read.",
                hint="Set one of them, as --set words=trained.",
            )
        check_range("word_size", self.word_size, 1)
        check_range("character_size", self.character_size, 1)


@dataclass(frozen=True)
class Vocabulary:
    """What a word encoder has vectors for. Number 0 is what is unknown.

    Args:
        words: The first has number 1.
        characters: Likewise.
        ngrams: Likewise.
        rare: Words met once in training: reading them as unknown now and then trains the unknown vector.
    """

    words: tuple[str, ...] = ()
    characters: str = ""
    ngrams: tuple[str, ...] = ()
    rare: frozenset[str] = frozenset()

    def without(self, *, words: bool, ngrams: bool) -> Vocabulary:
        """This vocabulary without any words, or without any n-grams."""
        return replace(self, words=() if words else self.words, ngrams=() if ngrams else self.ngrams)

    def extended(self, other: Vocabulary) -> Vocabulary:
        """This vocabulary, numbers unchanged, followed by what only the other one has; what it knows is not rare."""
        return Vocabulary(
            tuple(dict.fromkeys((*self.words, *other.words))),
            "".join(dict.fromkeys((*self.characters, *other.characters))),
            tuple(dict.fromkeys((*self.ngrams, *other.ngrams))),
            other.rare.difference(self.words),
        )


def collect_vocabulary(
    sentences: Iterable[Sentence], inputs: WordInputs, vectors: WordVectors | None = None,
    described: Iterable[str] = (), ngram_vectors: WordVectors | None = None, *, has_vectors: bool | None = None,
) -> Vocabulary:  # fmt: skip
    """The vocabulary of sentences to train on, and of the vectors there are.

    Args:
        sentences: Those to train on.
        inputs: What is read.
        vectors: Their words are all known; where vectors are frozen, no others of the sentences are.
        described: Words of type descriptions, all known, so that no two types look alike for want of a vector.
        ngram_vectors: Their character n-grams are the known ones; without them, those met more than once.
        has_vectors: Whether there are any, those of a start included; None goes by ``vectors``.
    """
    counts = Counter(word for sentence in sentences for word in sentence.words)
    spelled, lettered = Counter[str](), Counter[str]()
    for word, count in counts.items():
        spelled[inputs.normalise_word(word)] += count
        lettered[inputs.normalise_letters(word)] += count
    given = () if vectors is None else vectors.words
    has_vectors = bool(given) if has_vectors is None else has_vectors
    words: tuple[str, ...] = ()
    if inputs.words != "none":
        own = () if inputs.words == "frozen" and has_vectors else sorted(spelled)
        words = tuple(dict.fromkeys((*given, *own, *map(inputs.normalise_word, described))))
    characters = "".join(sorted({letter for word in lettered for letter in word})) if inputs.characters == "cnn" else ""
    ngrams: tuple[str, ...] = ()
    if inputs.characters == "ngrams" and ngram_vectors is not None:
        ngrams = ngram_vectors.words
    elif inputs.characters == "ngrams":
        of_words = Counter(key for word in lettered for key in character_ngrams(word))
        ngrams = tuple(sorted(key for key, count in of_words.items() if count > 1))
    has_vector = set(given)
    rare = frozenset(word for word, count in spelled.items() if count == 1 and word not in has_vector)
    return Vocabulary(words, characters, ngrams, rare)


class WordReader:
    """Numbers words, their characters or n-grams, and lets a transformer's reader read along.

    Args:
        vocabulary: What has a number.
        inputs: What is read.
        subwords: The transformer's reader, if one reads along.
        strings: The language models of characters, if they read along.

    Attributes:
        frozen_states: What frozen models make of sentences that are read again and again, (W, D), by their words.
        unknown_words: Distinct words without a vector of their own; in a stream of very many, some count again.
    """

    def __init__(
        self, vocabulary: Vocabulary, inputs: WordInputs, subwords: SubwordReader | None,
        strings: StringEncoder | None = None,
    ) -> None:  # fmt: skip
        self.vocabulary, self.inputs, self.subwords, self.strings = vocabulary, inputs, subwords, strings
        self._words = {word: number for number, word in enumerate(vocabulary.words, 1)}
        self._characters = {letter: number for number, letter in enumerate(vocabulary.characters, 1)}
        self._ngrams = {key: number for number, key in enumerate(vocabulary.ngrams, 1)}
        self._pieces: dict[str, Ids] = {}
        self._unknown: set[str] = set()
        self._forgotten = 0
        self.frozen_states: dict[tuple[str, ...], Tensor] = {}

    @property
    def pad_id(self) -> int:
        """What stands where no subword is."""
        return self.subwords.pad_id if self.subwords else 0

    @property
    def unreadable_words(self) -> int:
        """Distinct words that the transformer's tokenizer makes nothing of."""
        return self.subwords.unreadable_words if self.subwords else 0

    @property
    def shortened_words(self) -> int:
        """Distinct words longer than the transformer's window."""
        return self.subwords.shortened_words if self.subwords else 0

    @property
    def unknown_words(self) -> int:
        """Distinct words read so far that have no vector, in no form of theirs."""
        return self._forgotten + len(self._unknown)

    def encode(self, sentences: Sequence[Sentence], tag_set: TagSet | None = None) -> list[EncodedSentence]:
        """Encode sentences; tags are numbered where both the sentence and ``tag_set`` have them."""
        if len(self._pieces) + len(self._unknown) > MOST_WORDS:  # a stream of any length is read in constant memory
            self._forgotten += len(self._unknown)
            self._pieces.clear()
            self._unknown.clear()
        encoded = self.subwords.encode(sentences, tag_set) if self.subwords else [
            _without_subwords(sentence, tag_set) for sentence in sentences
        ]  # fmt: skip
        return [
            dataclasses.replace(row, words=sentence.words, frozen_states=self.frozen_states.get(sentence.words))
            for row, sentence in zip(encoded, sentences, strict=True)
        ]

    def collate(self, sentences: Sequence[EncodedSentence]) -> Batch:
        """Pad sentences into one batch."""
        states = [sentence.frozen_states for sentence in sentences if sentence.frozen_states is not None]
        are_known = len(states) == len(sentences)
        subwords = None if are_known and self.inputs.transformer == "frozen" else self.subwords
        batch = subwords.collate(sentences) if subwords else pad_words(sentences)
        shape = (len(sentences), max(len(sentence.words) for sentence in sentences))
        if are_known:
            batch.frozen_states = pad_sequence(states, batch_first=True)
        if self.inputs.words != "none":
            numbers = np.zeros(shape, np.int64)
            for row, sentence in enumerate(sentences):
                numbers[row, : len(sentence.words)] = [self.number(word) for word in sentence.words]
            batch.word_ids = torch.from_numpy(numbers)
        if self.inputs.characters != "none":
            pieces = [[self._pieces_of(word) for word in sentence.words] for sentence in sentences]
            longest = max(len(piece) for of_sentence in pieces for piece in of_sentence)
            padded = np.zeros((*shape, longest), np.int64)
            lengths = np.zeros(shape, np.int64)
            for number, of_sentence in enumerate(pieces):
                for place, piece in enumerate(of_sentence):
                    padded[number, place, : len(piece)] = piece
                    lengths[number, place] = len(piece)
            batch.characters = torch.from_numpy(padded)
            batch.character_mask = torch.from_numpy(np.arange(longest) < lengths[..., None])
        if self.strings is not None and not are_known:
            batch.strings, batch.string_places = self.strings.number(
                [[word[:LONGEST_WORD] for word in sentence.words] for sentence in sentences]
            )
        return batch

    def number(self, word: str) -> int:
        """Number of a word, else of the first of the forms under which files of vectors are searched; 0 without one."""
        word = self.inputs.normalise_word(word)
        if number := self._words.get(word):
            return number
        number = next(filter(None, map(self._words.get, fallback_forms(word))), UNKNOWN)
        if number == UNKNOWN:
            self._unknown.add(word)
        return number

    def _pieces_of(self, word: str) -> Ids:
        """Numbers of a word's characters or n-grams, at least one."""
        if word not in self._pieces:
            read = self.inputs.normalise_letters(word[:LONGEST_WORD])
            table, parts = (
                (self._characters, list(read)) if self.inputs.characters == "cnn"
                else (self._ngrams, [key for key in character_ngrams(read) if key in self._ngrams])
            )  # fmt: skip
            self._pieces[word] = np.asarray([table.get(part, UNKNOWN) for part in parts] or [UNKNOWN], np.int64)
        return self._pieces[word]


def _without_subwords(sentence: Sentence, tag_set: TagSet | None) -> EncodedSentence:
    words = len(sentence.words)
    # One window of as many places as there are words, so that batches by length see how long the sentence is.
    windows, places = (np.zeros(words, np.int64),), np.zeros((words, 2), np.int64)
    return EncodedSentence(windows, places, number_tags(sentence, tag_set), sentence.domain)
