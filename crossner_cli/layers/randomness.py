"""Random numbers: dropout, and draws that leave later draws unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crossner_cli.layers.settings import check_rate


class Dropout(nn.Module):
    """Inverted dropout that draws eight decisions from one 64-bit random number on CPU.

    ``nn.Dropout`` draws one number a value from a generator that runs on one core, which costs as much as a matrix
    product of a small encoder. The rate is rounded to 1/256 and the scale follows the rounded rate, so the expected
    value is exact. On other devices it is ``nn.functional.dropout``.

    Args:
        rate: Share of values set to zero, in [0, 1).
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        check_rate(rate)
        self.p = rate

    def forward(self, values: Tensor) -> Tensor:
        """Drop values of any shape while training."""
        if not self.training or self.p == 0:
            return values
        if values.device.type != "cpu":
            return nn.functional.dropout(values, self.p)
        dropped = min(255, round(self.p * 256))  # of 256 byte values
        count = values.numel()
        words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        keep = (words.view(torch.uint8)[:count] >= dropped).view(values.shape)
        return values * keep.to(values.dtype).mul_(256 / (256 - dropped))


@contextmanager
def isolate_draws() -> Iterator[None]:
    """Let the draws inside advance the random number generator by one draw, however many they are.

    So a vocabulary that grows by words outside the training sentences, such as those of another test set, leaves all
    other initial weights as they were.
    """
    seed = int(torch.randint(2**62, ()))
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def repeat_first_row(value: Tensor) -> None:
    """Set all rows of a parameter, (N, ...), to its first one."""
    with torch.no_grad():
        value.copy_(value[:1].expand_as(value))
