"""Text in HTML: everything that comes from data is escaped here, and steers neither page nor terminal."""

from __future__ import annotations

import html

UNPRINTABLE = "\ufffd"


def printable(text: str) -> str:
    """Text of a data set without what would steer a terminal or turn a line of a page round."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def escape(text: str) -> str:
    """Text as HTML shows it, within elements and within quoted attributes."""
    return html.escape(printable(text), quote=True)
