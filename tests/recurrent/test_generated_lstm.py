"""Generated LSTMs: the formula against independent computations, and the fused layer against nn.LSTM."""

import contextlib
import itertools

import pytest
import torch
from torch import Tensor

from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.generated_lstm import GeneratedBiLSTM, ParameterGenerator, lstm_shapes, run_bilstm

WIDTH, HIDDEN = 5, 4
LENGTHS = {"full": (6, 6, 6), "ragged": (6, 2, 5), "sparse": (6, 1, 1)}
every_batch = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())


def make_layer(seed: int = 1, **sizes: int) -> GeneratedBiLSTM:
    torch.manual_seed(seed)
    wanted = {"domains": 2, "domain_size": 3, "tasks": 2, "task_size": 2} | sizes
    return GeneratedBiLSTM(WIDTH, HIDDEN, **wanted)


def some_words(lengths: tuple[int, ...] = LENGTHS["ragged"]) -> tuple[Tensor, Tensor]:
    """Values and mask; where lengths differ, with a column that is all padding."""
    torch.manual_seed(9)
    mask = torch.arange(max(lengths) + (len(set(lengths)) > 1)) < torch.tensor(lengths)[:, None]
    return torch.randn(*mask.shape, WIDTH, requires_grad=True), mask


def stock_of(parameters: list[Tensor]) -> BiLSTM:
    """An ordinary layer with these parameters."""
    layer = BiLSTM(WIDTH, HIDDEN)
    with torch.no_grad():
        for own, given in zip(layer.lstm.parameters(), parameters, strict=True):
            own.copy_(given)
    return layer


def test_each_parameter_is_the_sum_over_both_vectors():
    generator = ParameterGenerator([(2, 3), (4,)], 1.0, domains=2, domain_size=3, tasks=3, task_size=2)
    for domain, task in itertools.product(range(2), range(3)):
        for weight, found in zip(generator.weights, generator(domain, task), strict=True):
            assert found.shape == weight.shape[:-2]
            for place in itertools.product(*map(range, found.shape)):
                expected = sum(
                    weight[place][v, u] * generator.task_vectors[task, v] * generator.domain_vectors[domain, u]
                    for v, u in itertools.product(range(2), range(3))
                )
                torch.testing.assert_close(found[place], expected)


