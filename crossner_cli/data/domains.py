"""Domains: which files a data set is made of, and how the known ones come from the network into the cache."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import http.client
import json
import os
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.data.jsonl_files import LIST_HINT
from crossner_cli.data.labelled_domain import read_domain
from crossner_cli.data.sentences import SPLITS
from crossner_cli.data.statistics import count_split
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import digest_file, flush_folder

PACKAGE = Path(__file__).parent
KNOWN_DOMAINS, SAMPLES = PACKAGE / "known_domains.json", PACKAGE / "samples"
SPLIT_OF_STEM = {
    "train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "devel": "dev", "eval": "dev", "test": "test",
}  # fmt: skip
ENDINGS = (".txt", ".conll", ".tsv", ".bio", ".iob2", ".bioes", ".jsonl")
ATTEMPTS, PAUSE, TIMEOUT = 3, 1.0, 30.0  # times, seconds, seconds
PASSING_STATUS = (429, 500, 502, 503, 504)
CACHE_HINT = "CROSSNER_CACHE=FOLDER names another one."
FOLDER_HINT = f"A folder holds train, dev and test files, each ending in one of {' '.join(ENDINGS)}."
TEST_HINT = "Where raw text alone is to be learnt from, a test file of a few labelled sentences is enough."


@dataclass(frozen=True)
class Domain:
    """A data set at hand.

    Args:
        name: A known name, or the folder's own.
        files: File of each split there is, in the order train, dev, test.
        origins: Where each file was taken from: a URL, a mirror, ``cache``, ``package`` or ``folder``.
        corpus: Raw text that comes with the data set; only the bundled sample has some.
        entities: Entity list that comes with it.
        passed_over: Files of its folder that are called as a split that it lacks, with endings that are not read.
    """

    name: str
    files: dict[str, Path]
    origins: dict[str, str] = field(default_factory=dict)
    corpus: Path | None = None
    entities: Path | None = None
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownFile:
    """One file of a known data set: its digest and what it holds. ``bytes`` is None where nobody measured it."""

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
    """The data sets known by name and fetched when first asked for."""
    table: dict[str, dict[str, Any]] = json.loads(KNOWN_DOMAINS.read_text(encoding="utf-8"))
    return {
        name: KnownDomain(
            name,
            {split: KnownFile(**record) for split, record in entry["files"].items()},
            tuple(entry["types"]), entry["source"], entry["licence"], entry["upstream"], entry.get("note", ""),
        )
        for name, entry in table.items()
    }  # fmt: skip


def list_domains() -> dict[str, KnownDomain]:
    """Every data set known by name: what it holds, its licence and its source. The bundled ones come last."""
    return known_domains() | {name: _describe_bundled(name) for name in bundled_domains()}


def _describe_bundled(name: str) -> KnownDomain:
    paths = _bundled_domain(name).files
    labelled = read_domain(paths, name=name)
    files = {}
    for split, path in paths.items():
        counts = count_split(labelled.splits[split])
        size = path.stat().st_size
        files[split] = KnownFile(path.name, digest_file(path), size, **counts)
    return KnownDomain(name, files, labelled.types, "written for this package", "as the package")


def bundled_domains() -> tuple[str, ...]:
    """Names of the data sets that come with the package."""
    return tuple(sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())) if SAMPLES.is_dir() else ()


def find_domain(name_or_folder: str) -> Domain:
    """Find a data set, fetching it if it is known by name and not in the cache yet.

    A known name wins over a folder of that name; ``./NAME``, or anything else with a path separator, is the folder.

    Raises:
        CrossNERError: There is no such data set, its files are ambiguous, or it cannot be fetched.
    """
    if not _is_path(name_or_folder):
        if name_or_folder in bundled_domains():
            return _bundled_domain(name_or_folder)
        known = known_domains().get(name_or_folder)
        if known:
            return _known_domain(known)
    folder = Path(name_or_folder)
    if is_folder(folder):
        files = split_files(folder)
        others = tuple(sorted(path.name for path in folder.iterdir() if _seems_split(path.name, files)))
        return Domain(folder.resolve().name, files, dict.fromkeys(SPLITS, "folder"), passed_over=others)
    raise _unknown(name_or_folder)


def hides_folder(name: str) -> bool:
    """Whether a known name is also that of a folder here with labelled data, which is not read then."""
    if _is_path(name) or not (name in bundled_domains() or name in known_domains()) or not is_folder(Path(name)):
        return False
    try:
        names = [path.name for path in Path(name).iterdir()]
    except OSError:
        return False
    return any(_split_of(each) for each in names if each.lower().endswith(ENDINGS))


def _is_path(name_or_folder: str) -> bool:
    return any(separator and separator in name_or_folder for separator in (os.sep, os.altsep, "/"))


def _seems_split(name: str, files: Mapping[str, Path]) -> bool:
    """Whether a file that was not read is called as a split that the folder lacks, or nearly so, as trian.txt."""
    split = _split_of(name)
    if split is None and name.lower().endswith(ENDINGS):
        close = difflib.get_close_matches(Path(name).stem.lower(), SPLIT_OF_STEM, n=1, cutoff=0.5)
        split = SPLIT_OF_STEM[close[0]] if close else None
    return split not in (None, *files)


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; a path that no file system can hold is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def split_files(folder: Path) -> dict[str, Path]:
    """The file of each split in a folder: stem ``train``, ``dev`` (or its other names) or ``test``, a known ending, in
    any case.

    Raises:
        CrossNERError: There is none, or two for one split.
    """
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise CrossNERError(f"{folder} cannot be read: {error.strerror}.", hint=FOLDER_HINT) from None
    found: dict[str, Path] = {}
    for path in paths:
        split = SPLIT_OF_STEM.get(path.stem.lower())
        if split is None or path.suffix.lower() not in ENDINGS:
            continue
        if split in found:
            raise CrossNERError(
                f"{folder} has two files for {split}: {found[split].name} and {path.name}.",
                hint="Keep one of them in this folder.",
            )
        found[split] = path
    if not found:
        names = ", ".join(path.name for path in paths[:10]) or "nothing"
        way_out = f" {LIST_HINT}." if any(path.suffix.lower() == ".json" for path in paths) else ""
        raise CrossNERError(
            f"{folder} holds no train, dev or test file (found: {names}).", hint=f"{FOLDER_HINT}{way_out} {TEST_HINT}"
        )
    return {split: found[split] for split in SPLITS if split in found}


def _split_of(name: str) -> str | None:
    """The split that a file is called by, whatever its endings."""
    return SPLIT_OF_STEM.get(name.partition(".")[0].lower())


def _unknown(name: str) -> CrossNERError:
    names = [*known_domains(), *bundled_domains()]
    if _is_file(Path(name)):
        return CrossNERError(f"{name} is a file, and a data set is a folder.", hint=f"{FOLDER_HINT} Give the folder.")
    close = difflib.get_close_matches(name.lower(), names)
    meant = f"Did you mean {' or '.join(close)}?\n" if close else ""
    return CrossNERError(
        f"{name!r} is neither a known data set nor a folder.",
        hint=f"{meant}Known: {', '.join(names)}. {FOLDER_HINT}",
    )


def _bundled_domain(name: str) -> Domain:
    folder = SAMPLES / name
    corpus, entities = folder / "raw.txt", folder / "entities.tsv"
    return Domain(
        name, split_files(folder), dict.fromkeys(SPLITS, "package"),
        corpus if corpus.is_file() else None, entities if entities.is_file() else None,
    )  # fmt: skip


def _known_domain(known: KnownDomain) -> Domain:
    files, origins = {}, {}
    for split in (split for split in SPLITS if split in known.files):
        files[split], origins[split] = fetch(known, known.files[split])
    return Domain(known.name, files, origins)


def cache_folder() -> Path:
    """``$CROSSNER_CACHE``, else ``crossner`` in the user's cache folder.

    Raises:
        CrossNERError: The user has no home folder and names no cache.
    """
    own, shared = os.environ.get("CROSSNER_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own or shared:
        return Path(own) if own else Path(str(shared)) / "crossner"
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
        CrossNERError: No place has it, it has another digest than the stored one, or the cache cannot be written.
    """
    path = cache_folder() / known.name / file.name
    if _is_intact(path, file.sha256):
        return path, "cache"
    failures = []
    for place in _places(known, file):
        try:
            content = _download(place) if re.match(r"https?://", place) else _read_mirror(Path(place))
        except _UnavailableError as failure:
            failures.append(f"{place}: {failure}")
            continue
        _check_digest(content, file, place)
        _store(path, content)
        return path, place
    raise CrossNERError(
        f"{known.name}/{file.name} is not in the cache and could not be fetched:\n  " + "\n  ".join(failures),
        hint=f"Without a network: CROSSNER_MIRROR=FOLDER, which holds {known.name}/{file.name}, or give a folder"
        " with the files in place of the name.",
    )


