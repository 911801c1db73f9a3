"""Taggers of words and their inputs: word vectors, and for several tasks raw text and a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossner_cli.data.tags import TagSet
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.inputs import Labelled, TrainingInputs, TrainingStage
from crossner_cli.recurrent.known_words import (
    CORPUS,
    check_word_files,
    collect_known_words,
    digest_word_files,
    find_strings,
    note_on_strings,
)
from crossner_cli.recurrent.raw_inputs import (
    RawInputs,
    check_raw,
    count_words,
    find_tasks,
    narrow_tasks,
    read_dictionary,
    read_raw,
)
from crossner_cli.recurrent.raw_text import RawFile, RawStream
from crossner_cli.recurrent.tasks import MultiTaskInputs
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import WordInputs
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import digest_path


class WordTrainingInputs(TrainingInputs):
    """Labelled sentences, and the vectors that the encoder of words begins with."""

    settings: WordInputs

    def __init__(self, stage: TrainingStage) -> None:
        super().__init__(stage)
        check_word_files(stage.design, stage.start)
        run = RunDirectory(stage.prepared.folder.parent)
        self.strings = find_strings(run, self.settings.string_embeddings)
        if self.settings.embeddings == CORPUS:
            stage.prepared.corpus("domain")
        self.notes += note_on_strings(self.strings, stage.prepared)

    def list_prepared_files(self) -> list[str]:
        """List all of them: an encoder of words knows all words of the run."""
        return [file for file in self.stage.prepared.digests if "/" in file]

    def digest_files(self) -> dict[str, str]:
        """Digest the files of vectors and the language models of characters."""
        return digest_word_files(self.settings, self.strings)

    def read(self, labelled: Labelled, tag_set: TagSet) -> Work[None]:
        """Read raw text, and collect the words that have vectors."""
        raw_words = yield from self.read_raw_words(labelled)
        sentences = [sentence for of_role in labelled.values() for sentence in of_role]
        known = yield from collect_known_words(self.stage, sentences, tag_set, raw_words)
        self.known = replace(known, strings=self.strings)

    def read_raw_words(self, labelled: Labelled) -> Work[Sequence[str]]:
        """Read the words of raw text that get a vector: none."""
        yield from ()
        return ()


class WordTagger(Tagger):
    """A tagger above an encoder of words, whose settings are among its own, as ``WordInputs``."""

    encoder_class = WordEncoder
    inputs_class = WordTrainingInputs


class TaskTrainingInputs(WordTrainingInputs):
    """A stream of labelled sentences or of raw text for each task, and a dictionary that labels raw text."""

    mixes = False
    settings: MultiTaskInputs

    def __init__(self, stage: TrainingStage) -> None:
        super().__init__(stage)
        settings, prepared = self.settings, stage.prepared
        self.tasks = find_tasks(settings, stage.command, stage.roles)
        self.roles = [role for role in stage.roles if f"{role}-ner" in self.tasks]
        self.settings, narrowed = narrow_tasks(settings, stage.command, stage.roles)
        self.notes += narrowed
        check_raw(prepared, self.tasks)
        self.dictionary = read_dictionary(prepared, stage.design.name, self.settings, self.tasks)
        self.raw: RawInputs | None = None

    def digest_files(self) -> dict[str, str]:
        """Digest the files of words, and the dictionary."""
        path = self.settings.dictionary
        return super().digest_files() | ({path: digest_path(Path(path))} if path else {})

    def make_tag_set(self) -> TagSet:
        """Make the tag set with the target first, also before it is trained on: the target is recognised by its place.

        Raises:
            CrossNERError: The tasks need two domains, and there is one.
        """
        prepared, roles = self.stage.prepared, self.stage.roles
        first = ["target"] if "target" not in roles and "target" in prepared.domains else []
        tag_set = prepared.tag_set(*first, *roles)
        if len({task.partition("-")[0] for task in self.tasks}) > len(tag_set.domains):
            raise CrossNERError(
                f"{self.stage.command}: source and target are both {', '.join(tag_set.domains)}; the tasks are of two"
                " domains.",
                hint="Prepare another source, or finetune on tasks of the target alone (--set tasks=target-ner).",
            )
        return tag_set

    def read_raw_words(self, labelled: Labelled) -> Work[Sequence[str]]:
        """Read the raw text that a task models."""
        if any(task.endswith("-lm") for task in self.tasks):
            yield Notice(f"{self.stage.command}: reading raw text")
        self.raw = read_raw(self.stage.prepared, self.settings, self.tasks, labelled, self.dictionary)
        yield from (Notice(f"{self.stage.command}: {note}") for note in self.describe_raw_text())
        return self.raw.words() if self.raw else ()

    def describe_raw_text(self) -> list[str]:
        """Describe each text in a line, and the dictionary."""
        return self.raw.describe() if self.raw else []

    def begin(self, tagger: Any, labelled: Labelled) -> None:
        """Give a tagger the number of times that each word is predicted."""
        count_words(tagger, labelled, self.raw)

    def find_reread_texts(self, updates: int) -> Sequence[RawFile]:
        """Find the files of raw text that so many updates read twice or more."""
        texts = self.raw.texts.values() if self.raw else ()
        read = self.settings.raw_batch_size * updates
        return [text for text in texts if isinstance(text, RawFile) and read >= 2 * len(text)]

    def make_raw_streams(self, reader: Any, tag_set: TagSet, seed: int) -> list[Any]:
        """Make a stream of each domain's raw text; the dictionary labels the target's."""
        if self.raw is None:
            return []
        size, labels = self.settings.raw_batch_size, {"target": self.dictionary}
        return [
            RawStream(text, self.raw.domains[role], reader, size, seed, tag_set, labels.get(role))
            for role, text in self.raw.texts.items()
        ]
