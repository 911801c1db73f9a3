"""What is shown at the end of each stage: lines and tables of text, made from manifests alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crossner_cli import figures
from crossner_cli.reports.blocks import WARNING, Block, Line, Table
from crossner_cli.reports.evaluation_tables import evaluation_tables
from crossner_cli.reports.report_tables import report_tables
from crossner_cli.run.directory import Manifest

if TYPE_CHECKING:
    from crossner_cli.data.known_domains import KnownDomain
    from crossner_cli.reports.method_facts import MethodFacts

SPLITS = ("train", "dev", "test")
OF_WORDS, OF_ENCODER, FOR_TYPES = "words of width 150", "an encoder of width 384", "for 14 types"


def manifest_tables(manifest: Manifest) -> list[Block]:
    """Lines and tables for the result of a stage."""
    from crossner_cli.reports.export_tables import export_tables
    from crossner_cli.reports.inspection_tables import inspection_tables

    makers = {
        "prepare-data": prepared_tables,
        "dapt": dapt_tables,
        "evaluate": evaluation_tables,
        "inspect": inspection_tables,
        "export": export_tables,
        "predict": prediction_tables,
        "report": report_tables,
    }
    return makers.get(manifest["stage"], training_tables)(manifest)


def prepared_tables(manifest: Manifest) -> list[Block]:
    """Sizes, entity types, overlaps, repairs and corpus levels of the prepared data."""
    result = manifest["result"]
    domains, statistics = result["domains"], result["statistics"]
    blocks: list[Block] = [_prepared_headline(domains), _sizes(domains), _entity_types(domains, statistics)]
    blocks += _overlaps(domains, statistics)
    repairs = [(role, kind, figures.count(number)) for role, kinds in result["repairs"].items()
               for kind, number in kinds.items()]  # fmt: skip
    if repairs:
        blocks.append(Table("Repaired or dropped while reading", ("role", "what", "times"), repairs, texts=(0, 1)))
    if result["corpus"]:
        blocks += _corpus_levels("Corpus levels", result["corpus"])
    if result.get("source_corpus"):
        blocks += _corpus_levels("Raw text of the source", result["source_corpus"])
    return [*blocks, *(Line(f"{WARNING}{warning}") for warning in result["warnings"])]


def _prepared_headline(domains: Mapping[str, Any]) -> Line:
    parts = [
        f"{figures.count(domain['splits'].get('train', {}).get('sentences', 0))} of {domain['name']} ({role})"
        for role, domain in sorted(domains.items(), reverse=True)
    ]
    return Line(f"Sentences to train on: {', '.join(parts)}", is_headline=True)


def _sizes(domains: Mapping[str, Any]) -> Table:
    names = ("sentences", "words", "longest_sentence", "entities")
    rows = [
        (role, domain["name"], split, *(figures.count(counts[name]) for name in names))
        for role, domain in domains.items()
        for split, counts in domain["splits"].items()
    ]
    columns = ("role", "domain", "split", "sentences", "words", "longest", "entities")
    return Table("Data", columns, rows, texts=(0, 1, 2))


def _entity_types(domains: Mapping[str, Any], statistics: Mapping[str, Any]) -> Table:
    places = [(role, split) for role, domain in domains.items() for split in domain["splits"]]
    # The target's types first: they are what the tagger is to learn.
    types = list(dict.fromkeys(name for role in sorted(domains, reverse=True) for name in domains[role]["types"]))
    rows = [
        (name, *(_type_count(domains[role], statistics[role], split, name) for role, split in places)) for name in types
    ]
    return Table("Entities of each type", ("type", *(f"{role}\n{split}" for role, split in places)), rows)


def _type_count(domain: Mapping[str, Any], statistics: Mapping[str, Any], split: str, name: str) -> str:
    if name not in domain["types"]:
        return figures.NOTHING
    return figures.count(statistics["splits"][split]["entities"].get(name, 0))


def _overlaps(domains: Mapping[str, Any], statistics: Mapping[str, Any]) -> list[Block]:
    lines = []
    overlap = statistics.get("vocabulary_overlap")
    if overlap and overlap["percent"] is not None:
        smaller = min(overlap["source"], overlap["target"])
        lines.append(
            f"Vocabulary overlap of source and target: {overlap['percent']:.2f} % of the"
            f" {figures.count(smaller)} most frequent words"
        )
    for role in domains:
        for split, seen in statistics[role]["mentions"].items():
            places = [place for place in seen if place.startswith("seen_in_")]
            shares = ", ".join(
                f"{figures.percent(seen[place]['occurrences'], seen['occurrences'])} in"
                f" {place.removeprefix('seen_in_').replace('_', ' ')}"
                for place in places
            )
            if shares:
                lines.append(f"Entities of {role} {split} seen before: {shares}")
    return [Line(text) for text in lines]


DROPPED = {
    "dropped_duplicates": "as repeated",
    "dropped_near_duplicates": "as nearly repeated",
    "dropped_few_words": "as too short",
    "dropped_few_letters": "as mostly no letters",
    "dropped_web_phrases": "as text of web pages",
    "null_texts": "as records whose text is null",
}


def _corpus_levels(title: str, corpus: Mapping[str, Any]) -> list[Block]:
    rows = [
        (level, *(figures.count(number) for number in (
            counts["documents"], counts["sentences"], counts["words"], sum(counts["mentions"].values()))))
        for level, counts in corpus["levels"].items()
    ]  # fmt: skip
    documents, sentences = (figures.count(corpus[name]) for name in ("documents", "sentences"))
    dropped = {"dropped_leaks": "as sentences of dev or test"} | DROPPED
    left_out = [f"{why} {figures.count(corpus[key])}" for key, why in dropped.items() if key in corpus]
    lines = [Line(f"Read: {documents} lines or documents, {sentences} sentences; dropped {', '.join(left_out)}")]
    if "weak_labels" in corpus:
        weak = corpus["weak_labels"]
        lines.append(
            Line(
                f"Labelled by names, in weak-labels/: {figures.count(weak['sentences'])} sentences,"
                f" {figures.count(weak['mentions'])} names"
                f" (within words, left out: {figures.count(weak['dropped_mentions_within_words'])})"
            )
        )
    return [Table(title, ("level", "documents", "sentences", "words", "listed names"), rows), *lines]


def training_tables(manifest: Manifest) -> list[Block]:
    """Dev F1 of each seed, mean and deviation, and what the start gave."""
    result = manifest["result"]
    seeds = result["seeds"]
    over = f" over {len(seeds)} seeds" if len(seeds) > 1 else ""
    rows = [
        (seed, figures.score(each["dev_f1"]), f"{each['epoch']}/{each['epochs']}",
         figures.count(each.get("updates")), figures.count(each["words_per_second"]), each["folder"])
        for seed, each in seeds.items()
    ]  # fmt: skip
    epoch = "epoch kept" if manifest["options"].get("keep") == "last" else "best epoch"
    mean = ("mean", figures.spread(result["dev_f1"], result["dev_f1_deviation"]), "", "", "", "")
    return [
        Line(f"{manifest['name']}: dev F1 {figures.spread(result['dev_f1'], result['dev_f1_deviation'])}{over}", True),
        Table(
            f"{manifest['name']}, {_time_of(manifest)}",
            ("seed", "dev F1", epoch, "updates", "words/s", "folder"),
            rows, summary=[mean] if len(seeds) > 1 else [], texts=(0, 5),
        ),
        *_start_lines(result["start"]),
    ]  # fmt: skip


def _start_lines(start: Mapping[str, Any]) -> list[Line]:
    lines = [f"Start from {start['start']}: {figures.tensors(start)}"]
    for name, words in (("carried_types", "Types carried over"), ("fresh_types", "Types new")):
        if start[name]:
            lines.append(f"{words}: {', '.join(start[name])}")
    return [Line(text) for text in lines]


def dapt_tables(manifest: Manifest) -> list[Block]:
    """Perplexity before and after, what was read and how fast."""
    result = manifest["result"]
    if "strings" in result:
        return strings_tables(manifest)
    corpus, before, after = result["corpus"], result["perplexity_before"], result["perplexity_after"]
    headline = "no held-out text to measure perplexity on"
    if before is not None and after is not None:
        headline = f"held-out perplexity {before:,.2f} -> {after:,.2f}"
    sizes = (corpus["blocks"], corpus["block_size"], result["epochs"], result["updates"])
    row = (corpus["level"], *map(figures.count, (*sizes, result["subwords_per_second"])))
    lines = [f"Final loss of each epoch: {', '.join(f'{loss:.3f}' for loss in result['losses'])}"]
    lines += [
        f"{words}: {figures.count(corpus[name])}"
        for name, words in (
            ("cut_lines", "Lines cut"),
            ("left_out_lines", "Lines beyond --corpus-share"),
            ("unknown_subwords", "Subwords unknown to the encoder"),
        )
        if corpus.get(name)
    ]
    columns = ("corpus level", "blocks", "subwords each", "epochs", "updates", "subwords/s")
    return [
        Line(f"{manifest['name']}: {headline}", is_headline=True),
        Table(f"{manifest['name']}, {_time_of(manifest)}", columns, [row]),
        *map(Line, lines),
    ]


def strings_tables(manifest: Manifest) -> list[Block]:
    """Perplexity a character of both language models before and after, what was read and how fast."""
    result = manifest["result"]
    strings, before, after = result["strings"], result["perplexity_before"], result["perplexity_after"]
    headline = "no held-out text to measure perplexity on"
    if before is not None and after is not None:
        headline = f"held-out perplexity a character {before:,.2f} -> {after:,.2f}"
    read = (sum(strings["length"].values()), strings["characters"], result["epochs"], result["updates"])
    row = (strings["text"], *map(figures.count, (*read, result["characters_per_second"])))
    lines = [f"Final loss of each epoch, a character: {', '.join(f'{loss:.3f}' for loss in result['losses'])}"]
    lines += [
        f"{words}: {figures.count(strings[name])}"
        for name, words in (("unknown_characters", "Characters too rare for a number of their own"),
                            ("shortened_words", "Words of which 50 characters were read"))
        if strings[name]
    ]  # fmt: skip
    columns = ("text", "characters", "distinct", "epochs", "updates", "characters/s")
    return [
        Line(f"{manifest['name']}: {headline}", is_headline=True),
        Table(f"{manifest['name']}, {_time_of(manifest)}", columns, [row]),
        *map(Line, lines),
    ]


def known_domain_tables(known: Mapping[str, KnownDomain], bundled: tuple[str, ...]) -> list[Block]:
    """Sizes, entity types, licences and sources of the data sets known by name."""
    sizes = [
        (name, *(figures.count(domain.files[split].sentences if split in domain.files else None) for split in SPLITS),
         figures.count(sum(file.words for file in domain.files.values())), figures.count(len(domain.types)))
        for name, domain in known.items()
    ]  # fmt: skip
    types = [(name, ", ".join(domain.types)) for name, domain in known.items()]
    licences = [(name, domain.licence, domain.note) for name, domain in known.items()]
    sources = [(name, domain.source) for name, domain in known.items()]
    return [
        Line(f"{len(known)} data sets known by name; {len(bundled)} come along: {', '.join(bundled)}", True),
        Table("Sentences, words and entity types", ("name", *SPLITS, "words", "types"), sizes),
        Table("Entity types", ("name", "entity types"), types, texts=(0, 1)),
        Table("Licences", ("name", "licence", "note"), licences, texts=(0, 1, 2)),
        Table("Sources", ("name", "source"), sources, texts=(0, 1)),
    ]


def method_tables(methods: Sequence[MethodFacts]) -> list[Block]:
    """Paper, inputs, size and settings of the tagging methods."""
    facts = [(one.name, one.reads, figures.count(one.parameters), one.title) for one in methods]
    papers = [(one.name, one.paper) for one in methods]
    return [
        Line(f"{len(methods)} methods for --method", True),
        Table(f"Methods, with their parameters above {OF_ENCODER}, or {OF_WORDS}, {FOR_TYPES}",
              ("method", "reads", "parameters", "what it is"), facts, texts=(0, 1, 3)),
        Table("Papers", ("method", "paper"), papers, texts=(0, 1)),
        Table("Settings and their defaults, for --set", ("method", "settings"), settings_of(methods), texts=(0, 1)),
        Line("crossner methods NAME tells what the settings of a method mean and what differs from its paper."),
    ]  # fmt: skip


def settings_of(methods: Sequence[MethodFacts]) -> list[tuple[str, str]]:
    """Methods with their defaults; those that all methods of words have alike stand once, in a row before them."""
    of_words = [one.settings.items() for one in methods if one.reads == "words"]
    shared = [pair for pair in of_words[0] if all(pair in each for each in of_words)] if len(of_words) > 1 else []
    rows = {"all that read words": shared} if shared else {}
    for one in methods:
        rows[one.name] = [pair for pair in one.settings.items() if one.reads != "words" or pair not in shared]
    return [
        (name, ", ".join(f"{key}={figures.setting(value)}" for key, value in pairs)) for name, pairs in rows.items()
    ]


def method_details(facts: MethodFacts) -> list[Block]:
    """All that is told of one method."""
    rows = [
        (
            name,
            figures.setting(value).replace(",", ",\n"),
            facts.values[name],
            facts.meaning[name],
        )
        for name, value in facts.settings.items()
    ]
    of_words = "words: static vectors, characters and, if set, language models of characters and a transformer"
    reads = of_words if facts.reads == "words" else facts.reads
    sized_for = OF_WORDS if facts.reads == "words" else OF_ENCODER
    return [
        Line(f"{facts.name}: {facts.title}", True),
        Line(f"Paper: {facts.paper}"),
        Line(f"Reads {reads}"),
        Line(f"{figures.count(facts.parameters)} parameters above {sized_for}, {FOR_TYPES}"),
        Line(f"Differs: {facts.differs}"),
        Table(
            f"Settings of {facts.name}, for --set", ("setting", "default", "values", "meaning"), rows,
            texts=(0, 1, 2, 3),
        ),
    ]  # fmt: skip


def prediction_tables(manifest: Manifest) -> list[Block]:
    """What was found, and whatever was left out, repaired or could not be read; lines alone, as they stand by data."""
    result = manifest["result"]
    found, sentences, words, rate = (
        figures.count(number)
        for number in (
            sum(result["entities"].values()), result["sentences"], result["words"], result["words_per_second"],
        )
    )  # fmt: skip
    lines = [", ".join(f"{name} {figures.count(number)}" for name, number in result["entities"].items())]
    names = (
        "blank_documents", "repaired", "rewritten_words", "unreadable_words", "shortened_words", "unknown_words",
        "discarded_sequences",
    )  # fmt: skip
    counts = {"documents left out by --min-score": result.get("unsure_documents", 0)}
    counts |= {name.replace("_", " "): result.get(name, 0) for name in names} | result["repairs"]
    lines += [f"{name}: {figures.count(number)}" for name, number in counts.items() if number]
    if result.get("output"):
        lines.append(f"Written to {result['output']}")
    if not result["is_complete"]:
        lines.append("Not complete: the reader of the output went away.")
    return [
        Line(f"{manifest['name']}: {found} entities in {sentences} sentences, {words} words, {rate} words/s", True),
        *(Line(line) for line in lines if line),
    ]


def _time_of(manifest: Manifest) -> str:
    """How long a stage took; where it was interrupted, what it took since."""
    return figures.duration(manifest["seconds"]) + (" since it was continued" if manifest.get("continued") else "")
