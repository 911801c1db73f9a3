"""Fast layers for encoders that compute the same as the slow ones; ``engine`` chooses which of them suit the device."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from crossner_cli.errors import CrossNERError
from crossner_cli.layers.randomness import Dropout

# Attention for CPUs, by the name that ``attn_implementation`` takes.
CPU_ATTENTION = "crossner_cpu"
LEAST_PADDING = 0.05  # share of a batch; to leave out less saves no time
# Encoders whose layers end in steps that read each position alone, all after a module ``attention.output``.
LAYERS_LIKE_BERT = ("bert", "camembert", "data2vec-text", "electra", "ernie", "roberta", "xlm-roberta")


def cpu_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    **ignored: Any,
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention with its softmax in fp32, since the softmax of bf16 is several times slower on CPU.

    Args:
        query: (R, heads, T, H / heads), like ``key`` and ``value``.
        attention_mask: Added to the scores, (R or 1, 1, T or 1, T). Or, from ``leave_out_padding``, True where a
            subword is, (R, 1, 1, T): then all subwords come and go as one row, (1, heads, N, H / heads).
        scaling: Factor of the scores; None is one over the root of the width.

    Returns:
        The vectors, (R, T, heads, H / heads), and the weights, (R, heads, T, T).
    """
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        places = attention_mask.flatten().nonzero()[:, 0]
        query, key, value = (_pad_heads(states, places, attention_mask) for states in (query, key, value))
        added = query.new_zeros(attention_mask.shape).masked_fill(~attention_mask, -torch.inf)
        vectors, weights = cpu_attention(module, query, key, value, added, scaling=scaling, dropout=dropout)
        return _pick(vectors, places).unsqueeze(0), weights
    scores = torch.matmul(query * (query.size(-1) ** -0.5 if scaling is None else scaling), key.transpose(2, 3))
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def _pick(states: Tensor, places: Tensor) -> Tensor:
    """Pick some of the flattened positions of a batch, (R, T, ...), as (N, ...)."""
    return states.flatten(0, 1).index_select(0, places)


def _pad_heads(states: Tensor, places: Tensor, mask: Tensor) -> Tensor:
    """Spread one row, (1, heads, N, H / heads), over ``places``, (N,), of a batch, (R, heads, T, H / heads)."""
    flat = states.transpose(1, 2)[0]  # (N, heads, H / heads)
    padded = flat.new_zeros(mask.numel(), *flat.shape[1:]).index_copy(0, places, flat)
    return padded.view(mask.shape[0], mask.shape[-1], *flat.shape[1:]).transpose(1, 2)


def register_cpu_attention() -> None:
    """Register ``cpu_attention`` with transformers, which is imported here since that takes seconds."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(CPU_ATTENTION, cpu_attention)
    AttentionMaskInterface.register(CPU_ATTENTION, eager_mask)


def use_fast_cpu_layers(model: nn.Module, *, attention_dropout: bool = False) -> None:
    """Prepare an encoder for training on a CPU.

    Attention weights are not dropped unless ``attention_dropout`` is set: it costs a random number for each pair of
    subwords. The other dropout layers draw their numbers eight at a time. Under bf16 autocast the embeddings are cast
    once, so that the sums and normalisations between the matrix products run in bf16 too instead of falling back to
    fp32.
    """
    for parent in list(model.modules()):
        is_attention = _is_attention(parent) and not any(map(_is_attention, list(parent.modules())[1:]))
        if is_attention and not attention_dropout and isinstance(getattr(parent, "attention_dropout", None), float):
            parent.attention_dropout = 0.0  # type: ignore[assignment]
        for name, child in list(parent.named_children()):
            if not isinstance(child, nn.Dropout):
                continue
            # Some attention modules only read ``dropout.p``, so the layer stays.
            if is_attention and name != "output_dropout":
                child.p = child.p if attention_dropout else 0.0
            else:
                setattr(parent, name, Dropout(child.p).train(child.training))
    embeddings = getattr(model, "embeddings", None)
    if isinstance(embeddings, nn.Module):
        embeddings.register_forward_hook(_cast_under_autocast)


class Int8Linear(nn.Module):
    """A linear layer whose weights are whole numbers of 8 bits, for tagging on a CPU.

    The weights of each output have their own scale. The inputs have one for each call, from their smallest to their
    largest value: nothing is calibrated beforehand, and the tags of a sentence depend a little on its neighbours.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach().float()
        scales = (weight.abs().amax(dim=1) / 127).clamp_min(torch.finfo(torch.float32).tiny).double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, but eager mode has nothing as fast yet
            whole = torch.quantize_per_channel(weight, scales, torch.zeros(len(weight)).long(), 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(whole, layer.bias)

    def forward(self, values: Tensor) -> Tensor:
        """Multiply values, (..., I), in int8; the result is in fp32, (..., O)."""
        found: Tensor = torch.ops.quantized.linear_dynamic(values, self.packed, False)
        return found


def has_int8_kernels() -> bool:
    """Return whether PyTorch multiplies in int8 here."""
    return torch.backends.quantized.engine != "none" and hasattr(torch, "quantize_per_channel")


def use_int8_layers(model: nn.Module) -> None:
    """Compute the linear layers of a trained model in int8.

    Raises:
        CrossNERError: This build of PyTorch has no such kernels.
    """
    if not has_int8_kernels():
        raise CrossNERError("--precision int8: this PyTorch has no int8 kernels.", hint="Use --precision fp32.")
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, Int8Linear(child))


