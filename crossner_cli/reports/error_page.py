"""The files of ``evaluate --fine-grained``: scores of parts as CSV, and all tables and sentences as a page.

The page is one file that loads nothing and needs no server. Everything from data is escaped; besides, the page forbids
the browser to run any script or style except its own two, named by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Line, Table, short_names
from crossner_cli.reports.evaluation_tables import result_tables
from crossner_cli.reports.fine_grained import KINDS
from crossner_cli.run.results import EvaluateResult
from crossner_cli.run.storage import write_csv

if TYPE_CHECKING:
    import jinja2

    from crossner_cli.data.sentences import Sentence
    from crossner_cli.evaluation.fine_grained import Analysis, Event

TEMPLATES = Path(__file__).parent / "templates"
SENTENCES = 5000  # shown for each model; those with errors come first if there are more


def write_reports(
    folder: Path, result: EvaluateResult, sentences: Sequence[Sentence], analyses: Mapping[str, Analysis]
) -> EvaluateResult:
    """Write ``fine_grained.csv`` and ``errors.html``; return the result with the analysis of each model."""
    models = {label: replace(model, fine_grained=analyses[label].record) for label, model in result.models.items()}
    result = replace(result, models=models)
    rows = [{"model": label, **part} for label, each in analyses.items() for part in each.record["parts"]]
    write_csv(folder / "fine_grained.csv", tuple(rows[0]), [list(row.values()) for row in rows])
    with (folder / "errors.html").open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(render_page(result, sentences, analyses))
    return result


def render_page(
    result: EvaluateResult, sentences: Sequence[Sentence], analyses: Mapping[str, Analysis]
) -> Iterator[str]:
    """Render the page, part by part: headlines and warnings, all tables to unfold, and sentences with their entities.

    Args:
        result: The result of ``evaluate`` with the analyses.
        sentences: With gold tags.
        analyses: By label.
    """
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("errors.css", "errors.js"))
    names = short_names(result.models)
    models = [
        {"name": name, "f1": result.models[label].f1.mean, **_page_model(sentences, analyses[label])}
        for label, name in names.items()
    ]
    types = sorted(
        {part["part"] for each in analyses.values() for part in each.record["parts"] if part["by"] == "type"}
    )
    blocks = result_tables(result, is_short=False)
    return load_template("errors.html").generate(
        result=result,
        title=f"{' and '.join(names.values())} on {' '.join(filter(None, (result.domain, result.split)))}",
        verdicts=[block.text for block in blocks if isinstance(block, Line) and block.is_headline],
        warnings=[block.text for block in blocks if isinstance(block, Line) and block.is_warning],
        models=models,
        best=max(models, key=lambda model: model["f1"]),
        curves={
            name: model.reliability["curve"]
            for label, name in names.items()
            if (model := result.models[label]).reliability is not None
        },
        types=types,
        type_numbers={name: number for number, name in enumerate(types)},
        kinds=KINDS,
        blocks=blocks,
        style=style,
        script=script,
        style_digest=digest_text(style),
        script_digest=digest_text(script),
    )


def load_template(name: str) -> jinja2.Template:
    """Load a template of the pages; all that it shows from data is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: figures.printable(value) if type(value) is str else value,
    )
    environment.filters["count"] = figures.count
    environment.tests["table"] = lambda block: isinstance(block, Table)
    return environment.get_template(name)


def digest_text(text: str) -> str:
    """Digest a style or script as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _page_model(sentences: Sequence[Sentence], analysis: Analysis) -> dict[str, Any]:
    """Collect what the page shows of the errors of one model."""
    events: dict[int, list[Event]] = defaultdict(list)
    for event in analysis.events:
        events[event.sentence].append(event)
    wrong = {event.sentence for event in analysis.events if event.kind != "correct"}
    shown = sorted(sorted(range(len(sentences)), key=lambda number: number not in wrong)[:SENTENCES])
    return {
        "seed": analysis.record["shown_seed"],
        "shown": len(shown),
        "sentences": ({"number": number + 1, **_mark(sentences[number], events[number])} for number in shown),
    }


def _mark(sentence: Sentence, events: Sequence[Event]) -> dict[str, Any]:
    """Cut a sentence into pieces of text, with and without an entity, for both sides."""
    sides = {}
    for side in ("gold", "predicted"):
        entities = [(span, event.kind) for event in events if (span := getattr(event, side)) is not None]
        pieces, place = [], 0
        for (start, end, entity_type), kind in sorted(entities):
            pieces.append({"text": " ".join(sentence.words[place:start])})
            pieces.append({"text": " ".join(sentence.words[start:end]), "type": entity_type, "kind": kind})
            place = end
        pieces.append({"text": " ".join(sentence.words[place:])})
        sides[side] = [piece for piece in pieces if piece["text"]]
    return {"words": " ".join(sentence.words), "sides": sides}
