"""Lines and tables that each stage shows at its end, made from manifests alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table, warning_line
from crossner_cli.run.directory import Manifest
from crossner_cli.run.results import (
    DaptResult,
    DomainResult,
    ExportResult,
    PredictResult,
    PrepareDataResult,
    Record,
    TrainResult,
)

if TYPE_CHECKING:
    from crossner_cli.data.domains import KnownDomain

# Counts of what reading raw text left out: the words for each key.
DROPPED = {
    "dropped_leaks": "as sentences of dev or test",
    "dropped_duplicates": "as repeated",
    "null_texts": "as records whose text is null",
    "zero_bytes": "zero bytes",
}
# Counts of what adaptation could not read: the words for each key.
LEFT_OUT = {
    "cut_lines": "Lines cut",
    "left_out_lines": "Lines beyond --corpus-share",
    "unknown_subwords": "Subwords unknown to the encoder",
    "unknown_characters": "Characters too rare to be numbered",
    "shortened_words": "Words of which 50 characters were read",
}
SPLITS = ("train", "dev", "test")
NEW_TYPES = 8  # that a screen names
FEWEST_UPDATES = 100  # of dapt, below which a model hardly changes


def known_domain_tables(known: Mapping[str, KnownDomain], bundled: tuple[str, ...]) -> list[Block]:
    """Show sizes, entity types, licences and sources of the data sets known by name."""
    sizes = [
        (
            name,
            *(figures.count(domain.files[split].sentences if split in domain.files else None) for split in SPLITS),
            figures.count(sum(file.words for file in domain.files.values())),
            figures.count(len(domain.types)),
        )
        for name, domain in known.items()
    ]
    facts = [
        (name, ", ".join(each.types), "; ".join(filter(None, (each.licence, each.note))), each.source)
        for name, each in known.items()
    ]
    return [
        Line(f"{len(known)} data sets known by name; {len(bundled)} are bundled: {', '.join(bundled)}", True),
        Table("Sentences, words and entity types", ("name", *SPLITS, "words", "types"), sizes),
        Table("Where they come from", ("name", "entity types", "licence", "source"), facts, texts=(0, 1, 2, 3)),
    ]


def prepared_tables(result: PrepareDataResult, _: Manifest | None = None, *, is_short: bool = True) -> list[Block]:
    """Show sizes, entity types, overlaps, repairs and corpus levels of the prepared data.

    For a screen, counts by entity type and overlaps are left to the stage's files.
    """
    domains, statistics = result.domains, result.statistics
    sentences = []
    for role, domain in sorted(domains.items(), reverse=True):
        count = domain.splits["train"].sentences if "train" in domain.splits else 0
        sentences.append(f"{figures.count(count)} of {domain.name} ({role})")
    blocks: list[Block] = [
        Line(f"Sentences to train on: {', '.join(sentences)}", is_headline=True),
        _sizes(domains),
    ]
    if is_short:
        blocks += map(Line, _new_types(domains))
    else:
        blocks += [_entity_types(domains, statistics), *map(Line, _overlaps(domains, statistics))]
    for name, names in result.renamed.items():
        blocks.append(Line(f"Types renamed in {name}: {', '.join(map('='.join, names.items()))}"))
    repairs = [
        (role, kind, figures.count(number)) for role, kinds in result.repairs.items() for kind, number in kinds.items()
    ]
    if repairs:
        blocks.append(Table("Repaired or dropped while reading", ("role", "what", "times"), repairs, texts=(0, 1)))
    for title, corpus in (("Corpus levels", result.corpus), ("Raw text of the source", result.source_corpus)):
        if corpus:
            blocks += _corpus_levels(title, corpus)
    warnings = result.warnings if is_short else result.known_warnings + result.warnings
    return [*blocks, *map(warning_line, warnings)]


def _new_types(domains: Mapping[str, DomainResult]) -> list[str]:
    """Name the types of the target that the source lacks."""
    if "target" not in domains:
        return []
    types = domains["target"].types
    known = domains["source"].types if "source" in domains else []
    new = [name for name in types if name not in known]
    named = ", ".join(new[:NEW_TYPES]) + (" …" if len(new) > NEW_TYPES else "")
    of_both = f", {len(new)} of them new" if known else ""
    return [f"Entity types of the target: {len(types)}{of_both}{f' ({named})' if named else ''}"]


def _sizes(domains: Mapping[str, DomainResult]) -> Table:
    rows = [
        (
            role,
            domain.name,
            split,
            *map(figures.count, (counts.sentences, counts.words, counts.longest_sentence, counts.entities)),
        )
        for role, domain in domains.items()
        for split, counts in domain.splits.items()
    ]
    columns = ("role", "domain", "split", "sentences", "words", "longest", "entities")
    return Table("Data", columns, rows, texts=(0, 1, 2))


def _entity_types(domains: Mapping[str, DomainResult], statistics: Record) -> Table:
    """Count entities of each type, the target's types first."""
    places = [(role, split) for role, domain in domains.items() for split in domain.splits]
    types = list(dict.fromkeys(name for role in sorted(domains, reverse=True) for name in domains[role].types))

    known = {role: frozenset(domain.types) for role, domain in domains.items()}

    def count(role: str, split: str, name: str) -> str:
        if name not in known[role]:
            return figures.NOTHING
        return figures.count(statistics[role]["splits"][split]["entities"].get(name, 0))

    rows = [(name, *(count(role, split, name) for role, split in places)) for name in types]
    return Table("Entities of each type", ("type", *(f"{role}\n{split}" for role, split in places)), rows)


