"""Curves as pictures, PNG and SVG, drawn by matplotlib without a display."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.reports.curves import Curves

INCHES, DOTS_PER_INCH = (6.4, 4.2), 160
MARKERS = "osD^vP*X"
# The same picture makes the same file, without random names of its parts; a dollar sign begins no formula.
FIXED: Any = {"svg.hashsalt": "crossner", "svg.fonttype": "none", "text.parse_math": False}


def check_plots() -> None:
    """Refuse where the library is not there.

    Raises:
        CrossNERError: It is the pip extra ``plots``.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise CrossNERError(
            "Plots need matplotlib, which is not installed.",
            hint="pip install 'crossner[plots]'; without --output the numbers are shown as a table.",
        ) from None


def plot_curves(curves: Curves, title: str, folder: Path, name: str) -> list[str]:
    """Write ``NAME.png`` and ``NAME.svg``: means over seeds, bars of one deviation; return the file names.

    Raises:
        CrossNERError: matplotlib is not installed.
    """
    check_plots()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [f"{name}.png", f"{name}.svg"]
    with matplotlib.rc_context(FIXED):
        figure = Figure(figsize=INCHES, layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure.add_subplot(), curves, title)
        figure.savefig(folder / names[0], dpi=DOTS_PER_INCH, metadata={"Software": None})
        figure.savefig(folder / names[1], metadata={"Date": None, "Creator": None})
    return names


def _draw(axes: Any, curves: Curves, title: str) -> None:
    for number, (name, points) in enumerate(curves.series.items()):
        axes.errorbar(
            [point.x for point in points], [point.mean for point in points],
            yerr=[point.deviation or 0.0 for point in points], label=_plain(name), capsize=3, linewidth=1.6,
            markersize=5, marker=MARKERS[number % len(MARKERS)],
        )  # fmt: skip
    axes.set_xlabel(_plain(curves.x_title))
    axes.set_ylabel(curves.y)
    axes.set_title(_plain(title))
    axes.grid(alpha=0.3)
    axes.legend()


def _plain(text: str) -> str:
    """Text whose leading underscore does not hide a name from the legend."""
    return f" {text}" if text.startswith("_") else text
