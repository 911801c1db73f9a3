"""Masking for masked-language-model training: choosing subwords and replacing them.

Paper: Liu et al. (2021), CrossNER, domain-adaptive pre-training with token-level and span-level masking.
Differs: no subword is moved onto a special or padding position (the released code does). The paper states a share of
0.15; the released script sets 0.20 (--mask-rate 0.2), which its numbers probably come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

NOT_CHOSEN = -100
SHARE_MASKED, SHARE_RANDOM = 0.8, 0.1
Level = Literal["token", "span", "entity"]


def choose_tokens(special: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Choose each position independently; the number chosen varies from row to row.

    Args:
        special: True at special and padding positions, which are never chosen, (B, T).
        rate: Probability of each other position.
        generator: Draws on its own device, so that a seed gives the same choice on any device.

    Returns:
        True at chosen positions, (B, T).
    """
    draws = torch.rand(special.shape, generator=generator, device=generator.device)
    return (draws < rate).to(special.device) & ~special


def choose_units(special: Tensor, joins: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Choose each unit independently, all of its positions or none.

    A unit is the part of a name's mention that lies in a block, else one position; so a position has the same
    probability as in ``choose_tokens``.

    Args:
        special: True at special and padding positions, which are never chosen, (B, T).
        joins: True where a subword belongs to the unit of the subword before it, (B, T).

    Returns:
        True at chosen positions, (B, T).
    """
    draws = torch.rand(special.shape, generator=generator, device=generator.device).to(special.device)
    after_special = torch.cat((special.new_ones((len(special), 1)), special[:, :-1]), dim=1)
    places = torch.arange(special.shape[1], device=special.device).expand(special.shape)
    begins = ~joins | special | after_special
    first = torch.where(begins, places, 0).cummax(dim=1).values
    return (draws.gather(1, first) < rate) & ~special


def move_to_spans(chosen: Tensor, special: Tensor) -> Tensor:
    """Move chosen positions that stand alone to the right, next to the following chosen run.

    A row is read from left to right by runs of neighbouring chosen positions. A run of one becomes *pending* if none
    is. If one is pending, the next run of any length takes it: the pending position is given up, the place just before
    the run is chosen instead, and nothing is pending any more. A position pending at the end stays. If the place before
    the run is special, both stay and nothing is pending any more; in a row with special positions only at its ends and
    in its padding this does not occur.

    So a run is pending by its place among the neighbouring runs of one: every second of them is taken. This is computed
    for all rows at once.

    Args:
        chosen: True at chosen positions, none of which is special, (B, T).
        special: True at special and padding positions, (B, T).

    Returns:
        True at chosen positions, as many as before in every row, (B, T).
    """
    length = chosen.shape[1]
    edge = chosen.new_zeros((chosen.shape[0], 1))
    before = torch.cat((edge, chosen[:, :-1]), dim=1)
    after = torch.cat((chosen[:, 1:], edge), dim=1)
    starts = (chosen & ~before).flatten().nonzero().squeeze(1)  # (runs,), counted through the whole batch
    ends = (chosen & ~after).flatten().nonzero().squeeze(1)
    is_taken = _pending(starts == ends, starts // length)[:-1] & (starts[1:] // length == starts[:-1] // length)
    places = starts[1:] - 1
    is_taken &= ~special.flatten()[places]
    moved = chosen.flatten().clone()
    moved[starts[:-1][is_taken]] = False
    moved[places[is_taken]] = True
    return moved.view_as(chosen)


def _pending(is_single: Tensor, rows: Tensor) -> Tensor:
    """Find the runs that are pending after they were read: the first, third, … of neighbouring runs of one in a row."""
    numbers = torch.arange(len(rows), device=rows.device)
    opens = is_single.clone()
    opens[1:] &= ~is_single[:-1] | (rows[1:] != rows[:-1])
    first = torch.cummax(torch.where(opens, numbers, 0), dim=0).values
    return is_single & ((numbers - first) % 2 == 0)


def replace_subwords(
    input_ids: Tensor, chosen: Tensor, mask_id: int, vocabulary_size: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Put [MASK] on 80% of the chosen positions, a random subword on 10%, and leave 10% as they are.

    Each position is decided on its own. Random subwords come from the whole vocabulary, special ones included.

    Args:
        input_ids: Subword ids, (B, T); left unaltered.
        chosen: True at chosen positions, (B, T).

    Returns:
        The ids the encoder reads and the labels, both (B, T); labels are the original ids at chosen positions and
        -100 elsewhere.
    """
    device = generator.device
    kinds = torch.rand(input_ids.shape, generator=generator, device=device).to(input_ids.device)
    random_ids = torch.randint(vocabulary_size, input_ids.shape, generator=generator, device=device)
    is_masked = chosen & (kinds < SHARE_MASKED)
    is_random = chosen & (kinds >= SHARE_MASKED) & (kinds < SHARE_MASKED + SHARE_RANDOM)
    masked_ids = input_ids.masked_fill(is_masked, mask_id)
    masked_ids = torch.where(is_random, random_ids.to(input_ids), masked_ids)
    return masked_ids, input_ids.masked_fill(~chosen, NOT_CHOSEN)


def mask_block(
    input_ids: Tensor,
    *,
    level: Level,
    rate: float,
    special_ids: Sequence[int],
    mask_id: int,
    vocabulary_size: int,
    generator: torch.Generator,
    joins: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose and replace subwords in a batch of blocks.

    Args:
        input_ids: Subword ids, (B, T).
        level: ``token``: each position is chosen on its own; ``span``: they are then moved together; ``entity``: those
            of a mention are chosen together.
        joins: For ``entity``: True where a subword belongs to the mention of the subword before it, (B, T).

    Returns:
        The ids the encoder reads and the labels, -100 off the chosen positions, both (B, T).
    """
    special = torch.isin(input_ids, torch.tensor(special_ids, dtype=input_ids.dtype, device=input_ids.device))
    if level == "entity" and joins is not None:
        chosen = choose_units(special, joins, rate, generator)
    else:
        chosen = choose_tokens(special, rate, generator)
    if level == "span":
        chosen = move_to_spans(chosen, special)
    return replace_subwords(input_ids, chosen, mask_id, vocabulary_size, generator)
