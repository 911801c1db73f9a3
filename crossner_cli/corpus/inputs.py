"""The raw text of a run: dumps become text, RDF and training sentences lists of names, then levels are selected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crossner_cli.corpus.dbpedia import SPECIALISED_CLASSES, RdfNames, expand_types, write_names
from crossner_cli.corpus.levels import TEXTS, check_selection, open_work_folder, write_levels
from crossner_cli.corpus.mediawiki_dump import is_dump
from crossner_cli.corpus.raw_files import remove_repeated
from crossner_cli.corpus.selection import Selection
from crossner_cli.corpus.triples import is_triples
from crossner_cli.corpus.wikipedia import write_articles
from crossner_cli.data.labelled import LabelledDomain
from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import read_record, write_json

TRAIN = Path("train")  # the value of --entities that stands for the training sentences of the target


@dataclass(frozen=True, kw_only=True)
class CorpusInputs:
    """The files that a corpus is made of: text, folders and dumps; lists of names, RDF, or ``train``.

    From a dump, the articles of ``categories`` and of those at most ``category_depth`` steps below are taken; without
    categories all.
    """

    corpus: Sequence[Path]
    entities: Sequence[Path] = ()
    categories: Sequence[str] = ()
    category_depth: int = 3


@dataclass(frozen=True)
class EntityLists:
    """Lists of names; the names found in RDF; if there are other lists; the manifest's record."""

    paths: list[Path]
    rdf: RdfNames | None = None
    has_others: bool = False
    record: dict[str, Any] = field(default_factory=dict)


def write_corpus(
    folder: Path, inputs: CorpusInputs, selection: Selection, labelled: Mapping[str, LabelledDomain]
) -> Work[dict[str, Any]]:
    """Write the corpus levels, without the sentences that taggers of either domain are selected and scored on.

    An interrupted call leaves in ``folder/.selection`` what it has done, the text of a dump and the parts selected; the
    same call continues from there.

    Args:
        folder: Where to write.
        inputs: What to read.
        selection: How to select; without ``specialised_types``, the target's types that the source lacks are taken.
        labelled: The labelled domains by role; the sentences of their dev and test are left out.

    Returns:
        What was read, dropped and selected.

    Raises:
        CrossNERError: An input cannot be read, or a level cannot be made.
    """
    with open_work_folder(folder) as work, TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as made:
        train = labelled["target"].splits.get("train") if "target" in labelled else None
        lists = yield from make_lists(inputs.entities, Path(made), train=train)
        types = yield from choose_types(selection.specialised_types, lists, labelled)
        held_out = [domain.splits.get(split, []) for domain in labelled.values() for split in ("dev", "test")]
        excluded = frozenset(make_leak_key(" ".join(sentence.words)) for split in held_out for sentence in split)
        selection = replace(selection, specialised_types=types, excluded=excluded)
        # Reading a dump takes hours, so problems are refused before.
        if any(map(is_dump, inputs.corpus)):
            check_selection(lists.paths, selection)
        texts, wikipedia = yield from extract_dumps(
            inputs.corpus, work / TEXTS, categories=inputs.categories, depth=inputs.category_depth
        )
        found: dict[str, Any] = yield from write_levels(texts, lists.paths, folder, selection)
    read = {"wikipedia": wikipedia, "lists": lists.record}
    return found | {name: record for name, record in read.items() if record}


