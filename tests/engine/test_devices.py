"""Devices, precision, processes: chosen in one place, wrong wishes answered with a way out."""

import gc
import os
import subprocess
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from crossner_cli.engine.devices import Engine, choose_device, choose_precision, default_threads, start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Finetune


@pytest.mark.parametrize(
    ("wishes", "problem"),
    [
        ({"device": "cuda:x"}, "--device 'cuda:x' is unknown"),
        ({"device": "cuda:3"}, "this machine has 0 cuda devices"),
        ({"gpus": "0,1"}, "this machine has 0 GPUs"),
        ({"gpus": "0,0"}, "is not a list of GPU numbers"),
        ({"device": "cpu", "precision": "fp16"}, "fp16 needs a GPU"),
    ],
)
def test_a_device_that_is_not_there_is_a_known_problem(
    wishes: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(CrossNERError, match=problem) as found:
        start_engine(Finetune(**wishes))  # type: ignore[arg-type]
    assert found.value.hint


def test_auto_takes_bf16_where_the_processor_has_it_and_the_library_may_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for has_it, may_use_it, expected in ((True, True, "bf16"), (True, False, "fp32"), (False, True, "fp32")):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda flag=has_it: flag)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda flag=may_use_it: flag)
        assert choose_precision("auto", "cpu") == expected
        assert choose_precision("fp32", "cpu") == "fp32"


def test_auto_takes_fp32_where_onednn_is_held_to_avx2() -> None:
    code = "from crossner_cli.engine.devices import choose_precision; print(choose_precision('auto', 'cpu'))"
    held = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], env=held, capture_output=True, text=True, check=True)
    assert done.stdout == "fp32\n"


def test_int8_is_for_the_cpu() -> None:
    assert choose_precision("int8", "cpu") == "int8"
    with pytest.raises(CrossNERError, match="--precision int8 needs a CPU, the device is cuda:0"):
        choose_precision("int8", "cuda:0")


def test_one_process_on_a_cpu_with_the_threads_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "meta")  # an earlier engine's
    engine = start_engine(Finetune(device="cpu", precision="fp32", threads=1))
    assert (engine.world, engine.rank, engine.is_main, engine.on_cpu) == (1, 0, True, True)
    assert engine.device.type == "cpu" and torch.get_num_threads() == 1
    assert engine.sum([1.0, 2.0]) == [1.0, 2.0]
    assert engine.gather(["a"]) == ["a"]
    assert engine.describe() == "cpu, 1 thread, fp32"


def test_the_threads_wished_for_hold_unless_a_launcher_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    for wish, threads in (("3", 3), ("2,1", 2), ("", 8), ("many", 8), ("0", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", wish)
        assert default_threads() == threads, wish
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert default_threads() == 2
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "6")
    assert default_threads() == 6, "Slurm has told how many are this process's own"


def test_one_gpu_by_number_is_refused_where_several_processes_were_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert choose_device(Finetune(device="cuda:1")) == "cuda:1"
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert choose_device(Finetune(device="cuda")) == "cuda"
    with pytest.raises(CrossNERError, match="--device cuda:1: 4 processes were started"):
        choose_device(Finetune(device="cuda:1"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_was_trained_is_not_kept_when_the_next_seed_begins(precision: Any) -> None:
    engine = start_engine(Finetune(device="cpu", precision=precision))
    collects = gc.isenabled()
    gc.disable()  # what goes must go without it: it may not run before the memory is full
    try:
        model: torch.nn.Module | None = torch.nn.Linear(2, 2)
        assert model is not None
        before, trained = model(torch.ones(1, 2)), weakref.ref(model)
        prepared = engine.prepare(model, torch.optim.AdamW(model.parameters()))
        engine.release()
        assert not engine.accelerator._models and not engine.accelerator._optimizers
        assert torch.equal(model(torch.ones(1, 2)), before), "it computes as it did"
        again = engine.prepare(model, torch.optim.AdamW(model.parameters()))
        assert ("forward" in vars(model)) == (precision == "bf16"), "and can be trained in the same precision again"
        engine.release()
        del prepared, again
        model = None
        assert trained() is None
    finally:
        if collects:
            gc.enable()


def told_by_the_main_process(monkeypatch: pytest.MonkeyPatch, rank: int, told: list[Any]) -> Engine:
    """An engine of two processes, of which the main one tells the other by a list."""

    def broadcast(values: list[Any]) -> None:
        if rank == 0:
            told[:] = values
        else:
            values[:] = told

    monkeypatch.setattr("accelerate.utils.broadcast_object_list", broadcast)
    return Engine(SimpleNamespace(process_index=rank, num_processes=2, device=torch.device("cpu")), "fp32")


def test_the_main_process_tells_the_others_what_it_worked_out_or_that_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise OSError("no space left")

    def work() -> Any:
        yield "half of it"
        return 7

    told: list[Any] = []
    with pytest.raises(OSError, match="^no space left"):
        told_by_the_main_process(monkeypatch, 0, told).on_main(fail)
    with pytest.raises(CrossNERError, match="The main process failed: OSError: no space left"):
        told_by_the_main_process(monkeypatch, 1, told).on_main(lambda: pytest.fail("only the main process works"))
    assert list(told_by_the_main_process(monkeypatch, 0, told).on_main_with_progress(work())) == []
    assert told[0] == 7
    with pytest.raises(StopIteration) as end:
        next(told_by_the_main_process(monkeypatch, 1, told).on_main_with_progress(work()))
    assert end.value.value == 7
