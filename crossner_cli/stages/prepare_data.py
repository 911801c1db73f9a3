"""prepare-data: read the labelled sentences and raw text of a run, check, count and store them."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from crossner_cli.corpus.inputs import TRAIN, CorpusInputs, write_corpus
from crossner_cli.corpus.levels import WORK
from crossner_cli.corpus.raw_files import digest_corpus
from crossner_cli.corpus.selection import Execution, Selection
from crossner_cli.data.domains import Domain, find_bundled, find_raw_text
from crossner_cli.data.files import refuse_pipe
from crossner_cli.data.labelled import LabelledDomain
from crossner_cli.data.sentences import PLACES, read_sentences, write_sentences
from crossner_cli.data.splits import join_domains, list_sets, parse_limit
from crossner_cli.data.statistics import (
    alike_type_warnings,
    count_raw_words,
    count_words,
    data_warnings,
    domain_statistics,
    domain_warnings,
    listed_type_warnings,
    mapped_type_warnings,
    vocabulary_overlap,
)
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.data.types import find_type_maps
from crossner_cli.errors import CrossNERError
from crossner_cli.options_data import PrepareData
from crossner_cli.reports.blocks import to_markdown
from crossner_cli.reports.tables import prepared_tables
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.freshness import describe_changed, find_outdated
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import DomainResult, PrepareDataResult, SplitCounts
from crossner_cli.run.stage import DRAFT, open_stage
from crossner_cli.run.storage import digest_path, write_atomically, write_json
from crossner_cli.stages.data_sets import Labelled, find_sets, make_domains, notes_on_sets, read_sets
from crossner_cli.stages.rerun import command_again

COMMAND = "prepare-data"
# Lines of raw text that suffice to find the 5,000 most frequent words.
VOCABULARY_LINES = 1_000_000


@dataclass(frozen=True)
class Inputs:
    """The inputs of the stage: data sets by their part in the run, raw text of both domains, and lists of names."""

    sets: dict[str, Domain]
    corpus: list[Path]
    source_corpus: list[Path]
    entities: list[Path]

    @property
    def sources(self) -> list[Domain]:
        """All sources."""
        return [domain for part, domain in self.sets.items() if part.startswith("source")]

    @property
    def domains(self) -> dict[str, Domain]:
        """The data set of each role, several sources as one."""
        joined = {"source": join_domains(self.sources)} if self.sources else {}
        return joined | {role: self.sets[role] for role in ("target", "silver") if role in self.sets}

    def digests(self) -> dict[str, str]:
        """Digest of every file, by its part in the run."""
        files = {name: path for part, each in self.sets.items() for name, path in each.named_files(part).items()}
        files |= {f"entities/{number}": path for number, path in enumerate(self.entities) if path != TRAIN}
        texts = {f"corpus/{number}": path for number, path in enumerate(self.corpus)}
        texts |= {f"source-corpus/{number}": path for number, path in enumerate(self.source_corpus)}
        found = {name: _digest(path, digest_path) for name, path in files.items()}
        return found | {name: _digest(path, digest_corpus) for name, path in texts.items()}


def run(run: RunDirectory, options: PrepareData) -> Work[Manifest]:
    """Store the sentences of source and target, their statistics and repairs, and the corpus levels.

    Every split is read; training uses train and dev only. Dev is taken from train before ``--train-limit`` counts, so
    that runs with different limits share their dev sentences.

    Raises:
        CrossNERError: Options contradict each other, or an input is missing or malformed; no stage is left then.
    """
    if not options.source and not options.target:
        raise CrossNERError(
            "prepare-data needs a source or a target domain.",
            hint="crossner prepare-data --source conll2003 --target politics (--list shows the known names)",
        )
    inputs = find_inputs(options)
    yield from map(Notice, notes_on_sets(inputs.sets, list_sets(options.record())))
    with open_stage(run, options.stage_request(inputs.digests())) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.folder} is finished with the same options and inputs; nothing was done.")
            return stage.finished
        _keep_selected(stage.draft)
        try:
            result = yield from _prepare(stage.draft, options, inputs)
            changes = list(_describe_changes(stage.folder, stage.draft)) if run.has(COMMAND) else []
            manifest = stage.finish(dataclasses.asdict(result))
            yield from map(Notice, changes)
            yield from map(Notice, _describe_outdated(run))
            return manifest
        finally:
            if not _keep_selected(stage.draft):
                shutil.rmtree(stage.draft, ignore_errors=True)


def find_inputs(options: PrepareData) -> Inputs:
    """Find all inputs; refuse a data set that does not exist."""
    return Inputs(
        find_sets(options),
        [*map(find_raw_text, options.corpus)],
        [*map(find_raw_text, options.source_corpus)],
        [find_bundled(str(path), "entities.tsv") or path for path in options.entities],
    )


def _describe_changes(before: Path, after: Path) -> Iterator[str]:
    """Count for each split the sentences that were added, removed or relabelled."""
    splits = {path.relative_to(place).with_suffix("") for place in (before, after) for path in place.glob("*/*.jsonl")}
    for role, split in sorted(split.parts for split in splits if split.parts[0] in ("source", "target")):
        old, new = (
            [*read_sentences(path)] if (path := place / role / f"{split}.jsonl").is_file() else []
            for place in (before, after)
        )
        words = [Counter(sentence.words for sentence in side) for side in (old, new)]
        added, removed = (words[1] - words[0]).total(), (words[0] - words[1]).total()
        relabelled = (Counter(new) - Counter(old)).total() - added
        if added or removed or relabelled:
            yield f"{role} {split}: sentences added: {added}, removed: {removed}, with other labels: {relabelled}."


def _describe_outdated(run: RunDirectory) -> Iterator[str]:
    """Name the stages of a run that are out of date, and the commands that update them."""
    outdated = find_outdated(run)
    for name, changed in outdated.items():
        yield f"{name} is out of date: {describe_changed(changed)}."
    if outdated:
        yield f"{shlex.join(['crossner', 'rerun', '--run', str(run.path)])} brings all up to date. One by one:"
        yield from (f"  {shlex.join(command_again(run, name))}" for name in outdated)


def _keep_selected(draft: Path) -> bool:
    """Empty a draft except for its record and the work on raw text; return whether there is any.

    Everything else is done again after an interruption.
    """
    for path in [*draft.glob("*/*"), *draft.glob("*")]:
        has_work = any(each.is_file() for each in (path / WORK).rglob("*"))
        if path.name not in (DRAFT, WORK) and not has_work:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return any(draft.glob(f"*/{WORK}"))


def _digest(path: Path, digest: Callable[[Path], str]) -> str:
    refuse_pipe(path)
    try:
        return digest(path)
    except OSError as error:
        raise CrossNERError(
            f"{path} cannot be read: {error.strerror}.", hint="Give a file or folder that exists and is yours."
        ) from None


def _prepare(folder: Path, options: PrepareData, inputs: Inputs) -> Work[PrepareDataResult]:
    """Fill the stage's folder."""
    sets = yield from read_sets(inputs.sets, options)
    types = {inputs.sets[part].name: each.types for part, each in sets.items() if part != "target"}
    maps, alike = find_type_maps(options.map_types, types, sets["target"].types if "target" in sets else None)
    labelled, of_sources, had_dev = make_domains(sets, inputs.sets, maps, options)
    silver = labelled.pop("silver", None)
    for role, found in {**labelled, **({"silver": silver} if silver else {})}.items():
        name = inputs.domains[role].name
        _write_domain(folder / role, name, found, options.scheme)
        for kind, times in found.repairs.counts.items():
            yield Notice(f"{role} {name}: {kind}: {times} (first: {found.repairs.examples[kind][0]})")
    levels, source_levels = yield from _write_raw_text(folder, options, inputs, labelled)
    statistics = _count(labelled, folder / "corpus")
    if len(of_sources) > 1:
        statistics["source"]["sources"] = of_sources
    listed = (levels.get("names") or {}).get("types", {})
    warnings = data_warnings(inputs.domains, labelled, statistics) + alike_type_warnings(alike)
    warnings += _option_warnings(options, labelled, maps, had_dev=had_dev)
    warnings += listed_type_warnings(listed, labelled, alike_is_known=options.weak_labels)
    new: list[str] = []
    known: list[str] = []  # shown when the data set was first prepared
    for role, found in labelled.items():
        side = known if inputs.domains[role].is_cached else new
        side += domain_warnings(role, inputs.domains[role].name, found, statistics[role])
    warnings = new + warnings
    if silver is not None:
        labelled["silver"] = silver
        statistics["silver"] = domain_statistics(silver.splits)
        warnings += silver.repairs.warnings
    write_json(folder / "statistics.json", statistics)
    write_json(folder / "repairs.json", {role: found.repairs.to_json() for role, found in labelled.items()})
    result = PrepareDataResult(
        domains={role: _describe(inputs.domains[role], labelled[role], statistics[role]) for role in labelled},
        statistics=statistics,
        repairs={role: dict(found.repairs.counts) for role, found in labelled.items()},
        corpus=levels,
        source_corpus=source_levels,
        warnings=warnings,
        known_warnings=known,
        renamed={name: names for name, names in maps.items() if names},
    )
    page = to_markdown(prepared_tables(result, is_short=False), level=2)
    write_atomically(
        folder / "statistics.md", f"# Prepared data\n\n{page}".encode("utf-8", "backslashreplace").decode()
    )
    return result


