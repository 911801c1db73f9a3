"""Coach: first where entities are, by tags without types, then what each one is, by the description of its type.

Paper: Coach of Liu et al. (2020), in the version that Liu et al. (2021), CrossNER, compare with: fixed descriptions,
trained jointly, without template regularisation.
Differs: one step on both losses instead of a further one for each sentence; descriptions start without random noise and
have no character part; dropout also after the BiLSTM; the loss of detection is divided by words, that of typing by
entities; detection keeps to legal sequences (legal=false gives the paper's); an I that follows an O opens a new entity
instead of joining the one before, while an I before any B still becomes O; only types of the sentence's domain are
given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from crossner_cli.data.tags import Span, TagSet, to_tags
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import IMPOSSIBLE, Decoded, TagLayer, unpad
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import rate, setting
from crossner_cli.methods.contract import UNPUBLISHED_FOR_WORDS, OtherUnits, Paper, TagRules
from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.described import DescribedInputs, DescribedTagger
from crossner_cli.recurrent.methods.mtl import entity_class_of_tags
from crossner_cli.recurrent.word_encoder import WordEncoder

# The classes of detection: outside, first word of an entity, further word. The rules for tags hold for them.
OUTSIDE, FIRST, INSIDE = range(3)
BOUNDARIES = TagSet({"": ("entity",)})


class CoachTagger(DescribedTagger):
    """A CRF finds entities; the sum of a BiLSTM over the words of an entity is compared with the descriptions."""

    @dataclass(frozen=True)
    class Hyperparameters(DescribedInputs):
        """Settings of words, descriptions and the BiLSTM."""

        needs_even_width = True
        lstm_layers: int = setting(2, "Layers of the BiLSTM.", minimum=1)
        lstm_size: int = setting(256, "Units of one direction of the BiLSTM.", minimum=1)
        dropout: float = rate(0.5, "Share of the values dropped between the layers and after the last.")
        legal: bool = setting(True, "Detect only what B, I and O allow.")

    paper = Paper(
        settings={"word_size": "300", "input_dropout": "0.5", "characters": "none", "legal": "false"},
        options={**UNPUBLISHED_FOR_WORDS, "batch_size": 32, "head_learning_rate": 1e-4, "upsample": 10},
    )
    hyper: Hyperparameters
    boundary_of_tag: Tensor
    type_of_tag: Tensor
    tag_of: Tensor

    def __init__(self, encoder: WordEncoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.lstm = BiLSTM(encoder.output_dim, hyper.lstm_size, hyper.lstm_layers, hyper.dropout)
        self.dropout = Dropout(hyper.dropout)
        self.boundary_layer = TagLayer(self.lstm.output_dim, len(BOUNDARIES), "crf")
        self.boundary_rules = TagRules(BOUNDARIES)
        self.describe(encoder)  # q, (E + 1, D)
        self.entity_reader = EntityReader(self.lstm.output_dim, encoder.description_size)
        self.register_buffer("boundary_of_tag", entity_class_of_tags(tag_set), persistent=False)
        self.register_buffer("type_of_tag", torch.tensor(tag_set.type_numbers()), persistent=False)
        self.register_buffer("tag_of", tag_of_types(tag_set), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the negative log-likelihood of the gold boundaries and the cross-entropy of the gold types.

        These are summed over sentences and over gold entities.
        """
        assert batch.tags is not None
        states = self.dropout(self.lstm(self.encoder(batch), batch.word_mask))  # (B, W, 2 L)
        boundaries = self.boundary_of_tag[batch.tags]
        entities = find_entities(boundaries, batch.word_mask)
        types = self.type_of_tag[batch.tags.flatten()[entities.firsts]]  # (N,)
        return {
            "boundaries": self.boundary_layer.loss(states, boundaries, batch.word_mask),
            "types": functional.cross_entropy(self._type_scores(states, entities), types, reduction="sum"),
        }

    def units(self, batch: Batch) -> dict[str, int]:
        """Count words and entities."""
        assert batch.tags is not None
        boundaries = self.boundary_of_tag.to(batch.tags.device)[batch.tags]
        entities = find_entities(boundaries, batch.word_mask)
        return {"boundaries": batch.words, "types": OtherUnits(len(entities.firsts))}

    def decode(self, batch: Batch) -> Decoded:
        """Return the best boundaries (Viterbi), and the likeliest of the domain's types for each entity they make.

        The probability of a tag is the marginal one of its boundary, times that of the type where it has one.
        """
        mask, crf = batch.word_mask, self.boundary_layer.crf
        assert crf is not None
        allowed = self.rules.allowed(batch.domains)[:, self.tag_of[:, 0]]  # types of the domain and O, (B, E + 1)
        states = self.dropout(self.lstm(self.encoder(batch), mask))
        usable = torch.stack([allowed[:, 0], *2 * [allowed[:, 1:].any(dim=1)]], dim=1)  # (B, 3)
        scores = self.boundary_layer.scores(states).masked_fill(~usable[:, None], IMPOSSIBLE)
        boundaries = crf.viterbi(scores, mask, self.boundary_rules.moves(self.hyper.legal))  # (B, W)
        begun = (boundaries == FIRST).cumsum(dim=1) > 0
        boundaries = boundaries.masked_fill(~begun, OUTSIDE)
        probabilities = crf.marginals(scores, mask).gather(2, boundaries[..., None]).flatten()  # (B * W,)

        entities = find_entities(boundaries, mask)
        fitting = self._type_scores(states, entities).masked_fill(~allowed[entities.sentences(mask)], -torch.inf)
        shares, types = fitting.softmax(dim=1).max(dim=1)  # (N,)
        is_last = entities.positions == entities.lengths[entities.numbers] - 1  # (P,)
        parts = boundaries.flatten()[entities.places] - FIRST + 2 * is_last
        tags = torch.zeros_like(boundaries).flatten()
        tags[entities.places] = self.tag_of[types[entities.numbers], parts]
        probabilities[entities.places] *= shares[entities.numbers].detach()
        return Decoded(unpad(tags.view_as(mask), mask), unpad(probabilities.view_as(mask), mask))

    def _type_scores(self, states: Tensor, entities: Entities) -> Tensor:
        """Score how well each type's description fits each entity, r q: (N, E + 1). O fits none."""
        read = self.entity_reader(states, entities)  # r, (N, D)
        with torch.autocast(read.device.type, enabled=False):
            scores: Tensor = read @ self.descriptions[1:].T
        return functional.pad(scores, (1, 0), value=-torch.inf)


