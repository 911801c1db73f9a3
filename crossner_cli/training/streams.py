"""What an update of a method with several tasks reads: a batch of each domain's labelled sentences and raw text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossner_cli.data.files import check_file
from crossner_cli.data.names import Name, Names, read_names
from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.encoders.raw_text import LONGEST, RawFile, RawSentences, RawStream, RawText, frequent_words
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.language_model import END
from crossner_cli.methods.contract import Tagger, find_method, read_settings, split_setting
from crossner_cli.methods.multi_task import ROLES, MultiTaskInputs
from crossner_cli.options import JointTrain, Optimisation
from crossner_cli.taggers.known_words import RAW_MINIMUM
from crossner_cli.training.loop import SentenceStream, Stream


@dataclass(frozen=True)
class RawInputs:
    """The raw text that a stage reads.

    Args:
        texts: By role, source or target.
        domains: Name of each role's domain.
        names: The dictionary that labels target text; None without one.
        named: What there is to tell of it; empty without one.
        fewest: Occurrences that make a word one that language models know.
        normalise: How a word's vector is looked up.
    """

    texts: Mapping[str, RawText]
    domains: Mapping[str, str]
    names: Names | None
    fewest: int
    named: str = ""
    normalise: Callable[[str], str] = str

    def words(self) -> list[str]:
        """Words that language models know beside those of labelled sentences, as ``normalise`` gives them."""
        return frequent_words(self.texts, self.fewest, self.normalise)

    def count(self, reader: Any) -> Tensor:
        """How often each word number of a reader occurs, (V+1,)."""
        counts = torch.zeros(len(reader.vocabulary.words) + 1, dtype=torch.long)
        for text in self.texts.values():
            for word, count in text.counts.items():
                counts[reader.number(word)] += count
        return counts

    def predicted(self, counts: Tensor) -> Tensor:
        """How often a language model is to predict each word number: as often as it occurs, END once a sentence."""
        ends = torch.zeros_like(counts)
        ends[END] = sum(len(text) for text in self.texts.values())
        return counts + ends

    def reread(self, sentences: Mapping[str, Sequence[Sentence]], options: Optimisation) -> list[RawText]:
        """The files of which a training beside these labelled sentences, by role, reads each line twice or more."""
        updates = options.epochs * updates_an_epoch(map(len, sentences.values()), options)
        read = options.raw_batch_size * min(updates, options.max_steps or updates)
        return [text for text in self.texts.values() if isinstance(text, RawFile) and read >= 2 * len(text)]

    def describe(self) -> list[str]:
        """One line for each text."""
        notes = []
        for role, text in self.texts.items():
            where = "its training sentences" if isinstance(text, RawSentences) else text.path.name
            total = sum(text.counts.values())
            cut = f"; {text.shortened:,} cut behind {LONGEST} words" if text.shortened else ""
            notes.append(f"raw text of the {role}: {len(text):,} sentences, {total:,} words, from {where}{cut}")
        return [*notes, self.named] if self.named else notes


def tasks_of(options: Optimisation, command: str, roles: Sequence[str]) -> list[str]:
    """The tasks of the method that a stage can train: those of the domains it reads. None for methods of one stream.

    Raises:
        CrossNERError: None of them reads labelled sentences.
    """
    method = find_method(options.method)
    inputs = read_settings(method, options.settings)
    tasks = inputs.streams if isinstance(inputs, MultiTaskInputs) else ()
    kept = [task for task in tasks if task.partition("-")[0] in roles]
    if tasks and not any(task.endswith("-ner") for task in kept):
        raise CrossNERError(
            f"{command} reads the {' and '.join(roles)}; the tasks {','.join(tasks)} read no labelled sentences of it.",
            hint=f"--set tasks={roles[0]}-ner, or another command (joint-train reads both domains).",
        )
    return kept


def with_tasks(options: Optimisation, command: str, roles: Sequence[str]) -> tuple[Optimisation, str | None]:
    """Options whose ``tasks`` are those of the domains that a stage reads, so that its tagger tells what it learnt.

    Returns:
        The options, and what to tell of tasks that are left out; None where there are none.

    Raises:
        CrossNERError: Other settings make no sense without them.
    """
    method = find_method(options.method)
    inputs = read_settings(method, options.settings)
    named = inputs.task_names if isinstance(inputs, MultiTaskInputs) else ()
    kept = [task for task in named if task.partition("-")[0] in roles]
    if len(kept) == len(named):
        return options, None
    left = ", ".join(task for task in named if task not in kept)
    told = f"trains {', '.join(kept)}; not {left}, as {command} does not read that domain"
    settings = [setting for setting in options.settings if split_setting(setting)[0] != "tasks"]
    options = dataclasses.replace(options, settings=[*settings, f"tasks={','.join(kept)}"])
    try:
        read_settings(method, options.settings)
    except CrossNERError as error:
        raise CrossNERError(f"{command} {told}. {error.problem}", hint=f"Or joint-train: {error.hint}") from None
    return options, told


def check_dictionary(options: Optimisation, tasks: Sequence[str]) -> None:
    """Refuse a dictionary that nobody would read or that is not there.

    Raises:
        CrossNERError: As above.
    """
    method = find_method(options.method)
    inputs = read_settings(method, options.settings)
    learns = isinstance(inputs, MultiTaskInputs) and inputs.learns_from_dictionary
    if options.dictionary and not (learns and "target-lm" in tasks):
        lacking = [] if "target-lm" in tasks else [f"--set tasks={','.join([*tasks, 'target-lm'])}"]
        lacking += [] if learns else ["--set entity_weight=0.1"]
        way_out = f"add {' '.join(lacking)}"
        if options.of_source:
            way_out = "train with joint-train, which reads text of the target"
        elif not hasattr(inputs, "entity_weight"):
            way_out = "choose --method multi-cell-lstm, or cross-domain-lm with --set entity_weight=0.1"
        raise CrossNERError(
            f"--dictionary labels raw text of the target, and {options.method} as set learns from no such labels.",
            hint=f"Leave it out, or {way_out}.",
        )
    if options.dictionary_phrases and not options.dictionary:
        raise CrossNERError(
            "--dictionary-phrases tells how names are read, and there are none.", hint="Give --dictionary FILE, too."
        )
    for path in options.dictionary:
        check_file("--dictionary", path, "Give a file of lines of the form name<TAB>type.")


def check_raw(prepared: PreparedData, tasks: Sequence[str]) -> None:
    """Refuse tasks that read raw text of a domain that has none, and no labelled sentences to stand in for it.

    Raises:
        CrossNERError: A domain has neither.
    """
    for role in [task.partition("-")[0] for task in tasks if task.endswith("-lm")]:
        stands_in = f"{role}-ner" in tasks and prepared.domains[role].has("train")
        if not stands_in and prepared.raw_text(role) is None:
            raise CrossNERError(
                f"The task {role}-lm reads raw text of the {role}, and the run has none.",
                hint="crossner prepare-data … "
                + ("--corpus FILE --corpus-level domain" if role == "target" else "--source-corpus FILE")
                + " --force",
            )  # fmt: skip


def read_raw(
    prepared: PreparedData, options: Optimisation, tasks: Sequence[str], sentences: Mapping[str, Sequence[Sentence]],
    names: Names | None,
) -> RawInputs | None:  # fmt: skip
    """Find and count the raw text of the tasks that read it; training sentences stand in where a domain has none.

    Raises:
        CrossNERError: No name of the dictionary, as ``read_dictionary`` gives it, is in the target's raw text.
    """
    texts: dict[str, RawText] = {}
    for role in [task.partition("-")[0] for task in tasks if task.endswith("-lm")]:
        path = prepared.raw_text(role)
        texts[role] = (
            RawSentences([sentence.words for sentence in sentences[role]]) if path is None else RawFile.read(path)
        )
    if not texts:
        return None
    domains, named = {role: prepared.domains[role].name for role in texts}, ""
    if names is not None:
        types, untaught = types_of_dictionary(prepared, options, tasks)
        named = describe_met(names, types, options.dictionary_phrases, texts["target"].counts, untaught)
    inputs = read_settings(find_method(options.method), options.settings)
    frozen = inputs.words == "frozen"
    fewest = min(options.raw_minimum, RAW_MINIMUM) if frozen else options.raw_minimum
    return RawInputs(texts, domains, names, fewest, named, inputs.normalise_word)


def types_of_dictionary(
    prepared: PreparedData, options: Optimisation, tasks: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The target's types that a dictionary teaches these tasks, and those of which it teaches them nothing."""
    method = find_method(options.method)
    tag_set = prepared.tag_set(*(role for role in ROLES if any(task.startswith(f"{role}-") for task in tasks)))
    types = prepared.domains["target"].types
    taught = read_settings(method, options.settings).dictionary_types(tag_set)
    return taught, [each for each in types if each not in taught]


