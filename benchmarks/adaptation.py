"""Adapting an encoder to raw text: ``transformers.Trainer`` and ``crossner dapt`` on the same blocks of subwords."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import trainer_side
from fine_tuning import start_from_base
from measuring import Measured, Side, Stopwatch
from transformers import AutoModelForMaskedLM, DataCollatorForLanguageModeling

from crossner_cli.adaptation.masked_lm import MaskedLanguageModel
from crossner_cli.adaptation.token_stream import TRAIN, StreamSettings, TokenBlocks, border_ids, write_token_stream
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.encoders.pretrained import quiet_transformers, read_config, read_tokenizer
from crossner_cli.engine.devices import Engine, choose_precision, start_engine
from crossner_cli.options import Dapt
from crossner_cli.run.progress import exhaust
from crossner_cli.stages import dapt
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import Plan

MANY_EPOCHS = 10_000  # the number of updates ends training


@dataclass(frozen=True)
class Adaptation:
    """What both sides are given.

    Args:
        blocks: Blocks of the corpus.
        encoder: A Hugging Face name, a folder or ``minilm``.
        updates: Updates of a run.
        batch_size: Blocks of an update.
        mask_rate: Share of subwords masked.
        threads: CPU threads; None is all cores.
        device: As ``--device``.
    """

    blocks: TokenBlocks
    encoder: str = "minilm"
    updates: int = 40
    batch_size: int = 32
    mask_rate: float = 0.15
    threads: int | None = None
    device: str = "cpu"

    @property
    def operations(self) -> float:
        """Additions and multiplications of matrix products a subword, forward and backward, with scores where masked.

        Behind the attention of the last layer, masked positions alone are needed.
        """
        config = read_config(resolve_encoder(self.encoder))
        width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
        behind = 2 * width**2 + 4 * width * inner
        before = 6 * width**2 + 4 * self.blocks.block_size * width
        head = 2 * width**2 + 2 * width * config.vocab_size
        return 3 * (layers * before + (layers - 1 + self.mask_rate) * behind + self.mask_rate * head)

    def shortened(self) -> Adaptation:
        """The same in two updates, to warm up."""
        return dataclasses.replace(self, updates=2)

    def options(self, seed: int) -> Dapt:
        """The product's options: its defaults but for what both sides share."""
        return Dapt(
            encoder=self.encoder,
            masking="token",
            mask_rate=self.mask_rate,
            max_steps=self.updates,
            seed=seed,
            batch_size=self.batch_size,
            block_size=self.blocks.block_size,
            threads=self.threads,
            device=self.device,
        )


def read_blocks(corpus: Path, encoder: str, block_size: int, folder: Path) -> TokenBlocks:
    """Write the token stream of a text file below ``folder`` and cut it into blocks."""
    tokenizer = read_tokenizer(resolve_encoder(encoder))
    counts = exhaust(write_token_stream(corpus, tokenizer, folder, StreamSettings(0.0, block_size)))
    return TokenBlocks(folder / TRAIN, block_size, *border_ids(tokenizer), counts["dtype"])


def sides(task: Adaptation) -> dict[str, Side]:
    """The sides of the comparison, by name; bf16 only where the device multiplies it in hardware."""
    on_cpu, found = task.device == "cpu", dict[str, Side]()
    if on_cpu:
        found["Trainer fp32"] = functools.partial(train_with_trainer, task, bf16=False)
    if choose_precision("auto", task.device) == "bf16":
        found["Trainer bf16"] = functools.partial(train_with_trainer, task, bf16=True)
    found["crossner"] = functools.partial(train_with_product, task)
    if not on_cpu:
        found["crossner --compile"] = functools.partial(train_with_product, task, compiled=True)
    return found


def train_with_trainer(task: Adaptation, seed: int, *, bf16: bool) -> Measured:
    """Train as the masked-language-model example of transformers does."""
    start_engine(task.options(seed))  # the same threads and seed as the product's side
    folder = resolve_encoder(task.encoder)
    tokenizer = read_tokenizer(folder)
    with quiet_transformers():
        model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=task.mask_rate)
    _, seconds = trainer_side.train(
        model,
        BlockRows(task.blocks, tokenizer.all_special_ids),
        collator,
        batch_size=task.batch_size,
        seed=seed,
        bf16=bf16,
        on_cpu=task.device == "cpu",
        max_steps=task.updates,
    )
    return Measured(_subwords(task), seconds)


class BlockRows(Sequence[dict[str, list[int]]]):
    """Blocks as the trainer reads them."""

    def __init__(self, blocks: TokenBlocks, special_ids: Sequence[int]) -> None:
        special = set(special_ids)
        ids = blocks.batch(range(len(blocks))).tolist()
        self.rows = [
            {
                "input_ids": row,
                "attention_mask": [1] * len(row),
                "special_tokens_mask": [int(number in special) for number in row],
            }
            for row in ids
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, list[int]]:  # type: ignore[override]
        return self.rows[place]


def train_with_product(task: Adaptation, seed: int, *, compiled: bool = False) -> Measured:
    """Train with the product's loop; what the compiler takes is not counted."""
    options = dataclasses.replace(task.options(seed), compile=compiled)
    engine = start_engine(options)
    model = dapt.load_masked_lm(start_from_base(options.encoder), options, engine)
    stopwatch = Stopwatch()
    if compiled:  # the last batch of an epoch, a smaller one, is compiled for itself
        adapt(model, task.blocks, options, engine)
    with stopwatch.running(engine.device):
        adapt(model, task.blocks, options, engine)
    return Measured(_subwords(task), stopwatch.seconds)


def adapt(model: MaskedLanguageModel, blocks: TokenBlocks, options: Dapt, engine: Engine) -> None:
    """The loop of ``crossner dapt``, without measuring perplexity or writing checkpoints."""
    plan = Plan(
        epochs=MANY_EPOCHS, max_steps=options.max_steps, warmup=options.warmup, clip_norm=options.clip_norm, keep="last"
    )
    stream = dapt.make_stream(blocks, model, options)
    groups = dapt.group_by_decay(dapt.list_parts(model, options), options)
    exhaust(fit(model, groups, [stream], plan, engine, unit="subwords"))


def _subwords(task: Adaptation) -> int:
    """Subwords read in training; the last update of an epoch may be a smaller one."""
    whole, rest = divmod(task.updates, -(-len(task.blocks) // task.batch_size))
    return (whole * len(task.blocks) + rest * task.batch_size) * task.blocks.block_size
