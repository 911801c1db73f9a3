"""Multi-cell LSTM: an LSTM whose memory is composed, word by word, of one cell for each entity type.

Paper: Jia and Zhang (2020), Multi-Cell Compositional LSTM for NER Domain Adaptation. Their unsupervised setting is
tasks=source-ner,target-lm, for which they (and --paper) set entity_weight=0.1 and attention_weight=0.5; a tag set of
one domain gives their target-only model.
Differs: a domain's loss is divided by the words of as many average sentences (of raw text by its words, labelled by a
dictionary or not) instead of its sentences. The attention loss reads the mean of both directions' scores, as the paper
says; the released code averages their probabilities and applies the softmax again. attention=shared follows the paper,
attention=domain the code, whose source attention reads P where Q is meant. Cells begin apart; in the code they begin
alike, and those that the same batches reach stay equal without the two type losses. The CRF is shared where all domains
have the same types (crf=domain never shares). Types of which no task learns a label, such as those of the target alone,
run no cells (the papers' domains have the same types there). Gates have one bias vector, as in the paper. An epoch
reads both domains whole, with smaller batches of the smaller one, and an update reads both; the code's is one pass over
the target, a step for each domain in turn. A frozen transformer drops nothing, which the code's does. A dictionary's
entries with digits label words too, which the code never finds. Negatives of the language model are drawn by how often
words occur; the code ranks words by where they are first met. Sequences are legal ones (legal=false: the CRF alone).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import UNLABELLED, Batch
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import setting
from crossner_cli.methods.contract import Shares
from crossner_cli.recurrent.language_model import SampledSoftmax, language_model_loss
from crossner_cli.recurrent.multi_cell import MultiCellLSTM, MultiCellStates
from crossner_cli.recurrent.multi_cell_recurrence import DIRECTIONS
from crossner_cli.recurrent.multi_task import MultiTaskTagger
from crossner_cli.recurrent.tasks import MultiTaskInputs, find_taught_types
from crossner_cli.recurrent.word_encoder import WordEncoder


class MultiCellTagger(MultiTaskTagger):
    """Entity type cells and the compositional cell are for all domains; a domain runs the cells of its own types."""

    @dataclass(frozen=True)
    class Hyperparameters(MultiTaskInputs):
        """Settings of words and tasks, of the cells and of the language models that read raw text."""

        entity_weight: float = setting(
            1.0, "Weight of the loss of types scored by the cells; 0 leaves it out.", minimum=0
        )
        attention_weight: float = setting(
            1.0, "Weight of the loss of types scored by the attention; 0 leaves it out.", minimum=0
        )
        lm_weight: float = setting(1.0, "Weight of the loss of raw text.", minimum=0)
        attention: Literal["shared", "domain"] = setting(
            "shared", "The weights of the attention: shared by the domains, or a set for each."
        )
        negatives: int = setting(50, "Words that a word of raw text is compared with.", minimum=1)

        def __post_init__(self) -> None:
            super().__post_init__()
            self.check_words()

        @property
        def learns_from_dictionary(self) -> bool:
            """True if one of the two losses of types is switched on."""
            return bool(self.entity_weight or self.attention_weight)

        def dictionary_types(self, tag_set: TagSet) -> Sequence[str]:
            """Return the types of the target that have a cell: those of which a task learns labels."""
            taught = find_taught_types(tag_set, self.task_names)
            return [kind for kind in super().dictionary_types(tag_set) if kind in taught]

    rows = dataclasses.replace(
        MultiTaskTagger.rows,
        types={"lstm.type_gate": (0,), "lstm.type_candidate": (0,), "type_score.weight": (0,), "type_score.bias": (0,)},
    )
    paper = dataclasses.replace(
        MultiTaskTagger.paper,
        settings={**MultiTaskTagger.paper.settings, "raw_minimum": "1"},
        without_target_labels={"entity_weight": "0.1", "attention_weight": "0.5"},
    )
    hyper: Hyperparameters
    runs: Tensor
    type_of_tag: Tensor

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        types = 1 + len(tag_set.types)  # O is one
        attentions = 2 if hyper.attention == "domain" else 1
        self.lstm = MultiCellLSTM(encoder.output_dim, hyper.lstm_size, types, attentions)
        self.dropout = Dropout(hyper.dropout)
        self.type_score = nn.Linear(self.lstm.output_dim, types)  # w_k and b_k
        if hyper.learns("lm"):
            assert isinstance(encoder, WordEncoder)
            count = len(encoder.vocabulary.words) + 1
            self.language_model = SampledSoftmax(count, hyper.lstm_size, hyper.negatives, correct=False)
        self.register_buffer("runs", torch.tensor(self._types_by_domain(tag_set)), persistent=False)
        self.register_buffer("type_of_tag", torch.tensor(tag_set.type_numbers()), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the weighted losses of each domain: CRF of labelled text, language models of raw text, known types."""
        words, terms, kinds = self.encoder(batch), {}, self._kinds(batch)
        for domain, rows in self.rows_by_domain(batch):
            mask, tags = batch.word_mask[rows], None if batch.tags is None else batch.tags[rows]
            states = self.run_cells(words[rows], mask, domain)
            if "tags" in kinds:
                assert tags is not None
                terms[self.term("tags", domain)] = self.tag_loss(self.dropout(states.hidden), tags, mask, domain)
            if "language" in kinds:
                assert self.language_model is not None and batch.word_ids is not None
                loss = language_model_loss(self.language_model, states.hidden, batch.word_ids[rows], mask)
                terms[self.term("language", domain)] = self.hyper.lm_weight * loss
            for kind, weight in self._type_weights().items():
                if kind in kinds:
                    assert tags is not None
                    read = self.entity_scores if kind == "entity" else self.attention_scores
                    loss = self._type_loss(read(states, domain), tags, mask, domain)
                    terms[self.term(kind, domain)] = weight * loss
        return terms

    def units(self, batch: Batch) -> dict[str, int]:
        """Count the words of the domain, with a label or not; for the language models two per word, its neighbours."""
        return {
            self.term(kind, domain): 2 * words if kind == "language" else words
            for domain, words in self.words_by_domain(batch).items()
            for kind in self._kinds(batch)
        }

    def _kinds(self, batch: Batch) -> list[str]:
        """Return the losses that a batch is read for."""
        own = "tags" if not batch.is_raw else "language" if self.language_model is not None else None
        return [*([own] if own else []), *([] if batch.tags is None else self._type_weights())]

    def _types_by_domain(self, tag_set: TagSet) -> list[list[bool]]:
        """Return the cells that the target, the first domain, and the source, all others, run, as masks (2, 1 + E).

        These are O and those of their types, but not of types of which no task learns a label: the CRF has never read
        a state that they are part of.
        """
        target, *others = tag_set.domains.values()
        sources = {entity_type for types in others or [target] for entity_type in types}
        taught = find_taught_types(tag_set, self.hyper.task_names)
        return [
            [True, *(entity_type in types and entity_type in taught for entity_type in tag_set.types)]
            for types in (set(target), sources)
        ]

    def tag_states(self, words: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the h of each word with dropout, (B, W, 2 H), given its vector, (B, W, D)."""
        states: Tensor = self.dropout(self.run_cells(words, mask, domain).hidden)
        return states

    def run_cells(self, words: Tensor, mask: Tensor, domain: int) -> MultiCellStates:
        """Run the cells of a domain over word vectors, (B, W, D)."""
        attention = self.read_as(domain) if self.hyper.attention == "domain" else 0
        states: MultiCellStates = self.lstm(words, mask, self.cells_of(domain), attention)
        return states

    def explain(self, batch: Batch) -> dict[str, Shares]:
        """Return the cells' shares in the compositional cell, for each direction; 0 for cells that do not run."""
        words, columns = self.encoder(batch), ("O", *self.tag_set.types)
        shares = self.type_score.weight.new_zeros(DIRECTIONS, *batch.word_mask.shape, len(columns))
        for domain, rows in self.rows_by_domain(batch):
            of_domain = torch.zeros_like(shares[:, rows])
            attention = self.run_cells(words[rows], batch.word_mask[rows], domain).attention  # (B, W, 2, l)
            of_domain[..., self.cells_of(domain)] = attention.softmax(dim=-1).permute(2, 0, 1, 3)
            shares[:, rows] = of_domain
        return {"cells forward": Shares(shares[0], columns), "cells backward": Shares(shares[1], columns)}

    def hidden_states(self, batch: Batch) -> dict[str, Tensor]:
        """Return the h of each word, and as ``cells`` the c_k of the type that the word is given, (B, W, 2 H) both."""
        words, found = self.encoder(batch), super().hidden_states(batch)
        given = torch.zeros_like(batch.word_mask, dtype=torch.long)
        for row, tags in enumerate(self.decode(batch).tags):
            given[row, : len(tags)] = self.type_of_tag[torch.tensor(tags, device=given.device)]
        cells = torch.zeros_like(found["hidden"])
        for domain, rows in self.rows_by_domain(batch):
            states = self.run_cells(words[rows], batch.word_mask[rows], domain)
            runs = self.runs[domain]
            place = ((runs.cumsum(dim=0) - 1) * runs)[given[rows]]  # among the domain's; O's of a type without a cell
            of_words = states.in_words(states.cells)  # (B, W, 2, l, H)
            places = place[..., None, None, None].expand(*of_words.shape[:3], 1, of_words.shape[-1])
            cells[rows] = of_words.gather(3, places).flatten(2)
        return {**found, "cells": cells}

    def cells_of(self, domain: int) -> Tensor:
        """Return the numbers of the cells that a domain runs, (l,): O, then its types in the order of the tag set."""
        return self.runs[domain].nonzero()[:, 0]

    def entity_scores(self, states: MultiCellStates, domain: int) -> Tensor:
        """Score entity types, (B, W, l): each cell scores its own type, w_k . c_k + b_k."""
        cells = self.cells_of(domain)
        weight = self.type_score.weight[cells].view(len(cells), DIRECTIONS, -1).transpose(0, 1)  # (2, l, H)
        by_direction = (self.dropout(states.cells) * weight[:, None, None]).sum(dim=-1)  # (2, W, B, l)
        return states.in_words(by_direction).sum(dim=2) + self.type_score.bias[cells]

    def attention_scores(self, states: MultiCellStates, domain: int) -> Tensor:
        """Score types by attention, (B, W, l): the mean of both directions' scores before the softmax."""
        return states.attention.mean(dim=2)

    def _type_weights(self) -> dict[str, float]:
        """Return the weights of the losses of types that are switched on."""
        weights = {"entity": self.hyper.entity_weight, "attention": self.hyper.attention_weight}
        return {name: weight for name, weight in weights.items() if weight > 0}

    def _type_loss(self, scores: Tensor, tags: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the cross-entropy, summed, of the types of words that have a tag, (B, W), given scores, (B, W, l)."""
        types = self.type_of_tag[tags.clamp(min=0)]
        known = mask & (tags != UNLABELLED) & self.runs[domain][types]
        place = self.runs[domain].cumsum(dim=0) - 1  # of each type among those of the domain
        return functional.cross_entropy(scores[known], place[types[known]], reduction="sum")


METHOD = MultiCellTagger
