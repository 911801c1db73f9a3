"""The steps of the multi-cell LSTM, forward and backward, without autograd.

A step has four matrix products, whatever the number of cells, both directions side by side. The words' share of the
largest is computed before all steps at once, and the gradients of the weights and of the words after them. The rest is
elementwise and done in few passes over buffers that stay in the cache. Any tanh x is 2 sigmoid(2x) - 1: PyTorch's
sigmoid takes a fifth of the time of its tanh on some CPUs. A step is many small operations, so what autograd adds to
each of them would count.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

DIRECTIONS = 2  # forward, backward
# Within it autograd and its versions of tensors are left out: an operation is its kernel alone.
BelowAutograd = torch._C._AutoDispatchBelowAutograd
Shapes = tuple[tuple[int, ...], ...]
sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # gradient * y * (1 - y)
tanh_backward = torch.ops.aten.tanh_backward.grad_input  # gradient * (1 - y * y)


def take_rows(rows: Tensor, places: Tensor) -> Tensor:
    """Rows, (N, ...), at places of any shape."""
    return rows.flatten(1).index_select(0, places.flatten()).view(*places.shape, *rows.shape[1:])


class Columns(NamedTuple):
    """Columns of a (..., G) tensor, G = (2 l + 3) H, as views.

    Args:
        enter: i_k, (..., l, H).
        keep: i of the compositional cell, (..., H).
        show: o, (..., H).
        candidates: Candidates of the entity type cells, (..., l, H).
        composed: Candidate of the compositional cell, (..., H).
    """

    enter: Tensor
    keep: Tensor
    show: Tensor
    candidates: Tensor
    composed: Tensor


def split_columns(columns: Tensor, count: int) -> Columns:
    """Name the columns, with ``count`` entity type cells: first those of a sigmoid, then those of tanh."""
    size = columns.shape[-1] // (2 * count + 3)
    sizes = [count * size, size, size, count * size, size]
    enter, keep, show, candidates, composed = torch.split(columns, sizes, dim=-1)
    by_cell = (*columns.shape[:-1], count, size)
    return Columns(enter.view(by_cell), keep, show, candidates.view(by_cell), composed)


def tanh_columns(columns: Tensor, count: int) -> Tensor:
    """The columns that go through tanh, as a view."""
    return columns[..., -(count + 1) * (columns.shape[-1] // (2 * count + 3)) :]


class Attention(NamedTuple):
    """Weights of the attention of the compositional cell over the entity type cells.

    Args:
        query: P, (2, H, 2 H).
        key: Q, (2, H, 2 H).
        score: v, (2, 2 H).
    """

    query: Tensor
    key: Tensor
    score: Tensor


class StepRecord(NamedTuple):
    """Tensors that the backward pass needs, of all steps, (2, W, B, ...), or of one, (2, B, ...).

    The first five have the precision of products.

    Args:
        read: [h; w; 1], (..., H + d + 1).
        active: Gates and candidates, (..., G).
        composed: c~~, (..., H), a second time: contiguous, as a product over all steps wants it.
        contents: c_k, (..., l, H).
        compared: Sigmoid of 2 (P c~~ + Q c_k), (..., l, 2 H).
        alpha: Attention, (..., l).
        mixture: Sum of alpha_k c_k, (..., H).
        memory_before: c before the step, (..., H).
        tanh_memory: tanh of c after it, (..., H).
    """

    read: Tensor
    active: Tensor
    composed: Tensor
    contents: Tensor
    compared: Tensor
    alpha: Tensor
    mixture: Tensor
    memory_before: Tensor
    tanh_memory: Tensor

    @classmethod
    def empty(cls, words: Tensor, size: int, count: int, products: torch.dtype) -> StepRecord:
        """Room for the steps of sentences, (B, W, d)."""
        batch, steps, width = words.shape
        columns = (2 * count + 3) * size
        multiplied: Shapes = ((size + width + 1,), (columns,), (size,), (count, size), (count, 2 * size))
        others: Shapes = ((count,), (size,), (size,), (size,))
        return cls(
            # Directions apart, as the products over all steps read them.
            *(words.new_empty(DIRECTIONS, steps, batch, *shape, dtype=products) for shape in multiplied),
            *empty_by_step(words, others),
        )

    def steps(self) -> Iterator[StepRecord]:
        """Views of each step."""
        return map(StepRecord._make, zip(*by_step(*self), strict=True))


def empty_by_step(words: Tensor, shapes: Shapes) -> Iterator[Tensor]:
    """Room for (2, W, B, ...) of each shape, for sentences, (B, W, d); each step is contiguous."""
    batch, steps, _ = words.shape
    return (words.new_empty(steps, DIRECTIONS, batch, *shape).transpose(0, 1) for shape in shapes)


def by_step(*values: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Views of each step, (2, B, ...), of each tensor of all steps, (2, W, B, ...)."""
    return (value.unbind(1) for value in values)