class Entities(NamedTuple):
    """The N entities of a batch, as they stand in it, and their P words. Places count padded words: 0 to B * W - 1."""

    places: Tensor  # of each word, (P,)
    numbers: Tensor  # of the entity it is part of, (P,)
    positions: Tensor  # how many words of that entity stand before it, (P,)
    firsts: Tensor  # place of each entity's first word, (N,)

    @property
    def lengths(self) -> Tensor:
        """Words of each entity, (N,)."""
        return self.numbers.bincount(minlength=len(self.firsts))

    def sentences(self, mask: Tensor) -> Tensor:
        """The sentence of each entity, (N,)."""
        return self.firsts // mask.shape[1]


def find_entities(boundaries: Tensor, mask: Tensor) -> Entities:
    """Read entities from boundaries, (B, W): each begins at a first word, or at an inside word that follows none."""
    inside = (boundaries != OUTSIDE) & mask
    follows = functional.pad(inside[:, :-1], (1, 0))  # another word of an entity
    starts = (inside & ((boundaries == FIRST) | ~follows)).flatten()
    places, firsts = inside.flatten().nonzero()[:, 0], starts.nonzero()[:, 0]
    numbers = starts.cumsum(dim=0)[places] - 1
    return Entities(places, numbers, places - firsts[numbers], firsts)


def tag_of_types(tag_set: TagSet) -> Tensor:
    """Return the tags of an entity's first, further, only and last word for each type, (E + 1, 4). O is itself."""
    rows = [[0, 0, 0, 0]]
    for entity_type in tag_set.types:
        first, further, last = to_tags([Span(0, 3, entity_type)], 3, tag_set.scheme)
        (only,) = to_tags([Span(0, 1, entity_type)], 1, tag_set.scheme)
        rows.append(tag_set.to_ids([first, further, only, last]))
    return torch.tensor(rows)


class EntityReader(nn.Module):
    """A BiLSTM over the words of each entity, whose summed outputs are r, of D values. In fp32."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, size // 2, bidirectional=True)

    def forward(self, states: Tensor, entities: Entities) -> Tensor:
        """Turn states of words, (B, W, S), into one vector per entity, (N, D).

        Entities are packed without ever being padded, so one of a thousand words does not make the others as long.
        """
        places, numbers, positions, firsts = entities
        if not len(firsts):  # an LSTM must read something, and even an empty loss must reach it
            nothing = firsts.new_zeros(1)
            read: Tensor = self(states, Entities(nothing, nothing, nothing, nothing))
            return read[:0]
        ranks = entities.lengths.argsort(descending=True, stable=True).argsort()  # (N,), the longest first
        order = (positions * len(firsts) + ranks[numbers]).argsort()  # all first words, then all second ones, ...
        with torch.autocast(states.device.type, enabled=False):
            words = states.float().flatten(0, 1)[places[order]]  # (P, S)
            outputs: Tensor = self.lstm(PackedSequence(words, positions.bincount().cpu()))[0].data  # (P, D)
            return outputs.new_zeros(len(firsts), outputs.shape[1]).index_add(0, numbers[order], outputs)


METHOD = CoachTagger
