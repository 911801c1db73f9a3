"""Layers that at least two methods use. Batch first, always."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from crossner_cli.errors import CrossNERError


def check_rate(rate: float, name: str = "dropout") -> None:
    """Refuse a setting that is no dropout rate.

    Raises:
        CrossNERError: The rate is not in [0, 1).
    """
    if not 0 <= rate < 1:
        raise CrossNERError(
            f"A dropout rate of {rate} ({name}) is not in [0, 1).", hint=f"Give a share, as --set {name}=0.1."
        )


def check_range(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Refuse a setting that is no finite number from ``least`` to ``most``.

    Raises:
        CrossNERError: It is not.
    """
    if not (least <= value <= most and math.isfinite(value)):
        wanted = f"at least {least}" if most == math.inf else f"from {least} to {most}"
        raise CrossNERError(f"{name}={value} is not {wanted}.", hint=f"Give a number {wanted}: --set {name}={least}.")


class Dropout(nn.Module):
    """Inverted dropout that draws eight decisions from one 64-bit random number on CPU.

    ``nn.Dropout`` draws one number a value from a generator that runs on one core, which costs as much as a matrix
    product of a small encoder. The rate is rounded to 1/256 and the scale follows the rounded rate, so the expected
    value is exact. On other devices it is ``nn.functional.dropout``.

    Args:
        rate: Share of values set to zero, in [0, 1).

    Raises:
        CrossNERError: The rate is not in [0, 1).
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        check_rate(rate)
        self.p = rate

    def forward(self, values: Tensor) -> Tensor:
        """Drop values while training; any shape."""
        if not self.training or self.p == 0:
            return values
        if values.device.type != "cpu":
            return nn.functional.dropout(values, self.p)
        dropped = min(255, round(self.p * 256))  # of 256 byte values
        count = values.numel()
        words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        keep = (words.view(torch.uint8)[:count] >= dropped).view(values.shape)
        return values * keep.to(values.dtype).mul_(256 / (256 - dropped))

    def extra_repr(self) -> str:
        """The rate, as ``nn.Dropout`` shows it."""
        return f"p={self.p}"


@contextmanager
def drawn_apart() -> Iterator[None]:
    """Let what is drawn inside move the random numbers behind it by one draw, however many are drawn.

    So a vocabulary that grows by words that are not trained on, as those of another test set, changes nothing else.
    """
    seed = int(torch.randint(2**62, ()))
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def begin_alike(value: Tensor) -> None:
    """Let all rows of a parameter, (N, ...), begin as its first one."""
    with torch.no_grad():
        value.copy_(value[:1].expand_as(value))


class BiLSTM(nn.Module):
    """Bidirectional LSTM over words, in fp32, that neither reads nor is read through padding.

    Args:
        width: Of the vectors read.
        hidden: Units of one direction, H.
        layers: One above the other.
        dropout: Share of the values dropped between two layers.
    """

    def __init__(self, width: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True, dropout=between)
        self.between = Dropout(between)
        self.output_dim = 2 * hidden

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """Read sentences.

        Args:
            values: One vector a word, (B, W, D).
            mask: Where a word is, (B, W); every sentence has at least one, padding stands behind.

        Returns:
            One vector a word, (B, W, 2 H); zeros where no word is.
        """
        with torch.autocast(values.device.type, enabled=False):
            if trains_faster_mirrored(values, mask):
                return self._mirrored(values.float(), mask)
            return run_packed(lambda packed: self.lstm(packed)[0], values.float(), mask)

    def _mirrored(self, values: Tensor, mask: Tensor) -> Tensor:
        weights = self.lstm.all_weights  # of each layer's forward, then its backward direction
        for layer in range(self.lstm.num_layers):
            read = self.between(values) if layer else values
            values = run_mirrored([*weights[2 * layer], *weights[2 * layer + 1]], read, mask)
        return values


def run_packed(read: Callable[[PackedSequence], PackedSequence], values: Tensor, mask: Tensor) -> Tensor:
    """Let something read sentences, (B, W, D), packed, and pad what it gives, (B, W, E), with zeros."""
    packed = pack_padded_sequence(values, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(read(packed), batch_first=True, total_length=mask.shape[1])[0]


def trains_faster_mirrored(values: Tensor, mask: Tensor) -> bool:
    """Whether an LSTM is trained faster over padded sentences, each direction on its own, than over packed ones.

    On a CPU the kernels for what is packed take twice the time unless all sentences are as long; where most of a batch
    is padding they still win.
    """
    return values.device.type == "cpu" and torch.is_grad_enabled() and 2 * int(mask.sum()) >= mask.numel()


def mirrored_places(mask: Tensor) -> Tensor:
    """Where each word stands when its sentence is read backward, (B, W); padding stays where it is. Its own inverse."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - places, places)


