"""The text of a category of Wikipedia, from a dump of it.

Paper: Liu et al. (2021), CrossNER, take the pages of a domain's category and of its sub-categories as its raw text.
Differs: their depth is not published; here ``depth`` bounds it, as most of Wikipedia lies below any category.
Categories that only a template puts a page into are not found, because no template is expanded.
"""

from __future__ import annotations

import difflib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crossner_cli.corpus.mediawiki_dump import ARTICLE, CATEGORY, DumpReader, Page, Site
from crossner_cli.corpus.wikitext import UNCLOSED, make_category_finder, make_paragraph_finder
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, Work

GROUPS_BETWEEN_SIGNS = 8  # of 256 KiB at most
NEAREST = 8


@dataclass
class CategoryGraph:
    """The categories above and below each other; circles are usual.

    Args:
        numbers: Number of each category by its name, without the namespace.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    _above: array[int] = field(default_factory=lambda: array("I"))
    _below: array[int] = field(default_factory=lambda: array("I"))

    def add(self, name: str, parents: Sequence[str]) -> None:
        """Add a category and those that it is in."""
        below = self.numbers.setdefault(name, len(self.numbers))
        for parent in parents:
            self._above.append(self.numbers.setdefault(parent, len(self.numbers)))
            self._below.append(below)

    def reach(self, names: Sequence[str], depth: int) -> dict[str, int]:
        """Return the categories at most ``depth`` steps below those named, with their least number of steps."""
        above, below = np.array(self._above, dtype=np.uint32), np.array(self._below, dtype=np.uint32)
        level = np.unique(np.array([self.numbers[name] for name in names], dtype=np.uint32))
        steps = dict.fromkeys(level.tolist(), 0)
        for step in range(1, depth + 1):
            level = np.unique(below[np.isin(above, level)])
            level = level[[number not in steps for number in level.tolist()]] if len(level) else level
            if not len(level):
                break
            steps.update(dict.fromkeys(level.tolist(), step))
        return {name: steps[number] for name, number in self.numbers.items() if number in steps}

    def nearest(self, name: str) -> list[str]:
        """Return names like one that is not there: first those spelt alike, then those that hold it."""
        wanted = name.casefold()
        holding = [known for known in self.numbers if wanted in known.casefold()]
        holding.sort(key=lambda known: (len(known), known))
        alike = [known for known in self.numbers if known[:1] == name[:1] and abs(len(known) - len(name)) <= 4]
        return list(dict.fromkeys([*difflib.get_close_matches(name, alike, 3), *holding]))[:NEAREST]


def write_articles(dumps: Sequence[Path], path: Path, *, categories: Sequence[str], depth: int) -> Work[dict[str, Any]]:
    """Write the text of a wiki's articles, a paragraph a line, in constant memory apart from the category graph.

    With categories the dumps are read twice: for the graph, then for the articles.

    Args:
        dumps: A dump, or the parts of one.
        path: Where to write.
        categories: Only the articles of these and of those below; none takes every article.
        depth: Steps below a category that count; 0 is the category alone.

    Returns:
        Pages read, redirects, articles kept, paragraphs, and categories and articles by steps.

    Raises:
        CrossNERError: A category is not in the dump, no article is, or a dump is cut off or broken.
    """
    reached: dict[str, int] = {}
    if categories:
        graph = yield from _read_graph(dumps)
        reached = graph.reach(_check_categories(graph, categories, dumps), depth)
        steps = Counter(reached.values())
        shown = ", ".join(f"{steps[step]} at depth {step}" for step in sorted(steps))
        yield Notice(f"Categories reached from {', '.join(categories)}: {shown}.")
        del graph
    counts = yield from _write_kept(dumps, path, reached)
    if not counts["kept"]:
        raise CrossNERError(
            f"None of the {counts['articles']} articles of {', '.join(map(str, dumps))} is in the categories"
            f" {', '.join(categories)}, {depth} steps deep.",
            hint="Raise --category-depth, or name another --wikipedia-category.",
        )
    text = (
        f"Wikipedia: {counts['pages']:,} pages read, {counts['redirects']:,} redirects skipped, {counts['kept']:,} of"
    )
    text += f" {counts['articles']:,} articles kept with {counts['paragraphs']:,} paragraphs"
    if counts["malformed"]:
        text += f"; {counts['malformed']:,} left out for more than {UNCLOSED} brackets that are never closed"
    yield Notice(f"{text}.")
    return {
        "categories": list(categories),
        "depth": depth,
        "categories_by_depth": [Counter(reached.values())[step] for step in sorted(set(reached.values()))],
        **dict(counts),
    }


def _read_graph(dumps: Sequence[Path]) -> Work[CategoryGraph]:
    graph, counts = CategoryGraph(), Counter[str]()
    for reader, page, find in _pages(dumps, CATEGORY, counts, make_category_finder):
        if page is None:
            yield _sign("read categories", dumps, reader, len(graph.numbers), "categories")
        elif not page.is_redirect:
            name = page.title.partition(":")[2]
            graph.add(reader.site.normalise(name), find(page.text))
    return graph


def _write_kept(dumps: Sequence[Path], path: Path, reached: dict[str, int]) -> Work[Counter[str]]:
    """Write the articles that are in a category reached, or all of them if none is named."""
    counts = Counter(dict.fromkeys(("pages", "redirects", "articles", "kept", "paragraphs", "malformed"), 0))
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for reader, page, finders in _pages(dumps, ARTICLE, counts, _make_finders):
            if page is None:
                yield _sign("read articles", dumps, reader, counts["kept"], "articles kept")
                continue
            if page.is_redirect:
                continue
            find, extract = finders
            counts["articles"] += 1
            if reached and reached.keys().isdisjoint(find(page.text)):
                continue
            paragraphs = extract(page.text)
            counts["malformed" if paragraphs is None else "kept"] += 1
            counts["paragraphs"] += len(paragraphs or ())
            stream.writelines(f"{paragraph}\n" for paragraph in paragraphs or ())
    return counts


def _make_finders(site: Site) -> tuple[Callable[[str], list[str]], Callable[[str], list[str] | None]]:
    return make_category_finder(site), make_paragraph_finder(site)


def _pages(
    dumps: Sequence[Path], namespace: int, counts: Counter[str], make: Callable[[Site], Any]
) -> Iterator[tuple[DumpReader, Page | None, Any]]:
    """Read the pages of one namespace, with what ``make`` returns for their wiki; now and then None, for progress."""
    for path in dumps:
        reader = DumpReader(path, {namespace})
        made = None
        for number, group in enumerate(reader.groups()):
            made = made or (make(reader.site) if group else None)
            for page in group:
                yield reader, page, made
            if number % GROUPS_BETWEEN_SIGNS == 0:
                yield reader, None, made
        counts.update(reader.counts)


def _sign(task: str, dumps: Sequence[Path], reader: DumpReader, number: int, what: str) -> Progress:
    before = sum(path.stat().st_size for path in dumps[: dumps.index(reader.path)])
    total = before + sum(path.stat().st_size for path in dumps[dumps.index(reader.path) :])
    done = min(before + reader.position(), total)
    return Progress(task, done, total, "bytes", {what: float(number)})


def _check_categories(graph: CategoryGraph, categories: Sequence[str], dumps: Sequence[Path]) -> list[str]:
    """Return the names of categories as the wiki stores them."""
    found = []
    for category in categories:
        forms = [category, Site().normalise(category), Site().normalise(category.partition(":")[2])]
        name = next((form for form in forms if form and form in graph.numbers), None)
        if name is None:
            nearest = graph.nearest(Site().normalise(category))
            files = ", ".join(map(str, dumps))
            raise CrossNERError(
                f"{files}: there is no category {category!r} among {len(graph.numbers)} categories.",
                hint=f"The nearest names: {', '.join(nearest)}." if nearest else "Name one without its namespace.",
            )
        found.append(name)
    return found
