"""Tagging new text: a transformers pipeline and ``crossner predict``, with the same tagger."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import Measured, Side, Stopwatch
from transformers import pipeline

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.pretrained import quiet_transformers
from crossner_cli.engine.devices import start_engine
from crossner_cli.options import Predict
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import exhaust
from crossner_cli.stages import predict
from crossner_cli.taggers.folder import load_tagger
from crossner_cli.taggers.tagging import tag


@dataclass(frozen=True)
class TextTagging:
    """What all sides are given.

    Args:
        sentences: What to tag; sides that read text get the words of a sentence joined by spaces.
        folder: The tagger.
        batch_size: Sentences the pipeline reads at once.
        threads: CPU threads; None is all cores.
        device: As ``--device``; on a GPU the pipeline computes in bf16, too.
    """

    sentences: Sequence[Sentence]
    folder: Path
    batch_size: int = 32
    threads: int | None = None
    device: str = "cpu"

    @property
    def words(self) -> int:
        """Words to tag."""
        return sum(len(sentence.words) for sentence in self.sentences)

    @property
    def texts(self) -> list[str]:
        """The sentences as text."""
        return [" ".join(sentence.words) for sentence in self.sentences]

    def shortened(self) -> TextTagging:
        """A few sentences, to warm up."""
        return dataclasses.replace(self, sentences=self.sentences[: 2 * self.batch_size])

    def options(self, seed: int, **changes: Any) -> Predict:
        """The product's options: its defaults but for the number of threads."""
        return Predict(threads=self.threads, seed=seed, device=self.device, model=[str(self.folder)], **changes)


def sides(task: TextTagging) -> dict[str, Side]:
    """The sides of the comparison, by name."""
    found: dict[str, Side] = {"pipeline": functools.partial(tag_with_pipeline, task)}
    for name, precision in {"crossner": "auto", **({"crossner int8": "int8"} if task.device == "cpu" else {})}.items():
        found[f"{name}, words to tags"] = functools.partial(tag_words, task, precision=precision)
        found[f"{name}, text to JSONL"] = functools.partial(tag_text, task, precision=precision)
    return found


def tag_with_pipeline(task: TextTagging, seed: int) -> Measured:
    """Tag texts with transformers; its result is one object a subword that is not O."""
    start_engine(task.options(seed))  # the same threads as the product's sides
    with quiet_transformers():
        tagger = pipeline(
            "token-classification",
            str(task.folder),
            device=task.device,
            batch_size=task.batch_size,
            dtype=torch.float32 if task.device == "cpu" else torch.bfloat16,
        )
    stopwatch = Stopwatch()
    texts = task.texts
    with stopwatch.running(), quiet_transformers():
        tagger(texts)
    return Measured(task.words, stopwatch.seconds)


def tag_words(task: TextTagging, seed: int, *, precision: str = "auto") -> Measured:
    """Tag words; the tagger has met none of them before."""
    options = task.options(seed, precision=precision)
    engine = start_engine(options)
    tagger = load_tagger(task.folder, engine)
    stopwatch = Stopwatch()
    with stopwatch.running():
        tag(tagger, task.sentences, engine, batch_subwords=options.batch_subwords)
    return Measured(task.words, stopwatch.seconds)


def tag_text(task: TextTagging, seed: int, *, precision: str = "auto") -> Measured:
    """Tag a text file: find its sentences and words, tag them, write JSONL. Loading the tagger is not counted."""
    with tempfile.TemporaryDirectory() as name:
        text, output = Path(name) / "text.txt", Path(name) / "tagged.jsonl"
        text.write_text("\n".join(task.texts) + "\n", encoding="utf-8")
        changes = {"input": [text], "output": output, "run": Path(name) / "run", "precision": precision}
        options = task.options(seed, **changes)
        record = exhaust(predict.run(RunDirectory(options.run), options, start_engine(options)))
    return Measured(task.words, record["result"]["seconds"])
