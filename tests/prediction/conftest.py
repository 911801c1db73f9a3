"""A tagger of random weights, and a way to run the command with it."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Predict
from crossner_cli.prediction import inputs
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import exhaust
from crossner_cli.stages.predict import run as predict
from crossner_cli.taggers.folder import save_tagger

CHUNK = 20


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few sentences fill several chunks."""
    monkeypatch.setattr(inputs, "CHUNK_SENTENCES", CHUNK)


@pytest.fixture(scope="session")
def tagger(tiny_encoder_folder: Path) -> LinearTagger:
    torch.manual_seed(5)
    encoder, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder))
    tag_set = TagSet({"politics": ("person", "place-name"), "source": ("thing",)})
    tagger = LinearTagger(encoder, tag_set, LinearTagger.Hyperparameters())
    tagger.eval()
    return tagger


@pytest.fixture(scope="session")
def folder(tagger: LinearTagger, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "tagger"
    save_tagger(tagger, path)
    return path


@pytest.fixture
def predicted(folder: Path, engine: Engine, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], list[str]]]:
    """Run the command on bytes from stdin; return its result and the lines on stdout."""

    def run(data: bytes = b"", **options: Any) -> tuple[dict[str, Any], list[str]]:
        stdout = io.BytesIO()
        given = Predict(**{"model": [str(folder)], **options})
        work = predict(RunDirectory(tmp_path / "no-run"), given, engine, stdin=io.BytesIO(data), stdout=stdout)
        return exhaust(work)["result"], stdout.getvalue().decode().splitlines()

    return run
