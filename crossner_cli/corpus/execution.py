"""The parts of a job worked on in this process, on all cores here, or on a Slurm or Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from crossner_cli.corpus.job import Execution, Job, Pass, process_part
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import python_path
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import read_record

TITLES: dict[Pass, str] = {"fingerprint": "find duplicates", "select": "select sentences"}
SECONDS_BETWEEN_LOOKS, SECONDS_TO_CANCEL = 0.5, 15
SECONDS_BETWEEN_SLURM_LOOKS = 5
LINES_SHOWN = 10


class UnfinishedError(CrossNERError):
    """Some parts are not done for a reason that is not in the text; the same command goes on with these."""


def run_pass(job: Job, of_pass: Pass) -> Work[None]:
    """Do the parts of a pass that are not done.

    Raises:
        CrossNERError: A part cannot be read; of several the first.
        UnfinishedError: The processes ended before all parts were done.
    """
    done, execution = job.find_done(of_pass), job.selection.execution
    left = [number for number in range(len(job.parts)) if number not in done]
    for number in left:
        job.problem_path(of_pass, number).unlink(missing_ok=True)
    if not left:
        return
    if execution.executor != "local":
        yield from _run_on_cluster(job, of_pass)
    elif execution.processes > 1 and len(left) > 1:
        yield from _run_in_pool(job, of_pass, left)
    else:
        for number in left:
            read = 0
            for characters in process_part(job, of_pass, number):
                read = min(read + characters, job.parts[number].size)
                yield _measure(job, of_pass, read)
            yield _measure(job, of_pass)


def _measure(job: Job, of_pass: Pass, more: int = 0) -> Progress:
    done = sum(job.parts[number].size for number in job.find_done(of_pass))
    return Progress(TITLES[of_pass], done + more, sum(part.size for part in job.parts), "bytes")


def _describe_done(job: Job, of_pass: Pass) -> str:
    done = len(job.find_done(of_pass))
    return f"{done} of {len(job.parts)} parts are done and kept; the same command goes on with the others."


def _run_in_pool(job: Job, of_pass: Pass, left: list[int]) -> Work[None]:
    processes, context = min(job.selection.execution.processes, len(left)), multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_start_worker, initargs=(job, of_pass))
    workers = list[BaseProcess]()
    try:
        futures = [pool.submit(_do_part, number) for number in left]
        workers = list(pool._processes.values())  # kill_workers is public in Python 3.14 only
        for future in futures:
            future.result()
            yield _measure(job, of_pass)
    except BrokenProcessPool:
        raise UnfinishedError(
            "A process that selected sentences was ended from outside, perhaps because memory ran out.",
            hint=f"{_describe_done(job, of_pass)} Try again with fewer processes: --workers 1.",
        ) from None
    finally:
        # A part may be a large file, which nobody waits for after a problem.
        for worker in workers:
            worker.kill()
        pool.shutdown(cancel_futures=True)


_given: list[Any] = []  # the job and the pass of a process of the pool


def _start_worker(job: Job, of_pass: Pass) -> None:
    """Keep the job; end this process when the one that started it ends, and leave Ctrl-C to that one."""
    _given[:] = [job, of_pass]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _do_part(number: int) -> None:
    job, of_pass = _given
    deque(process_part(job, of_pass, number), maxlen=0)


def _run_on_cluster(job: Job, of_pass: Pass) -> Work[None]:
    """Let a process run datatrove's executor, and look for the parts that are done.

    It ends with this one, however this one ends: it waits at the other end of a pipe.
    """
    log = job.folder / of_pass / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run_executor, args=(job, of_pass, log, reader))
    process.start()
    try:
        while process.is_alive():
            yield _measure(job, of_pass)
            process.join(SECONDS_BETWEEN_LOOKS)
    finally:
        writer.close()
        process.join(SECONDS_TO_CANCEL)
        process.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
    if len(job.find_done(of_pass)) < len(job.parts):
        raise _find_problem(job, of_pass, process.exitcode, log)
    yield _measure(job, of_pass)


def _find_problem(job: Job, of_pass: Pass, status: int | None, log: Path) -> CrossNERError:
    """Return why parts are left: the first problem with the text, else the end of what the processes wrote."""
    problems = sorted(log.parent.glob("*.problem.json"))
    if problems:
        record = read_record(problems[0])
        return CrossNERError(record["problem"], hint=record["hint"])
    with log.open(encoding="utf-8", errors="replace") as lines:
        last = deque(filter(None, map(str.strip, lines)), maxlen=LINES_SHOWN) or [f"exit status {status}"]
    # If no part is done, nothing is kept, the log neither.
    said = f"Their log: {log}" if job.find_done(of_pass) else "The end of their log:\n  " + "\n  ".join(last)
    return UnfinishedError(
        f"The processes that selected sentences ended early: {last[-1]}",
        hint=f"{_describe_done(job, of_pass)} {said}",
    )


def _run_executor(job: Job, of_pass: Pass, log: Path, reader: Connection) -> None:
    """Run a pass by datatrove in this process."""
    os.setsid()
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.environ.update(python_path())  # for the processes that are started elsewhere
    settings = {
        "pipeline": [partial(_run_task, job, of_pass)],
        "tasks": len(job.parts),
        "logging_dir": str(job.folder / of_pass / "tasks"),
    }
    run = _run_slurm if job.selection.execution.executor == "slurm" else _run_ray
    run(settings, job.selection.execution, reader)


def _run_task(job: Job, of_pass: Pass, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
    """Do the part unless it is done: a step of datatrove's pipeline."""
    if rank not in job.find_done(of_pass):
        deque(process_part(job, of_pass, rank), maxlen=0)


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
        time=execution.slurm_time,
        partition=str(execution.slurm_partition),
        qos="",
        sbatch_args={key: value for key, _, value in (each.partition("=") for each in execution.slurm_arguments)},
        job_name="crossner",
        env_command=f'export PATH="{Path(sys.executable).parent}:$PATH"',
        with_srun=False,
        requeue_signals=None,
    )
    # Its summary of all parts would be one more job, and nobody reads it.
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
    """When the pipe's other end is closed, run a command, and end this process and all it started."""

    def wait() -> None:
        with suppress(EOFError):
            reader.recv_bytes()
        if command:
            subprocess.run(command, check=False)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
