"""The start of a tagger, and the record of what carried over. This module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import Settings
from crossner_cli.run.directory import MANIFEST, check_outputs, digest_model
from crossner_cli.run.results import CarryOver


@dataclass(frozen=True)
class TaggerDesign:
    """The tagger that a stage makes: the name of its method, the settings, and what its transformer does."""

    name: str
    settings: Settings
    attention_dropout: bool = False
    word_shapes: bool = False


@dataclass(frozen=True)
class Start:
    """The weights that a stage starts from, under the name that the user gave.

    Args:
        folder: A model folder, of a training stage that of the seed with the best dev F1; None for an untouched
            encoder.
        digest: Digest of the weights; ``nothing`` where every weight is new.
        place: The folder that the digest is of: a stage's or a model's.
        seeds: Tagger folder of each seed, where the start is a training stage.
        lineage: The stages that made these weights, the first one first.
        encoder: Folder or name of an untouched encoder; None where there is a folder, or no transformer is read.
    """

    name: str
    folder: Path | None
    digest: str
    place: Path | None = None
    seeds: dict[int, Path] = field(default_factory=dict)
    lineage: list[dict[str, str]] = field(default_factory=list)
    encoder: str | None = None

    def folder_for(self, seed: int) -> Path | None:
        """Return the folder that a seed starts from: that of the same seed, if the start has one, else the best one."""
        return self.seeds.get(seed, self.folder) if self.folder is not None else None

    def transformer_for(self, seed: int) -> str:
        """The folder or name that the transformer of a seed is read from; empty where none is."""
        folder = self.folder_for(seed)
        return self.encoder or "" if folder is None else str(folder.absolute())

    def holds(self, name: str) -> bool:
        """Return whether its folder holds a file."""
        return self.folder is not None and (self.folder / name).is_file()

    @property
    def has_transformer(self) -> bool:
        """True if it holds a transformer."""
        return self.folder is None or self.holds("config.json")

    def check_transformer(self, wanted_by: str) -> None:
        """Refuse a start without a transformer; ``wanted_by`` ends the sentence and says what needs one."""
        if not self.has_transformer:
            raise CrossNERError(
                f"The start {self.name!r} holds no transformer, which {wanted_by}.",
                hint="Start from base, from a dapt stage, or from a tagger that has one.",
            )

    def check_unchanged(self, wanted_by: str) -> None:
        """Refuse a start that was edited or made again since its digest was taken: seeds would begin differently."""
        for folder in {*self.seeds.values(), self.folder}:
            if folder is not None and (folder.parent / MANIFEST).is_file():
                check_outputs(folder.parent, folder, hint=f"Make the start {self.name!r} again with --force.")
        if self.place is not None and (not self.place.is_dir() or digest_model(self.place) != self.digest):
            raise CrossNERError(
                f"{wanted_by}: the start {self.name!r} was made again while this stage trained.",
                hint="Train it again with --force once the start is finished.",
            )


@dataclass(frozen=True)
class EncoderStart:
    """The parts from which an encoder to be trained is made.

    Args:
        folder: The model folder that weights come from; None for an untouched encoder.
        of_tagger: True if it is a tagger's folder, whose files also hold a copy of its classifier.
        known: Data of the method from the files that it reads beside labelled sentences.
    """

    design: TaggerDesign
    transformer: str
    folder: Path | None
    of_tagger: bool
    attention: str | None
    known: Any
    carried: CarryOver
