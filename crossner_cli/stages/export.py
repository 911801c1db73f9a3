"""``crossner export``: a linear tagger as ONNX, in fp32 and int8, measured beside the tagger it was made from."""

from __future__ import annotations

import dataclasses
import re
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from crossner_cli import figures
from crossner_cli.data.sentences import PreparedData, PreparedDomain, Sentence
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import describe_mode, score
from crossner_cli.methods.contract import Tagger
from crossner_cli.options import Export
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import installed_versions
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import check_output, output_folder, write_atomically, write_json
from crossner_cli.taggers.calibration import read_calibration
from crossner_cli.taggers.card import CARD, plain, table
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.onnx import (
    MODEL,
    QUANTISED,
    count_differences,
    quantise,
    read_onnx,
    require_linear,
    require_onnx,
    write_onnx,
)
from crossner_cli.taggers.sources import TrainedTagger, best_on_dev, find_taggers
from crossner_cli.taggers.tagging import tag, tag_with_progress

COMMAND, RECORD = "export", "export.json"
# What belongs to configuration and tokenizer among the files of a model folder.
COPIED = (
    "config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
)
WARM_UP = 8  # sentences
USE = """## ONNX

This folder holds no weights for PyTorch; what is said above is of the tagger that it was made from.

`model.onnx` holds the graph in fp32, `model_quantized.onnx`, where it is there, in int8. Inputs are `input_ids` and
`attention_mask`, the output `logits` has one score a tag for each subword; `id2label` in `config.json` names the tags.
`crossner` gives a word the scores of its first subword, leaves out tags of other domains, takes the likeliest legal
sequence (where its `legal` is False, each word's likeliest tag) and reads long sentences in windows; a reader of the
graph has to do the same for the same tags. Where
`export.json` has a `calibration`, an entity is right with probability `sigmoid(slope * log(p / (1 - p)) + intercept)`,
p being the lowest probability among the tags of its words.

```python
import onnxruntime, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained("FOLDER")
labels = transformers.AutoConfig.from_pretrained("FOLDER").id2label
read = tokenizer([["Words", "of", "a", "sentence"]], is_split_into_words=True, return_tensors="np")
session = onnxruntime.InferenceSession("FOLDER/model.onnx")
(logits,) = session.run(["logits"], {name: read[name] for name in ("input_ids", "attention_mask")})
print([labels[number] for number in logits[0].argmax(-1)])
```
"""


@dataclasses.dataclass
class Side:
    """One of the models that are compared.

    Args:
        name: For the table.
        tagger: The model.
        engine: In which precision it works.
        bytes: Of its weights on disk.
    """

    name: str
    tagger: Tagger
    engine: Engine
    bytes: int
    tags: list[Sequence[str]] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)


def run(run: RunDirectory, options: Export, engine: Engine) -> Work[Manifest]:
    """Write the graphs with tokenizer and configuration, and measure them on the run's target sentences.

    Returns:
        A record like a stage's manifest; it lies in the folder made.

    Raises:
        CrossNERError: The output exists, packages are missing, the tagger is not linear or damaged, the device is no
            CPU, or the run has no sentences to measure on.
    """
    began = time.perf_counter()
    options.refuse_name(COMMAND)
    output = options.output or run.path / COMMAND
    if not engine.on_cpu or engine.world > 1:
        raise CrossNERError(f"{COMMAND} writes and measures on one CPU.", hint="Give --device cpu.")
    require_onnx()
    check_output(output, RECORD, force=options.force)
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    calibration = read_calibration(trained.folder)
    target = _target(run, options)
    exact = dataclasses.replace(engine, precision="fp32")
    tagger = require_linear(load_tagger(trained.folder, exact), trained.folder)
    sentences = [] if target is None else target.as_known_to(tagger.tag_set, target.sentences(options.split))
    with output_folder(output, RECORD, force=options.force) as folder:
        yield Notice(f"{COMMAND}: writing {trained.label} as ONNX in fp32")
        write_onnx(require_linear(load_tagger(trained.folder, exact), trained.folder), folder / MODEL)
        if options.quantise == "int8":
            yield Notice(f"{COMMAND}: quantising it to int8")
            quantise(folder / MODEL, folder / QUANTISED)
        _copy_configuration(trained.folder, folder)
        threads = torch.get_num_threads()
        sides = [Side("PyTorch fp32", tagger, exact, _size(trained.folder, "*.safetensors"))]
        if engine.precision != "fp32":
            quick = load_tagger(trained.folder, engine)
            sides.append(Side(f"PyTorch {engine.precision}", quick, engine, sides[0].bytes))
        for name, file in (("ONNX fp32", MODEL), ("ONNX int8", QUANTISED)):
            if (folder / file).is_file():
                sides.append(Side(name, read_onnx(folder / file, tagger, threads), exact, _size(folder, f"{file}*")))
        if sentences:
            yield from _measure(sides, sentences, options.rounds)
        record: Manifest = {
            "stage": COMMAND,
            "name": COMMAND,
            "options": options.record(),
            "inputs": {trained.label: trained.digest},
            "result": {
                "model": trained.label,
                "seed": trained.seed,
                "output": str(output),
                **describe_mode("conll"),
                "sentences": len(sentences),
                "words": _words(sentences),
                "domain": None if target is None else target.name,
                "split": options.split,
                "rounds": options.rounds,
                "threads": threads,
                "calibration": None if calibration is None else calibration.to_json(),
                "models": _compare(sides, sentences),
            },
            "versions": {**installed_versions(), **versions_of_onnx()},
            "seconds": round(time.perf_counter() - began, 1),
        }
        write_atomically(folder / CARD, _card(trained, record["result"]))
        write_json(folder / RECORD, record)
    return record


