"""RDF, read triple by triple in constant memory: N-Triples and Turtle, plain or compressed, by pyoxigraph.

Only three predicates count: ``rdf:type``, ``rdfs:label`` and ``rdfs:subClassOf``. RDF/XML is not read: its reader
expands entities, and DBpedia offers the same data as triples.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crossner_cli.data.files import BYTE_ORDER_MARK, COMPRESSED_ENDINGS, BrokenFileError, open_decompressed
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional
from crossner_cli.run.progress import Progress

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
TRIPLES, XML = (".nt", ".ttl"), (".rdf", ".owl")
TRIPLES_BETWEEN_SIGNS = 100_000
HINT = "RDF is read as N-Triples (.nt) and Turtle (.ttl), plain or as .gz, .bz2 or .zst."


class Triple(NamedTuple):
    """A statement of a type, a label or a superclass; ``value`` is the label or the address of the class.

    The language of a label is its tag in lower case, ``none`` if it has none.
    """

    subject: str
    predicate: str
    value: str
    language: str = ""


def is_triples(path: Path) -> bool:
    """Return whether a file's name has an ending of RDF.

    Raises:
        CrossNERError: It says that it holds RDF/XML.
    """
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED_ENDINGS else path
    ending = plain.suffix.lower()
    if ending in XML:
        raise CrossNERError(
            f"{path}: RDF/XML is not read.",
            hint="Take the same data as .nt or .ttl, or convert it: rapper -i rdfxml -o ntriples FILE > FILE.nt",
        )
    return ending in TRIPLES


def read_triples(path: Path) -> Iterator[Triple | Progress]:
    """Read the triples of a file that count, one by one in constant memory; now and then say how far it is read.

    Statements about blank nodes do not count.

    Raises:
        CrossNERError: A triple is malformed or longer than 16 MiB, or the file is cut off.
    """
    oxigraph = import_optional("pyoxigraph", "RDF is read with pyoxigraph", extra="corpora")
    kinds = {oxigraph.NamedNode(each): each for each in (TYPE, LABEL, SUBCLASS)}
    number, total = 0, path.stat().st_size if path.exists() else 0
    with open_decompressed(path) as file:
        if file.stream.peek(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK):
            file.stream.read(len(BYTE_ORDER_MARK))
        # N-Triples are Turtle, too.
        quads = oxigraph.parse(input=file.stream, format=oxigraph.RdfFormat.TURTLE, lenient=True, base_iri="file:///")
        try:
            for number, quad in enumerate(quads):
                if number % TRIPLES_BETWEEN_SIGNS == 0:
                    yield Progress(f"read {path.name}", file.position(), total, "bytes", {"triples": float(number)})
                kind, value = kinds.get(quad.predicate), quad.object
                wanted = oxigraph.Literal if kind == LABEL else oxigraph.NamedNode
                if kind and isinstance(quad.subject, oxigraph.NamedNode) and isinstance(value, wanted):
                    language = (value.language or "none").lower() if kind == LABEL else ""
                    yield Triple(quad.subject.value, kind, value.value, language)
        except SyntaxError as problem:
            said = str(problem.msg).partition(": ")[2] or problem.msg
            raise CrossNERError(f"{path}:{problem.lineno}: this is not a triple: {said}.", hint=HINT) from None
        except MemoryError as problem:
            if "buffer" not in str(problem):  # pyoxigraph's limit, not the end of the memory
                raise
            raise CrossNERError(
                f"{path}: a name or a text is longer than 16 MiB, after {number:,} triples.",
                hint="Leave it out: labels and addresses are short.",
            ) from None
        except BrokenFileError as problem:
            raise problem.after(f"{number} triples") from None
