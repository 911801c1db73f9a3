"""A masked language model of any architecture, whose vocabulary scores are computed at masked positions only.

Paper: Devlin et al. (2019), BERT; continued on domain text in Liu et al. (2021), CrossNER.
Differs: a checkpoint without a masked-LM head gets one tied to its word embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crossner_cli.adaptation.masking import NOT_CHOSEN, Level, mask_block
from crossner_cli.adaptation.token_stream import TokenBlocks
from crossner_cli.encoders.fast_layers import keep_positions
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.encoders.pretrained import (
    UNREADABLE,
    check_vocabulary,
    first_line,
    position_limit,
    quiet_transformers,
    read_config,
    read_model,
    read_tokenizer,
)
from crossner_cli.errors import CrossNERError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Held-out text is masked alike in every adaptation, so that perplexities can be compared.
HELD_OUT_SEED, HELD_OUT_RATE, MOST_HELD_OUT_BLOCKS = 0, 0.15, 512


@dataclass
class MaskedBatch:
    """Blocks with some subwords masked.

    Args:
        input_ids: Subwords that the encoder reads, (B, T).
        places: Masked positions in the flattened (B*T), (N,).
        labels: The original id at each of them, (N,).
    """

    input_ids: Tensor
    places: Tensor
    labels: Tensor

    @classmethod
    def select(cls, input_ids: Tensor, labels: Tensor) -> MaskedBatch:
        """The batch of what ``mask_block`` returns: ``labels`` are -100 off the masked positions, (B, T)."""
        places = (labels.flatten() != NOT_CHOSEN).nonzero().squeeze(1)
        return cls(input_ids, places, labels.flatten()[places])

    @property
    def words(self) -> int:
        """Number of subwords read."""
        return self.input_ids.numel()

    @property
    def chosen(self) -> int:
        """Number of masked positions, N."""
        return len(self.places)

    def to(self, device: str | torch.device) -> MaskedBatch:
        """The same batch on another device; a GPU copies while this process goes on."""
        parts = [self.input_ids, self.places, self.labels]
        if torch.device(device).type == "cuda":
            parts = [part.pin_memory() for part in parts]
        return MaskedBatch(*(part.to(device, non_blocking=True) for part in parts))


class MaskedLanguageModel(nn.Module):
    """An encoder with a masked-LM head, and its tokenizer.

    Args:
        new: Names of the tensors that the checkpoint lacked.
        left: Names of the tensors of the checkpoint that the model has no place for, as a pooler.

    Attributes:
        has_new_head: Whether the head, or a part of it, is new and has to be learnt.
        longest_block: Subwords the encoder can read at once, special ones included.

    Raises:
        CrossNERError: The tokenizer has no vocabulary, no [MASK] or more subwords than the model has embeddings.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        new: tuple[str, ...] = (),
        left: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        _check_tokenizer(model, tokenizer)
        self.model, self.tokenizer, self.new, self.left = model, tokenizer, new, left
        self.has_new_head = bool(new)
        self.longest_block = position_limit(model.config, tokenizer)
        borders = ("cls", "sep", "pad", "bos", "eos")
        found = {getattr(tokenizer, f"{name}_token_id") for name in borders}
        self.special_ids = sorted(identifier for identifier in found if identifier is not None)

    @classmethod
    def from_pretrained(cls, encoder: str | Path, *, attention: str | None = None) -> MaskedLanguageModel:
        """Load weights in fp32 from safetensors, running no remote code.

        A missing head is made: tied to the word embeddings, its square layer the identity, its biases zero, so that it
        begins by scoring the encoder's own states.

        Raises:
            CrossNERError: It cannot be read, is not an encoder with a masked-LM form, or lacks weights of the encoder.
        """
        folder = resolve_encoder(str(encoder))
        config = read_config(folder)
        model, report = _load(folder, config, attention)
        missing = set(report["missing_keys"])
        _check_encoder(str(encoder), model, missing)
        embeddings: Any = model.get_output_embeddings()
        if any(name in missing and parameter is embeddings.weight for name, parameter in model.named_parameters()):
            config.tie_word_embeddings = True
            model, _ = _load(folder, config, attention)
        _initialise_head(model, missing)
        with quiet_transformers():
            tokenizer = read_tokenizer(folder)
        return cls(model, tokenizer, new=tuple(sorted(missing)), left=tuple(sorted(report["unexpected_keys"])))

    @property
    def encoder(self) -> nn.Module:
        """The model below the head."""
        return _encoder_of(self.model)

    def encoder_parameters(self) -> list[nn.Parameter]:
        """Every parameter below the head, word embeddings among them."""
        return list(self.encoder.parameters())

    def head_parameters(self) -> list[nn.Parameter]:
        """The head's own parameters, without what it shares with the encoder."""
        shared = {id(parameter) for parameter in self.encoder_parameters()}
        return [parameter for parameter in self.model.parameters() if id(parameter) not in shared]

    def mask(
        self, input_ids: Tensor, level: Level, rate: float, generator: torch.Generator, joins: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mask blocks with this model's vocabulary, as ``mask_block`` does."""
        return mask_block(
            input_ids,
            level=level,
            rate=rate,
            special_ids=self.special_ids,
            mask_id=self.tokenizer.mask_token_id,
            vocabulary_size=len(self.tokenizer),
            generator=generator,
            joins=joins,
        )

    def make_batch(
        self, input_ids: Tensor, level: Level, rate: float, seeds: Sequence[Sequence[int]], joins: Tensor | None = None
    ) -> MaskedBatch:
        """Mask each block with its own seed, so that its masks are the same beside any other blocks."""
        generator, masked = torch.Generator(), []
        for row, seed in enumerate(seeds):
            generator.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
            of_row = None if joins is None else joins[row : row + 1]
            masked.append(self.mask(input_ids[row : row + 1], level, rate, generator, of_row))
        read, labels = (torch.cat(parts) for parts in zip(*masked, strict=True))
        return MaskedBatch.select(read, labels)

    def forward(self, batch: MaskedBatch) -> dict[str, Tensor]:
        """Cross-entropy summed over masked positions, in fp32 under autocast too."""
        with keep_positions(self.encoder, batch.places):
            scores = self.model(input_ids=batch.input_ids).logits.squeeze(0)  # (N, vocabulary)
        return {"masked": F.cross_entropy(scores.float(), batch.labels, reduction="sum")}

    def units(self, batch: MaskedBatch) -> dict[str, int]:
        """Number of masked positions."""
        return {"masked": batch.chosen}

    def save(self, folder: Path) -> None:
        """Write a Hugging Face folder: the encoder, its head and its tokenizer."""
        with quiet_transformers():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


def _encoder_of(model: PreTrainedModel) -> nn.Module:
    encoder: nn.Module = getattr(model, model.base_model_prefix, model)
    return encoder


def _load(folder: str, config: Any, attention: str | None) -> tuple[PreTrainedModel, dict[str, Any]]:
    from transformers import AutoModelForMaskedLM

    try:
        return read_model(AutoModelForMaskedLM, folder, config, attention)
    except UNREADABLE as error:
        raise CrossNERError(
            f"{folder}: no masked language model can be loaded ({first_line(error)}).",
            hint="It must be a bidirectional Hugging Face encoder with safetensors weights, as bert-base-cased.",
        ) from None


def _check_encoder(name: str, model: PreTrainedModel, missing: set[str]) -> None:
    encoder = _encoder_of(model)
    if encoder is model or model.config.is_encoder_decoder:
        raise CrossNERError(
            f"{name}: {type(model).__name__} is not an encoder with a head on top.",
            hint="Choose an encoder like BERT, RoBERTa, DistilBERT, ELECTRA or ModernBERT.",
        )
    lacking = sorted(key for key in missing if key.startswith(f"{model.base_model_prefix}."))
    if lacking:
        raise CrossNERError(
            f"{name}: the weights lack {len(lacking)} of {len(encoder.state_dict())} tensors of the encoder"
            f" ({', '.join(lacking[:3])}{', …' if len(lacking) > 3 else ''}).",
            hint="Check that config.json and the safetensors file belong together.",
        )


def _check_tokenizer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    embeddings: Any = model.get_input_embeddings()
    rows = embeddings.weight.shape[0]
    check_vocabulary(tokenizer, rows)
    if tokenizer.mask_token_id is None:
        raise CrossNERError(
            f"{tokenizer.name_or_path}: the tokenizer has no mask subword.",
            hint="Choose an encoder that was trained as a masked language model.",
        )


def _initialise_head(model: PreTrainedModel, missing: set[str]) -> None:
    """Make new layers of the head the identity; transformers has set norms to one and biases to zero."""
    for name, layer in model.named_modules():
        if f"{name}.weight" in missing and isinstance(layer, nn.Linear) and layer.in_features == layer.out_features:
            nn.init.eye_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class BatchOrder(Sequence[list[int]]):
    """An order of blocks, cut into batches on access, since a large corpus has millions."""

    def __init__(self, order: np.ndarray[Any, np.dtype[np.int64]], batch_size: int) -> None:
        self.order, self.batch_size = order, batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self.batch_size)

    def __getitem__(self, place: Any) -> Any:
        return self.order[place * self.batch_size : (place + 1) * self.batch_size].tolist()


