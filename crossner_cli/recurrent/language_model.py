"""Language models over a BiLSTM: the forward half of a state predicts the next word, the backward half the previous.

Source: Jia, Liang and Zhang (2019), cross-domain NER using cross-domain language modelling; the sampled softmax, with
its log-uniform draws and their expected counts, as in their code.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.layers.crf import IMPOSSIBLE

END = 0  # number of the end and the beginning of a sentence, and of unknown words
LARGEST_SCORES = 2**24  # scores of a full softmax that are held at once


class SampledSoftmax(nn.Module):
    """Softmax over V+1 words that in training compares the right word with only a few drawn ones.

    The more frequent a word, the more often it is drawn: p = log((k+2)/(k+1)) / log(V+2) for rank k from 0.

    Args:
        words: V+1 numbers, 0 for unknown words and the end of a sentence.
        negatives: Distinct words drawn for all the targets of a call, at most all words.
        correct: Subtract from each score the logarithm of its word's expected count among the drawn ones.
    """

    ids_by_rank: Tensor
    rank_of_id: Tensor

    def __init__(self, words: int, size: int, negatives: int, correct: bool = True) -> None:
        super().__init__()
        self.words, self.negatives, self.correct = words, negatives, correct
        self.weight = nn.Parameter(torch.randn(words, size) / math.sqrt(size))
        self.bias = nn.Parameter(torch.zeros(words))
        # Without counts, a word's number is its rank.
        self.register_buffer("ids_by_rank", torch.arange(words))
        self.register_buffer("rank_of_id", torch.arange(words))

    def set_counts(self, counts: Tensor) -> None:
        """Rank the words by their counts, (V+1,), the most frequent first."""
        if counts.shape != self.ids_by_rank.shape:
            raise ValueError(f"counts of {self.words} words were expected, not of {tuple(counts.shape)}")
        self.ids_by_rank.copy_(counts.argsort(descending=True, stable=True))
        self.rank_of_id.copy_(self.ids_by_rank.argsort())

    def loss(self, states: Tensor, targets: Tensor) -> Tensor:
        """Return the negative log-probability of the target words, (N,), given vectors, (N, size), summed. In fp32."""
        with torch.autocast(states.device.type, enabled=False):
            states = states.float()
            if not self.training or self.negatives >= self.words:
                return self._full_loss(states, targets)
            ranks, tries = draw_distinct(self.words, self.negatives)
            return self._sampled_loss(states, targets, ranks.to(targets.device), tries)

    def _full_loss(self, states: Tensor, targets: Tensor) -> Tensor:
        rows = max(1, LARGEST_SCORES // self.words)
        losses = [
            functional.cross_entropy(functional.linear(some, self.weight, self.bias), of_some, reduction="sum")
            for some, of_some in zip(torch.split(states, rows), torch.split(targets, rows), strict=True)
        ]
        return torch.stack(losses).sum()

    def _sampled_loss(self, states: Tensor, targets: Tensor, ranks: Tensor, tries: int) -> Tensor:
        """Return the loss of the target, (N,), among it and the words of n ranks, (n,), drawn in that many tries."""
        drawn = self.ids_by_rank[ranks]  # (n,)
        ids = torch.cat([targets, drawn])  # looked up at once, since the table's gradient is as large as the table
        vectors, bias = functional.embedding(ids, self.weight), functional.embedding(ids, self.bias[:, None])[:, 0]
        if self.correct:
            bias = bias - (expected_counts(self.words, self.rank_of_id[ids], tries) + 1e-7).log()
        count = len(targets)
        right = (states * vectors[:count]).sum(dim=1) + bias[:count]  # (N,)
        wrong = torch.addmm(bias[count:], states, vectors[count:].T)  # (N, n)
        wrong = wrong.masked_fill(targets[:, None] == drawn, IMPOSSIBLE)
        return (torch.logsumexp(torch.cat([right[:, None], wrong], dim=1), dim=1) - right).sum()


def draw_distinct(words: int, count: int) -> tuple[Tensor, int]:
    """Draw ranks log-uniformly until ``count`` distinct ones are found.

    Returns:
        The distinct ranks, (count,), in the order of their first draw, and the number of tries.
    """
    ranks = torch.empty(0, dtype=torch.long)
    while True:
        more = torch.rand(2 * count + 2 * len(ranks), dtype=torch.float64) * math.log(words + 1)
        ranks = torch.cat([ranks, more.exp().long().clamp(1, words) - 1])
        in_order, places = ranks.sort(stable=True)
        is_first = torch.ones_like(in_order, dtype=torch.bool)
        is_first[1:] = in_order[1:] != in_order[:-1]
        first_places = places[is_first].sort().values
        if len(first_places) >= count:
            first_places = first_places[:count]
            return ranks[first_places], int(first_places[-1]) + 1


def expected_counts(words: int, ranks: Tensor, tries: int) -> Tensor:
    """Return the probability that a word of each rank, any shape, is drawn in that many tries, in (0, 1]."""
    rank = ranks.float() if ranks.device.type == "mps" else ranks.double()  # Apple's GPUs have no float64
    probability = torch.log1p(1 / (rank + 1)) / math.log(words + 1)  # of one try
    return -torch.expm1(tries * torch.log1p(-probability)).float()


def language_model_loss(head: SampledSoftmax, states: Tensor, word_ids: Tensor, mask: Tensor) -> Tensor:
    """Return the loss of both language models, summed over the real words: two predictions per word.

    Args:
        head: Shared by both.
        states: States of a BiLSTM of one layer, (B, W, 2 H), the forward half first.
        word_ids: Numbers of the words, (B, W).
        mask: True at words, (B, W).
    """
    real = torch.where(mask, word_ids, END)
    following = functional.pad(real[:, 1:], (0, 1), value=END)[mask]  # (N,)
    previous = functional.pad(real[:, :-1], (1, 0), value=END)[mask]
    forward, backward = states[mask].chunk(2, dim=1)  # (N, H) each
    return head.loss(forward, following) + head.loss(backward, previous)