class _UnavailableError(Exception):
    """A place that could not give a file. ``is_passing``: another attempt may help."""

    def __init__(self, reason: str, *, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.is_passing = is_passing


def _is_intact(path: Path, sha256: str) -> bool:
    try:
        return digest_file(path) == sha256
    except OSError:
        return False


def _places(known: KnownDomain, file: KnownFile) -> list[str]:
    mirror = os.environ.get("CROSSNER_MIRROR")
    places = [f"{mirror.rstrip('/')}/{known.name}/{file.name}"] if mirror else []
    return [*places, f"{known.upstream}/{file.name}"]


def _read_mirror(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _UnavailableError(error.strerror or str(error)) from None


def _download(url: str) -> bytes:
    for attempt in range(1, ATTEMPTS):
        try:
            return _read_url(url)
        except _UnavailableError as failure:
            if not failure.is_passing:
                raise
        time.sleep(PAUSE * attempt)
    return _read_url(url)


def _read_url(url: str) -> bytes:
    """Read a URL once. The files are a few megabytes at most, so they are held in memory."""
    try:
        with urllib.request.urlopen(urllib.parse.quote(url, safe=":/%?=&@[]"), timeout=TIMEOUT) as response:
            content: bytes = response.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise _UnavailableError(f"HTTP status {error.code}", is_passing=error.code in PASSING_STATUS) from None
    except urllib.error.URLError as error:
        is_passing = not isinstance(error.reason, (ConnectionRefusedError, socket.gaierror))
        raise _UnavailableError(f"no connection ({error.reason})", is_passing=is_passing) from None
    except (http.client.InvalidURL, ValueError) as error:
        raise _UnavailableError(f"not a usable URL ({error})") from None
    except (http.client.HTTPException, OSError) as error:
        reason = f"the connection was cut ({type(error).__name__}: {error})"
        raise _UnavailableError(reason, is_passing=True) from None
    return content


def _check_digest(content: bytes, file: KnownFile, place: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise CrossNERError(
            f"{place} has SHA-256 {found}, expected {file.sha256}.",
            hint="It is another version of the file, or a damaged one; it was not kept."
            " Take it from elsewhere with CROSSNER_MIRROR, or give a folder with your own files.",
        )


def _store(path: Path, content: bytes) -> None:
    """Write a file into the cache: whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
        flush_folder(path.parent)
    except OSError as error:
        raise CrossNERError(f"The cache {path.parent} cannot be written: {error.strerror}.", hint=CACHE_HINT) from None
    finally:
        _remove(draft)


def _remove(draft: Path) -> None:
    # Where the cache is no folder at all, there is nothing to remove either.
    with contextlib.suppress(OSError):
        draft.unlink()
