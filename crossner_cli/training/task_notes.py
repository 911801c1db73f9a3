"""What a person may not expect of the tasks that a stage trains: a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossner_cli.data.tags import TagSet
from crossner_cli.methods.contract import find_method, read_settings
from crossner_cli.methods.multi_task import ROLES, MultiTaskTagger
from crossner_cli.options import Optimisation
from crossner_cli.training.streams import paces_of, times_read


def notes_on_tasks(options: Optimisation, tasks: Sequence[str], tag_set: TagSet) -> list[str]:
    """What a person may not expect of the tasks that a stage trains.

    Language models that are told what they are to predict; CRFs, types, or generated parameters that no task teaches;
    labels of the target that choose where none are learnt.
    """
    method = find_method(options.method)
    settings = read_settings(method, options.settings)
    if not issubclass(method, MultiTaskTagger):
        return []
    notes = _notes_on_language_models(tasks, settings) + _notes_on_choosing(options, tasks) + _notes_on_cells(settings)
    if len(tag_set.domains) < len(ROLES):
        return notes
    notes += _notes_on_generated_parameters(tasks, settings)
    if settings.shares_crf(tag_set):
        return notes + _untaught_types(options, tasks, tag_set, settings)
    target, source = (f"{role}-ner" in tasks for role in ROLES)
    return notes + [
        f"no task of this stage learns tags of the {role}, which has a CRF of its own: "
        + (
            "that of the source tags it" if source and not target else
            f"it stays as it starts, and tags given to the {role} mean nothing yet"
        ) + " (--set crf=shared lets one serve both domains)"
        for role in ROLES if f"{role}-ner" not in tasks
    ] + _untaught_types(options, tasks, tag_set, settings)  # fmt: skip


def _notes_on_language_models(tasks: Sequence[str], settings: Any) -> list[str]:
    """Tell of language models over states that were made with the next word in view."""
    seen = [name for name in ("transformer", "strings") if getattr(settings, name) != "none"]
    if not seen or not any(task.endswith("-lm") for task in tasks) or not hasattr(settings, "lm_weight"):
        return []
    return [
        f"language models read the {' and the '.join(seen)} of words, which read the whole sentence, also the word that"
        f" is to be predicted: they teach less than without ({', '.join(f'{name}=none' for name in seen)})"
    ]


def _notes_on_choosing(options: Optimisation, tasks: Sequence[str]) -> list[str]:
    """Tell of an epoch chosen by labels of a target of which no label is learnt."""
    if "target-ner" in tasks or options.select_on != "target" or options.keep == "last":
        return []
    return [
        "no task of this stage learns labels of the target, but those of its dev sentences choose the epoch and"
        " calibrate the scores: --select-on source does without them, as the papers' unsupervised tables do"
    ]


def _notes_on_generated_parameters(tasks: Sequence[str], settings: Any) -> list[str]:
    """Tell of a BiLSTM of the target that is composed of what other tasks teach, of vectors that begin apart."""
    if not {"source-ner", "target-lm"} <= set(tasks) or "target-ner" in tasks:
        return []
    vectors = getattr(settings, "domain_vectors", None)
    if vectors == "alike" or getattr(settings, "generator", "none") not in ("full", "domain"):
        return []
    way_out = (
        "--set domain_vectors=alike begins them alike, which gave better tags where it was measured" if vectors
        else "--set generator=none has one BiLSTM for both; cross-domain-lm has domain_vectors=alike"
    )  # fmt: skip
    return [
        "no label of the target trains the BiLSTM that tags it: what the source's labels teach reaches it as far as the"
        f" vectors of both domains point the same way, and they begin apart ({way_out})"
    ]


def _notes_on_cells(settings: Any) -> list[str]:
    """Tell of cells that begin alike, which nothing moves apart."""
    if getattr(settings, "cells", "apart") == "apart" or settings.entity_weight or settings.attention_weight:
        return []
    return [
        "cells that begin alike stay so where no loss tells their types: those of types that the same domains have are"
        " one cell several times (--set entity_weight=1 or attention_weight=1 moves them apart, cells=apart begins so)"
    ]


def _untaught_types(options: Optimisation, tasks: Sequence[str], tag_set: TagSet, settings: Any) -> list[str]:
    """Tell of the target's types where only the source's are learnt, and the source lacks them."""
    target, *others = tag_set.domains.values()
    taught = {entity_type for types in others for entity_type in types}
    untaught = [entity_type for entity_type in target if entity_type not in taught]
    if not untaught or "target-ner" in tasks:
        return []
    cells = ", they have no cells" if hasattr(settings, "cells") else ""
    if cells and options.dictionary:
        cells += ", and names of a dictionary teach nothing of them"
    return [
        f"no task of this stage learns the target's types {', '.join(untaught)}, which the source lacks: tags of them"
        f" mean nothing yet{cells} (prepare-data --map-types calls types of the source as the target does)"
    ]


def note_on_pace(counts: Mapping[str, int], tasks: Sequence[str], options: Optimisation) -> list[str]:
    """Tell how often the target's sentences are read where that is not as often as ``--upsample`` says."""
    target = paces_of(counts, tasks, options).get("target") if tasks else None
    if target is None or max(counts.values()) <= counts["target"]:
        return []
    asked = times_read(options, "target")
    if abs(target.readings - asked) <= asked / 4:
        return []
    reason = "at least one and at most as many of them as of the source's"
    if target.readings < asked:
        reason += ", --set target_weight= weighs them more"
    return [
        f"an epoch reads each labelled sentence of the target {target.readings:.1f} times, not {asked} (--upsample): an"
        f" update reads {reason}"
    ]
