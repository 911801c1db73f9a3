"""What each method is, read from its own file: paper, inputs, size, settings."""

from __future__ import annotations

import dataclasses
import re
import sys
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import Encoder
from crossner_cli.encoders.word_reader import Vocabulary, WordInputs
from crossner_cli.methods.contract import Tagger, find_method, method_names, read_settings

# Sizes are told for these: the width of minilm or of the vectors of words, and the tags of the ai domain.
WIDTH, TYPES = 384, 14
WORD_WIDTH = WordInputs.word_size + WordInputs.character_size


@dataclass(frozen=True)
class MethodFacts:
    """One method.

    Args:
        name: The value of ``--method``.
        title: First sentence of its file.
        paper: Where it is published.
        differs: What is not as published.
        reads: ``subwords`` of a transformer, ``words`` (static vectors, characters, and a transformer if set), or
            subwords of an ``encoder-decoder``.
        parameters: Above an encoder of width 384, or vectors of words of width 150, for 14 entity types.
        settings: Name and default of each ``--set``.
        values: What each setting takes, as ``shared | domain``.
        meaning: What each setting means.
    """

    name: str
    title: str
    paper: str
    differs: str
    reads: str
    parameters: int
    settings: dict[str, Any]
    values: dict[str, str]
    meaning: dict[str, str]


def describe_methods(names: Sequence[str] = ()) -> list[MethodFacts]:
    """The methods named, or every method, by name.

    Raises:
        CrossNERError: There is no such method.
    """
    return [_describe(name, find_method(name)) for name in names or method_names()]


def _describe(name: str, method: type[Tagger]) -> MethodFacts:
    text = sys.modules[method.__module__].__doc__ or ""
    hyper = read_settings(method, [])
    tag_set = TagSet({"": tuple(f"type{number}" for number in range(TYPES))})
    tagger = method(_Width(WORD_WIDTH if method.reads == "words" else WIDTH), tag_set, hyper)
    parameters = sum(value.numel() for value in tagger.parameters())
    return MethodFacts(
        name, " ".join(text.partition("\n\n")[0].split()), _paragraph(text, "Paper"), _paragraph(text, "Differs"),
        method.reads, parameters, dataclasses.asdict(hyper), _values(type(hyper)), _meanings(type(hyper)),
    )  # fmt: skip


def _values(hyperparameters: type) -> dict[str, str]:
    """What each setting takes: its choices, or the kind of value."""
    hints = typing.get_type_hints(hyperparameters)
    kinds = {int: "whole number", float: "number", str: "text", bool: "true | false"}
    return {
        field.name: kinds.get(hints[field.name]) or " | ".join(typing.get_args(hints[field.name]))
        for field in dataclasses.fields(hyperparameters)
    }


def _meanings(hyperparameters: type) -> dict[str, str]:
    """What each setting means, from the docstrings of the dataclass and of those that it extends.

    A docstring explains settings as ``a: text. b, c: text.``; what a dataclass explains anew takes the place of what
    those below it say.
    """
    names = "|".join(field.name for field in dataclasses.fields(hyperparameters))
    found: dict[str, str] = {}
    for base in reversed(hyperparameters.__mro__[:-1]):
        text = " ".join((base.__dict__.get("__doc__") or "").split()).partition(" The others are ")[0]
        _, *parts = re.split(rf"\b((?:{names})(?:, (?:{names}))*): ", text)
        for group, meaning in zip(parts[::2], parts[1::2], strict=True):
            found |= dict.fromkeys(group.split(", "), meaning.rstrip(" .;"))
    return {field.name: found.get(field.name, "") for field in dataclasses.fields(hyperparameters)}


def _paragraph(text: str, heading: str) -> str:
    found = re.search(rf"^{heading}: (.*?)(?=^\w+: |\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


class _Width(Encoder):
    """An encoder that is a width and no more."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output_dim = self.description_size = width
        self.end_vector = torch.zeros(width)
        self.vocabulary = Vocabulary()

    def describe(self, types: Sequence[str], given: object = None) -> Tensor:
        """Zeros, (E, D)."""
        return torch.zeros(len(types), self.description_size)

    def forward(self, batch: Batch) -> Tensor:
        """Nothing: zeros."""
        return torch.zeros(*batch.word_mask.shape, self.output_dim)
