"""prepare-data: read the labelled sentences and raw text of a run, check and count them, store them in one form."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from crossner_cli.corpus.inputs import TRAIN
from crossner_cli.corpus.levels import WORK
from crossner_cli.corpus.preparation import write_corpus
from crossner_cli.corpus.raw_files import digest_corpus
from crossner_cli.data.domains import Domain, bundled_domains, find_domain, hides_folder
from crossner_cli.data.jsonl_files import TYPE_HINT
from crossner_cli.data.labelled_domain import LabelledDomain, read_domain
from crossner_cli.data.readers import is_tag
from crossner_cli.data.sentences import SPLITS, Sentence, write_sentences
from crossner_cli.data.statistics import count_raw_words, count_words, domain_statistics, vocabulary_overlap
from crossner_cli.data.tags import OUTSIDE
from crossner_cli.data.warnings import data_warnings, name_warnings
from crossner_cli.errors import CrossNERError
from crossner_cli.options import PrepareData
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.run.stage import DRAFT, open_stage
from crossner_cli.run.storage import digest_path, write_json
from crossner_cli.stages.data_options import check_options, unread_options

COMMAND = "prepare-data"
# Lines of raw text that are enough to tell the 5,000 most frequent words.
VOCABULARY_LINES = 1_000_000

Domains = dict[str, Domain]
Labelled = dict[str, LabelledDomain]


def run(run: RunDirectory, options: PrepareData) -> Work[Manifest]:
    """Store the sentences of source and target, their statistics and repairs, and the corpus levels.

    Every split is read; training uses train and dev only. Dev is taken from train before ``--train-limit`` counts, so
    that runs with different limits share their dev sentences.

    Raises:
        CrossNERError: Options contradict each other, or an input is missing or malformed; no stage is left then.
    """
    check_options(options)
    domains = _find_domains(options)
    for name in filter(None, (options.source, options.target)):
        if hides_folder(name):
            yield Notice(
                f"{name!r} is the known data set of that name; the folder {name} here is not read: ./{name} is."
            )
    for role, domain in domains.items():
        fetched = {origin.rpartition("/")[0]: None for origin in domain.origins.values() if "/" in origin}
        if fetched:
            yield Notice(f"Fetched the {role} {domain.name!r} from {', '.join(fetched)}.")
    corpus = [_bundled(path, "corpus") for path in options.corpus]
    source_corpus = [_bundled(path, "corpus") for path in options.source_corpus]
    entities = [_bundled(path, "entities") for path in options.entities]
    request = options.stage_request(COMMAND, _digests(domains, corpus, source_corpus, entities))
    with open_stage(run, request) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.folder} is finished with the same options and inputs; nothing was done.")
            return stage.finished
        read = dataclasses.replace(options, corpus=corpus, source_corpus=source_corpus, entities=entities)
        yield from map(Notice, unread_options(read))
        _keep_selected(stage.draft)
        try:
            result = yield from _prepare(stage.draft, options, domains, corpus, source_corpus, entities)
            before = run.digest(COMMAND) if run.has(COMMAND) else None
            manifest = stage.finish(result, keeps_same=True)
            if before == run.digest(COMMAND):
                yield Notice(f"{stage.folder} holds what it held: taggers that were made from it stay those of it.")
            return manifest
        finally:
            if not _keep_selected(stage.draft):
                shutil.rmtree(stage.draft, ignore_errors=True)


def _keep_selected(draft: Path) -> bool:
    """Empty a draft but for what was done of raw text, and the record to go on from; tell whether any was.

    All else is done again after an interruption.
    """
    if not draft.is_dir():
        return False
    kept = [path for path in draft.glob(f"*/{WORK}") if any(each.is_file() for each in path.rglob("*"))]
    for path in draft.rglob("*"):
        is_kept = path.name == DRAFT or any(path in (one, one.parent) or one in path.parents for one in kept)
        if not is_kept and path.is_file():
            path.unlink()
    for path in draft.iterdir():
        if path.is_dir() and path not in {one.parent for one in kept}:
            shutil.rmtree(path)
    return bool(kept)


def _find_domains(options: PrepareData) -> Domains:
    """Source and target, with names that differ unless they are the same data."""
    wanted = {"source": options.source, "target": options.target}
    domains = {role: find_domain(name) for role, name in wanted.items() if name}
    source, target = domains.get("source"), domains.get("target")
    if source and target and source.name == target.name and (source.files != target.files or options.map_types):
        # Not the target, which other runs have without this source: its taggers and scores keep its name.
        domains["source"] = dataclasses.replace(source, name=f"{source.name}-source")
    return domains


def _bundled(path: Path, part: str) -> Path:
    """The raw text or entity list of a bundled data set where its name is given, else the path itself."""
    name = str(path)
    found: Path | None = getattr(find_domain(name), part) if name in bundled_domains() else None
    return found or path


def _digests(domains: Domains, corpus: list[Path], source_corpus: list[Path], entities: list[Path]) -> dict[str, str]:
    """Digest of every file that is read."""
    paths = {f"{role}/{split}": path for role, domain in domains.items() for split, path in domain.files.items()}
    paths |= {f"entities/{number}": path for number, path in enumerate(entities) if path != TRAIN}
    texts = {f"corpus/{number}": path for number, path in enumerate(corpus)}
    texts |= {f"source-corpus/{number}": path for number, path in enumerate(source_corpus)}
    found = {name: _digest(path, digest_path) for name, path in paths.items()}
    return found | {name: _digest(path, digest_corpus) for name, path in texts.items()}


def _digest(path: Path, digest: Callable[[Path], str]) -> str:
    if not (path.is_file() or path.is_dir()) and path.exists():
        raise CrossNERError(
            f"{path} is no plain file and no folder, and what is read is read more than once.",
            hint="Write it to a file first, as with: zcat corpus.gz > corpus.txt",
        )
    try:
        return digest(path)
    except OSError as error:
        raise CrossNERError(
            f"{path} cannot be read: {error.strerror}.", hint="Give a file or folder that exists and is yours."
        ) from None


def _prepare(
    folder: Path, options: PrepareData, domains: Domains, corpus: list[Path], source_corpus: list[Path],
    entities: list[Path],
) -> Work[dict[str, Any]]:  # fmt: skip
    """Fill the stage's folder; return the result for its manifest."""
    labelled: Labelled = {}
    for role, domain in domains.items():
        task = f"read the {role} {domain.name}"
        yield Progress(task, 0, None, "sentences")
        found = read_domain(domain.files, name=domain.name, scheme=options.scheme, keep_docstart=options.keep_docstart)
        if role == "source" and options.map_types:
            found = map_types(found, options.map_types)
        labelled[role] = dataclasses.replace(found, splits=_choose_sentences(found.splits, role, options))
        _write_splits(folder / role, labelled[role].splits)
        sentences = sum(map(len, labelled[role].splits.values()))
        yield Progress(task, sentences, sentences, "sentences")
        for kind, count in found.repairs.counts.items():
            yield Notice(f"{role} {domain.name}: {kind}: {count} (first: {found.repairs.examples[kind][0]})")
    levels: dict[str, Any] = {}
    if corpus:
        levels = yield from write_corpus(folder / "corpus", options, labelled, corpus, entities)
    source_levels: dict[str, Any] = {}
    if source_corpus:
        plain = dataclasses.replace(options, corpus_level="domain", wikipedia_category=[], weak_labels=False)
        source_levels = yield from write_corpus(
            folder / "source-corpus", plain, labelled, source_corpus, [], "--source-corpus"
        )
    statistics = _statistics(labelled, folder / "corpus")
    warnings = data_warnings(domains, labelled, statistics, options)
    warnings += name_warnings((levels.get("names") or {}).get("types", {}), labelled)
    for warning in warnings:
        yield Notice(warning)
    write_json(folder / "statistics.json", statistics)
    write_json(folder / "repairs.json", {role: found.repairs.to_json() for role, found in labelled.items()})
    return {
        "domains": {role: _describe(domains[role], labelled[role], statistics[role]) for role in labelled},
        "statistics": statistics,
        "repairs": {role: dict(found.repairs.counts) for role, found in labelled.items()},
        "corpus": levels,
        "source_corpus": source_levels,
        "warnings": warnings,
    }


