"""Comparisons of evaluated models: what they say, and what is refused; and the tests of significance behind them.

The tests of significance are equal to plain loops, right in size where nothing differs, and find what does.
"""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.runs import TYPES, damage, random_gold, write_evaluation

from crossner_cli.data.tags import Scheme, to_spans, to_tags
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.comparison import (
    CountedModel,
    EntityCounts,
    adjust_for_many,
    check_same_sentences,
    compare_counts,
    compare_models,
    resample_f1,
    sentence_weights,
    swap_sentences,
)
from crossner_cli.evaluation.finished import find_evaluation
from crossner_cli.evaluation.scores import read_entities, score
from crossner_cli.evaluation.verdict import describe_verdict
from crossner_cli.reports.blocks import Line
from crossner_cli.reports.evaluation_tables import comparison_tables

WORDS, GOLD = random_gold(40)
MODELS = {
    "laner": {"1": damage(GOLD, 0.15, 1), "2": damage(GOLD, 0.2, 2), "3": damage(GOLD, 0.15, 3)},
    "linear": {"1": damage(GOLD, 0.4, 4), "2": damage(GOLD, 0.5, 5)},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    write_evaluation(path / "evaluate", WORDS, GOLD, MODELS, inputs={"laner": "a", "linear": "b"})
    return path


def models_of(path: Path, mode: Any = "conll") -> dict[str, CountedModel]:
    return {model.label: CountedModel(model, mode) for model in find_evaluation(path).models()}


@pytest.mark.parametrize("mode", ["conll", "strict"])
def test_entities_count_the_same_in_whatever_scheme_a_tagger_gives_them(tmp_path: Path, mode: Any) -> None:
    spans = [(to_spans(row), len(row)) for row in damage(GOLD, 0.3, 1)]
    bio = [to_tags(found, length, "bio") for found, length in spans]
    bioes = [to_tags(found, length, "bioes") for found, length in spans]
    bilou = [[tag.replace("E-", "L-", 1).replace("S-", "U-", 1) for tag in tags] for tags in bioes]
    given: list[tuple[str, Scheme, Any]] = [("bio", "bio", bio), ("bioes", "bioes", bioes), ("bilou", "bioes", bilou)]
    counted = []
    for name, scheme, tags in given:
        write_evaluation(tmp_path / name, WORDS, GOLD, {"laner": {"1": tags}}, scheme=scheme)
        counted.append(models_of(tmp_path / name, mode)["laner"])
    first, *others = counted
    types = sorted(first.types())
    assert first.count(types).f1()[0, 0] > 10
    for other in others:
        assert other.predicted == first.predicted
        assert compare_models(first, other)["sentences"]["tied"] == len(GOLD)
    never_ended = {"one": {"1": [["B-a", "I-a", "O"]]}}
    write_evaluation(tmp_path / "run", [["w"] * 3], [["B-a", "E-a", "O"]], never_ended, scheme="bioes")
    assert models_of(tmp_path / "run", "strict")["one"].predicted == [[[]]]


def test_a_comparison_says_what_the_scores_say(run: Path) -> None:
    counted = models_of(run)
    found = compare_models(counted["laner"], counted["linear"])
    scores = {label: [score(GOLD, tags) for tags in seeds.values()] for label, seeds in MODELS.items()}
    means = {label: sum(each.f1 for each in found) / len(found) for label, found in scores.items()}
    assert found["f1"]["mean"] == pytest.approx(means["laner"])
    assert found["against_f1"]["mean"] == pytest.approx(means["linear"])
    assert found["difference"] == pytest.approx(means["laner"] - means["linear"])
    assert found["low"] < found["difference"] < found["high"] and found["of_these_taggers"]["p"] < 0.05
    assert found["runs"] == [3, 2] and found["is_paired"] is False
    assert {row["type"] for row in found["per_type"]} == set(TYPES)
    for row in found["per_type"]:
        of_type = [each.per_type[row["type"]] for each in scores["laner"]]
        assert row["f1"] == pytest.approx(sum(each.f1 for each in of_type) / 3)
        assert row["support"] == of_type[0].support
        assert row["p"] <= row["adjusted_p"] <= 1
    json.dumps(found)
    # Sentences are won with fewer errors in the mean over seeds.
    right = read_entities(GOLD, mode="conll", scheme="bio")
    errors: dict[str, list[float]] = {}
    for label, seeds in MODELS.items():
        sides = [read_entities(tags, mode="conll", scheme="bio") for tags in seeds.values()]
        errors[label] = [
            sum(len({*side[place]} ^ {*right[place]}) for side in sides) / len(sides) for place in range(len(GOLD))
        ]
    pairs = list(zip(errors["laner"], errors["linear"], strict=True))
    won = sum(one < other - 1e-9 for one, other in pairs)
    lost = sum(one > other + 1e-9 for one, other in pairs)
    assert found["sentences"] == {"all": 40, "won": won, "lost": lost, "tied": 40 - won - lost}


@pytest.mark.parametrize("mode", ["conll", "strict"])
def test_counts_add_up_to_the_scores_in_both_modes(run: Path, mode: Any) -> None:
    for label, counted in models_of(run, mode).items():
        f1 = counted.count(sorted(counted.types())).f1()[:, 0]
        assert f1 == pytest.approx([score(GOLD, tags, mode=mode).f1 for tags in MODELS[label].values()])


def test_the_same_taggers_read_in_two_ways_are_compared_seed_by_seed(tmp_path: Path) -> None:
    folders = []
    for number, name in enumerate(("legal", "any")):
        tags = {"1": damage(GOLD, 0.3 + number / 10, 1), "2": damage(GOLD, 0.3 + number / 10, 2)}
        folders.append(write_evaluation(tmp_path / name, WORDS, GOLD, {"laner": tags}, inputs={"laner": "same"}))
    one, other = (models_of(folder)["laner"] for folder in folders)
    found = compare_models(one, other)
    assert found["is_paired"]


def test_other_words_gold_tags_or_numbers_of_sentences_are_refused_with_the_first_that_differs(tmp_path: Path) -> None:
    mine = list(zip(WORDS, GOLD, strict=True))
    bioes = [to_tags(to_spans(tags), len(tags), "bioes") for tags in GOLD]
    check_same_sentences(mine, list(zip(WORDS, bioes, strict=True)), "A", "B")
    words, gold = mine[2]
    others = (([*words[:-1], "other"], gold), "words"), ((words, ["B-else", *gold[1:]]), "gold tags")
    for other, problem in others:
        with pytest.raises(CrossNERError, match=f"Sentence 3 has other {problem} in B than in A"):
            check_same_sentences(mine, [*mine[:2], other, *mine[3:]], "A", "B")
    folder = write_evaluation(tmp_path / "evaluate", WORDS, GOLD, {"laner": MODELS["laner"]})
    path = folder / "predictions-laner-seed-2.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "outputs": {}}))
    with pytest.raises(CrossNERError, match="Sentence 40 has other words in .*seed-2.jsonl"):
        models_of(folder)


@pytest.mark.parametrize(
    ("found", "models", "sentence"),
    [
        ((4.1, 1.2, 7.0), 2, "new is 4.1 points better than old (95 %: 1.2 to 7.0)"),
        ((-4.1, -7.0, -1.2), 2, "old is 4.1 points better than new (95 %: 1.2 to 7.0)"),
        ((4.1, 1.2, 7.0), 3, "new is 4.1 points better than old, the next of 3 models (95 %: 1.2 to 7.0)"),
        (
            (3.0, -4.0, 10.0),
            2,
            "no measurable difference between new and old (95 %: -4.0 to +10.0): with 25 test sentences only"
            " differences above about 7 points show",
        ),
        (
            (0.0, 0.0, 0.0),
            2,
            "no difference between new and old: both are right and wrong equally often in every sentence",
        ),
    ],
)
def test_the_verdict_says_whether_two_models_differ_and_if_not_what_would_show(found, models, sentence) -> None:
    numbers = dict(zip(("difference", "low", "high"), found, strict=True))
    of_these = {"of_these_taggers": {"low": found[1], "high": found[2]}, "runs": [3, 3], "is_paired": False}
    record = {"model": "new", "against": "old", "confidence": 0.95, "sentences": {"all": 25}, **of_these, **numbers}
    assert describe_verdict(record, models) == sentence
    luck = "; the luck of the seed is left out, with one seed each" if found[0] else ""
    assert describe_verdict({**record, "runs": [1, 1]}, models) == sentence + luck
    assert describe_verdict({**record, "runs": [1, 1], "is_paired": True}, models) == sentence


def test_where_seeds_and_not_sentences_hide_a_difference_the_verdict_asks_for_more_seeds() -> None:
    record = {
        **{"model": "new", "against": "old", "confidence": 0.95, "sentences": {"all": 100}, "is_paired": False},
        **{"difference": 39.7, "low": -28.0, "high": 100.0, "runs": [2, 3]},
        "of_these_taggers": {"low": 33.0, "high": 46.0},
    }
    assert describe_verdict(record) == (
        "no measurable difference between new and old (95 %: -28.0 to +100.0): the seeds (2 and 3) are too few or"
        " differ too much, so train more of them"
    )


def test_of_several_comparisons_the_best_model_against_its_strongest_opponent_comes_first(run: Path) -> None:
    models = models_of(run)
    compared = compare_models(models["laner"], models["linear"])
    better, clearer = {"mean": 90.0, "deviation": 1.0}, {**compared, "p": 0.0}
    strongest = {**compared, "f1": better, "against_f1": better, "p": 0.9, "against": "the strongest"}
    blocks = comparison_tables([clearer, {**strongest, "against_f1": compared["f1"], "p": 0.0}, strongest], "")
    assert isinstance(blocks[0], Line) and "the strongest" in blocks[0].text


def count(gold: list[Any], sides: list[list[Any]]) -> EntityCounts:
    """Counts by the plainest of loops."""
    right, *found = (
        [set(spans) for spans in read_entities(side, mode="conll", scheme="bio")] for side in (gold, *sides)
    )

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


def test_a_resample_scores_what_its_sentences_score_when_written_out(small: Any) -> None:
    one, other, gold, sides = small
    drawn = np.concatenate(resample_f1((one, other), 6, np.random.default_rng(3)), axis=1)
    weights = np.concatenate(list(sentence_weights(9, 6, np.random.default_rng(3))))
    assert weights.sum(axis=1).tolist() == [9] * 6
    for sample, times in zip(drawn, weights, strict=True):
        chosen = np.repeat(np.arange(9), times)
        for side, found in zip(sides, sample, strict=True):
            scores = score([gold[place] for place in chosen], [side[place] for place in chosen])
            assert found[0] == pytest.approx(scores.f1)
            by_type = [scores.per_type[name].f1 if name in scores.per_type else 0.0 for name in TYPES]
            assert found[1:] == pytest.approx(by_type)


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
