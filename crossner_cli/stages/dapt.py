"""``crossner dapt``: continue masked-LM training of an encoder on the run's raw text (Liu et al. 2021, section 3).

With ``--encoder strings``, train a forward and a backward language model of characters instead.
"""

from __future__ import annotations

import dataclasses
import shutil
from functools import partial
from typing import Any

import torch
from torch import nn

from crossner_cli.adaptation import token_stream
from crossner_cli.adaptation.adaptation import Adaptation, Fit, Fitted, Parts, find_other_adaptation, perplexity_of
from crossner_cli.adaptation.masked_lm import BlockStream, MaskedLanguageModel, held_out_loss
from crossner_cli.adaptation.token_stream import StreamSettings, TokenBlocks, border_ids, write_token_stream
from crossner_cli.encoders.compiling import compile_layers, explain_compiler
from crossner_cli.encoders.fast_layers import use_fast_cpu_layers
from crossner_cli.encoders.start import Start
from crossner_cli.encoders.word_shapes import WORD_SHAPES
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Dapt
from crossner_cli.run.directory import Manifest, RunDirectory, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.records import read_result
from crossner_cli.run.results import CarryOver, DaptResult, PrepareDataResult
from crossner_cli.run.stage import Stage
from crossner_cli.taggers.card import ModelOrigin, write_encoder_card
from crossner_cli.taggers.carry_over import count_unread_file
from crossner_cli.taggers.sources import find_start, notes_on_start
from crossner_cli.training.checkpoints import Checkpoints, TrainedDraft
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import ParameterGroup, Plan

ENCODER, CHECKPOINT = "encoder", "checkpoint"  # folders of the stage; the second is temporary


