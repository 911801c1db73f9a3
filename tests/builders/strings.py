"""A tiny language model of characters."""

import torch

from crossner_cli.recurrent.string_embeddings import CharacterLM, StringEncoder

CHARACTERS = ["<unk>", "\n", " ", *"abcdeinorstAB."]


def make_encoder(layers: int = 1, output: int | None = None) -> StringEncoder:
    torch.manual_seed(layers)
    models = [CharacterLM(len(CHARACTERS), 4, size, layers, output) for size in (6, 5)]
    return StringEncoder(models, CHARACTERS)
