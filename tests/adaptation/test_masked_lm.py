"""The masked language model: equal to the full computation, whatever the architecture; made heads; what is saved."""

import math
from pathlib import Path

import pytest
import torch
import transformers
from builders.encoders import SMALL, make_encoder, make_tokenizer
from torch.nn import functional as F
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging

from crossner_cli.adaptation.masked_lm import BlockStream, MaskedBatch, MaskedLanguageModel, held_out_loss
from crossner_cli.adaptation.token_stream import StreamSettings, TokenBlocks, border_ids, write_token_stream
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import exhaust

BLOCK = 16
VOCABULARY = 120
SIZES = {"vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": 0, **SMALL}
ARCHITECTURES = {
    "Bert": {},
    "Roberta": {},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "Albert": {"embedding_size": 16},
    "Electra": {"embedding_size": 16},
    "DebertaV2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "MPNet": {},
    "ModernBert": {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3},
}


def tiny(architecture: str, **more: object) -> transformers.PreTrainedModel:
    config = getattr(transformers, f"{architecture}Config")(**SIZES | ARCHITECTURES[architecture] | more)
    torch.manual_seed(3)
    model = AutoModelForMaskedLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)  # biases that are not zero, vectors that differ
    return model


def folder_of(path: Path, architecture: str = "Bert", **more: object) -> Path:
    tiny(architecture, **more).save_pretrained(path)
    make_tokenizer(path)
    return path


def some_blocks(rows: int = 3, seed: int = 0) -> torch.Tensor:
    ids = torch.randint(5, 100, (rows, BLOCK), generator=torch.Generator().manual_seed(seed))
    ids[:, 0], ids[:, -1] = 2, 3
    return ids


def masked(model: MaskedLanguageModel, rate: float = 0.3) -> MaskedBatch:
    return MaskedBatch.select(*model.mask(some_blocks(), "span", rate, torch.Generator().manual_seed(1)))


def loss_of(model: MaskedLanguageModel, batch: MaskedBatch) -> torch.Tensor:
    return model(batch)["masked"]


@pytest.fixture(scope="module")
def headless(tiny_encoder_folder) -> MaskedLanguageModel:
    return MaskedLanguageModel.from_pretrained(tiny_encoder_folder)


@pytest.fixture
def model(tmp_path) -> MaskedLanguageModel:
    return MaskedLanguageModel.from_pretrained(folder_of(tmp_path / "model"))


