"""Packed batches give what padded ones give, and their kernel is asked for only where it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from builders.encoders import ARCHITECTURES, encode_sentences, takes_our_kernels
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import BertConfig

from crossner_cli.adaptation.masked_lm import MaskedLanguageModel
from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders import packed_batches
from crossner_cli.encoders.fast_layers import LAYERS_LIKE_BERT
from crossner_cli.encoders.packed_batches import (
    PACKED_ATTENTION,
    attend_in_turn,
    fits_packed_kernel,
    has_packed_kernel,
    packed_attention,
)
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.engine.devices import Engine

SENTENCES = [
    Sentence(("anna", "visited", "paris", "(x-ray)")),
    Sentence(("the", "acme", "of", "london", "ab,c") * 30),  # several windows
    Sentence(("berlin",)),
]


@takes_our_kernels
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_packed_rows_give_the_vectors_and_gradients_of_padded_ones(architectures, name):
    found = []
    for attention in ("sdpa", PACKED_ATTENTION):
        encoder, _ = load_encoder(str(architectures(name)), attention=attention)
        batch = encoder.reader.collate(encoder.reader.encode(SENTENCES))
        vectors = encoder.eval().double()(batch)[batch.word_mask]
        vectors.square().sum().backward()
        found.append([vectors, *(value.grad for value in encoder.parameters())])
    torch.testing.assert_close(*found)
    is_packed = encoder.model.config.model_type in LAYERS_LIKE_BERT
    assert (batch.window_ends is not None) == is_packed == (len(batch.input_ids) == 1)
    assert (encoder.model.config._attn_implementation == PACKED_ATTENTION) == is_packed


@takes_our_kernels
@given(lengths=st.lists(st.integers(1, 120), min_size=1, max_size=6))
def test_a_packed_row_holds_every_window_once_and_nothing_else(architectures, lengths):
    encoder, _ = load_encoder(str(architectures("Roberta")), attention=PACKED_ATTENTION)
    reader = encoder.reader
    encoded = reader.encode([Sentence((("anna", "(x-ray)", "paris") * 40)[:length]) for length in lengths])
    batch = reader.collate(encoded)
    windows = [window for sentence in encoded for window in sentence.windows]
    expected = [[reader.first_id, *window, reader.last_id] for window in windows]
    assert batch.input_ids.tolist() == [sum(expected, [])]
    assert batch.window_ends.diff().tolist() == [len(row) for row in expected]
    assert batch.longest_window == max(map(len, expected)) and batch.window_ends.dtype == torch.int32
    first = encoder.model.config.pad_token_id + 1
    assert batch.position_ids.tolist() == [sum(([*range(first, first + len(row))] for row in expected), [])]
    assert batch.attention_mask is None and batch.words == sum(lengths)


def test_windows_of_a_packed_row_do_not_see_each_other(architectures):
    encoder, _ = load_encoder(str(architectures("Bert")), attention=PACKED_ATTENTION)
    together, other = (
        encode_sentences(encoder, SENTENCES),
        encode_sentences(encoder, [SENTENCES[0], Sentence(("rome",))]),
    )
    torch.testing.assert_close(together[0, :4], other[0, :4], rtol=1e-4, atol=1e-6)


def test_rows_without_ends_are_read_as_padded_ones_are(architectures):
    kinds = [
        MaskedLanguageModel.from_pretrained(str(architectures("Bert")), attention=attention)
        for attention in ("sdpa", PACKED_ATTENTION)
    ]
    kinds[1].load_state_dict(kinds[0].state_dict())
    blocks = torch.randint(5, 60, (3, 16), generator=torch.Generator().manual_seed(1))
    labels = torch.where(blocks % 3 == 0, blocks, -100)
    losses = [kind.eval()(blocks, labels)[0] for kind in kinds]
    torch.testing.assert_close(*losses)


def test_the_kernel_is_given_what_it_takes(monkeypatch):
    """PyTorch's own operator checks shapes and arguments of tensors that claim to lie on a GPU."""
    asked: list[tuple[Any, ...]] = []
    from torch.nn.attention import varlen

    real = varlen.varlen_attn
    monkeypatch.setattr(varlen, "varlen_attn", lambda *given, **named: (asked.append(given), real(*given, **named))[1])
    with FakeTensorMode():
        parts = [torch.empty(1, 2, 12, 32, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        ends = torch.empty(4, device="cuda", dtype=torch.int32)
        module: Any = None
        found, weights = packed_attention(module, *parts, None, scaling=0.1, window_ends=ends, longest_window=5)
    assert found.shape == (1, 12, 2, 32) and found.dtype == torch.bfloat16 and weights is None
    assert asked[0][0].shape == (12, 2, 32) and asked[0][3] is ends and asked[0][5:] == (5, 5)


def test_without_a_scale_attention_in_turn_divides_by_the_root_of_the_width():
    query, key, value = torch.randn(3, 7, 2, 8, generator=torch.Generator().manual_seed(2)).unbind()
    ends = torch.tensor([0, 3, 7])
    found = attend_in_turn(query, key, value, ends, ends, 4, 4)
    scores = torch.einsum("qhd,khd->hqk", query[3:], key[3:]) / 8**0.5
    torch.testing.assert_close(found[3:], torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), value[3:]))


@pytest.mark.parametrize(
    ("device", "precision", "capability", "packs"),
    [
        ("cuda", "bf16", (8, 0), True), ("cuda", "fp16", (9, 0), True), ("cuda", "fp32", (9, 0), False),
        ("cuda", "fp16", (7, 5), False), ("cpu", "bf16", (9, 0), False), ("mps", "bf16", (9, 0), False),
    ],
)  # fmt: skip
def test_rows_are_packed_where_the_kernel_runs(monkeypatch, device, precision, capability, packs):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    where: Any = SimpleNamespace(device=torch.device(device))
    assert has_packed_kernel(where.device, precision) == packs
    assert (Engine(where, precision).attention == PACKED_ATTENTION) == packs
    monkeypatch.setattr(packed_batches, "find_spec", lambda name: None)
    assert not has_packed_kernel(where.device, precision)


@pytest.mark.parametrize(
    ("width", "heads", "fits"), [(768, 12, True), (384, 12, True), (312, 12, False), (1024, 2, False), (1024, 4, True)]
)
def test_heads_that_the_kernel_does_not_take_are_read_in_padded_rows(width, heads, fits):
    config = BertConfig(hidden_size=width, num_attention_heads=heads)
    assert fits_packed_kernel(config) is fits
