"""Processes: settings of their C libraries, and groups of them, started for ``--gpus`` or by Slurm.

Importing this module imports no torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence

from crossner_cli.errors import INTERRUPTED, CrossNERError
from crossner_cli.run.environment import PYTHON, python_path

# Rounds that a thread of GNU OpenMP spins at a barrier before it sleeps, about as long as waking it takes; 300,000 is
# the default of GNU OpenMP.
SPIN_COUNT = 1_000
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of mallopt's settings
KEPT, LARGEST = 2**30, 2**25  # bytes; glibc takes no larger second one


def limit_spinning() -> None:
    """Let OpenMP's threads sleep soon where they wait for each other, unless the user has set how they wait.

    On a machine that has other work, a thread that spins takes the core from the one that it waits for. Has an effect
    only before torch is imported, and on the processes that this one starts.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)


def keep_freed_memory() -> bool:
    """Let glibc keep up to 1 GB that was freed, in blocks of up to 32 MB, and use it again.

    Otherwise it hands the gradients of a step back to the system; the pages of the next step's cost more time than is
    needed to fill them. Returns True if this process's allocator is glibc's and has taken the settings.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return bool(set_option and set_option(TRIM_THRESHOLD, KEPT) and set_option(MMAP_THRESHOLD, LARGEST))


def parse_gpus(gpus: str) -> list[int]:
    """Parse ``0,2,3``.

    Raises:
        CrossNERError: Not a list of distinct numbers, or a GPU this machine lacks.
    """
    parts = [part.strip() for part in gpus.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise CrossNERError(f"--gpus {gpus!r} is not a list of GPU numbers.", hint="Write --gpus 0,2,3.")
    import torch

    numbers, available = [int(part) for part in parts], torch.cuda.device_count()
    if max(numbers) >= available and "RANK" not in os.environ:
        raise CrossNERError(
            f"--gpus {gpus}: this machine has {available} GPU{'s' if available != 1 else ''}.",
            hint="Number them from 0, or use --device cpu.",
        )
    return numbers


def launch_processes(gpus: str | None, argv: Sequence[str]) -> int | None:
    """Run a command in one process per GPU if ``--gpus`` names several and no launcher has done so.

    Returns:
        Exit status of the processes, or None where this process is to do the work itself.

    Raises:
        CrossNERError: The GPUs do not exist, or a process was killed.
    """
    if not gpus or "RANK" in os.environ or count_slurm_tasks() > 1:
        return None
    numbers = parse_gpus(gpus)
    if len(numbers) < 2:
        return None
    # Numbers count the GPUs that this process may see, as they do with one GPU.
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    names = [visible[number] if visible else str(number) for number in numbers]
    os.environ |= {**python_path(), "CUDA_VISIBLE_DEVICES": ",".join(names)}
    status = run_processes([*PYTHON, "-m", "crossner_cli", *argv], len(numbers))
    if status < 0:
        raise CrossNERError(
            f"One of {len(numbers)} processes was killed ({signal.Signals(-status).name}), perhaps because the memory "
            "was full.",
            hint="The same command continues from the last checkpoint.",
        )
    return status


def end_one_of_several(status: object) -> None:
    """End this process at once, if it is one of several that trained together.

    Threads of PyTorch that wait for the others still hold Python objects, and would now and then abort a process that
    Python takes apart.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))


def run_processes(command: Sequence[str], count: int) -> int:
    """Run a command in several processes with ranks and one address, as torchrun does; all end together.

    Returns:
        0, the exit status of the process that failed first, or 128 and the number of the signal that stopped all.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes say what went wrong
    with tempfile.TemporaryDirectory() as logs:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id="crossner",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="127.0.0.1",
            max_restarts=0,
            monitor_interval=0.2,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        try:
            elastic_launch(config, command[0])(*command[1:])
        except ChildFailedError as error:
            statuses = [failure.exitcode for failure in error.failures.values()]
            # Processes that were stopped because another failed end by SIGTERM, or as interrupted.
            stopped = (-signal.SIGTERM, INTERRUPTED)
            return next((status for status in statuses if status not in stopped), statuses[0])
        except SignalException as stopped:
            return 128 + stopped.sigval
        finally:  # torch leaves its own handlers
            for each, handler in handlers.items():
                signal.signal(each, handler)
    return 0


def count_slurm_tasks() -> int:
    """Count the tasks of this process's Slurm step; 1 outside a step, as in a batch script's own shell."""
    slurm = os.environ
    if not {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LAUNCH_NODE_IPADDR"} <= slurm.keys():
        return 1
    # A step of one task, as an interactive shell, knows the tasks of the whole job by the second name.
    return int(slurm.get("SLURM_STEP_NUM_TASKS") or slurm.get("SLURM_NTASKS") or 1)


def read_slurm_variables() -> None:
    """Take the process numbers that Slurm gives, under ``srun`` without another launcher."""
    slurm, tasks = os.environ, count_slurm_tasks()
    if "RANK" in slurm or tasks < 2:
        return
    slurm["RANK"], slurm["WORLD_SIZE"] = slurm["SLURM_PROCID"], str(tasks)
    slurm["LOCAL_RANK"] = slurm.get("SLURM_LOCALID", "0")
    slurm["LOCAL_WORLD_SIZE"] = slurm.get("SLURM_STEP_TASKS_PER_NODE", "1").partition("(")[0].partition(",")[0]
    # The first process runs on the step's first machine; srun itself may have been typed on another.
    nodes = slurm.get("SLURM_STEP_NODELIST")
    slurm.setdefault("MASTER_ADDR", first_host(nodes) if nodes else slurm["SLURM_LAUNCH_NODE_IPADDR"])
    job, step = int(slurm["SLURM_JOB_ID"]), int(slurm["SLURM_STEP_ID"])
    slurm.setdefault("MASTER_PORT", str(20000 + (job + 101 * step) % 20000))


def first_host(nodes: str) -> str:
    """The first of the machines that Slurm writes as ``gpu[003-005,7],cpu1``."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodes)
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", first[0]) if first else nodes
