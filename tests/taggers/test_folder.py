"""A tagger's folder: complete in itself, a Hugging Face folder too, and a known problem where it is damaged."""

import dataclasses
import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from builders.encoders import TOKENIZER_FILES, make_tokenizer
from builders.taggers import TAG_SET, decode, every_method, make_tagger, some_sentences
from safetensors.torch import load_file, save_file

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet, illegal_positions, to_spans
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.taggers.description import is_tagger_folder, read_description
from crossner_cli.taggers.folder import load_tagger, save_tagger
from crossner_cli.taggers.tagging import tag

ENCODER_FILES = {"config.json", "model.safetensors", *TOKENIZER_FILES}
TAGGER_FILES = {"tagger.json", "tagger.safetensors"}
WORD_FILES = {"words.json", "words.safetensors"}


@every_method
def test_a_saved_tagger_predicts_the_same(tiny_encoder_folder, tmp_path, engine, method):
    tagger, sentences = make_tagger(tiny_encoder_folder, method, TAG_SET, "dropout=0.3"), some_sentences(8)
    save_tagger(tagger, tmp_path / "tagger", dev_f1=12.5)
    files = TAGGER_FILES | (WORD_FILES if tagger.encoder_class.reads == "words" else ENCODER_FILES)
    assert {path.name for path in (tmp_path / "tagger").iterdir()} == files
    assert is_tagger_folder(tmp_path / "tagger") and not is_tagger_folder(tmp_path)
    again = load_tagger(tmp_path / "tagger", engine)
    assert type(again) is type(tagger) and not again.training
    assert again.tag_set == tagger.tag_set and again.hyper == tagger.hyper
    before, after = tagger.state_dict(), again.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    decoded = decode(tagger, sentences)
    assert decode(again, sentences) == decoded
    description = read_description(tmp_path / "tagger")
    assert description.method == method and json.loads(description.path.read_text())["dev_f1"] == 12.5
    save_tagger(again, tmp_path / "again", dev_f1=12.5)
    for name in files:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "tagger" / name).read_bytes(), name
    tagger.encoder.prepare_for_training(on_cpu=True)
    tagger.train()
    save_tagger(tagger, tmp_path / "fast")
    assert tagger.training
    assert decode(load_tagger(tmp_path / "fast", engine), sentences) == decode(tagger.eval(), sentences)


def write_encoder(folder: Path, architecture: str, **more: Any) -> None:
    """Leave a small random encoder of an architecture."""
    tokenizer = make_tokenizer(folder)
    torch.manual_seed(4)
    config = getattr(transformers, f"{architecture}Config")(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        pad_token_id=0,
        **more,
    )
    getattr(transformers, f"{architecture}Model")(config).save_pretrained(folder)


@pytest.mark.parametrize("architecture", ["Bert", "DistilBert", "Electra", "Roberta", "MPNet", "Albert"])
def test_a_linear_tagger_is_a_hugging_face_token_classifier(tmp_path, engine, architecture):
    write_encoder(tmp_path / "encoder", architecture, max_position_embeddings=80)
    tagger = make_tagger(tmp_path / "encoder", "linear", TagSet({"news": ("person", "place")}), "legal=false")
    save_tagger(tagger, tmp_path / "tagger")
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "tagger").eval()
    assert model.config.id2label == dict(enumerate(tagger.tag_set.tags))
    own = transformers.AutoTokenizer.from_pretrained(tmp_path / "tagger")
    for sentence in some_sentences(6):
        read = own(list(sentence.words), is_split_into_words=True, return_tensors="pt")
        first = [read.word_ids().index(word) for word in range(len(sentence.words))]
        with torch.no_grad():
            logits = model(input_ids=read["input_ids"]).logits[0, first]
        decoded = decode(tagger, [dataclasses.replace(sentence, domain="")])
        assert logits.argmax(dim=-1).tolist() == decoded.tags[0]
        assert torch.softmax(logits, -1).amax(-1).tolist() == pytest.approx(decoded.probabilities[0], abs=1e-5)
    assert decode(load_tagger(tmp_path / "tagger", engine), some_sentences(2)) == decode(tagger, some_sentences(2))


