"""brat's standoff annotations: a folder of ``NAME.txt`` and ``NAME.ann``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.data.files import Repairs, open_bytes
from crossner_cli.data.formats.format import Format, Sample
from crossner_cli.data.formats.spans import Entity, SpannedText, abbreviate, check_type
from crossner_cli.data.formats.writer import Piece, Writer
from crossner_cli.errors import BadLine, CrossNERError

CONFIGURATION = "annotation.conf"
UNLABELLED = "text without a file .ann left out"
OTHER_ANNOTATION = "relation, event or attribute ignored"
APART = "entity in pieces with other words between left out"
HINT = "An entity is a line T1<TAB>person 0 4<TAB>Anna; its pieces are separated by semicolons, 0 4;5 10."
_ENTITY = re.compile(r"T\d+\t(\S+) (\d{1,15} \d{1,15}(?:;\d{1,15} \d{1,15})*)(?:\t(.*))?")


def _recognise(sample: Sample) -> int:
    return int(is_brat(sample.path))


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
    """Read the entity of a line; None without one."""
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


class BratWriter(Writer):
    """Writes a folder of texts and annotations, ``000000001.txt`` and ``000000001.ann``, and brat's configuration."""

    has_parts, is_folder = True, True

    @property
    def notes(self) -> list[str]:
        """Return a note on types that are renamed."""
        renamed = ((entity_type, name) for entity_type, name in brat_names(self.types).items() if name != entity_type)
        changed = ", ".join(f"{entity_type!r} as {name}" for entity_type, name in renamed)
        return [f"Type names of brat hold only letters, digits, - and _; written: {changed}."] if changed else []

    def begin(self) -> list[Piece]:
        """Return the configuration."""
        sections = ["[entities]", *brat_names(self.types).values(), "[relations]", "[events]", "[attributes]", ""]
        return [(CONFIGURATION, "\n".join(sections).encode())]

    def write(self, numbered: Sequence[tuple[int, TaggedDocument]], totals: Totals) -> list[Piece]:
        """Write two files per document."""
        names = brat_names(self.types)
        return [piece for number, tagged in numbered for piece in _to_brat(tagged, number, totals, names)]


def _to_brat(tagged: TaggedDocument, number: int, totals: Totals, names: Mapping[str, str]) -> list[Piece]:
    """Write a text file and its annotations.

    An entity over several lines is written piece by piece, as ``T1<TAB>person 0 4;5 10<TAB>Anna Smith``. Its score is a
    note: ``#1<TAB>AnnotatorNotes T1<TAB>score 0.9``. An entity without visible characters is left out and counted.
    """
    lines: list[str] = []
    for count, entity in enumerate(tagged.entities, start=1):
        # brat reads the lines of an entity one by one.
        parts = [match.span() for match in re.finditer(r"[^\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+", entity["text"])]
        if not parts:
            totals.rewritten_words += 1
            continue
        places = ";".join(f"{entity['start'] + start} {entity['start'] + end}" for start, end in parts)
        text = " ".join(entity["text"][start:end] for start, end in parts)
        lines.append(f"T{count}\t{names[entity['type']]} {places}\t{text}\n")
        lines.append(f"#{count}\tAnnotatorNotes T{count}\tscore {entity['score']}\n")
    name = f"{number:09}"
    return [(f"{name}.txt", tagged.document.text.encode()), (f"{name}.ann", "".join(lines).encode())]


def brat_names(types: Sequence[str]) -> dict[str, str]:
    """Give each entity type a unique name that brat allows, of letters, digits, hyphens and underscores."""
    names: dict[str, str] = {}
    for entity_type in types:
        taken = {*types, *names.values()} - {entity_type}
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", entity_type)
        numbered = (f"{plain}_{number}" for number in itertools.count(2))
        names[entity_type] = next(name for name in itertools.chain([plain], numbered) if name not in taken)
    return names


FORMAT = Format(
    "brat", "brat standoff", "texts", _recognise, read_brat, BratWriter, left_out={UNLABELLED: "without .ann"}
)