class Recurrence(torch.autograd.Function):
    """Words, (B, W, d), to h, (2, W, B, H), I, (2, W, B, l), and c_k, (2, W, B, l, H), of each step."""

    @staticmethod
    def forward(
        context: Any,
        words: Tensor,
        weight: Tensor,
        query: Tensor,
        key: Tensor,
        score: Tensor,
        places: Tensor,
        count: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read the words of both directions.

        Args:
            words: Vectors of the words, (B, W, d).
            weight: Weight of [h; w; 1], (2, H + d + 1, G), in the precision of products.
            query: P, (2, H, 2 H).
            key: Q, (2, H, 2 H).
            score: v, (2, 2 H).
            places: Rows of a flattened (B, W) that each step reads, (2, W, B).
            count: Entity type cells, l.
        """
        record = StepRecord.empty(words, query.shape[1], count, weight.dtype)
        with BelowAutograd():
            found = run_forward(record, words, weight, Attention(query, key, score), places)
        context.save_for_backward(*record, weight, query, key, score, places)
        return found

    @staticmethod
    @once_differentiable
    def backward(context: Any, d_hidden: Tensor, d_scores: Tensor, d_contents: Tensor) -> tuple[Tensor | None, ...]:
        """Steps in reverse; products that only the weights need are left for the end, all steps at once."""
        *saved, weight, query, key, score, places = context.saved_tensors
        with torch.autocast(d_hidden.device.type, enabled=False), BelowAutograd():
            record, size, found = StepRecord(*saved), query.shape[1], None
            attention = Attention(query, key, score)
            d_sums, *of_weights = run_backward(record, weight[:, :size], attention, d_hidden, d_scores, d_contents)
            if context.needs_input_grad[0]:
                of_words = weight[:, size:-1].transpose(1, 2).contiguous()
                d_words = torch.bmm(d_sums.flatten(1, 2), of_words).flatten(0, 1)
                found = score.new_zeros(places[0].numel(), d_words.shape[1])
                found.index_add_(0, places.flatten(), d_words.to(score.dtype))  # each word was read twice
                found = found.view(places.shape[2], places.shape[1], -1)
        return found, *of_weights, None, None


def run_forward(
    record: StepRecord, words: Tensor, weight: Tensor, attention: Attention, places: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute h, I and c_k of each step, one after another, and fill ``record``."""
    batch, count, size, columns = len(words), *record.contents.shape[3:], weight.shape[2]
    products, score = weight.dtype, attention.score
    record.read[..., size:-1], record.read[..., -1] = take_rows(words.to(products).flatten(0, 1), places), 1
    doubled = weight.clone()
    tanh_columns(doubled, count).mul_(2)
    # The words' share of all steps; each step adds its state's share and writes the result in its place.
    torch.bmm(record.read[..., size:].flatten(1, 2), doubled[:, size:], out=record.active.view(DIRECTIONS, -1, columns))
    of_state = doubled[:, :size].contiguous()
    query2, key2, score2 = 2 * attention.query, (2 * attention.key).to(products), 2 * score[:, None, None]
    minus_one, two = score.new_tensor(-1), score.new_tensor(2)
    hidden, scores, contents = empty_by_step(words, ((size,), (count,), (count, size)))
    # Buffers that every step uses again.
    gates, compared, queries, state, memory = (
        words.new_zeros(DIRECTIONS, batch, *shape)
        for shape in ((columns,), (count, 2 * size), (2 * size,), (size,), (size,))  # the last are h and c
    )
    now, now_tanh = split_columns(gates, count), tanh_columns(gates, count)
    memory_of_all, queries_of_all = memory[:, :, None], queries[:, :, None]  # the same for all cells
    rows = (value.flatten(2, 3) for value in (record.contents, record.compared))  # one row per cell and sentence
    for step, h_before, cell_rows, compared_rows, h, c_k, scores_now in zip(
        record.steps(), *by_step(record.read[..., :size], *rows, hidden, contents, scores), strict=True
    ):
        step.memory_before.copy_(memory)
        gates.copy_(step.active.baddbmm_(h_before.copy_(state), of_state)).sigmoid_()
        torch.add(minus_one, now_tanh, alpha=2, out=now_tanh)
        step.active.copy_(gates)
        # Entity type cells.
        torch.lerp(memory_of_all, now.candidates, now.enter, out=c_k)
        # Attention.
        torch.bmm(now.composed, query2, out=queries)  # too small for bf16 to save anything
        step.contents.copy_(c_k)
        step.composed.copy_(now.composed)
        torch.bmm(cell_rows, key2, out=compared_rows)
        compared.copy_(step.compared).add_(queries_of_all).sigmoid_()
        step.compared.copy_(compared)
        torch.softmax(torch.sum(compared.mul_(score2), dim=-1, out=scores_now), dim=-1, out=step.alpha)
        torch.bmm(step.alpha.view(-1, 1, count), c_k.flatten(0, 1), out=step.mixture.view(-1, 1, size))
        # Compositional cell.
        torch.lerp(memory, step.mixture, now.keep, out=memory)
        torch.mul(memory, two, out=step.tanh_memory).sigmoid_()
        torch.add(minus_one, step.tanh_memory, alpha=2, out=step.tanh_memory)
        state = torch.mul(step.tanh_memory, now.show, out=h)
    # The rest of v tanh(.) = 2 v sigmoid(2 .) - v is the same for all cells.
    return hidden, scores.sub_(score.sum(dim=1)[:, None, None, None]), contents


class Gradients(NamedTuple):
    """Gradients of products over all steps, (2, W, B, ...), over 4 v for those of the attention.

    Args:
        sums: Gradient of the sums that go through sigmoid and tanh, (..., G).
        queries: Gradient of P c~~, (..., 2 H).
        compared: Gradient of Q c_k, (..., l, 2 H).
        attended: Gradient of I, (..., l).
    """

    sums: Tensor
    queries: Tensor
    compared: Tensor
    attended: Tensor


def run_backward(
    record: StepRecord, weight: Tensor, attention: Attention, d_hidden: Tensor, d_scores: Tensor, d_contents: Tensor
) -> tuple[Tensor, ...]:
    """Compute the gradients of the sums of each step, (2, W, B, G), of the weight, P, Q and v.

    Args:
        record: The tensors of all steps.
        weight: Rows of h, (2, H, G).
        attention: P, Q, v.
        d_hidden: Gradient of h of each step, (2, W, B, H).
        d_scores: Gradient of I, (2, W, B, l).
        d_contents: Gradient of c_k, (2, W, B, l, H).
    """
    products, dtype, score = weight.dtype, attention.score.dtype, attention.score
    _, steps, batch, count, size = record.contents.shape
    # v, and 4 of the slope of tanh x = 2 sigmoid(2x) - 1, are multiplied into the weights of the next products.
    weight_back = weight.contiguous().transpose(1, 2)
    query_back, key_back = ((4 * score[:, None] * value).transpose(1, 2) for value in attention[:2])
    key_back = key_back.to(products)
    d_queries = record.read.new_empty(DIRECTIONS, steps, batch, 2 * size)
    found = Gradients(torch.empty_like(record.active), d_queries, torch.empty_like(record.compared), d_scores.clone())
    # Buffers that every step uses again.
    new, low = (partial(weight.new_empty, dtype=dtype) for dtype in (dtype, products))
    gates, slope = new(DIRECTIONS, batch, weight.shape[2]), new(DIRECTIONS, batch, count, 2 * size)
    d_cells, through, apart = (new(DIRECTIONS, batch, count, size) for _ in range(3))
    d_state, d_memory, d_mixture, d_composed, change = (score.new_zeros(DIRECTIONS, batch, size) for _ in range(5))
    d_compared, d_told = new(DIRECTIONS, batch, 2 * size), low(DIRECTIONS, batch * count, size)
    d_back = low(DIRECTIONS, batch, size)
    now, d_mixture_of_each = split_columns(gates, count), d_mixture[:, :, None]  # gradients replace their gates
    each_step = [*zip(record.steps(), *by_step(d_hidden, d_contents, *found), strict=True)]
    for step, d_h, d_c_k, d_sum, d_query, d_like, d_score in reversed(each_step):
        gates.copy_(step.active)
        cells = through.copy_(step.contents)
        # Compositional cell.
        d_state.add_(d_h)
        torch.mul(d_state, now.show, out=change)
        d_memory.add_(tanh_backward(change, step.tanh_memory, grad_input=change))
        sigmoid_backward(d_state.mul_(step.tanh_memory), now.show, grad_input=now.show)
        torch.mul(d_memory, now.keep, out=d_mixture)
        torch.sub(step.mixture, step.memory_before, out=change)
        sigmoid_backward(change.mul_(d_memory), now.keep, grad_input=now.keep)
        d_memory.sub_(d_mixture)
        # Attention.
        torch.sub(cells, step.memory_before[:, :, None], out=apart)
        d_alpha = torch.sum(cells.mul_(d_mixture_of_each), dim=-1)
        d_score.add_(torch._softmax_backward_data(d_alpha, step.alpha, -1, dtype))
        sigmoid_backward(d_score[..., None], slope.copy_(step.compared), grad_input=slope)
        torch.bmm(torch.sum(slope, dim=2, out=d_compared), query_back, out=d_composed)
        d_query.copy_(d_compared)
        tanh_backward(d_composed, now.composed, grad_input=now.composed)
        # Entity type cells.
        d_cells.copy_(torch.bmm(d_like.copy_(slope).flatten(1, 2), key_back, out=d_told).view_as(d_cells))
        d_cells.add_(d_c_k).addcmul_(step.alpha[..., None], d_mixture_of_each)
        torch.mul(d_cells, now.enter, out=through)
        tanh_backward(through, now.candidates, grad_input=now.candidates)
        torch.mul(d_cells.sub_(through), apart, out=now.enter)
        d_memory.add_(torch.sum(d_cells, dim=2))
        d_state.copy_(torch.bmm(d_sum.copy_(gates), weight_back, out=d_back))
    return found.sums, *weight_gradients(record, score, found, products)


def weight_gradients(
    record: StepRecord, score: Tensor, found: Gradients, products: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the weight, P, Q and v from those of the products of all steps."""
    d_query = sum_over_steps(record.composed, found.queries)
    d_key = sum_over_steps(record.contents.flatten(2, 3), found.compared.flatten(2, 3))
    attended = torch.bmm(found.attended.flatten(1)[:, None].to(products), record.compared.flatten(1, 3))[:, 0]
    return (
        sum_over_steps(record.read, found.sums),
        4 * score[:, None] * d_query,
        4 * score[:, None] * d_key,
        2 * attended.to(score.dtype) - found.attended.sum(dim=(1, 2, 3))[:, None],
    )


def sum_over_steps(left: Tensor, right: Tensor) -> Tensor:
    """Sum over steps and sentences of the products of (2, W, N, D) and (2, W, N, E), for each direction: (2, D, E)."""
    return torch.bmm(left.flatten(1, 2).transpose(1, 2), right.flatten(1, 2))