@pytest.fixture
def blocks(tmp_path, tiny_encoder_folder) -> TokenBlocks:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder_folder)
    (tmp_path / "text.txt").write_text("anna met peter in london\nthe visited paris and acme\n" * 20)
    work = write_token_stream(tmp_path / "text.txt", tokenizer, tmp_path, StreamSettings(0.0, BLOCK))
    return TokenBlocks(tmp_path / "train.bin", BLOCK, *border_ids(tokenizer), exhaust(work)["dtype"])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scoring_masked_positions_alone_equals_scoring_all(architecture, tmp_path):
    model = MaskedLanguageModel.from_pretrained(folder_of(tmp_path, architecture)).eval()
    assert not model.has_new_head
    batch = masked(model)
    ids, labels = model.mask(some_blocks(), "span", 0.3, torch.Generator().manual_seed(1))
    loss = loss_of(model, batch)
    loss.backward()
    narrow = {name: parameter.grad for name, parameter in model.model.named_parameters()}
    model.zero_grad(set_to_none=True)
    full = model.model(input_ids=ids).logits
    assert full.shape[:2] == ids.shape  # nothing of the narrowing is left behind
    expected = F.cross_entropy(full.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    expected.backward()
    assert model.units(batch) == {"masked": int((labels != -100).sum())} and batch.chosen > 0
    torch.testing.assert_close(loss, expected)
    for name, parameter in model.model.named_parameters():
        if parameter.grad is None:
            assert narrow[name] is None
        else:
            torch.testing.assert_close(narrow[name], parameter.grad, msg=name)
    nothing = loss_of(model, MaskedBatch.select(ids, torch.full_like(ids, -100)))
    nothing.backward()  # a block without a masked position costs nothing and still has a gradient
    assert nothing.item() == 0.0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_parameter_is_of_the_encoder_or_of_the_head_that_is_there_or_made(architecture, tmp_path):
    model = MaskedLanguageModel.from_pretrained(folder_of(tmp_path, architecture))
    encoder, head = model.encoder_parameters(), model.head_parameters()
    assert len(encoder) + len(head) == len(list(model.parameters()))
    assert not {id(parameter) for parameter in encoder} & {id(parameter) for parameter in head}
    embeddings = model.model.get_input_embeddings().weight
    assert any(parameter is embeddings for parameter in encoder)
    assert 0 < sum(parameter.numel() for parameter in head) < VOCABULARY * 32
    if architecture not in ("Bert", "DebertaV2", "MPNet"):
        tiny(architecture).base_model.save_pretrained(tmp_path)
        model = MaskedLanguageModel.from_pretrained(tmp_path).eval()
        batch = masked(model)
        assert model.has_new_head and loss_of(model, batch).item() / batch.chosen < 2 * math.log(VOCABULARY)


def test_the_loss_is_in_full_precision_under_autocast(model):
    model.eval()
    batch = masked(model)
    exact = loss_of(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(model, batch)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=0.03)
    model.to(torch.bfloat16)
    assert loss_of(model, batch).dtype == torch.float32


def test_a_checkpoint_without_a_head_gets_one_tied_to_the_word_embeddings(headless, tiny_encoder_folder, tmp_path):
    assert headless.has_new_head
    head = headless.model.cls.predictions
    assert head.decoder.weight is headless.model.get_input_embeddings().weight
    assert torch.equal(head.transform.dense.weight, torch.eye(32))
    assert not any(headless.model.get_parameter(name).any() for name in headless.new if name.endswith("bias"))
    plain = AutoModel.from_pretrained(tiny_encoder_folder).state_dict()
    loaded = headless.encoder.state_dict()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in loaded.items())
    # Even where the configuration says otherwise; but a head that is not tied and of the checkpoint is kept.
    MaskedLanguageModel.from_pretrained(make_encoder(tmp_path, tie_word_embeddings=False)).save(tmp_path / "saved")
    again = MaskedLanguageModel.from_pretrained(tmp_path / "saved")
    assert again.model.cls.predictions.decoder.weight is again.model.get_input_embeddings().weight
    untied = MaskedLanguageModel.from_pretrained(folder_of(tmp_path / "untied", tie_word_embeddings=False))
    decoder = untied.model.cls.predictions.decoder.weight
    assert not again.has_new_head and not untied.has_new_head
    assert decoder is not untied.model.get_input_embeddings().weight
    assert any(parameter is decoder for parameter in untied.head_parameters())


def test_a_saved_model_is_an_encoder_folder_with_the_same_states_from_which_training_goes_on(
    tmp_path, tiny_encoder_folder, capfd
):
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    model = MaskedLanguageModel.from_pretrained(tiny_encoder_folder)
    with torch.no_grad():
        for parameter in model.encoder_parameters():
            parameter.add_(0.01)
    model.eval().save(tmp_path)
    again = MaskedLanguageModel.from_pretrained(tmp_path).eval()
    assert capfd.readouterr() == ("", ""), "loading and saving say nothing"
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert not again.has_new_head and again.new == again.left == ()
    torch.testing.assert_close(loss_of(again, masked(again)), loss_of(model, masked(again)))
    encoder = AutoModel.from_pretrained(tmp_path).eval()
    ids = some_blocks()
    expected = model.encoder(input_ids=ids).last_hidden_state
    torch.testing.assert_close(encoder(input_ids=ids).last_hidden_state, expected)
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == model.tokenizer.get_vocab()
    weights = [path.name for path in tmp_path.iterdir() if path.suffix not in {".json", ".txt"}]
    assert weights == ["model.safetensors"]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("no folder", "was not found"),
        ("weights of another format", "other weight formats are never loaded"),
        ("other width", "no masked language model can be loaded"),
        ("lacks a layer", r"lack 16 of \d+ tensors of the encoder \(bert\.encoder\.layer\.2"),
        ("no tokenizer", "has no vocabulary"),
        ("no mask", "no mask subword"),
        ("generator", "no masked language model can be loaded .*GPT2Config"),
    ],
)
def test_a_damaged_or_unfit_folder_is_refused_with_a_way_out(tmp_path, damage, problem):
    folder = folder_of(tmp_path / "model")
    if damage == "no folder":
        folder = tmp_path / "absent"
    elif damage == "weights of another format":
        (folder / "model.safetensors").unlink()
        torch.save({}, folder / "pytorch_model.bin")
    elif damage == "other width":
        transformers.BertConfig(**SIZES | {"hidden_size": 64}).save_pretrained(folder)
    elif damage == "lacks a layer":
        transformers.BertConfig(**SIZES | {"num_hidden_layers": 3}).save_pretrained(folder)
    elif damage == "no tokenizer":
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).unlink()
    elif damage == "no mask":
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.mask_token = None
        tokenizer.save_pretrained(folder)
    else:
        transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2).save_pretrained(folder)
    with pytest.raises(CrossNERError, match=problem) as caught:
        MaskedLanguageModel.from_pretrained(folder)
    assert caught.value.hint


