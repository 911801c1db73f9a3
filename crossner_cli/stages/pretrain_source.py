"""``crossner pretrain-source``: a tagger on the source domain's sentences."""

from __future__ import annotations

from crossner_cli.data import PreparedData
from crossner_cli.engine import Engine
from crossner_cli.options import PretrainSource
from crossner_cli.progress import Work
from crossner_cli.run_directory import Manifest, RunDirectory
from crossner_cli.stages.tagger_training import TaggerData, train_stage


def run(run: RunDirectory, options: PretrainSource, engine: Engine) -> Work[Manifest]:
    """Train on the labelled sentences of the source domain, with the source's own types."""

    def read(prepared: PreparedData) -> TaggerData:
        source = prepared.domain("source", wanted_by="pretrain-source")
        chooser = prepared.domain(options.select_on, wanted_by="pretrain-source --select-on")
        return TaggerData(prepared.tag_set("source"), source.sentences("train"), chooser.sentences("dev"))

    return (yield from train_stage(run, options, engine, "pretrain-source", read))
