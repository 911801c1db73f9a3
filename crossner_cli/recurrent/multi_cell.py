"""The multi-cell compositional LSTM: entity type cells, a compositional cell, and attention between them.

Paper: Jia and Zhang (2020), Multi-Cell Compositional LSTM for NER Domain Adaptation, section 3 (equations 3 to 7).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from crossner_cli.recurrent.bilstm import mirrored_places
from crossner_cli.recurrent.multi_cell_recurrence import DIRECTIONS, Recurrence, take_rows


class MultiCellStates(NamedTuple):
    """Results of the recurrence; meaningless outside the words, except for the zeros of ``hidden``.

    Args:
        hidden: h of each word, forward then backward, (B, W, 2 H).
        attention: Scores I_k of each word before the softmax, (B, W, 2, l).
        cells: c_k of each step, (2, W, B, l, H), in the order of the steps, since it is 10 times as large as h.
        steps: Rows of a flattened (2, W, B) that read each word, (B, W, 2).
    """

    hidden: Tensor
    attention: Tensor
    cells: Tensor
    steps: Tensor

    def in_words(self, values: Tensor) -> Tensor:
        """Put values computed from ``cells`` in the words' order, from (2, W, B, ...) to (B, W, 2, ...)."""
        return take_rows(values.flatten(0, 2), self.steps)


class MultiCellLSTM(nn.Module):
    """A bidirectional layer with one cell per entity type.

    Under bf16 autocast its large matrix products, their results and most tensors kept for the backward pass are bf16;
    states, gates and attention are computed in the precision of the weights.

    Args:
        width: Width of the vectors read, d.
        hidden: Units of one direction, H.
        cells: Entity type cells in all.
        attentions: Sets of attention weights: 1, or one per domain.
    """

    def __init__(self, width: int, hidden: int, cells: int, attentions: int = 1) -> None:
        super().__init__()
        self.hidden, self.output_dim = hidden, DIRECTIONS * hidden

        def uniform(*shape: int, limit: float) -> Tensor:
            return torch.empty(*shape).uniform_(-limit, limit)

        def affine(count: int, size: int) -> Tensor:
            """Weights of [h; w; 1], drawn as the released code's linear layers are: each by the width it reads."""
            of_state = uniform(count, DIRECTIONS, hidden, size, limit=hidden**-0.5)
            return torch.cat([of_state, uniform(count, DIRECTIONS, width + 1, size, limit=width**-0.5)], dim=2)

        self.type_gate = nn.Parameter(affine(cells, hidden))  # of i_k: (cells, 2, H + d + 1, H)
        self.type_candidate = nn.Parameter(affine(cells, hidden))  # of c~_k, likewise
        self.shared_gates = nn.Parameter(affine(1, 2 * hidden)[0])  # of i and o: (2, H + d + 1, 2 H)
        self.shared_candidate = nn.Parameter(affine(1, hidden)[0])  # of c~~: (2, H + d + 1, H)
        self.query, self.key = (  # P and Q
            nn.Parameter(uniform(attentions, DIRECTIONS, hidden, 2 * hidden, limit=hidden**-0.5)) for _ in range(2)
        )
        self.score = nn.Parameter(uniform(attentions, DIRECTIONS, 2 * hidden, limit=(2 * hidden) ** -0.5))  # v

    def forward(self, words: Tensor, mask: Tensor, cells: Tensor, attention: int = 0) -> MultiCellStates:
        """Read sentences of one domain.

        Args:
            words: One vector per word, (B, W, d).
            mask: True at words, (B, W); padding comes last.
            cells: Numbers of the domain's entity type cells, (l,); no other cell takes part.
        """
        device, dtype = words.device.type, self.score.dtype
        in_bf16 = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
        order = Order.from_mask(mask)
        with torch.autocast(device, enabled=False):
            weight = self._weight(cells, torch.bfloat16 if in_bf16 else dtype)
            attending = (value[attention] for value in (self.query, self.key, self.score))
            hidden, scores, contents = Recurrence.apply(  # type: ignore[no-untyped-call]
                words.to(dtype), weight, *attending, order.words, len(cells)
            )
            hidden, scores = (take_rows(value.flatten(0, 2), order.steps) for value in (hidden, scores))
            return MultiCellStates(hidden.flatten(2) * mask[..., None], scores, contents, order.steps)

    def _weight(self, cells: Tensor, dtype: torch.dtype) -> Tensor:
        """All affine maps of [h; w; 1], (2, H + d + 1, G), in the order of ``split_columns``."""
        # Unbound, so that the gradients of types are copied; those of a selection would be added up number by number.
        run = cells.tolist()
        enter, candidates = (
            [of_type[cell] for cell in run] for of_type in (self.type_gate.unbind(), self.type_candidate.unbind())
        )
        return torch.cat([*enter, self.shared_gates, *candidates, self.shared_candidate], dim=2).to(dtype)


class Order(NamedTuple):
    """The order in which steps read words; the backward direction begins at each sentence's last word.

    Args:
        words: Rows of a flattened (B, W) that each step reads, (2, W, B).
        steps: Rows of a flattened (2, W, B) that read each word, (B, W, 2).
    """

    words: Tensor
    steps: Tensor

    @classmethod
    def from_mask(cls, mask: Tensor) -> Order:
        """The order in which sentences, (B, W), are read."""
        batch, width = mask.shape
        place, sentence = torch.arange(width, device=mask.device), torch.arange(batch, device=mask.device)[:, None]
        turned = mirrored_places(mask)
        places = torch.stack([place.expand_as(turned), turned])  # (2, B, W)
        direction = torch.arange(DIRECTIONS, device=mask.device)[:, None, None]
        steps = (direction * width + places) * batch + sentence
        return cls((sentence * width + places).transpose(1, 2).contiguous(), steps.permute(1, 2, 0))
