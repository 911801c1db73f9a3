"""The data sets of ``prepare-data``: found, read, and made into source, target and silver."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from crossner_cli import figures
from crossner_cli.data.domains import Domain, find_domains, hides_folder
from crossner_cli.data.labelled import LabelledDomain, read_domain
from crossner_cli.data.sentences import SPLITS, Sentence
from crossner_cli.data.splits import (
    join,
    leave_out,
    leave_out_leaks,
    limit_train,
    list_sets,
    parse_limit,
    split_weight,
    take_dev,
)
from crossner_cli.data.statistics import count_split
from crossner_cli.data.types import AUTO, rename_types
from crossner_cli.errors import CrossNERError
from crossner_cli.options_data import PrepareData
from crossner_cli.run.progress import Notice, Progress, Work

COPY_OF_GOLD = "silver sentence that is in the target's train left out"
Labelled = dict[str, LabelledDomain]


def find_sets(options: PrepareData) -> dict[str, Domain]:
    """Find sources, target and silver by their part in the run, with distinct names unless they are the same data."""
    sets = {part: find_domains(names) for part, names in list_sets(options.record()).items()}
    taken: dict[str, Domain] = {}
    # The target keeps its name: taggers and scores of other runs, without these sources, have it too.
    for part in sorted(sets, key=lambda part: part != "target"):
        domain, other = sets[part], taken.get(sets[part].name)
        if other is not None and part.startswith("source-") and other.files == domain.files:
            hint = f"Once is enough; --source {domain.name}=2 doubles it."
            raise CrossNERError(f"--source {domain.name} occurs twice.", hint=hint)
        renames = options.map_types not in (None, AUTO)
        if other is not None and (other.files != domain.files or renames or part != "source"):
            sets[part] = dataclasses.replace(domain, name=f"{domain.name}-{part}")
        taken[sets[part].name] = domain
    return sets


def notes_on_sets(sets: Mapping[str, Domain], names: Mapping[str, list[str]]) -> Iterator[str]:
    """Say which data set a name stands for, which data sets were fetched, and which files are read together or not."""
    for name in [name for several in names.values() for name in several]:
        if hides_folder(name):
            yield f"{name!r} is the known data set; for the folder {name}, give ./{name}."
    for role, domain in sets.items():
        fetched = {origin.rpartition("/")[0]: None for origin in domain.origins.values() if "/" in origin}
        if fetched:
            yield f"Fetched the {role} {domain.name!r} from {', '.join(fetched)}."
        parts = {f"{split} read as one from": paths for split, paths in domain.files.items() if len(paths) > 1}
        for what, paths in (parts | ({"not read of the folder:": domain.left} if domain.left else {})).items():
            listed = figures.join_first([path.name for path in paths])
            yield f"{role} {domain.name}: {what} {len(paths)} files ({listed})."


def read_sets(found: Mapping[str, Domain], options: PrepareData) -> Work[dict[str, LabelledDomain]]:
    """Read all data sets, by their part in the run."""
    sets: dict[str, LabelledDomain] = {}
    for part, domain in found.items():
        task = f"read the {part} {domain.name}"
        yield Progress(task, 0, None, "sentences")
        sets[part] = read_domain(
            domain.files,
            name=domain.name,
            scheme=options.scheme,
            labels_format=options.labels_format,
            columns=options.columns,
            skips_bad_lines=options.skip_bad_lines,
        )
        yield from map(Notice, sets[part].repairs.notes)
        count = sum(map(len, sets[part].splits.values()))
        yield Progress(task, count, count, "sentences")
    return sets


def make_domains(
    sets: Mapping[str, LabelledDomain],
    found: Mapping[str, Domain],
    maps: Mapping[str, Mapping[str, str]],
    options: PrepareData,
) -> tuple[Labelled, dict[str, Any], bool]:
    """Rename types, leave out leaks, join the sources, and choose the sentences of each domain.

    Returns:
        The domains by role, the counts of each source by its name, and whether every domain had dev sentences.
    """
    names = {part: found[part].name for part in sets}
    given = {part: rename_types(each, new) if (new := maps.get(names[part])) else each for part, each in sets.items()}
    kept = {}
    for part, labels in given.items():
        others = [other for each, other in given.items() if found[each].files != found[part].files]
        kept[part] = leave_out_leaks(labels, others)
    sources = {names[part]: kept[part] for part in kept if part.startswith("source")}
    labelled: Labelled = {}
    if sources:
        weights = [split_weight(name)[1] for name in options.source]
        labelled["source"] = join(list(sources.values()), weights, "+".join(sources))
    if "target" in kept:
        labelled["target"] = kept["target"]
        # With a source, it may be scored only; but a file that was not read may be meant as train.
        if not labelled["target"].splits.get("train") and (not sources or found["target"].left):
            hint = "Add a file train.jsonl or the like, a folder train, or give the file itself as --target."
            raise CrossNERError(f"The target {names['target']!r} has no training sentences.", hint=hint)
    had_dev = all("dev" in each.splits for each in labelled.values())
    labelled = {
        role: dataclasses.replace(each, splits=_choose_sentences(each.splits, role, options))
        for role, each in labelled.items()
    }
    if "silver" in kept:
        labelled["silver"] = _make_silver(kept["silver"], labelled.get("target"), names)
    of_sources = {
        name: {split: count_split(each) for split, each in labels.splits.items()} for name, labels in sources.items()
    }
    return labelled, of_sources, had_dev


def _make_silver(silver: LabelledDomain, target: LabelledDomain | None, names: Mapping[str, str]) -> LabelledDomain:
    """Select the training sentences that a teacher labelled, without those that are in the target's train."""
    if target is None:
        raise CrossNERError("--silver needs a target with its types.", hint="Add --target DATASET.")
    unknown = [name for name in silver.types if name not in target.types]
    if unknown:
        raise CrossNERError(
            f"--silver {names['silver']}: the target has no type {', '.join(unknown)}.",
            hint=f"--map-types {names['silver']}:{unknown[0]}=O drops it, =NAME renames it.",
        )
    kept = leave_out(silver.splits.get("train", []), target.splits.get("train", []), COPY_OF_GOLD, silver.repairs)
    return dataclasses.replace(silver, splits={"train": kept})


def _choose_sentences(splits: dict[str, list[Sentence]], role: str, options: PrepareData) -> dict[str, list[Sentence]]:
    """Apply ``--dev-from-train`` and, for the target, ``--train-limit``."""
    chosen = dict(splits)
    if options.dev_from_train and "train" in splits and "dev" not in splits:
        chosen["train"], chosen["dev"] = take_dev(splits["train"], options.dev_from_train)
    if options.train_limit and role == "target" and "train" in chosen:
        chosen["train"] = limit_train(chosen["train"], *parse_limit(options.train_limit))
    return {split: chosen[split] for split in SPLITS if split in chosen}
