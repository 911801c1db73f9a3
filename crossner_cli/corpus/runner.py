"""The process that runs datatrove's executors, so that they and all they start end with the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from crossner_cli.corpus.executors import KILLED, Execution
from crossner_cli.corpus.job import Job, Pass
from crossner_cli.corpus.steps import pipeline_of

SECONDS_BETWEEN_LOOKS = float(os.environ.get("CROSSNER_SLURM_SECONDS", "5"))


def main() -> None:
    """Run a pass: the arguments are the job's folder, the pass, and the execution as JSON."""
    folder, of_pass, record = sys.argv[1:]
    given = json.loads(record)
    execution = Execution(**{**given, "slurm_arguments": tuple(given["slurm_arguments"])})
    runner = {"local": _run_local, "slurm": _run_slurm, "ray": _run_ray}[execution.executor]
    runner(Job(Path(folder)), of_pass, execution)  # type: ignore[arg-type]


def _end_with_parent(*first: list[str]) -> None:
    """End this process and all it started when its input is closed, after running some commands."""

    def watch() -> None:
        # Read through sys.stdin, its lock would be held for ever in processes forked from this one.
        while os.read(0, 1):
            pass
        for command in first:
            subprocess.run(command, check=False)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _run_local(job: Job, of_pass: Pass, execution: Execution) -> None:
    from datatrove.executor import LocalPipelineExecutor

    _end_with_parent()
    threading.Thread(target=_end_with_lost_worker, args=(execution.processes,), daemon=True).start()
    LocalPipelineExecutor(
        pipeline_of(job.folder, of_pass), tasks=len(job.parts), workers=min(execution.processes, len(job.parts)),
        logging_dir=str(job.tasks(of_pass)),
    ).run()  # fmt: skip


def _end_with_lost_worker(workers: int) -> None:
    """End where a worker was killed: its pool replaces it, and then waits for its part for ever."""
    import multiprocess

    seen: set[int] = set()
    while True:
        seen |= {each.pid for each in multiprocess.active_children() if "PoolWorker" in each.name}
        if len(seen) > workers:
            os._exit(KILLED)
        time.sleep(0.1)


def _run_ray(job: Job, of_pass: Pass, execution: Execution) -> None:
    import ray
    from datatrove.executor import RayPipelineExecutor

    _end_with_parent()
    is_cluster = "RAY_ADDRESS" in os.environ
    ray.init(**({} if is_cluster else {"num_cpus": execution.processes, "include_dashboard": False}))
    RayPipelineExecutor(
        pipeline_of(job.folder, of_pass), tasks=len(job.parts), workers=execution.processes,
        logging_dir=str(job.tasks(of_pass)), mem_per_cpu_gb=1,
    ).run()  # fmt: skip
    ray.shutdown()


def _run_slurm(job: Job, of_pass: Pass, execution: Execution) -> None:
    from datatrove.executor import SlurmPipelineExecutor

    arguments = {key: value for key, _, value in (each.partition("=") for each in execution.slurm_arguments)}
    executor: Any = SlurmPipelineExecutor(
        pipeline_of(job.folder, of_pass), tasks=len(job.parts), workers=execution.workers or -1,
        time=execution.slurm_time, partition=str(execution.slurm_partition), qos="", sbatch_args=arguments,
        job_name=f"crossner-{of_pass}",
        env_command=f'export PATH="{Path(sys.executable).parent}:$PATH"', logging_dir=str(job.tasks(of_pass)),
        with_srun=False, requeue_signals=None,
    )  # fmt: skip
    # Its summary of all parts would be one more job, and nobody reads it.
    executor.launch_merge_stats = _nothing
    executor.run()
    _end_with_parent(["scancel", str(executor.job_id)])
    while executor.get_incomplete_ranks() and _is_queued(executor.job_id):
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _nothing() -> None:
    return


def _is_queued(job_id: str) -> bool:
    """Whether Slurm still has tasks of a job to run or running."""
    found = subprocess.run(["squeue", "--noheader", "--jobs", job_id], capture_output=True, check=False)
    return found.returncode == 0 and bool(found.stdout.strip())


if __name__ == "__main__":
    main()