def _overlaps(domains: Iterable[str], statistics: Record) -> list[str]:
    lines = []
    overlap = statistics.get("vocabulary_overlap")
    if overlap and overlap["percent"] is not None:
        smaller = figures.count(min(overlap["source"], overlap["target"]))
        lines.append(
            f"Vocabulary overlap of source and target: {overlap['percent']:.2f} % of the {smaller} most frequent words"
        )
    for role in domains:
        for split, seen in statistics[role]["mentions"].items():
            shares = ", ".join(
                f"{figures.percent(counts['occurrences'], seen['occurrences'])} in"
                f" {place.removeprefix('seen_in_').replace('_', ' ')}"
                for place, counts in seen.items()
                if place.startswith("seen_in_")
            )
            if shares:
                lines.append(f"Entities of {role} {split} seen before: {shares}")
    return lines


def _corpus_levels(title: str, corpus: Record) -> list[Block]:
    rows = [
        (
            level,
            *map(figures.count, (counts["documents"], counts["sentences"], counts["words"])),
            figures.count(sum(counts["mentions"].values())),
        )
        for level, counts in corpus["levels"].items()
    ]
    documents, sentences = (figures.count(corpus[name]) for name in ("documents", "sentences"))
    left_out = [f"{why} {figures.count(corpus[key])}" for key, why in DROPPED.items() if key in corpus]
    lines = [f"Read: {documents} lines or documents, {sentences} sentences; dropped {', '.join(left_out)}"]
    if "weak_labels" in corpus:
        keys = ("sentences", "mentions", "dropped_mentions_within_words")
        weak = {key: figures.count(corpus["weak_labels"][key]) for key in keys}
        lines.append(
            f"Labelled by names, in weak-labels/: {weak['sentences']} sentences, {weak['mentions']} names"
            f" (within words, left out: {weak['dropped_mentions_within_words']})"
        )
    return [Table(title, ("level", "documents", "sentences", "words", "listed names"), rows), *map(Line, lines)]


def training_tables(result: TrainResult, manifest: Manifest) -> list[Block]:
    """Show dev F1 of each seed, mean and deviation, and what came from the start."""
    name = manifest["name"]
    over = f" over {len(result.seeds)} seeds" if len(result.seeds) > 1 else ""
    rows = [
        (
            seed,
            figures.score(trained.dev_f1),
            f"{trained.epoch}/{trained.epochs}",
            *map(figures.count, (trained.updates, trained.words_per_second)),
            trained.folder,
        )
        for seed, trained in result.seeds.items()
    ]
    epoch = "epoch kept" if manifest["options"].get("keep") == "last" else "best epoch"
    score = figures.spread(result.dev_f1, result.dev_f1_deviation)
    table = Table(
        f"{name}, {_time_of(manifest)}",
        ("seed", "dev F1", epoch, "updates", "words/s", "folder"),
        rows,
        summary=[("mean", score, "", "", "", "")] if over else [],
        texts=(0, 5),
    )
    blocks: list[Block] = [Line(f"{name}: dev F1 {score}{over}", is_headline=True), table]
    if cut := dict.fromkeys(word for trained in result.seeds.values() for word in trained.differently_cut):
        text = (
            f"the encoder's tokenizer cuts words alone differently than inside a text, as {', '.join(cut)}: the tagger"
            " reads other subwords than the encoder was trained on. Compare with another --encoder."
        )
        blocks.append(warning_line(text))
    blocks.append(Line(f"Start from {result.start.start}"))
    kinds = {"carried over": result.start.carried_types, "new": result.start.fresh_types}
    return [*blocks, *(Line(f"Types {kind}: {', '.join(types)}") for kind, types in kinds.items() if types)]


