"""``crossner dapt --encoder strings``: train language models of characters on the run's raw text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from crossner_cli.adaptation.character_models import StringLanguageModels, held_out_losses
from crossner_cli.adaptation.character_stream import (
    HELD_OUT,
    TRAIN,
    CharacterStream,
    LinesOfWords,
    Texts,
    write_character_stream,
)
from crossner_cli.adaptation.masked_lm import perplexity
from crossner_cli.data.sentences import PreparedData
from crossner_cli.encoders.string_embeddings import SIDES, save_string_encoder
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Dapt
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import DaptStringsResult
from crossner_cli.run.stage import Stage
from crossner_cli.training.checkpoints import Checkpoints, TrainedDraft
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import ParameterGroup, Plan

TEXT = "text"  # temporary folder of the numbered text


def run_strings(run: RunDirectory, options: Dapt, engine: Engine) -> Work[Manifest]:
    """Train both language models and leave them in the stage's folder, for ``--string-embeddings``.

    Raises:
        CrossNERError: No text, or more than one process.
    """
    if engine.world > 1:
        raise CrossNERError(
            f"dapt --encoder strings trains in one process, not in {engine.world}.",
            hint="Name one GPU: --gpus 0.",
        )
    prepared = PreparedData.load(run, wanted_by="dapt")
    texts, notes = find_texts(prepared, options.text)
    with engine.open_stage(run, options.stage_request("dapt", {"prepare-data": prepared.digest})) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        yield from (Notice(f"{stage.name}: {note}") for note in notes)
        trained = TrainedDraft(stage.draft)
        result = trained.read()
        if result is None:
            result = dataclasses.asdict((yield from _adapt(stage, texts, options, engine)))
            trained.write(result)
        else:
            yield Notice(f"{stage.name}: trained before the interruption.")
        trained.tidy(TEXT)
        return stage.finish(result, lineage=[], device=engine.describe())


def _adapt(stage: Stage, texts: Texts, options: Dapt, engine: Engine) -> Work[DaptStringsResult]:
    """Write the text as numbers, train on it, and save both models."""
    folder = stage.draft / TEXT
    counts = yield from write_character_stream(texts, folder, held_out=options.held_out, window=options.block_size)
    train = CharacterStream(folder, TRAIN, options.batch_size, options.block_size, options.seed)
    held_out = CharacterStream(folder, HELD_OUT, options.batch_size, options.block_size, None)
    torch.manual_seed(options.seed)
    models = StringLanguageModels(counts["characters"], options.hidden_size, train.rows)
    counts["characters"] = len(counts["characters"])
    record = {"text": options.text, **counts, "rows": train.rows, "window": train.window}
    result = yield from _train(stage, models, train, held_out, record, options, engine)
    save_string_encoder(models.make_encoder(), stage.draft)
    train.close()
    held_out.close()
    return result


def find_texts(prepared: PreparedData, role: str) -> tuple[Texts, list[str]]:
    """Find the raw text of the target, the source or both; a domain without any gives its training sentences.

    Neither holds sentences of dev and test: ``prepare-data`` leaves them out of raw text.

    Raises:
        CrossNERError: A domain has neither.
    """
    texts: dict[str, Any] = {}
    notes = []
    for name in ("target", "source") if role == "both" else (role,):
        path, domain = prepared.raw_text(name), prepared.domains.get(name)
        if path is not None:
            texts[name] = LinesOfWords(path)
            notes.append(f"reads the raw text of the {name}, {path.name}")
        elif domain is not None and domain.has("train"):
            texts[name] = [sentence.words for sentence in domain.sentences("train")]
            notes.append(f"the {name} has no raw text: its {len(texts[name]):,} training sentences are read instead")
        else:
            raise CrossNERError(
                f"--text {role}: this run has no raw text of the {name}.",
                hint=f"crossner prepare-data … --{'corpus' if name == 'target' else 'source-corpus'} FILE --force",
            )
    return texts, notes


def _train(
    stage: Stage,
    models: StringLanguageModels,
    train: CharacterStream,
    held_out: CharacterStream,
    record: dict[str, Any],
    options: Dapt,
    engine: Engine,
) -> Work[DaptStringsResult]:
    """Train, and measure the held-out perplexity before and after."""
    models.to(engine.device)
    before = yield from _measure(stage, models, held_out, "before", engine)
    plan = Plan(
        epochs=options.epochs,
        max_steps=options.max_steps,
        warmup=options.warmup,
        clip_norm=options.clip_norm,
        keep="last",
        checkpoint_every=options.checkpoint_every,
    )
    fitted = yield from fit(
        models,
        group_by_decay(models.parameters(), options.peak_learning_rate, options.weight_decay),
        [train],
        plan,
        engine,
        checkpoints=Checkpoints(stage.draft / "checkpoint"),
        task=stage.name,
        unit="characters",
    )
    after = yield from _measure(stage, models, held_out, "after", engine)
    return DaptStringsResult(
        perplexity_before=before["both"] if before else None,
        perplexity_after=after["both"] if after else None,
        perplexities={"before": before, "after": after},
        updates=fitted.steps,
        epochs=len(fitted.history),
        losses=[sum(epoch["losses"].values()) / 2 for epoch in fitted.history],
        characters_per_second=round(fitted.words_per_second),
        strings=dict(record),
    )


def _measure(
    stage: Stage, models: StringLanguageModels, held_out: CharacterStream, when: str, engine: Engine
) -> Work[dict[str, float] | None]:
    """Measure the perplexity a character of the held-out text, of each direction and of both; None without any."""
    if held_out.length < 2:
        return None
    with engine.autocast():
        losses = held_out_losses(models, held_out, engine.device)
    values = (*losses, sum(losses) / 2)
    found = {side: perplexity(loss) for side, loss in zip((*SIDES, "both"), values, strict=True)}
    yield Notice(f"{stage.name}: held-out perplexity a character {when}: {found['both']:,.2f}")
    return found


def group_by_decay(
    parameters: Iterable[nn.Parameter], rate: float, weight_decay: float, starts_at: float = 0.0
) -> list[ParameterGroup]:
    """Split parameters into matrices, which decay, and vectors, which do not; no group is empty."""
    found = list(parameters)
    matrices = [parameter for parameter in found if parameter.dim() > 1]
    vectors = [parameter for parameter in found if parameter.dim() <= 1]
    groups = [ParameterGroup(matrices, rate, weight_decay, starts_at), ParameterGroup(vectors, rate, 0.0, starts_at)]
    return [group for group in groups if group.parameters]
