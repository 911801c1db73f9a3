"""Tasks of a stage, and the raw text and the dictionary that they read beside labelled sentences."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossner_cli.data.files import check_file
from crossner_cli.data.names import read_names
from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent.known_words import RAW_MINIMUM
from crossner_cli.recurrent.language_model import END
from crossner_cli.recurrent.raw_text import LONGEST, Dictionary, RawFile, RawSentences, RawText
from crossner_cli.recurrent.tasks import ROLES, MultiTaskInputs, roles_of


def find_tasks(settings: MultiTaskInputs, command: str, roles: Sequence[str]) -> list[str]:
    """Return the tasks of which a stage reads a batch each: those of the domains it reads."""
    tasks = settings.streams
    kept = [task for task in tasks if task.partition("-")[0] in roles]
    if not roles_of(kept, "ner"):
        raise CrossNERError(
            f"{command} reads the {' and '.join(roles)}; the tasks {','.join(tasks)} read no labelled sentences of it.",
            hint=f"--set tasks={roles[0]}-ner, or another command (joint-train reads both domains).",
        )
    return kept


def narrow_tasks(settings: MultiTaskInputs, command: str, roles: Sequence[str]) -> tuple[MultiTaskInputs, list[str]]:
    """Limit the tasks of a method's settings to the domains that a stage reads: they record what its tagger learnt.

    Returns:
        The settings, and a note where tasks are left out.

    Raises:
        CrossNERError: Other settings make no sense without them.
    """
    named = settings.task_names
    kept = [task for task in named if task.partition("-")[0] in roles]
    if len(kept) == len(named):
        return settings, []
    left = ", ".join(task for task in named if task not in kept)
    note = f"trains {', '.join(kept)}; not {left}, as {command} does not read that domain"
    try:
        return dataclasses.replace(settings, tasks=",".join(kept)), [note]
    except CrossNERError as error:
        raise CrossNERError(f"{command} {note}. {error.problem}", hint=f"Or joint-train: {error.hint}") from None


def read_dictionary(
    prepared: PreparedData, method: str, settings: MultiTaskInputs, tasks: Sequence[str]
) -> Dictionary | None:
    """Read the dictionary that labels raw text for tasks, as ``find_tasks`` gives them; None without one.

    Raises:
        CrossNERError: No task reads it, it is broken, or none of its names can label a word.
    """
    if not settings.dictionary:
        return None
    if "target-lm" not in tasks or not settings.learns_from_dictionary:
        raise CrossNERError(
            f"--set dictionary labels raw text of the target, and {method} does not learn from them as set.",
            hint="Leave it out; or train multi-cell-lstm, or cross-domain-lm with --set entity_weight=0.1, on tasks"
            " that include target-lm, which pretrain-source does not read.",
        )
    path = Path(settings.dictionary)
    check_file("--set dictionary", path, "Give a file of lines of the form name<TAB>type.")
    tag_set = prepared.tag_set(*(role for role in ROLES if role in roles_of(tasks)))
    dictionary = Dictionary(read_names([path]), settings.dictionary_types(tag_set), settings.dictionary_phrases)
    if not dictionary.labelling_names():
        raise CrossNERError(
            f"--set dictionary labels nothing: {dictionary.describe()}.",
            hint="Give names of one type, written as the target does (prepare-data --map-types calls types of the"
            " source so); --set dictionary_phrases=true reads names of several words.",
        )
    return dictionary


@dataclass(frozen=True)
class RawInputs:
    """The raw text that a stage reads.

    Args:
        texts: By role, source or target.
        fewest: Occurrences that make a word one that language models know.
    """

    texts: Mapping[str, RawText]
    domains: Mapping[str, str] = dataclasses.field(default_factory=dict)
    dictionary: Dictionary | None = None
    fewest: int = 1
    normalise: Callable[[str], str] = str

    def words(self) -> list[str]:
        """Return the words that language models know beside those of labelled sentences, the most frequent first."""
        counts = Counter[str]()
        for text in self.texts.values():
            for word, count in text.counts.items():
                counts[self.normalise(word)] += count
        return [word for word, count in counts.most_common() if count >= self.fewest]

    def count_predictions(self, reader: Any) -> Tensor:
        """Count how often a language model predicts each word number: as it occurs, END once a sentence, (V+1,)."""
        counts = torch.zeros(len(reader.vocabulary.words) + 1, dtype=torch.long)
        for text in self.texts.values():
            for word, count in text.counts.items():
                counts[reader.number(word)] += count
            counts[END] += len(text)
        return counts

    def describe(self) -> list[str]:
        """Describe each text in a line, and the dictionary."""
        notes = []
        for role, text in self.texts.items():
            where = "its training sentences" if isinstance(text, RawSentences) else text.path.name
            total = sum(text.counts.values())
            cut = f"; {text.shortened:,} cut after {LONGEST} words" if text.shortened else ""
            notes.append(f"raw text of the {role}: {len(text):,} sentences, {total:,} words, from {where}{cut}")
        return [*notes, self.dictionary.describe_in(self.texts["target"].counts)] if self.dictionary else notes


def check_raw(prepared: PreparedData, tasks: Sequence[str]) -> None:
    """Refuse tasks that read raw text of a domain that has none, and no labelled sentences to stand in for it."""
    for role in roles_of(tasks, "lm"):
        stands_in = f"{role}-ner" in tasks and prepared.domains[role].has("train")
        if not stands_in and prepared.raw_text(role) is None:
            corpus = "--corpus FILE --corpus-level domain" if role == "target" else "--source-corpus FILE"
            raise CrossNERError(
                f"The task {role}-lm reads raw text of the {role}, and the run has none.",
                hint=f"crossner prepare-data … {corpus} --force",
            )


def read_raw(
    prepared: PreparedData,
    settings: MultiTaskInputs,
    tasks: Sequence[str],
    labelled: Mapping[str, Sequence[Sentence]],
    dictionary: Dictionary | None,
) -> RawInputs | None:
    """Find and count the raw text of the tasks that read it; training sentences stand in where a domain has none."""
    texts: dict[str, RawText] = {}
    for role in roles_of(tasks, "lm"):
        path = prepared.raw_text(role)
        if path is None:
            texts[role] = RawSentences([sentence.words for sentence in labelled[role]])
        else:
            texts[role] = RawFile.read(path)
    if not texts:
        return None
    domains = {role: prepared.domains[role].name for role in texts}
    fewest = min(settings.raw_minimum, RAW_MINIMUM) if settings.words == "frozen" else settings.raw_minimum
    return RawInputs(texts, domains, dictionary, fewest, settings.normalise_word)


def count_words(tagger: Any, labelled: Mapping[str, Sequence[Sentence]], raw: RawInputs | None) -> None:
    """Give a tagger the number of predictions of each word, in raw text and in labelled sentences that replace it."""
    hyper: Any = tagger.hyper
    texts: dict[str, RawText] = {
        role: RawSentences([sentence.words for sentence in sentences])
        for role, sentences in labelled.items()
        if f"{role}-lm" in hyper.task_names and getattr(hyper, "lm_text", "raw") != "raw"
    }
    counted = RawInputs({**texts, **(raw.texts if raw else {})})
    tagger.set_word_counts(counted.count_predictions(tagger.encoder.reader))
