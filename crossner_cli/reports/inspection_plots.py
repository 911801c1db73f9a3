"""Figures of what is inside a tagger: heat maps of weights, and words on a plane. What words say is drawn as it is."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_cli.reports.inspection import Floats, HeatMap, missing_plots

MARKERS = "osD^vP*X<>"
LONGEST_NAME = 24
# The same data give the same file; letters stay letters, and none of them is read as a formula.
STYLE: dict[Any, Any] = {"svg.hashsalt": "crossner", "svg.fonttype": "none", "text.parse_math": False, "font.size": 8.0,
         "text.usetex": False}  # fmt: skip


def draw_heat_map(heat_map: HeatMap, words: Sequence[str], tags: Sequence[str], title: str, path: Path) -> None:
    """Draw words, with their tags, against what is weighed.

    Args:
        heat_map: Weights from 0 to 1.
        words: Of the sentence.
        tags: Of its words.
        title: Above the figure.
        path: Its ending, .svg or .png, tells the format.

    Raises:
        CrossNERError: matplotlib is not installed.
    """
    columns, rows = len(heat_map.columns), len(words)
    with figure(2.6 + 0.22 * columns, 1.6 + 0.19 * rows, path) as drawn:
        axes = drawn.add_subplot()
        image = axes.imshow(heat_map.values, cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_xticks(range(columns), [short(name) for name in heat_map.columns], rotation=90)
        axes.set_yticks(range(rows), [f"{short(word)}  {tag}" for word, tag in zip(words, tags, strict=True)])
        axes.set_title(title)
        drawn.colorbar(image, ax=axes, label="share")


def draw_states(plane: Floats, types: Sequence[str], domains: Sequence[str], title: str, path: Path) -> None:
    """Draw words on a plane twice: coloured by entity type, and by domain; marks are of domains in both.

    Args:
        plane: Places of the words, (N, 2).
        types: Entity type of each.
        domains: Domain of each.
        title: Above the figure.
        path: Its ending, .svg or .png, tells the format.

    Raises:
        CrossNERError: matplotlib is not installed.
    """
    names = list(dict.fromkeys(domains))
    with figure(12.0, 5.6, path) as drawn:
        for axes, groups, what in zip(drawn.subplots(1, 2), (types, domains), ("entity type", "domain"), strict=True):
            for color, group in zip(colors(sorted(set(groups))), sorted(set(groups)), strict=True):
                for number, domain in enumerate(names):
                    places = [place for place, pair in enumerate(zip(groups, domains, strict=True))
                              if pair == (group, domain)]  # fmt: skip
                    both = groups is types and len(names) > 1
                    label = short(group) + (f" ({short(domain)})" if both else "")
                    if places:
                        axes.scatter(*plane[places].T, s=14, color=color, marker=MARKERS[number % len(MARKERS)],
                                     linewidths=0, alpha=0.8, label=label)  # fmt: skip
            axes.set_title(f"by {what}")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        drawn.suptitle(title)


@contextlib.contextmanager
def figure(width: float, height: float, path: Path) -> Iterator[Any]:
    """A figure of so many inches that is written when it has been drawn; no window is opened."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_plots() from None
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # drawn as a box; SVG keeps the letter
        drawn = Figure(figsize=(width, height), layout="constrained")
        yield drawn
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        drawn.savefig(path, dpi=150, metadata=metadata)


def colors(groups: Sequence[str]) -> list[Any]:
    """A colour for each group, as far apart as may be."""
    from matplotlib import colormaps

    for name, most in (("tab10", 10), ("tab20", 20)):
        if len(groups) <= most:
            return [colormaps[name](number) for number in range(len(groups))]
    return [colormaps["turbo"](number / len(groups)) for number in range(len(groups))]


def short(name: str) -> str:
    """A name as an axis has room for, on one line; an underscore in front would hide it from a legend."""
    text = "".join(letter if letter.isprintable() else " " for letter in name)
    text = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
    return f" {text}" if text.startswith("_") else text
