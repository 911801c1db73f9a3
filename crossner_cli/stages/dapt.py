"""``crossner dapt``: continue masked-LM training of an encoder on the run's raw text (Liu et al. 2021, 3)."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crossner_cli.adaptation.masked_lm import MaskedLanguageModel, held_out_loss, perplexity
from crossner_cli.adaptation.token_stream import HELD_OUT, TRAIN, TokenBlocks, border_ids, write_token_stream
from crossner_cli.data.sentences import PreparedData
from crossner_cli.encoders.fast_layers import use_fast_cpu_layers
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import ENCODER_RATE, STRINGS, STRINGS_RATE, Dapt
from crossner_cli.run.directory import Manifest, RunDirectory, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.stage import Stage
from crossner_cli.stages.dapt_strings import run_strings
from crossner_cli.taggers.card import Provenance, write_encoder_card
from crossner_cli.taggers.carry_over import CarryOver
from crossner_cli.taggers.sources import Start, check_transformer, find_start, notes_on_start
from crossner_cli.training.checkpoints import Checkpoints, TrainedDraft
from crossner_cli.training.loop import FitResult, ParameterGroup, Plan, fit

ENCODER, BLOCKS, CHECKPOINT = "encoder", "blocks", "checkpoint"  # folders of the stage; the last two while it trains
# Whatever is trained, held-out text is masked alike: perplexities can be compared.
HELD_OUT_SEED, HELD_OUT_RATE = 0, 0.15
# What means nothing where language models of characters are trained, and what means something there only.
FOR_ENCODERS = (
    "paper", "start_from", "corpus_level", "corpus_share", "masking", "mask_rate", "accumulate", "head_warmup",
    "attention_dropout",
)  # fmt: skip
FOR_STRINGS = ("text", "hidden_size")


@dataclass
class MaskedBatch:
    """Blocks with some subwords masked.

    Args:
        input_ids: What the encoder reads, (B, T).
        labels: The original id where masked, -100 elsewhere, (B, T).
        chosen: Masked positions.
        words: Subwords read.
    """

    input_ids: Tensor
    labels: Tensor
    chosen: int
    words: int

    def to(self, device: torch.device) -> MaskedBatch:
        """The same batch on another device."""
        return MaskedBatch(self.input_ids.to(device), self.labels.to(device), self.chosen, self.words)


class Updates(Sequence[list[int]]):
    """An order of blocks, cut into batches when asked: a large corpus has millions."""

    def __init__(self, order: np.ndarray[Any, np.dtype[np.int64]], batch_size: int) -> None:
        self.order, self.batch_size = order, batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self.batch_size)

    def __getitem__(self, place: Any) -> Any:
        return self.order[place * self.batch_size : (place + 1) * self.batch_size].tolist()


@dataclass(frozen=True)
class BlockStream:
    """Blocks of the corpus in a new order each epoch, with new masks each time."""

    blocks: TokenBlocks
    model: MaskedLanguageModel
    options: Dapt

    def epoch(self, number: int) -> Sequence[list[int]]:
        """Shuffle the blocks."""
        return Updates(self.blocks.epoch_order(number, self.options.seed), self.options.batch_size)

    def batch(self, items: Sequence[int], epoch: int) -> MaskedBatch:
        """Read blocks and mask them; the masks of a block follow from seed, epoch and its number alone."""
        ids, joins = self.blocks.batch_with_joins(items)
        seeds = [(self.options.seed, epoch, item) for item in items]
        read, labels = self.model.mask_each(ids, self.options.masking, self.options.mask_rate, seeds, joins)
        return MaskedBatch(read, labels, int((labels >= 0).sum()), read.numel())


class MaskedTask(nn.Module):
    """A masked language model as the training loop wants it."""

    def __init__(self, model: MaskedLanguageModel) -> None:
        super().__init__()
        self.masked_lm = model

    def forward(self, batch: MaskedBatch) -> dict[str, Tensor]:
        """Cross-entropy summed over masked positions."""
        return {"masked": self.masked_lm(batch.input_ids, batch.labels)[0]}

    def units(self, batch: MaskedBatch) -> dict[str, int]:
        """Masked positions."""
        return {"masked": batch.chosen}


def run(run: RunDirectory, options: Dapt, engine: Engine) -> Work[Manifest]:
    """Adapt an encoder and leave it in ``encoder/`` of the stage's folder; or train language models of characters.

    Raises:
        CrossNERError: No such corpus level, no such encoder, a start that holds none, a corpus shorter than one block,
            or an option that means nothing here.
    """
    check_options(options)
    options = dataclasses.replace(options, learning_rate=learning_rate_of(options))
    if options.encoder == STRINGS:
        return (yield from run_strings(run, options, engine))
    prepared = PreparedData.load(run, wanted_by="dapt")
    corpus = prepared.corpus(options.corpus_level)
    mentions = prepared.mentions(options.corpus_level) if options.masking == "entity" else None
    start = find_start(run, options.start_from, options.encoder, wanted_by="dapt")
    check_transformer(start, "dapt trains")
    inputs = {"prepare-data": prepared.digest, "start": start.digest}
    stage = engine.open_stage(run, options.stage_request("dapt", inputs))
    with stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        yield from (Notice(f"{stage.name}: {note}") for note in notes_on_start(start, run, options.encoder))
        yield Notice(f"{stage.name}: loading the encoder")
        model = load_masked_lm(start, options, engine)
        carried = count_carried(start, model)
        yield Notice(_describe(stage, carried, model))
        if not model.has_new_head and (flag := options.given("head_warmup")):
            yield Notice(f"{stage.name}: {flag} has no effect, because the encoder already has a masked-LM head.")
        trained = TrainedDraft(stage.draft, ENCODER)
        result = trained.read()
        if result is not None:
            yield Notice(f"{stage.name}: trained before the interruption.")
        else:
            result = yield from _make(stage, corpus, mentions, model, carried, options, engine)
            data = read_manifest(prepared.folder)
            provenance = Provenance(stage.request, stage.name, start.lineage, data)
            engine.on_main(lambda: _save(stage, model, provenance, result))

        def finish() -> Manifest:
            trained.tidy(BLOCKS)
            return stage.finish(result, lineage=start.lineage, device=engine.describe())

        return engine.on_main(finish)


def _save(stage: Stage, model: MaskedLanguageModel, provenance: Provenance, result: dict[str, Any]) -> None:
    """Write the encoder, then that it is there."""
    model.save(stage.draft / ENCODER)
    write_encoder_card(stage.draft / ENCODER, provenance, result)
    TrainedDraft(stage.draft, ENCODER).write(result)


def _make(
    stage: Stage, corpus: Path, mentions: Path | None, model: MaskedLanguageModel, carried: CarryOver, options: Dapt,
    engine: Engine,
) -> Work[dict[str, Any]]:  # fmt: skip
    """Cut the corpus into blocks and adapt the model to them."""
    try:
        counts, train, held_out = yield from _blocks(stage, corpus, mentions, model, options, engine)
        result = yield from _adapt(stage, model, train, held_out, options, engine)
    except CrossNERError:
        if engine.is_main and not (stage.draft / CHECKPOINT).exists():  # then other options need no --force
            shutil.rmtree(stage.draft / BLOCKS, ignore_errors=True)
        raise
    size = {"blocks": len(train), "block_size": train.block_size}
    result["corpus"] = {"level": options.corpus_level, "share": options.corpus_share, **counts, **size}
    result["start"] = dataclasses.asdict(carried.to_counts())
    for blocks in (train, held_out):
        blocks.close()
    engine.wait()  # no process maps the blocks any more when they are deleted
    return result


def check_options(options: Dapt) -> None:
    """Refuse options that nothing would read.

    Raises:
        CrossNERError: One of them is not at its default.
    """
    is_strings, defaults = options.encoder == STRINGS, Dapt()
    for name in FOR_ENCODERS if is_strings else FOR_STRINGS:
        if getattr(options, name) != getattr(defaults, name):
            flag = f"--{name.replace('_', '-')}"
            raise CrossNERError(
                f"{flag} means nothing with --encoder {options.encoder}"
                + (", which trains language models of characters from the start." if is_strings else "."),
                hint=f"Leave {flag} out" + ("." if is_strings else f", or give --encoder {STRINGS}."),
            )


def learning_rate_of(options: Dapt) -> float:
    """The peak learning rate: the option, else that of what is trained."""
    if options.learning_rate is not None:
        return options.learning_rate
    return STRINGS_RATE if options.encoder == STRINGS else ENCODER_RATE


def load_masked_lm(start: Start, options: Dapt, engine: Engine) -> MaskedLanguageModel:
    """The encoder with its masked-LM head, ready to train on the engine's device.

    Raises:
        CrossNERError: Blocks are longer than the encoder can read.
    """
    torch.manual_seed(options.seed)
    encoder = str(start.folder_for(options.seed)) if start.folder else options.encoder
    model = MaskedLanguageModel.from_pretrained(encoder, attention=engine.attention)
    if engine.on_cpu:
        use_fast_cpu_layers(model.encoder, attention_dropout=options.attention_dropout)
    if options.block_size > model.longest_block:
        raise CrossNERError(
            f"--block-size {options.block_size}: this encoder reads at most {model.longest_block} subwords.",
            hint=f"Use --block-size {model.longest_block} or less.",
        )
    return model


def count_carried(start: Start, model: MaskedLanguageModel) -> CarryOver:
    """Which tensors a start gave; one that the head shares with the encoder counts once, as the encoder's."""
    own, carried = [name for name, _ in model.model.named_parameters()], CarryOver(start.name)
    new = [name for name in model.new if name in own]
    carried.add(len(own) - len(new), new, model.left)
    return carried


