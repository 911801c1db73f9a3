"""Finding trained taggers: by stage of a run, by stage folder, by tagger folder. One entry a seed."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory
from crossner_cli.run.storage import check_digest, digest_file, digest_folder
from crossner_cli.taggers.folder import is_tagger_folder

DATA_STAGE = "prepare-data"


@dataclass(frozen=True)
class TrainedTagger:
    """A tagger on disk.

    Args:
        label: The stage's name or the path, as the user gave it.
        folder: The tagger's folder.
        digest: What tells it from any other: of the stage's manifest, or of the folder.
        seed: The seed that trained it; None where no manifest tells.
        dev_f1: Its F1 on dev sentences, if it was scored.
        manifest: Of the stage that made it; None for a tagger folder alone.
    """

    label: str
    folder: Path
    digest: str
    seed: int | None = None
    dev_f1: float | None = None
    manifest: Manifest | None = None

    def check_unchanged(self) -> None:
        """Refuse weights that are not those of the manifest, as of a stage that was made again or copied in part.

        Raises:
            CrossNERError: They are others; those of a tagger folder that is given itself are always what they are.
        """
        if self.manifest is None:
            return
        stage, outputs = self.folder.parent, self.manifest.get("outputs", {})
        wanted = {path: outputs.get(path.relative_to(stage).as_posix()) for path in self.folder.glob("*.safetensors")}
        wanted[stage / MANIFEST] = self.digest
        for path, digest in wanted.items():
            check_digest(path, digest, hint="Give the command again; of weights that you changed yourself give the "
                         f"folder: --model {self.folder}.")  # fmt: skip


def find_taggers(run: RunDirectory, names: list[str], *, wanted_by: str) -> list[TrainedTagger]:
    """Find the taggers that names stand for, all seeds of each.

    Args:
        run: The run whose stages can be named.
        names: Stages of the run, stage folders of any run, or tagger folders; a name adds nothing where those before
            it stand for all its taggers. Without any: the one tagger stage of the run that no other tagger stage
            started from.
        wanted_by: The command that asks, for messages.

    Raises:
        CrossNERError: A name stands for no tagger; without names, there is none or more than one; or a stage of this
            run was made from data that have been prepared anew since.
    """
    found: list[TrainedTagger] = []
    known: set[Path] = set()
    for name in names or [_only_stage(run, wanted_by)]:
        named = _named(run, name, wanted_by)
        places = {tagger.folder.resolve() for tagger in named}
        # A name for some seeds of a stage is another model than all of them.
        if not places <= known:
            found += named
        known |= places
    return found


def _named(run: RunDirectory, name: str, wanted_by: str) -> list[TrainedTagger]:
    """The taggers that one name stands for."""
    folder = run.stage_or_path(name)
    if (folder / MANIFEST).is_file():
        return _of_stage(run, name, folder, wanted_by)
    if is_tagger_folder(folder):
        return [TrainedTagger(name, folder, digest_folder(folder))]
    raise _nothing_there(run, name, folder, wanted_by)


def best_on_dev(taggers: list[TrainedTagger]) -> TrainedTagger:
    """The one with the best dev F1; the first where none was scored."""
    return max(taggers, key=lambda tagger: -1.0 if tagger.dev_f1 is None else tagger.dev_f1)


def tagger_stages(run: RunDirectory) -> dict[str, Manifest]:
    """Manifests of the finished stages that hold taggers, by name."""
    manifests = {name: _read_manifest(run.folder(name)) for name in run.stages()}
    return {name: manifest for name, manifest in manifests.items() if _seeds(manifest)}


def _only_stage(run: RunDirectory, wanted_by: str) -> str:
    """The name of the tagger stage at the end of the run's one chain."""
    stages = tagger_stages(run)
    ends = [
        name
        for name in stages
        if not any(_started_from(run, name, manifest) for other, manifest in stages.items() if other != name)
    ]
    if len(ends) == 1:
        return ends[0]
    if not stages:
        raise CrossNERError(
            f"{wanted_by} needs a tagger, and {run.path} holds none (finished stages: "
            f"{', '.join(run.stages()) or 'none'}).",
            hint=f"Train one: crossner finetune --run {shlex.quote(str(run.path))}; or give --model FOLDER.",
        )
    scores = {name: stages[name].get("result", {}).get("dev_f1") for name in ends or stages}
    told = ", ".join(name if f1 is None else f"{name} (dev F1 {f1:.2f})" for name, f1 in scores.items())
    best = max(scores, key=lambda name: -1.0 if scores[name] is None else scores[name])
    raise CrossNERError(
        f"{run.path} holds several taggers to choose from: {told}.",
        hint=f"Name one: crossner {wanted_by} --model {shlex.quote(best)} --run {shlex.quote(str(run.path))}",
    )


