"""Tag scores and the sequences they allow: a linear-chain CRF, Viterbi, and the layer that most taggers end with."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

# Dimensions of the tensors of a classifier and its CRF that count tags.
TAG_DIMENSIONS: dict[str, tuple[int, ...]] = {
    "classifier.weight": (0,),
    "classifier.bias": (0,),
    "crf.start": (0,),
    "crf.stop": (0,),
    "crf.transitions": (0, 1),
}

# So low that no such tag is ever chosen, and so high that sums of it stay finite in float32.
IMPOSSIBLE = -1e4


class Decoded(NamedTuple):
    """Decoded tags of a batch.

    Args:
        tags: Tag ids, one a word, for each sentence.
        probabilities: The tagger's probability of each of those tags.
    """

    tags: list[list[int]]
    probabilities: list[list[float]]


def unpad(values: Tensor, word_mask: Tensor) -> list[list[Any]]:
    """Cut padded rows, (B, W), to one list per sentence."""
    lengths = word_mask.sum(dim=1).tolist()
    return [row[:length] for row, length in zip(values.tolist(), lengths, strict=True)]


class Moves(NamedTuple):
    """Scores of a tag sequence besides its emissions.

    Args:
        start: Score of each first tag, (K,).
        transitions: Score of each pair of neighbours, (K, K): from, to.
        stop: Score of each last tag, (K,).
    """

    start: Tensor
    transitions: Tensor
    stop: Tensor


@torch.no_grad()
def viterbi(emissions: Tensor, mask: Tensor, moves: Moves) -> Tensor:
    """Find the best tag sequence of each sentence.

    Args:
        emissions: Scores of each tag at each word, (B, W, K).
        mask: True at words, (B, W); every sentence has at least one.

    Returns:
        Tag ids, (B, W); 0 after a sentence's words.
    """
    batch, words, _ = emissions.shape
    best = moves.start + emissions[:, 0]  # (B, K)
    came_from = []
    for word in range(1, words):
        best = best - best.amax(dim=1, keepdim=True)  # small numbers are exact, however many words there are
        values, previous = (best[:, :, None] + moves.transitions).max(dim=1)  # over the tag before: (B, K)
        best = torch.where(mask[:, word, None], values + emissions[:, word], best)
        came_from.append(previous)
    lengths = mask.sum(dim=1)
    tag = (best + moves.stop).argmax(dim=1)  # (B,)
    path = torch.zeros(batch, words, dtype=torch.long, device=emissions.device)
    for word in range(words - 1, 0, -1):
        path[:, word] = torch.where(mask[:, word], tag, 0)
        before = came_from[word - 1].gather(1, tag[:, None])[:, 0]
        tag = torch.where(word < lengths, before, tag)
    path[:, 0] = tag
    return path


class LinearChainCRF(nn.Module):
    """Linear-chain conditional random field, masked and exact.

    score(x, y) = start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_{t-1}, y_t] + stop[y_W]
    (Lample et al. 2016, section 2.2). Padding stands after the words of a sentence.

    Args:
        tags: Number of tags, K.
    """

    # Up to this spread of the transitions, sums of their exponentials lose nothing in float32.
    mild = 60.0

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.stop = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # from, to

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Compute the log-probability of each tag sequence.

        Args:
            emissions: Scores of each tag at each word, (B, W, K).
            tags: Tag ids, (B, W).
            mask: True at words, (B, W); every sentence has at least one.

        Returns:
            One number per sentence, (B,).
        """
        return self._score(emissions, tags, mask) - self._log_partition(emissions, mask)

    def _score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        lengths = mask.sum(dim=1)
        emitted = emissions.gather(2, tags[..., None])[..., 0]  # (B, W)
        moved = self.transitions[tags[:, :-1], tags[:, 1:]]  # (B, W-1)
        last = tags.gather(1, lengths[:, None] - 1)[:, 0]
        inside = torch.where(mask, emitted, 0).sum(dim=1) + torch.where(mask[:, 1:], moved, 0).sum(dim=1)
        return self.start[tags[:, 0]] + inside + self.stop[last]

    def _log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Run the forward algorithm over scores kept near zero, so that a thousand words are as exact as two.

        Where transitions differ little, the sums over previous tags are matrix products of exponentials. That is exact
        whatever the emissions: the likeliest previous tag alone adds exp(transition - highest transition) to a sum
        whose other terms are at most one, so no sum is too small for float32.
        """
        with torch.autocast(emissions.device.type, enabled=False):
            highest = self.transitions.detach().max()
            is_mild = bool(highest - self.transitions.detach().min() < self.mild)
            weights = (self.transitions - highest).exp()  # (K, K)
            alpha = self.start + emissions[:, 0]  # (B, K)
            total = torch.zeros_like(alpha[:, 0])  # (B,)
            for word in range(1, emissions.shape[1]):
                peak = alpha.detach().amax(dim=1, keepdim=True)
                alpha, total = alpha - peak, total + peak[:, 0]
                if is_mild:
                    reached = (alpha.exp() @ weights).log() + highest
                else:
                    reached = torch.logsumexp(alpha[:, :, None] + self.transitions, dim=1)
                alpha = torch.where(mask[:, word, None], reached + emissions[:, word], alpha)
            return torch.logsumexp(alpha + self.stop, dim=1) + total

    def viterbi(self, emissions: Tensor, mask: Tensor, moves: Moves | None = None) -> Tensor:
        """Best tag sequence of each sentence, (B, W), under the scores of ``moves`` too."""
        own = Moves(self.start, self.transitions, self.stop)
        both = own if moves is None else Moves(*(a + b for a, b in zip(own, moves, strict=True)))
        return viterbi(emissions, mask, both)

    @torch.enable_grad()
    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Probability of each tag at each word given the sentence, (B, W, K): the gradient of the log-partition."""
        emissions = emissions.detach().requires_grad_()
        with torch.autocast(emissions.device.type, enabled=False):  # it is left on by the caller
            (gradient,) = torch.autograd.grad(self._log_partition(emissions, mask).sum(), emissions)
        return gradient.clamp(0, 1)  # rounding errors of long sentences lead out of it