def _describe(stage: Stage, carried: CarryOver, model: MaskedLanguageModel) -> str:
    text = f"{stage.name}: {carried.describe()}"
    if model.has_new_head:
        text += "; the encoder has no masked-LM head, one tied to its embeddings is made"
    return text


def _blocks(
    stage: Stage, corpus: Path, mentions: Path | None, model: MaskedLanguageModel, options: Dapt, engine: Engine
) -> Work[tuple[dict[str, Any], TokenBlocks, TokenBlocks]]:
    """Tokenise the corpus once, on the main process, and map it."""
    folder = stage.draft / BLOCKS
    work = write_token_stream(
        corpus, model.tokenizer, folder, held_out=options.held_out, block_size=options.block_size,
        share=options.corpus_share, mentions=mentions,
    )  # fmt: skip
    counts = yield from engine.on_main_with_progress(work)
    first, last = border_ids(model.tokenizer)
    train, held_out = (
        TokenBlocks(folder / name, options.block_size, first, last, counts["dtype"], has_joins=mentions is not None)
        for name in (TRAIN, HELD_OUT)
    )
    if not len(train):
        raise CrossNERError(
            f"{corpus}: its {counts['subwords']} subwords make no block of {options.block_size}.",
            hint="Give a longer corpus or a smaller --block-size"
            + (", or a larger --corpus-share." if options.corpus_share < 1 else "."),
        )
    return counts, train, held_out


