"""``crossner dapt``: continue masked-LM training of an encoder on the run's raw text (Liu et al. 2021, section 3)."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch

from crossner_cli.adaptation.masked_lm import BlockStream, MaskedLanguageModel, held_out_loss, perplexity
from crossner_cli.adaptation.token_stream import (
    HELD_OUT,
    TRAIN,
    StreamSettings,
    TokenBlocks,
    border_ids,
    write_token_stream,
)
from crossner_cli.data.sentences import PreparedData
from crossner_cli.encoders.fast_layers import use_fast_cpu_layers
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import STRINGS, Dapt
from crossner_cli.run.directory import Manifest, RunDirectory, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import DaptResult
from crossner_cli.run.stage import Stage
from crossner_cli.stages.dapt_strings import group_by_decay, run_strings
from crossner_cli.taggers.card import Provenance, write_encoder_card
from crossner_cli.taggers.carry_over import CarryOver
from crossner_cli.taggers.sources import Start, check_transformer, find_start, notes_on_start
from crossner_cli.training.checkpoints import Checkpoints, TrainedDraft
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import ParameterGroup, Plan

ENCODER, BLOCKS, CHECKPOINT = "encoder", "blocks", "checkpoint"  # folders of the stage; the last two are temporary
# Options of masked language models only, and of language models of characters only.
FOR_ENCODERS = (
    "paper",
    "start_from",
    "corpus_level",
    "corpus_share",
    "masking",
    "mask_rate",
    "accumulate",
    "head_warmup",
    "attention_dropout",
)
FOR_STRINGS = ("text", "hidden_size")


class Corpus(NamedTuple):
    """A corpus level of the run, and the mentions of names in it if they are masked whole."""

    path: Path
    mentions: Path | None


class Blocks(NamedTuple):
    """Both sides of a corpus in blocks, and the counts of its lines and subwords."""

    train: TokenBlocks
    held_out: TokenBlocks
    counts: dict[str, Any]


def run(run: RunDirectory, options: Dapt, engine: Engine) -> Work[Manifest]:
    """Adapt an encoder and leave it in ``encoder/`` of the stage's folder; or train language models of characters.

    Raises:
        CrossNERError: No such corpus level, no such encoder, a start without one, a corpus shorter than one block, or
            an option without effect.
    """
    check_options(options)
    if options.encoder == STRINGS:
        return (yield from run_strings(run, options, engine))
    prepared = PreparedData.load(run, wanted_by="dapt")
    mentions = prepared.mentions(options.corpus_level) if options.masking == "entity" else None
    corpus = Corpus(prepared.corpus(options.corpus_level), mentions)
    start = find_start(run, options.start_from, options.encoder, wanted_by="dapt")
    check_transformer(start, "dapt trains")
    inputs = {"prepare-data": prepared.digest, "start": start.digest}
    with engine.open_stage(run, options.stage_request("dapt", inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        yield from (Notice(f"{stage.name}: {note}") for note in notes_on_start(start, run, options.encoder))
        trained = TrainedDraft(stage.draft, ENCODER)
        result = trained.read()
        if result is not None:
            yield Notice(f"{stage.name}: trained before the interruption.")
        else:
            yield Notice(f"{stage.name}: loading the encoder")
            model = load_masked_lm(start, options, engine)
            carried = count_carried(start, model)
            new_head = "; the encoder has no masked-LM head, so a new one is tied to its embeddings"
            yield Notice(f"{stage.name}: {carried.describe()}" + (new_head if model.has_new_head else ""))
            result = dataclasses.asdict((yield from _adapt(stage, corpus, model, carried, options, engine)))
            provenance = Provenance(stage.request, stage.name, start.lineage, read_manifest(prepared.folder))
            engine.on_main(lambda: _save(stage, model, provenance, result))

        def finish() -> Manifest:
            trained.tidy(BLOCKS)
            return stage.finish(result, lineage=start.lineage, device=engine.describe())

        return engine.on_main(finish)


def _save(stage: Stage, model: MaskedLanguageModel, provenance: Provenance, result: dict[str, Any]) -> None:
    """Write the encoder, then the record that it is trained."""
    model.save(stage.draft / ENCODER)
    write_encoder_card(stage.draft / ENCODER, provenance, result)
    TrainedDraft(stage.draft, ENCODER).write(result)


def check_options(options: Dapt) -> None:
    """Refuse options that have no effect on the kind of model that is trained.

    Raises:
        CrossNERError: One of them is not at its default.
    """
    is_strings, defaults = options.encoder == STRINGS, Dapt()
    for name in FOR_ENCODERS if is_strings else FOR_STRINGS:
        if getattr(options, name) != getattr(defaults, name):
            flag = f"--{name.replace('_', '-')}"
            raise CrossNERError(
                f"{flag} has no effect with --encoder {options.encoder}.",
                hint=f"Leave {flag} out" + ("." if is_strings else f", or give --encoder {STRINGS}."),
            )


def load_masked_lm(start: Start, options: Dapt, engine: Engine) -> MaskedLanguageModel:
    """Load the encoder with its masked-LM head, ready to train on the engine's device.

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
    """Count the tensors from a start; one that the head shares with the encoder counts once, as the encoder's."""
    own, carried = [name for name, _ in model.model.named_parameters()], CarryOver(start.name)
    new = [name for name in model.new if name in own]
    carried.add(len(own) - len(new), new, model.left)
    return carried


