"""A page of HTML with the entities of tagged documents marked, for reading."""

from __future__ import annotations

import html
import re
from pathlib import Path

from crossner_cli import figures
from crossner_cli.data.documents import TaggedDocument, Totals
from crossner_cli.data.formats.conll import NO_WORD
from crossner_cli.data.formats.format import Format
from crossner_cli.data.formats.writer import Writer


class HtmlWriter(Writer):
    """Writes a page that loads nothing, with a colour for each type."""

    tail = b"</main>\n</body>\n</html>\n"

    def head(self) -> bytes:
        """Return the start of the page."""
        import jinja2

        source = (Path(__file__).parent / "templates" / "head.html").read_text(encoding="utf-8")
        template = jinja2.Template(source, trim_blocks=True, keep_trailing_newline=True)
        head: str = template.render(types=list(map(_escape, self.types)))
        return head.encode()

    def write_document(self, tagged: TaggedDocument, totals: Totals) -> str:
        """Write a paragraph with its entities marked. The document's text is escaped, so it is never markup."""
        text, parts, after = tagged.document.text, [], 0
        for entity in sorted(tagged.entities, key=lambda entity: (entity["start"], entity["end"])):
            kind = self.types.index(entity["type"]) if entity["type"] in self.types else len(self.types)
            parts.append(_escape(text[after : entity["start"]]))
            shown = _escape(entity["text"])
            title = _escape(f"{entity['type']} {entity['score']}")
            parts.append(
                f'<mark class="t{kind}" title="{title}">{shown}<small>{_escape(entity["type"])}</small></mark>'
            )
            after = entity["end"]
        parts.append(_escape(text[after:]))
        return f"<p>{''.join(parts)}</p>\n"


def _escape(text: str) -> str:
    """Escape markup, keep line ends, and replace characters that HTML cannot hold or that break a line by U+FFFD."""
    escaped = html.escape(figures.printable(text, keep="\t\n\r\u2028\u2029")).replace("\r", "&#13;")
    return re.sub(r"[\ufdd0-\ufdef\ufffe\uffff]", NO_WORD, escaped)


FORMAT = Format("html", "HTML", writes=HtmlWriter, endings=(".html", ".htm"))
