"""What taggers of words share between encoder and tags: a BiLSTM, and scores with a CRF or a softmax above them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.layers import IMPOSSIBLE, BiLSTM, Dropout, LinearChainCRF, Moves, viterbi
from crossner_cli.methods import Decoded, unpad


class Context(nn.Module):
    """What the tasks share above the encoder: dropout and a BiLSTM, or dropout alone. In fp32.

    Args:
        width: Of the encoder's vectors.
        layers: Of the BiLSTM; 0 for none.
        size: Units of one direction.
        dropout: Share of values dropped before the BiLSTM and between its layers.
    """

    def __init__(self, width: int, layers: int, size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.bilstm = BiLSTM(width, size, layers, dropout) if layers else None
        self.output_dim = width if self.bilstm is None else self.bilstm.output_dim

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """From the encoder's vectors, (B, W, H), to h, (B, W, D)."""
        words = self.dropout(words).float()
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
        if self.crf is not None:
            tags = self.crf.viterbi(scores, mask, moves)
            probabilities = self.crf.marginals(scores, mask)
        else:
            log_probabilities = torch.log_softmax(scores, dim=-1)
            tags = log_probabilities.argmax(dim=-1) if moves is None else viterbi(log_probabilities, mask, moves)
            probabilities = log_probabilities.exp()
        chosen = probabilities.gather(2, tags[..., None])[..., 0]  # (B, W)
        return Decoded(unpad(tags, mask), unpad(chosen, mask))
