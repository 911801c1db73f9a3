"""Multi-task BiLSTM-CRF: a target and a source share the BiLSTM, each has a CRF; with PGN, GRAD or DANN beside it.

Paper: Yang, Salakhutdinov and Cohen (2017), Transfer Learning for Sequence Tagging with Hierarchical Recurrent
Networks, as MULTI-TASK (LSTM) of Jia and Zhang (2020). generator=domain is their MULTI-TASK+PGN (Jia, Liang and Zhang
2019), adversary=grad their MULTI-TASK+GRAD (Zhou et al. 2019), adversary=dann Ganin et al. (2016): on raw text of the
target tasks=source-ner,target-lm.
Differs: the loss of a domain's tags is divided by the words of as many average sentences, and so is the adversary's,
one value a sentence, so that it weighs beside the tags what it weighs in the papers. DANN's has a divisor for each
domain; GRAD's is one sum over the sentences of both, which focal_alpha balances, divided by the words of both. The CRF
is shared where all domains have the same types or tags are learnt in one domain only (crf=domain never shares). The
layout of GRAD's discriminator is not told: masked attention over the states, and one linear map, both behind the
reversal, so that the attention learns to tell domains apart. Its reversed gradient is multiplied by 0.7, as in its
authors' code. DANN's discriminator has one hidden layer and reads the mean of the states. An epoch reads both domains
whole, as that of ``multi-cell-lstm``. The CRF knows the tags of all domains, and a generator learns at a share of the
rate, both as in ``cross-domain-lm``. Sizes of STACKED BILSTMS (lstm_layers) and HIDDEN EXPANSION (lstm_size) of Jia and
Zhang (2020) are not told. Their [REPRO] of MULTI-TASK, which drops values inside the recurrence, is left out: fused
LSTMs cannot.
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
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import Encoder
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.adversary import (
    AttentiveDiscriminator,
    MeanDiscriminator,
    focal_loss,
    reversal_factor,
    reverse_gradient,
)
from crossner_cli.layers.bilstm import BiLSTM
from crossner_cli.layers.generated_lstm import GeneratedBiLSTM
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import check_layers, check_range
from crossner_cli.methods.multi_task import SOURCE, MultiTaskInputs, MultiTaskTagger

GRAD_REVERSAL = 0.7


class MultiTaskLSTM(MultiTaskTagger):
    """What the BiLSTM says of a word is for all domains; the CRF, and with a generator the BiLSTM, for one."""

    @dataclass(frozen=True)
    class Hyperparameters(MultiTaskInputs):
        """What is read, as in ``WordInputs``. tasks: what is learnt, of target-ner, source-ner, and of target-lm,
        source-lm, whose raw text the adversary reads. lstm_layers: of the BiLSTM, one above the other; more than one
        with generator=none only. generator: domain generates the BiLSTM's parameters from a vector
        of the domain. domain_size: values of that vector. adversary: what tells the domains apart while the BiLSTM
        learns that it cannot: grad, dann or none. adversary_weight: weight of its loss. adversary_warmup: share of the
        training until dann has its full effect. focal_alpha: weight of the source in grad's loss, the target has the
        rest; focal_gamma: how much less sentences weigh that are easy. The others are as in ``MultiTaskInputs``.
        """

        lstm_layers: int = 1
        generator: Literal["none", "domain"] = "none"
        domain_size: int = 16
        adversary: Literal["none", "grad", "dann"] = "none"
        adversary_weight: float = 1.0
        adversary_warmup: float = 1.0
        focal_alpha: float = 0.25
        focal_gamma: float = 2.0

        def __post_init__(self) -> None:
            super().__post_init__()
            check_layers(self.lstm_layers, self.generator)
            check_range("domain_size", self.domain_size, 1)
            check_range("adversary_weight", self.adversary_weight, 0)
            if self.adversary == "dann":  # nothing else reads it; older taggers hold updates there, no share
                check_range("adversary_warmup", self.adversary_warmup, 0, 1)
            check_range("focal_alpha", self.focal_alpha, 0, 1)
            check_range("focal_gamma", self.focal_gamma, 0)
            if self.adversary != "none" and len({task.partition("-")[0] for task in self.task_names}) == 1:
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

    def set_word_counts(self, counts: Tensor) -> None:
        """Nothing depends on how often words occur, (V+1,)."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Of each domain the CRF's, unless the text is raw, and the adversary's. Weighted sums."""
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
        """Note how far the training is, for the schedule of DANN."""
        self.progress = progress
        with super().update(progress):
            yield

    def units(self, batch: Batch) -> dict[str, int]:
        """Words of the domain."""
        units: dict[str, int] = {}
        for domain, words in self.words_by_domain(batch).items():
            if not batch.is_raw:
                units[self.term("tags", domain)] = words
            if self.hyper.adversary != "none":
                name = self._adversary_term(domain)
                units[name] = units.get(name, 0) + words
        return units

    def tag_states(self, words: Tensor, mask: Tensor, domain: int) -> Tensor:
        """What the BiLSTM says, (B, W, 2 H), of its input, (B, W, D)."""
        generated = (self.read_as(domain),) if isinstance(self.lstm, GeneratedBiLSTM) else ()
        states: Tensor = self.dropout(self.lstm(words, mask, *generated))
        return states

    def _adversary_term(self, domain: int) -> str:
        return self.term("adversary", domain) if self.hyper.adversary == "dann" else "adversary"

    def _adversary_loss(self, states: Tensor, mask: Tensor, domain: int) -> Tensor:
        """How badly the domain of sentences is told from states, (B, W, 2 H), summed. In fp32."""
        with torch.autocast(states.device.type, enabled=False):
            logits = self.discriminator(reverse_gradient(states, self._reversal(states)), mask)  # (B,)
            is_source = torch.full_like(logits, domain == SOURCE, dtype=torch.bool)
            if self.hyper.adversary == "grad":
                return focal_loss(logits, is_source, self.hyper.focal_alpha, self.hyper.focal_gamma)
            return functional.binary_cross_entropy_with_logits(logits, is_source.float(), reduction="sum")

    def _reversal(self, states: Tensor) -> Tensor:
        """What the reversed gradient is multiplied by: grows with the training in DANN."""
        if self.hyper.adversary == "grad":
            return states.new_tensor(GRAD_REVERSAL)
        warmup = self.hyper.adversary_warmup
        return reversal_factor(states.new_tensor(min(1.0, self.progress / warmup) if warmup else 1.0))


METHOD = MultiTaskLSTM
