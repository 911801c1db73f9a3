"""The columns of ``report``: a new one is one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from crossner_cli import figures
from crossner_cli.reports.runs import MeasuredModel
from crossner_cli.run.results import Record


@dataclass(frozen=True)
class Column:
    """A column of ``report``.

    The table of models has it where models differ in it (``varying``), where two models are not told apart without it
    (``further``), or ``never``. What is shown must be the same for all seeds.
    """

    name: str  # in CSV and JSON
    value: Callable[[MeasuredModel, str], Any]  # of a model and one of its seeds, a JSON value; None if not known
    title: str = ""  # in the table of models
    format: Callable[[Any], str] = str  # of the value, there
    shown: Literal["varying", "further", "never"] = "never"


def _made(name: str) -> Callable[[MeasuredModel, str], Any]:
    """Return a function for a field of the provenance."""
    return lambda model, _: getattr(model.provenance, name, None)


def _scored(name: str) -> Callable[[MeasuredModel, str], Any]:
    """Return a function for a score of the seed."""
    return lambda model, seed: getattr(model.model.scores.seeds[seed], name)


def _origin(name: str) -> Column:
    return Column(name, _made(name), name, lambda value: value or f"{name} unknown", shown="varying")


def _share(value: float | None) -> str:
    return figures.NOTHING if value is None else figures.percent(value, 1)


COLUMNS = (
    Column("run", lambda model, _: str(model.run)),
    Column("stage", lambda model, _: model.stage),
    Column("model", lambda model, _: model.label),
    Column("target", lambda model, _: model.result.domain),
    Column("split", lambda model, _: model.result.split or ""),
    Column("mode", lambda model, _: model.result.mode),
    Column("decoding", lambda model, _: model.result.decoding),
    *map(_origin, ("method", "encoder", "start")),
    Column("regime", _made("regime")),
    Column("train_sentences", _made("train_sentences"), "sentences", figures.count, shown="further"),
    Column("corpus_share", _made("corpus_share"), "corpus", _share, shown="further"),
    Column("seed", lambda _, seed: seed),
    *(Column(name, _scored(name)) for name in ("f1", "precision", "recall", "macro_f1")),
)


def make_rows(model: MeasuredModel) -> list[Record]:
    """Make one record per seed of a model, with the value of every column."""
    return [{column.name: column.value(model, seed) for column in COLUMNS} for seed in model.model.scores.seeds]


def titles(shown: str) -> tuple[str, ...]:
    """Return the headings of the columns with this value of ``shown``."""
    return tuple(column.title for column in COLUMNS if column.shown == shown)
