"""Encoders that read sentences with a transformer: one vector a word, or both halves of an encoder-decoder."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crossner_cli.encoders.fast_layers import keep_positions, leave_out_padding, use_fast_cpu_layers, use_int8_layers
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.encoders.pretrained import (
    LoadedWeights,
    check_vocabulary,
    load_weights,
    position_limit,
    read_config,
    read_tokenizer,
)
from crossner_cli.encoders.subwords import Batch, SubwordReader, read_words
from crossner_cli.encoders.type_descriptions import describe_type
from crossner_cli.encoders.word_shapes import WordShapes, ignores_case, load_word_shapes
from crossner_cli.errors import CrossNERError

# Architectures whose decoder reads embeddings, and whose scores are products with the table of subword vectors.
BART_FAMILY = ("bart", "mbart", "plbart")


class Encoder(nn.Module):
    """Turns a batch of sentences into one vector a word.

    Attributes:
        output_dim: Width of the vectors, H.
        reader: Turns sentences into batches.
    """

    output_dim: int
    reader: Any

    def forward(self, batch: Batch) -> Tensor:
        """Return one vector a word, (B, W, H); rows outside the word mask are meaningless."""
        raise NotImplementedError

    @property
    def width(self) -> int | None:
        """Width of the transformer that is trained, which sets its learning rate; None without one."""
        return None

    def transformer_parameters(self) -> list[nn.Parameter]:
        """Pre-trained parameters, which learn at the encoder's rate; all others learn at the head's."""
        return []

    def freeze_parameters(self, *, train_embeddings: bool) -> None:
        """Freeze the parameters that are not to be trained."""

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take the layers that train fast on the device."""

    def prepare_for_inference(self, precision: str, *, on_cpu: bool) -> None:
        """Take the layers that are fast without training in this precision, as an engine has it."""


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
        self.shapes: WordShapes | None = None

    def read_shapes(self, shapes: WordShapes | None = None) -> None:
        """Add vectors of the shapes of words to the word embeddings: those given, else new ones.

        Raises:
            CrossNERError: The tokenizer tells upper from lower case, so that the encoder knows the shapes.
        """
        if shapes is None and not ignores_case(self.reader.tokenizer):
            raise CrossNERError(
                f"--word-shapes has no effect: the tokenizer of {self.reader.tokenizer.name_or_path} keeps upper and"
                " lower case apart.",
                hint="Leave --word-shapes out; it is for uncased encoders.",
            )
        self.shapes = shapes or WordShapes(self.word_embeddings.shape[1])
        self.reader.reads_shapes = True

    def forward(self, batch: Batch) -> Tensor:
        """Read all windows, keep the first subword of each word."""
        return read_words(batch, functools.partial(self._read_rows, batch))

    def _read_rows(self, batch: Batch, first: int, end: int, places: Tensor) -> Tensor:
        """States of some rows of a batch, (N, H), at ``places``, (N,), among their positions."""
        mask = None if batch.attention_mask is None else batch.attention_mask[first:end]
        read = self.name_inputs(batch.input_ids[first:end], None if batch.shapes is None else batch.shapes[first:end])
        with leave_out_padding(self.model, mask, places) as (mask, left), keep_positions(self.model, left):
            output = self.model(**read, attention_mask=mask)
        states: Tensor = output.last_hidden_state  # (1, N, H)
        return states[0]

    def name_inputs(self, ids: Tensor, shapes: Tensor | None) -> dict[str, Tensor]:
        """Return what the model reads, by name: subwords, (R, T), or where it reads shapes too, the sums of vectors."""
        if self.shapes is None:
            return {"input_ids": ids}
        return {"inputs_embeds": self.model.get_input_embeddings()(ids) + self.shapes(shapes)}

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
        """All parameters but the vectors of shapes, which no pre-training has seen."""
        return list(self.model.parameters())

    def freeze_parameters(self, *, train_embeddings: bool) -> None:
        """Freeze the table of subword vectors unless it is to be trained."""
        self.word_embeddings.requires_grad_(train_embeddings)

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take the fast layers on a CPU."""
        if on_cpu:
            use_fast_cpu_layers(self.model, attention_dropout=attention_dropout)

    def prepare_for_inference(self, precision: str, *, on_cpu: bool) -> None:
        """Take the fast layers on a CPU, and store the weights of products in bf16 or int8."""
        if on_cpu and precision == "int8":
            use_int8_layers(self.model)
        if on_cpu and precision == "bf16":
            use_fast_cpu_layers(self.model)
            for layer in self.model.modules():
                if isinstance(layer, nn.Linear):
                    layer.to(torch.bfloat16)


class EncoderDecoder(TransformerEncoder):
    """A model of the BART family without its head: both halves share one table of subword vectors.

    Args:
        model: The encoder-decoder.
        reader: Its tokenizer.
    """

    def forward(self, batch: Batch) -> Tensor:
        """The encoder half's vector of the first subword of each word, (B, W, H)."""
        return self.read(batch).flatten(0, 1)[batch.word_places]

    def read(self, batch: Batch) -> Tensor:
        """States of the encoder half at every subword, (R, T, H)."""
        found: list[Tensor] = []
        for first, end in batch.slices:
            mask = None if batch.attention_mask is None else batch.attention_mask[first:end]
            output = self.model.encoder(input_ids=batch.input_ids[first:end], attention_mask=mask)
            found.append(output.last_hidden_state)
        return found[0] if len(found) == 1 else torch.cat(found)

    def write(self, inputs: Tensor, read: Tensor, mask: Tensor | None, cache: Any = None) -> Tensor:
        """States of the decoder half.

        Args:
            inputs: Vectors of what was written before each step, (R, S, H), as the table has them.
            read: States of the encoder half, (R, T, H).
            mask: 1 where a subword is, (R, T); None without padding.
            cache: From ``new_cache``, to write one step after another: it remembers the earlier ones.

        Returns:
            One state a step, (R, S, H); none has seen a later step.
        """
        output = self.model.decoder(
            inputs_embeds=inputs * getattr(self.model.get_input_embeddings(), "embed_scale", 1.0),
            encoder_hidden_states=read,
            encoder_attention_mask=mask,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        states: Tensor = output.last_hidden_state
        return states

    def new_cache(self) -> Any:
        """An empty cache for ``write``; its ``batch_select_indices`` keeps some rows."""
        from transformers import DynamicCache, EncoderDecoderCache

        return EncoderDecoderCache(DynamicCache(), DynamicCache())

    @property
    def start_vector(self) -> Tensor:
        """The vector of the start token, which is read before the first step, (H,)."""
        return self.word_embeddings[self.reader.first_id]

    @property
    def end_vector(self) -> Tensor:
        """The vector of the end token, (H,)."""
        return self.word_embeddings[self.reader.last_id]

    def describe(self, types: Sequence[str]) -> Tensor:
        """One vector a type: the mean over the subwords of its description, (E, H), without a gradient."""
        if not types:
            return self.word_embeddings.new_zeros(0, self.output_dim)
        with torch.no_grad():
            return torch.stack([self.word_embeddings[self._cut_type(name)].mean(dim=0) for name in types])

    def _cut_type(self, entity_type: str) -> list[int]:
        """Subwords of a type's description, at least one."""
        tokenizer = self.reader.tokenizer
        read = tokenizer.backend_tokenizer.encode(
            describe_type(entity_type), is_pretokenized=True, add_special_tokens=False
        )
        return read.ids or [self.reader.pad_id if tokenizer.unk_token_id is None else tokenizer.unk_token_id]


def load_encoder(encoder: str, *, attention: str | None = None) -> tuple[TransformerEncoder, LoadedWeights]:
    """Load an encoder without its head.

    Args:
        encoder: A Hugging Face name, a folder or ``minilm``.
        attention: The kernel that is fast on the device; transformers chooses if it is None or the architecture does
            not take it.

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
    read = TransformerEncoder(model, SubwordReader(tokenizer, position_limit(config, tokenizer)))
    if shapes := load_word_shapes(folder, read.word_embeddings.shape[1]):
        read.read_shapes(shapes)
    return read, weights


def load_reader(folder: Path) -> SubwordReader:
    """Load what cuts words for an encoder, without the encoder.

    Raises:
        CrossNERError: The configuration or the tokenizer cannot be read.
    """
    tokenizer = read_tokenizer(folder)
    return SubwordReader(tokenizer, position_limit(read_config(str(folder)), tokenizer))


def _check_reads_text(encoder: str, model: Any) -> None:
    """Refuse models that do not turn subwords into vectors that see both sides."""
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


def check_encoder_decoder(encoder: str, config: Any = None, *, start: str | None = None) -> None:
    """Check by its configuration that a model is an encoder-decoder of the BART family.

    Args:
        encoder: A Hugging Face name, a folder or ``minilm``.
        config: Its configuration, if it was read already.
        start: The start it belongs to, as the user calls it; None if it is ``--encoder``.

    Raises:
        CrossNERError: It is not, or its configuration cannot be read.
    """
    config = read_config(resolve_encoder(encoder)) if config is None else config
    if config.model_type in BART_FAMILY and config.is_encoder_decoder:
        return
    given = repr(encoder) if start is None else f"The start {start!r}"
    raise CrossNERError(
        f"{given} ({config.model_type}) is no encoder-decoder of the BART family, which this method needs.",
        hint="Give one, as --encoder facebook/bart-base"
        + ("." if start is None else ", in place of --start-from; or start from a tagger that has one."),
    )


def load_encoder_decoder(encoder: str, *, attention: str | None = None) -> tuple[EncoderDecoder, LoadedWeights]:
    """Load an encoder-decoder without its head.

    A window takes no more than half of the decoder's positions, so that the sequence of its words always fits: at most
    two steps a word, behind the start.

    Args:
        encoder: A Hugging Face name or a folder.
        attention: As for ``load_encoder``.

    Returns:
        The encoder-decoder, and which tensors were loaded, new and left.

    Raises:
        CrossNERError: The folder or name cannot be read, holds no safetensors, none of its weights fit, it is no
            encoder-decoder of the BART family, or the tokenizer is not its own.
    """
    folder = resolve_encoder(encoder)
    config = read_config(folder)
    check_encoder_decoder(encoder, config)
    model, weights = load_weights(encoder, folder, config, attention)
    tokenizer = read_tokenizer(folder)
    check_vocabulary(tokenizer, model.get_input_embeddings().weight.shape[0])
    words = (config.max_position_embeddings - 1) // 2
    return EncoderDecoder(model, SubwordReader(tokenizer, min(position_limit(config, tokenizer), words + 2))), weights


def load_transformer(encoder: str, reads: str, *, attention: str | None = None) -> tuple[Any, LoadedWeights]:
    """Load the transformer that a method reads with: an encoder-decoder or an encoder.

    Args:
        encoder: A Hugging Face name or a folder; for encoders also ``minilm``.
        reads: ``Tagger.reads`` of the method.
        attention: As for ``load_encoder``.

    Returns:
        The transformer, and which tensors were loaded, new and left.

    Raises:
        CrossNERError: As ``load_encoder`` and ``load_encoder_decoder``.
    """
    return (load_encoder_decoder if reads == "encoder-decoder" else load_encoder)(encoder, attention=attention)
