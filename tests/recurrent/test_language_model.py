"""Sampled softmax and the two language models over a BiLSTM, against sums written out."""

import math

import pytest
import torch
from torch import Tensor

from crossner_cli.recurrent.language_model import SampledSoftmax, draw_distinct, expected_counts, language_model_loss

WORDS, SIZE = 12, 4


def make_head(negatives: int = 5, *, correct: bool = True, words: int = WORDS) -> SampledSoftmax:
    torch.manual_seed(7)
    head = SampledSoftmax(words, SIZE, negatives, correct)
    with torch.no_grad():
        head.bias.copy_(torch.randn(words))
    return head


def some_targets(count: int = 9, words: int = WORDS) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(count, SIZE), torch.randint(words, (count,))


def full_loss(head: SampledSoftmax, states: Tensor, targets: Tensor) -> Tensor:
    shares = (states @ head.weight.T + head.bias).softmax(dim=1)
    return -sum(shares[row, target].log() for row, target in enumerate(targets.tolist()))


def test_every_word_is_weighed_in_evaluation_in_parts_where_they_are_many(monkeypatch):
    head, (states, targets) = make_head().eval(), some_targets()
    torch.testing.assert_close(head.loss(states, targets), full_loss(head, states, targets))
    monkeypatch.setattr("crossner_cli.recurrent.language_model.LARGEST_SCORES", 2 * WORDS)
    torch.testing.assert_close(head.loss(states, targets), full_loss(head, states, targets))


@pytest.mark.parametrize("correct", [True, False])
def test_the_sampled_loss_is_a_softmax_among_the_target_and_what_else_was_drawn(correct):
    head, (states, targets) = make_head(correct=correct), some_targets()
    head.set_counts(torch.randint(100, (WORDS,)))
    ranks, tries = torch.tensor([3, 0, 7, 11]), 6
    rank_of = {word: rank for rank, word in enumerate(head.ids_by_rank.tolist())}

    def score(row: int, word: int) -> float:
        often = 1 - (1 - math.log((rank_of[word] + 2) / (rank_of[word] + 1)) / math.log(WORDS + 1)) ** tries
        return (states[row] @ head.weight[word] + head.bias[word]).item() - correct * math.log(often + 1e-7)

    drawn = [word for word, rank in rank_of.items() if rank in ranks.tolist()]
    expected = 0.0
    for row, target in enumerate(targets.tolist()):  # a drawn word that is the target counts once
        total = math.fsum(math.exp(score(row, word)) for word in {target, *drawn})
        expected += math.log(total) - score(row, target)
    assert head._sampled_loss(states, targets, ranks, tries).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("words", "count"), [(2, 1), (50, 49), (1000, 50), (200_000, 50), (7, 7)])
def test_drawn_words_are_distinct_and_exist(words, count):
    torch.manual_seed(1)
    for _ in range(20):
        ranks, tries = draw_distinct(words, count)
        assert len(set(ranks.tolist())) == len(ranks) == count <= tries
        assert set(ranks.tolist()) <= set(range(words))


def test_words_are_drawn_log_uniformly_over_their_ranks():
    torch.manual_seed(1)
    words, draws = 6, 4000
    firsts = torch.stack([draw_distinct(words, 2)[0] for _ in range(draws)])
    one_try = torch.tensor([math.log((rank + 2) / (rank + 1)) / math.log(words + 1) for rank in range(words)])
    assert float(one_try.sum()) == pytest.approx(1)
    torch.testing.assert_close(torch.bincount(firsts[:, 0], minlength=words) / draws, one_try, atol=0.03, rtol=0)
    then = sum(one_try[rank] * one_try / (1 - one_try[rank]) * (torch.arange(words) != rank) for rank in range(words))
    torch.testing.assert_close(torch.bincount(firsts[:, 1], minlength=words) / draws, then, atol=0.03, rtol=0)


@pytest.mark.parametrize("words", [2, 50, 400_000])
@pytest.mark.parametrize("tries", [1, 60, 10**7])
def test_expected_counts_are_probabilities_that_fall_with_the_rank(words, tries):
    expected = expected_counts(words, torch.arange(words), tries)
    assert bool(((expected > 0) & (expected <= 1)).all())
    assert bool((expected[1:] <= expected[:-1]).all())
    if tries == 1:
        assert float(expected.double().sum()) == pytest.approx(1, rel=1e-4)


def test_words_are_ranked_by_falling_frequency_and_ties_by_number_and_ranks_are_saved():
    head, other = make_head(words=5), make_head(words=5)
    assert head.ids_by_rank.tolist() == head.rank_of_id.tolist() == [0, 1, 2, 3, 4]
    head.set_counts(torch.tensor([2, 0, 9, 2, 3]))
    other.load_state_dict(head.state_dict())
    for each in (head, other):
        assert each.ids_by_rank.tolist() == [2, 4, 0, 3, 1]
        assert each.rank_of_id.tolist() == [2, 4, 0, 3, 1]
        assert each.rank_of_id[each.ids_by_rank].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="5 words"):
        head.set_counts(torch.zeros(4))


def test_each_half_predicts_its_neighbour_and_the_end():
    head = make_head().eval()
    states = torch.randn(3, 4, 2 * SIZE)
    mask = torch.arange(4) < torch.tensor([4, 1, 2])[:, None]
    ids = torch.tensor([[5, 0, 3, 2], [7, 9, 9, 9], [1, 1, 9, 9]])  # 9 stands in padding
    expected = torch.zeros(())
    for row, sentence in enumerate([[5, 0, 3, 2], [7], [1, 1]]):
        for place, (before, after) in enumerate(zip([0, *sentence[:-1]], [*sentence[1:], 0], strict=True)):
            forward, backward = states[row, place, :SIZE], states[row, place, SIZE:]
            expected = expected + full_loss(head, forward[None], torch.tensor([after]))
            expected = expected + full_loss(head, backward[None], torch.tensor([before]))
    torch.testing.assert_close(language_model_loss(head, states, ids, mask), expected)


@pytest.mark.parametrize("training", [True, False])
def test_losses_are_of_full_precision_under_autocast(training):
    head, (states, targets) = make_head().train(training), some_targets()
    torch.manual_seed(1)
    plain = head.loss(states, targets)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = head.loss(states, targets)
    assert torch.equal(plain, mixed) and mixed.dtype == torch.float32
