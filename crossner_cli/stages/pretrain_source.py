"""``crossner pretrain-source``: a tagger on the source domain's sentences."""

from __future__ import annotations

from crossner_cli.engine.devices import Engine
from crossner_cli.options import PretrainSource
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Work
from crossner_cli.stages.train import train_stage


def run(run: RunDirectory, options: PretrainSource, engine: Engine) -> Work[Manifest]:
    """Train on the labelled sentences of the source domain, with the source's own types."""
    return (yield from train_stage(run, options, engine, "pretrain-source", ("source",)))
