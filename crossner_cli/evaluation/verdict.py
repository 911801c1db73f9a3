"""The verdict on two evaluated models: is one measurably better?"""

from __future__ import annotations

from crossner_cli.run.results import Record


def describe_verdict(comparison: Record, models: int = 2) -> str:
    """Say in one sentence whether two models differ: the interval of the difference leaves out zero.

    Otherwise it names the smallest difference that would show, half the width of the interval: an interval of that
    width around any larger difference leaves out zero.

    Args:
        comparison: As ``compare_models`` makes it.
        models: The number of models; of more than two these are the best.
    """
    one, other, low, high = (comparison[name] for name in ("model", "against", "low", "high"))
    confidence = f"{100 * comparison['confidence']:.0f} %"
    place = f" on {comparison['target']}" if "target" in comparison else ""
    runs, of_these = comparison["runs"], comparison["of_these_taggers"]
    is_one_seed = runs == [1, 1] and not comparison["is_paired"]
    luck = "; the luck of the seed is left out, with one seed each" if is_one_seed else ""
    if low == high == 0:
        return (
            f"no difference between {one} and {other}{place}: both are right and wrong equally often in every sentence"
        )
    if low <= 0 <= high:
        best = f", the best of {models}" if models > 2 else ""
        found = f"no measurable difference between {one} and {other}{best}{place}"
        shows, by_sentences = ((each["high"] - each["low"]) / 2 for each in (comparison, of_these))
        found = f"{found} ({confidence}: {low:+.1f} to {high:+.1f})"
        if shows > 2 * by_sentences:
            return f"{found}: the seeds ({runs[0]} and {runs[1]}) are too few or differ too much, so train more of them"
        shows = max(shows, 0.1)
        return (
            f"{found}: with {comparison['sentences']['all']:,} test sentences"
            f" only differences above about {shows:.{1 if shows < 1 else 0}f} points show{luck}"
        )
    if comparison["difference"] < 0:
        one, other, low, high = other, one, -high, -low
    rest = f", the next of {models} models" if models > 2 else ""
    difference = abs(comparison["difference"])
    return (
        f"{one} is {difference:.1f} points better than {other}{rest}{place}"
        f" ({confidence}: {low:.1f} to {high:.1f}){luck}"
    )
