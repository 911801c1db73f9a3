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

from safetensors.torch import save_file
from torch import nn

from crossner_cli.encoders.pretrained import check_sizes, read_tensors
from crossner_cli.encoders.transformer import load_reader
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import kept_settings
from crossner_cli.methods.contract import Tagger, find_method, head_tensors, name_of_method
from crossner_cli.run.storage import write_json
from crossner_cli.taggers.description import DESCRIPTION, MODEL, is_graph_folder, read_description
from crossner_cli.taggers.onnx_graph import QUANTISED, read_onnx

Decoding = Literal["trained", "legal", "any"]
TENSORS = "tagger.safetensors"


def save_tagger(tagger: Tagger, folder: Path, **more: Any) -> None:
    """Write a tagger so that the folder alone is enough to use it; ``more`` are further entries of ``tagger.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    tagger.encoder.save(folder, tagger.tag_set.tags, _find_only_classifier(tagger))
    save_file({name: value.contiguous().cpu() for name, value in head_tensors(tagger).items()}, folder / TENSORS)
    description = {
        "method": name_of_method(type(tagger)),
        "hyperparameters": kept_settings(tagger.hyper),
        "tag_set": tagger.tag_set.to_json(),
        "domain_of_new_text": tagger.domain_of_new_text,
        "taught_types": list(tagger.taught_types),
        **more,
    }
    write_json(folder / DESCRIPTION, description)


def _find_only_classifier(tagger: Tagger) -> nn.Linear | None:
    """Return the only layer above the encoder if it is linear, else None."""
    classifier = getattr(tagger, "classifier", None)
    is_all = set(head_tensors(tagger)) == {"classifier.weight", "classifier.bias"}
    return classifier if is_all and isinstance(classifier, nn.Linear) else None


def load_tagger(folder: Path, engine: Engine, *, decoding: Decoding = "trained") -> Tagger:
    """Load a tagger for use: in evaluation mode, on the engine's device.

    Raises:
        CrossNERError: The folder holds no tagger, its parts do not belong together, or it gives no tag sequences and
            another ``decoding`` is asked for.
    """
    tagger = _build_tagger(folder, engine)
    if (decoding := resolve_decoding(folder, decoding)) != "trained":
        tagger.hyper = dataclasses.replace(tagger.hyper, **{"legal": decoding == "legal"})
    tagger.encoder.prepare_for_inference(engine.precision, on_cpu=engine.on_cpu)
    return tagger.to(engine.device).eval()


def resolve_decoding(folder: Path, decoding: Decoding) -> Decoding:
    """Return ``trained`` if a tagger was trained with this decoding, whose calibration then holds; else the other."""
    if decoding == "trained":
        return decoding
    description = read_description(folder)
    method = find_method(description.method)
    if not hasattr(method.Hyperparameters, "legal"):
        raise CrossNERError(
            f"--decoding {decoding}: {folder} is a tagger of the method {description.method}, which does not choose"
            " among tag sequences.",
            hint="Leave --decoding out.",
        )
    is_legal = description.settings.get("legal", method.Hyperparameters.legal)
    return "trained" if (decoding == "legal") == is_legal else decoding


def _build_tagger(folder: Path, engine: Engine) -> Tagger:
    """Make a tagger of the tensors in its folder."""
    description = read_description(folder)
    tag_set = description.tag_set
    method = find_method(description.method)
    try:
        hyper = method.Hyperparameters(**description.settings)
        check_sizes(folder, description.settings)
    except (TypeError, ValueError, CrossNERError) as error:
        raise CrossNERError(
            f"{folder / DESCRIPTION} does not fit the method {description.method!r}: "
            f"{getattr(error, 'problem', f'{error}.')}",
            hint="Train the tagger again.",
        ) from None
    if method.can_export and is_graph_folder(folder):
        graph = folder / (QUANTISED if engine.precision == "int8" else MODEL)
        if not graph.is_file():
            raise CrossNERError(
                f"--precision int8: {folder} has no graph in int8, {QUANTISED}.",
                hint="crossner export --quantise int8 --force writes it; or use --precision fp32.",
            )
        return read_onnx(graph, method, tag_set, hyper, load_reader(folder))
    encoder = method.encoder_class.load(folder, hyper, attention=engine.attention)
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


def check_export(tagger: Tagger, folder: Path) -> None:
    """Refuse taggers of methods that cannot be exported."""
    if type(tagger).can_export:
        return
    raise CrossNERError(
        f"{folder} is a tagger of the method {name_of_method(type(tagger))}, which is not exported.",
        hint="Train one: crossner finetune --method linear.",
    )
