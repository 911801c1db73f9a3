"""Where weights come from: a stage of a run, a stage's folder, a tagger's folder, an encoder; never "the latest"."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from crossner_cli import figures
from crossner_cli.encoders.pretrained import MINILM, digest_encoder
from crossner_cli.encoders.string_embeddings import TENSORS as STRINGS
from crossner_cli.encoders.word_encoder import VOCABULARY, read_vector_sizes, read_vocabulary, read_word_tensors
from crossner_cli.encoders.word_reader import WordInputs
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, read_settings, split_setting
from crossner_cli.options import Dapt, Optimisation
from crossner_cli.run.directory import MANIFEST, Manifest, RunDirectory, read_manifest
from crossner_cli.run.storage import check_digest, digest_file, digest_folder
from crossner_cli.taggers.folder import is_tagger_folder, read_description

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
            check_digest(
                path,
                digest,
                hint="Give the command again; of weights that you changed yourself give the "
                f"folder: --model {self.folder}.",
            )


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


def find_tagger_stages(run: RunDirectory) -> dict[str, Manifest]:
    """Manifests of the finished stages that hold taggers, by name."""
    manifests = {name: _read_manifest(run.folder(name)) for name in run.stages()}
    return {name: manifest for name, manifest in manifests.items() if _seeds(manifest)}


def _only_stage(run: RunDirectory, wanted_by: str) -> str:
    """The name of the tagger stage at the end of the run's one chain."""
    stages = find_tagger_stages(run)
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
    scores: dict[str, float | None] = {name: stages[name]["result"].get("dev_f1") for name in ends or stages}
    told = ", ".join(name if f1 is None else f"{name} (dev F1 {f1:.2f})" for name, f1 in scores.items())
    best = max(scores, key=lambda name: -1.0 if (f1 := scores[name]) is None else f1)
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
        others = ", ".join(find_tagger_stages(run)) or "none"
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
    return cast(Manifest, manifest) if isinstance(manifest, dict) else {}


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


VECTORS_WANTED = (
    "Give --embeddings FILE, or --embeddings corpus to train them on the raw text of the run; or learn them: "
    "--set words=trained."
)


@dataclass(frozen=True)
class Start:
    """Where weights come from.

    Args:
        name: As the user named it.
        folder: A model folder, or a stage's folder; None for an untouched encoder.
        digest: What tells this start from any other; ``nothing`` where every weight is new.
        seeds: Tagger folder of each seed, where the start is a training stage.
        best_seed: The one of these with the best dev F1.
        lineage: The stages that made these weights, the first one first.
        notes: What a person may not expect of this start.
    """

    name: str
    folder: Path | None
    digest: str
    seeds: dict[int, Path] = field(default_factory=dict)
    best_seed: int | None = None
    lineage: list[dict[str, str]] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def folder_for(self, seed: int) -> Path | None:
        """The folder that a seed starts from: its own seed's, where the start has one, else the best one's."""
        if not self.seeds:
            return self.folder
        return self.seeds.get(seed, self.seeds[self.best_seed if self.best_seed is not None else min(self.seeds)])

    @property
    def has_words(self) -> bool:
        """Whether it holds an encoder of words."""
        return self._holds(VOCABULARY)

    @property
    def has_vectors(self) -> bool:
        """Whether its encoder of words has vectors of whole words."""
        return bool(self.words())

    def words(self) -> set[str]:
        """What its encoders of words have a vector of."""
        known = (read_vocabulary(folder).words for folder in self._folders if (folder / VOCABULARY).is_file())
        return {word for words in known for word in words}

    def vector_sizes(self, inputs: WordInputs) -> dict[str, int]:
        """Widths of its vectors of words and of n-grams, as ``read_vector_sizes`` names them, where it has any."""
        folders = [folder for folder in self._folders if (folder / VOCABULARY).is_file()]
        return read_vector_sizes(read_word_tensors(folders[0]), inputs) if folders else {}

    @property
    def has_strings(self) -> bool:
        """Whether it holds language models of characters."""
        return self._holds(STRINGS)

    @property
    def has_transformer(self) -> bool:
        """Whether it holds a transformer."""
        return self.folder is None or self._holds("config.json")

    @property
    def _folders(self) -> list[Path]:
        return [*self.seeds.values()] or ([] if self.folder is None else [self.folder])

    def _holds(self, name: str) -> bool:
        return any((folder / name).is_file() for folder in self._folders)


