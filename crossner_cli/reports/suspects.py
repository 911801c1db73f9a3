"""The suspects of ``check-labels`` on the screen and as a page, both labels side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Row, Table
from crossner_cli.reports.error_page import TEMPLATES, digest_text, load_template
from crossner_cli.run.directory import Manifest
from crossner_cli.run.results import CheckLabelsResult, Record

AROUND = 4  # words that are shown on each side
NOTHING = "no entity"


def suspect_tables(result: CheckLabelsResult, manifest: Manifest) -> list[Block]:
    """Show the first suspects, with the words around, the gold label, what the others say, and how sure that is."""
    total = sum(result.suspects.values())
    rows: list[Row] = [
        (
            str(each["rank"]),
            _name_place(each),
            show_words(each, each["start"], each["end"]),
            each["gold"] or NOTHING,
            describe_found(each),
            figures.score(100 * each["score"]),
        )
        for each in result.first
    ]
    kinds = ", ".join(f"{kind} {figures.count(number)}" for kind, number in result.suspects.items())
    columns = ("", "place", "words", "label", "others say", "%")
    checked = f"{figures.count(result.entities)} entities in {figures.count(result.sentences)} sentences"
    doubt = f"{checked} of {result.domain}; taggers that have not seen them doubt {figures.count(total)}"
    blocks: list[Block] = [Line(doubt, is_headline=True)]
    if rows:
        blocks.append(Table(f"The worst {len(rows)}", columns, rows, texts=(1, 2, 3, 4)))
        blocks.append(Line(f"By kind: {kinds}"))
    if result.inconsistencies:
        found = ", ".join(f"{kind} {figures.count(number)}" for kind, number in result.inconsistencies.items())
        blocks.append(Line(f"Labels that contradict others, in inconsistencies.jsonl: {found}"))
    return [*blocks, Line(f"All of them, the worst first: {', '.join(result.written)}")]


def _name_place(suspect: Record) -> str:
    """Return the name of the user's file with the line, or else the number of the sentence."""
    if suspect["file"] is None:
        return f"sentence {suspect['sentence'] + 1}"
    name = Path(suspect["file"]).name
    return name if suspect["line"] is None else f"{name}:{suspect['line']}"


def show_words(suspect: Mapping[str, object], start: int, end: int) -> str:
    """Return the words of a label in brackets, with some on each side."""
    words = suspect["words"]
    assert isinstance(words, Sequence)
    before, after = words[max(0, start - AROUND) : start], words[end : end + AROUND]
    return " ".join((*before, f"[{' '.join(words[start:end])}]", *after))


def describe_found(suspect: Record) -> str:
    """Say what the other taggers find, with the words if they are not those of the label."""
    if suspect["found"] is None:
        return NOTHING
    place = suspect["found_start"], suspect["found_end"]
    is_same = place == (suspect["start"], suspect["end"])
    return str(suspect["found"]) + ("" if is_same else f": {' '.join(suspect['words'][slice(*place)])}")


def render_suspects(domain: str, suspects: Sequence[Record]) -> Iterator[str]:
    """Render the page, part by part: each suspect with its sentence, the gold label above what the others say."""
    style = (TEMPLATES / "errors.css").read_text(encoding="utf-8")

    def cut(each: Record, start: int, end: int) -> list[str]:
        return [" ".join(each["words"][slice(*place)]) for place in ((0, start), (start, end), (end, None))]

    shown = [
        {
            **each,
            "place": _name_place(each),
            "percent": figures.score(100 * each["score"]),
            "of_gold": cut(each, each["start"], each["end"]),
            "of_found": cut(each, each["found_start"] or 0, each["found_end"] or 0),
        }
        for each in suspects
    ]
    return load_template("suspects.html").generate(
        domain=domain, suspects=shown, style=style, style_digest=digest_text(style), nothing=NOTHING
    )
