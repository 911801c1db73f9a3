"""Discriminators of domains, and the gradient reversal that trains the layers below against them.

Source: Ganin et al. (2016), domain-adversarial training of neural networks; Zhou et al. (2019), dual adversarial neural
transfer for low-resource NER, for the attention and the weighted loss (GRAD).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.layers.crf import IMPOSSIBLE


class ReversedGradient(torch.autograd.Function):
    """The identity, whose gradient is reversed and multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: Tensor) -> Tensor:
        """Return values of any shape unchanged."""
        ctx.save_for_backward(factor)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return minus the factor times the gradient."""
        return -ctx.saved_tensors[0] * gradient, None


def reverse_gradient(values: Tensor, factor: Tensor) -> Tensor:
    """Return values of any shape whose gradient will be multiplied by minus a factor."""
    reversing: Tensor = ReversedGradient.apply(values, factor)  # type: ignore[no-untyped-call]
    return reversing


class AttentiveDiscriminator(nn.Module):
    """Discriminator with attention over words: r = sigmoid(u . sum_t a_t h_t + c), a = softmax_t(v . tanh(A h_t + b)).

    r is the probability that a sentence is from the source.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1, bias=False))
        self.classifier = nn.Linear(width, 1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Turn states, (B, W, D), with a mask of words, (B, W), into the logits of r, (B,)."""
        shares = self.attention(states).masked_fill(~mask[..., None], IMPOSSIBLE).softmax(dim=1)  # (B, W, 1)
        logits: Tensor = self.classifier((shares * states).sum(dim=1))[:, 0]
        return logits


class MeanDiscriminator(nn.Module):
    """Discriminator with a hidden layer over the mean of a sentence's states.

    Args:
        width: Width of the states read, D; the hidden layer has half of it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = max(1, width // 2)
        self.classifier = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Turn states, (B, W, D), with a mask of words, (B, W), into the logits of the source, (B,)."""
        kept = mask[..., None]
        logits: Tensor = self.classifier((states * kept).sum(dim=1) / kept.sum(dim=1))[:, 0]
        return logits


def focal_loss(logits: Tensor, is_source: Tensor, alpha: float, gamma: float) -> Tensor:
    """The loss of GRAD summed over sentences, from the logits of r, (B,), and a mask of source sentences, (B,).

    A source sentence has -alpha (1-r)^gamma log r, a target sentence -(1-alpha) r^gamma log(1-r): the target, which has
    fewer sentences, weighs more, and sentences whose domain is hard to recognise weigh more than others.
    """
    right = torch.where(is_source, logits, -logits)  # its sigmoid is the probability of the right domain
    share = torch.where(is_source, alpha, 1 - alpha)
    # As an exponential: x ** gamma has no slope at 0 if gamma is below 1.
    weight = share * (gamma * functional.logsigmoid(-right)).exp()
    return -(weight * functional.logsigmoid(right)).sum()


def reversal_factor(progress: Tensor) -> Tensor:
    """The factor of the reversed gradient, 2 / (1 + exp(-10 p)) - 1, after a share p of the training."""
    return 2 * torch.sigmoid(10 * progress) - 1
