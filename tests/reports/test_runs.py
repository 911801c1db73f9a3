"""What runs measured, read out of their manifests; and what the papers print beside it."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from builders.runs import damage, make_run, random_gold, write_evaluation, write_manifest, write_tagger

from crossner_cli.errors import CrossNERError
from crossner_cli.reports.published import PAPERS, RELABELLED, ROW, read_published
from crossner_cli.reports.runs import Provenance, read_runs

WORDS, GOLD = random_gold(12)


def tags(share: float, *seeds: int) -> dict[str, Any]:
    return {str(seed): damage(GOLD, share, seed) for seed in seeds}


def labels(*paths: Path) -> list[str]:
    return [model.label for model in read_runs(paths).models]


def test_a_folder_of_runs_stands_for_them_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for count in (100, 10, 20):
        make_run(tmp_path / str(count), {"linear": {"1": 1 / count}}, train=count)
    counts = [model.provenance and model.provenance.train_sentences for model in read_runs([tmp_path]).models]
    assert counts == [10, 20, 100]


def test_how_a_tagger_was_made_is_read_off_its_manifest_and_lineage(tmp_path: Path) -> None:
    digest = write_manifest(tmp_path / "dapt", "dapt", options={"corpus_share": 0.5})
    chain = [{"stage": "dapt", "name": "dapt", "digest": digest}]
    chain.append({"stage": "pretrain-source", "name": "source", "digest": "0"})
    write_tagger(tmp_path, "finetune", lineage=chain, dropout=0.3)
    (made,) = read_runs([tmp_path]).trained
    assert (made.start, made.regime, made.corpus_share) == ("dapt > source", "pretrain-source > finetune", 0.5)
    assert made.settings["dropout"] == 0.3 and made.seeds["1"].history == [{"score": 10.0}, {"score": 20.0}]
    # A transformer names the encoder where it is trained.
    for transformer, name in (
        ("none", "word vectors"),
        ("frozen", "word vectors, minilm frozen"),
        ("trained", "minilm"),
    ):
        run = make_run(tmp_path / transformer, {"words": {"1": 0.1}}, method="bilstm-crf", transformer=transformer)
        (model,) = read_runs([run]).models
        assert model.provenance is not None and model.provenance.encoder == name
    # A model of another run is known by its path.
    other = make_run(tmp_path / "other", {"laner": {"1": 0.2}})
    label = str(other / "laner")
    inputs = {label: json.loads((other / "evaluate" / "manifest.json").read_text())["inputs"]["laner"]}
    write_evaluation(tmp_path / "run" / "evaluate", WORDS, GOLD, {label: tags(0.2, 1)}, inputs=inputs)
    (model,) = read_runs([tmp_path / "run"]).models
    assert model.provenance is not None and model.provenance.method == "laner"


def test_taggers_that_two_stages_scored_alike_count_once_and_anew_where_they_were_trained_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"one": {"1": 0.2}, "two": {"1": 0.3}})
    inputs = json.loads((run / "evaluate" / "manifest.json").read_text())["inputs"]
    write_evaluation(run / "against", WORDS, GOLD, {"one": tags(0.2, 1), "two": tags(0.3, 1)}, inputs=inputs)
    assert labels(run) == ["one", "two"]
    write_evaluation(run / "other", WORDS, GOLD, {"one": tags(0.2, 1)}, inputs={"one": "another digest"})
    assert labels(run) == ["one", "two", "one"]


def test_a_place_that_is_no_run_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "missing", tmp_path):
        with pytest.raises(CrossNERError, match="holds no finished stage"):
            read_runs([place])
    run = make_run(tmp_path / "run", {"linear": {"1": 0.3}})
    path = run / "linear" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "result": {"seeds": {"1": {"history": [1]}}}}))
    with pytest.raises(CrossNERError, match="'linear' is broken"):
        read_runs([run])
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CrossNERError, match="cannot be read"):
        read_runs([run])


def made(method: str, regime: str = "finetune", corpus_share: float = 0.0) -> Provenance:
    return Provenance("run", "finetune", "x", method, "minilm", "base", regime, 100, corpus_share, {}, {})


def test_every_number_names_its_encoder_and_means_are_those_of_the_five_domains() -> None:
    numbers = read_published()
    assert set(numbers["paper"]) == set(PAPERS)
    assert len(numbers) > 350 and numbers["encoder"].all() and numbers["value"].between(0, 100).all()
    assert not numbers.duplicated([*ROW, "target"]).any()
    means = 0
    for row, values in numbers.groupby(ROW):
        by_target = dict(zip(values["target"], values["value"], strict=True))
        if "average" in by_target:
            means += 1
            five = statistics.fmean(by_target[name] for name in RELABELLED)
            # One printed mean is off by more than rounding: LANER's ablation without label context.
            assert by_target["average"] == pytest.approx(five, abs=0.08 if row[3] == "BERT; w/o LC" else 0.025)
    assert means >= 40
    by_type = read_published(["music:song"])
    assert len(by_type) == 4 and set(by_type["table"]) == {"Table 4"}