def read_dictionary(options: Optimisation, types: Sequence[str], untaught: Sequence[str] = ()) -> Names:
    """The dictionary of a target, given its types, as ``types_of_dictionary`` does.

    Raises:
        CrossNERError: It is broken, or none of its names can label a word.
    """
    names = read_names(options.dictionary)
    if not labelling_names(names, types, options.dictionary_phrases):
        way_out = f"Give each name one type, written as the target does: {', '.join(types)}."
        if not types:
            way_out = f"prepare-data --map-types calls types of the source as the target does: {', '.join(untaught)}."
        if usable_names(names, types):
            way_out = "--dictionary-phrases reads names of several words, as predict finds words."
        raise CrossNERError(
            f"--dictionary labels nothing. {describe_names(names, types, options.dictionary_phrases, untaught)}.",
            hint=way_out,
        )
    return names


def describe_met(
    names: Names, types: Sequence[str], phrases: bool, counts: Mapping[str, int], untaught: Sequence[str] = ()
) -> str:
    """What there is to tell of a dictionary.

    Args:
        names: Its names.
        types: Those of the target that it teaches.
        phrases: Whether names of several words label, too.
        counts: How often each word of the target's raw text occurs in it.
        untaught: The other types of the target.

    Raises:
        CrossNERError: None of the names is in the raw text.
    """
    described, labelling = describe_names(names, types, phrases, untaught), labelling_names(names, types, phrases)
    met = sum(all(word in counts for word in name) for name in labelling)
    if not met:
        raise CrossNERError(
            f"--dictionary labels nothing: none of its {len(labelling):,} names of the target's types is in the raw "
            f"text of the target, as {' '.join(labelling[0])!r}. {described}.",
            hint="Write names as the text does, in the same case; or prepare the data with --corpus FILE that has "
            "them.",
        )
    return f"{described}; the words of {met:,} are in it"


