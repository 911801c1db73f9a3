"""Robust sequence tagger: the concept tagger with examples of each entity type, which each word weighs for itself.

Paper: Shah et al. (2019), zero-shot slot filling with example values, as the baseline of Liu, Winata and Fung (2020),
zero-resource cross-domain NER; the examples of person, location, organization and miscellaneous are theirs.
Differs: the code lower-cases words; here examples are cased as in CoNLL-2003, and read in lower case where only that is
known. A type may have any number of examples; without any, its description is its only one. Otherwise see
``concept-tagger``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.type_descriptions import describe_type, parse_type_words
from crossner_cli.layers.settings import setting
from crossner_cli.methods.contract import Rows
from crossner_cli.recurrent.methods.concept_tagger import ConceptTagger
from crossner_cli.recurrent.word_encoder import WordEncoder

# By the description of the type, so that PER, Person and person have the same ones.
PUBLISHED: dict[str, tuple[str, ...]] = {
    "location": ("France", "Russia"),
    "person": ("Quigley", "Samokhalova"),
    "organization": ("Aberdeen", "Nantes"),
    "organisation": ("Aberdeen", "Nantes"),
    "miscellaneous": ("English", "EU-wide"),
}


class RobustTagger(ConceptTagger):
    """A concept tagger whose passes read [h ; q_k ; sum_j a_j x_{k,j}], a = softmax_j((h * w_a) . x_{k,j}).

    The states h must be as wide as the vectors x of words, so the first BiLSTM has half their width a direction.
    """

    @dataclass(frozen=True)
    class Hyperparameters(ConceptTagger.Hyperparameters):
        """Settings of ``concept-tagger``, and the examples."""

        needs_even_width = True
        lstm_layers: int = setting(2, "Layers of the first BiLSTM.", minimum=1)
        lstm_size: int = setting(
            150,
            "Units of one direction of the second BiLSTM; the first has half the width of a word's static vector.",
            minimum=1,
        )
        examples: str = setting(
            "",
            "Words that are entities of a type, as politician=Merkel+Obama;country=Chile+Kenya; \\+ is a + of a word."
            " Of the others, person, location, organisation and misc have the published ones, and the rest their"
            " description. Examples are static vectors, so embeddings make them meaningful: all unknown words look"
            " alike.",
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            read_examples(self.examples)

        def described_words(self, types: Sequence[str]) -> list[str]:
            """Return the words of the types' descriptions, and their examples."""
            given = read_examples(self.examples)
            examples = (word for name in types for word in example_words(name, given))
            return [*super().described_words(types), *examples]

    rows = Rows(types={**ConceptTagger.rows.types, "examples": (0,), "is_example": (0,)})
    hyper: Hyperparameters
    examples: Tensor
    is_example: Tensor

    def __init__(self, encoder: WordEncoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        size = encoder.description_size
        super().__init__(encoder, tag_set, hyper, context_size=size // 2, type_vectors=2)
        examples, is_example = self._look_up_examples(encoder)
        self.register_buffer("examples", examples)  # x, (1 + E, J, D)
        self.register_buffer("is_example", is_example)  # (1 + E, J)
        self.example_weight = nn.Parameter(torch.empty(size).uniform_(-0.01, 0.01))  # w_a

    @torch.no_grad()
    def _look_up_examples(self, encoder: WordEncoder) -> tuple[Tensor, Tensor]:
        """Return the vectors of each type's examples, (1 + E, J, D), and a mask of the places that have one."""
        given = read_examples(self.hyper.examples)
        most = max(map(len, (*PUBLISHED.values(), *given.values())))  # J
        examples = torch.zeros(len(self.descriptions), most, self.descriptions.shape[1])
        is_example = torch.zeros(len(self.descriptions), most, dtype=torch.bool)
        for row, entity_type in enumerate(self.tag_set.types, 1):
            # A transformer has several vectors per word, which are summed as in descriptions.
            vectors = [encoder.embed_words([word]).sum(dim=0) for word in example_words(entity_type, given)]
            found = vectors or [self.descriptions[row]]
            examples[row, : len(found)] = torch.stack(found)
            is_example[row, : len(found)] = True
        return examples, is_example

    def _inputs(self, states: Tensor, rows: Tensor) -> Tensor:
        examples = self.examples[rows]  # (n, J, D)
        scores = (states * self.example_weight) @ examples.mT  # (n, W, J)
        weights = scores.masked_fill(~self.is_example[rows][:, None], -torch.inf).softmax(dim=-1)
        return torch.cat([super()._inputs(states, rows), weights @ examples], dim=-1)


def read_examples(text: str) -> dict[str, tuple[str, ...]]:
    r"""Read ``type=word+word;type=word+word``, the words of each type; ``\+`` is a + of a word. Refuse other texts."""

    def split(listed: str) -> list[str]:
        return [word.replace(r"\+", "+") for word in re.split(r"(?<!\\)\+", listed)]

    return parse_type_words(text, "examples", "politician=Merkel+Obama;country=Chile+Kenya", split)


def example_words(entity_type: str, given: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the examples of a type: those given, else the published ones, else none."""
    return given.get(entity_type) or PUBLISHED.get(" ".join(describe_type(entity_type)), ())


METHOD = RobustTagger
