"""Processes that work together: started here where ``--gpus`` names several GPUs, or found under Slurm."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Sequence

import torch

from crossner_cli.errors import CrossNERError
from crossner_cli.options import Compute
from crossner_cli.run.environment import PYTHON, python_path

SECONDS_TO_STOP = 10


def parse_gpus(gpus: str) -> list[int]:
    """Read ``0,2,3``.

    Raises:
        CrossNERError: Not a list of distinct numbers, or a GPU this machine lacks.
    """
    parts = [part.strip() for part in gpus.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise CrossNERError(f"--gpus {gpus!r} is not a list of GPU numbers.", hint="Write --gpus 0,2,3.")
    numbers = [int(part) for part in parts]
    available = torch.cuda.device_count()
    missing = [number for number in numbers if number >= available]
    if missing and "RANK" not in os.environ:
        raise CrossNERError(
            f"--gpus {gpus}: this machine has {available} GPU{'s' if available != 1 else ''}.",
            hint="Number them from 0, or use --device cpu.",
        )
    return numbers


def launch_processes(options: Compute, argv: Sequence[str]) -> int | None:
    """Start one process a GPU where ``--gpus`` names several and no launcher has done so.

    Returns:
        Exit status of the processes, or None where this process is to do the work itself.
    """
    if not options.gpus or "RANK" in os.environ or slurm_tasks() > 1:
        return None
    numbers = parse_gpus(options.gpus)
    if len(numbers) < 2:
        return None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    count = len(numbers)
    # Numbers count the GPUs that this process may see, as they do with one GPU.
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    names = [visible[number] if visible else str(number) for number in numbers]
    shared = {
        **os.environ,
        **python_path(),
        "CUDA_VISIBLE_DEVICES": ",".join(names),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [*PYTHON, "-m", "crossner_cli", *argv]
    status = wait_for_all(
        [subprocess.Popen(command, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(count)]
    )
    if status < 0:
        raise CrossNERError(
            f"One of {count} processes was ended from outside ({signal.Signals(-status).name}), perhaps for want of"
            " memory.",
            hint="The same command continues from the last checkpoint.",
        )
    return status


def wait_for_all(processes: list[subprocess.Popen[bytes]]) -> int:
    """Wait for processes that work together; where one fails, stop the others and return its exit status.

    Being told to stop, by the terminal or by SIGTERM, stops them all.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failed = 0
    while any(process.poll() is None for process in processes):
        failed = next((process.returncode for process in processes if process.returncode), 0)
        if failed:
            break
        try:
            time.sleep(0.2)
        except KeyboardInterrupt:  # the terminal has told the processes too
            failed = 130
            break
    for process in processes if failed else ():
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=None if not failed else SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
    return failed or next((process.returncode for process in processes if process.returncode), 0)


def slurm_tasks() -> int:
    """Tasks of the Slurm step that this process is one of; 1 outside a step, as in a batch script's own shell."""
    slurm = os.environ
    if not {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LAUNCH_NODE_IPADDR"} <= slurm.keys():
        return 1
    # A step of one task, as an interactive shell, knows the tasks of the whole job by the second name.
    return int(slurm.get("SLURM_STEP_NUM_TASKS") or slurm.get("SLURM_NTASKS") or 1)


def read_slurm_variables() -> None:
    """Under ``srun`` without another launcher, take the process numbers that Slurm gives."""
    slurm, tasks = os.environ, slurm_tasks()
    if "RANK" in slurm or tasks < 2:
        return
    slurm["RANK"], slurm["WORLD_SIZE"] = slurm["SLURM_PROCID"], str(tasks)
    slurm["LOCAL_RANK"] = slurm.get("SLURM_LOCALID", "0")
    slurm["LOCAL_WORLD_SIZE"] = slurm.get("SLURM_STEP_TASKS_PER_NODE", "1").partition("(")[0].partition(",")[0]
    # The first process runs on the step's first machine; srun itself may have been typed on another.
    nodes = slurm.get("SLURM_STEP_NODELIST")
    slurm.setdefault("MASTER_ADDR", first_host(nodes) if nodes else slurm["SLURM_LAUNCH_NODE_IPADDR"])
    numbers = [
        int(found) if (found := slurm.get(name, "")).isdecimal() else 0 for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")
    ]
    slurm.setdefault("MASTER_PORT", str(20000 + (numbers[0] + 101 * numbers[1]) % 20000))


def first_host(nodes: str) -> str:
    """The first of the machines that Slurm writes as ``gpu[003-005,7],cpu1``."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodes)
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", first[0]) if first else nodes