def check_pipeline(folder: Path, sentences: Sequence[Sentence], engine: Engine) -> Counter[str]:
    """Hold what a pipeline finds, over all domains' tags, against what predict finds; count what was compared."""
    pipeline = transformers.pipeline("token-classification", str(folder), device="cpu", ignore_labels=[])
    unlabelled = [Sentence(sentence.words) for sentence in sentences]
    likeliest = tag(load_tagger(folder, engine, decoding="any"), unlabelled, engine)
    legal = tag(load_tagger(folder, engine, decoding="legal"), unlabelled, engine)
    counts: Counter[str] = Counter()
    for sentence, free, kept in zip(sentences, likeliest, legal, strict=True):
        words, text = list(sentence.words), " ".join(sentence.words)
        places = [sum(len(word) + 1 for word in words[:place]) for place in range(len(words) + 1)]
        pieces = {each["start"]: each["entity"] for each in pipeline([words], is_split_into_words=True)[0][::-1]}
        assert tuple(pieces[start] for start in places[:-1]) == free.tags, "a word's tag is that of its first subword"
        counts["illegal" if illegal_positions(free.tags, "bio") else "legal"] += 1
        if not illegal_positions(free.tags, "bio"):
            assert kept.tags == free.tags, "where the likeliest tags are legal, legal decoding gives them"
        if all(len(pipeline.tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(word)) == 1 for word in words):
            grouped = pipeline(text, aggregation_strategy="first", ignore_labels=["O"])
            found = [
                (places.index(each["start"]), places.index(each["end"] + 1), each["entity_group"]) for each in grouped
            ]
            assert found == to_spans(free.tags)
            counts["entities"] += len(found)
    return counts


def test_a_pipeline_finds_the_entities_that_predict_finds_with_any_decoding(tiny_encoder_folder, tmp_path, engine):
    save_tagger(make_tagger(tiny_encoder_folder, "linear", TAG_SET), tmp_path)
    counts = check_pipeline(tmp_path, some_sentences(40, longest=4), engine)
    assert counts["entities"] > 15 and counts["illegal"] > 3 and counts["legal"] > 3