def _option_warnings(
    options: PrepareData, labelled: Labelled, maps: Mapping[str, Mapping[str, str]], *, had_dev: bool
) -> list[str]:
    """Warn of options that have no effect, or probably not the intended one."""
    warnings = []
    train = labelled["target"].splits.get("train", []) if "target" in labelled else []
    if options.train_limit and len(train) < parse_limit(options.train_limit)[0]:
        warnings.append(f"--train-limit {options.train_limit}: the target has only {len(train)} training sentences.")
    if options.dev_from_train and had_dev:
        warnings.append(f"--dev-from-train {options.dev_from_train} has no effect: every domain has dev sentences.")
    if "target" in labelled:
        renamed = [name for each in maps.values() for name in each.values() if name != OUTSIDE]
        warnings += mapped_type_warnings(renamed, labelled["target"].types)
    return warnings


def _write_raw_text(
    folder: Path, options: PrepareData, inputs: Inputs, labelled: Labelled
) -> Work[tuple[dict[str, Any], dict[str, Any]]]:
    """Write the corpus levels of the target and the raw text of the source; return their contents."""
    levels: dict[str, Any] = {}
    source_levels: dict[str, Any] = {}
    if inputs.corpus:
        raw = CorpusInputs(
            corpus=inputs.corpus,
            entities=inputs.entities,
            categories=options.wikipedia_category,
            category_depth=options.category_depth,
        )
        weak_labels = folder / "weak-labels" if options.weak_labels else None
        selection = dataclasses.replace(_make_selection(options), level=options.corpus_level, weak_labels=weak_labels)
        levels = yield from write_corpus(folder / "corpus", raw, selection, labelled)
    if inputs.source_corpus:
        selection = dataclasses.replace(_make_selection(options), level="domain", flag="--source-corpus")
        raw = CorpusInputs(corpus=inputs.source_corpus)
        source_levels = yield from write_corpus(folder / "source-corpus", raw, selection, labelled)
    return levels, source_levels


