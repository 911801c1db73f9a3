"""Data sets at hand: those known by name, which are fetched, those of the hub, and the user's files and folders."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.data.formats.brat import is_brat
from crossner_cli.data.formats.hugging_face import HUB, fetch_from_hub
from crossner_cli.data.formats.known import FORMATS
from crossner_cli.data.sentences import SPLITS
from crossner_cli.errors import CrossNERError, suggest, suggest_path
from crossner_cli.run.storage import digest_file

PACKAGE = Path(__file__).parent
KNOWN_DOMAINS, SAMPLES = PACKAGE / "known_domains.json", PACKAGE / "samples"
RETRIES, TIMEOUT = 2, 30.0  # times, seconds
CACHE_HINT = "CROSSNER_CACHE=FOLDER names another one."
SPLIT_OF_STEM = {"train": "train", "test": "test"} | dict.fromkeys(
    ("dev", "valid", "validation", "devel", "eval", "val"), "dev"
)
OF_FORMATS = {ending for row in FORMATS.values() if row.reads for ending in row.endings}
ENDINGS = sorted({".txt", ".conllu", ".conllup", ".json"} | OF_FORMATS)
FOLDER_HINT = f"A folder holds train, dev and test files, each ending in one of {' '.join(ENDINGS)}; or give one file."
INNER_FOLDERS = ("data", "dataset")  # of data sets on the hub


@dataclass(frozen=True)
class KnownFile:
    """One file of a known data set: its digest and counts. ``bytes`` is None if unknown."""

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


@dataclass(frozen=True)
class Domain:
    """A data set at hand.

    Args:
        name: A known name, or the folder's own.
        files: Files of each split there is, in the order train, dev, test.
        origins: The source of each split: a URL, a mirror, ``cache``, ``package`` or ``folder``.
        left: Files of the folder that are not read.
    """

    name: str
    files: dict[str, list[Path]]
    origins: dict[str, str] = field(default_factory=dict)
    left: list[Path] = field(default_factory=list)

    def named_files(self, part: str) -> dict[str, Path]:
        """All files, by their part in the run: ``target/train``, ``target/train-2`` and so on."""
        return {
            f"{part}/{split}" + (f"-{number}" if number > 1 else ""): path
            for split, paths in self.files.items()
            for number, path in enumerate(paths, start=1)
        }

    @property
    def is_cached(self) -> bool:
        """Return whether all files come from the cache, so that warnings were given before."""
        return set(self.origins.values()) == {"cache"}


def known_domains() -> dict[str, KnownDomain]:
    """Read the data sets known by name, bundled ones last."""
    table: dict[str, dict[str, Any]] = json.loads(KNOWN_DOMAINS.read_text(encoding="utf-8"))
    for name, entry in table.items():
        entry["name"], entry["types"] = name, tuple(entry["types"])
        entry["files"] = {split: KnownFile(**record) for split, record in entry["files"].items()}
    return {name: KnownDomain(**entry) for name, entry in table.items()}


def bundled_domains() -> tuple[str, ...]:
    """List the names of the bundled data sets."""
    return tuple(name for name, known in known_domains().items() if not known.upstream)


def find_bundled(name: str, file: str) -> Path | None:
    """Find the raw text or entity list of a bundled data set; None without one."""
    path = SAMPLES / name / file
    return path if name in bundled_domains() and path.is_file() else None


def find_raw_text(path: Path) -> Path:
    """Return the raw text of a bundled data set if the path is its name, else the path."""
    return find_bundled(str(path), "raw.txt") or path


def find_domains(names: Sequence[str]) -> Domain:
    """Find data sets that belong together, as several exports of a project; the first gives the name."""
    found = [find_domain(name) for name in names]
    files = {split: [*dict.fromkeys(path for each in found for path in each.files.get(split, []))] for split in SPLITS}
    origins = {split: origin for each in found for split, origin in each.origins.items()}
    left = [path for each in found for path in each.left]
    return Domain(found[0].name, {split: paths for split, paths in files.items() if paths}, origins, left)


def find_domain(name_or_folder: str) -> Domain:
    """Find a data set, fetching it if it is known by name and not in the cache yet.

    A known name wins over a folder of that name; ``./NAME``, or anything else with a path separator, is the folder.

    Raises:
        CrossNERError: There is no such data set, its files are ambiguous, or it cannot be fetched.
    """
    known = None if _is_path(name_or_folder) else known_domains().get(name_or_folder)
    if known and not known.upstream:
        return Domain(known.name, split_files(SAMPLES / known.name)[0], dict.fromkeys(SPLITS, "package"))
    if known:
        found = {split: fetch(known, known.files[split]) for split in SPLITS if split in known.files}
        files = {split: [path] for split, (path, _) in found.items()}
        return Domain(known.name, files, {split: origin for split, (_, origin) in found.items()})
    if name_or_folder.startswith(HUB):
        folder = fetch_from_hub(name_or_folder)
        name = name_or_folder.removeprefix(HUB).partition("@")[0].split("/")[1]
        return Domain(name, split_files(folder)[0], dict.fromkeys(SPLITS, name_or_folder))
    if not os.path.exists(name_or_folder):  # noqa: PTH110 - pathlib raises for names that are too long
        raise _unknown(name_or_folder)
    path = Path(name_or_folder)
    name = path.resolve().stem if path.is_file() else path.resolve().name
    files, left = split_files(path)
    return Domain(name, files, dict.fromkeys(SPLITS, "folder"), left)


def _unknown(name: str) -> CrossNERError:
    known = known_domains()
    return CrossNERError(
        f"{name!r} is neither a known data set nor a file or folder.",
        hint=f"{suggest(name.lower(), known) or suggest_path(Path(name))}Known: {', '.join(known)}. {FOLDER_HINT}",
    )


def _is_path(name_or_folder: str) -> bool:
    return any(separator and separator in name_or_folder for separator in (os.sep, os.altsep, "/"))


def _split_of(path: Path) -> str | None:
    """Return the split in the name of a file or folder, as ``train.json`` or ``train-2.json``; None without one."""
    stem = path.name if path.is_dir() else path.stem
    return SPLIT_OF_STEM.get(stem.lower().partition("-")[0]) if _find_readable(path) else None


def _find_readable(path: Path) -> list[Path]:
    """Find the files to read at a path: itself, or those of a folder."""
    inner = _list_folder(path) if path.is_dir() and not is_brat(path) else [path]
    return [each for each in inner if each.suffix.lower() in ENDINGS or is_brat(each)]


def hides_folder(name: str) -> bool:
    """Return whether a known name hides a folder with labelled data of that name."""
    if _is_path(name) or name not in known_domains():
        return False
    return any(_split_of(path) for path in Path(name).glob("*"))


def split_files(folder: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """Find the files of each split in a folder, and those that are not read.

    A split is a file, several as ``train-1.json`` and ``train-2.json``, a folder of files, or a folder of brat. A
    single file or a folder of brat is train. Data sets of the hub have their files in a folder ``data``.

    Raises:
        CrossNERError: The folder has no such files, or files of several names for one split.
    """
    if folder.is_file() or is_brat(folder):
        return {"train": [folder]}, []
    paths = _list_folder(folder)
    named = {path: split for path in paths if (split := _split_of(path))}
    found: dict[str, list[Path]] = {}
    for path, split in named.items():
        first = next(each for each in named if named[each] == split)
        if len({(each.suffix, each.stem.partition("-")[0]) for each in (first, path)}) > 1:
            problem = f"{folder} has two files for {split}: {first.name} and {path.name}."
            raise CrossNERError(problem, hint="Keep one of them in this folder.")
        found.setdefault(split, []).extend(_find_readable(path))
    read = [path for several in found.values() for path in several]
    below = [each for path in paths for each in (_list_folder(path) if path in named and path not in read else [path])]
    inside = next((folder / name for name in INNER_FOLDERS if (folder / name).is_dir()), None)
    if not found and inside is not None:
        return split_files(inside)
    if not found:
        names = ", ".join(path.name for path in paths[:10]) or "nothing"
        raise CrossNERError(f"{folder} holds no train, dev or test file (found: {names}).", hint=FOLDER_HINT)
    return {split: found[split] for split in SPLITS if split in found}, [each for each in below if each not in read]


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise CrossNERError(f"{folder} cannot be read: {error.strerror}.", hint=FOLDER_HINT) from None


def cache_folder() -> Path:
    """Return ``$CROSSNER_CACHE``, else ``crossner`` in the user's cache folder."""
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
    """Fetch a file of a known data set into the cache, from the mirror if there is one, else from upstream.

    The cached file is checked each time; one that has changed is fetched again. Return its path and its origin.

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
    """Fetch a file from a folder or URL to ``path``, only if its digest is right; return what failed."""
    import pooch  # imports requests, which takes long
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
        path.chmod(0o644)  # a temporary file is private, and a cache may be shared
    except requests.ConnectionError as error:
        return f"no connection ({type(error).__name__})"
    except (OSError, ValueError) as error:  # those of requests are, too
        return str(error)
    return None


def _copy(source: str, target: str, _: Any) -> None:
    shutil.copyfile(source, target)
