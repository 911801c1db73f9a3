"""A folder outside a run that a command writes: whole or not there, and replaced only where such a command made it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import flush_folder, flush_tree


def check_output(folder: Path, record: str, *, force: bool) -> None:
    """Refuse a folder that could not be written in the end.

    Args:
        folder: To be made.
        record: The file that every folder of this kind holds.
        force: Whether such a folder may be replaced.

    Raises:
        CrossNERError: It exists, or has no folder to stand in.
    """
    if not folder.parent.is_dir():
        raise CrossNERError(f"There is no folder {folder.parent} to write {folder.name} into.",
                            hint=f"mkdir -p {shlex.quote(str(folder.parent))}")  # fmt: skip
    if not folder.exists() and not folder.is_symlink():
        return
    is_empty = folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())
    if is_empty or (force and (folder / record).is_file()):
        return
    if (folder / record).is_file():
        raise CrossNERError(f"--output {folder} exists.", hint="--force replaces it; or name another --output.")
    raise CrossNERError(
        f"--output {folder} exists and is none that this command made (it has no {record}).", hint="Name another one."
    )


@contextlib.contextmanager
def output_folder(folder: Path, record: str, *, force: bool) -> Iterator[Path]:
    """Give a draft folder to write into, which becomes ``folder`` when all has gone well and goes away otherwise."""
    check_output(folder, record, force=force)
    folder = folder.resolve()
    draft, replaced = (folder.with_name(f".{folder.name}.{word}-{os.getpid()}") for word in ("draft", "replaced"))
    draft.mkdir()
    try:
        yield draft
        flush_tree(draft)
        if folder.exists():
            folder.replace(replaced)
        draft.replace(folder)
        flush_folder(folder.parent)
    finally:
        for left in (draft, replaced):
            shutil.rmtree(left, ignore_errors=True)
