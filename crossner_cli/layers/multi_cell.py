"""The recurrence of the multi-cell compositional LSTM: entity type cells, a compositional cell, attention between them.

Paper: Jia and Zhang (2020), Multi-Cell Compositional LSTM for NER Domain Adaptation, section 3 (equations 3 to 7).

A step has four matrix products, whatever the number of cells, both directions side by side. What the words add to the
largest is computed before, for all steps at once, as are the gradients of the weights and of the words after. What
remains is elementwise and done in few passes over buffers that stay in the cache. Any tanh x is 2 sigmoid(2x) - 1:
PyTorch's sigmoid takes a fifth of the time of its tanh on some CPUs. Steps are of many small operations, so what
autograd adds to each of them, which finds nothing to do there, counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crossner_cli.layers.bilstm import mirrored_places

DIRECTIONS = 2  # forward, backward
# Within it autograd and its versions of tensors are left out: an operation is its kernel alone.
BelowAutograd = torch._C._AutoDispatchBelowAutograd
Shapes = tuple[tuple[int, ...], ...]


class MultiCellStates(NamedTuple):
    """What the recurrence gives; what stands where no word is means nothing, but for the zeros of ``hidden``.

    Args:
        hidden: h of each word, forward then backward, (B, W, 2 H).
        attention: Scores I_k of each word before the softmax, (B, W, 2, l).
        cells: c_k of each step, (2, W, B, l, H): 10 times as large as h, it is not put in the words' order.
        steps: Rows of a flattened (2, W, B) that read each word, (B, W, 2).
    """

    hidden: Tensor
    attention: Tensor
    cells: Tensor
    steps: Tensor

    def in_words(self, values: Tensor) -> Tensor:
        """What was computed of ``cells``, from (2, W, B, ...) to (B, W, 2, ...)."""
        return take(values.flatten(0, 2), self.steps)


class MultiCellLSTM(nn.Module):
    """A bidirectional layer with one entity type cell a type.

    Under bf16 autocast its large matrix products are of bf16 numbers, as are their results and most of what is kept for
    the backward pass; states, gates and attention are computed in the precision of the weights.

    Args:
        width: Of the vectors read, d.
        hidden: Units of one direction, H.
        cells: Entity type cells in all.
        attentions: Sets of attention weights: 1, or one a domain.
        alike: Entity type cells begin with equal weights, as in the released code.
    """

    def __init__(self, width: int, hidden: int, cells: int, attentions: int = 1, *, alike: bool = False) -> None:
        super().__init__()
        self.hidden, self.output_dim = hidden, DIRECTIONS * hidden

        def uniform(*shape: int, limit: float) -> Tensor:
            return torch.empty(*shape).uniform_(-limit, limit)

        def affine(count: int, size: int) -> Tensor:
            """Weights of [h; w; 1], drawn as the released code's linear layers are: each by the width it reads."""
            of_state = uniform(count, DIRECTIONS, hidden, size, limit=hidden**-0.5)
            return torch.cat([of_state, uniform(count, DIRECTIONS, width + 1, size, limit=width**-0.5)], dim=2)

        def of_types() -> nn.Parameter:
            return nn.Parameter(affine(1, hidden).repeat(cells, 1, 1, 1) if alike else affine(cells, hidden))

        self.type_gate, self.type_candidate = of_types(), of_types()  # of i_k and c~_k: (cells, 2, H + d + 1, H)
        self.shared_gates = nn.Parameter(affine(1, 2 * hidden)[0])  # of i and o: (2, H + d + 1, 2 H)
        self.shared_candidate = nn.Parameter(affine(1, hidden)[0])  # of c~~: (2, H + d + 1, H)
        self.query, self.key = (  # P and Q
            nn.Parameter(uniform(attentions, DIRECTIONS, hidden, 2 * hidden, limit=hidden**-0.5)) for _ in range(2)
        )
        self.score = nn.Parameter(uniform(attentions, DIRECTIONS, 2 * hidden, limit=(2 * hidden) ** -0.5))  # v

    def forward(self, words: Tensor, mask: Tensor, cells: Tensor, attention: int = 0) -> MultiCellStates:
        """Read sentences of one domain.

        Args:
            words: One vector a word, (B, W, d).
            mask: Where a word is, (B, W); padding stands behind.
            cells: Numbers of the domain's entity type cells, (l,); no other takes part.
            attention: Which set of attention weights.
        """
        device, dtype = words.device.type, self.score.dtype
        in_bf16 = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
        order = Order.of(mask)
        with torch.autocast(device, enabled=False):
            weight = self._weight(cells, torch.bfloat16 if in_bf16 else dtype)
            attending = (value[attention] for value in (self.query, self.key, self.score))
            hidden, scores, contents = Recurrence.apply(  # type: ignore[no-untyped-call]
                words.to(dtype), weight, *attending, order.words, len(cells)
            )
            hidden, scores = (take(value.flatten(0, 2), order.steps) for value in (hidden, scores))
            return MultiCellStates(hidden.flatten(2) * mask[..., None], scores, contents, order.steps)

    def _weight(self, cells: Tensor, dtype: torch.dtype) -> Tensor:
        """All affine maps of [h; w; 1], (2, H + d + 1, G); which of the G columns is what, ``split`` tells."""
        # Unbound, for the gradients of types to be copied; those of a selection would be added up number by number.
        run = cells.tolist()
        enter, candidates = (
            [of_type[cell] for cell in run] for of_type in (self.type_gate.unbind(), self.type_candidate.unbind())
        )
        return torch.cat([*enter, self.shared_gates, *candidates, self.shared_candidate], dim=2).to(dtype)


