"""Texts tagged from Python, by the code of ``crossner predict``."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crossner_cli.data.documents import Document
from crossner_cli.data.formats.spans import check_strings
from crossner_cli.data.formats.writer import Writer
from crossner_cli.data.text import segment
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError, suggest_path
from crossner_cli.prediction.inputs import group_documents
from crossner_cli.prediction.tagging import ChunkTagger, PredictionJob
from crossner_cli.run.directory import RunDirectory
from crossner_cli.taggers.sources import best_on_dev, find_taggers
from crossner_cli.taggers.tagging import read_calibration

TEXTS_HINT = 'Give a list of texts: tag(["Anna met Peter."]).'


@dataclass(frozen=True)
class Entity:
    """An entity of a text.

    Args:
        start: Its first character in the text, from 0.
        end: The character after its last one.
        type: Its entity type.
        text: The text from ``start`` to ``end``.
        score: The probability that it is right, from 0 to 1, if the tagger is calibrated; else the lowest probability
            of the tags of its words.
    """

    start: int
    end: int
    type: str
    text: str
    score: float


class TextTagger:
    """A tagger of texts, as ``crossner_cli.load_tagger`` returns it.

    Args:
        folder: The folder of a stage, of a tagger or of an exported graph.

    Raises:
        CrossNERError: The folder holds no tagger, or a damaged one.
    """

    def __init__(self, folder: Path, engine: Engine) -> None:
        if not folder.is_dir():
            hint = f"{suggest_path(folder)}Give the folder of a stage such as run/finetune, or of a tagger."
            raise CrossNERError(f"There is no folder {folder}.", hint=hint)
        trained = best_on_dev(find_taggers(RunDirectory(folder.parent), [str(folder)], wanted_by="load_tagger"))
        trained.check_unchanged()
        tagging = PredictionJob([trained], Writer(), calibration=read_calibration(trained.folder))
        self._tagger = ChunkTagger(tagging, engine)
        # Hooks that leave out padding, and the mode, belong to the model; a call uses all cores anyway.
        self._lock = threading.Lock()

    def tag(self, texts: Iterable[str]) -> list[list[Entity]]:
        """Find the entities of each text, in the order of the texts; within a text in the order of their places.

        Threads may call it at once: they wait for each other.

        Raises:
            CrossNERError: One text is given in place of a list, or a value is not a text.
        """
        if isinstance(texts, str):
            raise CrossNERError("tag was given one text instead of a list.", hint=TEXTS_HINT)
        given = list(texts)
        check_strings(given, "texts", TEXTS_HINT)
        chunks = group_documents(Document(text, segment(text)) for text in given)
        with self._lock:
            tagged = [each for chunk in chunks for each in self._tagger.tag(chunk)]
        return [[Entity(**entity) for entity in each.entities] for each in tagged]
