"""The recurrence of the multi-cell LSTM: equal to its equations cell by cell, in values and gradients."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from crossner_cli.recurrent.multi_cell import MultiCellLSTM

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


def test_in_bf16_only_products_are_rounded() -> None:
    torch.manual_seed(2)
    layer, words, mask = MultiCellLSTM(30, 20, 4), torch.randn(4, 12, 30), torch.ones(4, 12, dtype=torch.bool)
    found, gradients = [], []
    for in_bf16 in (False, True):
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            found.append(run(layer, words.bfloat16() if in_bf16 else words.bfloat16().float(), mask))
        torch.stack([value.square().sum() for value in found[-1]]).sum().backward()
        gradients.append([value.grad.flatten() for value in layer.parameters()])
    assert {value.dtype for value in found[1]} == {torch.float32}
    for one, other in zip(*found, strict=True):
        assert not torch.equal(one, other) and (one - other).abs().max() < 0.02
    for one, other in zip(*gradients, strict=True):
        assert torch.cosine_similarity(one, other, dim=0) > 0.999


def test_the_loop_it_is_timed_against_gives_the_same_and_every_side_is_timed(monkeypatch, capsys):
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
