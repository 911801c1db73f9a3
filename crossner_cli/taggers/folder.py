"""A tagger's folder: complete in itself, and a Hugging Face model folder where the method allows it.

``config.json``, ``model.safetensors`` and the tokenizer are the encoder as transformers reads it (for ``linear``
with its classifier, so that ``AutoModelForTokenClassification`` and pipelines work); ``tagger.json`` holds method,
hyperparameters, tag set, the domain of new text and the types that labels taught; ``tagger.safetensors`` holds the
tensors above the encoder. In the folder of an exported tagger, ``model.onnx`` stands for all tensors.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import nn

from crossner_cli.encoders.pretrained import LoadedWeights, quiet_transformers, read_tensors
from crossner_cli.encoders.transformer import TransformerEncoder, load_reader, load_transformer
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger, find_method, head_tensors, name_of_method
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.recurrent.word_encoder import WordEncoder, load_word_encoder, save_word_encoder
from crossner_cli.recurrent.word_reader import WordInputs
from crossner_cli.run.storage import write_json
from crossner_cli.taggers.description import DESCRIPTION, MODEL, is_graph_folder, read_description, read_tag_set
from crossner_cli.taggers.onnx_graph import QUANTISED, read_onnx

Decoding = Literal["trained", "legal", "any"]
TENSORS = "tagger.safetensors"
# Parts of a transformer's file that are not read: linear's classifier, and a pooler, which gives no word.
STORED_BESIDE = ("classifier", "pooler")


def save_tagger(tagger: Tagger, folder: Path, **more: Any) -> None:
    """Write a tagger so that the folder alone is enough to use it; ``more`` are further entries of ``tagger.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = tagger.encoder
    if isinstance(encoder, WordEncoder):
        save_word_encoder(encoder, folder)
    transformer = encoder.transformer if isinstance(encoder, WordEncoder) else encoder
    if isinstance(transformer, TransformerEncoder):
        with quiet_transformers():
            _to_hugging_face(tagger, transformer).save_pretrained(folder)
            transformer.reader.tokenizer.save_pretrained(folder)
        if transformer.shapes is not None:
            transformer.shapes.save(folder)
    save_file({name: value.contiguous().cpu() for name, value in head_tensors(tagger).items()}, folder / TENSORS)
    description = {
        "method": name_of_method(type(tagger)),
        "hyperparameters": dataclasses.asdict(tagger.hyper),
        "tag_set": tagger.tag_set.to_json(),
        "domain_of_new_text": tagger.domain_of_new_text,
        "taught_types": list(tagger.taught_types),
        **more,
    }
    write_json(folder / DESCRIPTION, description)


def _to_hugging_face(tagger: Tagger, encoder: TransformerEncoder) -> Any:
    """Return the model that transformers saves: with the classifier if its own token classifier is that and no more."""
    from transformers import AutoModelForTokenClassification

    config = encoder.model.config
    config.id2label = dict(enumerate(tagger.tag_set.tags))
    config.label2id = {tag: number for number, tag in enumerate(tagger.tag_set.tags)}
    classifier = getattr(tagger, "classifier", None)
    is_all_there_is = encoder is tagger.encoder and isinstance(classifier, nn.Linear)
    if not is_all_there_is or set(head_tensors(tagger)) != {"classifier.weight", "classifier.bias"}:
        return encoder.model
    try:
        with torch.device("meta"):
            shell: Any = AutoModelForTokenClassification.from_config(config)
    except ValueError:  # the architecture has no token classifier in transformers
        return encoder.model
    plain = {shell.base_model_prefix, "dropout", "classifier"}
    if {name for name, _ in shell.named_children()} - plain or not hasattr(shell, "classifier"):
        return encoder.model
    setattr(shell, shell.base_model_prefix, encoder.model)
    shell.classifier = classifier
    return shell


def load_tagger(folder: Path, engine: Engine, *, decoding: Decoding = "trained") -> Tagger:
    """Load a tagger for use: in evaluation mode, on the engine's device.

    Raises:
        CrossNERError: The folder is no tagger's, its parts do not belong together, or it gives no tag sequences and
            another ``decoding`` than its own is asked for.
    """
    tagger = _build_tagger(folder, engine)
    if (decoding := resolve_decoding(folder, decoding)) != "trained":
        tagger.hyper = dataclasses.replace(tagger.hyper, legal=decoding == "legal")
    tagger.encoder.prepare_for_inference(engine.precision, on_cpu=engine.on_cpu)
    return tagger.to(engine.device).eval()


