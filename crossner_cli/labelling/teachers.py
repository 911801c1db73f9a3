"""Taggers as teachers: labels with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.data.text import cut_words
from crossner_cli.engine.devices import Engine
from crossner_cli.taggers.ensemble import Ensemble, to_shares
from crossner_cli.taggers.sources import TrainedTagger


class TaggerTeacher:
    """Taggers that label together.

    Args:
        trained: One or more; all must know the same types of new text, in one tag scheme.

    Raises:
        CrossNERError: As ``Ensemble``, or one was changed since it was trained.
    """

    def __init__(self, trained: Sequence[TrainedTagger], engine: Engine) -> None:
        self.ensemble = Ensemble(trained, engine, "--teacher")
        for each in trained:
            each.check_unchanged()

    def label(self, texts: Sequence[str]) -> list[Sentence]:
        """Label sentences, some hundred at once, in their order.

        They get tags in the scheme of the taggers and, as soft labels, the probabilities of each word's tags, except
        those near zero.
        """
        words = [cut_words(text) for text in texts]
        means = self.ensemble.find_means(words)
        tag_set = self.ensemble.tag_set
        return [
            Sentence(each, tuple(tag_set.from_ids(ids)), soft=to_shares(tag_set.tags, mean))
            for each, ids, mean in zip(words, self.ensemble.decode(means).tags, means, strict=True)
        ]


def is_sure(sentence: Sentence, least: float) -> bool:
    """Return whether a sentence has entities whose tags all have at least this probability."""
    assert sentence.tags is not None and sentence.soft is not None
    found = [shares.get(tag, 0.0) for tag, shares in zip(sentence.tags, sentence.soft, strict=True) if tag != OUTSIDE]
    return bool(found) and min(found) >= least
