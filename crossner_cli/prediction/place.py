"""Where ``predict`` writes, and whether it can go on there where it was interrupted."""

from __future__ import annotations

from pathlib import Path

from crossner_cli.options import Predict

# Stdout by its other names; and streams that are open already, which no draft beside them can replace.
STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
STREAMS = ("/dev/fd/", "/proc/self/fd/", "/dev/stderr")


def output_place(options: Predict) -> Path | None:
    """The output: of a link what it leads to, so that the link stays; None for stdout."""
    path = options.output
    if path is None or str(path) in STDOUT:
        return None
    return path.resolve() if path.is_symlink() and not is_device(path) else path


def is_device(path: Path) -> bool:
    """Whether a path is written as it goes: a pipe, a device, or a stream that is open already."""
    return str(path).startswith(STREAMS) or (path.exists() and not path.is_file() and not path.is_dir())


def can_be_continued(options: Predict) -> bool:
    """Whether the same command goes on where it was: its output has a name, and its input can be read again."""
    path = output_place(options)
    return path is not None and not is_device(path) and bool(options.input) and all(map(Path.is_file, options.input))
