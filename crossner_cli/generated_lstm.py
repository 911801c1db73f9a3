"""LSTMs whose parameters are generated from vectors of the domain and of the task.

Source: the parameter generation network of Jia, Liang and Zhang (2019), cross-domain NER using cross-domain language
modelling: theta = W (x) I^D (x) I^T, that is theta_p = sum_vu W[p, v, u] I^T[v] I^D[u].
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from crossner_cli.layers import run_mirrored, run_packed, trains_faster_mirrored

# What is generated anew cannot lie where cuDNN wants it: it copies 1 MB a call and says so.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk of memory")


class ParameterGenerator(nn.Module):
    """The parameters of a network for each pair of a domain and a task.

    W is kept in one tensor for each tensor it generates: C's allocator keeps blocks of up to 32 MB that are freed and
    asks the system for larger ones, whose pages cost ten times what it takes to write a gradient into them.

    Args:
        shapes: Of the tensors to generate.
        bound: W starts uniform between minus this and this; so do, all in all, the generated parameters.
        domains: How many there are.
        domain_size: Of their vectors I^D, U; 0 makes them all the number 1.
        tasks: How many there are.
        task_size: Of their vectors I^T, V; 0 likewise.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], bound: float, *,
        domains: int = 1, domain_size: int = 0, tasks: int = 1, task_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (max(1, task_size), max(1, domain_size))
        self.weights = nn.ParameterList(torch.empty(*shape, *sizes).uniform_(-bound, bound) for shape in shapes)
        self.domain_vectors = make_vectors(domains, domain_size)
        self.task_vectors = make_vectors(tasks, task_size)
        self._generated: dict[tuple[int, int], tuple[object, list[Tensor]]] = {}
        self._shared: dict[tuple[int, int], list[Tensor]] | None = None

    def forward(self, domain: int, task: int) -> list[Tensor]:
        """The generated tensors; without a gradient and in evaluation those of the last call, if nothing changed."""
        if self._shared is not None and torch.is_grad_enabled():
            if (domain, task) not in self._shared:
                with torch.no_grad():
                    generated = self._generate(domain, task)
                self._shared[domain, task] = [value.requires_grad_() for value in generated]
            return self._shared[domain, task]
        if self.training or torch.is_grad_enabled():
            self._generated.clear()
            return self._generate(domain, task)
        state = [(value.data_ptr(), value._version) for value in self.parameters()]
        known, generated = self._generated.get((domain, task), (None, []))
        if known != state:
            generated = self._generate(domain, task)
            self._generated[domain, task] = (state, generated)
        return generated

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Generate for each pair once, whatever forward and backward passes are made inside.

        The gradients of W and of the vectors are there on leaving: those of all pairs in one product each, instead of
        one that is as large as W for every pass, which would then be added up.
        """
        self._generated.clear()  # a fused optimiser changes W without telling
        self._shared = {}
        try:
            yield
            self._add_gradients(self._shared)
        finally:
            self._shared = None

    def _add_gradients(self, shared: Mapping[tuple[int, int], Sequence[Tensor]]) -> None:
        """From the gradients of what was generated to those of what it was generated from."""
        read = {pair: values for pair, values in shared.items() if all(value.grad is not None for value in values)}
        if not read:
            return
        both = torch.stack([self._both(*pair) for pair in read])  # (K, V U), of K pairs
        d_both = torch.zeros_like(both)
        for place, weight in enumerate(self.weights):
            gradients = (values[place].grad for values in read.values())
            d_generated = torch.stack([value.flatten() for value in gradients if value is not None])  # (K, P)
            d_both += d_generated @ weight.detach().view(-1, both.shape[1])
            d_weight = (d_generated.T @ both.detach()).view_as(weight)
            weight.grad = d_weight if weight.grad is None else weight.grad.add_(d_weight)
        if both.requires_grad:
            torch.autograd.backward(both, d_both)

    def _both(self, domain: int, task: int) -> Tensor:
        """All I^T[v] I^D[u], (V U,)."""
        return torch.outer(self.task_vectors[task], self.domain_vectors[domain]).flatten()

    def _generate(self, domain: int, task: int) -> list[Tensor]:
        """One product of W, (P, V U), with all I^T[v] I^D[u]: its gradient of W is one outer product."""
        both = self._both(domain, task)
        return [(weight.view(-1, len(both)) @ both).view(weight.shape[:-2]) for weight in self.weights]


def make_vectors(count: int, size: int) -> Tensor:
    """Vectors to learn, (count, size), whose squared length is 1 in the mean; without a size, ones that stay so."""
    if not size:
        return nn.Buffer(torch.ones(count, 1), persistent=False)
    bound = math.sqrt(3 / size)
    return nn.Parameter(torch.empty(count, size).uniform_(-bound, bound))


def lstm_shapes(width: int, hidden: int) -> list[tuple[int, ...]]:
    """Shapes of the tensors of a bidirectional LSTM layer, as ``nn.LSTM`` orders them.

    Of each direction, forward first: weights of the input and of the state, then their biases. Their rows are those of
    the gates i, f, g, o.
    """
    return [(4 * hidden, width), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)] * 2


class GeneratedBiLSTM(nn.Module):
    """A ``layers.BiLSTM`` of one layer with other parameters for each pair of a domain and a task. In fp32.

    Args:
        width: Of the vectors read.
        hidden: Units of one direction, H.
        domains: How many there are.
        domain_size: Of their vectors; 0 for the same parameters in all domains.
        tasks: How many there are.
        task_size: Of their vectors; 0 for the same parameters in all tasks.
    """

    def __init__(
        self, width: int, hidden: int, *, domains: int = 1, domain_size: int = 0, tasks: int = 1, task_size: int = 0
    ) -> None:
        super().__init__()
        self.generator = ParameterGenerator(
            lstm_shapes(width, hidden), hidden**-0.5,
            domains=domains, domain_size=domain_size, tasks=tasks, task_size=task_size,
        )  # fmt: skip
        self.output_dim = 2 * hidden

    def forward(self, values: Tensor, mask: Tensor, domain: int = 0, task: int = 0) -> Tensor:
        """Read sentences of a domain for a task.

        Args:
            values: One vector a word, (B, W, D).
            mask: Where a word is, (B, W); every sentence has at least one, padding stands behind.
            domain: Its number.
            task: Its number.

        Returns:
            One vector a word, (B, W, 2 H), the forward half first; zeros where no word is.
        """
        with torch.autocast(values.device.type, enabled=False):
            return run_bilstm(self.generator(domain, task), values.float(), mask)


def run_bilstm(parameters: Sequence[Tensor], values: Tensor, mask: Tensor) -> Tensor:
    """Run a bidirectional LSTM of one layer, fused.

    Args:
        parameters: Tensors in the order of ``lstm_shapes``.
        values: One vector a word, (B, W, D).
        mask: Where a word is, (B, W); every sentence has at least one, padding stands behind.

    Returns:
        One vector a word, (B, W, 2 H); zeros where no word is.
    """
    if trains_faster_mirrored(values, mask):
        return run_mirrored(parameters, values, mask)
    start = values.new_zeros(2, len(values), parameters[1].shape[1])  # of both directions

    def read(packed: PackedSequence) -> PackedSequence:
        states, _, _ = torch.lstm(
            packed.data, packed.batch_sizes, (start, start), list(parameters), True, 1, 0.0, torch.is_grad_enabled(),
            True,
        )  # has biases, layers, dropout, for training, bidirectional  # fmt: skip
        return PackedSequence(states, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)

    return run_packed(read, values, mask)
