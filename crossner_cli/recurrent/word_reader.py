"""Sentences as numbers of words, characters and n-grams, and the files of an encoder of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.names import VOCABULARY
from crossner_cli.encoders.start import Start
from crossner_cli.encoders.subwords import (
    MOST_WORDS,
    Batch,
    EncodedSentence,
    Ids,
    SubwordReader,
    number_tags,
    pad_words,
)
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import Settings, input_setting, rate, setting
from crossner_cli.recurrent.string_embeddings import StringEncoder
from crossner_cli.recurrent.word_vectors import WordVectors, character_ngrams, fallback_forms, replace_digits
from crossner_cli.run.storage import read_json

UNKNOWN = 0
LONGEST_WORD = 50  # characters that are read of a word
TENSORS = "words.safetensors"  # of an encoder of words in a tagger's folder
CONVOLUTION = "characters.convolution.weight"  # only in an encoder of characters, not of n-grams


@dataclass(frozen=True)
class WordInputs(Settings):
    """Settings of an encoder of words: what it reads of each word."""

    words: Literal["trained", "frozen", "none"] = setting(
        "trained",
        "Static word vectors. Words met once that no file and no start has a vector of are read as unknown half of the"
        " time in training.",
    )
    word_size: int = setting(100, "Width of static word vectors without embeddings.", minimum=1)
    characters: Literal["cnn", "ngrams", "none"] = setting(
        "cnn", "Vectors of characters: a convolution, or the mean of the vectors of 2-, 3- and 4-grams."
    )
    character_size: int = setting(50, "Width of the vectors of characters.", minimum=1)
    character_dropout: float = rate(0.0, "Share of the values of characters dropped before the convolution.")
    strings: Literal["none", "frozen"] = setting(
        "none", "Two frozen language models of characters that read the sentence (Flair): those of string_embeddings."
    )
    transformer: Literal["none", "frozen", "trained"] = setting("none", "The --encoder, read beside the word vectors.")
    input_dropout: float = rate(0.3, "Share of the values of a word's vector dropped.")
    lower_case: bool = setting(False, "Look words up lower-cased.")
    digits: Literal["kept", "zeros"] = setting(
        "kept",
        "zeros: read digits as zeros in words and characters, so that all years look alike; models of strings and the"
        " --encoder read them as they are.",
    )
    embeddings: str = input_setting(
        "", "Word vectors: a file (GloVe, word2vec, fastText), or corpus to train them on the run's raw text."
    )
    ngram_embeddings: str = input_setting(
        "", "Vectors of character n-grams for characters=ngrams: a file of CharNGram."
    )
    string_embeddings: str = input_setting(
        "", "Character models for strings=frozen: a stage of dapt --encoder strings, or a folder."
    )

    def normalise_word(self, word: str) -> str:
        """Write a word as its static vector is looked up."""
        word = self.normalise_letters(word)
        return word.lower() if self.lower_case else word

    def check_width(self, size: int) -> None:
        """Refuse word vectors of a width that the method cannot read."""

    def described_words(self, types: Sequence[str]) -> list[str]:
        """Return the words that describe types, in methods that compare them."""
        return []

    def normalise_letters(self, word: str) -> str:
        """Write a word as its characters are read."""
        return replace_digits(word) if self.digits == "zeros" else word

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.words == self.characters == self.strings == self.transformer == "none":
            raise CrossNERError(
                "words, characters, strings and transformer are all none: there is nothing to read.",
                hint="Set one of them, as --set words=trained.",
            )
        for name, is_read, way_out in (
            ("embeddings", self.words != "none", "words=frozen"),
            ("ngram_embeddings", self.characters == "ngrams", "characters=ngrams"),
            ("string_embeddings", self.strings != "none", "strings=frozen"),
        ):
            if getattr(self, name) and not is_read:
                raise CrossNERError(
                    f"--set {name}={getattr(self, name)} is not read with these settings.",
                    hint=f"Leave it out, or add --set {way_out}.",
                )


@dataclass(frozen=True)
class Vocabulary:
    """The words, characters and n-grams that a word encoder has vectors for. Number 0 is unknown.

    Args:
        words: The first has number 1.
        characters: Likewise.
        ngrams: Likewise.
        rare: Words met once in training; they are sometimes read as unknown, which trains the unknown vector.
    """

    words: tuple[str, ...] = ()
    characters: str = ""
    ngrams: tuple[str, ...] = ()
    rare: frozenset[str] = frozenset()

    def without(self, *, words: bool, ngrams: bool) -> Vocabulary:
        """This vocabulary without any words, or without any n-grams."""
        return replace(self, words=() if words else self.words, ngrams=() if ngrams else self.ngrams)

    def extended(self, other: Vocabulary) -> Vocabulary:
        """Append the entries that only the other vocabulary has; numbers stay, and known words are not rare."""
        return Vocabulary(
            tuple(dict.fromkeys((*self.words, *other.words))),
            "".join(dict.fromkeys((*self.characters, *other.characters))),
            tuple(dict.fromkeys((*self.ngrams, *other.ngrams))),
            other.rare.difference(self.words),
        )


@dataclass(frozen=True)
class KnownWords:
    """The vocabulary of an encoder of words, and what it begins with.

    Args:
        strings: Folder of the language models of characters, if any.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    vectors: WordVectors | None = None
    ngram_vectors: WordVectors | None = None
    strings: Path | None = None


