"""Devices, precision, launchers: chosen in one place, wrong wishes answered with a way out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from crossner_cli import engine as engine_module
from crossner_cli.engine import (
    choose_precision,
    default_threads,
    has_bf16,
    read_slurm_variables,
    start_engine,
    wait_for_all,
)
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Finetune


@pytest.mark.parametrize(
    ("wishes", "problem"),
    [
        ({"device": "tpu"}, "--device 'tpu' is unknown"),
        ({"device": "cuda:x"}, "is unknown"),
        ({"device": "cuda"}, "this machine has 0 cuda devices"),
        ({"device": "cuda:3"}, "this machine has 0 cuda devices"),
        ({"gpus": "0,1"}, "this machine has 0 GPUs"),
        ({"gpus": "0,0"}, "is not a list of GPU numbers"),
        ({"gpus": "zero"}, "is not a list of GPU numbers"),
        ({"device": "cpu", "precision": "fp16"}, "fp16 needs a GPU"),
    ],
)
def test_a_device_that_is_not_there_is_a_known_problem(
    wishes: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(CrossNERError, match=problem) as found:
        start_engine(Finetune(**wishes))  # type: ignore[arg-type]
    assert found.value.hint


def test_auto_takes_bf16_exactly_where_the_processor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for flag, expected in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda flag=flag: flag, raising=False)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False, raising=False)
        assert has_bf16("cpu") is flag
        assert choose_precision("auto", "cpu") == expected
        assert choose_precision("fp32", "cpu") == "fp32"


def test_one_process_on_a_cpu_with_the_threads_asked_for() -> None:
    engine = start_engine(Finetune(device="cpu", precision="fp32", threads=1))
    assert (engine.world, engine.rank, engine.is_main, engine.on_cpu) == (1, 0, True, True)
    assert torch.get_num_threads() == 1
    assert engine.sum([1.0, 2.0]) == [1.0, 2.0]
    assert engine.gather(["a"]) == ["a"]
    assert engine.share([1, 2, 3]) == [1, 2, 3]
    assert engine.describe() == "cpu, 1 thread, fp32"


def test_several_gpus_start_one_process_each_with_ranks_and_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    def popen(command: list[str], env: dict[str, str]) -> None:
        started.append((command, env))

    for name in ("RANK", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(engine_module.subprocess, "Popen", popen)
    monkeypatch.setattr(engine_module, "wait_for_all", lambda processes: 7)
    status = engine_module.launch_processes(Finetune(gpus="0,2,3"), ["finetune", "--gpus", "0,2,3"])
    assert status == 7
    assert [env["RANK"] for _, env in started] == [env["LOCAL_RANK"] for _, env in started] == ["0", "1", "2"]
    assert {env["CUDA_VISIBLE_DEVICES"] for _, env in started} == {"0,2,3"}
    assert {env["WORLD_SIZE"] for _, env in started} == {"3"}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for _, env in started}) == 1
    assert {tuple(command[1:]) for command, _ in started} == {("-m", "crossner_cli", "finetune", "--gpus", "0,2,3")}
    monkeypatch.setenv("RANK", "0")
    assert engine_module.launch_processes(Finetune(gpus="0,2,3"), []) is None, "a launcher's processes are used"


def python(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


def test_where_one_process_fails_the_others_are_stopped() -> None:
    sleeping = python("import time; time.sleep(60)")
    began = time.monotonic()
    assert wait_for_all([python("raise SystemExit(3)"), sleeping]) == 3
    assert time.monotonic() - began < 30
    assert sleeping.returncode == -signal.SIGTERM
    assert wait_for_all([python("pass"), python("pass")]) == 0


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
        ("SLURM_STEP_ID", "0"), ("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"), ("SLURM_LOCALID", "1"),
        ("SLURM_STEP_TASKS_PER_NODE", "4(x2)"), ("SLURM_JOB_ID", "123"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    read_slurm_variables()
    found = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    assert found == {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert os.environ["MASTER_ADDR"] == "10.0.0.1"


def test_a_slurm_step_of_one_task_starts_its_processes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(engine_module.subprocess, "Popen", lambda command, env: env)
    monkeypatch.setattr(engine_module, "wait_for_all", len)
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1", "SLURM_NTASKS": "4"}
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    assert engine_module.launch_processes(Finetune(gpus="0,1"), []) is None, "each of the four tasks is a process"
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert engine_module.launch_processes(Finetune(gpus="0,1"), []) == 2
    read_slurm_variables()
    assert "RANK" not in os.environ


def test_gpus_are_numbered_among_those_that_may_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(
        engine_module.subprocess, "Popen", lambda command, env: seen.append(env["CUDA_VISIBLE_DEVICES"])
    )
    monkeypatch.setattr(engine_module, "wait_for_all", lambda processes: 0)
    engine_module.launch_processes(Finetune(gpus="0,2"), [])
    assert seen == ["4,7", "4,7"]


def test_the_threads_wished_for_hold_unless_a_launcher_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    for wish, threads in (("3", 3), ("2,1", 2), ("", 8), ("many", 8), ("0", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", wish)
        assert default_threads() == threads, wish
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert default_threads() == 2
