"""The training data of a tagger: an optional part of a method that reads more or less than all labelled sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.layers.settings import Settings

Labelled = Mapping[str, Sequence[Sentence]]  # labelled sentences by role


@dataclass(frozen=True)
class TrainingStage:
    """The stage that a tagger is trained in.

    Args:
        seed: Seed of what is drawn once for all seeds of the stage.
    """

    command: str
    roles: Sequence[str]
    design: TaggerDesign
    start: Start
    prepared: PreparedData
    seed: int


class CountedText(Protocol):
    """Sentences as words, whose size is known before they are read."""

    @property
    def counts(self) -> Counter[str]:
        """The occurrences of each word."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[str, ...]]: ...


class TrainingInputs:
    """The labelled sentences of the domains that a stage reads, mixed.

    Attributes:
        mixes: True if the labelled sentences of all domains are one stream; else each domain has its own, and sentences
            that a teacher labelled are not read.
        settings: The settings of the tagger, which record what it learns in this stage.
        roles: The domains whose labels are learnt.
        notes: Notes for the user, given before the stage begins.
        known: Data for the encoder from further files.
    """

    mixes = True
    settings: Settings

    def __init__(self, stage: TrainingStage) -> None:
        """Check all that is read."""
        self.stage, self.settings, self.roles = stage, stage.design.settings, list(stage.roles)
        self.notes: list[str] = []
        self.known: Any = None

    def list_prepared_files(self) -> list[str]:
        """List the files of the prepared data that are read beside the labelled sentences."""
        return []

    def digest_files(self) -> dict[str, str]:
        """Digest the files that are read beside the prepared data, by path."""
        return {}

    def make_tag_set(self) -> TagSet:
        """Make the tag set of the tagger."""
        return self.stage.prepared.tag_set(*self.stage.roles)

    def read(self, labelled: Labelled, tag_set: TagSet) -> Generator[Any, None, None]:
        """Read the files, with progress."""
        yield from ()

    def describe_raw_text(self) -> list[str]:
        """Describe each raw text that is read, in a line."""
        return []

    def begin(self, tagger: Any, labelled: Labelled) -> None:
        """Give a tagger what it must know of its text before it is trained."""

    def find_reread_texts(self, updates: int) -> Sequence[CountedText]:
        """Find the raw texts that so many updates read twice or more."""
        return []

    def make_raw_streams(self, reader: Any, tag_set: TagSet, seed: int) -> list[Any]:
        """Make the streams of raw text, of which an update reads a batch each."""
        return []