def extract_dumps(
    corpus: Sequence[Path], folder: Path, *, categories: Sequence[str], depth: int
) -> Work[tuple[list[Path], dict[str, Any]]]:
    """Replace a dump by the text of its articles, which is written to ``folder``; several dumps are parts of one.

    The text that an interrupted call has written there is used.

    Returns:
        The corpus without dumps, and what was read of them.

    Raises:
        CrossNERError: There are categories and no dump, or a dump cannot be read.
    """
    dumps = remove_repeated([path for path in corpus if is_dump(path)])
    if not dumps:
        if categories:
            raise CrossNERError(
                f"--wikipedia-category {categories[0]} needs a MediaWiki dump, and --corpus names none.",
                hint="Add --corpus enwiki-latest-pages-articles.xml.bz2",
            )
        return list(corpus), {}
    path, record_path = folder / "wikipedia.txt", folder / "wikipedia.json"
    if record_path.exists():
        yield Notice("The dump was read before the interruption; its text is used.")
        record = read_record(record_path)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{path.name}.draft"
        try:
            record = yield from write_articles(dumps, draft, categories=categories, depth=depth)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        write_json(record_path, record)
    return [path, *(each for each in corpus if not is_dump(each))], record


def make_lists(entities: Sequence[Path], folder: Path, *, train: Sequence[Sentence] | None) -> Work[EntityLists]:
    """Make lists of names of the values of ``--entities``: lists, RDF files, or ``train``.

    Raises:
        CrossNERError: There are no training sentences, or RDF cannot be read.
    """
    paths = [path for path in entities if path != TRAIN and not is_triples(path)]
    triples = [path for path in entities if is_triples(path)]
    record: dict[str, Any] = {}
    if TRAIN in entities:
        paths.append(folder / "train.tsv")
        record["train"] = _write_mentions(paths[-1], train)
    has_others = bool(paths)
    rdf = None
    if triples:
        paths.append(folder / "rdf.tsv")
        rdf = yield from write_names(triples, paths[-1])
        record["rdf"] = {**rdf.counts, "types": dict(sorted(rdf.types.items()))}
    return EntityLists(paths, rdf, has_others, record)


def _write_mentions(path: Path, train: Sequence[Sentence] | None) -> dict[str, int]:
    """Write the entities of training sentences as a list of names."""
    mentions = Counter(
        (" ".join(" ".join(sentence.words[start:end]).split()), entity_type)
        for sentence in train or ()
        for start, end, entity_type in to_spans(sentence.tags or ())
    )
    if not mentions:
        raise CrossNERError(
            "--entities train: the target has no training sentences with entities.",
            hint="Add --target DATASET with train sentences, or give a list; a file of that name is ./train.",
        )
    path.write_text("".join(f"{name}\t{entity_type}\n" for name, entity_type in mentions), encoding="utf-8")
    return {"mentions": mentions.total(), "names": len(mentions)}


def choose_types(
    asked: frozenset[str] | None, lists: EntityLists, labelled: Mapping[str, LabelledDomain]
) -> Work[frozenset[str] | None]:
    """Choose the specialised types, in the words of the lists.

    If no types are asked for, the target's types that the source lacks are taken, and where a list has classes of
    DBpedia, the classes special to a domain of such types.

    Returns:
        Types of names in the lists, or None without a target; types without a name only if they were asked for, or if
        there are other lists than RDF.
    """
    wanted = asked
    if wanted is None and "target" in labelled:
        wanted = frozenset(labelled["target"].types).difference(
            labelled["source"].types if "source" in labelled else ()
        )
    if wanted is None or lists.rdf is None:
        return wanted
    classes = set(wanted)
    if asked is None:
        classes = {name for entity_type in wanted for name in SPECIALISED_CLASSES.get(entity_type, "").split()}
    expanded, stands_for = expand_types(classes, lists.rdf)
    if asked is None:
        absent = sorted(classes - stands_for.keys())
        expanded = expanded.difference(absent) | (wanted if lists.has_others else set())
        if stands_for:
            without = f"; the lists have none of {', '.join(absent)}." if absent else "."
            yield Notice(
                f"Specialised types, from DBpedia's classes of the target's types: {', '.join(stands_for)}{without}"
            )
    for name, below in stands_for.items():
        if below != [name]:
            yield Notice(f"The type {name} stands for {', '.join(below[:12])}{', …' if len(below) > 12 else ''}.")
    return frozenset(expanded)
