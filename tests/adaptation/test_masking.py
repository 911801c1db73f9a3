"""Masking: worked examples, an independent scan, and the properties every mask has."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossner_cli.adaptation.masking import (
    NOT_CHOSEN,
    choose_tokens,
    mask_block,
    move_to_spans,
    replace_subwords,
    special_positions,
)

# Chosen positions before and after the move, from the description of the released code.
WORKED_EXAMPLES = [
    ([3, 9], [8, 9]),
    ([2, 6, 10], [5, 6, 10]),
    ([2, 5, 6, 9], [4, 5, 6, 9]),
    ([2, 3, 7, 11], [2, 3, 10, 11]),
    ([1, 3, 5, 7, 9], [2, 3, 6, 7, 9]),
    ([2, 6, 7, 8, 12, 15], [5, 6, 7, 8, 14, 15]),
    ([1, 2, 3, 6, 9, 12], [1, 2, 3, 8, 9, 12]),
    ([3, 8], [7, 8]),
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def nothing_special(chosen: Tensor) -> Tensor:
    return torch.zeros_like(chosen)


def mask_of(positions: list[int], length: int) -> Tensor:
    row = torch.zeros(1, length, dtype=torch.bool)
    row[0, positions] = True
    return row


def scan(chosen: list[bool], special: list[bool]) -> list[bool]:
    """The move as one loop from left to right, written without a look at the vectorised one."""
    moved, pending, position = list(chosen), None, 0
    while position < len(chosen):
        if not chosen[position]:
            position += 1
            continue
        start = position
        while position < len(chosen) and chosen[position]:
            position += 1
        if pending is not None:
            if not special[start - 1]:
                moved[pending], moved[start - 1] = False, True
            pending = None
        elif position - start == 1:
            pending = start
    return moved


def scan_rows(chosen: Tensor, special: Tensor) -> Tensor:
    rows = [scan(row, edge) for row, edge in zip(chosen.tolist(), special.tolist(), strict=True)]
    return torch.tensor(rows, dtype=torch.bool).view_as(chosen)


def runs(row: list[bool]) -> list[tuple[int, int]]:
    """(start, end) of each run, end exclusive."""
    starts = [i for i, here in enumerate(row) if here and (i == 0 or not row[i - 1])]
    ends = [i + 1 for i, here in enumerate(row) if here and (i + 1 == len(row) or not row[i + 1])]
    return list(zip(starts, ends, strict=True))


masks = st.lists(st.booleans(), min_size=1, max_size=60)


@st.composite
def masks_with_special(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    rows, length = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    cells = st.lists(st.sampled_from("..xxs"), min_size=rows * length, max_size=rows * length)
    letters = draw(cells)
    chosen = torch.tensor([letter == "x" for letter in letters]).view(rows, length)
    special = torch.tensor([letter == "s" for letter in letters]).view(rows, length)
    return chosen, special


@pytest.mark.parametrize(("before", "after"), WORKED_EXAMPLES)
def test_the_move_gives_the_worked_examples(before, after):
    chosen = mask_of(before, 18)
    assert move_to_spans(chosen, nothing_special(chosen))[0].nonzero().flatten().tolist() == after


@pytest.mark.parametrize("length", range(1, 15))
def test_the_move_equals_the_scan_for_every_mask(length):
    chosen = (torch.arange(2**length).unsqueeze(1) >> torch.arange(length)) % 2 == 1
    special = nothing_special(chosen)
    assert torch.equal(move_to_spans(chosen, special), scan_rows(chosen, special))


@pytest.mark.parametrize("rate", [0.02, 0.15, 0.2, 0.5, 0.9])
def test_the_move_equals_the_scan_for_long_masks(rate):
    chosen = torch.rand(32, 510, generator=seeded()) < rate
    special = nothing_special(chosen)
    assert torch.equal(move_to_spans(chosen, special), scan_rows(chosen, special))


@given(masks_with_special())
def test_the_move_equals_the_scan_where_special_positions_are_anywhere(case):
    chosen, special = case
    assert torch.equal(move_to_spans(chosen, special), scan_rows(chosen, special))


def test_a_move_onto_a_special_position_is_left_out_and_ends_the_wait():
    # Positions 4 and 5 are a [SEP] and a chosen position behind it: 2 may not move to 4, and 5 does not wait for 8.
    chosen, special = mask_of([2, 5, 8], 10), mask_of([4], 10)
    assert move_to_spans(chosen, special)[0].nonzero().flatten().tolist() == [2, 5, 8]
    # The next run of one after the skipped move waits again.
    chosen, special = mask_of([2, 5, 8, 11], 12), mask_of([4], 12)
    assert move_to_spans(chosen, special)[0].nonzero().flatten().tolist() == [2, 5, 10, 11]


@given(masks_with_special())
def test_the_move_keeps_the_number_chosen_and_never_takes_a_special_position(case):
    chosen, special = case
    moved = move_to_spans(chosen, special)
    assert torch.equal(moved.sum(dim=1), chosen.sum(dim=1))
    assert not (moved & special).any()


@given(masks)
def test_runs_of_two_or_more_keep_their_positions_and_at_most_one_is_left_alone(row):
    chosen = torch.tensor([row])
    moved = move_to_spans(chosen, nothing_special(chosen))[0].tolist()
    assert all(all(moved[start:end]) for start, end in runs(row) if end - start > 1)
    assert sum(end - start == 1 for start, end in runs(moved)) <= 1


@pytest.mark.parametrize(("rate", "before", "after"), [(0.2, 0.36, 0.996), (0.15, 0.277, 0.994)])
def test_the_move_brings_nearly_all_chosen_positions_into_runs(rate, before, after):
    chosen = choose_tokens(torch.zeros(400, 510, dtype=torch.bool), rate, seeded())

    def share_in_runs(rows: Tensor) -> float:
        found = [end - start for row in rows.tolist() for start, end in runs(row)]
        return sum(length for length in found if length > 1) / sum(found)

    assert share_in_runs(chosen) == pytest.approx(before, abs=0.01)
    assert share_in_runs(move_to_spans(chosen, nothing_special(chosen))) == pytest.approx(after, abs=0.002)


def test_tokens_are_chosen_at_the_rate_and_never_at_special_positions():
    special = torch.zeros(200, 512, dtype=torch.bool)
    special[:, [0, -1]] = True
    special[::2, 300:] = True
    chosen = choose_tokens(special, 0.15, seeded())
    assert not (chosen & special).any()
    assert chosen.sum() / (~special).sum() == pytest.approx(0.15, abs=0.005)
    assert chosen[1::2].sum(dim=1).unique().numel() > 1


def test_special_positions_are_those_of_the_given_ids():
    ids = torch.tensor([[101, 7, 100, 102, 0]])
    assert special_positions(ids, [101, 102, 0]).tolist() == [[True, False, False, True, True]]
    assert not special_positions(ids, []).any()


def test_replacement_shares_are_eighty_ten_ten():
    ids = torch.full((400, 500), 7)
    chosen = choose_tokens(torch.zeros(400, 500, dtype=torch.bool), 0.5, seeded())
    masked, labels = replace_subwords(ids, chosen, 3, 1000, seeded(1))
    there = masked[chosen]
    assert (there == 3).float().mean().item() == pytest.approx(0.8 + 0.1 / 1000, abs=0.005)
    assert (there == 7).float().mean().item() == pytest.approx(0.1 + 0.1 / 1000, abs=0.005)
    random_ids = there[(there != 3) & (there != 7)]
    assert random_ids.min() == 0
    assert random_ids.max() == 999
    assert random_ids.float().mean().item() == pytest.approx(499.5, abs=10)
    assert torch.equal(masked[~chosen], ids[~chosen])
    assert torch.equal(labels != NOT_CHOSEN, chosen)
    assert torch.equal(labels[chosen], ids[chosen])


@pytest.mark.parametrize("level", ["token", "span"])
@settings(max_examples=20)
@given(seed=st.integers(0, 1000), rate=st.floats(0.01, 0.9))
def test_a_masked_block_keeps_its_special_subwords_and_every_other_label(level, seed, rate):
    ids = torch.randint(5, 100, (4, 32), generator=seeded(seed))
    ids[:, 0], ids[:, -1], ids[2, 20:] = 1, 2, 0
    options = {"level": level, "rate": rate, "special_ids": [0, 1, 2], "mask_id": 4, "vocabulary_size": 100}
    masked, labels = mask_block(ids, generator=seeded(seed), **options)
    again, _ = mask_block(ids, generator=seeded(seed), **options)
    assert torch.equal(masked, again)
    special = special_positions(ids, [0, 1, 2])
    assert torch.equal(masked[special], ids[special])
    assert (labels[special] == NOT_CHOSEN).all()
    assert torch.equal(torch.where(labels == NOT_CHOSEN, masked, labels), ids)


def test_both_levels_choose_the_same_number():
    ids = torch.randint(5, 100, (64, 128), generator=seeded())
    options = {"rate": 0.15, "special_ids": [0], "mask_id": 4, "vocabulary_size": 100}
    _, single = mask_block(ids, level="token", generator=seeded(3), **options)
    _, spans = mask_block(ids, level="span", generator=seeded(3), **options)
    assert torch.equal((single != NOT_CHOSEN).sum(dim=1), (spans != NOT_CHOSEN).sum(dim=1))
    assert not torch.equal(single, spans)


def test_a_batch_is_masked_in_a_few_milliseconds():
    ids = torch.randint(5, 30_000, (64, 128), generator=seeded())
    options = {"rate": 0.15, "special_ids": [0, 101, 102], "mask_id": 103, "vocabulary_size": 30_522}
    seconds = []
    for seed in range(20):
        started = time.perf_counter()
        mask_block(ids, level="span", generator=seeded(seed), **options)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.005  # about 0.6 ms on one core; the margin is for a busy machine
