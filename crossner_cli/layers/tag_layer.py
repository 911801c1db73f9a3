"""What taggers of words share between encoder and tags: a BiLSTM, and scores with a CRF or a softmax above them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.layers.layers import (
    IMPOSSIBLE,
    BiLSTM,
    Decoded,
    LinearChainCRF,
    Moves,
    check_range,
    check_rate,
    unpad,
    viterbi,
)

# Of a classifier and a CRF above it: the dimensions of their tensors that count tags.
TAG_DIMENSIONS: dict[str, tuple[int, ...]] = {
    "classifier.weight": (0,), "classifier.bias": (0,), "crf.start": (0,), "crf.stop": (0,), "crf.transitions": (0, 1),
}  # fmt: skip


def check_lstm(layers: int, size: int, dropout: float, *, fewest: int) -> None:
    """Refuse settings of a BiLSTM that make no sense.

    Args:
        layers: One above the other.
        size: Units of one direction.
        dropout: Share of values dropped.
        fewest: Layers there must be.

    Raises:
        CrossNERError: They make none.
    """
    check_rate(dropout)
    check_range("lstm_layers", layers, fewest)
    check_range("lstm_size", size, 1)


def unread_between_layers(layers: int) -> dict[str, str]:
    """The dropout between the layers of a ``Context`` where there are not two, with the reason."""
    return {"dropout": f"lstm_layers={layers} (input_dropout comes before the first)"} if layers < 2 else {}


class Context(nn.Module):
    """What the tasks share above the encoder, which drops values itself: a BiLSTM, or nothing. In fp32.

    Args:
        width: Of the encoder's vectors.
        layers: Of the BiLSTM; 0 for none.
        size: Units of one direction.
        dropout: Share of values dropped between its layers.
    """

    def __init__(self, width: int, layers: int, size: int, dropout: float) -> None:
        super().__init__()
        self.bilstm = BiLSTM(width, size, layers, dropout) if layers else None
        self.output_dim = width if self.bilstm is None else self.bilstm.output_dim

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """From the encoder's vectors, (B, W, H), to h, (B, W, D)."""
        words = words.float()
        return words if self.bilstm is None else self.bilstm(words, mask)


class TagLayer(nn.Module):
    """A linear map to K scores a word, and a CRF or the softmax of each word above them. In fp32.

    Args:
        width: Of the vectors read, D.
        classes: K.
        decoder: ``crf`` or ``softmax``.
    """

    def __init__(self, width: int, classes: int, decoder: str) -> None:
        super().__init__()
        self.classifier = nn.Linear(width, classes)
        self.crf = LinearChainCRF(classes) if decoder == "crf" else None

    def scores(self, values: Tensor) -> Tensor:
        """One score a class, (B, W, K), from (B, W, D)."""
        with torch.autocast(values.device.type, enabled=False):
            scores: Tensor = self.classifier(values.float())
        return scores

    def loss(self, values: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
        """Negative log-likelihood of the gold classes, (B, W), summed over the real words."""
        scores = self.scores(values)
        if self.crf is None:
            return functional.cross_entropy(scores[mask], gold[mask], reduction="sum")
        return -self.crf.log_likelihood(scores, gold, mask).sum()

    def decode(self, values: Tensor, mask: Tensor, allowed: Tensor, moves: Moves | None) -> Decoded:
        """The best sequence among the allowed classes, (B, K), that keeps to ``moves``, with the probabilities.

        A CRF gives the marginal probability of each class, a softmax that of each word on its own.
        """
        scores = self.scores(values).masked_fill(~allowed[:, None], IMPOSSIBLE)
        if self.crf is None:
            return decode_words(torch.log_softmax(scores, dim=-1), mask, moves)
        tags = self.crf.viterbi(scores, mask, moves)
        return chosen(tags, self.crf.marginals(scores, mask), mask)


def decode_words(log_probabilities: Tensor, mask: Tensor, moves: Moves | None) -> Decoded:
    """The likeliest sequence that keeps to ``moves``, each word on its own.

    Args:
        log_probabilities: Of each word's tags, (B, W, K).
        mask: Where a word is, (B, W).
        moves: What is legal; None gives each word its likeliest tag.
    """
    tags = log_probabilities.argmax(dim=-1) if moves is None else viterbi(log_probabilities, mask, moves)
    return chosen(tags, log_probabilities.exp(), mask)


def chosen(tags: Tensor, probabilities: Tensor, mask: Tensor) -> Decoded:
    """Tags, (B, W), with the probabilities that each has among those of its word, (B, W, K)."""
    of_tags = probabilities.gather(2, tags[..., None])[..., 0]  # (B, W)
    return Decoded(unpad(tags, mask), unpad(of_tags, mask))
