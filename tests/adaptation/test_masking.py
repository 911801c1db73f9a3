"""Masking: worked examples, an independent scan, and the properties every mask has."""

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
)

# Chosen positions before and after the move, and special ones, from the description of the released code.
WORKED_EXAMPLES: list[tuple[list[int], list[int], list[int]]] = [
    ([3, 9], [8, 9], []),
    ([2, 6, 10], [5, 6, 10], []),
    ([2, 5, 6, 9], [4, 5, 6, 9], []),
    ([2, 3, 7, 11], [2, 3, 10, 11], []),
    ([1, 3, 5, 7, 9], [2, 3, 6, 7, 9], []),
    ([2, 6, 7, 8, 12, 15], [5, 6, 7, 8, 14, 15], []),
    ([1, 2, 3, 6, 9, 12], [1, 2, 3, 8, 9, 12], []),
    ([3, 8], [7, 8], []),
    # A [SEP] and a chosen position behind it: 2 may not move to 4, and 5 does not wait for 8, but 8 waits for 11.
    ([2, 5, 8], [2, 5, 8], [4]),
    ([2, 5, 8, 11], [2, 5, 10, 11], [4]),
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


def runs(row: list[bool]) -> list[tuple[int, int]]:
    """(start, end) of each run, end exclusive."""
    starts = [i for i, here in enumerate(row) if here and (i == 0 or not row[i - 1])]
    ends = [i + 1 for i, here in enumerate(row) if here and (i + 1 == len(row) or not row[i + 1])]
    return list(zip(starts, ends, strict=True))


@st.composite
def masks_with_special(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    rows, length = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    cells = st.lists(st.sampled_from("..xxs"), min_size=rows * length, max_size=rows * length)
    letters = draw(cells)
    chosen = torch.tensor([letter == "x" for letter in letters]).view(rows, length)
    special = torch.tensor([letter == "s" for letter in letters]).view(rows, length)
    return chosen, special


@pytest.mark.parametrize(("before", "after", "special"), WORKED_EXAMPLES)
def test_the_move_gives_the_worked_examples(before, after, special):
    moved = move_to_spans(mask_of(before, 18), mask_of(special, 18))
    assert moved[0].nonzero().flatten().tolist() == after


def assert_moved_as_by_the_scan(chosen: Tensor, special: Tensor) -> None:
    rows = [scan(row, edge) for row, edge in zip(chosen.tolist(), special.tolist(), strict=True)]
    assert torch.equal(move_to_spans(chosen, special), torch.tensor(rows, dtype=torch.bool).view_as(chosen))


@pytest.mark.parametrize("length", range(1, 15))
def test_the_move_equals_the_scan_for_every_mask(length):
    chosen = (torch.arange(2**length).unsqueeze(1) >> torch.arange(length)) % 2 == 1
    assert_moved_as_by_the_scan(chosen, nothing_special(chosen))


@given(masks_with_special())
def test_the_move_equals_the_scan_keeps_the_number_chosen_and_never_takes_a_special_position(case):
    chosen, special = case
    assert_moved_as_by_the_scan(chosen, special)
    moved = move_to_spans(chosen, special)
    assert torch.equal(moved.sum(dim=1), chosen.sum(dim=1))
    assert not (moved & special).any()


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_runs_of_two_or_more_keep_their_positions_and_at_most_one_is_left_alone(row):
    chosen = torch.tensor([row])
    moved = move_to_spans(chosen, nothing_special(chosen))[0].tolist()
    assert all(all(moved[start:end]) for start, end in runs(row) if end - start > 1)
    assert sum(end - start == 1 for start, end in runs(moved)) <= 1


def test_tokens_are_chosen_at_the_rate_and_never_at_special_positions():
    special = torch.zeros(200, 512, dtype=torch.bool)
    special[:, [0, -1]] = True
    special[::2, 300:] = True
    chosen = choose_tokens(special, 0.15, seeded())
    assert not (chosen & special).any()
    assert chosen.sum() / (~special).sum() == pytest.approx(0.15, abs=0.005)
    assert chosen[1::2].sum(dim=1).unique().numel() > 1


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


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), rate=st.floats(0.01, 0.9))
def test_a_masked_block_keeps_its_special_subwords_and_every_other_label(seed, rate):
    ids = torch.randint(5, 100, (4, 32), generator=seeded(seed))
    ids[:, 0], ids[:, -1], ids[2, 20:] = 1, 2, 0
    special = ids < 3
    options = {"rate": rate, "special_ids": [0, 1, 2], "mask_id": 4, "vocabulary_size": 100}
    for level in ("token", "span"):
        masked, labels = mask_block(ids, level=level, generator=seeded(seed), **options)
        again, _ = mask_block(ids, level=level, generator=seeded(seed), **options)
        assert torch.equal(masked, again)
        assert torch.equal(masked[special], ids[special])
        assert (labels[special] == NOT_CHOSEN).all()
        assert torch.equal(torch.where(labels == NOT_CHOSEN, masked, labels), ids)


def test_both_levels_choose_the_same_number_at_other_places():
    ids = torch.randint(5, 100, (64, 128), generator=seeded())
    options = {"rate": 0.15, "special_ids": [0], "mask_id": 4, "vocabulary_size": 100}
    single, spans = (mask_block(ids, level=level, generator=seeded(3), **options)[1] for level in ("token", "span"))
    assert torch.equal((single != NOT_CHOSEN).sum(dim=1), (spans != NOT_CHOSEN).sum(dim=1))
    assert not torch.equal(single, spans)
