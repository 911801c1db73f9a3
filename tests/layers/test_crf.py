"""The CRF: equal to the enumeration of all sequences, to another implementation and to double precision."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from crossner_cli.layers.crf import IMPOSSIBLE, LinearChainCRF

SPREADS = (0.1, 3.0, 100.0)  # of the transitions; the last one is far beyond what float32 exponentials hold


def random_crf(tags: int, spread: float = 1.0, seed: int = 0) -> LinearChainCRF:
    generator = torch.Generator().manual_seed(seed)
    crf = LinearChainCRF(tags)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_((torch.rand(parameter.shape, generator=generator) * 2 - 1) * spread)
    return crf


def random_scores(batch: int, words: int, tags: int, *, scale: float = 3.0, seed: int = 1) -> Tensor:
    return torch.randn(batch, words, tags, generator=torch.Generator().manual_seed(seed)) * scale


def full(batch: int, words: int) -> Tensor:
    return torch.ones(batch, words, dtype=torch.bool)


def every_sequence(crf: LinearChainCRF, emissions: Tensor) -> dict[tuple[int, ...], float]:
    """Score of every tag sequence of one sentence (W, K), in double precision, by the formula of the paper."""
    words, tags = emissions.shape
    start, stop, moves = crf.start.tolist(), crf.stop.tolist(), crf.transitions.tolist()
    scores = {}
    for path in itertools.product(range(tags), repeat=words):
        emitted = sum(float(emissions[word, tag]) for word, tag in enumerate(path))
        moved = sum(moves[before][after] for before, after in itertools.pairwise(path))
        scores[path] = start[path[0]] + emitted + moved + stop[path[-1]]
    return scores


def log_sum(scores: list[float]) -> float:
    highest = max(scores)
    return highest + math.log(sum(math.exp(score - highest) for score in scores))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(("words", "tags"), [(1, 1), (1, 4), (2, 3), (3, 4), (5, 2), (5, 4)])
def test_the_crf_agrees_with_enumeration(words, tags, spread):
    crf = random_crf(tags, spread)
    emissions = random_scores(2, words, tags)
    mask = full(2, words)
    marginals, best = crf.marginals(emissions, mask), crf.viterbi(emissions, mask)
    for row in range(2):
        scores = every_sequence(crf, emissions[row])
        total = log_sum(list(scores.values()))
        paths = torch.tensor(list(scores))
        repeated = emissions[row].expand(len(scores), -1, -1)
        found = crf.log_likelihood(repeated, paths, full(len(scores), words)).detach()
        expected = torch.tensor([score - total for score in scores.values()])
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
        assert float(found.exp().sum()) == pytest.approx(1, abs=1e-4)
        assert scores[tuple(best[row].tolist())] == pytest.approx(max(scores.values()), abs=1e-4)
        for word, tag in itertools.product(range(words), range(tags)):
            share = sum(math.exp(score - total) for path, score in scores.items() if path[word] == tag)
            assert float(marginals[row, word, tag]) == pytest.approx(share, abs=1e-5)


@pytest.mark.parametrize("tags, words, batch", [(1, 1, 1), (5, 7, 4), (29, 40, 8)])
def test_the_crf_equals_pytorch_crf(tags, words, batch):
    reference_class = pytest.importorskip("torchcrf").CRF
    crf = random_crf(tags, spread=1.0).double()
    reference = reference_class(tags, batch_first=True).double()
    for theirs, ours in (
        (reference.start_transitions, crf.start),
        (reference.end_transitions, crf.stop),
        (reference.transitions, crf.transitions),
    ):
        theirs.data.copy_(ours)
    emissions = torch.randn(batch, words, tags, dtype=torch.double)
    mask = torch.arange(words) < torch.randint(1, words + 1, (batch, 1))
    gold = torch.randint(tags, (batch, words))
    expected = reference(emissions, gold, mask=mask, reduction="none")
    torch.testing.assert_close(crf.log_likelihood(emissions, gold, mask), expected)
    found = crf.viterbi(emissions, mask)
    assert [row[real].tolist() for row, real in zip(found, mask, strict=True)] == reference.decode(emissions, mask)


@settings(max_examples=30)
@given(
    words=st.integers(1, 6),
    spread=st.sampled_from(SPREADS),
    scale=st.sampled_from([0.0, 1.0, 300.0, 1e4]),
    seed=st.integers(0, 99),
)
def test_float32_is_as_good_as_float64(words, spread, scale, seed):
    crf, emissions = random_crf(5, spread, seed), random_scores(3, words, 5, scale=scale, seed=seed)
    tags = torch.randint(0, 5, (3, words), generator=torch.Generator().manual_seed(seed))
    mask = full(3, words)
    found = crf.log_likelihood(emissions, tags, mask), crf.marginals(emissions, mask)
    crf.double()
    wanted = crf.log_likelihood(emissions.double(), tags, mask), crf.marginals(emissions.double(), mask)
    torch.testing.assert_close(found[0].double(), wanted[0], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found[1].double(), wanted[1], rtol=0, atol=1e-2 if scale > 1000 else 1e-3)


@pytest.mark.parametrize("spread", SPREADS)
def test_adding_a_constant_to_all_scores_of_a_word_changes_nothing(spread):
    crf, emissions = random_crf(4, spread), random_scores(2, 6, 4)
    tags, mask = torch.randint(0, 4, (2, 6), generator=torch.Generator().manual_seed(3)), full(2, 6)
    shifted = emissions.clone()
    shifted[:, 2] += 7.5
    shifted[:, 5] -= 100.0
    torch.testing.assert_close(
        crf.log_likelihood(shifted, tags, mask), crf.log_likelihood(emissions, tags, mask), rtol=1e-4, atol=1e-3
    )
    torch.testing.assert_close(crf.marginals(shifted, mask), crf.marginals(emissions, mask), rtol=0, atol=1e-4)
    assert torch.equal(crf.viterbi(shifted, mask), crf.viterbi(emissions, mask))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("junk", [0.0, 1e4, -1e4, float("inf")])
def test_padding_changes_neither_loss_nor_tags_nor_marginals(spread, junk):
    crf, lengths = random_crf(4, spread), [3, 7, 1, 5]
    emissions = random_scores(4, 9, 4)
    mask = torch.arange(9) < torch.tensor(lengths)[:, None]
    emissions[~mask] = junk
    emissions.requires_grad_()
    tags = torch.randint(0, 4, (4, 9), generator=torch.Generator().manual_seed(3))
    together = crf.log_likelihood(emissions, tags, mask)
    (gradient,) = torch.autograd.grad(together.sum(), emissions)
    assert not gradient[~mask].any() and gradient.isfinite().all()
    best, marginals = crf.viterbi(emissions.detach(), mask), crf.marginals(emissions.detach(), mask)
    assert not best[~mask].any() and not marginals[~mask].any()
    for row, length in enumerate(lengths):
        alone = emissions.detach()[row : row + 1, :length]
        torch.testing.assert_close(
            crf.log_likelihood(alone, tags[row : row + 1, :length], full(1, length))[0], together[row]
        )
        assert torch.equal(crf.viterbi(alone, full(1, length))[0], best[row, :length])
        torch.testing.assert_close(crf.marginals(alone, full(1, length))[0], marginals[row, :length])


def test_without_transitions_it_is_a_softmax_a_word():
    crf, emissions, mask = LinearChainCRF(5), random_scores(3, 8, 5), full(3, 8)
    tags = torch.randint(0, 5, (3, 8))
    expected = torch.log_softmax(emissions, dim=-1).gather(2, tags[..., None])[..., 0].sum(dim=1)
    torch.testing.assert_close(crf.log_likelihood(emissions, tags, mask), expected)
    torch.testing.assert_close(crf.marginals(emissions, mask), torch.softmax(emissions, dim=-1))
    assert torch.equal(crf.viterbi(emissions, mask), emissions.argmax(dim=-1))


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_gradients_are_right(spread):
    crf = random_crf(3, spread).double()
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    tags = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0]])
    names = [name for name, _ in crf.named_parameters()]

    def likelihood(emissions: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(
            _Likelihood(crf), {f"crf.{n}": p for n, p in zip(names, parameters, strict=True)}, (emissions, tags, mask)
        )

    inputs = [random_scores(2, 4, 3).double(), *crf.parameters()]
    assert torch.autograd.gradcheck(likelihood, [value.detach().requires_grad_() for value in inputs])


class _Likelihood(nn.Module):
    def __init__(self, crf: LinearChainCRF) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        return self.crf.log_likelihood(emissions, tags, mask)


@pytest.mark.parametrize("spread", SPREADS)
def test_tags_marked_impossible_are_never_chosen_and_the_rest_is_as_without_them(spread):
    crf, emissions, mask = random_crf(6, spread), random_scores(3, 30, 6), full(3, 30)
    possible = [0, 2, 5]
    masked = torch.full_like(emissions, IMPOSSIBLE)
    masked[..., possible] = emissions[..., possible]
    small = LinearChainCRF(3)
    with torch.no_grad():
        small.start.copy_(crf.start[possible])
        small.stop.copy_(crf.stop[possible])
        small.transitions.copy_(crf.transitions[possible][:, possible])
    best = crf.viterbi(masked, mask)
    assert torch.equal(best, torch.tensor(possible)[small.viterbi(emissions[..., possible], mask)])
    marginals = crf.marginals(masked, mask)
    assert marginals[..., [1, 3, 4]].max() == 0
    torch.testing.assert_close(
        marginals[..., possible], small.marginals(emissions[..., possible], mask), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("spread", SPREADS)
def test_a_thousand_words_are_finite_and_right(spread):
    crf, emissions, mask = random_crf(5, spread), random_scores(2, 1000, 5, scale=20.0), full(2, 1000)
    best = crf.viterbi(emissions, mask)
    likelihood = crf.log_likelihood(emissions, best, mask)
    likelihood.sum().backward()
    assert likelihood.isfinite().all() and likelihood.max() <= 0.05
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in crf.parameters())
    marginals = crf.marginals(emissions, mask)
    assert marginals.min() >= 0 and marginals.max() <= 1
    torch.testing.assert_close(marginals.sum(dim=-1), torch.ones(2, 1000), rtol=0, atol=1e-3)
    crf.double()
    assert torch.equal(best, crf.viterbi(emissions.double(), mask))
    torch.testing.assert_close(
        likelihood.double(), crf.log_likelihood(emissions.double(), best, mask), rtol=1e-4, atol=0.05
    )
    torch.testing.assert_close(marginals.double(), crf.marginals(emissions.double(), mask), rtol=0, atol=1e-3)


def test_a_wide_gap_of_scores_keeps_its_gradient():
    emissions = torch.tensor([[[0.0, -1e6], [-1e6, 0.0]]], requires_grad=True)
    loss = -LinearChainCRF(2).log_likelihood(emissions, torch.tensor([[1, 0]]), full(1, 2)).sum()
    loss.backward()
    assert loss.item() == pytest.approx(2e6)
    assert emissions.grad is not None
    torch.testing.assert_close(emissions.grad, torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]]))
