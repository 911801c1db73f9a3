"""Sources of weights: a stage of a run, a stage's folder, a tagger's folder, an encoder; never "the latest".

This module imports no torch, so that a name that does not exist is refused at once.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from crossner_cli.encoders.names import MINILM, STRINGS, digest_encoder, resolve_encoder
from crossner_cli.encoders.start import Start
from crossner_cli.errors import CrossNERError, suggest, suggest_path
from crossner_cli.run.directory import (
    MANIFEST,
    PREVIOUS,
    Manifest,
    RunDirectory,
    check_outputs,
    digest_model,
    digest_stage,
    propose_tagger,
    read_manifest,
)
from crossner_cli.run.freshness import describe_changed, find_outdated
from crossner_cli.run.records import read_result
from crossner_cli.run.results import SeedResult, TrainResult
from crossner_cli.run.storage import digest_folder
from crossner_cli.taggers.description import DESCRIPTION, is_tagger_folder

BASE = "base"  # the untouched encoder


@dataclass(frozen=True)
class TrainedTagger:
    """A tagger on disk.

    The label is the stage's name or the path, as the user gave it; the digest is that of the stage's manifest, or of
    the folder. A tagger folder alone has neither seed nor manifest.
    """

    label: str
    folder: Path
    digest: str
    seed: int | None = None
    dev_f1: float | None = None
    manifest: Manifest | None = None

    def check_unchanged(self) -> None:
        """Refuse files that differ from those in the stage's manifest: it was made again, edited, or copied in part."""
        if self.manifest is None:
            return
        hint = f"Give the command again; if you changed it yourself, give --model {shlex.quote(str(self.folder))}."
        check_outputs(self.folder.parent, self.folder, hint=hint)
        if digest_model(self.folder.parent) != self.digest:
            raise CrossNERError(
                f"{self.folder.parent} was made again while it was read.", hint="Give the command again."
            )


def find_start(run: RunDirectory, name: str, encoder: str | None, *, wanted_by: str) -> Start:
    """Find the weights of ``--start-from``: ``base``, a stage of this run, a stage folder, or a model folder.

    ``base`` stands for ``encoder``, which is None where no transformer is read.

    Raises:
        CrossNERError: Nothing has that name, or it has no weights to start from.
    """
    folder = check_start_name(run, name, encoder, wanted_by=wanted_by)
    if folder is None:
        if encoder is None:
            return Start(BASE, None, "nothing")
        digest = digest_encoder(encoder)
        return Start(BASE, None, digest, lineage=[{"encoder": encoder, "digest": digest}], encoder=encoder)
    if (folder / MANIFEST).is_file():
        return _start_from_stage(name, folder)
    digest = digest_model(folder)
    return Start(name, folder, digest, folder, lineage=[{"folder": str(folder), "digest": digest}])


def check_start_name(run: RunDirectory, name: str, encoder: str | None, *, wanted_by: str) -> Path | None:
    """Return the folder that ``--start-from`` names, None for ``base``; refuse as ``find_start`` does."""
    if name == BASE:
        if encoder is not None:
            resolve_encoder(encoder)
        return None
    folder = _find_folder(run, name, f"{wanted_by}: --start-from {name!r} is neither {BASE}, a finished stage")
    if not any((folder / file).is_file() for file in (MANIFEST, DESCRIPTION, "config.json")):
        raise CrossNERError(
            f"{wanted_by}: {folder} holds neither a finished stage ({MANIFEST}) nor a model (config.json).",
            hint="Give the folder of a stage such as RUN/dapt, or of a Hugging Face encoder.",
        )
    return folder


def notes_on_start(start: Start, run: RunDirectory, encoder: str | None) -> list[str]:
    """Return warnings about a start that was made from other data than the run's, or from another ``--encoder``."""
    notes = []
    changed = find_outdated(run).get(start.name, []) if start.place == run.folder(start.name) else []
    if changed:
        notes.append(f"The start {start.name!r} is out of date: {describe_changed(changed)}.")
    made_from = start.lineage[0].get("encoder") if start.lineage else None
    if encoder not in (None, MINILM, made_from) and start.has_transformer:
        notes.append(
            f"--encoder {encoder} is ignored: the encoder is that of {start.name!r} ({made_from or start.place})."
        )
    return notes


def _start_from_stage(name: str, folder: Path) -> Start:
    manifest, digest = read_manifest(folder), digest_model(folder)
    lineage = [*manifest.get("lineage", []), {"stage": manifest["stage"], "name": manifest["name"], "digest": digest}]
    if (folder / "encoder").is_dir():
        return Start(name, folder / "encoder", digest, folder, lineage=lineage)
    if (folder / STRINGS).is_file():
        raise CrossNERError(
            f"The stage {manifest['name']!r} holds language models of characters, from which a tagger cannot start.",
            hint=f"Read them: --set strings=frozen --set string_embeddings={name}",
        )
    seeds = _read_seeds(manifest)
    if not seeds:
        raise CrossNERError(
            f"The stage {manifest['name']!r} ({manifest['stage']}) in {folder} holds no weights to start from.",
            hint="Start from base, or from a dapt, pretrain-source, finetune or joint-train stage.",
        )
    best = max(seeds.values(), key=lambda record: record.dev_f1 or 0.0)
    folders = {int(seed): folder / record.folder for seed, record in seeds.items()}
    return Start(name, folder / best.folder, digest, folder, folders, lineage)


