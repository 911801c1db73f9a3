"""The BiLSTM: equal to PyTorch's, sentence by sentence, whatever the padding."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.recurrent.bilstm import BiLSTM, is_faster_mirrored

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("layers", [1, 2])
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), seed=st.integers(0, 3))
def test_a_bilstm_gives_and_learns_what_pytorch_s_does_sentence_by_sentence(layers, lengths, seed):
    torch.manual_seed(seed)
    lstm = BiLSTM(3, 4, layers)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    values = torch.where(mask[..., None], torch.randn(*mask.shape, 3), 7.0)  # what padding holds is not read
    weights = torch.arange(8.0)
    together = lstm(values, mask)
    (together * weights).sum().backward()
    gradients = [value.grad.clone() for value in lstm.lstm.parameters()]
    with torch.no_grad():
        torch.testing.assert_close(lstm(values, mask), together, **CLOSE)
    lstm.zero_grad()
    for row, length in enumerate(lengths):
        alone, _ = lstm.lstm(values[row : row + 1, :length])
        (alone * weights).sum().backward()
        torch.testing.assert_close(together[row, :length], alone[0], **CLOSE)
        assert not together[row, length:].any()
    torch.testing.assert_close(gradients, [value.grad for value in lstm.lstm.parameters()], **CLOSE)


def test_sentences_are_mirrored_in_training_unless_most_is_padding():
    values, short = torch.zeros(2, 9, 3), torch.arange(9) < torch.tensor([[9], [1]])
    half = torch.arange(9) < torch.tensor([[9], [3]])
    assert is_faster_mirrored(values, half) and is_faster_mirrored(values, short)
    assert not is_faster_mirrored(values, torch.arange(9) < torch.tensor([[7], [1]]))
    with torch.no_grad():
        assert not is_faster_mirrored(values, half)
