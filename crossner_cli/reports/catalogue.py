"""Tables of what crossner knows by name: data sets and tagging methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from crossner_cli import figures
from crossner_cli.reports.blocks import Block, Line, Table

if TYPE_CHECKING:
    from crossner_cli.data.domains import KnownDomain
    from crossner_cli.reports.method_facts import MethodFacts

SPLITS = ("train", "dev", "test")


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
    """Show paper, inputs and settings of the tagging methods."""
    from crossner_cli.reports.method_facts import DEFAULT

    facts = [(one.name + " (default)" * (one.name == DEFAULT), one.reads, one.title) for one in methods]
    papers = [(one.name, one.paper) for one in methods]
    return [
        Line(f"{len(methods)} methods for --method", True),
        Table("Methods", ("method", "reads", "what it is"), facts, texts=(0, 1, 2)),
        Table("Papers", ("method", "paper"), papers, texts=(0, 1)),
        Table("Settings and their defaults, for --set", ("method", "settings"), list_settings(methods), texts=(0, 1)),
        Line("crossner methods NAME explains the settings of a method and its differences from the paper."),
    ]


def list_settings(methods: Sequence[MethodFacts]) -> list[tuple[str, str]]:
    """List methods with their defaults; those that all methods of words share stand once, in a row before them."""
    of_words = [one.settings.items() for one in methods if one.reads == "words"]
    shared = [pair for pair in of_words[0] if all(pair in each for each in of_words)] if len(of_words) > 1 else []
    rows = {"all that read words": shared} if shared else {}
    for one in methods:
        rows[one.name] = [pair for pair in one.settings.items() if one.reads != "words" or pair not in shared]
    return [
        (name, ", ".join(f"{key}={figures.setting(value)}" for key, value in pairs)) for name, pairs in rows.items()
    ]


def method_details(facts: MethodFacts) -> list[Block]:
    """Show all that is known of one method."""
    rows = [
        (name, figures.setting(value).replace(",", ",\n"), facts.values[name], facts.meaning[name])
        for name, value in facts.settings.items()
    ]
    of_words = "words: static vectors, characters and, if set, language models of characters and a transformer"
    reads = of_words if facts.reads == "words" else facts.reads
    title, columns = f"Settings of {facts.name}, for --set", ("setting", "default", "values", "meaning")
    return [
        Line(f"{facts.name}: {facts.title}", True),
        Line(f"Paper: {facts.paper}"),
        Line(f"Reads {reads}"),
        Line(f"Differs: {facts.differs}"),
        Table(title, columns, rows, texts=(0, 1, 2, 3)),
    ]
