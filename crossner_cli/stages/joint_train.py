"""``crossner joint-train``: a tagger on the sentences of both domains at once."""

from __future__ import annotations

from crossner_cli.engine.devices import Engine
from crossner_cli.options import JointTrain
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Work
from crossner_cli.stages.train import train_stage


def run(run: RunDirectory, options: JointTrain, engine: Engine) -> Work[Manifest]:
    """Train on target sentences, each counted ``--upsample`` times, mixed with the source's (Liu et al. 2021, 4.2).

    The tagger knows the types of both; target sentences are only ever given the target's. Methods of several tasks
    read a batch of each in an update.
    """
    return (yield from train_stage(run, options, engine, "joint-train", ("target", "source")))