def _make_selection(options: PrepareData) -> Selection:
    """The settings of all corpus levels."""
    types = options.specialised_types
    return Selection(
        specialised_types=None if types is None else frozenset(filter(None, map(str.strip, types.split(",")))),
        min_entities=options.min_entities,
        task_upsample=options.task_upsample,
        one_a_line=options.sentences_per_line,
        column=options.text_column,
        execution=Execution(executor=options.executor, workers=options.workers),
    )


def _write_domain(folder: Path, name: str, labelled: LabelledDomain, scheme: str) -> None:
    folder.mkdir()
    for split, sentences in labelled.splits.items():
        write_sentences(folder / f"{split}.jsonl", sentences)
    words = {word for sentences in labelled.splits.values() for sentence in sentences for word in sentence.words}
    write_json(folder / "words.json", sorted(words))
    places = {split: [sentence.place for sentence in sentences] for split, sentences in labelled.splits.items()}
    write_json(folder / PLACES, places)
    write_json(folder / "types.json", {"name": name, "types": labelled.types, "scheme": scheme})


def _count(labelled: Labelled, corpus: Path) -> dict[str, Any]:
    """Compute statistics of each domain and, with both, the overlap of their vocabularies."""
    trains = {role: found.splits.get("train", []) for role, found in labelled.items()}
    statistics: dict[str, Any] = {
        role: domain_statistics(found.splits, trains.get("source") if role == "target" else None)
        for role, found in labelled.items()
    }
    if len(labelled) == 2:
        counts = {role: count_words(train) for role, train in trains.items()}
        levels = [corpus / f"{level}.txt" for level in ("domain", "integrated", "entity", "task")]
        raw = next((path for path in levels if path.is_file()), None)
        if raw:
            with raw.open(encoding="utf-8") as lines:
                counts["target"] += count_raw_words(islice(lines, VOCABULARY_LINES))
        overlap = vocabulary_overlap(counts["source"], counts["target"])
        statistics["vocabulary_overlap"] = {**overlap, "corpus_level": raw.stem if raw else None}
    return statistics


def _describe(domain: Domain, labelled: LabelledDomain, statistics: Mapping[str, Any]) -> DomainResult:
    """Make the part of the result about a domain."""
    return DomainResult(
        name=domain.name,
        types=list(labelled.types),
        found_scheme=labelled.found_scheme,
        origins={split: domain.origins[split] for split in domain.files},
        splits={
            split: SplitCounts(**{**counts, "entities": sum(counts["entities"].values())})
            for split, counts in statistics["splits"].items()
        },
    )
