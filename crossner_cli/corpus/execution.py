"""The parts of a corpus worked on in this process, on all cores here, or on a Slurm or Ray cluster."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

from crossner_cli.corpus.job import Job, Pass, process_part
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import PYTHON, python_path
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import read_record

Executor = Literal["local", "slurm", "ray"]
CLUSTER = "from crossner_cli.corpus.cluster import main; main()"
TITLES: dict[Pass, str] = {"fingerprint": "find duplicates", "select": "select sentences"}
SECONDS_BETWEEN_LOOKS, SECONDS_TO_CANCEL = 0.5, 15
LINES_SHOWN = 10


@dataclass(frozen=True)
class Execution:
    """The place and the number of processes of a pass; the result does not depend on it.

    Args:
        executor: ``local``, ``slurm`` or ``ray``.
        workers: Parts worked on at once; None is one a core here, and all of them on Slurm.
        slurm_partition: Partition of the Slurm cluster.
        slurm_time: Time limit of a part there.
        slurm_arguments: Further arguments of ``sbatch``, as ``account=nlp``.
    """

    executor: Executor = "local"
    workers: int | None = None
    slurm_partition: str | None = None
    slurm_time: str = "04:00:00"
    slurm_arguments: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """The number of parts worked on at once on machines that are known."""
        return self.workers or len(os.sched_getaffinity(0))

    def check(self) -> None:
        """Refuse what cannot be run.

        Raises:
            CrossNERError: Ray or Slurm is not there, or an option is missing or malformed.
        """
        if self.executor == "ray" and find_spec("ray") is None:
            raise CrossNERError("--executor ray needs the package ray.", hint="pip install 'crossner[ray]'")
        if self.executor != "slurm":
            return
        if not self.slurm_partition:
            raise CrossNERError("--executor slurm needs a partition.", hint="Add --slurm-partition NAME (see: sinfo).")
        wrong = next((each for each in self.slurm_arguments if not each.partition("=")[0].strip()), None)
        if wrong is not None:
            raise CrossNERError(f"--slurm-argument {wrong!r} has no name.", hint="Write name=value, as account=nlp.")
        if shutil.which("sbatch") is None:
            raise CrossNERError(
                "--executor slurm needs sbatch, which was not found.",
                hint="Run it on a login node of the cluster, or leave --executor out to use the cores here.",
            )


class UnfinishedError(CrossNERError):
    """Some parts are not done for a reason that is not in the text; the same command goes on with these."""


def run_pass(job: Job, of_pass: Pass, execution: Execution) -> Work[None]:
    """Do the parts of a pass that are not done.

    Raises:
        CrossNERError: A part cannot be read; of several the first.
        UnfinishedError: The processes ended before all parts were done.
    """
    done = job.find_done(of_pass)
    left = [number for number in range(len(job.parts)) if number not in done]
    for number in left:
        job.problem_path(of_pass, number).unlink(missing_ok=True)
    if not left:
        return
    if execution.executor != "local":
        yield from _run_on_cluster(job, of_pass, execution)
    elif execution.processes == 1 or len(left) == 1:
        yield from _run_here(job, of_pass, left)
    else:
        yield from _run_in_pool(job, of_pass, left, execution.processes)


def _run_here(job: Job, of_pass: Pass, left: list[int]) -> Work[None]:
    for number in left:
        before, read = _count_bytes(job, of_pass), 0
        for characters in process_part(job, of_pass, number):
            read = min(read + characters, job.parts[number].size)
            yield _progress(job, of_pass, before + read)
        yield _progress(job, of_pass, before + job.parts[number].size)


def _run_in_pool(job: Job, of_pass: Pass, left: list[int], processes: int) -> Work[None]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, len(left)), context, initializer=_watch_parent)
    workers = list[BaseProcess]()
    try:
        futures = [pool.submit(_do_part, job.folder, of_pass, number) for number in left]
        workers = list(pool._processes.values())  # kill_workers is public in Python 3.14 only
        for future in futures:
            future.result()
            yield _progress(job, of_pass, _count_bytes(job, of_pass))
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


def _do_part(folder: Path, of_pass: Pass, number: int) -> None:
    for _ in process_part(Job(folder), of_pass, number):
        pass


def _watch_parent() -> None:
    """End this process when the one that started it ends, and leave Ctrl-C to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _run_on_cluster(job: Job, of_pass: Pass, execution: Execution) -> Work[None]:
    """Let another process run datatrove's executor, and look for the parts that are done."""
    log = job.folder / of_pass / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with _start_cluster(job, of_pass, execution, log) as process:
        while process.poll() is None:
            yield _progress(job, of_pass, _count_bytes(job, of_pass))
            time.sleep(SECONDS_BETWEEN_LOOKS)
    if len(job.find_done(of_pass)) < len(job.parts):
        raise _find_problem(job, of_pass, process.returncode, log)
    yield _progress(job, of_pass, _count_bytes(job, of_pass))


@contextmanager
def _start_cluster(job: Job, of_pass: Pass, execution: Execution, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that ends with this one, however this one ends: it watches the pipe to its input."""
    command = [*PYTHON, "-c", CLUSTER, str(job.folder), of_pass, json.dumps(asdict(execution))]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **python_path()},
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_TO_CANCEL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _find_problem(job: Job, of_pass: Pass, status: int, log: Path) -> CrossNERError:
    """Return why parts are left: the first problem with the text, else the end of what the processes wrote."""
    problems = sorted(log.parent.glob("*.problem.json"))
    if problems:
        record = read_record(problems[0])
        return CrossNERError(record["problem"], hint=record["hint"])
    with log.open(encoding="utf-8", errors="replace") as lines:
        last = deque((line.strip() for line in lines if line.strip()), maxlen=LINES_SHOWN)
    # If no part is done, nothing is kept, the log neither.
    said = f"Their log: {log}" if job.find_done(of_pass) else "The end of their log:\n  " + "\n  ".join(last)
    return UnfinishedError(
        f"The processes that selected sentences ended early: {last[-1] if last else f'exit status {status}'}",
        hint=f"{_describe_done(job, of_pass)} {said}",
    )


def _describe_done(job: Job, of_pass: Pass) -> str:
    done = len(job.find_done(of_pass))
    return f"{done} of {len(job.parts)} parts are done and kept; the same command goes on with the others."


def _count_bytes(job: Job, of_pass: Pass) -> int:
    return sum(job.parts[number].size for number in job.find_done(of_pass))


def _progress(job: Job, of_pass: Pass, done: int) -> Progress:
    return Progress(TITLES[of_pass], done, sum(part.size for part in job.parts), "bytes")
