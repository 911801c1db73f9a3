"""MTL tagger: two tasks over one BiLSTM, "is this word part of an entity" and the tags themselves.

Paper: MTL of Liu, Winata and Fung (2020), zero-resource cross-domain NER, section 2 ("w/ MTL").
Differs: the paper does not say whether Task1 keeps B and I; here it does, in BIOES as in BIO. Loss terms may be
weighted (the paper's are equal). The paper's BERT version is words=none, characters=none, transformer=trained,
lstm_layers=0, decoder=softmax. Dropout is on the words and between BiLSTM layers (the paper does not say). Sequences
are legal ones of the domain's tags (legal=false: the CRF's or the softmax's alone).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from crossner_cli.data.tags import TagSet, split_tag
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import TAG_DIMENSIONS, Decoded, TagLayer
from crossner_cli.layers.settings import rate, setting
from crossner_cli.methods.contract import UNPUBLISHED_FOR_WORDS, Paper, Rows
from crossner_cli.recurrent.bilstm import Context
from crossner_cli.recurrent.inputs import WordTagger
from crossner_cli.recurrent.word_reader import WordInputs

ENTITY_CLASSES = 3  # of Task1: O, B and I


class MTLTagger(WordTagger):
    """CRF1 separates entities from the rest, CRF2 tags; both read the same states. Decoding reads CRF2 only."""

    @dataclass(frozen=True)
    class Hyperparameters(WordInputs):
        """Settings of words, the BiLSTM and both tasks."""

        lstm_layers: int = setting(2, "Layers of the BiLSTM; 0 leaves the encoder's vectors.", minimum=0)
        lstm_size: int = setting(200, "Units of one direction of the BiLSTM.", minimum=1)
        decoder: Literal["crf", "softmax"] = setting("crf", "A CRF, or a softmax of each word.")
        entity_weight: float = setting(1.0, "Weight of Task1's loss.", minimum=0)
        dropout: float = rate(0.3, "Share of the values dropped between the BiLSTM's layers.")
        legal: bool = setting(True, "Give only tag sequences that the scheme allows.")

    terms = ("tags", "entity")
    rows = Rows(tags={f"tag_layer.{name}": dimensions for name, dimensions in TAG_DIMENSIONS.items()})
    paper = Paper(
        settings={"word_size": "300", "characters": "none", "legal": "false"},
        options={
            **UNPUBLISHED_FOR_WORDS,
            "epochs": None,
            "patience": None,
            "batch_size": 32,
            "head_learning_rate": 1e-3,
            "upsample": None,
        },
    )
    hyper: Hyperparameters
    entity_class: Tensor

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.context = Context(encoder.output_dim, hyper.lstm_layers, hyper.lstm_size, hyper.dropout)
        self.entity_layer = TagLayer(self.context.output_dim, ENTITY_CLASSES, hyper.decoder)  # CRF1
        self.tag_layer = TagLayer(self.context.output_dim, len(tag_set), hyper.decoder)  # CRF2
        self.register_buffer("entity_class", entity_class_of_tags(tag_set), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the negative log-likelihood of the gold sequences of Task2 and Task1, summed over sentences."""
        assert batch.tags is not None
        states = self.states(batch)  # h
        entity = self.entity_layer.loss(states, self.entity_class[batch.tags], batch.word_mask)
        return {
            "tags": self.tag_layer.loss(states, batch.tags, batch.word_mask),
            "entity": self.hyper.entity_weight * entity,
        }

    def decode(self, batch: Batch) -> Decoded:
        """Return the best sequence of the domain's tags, with the probability of each tag."""
        allowed, moves = self.rules.allowed(batch.domains), self.rules.moves(self.hyper.legal)
        return self.tag_layer.decode(self.states(batch), batch.word_mask, allowed, moves)

    def states(self, batch: Batch) -> Tensor:
        """Return the h of each word, (B, W, D)."""
        states: Tensor = self.context(self.encoder(batch), batch.word_mask)
        return states


def entity_class_of_tags(tag_set: TagSet) -> Tensor:
    """Return Task1's class of each tag, (K,): 0 for O, 1 for the first word of an entity, 2 for the others."""
    class_of = {"O": 0, "B": 1, "S": 1, "I": 2, "E": 2}
    return torch.tensor([class_of[split_tag(tag)[0]] for tag in tag_set.tags])


METHOD = MTLTagger
