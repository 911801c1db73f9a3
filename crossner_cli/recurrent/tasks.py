"""The tasks of methods that learn several of a target and a source, and the settings of such a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crossner_cli.data.tags import TagSet
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import input_setting, rate, setting
from crossner_cli.recurrent.word_reader import WordInputs

TASKS = ("target-ner", "source-ner", "target-lm", "source-lm")
TARGET, SOURCE = 0, 1  # numbers of the domains
ROLES = ("target", "source")  # their names


def read_tasks(text: str) -> tuple[str, ...]:
    """Read comma-separated tasks, in the order of ``TASKS``; refuse one that does not exist or is named twice."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in TASKS or names.count(name) > 1:
            problem = "is named twice" if name in TASKS else "is not a task"
            raise CrossNERError(
                f"tasks={text}: {name!r} {problem}.", hint=f"Tasks: {', '.join(TASKS)}, with commas between."
            )
    return tuple(task for task in TASKS if task in names)


def roles_of(tasks: Sequence[str], kind: str = "") -> list[str]:
    """Return the role of each task of a kind, ``ner`` or ``lm``: ``target`` or ``source``."""
    return [task.partition("-")[0] for task in tasks if task.endswith(kind)]


def find_taught_types(tag_set: TagSet, tasks: Sequence[str]) -> tuple[str, ...]:
    """Return the types whose labels these tasks learn."""
    domains = list(tag_set.domains.values())
    if len(domains) == 1:
        return tag_set.types
    learnt = roles_of(tasks, "ner")
    taught = {kind for number, types in enumerate(domains) if ROLES[min(number, SOURCE)] in learnt for kind in types}
    return tuple(kind for kind in tag_set.types if kind in taught)


@dataclass(frozen=True)
class MultiTaskInputs(WordInputs):
    """Settings of words and tasks, and of a BiLSTM with a CRF."""

    input_dropout: float = rate(0.5, "Share of the values of a word's vector dropped.")
    tasks: str = setting(
        "target-ner,source-ner", "Tasks to learn, of target-ner, source-ner, target-lm and source-lm.", of_stage=True
    )
    lstm_size: int = setting(100, "Units of one direction of the BiLSTM.", minimum=1)
    dropout: float = rate(0.5, "Share of the BiLSTM's outputs dropped.")
    crf: Literal["auto", "shared", "domain"] = setting(
        "auto",
        "domain: a linear map and a CRF for each domain; shared: one for all; auto: shared where all domains have the"
        " same types or tags are learnt in one domain only.",
    )
    source_weight: float = setting(1.0, "Weight of the loss of the source's tags.", minimum=0)
    target_weight: float = setting(1.0, "Weight of the loss of the target's tags.", minimum=0)
    legal: bool = setting(True, "Give only tag sequences that the scheme allows.")

    dictionary: str = input_setting(
        "", "Names that label words of the target's raw text: a file with lines name<TAB>type."
    )
    dictionary_phrases: bool = input_setting(False, "Let names of several words label raw text too.")
    raw_batch_size: int = input_setting(32, "Sentences of raw text per update.", minimum=1)
    raw_minimum: int = input_setting(5, "Occurrences in raw text that make a word known to language models.", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.learns("ner"):
            raise CrossNERError(
                f"tasks={self.tasks}: no tags are learnt.", hint="Name target-ner, source-ner or both of them, too."
            )

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks, in the order of ``TASKS``."""
        return read_tasks(self.tasks)

    @property
    def streams(self) -> tuple[str, ...]:
        """The tasks of which an update reads a batch each."""
        return self.task_names

    @property
    def learns_from_dictionary(self) -> bool:
        """True if labels that a dictionary gives to words of raw text are learnt."""
        return False

    def dictionary_types(self, tag_set: TagSet) -> Sequence[str]:
        """Return the types of the target, the first domain, that a dictionary can teach."""
        return next(iter(tag_set.domains.values()))

    def learns(self, kind: str) -> int:
        """Count the domains in which ``ner`` or ``lm`` is a task."""
        return len(roles_of(self.task_names, kind))

    def check_words(self) -> None:
        """Refuse language models without words."""
        if self.words == "none" and self.learns("lm"):
            raise CrossNERError(
                f"words=none, tasks={self.tasks}: without words there is nothing to predict.",
                hint="Set words=trained, or tasks=target-ner,source-ner.",
            )

    def shares_crf(self, tag_set: TagSet) -> bool:
        """True if one CRF serves all domains."""
        if self.crf == "auto":
            types = [frozenset(types) for types in tag_set.domains.values()]
            return self.learns("ner") == 1 or (len(types) > 1 and len(set(types)) == 1)
        return self.crf == "shared"
