"""ONNX: a linear tagger's scores as a graph for other runtimes, smaller in int8, and a tagger that reads them back.

The graph reads subwords of padded windows and gives each subword one score a tag; windows, first subwords of words,
the domain's tags and legal sequences remain the work of whoever reads the scores, here of the same code as always.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import Encoder, TransformerEncoder
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.taggers.folder import get_method_name

MODEL, QUANTISED = "model.onnx", "model_quantized.onnx"
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
LARGEST_FILE = 1_900_000_000  # bytes: what one file in ONNX's format can hold, with some room
INPUTS, OUTPUT = ("input_ids", "attention_mask"), "logits"


class SubwordScores(nn.Module):
    """The scores that the graph computes.

    Args:
        tagger: The tagger with the encoder and classifier.
    """

    def __init__(self, tagger: LinearTagger) -> None:
        super().__init__()
        assert isinstance(tagger.encoder, TransformerEncoder)
        self.model, self.classifier = tagger.encoder.model, tagger.classifier

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """One score a tag, (R, T, K), of subwords, (R, T)."""
        scores: Tensor = self.classifier(self.model(input_ids=input_ids, attention_mask=attention_mask)[0])
        return scores


def require_linear(tagger: Tagger, folder: Path) -> LinearTagger:
    """Refuse taggers whose tags do not follow from scores of subwords alone.

    Raises:
        CrossNERError: It is of another method than ``linear``.
    """
    if isinstance(tagger, LinearTagger):
        return tagger
    raise CrossNERError(
        f"{folder} is a tagger of the method {get_method_name(tagger)}; only linear taggers are exported.",
        hint="Train one: crossner finetune --method linear.",
    )


def require_onnx() -> None:
    """Refuse to begin without the packages that write and run ONNX.

    Raises:
        CrossNERError: One is missing.
    """
    from importlib.util import find_spec

    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise CrossNERError(f"Not installed: {', '.join(missing)}.", hint='pip install "crossner[onnx]"')


def write_onnx(tagger: LinearTagger, path: Path) -> None:
    """Write the graph in fp32.

    Args:
        tagger: In evaluation mode, on a CPU, in fp32.
        path: The file. Weights that exceed the largest file are written beside it, as ``NAME.data``.
    """
    scores = SubwordScores(tagger).eval()
    example = torch.full((2, 4), tagger.encoder.reader.pad_id), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("subwords")}
    with silence_exporters():
        # Plain products and softmax, which every runtime has.
        scores.model.set_attn_implementation("eager")
        torch.onnx.export(
            scores,
            example,
            str(path),
            input_names=INPUTS,
            output_names=[OUTPUT],
            dynamic_shapes=(sizes, sizes),
            dynamo=True,
            verbose=False,
            external_data=is_large(scores),
        )


def quantise(path: Path, into: Path) -> None:
    """Write a graph with its weights in int8; activations are quantised as they come (dynamic quantisation)."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    large = path.with_name(f"{path.name}.data").is_file()
    with silence_exporters():
        quantize_dynamic(
            str(path), str(into), weight_type=QuantType.QInt8, per_channel=True, use_external_data_format=large
        )


def is_large(model: nn.Module) -> bool:
    """Return whether the weights exceed one file."""
    return sum(value.numel() * value.element_size() for value in model.parameters()) > LARGEST_FILE


@contextlib.contextmanager
def silence_exporters() -> Iterator[None]:
    """Keep what exporters say of themselves off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class OnnxScores(Encoder):
    """Stands where a tagger has its encoder and gives the scores of each word instead of its vector.

    Args:
        path: The graph.
        tags: K.
        reader: Of the tagger that was exported.
        threads: CPU threads.
    """

    def __init__(self, path: Path, tags: int, reader: Any, threads: int) -> None:
        import onnxruntime

        super().__init__()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.output_dim, self.reader = tags, reader

    def forward(self, batch: Batch) -> Tensor:
        """The scores of each word's first subword, (B, W, K)."""
        mask = torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
        read = {"input_ids": batch.input_ids.numpy(), "attention_mask": mask.numpy()}
        scores = torch.from_numpy(self.session.run([OUTPUT], read)[0])  # (R, T, K)
        return scores.flatten(0, 1)[batch.word_places.flatten()].view(*batch.word_places.shape, -1)


def read_onnx(path: Path, tagger: LinearTagger, threads: int) -> LinearTagger:
    """A tagger that decodes as the one that was exported, from the scores of the graph."""
    read = LinearTagger(
        OnnxScores(path, len(tagger.tag_set), tagger.encoder.reader, threads), tagger.tag_set, tagger.hyper
    )
    read.classifier = nn.Identity()  # type: ignore[assignment]
    return read.eval()


def count_differences(left: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> int:
    """Count the words that have other tags."""
    return sum(one != other for a, b in zip(left, right, strict=True) for one, other in zip(a, b, strict=True))
