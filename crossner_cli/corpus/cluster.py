"""The parts of a selection worked on by datatrove on a Slurm or Ray cluster (the pip extra ``cluster``)."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from crossner_cli.corpus.parts import Job, UnfinishedError, select_whole_part
from crossner_cli.corpus.selection import Execution
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import python_path
from crossner_cli.run.progress import Work
from crossner_cli.run.storage import read_record

SECONDS_BETWEEN_LOOKS, SECONDS_TO_CANCEL = 0.5, 15
SECONDS_BETWEEN_SLURM_LOOKS = 5
LINES_SHOWN = 10


def run_on_cluster(job: Job) -> Work[None]:
    """Let a process run datatrove's executor, and look for finished parts.

    It ends with this process in any case, since it waits at the other end of a pipe.
    """
    log = job.folder / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run_executor, args=(job, log, reader))
    process.start()
    try:
        while process.is_alive():
            yield job.measure()
            process.join(SECONDS_BETWEEN_LOOKS)
    finally:
        writer.close()
        process.join(SECONDS_TO_CANCEL)
        process.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
    if len(job.find_done()) < len(job.parts):
        raise _find_problem(job, process.exitcode, log)
    yield job.measure()


def _find_problem(job: Job, status: int | None, log: Path) -> CrossNERError:
    """Return the reason why parts are left: the first problem with the text, else the end of the processes' output."""
    problems = sorted(log.parent.glob("*.problem.json"))
    if problems:
        record = read_record(problems[0])
        return CrossNERError(record["problem"], hint=record["hint"])
    with log.open(encoding="utf-8", errors="replace") as lines:
        last = deque(filter(None, map(str.strip, lines)), maxlen=LINES_SHOWN) or [f"exit status {status}"]
    # If no part is done, nothing is kept, not even the log.
    said = f"Their log: {log}" if job.find_done() else "The end of their log:\n  " + "\n  ".join(last)
    return UnfinishedError(
        f"The processes that selected sentences ended early: {last[-1]}",
        hint=f"{job.describe_done()} {said}",
    )


def _run_executor(job: Job, log: Path, reader: Connection) -> None:
    """Run datatrove's executor in this process."""
    os.setsid()
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.environ.update(python_path())  # for the processes that are started elsewhere
    settings = {
        "pipeline": [partial(_run_task, job)],
        "tasks": len(job.parts),
        "logging_dir": str(job.folder / "tasks"),
    }
    run = _run_slurm if job.selection.execution.executor == "slurm" else _run_ray
    run(settings, job.selection.execution, reader)


def _run_task(job: Job, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
    """Do the part unless it is done: a step of datatrove's pipeline."""
    if rank not in job.find_done():
        select_whole_part(job, rank, job.read_names())


def _run_ray(settings: dict[str, Any], execution: Execution, reader: Connection) -> None:
    import ray
    from datatrove.executor import RayPipelineExecutor

    _end_with(reader)
    is_cluster = "RAY_ADDRESS" in os.environ
    ray.init(**({} if is_cluster else {"num_cpus": execution.processes, "include_dashboard": False}))
    RayPipelineExecutor(**settings, workers=execution.processes, mem_per_cpu_gb=1).run()
    ray.shutdown()


def _run_slurm(settings: dict[str, Any], execution: Execution, reader: Connection) -> None:
    from datatrove.executor import SlurmPipelineExecutor

    executor: Any = SlurmPipelineExecutor(
        **settings,
        workers=execution.workers or -1,
        time=os.environ.get("SBATCH_TIMELIMIT", "04:00:00"),
        partition=os.environ["SBATCH_PARTITION"],
        qos="",
        job_name="crossner",
        env_command=f'export PATH="{Path(sys.executable).parent}:$PATH"',
        with_srun=False,
        requeue_signals=None,
    )
    # Its summary of all parts would be a further job, and nobody reads it.
    executor.launch_merge_stats = lambda: None
    executor.run()
    _end_with(reader, "scancel", str(executor.job_id))
    ask = ["squeue", "--noheader", "--jobs", str(executor.job_id)]
    while executor.get_incomplete_ranks():
        found = subprocess.run(ask, capture_output=True, check=False)
        if found.returncode or not found.stdout.strip():
            return
        time.sleep(SECONDS_BETWEEN_SLURM_LOOKS)


def _end_with(reader: Connection, *command: str) -> None:
    """Once the pipe's other end is closed, run a command, and end this process and all that it started."""

    def wait() -> None:
        with suppress(EOFError):
            reader.recv_bytes()
        if command:
            subprocess.run(command, check=False)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
