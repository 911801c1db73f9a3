"""Figures as PNG and SVG, drawn by matplotlib without a display; the same data give the same file."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_cli import figures
from crossner_cli.run.environment import import_optional

if TYPE_CHECKING:
    from crossner_cli.reports.inspection import InspectedSentence, PlacedWord
    from crossner_cli.reports.report_tables import Curves

MARKERS = "osD^vP*X<>"
LONGEST_NAME = 24
# SVG keeps letters as letters, and a dollar sign does not begin a formula.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "crossner",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.usetex": False,
    "font.size": 8.0,
}


def check_plots() -> None:
    """Refuse to draw without matplotlib, which is part of the pip extra ``plots``."""
    import_optional("matplotlib", "Figures are drawn with matplotlib", extra="plots")


@contextlib.contextmanager
def figure(width: float, height: float, *paths: Path) -> Iterator[Any]:
    """Give a figure of this size in inches to draw on, and write it to the paths, each in the format of its ending.

    Raises:
        CrossNERError: matplotlib is not installed.
    """
    check_plots()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # drawn as a box; SVG keeps the letter
        drawn = Figure(figsize=(width, height), layout="constrained")
        yield drawn
        for path in paths:
            metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
            drawn.savefig(path, dpi=150, metadata=metadata)


def plot_curves(curves: Curves, title: str, folder: Path) -> list[str]:
    """Draw means over seeds with bars of one deviation; return the names of the files."""
    names = [f"curve-{curves.x}.png", f"curve-{curves.x}.svg"]
    with figure(6.4, 4.2, *(folder / name for name in names)) as drawn:
        axes = drawn.add_subplot(title=title, xlabel=curves.x_title, ylabel=curves.y)
        for number, (name, points) in enumerate(curves.cells().groupby("series", sort=False)):
            points = points.droplevel("series").sort_index()
            axes.errorbar(
                points.index,
                points["mean"],
                yerr=points["std"].fillna(0.0),
                label=name,
                marker=MARKERS[number % len(MARKERS)],
                markersize=5,
                capsize=3,
            )
        axes.grid(alpha=0.3)
        axes.legend()
    return names


def plot_weights(sentence: InspectedSentence, name: str, path: Path) -> None:
    """Draw the weights, from 0 to 1, of a sentence's words with their tags."""
    weights = sentence.weights[name]
    columns, rows = len(weights.columns), len(sentence.words)
    with figure(2.6 + 0.22 * columns, 1.6 + 0.19 * rows, path) as drawn:
        axes = drawn.add_subplot(title=name)
        image = axes.imshow(weights.values, cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_xticks(range(columns), [_short(column) for column in weights.columns], rotation=90)
        words = [f"{_short(word)}  {tag}" for word, tag in zip(sentence.words, sentence.tags, strict=True)]
        axes.set_yticks(range(rows), words)
        drawn.colorbar(image, ax=axes, label="share")


def plot_states(words: Sequence[PlacedWord], title: str, path: Path) -> None:
    """Draw words on a plane: the colour shows the entity type, the marker the domain."""
    from matplotlib import colormaps

    types = sorted({word.type for word in words})
    markers = dict(zip(dict.fromkeys(word.domain for word in words), itertools.cycle(MARKERS)))
    with figure(8.0, 5.6, path) as drawn:
        axes = drawn.add_subplot(title=title, xticks=[], yticks=[])
        for entity_type, domain in sorted({(word.type, word.domain) for word in words}):
            points = [(word.x, word.y) for word in words if (word.type, word.domain) == (entity_type, domain)]
            colour = colormaps["turbo"](types.index(entity_type) / len(types))
            label = f"{_short(entity_type)} ({_short(domain)})"
            axes.scatter(*zip(*points, strict=True), label=label, color=[colour], marker=markers[domain], s=14)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _short(name: str) -> str:
    """Shorten a name so that it fits on one line of an axis."""
    return figures.printable(name, keep="")[:LONGEST_NAME]
