"""Data sets known by name: what they hold, and how they come from the package, a mirror or the network."""

from __future__ import annotations

import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import digest_file

PACKAGE = Path(__file__).parent
KNOWN_DOMAINS, SAMPLES = PACKAGE / "known_domains.json", PACKAGE / "samples"
RETRIES, TIMEOUT = 2, 30.0  # times, seconds
CACHE_HINT = "CROSSNER_CACHE=FOLDER names another one."


@dataclass(frozen=True)
class KnownFile:
    """One file of a known data set: its digest and counts. ``bytes`` is None if nobody measured it."""

    name: str
    sha256: str
    bytes: int | None
    sentences: int
    words: int
    longest_sentence: int
    entities: dict[str, int]


@dataclass(frozen=True)
class KnownDomain:
    """A data set known by name; ``upstream`` is empty for those that come with the package."""

    name: str
    files: dict[str, KnownFile]
    types: tuple[str, ...]
    source: str
    licence: str
    upstream: str = ""
    note: str = ""


def known_domains() -> dict[str, KnownDomain]:
    """The data sets known by name; those that come with the package are last."""
    table: dict[str, dict[str, Any]] = json.loads(KNOWN_DOMAINS.read_text(encoding="utf-8"))
    return {
        name: KnownDomain(
            name,
            {split: KnownFile(**record) for split, record in entry["files"].items()},
            tuple(entry["types"]),
            entry["source"],
            entry["licence"],
            entry["upstream"],
            entry.get("note", ""),
        )
        for name, entry in table.items()
    }


def bundled_domains() -> tuple[str, ...]:
    """Names of the data sets that come with the package."""
    return tuple(name for name, known in known_domains().items() if not known.upstream)


def cache_folder() -> Path:
    """``$CROSSNER_CACHE``, else ``crossner`` in the user's cache folder.

    Raises:
        CrossNERError: The user has no home folder and names no cache.
    """
    own, shared = os.environ.get("CROSSNER_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own)
    if shared:
        return Path(shared) / "crossner"
    try:
        return Path.home() / ".cache" / "crossner"
    except RuntimeError:
        raise CrossNERError("There is no home folder to cache data sets in.", hint=CACHE_HINT) from None


def fetch(known: KnownDomain, file: KnownFile) -> tuple[Path, str]:
    """Bring one file of a known data set into the cache, from the mirror if there is one, else from upstream.

    The cached file is checked each time; one that has changed is fetched again.

    Returns:
        Path of the cached file, and where it was taken from.

    Raises:
        CrossNERError: No place has the file with the stored digest, or the cache cannot be written.
    """
    path = cache_folder() / known.name / file.name
    if path.is_file() and digest_file(path) == file.sha256:
        return path, "cache"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CrossNERError(f"The cache {path.parent} cannot be written: {error.strerror}.", hint=CACHE_HINT) from None
    mirror = os.environ.get("CROSSNER_MIRROR")
    folders = [f"{mirror.rstrip('/')}/{known.name}"] if mirror else []
    failures = []
    for folder in (*folders, known.upstream):
        failure = _download(folder, file, path)
        if failure is None:
            return path, f"{folder}/{file.name}"
        failures.append(f"{folder}/{file.name}: {failure}")
    raise CrossNERError(
        f"{known.name}/{file.name} is not in the cache and could not be fetched:\n  " + "\n  ".join(failures),
        hint=f"Without a network: CROSSNER_MIRROR=FOLDER, which holds {known.name}/{file.name}, or give a folder"
        " with the files in place of the name.",
    )


def _download(folder: str, file: KnownFile, path: Path) -> str | None:
    """Fetch a file from a folder or URL to ``path``, whole and with its digest, or not at all; return what failed."""
    import pooch  # loads requests, which takes long
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    is_url = folder.startswith(("http://", "https://"))
    place = pooch.create(
        path.parent,
        f"{folder}/",
        registry={file.name: f"sha256:{file.sha256}"},
        retry_if_failed=RETRIES if is_url else 0,
    )
    try:
        place.fetch(file.name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT) if is_url else _copy)
        path.chmod(0o644)  # a temporary file is its owner's alone, and a cache may be shared
    except requests.ConnectionError as error:
        return f"no connection ({type(error).__name__})"
    except (OSError, ValueError) as error:  # those of requests are, too
        return str(error)
    return None


def _copy(source: str, target: str, _: Any) -> None:
    shutil.copyfile(source, target)
