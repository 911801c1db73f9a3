"""The base of methods that score the tags of each word independently: they need only ``scores``."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import IMPOSSIBLE, Decoded, decode_words
from crossner_cli.layers.settings import Settings, setting
from crossner_cli.methods.contract import Tagger


class WordwiseTagger(Tagger):
    """Softmax over the tags of each word."""

    @dataclass(frozen=True)
    class Hyperparameters(Settings):
        """The setting of decoding."""

        legal: bool = setting(
            True, "Give only tag sequences that the scheme allows; without, each word gets its likeliest tag."
        )

    hyper: Hyperparameters

    @abstractmethod
    def scores(self, batch: Batch) -> Tensor:
        """Return a score for each tag of each word, (B, W, K); rows outside the word mask mean nothing."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy, summed over the real words of the batch.

        With a teacher's distribution in the batch, the cross-entropy is that with it (Hinton et al. 2015).
        """
        assert batch.tags is not None
        real = batch.word_mask  # (B, W)
        wanted = batch.tags if batch.soft is None else batch.soft
        return {"tags": functional.cross_entropy(self.scores(batch)[real].float(), wanted[real], reduction="sum")}

    def decode(self, batch: Batch) -> Decoded:
        """Return the likeliest legal sequence of the domain's tags, with each word's probability of its tag."""
        return decode_words(self._log_probabilities(batch), batch.word_mask, self.rules.moves(self.hyper.legal))

    def distributions(self, batch: Batch) -> Tensor:
        """Return the probability of each tag of each word, (B, W, K): the softmax over the domain's tags."""
        return self._log_probabilities(batch).exp()

    def _log_probabilities(self, batch: Batch) -> Tensor:
        allowed = self.rules.allowed(batch.domains)[:, None]  # (B, 1, K)
        return torch.log_softmax(self.scores(batch).float().masked_fill(~allowed, IMPOSSIBLE), -1)
