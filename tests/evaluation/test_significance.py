"""Significance of differences: equal to plain loops, right in size where nothing differs, and finding what does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from builders.runs import TYPES, damage, random_gold

from crossner_cli.evaluation import significance
from crossner_cli.evaluation.scores import Mode, read_entities, score
from crossner_cli.evaluation.significance import (
    EntityCounts,
    adjust_for_many,
    compare_counts,
    permute_runs,
    resample_f1,
    sentence_weights,
    swap_sentences,
)

Counts = np.ndarray[Any, Any]


def count(gold: list[Any], sides: list[list[Any]], mode: Mode = "conll") -> EntityCounts:
    """Counts by the plainest of loops."""
    right, *found = ([set(spans) for spans in read_entities(side, mode=mode, scheme="bio")] for side in (gold, *sides))

    def table(sentences: list[set[Any]]) -> list[list[int]]:
        return [[len(each), *(sum(span.type == name for span in each) for name in TYPES)] for each in sentences]

    return EntityCounts(
        np.array([table([one & other for one, other in zip(side, right, strict=True)]) for side in found]),
        np.array([table(side) for side in found]),
        np.array(table(right)),
    )


@pytest.fixture(scope="module")
def small() -> tuple[EntityCounts, EntityCounts, list[Any], list[list[Any]]]:
    """Two runs against one on nine sentences, with the tags behind."""
    _, gold = random_gold(9)
    sides = [damage(gold, share, seed) for seed, share in enumerate((0.2, 0.3, 0.4))]
    return count(gold, sides[:2]), count(gold, sides[2:]), gold, sides


@pytest.mark.parametrize(("sentences", "differing"), [(2, 2), (5, 5), (200, 4), (200, 5)])
def test_few_sentences_that_differ_make_no_small_p(sentences: int, differing: int) -> None:
    """All of them for one side: a coin says so with p = 2 / 2**differing, however many others are alike."""
    gold = np.ones((sentences, 1), dtype=int)
    right, wrong = gold[None], (np.arange(sentences) >= differing).astype(int)[None, :, None]
    found = compare_counts(EntityCounts(right, right, gold), EntityCounts(wrong, right, gold))
    assert found.interval.p[0] == pytest.approx(2 / 2**differing, abs=0.02)
    assert found.of_these.p[0] < found.interval.p[0] == found.randomisation[0]


@pytest.mark.parametrize("mode", ["conll", "strict"])
def test_a_resample_scores_what_its_sentences_score_when_written_out(mode: Mode) -> None:
    _, gold = random_gold(9)
    sides = [damage(gold, share, seed) for seed, share in enumerate((0.2, 0.3, 0.4))]
    one, other = count(gold, sides[:2], mode), count(gold, sides[2:], mode)
    drawn = np.concatenate(resample_f1((one, other), 6, np.random.default_rng(3)), axis=1)
    weights = np.concatenate(list(sentence_weights(9, 6, np.random.default_rng(3))))
    assert weights.sum(axis=1).tolist() == [9] * 6
    for sample, times in zip(drawn, weights, strict=True):
        chosen = np.repeat(np.arange(9), times)
        for side, found in zip(sides, sample, strict=True):
            scores = score([gold[place] for place in chosen], [side[place] for place in chosen], mode=mode)
            assert found[0] == pytest.approx(scores.f1)
            by_type = [scores.per_type[name].f1 if name in scores.per_type else 0.0 for name in TYPES]
            assert found[1:] == pytest.approx(by_type)


def test_resamples_drawn_in_parts_are_as_many_and_as_large(monkeypatch: pytest.MonkeyPatch, small: Any) -> None:
    monkeypatch.setattr(significance, "CELLS_AT_ONCE", 20)  # two resamples a part
    parts = list(sentence_weights(9, 7, np.random.default_rng(0)))
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    assert np.concatenate(parts).sum(axis=1).tolist() == [9] * 7
    assert len(resample_f1(small[:2], 7, np.random.default_rng(0))[0]) == 7
    assert (swap_sentences(*small[:2], 7, np.random.default_rng(0)) <= 1).all()


def test_counts_too_large_for_short_numbers_are_resampled_exactly() -> None:
    large = np.full((1, 4, 1), 2**23 + 1)
    side = EntityCounts(large, large + 1, large[0])
    drawn, _ = resample_f1((side, side), 3, np.random.default_rng(0))
    assert drawn.ravel() == pytest.approx([200 * (2**23 + 1) / (2**24 + 3)] * 3, rel=1e-15)


def test_randomisation_agrees_with_all_ways_to_swap(small: Any) -> None:
    _, _, gold, sides = small
    one, other = count(gold, sides[:1]), count(gold, sides[2:])
    observed = abs(score(gold, sides[0]).f1 - score(gold, sides[2]).f1)
    as_far = 0
    for swapped in product([False, True], repeat=len(gold)):
        mine = [sides[2 if swap else 0][place] for place, swap in enumerate(swapped)]
        theirs = [sides[0 if swap else 2][place] for place, swap in enumerate(swapped)]
        as_far += abs(score(gold, mine).f1 - score(gold, theirs).f1) >= observed - 1e-9
    found = swap_sentences(one, other, 20_000, np.random.default_rng(0))[0]
    assert found == pytest.approx(as_far / 2 ** len(gold), abs=0.015)


def test_permutation_of_runs_agrees_with_all_ways_and_tells_the_smallest_p() -> None:
    _, gold = random_gold(30)
    sides = [damage(gold, 0.15 + 0.03 * seed, seed) for seed in range(6)]
    scores = [score(gold, side).f1 for side in sides]
    differences = []
    for chosen in combinations(range(6), 3):
        others = [place for place in range(6) if place not in chosen]
        differences.append(np.mean([scores[place] for place in chosen]) - np.mean([scores[place] for place in others]))
    expected = np.mean([abs(each) >= abs(differences[0]) - 1e-9 for each in differences])
    p, smallest = permute_runs(count(gold, sides[:3]), count(gold, sides[3:]), 1000, np.random.default_rng(0))
    assert p is not None and p[0] == pytest.approx(expected) and smallest == 0.1
    assert permute_runs(count(gold, sides[:1]), count(gold, sides[3:]), 10, np.random.default_rng(0)) == (None, None)
    sampled, _ = permute_runs(count(gold, sides[:3]), count(gold, sides[3:]), 19, np.random.default_rng(0))
    assert sampled is not None and 1 / 20 <= sampled[0] <= 1


def test_the_adjustment_for_many_types_is_holms() -> None:
    p = np.array([0.04, 0.01, 0.03, 0.5])
    assert adjust_for_many(p) == pytest.approx([0.09, 0.04, 0.09, 0.5])
    assert adjust_for_many(np.array([])).tolist() == []


def test_a_side_against_itself_differs_in_nothing(small: Any) -> None:
    side = small[0]
    for is_paired in (False, True):
        found = compare_counts(side, side, is_paired=is_paired, resamples=200)
        assert not found.difference.any()
        assert (found.interval.p > (0.999 if is_paired else 0.5)).all()
        assert (found.interval.low <= 0).all() and (found.interval.high >= 0).all()
        assert (found.randomisation == 1).all()


def test_swapping_the_sides_mirrors_the_result_and_the_seed_fixes_it(small: Any) -> None:
    one, other = small[:2]
    found, mirrored = compare_counts(one, other, resamples=400), compare_counts(other, one, resamples=400)
    assert mirrored.difference == pytest.approx(-found.difference)
    assert mirrored.of_these.low == pytest.approx(-found.of_these.high)
    assert mirrored.randomisation == pytest.approx(found.randomisation, abs=0.1)
    again = compare_counts(one, other, resamples=400)
    assert again.interval.low.tolist() == found.interval.low.tolist()
    assert compare_counts(one, other, resamples=400, seed=2).interval.low.tolist() != found.interval.low.tolist()


def test_intervals_widen_with_confidence_and_stay_within_what_two_f1_can_differ_by(small: Any) -> None:
    narrow, wide = (compare_counts(*small[:2], resamples=400, confidence=share).interval for share in (0.5, 0.99))
    assert (wide.low <= narrow.low).all() and (wide.high >= narrow.high).all()
    _, _, gold, sides = small
    wrong = [["O"] * len(tags) for tags in gold]
    one, other = count(gold, [gold, wrong]), count(gold, [sides[0], wrong])
    interval = compare_counts(one, other).interval
    assert interval.low.min() >= -100 and interval.high.max() <= 100 and interval.high.max() > 99


def simulate(
    random: np.random.Generator, runs: int, of_seeds: float, gain: float = 0.0, other_runs: int = 0
) -> tuple[EntityCounts, ...]:
    """Two ways of training on the same 150 sentences: hard ones are hard for both, seeds and a gain shift the skill."""
    gold = random.poisson(3, (150, 1))
    hardness = random.normal(0.5, 1, (150, 1))
    sides = []
    for shift, count in ((gain, runs), (0.0, other_runs or runs)):
        own = random.normal(0, 0.3, (150, 1))
        skill = random.normal(0, of_seeds, (count, 1, 1))
        correct = random.binomial(gold, 1 / (1 + np.exp(-(hardness + own + skill + shift))))
        sides.append(EntityCounts(correct, correct + random.poisson(0.7, correct.shape), gold))
    return tuple(sides)


def share_found(tries: int, read: Callable[[Any], float], **settings: Any) -> float:
    """The share of comparisons with p below a twentieth."""
    random = np.random.default_rng(11)
    comparisons = (compare_counts(*simulate(random, **settings), resamples=200, seed=n) for n in range(tries))
    return float(np.mean([read(found) < 0.05 for found in comparisons]))


def test_two_taggers_that_do_not_differ_are_found_to_differ_in_a_twentieth_of_cases() -> None:
    # Of 400 tries 20 are expected; fewer than 9 or more than 33 have a probability of a thousandth each.
    for read in (lambda found: found.interval.p[0], lambda found: found.randomisation[0]):
        assert 0.02 < share_found(400, read, runs=1, of_seeds=0.0) < 0.085


@pytest.mark.parametrize(("runs", "other_runs"), [(2, 2), (3, 3), (5, 5), (1, 4)])
def test_ways_of_training_that_do_not_differ_are_found_to_in_no_more(runs: int, other_runs: int) -> None:
    for of_seeds in (0.15,) if runs == 1 else (0.0, 0.15):
        found = share_found(200, lambda found: found.interval.p[0], runs=runs, other_runs=other_runs, of_seeds=of_seeds)
        assert found < 0.1


def test_where_seeds_matter_single_taggers_differ_and_ways_of_training_do_not() -> None:
    settings = {"runs": 3, "of_seeds": 0.4}
    assert share_found(150, lambda found: found.of_these.p[0], **settings) > 0.25
    assert share_found(150, lambda found: found.interval.p[0], **settings) < 0.1


@pytest.mark.parametrize(("runs", "gain"), [(1, 0.6), (3, 0.5)])
def test_a_difference_that_is_there_is_found(runs: int, gain: float) -> None:
    settings: dict[str, Any] = {"runs": runs, "of_seeds": 0.05, "gain": gain}
    assert share_found(100, lambda found: found.interval.p[0], **settings) > 0.8
    assert share_found(100, lambda found: found.randomisation[0], **settings) > 0.8


def test_the_interval_holds_the_true_difference_in_most_cases() -> None:
    random = np.random.default_rng(5)
    pairs = [simulate(random, 20, 0.1, 0.3) for _ in range(60)]
    truth = np.mean([one.f1().mean() - other.f1().mean() for one, other in pairs])
    held = []
    for seed in range(200):
        found = compare_counts(*simulate(random, 3, 0.1, 0.3), resamples=200, seed=seed)
        held.append(found.interval.low[0] <= truth <= found.interval.high[0])
    assert np.mean(held) > 0.9