def map_types(labelled: LabelledDomain, text: str) -> LabelledDomain:
    """Call entity types otherwise.

    Args:
        labelled: A domain.
        text: ``old=new`` pairs separated by commas; ``O`` as the new one drops a type.

    Raises:
        CrossNERError: A pair is malformed, or the domain has no such type.
    """
    pairs = [pair.partition("=") for pair in text.split(",")]
    for old, equals, new in pairs:
        if new.strip() and new.strip() != OUTSIDE and not is_tag(f"B-{new.strip()}"):
            raise CrossNERError(f"--map-types {text!r}: {new.strip()!r} is no name of an entity type.", hint=TYPE_HINT)
        if not equals or not new.strip() or old.strip() not in labelled.types:
            raise CrossNERError(
                f"--map-types {text!r}: {old.strip()!r} is no entity type of the source, or has no new name.",
                hint=f"Write old=new,…; the source's types are {', '.join(labelled.types)}.",
            )
    names = {old.strip(): new.strip() for old, _, new in pairs}
    if len(names) < len(pairs):
        raise CrossNERError(f"--map-types {text!r} renames a type twice.", hint="Name each type of the source once.")

    def rename(tag: str) -> str:
        prefix, hyphen, entity_type = tag.partition("-")
        new = names.get(entity_type, entity_type)
        return OUTSIDE if new == OUTSIDE else f"{prefix}{hyphen}{new}"

    splits = {
        split: [
            dataclasses.replace(item, tags=None if item.tags is None else tuple(map(rename, item.tags)))
            for item in sentences
        ]
        for split, sentences in labelled.splits.items()
    }  # fmt: skip
    types = dict.fromkeys(names.get(entity_type, entity_type) for entity_type in labelled.types)
    return dataclasses.replace(labelled, splits=splits, types=tuple(name for name in types if name != OUTSIDE))


