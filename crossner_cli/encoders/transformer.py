"""Encoders: sentences to one vector a word."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from crossner_cli.encoders.fast import only_positions, use_fast_cpu_layers
from crossner_cli.encoders.packed_batches import PACKED_ATTENTION
from crossner_cli.encoders.pretrained import LoadedWeights, load_weights, read_config, resolve_encoder
from crossner_cli.encoders.subwords import Batch, SubwordReader, read_words
from crossner_cli.encoders.tokenizer import check_vocabulary, first_position, position_limit, read_tokenizer
from crossner_cli.errors import CrossNERError


class Encoder(nn.Module, ABC):
    """Turns a batch of sentences into one vector a word.

    Attributes:
        output_dim: Width of the vectors, H.
        reader: Turns sentences into batches.
    """

    output_dim: int
    reader: Any

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return one vector a word, (B, W, H); rows outside the word mask are meaningless."""

    @property
    @abstractmethod
    def width(self) -> int | None:
        """Width of the transformer that is trained, by which its learning rate is chosen; None where none is."""

    @abstractmethod
    def transformer_parameters(self) -> list[nn.Parameter]:
        """Parameters that were pre-trained and learn at the encoder's rate; all others learn at the head's."""

    @abstractmethod
    def choose_trained(self, *, train_embeddings: bool) -> None:
        """Freeze what is not to be trained."""

    @abstractmethod
    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take what is fast on the device."""

    @abstractmethod
    def prepare_for_use(self, *, on_cpu: bool, in_bf16: bool) -> None:
        """Take what is fast where the weights no longer change: bf16 products read weights that are bf16 already."""


class FixedEncoder(Encoder):
    """An encoder of which nothing is trained, and nothing can be made faster."""

    @property
    def width(self) -> None:
        """None is trained."""

    def transformer_parameters(self) -> list[nn.Parameter]:
        """None."""
        return []

    def choose_trained(self, *, train_embeddings: bool) -> None:
        """Nothing to choose."""

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Nothing to prepare."""

    def prepare_for_use(self, *, on_cpu: bool, in_bf16: bool) -> None:
        """Nothing to prepare."""


class TransformerEncoder(Encoder):
    """Any bidirectional Hugging Face encoder; a word's vector is that of its first subword.

    Args:
        model: The encoder without a head.
        reader: Its tokenizer.
    """

    def __init__(self, model: Any, reader: SubwordReader) -> None:
        super().__init__()
        self.model, self.reader = model, reader
        self.output_dim = int(model.config.hidden_size)

    def forward(self, batch: Batch) -> Tensor:
        """Read all windows, keep the first subword of each word."""
        return read_words(batch, functools.partial(self._read_rows, batch))

    def _read_rows(self, batch: Batch, first: int, end: int, places: Tensor) -> Tensor:
        """States of some rows of a batch, (N, H), at ``places``, (N,), among their positions."""
        packed: dict[str, Any] = {}
        if batch.window_ends is not None:
            packed["position_ids"] = batch.position_ids
            packed["token_type_ids"] = torch.zeros_like(batch.input_ids)
            packed["window_ends"], packed["longest_window"] = batch.window_ends, batch.longest_window
        mask = None if batch.attention_mask is None else batch.attention_mask[first:end]
        with only_positions(self.model, places):
            output = self.model(input_ids=batch.input_ids[first:end], attention_mask=mask, **packed)
        states: Tensor = output.last_hidden_state  # (1, N, H)
        return states[0]

    @property
    def word_embeddings(self) -> nn.Parameter:
        """The table of subword vectors, (vocabulary, H)."""
        weight: nn.Parameter = self.model.get_input_embeddings().weight
        return weight

    @property
    def width(self) -> int:
        """Width of the transformer."""
        return self.output_dim

    def transformer_parameters(self) -> list[nn.Parameter]:
        """All of them."""
        return list(self.parameters())

    def choose_trained(self, *, train_embeddings: bool) -> None:
        """Train the table of subword vectors only where that is asked for."""
        self.word_embeddings.requires_grad_(train_embeddings)

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take what is fast on the device."""
        if on_cpu:
            use_fast_cpu_layers(self.model, attention_dropout=attention_dropout)

    def prepare_for_use(self, *, on_cpu: bool, in_bf16: bool) -> None:
        """Take what is fast where the weights no longer change."""
        if on_cpu and in_bf16:
            use_fast_cpu_layers(self.model)
            for layer in self.model.modules():
                if isinstance(layer, nn.Linear):
                    layer.to(torch.bfloat16)


def load_encoder(encoder: str, *, attention: str | None = None) -> tuple[TransformerEncoder, LoadedWeights]:
    """Load an encoder without its head.

    Args:
        encoder: A Hugging Face name, a folder or ``minilm``.
        attention: The kernel that is fast on the device; None, and where the architecture lacks the one wanted, is
            transformers' choice.

    Returns:
        The encoder, and which tensors were loaded, new and left.

    Raises:
        CrossNERError: The folder or name cannot be read, holds no safetensors, none of its weights fit, it is no
            encoder of text, or the tokenizer is not its own.
    """
    folder = resolve_encoder(encoder)
    config = read_config(folder)
    model, weights = load_weights(encoder, folder, config, attention)
    _check_reads_text(encoder, model)
    tokenizer = read_tokenizer(folder)
    check_vocabulary(tokenizer, model.get_input_embeddings().weight.shape[0])
    reader = SubwordReader(tokenizer, position_limit(config, tokenizer))
    if model.config._attn_implementation == PACKED_ATTENTION:
        reader.first_position = first_position(config)
    return TransformerEncoder(model, reader), weights


def _check_reads_text(encoder: str, model: Any) -> None:
    """Refuse models that turn no subwords into vectors that see both sides."""
    config = model.config
    if config.is_encoder_decoder or getattr(config, "is_decoder", False):
        problem = "it is a decoder"
    elif "input_ids" not in inspect.signature(model.forward).parameters:
        problem = "it does not read subwords"
    elif not isinstance(getattr(config, "hidden_size", None), int):
        problem = "its config.json has no hidden_size"
    else:
        return
    raise CrossNERError(
        f"{encoder!r} ({config.model_type}) is no encoder of text: {problem}.",
        hint="Choose a bidirectional encoder such as BERT, RoBERTa, DeBERTa or ModernBERT.",
    )