def _adapt(
    stage: Stage, model: MaskedLanguageModel, train: TokenBlocks, held_out: TokenBlocks, options: Dapt, engine: Engine
) -> Work[dict[str, Any]]:
    """Measure, train, measure."""
    model.to(engine.device)

    def measure() -> float | None:
        if not len(held_out):
            return None
        with engine.autocast():
            loss = held_out_loss(
                model, held_out, "token", HELD_OUT_RATE, HELD_OUT_SEED, options.batch_size, engine.device
            )
        return perplexity(loss)

    before = measure()
    if before is not None:
        yield Notice(f"{stage.name}: held-out perplexity before: {before:,.1f}")
    plan = Plan(
        epochs=options.epochs, max_steps=options.max_steps, warmup=options.warmup, clip_norm=options.clip_norm,
        accumulate=options.accumulate, keep="last", checkpoint_every=options.checkpoint_every,
    )  # fmt: skip
    fitted: FitResult = yield from fit(
        MaskedTask(model), parameter_groups(model, options), [BlockStream(train, model, options)], plan, engine,
        checkpoints=Checkpoints(stage.draft / CHECKPOINT), task=stage.name, unit="subwords",
    )  # fmt: skip
    after = measure()
    if after is not None:
        yield Notice(f"{stage.name}: held-out perplexity after: {after:,.1f}")
    return {
        "perplexity_before": before,
        "perplexity_after": after,
        "updates": fitted.steps,
        "epochs": len(fitted.history),
        "losses": [record["losses"]["masked"] for record in fitted.history],
        "subwords_per_second": round(fitted.words_per_second),
    }


def parameter_groups(model: MaskedLanguageModel, options: Dapt) -> list[ParameterGroup]:
    """Encoder and head, each with and without weight decay; a new head learns alone first."""
    starts_at = options.head_warmup if model.has_new_head else 0.0
    rate, groups = learning_rate_of(options), []
    for parameters, start in ((model.encoder_parameters(), starts_at), (model.head_parameters(), 0.0)):
        for decays in (True, False):
            chosen = [parameter for parameter in parameters if (parameter.dim() > 1) is decays]
            if chosen:
                decay = options.weight_decay if decays else 0.0
                groups.append(ParameterGroup(chosen, rate, decay, start))
    return groups