@pytest.fixture(scope="module")
def saved(tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes a saved tagger to damage."""
    tagger = make_tagger(tiny_encoder_folder, "crf")

    def save() -> Path:
        folder = tmp_path_factory.mktemp("saved")
        save_tagger(tagger, folder)
        return folder

    return save


def test_a_broken_description_is_a_known_problem(saved, engine):
    folder = saved()
    facts = {"method": "crf", "hyperparameters": {}, "domain_of_new_text": "a", "taught_types": []}
    for content in (
        b"{",
        b"[]",
        b"\xff",
        b'{"method": "crf", "hyperparameters": {}, "tag_set": {}}',
        b"[" * 5000 + b"]" * 5000,
        *(
            json.dumps({**facts, "tag_set": {"domains": domains, "scheme": scheme}}).encode()
            for domains, scheme in (
                ({"a": ["x", 1]}, "bio"),
                ({"a": ["x", ""]}, "bio"),
                ({"a": ["x\x1b[2J"]}, "bio"),
                ({"a": ["x\nProblem: y"]}, "bio"),
                ({"a": [f"type-{number}" for number in range(50_000)]}, "bio"),
                ({"a": ["x"]}, "other"),
                ({}, "bio"),
            )
        ),
    ):
        (folder / "tagger.json").write_bytes(content)
        with pytest.raises(CrossNERError, match="tagger.json") as caught:
            read_description(folder)
        assert caught.value.hint == "Train the tagger again."
        with pytest.raises(CrossNERError, match="tagger.json"):
            load_tagger(folder, engine)


def test_parts_that_do_not_belong_together_are_a_known_problem(saved, engine):
    folder = saved()
    description = json.loads((folder / "tagger.json").read_text())
    for changes, problem in (
        ({"method": "nope"}, "There is no method 'nope'"),
        ({"method": "linear"}, "does not fit tagger.json"),
        ({"hyperparameters": {"colour": 1}}, "does not fit the method 'crf': .*'colour'"),
        (
            {"hyperparameters": {"dropout": 7}},
            r"does not fit the method 'crf': A dropout rate of 7 .*\nTrain the tagger again",
        ),
        (
            {"method": "bilstm-crf", "hyperparameters": {"lstm_layers": 1_000_000}},
            "does not fit the method 'bilstm-crf': lstm_layers is 1,000,000, and the weights are .* tensors",
        ),
        (
            {"method": "bilstm-crf", "hyperparameters": {"lstm_size": 1_000_000}},
            "does not fit the method 'bilstm-crf': lstm_size is 1,000,000, and no tensor of the weights has more than",
        ),
        (
            {"method": "mtl", "hyperparameters": {"character_size": 10**9}},
            "does not fit the method 'mtl': character_size is 1,000,000,000",
        ),
        ({"tag_set": {"domains": {"news": ["person"]}, "scheme": "bio"}}, "does not fit tagger.json"),
    ):
        (folder / "tagger.json").write_text(json.dumps({**description, **changes}))
        with pytest.raises(CrossNERError, match=problem):
            load_tagger(folder, engine)


@pytest.mark.parametrize("method", ["linear", "crf", "bartner"])
def test_a_transformer_that_does_not_fit_its_description_is_never_filled_with_random_numbers(
    tiny_encoder_folder, tmp_path, engine, method
):
    save_tagger(make_tagger(tiny_encoder_folder, method), tmp_path)
    weights, config = tmp_path / "model.safetensors", json.loads((tmp_path / "config.json").read_text())
    tensors = load_file(weights)
    save_file(
        {name: value for name, value in tensors.items() if "layers.1." not in name and "layer.1." not in name},
        weights,
        metadata={"format": "pt"},
    )
    with pytest.raises(CrossNERError, match=r"model\.safetensors lacks \d+ tensors .*1\.") as caught:
        load_tagger(tmp_path, engine)
    assert "train the tagger again" in caught.value.hint
    save_file(tensors, weights, metadata={"format": "pt"})
    fewer = {name: 1 for name in ("num_hidden_layers", "encoder_layers") if name in config}
    (tmp_path / "config.json").write_text(json.dumps({**config, **fewer}))
    with pytest.raises(CrossNERError, match=r"model\.safetensors holds, with no place in config\.json, \d+ tensors"):
        load_tagger(tmp_path, engine)


def test_files_from_outside_the_folder_and_pipes_are_refused(saved, engine, tmp_path):
    for name in ("model.safetensors", "tokenizer.json"):
        folder = saved()
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
        with pytest.raises(CrossNERError, match="is a link out of its folder"):
            load_tagger(folder, engine)
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(CrossNERError, match="is not a file"):
            load_tagger(folder, engine)
    # As the hub's cache lays a model out, and a link inside the folder.
    model = tmp_path / "models--a--b"
    (model / "blobs").mkdir(parents=True)
    folder = model / "snapshots" / "abc"
    shutil.copytree(saved(), folder)
    (folder / "model.safetensors").rename(model / "blobs" / "123")
    (folder / "model.safetensors").symlink_to("../../blobs/123")
    (folder / "tagger.safetensors").rename(folder / "other.safetensors")
    (folder / "tagger.safetensors").symlink_to("other.safetensors")
    load_tagger(folder, engine)


def test_a_folder_with_a_part_missing_or_cut_is_a_known_problem(saved, engine, tmp_path):
    with pytest.raises(CrossNERError, match="holds no tagger"):
        load_tagger(tmp_path, engine)
    for name in ("tagger.safetensors", "model.safetensors", "config.json", "tagger.json"):
        folder = saved()
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(CrossNERError):
            load_tagger(folder, engine)
        (folder / name).unlink()
        with pytest.raises(CrossNERError):
            load_tagger(folder, engine)