def collect_vocabulary(
    sentences: Iterable[Sentence],
    inputs: WordInputs,
    vectors: WordVectors | None = None,
    described: Iterable[str] = (),
    ngram_vectors: WordVectors | None = None,
    *,
    has_vectors: bool | None = None,
) -> Vocabulary:
    """Collect the vocabulary of the training sentences and of the given vectors.

    Args:
        vectors: Their words are all known; if vectors are frozen, no other words of the sentences are.
        described: Words of type descriptions, all known, so that no two types look alike for want of a vector.
        ngram_vectors: Their character n-grams are the known ones; without them, those met more than once.
        has_vectors: Whether there are any vectors, those of a start included; None goes by ``vectors``.
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
    """Numbers words, their characters or n-grams, beside the subwords of a transformer's reader.

    Attributes:
        frozen_states: Vectors by frozen models, (W, D), of sentences that are read again and again, by their words.
        unknown_words: Distinct words without a vector of their own; in a stream of very many, some count again.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        inputs: WordInputs,
        subwords: SubwordReader | None,
        strings: StringEncoder | None = None,
    ) -> None:
        self.vocabulary, self.inputs, self.subwords, self.strings = vocabulary, inputs, subwords, strings
        self._words = {word: number for number, word in enumerate(vocabulary.words, 1)}
        self._characters = {letter: number for number, letter in enumerate(vocabulary.characters, 1)}
        self._ngrams = {key: number for number, key in enumerate(vocabulary.ngrams, 1)}
        self._pieces: dict[str, Ids] = {}
        self._unknown: set[str] = set()
        self._forgotten = 0
        self.frozen_states: dict[tuple[str, ...], Tensor] = {}

    @property
    def unreadable_words(self) -> int:
        """Distinct words without a subword in the transformer's tokenizer."""
        return self.subwords.unreadable_words if self.subwords else 0

    @property
    def shortened_words(self) -> int:
        """Distinct words longer than the transformer's window."""
        return self.subwords.shortened_words if self.subwords else 0

    @property
    def differently_cut(self) -> list[str]:
        """Words that the transformer's tokenizer cuts otherwise inside a text."""
        return self.subwords.differently_cut if self.subwords else []

    @property
    def unknown_words(self) -> int:
        """Distinct words read so far that have no vector in any of their forms."""
        return self._forgotten + len(self._unknown)

    def encode(self, sentences: Sequence[Sentence], tag_set: TagSet | None = None) -> list[EncodedSentence]:
        """Encode sentences, with their tags if ``tag_set`` is given."""
        if len(self._pieces) + len(self._unknown) > MOST_WORDS:  # a stream of any length is read in constant memory
            self._forgotten += len(self._unknown)
            self._pieces.clear()
            self._unknown.clear()
        if self.subwords:
            encoded = self.subwords.encode(sentences, tag_set)
        else:
            encoded = [_without_subwords(sentence, tag_set) for sentence in sentences]
        return [
            replace(row, words=sentence.words, frozen_states=self.frozen_states.get(sentence.words))
            for row, sentence in zip(encoded, sentences, strict=True)
        ]

    def collate(self, sentences: Sequence[EncodedSentence]) -> Batch:
        """Pad sentences into one batch."""
        states = [sentence.frozen_states for sentence in sentences if sentence.frozen_states is not None]
        are_known = len(states) == len(sentences)
        subwords = None if are_known and self.inputs.transformer == "frozen" else self.subwords
        batch = subwords.collate(sentences) if subwords else pad_words(sentences)
        if are_known:
            batch.frozen_states = pad_sequence(states, batch_first=True)
        if self.inputs.words != "none":
            batch.word_ids = self._number_words(sentences)
        if self.inputs.characters != "none":
            batch.characters, batch.character_mask = self._number_pieces(sentences)
        if self.strings is not None and not are_known:
            batch.strings, batch.string_places = self.strings.number(
                [[word[:LONGEST_WORD] for word in sentence.words] for sentence in sentences]
            )
        return batch

    def _number_words(self, sentences: Sequence[EncodedSentence]) -> Tensor:
        """Numbers of the words, (B, W)."""
        numbers = np.zeros(_shape(sentences), np.int64)
        for row, sentence in enumerate(sentences):
            numbers[row, : len(sentence.words)] = [self.number(word) for word in sentence.words]
        return torch.from_numpy(numbers)

    def _number_pieces(self, sentences: Sequence[EncodedSentence]) -> tuple[Tensor, Tensor]:
        """Numbers of the characters or n-grams of each word, and a mask, both (B, W, C)."""
        pieces = [[self._pieces_of(word) for word in sentence.words] for sentence in sentences]
        longest = max(len(piece) for of_sentence in pieces for piece in of_sentence)
        shape = _shape(sentences)
        padded, lengths = np.zeros((*shape, longest), np.int64), np.zeros(shape, np.int64)
        for row, of_sentence in enumerate(pieces):
            for place, piece in enumerate(of_sentence):
                padded[row, place, : len(piece)] = piece
                lengths[row, place] = len(piece)
        return torch.from_numpy(padded), torch.from_numpy(np.arange(longest) < lengths[..., None])

    def number(self, word: str) -> int:
        """Number of a word, else of the first of its fallback forms that has one, else 0."""
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
            if self.inputs.characters == "cnn":
                numbers = [self._characters.get(letter, UNKNOWN) for letter in read]
            else:
                numbers = [self._ngrams[key] for key in character_ngrams(read) if key in self._ngrams]
            self._pieces[word] = np.asarray(numbers or [UNKNOWN], np.int64)
        return self._pieces[word]


