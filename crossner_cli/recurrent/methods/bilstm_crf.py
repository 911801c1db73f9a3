"""BiLSTM-CRF: a bidirectional LSTM over word and character vectors, and one score for the whole tag sequence.

Paper: Lample et al. (2016), section 2 and 4; with the layers of Liu et al. (2021), CrossNER, its word-level baseline:
two of 256 units a direction (--paper has its vectors of 300 values and its dropout too). A transformer may read along,
frozen or trained.
Differs: only tags of the sentence's domain are given; characters through a convolution or n-gram means instead of an
LSTM; padding is masked in LSTM, loss and decoding; sums over sentences are divided by the words of as many average
ones, as in ``crf``.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import TAG_DIMENSIONS, Decoded, TagLayer
from crossner_cli.layers.settings import rate, setting
from crossner_cli.methods.contract import UNPUBLISHED_FOR_WORDS, Paper, Rows
from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.inputs import WordTagger
from crossner_cli.recurrent.word_reader import WordInputs


class BiLSTMCRFTagger(WordTagger):
    """A BiLSTM over the vectors of words, and a CRF above it."""

    @dataclass(frozen=True)
    class Hyperparameters(WordInputs):
        """Settings of words, the BiLSTM and the CRF."""

        lstm_layers: int = setting(2, "Layers of the BiLSTM.", minimum=1)
        lstm_size: int = setting(256, "Units of one direction of the BiLSTM.", minimum=1)
        dropout: float = rate(0.5, "Share of the values dropped between the layers.")
        legal: bool = setting(True, "Give only tag sequences that the scheme allows.")

    hyper: Hyperparameters
    terms = ("crf",)
    rows = Rows(tags={f"tag_layer.{name}": dimensions for name, dimensions in TAG_DIMENSIONS.items()})
    paper = Paper(
        settings={"word_size": "300", "input_dropout": "0.5", "characters": "none", "legal": "false"},
        options={**UNPUBLISHED_FOR_WORDS, "batch_size": 32, "head_learning_rate": 1e-3, "upsample": 10},
    )

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.lstm = BiLSTM(encoder.output_dim, hyper.lstm_size, hyper.lstm_layers, hyper.dropout)
        self.tag_layer = TagLayer(self.lstm.output_dim, len(tag_set), "crf")

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the negative log-likelihood of the gold sequences, summed over sentences."""
        assert batch.tags is not None
        return {"crf": self.tag_layer.loss(self.states(batch), batch.tags, batch.word_mask)}

    def decode(self, batch: Batch) -> Decoded:
        """Return the best sequence (Viterbi) of the domain's tags, with the marginal probability of each tag."""
        allowed, moves = self.rules.allowed(batch.domains), self.rules.moves(self.hyper.legal)
        return self.tag_layer.decode(self.states(batch), batch.word_mask, allowed, moves)

    def distributions(self, batch: Batch) -> Tensor:
        """Return the marginal probability of each of the domain's tags at each word, (B, W, K)."""
        return self.tag_layer.distributions(self.states(batch), batch.word_mask, self.rules.allowed(batch.domains))

    def states(self, batch: Batch) -> Tensor:
        """Return the outputs of the BiLSTM, (B, W, 2 H)."""
        states: Tensor = self.lstm(self.encoder(batch), batch.word_mask)
        return states


METHOD = BiLSTMCRFTagger
