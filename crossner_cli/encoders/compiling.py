"""Layers compiled by PyTorch, for adaptations on a GPU that take longer than the compiling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from crossner_cli.encoders.pretrained import first_line
from crossner_cli.errors import CrossNERError


def compile_layers(model: nn.Module) -> None:
    """Compile the layers of an encoder one by one, except the last, which ``keep_positions`` cuts down.

    PyTorch compiles when it first meets a shape, and all layers then share the result.
    """
    stacks = [each for each in model.modules() if isinstance(each, nn.ModuleList) and len({*map(type, each)}) == 1]
    for layer in list(max(stacks, key=len, default=()))[:-1]:
        layer.compile(dynamic=False)


@contextmanager
def explain_compiler() -> Iterator[None]:
    """Turn an error of PyTorch's compiler into one that says what to do.

    Raises:
        CrossNERError: Layers cannot be compiled on this machine.
    """
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        raise CrossNERError(
            f"--compile: PyTorch cannot compile this encoder here ({first_line(error)}).",
            hint="Install a C compiler and the headers of Python, or leave --compile out.",
        ) from None
