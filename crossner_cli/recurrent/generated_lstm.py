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

from crossner_cli.recurrent.bilstm import is_faster_mirrored, run_mirrored, run_packed

# Generated weights are not where cuDNN needs them: it copies 1 MB per call and warns.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk of memory")


class ParameterGenerator(nn.Module):
    """Generates the parameters of a network for each pair of a domain and a task.

    W is kept in one tensor for each tensor it generates: C's allocator reuses freed blocks of up to 32 MB and asks the
    system for larger ones, whose pages cost ten times as much as writing a gradient into them.

    Args:
        bound: W starts uniform between minus this and this; the generated parameters have the same variance.
        domain_size: Size of their vectors I^D, U; 0 gives all domains the same vector, the number 1.
        task_size: Size of their vectors I^T, V; 0 likewise.

    Attributes:
        rate_share: Share of the learning rate that W takes under Adam. Adam moves each number of W by about the rate
            however small its gradient, and so the generated parameters by the rate times |I^T|_1 |I^D|_1, which is 6 in
            the mean for U = V = 8. Under the SGD of the papers the factor is |I^T|^2 |I^D|^2, 1 in the mean. Divided by
            the sum, the generated parameters take steps of the size of any other layer's.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        bound: float,
        *,
        domains: int = 1,
        domain_size: int = 0,
        tasks: int = 1,
        task_size: int = 0,
    ) -> None:
        super().__init__()
        sizes = (max(1, task_size), max(1, domain_size))
        self.weights = nn.ParameterList(torch.empty(*shape, *sizes).uniform_(-bound, bound) for shape in shapes)
        self.domain_vectors = make_vectors(domains, domain_size)
        self.task_vectors = make_vectors(tasks, task_size)
        self.rate_share = 1 / (mean_absolute_sum(task_size) * mean_absolute_sum(domain_size))
        self._generated: dict[tuple[int, int], tuple[object, list[Tensor]]] = {}
        self._shared: dict[tuple[int, int], list[Tensor]] | None = None

    def forward(self, domain: int, task: int) -> list[Tensor]:
        """Generate the tensors. Without a gradient, return those of the last call if nothing has changed."""
        domain, task = domain if len(self.domain_vectors) > 1 else 0, task if len(self.task_vectors) > 1 else 0
        if self._shared is not None and torch.is_grad_enabled():
            if not self._shared:
                pairs = [(d, t) for d in range(len(self.domain_vectors)) for t in range(len(self.task_vectors))]
                with torch.no_grad():
                    every = self._generate(pairs)
                for pair, values in zip(pairs, every, strict=True):
                    self._shared[pair] = [value.requires_grad_() for value in values]
            return self._shared[domain, task]
        if self.training or torch.is_grad_enabled():
            self._generated.clear()
            return self._generate([(domain, task)])[0]
        state = [(value.data_ptr(), value._version) for value in self.parameters()]
        known, generated = self._generated.get((domain, task), (None, []))
        if known != state:
            (generated,) = self._generate([(domain, task)])
            self._generated[domain, task] = (state, generated)
        return generated

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Generate the parameters of all pairs once, for all forward and backward passes inside.

        At the end, the gradients of W and of the vectors are computed in one product each, instead of adding up one as
        large as W for every pass.
        """
        self._generated.clear()  # a fused optimiser changes W without a new version
        self._shared = {}
        try:
            yield
            self._add_gradients(self._shared)
        finally:
            self._shared = None

    def _add_gradients(self, shared: Mapping[tuple[int, int], Sequence[Tensor]]) -> None:
        """Turn the gradients of the generated tensors into those of W and of the vectors."""
        read = {pair: values for pair, values in shared.items() if all(value.grad is not None for value in values)}
        if not read:
            return
        both = self._both(list(read))
        d_both = torch.zeros_like(both)
        for place, weight in enumerate(self.weights):
            gradients = (values[place].grad for values in read.values())
            d_generated = torch.stack([value.flatten() for value in gradients if value is not None])  # (K, P)
            d_both += d_generated @ weight.detach().view(-1, both.shape[1])
            d_weight = (d_generated.T @ both.detach()).view_as(weight)
            weight.grad = d_weight if weight.grad is None else weight.grad.add_(d_weight)
        if both.requires_grad:
            torch.autograd.backward(both, d_both)

    def _both(self, pairs: Sequence[tuple[int, int]]) -> Tensor:
        """Return all products I^T[v] I^D[u] of K pairs of domain and task, (K, V U)."""
        products = (torch.outer(self.task_vectors[task], self.domain_vectors[domain]) for domain, task in pairs)
        return torch.stack([product.flatten() for product in products])

    def _generate(self, pairs: Sequence[tuple[int, int]]) -> list[list[Tensor]]:
        """Generate the tensors of each of K pairs.

        One product of W, (P, V U), with all I^T[v] I^D[u], (V U, K): its cost is reading W, once for all pairs.
        """
        both = self._both(pairs)
        every = [(weight.view(-1, both.shape[1]) @ both.T).T.contiguous() for weight in self.weights]  # (K, P) each
        shapes = [weight.shape[:-2] for weight in self.weights]
        return [[value[k].view(shape) for value, shape in zip(every, shapes, strict=True)] for k in range(len(pairs))]


