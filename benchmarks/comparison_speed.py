"""Seconds that a comparison of two models takes, from counted entities to intervals, and how often it finds too much.

python benchmarks/comparison_speed.py [--sentences 2000] [--types 15] [--runs 1,3,10] [--nulls 0]

With ``--nulls N`` N comparisons of ways of training that do not differ are simulated for each number of runs: the
share with p < 0.05 should be no more than 5 %.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np

from crossner_cli.evaluation.comparison import RESAMPLES, EntityCounts, compare_counts

REPEATS = 3
NULL_SENTENCES, NULL_RESAMPLES = 300, 500
SEEDS_MATTER = (0.0, 0.15, 0.4)  # standard deviations of a run's skill, in log-odds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line a number of runs."""
    parser = argparse.ArgumentParser(description="Seconds that a comparison of two models takes.")
    parser.add_argument("--sentences", type=int, default=2000, help="test sentences")
    parser.add_argument("--types", type=int, default=15, help="entity types")
    parser.add_argument("--runs", default="1,3,10", help="seeds a side, as 1,3,10")
    parser.add_argument("--nulls", type=int, default=0, help="simulated comparisons without a difference; 0 is none")
    given = parser.parse_args(arguments)
    random = np.random.default_rng(0)
    for runs in map(int, given.runs.split(",")):
        seconds = [measure(random, runs, given.sentences, given.types) for _ in range(REPEATS)]
        print(
            f"{runs} seeds a side, {given.sentences:,} sentences, {given.types} types, {RESAMPLES:,} resamples:"
            f" {statistics.median(seconds):.2f} s (median of {REPEATS})"
        )
        for of_seeds in SEEDS_MATTER[: 1 if runs == 1 else None] if given.nulls else ():
            both, these, swapped = false_positives(random, runs, of_seeds, given.nulls)
            print(
                f"  no difference, skill of runs ± {of_seeds}: p < 0.05 in {both:.1%}; of these taggers alone"
                f" {these:.1%} by bootstrap, {swapped:.1%} by randomisation ({given.nulls:,} simulations)"
            )


def measure(random: np.random.Generator, runs: int, sentences: int, types: int) -> float:
    """Compare two sides of random entities with all resamples; return the seconds."""
    sides = simulate(random, runs, 0.1, sentences, types)
    began = time.perf_counter()
    compare_counts(*sides)
    return time.perf_counter() - began


def false_positives(random: np.random.Generator, runs: int, of_seeds: float, tries: int) -> tuple[float, float, float]:
    """Shares with p < 0.05 where nothing differs: for ways of training, and of these taggers alone by two tests."""
    found = [
        compare_counts(*simulate(random, runs, of_seeds, NULL_SENTENCES, 0), resamples=NULL_RESAMPLES, seed=number)
        for number in range(tries)
    ]
    every = [(one.interval.p[0], one.of_these.p[0], one.randomisation[0]) for one in found]
    both, these, swapped = (np.array(every) < 0.05).mean(axis=0)
    return float(both), float(these), float(swapped)


def simulate(
    random: np.random.Generator, runs: int, of_seeds: float, sentences: int, types: int
) -> tuple[EntityCounts, EntityCounts]:
    """Two ways of training of the same skill: sentences are hard for both, and each run is a little better or worse."""
    columns = max(types, 1)
    gold = random.poisson(3 / columns, (sentences, columns))
    hardness = random.normal(0.5, 1, (sentences, 1))
    sides = []
    for _ in range(2):
        own, skill = random.normal(0, 0.3, (sentences, 1)), random.normal(0, of_seeds, (runs, 1, 1))
        correct = random.binomial(gold, 1 / (1 + np.exp(-(hardness + own + skill))))
        predicted = correct + random.poisson(0.7 / columns, correct.shape)
        sides.append(EntityCounts(with_total(correct), with_total(predicted), with_total(gold)))
    return sides[0], sides[1]


def with_total(counts: np.ndarray) -> np.ndarray:
    """Counts by type with the column for all types in front."""
    return np.concatenate([counts.sum(axis=-1, keepdims=True), counts], axis=-1)


if __name__ == "__main__":
    main()
