"""The process that runs datatrove's executors, so that they and all they start end with the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from crossner_cli.corpus.execution import Execution
from crossner_cli.corpus.job import Job, Pass, process_part

SECONDS_BETWEEN_LOOKS = float(os.environ.get("CROSSNER_SLURM_SECONDS", "5"))


class ProcessPart(PipelineStep):  # type: ignore[misc]
    """A pass over a part of the corpus as a step of datatrove."""

    name, type = "Corpus", "WRITER"

    def __init__(self, folder: Path, of_pass: Pass) -> None:
        super().__init__()
        self.folder, self.of_pass = folder, of_pass

    def run(self, data: Iterator[Document] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Do the part unless it is done."""
        job = Job(self.folder)
        if rank not in job.find_done(self.of_pass):
            for _ in process_part(job, self.of_pass, rank):
                pass
        yield from ()


def main() -> None:
    """Run a pass: the arguments are the job's folder, the pass, and the execution as JSON."""
    folder, of_pass, record = sys.argv[1:]
    given = json.loads(record)
    execution = Execution(**{**given, "slurm_arguments": tuple(given["slurm_arguments"])})
    run = _run_slurm if execution.executor == "slurm" else _run_ray
    run(Job(Path(folder)), of_pass, execution)  # type: ignore[arg-type]


def _settings(job: Job, of_pass: Pass) -> dict[str, Any]:
    return {
        "pipeline": [ProcessPart(job.folder, of_pass)],
        "tasks": len(job.parts),
        "logging_dir": str(job.folder / of_pass / "tasks"),
    }


def _run_ray(job: Job, of_pass: Pass, execution: Execution) -> None:
    import ray
    from datatrove.executor import RayPipelineExecutor

    _end_with_parent()
    is_cluster = "RAY_ADDRESS" in os.environ
    ray.init(**({} if is_cluster else {"num_cpus": execution.processes, "include_dashboard": False}))
    RayPipelineExecutor(**_settings(job, of_pass), workers=execution.processes, mem_per_cpu_gb=1).run()
    ray.shutdown()


def _run_slurm(job: Job, of_pass: Pass, execution: Execution) -> None:
    from datatrove.executor import SlurmPipelineExecutor

    executor: Any = SlurmPipelineExecutor(
        **_settings(job, of_pass),
        workers=execution.workers or -1,
        time=execution.slurm_time,
        partition=str(execution.slurm_partition),
        qos="",
        sbatch_args={key: value for key, _, value in (each.partition("=") for each in execution.slurm_arguments)},
        job_name=f"crossner-{of_pass}",
        env_command=f'export PATH="{Path(sys.executable).parent}:$PATH"',
        with_srun=False,
        requeue_signals=None,
    )
    # Its summary of all parts would be one more job, and nobody reads it.
    executor.launch_merge_stats = lambda: None
    executor.run()
    _end_with_parent("scancel", str(executor.job_id))
    while executor.get_incomplete_ranks() and _is_queued(executor.job_id):
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _is_queued(job_id: str) -> bool:
    """Return whether Slurm still has tasks of a job to run or running."""
    found = subprocess.run(["squeue", "--noheader", "--jobs", job_id], capture_output=True, check=False)
    return found.returncode == 0 and bool(found.stdout.strip())


def _end_with_parent(*first: str) -> None:
    """End this process and all it started when its input is closed, after running a command."""

    def watch() -> None:
        # Read through sys.stdin, its lock would be held for ever in processes forked from this one.
        while os.read(0, 1):
            pass
        if first:
            subprocess.run(first, check=False)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
