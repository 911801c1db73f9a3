"""What a training command is given and does not read: said, so that nobody waits for an effect that cannot come."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from crossner_cli.encoders.word_reader import WordInputs
from crossner_cli.methods.contract import find_method, read_settings, split_setting
from crossner_cli.options import JointTrain, Optimisation
from crossner_cli.taggers.known_words import RAW_MINIMUM
from crossner_cli.taggers.starts import Start


def unread_options(options: Optimisation, tasks: Sequence[str], start: Start, sentences: dict[str, int]) -> list[str]:
    """Options and settings that were given and change nothing, a line each, with the reason.

    Args:
        options: Of the stage.
        tasks: What an update reads a batch of each; none where all labelled sentences are mixed.
        start: Where the weights come from.
        sentences: Number of labelled sentences of each role that is trained on.
    """
    inputs = read_settings(find_method(options.method), options.settings)
    told = [*_unread_flags(options, tasks, inputs, start, sentences), *_unread_settings(options, inputs, start)]
    return [f"{given} is not read: {reason}." for given, reason in told]


def _unread_flags(
    options: Optimisation, tasks: Sequence[str], inputs: Any, start: Start, sentences: dict[str, int]
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    uses = inputs.transformer if isinstance(inputs, WordInputs) else "trained"
    if uses != "trained":
        reason = f"no transformer is trained (transformer={uses})"
        if options.learning_rate is not None:
            found.append((f"--learning-rate {options.learning_rate}", f"{reason}; all else learns at "
                          "--head-learning-rate"))  # fmt: skip
        if options.train_embeddings:
            found.append(("--train-embeddings", reason))
        if options.attention_dropout:
            found.append(("--attention-dropout", reason))
    if uses == "none" and (flag := _given(options, "encoder")):
        way_out = "--set transformer=frozen lets it read along"
        if not start.has_transformer:
            way_out = f"the start {start.name!r} has none that could read along"
        found.append((flag, f"transformer=none ({way_out})"))
    if not any(task.endswith("-lm") for task in tasks):
        for name in ("raw_batch_size", "raw_minimum"):
            if flag := _given(options, name):
                found.append((flag, f"{options.method} as set reads no raw text here"))
    elif getattr(inputs, "words", "") == "frozen" and options.raw_minimum > RAW_MINIMUM:
        known = f"with words=frozen a word of raw text that has a vector is known from {RAW_MINIMUM} occurrences on"
        found += [(flag, known)] if (flag := _given(options, "raw_minimum")) else []
    if tasks and isinstance(options, JointTrain) and (flag := _given(options, "upsample")):
        if "target-ner" not in tasks:
            found.append((flag, f"tasks={','.join(tasks)} learns no labels of the target"))
        elif sentences["target"] >= max(sentences.values()):
            found.append((flag, "no labelled sentences of the source outnumber the target's"))
    if options.patience is not None and options.patience >= options.epochs and (flag := _given(options, "patience")):
        found.append((flag, f"--epochs {options.epochs} are over before"))
    if options.seeds is not None and options.embeddings != "corpus" and (flag := _given(options, "seed")):
        found.append((flag, f"--seeds {options.seeds} is"))
    return found


def _given(options: Optimisation, name: str) -> str | None:
    """An option as it is written on a command line; None where it has its default, or what ``--paper`` makes of it."""
    fields = {field.name: field for field in dataclasses.fields(options)}
    own = find_method(options.method).published_options(of_source=options.of_source)
    of_paper = own.get(name, fields[name].metadata["paper"])
    return None if options.paper and getattr(options, name) == of_paper else options.given(name)


def _unread_settings(options: Optimisation, inputs: Any, start: Start) -> list[tuple[str, str]]:
    reasons = find_method(options.method).unread_settings(inputs)
    if isinstance(inputs, WordInputs):
        reasons |= inputs.unread_settings()
        if options.embeddings not in (None, "corpus"):
            reasons["word_size"] = "vectors are as wide as those of --embeddings"
        elif options.embeddings is None and start.folder is not None and start.has_vectors:
            reasons["word_size"] = "vectors are as wide as those of the start"
        if options.ngram_embeddings is not None:
            reasons["character_size"] = "vectors are as wide as those of --ngram-embeddings"
        elif inputs.characters == "ngrams" and "character_size" in start.vector_sizes(inputs):
            reasons["character_size"] = "vectors are as wide as those of the start"
    given = [split_setting(setting) for setting in options.settings]
    last, method = dict(given), find_method(options.method)
    of_paper = method.published(last, of_source=options.of_source) if options.paper else {}
    found = [
        (f"--set {key}={value}", reasons[key])
        for key, value in last.items()
        if key in reasons and value != str(of_paper.get(key))
    ]
    for place, (key, value) in enumerate(given):
        if any(key == later for later, _ in given[place + 1 :]) and value != last[key]:
            found.append((f"--set {key}={value}", f"--set {key}={last[key]} stands behind it"))
    return found