def find_start(run: RunDirectory, options: Optimisation | Dapt, *, wanted_by: str) -> Start:
    """Read ``--start-from``: ``base``, a stage of this run, a stage folder of any run, or a model folder.

    Raises:
        CrossNERError: Nothing by that name, or nothing there to start from.
    """
    name = options.start_from
    if name == "base":
        if not _reads_transformer(options):
            return Start("base", None, "nothing")
        digest = digest_encoder(options.encoder)
        return Start("base", None, digest, lineage=[{"encoder": options.encoder, "digest": digest}])
    folder = run.stage_or_path(name)
    if not folder.is_dir():
        raise CrossNERError(
            f"{wanted_by}: --start-from {name!r} is neither base, a finished stage of {run.path} "
            f"({', '.join(run.stages()) or 'it has none'}), nor a folder.",
            hint="Name a stage of this run, or give the path of a stage or model folder.",
        )
    if (folder / MANIFEST).is_file():
        start = _start_from_stage(name, folder)
        notes = (*_data_note(run, name, folder), *_encoder_note(start, options), *_settings_note(start, options))
        return replace(start, notes=notes)
    if is_tagger_folder(folder) or (folder / "config.json").is_file():
        digest = digest_start(folder)
        start = Start(name, folder, digest, lineage=[{"folder": str(folder), "digest": digest}])
        return replace(start, notes=tuple(_settings_note(start, options)))
    raise CrossNERError(
        f"{wanted_by}: {folder} holds neither a finished stage ({MANIFEST}) nor a model (config.json).",
        hint="Give the folder of a stage such as RUN/dapt, or of a Hugging Face encoder.",
    )


def check_unchanged(start: Start, run: RunDirectory, options: Optimisation, *, wanted_by: str) -> None:
    """Refuse a start that was made again since its digest was taken: seeds would begin with different weights.

    Raises:
        CrossNERError: It was.
    """
    if start.folder is not None and find_start(run, options, wanted_by=wanted_by).digest != start.digest:
        raise CrossNERError(
            f"{wanted_by}: the start {start.name!r} was made again while this stage trained.",
            hint="Train it again with --force once the start is finished.",
        )


def _reads_transformer(options: Optimisation | Dapt) -> bool:
    """Whether weights come from ``--encoder``: not where words alone are read, and then it need not be there."""
    if isinstance(options, Dapt):
        return True
    inputs = read_settings(find_method(options.method), options.settings)
    return not isinstance(inputs, WordInputs) or inputs.transformer != "none"


def _data_note(run: RunDirectory, name: str, folder: Path) -> list[str]:
    """Tell of a stage of this run that was made from data which have been prepared anew since."""
    made_from = read_manifest(folder)["inputs"].get("prepare-data")
    is_of_run = folder.resolve().parent == run.path.resolve()
    if not is_of_run or made_from is None or not run.has("prepare-data") or made_from == run.digest("prepare-data"):
        return []
    return [f"The start {name!r} was made before the data of {run.path} were prepared anew."]


def _encoder_note(start: Start, options: Optimisation | Dapt) -> list[str]:
    """Tell of an ``--encoder`` that is not the one the start was made from: it is not read."""
    made_from = start.lineage[0].get("encoder") if start.lineage else None
    if options.encoder in (MINILM, made_from) or not start.has_transformer or not _reads_transformer(options):
        return []  # where none is there, or none is read, other messages tell
    return [f"The encoder is that of {start.name} ({made_from or 'a model folder'}); {options.encoder} is not read."]


# What a start learnt may be another domain's; what tells types that carry over comes with them.
NOT_TOLD = frozenset(("tasks", "descriptions", "examples"))


