"""ONNX: the graph tags as the tagger it was made from, int8 is measured beside it, and folders are whole."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from builders.commands import QUICK, crossner, invoke, refused
from builders.encoders import TOKENIZER_FILES, make_encoder
from builders.taggers import TAG_SET, make_tagger, some_sentences
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from crossner_cli import load_tagger as load_tagger_of_texts
from crossner_cli.cli import app
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Decoding
from crossner_cli.run.storage import strip_folders
from crossner_cli.taggers import folder as folder_module
from crossner_cli.taggers.folder import load_tagger, save_tagger
from crossner_cli.taggers.onnx_graph import QUANTISED, read_onnx
from crossner_cli.taggers.tagging import Calibration, tag

CALIBRATION = Calibration(1.5, -0.5, 8, 6)
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a tagger, and its export: the one slow step."""
    place = tmp_path_factory.mktemp("export")
    encoder = make_encoder(place / "encoder", num_hidden_layers=1)
    for method in ("linear", "crf"):
        save_tagger(make_tagger(encoder, method, TAG_SET), place / method)
    described = json.loads((place / "linear" / "tagger.json").read_text())
    described["calibration"] = CALIBRATION.to_json()
    (place / "linear" / "tagger.json").write_text(json.dumps(described))
    (place / "data").mkdir()
    long = "anna\tB-person\nvisited\tO\n" * 150
    for split in ("train", "dev"):
        (place / "data" / f"{split}.txt").write_text(f"{long}\nparis\tB-place\nmet\tO\n\nlondon\tB-place\n\n")
    crossner("prepare-data", "--run", place / "run", "--target", place / "data")
    given = ("--run", place / "run", "--model", place / "linear")
    (place / "record.json").write_text(json.dumps(crossner("export", *given, *QUICK)))
    return place


def pair(place: Path, engine: Engine, decoding: Decoding) -> tuple[LinearTagger, LinearTagger]:
    """The tagger and its graph."""
    tagger = load_tagger(place / "linear", engine, decoding=decoding)
    assert isinstance(tagger, LinearTagger)
    return tagger, read_onnx(
        place / "run" / "export" / "model.onnx", type(tagger), tagger.tag_set, tagger.hyper, tagger.encoder.reader
    )


@pytest.mark.parametrize("decoding", ["legal", "any"])
def test_the_graph_tags_every_word_as_the_tagger_does(place: Path, engine: Engine, decoding: Decoding) -> None:
    tagger, graph = pair(place, engine, decoding)
    assert isinstance(tagger.classifier, torch.nn.Linear), "it stays as it is"
    assert graph.hyper == tagger.hyper and graph.tag_set == tagger.tag_set and not graph.training
    unknown = [
        Sentence(("x-ray", "acme", "\x01", "zzz" * 40), None, "elsewhere"),
        Sentence(("the",) * 200, None, "news"),
    ]
    sentences = [*some_sentences(20), *unknown]
    for batch_subwords in (64, 1024):
        expected = tag(tagger, sentences, engine, batch_subwords=batch_subwords)
        found = tag(graph, sentences, engine, batch_subwords=batch_subwords)
        assert [each.tags for each in found] == [each.tags for each in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-4)


def test_the_folder_holds_what_other_runtimes_read(place: Path, engine: Engine) -> None:
    folder = place / "run" / "export"
    assert {path.name for path in folder.iterdir()} == {
        "model.onnx",
        "model_quantized.onnx",
        "config.json",
        "tagger.json",
        *TOKENIZER_FILES,
        "README.md",
        "export.json",
    }
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    labels = transformers.AutoConfig.from_pretrained(folder).id2label
    assert list(labels.values()) == list(TAG_SET.tags)
    tagger, _ = pair(place, engine, "any")
    for sentence in some_sentences(5, longest=8):
        read = tokenizer([list(sentence.words)], is_split_into_words=True, return_tensors="np")
        (logits,) = session.run(["logits"], {name: read[name] for name in ("input_ids", "attention_mask")})
        first = [read.word_ids().index(word) for word in range(len(sentence.words))]
        given = tuple(labels[number] for number in logits[0, first].argmax(-1).tolist())
        assert given == tag(tagger, [Sentence(sentence.words)], engine)[0].tags
    kinds = {value.data_type for value in onnx.load(folder / "model_quantized.onnx").graph.initializer}
    assert onnx.TensorProto.INT8 in kinds, "weights are in int8"