class TagLayer(nn.Module):
    """A linear map to K scores a word, with a CRF or a softmax a word above them. In fp32.

    Args:
        width: Width of the vectors read, D.
        classes: Number of classes, K.
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
        """Decode the best sequence among the allowed classes, (B, K), that keeps to ``moves``.

        Probabilities are marginals of the CRF, or those of a softmax a word.
        """
        scores = self.scores(values).masked_fill(~allowed[:, None], IMPOSSIBLE)
        if self.crf is None:
            return decode_words(torch.log_softmax(scores, dim=-1), mask, moves)
        tags = self.crf.viterbi(scores, mask, moves)
        return pair_probabilities(tags, self.crf.marginals(scores, mask), mask)

    def distributions(self, values: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """The probability of each allowed class of each word, (B, W, K), as ``decode`` gives it."""
        scores = self.scores(values).masked_fill(~allowed[:, None], IMPOSSIBLE)
        return torch.softmax(scores, dim=-1) if self.crf is None else self.crf.marginals(scores, mask)


def decode_words(log_probabilities: Tensor, mask: Tensor, moves: Moves | None) -> Decoded:
    """Decode the likeliest sequence that keeps to ``moves``, each word on its own.

    Args:
        log_probabilities: Log-probability of each tag of each word, (B, W, K).
        mask: True at words, (B, W).
        moves: Legal sequences; None gives each word its likeliest tag.
    """
    tags = log_probabilities.argmax(dim=-1) if moves is None else viterbi(log_probabilities, mask, moves)
    return pair_probabilities(tags, log_probabilities.exp(), mask)


def pair_probabilities(tags: Tensor, probabilities: Tensor, mask: Tensor) -> Decoded:
    """Pick the probability of each tag, (B, W), among those of its word, (B, W, K)."""
    of_tags = probabilities.gather(2, tags[..., None])[..., 0]  # (B, W)
    return Decoded(unpad(tags, mask), unpad(of_tags, mask))
