"""The parts of taggers that compare words with descriptions of entity types."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.type_descriptions import description_words, parse_type_words
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import setting
from crossner_cli.methods.contract import Rows
from crossner_cli.recurrent.inputs import WordTagger
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import WordInputs


@dataclass(frozen=True)
class DescribedInputs(WordInputs):
    """Settings of words, and the descriptions of types."""

    # True where a BiLSTM takes half the width of a description in each direction.
    needs_even_width: ClassVar[bool] = False
    descriptions: str = setting(
        "",
        "Words that describe types, as MISC=nationality or event;PER=name of a person. The other types are described by"
        " their names.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        read_descriptions(self.descriptions)
        if self.words == self.transformer == "none":
            raise CrossNERError(
                "words=none and transformer=none: type descriptions need vectors of words.",
                hint="Set words=trained, words=frozen or transformer=frozen.",
            )

    def check_width(self, size: int) -> None:
        """Refuse word vectors of an odd width where descriptions are read in halves."""
        if self.needs_even_width and size % 2:
            raise CrossNERError(
                f"Type descriptions have {size} values, and this method needs an even number: each direction of a"
                " BiLSTM takes half of them.",
                hint="Set an even word_size, or give --set embeddings=FILE of an even width.",
            )

    def described_words(self, types: Sequence[str]) -> list[str]:
        """Return the words that describe these types."""
        return description_words(types, read_descriptions(self.descriptions))


class DescribedTagger(WordTagger, ABC):
    """A tagger with one row per type, the vector of its description, (1 + E, D).

    The rows are kept in a buffer, since the word vectors that they are made of may be trained.
    """

    rows = Rows(types={"descriptions": (0,)})
    descriptions: Tensor
    hyper: DescribedInputs

    def describe(self, encoder: WordEncoder) -> None:
        """Set the vectors of the descriptions, after a row of zeros for O.

        Raises:
            CrossNERError: The encoder has no vectors for descriptions, or they have an odd width.
        """
        self.hyper.check_width(encoder.description_size)
        types, outside = self.tag_set.types, torch.zeros(1, encoder.description_size)
        given = read_descriptions(self.hyper.descriptions)
        rows = torch.cat([outside, encoder.describe(types, given).float()]) if types else outside
        self.register_buffer("descriptions", rows)

    def adopt(self, old: dict[str, Tensor], tag_set: TagSet, settings: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the tensors of a start without those that describe types, which each tagger is given again."""
        described = dict(self.named_buffers())
        return {name: value for name, value in old.items() if name not in described}


def read_descriptions(text: str) -> dict[str, tuple[str, ...]]:
    """Read ``type=word word;type=word``, the words that describe each type; refuse any other text."""
    return parse_type_words(text, "descriptions", "MISC=nationality or event;PER=name of a person", str.split)
