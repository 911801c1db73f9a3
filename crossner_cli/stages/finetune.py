"""``crossner finetune``: a tagger on the target domain's sentences."""

from __future__ import annotations

from crossner_cli.engine.devices import Engine
from crossner_cli.options import Finetune
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Work
from crossner_cli.stages.train import train_stage


def run(run: RunDirectory, options: Finetune, engine: Engine) -> Work[Manifest]:
    """Train on the labelled sentences of the target domain; never opens the source's."""
    return (yield from train_stage(run, options, engine, "finetune", ("target",)))
