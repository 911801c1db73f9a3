"""The recurrence of the multi-cell LSTM: equal to its equations cell by cell, in values and gradients."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from crossner_cli.recurrent.multi_cell import MultiCellLSTM, Order
from crossner_cli.recurrent.multi_cell_recurrence import Recurrence, StepRecord

WIDTH, HIDDEN = 3, 4
EVERY = [0, 1, 2, 3]


def make_layer(cells: int = 4, attentions: int = 2, *, seed: int = 0) -> MultiCellLSTM:
    torch.manual_seed(seed)
    return MultiCellLSTM(WIDTH, HIDDEN, cells, attentions).double()


def some_words() -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(3, 5, WIDTH, dtype=torch.double), torch.arange(5) < torch.tensor([[5], [3], [1]])


class Found(NamedTuple):
    """What the recurrence gives, in the order of the words: (B, W, 2 H), (B, W, 2, l, H), (B, W, 2, l)."""

    hidden: Tensor
    cells: Tensor
    attention: Tensor


def run(layer: MultiCellLSTM, words: Tensor, mask: Tensor, cells: list[int] | None = None, attention: int = 0) -> Found:
    states = layer(words, mask, torch.tensor(EVERY if cells is None else cells), attention)
    return Found(states.hidden, states.in_words(states.cells), states.attention)


def cell_by_cell(layer: MultiCellLSTM, words: Tensor, cells: list[int], attention: int, direction: int) -> Found:
    """The equations of section 3, for one sentence without padding, (W, d), in one direction."""
    state = memory = words.new_zeros(HIDDEN)
    found = []
    for word in words:
        read = torch.cat([state, word, word.new_ones(1)])
        enter, show = (read @ layer.shared_gates[direction]).sigmoid().chunk(2)
        composed = (read @ layer.shared_candidate[direction]).tanh()
        contents, scores = [], []
        for cell in cells:
            gate = (read @ layer.type_gate[cell, direction]).sigmoid()
            candidate = (read @ layer.type_candidate[cell, direction]).tanh()
            contents.append(gate * candidate + (1 - gate) * memory)
            asked = composed @ layer.query[attention, direction] + contents[-1] @ layer.key[attention, direction]
            scores.append(layer.score[attention, direction] @ asked.tanh())
        weights = torch.stack(scores).softmax(dim=0)
        memory = enter * (weights @ torch.stack(contents)) + (1 - enter) * memory
        state = show * memory.tanh()
        found.append((state, torch.stack(contents), torch.stack(scores)))
    return Found(*map(torch.stack, zip(*found, strict=True)))


def by_sentence(layer: MultiCellLSTM, words: Tensor, mask: Tensor, cells: list[int], attention: int) -> Found:
    """The same for a batch, sentence by sentence, in both directions; zeros where no word is."""
    rows = []
    for sentence, length in zip(words, mask.sum(dim=1).tolist(), strict=True):
        forward = cell_by_cell(layer, sentence[:length], cells, attention, 0)
        backward = cell_by_cell(layer, sentence[:length].flip(0), cells, attention, 1)
        both = [torch.stack([one, other.flip(0)], dim=1) for one, other in zip(forward, backward, strict=True)]
        padding = len(sentence) - length
        rows.append([torch.cat([value, value.new_zeros(padding, *value.shape[1:])]) for value in both])
    hidden, contents, scores = map(torch.stack, zip(*rows, strict=True))
    return Found(hidden.flatten(2), contents, scores)


@pytest.mark.parametrize(("cells", "attention"), [([0, 2, 3], 1), ([1], 0), ([3, 0, 1, 2], 0)])
def test_values_and_gradients_are_those_of_the_equations(cells: list[int], attention: int) -> None:
    layer, (words, mask) = make_layer(), some_words()
    words.requires_grad_()
    inputs = [words, *layer.parameters()]
    found = run(layer, words, mask, cells, attention), by_sentence(layer, words, mask, cells, attention)
    grains = [torch.randn_like(value) for value in found[0]]
    gradients = []
    for each in found:
        values = [value[mask] for value in each]
        weighed = [(value * grain[mask]).sum() for value, grain in zip(values, grains, strict=True)]
        gradients.append([*values, *torch.autograd.grad(torch.stack(weighed).sum(), inputs)])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_pass_the_check_by_differences() -> None:
    layer, (words, mask) = make_layer(cells=2), some_words()
    values = [words[1:, :2].requires_grad_(), *(value.detach().requires_grad_() for value in layer.parameters())]
    names = [name for name, _ in layer.named_parameters()]

    def states(words: Tensor, *weights: Tensor) -> Any:
        arguments = words, mask[1:, :2], torch.tensor([1, 0]), 1
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), arguments)[:3]

    assert torch.autograd.gradcheck(states, values, fast_mode=True)


def test_padding_changes_nothing_and_permuting_cells_permutes_their_contents_alone() -> None:
    layer, (words, mask) = make_layer(), some_words()
    alone = run(layer, words[1:2, :3], mask[1:2, :3], [0, 1])
    padded = run(layer, words, mask, [0, 1])
    for one, other in zip(alone, padded, strict=True):
        torch.testing.assert_close(one[0], other[1, :3])
    assert not padded.hidden[1, 3:].any()
    swapped = run(layer, words, mask, [1, 0])
    torch.testing.assert_close(padded.hidden, swapped.hidden)
    torch.testing.assert_close(padded.cells[:, :, :, [1, 0]], swapped.cells)
    torch.testing.assert_close(padded.attention[..., [1, 0]], swapped.attention)


def memories_of(layer: MultiCellLSTM) -> tuple[Tensor, Tensor, Tensor]:
    """The c before and after each step but the last, (2, W - 1, B, H), and c_k, (2, W - 1, B, l, H)."""
    words, mask = some_words()
    weights = layer._weight(torch.tensor(EVERY), torch.double), layer.query[0], layer.key[0], layer.score[0]
    hidden, _, cells = Recurrence.apply(words, *weights, Order.from_mask(mask).words, len(EVERY))
    last = StepRecord(*hidden.grad_fn.saved_tensors[: len(StepRecord._fields)]).memory_before
    return last[:, :-1], last[:, 1:], cells[:, :-1].detach()


def test_the_memory_lies_between_its_last_value_and_the_cells_and_closed_gates_leave_it() -> None:
    before, after, cells = memories_of(make_layer())
    every = torch.cat([before[:, :, :, None], cells], dim=3)
    assert (every.amin(dim=3) - 1e-12 <= after).all() and (after <= every.amax(dim=3) + 1e-12).all()
    assert (after - before).abs().min() > 0
    for name in ("type_gate", "shared_gates"):
        layer = make_layer()
        with torch.no_grad():
            getattr(layer, name)[..., -1, :HIDDEN] = -1e6
        before, after, cells = memories_of(layer)
        assert torch.equal(before, after)
        assert (cells == before[:, :, :, None]).all() == (name == "type_gate")


def test_reading_backward_swaps_the_halves_where_both_directions_have_equal_weights() -> None:
    layer, (words, _) = make_layer(), some_words()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            by_direction = parameter if name.startswith("shared") else parameter.transpose(0, 1)
            by_direction[1] = by_direction[0]
    mask = torch.ones(3, 5, dtype=torch.bool)
    one, other = run(layer, words, mask, [0, 1]).hidden, run(layer, words.flip(1), mask, [0, 1]).hidden
    torch.testing.assert_close(one[..., :HIDDEN].flip(1), other[..., HIDDEN:])


def test_what_is_not_read_or_not_trained_gets_no_gradient() -> None:
    layer, (words, mask) = make_layer(), some_words()
    found = []
    for trained in (True, False):
        layer.zero_grad()
        sum(value.sum() for value in run(layer, words.requires_grad_(trained), mask, [0, 2])).backward()
        found.append([value.grad.clone() for value in layer.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    for weight in (layer.type_gate, layer.type_candidate):
        assert weight.grad[[0, 2]].any() and not weight.grad[[1, 3]].any()
    assert not layer.query.grad[1].any() and layer.query.grad[0].any()
    layer.zero_grad()
    run(layer, words, mask, [2]).hidden.square().sum().backward()
    for name in ("query", "key", "score", "shared_candidate"):  # with one cell attention says nothing
        assert getattr(layer, name).grad.abs().max() < 1e-15
    assert layer.shared_gates.grad.any()


def test_the_loop_it_is_timed_against_gives_the_same_and_every_side_is_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import recurrence_speed

    torch.manual_seed(3)
    layer = MultiCellLSTM(WIDTH, HIDDEN, 4)
    words, mask = torch.randn(2, 5, WIDTH), torch.ones(2, 5, dtype=torch.bool)
    one, other = run(layer, words, mask), recurrence_speed.CellByCell(layer)(words)
    for value, of_loop in zip(one, other, strict=True):
        torch.testing.assert_close(value, of_loop)

    sizes = ["--sentences", "2", "--words", "3", "--width", "4", "--hidden", "4", "--repeats", "1"]
    sizes += ["--threads", str(torch.get_num_threads())]
    recurrence_speed.main([*sizes, "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:] == list(recurrence_speed.SIDES)
    recurrence_speed.main([*sizes, "--products"])
    told = re.findall(r"(\S+) ms a pass, (\S+) of them matrix products", capsys.readouterr().out)
    assert len(told) == 2 and all(0 < float(products) < float(whole) for whole, products in told)
