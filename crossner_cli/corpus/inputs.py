"""What ``prepare-data`` is given as corpus and entity lists, made into files of text and lists of names.

Dumps of Wikipedia become a file of paragraphs; RDF and the target's own training sentences become lists of
``name<TAB>type``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_cli.corpus.dbpedia import RdfNames, expand_types, write_names
from crossner_cli.corpus.dbpedia_classes import classes_of_types
from crossner_cli.corpus.mediawiki_dump import is_dump
from crossner_cli.corpus.raw_files import each_once
from crossner_cli.corpus.triples import is_triples
from crossner_cli.corpus.wikipedia import write_articles
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import read_record, write_json

TRAIN = Path("train")  # what --entities calls the training sentences of the target


@dataclass(frozen=True)
class EntityLists:
    """Lists of names, ready to be read.

    Args:
        paths: Files, a line each: name<TAB>type.
        rdf: What was found in RDF, if any was given.
        others: Whether there are names from elsewhere too.
        record: What was read, for the manifest.
    """

    paths: list[Path]
    rdf: RdfNames | None = None
    others: bool = False
    record: dict[str, Any] = field(default_factory=dict)


def extract_dumps(
    corpus: Sequence[Path], folder: Path, *, categories: Sequence[str], depth: int
) -> Work[tuple[list[Path], dict[str, Any]]]:
    """Put the text of a dump's articles in the place of the dump.

    Args:
        corpus: Files and folders of a corpus; several dumps are the parts of one.
        folder: Where to write. What an interrupted call has written there is taken, and not read again.
        categories: Articles to take; none takes all.
        depth: Steps below a category that count.

    Returns:
        The corpus without dumps, and what was read of them.

    Raises:
        CrossNERError: There are categories and no dump, or a dump cannot be read.
    """
    named = [path for path in corpus if is_dump(path)]
    dumps = each_once(named)
    if len(named) > len(dumps):
        yield Notice(f"{len(named) - len(dumps)} dumps were named more than once and are read once.")
    if not dumps:
        if categories:
            raise CrossNERError(
                f"--wikipedia-category {categories[0]} is read from a MediaWiki dump, and --corpus names none.",
                hint="Add --corpus enwiki-latest-pages-articles.xml.bz2",
            )
        return list(corpus), {}
    if not categories:
        yield Notice("Every article of the dump is taken; --wikipedia-category chooses among those of --corpus.")
    path, told = folder / "wikipedia.txt", folder / "wikipedia.json"
    if told.exists():
        yield Notice("The dump was read before the interruption; its text is taken as it is.")
        record = read_record(told)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{path.name}.draft"
        try:
            record = yield from write_articles(dumps, draft, categories=categories, depth=depth)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        write_json(told, record)
    return [path, *(each for each in corpus if each not in named)], record


def make_lists(
    entities: Sequence[Path], folder: Path, *, language: str, train: Sequence[Sentence] | None
) -> Work[EntityLists]:
    """Make lists of names of what ``--entities`` names.

    Args:
        entities: Lists of names, RDF files, or ``train``.
        folder: Where to write the lists that are made.
        language: Language of the labels in RDF.
        train: Training sentences of the target, if there are any.

    Raises:
        CrossNERError: There are no training sentences, or RDF cannot be read.
    """
    paths = [path for path in entities if path != TRAIN and not is_triples(path)]
    triples = [path for path in entities if is_triples(path)]
    others = bool(paths)
    record: dict[str, Any] = {}
    if TRAIN in entities:
        paths.append(folder / "train.tsv")
        record["train"] = yield from _write_mentions(paths[-1], train)
        others = True
    rdf = None
    if triples:
        paths.append(folder / "rdf.tsv")
        rdf = yield from write_names(triples, paths[-1], language=language)
        record["rdf"] = {**rdf.counts, "types": dict(sorted(rdf.types.items()))}
    return EntityLists(paths, rdf, others, record)


def _write_mentions(path: Path, train: Sequence[Sentence] | None) -> Work[dict[str, int]]:
    """Write the entities of training sentences as a list of names."""
    if not train:
        raise CrossNERError("--entities train are the training sentences of the target, and there are none.",
                            hint="Add --target DATASET with train sentences, or give a list.")  # fmt: skip
    if TRAIN.exists():
        yield Notice("--entities train are the target's training sentences; a file of that name goes by its full path.")
    mentions = Counter(
        (" ".join(" ".join(sentence.words[start:end]).split()), entity_type)
        for sentence in train for start, end, entity_type in to_spans(sentence.tags or ())
    )  # fmt: skip
    if not mentions:
        raise CrossNERError("--entities train: the training sentences of the target have no entity.",
                            hint="Give a list.")  # fmt: skip
    path.write_text("".join(f"{name}\t{entity_type}\n" for name, entity_type in mentions), encoding="utf-8")
    return {"mentions": mentions.total(), "names": len(mentions)}


def choose_types(wanted: set[str] | None, lists: EntityLists, *, are_asked: bool) -> Work[set[str] | None]:
    """Say the specialised types in the words of the lists.

    Args:
        wanted: Types; None if none are known.
        lists: The lists of names.
        are_asked: Whether a person asked for these types. If not they are the target's, and where a list has classes
            of DBpedia, the classes special to a domain of such types stand for them.

    Returns:
        Types of names in the lists; those that have none are among them only if they were asked for, or if there are
        other lists than RDF.
    """
    if wanted is None or lists.rdf is None:
        return wanted
    classes = wanted if are_asked else classes_of_types(wanted)
    expanded, stands_for = expand_types(classes, lists.rdf)
    if not are_asked:
        absent = sorted(classes - stands_for.keys())
        expanded = expanded.difference(absent) | (wanted if lists.others else set())
        if stands_for:
            yield Notice(f"Specialised types, from DBpedia's classes of the target's types: {', '.join(stands_for)}"
                         + (f"; the lists have none of {', '.join(absent)}." if absent else "."))  # fmt: skip
    for name, below in stands_for.items():
        if below != [name]:
            yield Notice(f"The type {name} stands for {', '.join(below[:12])}{', …' if len(below) > 12 else ''}.")
    return expanded
