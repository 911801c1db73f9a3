"""Finished runs, written without training."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.evaluation.finished import prediction_file_names
from crossner_cli.evaluation.scores import score
from crossner_cli.run.directory import MANIFEST
from crossner_cli.run.storage import digest_file

Tags = list[list[str]]


TYPES = ("person", "place", "song-title")


def random_gold(count: int, seed: int = 0, types: Sequence[str] = TYPES) -> tuple[Tags, Tags]:
    """Words and BIO tags of random sentences."""
    choose = random.Random(seed)
    words, gold = [], []
    for number in range(count):
        tags: list[str] = []
        while len(tags) < 4:
            name = choose.choice(types)
            tags += choose.choice([["O"], [f"B-{name}"], [f"B-{name}", f"I-{name}"]])
        gold.append(tags)
        words.append([f"word{number}-{place}" for place in range(len(tags))])
    return words, gold


def damage(gold: Tags, share: float, seed: int) -> Tags:
    """Predictions: gold tags, a share of them replaced, which leaves illegal sequences too."""
    choose = random.Random(seed)
    names = sorted({tag for tags in gold for tag in tags})
    return [[choose.choice(names) if choose.random() < share else tag for tag in tags] for tags in gold]


def write_manifest(folder: Path, stage: str, **record: Any) -> str:
    """Leave the manifest of a finished stage; return its digest."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"stage": stage, "name": folder.name, "options": {}, "inputs": {}, "result": {}, **record}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return digest_file(folder / MANIFEST)


def write_prepared(run: Path, target: str = "music", train: int = 100) -> str:
    """Leave the manifest of ``prepare-data``."""
    domains = {"target": {"name": target, "splits": {"train": {"sentences": train}}}}
    return write_manifest(run / "prepare-data", "prepare-data", result={"domains": domains})


def rewrite_prepared(run: Path, path: Path, text: str) -> None:
    """Other text in a file of prepared data, of which the manifest knows."""
    path.write_text(text)
    manifest = run / "prepare-data" / "manifest.json"
    record = json.loads(manifest.read_text())
    record["outputs"][path.relative_to(manifest.parent).as_posix()] = digest_file(path)
    manifest.write_text(json.dumps(record))


def write_tagger(
    run: Path,
    name: str,
    *,
    stage: str = "finetune",
    method: str = "linear",
    encoder: str = "minilm",
    settings: Sequence[str] = (),
    history: Mapping[str, Sequence[float]] | None = None,
    lineage: Sequence[Mapping[str, str]] = (),
    **result: Any,
) -> str:
    """Leave the manifest of a stage that trains a tagger."""
    seeds = {
        seed: {"folder": f"tagger-seed-{seed}", "learning_rate": 1e-4, "history": [{"score": f1} for f1 in scores]}
        for seed, scores in (history or {"1": [10.0, 20.0]}).items()
    }
    options = {"method": method, "encoder": encoder, "start_from": "base", "settings": list(settings), "epochs": 2}
    prepared = digest_file(run / "prepare-data" / MANIFEST) if (run / "prepare-data").is_dir() else "gone"
    return write_manifest(
        run / name,
        stage,
        options=options,
        inputs={"prepare-data": prepared},
        lineage=[{"encoder": encoder, "digest": "0"}, *lineage],
        result={"seeds": seeds, **result},
    )


def write_evaluation(
    folder: Path,
    words: Tags,
    gold: Tags,
    models: Mapping[str, Mapping[str, Tags]],
    *,
    target: str = "music",
    inputs: Mapping[str, str] | None = None,
    **result: Any,
) -> Path:
    """Leave an ``evaluate`` stage: predictions of each label and seed, and a manifest that scores them."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = [(label, seed) for label, seeds in models.items() for seed in seeds]
    outputs = {}
    for (label, seed), name in zip(runs, prediction_file_names(runs), strict=True):
        lines = [
            json.dumps({"words": ours, "gold": right, "tags": tags})
            for ours, right, tags in zip(words, gold, models[label][seed], strict=True)
        ]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
        outputs[name] = digest_file(folder / name)
    scored = {label: _summary(gold, seeds) for label, seeds in models.items()}
    whole = {"domain": target, "split": "test", "mode": "conll", "decoding": "trained", "models": scored, **result}
    write_manifest(folder, "evaluate", result=whole, outputs=outputs, inputs=dict(inputs or {}))
    return folder


def _summary(gold: Tags, seeds: Mapping[str, Tags]) -> dict[str, Any]:
    scored = {seed: score(gold, tags) for seed, tags in seeds.items()}
    averages = {}
    for name in ("f1", "precision", "recall", "macro_f1"):
        values = [getattr(scores, name) for scores in scored.values()]
        deviation = statistics.stdev(values) if len(values) > 1 else None
        averages[name] = {"mean": statistics.fmean(values), "deviation": deviation}
    return {**averages, "seeds": {seed: {"f1": scores.f1} for seed, scores in scored.items()}}
