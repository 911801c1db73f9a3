"""What taggers share that learn several tasks of a target and a source: the tasks, and a CRF for each domain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import Encoder
from crossner_cli.encoders.word_reader import WordInputs
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.crf import TAG_DIMENSIONS, Decoded, TagLayer
from crossner_cli.layers.generated_lstm import GeneratedBiLSTM
from crossner_cli.layers.settings import check_lstm, check_range
from crossner_cli.methods.contract import UNPUBLISHED_FOR_ADAM, UNPUBLISHED_FOR_WORDS, Tagger

TASKS = ("target-ner", "source-ner", "target-lm", "source-lm")
TARGET, SOURCE = 0, 1  # numbers of the domains
ROLES = ("target", "source")  # their names
KINDS = ("ner", "lm")
# Tensors with a row a domain: vectors that generate parameters, and attention where each domain has its own.
PER_DOMAIN = frozenset({"lstm.generator.domain_vectors", "lstm.query", "lstm.key", "lstm.score"})
Rows = Tensor | slice  # of a batch


def read_tasks(text: str) -> tuple[str, ...]:
    """The tasks that a comma-separated text names, in the order of ``TASKS``.

    Raises:
        CrossNERError: It names none, one that there is not, or one twice.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in TASKS or names.count(name) > 1:
            problem = "more than once" if name in TASKS else "which is none"
            raise CrossNERError(
                f"tasks={text}: names {name!r}, {problem}.", hint=f"Tasks: {', '.join(TASKS)}, with commas between."
            )
    return tuple(task for task in TASKS if task in names)


