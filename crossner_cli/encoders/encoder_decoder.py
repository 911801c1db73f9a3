"""Encoder-decoders of the BART family: both halves without a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.encoders.pretrained import position_limit, read_config
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.encoders.type_descriptions import describe_type
from crossner_cli.errors import CrossNERError

# Architectures whose decoder reads embeddings, and whose scores are products with the table of subword vectors.
BART_FAMILY = ("bart", "mbart", "plbart")


class EncoderDecoder(TransformerEncoder):
    """A model of the BART family without its head: both halves share one table of subword vectors."""

    reads = "encoder-decoder"

    @staticmethod
    def check_config(config: Any, place: str) -> None:
        """Refuse models that are not encoder-decoders of the BART family."""
        if config.model_type not in BART_FAMILY or not config.is_encoder_decoder:
            raise CrossNERError(
                f"{place} ({config.model_type}) is not an encoder-decoder of the BART family, which this method needs.",
                hint="Start from base with one, as --encoder facebook/bart-base, or from a tagger that has one.",
            )

    @staticmethod
    def find_room(config: Any, tokenizer: Any) -> int:
        """Find how many subwords are read at once.

        No more than half of the decoder's positions, so that the sequence of their words always fits: at most two steps
        per word, after the start.
        """
        words: int = (config.max_position_embeddings - 1) // 2
        return min(position_limit(config, tokenizer), words + 2)

    @classmethod
    def check_start(cls, design: TaggerDesign, start: Start) -> None:
        """Refuse a start without an encoder-decoder, and shapes of words."""
        if design.word_shapes:
            raise CrossNERError(
                f"--word-shapes has no effect: the method {design.name} reads an encoder-decoder.",
                hint="Leave it out, or take a method that reads subwords, as --method linear.",
            )
        start.check_transformer(f"the method {design.name!r} reads with these settings")
        if transformer := start.transformer_for(0):
            config = read_config(resolve_encoder(transformer))
            cls.check_config(config, f"The start {start.name!r}" if start.folder else repr(transformer))

    def forward(self, batch: Batch) -> Tensor:
        """Return the encoder half's vector of the first subword of each word, (B, W, H)."""
        return self.read(batch).flatten(0, 1)[batch.word_places]

    def read(self, batch: Batch) -> Tensor:
        """Compute the states of the encoder half at every subword, (R, T, H)."""
        found: list[Tensor] = []
        for first, end in batch.slices:
            mask = None if batch.attention_mask is None else batch.attention_mask[first:end]
            output = self.model.encoder(input_ids=batch.input_ids[first:end], attention_mask=mask)
            found.append(output.last_hidden_state)
        return found[0] if len(found) == 1 else torch.cat(found)

    def write(self, inputs: Tensor, read: Tensor, mask: Tensor | None, cache: Any = None) -> Tensor:
        """Compute the states of the decoder half.

        Args:
            inputs: Vectors of what was written before each step, (R, S, H), from the table.
            read: States of the encoder half, (R, T, H).
            mask: 1 at subwords, (R, T); None without padding.
            cache: From ``new_cache``, to write one step after another: it remembers the earlier ones.

        Returns:
            One state per step, (R, S, H); none has seen a later step.
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
        """Make an empty cache for ``write``; its ``batch_select_indices`` keeps some rows."""
        from transformers import DynamicCache, EncoderDecoderCache

        return EncoderDecoderCache(DynamicCache(), DynamicCache())

    @property
    def start_vector(self) -> Tensor:
        """Return the vector of the start token, which is read before the first step, (H,)."""
        return self.word_embeddings[self.reader.first_id]

    @property
    def end_vector(self) -> Tensor:
        """Return the vector of the end token, (H,)."""
        return self.word_embeddings[self.reader.last_id]

    def describe(self, types: Sequence[str]) -> Tensor:
        """Return one vector per type: the mean over the subwords of its description, (E, H), without a gradient."""
        if not types:
            return self.word_embeddings.new_zeros(0, self.output_dim)
        with torch.no_grad():
            return torch.stack([self.word_embeddings[self._cut_type(name)].mean(dim=0) for name in types])

    def _cut_type(self, entity_type: str) -> list[int]:
        """Cut a type's description into subwords, at least one."""
        tokenizer = self.reader.tokenizer
        read = tokenizer.backend_tokenizer.encode(
            describe_type(entity_type), is_pretokenized=True, add_special_tokens=False
        )
        return read.ids or [self.reader.pad_id if tokenizer.unk_token_id is None else tokenizer.unk_token_id]