def test_one_hot_vectors_choose_among_four_separate_layers():
    """Not only what is read: an update of one pair leaves the other three as they are."""
    layer, (values, mask) = make_layer(domain_size=2, task_size=2), some_words()
    with torch.no_grad():
        layer.generator.domain_vectors.copy_(torch.eye(2))
        layer.generator.task_vectors.copy_(torch.eye(2))
    for domain, task in itertools.product(range(2), repeat=2):
        separate = stock_of([weight[..., task, domain] for weight in layer.generator.weights])
        layer.zero_grad()
        found, expected = layer(values, mask, domain, task), separate(values, mask)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
        found.square().sum().backward()
        expected.square().sum().backward()
        for weight, own in zip(layer.generator.weights, separate.lstm.parameters(), strict=True):
            expected_gradient = torch.zeros_like(weight)
            expected_gradient[..., task, domain] = own.grad
            torch.testing.assert_close(weight.grad, expected_gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("without", ["task", "domain"])
def test_without_vectors_of_one_kind_they_are_the_number_one(without):
    """V = 1 and I^T = [1] is CO-NER, U = 1 and I^D = [1] is CO-LM: one vector, one product."""
    layer = make_layer(**{f"{without}_size": 0})
    generator = layer.generator
    left = "domain" if without == "task" else "task"
    vectors = getattr(generator, f"{left}_vectors")
    assert [name for name, _ in generator.named_parameters() if "vectors" in name] == [f"{left}_vectors"]
    assert [name for name in generator.state_dict() if "vectors" in name] == [f"{left}_vectors"]
    for domain, task in itertools.product(range(2), repeat=2):
        chosen = vectors[domain if left == "domain" else task]
        for weight, found in zip(generator.weights, generator(domain, task), strict=True):
            torch.testing.assert_close(found, weight.flatten(-2) @ chosen)


def test_generated_parameters_start_with_the_variance_of_an_ordinary_lstm():
    """Given the vectors, the variance is |I^T|^2 |I^D|^2 / (3 h); over many draws of them it is 1 / (3 h)."""
    hidden = 20
    generator = ParameterGenerator([(100, 200)], hidden**-0.5, domain_size=8, task_size=8)
    scales = []
    for seed in range(300):
        torch.manual_seed(seed)
        fresh = ParameterGenerator([], 1.0, domain_size=8, task_size=8)
        scales.append((fresh.domain_vectors.square().sum() * fresh.task_vectors.square().sum()).item())
        if seed < 5:
            generator.domain_vectors, generator.task_vectors = fresh.domain_vectors, fresh.task_vectors
            variance = generator(0, 0)[0].var().item()
            assert variance == pytest.approx(scales[-1] / (3 * hidden), rel=0.03)
    assert sum(scales) / len(scales) == pytest.approx(1, rel=0.1)


def test_sizes_are_those_of_the_paper():
    layer = GeneratedBiLSTM(150, 100, domains=2, domain_size=8, tasks=2, task_size=8)
    shapes = lstm_shapes(150, 100)
    assert [tuple(value.shape) for value in BiLSTM(150, 100).lstm.parameters()] == shapes
    assert sum(torch.Size(shape).numel() for shape in shapes) == 201_600
    assert sum(value.numel() for value in layer.generator.weights) == 12_902_400
    assert sum(value.numel() for value in layer.parameters()) == 12_902_400 + 4 * 8
    bounds = [float(value.detach().abs().max()) for value in layer.generator.weights]
    assert bounds == pytest.approx([0.1] * 8, rel=0.01)
    generator = layer.generator
    assert max(generator.domain_vectors.abs().max(), generator.task_vectors.abs().max()) <= (3 / 8) ** 0.5


@pytest.mark.parametrize(("domain_size", "task_size"), [(8, 8), (8, 0), (0, 8), (3, 2)])
def test_a_step_of_adam_moves_what_is_generated_by_about_the_rate_as_it_moves_other_layers(domain_size, task_size):
    rate, moved = 1e-3, []
    for seed in range(200):
        torch.manual_seed(seed)
        generator = ParameterGenerator([(40,)], 0.1, domain_size=domain_size, task_size=task_size)
        optimiser = torch.optim.AdamW(generator.weights, lr=rate * generator.rate_share, weight_decay=0.0)
        (before,) = generator(0, 0)
        (before * torch.randn(40)).sum().backward()
        optimiser.step()
        (after,) = generator(0, 0)
        moved.append(float((after - before).detach().abs().mean()))
    assert sum(moved) / len(moved) == pytest.approx(rate, rel=0.05)


@every_batch
def test_the_layer_is_an_ordinary_one_with_the_generated_parameters_in_values_and_gradients(lengths):
    layer, (values, mask) = make_layer(), some_words(lengths)
    parameters = [value.detach().requires_grad_() for value in layer.generator(1, 0)]
    separate, values = stock_of(parameters), values.detach()
    with torch.no_grad():
        torch.testing.assert_close(layer(values, mask, 1, 0), separate(values, mask), atol=1e-6, rtol=0)
    mine, other = (values.clone().requires_grad_() for _ in range(2))
    found, expected = layer(mine, mask, 1, 0), separate(other, mask)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert not found[~mask].any()
    weights = torch.randn(*mask.shape, 2 * HIDDEN)
    (run_bilstm(parameters, mine, mask) * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(mine.grad, other.grad, atol=1e-6, rtol=1e-5)
    for value, own in zip(parameters, separate.lstm.parameters(), strict=True):
        torch.testing.assert_close(value.grad, own.grad, atol=1e-5, rtol=1e-5)


def test_gradients_reach_the_vectors_and_are_those_of_differences():
    layer, (values, mask) = make_layer().double(), some_words()
    values = values.detach().double()

    def total() -> Tensor:
        return run_bilstm(layer.generator(1, 1), values, mask).square().sum()

    total().backward()
    for name, value in layer.named_parameters():
        assert value.grad is not None
        place = tuple(int(size) - 1 for size in value.shape)  # of domain 1 and task 1 in the vectors
        outcomes = []
        for sign in (1, -1):
            with torch.no_grad():
                value[place] += sign * 1e-6
                outcomes.append(float(total()))
                value[place] -= sign * 1e-6
        assert float(value.grad[place]) == pytest.approx((outcomes[0] - outcomes[1]) / 2e-6, rel=1e-4), name


@pytest.mark.parametrize("without", [None, "task", "domain"])
def test_gradients_of_shared_passes_are_those_of_separate_ones(without):
    """Also on top of gradients that are there, and where a pair is read twice."""
    layer, (values, mask) = make_layer(**({f"{without}_size": 0} if without else {})), some_words()
    pairs, gradients = [(0, 0), (1, 0), (0, 0), (1, 1)], []
    for context in (contextlib.nullcontext, layer.generator.shared):
        layer.zero_grad()
        values.grad = None
        layer(values, mask, 0, 1).square().sum().backward()
        with context():
            for number, pair in enumerate(pairs, 1):
                (number * layer(values, mask, *pair).square()).sum().backward()
        gradients.append([values.grad, *(value.grad for value in layer.parameters())])
    for separate, shared in zip(*gradients, strict=True):
        torch.testing.assert_close(shared, separate, atol=1e-5, rtol=1e-4)


def test_the_layer_runs_in_full_precision_under_autocast():
    layer, (values, mask) = make_layer(), some_words()
    plain = layer(values, mask, 1, 1)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = layer(values, mask, 1, 1)
    assert torch.equal(plain, mixed)


def make_a_step(layer: GeneratedBiLSTM, optimiser: torch.optim.Optimizer) -> None:
    values, mask = some_words()
    with layer.train().generator.shared():
        layer(values, mask, 0, 0).square().sum().backward()
    optimiser.step()
    layer.eval()


@pytest.mark.parametrize("change", ["in place", "others loaded", "a step", "a step of a fused optimiser"])
def test_what_was_generated_before_a_change_is_not_used_after_it(change):
    layer, (values, mask) = make_layer().eval(), some_words()
    with torch.no_grad():
        before = layer(values, mask, 0, 0)
    if change == "in place":
        with torch.no_grad():
            layer.generator.domain_vectors.mul_(2)
    elif change == "others loaded":
        layer.load_state_dict(make_layer(seed=2).state_dict())
    elif change == "a step":
        make_a_step(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
    else:
        make_a_step(layer, torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True))
    with torch.no_grad():
        after = layer(values, mask, 0, 0)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, layer(values, mask, 0, 0), atol=1e-6, rtol=0)  # computed with gradients