def run(run: RunDirectory, options: Dapt, engine: Engine) -> Work[Manifest]:
    """Adapt an encoder and leave it in ``encoder/`` of the stage's folder; or train language models of characters.

    Raises:
        CrossNERError: The corpus level, text or encoder does not exist, the start has no encoder, a corpus shorter than
            one block, or language models of characters in more than one process.
    """
    adaptation = (find_other_adaptation(options.encoder) or EncoderAdaptation)(run, options, engine)
    with engine.open_stage(run, options.stage_request(adaptation.inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        yield from (Notice(f"{stage.name}: {note}") for note in adaptation.notes)
        trained = TrainedDraft(stage.draft / adaptation.made)
        result = trained.read(DaptResult)
        if result is not None:
            yield Notice(f"{stage.name}: trained before the interruption.")
        else:
            with explain_compiler():
                result = yield from adaptation.train(stage, partial(fit_model, adaptation, stage))
            engine.on_main(lambda: adaptation.save(stage, result))
            engine.on_main(lambda: trained.write(result))

        def finish() -> Manifest:
            for name in (CHECKPOINT, adaptation.temporary):
                shutil.rmtree(stage.draft / name, ignore_errors=True)
            return stage.finish(dataclasses.asdict(result), lineage=adaptation.lineage, device=engine.describe())

        return engine.on_main(finish)


def fit_model(adaptation: Adaptation, stage: Stage, model: nn.Module, parts: Parts, stream: Any) -> Work[Fitted]:
    """Train the model of an adaptation, and measure the held-out losses before and after."""
    engine, options = adaptation.engine, adaptation.options
    model.to(engine.device)
    before = yield from _note_perplexity(adaptation, stage, "before")
    fitted = yield from fit(
        model,
        group_by_decay(parts, options),
        [stream],
        Plan(
            epochs=options.epochs,
            max_steps=options.max_steps,
            warmup=options.warmup,
            clip_norm=options.clip_norm,
            accumulate=options.accumulate,
            keep="last",
            checkpoint_every=options.checkpoint_every,
        ),
        engine,
        checkpoints=Checkpoints(stage.draft / CHECKPOINT),
        task=stage.name,
        unit=f"{adaptation.unit}s",
    )
    after = yield from _note_perplexity(adaptation, stage, "after")
    return Fitted(fitted, before, after)


def _note_perplexity(adaptation: Adaptation, stage: Stage, when: str) -> Work[list[float]]:
    with adaptation.engine.autocast():
        losses = adaptation.measure()
    if losses:
        found, unit = perplexity_of(losses), adaptation.unit
        yield Notice(
            f"{stage.name}: held-out perplexity a {unit} {when}: {found:,.2f} (chance: {adaptation.choices:,})"
        )
    return losses


class EncoderAdaptation(Adaptation):
    """The masked-LM training of an encoder on a corpus level."""

    made, temporary, unit = ENCODER, "blocks", "subword"

    def __init__(self, run: RunDirectory, options: Dapt, engine: Engine) -> None:
        super().__init__(run, options, engine)
        self.mentions = self.prepared.mentions(options.corpus_level) if options.masking == "entity" else None
        self.corpus = self.prepared.corpus(options.corpus_level)
        self.start = find_start(run, options.start_from, options.encoder, wanted_by="dapt")
        self.start.check_transformer("dapt trains")
        files = [self.corpus] if self.mentions is None else [self.corpus, self.mentions]
        read = (path.relative_to(self.prepared.folder).as_posix() for path in files)
        self.inputs = {**self.prepared.inputs(*read), self.start.name: self.start.digest}
        self.lineage = self.start.lineage
        self.notes = notes_on_start(self.start, run, options.encoder)

    def train(self, stage: Stage, fit: Fit) -> Work[DaptResult]:
        """Cut the corpus into blocks and train the model on them."""
        yield Notice(f"{stage.name}: loading the encoder")
        self.model = load_masked_lm(self.start, self.options, self.engine)
        self.start.check_unchanged(stage.name)
        carried = count_carried(self.start, self.model)
        new_head = "; the encoder has no masked-LM head, so a new one is tied to its embeddings"
        yield Notice(f"{stage.name}: {carried.describe()}" + (new_head if self.model.has_new_head else ""))
        blocks, counts = yield from self._write_blocks(stage)
        stream = make_stream(blocks, self.model, self.options)
        options = self.options
        fitted, before, after = yield from fit(self.model, list_parts(self.model, options), stream)
        corpus = {"level": options.corpus_level, "share": options.corpus_share, **counts}
        result = DaptResult(
            perplexity_before=perplexity_of(before),
            perplexity_after=perplexity_of(after),
            updates=fitted.steps,
            epochs=len(fitted.history),
            losses=[record["losses"]["masked"] for record in fitted.history],
            units_per_second=round(fitted.words_per_second),
            corpus={**corpus, "blocks": len(blocks), "block_size": blocks.block_size, "vocabulary": self.choices},
            start=carried,
        )
        blocks.close()
        self.held_out.close()
        self.engine.wait()  # no process maps the blocks when they are deleted
        return result

    def save(self, stage: Stage, result: DaptResult) -> None:
        """Write the encoder with its card."""
        self.model.save(stage.draft / ENCODER)
        prepared = read_result(read_manifest(self.prepared.folder), PrepareDataResult)
        provenance = ModelOrigin(stage.request, stage.name, self.lineage, prepared)
        write_encoder_card(stage.draft / ENCODER, provenance, result)

    @property
    def choices(self) -> int:
        """The size of the vocabulary."""
        return len(self.model.tokenizer)

    def measure(self) -> list[float]:
        """Measure the mean loss of a masked subword."""
        if not len(self.held_out):
            return []
        batch_size = self.options.batch_size
        return [held_out_loss(self.model, self.held_out, batch_size=batch_size, device=self.engine.device)]

    def _write_blocks(self, stage: Stage) -> Work[tuple[TokenBlocks, dict[str, Any]]]:
        """Tokenise the corpus once, on the main process, and map it; return its blocks to train on, and its counts."""
        options, tokenizer, folder = self.options, self.model.tokenizer, stage.draft / self.temporary
        settings = StreamSettings(options.held_out, options.block_size, options.corpus_share)
        work = write_token_stream(self.corpus, tokenizer, folder, settings, self.mentions)
        counts = yield from self.engine.on_main_with_progress(work)
        train, self.held_out = (
            TokenBlocks(
                folder / side,
                options.block_size,
                *border_ids(tokenizer),
                counts["dtype"],
                has_joins=self.mentions is not None,
            )
            for side in (token_stream.TRAIN, token_stream.HELD_OUT)
        )
        if not len(train):
            self.engine.wait()
            self.engine.on_main(lambda: shutil.rmtree(folder))  # else other options would need --force
            raise CrossNERError(
                f"{self.corpus}: its {counts['subwords']} subwords are fewer than a block of {options.block_size}.",
                hint="Give a longer corpus, a smaller --block-size or a larger --corpus-share.",
            )
        return train, counts


def load_masked_lm(start: Start, options: Dapt, engine: Engine) -> MaskedLanguageModel:
    """Load the encoder with its masked-LM head, ready to train on the engine's device.

    Raises:
        CrossNERError: Blocks are longer than the encoder can read.
    """
    torch.manual_seed(options.seed)
    model = MaskedLanguageModel.from_pretrained(start.transformer_for(options.seed), attention=engine.attention)
    if engine.on_cpu:
        use_fast_cpu_layers(model.encoder, attention_dropout=options.attention_dropout)
    if options.compile:
        compile_layers(model.encoder)
    if options.block_size > model.longest_block:
        raise CrossNERError(
            f"--block-size {options.block_size}: this encoder reads at most {model.longest_block} subwords.",
            hint=f"Use --block-size {model.longest_block} or less.",
        )
    return model


def count_carried(start: Start, model: MaskedLanguageModel) -> CarryOver:
    """Count the tensors from a start; one that the head shares with the encoder counts once."""
    own, carried = [name for name, _ in model.model.named_parameters()], CarryOver(start.name)
    new = [name for name in model.new if name in own]
    carried.add(len(own) - len(new), new, model.left)
    if start.folder is not None:
        count_unread_file(start.folder / WORD_SHAPES, carried, prefix="shapes.")
    return carried


def make_stream(blocks: TokenBlocks, model: MaskedLanguageModel, options: Dapt) -> BlockStream:
    """Make a stream of the blocks in random order, masked as the options say."""
    return BlockStream(blocks, model, options.masking, options.mask_rate, options.batch_size, options.seed)


def list_parts(model: MaskedLanguageModel, options: Dapt) -> Parts:
    """List the parameters of encoder and head; a new head learns alone first."""
    return [
        (model.encoder_parameters(), options.head_warmup if model.has_new_head else 0.0),
        (model.head_parameters(), 0.0),
    ]


def group_by_decay(parts: Parts, options: Dapt) -> list[ParameterGroup]:
    """Split the parts of a model into matrices, which decay, and vectors, which do not; no group is empty."""
    groups = []
    for parameters, starts_at in parts:
        for decay, some in (
            (options.weight_decay, [each for each in parameters if each.dim() > 1]),
            (0.0, [each for each in parameters if each.dim() <= 1]),
        ):
            groups += [ParameterGroup(some, options.peak_learning_rate, decay, starts_at)] if some else []
    return groups
