"""The four corpus levels for domain-adaptive pre-training, from raw text and lists of names.

Paper: Liu et al. (2021), CrossNER. Domain level: every sentence. Entity level: sentences with several listed names.
Task level: sentences with a name of a type special to the target domain. Integrated: entity level, task level twice.
Differs: the paper leaves the matching open. Here a name is matched over whole words, longest first, case-sensitively,
and "several" counts distinct names. As the published sizes imply, the integrated level keeps its repetitions.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from crossner_cli.errors import CrossNERError
from crossner_cli.names import Name, Names, read_names
from crossner_cli.progress import Notice, Progress, Work
from crossner_cli.raw_files import corpus_files, read_texts, refuse_labelled
from crossner_cli.text import segment

LEVELS = ("domain", "entity", "task", "integrated")
LINES_OF_CHUNK, CHARACTERS_OF_CHUNK = 1000, 1 << 18
CHUNKS_PER_WORKER = 4
FINAL_STOPS = ".!?\N{HORIZONTAL ELLIPSIS}"
Chunk = tuple[list[str], int]
Result = TypeVar("Result")


def write_levels(
    corpus: Sequence[Path],
    entities: Sequence[Path],
    folder: Path,
    *,
    level: str | None,
    specialised_types: set[str] | None,
    min_entities: int,
    task_upsample: int,
    excluded: set[tuple[str, ...]],
    workers: int,
    text_column: str = "text",
) -> Work[dict[str, Any]]:
    """Select the sentences of each level and write them to ``folder/LEVEL.txt``, a sentence a line.

    Memory does not grow with the corpus, and the files do not depend on ``workers``.

    Args:
        corpus: Files of raw text, or folders of which every such file below is read; see ``raw_files``.
        entities: Lists of names; without them only the domain level can be made.
        folder: Where to write; nothing is left there if anything goes wrong.
        level: The one level to write; None writes all that can be made.
        specialised_types: Types whose names make a task-level sentence.
        min_entities: Distinct names that make an entity-level sentence.
        task_upsample: Times the task level counts in the integrated level.
        excluded: Words of sentences that may be in no level: those the target is scored on. Compared without regard
            to case and to where words begin and end.
        workers: Processes that select.
        text_column: Where JSONL and Parquet files have the text.

    Returns:
        What was read, what was dropped, and the sentences, words and mentions by type of each level.

    Raises:
        CrossNERError: A file cannot be read or is no text, a level cannot be made of what was given, or is empty.
    """
    names = read_names(entities) if entities else None
    levels = _levels_to_write(level, names, specialised_types)
    if names and level is None and len(levels) < len(LEVELS):
        yield Notice("No specialised types are known, so the task and integrated levels were left out.")
    named, files = corpus_files(corpus)
    if named > len(files):
        yield Notice(f"{named - len(files)} corpus files were named more than once and are read once.")
    for path in files:
        refuse_labelled(path)
    types = frozenset(specialised_types or ())
    absent = sorted(types - set(names.names_of_type())) if names else []
    if absent and not {"task", "integrated"}.isdisjoint(levels):
        yield Notice(f"The entity lists have no name of the specialised types {', '.join(absent)}.")
    selected = tuple(name for name in LEVELS[:3] if name in levels or ("integrated" in levels and name != "domain"))
    selector = _Selector(names, selected, types, min_entities, frozenset(map(_key, excluded)))
    found = yield from _write_files(selector, files, folder, levels, task_upsample, workers, text_column)
    return {
        **dict(found.counts),
        "names": {**names.counts, "types": names.names_of_type()} if names else None,
        "levels": {name: found.levels[name].to_json() for name in levels},
    }


@dataclass
class _Level:
    """What one level holds.

    Args:
        lines: Its sentences, until they are written.
        sentences: How many sentences.
        words: How many words.
        mentions: Names found, by type; a name of several types counts for each.
    """

    lines: list[str] = field(default_factory=list)
    sentences: int = 0
    words: int = 0
    mentions: Counter[str] = field(default_factory=Counter)

    def add(self, line: str, words: int, mentions: Iterable[str]) -> None:
        self.lines.append(line)
        self.sentences += 1
        self.words += words
        self.mentions.update(mentions)

    def plus(self, other: _Level, *, times: int = 1) -> _Level:
        """The counts of this level and ``times`` those of another."""
        mentions = self.mentions + Counter({name: count * times for name, count in other.mentions.items()})
        return _Level([], self.sentences + other.sentences * times, self.words + other.words * times, mentions)

    def to_json(self) -> dict[str, Any]:
        mentions = dict(sorted(self.mentions.items()))
        return {"sentences": self.sentences, "words": self.words, "mentions": mentions}


@dataclass
class _Selection:
    """The sentences selected from some lines, and what was read and dropped on the way."""

    levels: dict[str, _Level]
    counts: Counter[str]


@dataclass(frozen=True)
class _Selector:
    """What a process needs to select sentences.

    Args:
        names: Listed names, if any.
        levels: Levels to select for: of domain, entity and task.
        specialised_types: Types that make a task-level sentence.
        min_entities: Distinct names that make an entity-level sentence.
        excluded: Keys of the sentences to drop.
    """

    names: Names | None
    levels: tuple[str, ...]
    specialised_types: frozenset[str]
    min_entities: int
    excluded: frozenset[str]

    def empty(self) -> _Selection:
        """A selection of nothing."""
        counts = ["lines", "blank_lines", "sentences", "dropped_leaks"]
        counts += ["sentences_without_names"] if self.names else []
        return _Selection({level: _Level() for level in self.levels}, Counter(dict.fromkeys(counts, 0)))

    def select(self, lines: list[str]) -> _Selection:
        """Cut lines into sentences and put each into its levels."""
        selection = self.empty()
        selection.counts["lines"] = len(lines)
        for line in lines:
            sentences = segment(line)
            selection.counts["blank_lines"] += not sentences
            selection.counts["sentences"] += len(sentences)
            # A sentence to be dropped may look like two to the splitter; then it is found as the whole line.
            if self.excluded and sentences and _key(line) in self.excluded:
                selection.counts["dropped_leaks"] += len(sentences)
                continue
            for sentence in sentences:
                text = " ".join(line[sentence[0].start : sentence[-1].end].split())
                self._place(tuple(word.text for word in sentence), text, selection)
        return selection

    def _place(self, words: Name, text: str, selection: _Selection) -> None:
        if self.excluded and _key(words) in self.excluded:
            selection.counts["dropped_leaks"] += 1
            return
        found: list[Name] = []
        mentions: list[str] = []
        if self.names:
            found = [words[start:end] for start, end in self.names.find(words)]
            mentions = [entity_type for name in found for entity_type in self.names.types[name]]
            selection.counts["sentences_without_names"] += not found
        belongs = {
            "domain": True,
            "entity": len(found) >= self.min_entities and len(set(found)) >= self.min_entities,
            "task": not self.specialised_types.isdisjoint(mentions),
        }
        for name, level in selection.levels.items():
            if belongs[name]:
                level.add(text, len(words), mentions)


_worker_selectors: list[_Selector] = []


def _start_worker(selector: _Selector) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker_selectors[:] = [selector]


def _select_in_worker(lines: list[str]) -> _Selection:
    return _worker_selectors[0].select(lines)


def _key(words: Iterable[str]) -> str:
    """What two sentences share that differ only in case, in the final stop and in how they are cut into words."""
    letters = "".join("".join(words).split()).lower()
    return letters.rstrip(FINAL_STOPS) or letters


def _levels_to_write(level: str | None, names: Names | None, specialised_types: set[str] | None) -> list[str]:
    """Tell which levels are wanted, and refuse those that cannot be made."""
    if names is None:
        if level not in (None, "domain"):
            raise CrossNERError(
                f"The corpus level {level!r} needs an entity list, and none was given.",
                hint="Add --entities LIST, a file with a line each: name<TAB>type; or ask for --corpus-level domain.",
            )
        return ["domain"]
    if level in ("task", "integrated") and not specialised_types:
        raise CrossNERError(
            f"The corpus level {level!r} needs specialised types, and none are known.",
            hint=f"Add --specialised-types a,b. Types in the list: {names.list_types()}.",
        )
    levels = [level] if level else list(LEVELS if specialised_types else LEVELS[:2])
    if "task" not in levels and "integrated" not in levels:
        return levels
    if specialised_types and specialised_types.isdisjoint(names.names_of_type()):
        raise CrossNERError(
            f"The entity lists have no name of the specialised types {', '.join(sorted(specialised_types))}.",
            hint=f"Choose other --specialised-types. Types in the list: {names.list_types()}.",
        )
    return levels


def _status(path: Path) -> os.stat_result | None:
    """What the system knows of a path; None where opening it will say what is wrong."""
    try:
        return path.stat()
    except OSError:
        return None


def _chunks(files: Sequence[Path], column: str, counts: Counter[str]) -> Iterator[Chunk]:
    """Cut the lines of files into lists for one process each, with their size in bytes."""
    lines: list[str] = []
    characters = size = 0
    for path in files:
        for line in read_texts(path, column=column, counts=counts):
            lines.append(line)
            characters += len(line)
            size += len(line.encode()) + 1
            if len(lines) >= LINES_OF_CHUNK or characters >= CHARACTERS_OF_CHUNK:
                yield lines, size
                lines, characters, size = [], 0, 0
    if lines:
        yield lines, size


def _select_in_order(selector: _Selector, chunks: Iterator[Chunk], workers: int) -> Iterator[tuple[_Selection, int]]:
    """Select from each chunk, in one process or several; results come in the order of the chunks."""
    if workers == 1:
        yield from ((selector.select(lines), size) for lines, size in chunks)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(selector,))
    try:
        pending: deque[tuple[Any, int]] = deque()
        for lines, size in chunks:
            pending.append((_unless_killed(pool.submit, _select_in_worker, lines), size))
            if len(pending) >= CHUNKS_PER_WORKER * workers:
                future, done = pending.popleft()
                yield _unless_killed(future.result), done
        for future, done in pending:
            yield _unless_killed(future.result), done
    finally:
        pool.shutdown(cancel_futures=True)


def _unless_killed(call: Callable[..., Result], *arguments: Any) -> Result:
    try:
        return call(*arguments)
    except BrokenProcessPool:
        raise CrossNERError(
            "A process that selected sentences was ended from outside, perhaps for want of memory.",
            hint="Try again with fewer processes: --workers 1.",
        ) from None


def _write_files(
    selector: _Selector, files: Sequence[Path], folder: Path, levels: list[str], task_upsample: int, workers: int,
    text_column: str,
) -> Work[_Selection]:  # fmt: skip
    """Write drafts, rename those of the wanted levels when all is well, and leave no other."""
    folder.mkdir(parents=True, exist_ok=True)
    drafts = {name: folder / f".{name}.txt.{os.getpid()}" for name in (*selector.levels, *levels)}
    try:
        found = yield from _write_selected(selector, files, drafts, workers, text_column)
        _refuse_empty_levels(found, selector, files)
        if "integrated" in levels:
            _append(drafts["integrated"], [drafts["entity"], *[drafts["task"]] * task_upsample])
            found.levels["integrated"] = found.levels["entity"].plus(found.levels["task"], times=task_upsample)
        for name in levels:
            drafts[name].replace(folder / f"{name}.txt")
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
    return found


def _write_selected(
    selector: _Selector, files: Sequence[Path], drafts: dict[str, Path], workers: int, text_column: str
) -> Work[_Selection]:
    """Write what is selected from the files, and return the counts."""
    total, done = sum(status.st_size for path in files if (status := _status(path))), 0
    found, counts = selector.empty(), Counter[str]()
    with ExitStack() as stack:
        streams = {
            name: stack.enter_context(drafts[name].open("w", encoding="utf-8", newline="\n"))
            for name in selector.levels
        }
        for selection, size in _select_in_order(selector, _chunks(files, text_column, counts), workers):
            for name, level in selection.levels.items():
                streams[name].writelines(f"{line}\n" for line in level.lines)
                found.levels[name] = found.levels[name].plus(level)
            found.counts.update(selection.counts)
            done += size
            values = {"sentences": float(found.counts["sentences"])}
            yield Progress("select sentences", done, max(total, done), "bytes", values)
    found.counts.update(counts)
    return found


def _refuse_empty_levels(found: _Selection, selector: _Selector, files: Sequence[Path]) -> None:
    """Refuse a selection in which a level has no sentence."""
    empty = next((name for name, level in found.levels.items() if not level.sentences), None)
    if empty is None:
        return
    counts = found.counts
    read = f"{counts['sentences']} sentences in {len(files)} files, {counts['dropped_leaks']} of them dropped as leaks"
    if selector.names is None or empty == "domain":
        raise CrossNERError(f"The corpus level {empty!r} is empty: {read}.", hint="Give --corpus files that hold text.")
    read += f", {counts['sentences_without_names']} without any of the {selector.names.counts['names']} listed names"
    if empty == "entity":
        hint = f"Lower --min-entities (now {selector.min_entities}), or give an --entities list of this domain."
    else:
        hint = f"Choose other --specialised-types (now {','.join(sorted(selector.specialised_types))})."
    raise CrossNERError(
        f"The corpus level {empty!r} is empty: {read}.",
        hint=f"{hint} Types in the list: {selector.names.list_types()}.",
    )


def _append(path: Path, parts: Iterable[Path]) -> None:
    """Write files one after the other into another."""
    with path.open("wb") as stream:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, stream)
