"""Taggers as teachers: the mean of what several say of each word, and the likeliest legal sequence under it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import OUTSIDE, TagSet
from crossner_cli.data.text import cut_words
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.crf import decode_words
from crossner_cli.methods.contract import Tagger, TagRules, find_method, gives_distributions, method_names
from crossner_cli.methods.multi_task import domain_of_new_text
from crossner_cli.taggers.description import read_description, read_tag_set
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.sources import TrainedTagger
from crossner_cli.taggers.tagging import inference

SMALLEST, DIGITS = 0.005, 4  # of the probabilities that are kept
NEARLY_ZERO = 1e-9


class TaggerTeacher:
    """Taggers that label together.

    Args:
        trained: One or more; all must know the same types of new text, in one tag scheme.
        engine: One process.

    Raises:
        CrossNERError: A tagger's method does not give the probability of every tag, the taggers know different tags,
            or one is damaged.
    """

    def __init__(self, trained: Sequence[TrainedTagger], engine: Engine) -> None:
        _check_methods(trained)
        self.tag_set = _find_shared_tags(trained)
        self.taggers = [load_tagger(each.folder, engine) for each in trained]
        for each in trained:
            each.check_unchanged()
        self._engine, self._rules = engine, TagRules(self.tag_set)

    def label(self, texts: Sequence[str]) -> list[Sentence]:
        """Label sentences, some hundred at once, in their order.

        They get tags in the scheme of the taggers and, as soft labels, the probabilities of the tags of each word:
        those of ``SMALLEST`` or more, and the highest one.
        """
        words = [cut_words(text) for text in texts]
        means = self.find_means(words)
        lengths = torch.tensor([len(each) for each in words])
        padded = pad_sequence(means, batch_first=True)  # (B, W, K)
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        decoded = decode_words(padded.clamp_min(NEARLY_ZERO).log(), mask, self._rules.moves())
        return [
            Sentence(each, tuple(self.tag_set.from_ids(ids)), soft=tuple(map(self._to_soft, mean.tolist())))
            for each, ids, mean in zip(words, decoded.tags, means, strict=True)
        ]

    def find_means(self, words: Sequence[tuple[str, ...]]) -> list[Tensor]:
        """The mean over the taggers of the probability of each tag of ``tag_set`` for each word, (W, K) a sentence."""
        found = [self._read(tagger, words) for tagger in self.taggers]
        return [reduce(torch.add, several) / len(several) for several in zip(*found, strict=True)]

    def _read(self, tagger: Tagger, words: Sequence[tuple[str, ...]]) -> list[Tensor]:
        """The probabilities that one tagger gives, (W, K) a sentence, in the order of the shared tags."""
        domain = domain_of_new_text(tagger.tag_set, vars(tagger.hyper))
        columns = tagger.tag_set.to_ids(self.tag_set.tags)
        reader: Any = tagger.encoder.reader
        encoded = reader.encode([Sentence(each, None, domain) for each in words])
        found: dict[int, Tensor] = {}
        for numbers in batches_by_length(encoded, self._engine.batch_subwords):
            batch = reader.collate([encoded[number] for number in numbers])
            batch.most_subwords = self._engine.batch_subwords
            with inference(tagger, self._engine):
                probabilities = tagger.distributions(batch.to(self._engine.device)).float().cpu()
            for number, of_sentence in zip(numbers, probabilities, strict=True):
                found[number] = of_sentence[: len(words[number]), columns]
        return [found[number] for number in range(len(words))]

    def _to_soft(self, probabilities: list[float]) -> dict[str, float]:
        most = max(probabilities)
        return {
            tag: round(value, DIGITS)
            for tag, value in zip(self.tag_set.tags, probabilities, strict=True)
            if value >= SMALLEST or value == most
        }


def is_sure(sentence: Sentence, least: float) -> bool:
    """Return whether a sentence has entities, and the teacher gave each tag of them at least this probability."""
    assert sentence.tags is not None and sentence.soft is not None
    found = [shares.get(tag, 0.0) for tag, shares in zip(sentence.tags, sentence.soft, strict=True) if tag != OUTSIDE]
    return bool(found) and min(found) >= least


def _check_methods(trained: Sequence[TrainedTagger]) -> None:
    for each in trained:
        name = read_description(each.folder)["method"]
        if not gives_distributions(find_method(name)):
            able = [other for other in method_names() if gives_distributions(find_method(other))]
            raise CrossNERError(
                f"--teacher {each.label} is a tagger of the method {name}, which does not tell the probability of every"
                " tag.",
                hint=f"Methods that can teach: {', '.join(able)}.",
            )


def _find_shared_tags(trained: Sequence[TrainedTagger]) -> TagSet:
    """The tags that each tagger gives to new text, in the order of the first one."""
    first: TagSet | None = None
    for each in trained:
        tag_set = read_tag_set(each.folder)
        domain = domain_of_new_text(tag_set, read_description(each.folder)["hyperparameters"])
        own = TagSet({domain: tag_set.domains[domain]}, tag_set.scheme)
        first = first or own
        if set(own.tags) != set(first.tags):
            raise CrossNERError(
                f"The teachers know different tags: {trained[0].label} {_describe(first)}, {each.label}"
                f" {_describe(own)}.",
                hint="Name teachers that were trained on one target and in one tag scheme, or label with each alone.",
            )
    assert first is not None
    return first


def _describe(tag_set: TagSet) -> str:
    return f"{', '.join(sorted(tag_set.types)) or 'no type'} in {tag_set.scheme.upper()}"
