"""Ensembles: the mean of what several taggers say, decoded as one tagger's."""

import json
from pathlib import Path

import pytest
import torch
from builders.commands import QUICK, crossner, refused, told
from builders.encoders import make_encoder
from builders.taggers import make_tagger, some_sentences

from crossner_cli.data.tags import TagSet, to_spans
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.taggers.ensemble import Ensemble
from crossner_cli.taggers.folder import load_tagger, save_tagger
from crossner_cli.taggers.sources import TrainedTagger
from crossner_cli.taggers.tagging import score_entity, tag

ONE = TagSet({"news": ("person", "place")})
OTHER_ORDER = TagSet({"news": ("place", "person")})


@pytest.fixture(scope="module")
def taggers(tmp_path_factory: pytest.TempPathFactory) -> list[TrainedTagger]:
    """Two taggers of other encoders and another order of tags."""
    place = tmp_path_factory.mktemp("ensemble")
    for number, (tag_set, width) in enumerate(((ONE, 32), (OTHER_ORDER, 16))):
        folder = make_encoder(place / f"encoder-{number}", hidden_size=width)
        tagger = make_tagger(folder, "linear", tag_set, seed=number)
        if number:  # reads more than the other one
            assert isinstance(tagger.encoder, TransformerEncoder)
            tagger.encoder.read_shapes()
        save_tagger(tagger, place / f"tagger-{number}")
    return [TrainedTagger(f"tagger-{number}", place / f"tagger-{number}", "") for number in range(2)]


def test_an_ensemble_of_one_tags_as_the_tagger_itself(taggers, engine):
    sentences = some_sentences(20)
    for each in taggers:
        expected = tag(load_tagger(each.folder, engine), sentences, engine)
        found = Ensemble([each, each], engine, "--model").tag(sentences)
        assert [one.tags for one in found] == [one.tags for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_the_mean_of_two_is_that_of_their_probabilities_by_the_name_of_each_tag(taggers, engine):
    words = [sentence.words for sentence in some_sentences(7)]
    both = Ensemble(taggers, engine, "--model")
    alone = [Ensemble([each], engine, "--model") for each in taggers]
    for mean, one, other in zip(both.find_means(words), *(each.find_means(words) for each in alone), strict=True):
        order = [alone[1].tag_set.tags.index(name) for name in both.tag_set.tags]
        torch.testing.assert_close(mean, (one + other[:, order]) / 2)
        torch.testing.assert_close(mean.sum(1), torch.ones(len(mean)))


def test_evaluate_scores_the_mean_of_all_seeds_beside_each_model(tmp_path: Path):
    encoder = make_encoder(tmp_path / "encoder")
    run = ("--run", tmp_path / "run")
    crossner("prepare-data", *run, "--target", "sample-target")
    quick = ("--encoder", encoder, "--epochs", "1", *QUICK)
    crossner("finetune", *run, *quick, "--seeds", "1,2")
    result = crossner("evaluate", *run, "--ensemble", "--split", "dev", *QUICK)["result"]
    assert list(result["models"]) == ["finetune", "ensemble"]
    assert list(result["models"]["ensemble"]["seeds"]) == ["-"]
    crossner("finetune", *run, *quick, "--name", "ensemble", "--max-steps", "1")
    message = refused("evaluate", *run, "--model", "ensemble", "--ensemble", "--split", "dev", *QUICK)
    assert "The stage 'ensemble' has the name that --ensemble gives to the mean of all models" in message
    by_folder = message.split("--model ")[1].rstrip(".")
    crossner("evaluate", *run, "--model", by_folder, "--ensemble", "--split", "dev", *QUICK)
    crossner("finetune", *run, *quick, "--method", "laner", "--name", "other", "--max-steps", "1")
    message = refused("evaluate", *run, "--model", "other", "--ensemble", *QUICK)
    assert "--model other is a tagger of the method laner, which does not give the probability of every tag" in message
    model = [part for each in ("finetune", "other") for part in ("--model", each)]
    message = refused("predict", "--text", "Anna", *run, *model)
    assert "predict tags with one model, and 2 are given: finetune, other." in message and "Add --ensemble" in message
    message = refused("predict", "--text", "Anna", *run, "--model", "finetune", "--ensemble", "--decoding", "any")
    assert "--decoding any is not possible with --ensemble" in message


def test_predict_tags_with_the_mean_of_the_taggers_named(taggers, engine, tmp_path: Path):
    sentences = some_sentences(30)
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"words": sentence.words}) + "\n" for sentence in sentences))
    model = [part for each in taggers for part in ("--model", str(each.folder))]
    expected = [
        (list(one.tags), [round(score_entity(one, span), 4) for span in to_spans(one.tags)])
        for one in Ensemble(taggers, engine, "--model").tag(sentences)
    ]
    for workers in ("1", "2"):
        output = tmp_path / f"out-{workers}.jsonl"
        line = ("predict", texts, *model, "--ensemble", "--output", output, "--workers", workers, *QUICK)
        result = crossner(*line)["result"]
        found = [json.loads(line) for line in output.read_text().splitlines()]
        assert [(each["tags"], [entity["score"] for entity in each["entities"]]) for each in found] == expected
        assert result["calibrated"] is False and result["seed"] is None
        assert result["model"] == ", ".join(str(each.folder) for each in taggers)
    message = told(*line, "--force")
    assert f"the mean of 2 taggers ({result['model']})" in message and "Scores are not calibrated" in message
