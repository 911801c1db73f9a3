"""What makes encoders fast changes nothing that they compute."""

from typing import Any

import pytest
import torch
from builders.encoders import ARCHITECTURES, encode_sentences
from torch import Tensor, nn

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.fast_layers import CPU_ATTENTION, LAYERS_LIKE_BERT, Int8Linear, keep_positions
from crossner_cli.encoders.pretrained import read_config
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.layers.randomness import Dropout

SENTENCES = [
    Sentence(("anna", "visited", "paris", "(x-ray)")),
    Sentence(("the", "acme", "of", "london", "ab,c") * 9),
    Sentence(("berlin",)),
]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_fast_layers_train_and_leave_evaluation_as_it_was(architectures, name):
    encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)), attention="eager")
    before = encode_sentences(encoder, SENTENCES)
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


def test_fast_layers_keep_every_dropout_and_that_of_attention_weights_on_request_alone(
    architectures, tiny_encoder_folder
):
    for name, kept in {"Bert": 5, "MPNet": 5, "Roberta": 5, "DistilBert": 3, "Electra": 5}.items():
        encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)), attention="eager")
        encoder.prepare_for_training(on_cpu=True)
        layers = [layer for layer in encoder.modules() if isinstance(layer, Dropout)]
        assert len(layers) == kept, name  # one behind the embeddings, one or two a layer
    for asked, share in ((False, 0.0), (True, 0.3)):
        encoder, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder), attention="eager")
        attention = encoder.model.encoder.layer[0].attention.self
        attention.dropout.p = 0.3
        encoder.prepare_for_training(on_cpu=True, attention_dropout=asked)
        assert attention.dropout.p == share


def some_of(model: Any, positions: Tensor, batch: Any) -> Tensor:
    with keep_positions(model, positions):
        states: Tensor = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
    return states


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_some_positions_are_what_they_are_among_all(architectures, name):
    encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)))
    model, batch = encoder.model.eval(), encoder.reader.collate(encoder.reader.encode(SENTENCES))
    whole = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
    positions = torch.tensor([1, 5, 5, 60, 0, batch.input_ids.numel() - 1])
    found = some_of(model, positions, batch)
    assert found.shape == (1, 6, 32)
    torch.testing.assert_close(found[0], whole.flatten(0, 1)[positions], rtol=1e-4, atol=1e-6)
    found.square().sum().backward()
    gradients = {name: value.grad.clone() for name, value in model.named_parameters()}
    model.zero_grad()
    whole.flatten(0, 1)[positions].square().sum().backward()
    for key, value in model.named_parameters():
        torch.testing.assert_close(gradients[key], value.grad, rtol=1e-3, atol=1e-5)
    again = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
    assert torch.equal(again, whole), "nothing is left behind"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_last_layer_leaves_out_what_is_not_wanted_where_the_architecture_is_known(architectures, name):
    encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)))
    if encoder.model.config.model_type not in LAYERS_LIKE_BERT:
        pytest.skip("the last layer of this architecture is computed whole")
    rows: list[int] = []
    last = encoder.model.encoder.layer[-1].intermediate
    last.register_forward_pre_hook(lambda layer, inputs: rows.append(inputs[0].numel() // inputs[0].shape[-1]))
    batch = encoder.reader.collate(encoder.reader.encode(SENTENCES))
    encoder(batch)
    assert rows == [batch.word_places.numel()]
    encoder.model(input_ids=batch.input_ids)
    assert rows[1] == batch.input_ids.numel()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_padding_is_left_out_where_the_architecture_and_the_attention_are_known(architectures, name):
    for attention in ("eager", CPU_ATTENTION):
        encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)), attention=attention)
        if encoder.model.config.model_type not in LAYERS_LIKE_BERT:
            pytest.skip("this architecture reads its padding")
        rows: list[int] = []
        first = encoder.model.encoder.layer[0].intermediate
        first.register_forward_pre_hook(lambda layer, inputs, rows=rows: rows.append(inputs[0].shape[:-1].numel()))
        batch = encoder.reader.collate(encoder.reader.encode(SENTENCES))
        encoder(batch)
        assert rows == [batch.attention_mask.sum() if attention == CPU_ATTENTION else batch.input_ids.numel()]
        encoder.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
        assert rows[1] == batch.input_ids.numel(), "nothing is left behind"


def test_every_architecture_whose_last_layer_is_shortened_is_tried(architectures):
    tried = {read_config(str(architectures(name))).model_type for name in ARCHITECTURES}
    assert set(LAYERS_LIKE_BERT) <= tried


def test_the_vector_of_a_word_is_that_of_its_first_subword(tiny_encoder_folder):
    encoder, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder))
    found = encode_sentences(encoder, SENTENCES)
    for row, sentence in enumerate(SENTENCES):
        (encoded,) = encoder.reader.encode([sentence])
        ids = [[encoder.reader.first_id, *window, encoder.reader.last_id] for window in encoded.windows]
        states = [encoder.model(input_ids=torch.tensor([window])).last_hidden_state[0] for window in ids]
        for word, (window, position) in enumerate(encoded.places):
            torch.testing.assert_close(found[row, word], states[window][position], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_attention_for_cpus_equals_transformers_own_in_value_and_gradient(architectures, name):
    found = []
    for attention in ("eager", CPU_ATTENTION):
        encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)), attention=attention)
        vectors = encoder.eval()(encoder.reader.collate(encoder.reader.encode(SENTENCES)))
        real = [vectors[row, : len(sentence.words)] for row, sentence in enumerate(SENTENCES)]
        torch.cat(real).square().sum().backward()
        found.append([torch.cat(real), *(value.grad for value in encoder.parameters())])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


# Without VNNI, the sum of two large products does not fit into 16 bits.
ADDS_IN_32_BITS = torch.cpu._is_vnni_supported() and torch.backends.cpu.get_cpu_capability() == "AVX512"


def test_a_layer_in_int8_multiplies_whole_numbers() -> None:
    torch.manual_seed(1)
    layer, values = nn.Linear(24, 16), torch.zeros(5, 7, 24)
    values[..., ::4] = torch.rand(5, 7, 6)  # no two neighbours, see above
    with torch.no_grad():
        layer.weight *= torch.logspace(-3, 2, 16)[:, None]  # each output has its own scale
        found, exact = Int8Linear(layer)(values), layer(values)
        scales = layer.weight.abs().amax(dim=1, keepdim=True) / 127
        weights = (layer.weight / scales).round() * scales
        low, high = min(values.min().item(), 0), max(values.max().item(), 0)
        step = (high - low) / 255
        zero = round(-low / step)
        read = ((values / step + zero).round().clamp(0, 255) - zero) * step
        expected = nn.functional.linear(read, weights, layer.bias)
    spread = exact.flatten(0, 1).std(dim=0)
    assert ((found - expected).abs() < 0.03 * spread + 1e-4).all()
    assert ((found - exact).abs() < 0.1 * spread + 1e-4).all() and not torch.equal(found, exact)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_reads_in_int8_about_what_it_reads_in_fp32(architectures: Any, name: str) -> None:
    encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)), attention="eager")
    exact = encode_sentences(encoder, SENTENCES)
    encoder.prepare_for_inference("int8", on_cpu=True)
    assert any(isinstance(layer, Int8Linear) for layer in encoder.modules())
    assert not any(type(layer) is nn.Linear for layer in encoder.model.modules())
    found = encode_sentences(encoder, SENTENCES)
    assert not torch.equal(found, exact)
    least = 0.99 if ADDS_IN_32_BITS else 0.97
    assert nn.functional.cosine_similarity(found, exact, dim=-1).min() > least
