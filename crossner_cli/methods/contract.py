"""The contract of a tagging method, and the look-up of its class."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.crf import IMPOSSIBLE, Decoded, Moves
from crossner_cli.layers.settings import Settings, check_setting_name, split_setting
from crossner_cli.methods.inputs import TrainingInputs
from crossner_cli.methods.lookup import find_place, find_places

LARGEST_NUMBER = 2**31 - 1  # of settings; above it sizes of tensors overflow
# Options of CrossNER's BERT tagger for which papers of taggers of words have no value (``Paper.options``), ...
UNPUBLISHED_FOR_WORDS = dict.fromkeys(("encoder", "learning_rate", "train_embeddings", "attention_dropout", "keep"))
# ... and those of its optimiser, for which papers that train with SGD have none.
UNPUBLISHED_FOR_ADAM = dict.fromkeys(("head_learning_rate", "schedule", "warmup", "clip_norm", "patience"))


class Shares(NamedTuple):
    """The shares that each word of a batch takes of X things: words of the sentence, labels before each, or named ones.

    Values are (B, W, X); rows outside the word mask mean nothing, nor do columns of words outside it.
    """

    values: Tensor
    columns: tuple[str, ...] | Literal["words", "labels"]


class OtherUnits(int):
    """A number of units that are not words."""


@dataclass(frozen=True)
class Rows:
    """The tensors above the encoder that carry over row by row between models of different types or words.

    Args:
        tags: Dimensions that count tags, by name of the tensor.
        types: Dimensions that count O and then the types, in the order of ``TagSet.types``, by name of the tensor.
        words: Names of tensors with a row for the unknown and then one per word, in the order of an encoder of words.
    """

    tags: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    types: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paper:
    """The published options and settings of a method, for ``--paper``.

    Args:
        settings: Settings that differ from the defaults, as texts.
        with_target_labels: Further ones of a tagger that learns labels of the target.
        without_target_labels: Further ones of a tagger that does not.
        options: Options that differ from those of CrossNER's BERT tagger; None where none is published.
        target_options: Names of those that hold only where the target is trained on.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    with_target_labels: Mapping[str, str] = field(default_factory=dict)
    without_target_labels: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    target_options: frozenset[str] = frozenset()

    def options_for(self, *, of_source: bool) -> dict[str, Any]:
        """Return the published options of a tagger trained on the source alone or not."""
        left_out = self.target_options if of_source else frozenset()
        return {name: value for name, value in self.options.items() if name not in left_out}


