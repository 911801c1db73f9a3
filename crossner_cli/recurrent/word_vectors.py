"""Static word vectors: found in a file by several forms of a word, trained on raw text, or made of character n-grams.

Papers: Pennington et al. (2014), GloVe; Mikolov et al. (2013), word2vec; Bojanowski et al. (2017), fastText; Hashimoto
et al. (2017), A Joint Many-Task Model, for character n-grams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

Form = Literal["exact", "lower_cased", "digits", "n_grams"]
Vectors = NDArray[np.float32]

LABELS: dict[Form, str] = {
    "exact": "as they are",
    "lower_cased": "lower-cased",
    "digits": "with digits as 0",
    "n_grams": "from their character n-grams",
}
BEGIN, END = "#BEGIN#", "#END#"
LONGEST_SENTENCE = 10_000  # words; gensim drops the rest
# Hash values of the character n-grams; the usual 2,000,000 take 800 MB at 100 values, for any corpus.
BUCKETS = 2**18

_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of the words that were asked for.

    Args:
        source: File name, or the program that trained them.
        words: Distinct words that have a vector, in the order asked.
        rows: Their vectors, (N, D).
        forms: The form under which each was found, N.
        asked: Number of distinct words asked for.
        entries: Vectors in the source, asked for or not.
        announced: Vectors in the file by its own header; None without a header.
        repeated: Further entries of kept words; the first counts.
        undecodable: Entries whose word is not UTF-8; skipped.
        written: The spelling of each in the source, N; empty if that is the word itself for all.
    """

    source: str
    words: tuple[str, ...]
    rows: Vectors
    forms: tuple[Form, ...]
    asked: int
    entries: int
    announced: int | None = None
    repeated: int = 0
    undecodable: int = 0
    written: tuple[str, ...] = ()

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @property
    def size(self) -> int:
        """Values of a vector, D."""
        return int(self.rows.shape[1])

    @property
    def counts(self) -> dict[str, int]:
        """Number of words by the form they were found in, and of those ``missing``."""
        return {form: self.forms.count(form) for form in LABELS} | {"missing": self.asked - len(self.words)}

    @property
    def share(self) -> float:
        """Share of the distinct words asked for that have a vector; 0 if none was asked for."""
        return len(self.words) / max(self.asked, 1)

    def include_written_forms(self) -> WordVectors:
        """Add the spellings of the source as words: text to come may spell the words in yet another way."""
        others = {form: row for row, form in enumerate(self.written) if form not in self.index}
        exact: Form = "exact"
        return replace(
            self,
            words=(*self.words, *others),
            rows=self.rows[[*range(len(self.words)), *others.values()]],
            forms=(*self.forms, *[exact] * len(others)),
            asked=self.asked + len(others),
            written=(),
        )

    def describe(self, what: str = "words") -> str:
        """Say in one line how many words were found and how, and what was odd about the source.

        Args:
            what: What the words are called.
        """
        found = f"{self.source}: {self.size:,} values, {len(self.words):,} of {self.asked:,} {what} found"
        parts = [f"{self.forms.count(form):,} {label}" for form, label in LABELS.items() if form in self.forms]
        share = 100 * self.share if len(self.words) == self.asked else min(100 * self.share, 99.9)  # 100 % is all
        notes = [f"{found} ({share:.1f} %)" + (": " if parts else "") + ", ".join(parts)]
        if self.announced not in (None, self.entries):
            notes.append(f"{self.announced:,} vectors announced, {self.entries:,} there")
        odd = [(self.repeated, "repeated (the first counts)"), (self.undecodable, "not UTF-8 (skipped)")]
        notes += [f"{count:,} {what}" for count, what in odd if count]
        return "; ".join(notes)


def replace_digits(word: str) -> str:
    """A word with its digits replaced by 0."""
    return _DIGIT.sub("0", word)


def fallback_forms(word: str) -> Iterator[str]:
    """Forms to look up for a word that is missing as it is, best first."""
    yield word.lower()
    zeros = replace_digits(word)
    yield zeros
    yield zeros.lower()


def character_ngrams(word: str) -> list[str]:
    """Keys of all 2-, 3- and 4-grams of ``#BEGIN#``, the characters of a word and ``#END#``, as in CharNGram files.

    A key stands once for each place it occurs at. Read their vectors with ``exact_only``: 2gram-Ab is not 2gram-ab,
    nor 0gram-Ab. The mean of the known ones is the character vector of the word (Hashimoto et al., 2017).
    """
    characters = [BEGIN, *word, END]
    return [f"{n}gram-{''.join(characters[at : at + n])}" for n in (2, 3, 4) for at in range(len(characters) - n + 1)]


class _Pieces:
    """Sentences cut to the length that gensim reads, as often as asked for."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self._sentences = list(sentences) if iter(sentences) is sentences else sentences

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self._sentences:
            for start in range(0, len(sentence), LONGEST_SENTENCE):
                yield list(sentence[start : start + LONGEST_SENTENCE])


def import_gensim() -> Any:
    """The models of gensim.

    Raises:
        CrossNERError: It is not installed.
    """
    return import_optional("gensim.models", "Word vectors are trained with gensim", extra="vectors")


def train_vectors(
    sentences: Iterable[Sequence[str]],
    *,
    size: int = 100,
    seed: int,
    epochs: int,
    minimum_count: int,
    workers: int,
    words: Iterable[str] | None = None,
) -> WordVectors:
    """Train fastText skip-gram vectors on raw text with gensim.

    fastText rather than word2vec: its character n-grams (3 to 6) give vectors to words that are missing or rare in the
    text, and those are many in a small text. With one worker, the same seed gives the same vectors.

    Args:
        sentences: Words of each sentence; read ``epochs + 1`` times, an iterator from memory.
        size: Values of a vector, D.
        minimum_count: Rarer words are not learnt as such; 1 takes all.
        workers: Threads; several are faster, and no two runs are equal.
        words: Words to give vectors to; by default all that are learnt.

    Raises:
        CrossNERError: gensim is not installed, or no word occurs ``minimum_count`` times.
    """
    gensim_models = import_gensim()
    pieces = _Pieces(sentences)
    model = gensim_models.FastText(
        vector_size=size, sg=1, min_count=minimum_count, bucket=BUCKETS, seed=seed, workers=workers, epochs=epochs
    )
    model.build_vocab(pieces)
    if not len(model.wv):
        raise CrossNERError(
            f"No word of the text occurs {minimum_count:,} times; it has {model.corpus_total_words:,} words.",
            hint="Give more text, or a file of word vectors.",
        )
    model.train(pieces, total_examples=model.corpus_count, epochs=epochs)
    known = model.wv.key_to_index
    asked = list(known if words is None else dict.fromkeys(words))
    found = [word for word in asked if word]  # only the empty word has no n-gram
    rows = np.array(list(map(model.wv.get_vector, found)), dtype=np.float32).reshape(-1, size)
    forms: list[Form] = ["exact" if word in known else "n_grams" for word in found]
    return WordVectors("fastText", tuple(found), rows, tuple(forms), len(asked), len(known))