def dapt_tables(result: DaptResult, manifest: Manifest) -> list[Block]:
    """Show perplexity before and after, what was read and how fast; of language models of characters, a character."""
    if result.strings:
        read, of_what = result.strings, " a character"
        columns = ("text", "characters", "distinct", "epochs", "updates", "characters/s")
        sizes = [sum(read["length"].values()), read["characters"]]
        what, choices = read["text"], read["characters"]
    else:
        read, of_what = result.corpus, ""
        columns = ("corpus level", "blocks", "subwords each", "epochs", "updates", "subwords/s")
        sizes = [read["blocks"], read["block_size"]]
        what, choices = read["level"], read["vocabulary"]
    before, after = result.perplexity_before, result.perplexity_after
    perplexity = "no held-out text to measure perplexity on"
    if before is not None and after is not None:
        perplexity = f"held-out perplexity{of_what} {before:,.2f} -> {after:,.2f} (chance: {figures.count(choices)})"
    row = (what, *map(figures.count, (*sizes, result.epochs, result.updates, result.units_per_second)))
    losses = ", ".join(f"{loss:.3f}" for loss in result.losses)
    read_text = f"{figures.count(sizes[0])} characters" if of_what else f"{figures.count(sizes[0] * sizes[1])} subwords"
    few = warning_line(
        f"{result.updates} updates on {read_text} of text change a model little: expect no gain. Train longer, give"
        " more raw text, or leave dapt out."
    )
    return [
        Line(f"{manifest['name']}: {perplexity}", is_headline=True),
        *([few] if result.updates < FEWEST_UPDATES else []),
        Table(f"{manifest['name']}, {_time_of(manifest)}", columns, [row]),
        Line(f"Final loss of each epoch{',' * bool(of_what)}{of_what}: {losses}"),
        *(Line(f"{text}: {figures.count(read[key])}") for key, text in LEFT_OUT.items() if read.get(key)),
    ]


def prediction_tables(result: PredictResult, manifest: Manifest) -> list[Block]:
    """Show what was found, left out, repaired or unreadable, as lines, which may stand beside data."""
    found = (sum(result.entities.values()), result.sentences, result.words, result.words_per_second)
    entities, sentences, words, rate = map(figures.count, found)
    counts: dict[str, Any] = {
        "entities left out, as they score too low": result.unsure_entities,
        "blank documents": result.blank_documents,
        "repaired tags": result.repaired,
        "rewritten words": result.rewritten_words,
        "unreadable words": result.unreadable_words,
        "shortened words": result.shortened_words,
        "unknown words": result.unknown_words,
        "discarded sequences": result.discarded_sequences,
        **result.repairs,
    }
    lines = [", ".join(f"{kind} {figures.count(number)}" for kind, number in result.entities.items())]
    lines += [f"{kind}: {figures.count(number)}" for kind, number in counts.items() if number]
    if result.output:
        lines.append(f"Written to {result.output}")
    headline = f"{manifest['name']}: {entities} entities in {sentences} sentences, {words} words, {rate} words/s"
    return [Line(headline, is_headline=True), *(Line(line) for line in lines if line)]


def export_tables(result: ExportResult, _: Manifest) -> list[Block]:
    """Show F1, speed and size of the tagger and of its graphs side by side."""
    headline = Line(f"{figures.with_seed(result.model, result.seed)} as ONNX in {result.output}", is_headline=True)
    sizes = [figures.amount(model.bytes, None, "bytes") for model in result.models]
    if not result.sentences:
        rows = [(model.name, size) for model, size in zip(result.models, sizes, strict=True)]
        return [headline, Table("Nothing was measured (--split none)", ("model", "weights"), rows)]
    first = max(result.models[0].words_per_second or 0, 1)
    measured = [
        (
            model.name,
            figures.score(model.f1),
            *map(figures.count, (model.other_tags, model.words_per_second)),
            f"{(model.words_per_second or 0) / first:.2f}",
            size,
        )
        for model, size in zip(result.models, sizes, strict=True)
    ]
    title = (
        f"{result.domain} {result.split}: {figures.count(result.sentences)} sentences, {figures.count(result.words)}"
        f" words, {result.threads} CPU threads"
    )
    columns = ("model", "F1", "words tagged\notherwise", "words/s", "times as\nfast", "weights")
    return [headline, Table(title, columns, measured), Line(f"Read as {result.mode}, {result.tool}")]


def _time_of(manifest: Manifest) -> str:
    """Say how long a stage took; if it was interrupted, since it was continued."""
    return figures.duration(manifest["seconds"]) + (" since it was continued" if manifest.get("continued") else "")
