"""Pre-trained models and their tokenizers: checked, and read from safetensors only."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from crossner_cli.encoders.fast_layers import register_cpu_attention
from crossner_cli.encoders.word_borders import put_spaces_before_words
from crossner_cli.errors import CrossNERError

# Encoders whose positions start after the padding id, which costs them that many places.
OFFSET_POSITIONS = (
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
    "roberta-prelayernorm",
    "camembert",
    "mpnet",
    "longformer",
    "xmod",
    "data2vec-text",
    "ibert",
    "esm",
)
LONGEST_GROWTH = 500_000  # letters that one letter may become, by all replacements of a tokenizer's normalizer
MOST_SHARED_LAYERS = 100  # layers that share their tensors, as in ALBERT
LARGEST_UNUSED = 1024  # size of a part that may be switched off, and then has no tensor
# The errors of transformers for a model folder that is damaged or of another kind.
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    ImportError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,
)


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the load reports and progress bars of transformers."""
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


def first_line(error: Exception) -> str:
    """Return the first line of another library's error message."""
    return (str(error).strip() or repr(error)).splitlines()[0]


def read_config(folder: str) -> Any:
    """Load the configuration of a model folder or name; remote code is never run.

    Raises:
        CrossNERError: It cannot be read.
    """
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from transformers import AutoConfig

    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except UNREADABLE as error:
        raise CrossNERError(
            f"The encoder {folder!r} cannot be read: {first_line(error)}",
            hint="Give a folder that holds config.json and model.safetensors, a name on the hub"
            + (" (HF_HUB_OFFLINE is set, so only cached names work)" if HF_HUB_OFFLINE else "")
            + ", or minilm.",
        ) from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file of a tagger's folder.

    Raises:
        CrossNERError: The file is missing or broken.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CrossNERError(f"{path} cannot be read: {error}.", hint="Train the tagger again.") from None


class LoadedWeights(NamedTuple):
    """The tensors of a model that came from its files, and others.

    Args:
        loaded: Number of tensors read from the files.
        new: Names of the model's tensors that the files lack.
        left: Names of the files' tensors that the model has no place for.
    """

    loaded: int
    new: tuple[str, ...]
    left: tuple[str, ...]


