"""Linear tagger: one classifier over contextual word vectors.

Paper: the BERT tagger of Liu et al. (2021), CrossNER, section 4.
Differs: scores words instead of subwords, so every word receives exactly one tag; padding is masked; dropout
before the classifier (0 gives the paper's); decoding gives legal sequences of tags of the sentence's domain only
(legal=false: any of them). The source is learnt with its own tags, where the code's classifier has the target's too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import Encoder
from crossner_cli.layers.crf import IMPOSSIBLE, Decoded, decode_words
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import Settings, rate, setting
from crossner_cli.methods.contract import Paper, Rows, Tagger


class LinearTagger(Tagger):
    """Softmax over the tags of each word."""

    @dataclass(frozen=True)
    class Hyperparameters(Settings):
        """Settings of the classifier."""

        dropout: float = rate(0.1, "Share of the values of each word vector dropped before the classifier.")
        legal: bool = setting(
            True, "Give only tag sequences that the scheme allows; without, each word gets its likeliest tag."
        )

    rows = Rows(tags={"classifier.weight": (0,), "classifier.bias": (0,)})
    paper = Paper(settings={"dropout": "0", "legal": "false"})

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.dropout = Dropout(hyper.dropout)
        self.classifier = nn.Linear(encoder.output_dim, len(tag_set))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy, summed over the real words of the batch.

        It is that with the teacher's distribution (Hinton et al. 2015) where the batch has one.
        """
        assert batch.tags is not None
        real = batch.word_mask  # (B, W)
        wanted = batch.tags if batch.soft is None else batch.soft
        return {"tags": functional.cross_entropy(self._scores(batch)[real], wanted[real], reduction="sum")}

    def decode(self, batch: Batch) -> Decoded:
        """Return the likeliest legal sequence of the domain's tags, with each word's probability of its tag."""
        return decode_words(self._log_probabilities(batch), batch.word_mask, self.rules.moves(self.hyper.legal))

    def distributions(self, batch: Batch) -> Tensor:
        """Return the probability of each tag of each word, (B, W, K): the softmax over the domain's tags."""
        return self._log_probabilities(batch).exp()

    def _log_probabilities(self, batch: Batch) -> Tensor:
        allowed = self.rules.allowed(batch.domains)[:, None]  # (B, 1, K)
        return torch.log_softmax(self._scores(batch).masked_fill(~allowed, IMPOSSIBLE), -1)

    def _scores(self, batch: Batch) -> Tensor:
        scores: Tensor = self.classifier(self.dropout(self.encoder(batch)))
        return scores.float()  # (B, W, K)


METHOD = LinearTagger
