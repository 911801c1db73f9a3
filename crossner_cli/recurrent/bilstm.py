"""Bidirectional LSTMs over words. Padding changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from crossner_cli.layers.randomness import Dropout


class BiLSTM(nn.Module):
    """A bidirectional LSTM over words, in fp32. Padding changes nothing.

    Args:
        hidden: Units of one direction, H.
    """

    def __init__(self, width: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True, dropout=between)
        self.between = Dropout(between)
        self.output_dim = 2 * hidden

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """Read sentences.

        Args:
            values: One vector per word, (B, W, D).
            mask: True at words, (B, W); every sentence has at least one, padding comes last.

        Returns:
            One vector per word, (B, W, 2 H); zeros at padding.
        """
        with torch.autocast(values.device.type, enabled=False):
            if is_faster_mirrored(values, mask):
                return self._mirrored(values.float(), mask)
            return run_packed(lambda packed: self.lstm(packed)[0], values.float(), mask)

    def _mirrored(self, values: Tensor, mask: Tensor) -> Tensor:
        weights = self.lstm.all_weights  # of each layer's forward, then its backward direction
        for layer in range(self.lstm.num_layers):
            read = self.between(values) if layer else values
            values = run_mirrored([*weights[2 * layer], *weights[2 * layer + 1]], read, mask)
        return values


def run_packed(read: Callable[[PackedSequence], PackedSequence], values: Tensor, mask: Tensor) -> Tensor:
    """Call ``read`` on packed sentences, (B, W, D), and pad its result with zeros, (B, W, E)."""
    packed = pack_padded_sequence(values, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(read(packed), batch_first=True, total_length=mask.shape[1])[0]


def is_faster_mirrored(values: Tensor, mask: Tensor) -> bool:
    """Return whether an LSTM trains faster over padded sentences, one direction at a time, than over packed ones.

    On a CPU the kernels for packed sentences take twice the time unless all sentences have the same length; if most of
    a batch is padding they still win.
    """
    return values.device.type == "cpu" and torch.is_grad_enabled() and 2 * int(mask.sum()) >= mask.numel()


def mirrored_places(mask: Tensor) -> Tensor:
    """Place of each word in its reversed sentence, (B, W); padding stays in place. The map is its own inverse."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - places, places)


def run_mirrored(parameters: Sequence[Tensor], values: Tensor, mask: Tensor) -> Tensor:
    """Run a bidirectional LSTM layer whose backward direction reads each sentence reversed, from its last word on.

    So neither direction reads padding before a word, and each is one call of a fast kernel.

    Args:
        parameters: In the order of ``nn.LSTM``: four tensors of the forward direction, four of the backward.
        values: One vector per word, (B, W, D).
        mask: True at words, (B, W); padding comes last.

    Returns:
        One vector per word, (B, W, 2 H); zeros at padding.

    Raises:
        ValueError: The vectors have another width than the layer reads; the kernel itself would read beyond them.
    """
    if values.shape[-1] != parameters[0].shape[1]:
        raise ValueError(f"vectors of {values.shape[-1]} values, and the layer reads {parameters[0].shape[1]}")
    start = values.new_zeros(2, len(values), parameters[1].shape[1])
    if bool(mask.all()):
        return torch.lstm(values, (start, start), list(parameters), True, 1, 0.0, True, True, True)[0]
    rows = (mirrored_places(mask) + mask.shape[1] * torch.arange(len(mask))[:, None]).flatten()
    states = []
    for direction, read in enumerate((values, values.flatten(0, 1)[rows].view_as(values))):
        of_direction = list(parameters[4 * direction : 4 * direction + 4])
        states.append(torch.lstm(read, (start[:1], start[:1]), of_direction, True, 1, 0.0, True, False, True)[0])
    backward = states[1].flatten(0, 1)[rows].view_as(states[1])
    return torch.cat([states[0], backward], dim=2).masked_fill(~mask[..., None], 0)


class Context(nn.Module):
    """The layer that tasks share above the encoder: a BiLSTM, or nothing. In fp32. The encoder has its own dropout.

    Args:
        layers: Layers of the BiLSTM; 0 for none.
    """

    def __init__(self, width: int, layers: int, size: int, dropout: float) -> None:
        super().__init__()
        self.bilstm = BiLSTM(width, size, layers, dropout) if layers else None
        self.output_dim = width if self.bilstm is None else self.bilstm.output_dim

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Turn the encoder's vectors, (B, W, H), into h, (B, W, D)."""
        words = words.float()
        return words if self.bilstm is None else self.bilstm(words, mask)
