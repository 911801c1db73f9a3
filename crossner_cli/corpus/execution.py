"""The parts of a selection worked on in this process, by several here, or on a Slurm or Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess

from crossner_cli.corpus.cluster import run_on_cluster
from crossner_cli.corpus.parts import Job, UnfinishedError, select_part, select_whole_part
from crossner_cli.data.names import Names
from crossner_cli.run.progress import Progress, Work


def select_parts(job: Job, names: Names | None) -> Work[None]:
    """Select the sentences of the parts that are not done, with the names of the job's lists.

    Raises:
        CrossNERError: A part cannot be read; the first of several.
        UnfinishedError: The processes ended before all parts were done.
    """
    done, execution = job.find_done(), job.selection.execution
    left = [number for number in range(len(job.parts)) if number not in done]
    for number in left:
        job.problem_path(number).unlink(missing_ok=True)
    if not left:
        return
    if execution.executor != "local":
        yield from run_on_cluster(job)
    elif execution.processes > 1 and len(left) > 1:
        yield from _run_in_pool(job, left)
    else:
        for number in left:
            finished = job.measure()
            for characters in select_part(job, number, names):
                yield Progress(finished.task, finished.done + characters, finished.total, finished.unit)
    yield job.measure()


def _run_in_pool(job: Job, left: list[int]) -> Work[None]:
    processes, context = min(job.selection.execution.processes, len(left)), multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_start_worker, initargs=(job,))
    workers = list[BaseProcess]()
    try:
        futures = [pool.submit(_select, number) for number in left]
        workers = list(pool._processes.values())  # kill_workers is public in Python 3.14 only
        for future in futures:
            future.result()
            yield job.measure()
    except BrokenProcessPool:
        raise UnfinishedError(
            "A process that selected sentences was ended from outside, perhaps because memory ran out.",
            hint=f"{job.describe_done()} Try again with fewer processes: --workers 1.",
        ) from None
    finally:
        # A part may be a large file; nobody waits for it after a problem.
        for worker in workers:
            worker.kill()
        pool.shutdown(cancel_futures=True)


_given: list[tuple[Job, Names | None]] = []  # of a process of the pool


def _start_worker(job: Job) -> None:
    """Keep the job; end this process when the one that started it ends, and leave Ctrl-C to that one."""
    _given.append((job, job.read_names()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _select(number: int) -> None:
    select_whole_part(_given[0][0], number, _given[0][1])