def _settings_note(start: Start, options: Optimisation | Dapt) -> list[str]:
    """Tell of method and settings that the start was trained with and this tagger is not: none is inherited."""
    folder = start.folder if not start.seeds else start.folder_for(min(start.seeds))
    if isinstance(options, Dapt) or folder is None or not is_tagger_folder(folder):
        return []
    before, method = read_description(folder), find_method(options.method)
    if before["method"] != options.method:
        return [f"The start {start.name!r} is a tagger of {before['method']}, this one of {options.method} (--method)."]
    now, given = asdict(read_settings(method, options.settings)), {split_setting(text)[0] for text in options.settings}
    others = [
        key
        for key, value in before["hyperparameters"].items()
        if key in now.keys() - given - NOT_TOLD and value != now[key]
    ]
    if not others:
        return []
    told = ", ".join(
        f"{key}={figures.setting(before['hyperparameters'][key])} (here {figures.setting(now[key])})" for key in others
    )
    return [f"The start {start.name!r} was trained with {told}; settings are not handed on: give them with --set."]


def digest_start(folder: Path) -> str:
    """Digest of a stage's folder, for which its manifest stands, or of a model folder, as stages note their starts."""
    return digest_file(folder / MANIFEST) if (folder / MANIFEST).is_file() else digest_folder(folder)


def _start_from_stage(name: str, folder: Path) -> Start:
    manifest = read_manifest(folder)
    digest = digest_start(folder)
    lineage = [*manifest.get("lineage", []), {"stage": manifest["stage"], "name": manifest["name"], "digest": digest}]
    if (folder / "encoder").is_dir():
        return Start(name, folder / "encoder", digest, lineage=lineage)
    seeds = manifest["result"].get("seeds")
    if (folder / STRINGS).is_file():
        raise CrossNERError(
            f"The stage {manifest['name']!r} holds language models of characters: they are read, not started from.",
            hint=f"--set strings=frozen --string-embeddings {name}",
        )
    if not isinstance(seeds, dict) or not seeds:
        raise CrossNERError(
            f"The stage {manifest['name']!r} ({manifest['stage']}) in {folder} holds no weights to start from.",
            hint="Start from base, or from a dapt, pretrain-source, finetune or joint-train stage.",
        )
    best = max(seeds, key=lambda seed: seeds[seed].get("dev_f1") or 0.0)
    folders = {int(seed): folder / record["folder"] for seed, record in seeds.items()}
    return Start(name, folder, digest, folders, int(best), lineage)


def check_transformer(start: Start, wanted_by: str) -> None:
    """Refuse a start without a transformer; ``wanted_by`` ends the sentence on what wants one.

    Raises:
        CrossNERError: As above.
    """
    if not start.has_transformer:
        raise CrossNERError(
            f"The start {start.name!r} holds no transformer, which {wanted_by}.",
            hint="Start from base, from a dapt stage, or from a tagger that has one.",
        )


def check_start(start: Start, options: Optimisation) -> None:
    """Refuse a start that has not what the tagger reads, or nothing that it reads.

    Raises:
        CrossNERError: As above.
    """
    inputs = read_settings(find_method(options.method), options.settings)
    if start.folder is None:
        return
    if not isinstance(inputs, WordInputs):
        check_transformer(start, f"the method {options.method!r} reads")
        return
    if inputs.words == "frozen" and options.embeddings is None and not start.has_vectors:
        raise CrossNERError(
            f"words=frozen: the start {start.name!r} holds no vectors of words to keep as they are.",
            hint=VECTORS_WANTED,
        )
    if not start.has_words and inputs.transformer == "none":
        raise CrossNERError(
            f"The start {start.name!r} holds a transformer, and this tagger reads none: nothing would carry over.",
            hint="Let it read along, as --set transformer=frozen, or start from base.",
        )
    if inputs.transformer != "none" and not start.has_transformer:
        raise CrossNERError(
            f"The start {start.name!r} holds no transformer, and this tagger reads one (transformer"
            f"={inputs.transformer}).",
            hint="Leave that setting out, or train the start with it.",
        )
    if inputs.strings != "none" and options.string_embeddings is None and not start.has_strings:
        raise CrossNERError(
            f"The start {start.name!r} holds no language models of characters, which strings=frozen reads.",
            hint="Give --string-embeddings NAME (a stage of dapt --encoder strings) or FOLDER.",
        )
