"""The pipeline that selects from a part of a corpus: steps of datatrove whose documents hold thousands of sentences."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from crossner_cli.corpus.filters import drop_boilerplate, fingerprints
from crossner_cli.corpus.job import WEAK, Job, Pass, write_result
from crossner_cli.corpus.mentioned_lines import MENTION
from crossner_cli.corpus.reading import Sentences, read_sentences
from crossner_cli.corpus.selection import LevelCounts, LevelPart
from crossner_cli.corpus.weak_labels import label
from crossner_cli.errors import CrossNERError

Documents = Iterator[Document]


def pipeline_of(folder: Path, of_pass: Pass) -> list[PipelineStep]:
    """The steps of a pass over the corpus.

    Args:
        folder: The folder of the job.
        of_pass: ``fingerprint``: what tells duplicates; ``select``: the sentences of the levels.
    """
    request = Job(folder).request
    steps: list[PipelineStep] = [ReadSentences(folder)]
    if request.drop_boilerplate:
        steps.append(DropBoilerplate())
    if of_pass == "fingerprint":
        return [*steps, WriteFingerprints(folder)]
    if request.duplicates != "no":
        steps.append(DropDuplicates(folder))
    return [*steps, SelectSentences(folder), WriteLevels(folder)]


class ReadSentences(PipelineStep):  # type: ignore[misc]
    """Read the sentences of a part: a document's text is sentences with a line feed between."""

    name, type = "Sentences", "READER"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Documents | None = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Yield the sentences of the part, thousands at a time."""
        job = Job(self.folder)
        part, counts = job.parts[rank], Counter[str]()
        read = read_sentences(
            part, counts, one_a_line=job.request.one_a_line, excluded=job.excluded(), column=job.request.column
        )
        for number, sentences in enumerate(read):
            metadata = {"sentences": sentences, "counts": counts}
            yield Document("\n".join(sentences.texts), f"{rank}/{number}", metadata=metadata)


class DropBoilerplate(PipelineStep):  # type: ignore[misc]
    """Leave out what is no prose."""

    name, type = "Boilerplate", "FILTER"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Yield documents without such sentences."""
        for document in data:
            found: Sentences = drop_boilerplate(document.metadata["sentences"], document.metadata["counts"])
            yield _with(document, found)


class DropDuplicates(PipelineStep):  # type: ignore[misc]
    """Leave out the sentences that were found to be repeated."""

    name, type = "Duplicates", "FILTER"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Yield documents without them."""
        is_dropped, place = np.load(Job(self.folder).duplicates(rank), allow_pickle=False), 0
        for document in data:
            sentences: Sentences = document.metadata["sentences"]
            kept = sentences.kept(~is_dropped[place : place + len(sentences.texts)])
            place += len(sentences.texts)
            yield _with(document, kept)


class WriteFingerprints(PipelineStep):  # type: ignore[misc]
    """Write what tells duplicates."""

    name, type = "Fingerprints", "WRITER"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Write the fingerprints of a part and yield its documents."""
        job = Job(self.folder)
        with _draft_of(job, "fingerprint", rank) as draft, (draft / "fingerprints.bin").open("wb") as stream:
            for document in data:
                found = fingerprints(document.metadata["sentences"], near=job.request.duplicates == "near")
                stream.write(found.tobytes())
                yield document
            write_result(draft / "counts.json", {}, {})


class SelectSentences(PipelineStep):  # type: ignore[misc]
    """Tell which sentences belong to which level."""

    name, type = "Levels", "FILTER"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Yield documents with what they add to each level."""
        selector = Job(self.folder).selector()
        for document in data:
            counts = document.metadata["counts"]
            document.metadata["levels"] = selector.select(document.metadata["sentences"], counts)
            yield document


class WriteLevels(PipelineStep):  # type: ignore[misc]
    """Write the sentences of the levels, where the names are in them, and the sentences labelled by the names."""

    name, type = "Levels", "WRITER"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Write the levels of a part and yield its documents."""
        job = Job(self.folder)
        totals = {level: LevelCounts() for level in job.selector().levels}
        counts, last_documents = Counter[str](), dict[str, int]()
        with _draft_of(job, "select", rank) as draft, ExitStack() as stack:
            texts = {level: stack.enter_context((draft / f"{level}.txt").open("wb")) for level in totals}
            places = {level: stack.enter_context((draft / f"{level}.mentions").open("wb")) for level in totals}
            for document in data:
                counts = document.metadata["counts"]
                for level, part in document.metadata["levels"].items():
                    if level == WEAK:
                        texts[level].write(_labelled(part, job, counts))
                    elif part.texts:
                        texts[level].write(("\n".join(part.texts) + "\n").encode())
                        mentions = (part.mentions + (totals[level].sentences, 0, 0)).astype(MENTION)
                        places[level].write(mentions.tobytes())  # tofile would not say that the disk is full
                    totals[level] = totals[level].plus(part.counts)
                    if part.texts:
                        # A document that goes on from the sentences before was counted there.
                        totals[level].documents -= int(part.documents[0]) == last_documents.get(level)
                        last_documents[level] = int(part.documents[-1])
                yield document
            write_result(draft / "counts.json", counts, totals)


def _labelled(part: LevelPart, job: Job, counts: Counter[str]) -> bytes:
    assert job.names is not None
    records = (
        json.dumps({"words": sentence.words, "tags": sentence.tags}, ensure_ascii=False) + "\n"
        for sentence in label(part, job.names.type_sets, counts)
    )
    return "".join(records).encode()


def _with(document: Document, sentences: Sentences) -> Document:
    if sentences is not document.metadata["sentences"]:
        document.text, document.metadata["sentences"] = "\n".join(sentences.texts), sentences
    return document


@contextmanager
def _draft_of(job: Job, of_pass: Pass, rank: int) -> Iterator[Path]:
    """A folder that becomes that of the part when all is well; what is wrong with the text is told beside it."""
    folder = job.part_folder(of_pass, rank)
    draft = folder.with_name(f".{folder.name}.{os.uname().nodename}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        shutil.rmtree(folder, ignore_errors=True)
        draft.replace(folder)
    except CrossNERError as error:
        told = json.dumps({"problem": error.problem, "hint": error.hint})
        job.problem(of_pass, rank).write_text(told, encoding="utf-8")
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
