"""Encoders: any architecture gives one vector a word, whatever the padding and however long the sentence."""

import pytest
import torch
from builders.encoders import ARCHITECTURES, encode_sentences

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.fast_layers import CPU_ATTENTION
from crossner_cli.encoders.transformer import TransformerEncoder

SENTENCES = [
    Sentence(("anna", "visited", "paris", "(x-ray)")),
    Sentence(("the", "acme", "of", "london", "ab,c") * 9),
    Sentence(("berlin",)),
]


@pytest.mark.parametrize("attention", [None, "eager", "sdpa", CPU_ATTENTION])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_any_architecture_gives_one_vector_a_word_whatever_the_padding(architectures, name, attention):
    encoder, weights = TransformerEncoder.from_pretrained(str(architectures(name)), attention=attention)
    assert weights.new == () and weights.loaded == len(encoder.model.state_dict())
    assert encoder.output_dim == 32
    together = encode_sentences(encoder, SENTENCES)
    assert together.shape == (3, 45, 32) and together.isfinite().all()
    for row, sentence in enumerate(SENTENCES):
        alone = encode_sentences(encoder, [sentence])[0]
        torch.testing.assert_close(together[row, : len(sentence.words)], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_long_sentence_is_read_in_parts_that_give_the_vectors_of_the_whole(architectures, name, monkeypatch):
    encoder, _ = TransformerEncoder.from_pretrained(str(architectures(name)))
    batch = encoder.reader.collate(encoder.reader.encode([SENTENCES[0], Sentence(("the", "x-ray") * 150)]))
    rows, width = batch.input_ids.shape
    sizes: list[int] = []
    encoder.eval().model.register_forward_pre_hook(
        lambda model, args, given: sizes.append(len(given["input_ids"])), with_kwargs=True
    )
    with torch.no_grad():
        whole = encoder(batch)
        for most in (1, 2 * width, 3 * width + 1, rows * width):
            batch.most_subwords = most
            torch.testing.assert_close(encoder(batch)[batch.word_mask], whole[batch.word_mask], rtol=1e-4, atol=1e-5)
    batch.most_subwords = 1
    encoder(batch)
    assert rows > 6 and sizes == [rows, *[1] * rows, *parts(rows, 2), *parts(rows, 3), rows, rows]


def parts(whole: int, most: int) -> list[int]:
    return [min(most, whole - first) for first in range(0, whole, most)]