@pytest.mark.parametrize("masking", ["token", "span"])
def test_a_batch_cut_into_parts_has_the_masks_of_the_whole_batch_and_each_epoch_others(headless, blocks, masking):
    stream = BlockStream(blocks, headless, masking, 0.3, batch_size=6, seed=1)
    items = list(range(6))
    whole = stream.batch(items, 0)
    labels = torch.full_like(whole.input_ids, -100).flatten().index_put((whole.places,), whole.labels).view(6, BLOCK)
    for parts in ([items[number::4] for number in range(4)], [[item] for item in reversed(items)]):
        for part in parts:
            cut = stream.batch(part, 0)
            expected = MaskedBatch.select(whole.input_ids[part], labels[part])
            assert all(torch.equal(getattr(cut, name), value) for name, value in vars(expected).items())
    assert not torch.equal(stream.batch(items, 1).labels, whole.labels)
    other = BlockStream(blocks, headless, masking, 0.3, batch_size=6, seed=2)
    assert not torch.equal(other.batch(items, 0).labels, whole.labels)


@pytest.mark.parametrize("is_training", [True, False])
def test_the_held_out_loss_is_the_same_at_every_call_and_batch_size_and_leaves_the_model(headless, blocks, is_training):
    headless.train(is_training)
    before = {name: tensor.clone() for name, tensor in headless.state_dict().items()}
    first = held_out_loss(headless, blocks)
    torch.manual_seed(99)
    assert held_out_loss(headless, blocks) == first
    assert held_out_loss(headless, blocks, batch_size=3) == pytest.approx(first, rel=1e-5)
    assert headless.training is headless.model.training is is_training
    assert all(torch.equal(before[name], tensor) for name, tensor in headless.state_dict().items())
    assert all(parameter.grad is None for parameter in headless.parameters())


def test_the_held_out_loss_is_a_mean_over_masked_subwords_of_blocks_spread_evenly(
    tiny_encoder_folder, blocks, monkeypatch, tmp_path
):
    model = MaskedLanguageModel.from_pretrained(tiny_encoder_folder)
    torch.nn.init.zeros_(model.model.cls.predictions.decoder.weight)
    assert held_out_loss(model, blocks) == pytest.approx(math.log(len(model.tokenizer)), rel=1e-4)
    numbers = []
    batch = blocks.batch
    monkeypatch.setattr("crossner_cli.adaptation.masked_lm.MOST_HELD_OUT_BLOCKS", 3)
    monkeypatch.setattr(blocks, "batch", lambda chosen: (numbers.extend(chosen), batch(chosen))[1])
    held_out_loss(model, blocks)
    assert numbers == [0, (len(blocks) - 1) // 2, len(blocks) - 1]
    (tmp_path / "held-out.bin").write_bytes(b"")
    with pytest.raises(CrossNERError, match="no subword is masked in 0 held-out blocks"):
        held_out_loss(model, TokenBlocks(tmp_path / "held-out.bin", BLOCK, 2, 3, "<u2"))
