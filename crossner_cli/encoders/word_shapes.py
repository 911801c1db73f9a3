"""Learnt vectors of the shapes of words, for encoders whose tokenizer reads ``Apple`` as ``apple``.

A vector of the word's shape is added to the word embedding of each of its subwords. The idea is that of the feature
"word shape" of taggers before neural ones (Collins, 2002); the vectors are learnt with the tagger.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from crossner_cli.encoders.pretrained import read_tensors
from crossner_cli.errors import CrossNERError

# Number 0 is for start, end and padding.
NONE, LOWER, CAPITALISED, CAPITALS, MIXED, DIGIT, NO_LETTER = range(7)
SHAPES = 7
WORD_SHAPES = "word_shapes.safetensors"  # in a tagger's folder
DEVIATION = 0.02  # of new vectors


def find_shape(word: str) -> int:
    """Return the number of a word's shape: has a digit, has no letter, or how its letters are written."""
    if any(map(str.isdigit, word)):
        return DIGIT
    letters = "".join(filter(str.isalpha, word))
    if not letters:
        return NO_LETTER
    if letters == letters.lower():
        return LOWER
    if letters[1:] == letters[1:].lower():
        return CAPITALISED
    return CAPITALS if letters == letters.upper() else MIXED


def show_source() -> str:
    """Return the Python source of ``find_shape``, which needs nothing else."""
    names = "NONE, LOWER, CAPITALISED, CAPITALS, MIXED, DIGIT, NO_LETTER = range(7)"
    return f"{names}\n\n\n{inspect.getsource(find_shape)}"


def ignores_case(tokenizer: Any) -> bool:
    """Return whether a fast tokenizer cuts words into the same subwords in lower case, capitalised and in capitals."""
    cutter = tokenizer.backend_tokenizer
    rows = cutter.encode_batch_fast([["house"], ["House"], ["HOUSE"]], is_pretokenized=True, add_special_tokens=False)
    ids = [row.ids for row in rows]
    return ids[0] == ids[1] == ids[2] and set(ids[0]) != {tokenizer.unk_token_id}


class WordShapes(nn.Module):
    """One vector per shape, (7, E), for word embeddings of width E."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(SHAPES, width) * DEVIATION)

    def forward(self, shapes: Tensor) -> Tensor:
        """Return the vectors of shapes, (R, T, E) for (R, T)."""
        return self.vectors[shapes]

    def save(self, folder: Path) -> None:
        """Write the vectors beside the encoder."""
        save_file({"vectors": self.vectors.detach().contiguous().cpu()}, folder / WORD_SHAPES)


def load_word_shapes(folder: str | Path, width: int) -> WordShapes | None:
    """Load the vectors of a tagger's folder; None if it has none.

    Raises:
        CrossNERError: The file is broken, or its vectors have another width.
    """
    path = Path(folder) / WORD_SHAPES
    if not path.is_file():
        return None
    vectors = read_tensors(path).get("vectors")
    if vectors is None or tuple(vectors.shape) != (SHAPES, width):
        found = "no vectors" if vectors is None else f"vectors of size {tuple(vectors.shape)}"
        raise CrossNERError(f"{path} holds {found} instead of {(SHAPES, width)}.", hint="Train the tagger again.")
    shapes = WordShapes(width)
    shapes.vectors.data.copy_(vectors)
    return shapes
