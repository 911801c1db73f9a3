"""Running text: one document per line, and tagged documents with their entities in brackets."""

from __future__ import annotations

from collections.abc import Iterator

from crossner_cli import figures
from crossner_cli.data.documents import Document, TaggedDocument, Totals
from crossner_cli.data.files import number_lines
from crossner_cli.data.formats.format import Format, Source
from crossner_cli.data.formats.writer import Writer

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")


def _read_documents(source: Source) -> Iterator[Document]:
    lines = number_lines(source.lines, source.name, source.repairs)
    return (Document(line, source.cut(line)) for _, line in lines)


class TextWriter(Writer):
    """Writes the text of a document on one line, as ``[Anna Smith person 0.98] lives in [Rome city 0.91].``."""

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write a line. Characters that control a terminal are replaced. Colours show types."""
        import typer

        text, parts, after = tagged.document.text, [], 0
        for entity in sorted(tagged.entities, key=lambda entity: (entity["start"], entity["end"])):
            shown, label = _on_one_line(entity["text"]), _on_one_line(f" {entity['type']} {entity['score']:.2f}")
            if self.is_coloured:
                colour = COLOURS[self.types.index(entity["type"]) % len(COLOURS)]
                shown, label = typer.style(shown, fg=colour, bold=True), typer.style(label, fg=colour)
            parts += [_on_one_line(text[after : entity["start"]]), f"[{shown}{label}]"]
            after = entity["end"]
        return f"{''.join(parts)}{_on_one_line(text[after:])}\n"


def _on_one_line(text: str) -> str:
    return figures.printable(text.replace("\t", " ").replace("\r", " ").replace("\n", " "))


FORMAT = Format("text", "text", writes=TextWriter, reads_documents=_read_documents, endings=(".txt",))
