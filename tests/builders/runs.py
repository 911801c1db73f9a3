"""Finished runs, written without training."""

import json
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from crossner_cli.data.tags import Scheme, scheme_shown
from crossner_cli.evaluation.finished import prediction_file_names
from crossner_cli.evaluation.scores import Scored, describe_mode, score, summarise
from crossner_cli.run.directory import MANIFEST, digest_stage, read_manifest
from crossner_cli.run.results import (
    CarryOver,
    DomainResult,
    ModelResult,
    PrepareDataResult,
    SeedResult,
    SplitCounts,
    TrainResult,
)
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
    return digest_stage(read_manifest(folder))


def prepared_result(
    names: Mapping[str, str] | None = None, types: Sequence[str] = ("person",), train: int = 100, **more: Any
) -> PrepareDataResult:
    """Return the result of ``prepare-data``, with names of domains by role."""
    splits = {"train": SplitCounts(sentences=train, words=9 * train, longest_sentence=20, entities=train)}
    domains = {
        role: DomainResult(name=name, types=[*types], found_scheme="bio", origins={"train": "folder"}, splits=splits)
        for role, name in (names or {}).items()
    }
    nothing: dict[str, Any] = {"statistics": {}, "repairs": {}, "corpus": {}, "source_corpus": {}, "warnings": []}
    return PrepareDataResult(domains, **{**nothing, **more})


def write_prepared(run: Path, target: str = "music", train: int = 100) -> str:
    """Leave the manifest of ``prepare-data``."""
    result = prepared_result({"target": target}, train=train)
    return write_manifest(run / "prepare-data", "prepare-data", result=asdict(result))


def rewrite_output(run: Path, path: Path, text: str) -> None:
    """Other text in a file of a stage, of which the manifest knows."""
    path.write_text(text)
    manifest = run / path.relative_to(run).parts[0] / MANIFEST
    record = json.loads(manifest.read_text())
    record["outputs"][path.relative_to(manifest.parent).as_posix()] = digest_file(path)
    manifest.write_text(json.dumps(record))


def train_result(history: Mapping[str, Sequence[float]], train_sentences: int = 100, **settings: Any) -> TrainResult:
    """Return the result of a training stage: dev F1 after each epoch, by seed."""
    start = CarryOver("base", 103, ["new.weight"], ["left.weight"], ["person"], ["politician"])
    seeds = {
        seed: SeedResult(
            folder=f"tagger-seed-{seed}",
            learning_rate=1e-4,
            head_learning_rate=1e-3,
            dev_f1=max(scores),
            epoch=1,
            epochs=len(scores),
            updates=12345,
            words_per_second=3100,
            start=start,
            unreadable_words=0,
            shortened_words=0,
            history=[{"score": f1} for f1 in scores],
        )
        for seed, scores in history.items()
    }
    best = [max(scores) for scores in history.values()]
    deviation = statistics.stdev(best) if len(best) > 1 else None
    return TrainResult(seeds, statistics.fmean(best), deviation, start, {"target": train_sentences}, settings)


def seeds_result(scores: Mapping[int, float | None]) -> TrainResult:
    """Return the result of a training stage with dev F1 by seed; a single tagger lies in ``tagger``."""
    result = train_result({str(seed): [f1 or 0.0] for seed, f1 in scores.items()})
    folder = {"folder": "tagger"} if len(scores) == 1 else {}
    seeds = {str(seed): replace(result.seeds[str(seed)], dev_f1=f1, **folder) for seed, f1 in scores.items()}
    return replace(result, seeds=seeds, dev_f1=next(iter(scores.values())))


def write_tagger(
    run: Path,
    name: str,
    *,
    stage: str = "finetune",
    method: str = "linear",
    encoder: str = "minilm",
    history: Mapping[str, Sequence[float]] | None = None,
    lineage: Sequence[Mapping[str, str]] = (),
    train: int = 100,
    **settings: Any,
) -> str:
    """Leave the manifest of a stage that trains a tagger with some settings of its method."""
    result = train_result(history or {"1": [10.0, 20.0]}, train, **settings)
    return write_manifest(
        run / name,
        stage,
        options={"method": method, "encoder": encoder, "start_from": "base", "settings": [], "epochs": 2},
        outputs={"tagger/model.safetensors": str(run)},  # as a digest would, it tells taggers of different runs apart
        lineage=[{"encoder": encoder, "digest": "0"}, *lineage],
        taggers=True,
        result=asdict(result),
    )


def write_evaluation(
    folder: Path,
    words: Tags,
    gold: Tags,
    models: Mapping[str, Mapping[str, Tags]],
    *,
    target: str = "music",
    inputs: Mapping[str, str] | None = None,
    scheme: Scheme | None = None,
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
    whole = {
        "domain": target,
        "split": "test",
        "sentences": len(words),
        "words": sum(map(len, words)),
        **describe_mode("conll"),
        "decoding": "trained",
        "warnings": [],
        "models": {label: asdict(model_result(gold, seeds, scheme)) for label, seeds in models.items()},
        **result,
    }
    write_manifest(folder, "evaluate", result=whole, outputs=outputs, inputs=dict(inputs or {}))
    return folder


def make_run(
    path: Path,
    shares: Mapping[str, Mapping[str, float]],
    *,
    target: str = "music",
    train: int = 100,
    count: int = 12,
    **tagger: Any,
) -> Path:
    """Leave a run of models that were all trained in one way and evaluated on random sentences.

    Args:
        path: The run directory.
        shares: Share of the gold tags that is wrong, by label and seed.
        target: The target domain.
        train: Its training sentences.
        count: Test sentences.
        tagger: Of ``write_tagger``.
    """
    words, gold = random_gold(count)
    write_prepared(path, target, train)
    inputs = {label: write_tagger(path, label, train=train, **{"method": label, **tagger}) for label in shares}
    models = {
        label: {seed: damage(gold, share, int(seed)) for seed, share in seeds.items()}
        for label, seeds in shares.items()
    }
    return write_evaluation(path / "evaluate", words, gold, models, target=target, inputs=inputs).parent


def model_result(gold: Sequence[Sequence[str]], seeds: Mapping[str, Tags], scheme: Scheme | None = None) -> ModelResult:
    """Score one model by the tags of each seed; the scheme is found in the tags unless it is given."""
    scheme = scheme or scheme_shown([each for tags in seeds.values() for each in tags])
    scored = {
        seed: Scored(score(gold, tags), score(gold, tags, mode="strict"), {}, scheme=scheme)
        for seed, tags in seeds.items()
    }
    return summarise(scored)