class Tagger(nn.Module, ABC):
    """An encoder, which gives one vector per word, and what a method puts above it."""

    @dataclass(frozen=True)
    class Hyperparameters(Settings):
        """The settings of ``--set key=value``; each method declares its own."""

    encoder_class: ClassVar[type[Encoder]] = TransformerEncoder
    inputs_class: ClassVar[type[TrainingInputs]] = TrainingInputs
    can_export: ClassVar[bool] = False  # tags follow from scores of subwords alone, ``classifier`` above the encoder
    rows: ClassVar[Rows] = Rows()
    paper: ClassVar[Paper] = Paper()
    hyper: Settings
    terms: ClassVar[tuple[str, ...]] = ("tags",)  # names of the loss terms, where each is a sum over words

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Settings) -> None:
        super().__init__()
        self.encoder, self.tag_set, self.hyper = encoder, tag_set, hyper
        self.rules = TagRules(tag_set)

    @property
    def domain_of_new_text(self) -> str:
        """The domain that new text is tagged as."""
        return next(iter(self.tag_set.domains))

    @property
    def taught_types(self) -> tuple[str, ...]:
        """The types whose labels are learnt, in the order of the tag set."""
        return self.tag_set.types

    @abstractmethod
    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return named loss terms, each summed over its units, by which the training loop divides it."""

    def units(self, batch: Batch) -> dict[str, int]:
        """Return the number of units of each term, without computing anything: words, or ``OtherUnits``."""
        return dict.fromkeys(self.terms, batch.words)

    @abstractmethod
    def decode(self, batch: Batch) -> Decoded:
        """Return one tag per word, among the tags of the sentence's domain. Gold tags are never read."""

    def distributions(self, batch: Batch) -> Tensor:
        """Return the probability of each tag of each word, (B, W, K), 0 for tags of other domains than the sentence's.

        Rows outside the word mask mean nothing. Optional: ``gives_distributions`` says whether a method has it.
        """
        raise NotImplementedError

    def adopt(self, old: dict[str, Tensor], tag_set: TagSet, settings: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the tensors of a start, given its tags and settings, by the names they have here."""
        return old

    def rate_shares(self) -> dict[nn.Parameter, float]:
        """Return the parameters that learn at a share of the head's rate, and the shares."""
        return {}

    def explain(self, batch: Batch) -> dict[str, Shares]:
        """Return the weights that ``decode`` computes, by name; empty for a method without such weights."""
        return {}

    def states(self, batch: Batch) -> Tensor:
        """Return the vectors that tags are scored from, (B, W, D)."""
        states: Tensor = self.encoder(batch)
        return states

    def hidden_states(self, batch: Batch) -> dict[str, Tensor]:
        """Return the vectors that tags are scored from, (B, W, D), as ``hidden``, and others by name."""
        return {"hidden": self.states(batch)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Do the same as ``loss``; data-parallel wrappers call this."""
        return self.loss(batch)


class TagRules(nn.Module):
    """The tags that a decoder may give: those of a sentence's domain, in sequences that the tag scheme allows."""

    of_domains: Tensor
    start: Tensor
    transitions: Tensor
    stop: Tensor

    def __init__(self, tag_set: TagSet) -> None:
        super().__init__()
        self._numbers = {domain: number for number, domain in enumerate(tag_set.domains)}
        every = [True] * len(tag_set)
        rows = torch.tensor([*(tag_set.of(domain) for domain in tag_set.domains), every])  # (domains + 1, K)
        self.register_buffer("of_domains", rows, persistent=False)
        for name, legal in zip(Moves._fields, tag_set.legal_moves(), strict=True):
            self.register_buffer(name, (~torch.tensor(legal)).float() * IMPOSSIBLE, persistent=False)

    def allowed(self, domains: Sequence[str]) -> Tensor:
        """Return the tags of each sentence's domain, (B, K); every tag where the domain is unknown."""
        rows = [self._numbers.get(domain, -1) for domain in domains]
        return self.of_domains[torch.tensor(rows, device=self.of_domains.device)]

    def moves(self, legal: bool = True) -> Moves | None:
        """Return the penalty of each move: 0 where the scheme allows it, else next to -infinity; None for no rules."""
        return Moves(self.start, self.transitions, self.stop) if legal else None


def head_tensors(tagger: Tagger) -> dict[str, Tensor]:
    """Return the tensors above the encoder of a tagger, by name."""
    return {name: value for name, value in tagger.state_dict().items() if not name.startswith("encoder.")}


def method_names() -> list[str]:
    """Return the names of all methods, those of other packages included."""
    return list(find_places())


def find_method(name: str) -> type[Tagger]:
    """Look a method up by its name.

    Raises:
        CrossNERError: There is no such method, or another package's cannot be imported.
    """
    place = find_place(name)
    try:
        method: Any = getattr(importlib.import_module(place.module), place.attribute)
    except (ImportError, AttributeError) as error:
        raise CrossNERError(
            f"The method {name!r} cannot be loaded from {place.module}: {error}.", hint="Install its package again."
        ) from None
    if not (isinstance(method, type) and issubclass(method, Tagger)):
        raise CrossNERError(f"{place.module}:{place.attribute} is not a method.", hint="It must extend Tagger.")
    return method


def name_of_method(method: type[Tagger]) -> str:
    """Return the name by which a method is found."""
    module = importlib.import_module(method.__module__)
    places = find_places().items()
    known = (
        name
        for name, place in places
        if place.module == module.__name__ and vars(module).get(place.attribute) is method
    )
    return next(known, method.__name__)


def gives_distributions(method: type[Tagger]) -> bool:
    """Return whether taggers of a method give the probability of every tag of each word, as a teacher must."""
    return method.distributions is not Tagger.distributions


def read_settings(method: type[Tagger], settings: Iterable[str]) -> Settings:
    """Convert ``key=value`` texts into the method's hyperparameters, by the types of their fields.

    Raises:
        CrossNERError: A key is unknown, or a value has another type or is outside its limits.
    """
    hints = typing.get_type_hints(method.Hyperparameters)
    known = {each.name: each.default for each in dataclasses.fields(method.Hyperparameters)}
    values: dict[str, Any] = {}
    for text in settings:
        check_setting_name(text, known)
        key, value = split_setting(text)
        values[key] = _convert(value, hints[key], text)
    return method.Hyperparameters(**values)


def published_settings(method: type[Tagger], settings: Iterable[str], *, of_source: bool) -> list[str]:
    """Return the published settings that ``key=value`` texts do not set, as such texts."""
    given, paper = dict(map(split_setting, settings)), method.paper
    has_labels = not of_source and "target-ner" in given.get("tasks", "target-ner")
    published = {**paper.settings, **(paper.with_target_labels if has_labels else paper.without_target_labels)}
    return [f"{key}={value}" for key, value in published.items() if key not in given]


def _convert(value: str, kind: Any, text: str) -> Any:
    """Convert the value of a setting, given as ``text``, into the type of its field."""
    truths = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        if kind is bool:
            return truths[value.lower()]
        if kind in (int, float, str):
            found = kind(value)
            if kind is int and abs(found) > LARGEST_NUMBER:
                raise CrossNERError(
                    f"--set {text!r}: {found} is above {LARGEST_NUMBER:,}.", hint="Give a smaller number."
                )
            return found
        if value in typing.get_args(kind):
            return value
    except (KeyError, ValueError):
        pass
    wanted = " or ".join(map(str, typing.get_args(kind))) or kind.__name__
    raise CrossNERError(f"--set {text!r}: expected {wanted}, got {value!r}.", hint="Write key=value, as dropout=0.1.")