def make_vectors(count: int, size: int) -> Tensor:
    """Make trainable vectors, (count, size), of mean squared length 1; without a size, the constant 1."""
    if not size:
        return nn.Buffer(torch.ones(1, 1), persistent=False)
    bound = math.sqrt(3 / size)
    return nn.Parameter(torch.empty(count, size).uniform_(-bound, bound))


def mean_absolute_sum(size: int) -> float:
    """Return the mean sum of absolute values of a vector of ``make_vectors``: sqrt(3 size) / 2."""
    return math.sqrt(3 * size) / 2 if size else 1.0


def lstm_shapes(width: int, hidden: int) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors of a bidirectional LSTM layer, in the order of ``nn.LSTM``.

    For each direction, forward first: weights of the input and of the state, then their biases. Rows are those of the
    gates i, f, g, o.
    """
    return [(4 * hidden, width), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)] * 2


class GeneratedBiLSTM(nn.Module):
    """A ``BiLSTM`` of one layer with its own parameters for each pair of a domain and a task. In fp32.

    Args:
        hidden: Units of one direction, H.
        sizes: Numbers and sizes of domains and tasks, as of ``ParameterGenerator``.
    """

    def __init__(self, width: int, hidden: int, **sizes: int) -> None:
        super().__init__()
        self.generator = ParameterGenerator(lstm_shapes(width, hidden), hidden**-0.5, **sizes)
        self.output_dim = 2 * hidden

    def forward(self, values: Tensor, mask: Tensor, domain: int = 0, task: int = 0) -> Tensor:
        """Read sentences of a domain for a task.

        Args:
            values: One vector per word, (B, W, D).
            mask: True at words, (B, W); every sentence has at least one, padding comes last.

        Returns:
            One vector per word, (B, W, 2 H), the forward half first; zeros at padding.
        """
        with torch.autocast(values.device.type, enabled=False):
            return run_bilstm(self.generator(domain, task), values.float(), mask)


def run_bilstm(parameters: Sequence[Tensor], values: Tensor, mask: Tensor) -> Tensor:
    """Run a bidirectional LSTM of one layer, fused.

    Args:
        parameters: Tensors in the order of ``lstm_shapes``.
        values: One vector per word, (B, W, D).
        mask: True at words, (B, W); every sentence has at least one, padding comes last.

    Returns:
        One vector per word, (B, W, 2 H); zeros at padding.
    """
    if is_faster_mirrored(values, mask):
        return run_mirrored(parameters, values, mask)
    start = values.new_zeros(2, len(values), parameters[1].shape[1])  # of both directions

    def read(packed: PackedSequence) -> PackedSequence:
        # Has biases, layers, dropout, training, bidirectional.
        settings = (True, 1, 0.0, torch.is_grad_enabled(), True)
        states, _, _ = torch.lstm(packed.data, packed.batch_sizes, (start, start), list(parameters), *settings)
        return PackedSequence(states, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)

    return run_packed(read, values, mask)
