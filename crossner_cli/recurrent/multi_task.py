"""The parts of taggers that learn several tasks of a target and a source: a CRF for each domain."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import TAG_DIMENSIONS, Decoded, TagLayer
from crossner_cli.methods.contract import (
    UNPUBLISHED_FOR_ADAM,
    UNPUBLISHED_FOR_WORDS,
    Paper,
    Rows,
    head_tensors,
)
from crossner_cli.recurrent.generated_lstm import GeneratedBiLSTM, ParameterGenerator
from crossner_cli.recurrent.inputs import TaskTrainingInputs, WordTagger
from crossner_cli.recurrent.language_model import SampledSoftmax
from crossner_cli.recurrent.tasks import ROLES, SOURCE, TARGET, MultiTaskInputs, find_taught_types, read_tasks, roles_of

# Tensors with a row per domain: vectors that generate parameters, and attention where each domain has its own.
PER_DOMAIN = frozenset({"lstm.generator.domain_vectors", "lstm.query", "lstm.key", "lstm.score"})
Places = Tensor | slice  # of sentences in a batch


class MultiTaskTagger(WordTagger):
    """A BiLSTM-CRF of a target and a source.

    The first domain of the tag set is the target, any other the source; unknown domains are read as the target. The
    losses of a domain are separate terms, each divided by the words of as many average sentences of the domain: domains
    weigh alike, however many sentences an update reads of each.
    """

    inputs_class = TaskTrainingInputs
    hyper: MultiTaskInputs
    rows = Rows(
        tags={
            f"tag_layers.{domain}.{name}": dimensions
            for domain in (TARGET, SOURCE)
            for name, dimensions in TAG_DIMENSIONS.items()
        },
        words=("language_model.weight", "language_model.bias"),
    )
    paper = Paper(
        settings={"digits": "zeros", "character_dropout": "0.5", "legal": "false"},
        options={
            **UNPUBLISHED_FOR_WORDS,
            **UNPUBLISHED_FOR_ADAM,
            "epochs": 100,
            "batch_size": 10,
            "weight_decay": 1e-8,
            "upsample": 1,
        },
    )

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: MultiTaskInputs) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.language_model: SampledSoftmax | None = None
        layers = 1 if hyper.shares_crf(tag_set) else 2
        self.tag_layers = nn.ModuleList(TagLayer(2 * hyper.lstm_size, len(tag_set), "crf") for _ in range(layers))

    @property
    def domain_of_new_text(self) -> str:
        """The target, which stands first, or the source where no task reads the target."""
        domains = list(self.tag_set.domains)
        return domains[-1] if set(roles_of(self.hyper.task_names)) == {ROLES[SOURCE]} else domains[0]

    @property
    def taught_types(self) -> tuple[str, ...]:
        """The types whose labels the tasks learn."""
        return find_taught_types(self.tag_set, self.hyper.task_names)

    def adopt(self, old: dict[str, Tensor], tag_set: TagSet, settings: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the tensors of a start, given its tags and settings, by the names that this tagger has for them.

        What the start learnt in one domain alone begins both domains: for the other it holds random values. What it has
        once begins as many as there are here, and what is here once begins as the target's. Where both have two,
        domains of the same name and types belong together, whichever was the target.
        """
        if "tasks" not in settings:
            return old
        tasks = read_tasks(settings["tasks"])
        adopted, there, here = dict(old), list(tag_set.domains), list(self.tag_set.domains.items())

        def match_domain(place: int) -> int:
            """Return the domain of the start that one of this tagger's begins as.

            That of its place comes before others, since a CRF has learnt never to choose types of the other domain.
            """
            domain = tag_set.choose_domain(*here[place], *there[place : place + 1]) if place < len(here) else None
            return there.index(domain) if domain in there else place

        def match_domains(roles: list[str], wanted: int, found: int) -> list[int]:
            """Return which of the domains found each of those wanted begins as."""
            if len(set(roles)) == 1:
                places = [ROLES.index(roles[0]) if len(there) > 1 else 0] * wanted
            else:
                places = [match_domain(place) for place in range(wanted)]
            return [min(place, found - 1) for place in places]

        layers = 1 + any(name.startswith("tag_layers.1.") for name in old)
        for layer, begin in enumerate(match_domains(roles_of(tasks, "ner"), len(self.tag_layers), layers)):
            prefix = f"tag_layers.{begin}."
            for name, value in old.items():
                if name.startswith(prefix):
                    adopted[f"tag_layers.{layer}.{name.removeprefix(prefix)}"] = value
        own = head_tensors(self)
        for name in PER_DOMAIN & old.keys() & own.keys():
            adopted[name] = old[name][match_domains(roles_of(tasks), len(own[name]), len(old[name]))]
        return adopted

    def rate_shares(self) -> dict[nn.Parameter, float]:
        """Parameter generators learn at their own share of the rate."""
        generators = [module for module in self.modules() if isinstance(module, ParameterGenerator)]
        return {weight: generator.rate_share for generator in generators for weight in generator.weights}

    def set_word_counts(self, counts: Tensor) -> None:
        """Rank the words of language models by how often each is predicted, (V+1,)."""
        if self.language_model is not None:
            self.language_model.set_counts(counts)

    def update(self, progress: float) -> AbstractContextManager[None]:
        """Return a context for all passes of an update, in which parameters are generated once.

        ``progress`` is the share of the training's updates that are done.
        """
        lstm = self.lstm
        return lstm.generator.shared() if isinstance(lstm, GeneratedBiLSTM) else contextlib.nullcontext()

    def tag_layer(self, domain: int) -> TagLayer:
        """Return the linear map and CRF of a domain.

        Where labels of the source alone are learnt, the target uses the source's: its own stay random.
        """
        names = self.hyper.task_names
        if domain == TARGET and "source-ner" in names and "target-ner" not in names:
            domain = SOURCE
        layer = self.tag_layers[min(domain, len(self.tag_layers) - 1)]
        assert isinstance(layer, TagLayer)
        return layer

    def tag_loss(self, states: Tensor, tags: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the weighted negative log-likelihood of tags, (B, W), of a domain, given states, (B, W, 2 H)."""
        weight = (self.hyper.target_weight, self.hyper.source_weight)[self.role_of(domain)]
        loss: Tensor = weight * self.tag_layer(domain).loss(states, tags, mask)
        return loss

    def role_of(self, domain: int) -> int:
        """Return TARGET or SOURCE: the number of the domain, or SOURCE where the source is the only domain."""
        names = self.hyper.task_names
        is_source = len(self.tag_set.domains) == 1 and not any(task.startswith("target") for task in names)
        return SOURCE if is_source else domain

    def read_as(self, domain: int) -> int:
        """Return the domain whose vector and attention a domain is read with.

        This is its own, or the other one where no task reads its text, which leaves its own values random.
        """
        first, *others = dict.fromkeys(roles_of(self.hyper.task_names))
        return domain if others or len(self.tag_set.domains) == 1 else ROLES.index(first)

    def rows_by_domain(self, batch: Batch) -> list[tuple[int, Places]]:
        """Return the domains of a batch, TARGET or SOURCE, and the rows of their sentences."""
        of_domains = {domain: min(number, SOURCE) for number, domain in enumerate(self.tag_set.domains)}
        numbers = [of_domains.get(domain, TARGET) for domain in batch.domains]
        if len(set(numbers)) == 1:
            return [(numbers[0], slice(None))]
        rows = torch.tensor(numbers)
        return [(number, (rows == number).nonzero()[:, 0].to(batch.word_mask.device)) for number in (TARGET, SOURCE)]

    def term(self, kind: str, domain: int) -> str:
        """Return the name of a domain's loss, as ``tags source``."""
        return f"{kind} {ROLES[self.role_of(domain)]}"

    def words_by_domain(self, batch: Batch) -> dict[int, int]:
        """Count the words of each domain of a batch."""
        return {domain: int(batch.word_mask[rows].sum()) for domain, rows in self.rows_by_domain(batch)}

    @abstractmethod
    def tag_states(self, words: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Return the states that a domain's tags are scored from, (B, W, 2 H), given word vectors, (B, W, D)."""

    def states(self, batch: Batch) -> Tensor:
        """Return the states that each domain's tags are scored from, (B, W, 2 H)."""
        words = self.encoder(batch)
        found: Tensor = words.new_zeros(*words.shape[:2], 2 * self.hyper.lstm_size)
        for domain, rows in self.rows_by_domain(batch):
            found[rows] = self.tag_states(words[rows], batch.word_mask[rows], domain).to(found.dtype)
        return found

    def decode(self, batch: Batch) -> Decoded:
        """Return the best sequence of the domain's tags, with the probability of each tag."""
        words, allowed = self.encoder(batch), self.rules.allowed(batch.domains)
        moves = self.rules.moves(self.hyper.legal)
        tags: list[list[int]] = [[] for _ in batch.domains]
        probabilities: list[list[float]] = [[] for _ in batch.domains]
        for domain, rows in self.rows_by_domain(batch):
            mask = batch.word_mask[rows]
            states = self.tag_states(words[rows], mask, domain)
            decoded = self.tag_layer(domain).decode(states, mask, allowed[rows], moves)
            places = rows.tolist() if isinstance(rows, Tensor) else range(len(batch))
            for place, of_tags, of_probabilities in zip(places, *decoded, strict=True):
                tags[place], probabilities[place] = of_tags, of_probabilities
        return Decoded(tags, probabilities)

    def distributions(self, batch: Batch) -> Tensor:
        """Return the marginal probability of each of the domain's tags at each word, (B, W, K)."""
        words, allowed = self.encoder(batch), self.rules.allowed(batch.domains)
        found: Tensor = words.new_zeros(*words.shape[:2], len(self.tag_set), dtype=torch.float)
        for domain, rows in self.rows_by_domain(batch):
            mask = batch.word_mask[rows]
            states = self.tag_states(words[rows], mask, domain)
            found[rows] = self.tag_layer(domain).distributions(states, mask, allowed[rows]).to(found.dtype)
        return found
