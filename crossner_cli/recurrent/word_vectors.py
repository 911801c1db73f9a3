"""Static word vectors: found in a file by several forms of a word, trained on raw text, or made of character n-grams.

Papers: Pennington et al. (2014), GloVe; Mikolov et al. (2013), word2vec; Bojanowski et al. (2017), fastText; Hashimoto
et al. (2017), A Joint Many-Task Model, for character n-grams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

Vectors = NDArray[np.float32]

BEGIN, END = "#BEGIN#", "#END#"
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
        asked: Number of distinct words asked for.
        entries: Vectors in the source, asked for or not.
        written: The spelling of each in the source, N; empty if that is the word itself for all.
    """

    source: str
    words: tuple[str, ...]
    rows: Vectors
    asked: int
    entries: int
    written: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @property
    def size(self) -> int:
        """Values of a vector, D."""
        return int(self.rows.shape[1])

    def include_written_forms(self) -> WordVectors:
        """Add the spellings of the source as words: text to come may spell the words in yet another way."""
        others = {form: row for row, form in enumerate(self.written) if form not in self.index}
        return replace(
            self,
            words=(*self.words, *others),
            rows=self.rows[[*range(len(self.words)), *others.values()]],
            asked=self.asked + len(others),
            written=(),
        )

    def describe(self, what: str = "words") -> str:
        """Say in one line how many words, or whatever they are called, were found, and what was odd."""
        found, asked = len(self.words), self.asked
        share = 100 * found / max(asked, 1)
        shown = share if found == asked else min(share, 99.9)  # 100 % is all
        summary = f"{self.source}: {self.size:,} values, {found:,} of {asked:,} {what} found ({shown:.1f} %)"
        return "; ".join([summary, *self.notes])


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


def import_gensim() -> Any:
    """The models of gensim."""
    return import_optional("gensim.models", "Word vectors are trained with gensim", extra="vectors")


def train_vectors(
    sentences: Iterable[Sequence[str]],
    *,
    size: int,
    seed: int,
    epochs: int,
    minimum_count: int,
    words: Iterable[str],
) -> WordVectors:
    """Train fastText skip-gram vectors on raw text with gensim.

    fastText rather than word2vec: its character n-grams (3 to 6) give vectors to words that are missing or rare in the
    text, and those are many in a small text. With one thread, the same seed gives the same vectors.

    Args:
        sentences: Words of each sentence; read ``epochs + 1`` times. gensim cuts those of more than 10,000 words.
        size: Values of a vector, D.
        minimum_count: Rarer words are not learnt as such; 1 takes all.
        words: Words to give vectors to.

    Raises:
        CrossNERError: gensim is not installed, or no word occurs ``minimum_count`` times.
    """
    gensim_models = import_gensim()
    model = gensim_models.FastText(
        vector_size=size, sg=1, min_count=minimum_count, bucket=BUCKETS, seed=seed, workers=1, epochs=epochs
    )
    model.build_vocab(sentences)
    if not len(model.wv):
        raise CrossNERError(
            f"No word of the text occurs {minimum_count:,} times; it has {model.corpus_total_words:,} words.",
            hint="Give more text, or a file of word vectors.",
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    asked = list(dict.fromkeys(words))
    found = [word for word in asked if word]  # only the empty word has no n-gram
    rows = np.array(list(map(model.wv.get_vector, found)), dtype=np.float32).reshape(-1, size)
    return WordVectors("fastText", tuple(found), rows, len(asked), len(model.wv))
