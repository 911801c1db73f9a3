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


def read_triples(path: Path) -> Iterator[tuple[int, Triple | None]]:
    """Read the triples of a file one by one in constant memory; blank nodes are skipped.

    Returns:
        Bytes of the stored file that were read so far, and the triple; None for a triple that does not count.

    Raises:
        CrossNERError: A triple is malformed, the file is cut off, or XML declares entities.
    """
    oxigraph = import_optional("pyoxigraph", "RDF is read with pyoxigraph", extra="corpora")
    ending = _find_ending(path)
    with open_decompressed(path) as file:
        if file.stream.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
            file.stream.read(len(BOM_UTF8))
        is_xml = ending == ".owl" and file.stream.peek(64).lstrip().startswith((b"<?xml", b"<!", b"<rdf:RDF", b"<RDF"))
        name = "RDF_XML" if is_xml else FORMATS[ending]
        if name == "RDF_XML":
            _refuse_entities(path)
        form = getattr(oxigraph.RdfFormat, name)
        quads = oxigraph.parse(input=file.stream, format=form, lenient=True, base_iri="file:///")
        yield from _read_quads(path, quads, file, oxigraph)


def _refuse_entities(path: Path) -> None:
    """Refuse XML that is broken, or declares entities, which the reader of RDF/XML would expand without bound."""
    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise CrossNERError(
            f"{path}:{parser.CurrentLineNumber}: the XML declares entities, which are not expanded.",
            hint="Convert it, as with: rapper -i rdfxml -o ntriples FILE > FILE.nt",
        )

    parser.EntityDeclHandler = refuse
    with open_decompressed(path) as file:
        try:
            parser.ParseFile(file.stream)
        except expat.ExpatError as problem:
            raise CrossNERError(f"{path}: this is no XML ({problem}).", hint=HINT) from None


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
