"""The tokenizer of an encoder: found, checked, and what its encoder can read of it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from crossner_cli.errors import CrossNERError

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
