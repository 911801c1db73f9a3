"""Processes: how their threads wait and keep memory; started by --gpus, found under Slurm, stopped where one fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_cli.engine import processes as launching
from crossner_cli.engine.processes import SPIN_COUNT, first_host, launch_processes, read_slurm_variables, run_processes
from crossner_cli.errors import CrossNERError


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], int, str]]:
    """What would have been started, with the GPUs that it sees."""
    seen: list[tuple[list[str], int, str]] = []

    def run(command: list[str], count: int) -> int:
        seen.append((command, count, os.environ["CUDA_VISIBLE_DEVICES"]))
        return 7

    for name in ("RANK", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_ID", "PYTHONPATH"):
        monkeypatch.setenv(name, "")  # put back afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(launching, "run_processes", run)
    return seen


def test_several_gpus_start_one_process_each(launched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["finetune", "--gpus", "0,2,3"]
    assert launch_processes("0,2,3", arguments) == 7
    ((command, count, gpus),) = launched
    assert (command[1:], count, gpus) == (["-P", "-m", "crossner_cli", *arguments], 3, "0,2,3")
    assert launch_processes("2", arguments) is launch_processes(None, arguments) is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    launch_processes("0,2", [])
    assert launched[-1][2] == "4,7", "numbers are among those that may be seen"
    monkeypatch.setattr(launching, "run_processes", lambda command, count: -signal.SIGKILL)
    with pytest.raises(CrossNERError, match=r"One of 2 processes was killed \(SIGKILL\)"):
        launch_processes("0,1", [])
    monkeypatch.setenv("RANK", "0")
    assert launch_processes("0,1", arguments) is None, "a launcher's processes are used"


PROGRAM = """
import os, signal, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
open(f"{sys.argv[2]}/{rank}", "w").write(f"{world} {os.environ['LOCAL_RANK']} {os.environ['MASTER_PORT']}")
if sys.argv[1] == "fail" and rank == 1:
    sys.exit(3)
if sys.argv[1] == "die" and rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] != "work":
    time.sleep(60)
"""


@pytest.mark.parametrize(("ending", "status"), [("work", 0), ("fail", 3), ("die", -signal.SIGKILL)])
def test_processes_have_ranks_and_one_address_and_end_together(tmp_path: Path, ending: str, status: int) -> None:
    began = time.monotonic()
    assert run_processes([sys.executable, "-S", "-c", PROGRAM, ending, str(tmp_path)], 2) == status
    assert time.monotonic() - began < 50
    first, second = (path.read_text().split() for path in sorted(tmp_path.iterdir()))
    assert (first[:2], second[:2]) == (["2", "0"], ["2", "1"]) and first[2] == second[2]


def test_the_command_line_sets_how_threads_wait_before_torch_is_imported() -> None:
    program = "import sys; from crossner_cli.cli import main; sys.argv = ['crossner', '--version']\n"
    program += "try:\n    main()\nfinally:\n    import os; print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_WAIT", "GOMP"))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.split()[-2:] == [str(SPIN_COUNT), "False"]


def test_a_slurm_step_gives_ranks_and_a_batch_script_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    for name in (*ranks, "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "5")
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    read_slurm_variables()
    assert "RANK" not in os.environ
    step = {
        "SLURM_STEP_ID": "0",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
        "SLURM_JOB_ID": "123",
        "SLURM_STEP_NODELIST": "gpu[03-04]",
    }
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    read_slurm_variables()
    assert [os.environ.get(name) for name in ranks] == ["5", "8", "1", "4"]
    assert os.environ["MASTER_ADDR"] == "gpu03", "where the first process is, not where srun was typed"
    port = os.environ["MASTER_PORT"]
    for name in ("RANK", "MASTER_PORT"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_STEP_ID", "1")
    read_slurm_variables()
    assert os.environ["MASTER_PORT"] != port, "two steps of a job at once"


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu7,gpu9", "gpu7"),
        ("gpu[003-005,7],cpu1", "gpu003"),
        ("rack[1-2]-node[04-05]", "rack1-node04"),
        ("a.b-c,d", "a.b-c"),
    ],
)
def test_the_first_machine_of_a_step_is_told_from_slurms_short_form(nodes: str, first: str) -> None:
    assert first_host(nodes) == first