def labelling_names(names: Names, types: Sequence[str], phrases: bool) -> list[Name]:
    """The usable names that label words: those of one word, or all."""
    return [name for name in usable_names(names, types) if phrases or len(name) == 1]


def usable_names(names: Names, types: Sequence[str]) -> list[Name]:
    """The names of one type, which is one of these."""
    return [name for name, of_name in names.types.items() if len(of_name) == 1 and of_name[0] in types]


def describe_names(names: Names, types: Sequence[str], phrases: bool, untaught: Sequence[str] = ()) -> str:
    """How many names of a dictionary can label a word, and why others cannot."""
    several = [name for name, of_name in names.types.items() if len(of_name) > 1]
    idle, usable = usable_names(names, untaught), usable_names(names, types)
    foreign = len(names.types) - len(several) - len(idle) - len(usable)
    left = 0 if phrases else sum(len(name) > 1 for name in usable)
    reasons = (
        (len(several), "have several types"), (foreign, "have a type that the target lacks"),
        (len(idle), f"have a type of which no task learns labels ({', '.join(untaught)})"),
        (left, "are of several words (--dictionary-phrases reads them)"),
    )  # fmt: skip
    told = "".join(f"; {count:,} {reason}" for count, reason in reasons if count)
    return f"dictionary: {len(usable) - left:,} of {len(names.types):,} names can label words of raw text{told}"


