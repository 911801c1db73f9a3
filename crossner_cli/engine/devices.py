"""Devices, precision and processes: everything that depends on the machine is chosen here.

The engine is Accelerate: CPU, one GPU, several GPUs, several machines, the same code. What differs by device:

====================  ==============================  ==========================================
choice                CPU                             GPU
====================  ==============================  ==========================================
bf16                  where AMX or AVX512-BF16 is,    where the GPU has it
                      and oneDNN may use it
attention kernel      one after the other, softmax    fused where the encoder has it, but
                      in fp32: the fused kernel's     cuDNN's, which is planned again, in
                      backward pass is slow in bf16   0.1 s, for each length of sentence
attention dropout     0, --attention-dropout the       the encoder's
                      encoder's
dropout layers        eight decisions a random draw   PyTorch's
optimiser             fused AdamW                     fused AdamW
subwords read at once 1,024: little padding           16,384
batches of ``dapt``   as they are                     in pinned memory: copied while the GPU works
====================  ==============================  ==========================================
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from crossner_cli.encoders.fast_layers import CPU_ATTENTION
from crossner_cli.engine.processes import parse_gpus, read_slurm_variables
from crossner_cli.errors import CrossNERError
from crossner_cli.option_fields import Compute, OnDevice
from crossner_cli.options import CPU_SUBWORDS, GPU_SUBWORDS
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Work, exhaust
from crossner_cli.run.stage import Stage, StageRequest

Value = TypeVar("Value")
# One process may read, tokenise or score for hours while the others wait; a launcher stops them if it fails.
LONGEST_WAIT = timedelta(days=7)
# Architectures with parameters that get no gradient from reading words or predicting masked ones.
LEAVES_PARAMETERS_OUT = frozenset({"longformer", "led", "xlnet", "luke", "mluke", "big_bird"})
MIXED = {"fp32": "no", "int8": "no", "bf16": "bf16", "fp16": "fp16"}


@dataclass
class Engine:
    """The devices and processes that work together, and their precision: ``fp32``, ``bf16``, ``fp16`` or ``int8``.

    ``rank`` is the number of this process over all machines, ``world`` counts the processes, and the main one writes
    files and prints. ``attention`` is the kernel that is fast here, None transformers' choice for the architecture;
    ``batch_subwords`` are read at once where nothing is trained.
    """

    accelerator: Any
    precision: str

    def __post_init__(self) -> None:
        self.device: torch.device = self.accelerator.device
        self.rank, self.world = int(self.accelerator.process_index), int(self.accelerator.num_processes)
        self.is_main, self.on_cpu = self.rank == 0, self.device.type == "cpu"
        self.attention = CPU_ATTENTION if self.on_cpu else None
        self.batch_subwords = CPU_SUBWORDS if self.on_cpu else GPU_SUBWORDS

    def describe(self) -> str:
        """Describe it in one line for the log."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else str(self.device)
        threads = torch.get_num_threads()
        cores = f", {threads} thread{'s' if threads != 1 else ''}" if self.on_cpu else ""
        processes = f", {self.world} processes" if self.world > 1 else ""
        return f"{name}{cores}, {self.precision}{processes}"

    def autocast(self) -> AbstractContextManager[Any]:
        """Use mixed precision for what runs outside the prepared model."""
        if MIXED[self.precision] == "no":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16 if self.precision == "bf16" else torch.float16)

    def prepare(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Any, Any]:
        """Move a model to its device, and spread it over the processes."""
        if self.world > 1:
            from accelerate import DistributedDataParallelKwargs

            types = {getattr(getattr(part, "config", None), "model_type", "") for part in model.modules()}
            skips = not types.isdisjoint(LEAVES_PARAMETERS_OUT)
            self.accelerator.ddp_handler = DistributedDataParallelKwargs(find_unused_parameters=skips)
        if self.accelerator.scaler is not None:  # each training finds its own scale, after an interruption too
            self.accelerator.scaler = torch.amp.GradScaler(self.device.type)
        prepared = self.accelerator.prepare(model, optimiser)
        return prepared[0], prepared[1]

    def release(self) -> None:
        """Forget what was prepared, which else stays in memory while the next seed is trained.

        Afterwards the model computes in a precision below fp32 inside ``autocast`` only.
        """
        for model in self.accelerator._models:
            bare = getattr(model, "module", model)  # of several processes
            # Methods bound to the model itself, put there for autocast, and the mark that they are there.
            for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
                bare.__dict__.pop(name, None)
        # Accelerate also collects garbage, which takes as long as a small training.
        self.accelerator._models.clear()
        self.accelerator._optimizers.clear()

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Add numbers up over the processes, position by position."""
        if self.world == 1:
            return list(numbers)
        total = torch.tensor(list(numbers), dtype=torch.float64, device=self.device)
        return [float(number) for number in self.accelerator.reduce(total, reduction="sum").tolist()]

    def gather(self, items: list[Value]) -> list[Value]:
        """Join the lists of all processes, in the order of the processes, on every process."""
        if self.world == 1:
            return items
        from accelerate.utils import gather_object

        gathered: list[Value] = gather_object(items)
        return gathered

    def on_main(self, work: Callable[[], Value]) -> Value:
        """Do work on the main process alone and send its result, or its problem, to the others.

        Raises:
            CrossNERError: The problem of the main process, on every process; on the others, any other exception too.
        """
        if self.world == 1:
            return work()
        from accelerate.utils import broadcast_object_list

        sent: list[Any] = [None, "", ""]  # result, problem and way out
        failed: Exception | None = None
        if self.is_main:
            try:
                sent[0] = work()
            except Exception as error:
                failed, sent[1] = error, f"The main process failed: {type(error).__name__}: {error}."
                if isinstance(error, CrossNERError):
                    sent[1:] = error.problem, error.hint
        broadcast_object_list(sent)
        if failed is not None:
            raise failed
        if sent[1]:
            raise CrossNERError(sent[1], hint=sent[2])
        result: Value = sent[0]
        return result

    def on_main_with_progress(self, work: Work[Value]) -> Work[Value]:
        """Do work as ``on_main`` does, with its progress if this is the only process."""
        return (yield from work) if self.world == 1 else self.on_main(lambda: exhaust(work))

    def open_stage(self, run: RunDirectory, request: StageRequest) -> Stage:
        """Open a stage on the main process; the others learn what it found and never lock or write."""
        stage = Stage(run, request)

        def open_it() -> tuple[Manifest | None, bool]:
            stage.open()
            return stage.finished, stage.is_continued

        stage.finished, stage.is_continued = self.on_main(open_it)
        return stage

    def wait(self) -> None:
        """Wait until every process has come this far."""
        self.sum([0.0])  # Accelerate names a GPU by the number of the process, which may see only one

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
    from accelerate import Accelerator, InitProcessGroupKwargs

    read_slurm_variables()
    name = choose_device(options)
    on_cpu = name == "cpu"
    if name.startswith("cuda"):
        if ":" in name:
            torch.cuda.set_device(name)
        elif int(os.environ.get("LOCAL_RANK", 0)) >= torch.cuda.device_count():
            os.environ["LOCAL_RANK"] = "0"  # a launcher that shows each process only its own GPU
        torch.backends.cuda.enable_cudnn_sdp(False)
    precision = choose_precision(options.precision, name)
    reset_accelerate()
    os.environ.pop("ACCELERATE_TORCH_DEVICE", None)  # of an earlier engine
    if not on_cpu and ":" in name:
        os.environ["ACCELERATE_TORCH_DEVICE"] = name
    waits = InitProcessGroupKwargs(timeout=LONGEST_WAIT)
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=MIXED[precision], kwargs_handlers=[waits])
    torch.set_num_threads(options.threads or default_threads())  # Accelerate sets it too, for the whole machine
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


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def default_threads() -> int:
    """Count the cores for this process: its share, if a launcher has put several processes on the machine.

    ``OMP_NUM_THREADS`` counts only without a launcher: torchrun sets it to 1 by itself.
    """
    cores = count_cores()
    if "SLURM_PROCID" in os.environ and (own := os.environ.get("SLURM_CPUS_PER_TASK", "")).isdecimal():
        return max(1, min(int(own), cores))
    launched = os.environ.get("LOCAL_WORLD_SIZE", "1")
    processes = int(launched) if launched.isdecimal() and int(launched) else 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if processes == 1 and wanted.isdecimal() and int(wanted):
        return int(wanted)
    return max(1, cores // processes)


def choose_device(options: OnDevice) -> str:
    """Resolve ``--device`` and ``--gpus`` to one device name; refuse a device that this machine lacks."""
    wanted = options.device
    if options.gpus:
        if wanted not in ("auto", "cuda"):
            raise CrossNERError(f"--gpus and --device {wanted} contradict each other.", hint="Give one of them.")
        first = parse_gpus(options.gpus)[0]
        wanted = "cuda" if "RANK" in os.environ else f"cuda:{first}"
    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (number and (kind != "cuda" or not number.isdecimal())):
        raise CrossNERError(f"--device {wanted!r} is unknown.", hint="Use auto, cpu, cuda, cuda:0 or mps.")
    if number and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise CrossNERError(
            f"--device {wanted}: {os.environ['WORLD_SIZE']} processes were started, and each needs its own GPU.",
            hint="Use --device cuda, or start one process.",
        )
    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[kind]
    if int(number or 0) >= available:
        raise CrossNERError(
            f"--device {wanted}: this machine has {available} {kind} device{'s' if available != 1 else ''}.",
            hint="Use --device auto or --device cpu.",
        )
    return wanted


def choose_precision(wanted: str, device: str) -> str:
    """Resolve ``auto`` to bf16 where the library multiplies it in hardware, else fp32.

    Raises:
        CrossNERError: fp16 on a CPU, where it would be slower and less exact than fp32, or int8 elsewhere.
    """
    if wanted == "int8" and device != "cpu":
        raise CrossNERError(f"--precision int8 needs a CPU, the device is {device}.", hint="Give --device cpu.")
    if wanted == "fp16" and not device.startswith("cuda"):
        raise CrossNERError(f"--precision fp16 needs a GPU, the device is {device}.", hint="Use bf16, fp32 or auto.")
    if wanted != "auto":
        return wanted
    has_bf16 = False
    if device.startswith("cuda"):
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device == "cpu":
        # oneDNN respects ONEDNN_MAX_CPU_ISA, but also says yes where it would emulate bf16 with AVX512.
        in_hardware = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
        has_bf16 = in_hardware and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bf16" if has_bf16 else "fp32"
