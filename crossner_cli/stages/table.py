"""The table of the commands that leave a result: their options, work and tables."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import Command
from crossner_cli.options import Dapt, Evaluate, Export, Finetune, Inspect, JointTrain, Predict, PretrainSource, Report
from crossner_cli.options_data import PrepareData
from crossner_cli.options_label import Label
from crossner_cli.options_trust import CheckLabels, CrossValidate
from crossner_cli.reports.blocks import Block
from crossner_cli.run.directory import Manifest
from crossner_cli.run.records import read_result


@dataclass(frozen=True)
class StageKind:
    """A command that leaves a result.

    Modules are imported only when needed, by name: some take seconds to load.
    """

    options: type[Command]  # which has the name of the command
    title: str  # its line in the list of commands
    module: str  # of ``stages``, whose ``run`` does the work
    result: str  # the dataclass of its result; that of a stage has the property ``summary``, for ``status``
    tables: str  # the function that makes lines and tables of its result and its manifest

    def load_run(self) -> Callable[..., Any]:
        """Load the function that does the work."""
        run: Callable[..., Any] = _find(f"stages.{self.module}.run")
        return run

    def read_result(self, manifest: Manifest) -> Any:
        """Read the result of a manifest as its dataclass."""
        return read_result(manifest, _find(self.result))


TRAINED = ("train", "run.results.TrainResult", "reports.tables.training_tables")
STAGES = {
    kind.options.command: kind
    for kind in (
        StageKind(
            PrepareData,
            "Read, check and store the data of a run.",
            "prepare_data",
            "run.results.PrepareDataResult",
            "reports.tables.prepared_tables",
        ),
        StageKind(
            Dapt, "Adapt an encoder to raw text.", "dapt", "run.results.DaptResult", "reports.tables.dapt_tables"
        ),
        StageKind(PretrainSource, "Train a tagger on the source domain.", *TRAINED),
        StageKind(Finetune, "Train a tagger on the target domain.", *TRAINED),
        StageKind(JointTrain, "Train a tagger on both domains at once.", *TRAINED),
        StageKind(
            CrossValidate,
            "Score a way to train without a test set.",
            "cross_validate",
            "run.results.EvaluateResult",
            "reports.evaluation_tables.result_tables",
        ),
        StageKind(
            CheckLabels,
            "Find labels that are probably wrong.",
            "check_labels",
            "run.results.CheckLabelsResult",
            "reports.suspects.suspect_tables",
        ),
        StageKind(
            Evaluate,
            "Score taggers, or one file of tags against another.",
            "evaluate",
            "run.results.EvaluateResult",
            "reports.evaluation_tables.result_tables",
        ),
        StageKind(Predict, "Tag new text.", "predict", "run.results.PredictResult", "reports.tables.prediction_tables"),
        StageKind(
            Label,
            "Let a teacher label raw text for training.",
            "label",
            "run.results.LabelResult",
            "reports.label_tables.label_tables",
        ),
        StageKind(
            Inspect,
            "Look inside a tagger.",
            "inspect",
            "reports.inspection.InspectResult",
            "reports.inspection.inspection_tables",
        ),
        StageKind(
            Export,
            "Write a linear tagger as ONNX.",
            "export",
            "run.results.ExportResult",
            "reports.tables.export_tables",
        ),
        StageKind(
            Report,
            "Put many runs into one table, curve or comparison.",
            "report",
            "reports.report_tables.ReportResult",
            "reports.report_tables.report_tables",
        ),
    )
}


def find_kind(command: str, place: object) -> StageKind:
    """Find the kind of a stage by its command."""
    kind = STAGES.get(command)
    if kind is None or not kind.options.makes_stage:
        raise CrossNERError(f"{place} was made by {command!r}, which does not make a stage.", hint="Move it away.")
    return kind


def make_tables(manifest: Manifest) -> list[Block]:
    """Make the lines and tables for the result of a command."""
    kind = STAGES[manifest["stage"]]
    blocks: list[Block] = _find(kind.tables)(kind.read_result(manifest), manifest)
    return blocks


def _find(name: str) -> Any:
    """Import an object of the package by its name."""
    module, _, name = name.rpartition(".")
    return getattr(importlib.import_module(f"crossner_cli.{module}"), name)