def domain_streams(
    tagger: Tagger, tasks: Sequence[str], sentences: Mapping[str, Sequence[Sentence]], raw: RawInputs | None,
    options: Optimisation, seed: int,
) -> list[Stream]:  # fmt: skip
    """One stream a task.

    The largest set of labelled sentences decides how many updates an epoch has. The smaller is spread over them, its
    sentences counted ``upsample`` times where that is the target's, as far as batches of the same size hold them, and
    begins again where it ends. Raw text is read in batches of its own size.

    Args:
        tagger: What reads.
        tasks: As ``tasks_of`` gives them.
        sentences: Labelled ones, by role.
        raw: Raw text, by role.
        options: Batch sizes.
        seed: Of the order.
    """
    reader, tag_set = tagger.encoder.reader, tagger.tag_set
    streams: list[Stream] = []
    for role, pace in paces_of({role: len(sentences[role]) for role in sentences}, tasks, options).items():
        encoded = reader.encode(sentences[role], tag_set)
        streams.append(SentenceStream(encoded, reader, pace.batch_size, seed, [pace.repeats] * len(encoded)))
    if raw is not None:
        streams += [
            RawStream(
                text, raw.domains[role], reader, options.raw_batch_size, seed, tag_set,
                raw.names if role == "target" else None, options.dictionary_phrases,
            )
            for role, text in raw.texts.items()
        ]  # fmt: skip
    return streams


@dataclass(frozen=True)
class Pace:
    """How fast the labelled sentences of a domain are read.

    Args:
        batch_size: Sentences of an update.
        repeats: Times that each is shuffled into what an epoch reads from.
        readings: Times that an epoch reads each, on average.
    """

    batch_size: int
    repeats: int
    readings: float


def paces_of(counts: Mapping[str, int], tasks: Sequence[str], options: Optimisation) -> dict[str, Pace]:
    """The pace of each domain whose labels are learnt, given its number of sentences; the largest comes first."""
    labelled = sorted((role for role in counts if f"{role}-ner" in tasks), key=lambda role: -counts[role])
    updates = updates_an_epoch([counts[labelled[0]]], options)
    found = {}
    for role in labelled:
        often = times_read(options, role) if role != labelled[0] else 1
        size = min(options.batch_size, math.ceil(often * counts[role] / updates))
        # Sentences shuffled in more often than an epoch reads them would be read by chance, some often, some never.
        repeats = max(1, min(often, math.floor(updates * size / max(1, counts[role]))))
        batches = math.ceil(repeats * counts[role] / size) if size else 1  # of sizes as even as can be
        found[role] = Pace(size, repeats, updates * repeats / max(1, batches))
    return found


def updates_an_epoch(counts: Iterable[int], options: Optimisation) -> int:
    """Updates after which the largest of the domains has been read, given how many labelled sentences each has."""
    return max(1, math.ceil(max(counts) / options.batch_size))


def times_read(options: Optimisation, role: str) -> int:
    """How often a labelled sentence counts in a pass: those of the target ``--upsample`` times, where there is that."""
    return options.upsample if isinstance(options, JointTrain) and role == "target" else 1


def dictionary_paths(options: Optimisation) -> dict[str, Path]:
    """The files of the dictionary, by the name under which a stage notes their digests."""
    return {f"dictionary/{number}": path for number, path in enumerate(options.dictionary)}
