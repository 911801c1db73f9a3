"""Coach: first where entities are, by tags without types, then what each one is, by the description of its type.

Paper: Coach of Liu et al. (2020), in the version that Liu et al. (2021), CrossNER, compare with: fixed descriptions,
trained jointly; template regularisation, which that version leaves out, is ``templates=true``.
Differs: one step on both losses instead of a further one for each sentence; descriptions start without random noise and
have no character part; dropout also behind the BiLSTM; the loss of detection is divided by words, that of typing by
entities; detection keeps to legal sequences (legal=false gives the paper's); an I that follows an O opens an entity of
its own instead of joining the one before, while an I before any B still becomes O; only types of the sentence's domain
are given. Of the templates: an entity is replaced by one vector, a linear map of its type's description; both losses
train sentences and templates from the first update on; wrong templates are pushed only as far as ``template_margin``,
not without end; where a domain has one type there are none; sentences without an entity are kept for detection.
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
from crossner_cli.encoders.word_encoder import WordEncoder
from crossner_cli.layers.bilstm import BiLSTM
from crossner_cli.layers.crf import IMPOSSIBLE, Decoded, TagLayer, unpad
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import rate, setting
from crossner_cli.methods.contract import UNPUBLISHED_FOR_WORDS, OtherUnits, Paper, TagRules
from crossner_cli.methods.described import DescribedInputs, DescribedTagger
from crossner_cli.methods.moee import type_row_of_tags
from crossner_cli.methods.mtl import entity_class_of_tags

# What detection tells of a word: in no entity, the first word of one, a further one. The rules for tags hold for them.
OUTSIDE, FIRST, INSIDE = range(3)
BOUNDARIES = TagSet({"": ("entity",)})
WRONG_TEMPLATES = 2


class CoachTagger(DescribedTagger):
    """A CRF tells where entities are; the sum of a BiLSTM over an entity's words tells which description it fits."""

    @dataclass(frozen=True)
    class Hyperparameters(DescribedInputs):
        """Settings of words, descriptions, the BiLSTM and the templates."""

        lstm_layers: int = setting(2, "Layers of the BiLSTM.", minimum=1)
        lstm_size: int = setting(256, "Units of one direction of the BiLSTM.", minimum=1)
        dropout: float = rate(0.5, "Share of the values dropped between the layers and behind the last.")
        templates: bool = setting(False, "Train with template regularisation.")
        template_weight: float = setting(1.0, "Weight of the templates' loss.", minimum=0)
        template_margin: float = setting(
            0.1, "Mean squared difference up to which a sentence and its wrong templates are pushed apart.", minimum=0
        )
        legal: bool = setting(True, "Detect only what B, I and O allow.")

    reads = "words"
    needs_even_width = True
    paper = Paper(
        settings={"word_size": "300", "input_dropout": "0.5", "characters": "none", "legal": "false"},
        options={**UNPUBLISHED_FOR_WORDS, "batch_size": 32, "head_learning_rate": 1e-4, "upsample": 10},
    )
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
        size = encoder.description_size
        self.entity_reader = EntityReader(self.lstm.output_dim, size)
        self.templates: Templates | None = None
        if hyper.templates:
            self.templates = Templates(encoder.output_dim, size, hyper.lstm_layers, hyper.lstm_size, hyper.dropout)
        self.register_buffer("boundary_of_tag", entity_class_of_tags(tag_set, len(BOUNDARIES)), persistent=False)
        self.register_buffer("type_of_tag", type_row_of_tags(tag_set), persistent=False)
        self.register_buffer("tag_of", tag_of_types(tag_set), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of boundaries, types and templates.

        These are the negative log-likelihood of the gold boundaries, summed over sentences; the cross-entropy of the
        gold types, summed over gold entities; the squared differences from the templates, summed over sentences with an
        entity.
        """
        assert batch.tags is not None
        words = self.encoder(batch)  # (B, W, H)
        hidden = self.lstm(words, batch.word_mask)  # (B, W, 2 L)
        states = self.dropout(hidden)
        boundaries = self.boundary_of_tag[batch.tags]
        entities = find_entities(boundaries, batch.word_mask)
        types = self.type_of_tag[batch.tags.flatten()[entities.firsts]]  # (N,)
        terms = {
            "boundaries": self.boundary_layer.loss(states, boundaries, batch.word_mask),
            "types": functional.cross_entropy(self._type_scores(states, entities), types, reduction="sum"),
        }
        if self.templates is not None:
            terms["templates"] = self.hyper.template_weight * self._template_loss(batch, words, hidden, entities, types)
        return terms

    def units(self, batch: Batch) -> dict[str, int]:
        """Count words, entities, and sentences that have entities."""
        assert batch.tags is not None
        boundaries = self.boundary_of_tag.to(batch.tags.device)[batch.tags]
        firsts = find_entities(boundaries, batch.word_mask).firsts
        units = {"boundaries": batch.words, "types": OtherUnits(len(firsts))}
        if self.templates is not None:
            sentences = (firsts // batch.word_mask.shape[1]).bincount().count_nonzero()
            units["templates"] = OtherUnits(sentences)
        return units

    def decode(self, batch: Batch) -> Decoded:
        """Return the best boundaries (Viterbi), and the likeliest of the domain's types for each entity they make.

        The probability of a tag is the marginal one of its boundary, times that of the type where it has one.
        """
        mask, crf = batch.word_mask, self.boundary_layer.crf
        assert crf is not None
        allowed = self._allowed_types(batch)  # (B, E + 1)
        states = self.dropout(self.lstm(self.encoder(batch), mask))
        usable = torch.stack([allowed[:, 0], *2 * [allowed[:, 1:].any(dim=1)]], dim=1)  # no type, no entity: (B, 3)
        scores = self.boundary_layer.scores(states).masked_fill(~usable[:, None], IMPOSSIBLE)
        boundaries = crf.viterbi(scores, mask, self.boundary_rules.moves() if self.hyper.legal else None)  # (B, W)
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

    def _allowed_types(self, batch: Batch) -> Tensor:
        """Return the types of each sentence's domain as a mask, (B, E + 1); the first one is O."""
        return self.rules.allowed(batch.domains)[:, self.tag_of[:, 0]]

    def _template_loss(self, batch: Batch, words: Tensor, hidden: Tensor, entities: Entities, types: Tensor) -> Tensor:
        """Draw each sentence towards its template, and away from templates of wrong types up to the margin."""
        assert self.templates is not None
        sentences = entities.sentences(batch.word_mask)  # (N,)
        wrong, has_wrong = draw_wrong_types(types, self._allowed_types(batch)[sentences])
        described = self.descriptions[torch.cat([types[None], wrong])]  # (1 + 2, N, D)
        far: Tensor = self.templates(words, hidden, batch.word_mask, entities, described)  # (1 + 2, B)
        pulled = far.new_zeros(len(batch)).index_fill(0, sentences, 1)
        pushed = far.new_zeros(len(batch)).index_fill(0, sentences[has_wrong], 1)
        near: Tensor = self.hyper.template_margin - far[1:]  # below the margin
        return (far[0] * pulled).sum() + (near.relu() * pushed).sum()


class Entities(NamedTuple):
    """The N entities of a batch, as they stand in it, and their P words. Places count padded words: 0 to B * W - 1.

    Args:
        places: Where each word is, (P,).
        numbers: Which entity it is part of, (P,).
        positions: How many words of that entity stand before it, (P,).
        firsts: Place of each entity's first word, (N,).
    """

    places: Tensor
    numbers: Tensor
    positions: Tensor
    firsts: Tensor

    @property
    def lengths(self) -> Tensor:
        """Words of each entity, (N,)."""
        return self.numbers.bincount(minlength=len(self.firsts))

    def sentences(self, mask: Tensor) -> Tensor:
        """Which sentence each entity is part of, (N,)."""
        return self.firsts // mask.shape[1]


def find_entities(boundaries: Tensor, mask: Tensor) -> Entities:
    """Read entities: each begins at a first word, or at an inside word that follows none.

    Args:
        boundaries: OUTSIDE, FIRST or INSIDE, (B, W).
        mask: Where a word is, (B, W).
    """
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
    """A BiLSTM over the words of each entity, its outputs summed: r. In fp32.

    Args:
        width: Of the vectors read.
        size: Of r, D; each direction gives half of it.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, size // 2, bidirectional=True)

    def forward(self, states: Tensor, entities: Entities) -> Tensor:
        """From states of words, (B, W, S), to one vector an entity, (N, D).

        Entities are packed without ever being padded, so one of a thousand words does not make the others as long.
        """
        places, numbers, positions, firsts = entities
        if not len(firsts):  # an LSTM must read something, and a loss of nothing must still reach it
            nothing = firsts.new_zeros(1)
            read: Tensor = self(states, Entities(nothing, nothing, nothing, nothing))
            return read[:0]
        ranks = entities.lengths.argsort(descending=True, stable=True).argsort()  # (N,), the longest first
        order = (positions * len(firsts) + ranks[numbers]).argsort()  # all first words, then all second ones, ...
        with torch.autocast(states.device.type, enabled=False):
            words = states.float().flatten(0, 1)[places[order]]  # (P, S)
            outputs: Tensor = self.lstm(PackedSequence(words, positions.bincount().cpu()))[0].data  # (P, D)
            return outputs.new_zeros(len(firsts), outputs.shape[1]).index_add(0, numbers[order], outputs)


class Attention(nn.Module):
    """One vector a sentence: its words' states, each weighted by its share in a softmax of learnt scores."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """From (B, W, S), where ``mask`` (B, W) says words are, to (B, S)."""
        shares = self.score(states).masked_fill(~mask[..., None], -torch.inf).softmax(dim=1)  # (B, W, 1)
        summed: Tensor = (shares * states).sum(dim=1)
        return summed


class Templates(nn.Module):
    """Sentences whose entities are replaced by descriptions, and how far their vectors are from the sentences' own.

    Args:
        width: Of the encoder's word vectors, H.
        described: Of the descriptions, D.
        layers, size, dropout: Of the templates' own BiLSTM, as of the sentences'.
    """

    def __init__(self, width: int, described: int, layers: int, size: int, dropout: float) -> None:
        super().__init__()
        self.replace = nn.Linear(described, width)
        self.lstm = BiLSTM(width, size, layers, dropout)
        self.attention = Attention(self.lstm.output_dim)
        self.sentence_attention = Attention(self.lstm.output_dim)

    def forward(self, words: Tensor, hidden: Tensor, mask: Tensor, entities: Entities, described: Tensor) -> Tensor:
        """Compare each sentence with T templates.

        Args:
            words: The encoder's vectors, (B, W, H).
            hidden: Their states, (B, W, S).
            mask: Where a word is, (B, W).
            entities: Those that are replaced.
            described: By what, (T, N, D).

        Returns:
            Mean squared differences, (T, B); a sentence without entities is its own template.
        """
        with torch.autocast(words.device.type, enabled=False):
            templates = words.float().flatten(0, 1).repeat(len(described), 1, 1)  # (T, B * W, H)
            templates = templates.index_copy(1, entities.firsts, self.replace(described))
            gone = torch.zeros_like(mask).flatten()
            gone[entities.places[entities.positions > 0]] = True
            kept = mask & ~gone.view_as(mask)
            order = (~kept).byte().argsort(dim=1, stable=True)  # what is kept moves to the front
            rows = torch.arange(len(mask), device=mask.device)[:, None]
            templates = templates.view(len(described), *mask.shape, -1)[:, rows, order].flatten(0, 1)  # (T * B, W, H)
            kept = kept.gather(1, order).repeat(len(described), 1)  # (T * B, W)
            vectors = self.attention(self.lstm(templates, kept), kept)  # (T * B, S)
            own = self.sentence_attention(hidden, mask)  # (B, S)
            far: Tensor = (vectors.view(len(described), *own.shape) - own).square().mean(dim=2)
        return far


def draw_wrong_types(types: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Draw types that entities do not have.

    Args:
        types: Of each entity, (N,).
        allowed: Whether each type may be drawn for it, (N, E + 1); O never is.

    Returns:
        Two drawn types of each entity, (2, N), and whether there was any to draw, (N,): its own one stands for none.
    """
    others = allowed.index_fill(1, types.new_zeros(1), False).scatter(1, types[:, None], False)
    has_others = others.any(dim=1)
    chances = others.float().scatter(1, types[:, None], (~has_others).float()[:, None])
    return chances.multinomial(WRONG_TEMPLATES, replacement=True).T, has_others


METHOD = CoachTagger
