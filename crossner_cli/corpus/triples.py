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
    """A statement that counts.

    Args:
        subject: The address of its subject.
        predicate: ``TYPE``, ``LABEL`` or ``SUBCLASS``.
        value: The class, as an address, or the label.
        language: Language tag of a label, in lower case; ``NO_LANGUAGE`` if it has none.
    """

    subject: str
    predicate: str
    value: str
    language: str = ""


def is_triples(path: Path) -> bool:
    """Return whether a file's name says that it holds RDF."""
    return _ending(path) in FORMATS


def read_triples(path: Path) -> Iterator[tuple[int, Triple | None]]:
    """Read the triples of a file; blank nodes are skipped.

    Returns:
        Bytes of the stored file that were read so far, and the triple; None for a triple that does not count.

    Raises:
        CrossNERError: A triple is malformed, the file is cut off, or XML declares entities.
    """
    oxigraph = import_optional("pyoxigraph", "RDF is read with pyoxigraph", extra="corpora")
    with open_decompressed(path) as file:
        name = FORMATS[_ending(path)]
        if _ending(path) == ".owl" and _looks_like_xml(file):
            name = "RDF_XML"
        if name == "RDF_XML":
            _refuse_entities(path)
        if file.stream.peek(len(BOM_UTF8))[: len(BOM_UTF8)] == BOM_UTF8:
            file.stream.read(len(BOM_UTF8))
        form = getattr(oxigraph.RdfFormat, name)
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


def _ending(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED_ENDINGS else path
    return plain.suffix.lower()


def _looks_like_xml(file: OpenFile) -> bool:
    """Return whether a file begins as XML does; nothing is read."""
    head = file.stream.peek(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith((b"<?xml", b"<!", b"<rdf:RDF", b"<RDF"))


def _refuse_entities(path: Path) -> None:
    """Refuse XML that declares entities, which the reader of RDF/XML would expand without bound."""
    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise CrossNERError(
            f"{path}:{parser.CurrentLineNumber}: the XML declares entities, which are not expanded.",
            hint="Convert it, as with: rapper -i rdfxml -o ntriples FILE > FILE.nt",
        )

    parser.EntityDeclHandler = refuse
    with open_decompressed(path) as file:
        chunk = b"-"
        while chunk:
            chunk = file.stream.read(1 << 18)
            try:
                parser.Parse(chunk, not chunk)
            except expat.ExpatError as problem:
                said = expat.ErrorString(problem.code)
                raise CrossNERError(f"{path}:{problem.lineno}: this is no XML ({said}).", hint=HINT) from None
