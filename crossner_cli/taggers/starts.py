"""Which weights a stage starts from, by name and never by "latest"."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from crossner_cli import figures
from crossner_cli.encoders.pretrained import MINILM, digest_encoder
from crossner_cli.encoders.string_embeddings import TENSORS as STRINGS
from crossner_cli.encoders.word_encoder import VOCABULARY, read_vector_sizes, read_vocabulary, read_word_tensors
from crossner_cli.encoders.word_reader import WordInputs
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, read_settings, split_setting
from crossner_cli.options import Dapt, Optimisation
from crossner_cli.run.directory import MANIFEST, RunDirectory, read_manifest
from crossner_cli.run.storage import digest_file, digest_folder
from crossner_cli.taggers.folder import is_tagger_folder, read_description

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
