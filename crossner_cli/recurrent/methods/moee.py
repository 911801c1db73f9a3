"""MoEE tagger: one linear expert per entity type (and one for O), mixed for each word by a gate that knows the types.

Paper: Mixture of Entity Experts, with MTL, of Liu, Winata and Fung (2020), zero-resource cross-domain NER, section 2
("w/ MTL and MoEE"; multi_task=false is "w/ MoEE").
Differs: CRF2 reads the meta-expert feature alone, as in the paper's formula (its text names the hidden states too);
the gate weighs the experts of all domains, only tags are limited to the domain. Loss terms may be weighted (the
paper's are equal). For Task1, dropout and the paper's BERT version (lstm_layers=0, decoder=softmax) see ``mtl``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import Decoded, TagLayer
from crossner_cli.layers.settings import setting
from crossner_cli.methods.contract import Rows, Shares
from crossner_cli.recurrent.bilstm import Context
from crossner_cli.recurrent.inputs import WordTagger
from crossner_cli.recurrent.methods.mtl import ENTITY_CLASSES, MTLTagger, entity_class_of_tags


class MoEETagger(WordTagger):
    """BiLSTM, entity experts and their gate, CRF2; and Task1 with CRF1 beside them on the BiLSTM."""

    @dataclass(frozen=True)
    class Hyperparameters(MTLTagger.Hyperparameters):
        """Settings of ``mtl``, and of the experts and their gate."""

        multi_task: bool = setting(True, "Learn Task1 too, as mtl.")
        expert_size: int = setting(200, "Width of the experts' outputs.", minimum=1)
        gate_weight: float = setting(1.0, "Weight of the gate's loss.", minimum=0)

    rows = Rows(
        tags=MTLTagger.rows.tags,
        types={"gate.weight": (0,), "gate.bias": (0,), "experts.weight": (0,), "experts.bias": (0,)},
    )
    paper = MTLTagger.paper
    hyper: Hyperparameters
    type_row: Tensor
    entity_class: Tensor

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.context = Context(encoder.output_dim, hyper.lstm_layers, hyper.lstm_size, hyper.dropout)
        width, experts = self.context.output_dim, len(tag_set.types) + 1
        self.gate = nn.Linear(width, experts)
        self.experts = EntityExperts(experts, width, hyper.expert_size)
        self.tag_layer = TagLayer(hyper.expert_size, len(tag_set), hyper.decoder)  # CRF2
        self.register_buffer("type_row", torch.tensor(tag_set.type_numbers()), persistent=False)
        if hyper.multi_task:
            self.entity_layer = TagLayer(width, ENTITY_CLASSES, hyper.decoder)  # CRF1
            self.register_buffer("entity_class", entity_class_of_tags(tag_set), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of Task2, of the gate (cross-entropy with gold types) and of Task1, summed over words."""
        assert batch.tags is not None
        real = batch.word_mask  # (B, W)
        states = self.states(batch)  # h
        mixture, gate = self._mixture(states)
        gate_loss = functional.cross_entropy(gate[real], self.type_row[batch.tags][real], reduction="sum")
        terms = {"tags": self.tag_layer.loss(mixture, batch.tags, real), "gate": self.hyper.gate_weight * gate_loss}
        if self.hyper.multi_task:
            entity = self.entity_layer.loss(states, self.entity_class[batch.tags], real)
            terms["entity"] = self.hyper.entity_weight * entity
        return terms

    def units(self, batch: Batch) -> dict[str, int]:
        """Count words, for every term."""
        terms = ("tags", "gate", "entity") if self.hyper.multi_task else ("tags", "gate")
        return dict.fromkeys(terms, batch.words)

    def decode(self, batch: Batch) -> Decoded:
        """Return the best sequence of the domain's tags, with the probability of each tag."""
        mixture, _ = self._mixture(self.states(batch))
        allowed, moves = self.rules.allowed(batch.domains), self.rules.moves(self.hyper.legal)
        return self.tag_layer.decode(mixture, batch.word_mask, allowed, moves)

    def explain(self, batch: Batch) -> dict[str, Shares]:
        """Return the experts' shares alpha."""
        _, gate = self._mixture(self.states(batch))
        return {"experts": Shares(gate.softmax(dim=-1), ("O", *self.tag_set.types))}

    def states(self, batch: Batch) -> Tensor:
        """Return the h of each word, (B, W, D)."""
        states: Tensor = self.context(self.encoder(batch), batch.word_mask)
        return states

    def _mixture(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Meta-expert features m, (B, W, S), and the gate before its softmax, (B, W, E), of states h, (B, W, D)."""
        with torch.autocast(states.device.type, enabled=False):
            gate = self.gate(states)
            return self.experts(states, gate.softmax(dim=-1)), gate


class EntityExperts(nn.Module):
    """E linear maps L_a(h) of the same vector of D values to S, mixed: m = sum_a alpha_a L_a(h)."""

    def __init__(self, experts: int, width: int, size: int) -> None:
        super().__init__()
        bound = width**-0.5  # as nn.Linear starts
        self.weight = nn.Parameter(torch.empty(experts, size, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(experts, size).uniform_(-bound, bound))

    def forward(self, states: Tensor, alpha: Tensor) -> Tensor:
        """Turn states, (B, W, D), and the experts' shares, (B, W, E), into m, (B, W, S)."""
        outputs = functional.linear(states, self.weight.flatten(0, 1), self.bias.flatten())  # (B, W, E * S)
        return torch.einsum("bwe,bwes->bws", alpha, outputs.view(*alpha.shape, -1))


METHOD = MoEETagger
