"""RDF, read triple by triple in constant memory: N-Triples, Turtle and RDF/XML, plain or compressed, by pyoxigraph.

Only three predicates count: ``rdf:type``, ``rdfs:label`` and ``rdfs:subClassOf``.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from crossner_cli.data.files import COMPRESSED_ENDINGS, BrokenFileError, OpenFile, open_decompressed
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
FORMATS = {".nt": "N_TRIPLES", ".ttl": "TURTLE", ".owl": "TURTLE", ".rdf": "RDF_XML"}
NO_LANGUAGE = "none"
DEEPEST_XML = (
    1000  # elements within each other; the time of the reader of RDF/XML grows with the square of their number
)
CONVERT = "Convert it, as with: rapper -i rdfxml -o ntriples FILE > FILE.nt"
HINT = "RDF is read as N-Triples (.nt), Turtle (.ttl) and RDF/XML (.rdf, .owl), plain or as .gz, .bz2 or .zst."


class Triple(NamedTuple):
    """A statement that counts: of a type, a label or a superclass; ``value`` is the label or the address of the class.

    The language of a label is its tag in lower case, ``NO_LANGUAGE`` if it has none.
    """

    subject: str
    predicate: str
    value: str
    language: str = ""


def _find_ending(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED_ENDINGS else path
    return plain.suffix.lower()


def is_triples(path: Path) -> bool:
    """Return whether a file's name says that it holds RDF."""
    return _find_ending(path) in FORMATS


def check_xml(path: Path) -> None:
    """Refuse RDF/XML that takes time or memory without bound: its reader expands entities, and is slow where it nests.

    Raises:
        CrossNERError: The XML is broken, declares entities, or has elements nested more than 1,000 deep.
    """
    parser, depth = expat.ParserCreate(), 0
    parser.ordered_attributes = True  # a list takes less time than a mapping

    def refuse(*_: Any) -> None:
        raise CrossNERError(
            f"{path}:{parser.CurrentLineNumber}: the XML declares entities, which are not expanded.", hint=CONVERT
        )

    def begin(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST_XML:
            raise CrossNERError(
                f"{path}:{parser.CurrentLineNumber}: elements are nested more than {DEEPEST_XML:,} deep.", hint=CONVERT
            )

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.EntityDeclHandler, parser.StartElementHandler, parser.EndElementHandler = refuse, begin, end
    with open_decompressed(path) as file:
        if _find_form(path, file) != "RDF_XML":
            return
        try:
            parser.ParseFile(file.stream)
        except expat.ExpatError as problem:
            raise CrossNERError(f"{path}: this is no XML ({problem}).", hint=HINT) from None


def _find_form(path: Path, file: OpenFile) -> str:
    """Return the name of the format of a file that was just opened; a byte-order mark is read over."""
    if file.stream.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
        file.stream.read(len(BOM_UTF8))
    ending = _find_ending(path)
    is_xml = ending == ".owl" and file.stream.peek(64).lstrip().startswith((b"<?xml", b"<!", b"<rdf:RDF", b"<RDF"))
    return "RDF_XML" if is_xml else FORMATS[ending]


def read_triples(path: Path) -> Iterator[tuple[int, Triple | None]]:
    """Read the triples of a file, which ``check_xml`` has seen, one by one in constant memory; skip blank nodes.

    Returns:
        Bytes of the stored file that were read so far, and the triple; None for a triple that does not count.

    Raises:
        CrossNERError: A triple is malformed or longer than 16 MiB, or the file is cut off.
    """
    oxigraph = import_optional("pyoxigraph", "RDF is read with pyoxigraph", extra="corpora")
    with open_decompressed(path) as file:
        form = getattr(oxigraph.RdfFormat, _find_form(path, file))
        quads = oxigraph.parse(input=file.stream, format=form, lenient=True, base_iri="file:///")
        yield from _read_quads(path, quads, file, oxigraph)


def _read_quads(path: Path, quads: Iterator[Any], file: OpenFile, oxigraph: Any) -> Iterator[tuple[int, Triple | None]]:
    kinds = {oxigraph.NamedNode(each): each for each in (TYPE, LABEL, SUBCLASS)}
    named, literal = oxigraph.NamedNode, oxigraph.Literal
    read, position = 0, 0
    while True:
        try:
            quad = next(quads)
        except StopIteration:
            return
        except SyntaxError as problem:
            said = str(problem.msg).partition(": ")[2] or problem.msg
            raise CrossNERError(f"{path}:{problem.lineno}: this is no triple: {said}.", hint=HINT) from None
        except MemoryError as problem:
            if "buffer" not in str(problem):  # pyoxigraph's limit, not the end of the memory
                raise
            raise CrossNERError(
                f"{path}: a name or a text is longer than 16 MiB, after {read:,} triples.",
                hint="Leave it out: labels and addresses are short.",
            ) from None
        except BrokenFileError as problem:
            raise problem.after(f"{read} triples") from None
        if read % 1024 == 0:
            position = file.position()
        read += 1
        kind = kinds.get(quad.predicate)
        subject, value = quad.subject, quad.object
        if kind is None or type(subject) is not named or type(value) is not (literal if kind == LABEL else named):
            yield position, None
        elif kind == LABEL:
            yield position, Triple(subject.value, kind, value.value, (value.language or NO_LANGUAGE).lower())
        else:
            yield position, Triple(subject.value, kind, value.value)