def _is_attention(module: nn.Module) -> bool:
    return "attention" in type(module).__name__.lower()


def _cast_under_autocast(module: nn.Module, inputs: Any, output: Any) -> Any:
    if isinstance(output, Tensor) and output.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return output.to(torch.get_autocast_dtype("cpu"))
    return output


@contextmanager
def leave_out_padding(encoder: Any, mask: Tensor | None, positions: Tensor) -> Iterator[tuple[Tensor | None, Tensor]]:
    """Make the layers of an encoder read all subwords of a batch as one row, without padding, (1, N, H) for (R, T, H).

    Only ``cpu_attention`` pads them, since a subword attends to its own row. Other kernels and architectures read the
    padding, and so do batches with little of it. Of a batch of 16 training sentences about a fifth is padding.

    Args:
        mask: 1 at subwords, (R, T); None without padding.
        positions: Indices into the flattened (R*T) positions; there is a subword at each.

    Yields:
        The mask to give to the encoder, and the same positions among those that it returns.
    """
    known = encoder.config.model_type in LAYERS_LIKE_BERT and encoder.config._attn_implementation == CPU_ATTENTION
    if mask is None or not known or mask.float().mean() > 1 - LEAST_PADDING:
        yield mask, positions
        return
    flat = mask.flatten()
    places = flat.nonzero()[:, 0]

    def leave_out(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return _pick(output, places).unsqueeze(0)

    handle = encoder.embeddings.register_forward_hook(leave_out)
    try:
        yield mask.bool()[:, None, None], (flat.cumsum(0) - 1)[positions]
    finally:
        handle.remove()


@contextmanager
def keep_positions(encoder: Any, positions: Tensor) -> Iterator[None]:
    """Make an encoder return some positions only, as one row, (1, N, H) for (R, T, H).

    After the attention of the last layer every position is computed alone; in architectures known to be built so, the
    other positions are left out from there. Half of a sentence's subwords do not begin a word, and six of seven are not
    masked.

    Args:
        positions: Indices into the flattened (R*T) positions, (N,).
    """

    def before_output(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(_pick(states, positions) for states in inputs)  # the attention's result, and what it is added to

    def at_the_end(module: nn.Module, inputs: Any, output: Any) -> Any:
        states = output.last_hidden_state
        output.last_hidden_state = (states if narrow is not None else _pick(states, positions)).unsqueeze(0)
        return output

    narrow = _last_attention_output(encoder)
    handles = [encoder.register_forward_hook(at_the_end)]
    if narrow is not None:
        handles.append(narrow.register_forward_pre_hook(before_output))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _last_attention_output(encoder: Any) -> nn.Module | None:
    """Find the module from which an encoder's last layer reads each position alone; None if it is not known."""
    if encoder.config.model_type not in LAYERS_LIKE_BERT or encoder.config.chunk_size_feed_forward:
        return None
    output: nn.Module = encoder.encoder.layer[-1].attention.output
    return output