def test_f1_speed_and_size_are_measured_side_by_side_and_the_calibration_goes_along(place: Path) -> None:
    folder, record = place / "run" / "export", json.loads((place / "record.json").read_text())
    assert json.loads((folder / "export.json").read_text()) == strip_folders(record)
    result = record["result"]
    assert result["calibration"] == CALIBRATION.to_json()
    assert (result["sentences"], result["words"], result["split"]) == (3, 303, "dev")
    torch32, onnx32, onnx8 = result["models"]
    assert [each["name"] for each in result["models"]] == ["PyTorch fp32", "ONNX fp32", "ONNX int8"]
    assert onnx32["other_tags"] == 0 and onnx32["f1"] == torch32["f1"]
    assert all(each["words_per_second"] > 0 for each in result["models"])
    assert onnx8["bytes"] == (folder / "model_quantized.onnx").stat().st_size
    scored = crossner("evaluate", "--run", place / "run", "--model", place / "linear", "--split", "dev", *QUICK)
    (model,) = scored["result"]["models"].values()
    assert model["f1"]["mean"] == torch32["f1"]
    card = ModelCard.load(folder / "README.md")
    assert f"| ONNX fp32 | {onnx32['f1']:.2f} | 0 |" in card.text and "onnxruntime.InferenceSession" in card.text
    assert "sigmoid(slope * log(p / (1 - p)) + intercept)" in card.text
    assert [(each.dataset_split, each.metric_name, each.metric_value) for each in card.data.eval_results or []] == [
        ("dev", f"F1 in percent of {each['name']} (micro, CoNLL)", round(each["f1"], 2)) for each in (onnx32, onnx8)
    ]


