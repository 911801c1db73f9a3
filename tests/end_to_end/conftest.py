"""Finished runs that several files look into."""

import shutil
from pathlib import Path

import pytest
from builders.commands import QUICK, crossner


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_folder: Path) -> Path:
    """A run with every stage. Who adds a stage removes it."""
    run = tmp_path_factory.mktemp("chain") / "run"
    here = ("--run", run)
    sample = "--source sample-source --target sample-target --corpus sample-target --entities sample-target"
    crossner("prepare-data", *here, sample)
    adapt = "--corpus-level integrated --block-size 32 --max-steps 20"
    crossner("dapt", *here, *QUICK, adapt, "--encoder", tiny_encoder_folder)
    crossner("pretrain-source --start-from dapt --epochs 1", *here, *QUICK)
    crossner("finetune --start-from pretrain-source --seeds 1,2 --epochs 1", *here, *QUICK)
    crossner("joint-train --start-from dapt --method crf --max-steps 5", *here, *QUICK)
    crossner("evaluate --model finetune --model joint-train", *here, *QUICK)
    return run


@pytest.fixture
def run(chain: Path, tmp_path: Path) -> Path:
    """A run with prepared data alone."""
    return Path(shutil.copytree(chain / "prepare-data", tmp_path / "run" / "prepare-data")).parent
