"""Results of stages as their manifests hold them, and manifests with them."""

import io
import re
from dataclasses import asdict, replace
from typing import Any

import pytest
from rich.cells import cell_len

from builders.runs import train_result
from crossner_cli import figures
from crossner_cli.console import print_blocks
from crossner_cli.evaluation.scores import describe_mode
from crossner_cli.reports.blocks import Block, Table
from crossner_cli.run.results import (
    Average,
    CarryOver,
    DaptResult,
    EvaluateResult,
    ExportedModel,
    ExportResult,
    ModelResult,
    OtherMode,
    PredictResult,
    SeedScores,
    TypeResult,
)

START = CarryOver("pretrain-source", 103, ["new"], ["left"], ["person"], ["politician"])


def manifest(stage: str, result: Any, name: str = "", **more: Any) -> dict[str, Any]:
    """Return a manifest with a result."""
    return {"stage": stage, "name": name or stage, "options": {}, "seconds": 3725.0, "result": asdict(result), **more}


def trained(*scores: float, **more: Any) -> dict[str, Any]:
    """Return a manifest of a training stage with dev F1 of each seed."""
    result = train_result({str(seed): [10.0, score] for seed, score in enumerate(scores, start=1)})
    return manifest("finetune", replace(result, start=START), **more)


def adapted(before: float | None = 5432.1, after: float | None = 12.3) -> dict[str, Any]:
    """Return a manifest of ``dapt`` with perplexities."""
    corpus = {"level": "integrated", "blocks": 4000, "block_size": 128, "cut_lines": 17, "vocabulary": 30522}
    return manifest("dapt", DaptResult(before, after, 1500, 3, [3.25, 2.5, 2.125], 40321, corpus, START), "dapt-token")


def adapted_strings() -> dict[str, Any]:
    """Return a manifest of ``dapt --encoder strings``."""
    strings = {"text": "target", "length": {"target": 1234567}, "characters": 99, "shortened_words": 7}
    result = DaptResult(50.0, 5.0, 1500, 3, [3.25, 2.5], 98765, strings=strings)
    return manifest("dapt", result, "strings")


def evaluated(warnings: tuple[str, ...] = (), **models: list[float]) -> dict[str, Any]:
    """Return a manifest of ``evaluate`` with F1 of each seed of each model."""
    results = {label: _model_result(values) for label, values in models.items()}
    result = EvaluateResult(
        domain="politics",
        split="test",
        sentences=651,
        words=27585,
        warnings=list(warnings),
        models=results,
        **describe_mode("conll"),
    )
    return manifest("evaluate", result)


def _model_result(values: list[float]) -> ModelResult:
    average = Average(sum(values) / len(values), 0.75 if len(values) > 1 else None)
    return ModelResult(
        f1=average,
        precision=average,
        recall=average,
        macro_f1=average,
        other_mode=OtherMode("strict", average),
        scheme="bio",
        support=4321,
        repaired=1234,
        illegal_in_gold=0,
        unreadable_words=0,
        shortened_words=0,
        unknown_words=0,
        discarded_sequences=2345,
        seconds=1.5,
        words_per_second=None,
        reliability=None,
        per_type=[
            TypeResult("planet", 2.5, 3.75, 1.25, 9, 3, 12, None),
            TypeResult("star", 5.5, 6.75, 4.25, 3000, 2000, 3456, None),
        ],
        seeds={
            str(seed): SeedScores(f1, f1, f1, f1, {}, 4321, 651, 617, 0, "conll", f1) for seed, f1 in enumerate(values)
        },
        unknown_types=["moon"],
        extra_types=[],
    )


def tagged(**changes: Any) -> dict[str, Any]:
    """Return a record of ``predict``."""
    result = PredictResult(
        model="finetune",
        folder="run/finetune/tagger",
        seed=1,
        domain="politics",
        calibrated=True,
        output="out/entities.jsonl",
        format="jsonl",
        documents=100,
        blank_documents=2,
        unsure_entities=1300,
        sentences=5000,
        words=98765,
        rewritten_words=0,
        repaired=0,
        entities={"star": 1200, "planet": 34},
        unreadable_words=7,
        shortened_words=0,
        unknown_words=0,
        discarded_sequences=11,
        words_before=0,
        seconds=22.9,
        words_per_second=4321,
        repairs={"odd lines": 3},
    )
    return manifest("predict", replace(result, **changes))


def exported(sentences: int = 200) -> dict[str, Any]:
    """Return a record of ``export``, measured unless there are no sentences."""
    measured: dict[str, Any] = {"f1": 61.25, "words_per_second": 3100, "other_tags": 12}
    models = [
        ExportedModel(name, 90_000_000, **(measured if sentences else {}))
        for name in ("PyTorch fp32", "ONNX fp32", "ONNX int8")
    ]
    result = ExportResult(
        model="finetune",
        seed=1,
        output="run/export",
        sentences=sentences,
        words=4000,
        domain="politics",
        split="dev",
        threads=2,
        calibration=None,
        models=models,
        **describe_mode("conll"),
    )
    return manifest("export", result)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def assert_fits(blocks: list[Block], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that every block fits a terminal and that no head of a column is cut inside a word.

    Lines that hold a command stay whole, however long they are.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    for block in blocks:
        stream = Terminal()
        print_blocks([block], stream)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
        assert all(cell_len(line) <= width for line in lines if not figures.COMMAND.search(line)), block
        if isinstance(block, Table):
            assert all(word in "\n".join(lines) for name in block.columns for word in name.split()), block
