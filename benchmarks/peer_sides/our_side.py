"""``crossner finetune`` on the target alone, in fp32. Its default keeps the epoch that is best on dev."""

from __future__ import annotations

import sys
from pathlib import Path

from exchange import Data, Request, Tag, answer

from crossner_cli.cli import app
from crossner_cli.data.sentences import Sentence
from crossner_cli.engine.devices import start_engine
from crossner_cli.options import Predict
from crossner_cli.run.directory import RunDirectory
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.tagging import tag as tag_with


def train(request: Request, data: Data) -> Tag:
    """Train by the command line of the product, load the tagger and tag as ``predict`` does."""
    folder = fine_tune(request)
    engine = start_engine(Predict(device="cpu", threads=request.threads, precision="fp32"))
    tagger = load_tagger(folder, engine)

    def tag(sentences: list[list[str]]) -> list[list[str]]:
        tagged = tag_with(tagger, [Sentence(tuple(words)) for words in sentences], engine)
        return [list(each.tags) for each in tagged]

    return tag


def fine_tune(request: Request) -> Path:
    """Train a tagger; return its folder."""
    run = RunDirectory(Path(request.run))
    name = Path(request.folder).name
    rate_epochs_updates = request.given(learning_rate="--learning-rate", epochs="--epochs", updates="--max-steps")
    arguments = {
        "--run": run.path,
        "--name": name,
        "--encoder": request.encoder,
        "--seed": request.seed,
        "--device": "cpu",
        "--threads": request.threads,
        "--precision": "fp32",
        **rate_epochs_updates,
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    app(["finetune", *words, "--force"], standalone_mode=False)
    (seed,) = run.read(name)["result"]["seeds"].values()
    return run.folder(name) / str(seed["folder"])


if __name__ == "__main__":
    sys.stdout = sys.stderr
    answer(train)
