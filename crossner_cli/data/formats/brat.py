"""brat's standoff annotations: a folder of ``NAME.txt`` and ``NAME.ann``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from crossner_cli.data.files import Repairs, open_bytes
from crossner_cli.data.formats.spans import Entity, SpannedText, abbreviate, check_type
from crossner_cli.errors import BadLine, CrossNERError

UNLABELLED = "text without a file .ann left out"
OTHER_ANNOTATION = "relation, event or attribute ignored"
APART = "entity in pieces with other words between left out"
HINT = "An entity is a line T1<TAB>person 0 4<TAB>Anna; its pieces are separated by semicolons, 0 4;5 10."
_ENTITY = re.compile(r"T\d+\t(\S+) (\d{1,15} \d{1,15}(?:;\d{1,15} \d{1,15})*)(?:\t(.*))?")


def is_brat(folder: Path) -> bool:
    """Return whether a folder holds a text with its annotations."""
    return folder.is_dir() and any(path.with_suffix(".txt").is_file() for path in folder.glob("*.ann"))


def read_brat(folder: Path, repairs: Repairs) -> Iterator[SpannedText]:
    """Read the texts of a folder, in the order of their names. Texts without annotations are left out and counted.

    Raises:
        CrossNERError: A file cannot be read, or a line is malformed.
    """
    for number, path in enumerate(sorted(folder.glob("*.txt")), start=1):
        annotations = path.with_suffix(".ann")
        if not annotations.is_file():
            repairs.add(UNLABELLED, str(path))
            continue
        text = _read(path)
        entities = []
        for line_number, line in enumerate(_read(annotations).split("\n"), start=1):
            place = f"{annotations}:{line_number}"
            try:
                entity = _read_line(line.removesuffix("\r"), text, place, repairs)
            except BadLine as problem:
                repairs.refuse(problem, place)
                break
            entities += [entity] if entity else []
        else:
            yield SpannedText(text, entities, number, str(path))


def _read(path: Path) -> str:
    with open_bytes(path) as stream:
        data = stream.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CrossNERError(
            f"{path}: byte 0x{data[error.start]:02x} at position {error.start + 1} is not UTF-8.",
            hint="Convert the file, as: iconv -f WINDOWS-1252 -t UTF-8 FILE > TEXT",
        ) from None


def _read_line(line: str, text: str, place: str, repairs: Repairs) -> Entity | None:
    """The entity of a line; None if it holds none."""
    if not line.strip() or line.startswith("#"):  # a note
        return None
    if not line.startswith("T"):
        repairs.add(OTHER_ANNOTATION, place)
        return None
    found = _ENTITY.fullmatch(line)
    if found is None:
        raise BadLine(f"found {abbreviate(line)}.", hint=HINT)
    pieces = [tuple(map(int, piece.split(" "))) for piece in found[2].split(";")]
    between = [text[pieces[n][1] : pieces[n + 1][0]] for n in range(len(pieces) - 1)]
    if any(gap.strip() for gap in between):
        repairs.add(APART, place)
        return None
    whole = text[pieces[0][0] : pieces[-1][1]]
    is_same = found[3] is None or found[3].split() == whole.split()  # brat writes a line break as a space
    return Entity(pieces[0][0], pieces[-1][1], check_type(found[1]), None if is_same else found[3])