class Order(NamedTuple):
    """Which step reads which word, the backward direction beginning at each sentence's last one.

    Args:
        words: Rows of a flattened (B, W) that each step reads, (2, W, B).
        steps: Rows of a flattened (2, W, B) that read each word, (B, W, 2).
    """

    words: Tensor
    steps: Tensor

    @classmethod
    def of(cls, mask: Tensor) -> Order:
        """The order of sentences, (B, W)."""
        batch, width = mask.shape
        place, sentence = torch.arange(width, device=mask.device), torch.arange(batch, device=mask.device)[:, None]
        turned = mirrored_places(mask)
        places = torch.stack([place.expand_as(turned), turned])  # (2, B, W)
        direction = torch.arange(DIRECTIONS, device=mask.device)[:, None, None]
        steps = (direction * width + places) * batch + sentence
        return cls((sentence * width + places).transpose(1, 2).contiguous(), steps.permute(1, 2, 0))


def take(rows: Tensor, places: Tensor) -> Tensor:
    """Rows, (N, ...), at places of any shape."""
    return rows.flatten(1).index_select(0, places.flatten()).view(*places.shape, *rows.shape[1:])


class Columns(NamedTuple):
    """Columns of a (..., G) tensor, G = (2 l + 3) H, as views.

    Args:
        enter: i_k, (..., l, H).
        keep: i of the compositional cell, (..., H).
        show: o, (..., H).
        candidates: Those of the entity type cells, (..., l, H).
        composed: That of the compositional cell, (..., H).
    """

    enter: Tensor
    keep: Tensor
    show: Tensor
    candidates: Tensor
    composed: Tensor


def split(columns: Tensor, count: int) -> Columns:
    """Name the columns, with ``count`` entity type cells: first what goes through a sigmoid, then through tanh."""
    size = columns.shape[-1] // (2 * count + 3)
    sizes = [count * size, size, size, count * size, size]
    enter, keep, show, candidates, composed = torch.split(columns, sizes, dim=-1)
    by_cell = (*columns.shape[:-1], count, size)
    return Columns(enter.view(by_cell), keep, show, candidates.view(by_cell), composed)


