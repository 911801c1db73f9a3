"""Cross-domain language modelling: a BiLSTM whose parameters are generated from the domain and the task at hand.

Paper: Jia, Liang and Zhang (2019), Cross-Domain NER using Cross-Domain Language Modeling. The parts it is compared with
are settings: STM-TARGET tasks=target-ner generator=none, STM-SOURCE likewise with source-ner, MULTITASK(NER)
tasks=target-ner,source-ner generator=none, MULTITASK(NER+LM) generator=none, CO-NER tasks=target-ner,source-ner
generator=domain, CO-LM tasks=target-ner,target-lm generator=task, FINETUNE STM-TARGET --start-from STM-SOURCE (types
that both have keep their rows of the CRF, too), MIX-DATA lm_mixed=true. Without labels of the target:
tasks=source-ner,target-lm,source-lm. BILSTM+LM of Jia and Zhang (2020) is tasks=source-ner,target-lm generator=none
lm_text=raw, their BILSTM+LM+DICT has entity_weight and --dictionary beside that; theirs drop nothing of the states that
their language models read and do not correct for the probability of drawing a negative word, as ``multi-cell-lstm``.
Their STACKED BILSTMS are lstm_layers, whose language models read the first layer: the halves of those above it have
seen the words that they would predict. Their number, and what theirs read, is not published.
Differs: a domain's loss is divided by the words of as many average sentences (of raw text by its words), not by its
sentences; the weights are those of the authors' first code, as the paper prints none. As in that code, the labelled
sentences of a domain are read by its language model too, beside raw text (lm_text=labelled is the paper's with labels
of the target, lm_text=raw reads raw text only); that it reads test sentences as raw text too is left out. An epoch is
one of the larger labelled set, where the code's is the source's, and an update reads --raw-batch-size raw sentences,
where the code spreads all of them over an epoch. Negative words are ranked by their frequency in the raw text, as the
paper says and the code does not do; an unknown capitalised word is predicted as the lower-cased one, if that is known.
Each CRF knows the tags of all domains, those of the other ones are never gold; one is shared where tags are learnt in
one domain only or all domains have the same types (crf=domain never shares). A domain that no task reads is tagged with
the vector of the other. domain_vectors=alike is ours: what the labels of one domain teach reaches the BiLSTM of the
other as far as the two vectors point the same way, and vectors of eight random values need not. Adam moves W by a share
of the rate, so that what is generated moves as far as the other layers do, as under the papers' SGD. With a transformer
or strings the language models see the words that they predict.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import UNLABELLED, Batch
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.randomness import Dropout, repeat_first_row
from crossner_cli.layers.settings import check_layers, setting
from crossner_cli.recurrent.bilstm import BiLSTM
from crossner_cli.recurrent.generated_lstm import GeneratedBiLSTM
from crossner_cli.recurrent.language_model import SampledSoftmax, language_model_loss
from crossner_cli.recurrent.multi_task import MultiTaskTagger
from crossner_cli.recurrent.tasks import ROLES, SOURCE, TARGET, MultiTaskInputs, roles_of
from crossner_cli.recurrent.word_encoder import WordEncoder

NER, LM = 0, 1  # numbers of the tasks


class CrossDomainLM(MultiTaskTagger):
    """theta = W (x) I^D (x) I^T is the BiLSTM's of domain d and task t; a CRF and two language models read it."""

    rows = dataclasses.replace(MultiTaskTagger.rows, types={"entity_score.weight": (0,), "entity_score.bias": (0,)})
    paper = dataclasses.replace(
        MultiTaskTagger.paper,
        # With labels of the target language models read the labelled sentences, and no raw text.
        with_target_labels={"lm_text": "labelled"},
        options={**MultiTaskTagger.paper.options, "batch_size": 30},
    )
    type_of_tag: Tensor

    @dataclass(frozen=True)
    class Hyperparameters(MultiTaskInputs):
        """Settings of words and tasks, of the BiLSTMs and their generator, and of the language models."""

        tasks: str = setting(
            "target-ner,source-ner,target-lm,source-lm",
            "Tasks to learn, of target-ner, source-ner, target-lm and source-lm.",
            of_stage=True,
        )
        lstm_layers: int = setting(
            1,
            "BiLSTMs one above the other: tags and types read the last, language models the first; more than one need"
            " generator=none.",
            minimum=1,
        )
        generator: Literal["full", "domain", "task", "none"] = setting(
            "full", "full: a BiLSTM for each domain and task; domain: for each domain; task: for each task; none: one."
        )
        domain_size: int = setting(8, "Values of the vector of a domain, for the generator.", minimum=1)
        task_size: int = setting(8, "Values of the vector of a task, for the generator.", minimum=1)
        domain_vectors: Literal["apart", "alike"] = setting(
            "apart", "The vectors of the domains begin apart, as published, or alike."
        )
        negatives: int = setting(50, "Words that the language models compare the right one with.", minimum=1)
        target_weight: float = setting(2.0, "Weight of the loss of the target's tags.", minimum=0)
        lm_weight: float = setting(1.0, "Weight of the loss of the language models.", minimum=0)
        lm_text: Literal["both", "labelled", "raw"] = setting(
            "both",
            "Text that the language models read: raw text, the labelled sentences of their domain (raw text where these"
            " are not a task), or both.",
        )
        lm_mixed: bool = setting(False, "The language models of both domains read the text of both.")
        entity_weight: float = setting(
            0.0,
            "Weight of the loss of the types of words: labelled ones, and a dictionary's in raw text; 0 leaves it out.",
            minimum=0,
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            check_layers(self.lstm_layers, self.generator)
            self.check_words()
            if self.domain_vectors == "alike" and self.generator not in ("full", "domain"):
                raise CrossNERError(
                    f"domain_vectors=alike, generator={self.generator}: domains have no vectors.",
                    hint="Set generator=full or generator=domain, or leave domain_vectors out.",
                )
            if self.lm_mixed and len(roles_of(self.task_names, "lm")) < 2:
                raise CrossNERError(
                    f"lm_mixed=true, tasks={self.tasks}: no two language models could read each other's text.",
                    hint="Name target-lm and source-lm, or leave lm_mixed out.",
                )

        @property
        def streams(self) -> tuple[str, ...]:
            """The tasks of which an update reads a batch each: no raw text if labelled sentences replace it."""
            replaced = roles_of(self.task_names, "ner") if self.lm_text == "labelled" else ()
            return tuple(task for task in self.task_names if task not in {f"{role}-lm" for role in replaced})

        @property
        def learns_from_dictionary(self) -> bool:
            """True if the loss of types is switched on."""
            return bool(self.entity_weight)

    hyper: Hyperparameters

    def __init__(self, encoder: WordEncoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.lstm: BiLSTM | GeneratedBiLSTM = BiLSTM(encoder.output_dim, hyper.lstm_size)
        if hyper.generator != "none":
            self.lstm = GeneratedBiLSTM(
                encoder.output_dim,
                hyper.lstm_size,
                domains=2,
                domain_size=0 if hyper.generator == "task" else hyper.domain_size,
                tasks=2,
                task_size=0 if hyper.generator == "domain" else hyper.task_size,
            )
            if hyper.domain_vectors == "alike" and hyper.generator != "task":
                repeat_first_row(self.lstm.generator.domain_vectors)
        self.upper: BiLSTM | None = None
        if hyper.lstm_layers > 1:
            self.upper = BiLSTM(2 * hyper.lstm_size, hyper.lstm_size, hyper.lstm_layers - 1, hyper.dropout)
        self.dropout = Dropout(hyper.dropout)
        if hyper.learns("lm"):
            words = len(encoder.vocabulary.words) + 1
            self.language_model = SampledSoftmax(words, hyper.lstm_size, hyper.negatives)
        if hyper.entity_weight:
            self.entity_score = nn.Linear(2 * hyper.lstm_size, 1 + len(tag_set.types))  # O is one
            self.register_buffer("type_of_tag", torch.tensor(tag_set.type_numbers()), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the weighted losses of each domain: of its CRF and of the language models that read the batch."""
        words = self.encoder(batch)  # v, (B, W, D)
        terms: dict[str, Tensor] = {}
        for domain, rows in self.rows_by_domain(batch):
            mask = batch.word_mask[rows]
            states: dict[Hashable, Tensor] = {}  # (B, W, 2 H) of each BiLSTM that reads the sentences
            for reader, kind in self._readers(batch, domain):
                task = LM if kind == "language" else NER
                key = self._bilstm(reader, task)
                if key not in states:
                    states[key] = self._states(words[rows], mask, reader, task)
                if task == NER:
                    assert batch.tags is not None
                    read = self.tag_loss if kind == "tags" else self._type_loss
                    terms[self.term(kind, reader)] = read(states[key], batch.tags[rows], mask, reader)
                    continue
                assert self.language_model is not None and batch.word_ids is not None
                loss = language_model_loss(self.language_model, states[key], batch.word_ids[rows], mask)
                name = self.term(kind, reader)
                terms[name] = terms.get(name, 0) + self.hyper.lm_weight * loss
        return terms

    def units(self, batch: Batch) -> dict[str, int]:
        """Count the words of the domain, with a label or not; for the language models two predictions a word."""
        units: Counter[str] = Counter()
        for domain, words in self.words_by_domain(batch).items():
            for reader, kind in self._readers(batch, domain):
                units[self.term(kind, reader)] += 2 * words if kind == "language" else words
        return dict(units)

    def tag_states(self, words: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the states of theta^{d,ner}, even if this pair was never trained: (B, W, D) to (B, W, 2 H)."""
        return self._states(words, mask, domain, NER)

    def _readers(self, batch: Batch, domain: int) -> list[tuple[int, str]]:
        """Return the domain and kind of each loss that a domain's sentences in a batch are read for."""
        readers = [] if batch.is_raw else [(domain, "tags")]
        if self.hyper.entity_weight and batch.tags is not None:
            readers.append((domain, "entity"))
        if batch.is_raw or self.hyper.lm_text != "raw":
            models = (TARGET, SOURCE) if self.hyper.lm_mixed else (domain,)
            names = self.hyper.task_names
            readers += [(model, "language") for model in models if f"{ROLES[self.role_of(model)]}-lm" in names]
        return readers

    def _type_loss(self, states: Tensor, tags: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the weighted cross-entropy of the types of labelled words, given states, (B, W, 2 H)."""
        known = mask & (tags != UNLABELLED)
        scores = self.entity_score(states[known])  # (words, 1 + types)
        loss = functional.cross_entropy(scores, self.type_of_tag[tags[known]], reduction="sum")
        weight: float = self.hyper.entity_weight
        return weight * loss

    def _bilstm(self, domain: int, task: int) -> Hashable:
        """Return a key of the BiLSTM of a domain and a task: some share one."""
        of = self.hyper.generator
        by_task = of in ("full", "task") or self.upper is not None
        return (domain if of in ("full", "domain") else None, task if by_task else None)

    def _states(self, words: Tensor, mask: Tensor, domain: int, task: int) -> Tensor:
        """Run the BiLSTM of a domain and a task over word vectors, (B, W, D), to (B, W, 2 H)."""
        generated = (self.read_as(domain), task) if isinstance(self.lstm, GeneratedBiLSTM) else ()
        states: Tensor = self.dropout(self.lstm(words, mask, *generated))
        return states if self.upper is None or task == LM else self.dropout(self.upper(states, mask))


METHOD = CrossDomainLM
