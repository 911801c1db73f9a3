"""``crossner dapt --encoder strings``: train language models of characters on the run's raw text."""

from __future__ import annotations

from typing import Any

import torch

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
from crossner_cli.run.directory import Manifest, RunDirectory, read_manifest
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.stage import Stage
from crossner_cli.taggers.card import Provenance, write_strings_card
from crossner_cli.training.checkpoints import Checkpoints, TrainedDraft
from crossner_cli.training.loop import FitResult, ParameterGroup, Plan, fit

TEXT = "text"  # folder of the text while it is trained on


def run_strings(run: RunDirectory, options: Dapt, engine: Engine) -> Work[Manifest]:
    """Train both language models and leave them in the stage's folder, as ``--string-embeddings`` reads them.

    Raises:
        CrossNERError: No text, or more than one process.
    """
    if engine.world > 1:
        raise CrossNERError(
            f"dapt --encoder strings trains in one process, and here are {engine.world}.",
            hint="Name one GPU: --gpus 0.",
        )
    prepared = PreparedData.load(run, wanted_by="dapt")
    texts, notes = find_texts(prepared, options.text)
    stage = engine.open_stage(run, options.stage_request("dapt", {"prepare-data": prepared.digest}))
    with stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        for note in notes:
            yield Notice(f"{stage.name}: {note}")
        trained = TrainedDraft(stage.draft)
        result = trained.read()
        if result is None:
            result = yield from _make(stage, texts, options, engine)
            manifest = read_manifest(prepared.folder)
            provenance = Provenance(stage.request, stage.name, [], manifest)
            write_strings_card(stage.draft, provenance, result)
            trained.write(result)
        else:
            yield Notice(f"{stage.name}: trained before the interruption.")
        trained.tidy(TEXT)
        return stage.finish(result, lineage=[], device=engine.describe())


def _make(stage: Stage, texts: Texts, options: Dapt, engine: Engine) -> Work[dict[str, Any]]:
    """Write the text as numbers, train on it, and save both models."""
    folder = stage.draft / TEXT
    counts = yield from write_character_stream(texts, folder, held_out=options.held_out, window=options.block_size)
    train = CharacterStream(folder, TRAIN, options.batch_size, options.block_size, options.seed)
    held_out = CharacterStream(folder, HELD_OUT, options.batch_size, options.block_size, None)
    torch.manual_seed(options.seed)
    models = StringLanguageModels(counts["characters"], options.hidden_size, train.rows)
    result = yield from _train(stage, models, train, held_out, options, engine)
    counts["characters"] = len(counts["characters"])
    result["strings"] = {"text": options.text, **counts, "rows": train.rows, "window": train.window}
    save_string_encoder(models.encoder(), stage.draft)
    for stream in (train, held_out):
        stream.close()
    return result


def find_texts(prepared: PreparedData, role: str) -> tuple[Texts, list[str]]:
    """The raw text of the target, the source or both; training sentences stand in where a domain has none.

    Sentences of dev and test are in neither: ``prepare-data`` leaves them out of raw text.

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
    stage: Stage, models: StringLanguageModels, train: CharacterStream, held_out: CharacterStream, options: Dapt,
    engine: Engine,
) -> Work[dict[str, Any]]:  # fmt: skip
    """Measure, train, measure."""
    models.to(engine.device)

    def measure() -> dict[str, float] | None:
        if held_out.length < 2:
            return None
        with engine.autocast():
            losses = held_out_losses(models, held_out, engine.device)
        return {side: perplexity(loss) for side, loss in zip((*SIDES, "both"), (*losses, sum(losses) / 2), strict=True)}

    before = measure()
    if before is not None:
        yield Notice(f"{stage.name}: held-out perplexity a character before: {before['both']:,.2f}")
    plan = Plan(
        epochs=options.epochs, max_steps=options.max_steps, warmup=options.warmup, clip_norm=options.clip_norm,
        keep="last", checkpoint_every=options.checkpoint_every,
    )  # fmt: skip
    assert options.learning_rate is not None
    groups = [
        ParameterGroup(chosen, options.learning_rate, options.weight_decay if decays else 0.0)
        for decays in (True, False)
        if (chosen := [parameter for parameter in models.parameters() if (parameter.dim() > 1) is decays])
    ]
    fitted: FitResult = yield from fit(
        models, groups, [train], plan, engine, checkpoints=Checkpoints(stage.draft / "checkpoint"), task=stage.name,
        unit="characters",
    )  # fmt: skip
    after = measure()
    if after is not None:
        yield Notice(f"{stage.name}: held-out perplexity a character after: {after['both']:,.2f}")
    return {
        "perplexity_before": before and before["both"],
        "perplexity_after": after and after["both"],
        "perplexities": {"before": before, "after": after},
        "updates": fitted.steps,
        "epochs": len(fitted.history),
        "losses": [sum(record["losses"].values()) / 2 for record in fitted.history],
        "characters_per_second": round(fitted.words_per_second),
    }