def _choose_sentences(splits: dict[str, list[Sentence]], role: str, options: PrepareData) -> dict[str, list[Sentence]]:
    """The splits after ``--dev-from-train`` and, for the target, ``--train-limit``."""
    chosen = dict(splits)
    if options.dev_from_train and "train" in splits and "dev" not in splits:
        chosen["train"], chosen["dev"] = take_dev(splits["train"], options.dev_from_train)
    if options.train_limit and role == "target":
        if "train" not in chosen:
            raise CrossNERError("--train-limit: the target has no training sentences.", hint="Leave it out.")
        chosen["train"] = limit_train(chosen["train"], options.train_limit, options.train_limit_seed)
    return {split: chosen[split] for split in SPLITS if split in chosen}


def take_dev(train: list[Sentence], share: float) -> tuple[list[Sentence], list[Sentence]]:
    """Split a share of train off as dev, by the sentences alone: those whose words have the smallest SHA-256.

    So neither the order of the file nor a seed matters, and sentences of the same words stay on one side.

    Returns:
        Train and dev, each in the order of the file.

    Raises:
        CrossNERError: Nothing would be left to train on.
    """
    wanted = max(1, round(share * len(train)))
    places: dict[tuple[str, ...], list[int]] = {}
    for number, sentence in enumerate(train):
        places.setdefault(sentence.words, []).append(number)
    taken: set[int] = set()
    for words in sorted(places, key=lambda words: hashlib.sha256("\n".join(words).encode()).digest()):
        if len(taken) >= wanted:
            break
        taken.update(places[words])
    if len(taken) == len(train):
        raise CrossNERError(
            f"--dev-from-train {share} takes all {len(train)} training sentences.",
            hint="Take a smaller share, or give a dev file.",
        )
    rest = [sentence for number, sentence in enumerate(train) if number not in taken]
    return rest, [train[number] for number in sorted(taken)]


def limit_train(train: list[Sentence], limit: int, seed: int | None) -> list[Sentence]:
    """Keep the first sentences, or with a seed those whose SHA-256 of ``seed:number`` is smallest, in file order.

    A smaller limit of the same seed keeps a part of what a larger one keeps.
    """
    if seed is None:
        return train[:limit]
    drawn = sorted(range(len(train)), key=lambda number: hashlib.sha256(f"{seed}:{number}".encode()).digest())
    return [train[number] for number in sorted(drawn[:limit])]


def _write_splits(folder: Path, splits: Mapping[str, list[Sentence]]) -> None:
    folder.mkdir()
    for split, sentences in splits.items():
        write_sentences(folder / f"{split}.jsonl", sentences)
    write_json(
        folder / "words.json", sorted({word for part in splits.values() for item in part for word in item.words})
    )


def _statistics(labelled: Labelled, corpus: Path) -> dict[str, Any]:
    """Statistics of each domain, and with both how near their vocabularies are."""
    source = labelled.get("source")
    trains = {role: found.splits.get("train", []) for role, found in labelled.items()}
    statistics: dict[str, Any] = {
        role: domain_statistics(found.splits, trains["source"] if source and role == "target" else None)
        for role, found in labelled.items()
    }
    if len(labelled) == 2:
        counts = {role: count_words(train) for role, train in trains.items()}
        raw = next((path for level in ("domain", "integrated", "entity", "task")
                    if (path := corpus / f"{level}.txt").is_file()), None)  # fmt: skip
        if raw:
            with raw.open(encoding="utf-8") as lines:
                counts["target"] += count_raw_words(islice(lines, VOCABULARY_LINES))
        overlap = vocabulary_overlap(counts["source"], counts["target"])
        statistics["vocabulary_overlap"] = {**overlap, "corpus_level": raw.stem if raw else None}
    return statistics


def _describe(domain: Domain, labelled: LabelledDomain, statistics: dict[str, Any]) -> dict[str, Any]:
    """What the manifest says about a domain."""
    return {
        "name": domain.name,
        "types": list(labelled.types),
        "found_scheme": labelled.found_scheme,
        "origins": {split: domain.origins[split] for split in domain.files},
        "splits": {
            split: {**counts, "entities": sum(counts["entities"].values())}
            for split, counts in statistics["splits"].items()
        },
    }
