"""Where the parts of a corpus are worked on: in this process, on all cores here, or on a Slurm or Ray cluster."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from crossner_cli.corpus.job import Job, Pass
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import PYTHON, python_path
from crossner_cli.run.progress import Progress, Work

Kind = Literal["local", "slurm", "ray"]
RUNNER = "from crossner_cli.corpus.runner import main; main()"
TITLES: dict[Pass, str] = {"fingerprint": "find duplicates", "select": "select sentences"}
SECONDS_BETWEEN_LOOKS, SECONDS_TO_CANCEL = 0.1, 15
LINES_SHOWN = 10
KILLED = 75  # exit status of a runner that lost a process


@dataclass(frozen=True)
class Execution:
    """Where and on how many processes a pass runs; it changes nothing in the result.

    Args:
        executor: ``local``, ``slurm`` or ``ray``.
        workers: Parts worked on at once; None is one a core here, and all of them on Slurm.
        slurm_partition: Partition of the Slurm cluster.
        slurm_time: Time limit of a part there.
        slurm_arguments: Further arguments of ``sbatch``, as ``account=nlp``.
    """

    executor: Kind = "local"
    workers: int | None = None
    slurm_partition: str | None = None
    slurm_time: str = "04:00:00"
    slurm_arguments: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """How many parts are worked on at once on machines that are known."""
        return self.workers or len(os.sched_getaffinity(0))

    def check(self) -> None:
        """Refuse what cannot be run.

        Raises:
            CrossNERError: Ray or Slurm is not there, or an option is missing or malformed.
        """
        if self.executor == "ray" and find_spec("ray") is None:
            raise CrossNERError("--executor ray needs the package ray.", hint="pip install 'crossner[ray]'")
        if self.executor == "slurm" and not self.slurm_partition:
            raise CrossNERError("--executor slurm needs a partition.", hint="Add --slurm-partition NAME (see: sinfo).")
        wrong = next((each for each in self.slurm_arguments if not each.partition("=")[0].strip()), None)
        if wrong is not None:
            raise CrossNERError(f"--slurm-argument {wrong!r} has no name.", hint="Write name=value, as account=nlp.")
        if self.executor == "slurm" and shutil.which("sbatch") is None:
            raise CrossNERError(
                "--executor slurm needs sbatch, which is not found.",
                hint="Run it on a login node of the cluster, or leave --executor out to use the cores here.",
            )


class UnfinishedError(CrossNERError):
    """Some parts are not done for a reason that is not in the text: repeated, the command goes on with these."""


def run_pass(job: Job, of_pass: Pass, execution: Execution) -> Work[None]:
    """Do the parts of a pass that are not done.

    Raises:
        CrossNERError: A part cannot be read; that of the first such part.
        UnfinishedError: The processes ended before all parts were done.
    """
    left = [number for number in range(len(job.parts)) if not job.is_done(of_pass, number)]
    for number in left:
        job.problem(of_pass, number).unlink(missing_ok=True)
    if not left:
        return
    if execution.executor == "local" and (execution.processes == 1 or len(left) == 1):
        yield from _run_here(job, of_pass, left)
    else:
        yield from _run_in_processes(job, of_pass, execution)


def _run_here(job: Job, of_pass: Pass, left: list[int]) -> Work[None]:
    """Run datatrove's steps in this process, and record what is completed as its executors do."""
    from crossner_cli.corpus.steps import pipeline_of

    completions = job.tasks(of_pass) / "completions"
    completions.mkdir(parents=True, exist_ok=True)
    total = sum(part.size for part in job.parts)
    done = total - sum(job.parts[number].size for number in left)
    for number in left:
        data: Any = None
        for step in pipeline_of(job.folder, of_pass):
            data = step(data, number, len(job.parts))
        read = 0
        for document in data:
            read = min(read + len(document.text), job.parts[number].size)
            yield Progress(TITLES[of_pass], done + read, total, "bytes")
        done += job.parts[number].size
        (completions / f"{number:05d}").touch()
        yield Progress(TITLES[of_pass], done, total, "bytes")


def _run_in_processes(job: Job, of_pass: Pass, execution: Execution) -> Work[None]:
    """Let another process run datatrove's executor, and look what is done."""
    log = job.folder / of_pass / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    total, told = sum(part.size for part in job.parts), -1
    with _runner(job, of_pass, execution, log) as process:
        while True:
            has_ended = process.poll() is not None
            completions = job.tasks(of_pass) / "completions"
            numbers = {int(path.name) for path in completions.iterdir()} if completions.is_dir() else set()
            done = sum(job.parts[number].size for number in numbers)
            if done != told:
                told = done
                yield Progress(TITLES[of_pass], done, total, "bytes")
            if has_ended:
                break
            time.sleep(SECONDS_BETWEEN_LOOKS)
    if len(numbers) < len(job.parts):
        raise _problem(job, of_pass, len(numbers), process.returncode, log)


@contextmanager
def _runner(job: Job, of_pass: Pass, execution: Execution, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with this one, however this one ends: it watches the pipe to its input."""
    command = [*PYTHON, "-c", RUNNER, str(job.folder), of_pass, json.dumps(asdict(execution))]
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


def _problem(job: Job, of_pass: Pass, done: int, status: int, log: Path) -> CrossNERError:
    """Tell why parts are left: the first problem with the text, else how the processes ended."""
    told = sorted(log.parent.glob("*.problem.json"))
    if told:
        record = json.loads(told[0].read_text(encoding="utf-8"))
        return CrossNERError(record["problem"], hint=record["hint"])
    kept = f"{done} of {len(job.parts)} parts are done and kept: the same command goes on with the others"
    if status == KILLED:
        return UnfinishedError(
            "A process that selected sentences was ended from outside, perhaps for want of memory.",
            hint=f"{kept}. Try again with fewer processes: --workers 1.",
        )
    with log.open(encoding="utf-8", errors="replace") as lines:
        last = deque((line.strip() for line in lines if line.strip()), maxlen=LINES_SHOWN)
    # Where nothing was done nothing is kept, the log neither.
    said = f"What they said: {log}" if done else "What they said last:\n  " + "\n  ".join(last)
    return UnfinishedError(
        f"The processes that selected sentences ended early: {last[-1] if last else f'exit status {status}'}",
        hint=f"{kept}. {said}",
    )
