"""Contextual string embeddings: the states of two character language models at each word of a sentence.

Paper: Akbik, Blythe and Vollgraf (2018), Contextual String Embeddings for Sequence Labeling, section 2; the inputs of
"Flair" in Hu et al. (2022), LANER. Tensors are named as in the language models of the flair package, whose own files
are pickles and are not read: recipes/flair_strings.sh writes them as safetensors.
Differs: no more than 50 characters of a word are read, so that one broken word does not slow a batch down. As in flair,
padding comes after the sentence, and a character that is not listed is read as the first of the list, <unk>.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from crossner_cli.encoders.names import STRINGS
from crossner_cli.encoders.pretrained import read_tensors
from crossner_cli.errors import CrossNERError
from crossner_cli.run.storage import check_model_folder, read_json

CHARACTERS = "strings.json"
SIDES = ("forward", "backward")
BEFORE, BETWEEN = "\n", " "  # before a sentence; between and after its words


class CharacterLM(nn.Module):
    """A character language model without the scores of the next character.

    Args:
        characters: Distinct ones, the unknown one included.
        hidden: Units of a layer, H.
        output: Width after a last linear map; None without one.
    """

    def __init__(self, characters: int, size: int, hidden: int, layers: int = 1, output: int | None = None) -> None:
        super().__init__()
        self.encoder = nn.Embedding(characters, size)
        self.rnn = nn.LSTM(size, hidden, layers, batch_first=True)
        self.proj = None if output is None else nn.Linear(hidden, output)
        self.output_dim = hidden if output is None else output

    def forward(self, characters: Tensor) -> Tensor:
        """Return the states after each character, (B, S, D), of (B, S)."""
        states: Tensor = self.rnn(self.encoder(characters))[0]
        return states if self.proj is None else self.proj(states)


class StringEncoder(nn.Module):
    """Both directions, never trained: the forward state after a word beside the backward state before it.

    Args:
        models: Forward and backward.
        characters: The numbered characters, in order; the first stands for all others.
    """

    def __init__(self, models: Sequence[CharacterLM], characters: Sequence[str]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.characters = tuple(characters)
        self.output_dim = sum(model.output_dim for model in models)
        self._numbers = {character: number for number, character in enumerate(self.characters)}
        self.requires_grad_(False)

    def forward(self, strings: Tensor, places: Tensor) -> Tensor:
        """One vector per word, (B, W, D), from the tensors that ``number`` returns."""
        sides = []
        with torch.no_grad(), torch.autocast(strings.device.type, enabled=False):
            for model, read, ends in zip(self.models, strings, places, strict=True):
                states = model(read)  # (B, S, D)
                sides.append(states.gather(1, ends[..., None].expand(-1, -1, states.shape[2])))
        return torch.cat(sides, dim=2)

    def number(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Number the characters of sentences, forward and backward, and find the place to read each word from.

        Args:
            sentences: Their words, joined by spaces.

        Returns:
            Numbers, (2, B, S), and places among them, (2, B, W); 0 at padding.
        """
        texts = [BETWEEN.join(words) for words in sentences]
        longest = max(map(len, texts)) + 2
        strings = np.zeros((2, len(texts), longest), np.int64)
        places = np.zeros((2, len(texts), max(map(len, sentences))), np.int64)
        for row, (text, words) in enumerate(zip(texts, sentences, strict=True)):
            for side, read in enumerate((text, text[::-1])):
                strings[side, row, : len(text) + 2] = [
                    self._numbers.get(character, 0) for character in BEFORE + read + BETWEEN
                ]
            ends = np.cumsum([len(word) + 1 for word in words])  # the space after each word, counted after BEFORE
            starts = ends - [len(word) + 1 for word in words]
            places[0, row, : len(words)] = ends
            places[1, row, : len(words)] = len(text) - starts + 1
        return torch.from_numpy(strings), torch.from_numpy(places)


def save_string_encoder(encoder: StringEncoder, folder: Path) -> None:
    """Write the files that ``load_string_encoder`` reads."""
    tensors = {
        f"{side}.{name}": value.contiguous().cpu()
        for side, model in zip(SIDES, encoder.models, strict=True)
        for name, value in model.state_dict().items()
    }
    save_file(tensors, folder / STRINGS)
    (folder / CHARACTERS).write_text(json.dumps(encoder.characters, ensure_ascii=False) + "\n", encoding="utf-8")


def load_string_encoder(folder: Path) -> StringEncoder:
    """Read both language models.

    Args:
        folder: Holds ``strings.safetensors``, whose tensors begin with ``forward.`` and ``backward.``, and
            ``strings.json``, the list of characters.

    Raises:
        CrossNERError: A file is missing or broken, or they do not belong together.
    """
    check_model_folder(folder)
    tensors, characters = read_tensors(folder / STRINGS), _read_characters(folder / CHARACTERS)
    models = []
    for side in SIDES:
        own = {name.removeprefix(f"{side}."): value for name, value in tensors.items() if name.startswith(f"{side}.")}
        models.append(_make_model(own, folder / STRINGS, side))
        rows = models[-1].encoder.num_embeddings
        if rows != len(characters):
            raise CrossNERError(
                f"{folder / CHARACTERS} lists {len(characters)} characters, and the {side} model of {STRINGS} has"
                f" vectors of {rows}.",
                hint="Write both files from the same language model.",
            )
    return StringEncoder(models, characters)


def _read_characters(path: Path) -> list[str]:
    characters = read_json(path, hint="It is a JSON list of characters.")
    if not isinstance(characters, list) or not all(isinstance(character, str) for character in characters):
        raise CrossNERError(
            f"{path} is not a JSON list of characters.", hint="Write them in the order of their numbers."
        )
    return characters


def _make_model(tensors: Mapping[str, Tensor], path: Path, side: str) -> CharacterLM:
    """Make a model of the size and values of the tensors, without the scores of the next character."""
    tensors = {name: value.float() for name, value in tensors.items() if not name.startswith("decoder.")}
    try:
        table, recurrent = tensors["encoder.weight"], tensors["rnn.weight_hh_l0"]
        layers = sum(name.startswith("rnn.weight_hh_l") for name in tensors)
        output = len(tensors["proj.weight"]) if "proj.weight" in tensors else None
        model = CharacterLM(table.shape[0], table.shape[1], recurrent.shape[1], layers, output)
        model.load_state_dict(dict(tensors))
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise CrossNERError(
            f"{path} holds no {side} language model of characters: {str(error).splitlines()[0]}.",
            hint=f"It needs {side}.encoder.weight and the {side}.rnn tensors of an LSTM, named as in flair.",
        ) from None
    return model