def resolve_decoding(folder: Path, decoding: Decoding) -> Decoding:
    """``trained`` where a tagger was trained to decode as asked for, so that its calibration holds; else as asked.

    Raises:
        CrossNERError: The tagger's method gives no tag sequences, and another decoding than its own is asked for.
    """
    if decoding == "trained":
        return decoding
    description = read_description(folder)
    method = find_method(description["method"])
    if not hasattr(method.Hyperparameters, "legal"):
        raise CrossNERError(
            f"--decoding {decoding}: {folder} is a tagger of the method {description['method']}, which does not choose"
            " among tag sequences.",
            hint="Leave --decoding out.",
        )
    is_legal = description["hyperparameters"].get("legal", method.Hyperparameters.legal)
    return "trained" if (decoding == "legal") == is_legal else decoding


def _build_tagger(folder: Path, engine: Engine) -> Tagger:
    """Make a tagger of the tensors in its folder."""
    description, tag_set = read_description(folder), read_tag_set(folder)
    method = find_method(description["method"])
    try:
        hyper = method.Hyperparameters(**description["hyperparameters"])
    except (TypeError, CrossNERError) as error:
        raise CrossNERError(
            f"{folder / DESCRIPTION} does not fit the method {description['method']!r}: "
            f"{getattr(error, 'problem', f'{error}.')}",
            hint="Train the tagger again.",
        ) from None
    if isinstance(hyper, LinearTagger.Hyperparameters) and is_graph_folder(folder):
        graph = folder / (QUANTISED if engine.precision == "int8" else MODEL)
        if not graph.is_file():
            raise CrossNERError(
                f"--precision int8: {folder} has no graph in int8, {QUANTISED}.",
                hint="crossner export --quantise int8 --force writes it; or use --precision fp32.",
            )
        return read_onnx(graph, tag_set, hyper, load_reader(folder))
    transformer: TransformerEncoder | None = None
    if not isinstance(hyper, WordInputs) or hyper.transformer != "none":
        transformer, weights = load_transformer(str(folder), method.reads, attention=engine.attention)
        _check_whole(weights, folder)
    encoder = load_word_encoder(folder, hyper, transformer) if isinstance(hyper, WordInputs) else transformer
    assert encoder is not None
    tagger = method(encoder, tag_set, hyper)
    tensors = read_tensors(folder / TENSORS)
    shapes, stored = (
        {name: tuple(value.shape) for name, value in each.items()} for each in (head_tensors(tagger), tensors)
    )
    for name in sorted({*shapes, *stored}):
        found, wanted = (each.get(name, "no tensor") for each in (stored, shapes))
        if found != wanted:
            raise CrossNERError(
                f"{folder / TENSORS} does not fit {DESCRIPTION} beside it: {name} is {found} instead of {wanted}.",
                hint="Train the tagger again.",
            )
    tagger.load_state_dict(tensors, strict=False)
    return tagger


def _check_whole(weights: LoadedWeights, folder: Path) -> None:
    """Refuse a transformer of which a part is missing, and would be random, or has no place in its architecture."""
    left = [name for name in weights.left if name.split(".")[0] not in STORED_BESIDE]
    for names, what in ((weights.new, "lacks"), (left, "holds, with no place in config.json,")):
        if names:
            raise CrossNERError(
                f"{folder / 'model.safetensors'} {what} {len(names)} tensors of the tagger's transformer, the first"
                f" of them {names[0]}: it does not fit config.json beside it.",
                hint="Copy the tagger's folder again, or train the tagger again.",
            )


def require_linear(tagger: Tagger, folder: Path) -> LinearTagger:
    """Refuse taggers whose tags do not follow from scores of subwords alone: those of other methods than ``linear``."""
    if isinstance(tagger, LinearTagger):
        return tagger
    raise CrossNERError(
        f"{folder} is a tagger of the method {name_of_method(type(tagger))}; only linear taggers are exported.",
        hint="Train one: crossner finetune --method linear.",
    )
