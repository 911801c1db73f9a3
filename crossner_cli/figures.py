"""Numbers and text for people, the same in progress lines and in tables."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

NOTHING = "–"
SCORES = ("f1", "precision", "recall")
STEERING = ("Cc", "Cs", "Zl", "Zp")  # kinds of characters that move the cursor, break a line or cannot be written
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # show a part of a line backwards
LONGEST_VALUE, LONGEST_LINE = 500, 1000  # characters of a message
# Lines that hold a command are to be copied: they are neither wrapped nor shortened.
COMMAND = re.compile(r"(?<!\d)(crossner|mkdir|iconv|pandoc|unzip|pip install|ulimit|zcat) ")
_LONG_VALUE = re.compile(r"(?<!\S)\S{501,}|'[^'\n]{500,}'|\"[^\"\n]{500,}\"")
BYTES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def score(number: float | None) -> str:
    """Write a score in percent with two decimals."""
    return NOTHING if number is None else f"{number:.2f}"


def spread(mean: float | None, deviation: float | None) -> str:
    """Write a mean score with its standard deviation, if there is one."""
    return score(mean) if deviation is None else f"{score(mean)} ± {score(deviation)}"


def signed(number: float | None) -> str:
    """Write a difference of scores with two decimals and its sign."""
    return NOTHING if number is None else f"{number:+.2f}"


def p_value(number: float) -> str:
    """Write a probability with three decimals, or ``< 0.001``."""
    return "< 0.001" if number < 0.001 else f"{number:.3f}"


def with_seed(name: str, seed: object) -> str:
    """Write a tagger's name with its seed, if it has one."""
    return name if seed in (None, "-") else f"{name}, seed {seed}"


def count(number: float | None) -> str:
    """Write a whole number with thousands separators."""
    return NOTHING if number is None else f"{number:,.0f}"


def join_first(names: Sequence[str], most: int = 5) -> str:
    """List the first of some names, in a sentence."""
    return ", ".join(names[:most]) + (", …" if names[most:] else "")


def setting(value: object) -> str:
    """Write a setting as ``--set`` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def percent(part: float, whole: float) -> str:
    """Write a share of a whole, as ``45.1 %``."""
    return f"{100 * part / whole:.1f} %" if whole else NOTHING


def duration(seconds: float | None) -> str:
    """Write minutes and seconds, with hours if there are any, as ``0:41`` or ``1:02:03``."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def value(name: str, number: float) -> str:
    """Write a named number of a progress line, as ``loss 0.412``, ``dev_f1 61.20`` or ``3,100 words/s``."""
    if name.endswith("/s"):
        return f"{number:,.0f} {name}"
    if name.endswith(SCORES):
        return f"{name} {score(number)}"
    return f"{name} {_plain(name, number)}"


def _plain(name: str, number: float) -> str:
    if not math.isfinite(number):
        return str(number)
    if float(number).is_integer() and "loss" not in name:
        return count(number)
    return f"{number:,.3f}" if abs(number) >= 0.001 or number == 0 else f"{number:.1e}"


def amount(done: float, total: float | None, unit: str) -> str:
    """Format the progress of a task, as ``1,234/5,000 updates`` or ``1.2/3.4 GB``."""
    if unit == "bytes":
        name, size = next(((name, size) for name, size in BYTES if max(done, total or 0) >= size), ("bytes", 1))
        digits = 1 if size > 1 else 0
        parts = [f"{number / size:,.{digits}f}" for number in (done, total) if number is not None]
        return f"{'/'.join(parts)} {name}"
    return f"{'/'.join(count(number) for number in (done, total) if number is not None)} {unit}"


def message(text: str) -> str:
    """Make a message printable, and shorten long values and long lines in the middle.

    Further lines are indented, so that a line break in a file name does not look like another message.
    """
    lines = [line if COMMAND.search(line) else _shorten_line(line) for line in printable(text).split("\n")]
    return "\n".join([lines[0], *(f"  {line.removeprefix('  ')}" for line in lines[1:])])


def _shorten_line(line: str) -> str:
    return _shorten(_LONG_VALUE.sub(lambda match: _shorten(match.group(), LONGEST_VALUE), line), LONGEST_LINE)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2 - 2]} … {text[1 - most // 2 :]}"


def printable(text: str, keep: str = "\n") -> str:
    """Replace control characters of foreign text, which a terminal or a page would obey, except those to keep."""
    if text.isprintable():
        return text
    steers = {each for each in {*text} if unicodedata.category(each) in STEERING or each in TURNING}
    return "".join("\ufffd" if each in steers and each not in keep else each for each in text)