def load_weights(encoder: str, folder: str, config: Any, attention: str | None) -> tuple[Any, LoadedWeights]:
    """Load a model without head and pooler.

    Args:
        encoder: As the user named it.
        folder: A model folder or a Hugging Face name.

    Returns:
        The model, and which tensors were loaded, new and left.

    Raises:
        CrossNERError: It cannot be read, or none of its weights fit.
    """
    from transformers import AutoModel

    try:
        model, report = read_model(AutoModel, folder, config, attention)
    except UNREADABLE as error:
        raise CrossNERError(
            f"The encoder {encoder!r} cannot be loaded: {first_line(error)}",
            hint="It must be a bidirectional Hugging Face encoder with safetensors weights.",
        ) from None
    missing = {name for name in report["missing_keys"] if not name.startswith("pooler.")}
    left = set(report["unexpected_keys"])
    if getattr(model, "pooler", None) is not None:  # word vectors do not come from it
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
        attention: Attention kernel; transformers chooses if it is None or the architecture does not take it.

    Returns:
        The model, and which tensors were missing or left.

    Raises:
        One of ``UNREADABLE``, which the caller explains.
    """
    if attention is not None:
        register_cpu_attention()
        with contextlib.suppress(*UNREADABLE):  # an error of the folder itself is raised again below
            return _read_with(kind, folder, config, attention)
    return _read_with(kind, folder, config, None)


def _read_with(kind: Any, folder: str, config: Any, attention: str | None) -> tuple[Any, dict[str, Any]]:
    check_sizes(Path(folder), config.to_dict())
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


def check_sizes(folder: Path, sizes: Mapping[str, Any]) -> None:
    """Refuse sizes that the weights in a folder cannot fill, by their headers, before so much is made.

    Args:
        folder: A model folder; one without safetensors files has no headers to compare with.
        sizes: Values of a configuration or of a method's settings; only sizes and numbers of layers are looked at.

    Raises:
        ValueError: A value is below zero, more layers than there are tensors, or larger than all of their dimensions.
    """
    shapes = []
    for path in folder.glob("*.safetensors"):
        with contextlib.suppress(OSError, SafetensorError), safe_open(path, framework="pt") as stored:
            shapes += [stored.get_slice(name).get_shape() for name in stored.keys()]  # noqa: SIM118
    largest = max((size for shape in shapes for size in shape), default=0)
    for name, value in sizes.items():
        if not isinstance(value, int) or not (name.startswith(("num_", "n_")) or name.endswith(("_size", "_layers"))):
            continue
        if value < 0:
            raise ValueError(f"{name} is {value:,}")
        if shapes and "layers" in name and value > max(len(shapes), MOST_SHARED_LAYERS):
            raise ValueError(f"{name} is {value:,}, and the weights are {len(shapes):,} tensors")
        if shapes and name.endswith("_size") and name != "vocab_size" and value > max(largest, LARGEST_UNUSED):
            raise ValueError(f"{name} is {value:,}, and no tensor of the weights has more than {largest:,} rows")


def read_tokenizer(folder: str | Path) -> Any:
    """Load a fast tokenizer from a folder or by name, which cuts words as in a text; remote code is never run.

    Raises:
        CrossNERError: No tokenizer is found, or it has no fast form or no vocabulary.
    """
    _check_replacements(Path(folder) / "tokenizer.json")
    tokenizer = _load_tokenizer(str(folder))
    if not tokenizer.is_fast:
        raise CrossNERError(
            f"The tokenizer of {str(folder)!r} has no fast form.", hint="Use an encoder with a tokenizer.json."
        )
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes this of a folder without a vocabulary
        raise CrossNERError(
            f"The tokenizer of {str(folder)!r} has no vocabulary.",
            hint="Put the tokenizer.json that belongs to the model into its folder.",
        )
    put_spaces_before_words(tokenizer)
    return tokenizer


def _check_replacements(path: Path) -> None:
    """Refuse a tokenizer whose normalizer lengthens texts so much that it would never end."""
    growth = 1
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):  # reported when it is loaded
        waiting = [json.loads(path.read_bytes()).get("normalizer")]
        while waiting:
            part = waiting.pop()
            waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
            if isinstance(part, dict) and part.get("type") == "Replace":
                growth *= max(1, len(str(part.get("content"))) // 3)  # a few letters are usual
    if growth > LONGEST_GROWTH:
        raise CrossNERError(
            f"{path} turns one letter into millions, by one replacement after another.",
            hint="Put the model's own tokenizer.json into its folder.",
        )


def _load_tokenizer(folder: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False, add_prefix_space=True)
    except Exception as error:
        # The tokenizers library raises Exception itself for a file it cannot read.
        if type(error) is not Exception and not isinstance(error, UNREADABLE):
            raise
        raise CrossNERError(
            f"The tokenizer of {folder!r} cannot be read: {first_line(error)}",
            hint="Give a folder or name that holds a tokenizer.json, or minilm.",
        ) from None


def check_vocabulary(tokenizer: Any, embeddings: int) -> None:
    """Check that a model has a vector for every subword of a tokenizer.

    Raises:
        CrossNERError: A subword, or the start, end or padding, has a number beyond the table.
    """
    special = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    largest = max(*tokenizer.get_vocab().values(), *(number for number in special if number is not None))
    if largest >= embeddings:
        raise CrossNERError(
            f"{tokenizer.name_or_path}: the tokenizer has {len(tokenizer)} subwords, the model {embeddings} embeddings"
            f" (largest subword number: {largest}).",
            hint="Put the tokenizer that belongs to the model into its folder.",
        )


def position_limit(config: Any, tokenizer: Any) -> int:
    """Return the number of subwords that an encoder reads at once, special ones included."""
    limit = getattr(config, "max_position_embeddings", None) or 512
    if getattr(config, "model_type", "") in OFFSET_POSITIONS:
        limit -= (getattr(config, "pad_token_id", None) or 0) + 1
    own = tokenizer.model_max_length
    return min(int(limit), int(own)) if isinstance(own, (int, float)) else int(limit)
