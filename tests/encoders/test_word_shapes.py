"""Word shapes: an uncased encoder sees how words are written, and what it learns of it stays with the tagger."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from builders.commands import QUICK, crossner, refused
from builders.encoders import ARCHITECTURES, encode_sentences, make_encoder
from builders.tokenizers import save_tokenizer, train_tokenizer
from safetensors.torch import load_file, save_file

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.pretrained import read_tokenizer
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.encoders.word_shapes import SHAPES, WORD_SHAPES, find_shape
from crossner_cli.errors import CrossNERError
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


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_shapes_of_zeros_change_nothing_in_any_architecture(architectures, name):
    sentences = [CAPITALISED, Sentence(("The", "x-ray", "of", "ACME", "3rd") * 30), Sentence(("Berlin",))]
    plain, _ = TransformerEncoder.from_pretrained(str(architectures(name)))
    expected = encode_sentences(plain, sentences)
    reads = read_shapes(architectures(name))
    assert reads.shapes is not None
    reads.shapes.vectors.data.zero_()
    torch.testing.assert_close(encode_sentences(reads, sentences), expected, rtol=1e-4, atol=1e-5)


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


def test_a_cased_encoder_is_refused(tiny_encoder_folder, tmp_path):
    encoder, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder))
    encoder.reader.tokenizer = read_tokenizer(save_tokenizer(train_tokenizer("byte-level"), tmp_path))
    with pytest.raises(CrossNERError, match="--word-shapes has no effect") as refusal:
        encoder.read_shapes()
    assert "Leave --word-shapes out" in str(refusal.value.hint)


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


def test_vectors_of_another_width_are_refused(chain, tmp_path, engine):
    folder = tmp_path / "tagger"
    shutil.copytree(chain["run"] / "finetune" / "tagger", folder)
    save_file({"vectors": torch.zeros(7, 16)}, folder / WORD_SHAPES)
    with pytest.raises(CrossNERError, match=r"vectors of size \(7, 16\) instead of \(7, 32\)"):
        load_tagger(folder, engine)


def test_methods_that_read_words_refuse_the_option(chain):
    message = refused("finetune", "--run", chain["run"], "--method", "bilstm-crf", "--word-shapes", "--name", "other")
    assert "--word-shapes has no effect" in message
