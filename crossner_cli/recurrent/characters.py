"""Vectors of words from their characters or character n-grams."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crossner_cli.layers.randomness import Dropout, isolate_draws

CHARACTER_WIDTH, KERNEL = 30, 3


class CharacterCNN(nn.Module):
    """One vector per word from its characters: a convolution, then the largest value of each filter.

    Ma and Hovy (2016), section 2.1.

    Args:
        characters: Distinct characters; number 0 is unknown.
        size: Filters.
    """

    def __init__(self, characters: int, size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.table = nn.Embedding(characters + 1, CHARACTER_WIDTH)
        nn.init.uniform_(self.table.weight, -((3 / CHARACTER_WIDTH) ** 0.5), (3 / CHARACTER_WIDTH) ** 0.5)
        self.dropout = Dropout(dropout)
        self.convolution = nn.Conv1d(CHARACTER_WIDTH, size, KERNEL, padding=KERNEL // 2)

    def forward(self, characters: Tensor, mask: Tensor) -> Tensor:
        """Read characters, (N, C), with a mask, (N, C); return (N, size)."""
        # (N, C, 30); padding is zero
        vectors = self.dropout(self.table(characters)) * mask[..., None]
        found = self.convolution(vectors.transpose(1, 2))  # (N, size, C)
        filters: Tensor = found.masked_fill(~mask[:, None], -torch.inf).amax(dim=2)
        return filters


class NgramMean(nn.Module):
    """One vector per word: the mean of the vectors of its known 2-, 3- and 4-grams (Hashimoto et al. 2017)."""

    def __init__(self, ngrams: int, size: int) -> None:
        super().__init__()
        with isolate_draws():
            self.table = nn.Embedding(ngrams + 1, size)
            nn.init.normal_(self.table.weight, std=0.1)

    def forward(self, ngrams: Tensor, mask: Tensor) -> Tensor:
        """Average n-grams, (N, C), under a mask, (N, C); return (N, size)."""
        kept = mask[..., None]
        mean: Tensor = (self.table(ngrams) * kept).sum(dim=1) / kept.sum(dim=1)
        return mean