def curved(columns: Tensor, count: int) -> Tensor:
    """Those of the columns that go through tanh, as a view."""
    return columns[..., -(count + 1) * (columns.shape[-1] // (2 * count + 3)) :]


class Kept(NamedTuple):
    """What the backward pass needs of all steps, (2, W, B, ...), or of one, (2, B, ...).

    Args:
        read: [h; w; 1], (..., H + d + 1); this and the next four are numbers that are multiplied.
        active: Gates and candidates, (..., G).
        composed: c~~, (..., H), a second time: side by side, which a product over all steps wants.
        told: c_k, (..., l, H).
        likened: Sigmoid of 2 (P c~~ + Q c_k), (..., l, 2 H).
        alpha: Attention, (..., l).
        mixed: Sum of alpha_k c_k, (..., H).
        last: c before the step, (..., H).
        shown: tanh of c after it, (..., H).
    """

    read: Tensor
    active: Tensor
    composed: Tensor
    told: Tensor
    likened: Tensor
    alpha: Tensor
    mixed: Tensor
    last: Tensor
    shown: Tensor

    @classmethod
    def empty(cls, words: Tensor, size: int, count: int, products: torch.dtype) -> Kept:
        """Room for the steps of sentences, (B, W, d)."""
        batch, steps, width = words.shape
        multiplied: Shapes = (
            (size + width + 1,), ((2 * count + 3) * size,), (size,), (count, size), (count, 2 * size),
        )  # fmt: skip
        others: Shapes = ((count,), (size,), (size,), (size,))
        return cls(
            # Directions apart, as the products over all steps read them.
            *(words.new_empty(DIRECTIONS, steps, batch, *shape, dtype=products) for shape in multiplied),
            *empty_by_step(words, others),
        )

    def steps(self) -> Iterator[Kept]:
        """Views of each step."""
        return map(Kept._make, zip(*by_step(*self), strict=True))


def empty_by_step(words: Tensor, shapes: Shapes) -> Iterator[Tensor]:
    """Room for (2, W, B, ...) of each shape, given sentences, (B, W, d): what a step writes is contiguous."""
    batch, steps, _ = words.shape
    return (words.new_empty(steps, DIRECTIONS, batch, *shape).transpose(0, 1) for shape in shapes)


def by_step(*values: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Views of each step, (2, B, ...), of each tensor of all steps, (2, W, B, ...)."""
    return (value.unbind(1) for value in values)


class Recurrence(torch.autograd.Function):
    """Words, (B, W, d), to h, (2, W, B, H), I, (2, W, B, l), and c_k, (2, W, B, l, H), of each step."""

    @staticmethod
    def forward(
        context: Any, words: Tensor, weight: Tensor, query: Tensor, key: Tensor, score: Tensor, places: Tensor,
        count: int,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Read the words of both directions.

        Args:
            context: Keeps what the backward pass needs.
            words: Vectors of the words, (B, W, d).
            weight: Of [h; w; 1], (2, H + d + 1, G), as numbers that are multiplied; what else is, becomes such.
            query: P, (2, H, 2 H).
            key: Q, (2, H, 2 H).
            score: v, (2, 2 H).
            places: Rows of a flattened (B, W) that each step reads, (2, W, B).
            count: Entity type cells, l.
        """
        kept = Kept.empty(words, query.shape[1], count, weight.dtype)
        with BelowAutograd():
            found = states(kept, words, weight, query, key, score, places)
        context.save_for_backward(*kept, weight, query, key, score, places)
        return found

    @staticmethod
    @once_differentiable
    def backward(context: Any, d_hidden: Tensor, d_scores: Tensor, d_contents: Tensor) -> tuple[Tensor | None, ...]:
        """Steps in reverse; products that only the weights need are left for the end, all steps at once."""
        *kept, weight, query, key, score, places = context.saved_tensors
        with torch.autocast(d_hidden.device.type, enabled=False), BelowAutograd():
            size, found = query.shape[1], None
            d_sums, *of_weights = gradients(
                Kept(*kept), weight[:, :size], query, key, score, d_hidden, d_scores, d_contents
            )
            if context.needs_input_grad[0]:
                of_words = weight[:, size:-1].transpose(1, 2).contiguous()
                d_words = torch.bmm(d_sums.flatten(1, 2), of_words).flatten(0, 1)
                found = score.new_zeros(places[0].numel(), d_words.shape[1])
                found.index_add_(0, places.flatten(), d_words.to(score.dtype))  # each word was read twice
                found = found.view(places.shape[2], places.shape[1], -1)
        return found, *of_weights, None, None


def states(
    kept: Kept, words: Tensor, weight: Tensor, query: Tensor, key: Tensor, score: Tensor, places: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """h, I and c_k of each step, one after another; ``kept`` is filled, the others are those of the recurrence."""
    batch, count, size, columns = len(words), *kept.told.shape[3:], weight.shape[2]
    products = weight.dtype
    kept.read[..., size:-1], kept.read[..., -1] = take(words.to(products).flatten(0, 1), places), 1
    doubled = weight.clone()
    curved(doubled, count).mul_(2)
    # The words' share of all steps; each adds its state's, and writes what becomes of the sum in their place.
    torch.bmm(kept.read[..., size:].flatten(1, 2), doubled[:, size:], out=kept.active.view(DIRECTIONS, -1, columns))
    of_state = doubled[:, :size].contiguous()
    query2, key2, score2 = 2 * query, (2 * key).to(products), 2 * score[:, None, None]
    minus_one, two = score.new_tensor(-1), score.new_tensor(2)
    hidden, scores, contents = empty_by_step(words, ((size,), (count,), (count, size)))
    # What every step works with again.
    gates, compared, asked, state, memory = (
        words.new_zeros(DIRECTIONS, batch, *shape)
        for shape in ((columns,), (count, 2 * size), (2 * size,), (size,), (size,))  # the last are h and c
    )
    now, now_curved = split(gates, count), curved(gates, count)
    memory_of_all, asked_of_all = memory[:, :, None], asked[:, :, None]  # the same for all cells
    rows = (value.flatten(2, 3) for value in (kept.told, kept.likened))  # a cell of a sentence is one
    for step, h_before, told, likened, h, c_k, scores_now in zip(
        kept.steps(), *by_step(kept.read[..., :size], *rows, hidden, contents, scores), strict=True
    ):
        step.last.copy_(memory)
        gates.copy_(step.active.baddbmm_(h_before.copy_(state), of_state)).sigmoid_()
        torch.add(minus_one, now_curved, alpha=2, out=now_curved)
        step.active.copy_(gates)
        # Entity type cells.
        torch.lerp(memory_of_all, now.candidates, now.enter, out=c_k)
        # Attention.
        torch.bmm(now.composed, query2, out=asked)  # too small for bf16 to save anything
        step.told.copy_(c_k)
        step.composed.copy_(now.composed)
        torch.bmm(told, key2, out=likened)
        compared.copy_(step.likened).add_(asked_of_all).sigmoid_()
        step.likened.copy_(compared)
        torch.softmax(torch.sum(compared.mul_(score2), dim=-1, out=scores_now), dim=-1, out=step.alpha)
        torch.bmm(step.alpha.view(-1, 1, count), c_k.flatten(0, 1), out=step.mixed.view(-1, 1, size))
        # Compositional cell.
        torch.lerp(memory, step.mixed, now.keep, out=memory)
        torch.mul(memory, two, out=step.shown).sigmoid_()
        torch.add(minus_one, step.shown, alpha=2, out=step.shown)
        state = torch.mul(step.shown, now.show, out=h)
    # The rest of v tanh(.) = 2 v sigmoid(2 .) - v is the same for all cells.
    return hidden, scores.sub_(score.sum(dim=1)[:, None, None, None]), contents


sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # gradient * y * (1 - y)
tanh_backward = torch.ops.aten.tanh_backward.grad_input  # gradient * (1 - y * y)


def gradients(
    kept: Kept, weight: Tensor, query: Tensor, key: Tensor, score: Tensor,
    d_hidden: Tensor, d_scores: Tensor, d_contents: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of the sums that go through sigmoid and tanh in each step, (2, W, B, G), of the weight, P, Q and v.

    Args:
        kept: Of all steps.
        weight: Rows of h, (2, H, G).
        query, key, score: P, Q, v.
        d_hidden: Of h of each step, (2, W, B, H).
        d_scores: Of I, (2, W, B, l).
        d_contents: Of c_k, (2, W, B, l, H).
    """
    products, dtype = weight.dtype, score.dtype
    _, steps, batch, count, size = kept.told.shape
    # v, and 4 of the slope of tanh x = 2 sigmoid(2x) - 1, are part of what gradients are multiplied with next.
    weight_back = weight.contiguous().transpose(1, 2)
    query_back, key_back = ((4 * score[:, None] * value).transpose(1, 2) for value in (query, key))
    key_back = key_back.to(products)
    # What is computed, of each step.
    d_attended, d_likened, d_sums = d_scores.clone(), torch.empty_like(kept.likened), torch.empty_like(kept.active)
    d_asked = kept.read.new_empty(DIRECTIONS, steps, batch, 2 * size)
    others = by_step(d_hidden, d_contents, d_attended, d_likened, d_asked, d_sums)
    # What every step works with again.
    new, low = (partial(weight.new_empty, dtype=dtype) for dtype in (dtype, products))
    gates, slope = new(DIRECTIONS, batch, weight.shape[2]), new(DIRECTIONS, batch, count, 2 * size)
    d_cells, through, apart = (new(DIRECTIONS, batch, count, size) for _ in range(3))
    d_state, d_memory, d_mixed, d_composed, change = (score.new_zeros(DIRECTIONS, batch, size) for _ in range(5))
    d_compared, d_told = new(DIRECTIONS, batch, 2 * size), low(DIRECTIONS, batch * count, size)
    d_back = low(DIRECTIONS, batch, size)
    now, d_mixed_of_each = split(gates, count), d_mixed[:, :, None]  # a gate's gradient is written in its place
    for step, d_h, d_c_k, d_score, d_like, d_ask, d_sum in reversed([*zip(kept.steps(), *others, strict=True)]):
        gates.copy_(step.active)
        cells = through.copy_(step.told)
        # Compositional cell.
        d_state.add_(d_h)
        torch.mul(d_state, now.show, out=change)
        d_memory.add_(tanh_backward(change, step.shown, grad_input=change))
        sigmoid_backward(d_state.mul_(step.shown), now.show, grad_input=now.show)
        torch.mul(d_memory, now.keep, out=d_mixed)
        torch.sub(step.mixed, step.last, out=change)
        sigmoid_backward(change.mul_(d_memory), now.keep, grad_input=now.keep)
        d_memory.sub_(d_mixed)
        # Attention.
        torch.sub(cells, step.last[:, :, None], out=apart)
        d_alpha = torch.sum(cells.mul_(d_mixed_of_each), dim=-1)
        d_score.add_(torch._softmax_backward_data(d_alpha, step.alpha, -1, dtype))
        sigmoid_backward(d_score[..., None], slope.copy_(step.likened), grad_input=slope)
        torch.bmm(torch.sum(slope, dim=2, out=d_compared), query_back, out=d_composed)
        d_ask.copy_(d_compared)
        tanh_backward(d_composed, now.composed, grad_input=now.composed)
        # Entity type cells.
        d_cells.copy_(torch.bmm(d_like.copy_(slope).flatten(1, 2), key_back, out=d_told).view_as(d_cells))
        d_cells.add_(d_c_k).addcmul_(step.alpha[..., None], d_mixed_of_each)
        torch.mul(d_cells, now.enter, out=through)
        tanh_backward(through, now.candidates, grad_input=now.candidates)
        torch.mul(d_cells.sub_(through), apart, out=now.enter)
        d_memory.add_(torch.sum(d_cells, dim=2))
        d_state.copy_(torch.bmm(d_sum.copy_(gates), weight_back, out=d_back))
    return d_sums, *weight_gradients(kept, score, products, d_sums, d_asked, d_likened, d_attended)


def weight_gradients(
    kept: Kept, score: Tensor, products: torch.dtype, d_sums: Tensor, d_asked: Tensor, d_likened: Tensor,
    d_attended: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of the weight, P, Q and v, given the gradients, over 4 v, of what they are multiplied with, of all steps."""
    d_query = over_all_steps(kept.composed, d_asked)
    d_key = over_all_steps(kept.told.flatten(2, 3), d_likened.flatten(2, 3))
    attended = torch.bmm(d_attended.flatten(1)[:, None].to(products), kept.likened.flatten(1, 3))[:, 0]
    return (
        over_all_steps(kept.read, d_sums),
        4 * score[:, None] * d_query,
        4 * score[:, None] * d_key,
        2 * attended.to(score.dtype) - d_attended.sum(dim=(1, 2, 3))[:, None],
    )


def over_all_steps(left: Tensor, right: Tensor) -> Tensor:
    """Sum over steps and sentences of the products of (2, W, N, D) and (2, W, N, E), a direction: (2, D, E)."""
    return torch.bmm(left.flatten(1, 2).transpose(1, 2), right.flatten(1, 2))
