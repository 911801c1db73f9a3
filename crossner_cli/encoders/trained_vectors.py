"""Static word vectors trained on raw text, with gensim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from crossner_cli.data.optional_packages import import_optional
from crossner_cli.encoders.word_vectors import Form, WordVectors
from crossner_cli.errors import CrossNERError

LONGEST_SENTENCE = 10_000  # words; gensim drops what follows
# Hash values of the character n-grams; the usual 2,000,000 take 800 MB at 100 values, for any corpus.
BUCKETS = 2**18


class _Pieces:
    """Sentences as gensim reads them whole, as often as asked for."""

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
    sentences: Iterable[Sequence[str]], *, size: int = 100, seed: int, epochs: int, minimum_count: int, workers: int,
    words: Iterable[str] | None = None,
) -> WordVectors:  # fmt: skip
    """Train fastText skip-gram vectors on raw text with gensim.

    fastText rather than word2vec: its character n-grams (3 to 6) give vectors to words that the text lacks or has too
    rarely, and those are many where the text is small. With one worker, the same seed gives the same vectors.

    Args:
        sentences: Words of each sentence; read ``epochs + 1`` times, an iterator from memory.
        size: Values of a vector, D.
        minimum_count: Words that occur less often are not learnt as such; 1 takes all.
        workers: Threads; more than one are faster, and no two runs are equal.
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
        raise CrossNERError(f"No word of the text occurs {minimum_count:,} times; it has {model.corpus_total_words:,} "
                            "words.", hint="Give more text, or a file of word vectors.")  # fmt: skip
    model.train(pieces, total_examples=model.corpus_count, epochs=epochs)
    known = model.wv.key_to_index
    asked = list(known if words is None else dict.fromkeys(words))
    found = [word for word in asked if word]  # only the empty word has no n-gram
    rows = np.array(list(map(model.wv.get_vector, found)), dtype=np.float32).reshape(-1, size)
    forms: list[Form] = ["exact" if word in known else "n_grams" for word in found]
    return WordVectors("fastText", tuple(found), rows, tuple(forms), len(asked), len(known))
