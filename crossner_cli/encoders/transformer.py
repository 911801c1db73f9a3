"""Encoders that read sentences with a transformer: one vector per word."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.fast_layers import keep_positions, leave_out_padding, use_fast_cpu_layers, use_int8_layers
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.encoders.pretrained import (
    LoadedWeights,
    check_vocabulary,
    load_weights,
    position_limit,
    quiet_transformers,
    read_config,
    read_tokenizer,
)
from crossner_cli.encoders.start import EncoderStart, Start, TaggerDesign
from crossner_cli.encoders.subwords import Batch, SubwordReader, read_slices
from crossner_cli.encoders.word_shapes import WORD_SHAPES, WordShapes, ignores_case, load_word_shapes
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import Settings

# Parts of a transformer's file that are not read: a tagger's classifier, and a pooler, which serves no word.
STORED_BESIDE = ("classifier", "pooler")
WEIGHTS = "model.safetensors"


class TransformerEncoder(Encoder):
    """Any bidirectional Hugging Face encoder; a word's vector is that of its first subword."""

    reads = "subwords"

    def __init__(self, model: Any, reader: SubwordReader) -> None:
        super().__init__()
        self.model, self.reader = model, reader
        self.output_dim = int(model.config.hidden_size)
        self.shapes: WordShapes | None = None

    @classmethod
    def from_pretrained(cls, encoder: str, *, attention: str | None = None) -> tuple[Self, LoadedWeights]:
        """Load an encoder without its head.

        Args:
            encoder: A Hugging Face name, a folder or ``minilm``.
            attention: The kernel that is fast on the device; transformers chooses if it is None or the architecture
                does not take it.

        Returns:
            The encoder, and which tensors were loaded, new and left.

        Raises:
            CrossNERError: The folder or name cannot be read, holds no safetensors, none of its weights fit, it is not
                an encoder of this kind, or the tokenizer is not its own.
        """
        folder = resolve_encoder(encoder)
        config = read_config(folder)
        cls.check_config(config, repr(encoder))
        model, weights = load_weights(encoder, folder, config, attention)
        if model.main_input_name != "input_ids":
            raise _not_of_text(repr(encoder), config, "it does not read subwords")
        tokenizer = read_tokenizer(folder)
        check_vocabulary(tokenizer, model.get_input_embeddings().weight.shape[0])
        read = cls(model, SubwordReader(tokenizer, cls.find_room(config, tokenizer)))
        if shapes := load_word_shapes(folder, read.word_embeddings.shape[1]):
            read.read_shapes(shapes)
        return read, weights

    @staticmethod
    def check_config(config: Any, place: str) -> None:
        """Refuse models that do not turn subwords into vectors that see both sides."""
        if config.is_encoder_decoder or getattr(config, "is_decoder", False):
            raise _not_of_text(place, config, "it is a decoder")
        if not isinstance(getattr(config, "hidden_size", None), int):
            raise _not_of_text(place, config, "its config.json has no hidden_size")

    @staticmethod
    def find_room(config: Any, tokenizer: Any) -> int:
        """Find how many subwords are read at once, special ones included."""
        return position_limit(config, tokenizer)

    @classmethod
    def check_start(cls, design: TaggerDesign, start: Start) -> None:
        """Refuse a start without a transformer, or with an encoder-decoder."""
        start.check_transformer(f"the method {design.name!r} reads with these settings")
        if start.folder is not None and (config := read_config(str(start.folder))).is_encoder_decoder:
            raise CrossNERError(
                f"The start {start.name!r} holds an encoder-decoder ({config.model_type}), and the method "
                f"{design.name!r} reads an encoder.",
                hint="Start from base, from a dapt stage, or from a tagger that has one.",
            )

    @classmethod
    def start(cls, begin: EncoderStart) -> Self:
        """Load the transformer; vectors of word shapes are new where the design has them and the start does not."""
        encoder, weights = cls.from_pretrained(begin.transformer, attention=begin.attention)
        left = () if begin.of_tagger else weights.left
        begin.carried.add(weights.loaded, weights.new, left, prefix="encoder.")
        if encoder.shapes is not None:
            begin.carried.add(1, ())
        elif begin.design.word_shapes:
            encoder.read_shapes()
            begin.carried.add(0, ["shapes.vectors"], prefix="encoder.")
        return encoder

    @classmethod
    def load(cls, folder: Path, settings: Settings, *, attention: str | None) -> Self:
        """Read the transformer of a tagger's folder, which must be whole."""
        encoder, weights = cls.from_pretrained(str(folder), attention=attention)
        left = [name for name in weights.left if name.split(".")[0] not in STORED_BESIDE]
        for names, what in ((weights.new, "lacks"), (left, "holds, with no place in config.json,")):
            if names:
                raise CrossNERError(
                    f"{folder / WEIGHTS} {what} {len(names)} tensors of the tagger's transformer, the first of them"
                    f" {names[0]}: it does not fit config.json beside it.",
                    hint="Copy the tagger's folder again, or train the tagger again.",
                )
        return encoder

    def save(self, folder: Path, tags: Sequence[str], classifier: nn.Linear | None = None) -> None:
        """Write a Hugging Face model folder."""
        with quiet_transformers():
            self._with_classifier(tags, classifier).save_pretrained(folder)
            self.reader.tokenizer.save_pretrained(folder)
        if self.shapes is not None:
            self.shapes.save(folder)

    def _with_classifier(self, tags: Sequence[str], classifier: nn.Linear | None) -> Any:
        """Return the model to save: with the classifier if transformers has a token classifier like it."""
        from transformers import AutoModelForTokenClassification

        config = self.model.config
        config.id2label = dict(enumerate(tags))
        config.label2id = {tag: number for number, tag in enumerate(tags)}
        if classifier is None:
            return self.model
        try:
            with torch.device("meta"):
                shell: Any = AutoModelForTokenClassification.from_config(config)
        except ValueError:  # the architecture has no token classifier in transformers
            return self.model
        plain = {shell.base_model_prefix, "dropout", "classifier"}
        if {name for name, _ in shell.named_children()} - plain or not hasattr(shell, "classifier"):
            return self.model
        setattr(shell, shell.base_model_prefix, self.model)
        shell.classifier = classifier
        return shell

    @property
    def files(self) -> tuple[str, ...]:
        """The transformer's weights, and the vectors of word shapes."""
        return ("model*.safetensors", WORD_SHAPES)

    def read_shapes(self, shapes: WordShapes | None = None) -> None:
        """Add vectors of the shapes of words to the word embeddings: those given, else new ones.

        Raises:
            CrossNERError: The tokenizer keeps upper and lower case apart, so the encoder sees the shapes.
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
        return read_slices(batch, functools.partial(self._read_rows, batch))

    def _read_rows(self, batch: Batch, first: int, end: int, places: Tensor) -> Tensor:
        """Compute the states of some rows of a batch, (N, H), at ``places``, (N,), among their positions."""
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
        """Freeze the table of subword vectors unless it is trained."""
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


def load_reader(folder: Path) -> SubwordReader:
    """Load the tokenizer of an encoder, without the encoder.

    Raises:
        CrossNERError: The configuration or the tokenizer cannot be read.
    """
    tokenizer = read_tokenizer(folder)
    return SubwordReader(tokenizer, position_limit(read_config(str(folder)), tokenizer))


def _not_of_text(place: str, config: Any, problem: str) -> CrossNERError:
    return CrossNERError(
        f"{place} ({config.model_type}) is not an encoder of text: {problem}.",
        hint="Choose a bidirectional encoder such as BERT, RoBERTa, DeBERTa or ModernBERT.",
    )
