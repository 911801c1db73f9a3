"""Several taggers as one: the mean of the probabilities they give to the tags of each word, and its likeliest sequence.

Source: Lakshminarayanan, Pritzel and Blundell (2017), Simple and Scalable Predictive Uncertainty Estimation using Deep
Ensembles, section 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.crf import Decoded, decode_words
from crossner_cli.methods.contract import Tagger, TagRules, find_method, gives_distributions, method_names
from crossner_cli.taggers.description import read_description
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.sources import TrainedTagger
from crossner_cli.taggers.tagging import Tagged, inference

NEARLY_ZERO = 1e-9
SMALLEST, DIGITS = 0.005, 4  # of the probabilities that are written


class Ensemble:
    """Taggers that tag together.

    Args:
        trained: One or more; all must know the same types of new text, in one tag scheme.
        flag: The option that named them, for messages.
        batch_subwords: Subwords read at once; None is the engine's.

    Raises:
        CrossNERError: A tagger's method does not give the probability of every tag, the taggers know different tags,
            or one is damaged.
    """

    def __init__(
        self, trained: Sequence[TrainedTagger], engine: Engine, flag: str, batch_subwords: int | None = None
    ) -> None:
        _check_methods(trained, flag)
        self.tag_set = _find_shared_tags(trained)
        self.taggers = [load_tagger(each.folder, engine) for each in trained]
        self._engine, self._rules = engine, TagRules(self.tag_set)
        self._batch_subwords = batch_subwords or engine.batch_subwords

    def find_means(self, words: Sequence[tuple[str, ...]]) -> list[Tensor]:
        """Average each word's probabilities of the tags of ``tag_set`` over the taggers, (W, K) per sentence."""
        found = [self._read(tagger, words) for tagger in self.taggers]
        return [reduce(torch.add, several) / len(several) for several in zip(*found, strict=True)]

    def decode(self, means: Sequence[Tensor]) -> Decoded:
        """Find the likeliest legal sequence of each sentence, given the probabilities of its tags."""
        lengths = torch.tensor([len(each) for each in means])
        padded = pad_sequence([*means], batch_first=True)  # (B, W, K)
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        return decode_words(padded.clamp_min(NEARLY_ZERO).log(), mask, self._rules.moves())

    def tag(self, sentences: Sequence[Sentence]) -> list[Tagged]:
        """Tag sentences, some hundred at once, in their order."""
        decoded = self.decode(self.find_means([sentence.words for sentence in sentences]))
        return [
            Tagged(tuple(self.tag_set.from_ids(ids)), tuple(probabilities))
            for ids, probabilities in zip(decoded.tags, decoded.probabilities, strict=True)
        ]

    def _read(self, tagger: Tagger, words: Sequence[tuple[str, ...]]) -> list[Tensor]:
        """Read the probabilities of one tagger, (W, K) per sentence, in the order of the shared tags."""
        columns = tagger.tag_set.to_ids(self.tag_set.tags)
        sentences = [Sentence(each, None, tagger.domain_of_new_text) for each in words]
        return [
            found[:, columns] for found in read_distributions(tagger, sentences, self._engine, self._batch_subwords)
        ]


def read_distributions(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, batch_subwords: int | None = None
) -> list[Tensor]:
    """Read a tagger's probabilities of its tags, (W, K) per sentence; its method must give distributions."""
    reader: Any = tagger.encoder.reader
    most = batch_subwords or engine.batch_subwords
    encoded = reader.encode(sentences)
    found: dict[int, Tensor] = {}
    for numbers in batches_by_length(encoded, most):
        batch = reader.collate([encoded[number] for number in numbers])
        batch.most_subwords = most
        with inference(tagger, engine):
            probabilities = tagger.distributions(batch.to(engine.device)).float().cpu()
        for number, of_sentence in zip(numbers, probabilities, strict=True):
            found[number] = of_sentence[: len(sentences[number].words)]
    return [found[number] for number in range(len(sentences))]


def to_shares(tags: Sequence[str], probabilities: Tensor) -> tuple[dict[str, float], ...]:
    """Name the probabilities of each word's tags, (W, K): those of ``SMALLEST`` or more, and the highest one."""
    return tuple(
        {
            tag: round(value, DIGITS)
            for tag, value in zip(tags, row, strict=True)
            if value >= SMALLEST or value == max(row)
        }
        for row in probabilities.tolist()
    )


def _check_methods(trained: Sequence[TrainedTagger], flag: str) -> None:
    for each in trained:
        name = read_description(each.folder).method
        if not gives_distributions(find_method(name)):
            able = [other for other in method_names() if gives_distributions(find_method(other))]
            raise CrossNERError(
                f"{flag} {each.label} is a tagger of the method {name}, which does not give the probability of every"
                " tag.",
                hint=f"Methods that do: {', '.join(able)}.",
            )


def _find_shared_tags(trained: Sequence[TrainedTagger]) -> TagSet:
    """Find the tags that each tagger gives to new text, in the order of the first one."""
    first: TagSet | None = None
    for each in trained:
        known = read_description(each.folder)
        own = TagSet({known.domain: known.tag_set.domains[known.domain]}, known.tag_set.scheme)
        first = first or own
        if set(own.tags) != set(first.tags):
            raise CrossNERError(
                f"The taggers know different tags: {trained[0].label} {_describe(first)}, {each.label}"
                f" {_describe(own)}.",
                hint="Name taggers that were trained on one target and in one tag scheme, or use each alone.",
            )
    assert first is not None
    return first


def _describe(tag_set: TagSet) -> str:
    return f"{', '.join(sorted(tag_set.types)) or 'no type'} in {tag_set.scheme.upper()}"
