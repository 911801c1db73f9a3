"""Comparisons of evaluated models: what they say, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.runs import TYPES, damage, random_gold, write_evaluation

from crossner_cli.data.tags import Scheme, to_spans, to_tags
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.comparison import CountedModel, check_same_sentences, compare_models
from crossner_cli.evaluation.finished import find_evaluation
from crossner_cli.evaluation.scores import read_entities, score
from crossner_cli.reports.blocks import Line, Table
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
    assert found["is_paired"] and found["permutation"] is None
    assert "seed by seed" in "".join(block.text for block in comparison_tables([found], "") if isinstance(block, Line))


def test_other_words_gold_tags_or_numbers_of_sentences_are_refused_with_the_first_that_differs(tmp_path: Path) -> None:
    mine = list(zip(WORDS, GOLD, strict=True))
    check_same_sentences(mine, list(mine), "A", "B")
    words, gold = mine[2]
    for other, problem in (
        (([*words[:-1], "other"], gold), "Sentence 3 has other words in B than in A: word .*'other' and not 'word2-"),
        ((words, ["B-else", *gold[1:]]), "Sentence 3 has other gold tags in B than in A: word 1 of 'word2-0': 'B-el"),
        ((words[:-1], gold[:-1]), "Sentence 3 has other words .* not"),
    ):
        with pytest.raises(CrossNERError, match=problem):
            check_same_sentences(mine, [*mine[:2], other, *mine[3:]], "A", "B")
    folder = write_evaluation(tmp_path / "evaluate", WORDS, GOLD, {"laner": MODELS["laner"]})
    path = folder / "predictions-laner-seed-2.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "outputs": {}}))
    with pytest.raises(CrossNERError, match="has 40 sentences and .*seed-2.jsonl 39; the first 39 are the same"):
        models_of(folder)


def test_the_difference_its_interval_and_p_come_first(run: Path) -> None:
    counted = models_of(run)
    comparison = compare_models(counted["laner"], counted["linear"])
    blocks = comparison_tables([comparison], "scores.json")
    first = blocks[0]
    assert isinstance(first, Line) and first.is_headline
    difference, low, high = (f"{comparison[name]:+.2f}" for name in ("difference", "low", "high"))
    assert first.text.startswith(f"F1 {difference} (95 % interval {low} to {high}, p ")
    assert "laner" in first.text and "against linear" in first.text
    tables = [block for block in blocks if isinstance(block, Table)]
    assert [row[:2] for row in tables[0].rows] == [
        ("sentences and seeds", "bootstrap"),
        ("sentences, of these taggers", "bootstrap"),
        ("sentences, of these taggers", "randomisation"),
        ("seeds, on these sentences", "permutation"),
    ]
    assert [row[0] for row in tables[1].rows] == [row["type"] for row in comparison["per_type"]]
    both = comparison_tables([comparison, {**comparison, "against": "laner"}], "scores.json")
    overview = next(block for block in both if isinstance(block, Table))
    assert [row[1] for row in overview.rows] == ["linear", f"laner of {comparison['against_place']}"]


def test_of_several_comparisons_the_best_model_against_its_strongest_opponent_comes_first(run: Path) -> None:
    models = models_of(run)
    comparison = compare_models(models["laner"], models["linear"])
    better, clearer = {"mean": 90.0, "deviation": 1.0}, {**comparison, "p": 0.0}
    strongest = {**comparison, "f1": better, "against_f1": better, "p": 0.9}
    blocks = comparison_tables([clearer, {**strongest, "against_f1": comparison["f1"], "p": 0.0}, strongest], "")
    assert isinstance(blocks[0], Line) and "p = 0.9" in blocks[0].text
