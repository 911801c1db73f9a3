"""The scores of a tagger that may be exported as an ONNX graph: written, quantised, and run in place of the encoder."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger

# The graph with weights in int8, beside MODEL.
QUANTISED = "model_quantized.onnx"
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
LARGEST_FILE = 1_900_000_000  # bytes: what one file in ONNX's format can hold, with some room
INPUTS, SHAPES, OUTPUT = ("input_ids", "attention_mask"), "word_shapes", "logits"


class SubwordScores(nn.Module):
    """The scores that the graph computes: one per tag for each subword of padded windows.

    Windows, shapes and first subwords of words, the domain's tags and legal sequences are handled by the reader of the
    scores.
    """

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.encoder: Any = tagger.encoder
        self.classifier: Any = tagger.classifier

    def forward(self, input_ids: Tensor, attention_mask: Tensor, word_shapes: Tensor | None = None) -> Tensor:
        """Score each tag, (R, T, K), of subwords, (R, T), and the shapes of their words if the encoder reads them."""
        read = self.encoder.name_inputs(input_ids, word_shapes)
        scores: Tensor = self.classifier(self.encoder.model(**read, attention_mask=attention_mask)[0])
        return scores


def require_onnx(*packages: str) -> None:
    """Refuse to begin without the packages that write and run ONNX, or without those given."""
    missing = [name for name in packages or PACKAGES if find_spec(name) is None]
    if missing:
        raise CrossNERError(f"Not installed: {', '.join(missing)}.", hint='pip install "crossner[onnx]"')


def write_onnx(tagger: Tagger, path: Path) -> None:
    """Write the graph of a tagger in evaluation mode, on a CPU, in fp32.

    Weights that exceed the largest file are written beside it, as ``NAME.data``.
    """
    scores = SubwordScores(tagger).eval()
    padding = torch.full((2, 4), tagger.encoder.reader.pad_id)
    names: tuple[str, ...] = INPUTS
    example: tuple[Tensor, ...] = padding, torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    if scores.encoder.shapes is not None:
        example, names = (*example, torch.zeros_like(padding)), (*names, SHAPES)
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("subwords")}
    size = sum(value.numel() * value.element_size() for value in scores.parameters())
    with _silence_exporters():
        # Plain products and softmax, which every runtime has.
        scores.encoder.model.set_attn_implementation("eager")
        torch.onnx.export(
            scores,
            example,
            str(path),
            input_names=names,
            output_names=[OUTPUT],
            dynamic_shapes=(sizes,) * len(names),
            dynamo=True,
            verbose=False,
            external_data=size > LARGEST_FILE,
        )


def quantise(path: Path, into: Path) -> None:
    """Write a graph with its weights in int8; activations are quantised as they come (dynamic quantisation)."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    large = path.with_name(f"{path.name}.data").is_file()
    with _silence_exporters():
        quantize_dynamic(
            str(path), str(into), weight_type=QuantType.QInt8, per_channel=True, use_external_data_format=large
        )


@contextlib.contextmanager
def _silence_exporters() -> Iterator[None]:
    """Keep the output of exporters off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class OnnxScores(Encoder):
    """Replaces the encoder of a tagger, and gives the scores of each word's tags instead of its vector.

    It computes on the CPU with as many threads as PyTorch.

    Raises:
        CrossNERError: The graph cannot be read, or its scores are not one per tag.
    """

    def __init__(self, path: Path, tags: int, reader: Any) -> None:
        import onnxruntime

        super().__init__()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
        options.log_severity_level = 3
        again = "Export the tagger again."
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions share no class
            reason = (str(error).strip() or repr(error)).splitlines()[0]
            raise CrossNERError(f"{path} cannot be read: {reason}", hint=again) from None
        shapes = {each.name: each.shape for each in self.session.get_outputs()}
        if shapes.get(OUTPUT, [None])[-1] != tags:
            raise CrossNERError(f"{path} has outputs {shapes} instead of {tags} {OUTPUT}.", hint=again)
        self.output_dim, self.reader = tags, reader
        self.reader.reads_shapes = SHAPES in [each.name for each in self.session.get_inputs()]

    def forward(self, batch: Batch) -> Tensor:
        """Compute the scores of each word's first subword, (B, W, K)."""
        mask = torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
        read = dict(zip(INPUTS, (batch.input_ids.cpu().numpy(), mask.cpu().numpy()), strict=True))
        if batch.shapes is not None:
            read[SHAPES] = batch.shapes.cpu().numpy()
        scores = torch.from_numpy(self.session.run([OUTPUT], read)[0]).to(batch.input_ids.device)  # (R, T, K)
        return scores.flatten(0, 1)[batch.word_places.flatten()].view(*batch.word_places.shape, -1)


def read_onnx(path: Path, method: type[Tagger], tag_set: TagSet, hyper: Any, reader: Any) -> Tagger:
    """Read a graph as a tagger that decodes like the exported one."""
    require_onnx("onnxruntime")
    read = method(OnnxScores(path, len(tag_set), reader), tag_set, hyper)
    read.classifier = nn.Identity()
    return read.eval()
