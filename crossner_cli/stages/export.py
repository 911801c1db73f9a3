"""``crossner export``: a linear tagger as ONNX, in fp32 and int8, measured beside the tagger."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from crossner_cli.data.sentences import PreparedData, PreparedDomain, Sentence
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import describe_mode, score
from crossner_cli.methods.contract import Tagger
from crossner_cli.options import Export
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.environment import make_record
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import ExportedModel, ExportResult
from crossner_cli.run.storage import check_output_folder, output_folder, strip_folders, write_json
from crossner_cli.taggers.card import write_onnx_card
from crossner_cli.taggers.description import DESCRIPTION, MODEL, is_graph_folder
from crossner_cli.taggers.folder import check_export, load_tagger
from crossner_cli.taggers.onnx_graph import PACKAGES, QUANTISED, quantise, read_onnx, require_onnx, write_onnx
from crossner_cli.taggers.sources import best_on_dev, find_taggers
from crossner_cli.taggers.tagging import read_calibration, tag, tag_with_progress

COMMAND, RECORD = "export", "export.json"
# Files of configuration and tokenizer in a model folder.
COPIED = (DESCRIPTION, "config.json", "tokenizer*", "*_tokens*.json", "vocab.*", "merges.txt", "*.model")
WARM_UP = 8  # sentences


@dataclasses.dataclass
class Side:
    """A model to compare, with the bytes of its weights on disk."""

    name: str
    tagger: Tagger
    engine: Engine
    bytes: int


def run(run: RunDirectory, options: Export, engine: Engine) -> Work[Manifest]:
    """Write the graphs with tokenizer and configuration, and measure them on the run's target sentences.

    Returns:
        A record like a stage's manifest; it lies in the folder made.

    Raises:
        CrossNERError: The output exists, packages are missing, the tagger is not linear or damaged, the device is not a
            CPU, or the run has no sentences to measure on.
    """
    began = time.perf_counter()
    output = options.output or run.path / COMMAND
    if not engine.on_cpu or engine.world > 1:
        raise CrossNERError(f"{COMMAND} writes and measures on one CPU.", hint="Give --device cpu.")
    require_onnx()
    check_output_folder(output, RECORD, force=options.force)
    trained = best_on_dev(find_taggers(run, [options.model] if options.model else [], wanted_by=COMMAND))
    if is_graph_folder(trained.folder):
        raise CrossNERError(f"{trained.folder} is an exported tagger already.", hint="Give another --model.")
    target = _find_target(run, options)
    yield Notice(f"{COMMAND}: loading {trained.label}")
    exact = dataclasses.replace(engine, precision="fp32")
    tagger = load_tagger(trained.folder, exact)
    check_export(tagger, trained.folder)
    trained.check_unchanged()
    sentences = [] if target is None else target.assign_domain(tagger.tag_set, target.sentences(options.split))
    with output_folder(output, RECORD, force=options.force) as folder:
        yield Notice(f"{COMMAND}: writing {trained.label} as ONNX in fp32")
        write_onnx(load_tagger(trained.folder, exact), folder / MODEL)
        if options.quantise == "int8":
            yield Notice(f"{COMMAND}: quantising it to int8")
            quantise(folder / MODEL, folder / QUANTISED)
        _copy_configuration(trained.folder, folder)
        sides = _load_sides(trained.folder, folder, tagger, exact, engine)
        models = yield from _measure(sides, sentences)
        calibration = read_calibration(trained.folder)
        result = ExportResult(
            model=trained.label,
            seed=trained.seed,
            output=str(output),
            **describe_mode("conll"),
            sentences=len(sentences),
            words=sum(len(sentence.words) for sentence in sentences),
            domain=None if target is None else target.name,
            split=options.split,
            threads=torch.get_num_threads(),
            calibration=None if calibration is None else calibration.to_json(),
            models=models,
        )
        inputs = {trained.label: trained.digest}
        record = make_record(COMMAND, options.record(), inputs, dataclasses.asdict(result), began)
        record["versions"] |= {name: version(name) for name in PACKAGES}
        write_onnx_card(folder, trained.folder, trained.label, result)
        write_json(folder / RECORD, strip_folders(record))
    return record


def _find_target(run: RunDirectory, options: Export) -> PreparedDomain | None:
    """Find the domain to measure on, if any."""
    if options.split == "none":
        return None
    target = PreparedData.load(run, wanted_by=f"{COMMAND} (without --split none)").domain("target", wanted_by=COMMAND)
    target.check_has(options.split)
    return target


def _copy_configuration(source: Path, folder: Path) -> None:
    for pattern in COPIED:
        for path in source.glob(pattern):
            shutil.copyfile(path, folder / path.name)


def _load_sides(source: Path, folder: Path, tagger: Tagger, exact: Engine, engine: Engine) -> list[Side]:
    """Load the tagger in fp32, in the engine's precision if that differs, and its graphs."""
    size = _size(source, "*.safetensors")
    sides = [Side("PyTorch fp32", tagger, exact, size)]
    if engine.precision != "fp32":
        sides.append(Side(f"PyTorch {engine.precision}", load_tagger(source, engine), engine, size))
    for name, file in (("ONNX fp32", MODEL), ("ONNX int8", QUANTISED)):
        if (folder / file).is_file():
            graph = read_onnx(folder / file, type(tagger), tagger.tag_set, tagger.hyper, tagger.encoder.reader)
            sides.append(Side(name, graph, exact, _size(folder, f"{file}*")))
    return sides


def _size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def _measure(sides: Sequence[Side], sentences: Sequence[Sentence]) -> Work[list[ExportedModel]]:
    """Compare F1, speed and size of the models, and the words that they tag differently from the first."""
    if not sentences:
        return [ExportedModel(side.name, side.bytes) for side in sides]
    gold = [sentence.tags or () for sentence in sentences]
    models: list[ExportedModel] = []
    first: list[str] = []
    for side in sides:
        tag(side.tagger, sentences[:WARM_UP], side.engine)
        began = time.perf_counter()
        tagged = yield from tag_with_progress(side.tagger, sentences, side.engine, task=f"{COMMAND} {side.name}")
        seconds = max(time.perf_counter() - began, 1e-9)
        tags = [each for of_sentence in tagged for each in of_sentence.tags]
        first = first or tags
        models.append(
            ExportedModel(
                name=side.name,
                bytes=side.bytes,
                f1=score(gold, [each.tags for each in tagged]).f1,
                words_per_second=round(len(tags) / seconds),
                other_tags=sum(one != other for one, other in zip(first, tags, strict=True)),
            )
        )
    return models
