"""The look-up of methods by name, in the files of this package and in other packages. It imports no torch.

A method of this package has the name of its file, whose ``METHOD`` is its class. Another package names its class as an
entry point of the group ``crossner.methods``, as in ``my-tagger = "my_package.tagger:MyTagger"``.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points

from crossner_cli.errors import CrossNERError, suggest

FOLDERS = ("crossner_cli.methods", "crossner_cli.recurrent.methods")
SHARED = {"contract", "inputs", "lookup", "wordwise"}  # modules that are not methods
GROUP = "crossner.methods"


@dataclass(frozen=True)
class Place:
    """The module that defines a method, and the name of its class there."""

    module: str
    attribute: str = "METHOD"


def find_places() -> dict[str, Place]:
    """Find every method by name; a name of this package's wins over one of another package."""
    own = {
        module.name.replace("_", "-"): Place(f"{folder}.{module.name}")
        for folder in FOLDERS
        for module in pkgutil.iter_modules(import_module(folder).__path__)
        if module.name not in SHARED and not module.ispkg
    }
    others = {each.name: Place(each.module, each.attr) for each in entry_points(group=GROUP)}
    return dict(sorted({**others, **own}.items()))


def find_place(name: str) -> Place:
    """Find a method; refuse a name that no method has."""
    places = find_places()
    if name not in places:
        raise CrossNERError(
            f"There is no method {name!r}.", hint=f"{suggest(name, places)}Methods: {', '.join(places)}."
        )
    return places[name]