def versions_of_onnx() -> dict[str, str]:
    """Versions of the packages that wrote and ran the graph."""
    from importlib.metadata import version

    return {name: version(name) for name in ("onnx", "onnxruntime", "onnxscript")}


def _target(run: RunDirectory, options: Export) -> PreparedDomain | None:
    """The domain whose sentences are measured on, if any are."""
    if options.split == "none":
        return None
    target = PreparedData.load(run, wanted_by=f"{COMMAND} (without --split none)").domain("target", wanted_by=COMMAND)
    target.check_has(options.split)
    return target


def _copy_configuration(source: Path, folder: Path) -> None:
    for pattern in COPIED:
        for path in source.glob(pattern):
            shutil.copyfile(path, folder / path.name)


def _size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def _words(sentences: Sequence[Sentence]) -> int:
    return sum(len(sentence.words) for sentence in sentences)


def _measure(sides: Sequence[Side], sentences: Sequence[Sentence], rounds: int) -> Work[None]:
    """Tag all sentences with each model in turn, so that what else the machine does meets all alike."""
    for side in sides:
        tag(side.tagger, sentences[:WARM_UP], side.engine)
    for number in range(rounds):
        for side in sides:
            began = time.perf_counter()
            tagged = yield from tag_with_progress(
                side.tagger, sentences, side.engine, task=f"{COMMAND} {side.name}, round {number + 1} of {rounds}"
            )
            side.seconds.append(time.perf_counter() - began)
            side.tags = [each.tags for each in tagged]


def _compare(sides: Sequence[Side], sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """F1, speed, size of each model, and the words it tags otherwise than the first."""
    rows: list[dict[str, Any]] = []
    for side in sides:
        row: dict[str, Any] = {"name": side.name, "bytes": side.bytes}
        if sentences:
            row["f1"] = score([each.tags or () for each in sentences], side.tags, mode="conll").f1
            row["words_per_second"] = round(_words(sentences) / max(statistics.median(side.seconds), 1e-9))
            row["seconds"] = [round(seconds, 3) for seconds in side.seconds]
            row["other_tags"] = count_differences(sides[0].tags, side.tags)
        rows.append(row)
    return rows


def _card(trained: TrainedTagger, result: dict[str, Any]) -> str:
    """The tagger's own card, and below it what is here."""
    card = trained.folder / CARD
    text = card.read_text(encoding="utf-8") if card.is_file() else f"# {plain(trained.label)}, exported\n"
    text = re.sub(r"(?m)^library_name: .*$", "library_name: onnx", text, count=1)
    text = re.sub(r"(?ms)^## Use\n.*?(?=^## )", "", text, count=1)  # by PyTorch, which finds nothing here
    if not result["sentences"]:
        return f"{text}\n{USE}"
    rows = [
        (
            each["name"],
            figures.score(each["f1"]),
            figures.count(each["other_tags"]),
            figures.amount(each["bytes"], None, "bytes"),
        )
        for each in result["models"]
    ]
    told = (
        f"Measured on {figures.count(result['sentences'])} {result['split']} sentences of {plain(result['domain'])},"
        f" {figures.count(result['words'])} words, {result['tool']}, mode {result['mode']}:"
    )
    return "\n".join([text, USE, told, "", *table(("model", "F1", "words tagged otherwise", "weights"), rows), ""])
