"""A tagger to be trained, made from a start, and the record of what carried over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from crossner_cli import figures
from crossner_cli.data.tags import TagSet, split_tag
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.pretrained import read_tensors
from crossner_cli.encoders.start import EncoderStart, Start, TaggerDesign
from crossner_cli.encoders.word_shapes import WORD_SHAPES
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.settings import settings_to_compare
from crossner_cli.methods.contract import Tagger, find_method, head_tensors
from crossner_cli.run.results import CarryOver
from crossner_cli.taggers.description import is_tagger_folder, read_description
from crossner_cli.taggers.folder import TENSORS


def reads_transformer(design: TaggerDesign) -> bool:
    """Return whether a transformer is read; else the encoder need not exist."""
    return find_method(design.name).encoder_class.reads_transformer(design.settings)


def check_start(design: TaggerDesign, start: Start) -> None:
    """Refuse a start that lacks parts that the tagger reads, or has none of them."""
    find_method(design.name).encoder_class.check_start(design, start)


def note_on_settings(design: TaggerDesign, start: Start) -> str | None:
    """Return a warning about settings that differ from those of a start of the same method; None without any."""
    if start.folder is None or not is_tagger_folder(start.folder):
        return None
    before, now = read_description(start.folder), settings_to_compare(design.settings)
    changed = [
        f"{key}={figures.setting(value)} (here {figures.setting(now[key])})"
        for key, value in before.settings.items()
        if key in now and value != now[key]
    ]
    if before.method != design.name or not changed:
        return None
    return f"The start {start.name!r} was trained with {', '.join(changed)}; settings are not inherited (--set)."


def start_tagger(
    start: Start,
    design: TaggerDesign,
    tag_set: TagSet,
    seed: int,
    engine: Engine,
    known: Any = None,
) -> tuple[Tagger, CarryOver]:
    """Make the tagger that a stage trains.

    Rows of the types that start and new tagger share carry over, others start fresh, from this seed. ``known`` is the
    method's data from files that it reads beside labelled sentences.

    Raises:
        CrossNERError: No weight of the start fits.
    """
    torch.manual_seed(seed)
    folder, method = start.folder_for(seed), find_method(design.name)
    carried = CarryOver(start.name)
    of_tagger = folder is not None and is_tagger_folder(folder)
    encoder = method.encoder_class.start(
        EncoderStart(design, start.transformer_for(seed), folder, of_tagger, engine.attention, known, carried)
    )
    if folder is not None:
        _count_unread_files(folder, encoder, carried)
    encoder.prepare_for_training(on_cpu=engine.on_cpu, attention_dropout=design.attention_dropout)
    tagger = method(encoder, tag_set, design.settings)
    if folder is not None and of_tagger:
        carry_over(tagger, folder, carried)
    else:
        carried.add(0, head_tensors(tagger))
        carried.fresh_types = list(tag_set.types)
    if folder is not None and not carried.loaded:
        raise CrossNERError(
            f"The start {start.name!r} gives no weight: no tensor of {folder} has the name and size of one of this "
            f"{design.name} tagger.",
            hint="Give it the method and the sizes (--set) of the start, or start from base.",
        )
    return tagger, carried


def _count_unread_files(folder: Path, encoder: Encoder, carried: CarryOver) -> None:
    """Count the tensors of the files of a start that the new encoder does not read."""
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != TENSORS and not any(path.match(pattern) for pattern in encoder.files):
            count_unread_file(path, carried, prefix="encoder.shapes." if path.name == WORD_SHAPES else "encoder.")


def count_unread_file(path: Path, carried: CarryOver, *, prefix: str) -> None:
    """Count the tensors of a file of the start as left, if there is such a file."""
    if path.is_file():
        with safe_open(path, "numpy") as tensors:
            carried.add(0, (), tensors.keys(), prefix=prefix)


def carry_over(tagger: Tagger, folder: Path, carried: CarryOver) -> None:
    """Copy the tensors above the encoder: whole, or row by row where they have rows for tags.

    Tensors with a row per word take those of the start's words, if these come first in the new tagger.
    """
    description = read_description(folder)
    old_set, taught = description.tag_set, description.taught_types
    old = tagger.adopt(read_tensors(folder / TENSORS), old_set, description.settings)
    new = head_tensors(tagger)
    new_set, by_type = tagger.tag_set, tagger.rows.types
    # The rows of types without labels have learnt never to be chosen.
    tag_rows = _shared_rows(new_set.tags, old_set.tags, lambda tag: tag == "O" or split_tag(tag)[1] in taught)
    type_rows = _shared_rows(("", *new_set.types), ("", *old_set.types), lambda _: True)  # O comes first
    taken: list[str] = []
    fresh: list[str] = []
    learnt = {name for name, _ in tagger.named_parameters()}
    # Taggers that read descriptions learn no row per type: all their weights separate types.
    rows_of = {name: by_type.get(name) or tagger.rows.tags.get(name, ()) for name in new}
    by_rows = any(rows_of[name] for name in learnt & rows_of.keys())
    has_rows, lost_rows = False, False
    for name, value in new.items():
        if name in tagger.rows.words and name in old:
            is_kept = value.shape[1:] == old[name].shape[1:] and tagger.encoder.keeps_words(folder)
            if is_kept:
                value[: len(old[name])] = old[name]  # the state dict shares memory with the parameters
            (taken if is_kept else fresh).append(name)
            continue
        dimensions = rows_of[name]
        if name not in old or not _fits(value, old[name], dimensions):
            fresh.append(name)
            lost_rows = lost_rows or (name in old and bool(dimensions)) or (name in learnt and not by_rows)
            continue
        _copy_rows(value, old[name], dimensions, *(type_rows if name in by_type else tag_rows))
        taken.append(name)
        has_rows = has_rows or bool(dimensions)
    carried.add(len(taken), fresh, [name for name in old if name not in taken])
    # If the weights that separate types have another size, a bias or transitions alone carry no type over.
    carries = (has_rows or not by_rows) and not lost_rows
    carried.carried_types = [each for each in new_set.types if carries and each in taught]
    carried.fresh_types = [each for each in new_set.types if each not in carried.carried_types]


def _shared_rows(
    new: tuple[str, ...], old: tuple[str, ...], is_kept: Callable[[str], bool]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the positions of the kept names that both have, in the new and in the old ones."""
    shared = [name for name in new if name in old and is_kept(name)]
    return torch.tensor([new.index(name) for name in shared]), torch.tensor([old.index(name) for name in shared])


def _copy_rows(
    new: torch.Tensor, old: torch.Tensor, tag_dimensions: tuple[int, ...], into: torch.Tensor, out_of: torch.Tensor
) -> None:
    """Copy what belongs to shared tags, in each dimension that counts tags; without such a dimension, everything."""
    if not tag_dimensions:
        new.copy_(old)
        return
    for dimension in tag_dimensions:
        old = old.index_select(dimension, out_of)
    places = (into if size in tag_dimensions else torch.arange(new.shape[size]) for size in range(new.dim()))
    new[torch.meshgrid(*places, indexing="ij")] = old


def _fits(new: torch.Tensor, old: torch.Tensor, tag_dimensions: tuple[int, ...]) -> bool:
    """Return whether two tensors agree in every dimension that does not count tags."""
    if new.dim() != old.dim():
        return False
    return all(new.shape[place] == old.shape[place] for place in range(new.dim()) if place not in tag_dimensions)
