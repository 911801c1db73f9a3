"""The contract of a tagging method, and its look-up: the file name is the value of ``--method``."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pkgutil
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from crossner_cli import methods
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import Encoder
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.crf import IMPOSSIBLE, Decoded, Moves


class Weights(NamedTuple):
    """How much each word of a batch takes of each of X things.

    Args:
        values: (B, W, X); rows outside the word mask mean nothing, nor do columns of words outside it.
        columns: Names of the X things; ``words`` where they are the words of the sentence; ``labels`` where they are
            the labels before each of its words.
    """

    values: Tensor
    columns: tuple[str, ...] | Literal["words", "labels"]


SHARED = {"contract", "described", "multi_task"}  # modules beside the methods
LARGEST_NUMBER = 2**31 - 1  # of settings; above it sizes of tensors overflow
# Options of a transformer that is trained, which CrossNER publishes and methods of words have no use for; and the
# number of epochs that it trains its source with, the last one kept.
UNPUBLISHED_FOR_WORDS = dict.fromkeys(("encoder", "learning_rate", "train_embeddings", "attention_dropout", "keep"))
# Those of an optimiser: theirs is SGD, and crossner's is not.
UNPUBLISHED_FOR_ADAM = dict.fromkeys(("head_learning_rate", "schedule", "warmup", "clip_norm", "patience"))


class Tagger(nn.Module, ABC):
    """An encoder and what a method puts above it.

    Args:
        encoder: Sentences to one vector a word.
        tag_set: The tags of the run.
        hyper: The method's own ``Hyperparameters``.
    """

    @dataclasses.dataclass(frozen=True)
    class Hyperparameters:
        """Set with ``--set key=value``; each method declares its own."""

    allowed: Tensor
    # Of a method that generates: parts of its sequences that were no entity, since the tagger was made.
    discarded_sequences: int = 0

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Any) -> None:
        super().__init__()
        self.encoder, self.tag_set, self.hyper = encoder, tag_set, hyper
        rows = torch.tensor([tag_set.of(domain) for domain in tag_set.domains])  # (domains, K)
        self.register_buffer("allowed", rows, persistent=False)
        self.legal_moves = Penalties(tag_set)
        self._domain_rows = {domain: row for row, domain in enumerate(tag_set.domains)}

    # The encoder: a ``TransformerEncoder``, a ``WordEncoder`` (its settings are then among the hyperparameters, as
    # ``WordInputs``) or an ``EncoderDecoder``.
    reads: ClassVar[Literal["subwords", "words", "encoder-decoder"]] = "subwords"
    # Names of the tensors above the encoder that hold one row or column a tag, with the dimensions that do:
    # these rows are what carries over between models of different types.
    tag_dimensions: ClassVar[dict[str, tuple[int, ...]]] = {}
    # The same for tensors that hold one row for O and then one a type, as ``TagSet.types`` orders them.
    type_dimensions: ClassVar[dict[str, tuple[int, ...]]] = {}
    # Names of the tensors that hold a row for what is unknown and then one a word, as an encoder of words numbers them.
    word_rows: ClassVar[tuple[str, ...]] = ()

    # Hyperparameters as published, where the defaults are others: what --paper sets, as ``published`` tells.
    paper_settings: ClassVar[dict[str, str]] = {}
    # Options as published, where they are others than those of CrossNER's BERT tagger, which the options themselves
    # hold; None where none is published, or only for another optimiser.
    paper_options: ClassVar[Mapping[str, Any]] = {}
    # Those of them that are of training on the target: on the source alone CrossNER's hold.
    paper_options_of_target: ClassVar[frozenset[str]] = frozenset()
    # Terms of the loss that are summed over something else than words.
    terms_of_other_units: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def published_options(cls, *, of_source: bool) -> Mapping[str, Any]:
        """``paper_options``, as far as they hold where a tagger is trained on the source alone, or on the target."""
        left_out = cls.paper_options_of_target if of_source else frozenset()
        return {name: value for name, value in cls.paper_options.items() if name not in left_out}

    @classmethod
    def published(cls, given: Mapping[str, str], *, of_source: bool = False) -> Mapping[str, str]:
        """The published hyperparameters of a tagger with these settings, by name; of one of the source alone."""
        return cls.paper_settings

    @classmethod
    def streams(cls, hyper: Any) -> tuple[str, ...]:
        """The tasks of which an update reads a batch each: of target-ner, source-ner, target-lm and source-lm, the last
        two raw text; none where one stream mixes the labelled sentences of all domains.
        """
        return ()

    def adopt(self, old: dict[str, Tensor], tag_set: TagSet, settings: Mapping[str, Any]) -> dict[str, Tensor]:
        """Tensors of a start, by the names under which this tagger takes them.

        Args:
            old: Those above its encoder.
            tag_set: Its tags.
            settings: Its hyperparameters.
        """
        return old

    @classmethod
    def taught_types(cls, tag_set: TagSet, settings: Mapping[str, Any]) -> Sequence[str]:
        """The types that labelled sentences teach a tagger, as a start, given its tags and its hyperparameters."""
        return tag_set.types

    @classmethod
    def domain_of_new_text(cls, tag_set: TagSet, settings: Mapping[str, Any]) -> str:
        """The domain as whose text new text is tagged, given a tagger's tags and hyperparameters: the target, which
        stands first.
        """
        return next(iter(tag_set.domains))

    @classmethod
    def learns_from_dictionary(cls, hyper: Any) -> bool:
        """Whether labels that a dictionary gives to words of raw text are learnt."""
        return False

    @classmethod
    def dictionary_types(cls, hyper: Any, tag_set: TagSet) -> Sequence[str]:
        """The types that such labels teach, of those of the first domain of the tag set, the target."""
        return next(iter(tag_set.domains.values()))

    def set_word_counts(self, counts: Tensor) -> None:
        """Learn how often each word number of the encoder is predicted in raw text, (V+1,), before training begins."""

    def update(self, progress: float) -> AbstractContextManager[None]:
        """What all forward and backward passes of an update are made inside, however many batches it reads.

        Args:
            progress: Share of the training's updates that are done, from 0.
        """
        return contextlib.nullcontext()

    @classmethod
    def described_words(cls, hyper: Any, types: Sequence[str]) -> list[str]:
        """Words beside those of the sentences that the method wants vectors of: what it compares types with."""
        return []

    @classmethod
    def check_description_size(cls, size: int) -> None:
        """Refuse vectors of words whose width a method that describes types with them cannot read.

        Raises:
            CrossNERError: As above.
        """

    @abstractmethod
    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Named loss terms, each summed over its units; the training loop divides by what ``units`` gives over all
        processes, where those are words by those of as many average sentences.
        """

    @abstractmethod
    def units(self, batch: Batch) -> dict[str, int]:
        """How many units each term of this batch is summed over, told without computing anything."""

    @abstractmethod
    def decode(self, batch: Batch) -> Decoded:
        """One tag a word, among the tags of the sentence's domain. Gold tags are never read."""

    def explain(self, batch: Batch) -> dict[str, Weights]:
        """The weights that ``decode`` computes on its way, by name; none where a method has no such weights."""
        return {}

    def hidden_states(self, batch: Batch) -> dict[str, Tensor]:
        """What tags are told from, (B, W, D), under ``hidden``, the encoder's vectors by default; others by name."""
        return {"hidden": self.encoder(batch)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Same as ``loss``: what a data-parallel wrapper calls."""
        return self.loss(batch)

    def allowed_tags(self, batch: Batch) -> Tensor:
        """Tags each sentence may be given, (B, K): those of its domain; every tag where the domain is unknown."""
        rows = [self._domain_rows.get(domain, -1) for domain in batch.domains]
        every = torch.ones_like(self.allowed[:1])
        return torch.cat([self.allowed, every])[torch.tensor(rows, device=self.allowed.device)]

    def above_encoder(self) -> dict[str, Tensor]:
        """The tensors of the method itself, by name."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("encoder.")}


class Penalties(nn.Module):
    """What makes a decoder keep to sequences that the tag scheme allows: 0 for a legal move, else next to -infinity."""

    start: Tensor
    transitions: Tensor
    stop: Tensor

    def __init__(self, tag_set: TagSet) -> None:
        super().__init__()
        for name, legal in zip(Moves._fields, tag_set.legal_moves(), strict=True):
            self.register_buffer(name, (~torch.tensor(legal)).float() * IMPOSSIBLE, persistent=False)

    def forward(self) -> Moves:
        """The penalties, on the model's device."""
        return Moves(self.start, self.transitions, self.stop)


def method_names() -> list[str]:
    """Every method, by file name."""
    found = {module.name for module in pkgutil.iter_modules(methods.__path__)}
    return sorted(name.replace("_", "-") for name in found - SHARED)


def find_method(name: str) -> type[Tagger]:
    """Look a method up by its file name.

    Raises:
        CrossNERError: There is no such file.
    """
    if name not in method_names():
        raise CrossNERError(f"There is no method {name!r}.", hint=f"Methods: {', '.join(method_names())}.")
    module = importlib.import_module(f"crossner_cli.methods.{name.replace('-', '_')}")
    method: type[Tagger] = module.METHOD
    return method


def read_settings(method: type[Tagger], settings: Iterable[str]) -> Any:
    """Turn ``key=value`` texts into the method's hyperparameters, converted by the types of their fields.

    Raises:
        CrossNERError: An unknown key, or a value of another type.
    """
    hints = typing.get_type_hints(method.Hyperparameters)
    known = {field.name: field.default for field in dataclasses.fields(method.Hyperparameters)}
    valid = ", ".join(f"{name}={default}" for name, default in known.items()) or "none"
    values: dict[str, Any] = {}
    for setting in settings:
        key, text = split_setting(setting)
        if key not in known:
            raise CrossNERError(
                f"--set {setting!r}: this method has no setting {key!r}.", hint=f"Settings and defaults: {valid}."
            )
        values[key] = _convert(text, hints[key], setting)
    return method.Hyperparameters(**values)


def split_setting(setting: str) -> tuple[str, str]:
    """Name of the hyperparameter and its value, as texts, of ``key=value``."""
    key, _, text = setting.partition("=")
    return key.strip().replace("-", "_"), text.strip()


def published_settings(method: type[Tagger], settings: Iterable[str], *, of_source: bool) -> list[str]:
    """The published hyperparameters that ``key=value`` texts do not set, as such texts."""
    given = dict(map(split_setting, settings))
    published = method.published(given, of_source=of_source)
    return [f"{key}={value}" for key, value in published.items() if key not in given]


def _convert(text: str, kind: Any, setting: str) -> Any:
    """Read a text as a value of a field's type."""
    truths = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if kind is bool and text.lower() in truths:
        return truths[text.lower()]
    if typing.get_origin(kind) is typing.Literal and text in typing.get_args(kind):
        return text
    if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise CrossNERError(
            f"--set {setting!r}: its value is not written in UTF-8.", hint="Set the terminal or the script to UTF-8."
        )
    if kind in (int, float, str):
        try:
            value = kind(text)
        except ValueError:
            pass
        else:
            if kind is not int or abs(value) <= LARGEST_NUMBER:
                return value
            raise CrossNERError(
                f"--set {setting!r}: {value} is above {LARGEST_NUMBER:,}, the largest whole number that is read.",
                hint="Give a smaller one.",
            )
    wanted = " or ".join(map(str, typing.get_args(kind))) or getattr(kind, "__name__", str(kind))
    raise CrossNERError(f"--set {setting!r}: expected {wanted}, got {text!r}.", hint="Write key=value, as dropout=0.1.")
