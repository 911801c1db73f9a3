"""A device that is not the CPU, for machines that have none: mixing its tensors with the CPU's is an error.

Its tensors say that they are on ``meta``, as PyTorch runs the backward pass of that device without a driver of its own,
and hold their values in memory.
"""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
MOVES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
LENGTHS = (torch.ops.aten._pack_padded_sequence.default,)  # PyTorch wants the lengths on the CPU
# Calls that read values from the device: there the processor waits until all work before them is done.
READS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.is_nonzero.default)
WAITS: list[str] = []


class OnDevice(Tensor):
    """A tensor that says it is on ``DEVICE``, and holds its values on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Self:
        made = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
            requires_grad=held.requires_grad,
        )
        made.held = held
        return made

    def tolist(self) -> Any:
        """The values; PyTorch refuses this for other classes than its own."""
        WAITS.append(caller())
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(function, args, kwargs or {})


class Constructors(TorchFunctionMode):
    """Inside, tensors of Python's numbers can be made on ``DEVICE``, too; PyTorch dispatches that nowhere."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is Tensor.new_tensor and isinstance(args[0], OnDevice):
            return OnDevice(args[0].held.new_tensor(*args[1:], **kwargs))
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            return function(*args, **{**kwargs, "device": "cpu"}).to(kwargs["device"])
        return function(*args, **kwargs)


class OtherDevice(TorchDispatchMode):
    """Inside, tensors can be made on ``DEVICE`` and moved there."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(function, args, kwargs or {})


@contextlib.contextmanager
def on_other_device(module: nn.Module) -> Iterator[list[str]]:
    """Put a module on ``DEVICE``, and yield the list of the functions that made it wait, which grows inside."""
    autocast = torch.autocast

    def of_cpu(kind: str, *args: Any, **kwargs: Any) -> torch.autocast:
        return autocast("cpu" if kind == DEVICE.type else kind, *args, **kwargs)

    WAITS.clear()
    with (
        OtherDevice(),
        Constructors(),
        mock.patch.object(torch, "autocast", of_cpu),
        mock.patch.object(torch, "is_autocast_enabled", lambda *_: False),
    ):
        move(module)
        yield WAITS


def compute(function: Any, args: Any, kwargs: Any) -> Any:
    """Compute where the tensors are; refuse a mixture, and note what waits for the device.

    Raises:
        AssertionError: Some are on ``DEVICE`` and some, that are no single numbers, on the CPU.
    """
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    there = [each for each in tensors if isinstance(each, OnDevice)]
    here = [each for each in tensors if not isinstance(each, OnDevice) and each.dim()]
    if there and here and function not in (*MOVES, *LENGTHS):
        raise AssertionError(f"{function} mixes {DEVICE.type} and the CPU: {[*map(shape_of, tensors)]}")
    wanted = kwargs.get("device")
    goes_there = bool(there) if wanted is None else torch.device(wanted).type == DEVICE.type
    kwargs = kwargs if wanted is None else {**kwargs, "device": torch.device("cpu")}
    stays_there = goes_there and isinstance(args[0], OnDevice)
    if function in READS or (there and function in MOVES and not stays_there):
        WAITS.append(caller())
    function = STANDS_FOR.get(function, function)
    found = function(*tree_map(unwrap, args), **tree_map(unwrap, kwargs))
    if function is torch.ops.aten.copy_.default:
        return args[0]
    known = {id(each.held): each for each in there}
    if function in LENGTHS:
        return wrap(found[0], known), found[1]
    return tree_map(lambda each: wrap(each, known) if goes_there else each, found)


def step_lstm(inputs: Tensor, state: Tensor, cell: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A step of an LSTM, which the CPU has no kernel for; the last tensor is for the backward pass, and not filled."""
    gates = inputs + state + sum(biases)
    entry, forget, new, leave = gates.chunk(4, 1)
    cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell, torch.empty_like(gates)


STANDS_FOR = {torch.ops.aten._thnn_fused_lstm_cell.default: step_lstm}


def caller() -> str:
    """The function of crossner that is at work, as ``crf.sum_paths``; else the outermost one."""
    frames = [frame for frame, _ in traceback.walk_stack(None)]
    own = [frame for frame in frames if "crossner_cli" in frame.f_code.co_filename] or frames[-1:]
    return f"{Path(own[0].f_code.co_filename).stem}.{own[0].f_code.co_name}"


def shape_of(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    """Return the device of a tensor, and its shape."""
    return tensor.device.type, tuple(tensor.shape)


def unwrap(value: Any) -> Any:
    """Return the values of a tensor of the device; anything else as it is."""
    return value.held if isinstance(value, OnDevice) else value


def wrap(value: Any, known: dict[int, OnDevice]) -> Any:
    """A tensor as one of the device; one that was changed in place stays the same object."""
    if not isinstance(value, Tensor) or isinstance(value, OnDevice):
        return value
    return known[id(value)] if id(value) in known else OnDevice(value)


def move(module: nn.Module) -> None:
    """Put the parameters and buffers of a module on the device."""
    moved: dict[int, Tensor] = {}
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                made = moved.setdefault(id(value), nn.Parameter(OnDevice(value.detach()), value.requires_grad))
                part._parameters[name] = made  # type: ignore[assignment]
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = moved.setdefault(id(buffer), OnDevice(buffer))
