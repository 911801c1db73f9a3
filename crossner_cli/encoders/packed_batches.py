"""Batches without padding: all windows of a batch one behind the other in one row, none of which sees another.

Only attention lets subwords see each other, so it alone is told where the windows end; ``engine`` says where its kernel
exists. Encoders whose other layers read neighbours, or that find positions on their own, are read in padded rows.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

# Attention over packed windows, by the name that ``attn_implementation`` takes; padded rows are read as by ``sdpa``.
PACKED_ATTENTION = "crossner_packed"
LARGEST_HEAD = 256
KERNEL_CAPABILITY = (8, 0)  # FlashAttention runs from Ampere on


def has_packed_kernel(device: torch.device, precision: str) -> bool:
    """Whether attention over windows of any length is one kernel on a device: FlashAttention, in half precision."""
    if device.type != "cuda" or precision == "fp32" or torch.version.hip is not None:
        return False
    if find_spec("torch.nn.attention.varlen") is None:  # came with torch 2.10
        return False
    return torch.cuda.get_device_capability(device) >= KERNEL_CAPABILITY


def fits_packed_kernel(config: Any) -> bool:
    """Whether the kernel takes heads of an encoder's size: FlashAttention does up to 256 values, in steps of eight."""
    size: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return size % 8 == 0 and size <= LARGEST_HEAD


def packed_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
    scaling: float | None = None, dropout: float = 0.0, window_ends: Tensor | None = None, longest_window: int = 0,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Scaled dot-product attention within each window of a packed row; attention weights are not dropped there.

    Args:
        module: The attention layer.
        query: (1, heads, T, H / heads), like ``key`` and ``value``.
        key: As above.
        value: As above.
        attention_mask: Of padded rows; packed ones have none.
        scaling: Of the scores; None is one over the root of the width.
        dropout: Share of the attention weights dropped in padded rows.
        window_ends: 0 and the end of each window, (R+1,), int32; None where rows are padded, (R, heads, T, H / heads).
        longest_window: Subwords of the longest window.
        others: What other kernels need.

    Returns:
        The vectors, (1, T, heads, H / heads), and nothing for the weights.
    """
    if window_ends is None:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
        return found
    parts = [part.squeeze(0).transpose(0, 1) for part in (query, key, value)]  # (T, heads, H / heads)
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        from torch.nn.attention.varlen import varlen_attn

        attend: Any = varlen_attn
    else:
        attend = attend_in_turn
    return attend(*parts, window_ends, window_ends, longest_window, longest_window, scale=scaling).unsqueeze(0), None


def attend_in_turn(
    query: Tensor, key: Tensor, value: Tensor, query_ends: Tensor, key_ends: Tensor, longest_query: int,
    longest_key: int, *, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """What ``torch.nn.attention.varlen.varlen_attn`` computes, one window after the other: for fp32 and other devices.

    Args:
        query: (T, heads, H / heads), like ``key`` and ``value``, and like the result.
        key: As above.
        value: As above.
        query_ends: 0 and the end of each window, (R+1,).
        key_ends: The same.
        longest_query: Not needed.
        longest_key: Not needed.
        scale: Of the scores; None is one over the root of the width.
    """
    sizes = query_ends.diff().tolist()
    windows = zip(*(torch.split(part.transpose(0, 1), sizes, dim=1) for part in (query, key, value)), strict=True)
    found = [nn.functional.scaled_dot_product_attention(q, k, v, scale=scale) for q, k, v in windows]
    return torch.cat(found, dim=1).transpose(0, 1)


AttentionInterface.register(PACKED_ATTENTION, packed_attention)
AttentionMaskInterface.register(PACKED_ATTENTION, sdpa_mask)