def find_taggers(run: RunDirectory, names: list[str], *, wanted_by: str, flag: str = "--model") -> list[TrainedTagger]:
    """Find the taggers with these names, the values of an option, all seeds of each.

    A name is that of a stage of the run, the folder of a stage of any run, or a tagger's folder; it adds nothing if
    those before it name all its taggers. Without names, it is the one tagger stage of the run that no other tagger
    stage started from.

    Raises:
        CrossNERError: There is no tagger of a name; or without names, there are none or several.
    """
    found: list[TrainedTagger] = []
    known: set[Path] = set()
    for name, folder in find_folders(run, names, wanted_by=wanted_by, flag=flag).items():
        named = _read_taggers(run, name, folder, wanted_by)
        places = {tagger.folder.resolve() for tagger in named}
        # Some seeds of a stage are another model than all of them.
        if not places <= known:
            found += named
        known |= places
    return found


def notes_on_taggers(run: RunDirectory, taggers: list[TrainedTagger]) -> list[str]:
    """Return a note for each stage of the run whose taggers are out of date."""
    outdated = find_outdated(run)
    labels = dict.fromkeys(tagger.label for tagger in taggers if tagger.label in outdated)
    return [f"{label} was trained on earlier data: {describe_changed(outdated[label])}." for label in labels]


def best_on_dev(taggers: list[TrainedTagger]) -> TrainedTagger:
    """Return the tagger with the best dev F1, or the first if none was scored."""
    return max(taggers, key=lambda tagger: tagger.dev_f1 or 0.0)


def _find_tagger_stages(run: RunDirectory) -> dict[str, Manifest]:
    """List the finished stages of a run that hold taggers."""
    manifests = {name: run.read(name) for name in run.stages()}
    return {name: manifest for name, manifest in manifests.items() if _read_seeds(manifest)}


def find_folders(run: RunDirectory, names: list[str], *, wanted_by: str, flag: str = "--model") -> dict[str, Path]:
    """Find the folder of the stage or tagger of each name; refuse as ``find_taggers`` does."""
    folders: dict[str, Path] = {}
    for name in names or [_only_stage(run, wanted_by)]:
        folder = _find_folder(run, name, f"{wanted_by}: {flag} {name!r} is neither a finished stage")
        if not is_tagger_folder(folder) and not (folder / MANIFEST).is_file():
            raise CrossNERError(
                f"{wanted_by}: {folder} holds neither a finished stage ({MANIFEST}) nor a tagger ({DESCRIPTION}).",
                hint="Give the folder of a stage such as RUN/finetune, or of a tagger such as RUN/finetune/tagger.",
            )
        folders[name] = folder
    return folders


def _read_taggers(run: RunDirectory, name: str, folder: Path, wanted_by: str) -> list[TrainedTagger]:
    if is_tagger_folder(folder):
        return [TrainedTagger(name, folder, digest_folder(folder))]
    manifest = read_manifest(folder)
    seeds = _read_seeds(manifest)
    if not seeds:
        raise CrossNERError(
            f"{wanted_by}: the stage {name!r} ({manifest['stage']}) holds no tagger (tagger stages of {run.path}: "
            f"{', '.join(_find_tagger_stages(run)) or 'none'}).",
            hint="Name a pretrain-source, finetune or joint-train stage.",
        )
    digest = digest_stage(manifest)
    return [
        TrainedTagger(name, folder / record.folder, digest, int(seed), record.dev_f1, manifest)
        for seed, record in seeds.items()
    ]


def _only_stage(run: RunDirectory, wanted_by: str) -> str:
    """Find the name of the tagger stage at the end of the run's only chain."""
    stages = _find_tagger_stages(run)
    ends = [
        name
        for name in stages
        if not name.endswith(PREVIOUS)
        and not any(_started_from(run, name, manifest) for other, manifest in stages.items() if other != name)
    ]
    if len(ends) == 1:
        return ends[0]
    if not stages:
        raise CrossNERError(
            f"{wanted_by} needs a tagger, and {run.path} holds none (finished stages: "
            f"{', '.join(run.stages()) or 'none'}).",
            hint=f"Train one: crossner finetune --run {shlex.quote(str(run.path))}; or give --model FOLDER.",
        )
    scores = {name: read_result(stages[name], TrainResult).dev_f1 for name in ends or stages}
    listed = ", ".join(name if f1 is None else f"{name} (dev F1 {f1:.2f})" for name, f1 in scores.items())
    best = propose_tagger(scores)
    raise CrossNERError(
        f"{run.path} holds several taggers to choose from: {listed}.",
        hint=f"Name one: crossner {wanted_by} --model {shlex.quote(best)} --run {shlex.quote(str(run.path))}",
    )


def _started_from(run: RunDirectory, name: str, manifest: Manifest) -> bool:
    """Return whether a stage started from the stage ``name`` of the run, given by name, folder or tagger folder."""
    start = manifest["options"].get("start_from") or BASE
    place = run.stage_or_path(start).resolve()
    return start != BASE and run.folder(name).resolve() in (place, *place.parents)


def _find_folder(run: RunDirectory, name: str, problem: str) -> Path:
    """Find the folder of a stage of the run, or the one given."""
    folder = run.stage_or_path(name)
    if folder.is_dir():
        return folder
    raise CrossNERError(
        f"{problem} of {run.path} ({', '.join(run.stages()) or 'it has none'}) nor a folder.",
        hint=f"{suggest(name, run.stages()) or suggest_path(folder)}Name a stage of this run, or give the path of a"
        " stage or model folder.",
    )


def _read_seeds(manifest: Manifest) -> dict[str, SeedResult]:
    """Read the seeds of a stage that trains taggers; empty for any other stage."""
    seeds = read_result(manifest, TrainResult).seeds if manifest.get("taggers") else {}
    for seed, record in seeds.items():
        if Path(record.folder).name != record.folder or not (seed.isascii() and seed.isdecimal()):
            raise CrossNERError(
                f"The manifest of the stage {manifest['name']!r} is broken: its record of seed {seed}.",
                hint="Copy the run again, or make the stage again with --force.",
            )
    return seeds
