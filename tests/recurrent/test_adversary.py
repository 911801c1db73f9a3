"""Telling a domain by the mean of a sentence's words; what else tells it is tested with ``multi-task-lstm``."""

import pytest
import torch

from crossner_cli.recurrent.adversary import MeanDiscriminator


@pytest.mark.parametrize("padding", [0.0, 9.0, -1e6])
def test_a_hidden_layer_reads_the_mean_of_the_words_of_each_sentence_and_no_padding(padding: float) -> None:
    torch.manual_seed(5)
    judge, lengths = MeanDiscriminator(6), [5, 1, 3]
    hidden, _, told = judge.classifier
    sentences = [torch.randn(length, 6) for length in lengths]
    states = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True, padding_value=padding)
    found = judge(states, torch.arange(5) < torch.tensor(lengths)[:, None])
    for logit, words in zip(found, sentences, strict=True):
        mean = sum(words) / len(words)
        read = (hidden.weight @ mean + hidden.bias).clamp(min=0)
        torch.testing.assert_close(logit, told.weight[0] @ read + told.bias[0])
