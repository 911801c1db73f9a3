"""Concept tagger: one pass over the sentence for each entity type, given as the vector of its description.

Paper: the Concept Tagger of Bapna et al. (2017), zero-shot slot filling, as the baseline of Liu, Winata and Fung
(2020), zero-resource cross-domain NER; its layers and sizes as in their code.
Differs: passes are merged by score, where the code lets later types overwrite earlier ones: taken as independent, and
given that at most one type names a word, they make P(B or I of k) proportional to P_k(B or I) / P_k(O), and P(O) to 1.
The best legal sequence is given (legal=false: the likeliest tag of each word). Only types of the sentence's domain are
passed; words keep their case (lower_case=true is the code's); in BIOES, E and S are I and B. The loss is the mean over
types but the sum over words. Padding is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from crossner_cli.data.tags import OUTSIDE, TagSet, split_tag
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import IMPOSSIBLE, Decoded, decode_words
from crossner_cli.layers.settings import rate, setting
from crossner_cli.methods.contract import UNPUBLISHED_FOR_WORDS, Paper
from crossner_cli.recurrent.bilstm import BiLSTM, Context
from crossner_cli.recurrent.described import DescribedInputs, DescribedTagger
from crossner_cli.recurrent.methods.mtl import entity_class_of_tags
from crossner_cli.recurrent.word_encoder import WordEncoder

CLASSES = 3  # of a pass: O, B, I
# Words, padding included, that passes read at once: about a gigabyte where gradients are wanted.
MOST_READ = 2**15


class Passes(NamedTuple):
    """N passes, each over one sentence for one type of its domain."""

    sentences: Tensor  # place of each pass's sentence in the batch, (N,)
    types: Tensor  # place of its type in the tag set, (N,)
    scores: Tensor  # of O, B and I before the softmax, (N, W, 3)


class ConceptTagger(DescribedTagger):
    """A BiLSTM, and a second one that reads its states h beside q_k, the description of one type.

    No layer above the encoder has a row per tag or type: all types share all weights.

    Args:
        context_size: Units of one direction of the first BiLSTM; ``lstm_size`` where None.
        type_vectors: Number of vectors per type that are read beside h.
    """

    @dataclass(frozen=True)
    class Hyperparameters(DescribedInputs):
        """Settings of words, descriptions and both BiLSTMs."""

        lstm_layers: int = setting(
            2, "Layers of the BiLSTM that all types share; 0 leaves the encoder's vectors.", minimum=0
        )
        lstm_size: int = setting(200, "Units of one direction of each BiLSTM.", minimum=1)
        dropout: float = rate(0.3, "Share of the values dropped between the layers of the first BiLSTM.")
        legal: bool = setting(True, "Give only tag sequences that the scheme allows.")

    paper = Paper(
        settings={"word_size": "300", "characters": "none", "lower_case": "true", "legal": "false"},
        options={
            **UNPUBLISHED_FOR_WORDS,
            "epochs": 300,
            "patience": 5,
            "batch_size": 32,
            "head_learning_rate": 1e-4,
            "upsample": None,
        },
    )
    hyper: Hyperparameters
    first_tags: Tensor
    type_row: Tensor
    class_of_tag: Tensor

    def __init__(
        self,
        encoder: WordEncoder,
        tag_set: TagSet,
        hyper: Hyperparameters,
        *,
        context_size: int | None = None,
        type_vectors: int = 1,
    ) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.describe(encoder)  # q, (1 + E, D)
        described = type_vectors * self.descriptions.shape[1]
        self.context = Context(encoder.output_dim, hyper.lstm_layers, context_size or hyper.lstm_size, hyper.dropout)
        self.type_lstm = BiLSTM(self.context.output_dim + described, hyper.lstm_size)
        self.type_classifier = nn.Linear(self.type_lstm.output_dim, CLASSES)
        first_tags = tag_set.to_ids([f"B-{entity_type}" for entity_type in tag_set.types])
        self.register_buffer("first_tags", torch.tensor(first_tags, dtype=torch.long), persistent=False)
        self.register_buffer("type_row", torch.tensor(tag_set.type_numbers()), persistent=False)
        self.register_buffer("class_of_tag", entity_class_of_tags(tag_set), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy of O, B and I: the mean over the types of the domain, summed over the words."""
        assert batch.tags is not None
        sentences, types, scores = self._passes(batch)
        gold = batch.tags[sentences]  # (N, W)
        classes = torch.where(self.type_row[gold] == 1 + types[:, None], self.class_of_tag[gold], 0)
        losses = functional.cross_entropy(scores.flatten(0, 1), classes.flatten(), reduction="none").view_as(classes)
        passes = sentences.bincount()[sentences]  # of the same sentence
        return {"tags": (losses * batch.word_mask[sentences] / passes[:, None]).sum()}

    def decode(self, batch: Batch) -> Decoded:
        """Return the best sequence of the domain's tags, with the probability of each word's tag."""
        log_probabilities = self._merge(self._passes(batch), len(batch))  # (B, W, K)
        moves = self.rules.moves(self.hyper.legal)
        decoded = decode_words(log_probabilities, batch.word_mask, moves)
        if moves is not None or self.tag_set.scheme == "bio":
            return decoded
        return Decoded([self._with_ends(tags) for tags in decoded.tags], decoded.probabilities)

    def _with_ends(self, tags: Sequence[int]) -> list[int]:
        """Put S and E at the ends of BIOES entities, where no I of the type follows: passes know O, B and I only."""
        names = self.tag_set.from_ids(tags)
        found = []
        for name, following in zip(names, [*names[1:], OUTSIDE], strict=True):
            prefix, entity_type = split_tag(name)
            is_end = name != OUTSIDE and following != f"I-{entity_type}"
            found.append(f"{'S' if prefix == 'B' else 'E'}-{entity_type}" if is_end else name)
        return self.tag_set.to_ids(found)

    def _passes(self, batch: Batch) -> Passes:
        """Make a pass for each type of each sentence's domain, all at once as far as memory allows."""
        states = self.context(self.encoder(batch), batch.word_mask)  # h, (B, W, C)
        sentences, types = self.rules.allowed(batch.domains)[:, self.first_tags].nonzero(as_tuple=True)
        if not len(types):  # without passes, every trained tensor still needs a gradient: DDP waits for each
            nothing = 0 * sum(value.flatten()[:1].sum() for value in self.parameters() if value.requires_grad)
            return Passes(sentences, types, states[:0, :, :1].expand(-1, -1, CLASSES) + nothing)
        at_once = max(1, MOST_READ // states.shape[1])
        scores = []
        for first in range(0, len(types), at_once):
            part = slice(first, first + at_once)
            given = (states, batch.word_mask, sentences[part], types[part])
            if at_once < len(types) and torch.is_grad_enabled():  # computed again in the backward pass, not kept
                scores.append(checkpoint(self._scores, *given, use_reentrant=False, preserve_rng_state=False))
            else:
                scores.append(self._scores(*given))
        return Passes(sentences, types, torch.cat(scores))

    def _scores(self, states: Tensor, mask: Tensor, sentences: Tensor, types: Tensor) -> Tensor:
        """Return the scores of some passes, (n, W, 3), over the states, (B, W, C), of all sentences."""
        with torch.autocast(states.device.type, enabled=False):
            inputs = self._inputs(states[sentences], 1 + types)
            scores: Tensor = self.type_classifier(self.type_lstm(inputs, mask[sentences]))
        return scores

    def _inputs(self, states: Tensor, rows: Tensor) -> Tensor:
        """Return what passes read, [h ; q_k], given states of sentences, (n, W, C), and rows of types, (n,)."""
        described = self.descriptions[rows][:, None].expand(-1, states.shape[1], -1)
        return torch.cat([states, described], dim=-1)

    def _merge(self, passes: Passes, batch: int) -> Tensor:
        """Return the log-probabilities of each word's tags, (B, W, K).

        E and S have those of I and B, as a pass knows no others, so tags mean the same in every scheme.
        """
        sentences, types, scores = passes
        odds = scores.new_full((batch, len(self.first_tags), scores.shape[1], 2), IMPOSSIBLE)
        odds[sentences, types] = scores[..., 1:] - scores[..., :1]  # log P_k(B or I) - log P_k(O)
        # O, then B and I of each type, (B, W, 1 + 2 E)
        merged = functional.pad(odds.transpose(1, 2).flatten(2), (1, 0))
        place = torch.where(self.type_row > 0, 2 * (self.type_row - 1) + self.class_of_tag, 0)  # of each tag, (K,)
        return merged.log_softmax(dim=-1)[..., place]


METHOD = ConceptTagger