@dataclass(frozen=True)
class MultiTaskInputs(WordInputs):
    """What is read, as in ``WordInputs``. lstm_size: units of one direction of the BiLSTM.
    dropout: share of its outputs dropped. crf: domain gives each domain a linear map and a CRF of its own, shared gives
    all one, auto shares where all domains have the same types or tags are learnt in one domain only. source_weight:
    weight of the loss of the source's tags. target_weight: weight of the loss of the target's tags. legal: give only
    sequences that the tag scheme allows.
    """

    input_dropout: float = 0.5
    tasks: str = "target-ner,source-ner"
    lstm_size: int = 100
    dropout: float = 0.5
    crf: Literal["auto", "shared", "domain"] = "auto"
    source_weight: float = 1.0
    target_weight: float = 1.0
    legal: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lstm(1, self.lstm_size, self.dropout, fewest=1)
        check_range("source_weight", self.source_weight, 0)
        check_range("target_weight", self.target_weight, 0)
        if not self.learns("ner"):
            raise CrossNERError(
                f"tasks={self.tasks}: no tags are learnt.", hint="Name target-ner, source-ner or both of them, too."
            )

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks, in the order of ``TASKS``."""
        return read_tasks(self.tasks)

    def learns(self, kind: str) -> int:
        """In how many domains ``ner`` or ``lm`` is a task."""
        return sum(task.endswith(f"-{kind}") for task in self.task_names)

    def shares_crf(self, tag_set: TagSet) -> bool:
        """Whether one CRF serves all domains."""
        if self.crf == "auto":
            types = [frozenset(types) for types in tag_set.domains.values()]
            return self.learns("ner") == 1 or (len(types) > 1 and len(set(types)) == 1)
        return self.crf == "shared"


class MultiTaskTagger(Tagger):
    """A BiLSTM-CRF of a target and a source. The first domain of the tag set is the target, any other the source; what
    is in no tag set is read as the target. The losses of a domain are terms of their own, each divided by the
    words of as many average sentences of the domain: domains weigh alike, however many an update reads of each.
    """

    reads = "words"
    paper_settings = {"digits": "zeros", "character_dropout": "0.5", "legal": "false"}
    paper_options = {
        **UNPUBLISHED_FOR_WORDS, **UNPUBLISHED_FOR_ADAM,
        "epochs": 100, "batch_size": 10, "weight_decay": 1e-8, "upsample": 1,
    }  # fmt: skip
    tag_dimensions = {
        f"tag_layers.{domain}.{name}": dimensions
        for domain in (TARGET, SOURCE) for name, dimensions in TAG_DIMENSIONS.items()
    }  # fmt: skip

    word_rows = ("language_model.weight", "language_model.bias")

    @classmethod
    def streams(cls, hyper: Any) -> tuple[str, ...]:
        """A batch of each task."""
        tasks: tuple[str, ...] = hyper.task_names
        return tasks

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: MultiTaskInputs) -> None:
        super().__init__(encoder, tag_set, hyper)
        layers = 1 if hyper.shares_crf(tag_set) else 2
        self.tag_layers = nn.ModuleList(TagLayer(2 * hyper.lstm_size, len(tag_set), "crf") for _ in range(layers))

    def adopt(self, old: dict[str, Tensor], tag_set: TagSet, settings: Mapping[str, Any]) -> dict[str, Tensor]:
        """What the start learnt in one domain alone begins both: of the other it holds what was drawn at random. What
        it has once begins as many as there are here, and what is here once begins as the target's. Where both have
        two, domains of one name and types belong together, whichever was the target.
        """
        tasks = settings.get("tasks")
        if not isinstance(tasks, str):  # of a method that has no tasks
            return old
        learnt = {kind: [task.partition("-")[0] for task in read_tasks(tasks) if task.endswith(kind)] for kind in KINDS}
        adopted, there, here = dict(old), tag_set.domains, self.tag_set.domains

        def begins(roles: list[str], wanted: int, found: int) -> list[int]:
            """Which of what is found each of what is wanted begins as."""
            if len(set(roles)) == 1:
                places = [ROLES.index(roles[0]) if len(there) > 1 else 0] * wanted
            else:
                places = [self._begins_as(place, tag_set) if place < len(here) else place for place in range(wanted)]
            return [min(place, found - 1) for place in places]

        layers = 1 + any(name.startswith("tag_layers.1.") for name in old)
        for layer, begin in enumerate(begins(learnt["ner"], len(self.tag_layers), layers)):
            prefix = f"tag_layers.{begin}."
            adopted |= {
                f"tag_layers.{layer}.{name.removeprefix(prefix)}": value
                for name, value in old.items() if name.startswith(prefix)
            }  # fmt: skip
        own = self.above_encoder()
        for name in PER_DOMAIN & old.keys() & own.keys():
            adopted[name] = old[name][begins(learnt["ner"] + learnt["lm"], len(own[name]), len(old[name]))]
        return adopted

    def _begins_as(self, place: int, start: TagSet) -> int:
        """The domain of a start that one of this tagger's begins as: the one it is known as there, that of its place
        before others, since a CRF has learnt never to choose types of the other domain alone; by place where there is
        none.
        """
        there = list(start.domains)
        domain = start.known_as(*list(self.tag_set.domains.items())[place], *there[place : place + 1])
        return there.index(domain) if domain in there else place

    @classmethod
    def taught_types(cls, tag_set: TagSet, settings: Mapping[str, Any]) -> Sequence[str]:
        """Those of the domains whose labels are a task."""
        tasks, domains = settings.get("tasks"), list(tag_set.domains.values())
        if not isinstance(tasks, str) or len(domains) == 1:
            return tag_set.types
        taught = {
            entity_type for number, types in enumerate(domains) for entity_type in types
            if f"{ROLES[min(number, SOURCE)]}-ner" in read_tasks(tasks)
        }  # fmt: skip
        return [each for each in tag_set.types if each in taught]

    @classmethod
    def domain_of_new_text(cls, tag_set: TagSet, settings: Mapping[str, Any]) -> str:
        """The target; the source, where no task reads the target, whose types and CRF then mean nothing."""
        domains, roles = list(tag_set.domains), {task.partition("-")[0] for task in read_tasks(settings["tasks"])}
        return domains[-1] if roles == {ROLES[SOURCE]} else domains[0]

    def update(self, progress: float) -> AbstractContextManager[None]:
        """Inside it, generated parameters are generated once."""
        lstm = getattr(self, "lstm", None)
        return lstm.generator.shared() if isinstance(lstm, GeneratedBiLSTM) else super().update(progress)

    def tag_layer(self, domain: int) -> TagLayer:
        """Linear map and CRF of a domain. Where labels of the source alone are learnt, the target has the source's: its
        own stay as they were drawn at random.
        """
        names = self.hyper.task_names
        if domain == TARGET and "source-ner" in names and "target-ner" not in names:
            domain = SOURCE
        layer = self.tag_layers[min(domain, len(self.tag_layers) - 1)]
        assert isinstance(layer, TagLayer)
        return layer

    def tag_loss(self, states: Tensor, tags: Tensor, mask: Tensor, domain: int) -> Tensor:
        """Negative log-likelihood of tags, (B, W), given states, (B, W, 2 H), of one domain, with its weight."""
        weight = (self.hyper.target_weight, self.hyper.source_weight)[self.role_of(domain)]
        loss: Tensor = weight * self.tag_layer(domain).loss(states, tags, mask)
        return loss

    def role_of(self, domain: int) -> int:
        """TARGET or SOURCE: the number of the domain, but where the source is alone its number is the first."""
        names = self.hyper.task_names
        is_source = len(self.tag_set.domains) == 1 and not any(task.startswith("target") for task in names)
        return SOURCE if is_source else domain

    def read_as(self, domain: int) -> int:
        """The domain whose vector and attention a domain is read with: its own, but where no task reads its text, which
        leaves them as they were drawn at random, those of the other.
        """
        roles = {task.partition("-")[0] for task in self.hyper.task_names}
        return domain if len(roles) > 1 or len(self.tag_set.domains) == 1 else ROLES.index(*roles)

    def rows_by_domain(self, batch: Batch) -> list[tuple[int, Rows]]:
        """The domains of a batch, TARGET or SOURCE, and where their sentences stand."""
        numbers = [min(self._domain_rows.get(domain, TARGET), SOURCE) for domain in batch.domains]
        if len(set(numbers)) == 1:
            return [(numbers[0], slice(None))]
        rows = torch.tensor(numbers)
        return [(number, (rows == number).nonzero()[:, 0].to(batch.word_mask.device)) for number in (TARGET, SOURCE)]

    def term(self, kind: str, domain: int) -> str:
        """Name of a domain's loss, as ``tags source``."""
        return f"{kind} {ROLES[self.role_of(domain)]}"

    def words_by_domain(self, batch: Batch) -> dict[int, int]:
        """Words of each domain of a batch."""
        return {domain: int(batch.word_mask[rows].sum()) for domain, rows in self.rows_by_domain(batch)}

    @abstractmethod
    def tag_states(self, words: Tensor, mask: Tensor, domain: int) -> Tensor:
        """What a domain's tags are told from, (B, W, 2 H), given the encoder's vectors, (B, W, D)."""

    def hidden_states(self, batch: Batch) -> dict[str, Tensor]:
        """What each domain's tags are told from, (B, W, 2 H)."""
        words = self.encoder(batch)
        found = words.new_zeros(*words.shape[:2], 2 * self.hyper.lstm_size)
        for domain, rows in self.rows_by_domain(batch):
            found[rows] = self.tag_states(words[rows], batch.word_mask[rows], domain).to(found.dtype)
        return {"hidden": found}

    def decode(self, batch: Batch) -> Decoded:
        """The best sequence of the domain's tags, with the probability of each tag."""
        words, allowed = self.encoder(batch), self.allowed_tags(batch)
        moves = self.legal_moves() if self.hyper.legal else None
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