def _started_from(run: RunDirectory, name: str, manifest: Manifest) -> bool:
    """Whether a stage started from the stage ``name`` of the run, in whatever way that was given."""
    start = manifest["options"].get("start_from") or "base"
    if start == "base":
        return False
    # A path may be relative to another working folder than this one.
    if manifest.get("inputs", {}).get("start") == run.digest(name):
        return True
    place = run.stage_or_path(start).resolve()
    return run.folder(name).resolve() in (place, *place.parents)


def _of_stage(run: RunDirectory, name: str, folder: Path, wanted_by: str) -> list[TrainedTagger]:
    manifest = _read_manifest(folder)
    seeds = _seeds(manifest)
    if not seeds:
        others = ", ".join(tagger_stages(run)) or "none"
        raise CrossNERError(
            f"{wanted_by}: the stage {name!r} ({manifest.get('stage')}) holds no tagger (tagger stages of "
            f"{run.path}: {others}).",
            hint="Name a pretrain-source, finetune or joint-train stage.",
        )
    if folder.resolve().parent == run.path.resolve():
        _refuse_stale(run, name, manifest)
    digest = digest_file(folder / MANIFEST)
    found = []
    for seed, record in seeds.items():
        place = folder / record["folder"]
        if not is_tagger_folder(place):
            raise CrossNERError(
                f"{folder / MANIFEST} names the tagger {place}, which is not there.",
                hint="Copy the whole stage folder, or train the stage again with --force.",
            )
        found.append(TrainedTagger(name, place, digest, int(seed), record.get("dev_f1"), manifest))
    return found


def _refuse_stale(run: RunDirectory, name: str, manifest: Manifest) -> None:
    """Refuse a stage whose data are no longer the run's."""
    made_from = manifest.get("inputs", {}).get(DATA_STAGE)
    if made_from is None or not run.has(DATA_STAGE) or made_from == run.digest(DATA_STAGE):
        return
    raise CrossNERError(
        f"The stage {name!r} was trained before the data of {run.path} were prepared anew "
        f"({DATA_STAGE} {made_from[:12]} -> {run.digest(DATA_STAGE)[:12]}).",
        hint=f"Train it again with its own options, which its {MANIFEST} tells: crossner {manifest['stage']} … --name "
        f"{name} --run {run.path} --force; or use another --run for the new data.",
    )


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CrossNERError(f"{path} cannot be read: {error}.", hint="Make the stage again with --force.") from None
    return manifest if isinstance(manifest, dict) else {}


def _seeds(manifest: Manifest) -> dict[str, Any]:
    """The seeds of a stage that trains taggers, none of any other stage."""
    result = manifest.get("result")
    seeds = result.get("seeds") if isinstance(result, dict) else None
    is_tagger_stage = isinstance(seeds, dict) and all(
        isinstance(record, dict) and "folder" in record for record in seeds.values()
    )
    return seeds if is_tagger_stage and isinstance(seeds, dict) else {}


def _nothing_there(run: RunDirectory, name: str, folder: Path, wanted_by: str) -> CrossNERError:
    if folder.is_dir():
        return CrossNERError(
            f"{wanted_by}: {folder} holds neither a finished stage ({MANIFEST}) nor a tagger (tagger.json).",
            hint="Give the folder of a stage such as RUN/finetune, or of a tagger such as RUN/finetune/tagger.",
        )
    return CrossNERError(
        f"{wanted_by}: --model {name!r} is neither a finished stage of {run.path} "
        f"({', '.join(run.stages()) or 'it has none'}) nor a folder.",
        hint="Name a stage of this run, or give the path of a stage or tagger folder.",
    )
