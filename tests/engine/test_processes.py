"""Processes that work together: started by --gpus, found under Slurm, stopped where one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from crossner_cli.engine import processes as launching
from crossner_cli.engine.processes import first_host, read_slurm_variables, wait_for_all
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Finetune


def test_several_gpus_start_one_process_each_with_ranks_and_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    def popen(command: list[str], env: dict[str, str]) -> None:
        started.append((command, env))

    for name in ("RANK", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(launching.subprocess, "Popen", popen)
    monkeypatch.setattr(launching, "wait_for_all", lambda processes: 7)
    status = launching.launch_processes(Finetune(gpus="0,2,3"), ["finetune", "--gpus", "0,2,3"])
    assert status == 7
    assert [env["RANK"] for _, env in started] == [env["LOCAL_RANK"] for _, env in started] == ["0", "1", "2"]
    assert {env["CUDA_VISIBLE_DEVICES"] for _, env in started} == {"0,2,3"}
    assert {env["WORLD_SIZE"] for _, env in started} == {"3"}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for _, env in started}) == 1
    assert {tuple(command[1:]) for command, _ in started} == {
        ("-P", "-m", "crossner_cli", "finetune", "--gpus", "0,2,3")
    }
    monkeypatch.setenv("RANK", "0")
    assert launching.launch_processes(Finetune(gpus="0,2,3"), []) is None, "a launcher's processes are used"


def python(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


def test_where_one_process_fails_the_others_are_stopped() -> None:
    sleeping = python("import time; time.sleep(60)")
    began = time.monotonic()
    assert wait_for_all([python("raise SystemExit(3)"), sleeping]) == 3
    assert time.monotonic() - began < 30
    assert sleeping.returncode == -signal.SIGTERM
    assert wait_for_all([python("pass"), python("pass")]) == 0


def test_a_process_that_was_killed_is_a_known_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(launching, "parse_gpus", lambda _: [0, 1])
    monkeypatch.setattr(launching, "wait_for_all", lambda processes: -signal.SIGKILL)
    monkeypatch.setattr(launching.subprocess, "Popen", lambda *_, **__: None)
    with pytest.raises(CrossNERError, match=r"One of 2 processes was ended from outside \(SIGKILL\)"):
        launching.launch_processes(Finetune(gpus="0,1"), ["finetune", "--gpus", "0,1"])


def test_a_slurm_step_gives_ranks_and_a_batch_script_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "5")
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    read_slurm_variables()
    assert "RANK" not in os.environ
    for name, value in (
        ("SLURM_STEP_ID", "0"),
        ("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_STEP_TASKS_PER_NODE", "4(x2)"),
        ("SLURM_JOB_ID", "123"),
        ("SLURM_STEP_NODELIST", "gpu[03-04]"),
    ):
        monkeypatch.setenv(name, value)
    read_slurm_variables()
    found = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    assert found == {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert os.environ["MASTER_ADDR"] == "gpu03", "where the first process is, not where srun was typed"
    ports = {os.environ["MASTER_PORT"]}
    for name in ("RANK", "MASTER_PORT"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_STEP_ID", "1")
    read_slurm_variables()
    assert len(ports | {os.environ["MASTER_PORT"]}) == 2, "two steps of a job at once"


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu7", "gpu7"),
        ("gpu7,gpu9", "gpu7"),
        ("gpu[003-005,7],cpu1", "gpu003"),
        ("gpu[7,9]", "gpu7"),
        ("rack[1-2]-node[04-05]", "rack1-node04"),
        ("a.b-c,d", "a.b-c"),
    ],
)
def test_the_first_machine_of_a_step_is_told_from_slurms_short_form(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_a_slurm_step_of_one_task_starts_its_processes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(launching.subprocess, "Popen", lambda command, env: env)
    monkeypatch.setattr(launching, "wait_for_all", len)
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1", "SLURM_NTASKS": "4"}
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    assert launching.launch_processes(Finetune(gpus="0,1"), []) is None, "each of the four tasks is a process"
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert launching.launch_processes(Finetune(gpus="0,1"), []) == 2
    read_slurm_variables()
    assert "RANK" not in os.environ


def test_gpus_are_numbered_among_those_that_may_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(launching.subprocess, "Popen", lambda command, env: seen.append(env["CUDA_VISIBLE_DEVICES"]))
    monkeypatch.setattr(launching, "wait_for_all", lambda processes: 0)
    launching.launch_processes(Finetune(gpus="0,2"), [])
    assert seen == ["4,7", "4,7"]
