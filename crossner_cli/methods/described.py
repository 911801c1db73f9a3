"""What taggers share that tell entity types by vectors of their descriptions."""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.type_descriptions import describe_type, description_words, parse_type_words
from crossner_cli.encoders.word_encoder import WordEncoder
from crossner_cli.encoders.word_reader import WordInputs
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger


@dataclass(frozen=True)
class DescribedInputs(WordInputs):
    """descriptions: words that describe types, as MISC=nationality or event;PER=name of a person; types without any are
    described by their names. Types that carry over from a start keep its descriptions where they are given no others.
    """

    descriptions: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        read_descriptions(self.descriptions)
        if self.words == self.transformer == "none":
            raise CrossNERError(
                "words=none and transformer=none: type descriptions need vectors of words.",
                hint="Set words=trained, words=frozen or transformer=frozen.",
            )


class DescribingTagger(Tagger, ABC):
    """A tagger with a row a type, the vector of its description, (1 + E, D): stored, since the vectors of words that it
    is made of may be trained; a buffer, since it is not.
    """

    type_dimensions: ClassVar[dict[str, tuple[int, ...]]] = {"descriptions": (0,)}
    descriptions: Tensor

    @classmethod
    def described_words(cls, hyper: Any, types: Sequence[str]) -> list[str]:
        """The distinct words of the types' descriptions."""
        return description_words(types, read_descriptions(hyper.descriptions))

    def describe(self, encoder: WordEncoder) -> None:
        """Take in the vectors of the descriptions, behind a row of zeros for O.

        Raises:
            CrossNERError: The encoder has no vectors for descriptions.
        """
        types, outside = self.tag_set.types, torch.zeros(1, encoder.description_size)
        given = read_descriptions(self.hyper.descriptions)
        rows = torch.cat([outside, encoder.describe(types, given).float()]) if types else outside
        self.register_buffer("descriptions", rows)

    def redescribed(self, settings: Mapping[str, Any]) -> list[str]:
        """Types that are given another description than the start was, of whose method these are the settings."""
        given, before = (
            read_descriptions(text) for text in (self.hyper.descriptions, settings.get("descriptions", ""))
        )
        return [name for name in given if given[name] != tuple(describe_type(name, before))]

    def adopt(self, old: dict[str, Tensor], tag_set: TagSet, settings: Mapping[str, Any]) -> dict[str, Tensor]:
        """Types that are given another description than the start was take it; the others keep that of the start."""
        old = super().adopt(old, tag_set, settings)
        rows = old.get("descriptions")
        if rows is None or rows.shape[1:] != self.descriptions.shape[1:]:
            return old
        changed = self.redescribed(settings)
        self.note_kept("descriptions", read_descriptions, settings, tag_set, " ".join)
        return {**old, "descriptions": with_rows(rows, tag_set, self.descriptions, self.tag_set, changed)}

    def note_kept(
        self, setting: str, read: Callable[[str], Mapping[str, tuple[str, ...]]], settings: Mapping[str, Any],
        tag_set: TagSet, join: Callable[[Sequence[str]], str],
    ) -> None:  # fmt: skip
        """Make the words that come with rows of a start this tagger's own setting, as a stage after it must know them.

        Args:
            setting: Which one.
            read: What makes words of types of its text.
            settings: Of the start.
            tag_set: Its tags.
            join: What makes the text of one type's words.
        """
        given = read(getattr(self.hyper, setting))
        kept = {
            name: words for name, words in read(settings.get(setting, "")).items()
            if name in self.tag_set.types and name in tag_set.types and name not in given
        }  # fmt: skip
        text = ";".join(f"{name}={join(words)}" for name, words in {**given, **kept}.items())
        if kept:
            self.hyper = dataclasses.replace(self.hyper, **{setting: text})


def read_descriptions(text: str) -> dict[str, tuple[str, ...]]:
    """Read ``type=word word;type=word``: the words that describe each type.

    Raises:
        CrossNERError: The text is not of this form, or names a type twice.
    """
    return parse_type_words(text, "descriptions", "MISC=nationality or event;PER=name of a person", str.split)


def with_rows(old: Tensor, old_set: TagSet, new: Tensor, new_set: TagSet, types: Sequence[str]) -> Tensor:
    """A copy of the old rows, (1 + E, ...), where some types that both have have those of the new ones."""
    here, there = ("", *new_set.types), ("", *old_set.types)
    rows = old.clone()
    for name in types:
        if name in here and name in there:
            rows[there.index(name)] = new[here.index(name)]
    return rows
