"""Multi-task BiLSTM-CRF: a target and a source share the BiLSTM, each has a CRF; with PGN, GRAD or DANN beside it.

Paper: Yang, Salakhutdinov and Cohen (2017), Transfer Learning for Sequence Tagging with Hierarchical Recurrent
Networks, as MULTI-TASK (LSTM) of Jia and Zhang (2020). generator=domain is their MULTI-TASK+PGN (Jia, Liang and Zhang
2019), adversary=grad their MULTI-TASK+GRAD (Zhou et al. 2019), adversary=dann Ganin et al. (2016): on raw text of the
target tasks=source-ner,target-lm.
Differs: the loss of a domain's tags is divided by the words of as many average sentences, and so is the adversary's,
one value per sentence, so that its weight beside the tags is that of the papers. DANN's has a divisor for each domain;
GRAD's is one sum over the sentences of both, which alpha balances, divided by the words of both. The CRF is
shared where all domains have the same types or tags are learnt in one domain only (crf=domain never shares). The layout
of GRAD's discriminator is not published: here masked attention over the states and one linear map, both after the
reversal, so that the attention learns to separate domains. Its reversed gradient is multiplied by 0.7, as in its
authors' code. DANN's discriminator has one hidden layer and reads the mean of the states. An epoch reads both domains
whole, as that of ``multi-cell-lstm``. The CRF knows the tags of all domains, and a generator learns at a share of the
rate, both as in ``cross-domain-lm``. Sizes of STACKED BILSTMS (lstm_layers) and HIDDEN EXPANSION (lstm_size) of Jia and
Zhang (2020) are not published. Their [REPRO] of MULTI-TASK, which drops values inside the recurrence, is left out:
fused LSTMs cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import check_layers, setting
from crossner_cli.recurrent.adversary import (
    AttentiveDiscriminator,
    MeanDiscriminator,
    focal_loss,
    reversal_factor,
    reverse_gradient,
)
from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.generated_lstm import GeneratedBiLSTM
from crossner_cli.recurrent.multi_task import MultiTaskTagger
from crossner_cli.recurrent.tasks import SOURCE, MultiTaskInputs, roles_of

GRAD_REVERSAL = 0.7
FOCAL_ALPHA, FOCAL_GAMMA = 0.25, 2.0  # GRAD's


class MultiTaskLSTM(MultiTaskTagger):
    """A BiLSTM shared by all domains, or generated for each, and a CRF for each."""

    @dataclass(frozen=True)
    class Hyperparameters(MultiTaskInputs):
        """Settings of words, tasks and the BiLSTM, of the generator and of the adversary.

        The adversary reads the raw text of target-lm and source-lm.
        """

        lstm_layers: int = setting(1, "Layers of the BiLSTM; more than one need generator=none.", minimum=1)
        generator: Literal["none", "domain"] = setting(
            "none", "domain: generate the BiLSTM's parameters from a vector of the domain."
        )
        domain_size: int = setting(16, "Values of that vector.", minimum=1)
        adversary: Literal["none", "grad", "dann"] = setting(
            "none", "Discriminator of the domains, which the BiLSTM learns to confuse."
        )
        adversary_weight: float = setting(1.0, "Weight of the adversary's loss.", minimum=0)

        def __post_init__(self) -> None:
            super().__post_init__()
            check_layers(self.lstm_layers, self.generator)
            if self.adversary != "none" and len(set(roles_of(self.task_names))) == 1:
                raise CrossNERError(
                    f"tasks={self.tasks}, adversary={self.adversary}: of one domain alone there is nothing to tell"
                    " apart.",
                    hint="Name a task of the other domain too (target-lm and source-lm read raw text), or set"
                    " adversary=none.",
                )
            if self.learns("lm") and self.adversary == "none":
                raise CrossNERError(
                    f"tasks={self.tasks}, adversary=none: nothing reads raw text.",
                    hint="Set adversary=dann or adversary=grad, or take target-lm and source-lm out of tasks.",
                )

    hyper: Hyperparameters

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        size = hyper.lstm_size
        self.lstm: BiLSTM | GeneratedBiLSTM = BiLSTM(encoder.output_dim, size, hyper.lstm_layers, hyper.dropout)
        if hyper.generator == "domain":
            self.lstm = GeneratedBiLSTM(encoder.output_dim, size, domains=2, domain_size=hyper.domain_size)
        self.dropout = Dropout(hyper.dropout)
        if hyper.adversary == "grad":
            self.discriminator: AttentiveDiscriminator | MeanDiscriminator = AttentiveDiscriminator(2 * size)
        elif hyper.adversary == "dann":
            self.discriminator = MeanDiscriminator(2 * size)
        self.progress = 0.0  # share of the training that is done

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the weighted losses of each domain's CRF, unless the text is raw, and of the adversary."""
        words = self.encoder(batch)  # (B, W, D)
        terms: dict[str, Tensor] = {}
        for domain, rows in self.rows_by_domain(batch):
            mask = batch.word_mask[rows]
            states = self.tag_states(words[rows], mask, domain)  # (B, W, 2 H)
            if not batch.is_raw:
                assert batch.tags is not None
                terms[self.term("tags", domain)] = self.tag_loss(states, batch.tags[rows], mask, domain)
            if self.hyper.adversary != "none":
                name, loss = self._adversary_term(domain), self._adversary_loss(states, mask, domain)
                terms[name] = terms.get(name, 0) + self.hyper.adversary_weight * loss
        return terms

    @contextmanager
    def update(self, progress: float) -> Iterator[None]:
        """Set the progress of the training, for the schedule of DANN; see ``MultiTaskTagger.update``."""
        self.progress = progress
        with super().update(progress):
            yield

    def units(self, batch: Batch) -> dict[str, int]:
        """Count the words of the domain."""
        units: dict[str, int] = {}
        for domain, words in self.words_by_domain(batch).items():
            if not batch.is_raw:
                units[self.term("tags", domain)] = words
            if self.hyper.adversary != "none":
                name = self._adversary_term(domain)
                units[name] = units.get(name, 0) + words
        return units

    def tag_states(self, words: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the outputs of the BiLSTM, (B, W, 2 H), given word vectors, (B, W, D)."""
        generated = (self.read_as(domain),) if isinstance(self.lstm, GeneratedBiLSTM) else ()
        states: Tensor = self.dropout(self.lstm(words, mask, *generated))
        return states

    def _adversary_term(self, domain: int) -> str:
        return self.term("adversary", domain) if self.hyper.adversary == "dann" else "adversary"

    def _adversary_loss(self, states: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the loss of recognising the domain of sentences from states, (B, W, 2 H), summed. In fp32."""
        with torch.autocast(states.device.type, enabled=False):
            logits = self.discriminator(reverse_gradient(states, self._reversal(states)), mask)  # (B,)
            is_source = torch.full_like(logits, domain == SOURCE, dtype=torch.bool)
            if self.hyper.adversary == "grad":
                return focal_loss(logits, is_source, FOCAL_ALPHA, FOCAL_GAMMA)
            return functional.binary_cross_entropy_with_logits(logits, is_source.float(), reduction="sum")

    def _reversal(self, states: Tensor) -> Tensor:
        """Return the factor of the reversed gradient; it grows with the training in DANN."""
        if self.hyper.adversary == "grad":
            return states.new_tensor(GRAD_REVERSAL)
        return reversal_factor(states.new_tensor(self.progress))


METHOD = MultiTaskLSTM