def run_mirrored(parameters: Sequence[Tensor], values: Tensor, mask: Tensor) -> Tensor:
    """Run a bidirectional LSTM layer whose backward direction reads each sentence turned round, from its own end on.

    So neither direction reads padding before a word, and each is one call of a fast kernel.

    Args:
        parameters: As ``nn.LSTM`` orders those of a layer: four tensors of the forward direction, four of the backward.
        values: One vector a word, (B, W, D).
        mask: Where a word is, (B, W); padding stands behind.

    Returns:
        One vector a word, (B, W, 2 H); zeros where no word is.

    Raises:
        ValueError: The vectors are of another width than the layer reads; the kernel itself would read beside them.
    """
    if values.shape[-1] != parameters[0].shape[1]:
        raise ValueError(f"vectors of {values.shape[-1]} values, and the layer reads {parameters[0].shape[1]}")
    start = values.new_zeros(2, len(values), parameters[1].shape[1])
    if bool(mask.all()):
        return torch.lstm(values, (start, start), list(parameters), True, 1, 0.0, True, True, True)[0]
    rows = (mirrored_places(mask) + mask.shape[1] * torch.arange(len(mask))[:, None]).flatten()
    states = []
    for direction, read in enumerate((values, values.flatten(0, 1)[rows].view_as(values))):
        of_direction = list(parameters[4 * direction : 4 * direction + 4])
        states.append(torch.lstm(read, (start[:1], start[:1]), of_direction, True, 1, 0.0, True, False, True)[0])
    backward = states[1].flatten(0, 1)[rows].view_as(states[1])
    return torch.cat([states[0], backward], dim=2).masked_fill(~mask[..., None], 0)


# Low enough that no tag so marked is ever chosen, high enough that sums of it stay finite in float32.
IMPOSSIBLE = -1e4


class Decoded(NamedTuple):
    """What a tagger says of a batch.

    Args:
        tags: Tag ids, one a word, for each sentence.
        probabilities: Probability the tagger gives to each of those tags, likewise.
    """

    tags: list[list[int]]
    probabilities: list[list[float]]


def unpad(values: Tensor, word_mask: Tensor) -> list[list[Any]]:
    """Cut padded rows, (B, W), to one list a sentence."""
    lengths = word_mask.sum(dim=1).tolist()
    return [row[:length] for row, length in zip(values.tolist(), lengths, strict=True)]


class Moves(NamedTuple):
    """Scores of a tag sequence besides its emissions.

    Args:
        start: Of each first tag, (K,).
        transitions: Of each tag after each other, (K, K): from, to.
        stop: Of each last tag, (K,).
    """

    start: Tensor
    transitions: Tensor
    stop: Tensor


@torch.no_grad()
def viterbi(emissions: Tensor, mask: Tensor, moves: Moves) -> Tensor:
    """Best tag sequence of each sentence.

    Args:
        emissions: Scores of each tag at each word, (B, W, K).
        mask: Where a word is, (B, W); every sentence has at least one.
        moves: Scores of first tags, neighbours and last tags.

    Returns:
        Tag ids, (B, W); 0 behind a sentence's words.
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
    (Lample et al. 2016, section 2.2). Padding stands behind the words of a sentence.

    Args:
        tags: Number of tags, K.
    """

    impossible = IMPOSSIBLE
    # Spread of the transitions up to which sums of their exponentials lose nothing in float32.
    mild = 60.0

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.stop = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # from, to

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Log-probability of each tag sequence.

        Args:
            emissions: Scores of each tag at each word, (B, W, K).
            tags: Tag ids, (B, W).
            mask: Where a word is, (B, W); every sentence has at least one.

        Returns:
            One number a sentence, (B,).
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
        """Forward algorithm over scores kept near zero, so that a thousand words are as exact as two.

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
        """Best tag sequence of each sentence, (B, W), among those that ``moves`` does not rule out."""
        own = Moves(self.start, self.transitions, self.stop)
        return viterbi(
            emissions, mask, own if moves is None else Moves(*(a + b for a, b in zip(own, moves, strict=True)))
        )

    @torch.enable_grad()
    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Probability of each tag at each word given the sentence, (B, W, K): the gradient of the log-partition."""
        emissions = emissions.detach().requires_grad_()
        with torch.autocast(emissions.device.type, enabled=False):  # a gradient is computed as its caller computes
            (gradient,) = torch.autograd.grad(self._log_partition(emissions, mask).sum(), emissions)
        return gradient.clamp(0, 1)  # rounding errors of long sentences lead out of it
