"""Tiny encoders and runs, made here: no network, no downloads."""

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read once, when transformers is imported
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from crossner_cli.engine.processes import limit_spinning  # noqa: E402

limit_spinning()  # two processes test at once, and each has a thread a core

import pytest  # noqa: E402
from builders.encoders import make_architecture, make_encoder  # noqa: E402
from hypothesis import settings  # noqa: E402

from crossner_cli.run.directory import RunDirectory  # noqa: E402

settings.register_profile("crossner", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("crossner")


@pytest.fixture(scope="session")
def tiny_encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random encoder."""
    return make_encoder(tmp_path_factory.mktemp("tiny-encoder"))


@pytest.fixture(scope="session")
def plain_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without dropout, so that two processes, or two devices, compute the same."""
    return make_encoder(tmp_path_factory.mktemp("plain-encoder"), hidden_dropout_prob=0, attention_probs_dropout_prob=0)


@pytest.fixture(scope="module")
def engine() -> Any:
    """One CPU in fp32; torch is imported where it is asked for."""
    from crossner_cli.engine.devices import start_engine
    from crossner_cli.options import Finetune

    return start_engine(Finetune(device="cpu", precision="fp32", threads=1))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run directory that does not exist yet."""
    return RunDirectory(tmp_path / "run")


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of real data sets; tests that need it are skipped without."""
    folder = os.environ.get("CROSSNER_MIRROR", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CROSSNER_MIRROR is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def architectures(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = make_architecture(tmp_path_factory.mktemp(name), name)
        return made[name]

    return get