def _shape(sentences: Sequence[EncodedSentence]) -> tuple[int, int]:
    return len(sentences), max(len(sentence.words) for sentence in sentences)


def _without_subwords(sentence: Sentence, tag_set: TagSet | None) -> EncodedSentence:
    words = len(sentence.words)
    # One window of as many places as there are words, so that batches by length see how long the sentence is.
    windows, places = (np.zeros(words, np.int64),), np.zeros((words, 2), np.int64)
    return EncodedSentence(windows, places, number_tags(sentence, tag_set), sentence.domain)


def read_vocabulary(folder: Path) -> Vocabulary:
    """Read the vocabulary that ``WordEncoder.save`` wrote.

    Raises:
        CrossNERError: It is missing or broken.
    """
    path = folder / VOCABULARY
    hint = "Train the tagger again."
    record = read_json(path, hint=hint)
    lists = [record.get(key) for key in ("words", "ngrams")] if isinstance(record, dict) else [None]
    if not all(isinstance(each, list) and all(isinstance(item, str) for item in each) for each in lists):
        raise CrossNERError(f"{path} is broken: words and ngrams are not lists of texts.", hint=hint)
    if not isinstance(record.get("characters"), str):
        raise CrossNERError(f"{path} is broken: characters is not a text.", hint=hint)
    return Vocabulary(tuple(record["words"]), record["characters"], tuple(record["ngrams"]))


def read_known_words(start: Start) -> set[str]:
    """Read which words the encoder of words of a start has a vector of; none without such an encoder."""
    return set(read_vocabulary(start.folder).words) if start.folder is not None and start.holds(VOCABULARY) else set()


def read_vector_sizes(stored: Mapping[str, Tensor], inputs: WordInputs) -> dict[str, int]:
    """Widths of the stored vectors, by the names of ``WordEncoder``'s arguments."""
    names = {"word_size": "words.weight"}
    if inputs.characters == "ngrams" and CONVOLUTION not in stored:
        names["character_size"] = "characters.table.weight"
    return {size: stored[name].shape[1] for size, name in names.items() if name in stored}
