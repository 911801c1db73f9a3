"""Word shapes: an uncased encoder sees how words are written, and what it learns of it stays with the tagger."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from builders.commands import QUICK, crossner, refused
from builders.encoders import encode_sentences, make_encoder
from safetensors.torch import load_file

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.encoders.word_shapes import SHAPES, WORD_SHAPES, find_shape
from crossner_cli.taggers.folder import load_tagger

LOWER, CAPITALISED = (Sentence(("anna", "met", "peter")), Sentence(("Anna", "met", "PETER")))


def read_shapes(folder: Path) -> TransformerEncoder:
    """An encoder that reads shapes, with vectors far from each other."""
    encoder, _ = TransformerEncoder.from_pretrained(str(folder))
    encoder.read_shapes()
    assert encoder.shapes is not None
    encoder.shapes.vectors.data.normal_()
    return encoder


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (("apple", "é", "(x)", "中文"), 1),
        (("Apple", "A", "Élan", "Mid-term"), 2),
        (("MIT", "U.S.", "ÉTÉ"), 3),
        (("iPhone", "McDonald", "PhDs"), 4),
        (("3rd", "1999", "B2B"), 5),
        ((",", "-", "…", "$"), 6),
    ],
)
def test_a_word_has_one_of_six_shapes(words, shape):
    assert [find_shape(word) for word in words] == [shape] * len(words)


def test_only_an_encoder_that_reads_shapes_tells_words_apart_that_differ_in_case(tiny_encoder_folder):
    plain, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder))
    torch.testing.assert_close(encode_sentences(plain, [LOWER]), encode_sentences(plain, [CAPITALISED]))
    reads = read_shapes(tiny_encoder_folder)
    difference = (encode_sentences(reads, [LOWER]) - encode_sentences(reads, [CAPITALISED])).abs()
    assert difference.amax() > 0.01


def test_each_subword_has_the_shape_of_its_word_in_every_window(tiny_encoder_folder):
    encoder = read_shapes(tiny_encoder_folder)
    words = ("Anna", "xyz", "ABC", "9", ".") * 40
    encoded = encoder.reader.encode([Sentence(words), Sentence(("the",))])
    batch = encoder.reader.collate(encoded)
    assert batch.shapes is not None and len(encoded[0].windows) > 2
    assert batch.shapes.shape == batch.input_ids.shape
    at_first_subwords = batch.shapes.flatten()[batch.word_places[0]]
    assert at_first_subwords.tolist() == [find_shape(word) for word in words]
    is_special = (batch.input_ids == 0) | (batch.input_ids == 2) | (batch.input_ids == 3)
    assert torch.equal(batch.shapes == 0, is_special)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A source tagger with shapes and a target tagger that starts from it without a word of them."""
    place = tmp_path_factory.mktemp("shapes")
    encoder = make_encoder(place / "encoder")
    common = ("--run", place / "run")
    crossner("prepare-data", *common, "--source", "sample-source", "--target", "sample-target")
    quick = ("--epochs", "1", "--max-steps", "3", *QUICK)
    crossner("pretrain-source", *common, "--encoder", encoder, "--word-shapes", *quick)
    crossner("finetune", *common, "--start-from", "pretrain-source", *quick)
    return {"run": place / "run", "encoder": encoder}


def test_shapes_learnt_on_the_source_go_on_on_the_target(chain):
    source, target = (
        load_file(chain["run"] / name / "tagger" / WORD_SHAPES)["vectors"] for name in ("pretrain-source", "finetune")
    )
    assert source.shape == target.shape == (SHAPES, 32)
    assert 0 < (source - target).abs().max() < 0.05
    card = (chain["run"] / "finetune" / "tagger" / "README.md").read_text()
    assert "`word_shapes.safetensors` is a part of this tagger that transformers does not know" in card


def test_a_tagger_with_shapes_tags_by_case_and_transformers_still_opens_its_folder(chain, engine):
    tagger = load_tagger(chain["run"] / "finetune" / "tagger", engine)
    assert isinstance(tagger.encoder, TransformerEncoder) and tagger.encoder.reader.reads_shapes
    model = transformers.AutoModelForTokenClassification.from_pretrained(chain["run"] / "finetune" / "tagger")
    assert model.config.num_labels == len(tagger.tag_set)


def test_methods_that_read_words_refuse_the_option(chain):
    message = refused("finetune", "--run", chain["run"], "--method", "bilstm-crf", "--word-shapes", "--name", "other")
    assert "--word-shapes has no effect" in message