def _adapt(
    stage: Stage, corpus: Corpus, model: MaskedLanguageModel, carried: CarryOver, options: Dapt, engine: Engine
) -> Work[DaptResult]:
    """Cut the corpus into blocks and train the model on them."""
    try:
        blocks = yield from _write_blocks(stage, corpus, model, options, engine)
        result = yield from _train(stage, model, blocks, carried, options, engine)
    except CrossNERError:
        if engine.is_main and not (stage.draft / CHECKPOINT).exists():  # then other options need no --force
            shutil.rmtree(stage.draft / BLOCKS, ignore_errors=True)
        raise
    blocks.train.close()
    blocks.held_out.close()
    engine.wait()  # no process maps the blocks any more when they are deleted
    return result


def _write_blocks(
    stage: Stage, corpus: Corpus, model: MaskedLanguageModel, options: Dapt, engine: Engine
) -> Work[Blocks]:
    """Tokenise the corpus once, on the main process, and map it."""
    folder = stage.draft / BLOCKS
    settings = StreamSettings(options.held_out, options.block_size, options.corpus_share)
    work = write_token_stream(corpus.path, model.tokenizer, folder, settings, corpus.mentions)
    counts = yield from engine.on_main_with_progress(work)
    first, last = border_ids(model.tokenizer)
    has_joins = corpus.mentions is not None
    train, held_out = (
        TokenBlocks(folder / name, options.block_size, first, last, counts["dtype"], has_joins=has_joins)
        for name in (TRAIN, HELD_OUT)
    )
    if not len(train):
        raise CrossNERError(
            f"{corpus.path}: its {counts['subwords']} subwords make no block of {options.block_size}.",
            hint="Give a longer corpus or a smaller --block-size"
            + (", or a larger --corpus-share." if options.corpus_share < 1 else "."),
        )
    return Blocks(train, held_out, counts)


def _train(
    stage: Stage, model: MaskedLanguageModel, blocks: Blocks, carried: CarryOver, options: Dapt, engine: Engine
) -> Work[DaptResult]:
    """Train, and measure the held-out perplexity before and after."""
    model.to(engine.device)
    before = yield from _measure(stage, model, blocks.held_out, "before", options, engine)
    plan = Plan(
        epochs=options.epochs,
        max_steps=options.max_steps,
        warmup=options.warmup,
        clip_norm=options.clip_norm,
        accumulate=options.accumulate,
        keep="last",
        checkpoint_every=options.checkpoint_every,
    )
    fitted = yield from fit(
        model,
        parameter_groups(model, options),
        [make_stream(blocks.train, model, options)],
        plan,
        engine,
        checkpoints=Checkpoints(stage.draft / CHECKPOINT),
        task=stage.name,
        unit="subwords",
    )
    after = yield from _measure(stage, model, blocks.held_out, "after", options, engine)
    corpus = {"level": options.corpus_level, "share": options.corpus_share, **blocks.counts}
    return DaptResult(
        perplexity_before=before,
        perplexity_after=after,
        updates=fitted.steps,
        epochs=len(fitted.history),
        losses=[record["losses"]["masked"] for record in fitted.history],
        subwords_per_second=round(fitted.words_per_second),
        corpus={**corpus, "blocks": len(blocks.train), "block_size": blocks.train.block_size},
        start=carried.to_counts(),
    )


def _measure(
    stage: Stage, model: MaskedLanguageModel, held_out: TokenBlocks, when: str, options: Dapt, engine: Engine
) -> Work[float | None]:
    """Measure the perplexity of the held-out text; None without any."""
    if not len(held_out):
        return None
    with engine.autocast():
        found = perplexity(held_out_loss(model, held_out, batch_size=options.batch_size, device=engine.device))
    yield Notice(f"{stage.name}: held-out perplexity {when}: {found:,.1f}")
    return found


def make_stream(blocks: TokenBlocks, model: MaskedLanguageModel, options: Dapt) -> BlockStream:
    """The blocks in random order, masked as the options say."""
    return BlockStream(blocks, model, options.masking, options.mask_rate, options.batch_size, options.seed)


def parameter_groups(model: MaskedLanguageModel, options: Dapt) -> list[ParameterGroup]:
    """Encoder and head, each with and without weight decay; a new head learns alone first."""
    starts_at = options.head_warmup if model.has_new_head else 0.0
    rate, decay = options.peak_learning_rate, options.weight_decay
    encoder = group_by_decay(model.encoder_parameters(), rate, decay, starts_at)
    return [*encoder, *group_by_decay(model.head_parameters(), rate, decay)]
