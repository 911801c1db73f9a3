"""Devices, precision and processes: everything that depends on where the work runs is chosen here.

The engine is Accelerate: CPU, one GPU, several GPUs, several machines, the same code. What differs by device:

====================  ==============================  ===================================
choice                CPU                             GPU
====================  ==============================  ===================================
bf16                  where AMX or AVX512-BF16 is     where the GPU has it
attention kernel      one after the other, softmax    fused where the encoder has it
                      in fp32: the fused kernel's
                      backward pass is slow in bf16
batches               padded                          packed into one row without padding,
                                                      where FlashAttention runs and the
                                                      encoder is built like BERT
attention dropout     0 while training                0 in packed rows, else the encoder's
dropout layers        eight decisions a random draw   PyTorch's
optimiser             fused AdamW                     fused AdamW
subwords read at once 1,024: little padding           16,384
====================  ==============================  ===================================
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from crossner_cli.errors import CrossNERError
from crossner_cli.fast_encoder import CPU_ATTENTION
from crossner_cli.options import CPU_SUBWORDS, GPU_SUBWORDS, Compute
from crossner_cli.packed_batches import PACKED_ATTENTION, has_packed_kernel
from crossner_cli.run_directory import Manifest, RunDirectory, Stage

Value = TypeVar("Value")
SECONDS_TO_STOP = 10
MIXED = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}


@dataclass
class Engine:
    """Where the work runs.

    Args:
        accelerator: Accelerate's handle on devices and processes.
        precision: ``fp32``, ``bf16`` or ``fp16``, resolved.
    """

    accelerator: Any
    precision: str

    @property
    def device(self) -> torch.device:
        """Device of this process."""
        device: torch.device = self.accelerator.device
        return device

    @property
    def on_cpu(self) -> bool:
        """Whether this process computes on a CPU."""
        return self.device.type == "cpu"

    @property
    def rank(self) -> int:
        """Number of this process, over all machines."""
        return int(self.accelerator.process_index)

    @property
    def world(self) -> int:
        """Processes in all."""
        return int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    @property
    def attention(self) -> str | None:
        """The attention kernel that is fast here; None is transformers' choice for the architecture."""
        if self.on_cpu:
            return CPU_ATTENTION
        return PACKED_ATTENTION if has_packed_kernel(self.device, self.precision) else None

    @property
    def batch_subwords(self) -> int:
        """Subwords to read at once where nothing is trained."""
        return CPU_SUBWORDS if self.on_cpu else GPU_SUBWORDS

    def describe(self) -> str:
        """One line for the log."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else str(self.device)
        threads = torch.get_num_threads()
        cores = f", {threads} thread{'s' if threads != 1 else ''}" if self.on_cpu else ""
        processes = f", {self.world} processes" if self.world > 1 else ""
        return f"{name}{cores}, {self.precision}{processes}"

    def autocast(self) -> AbstractContextManager[Any]:
        """Mixed precision for what runs outside the prepared model."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16 if self.precision == "bf16" else torch.float16)

    def prepare(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Any, Any]:
        """Move a model to its device, and spread it over the processes."""
        prepared = self.accelerator.prepare(model, optimiser)
        return prepared[0], prepared[1]

    def share(self, indices: Sequence[int]) -> Sequence[int]:
        """This process's part of a list of sentences."""
        return indices[self.rank :: self.world]

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Add numbers up over the processes, position by position."""
        if self.world == 1:
            return list(numbers)
        total = torch.tensor(list(numbers), dtype=torch.float64, device=self.device if self._has_float64 else "cpu")
        return [float(number) for number in self.accelerator.reduce(total, reduction="sum").tolist()]

    @property
    def _has_float64(self) -> bool:
        return self.device.type != "mps"

    def gather(self, items: list[Value]) -> list[Value]:
        """Lists of all processes, joined in the order of the processes, on every process."""
        if self.world == 1:
            return items
        from accelerate.utils import gather_object

        gathered: list[Value] = gather_object(items)
        return gathered

    def first(self, work: Callable[[], Value]) -> Value:
        """Do something on the main process alone and tell the others its result, or its problem.

        Raises:
            CrossNERError: What the main process raised, on every process.
        """
        if self.world == 1:
            return work()
        from accelerate.utils import broadcast_object_list

        told: list[Any] = [None, None]
        if self.is_main:
            try:
                told[0] = work()
            except CrossNERError as error:
                told[1] = (error.problem, error.hint)
        broadcast_object_list(told)
        if told[1] is not None:
            raise CrossNERError(told[1][0], hint=told[1][1])
        result: Value = told[0]
        return result

    def open_stage(self, run: RunDirectory, command: str, options: Compute, inputs: Mapping[str, str]) -> Stage:
        """Open a stage on the main process; the others learn what it found and never lock or write.

        Raises:
            CrossNERError: As ``RunDirectory.open_stage``, on every process.
        """
        stage = Stage(run, command, options, dict(inputs))

        def open_it() -> tuple[Manifest | None, bool]:
            stage.open()
            return stage.finished, stage.is_continued

        stage.finished, stage.is_continued = self.first(open_it)
        return stage

    def wait(self) -> None:
        """Let every process come this far."""
        self.accelerator.wait_for_everyone()

    def clip(self, parameters: list[nn.Parameter], largest: float) -> Tensor | None:
        """Scale gradients down to a norm of at most ``largest``; 0 leaves them."""
        if largest <= 0:
            return None
        norm: Tensor = self.accelerator.clip_grad_norm_(parameters, largest)
        return norm


def start_engine(options: Compute) -> Engine:
    """Choose device, threads and precision, and join the processes of a launcher.

    Raises:
        CrossNERError: The device does not exist here, or lacks the precision.
    """
    from accelerate import Accelerator

    read_slurm_variables()
    torch.set_num_threads(options.threads or default_threads())
    name = choose_device(options)
    on_cpu = name == "cpu"
    precision = choose_precision(options.precision, name)
    if name.startswith("cuda") and ":" in name:
        torch.cuda.set_device(name)
    reset_accelerate()
    if not on_cpu and ":" in name:
        os.environ["ACCELERATE_TORCH_DEVICE"] = name
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=MIXED[precision])
    torch.manual_seed(options.seed)
    return Engine(accelerator, precision)


def reset_accelerate() -> None:
    """Forget the device of an earlier engine of this Python process; a process group that is up stays."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    if PartialState._shared_state and PartialState().num_processes > 1:
        AcceleratorState._reset_state()
        return
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def default_threads() -> int:
    """Cores this process may use: its share, where a launcher has put several processes on the machine.

    ``OMP_NUM_THREADS`` is a person's wish only without a launcher: torchrun sets it to 1 by itself.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    told = os.environ.get("LOCAL_WORLD_SIZE", "1")
    processes = int(told) if told.isdecimal() and int(told) else 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if processes == 1 and wanted.isdecimal() and int(wanted):
        return int(wanted)
    return max(1, cores // processes)


def choose_device(options: Compute) -> str:
    """Resolve ``--device`` and ``--gpus`` to one device name for this process.

    Raises:
        CrossNERError: The device is unknown or not in this machine.
    """
    wanted = options.device
    if options.gpus:
        numbers = parse_gpus(options.gpus)
        if wanted not in ("auto", "cuda"):
            raise CrossNERError(
                f"--gpus {options.gpus} and --device {wanted} contradict each other.", hint="Give one of them."
            )
        wanted = "cuda" if "RANK" in os.environ else f"cuda:{numbers[0]}"
    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (number and (kind != "cuda" or not number.isdecimal())):
        raise CrossNERError(f"--device {wanted!r} is unknown.", hint="Use auto, cpu, cuda, cuda:0 or mps.")
    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[kind]
    if int(number or 0) >= available:
        raise CrossNERError(
            f"--device {wanted}: this machine has {available} {kind} device{'s' if available != 1 else ''}.",
            hint="Use --device auto or --device cpu.",
        )
    return wanted


def choose_precision(wanted: str, device: str) -> str:
    """Resolve ``auto`` to bf16 where the device has it in hardware, else fp32.

    Raises:
        CrossNERError: fp16 on a CPU, where it would be slower and less exact than fp32.
    """
    if wanted == "auto":
        return "bf16" if has_bf16(device) else "fp32"
    if wanted == "fp16" and not device.startswith("cuda"):
        raise CrossNERError(f"--precision fp16 needs a GPU, the device is {device}.", hint="Use bf16, fp32 or auto.")
    return wanted


def has_bf16(device: str) -> bool:
    """Whether a device multiplies bf16 matrices in hardware."""
    if device.startswith("cuda"):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device == "cpu":
        # PyTorch's own flags cover x86; the ones for AMX and AVX512-BF16 are what its matrix library asks for.
        checks = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
        return any(bool(getattr(torch.cpu, check, bool)()) for check in checks)
    return False


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
        "CUDA_VISIBLE_DEVICES": ",".join(names), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    command = [sys.executable, "-m", "crossner_cli", *argv]
    return wait_for_all([
        subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(count)
    ])  # fmt: skip


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
    slurm.setdefault("MASTER_ADDR", slurm["SLURM_LAUNCH_NODE_IPADDR"])
    slurm.setdefault("MASTER_PORT", str(20000 + int(slurm.get("SLURM_JOB_ID", "0")) % 20000))
