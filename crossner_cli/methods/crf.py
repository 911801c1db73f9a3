"""CRF tagger: a linear-chain conditional random field over contextual word vectors.

Paper: BERT-CRF, the comparison system of Hu et al. (2022), LANER; CRF of Lample et al. (2016).
Differs: words instead of subwords, padding masked in loss, decoding and encoder; transitions learn at the head's
learning rate. Only tags of the sentence's domain are given, and the source is learnt with its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import IMPOSSIBLE, TAG_DIMENSIONS, Decoded, LinearChainCRF, pair_probabilities
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import Settings, rate, setting
from crossner_cli.methods.contract import Paper, Rows, Tagger


class CRFTagger(Tagger):
    """One score for the whole tag sequence of a sentence."""

    @dataclass(frozen=True)
    class Hyperparameters(Settings):
        """Settings of the scores and the CRF."""

        dropout: float = rate(0.1, "Share of the values of each word vector dropped before the scores.")
        legal: bool = setting(True, "Give only tag sequences that the scheme allows.")

    hyper: Hyperparameters
    terms = ("crf",)
    rows = Rows(tags=TAG_DIMENSIONS)
    paper = Paper(settings={"dropout": "0", "legal": "false"})

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.dropout = Dropout(hyper.dropout)
        self.classifier = nn.Linear(encoder.output_dim, len(tag_set))
        self.crf = LinearChainCRF(len(tag_set))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the negative log-likelihood of the gold sequences, summed over sentences."""
        assert batch.tags is not None
        return {"crf": -self.crf.log_likelihood(self._scores(batch), batch.tags, batch.word_mask).sum()}

    def decode(self, batch: Batch) -> Decoded:
        """Return the best sequence (Viterbi) of the domain's tags, with the marginal probability of each tag."""
        scores = self._allowed_scores(batch)
        tags = self.crf.viterbi(scores, batch.word_mask, self.rules.moves(self.hyper.legal))  # (B, W)
        return pair_probabilities(tags, self.crf.marginals(scores, batch.word_mask), batch.word_mask)

    def distributions(self, batch: Batch) -> Tensor:
        """Return the marginal probability of each of the domain's tags at each word, (B, W, K)."""
        return self.crf.marginals(self._allowed_scores(batch), batch.word_mask)

    def _allowed_scores(self, batch: Batch) -> Tensor:
        return self._scores(batch).masked_fill(~self.rules.allowed(batch.domains)[:, None], IMPOSSIBLE)

    def _scores(self, batch: Batch) -> Tensor:
        scores: Tensor = self.classifier(self.dropout(self.encoder(batch)))
        return scores.float()  # (B, W, K)


METHOD = CRFTagger