@dataclass(frozen=True)
class BlockStream:
    """Blocks of the corpus in a new order and with new masks each epoch."""

    blocks: TokenBlocks
    model: MaskedLanguageModel
    masking: Level
    rate: float
    batch_size: int
    seed: int

    def epoch(self, number: int) -> Sequence[list[int]]:
        """Shuffle the blocks."""
        return BatchOrder(self.blocks.epoch_order(number, self.seed), self.batch_size)

    def batch(self, items: Sequence[int], epoch: int) -> MaskedBatch:
        """Read blocks and mask them; the masks of a block follow from seed, epoch and its number alone."""
        ids, joins = self.blocks.batch_with_joins(items)
        return self.model.make_batch(ids, self.masking, self.rate, [(self.seed, epoch, item) for item in items], joins)


@torch.no_grad()
def held_out_loss(
    model: MaskedLanguageModel, blocks: TokenBlocks, *, batch_size: int = 32, device: str | torch.device = "cpu"
) -> float:
    """Mean cross-entropy of a masked subword over held-out blocks, without dropout.

    Single subwords are masked, by the block's number, so that losses before and after training, of two batch sizes and
    of two levels of masking are comparable. At most ``MOST_HELD_OUT_BLOCKS`` blocks are read, spread evenly over the
    stream.

    Raises:
        CrossNERError: No subword was masked, as without a block.
    """
    total, count = 0.0, 0
    was_training = model.training
    model.eval()
    try:
        spread = np.linspace(0, len(blocks) - 1, min(len(blocks), MOST_HELD_OUT_BLOCKS)).astype(int).tolist()
        for start in range(0, len(spread), batch_size):
            numbers = spread[start : start + batch_size]
            seeds = [(HELD_OUT_SEED, number) for number in numbers]
            batch = model.make_batch(blocks.batch(numbers), "token", HELD_OUT_RATE, seeds)
            total, count = total + model(batch.to(device))["masked"].item(), count + batch.chosen
    finally:
        model.train(was_training)
    if count == 0:
        raise CrossNERError(
            f"Perplexity cannot be measured: no subword is masked in {len(blocks)} held-out blocks.",
            hint="Give a longer corpus or a larger --held-out, or --held-out 0 to measure none.",
        )
    return total / count


def perplexity(mean_cross_entropy: float) -> float:
    """Perplexity of a mean cross-entropy in nats.

    Raises:
        CrossNERError: It exceeds every float.
    """
    if not mean_cross_entropy < 700:
        raise CrossNERError(
            f"The cross-entropy of the held-out text is {mean_cross_entropy:g} nats: the model has diverged.",
            hint="Lower --learning-rate, or start from other weights.",
        )
    return math.exp(mean_cross_entropy)