@pytest.mark.parametrize("reads_shapes", [False, True])
def test_the_code_of_the_card_runs_without_crossner_and_prints_the_tags_of_the_tagger(
    reads_shapes: bool, tmp_path: Path, engine: Engine
) -> None:
    tag_set = TagSet({"news": ["person", "place"]})
    tagger = make_tagger(make_encoder(tmp_path / "encoder", num_hidden_layers=1), "linear", tag_set, "legal=false")
    assert isinstance(tagger.encoder, TransformerEncoder)
    if reads_shapes:
        tagger.encoder.read_shapes()
        assert tagger.encoder.shapes is not None
        tagger.encoder.shapes.vectors.data.normal_(0, 3)
    save_tagger(tagger, tmp_path / "tagger")
    given = ("--model", tmp_path / "tagger", "--run", tmp_path / "run", "--output", tmp_path / "out")
    crossner("export --split none --quantise none", *given, *QUICK)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    assert "crossner" not in code and ("word_shapes" in code) == reads_shapes
    script = code.replace("FOLDER", str(tmp_path / "out"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = ("Anna", "met", "Peter", "in", "Paris", ".")
    (expected,) = tag(tagger, [Sentence(words)], engine)
    assert done.stdout.splitlines() == [f"{word} {label}" for word, label in zip(words, expected.tags, strict=True)]
    assert str(tmp_path) not in card + (tmp_path / "out" / "export.json").read_text(encoding="utf-8")


def test_predict_and_evaluate_tag_with_the_graph(place: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("anna visited paris .\nacme met london\n")
    found, scores = {}, {}
    for name, folder in (("tagger", place / "linear"), ("graph", place / "run" / "export")):
        given = ("--run", place / "run", "--model", folder, *QUICK)
        crossner("predict", tmp_path / "new.txt", *given, "--output", tmp_path / f"{name}.jsonl")
        found[name] = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        (scored,) = crossner("evaluate", *given, "--split", "dev")["result"]["models"].values()
        scores[name] = scored["f1"]
    assert scores["graph"] == scores["tagger"]
    for one, other in zip(found["graph"], found["tagger"], strict=True):
        assert one["tags"] == other["tags"] and one["calibrated"]
        assert [entity["score"] for entity in one["entities"]] == pytest.approx(
            [entity["score"] for entity in other["entities"]], abs=1e-3
        )
    from_python = load_tagger_of_texts(place / "run" / "export").tag((tmp_path / "new.txt").read_text().splitlines())
    for record, entities in zip(found["graph"], from_python, strict=True):
        assert [dataclasses.asdict(entity) for entity in entities] == [
            {**entity, "score": pytest.approx(entity["score"], abs=1e-3)} for entity in record["entities"]
        ]
    again = CliRunner().invoke(app, ["export", "--model", str(place / "run" / "export"), "--run", str(tmp_path)])
    assert again.exit_code == 1 and "is an exported tagger already" in again.stderr


def test_int8_reads_the_graph_in_int8_which_must_be_there(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(
        folder_module, "read_onnx", lambda graph, *rest: read.append(graph.name) or read_onnx(graph, *rest)
    )
    folder = tmp_path / "export"
    shutil.copytree(place / "run" / "export", folder)
    given = ("predict", "--text", "anna visited paris", "--model", folder, "--run", tmp_path, *QUICK[:-1])
    for precision in ("int8", "fp32"):
        assert invoke(*given, precision).exit_code == 0
    assert read == [QUANTISED, "model.onnx"]
    (folder / QUANTISED).unlink()
    assert "has no graph in int8" in refused(*given, "int8")
    assert invoke(*given, "fp32").exit_code == 0, "the way out"


def test_a_graph_that_is_broken_or_of_other_tags_is_a_known_problem(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(place / "run" / "export", folder)
    described = json.loads((folder / "tagger.json").read_text())
    described["tag_set"]["domains"] = {"news": ["person"]}
    (folder / "tagger.json").write_text(json.dumps(described))
    given = ["predict", "--text", "anna", "--model", str(folder), "--run", str(tmp_path), *QUICK]
    other = CliRunner().invoke(app, given)
    assert other.exit_code == 1 and "instead of 3 logits" in other.stderr
    (folder / "model.onnx").write_bytes(b"no graph")
    broken = CliRunner().invoke(app, given)
    assert broken.exit_code == 1 and "model.onnx cannot be read" in broken.stderr


def test_what_cannot_be_exported_is_a_known_problem_and_leaves_nothing(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(*arguments: str | Path) -> Any:
        usual = {"--run": place / "run", "--output": tmp_path / "out"}
        given = [*(part for flag, path in usual.items() if flag not in arguments for part in (flag, path))]
        given += [*QUICK[2:], *arguments]
        return CliRunner().invoke(app, ["export", *map(str, given)])

    for arguments, problem in (
        (("--model", place / "crf"), "of the method crf, which is not exported"),
        (("--model", place / "linear", "--split", "test"), "has no test sentences"),
        (("--model", place / "linear", "--run", tmp_path / "none"), "prepare-data"),
        (("--model", place / "nowhere"), "neither a finished stage"),
        (("--model", place / "linear", "--output", place), "was not made by this command"),
    ):
        done = export(*arguments)
        assert done.exit_code == 1 and problem in " ".join(done.stderr.split()), done.stderr
        assert "Traceback" not in done.stderr

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("crossner_cli.stages.export.write_onnx", fail)
    full = export("--model", place / "linear")
    assert full.exit_code == 1 and "No space left" in full.stderr
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    lacking = export("--model", place / "linear")
    assert (
        lacking.exit_code == 1 and "onnxscript" in lacking.stderr and 'pip install "crossner[onnx]"' in lacking.stderr
    )
    assert not any(tmp_path.iterdir())
