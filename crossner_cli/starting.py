"""Which weights a stage starts from, by name and never by "latest", and what of them carries over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from crossner_cli import figures
from crossner_cli.encoder_decoder import load_transformer
from crossner_cli.encoders import MINILM, Encoder, TransformerEncoder, digest_encoder, read_tensors
from crossner_cli.engine import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods import Tagger, find_method, read_settings, split_setting
from crossner_cli.options import Dapt, Optimisation
from crossner_cli.run_directory import MANIFEST, RunDirectory, digest_file, digest_folder, read_manifest
from crossner_cli.string_encoder import TENSORS as STRINGS
from crossner_cli.string_encoder import load_string_encoder
from crossner_cli.tagger_folder import TENSORS, is_tagger_folder, read_description, read_tag_set
from crossner_cli.tags import TagSet
from crossner_cli.word_encoder import (
    VOCABULARY,
    WordEncoder,
    carry_over_words,
    read_own_tensors,
    read_vocabulary,
    stored_sizes,
)
from crossner_cli.word_reader import Vocabulary, WordInputs
from crossner_cli.word_vectors import WordVectors

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
        folders = [*self.seeds.values()] or ([] if self.folder is None else [self.folder])
        return any(read_vocabulary(folder).words for folder in folders if (folder / VOCABULARY).is_file())

    @property
    def has_strings(self) -> bool:
        """Whether it holds language models of characters."""
        return self._holds(STRINGS)

    @property
    def has_transformer(self) -> bool:
        """Whether it holds a transformer."""
        return self.folder is None or self._holds("config.json")

    def _holds(self, name: str) -> bool:
        folders = [*self.seeds.values()] or ([] if self.folder is None else [self.folder])
        return any((folder / name).is_file() for folder in folders)


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
    folder = run.folder(name) if run.has(name) else Path(name)
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
        digest = digest_folder(folder)
        start = Start(name, folder, digest, lineage=[{"folder": str(folder), "digest": digest}])
        return replace(start, notes=tuple(_settings_note(start, options)))
    raise CrossNERError(
        f"{wanted_by}: {folder} holds neither a finished stage ({MANIFEST}) nor a model (config.json).",
        hint="Give the folder of a stage such as RUN/dapt, or of a Hugging Face encoder.",
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
    if options.encoder in (MINILM, made_from):
        return []
    return [f"The encoder is that of {start.name} ({made_from or 'a model folder'}); {options.encoder} is not read."]


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
        key for key, value in before["hyperparameters"].items() if key in now.keys() - given and value != now[key]
    ]
    if not others:
        return []
    told = ", ".join(
        f"{key}={figures.setting(before['hyperparameters'][key])} (here {figures.setting(now[key])})" for key in others
    )
    return [f"The start {start.name!r} was trained with {told}; settings are not handed on: give them with --set."]


def _start_from_stage(name: str, folder: Path) -> Start:
    manifest = read_manifest(folder)
    digest = digest_file(folder / MANIFEST)
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


def check_start(start: Start, options: Optimisation) -> None:
    """Refuse a start that has not what the tagger reads, or nothing that it reads.

    Raises:
        CrossNERError: As above.
    """
    inputs = read_settings(find_method(options.method), options.settings)
    if start.folder is None:
        return
    if not isinstance(inputs, WordInputs):
        if not start.has_transformer:
            raise CrossNERError(
                f"The start {start.name!r} holds no transformer, which the method {options.method!r} reads.",
                hint="Start from base, from a dapt stage, or from a tagger that has one.",
            )
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


@dataclass
class Carried:
    """What a start gave: tensors, and names of tags where the tag sets differ.

    Args:
        loaded: Tensors taken over, in part or whole.
        new: Tensors that start afresh.
        left: Tensors of the start that the new tagger has no place for.
        carried_types: Entity types whose rows were taken over.
        fresh_types: Entity types whose rows start afresh.
        new_tensors: Names of those that start afresh.
        left_tensors: Names of those of the start that have no place.
    """

    start: str
    loaded: int = 0
    new: int = 0
    left: int = 0
    carried_types: list[str] = field(default_factory=list)
    fresh_types: list[str] = field(default_factory=list)
    new_tensors: list[str] = field(default_factory=list, compare=False)
    left_tensors: list[str] = field(default_factory=list, compare=False)

    def add(self, loaded: int, new: Iterable[str], left: Iterable[str] = (), *, prefix: str = "") -> None:
        """Note tensors of a part of the tagger, whose names begin with ``prefix``."""
        new, left = [prefix + name for name in new], [prefix + name for name in left]
        self.loaded, self.new, self.left = self.loaded + loaded, self.new + len(new), self.left + len(left)
        self.new_tensors += new
        self.left_tensors += left

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    def describe(self) -> str:
        """One line for the log."""
        text = f"start from {self.start}: {figures.tensors(self.to_json())}"
        if self.carried_types:
            text += f"; types carried over: {', '.join(self.carried_types)}"
        return text + (f"; types new: {', '.join(self.fresh_types)}" if self.fresh_types else "")


@dataclass(frozen=True)
class KnownWords:
    """What an encoder of words is made of.

    Args:
        vocabulary: Of the sentences to train on, and of the vectors.
        vectors: Static vectors to begin with, if any.
        ngram_vectors: Vectors of character n-grams to begin with, if any.
        strings: Folder of the language models of characters; None for those of the start.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    vectors: WordVectors | None = None
    ngram_vectors: WordVectors | None = None
    strings: Path | None = None


def start_tagger(
    start: Start, options: Optimisation, tag_set: TagSet, seed: int, engine: Engine,
    known: KnownWords | None = None,
) -> tuple[Tagger, Carried]:  # fmt: skip
    """Make the tagger that a stage trains.

    Rows of the types that start and new tagger share carry over, others start fresh.

    Args:
        start: Where the weights come from.
        options: Method, its settings, encoder.
        tag_set: The tags of the new tagger.
        seed: Of what starts fresh.
        engine: Decides kernels.
        known: For a method that reads words: those it is to have vectors for.

    Raises:
        CrossNERError: The start gives no weight at all.
    """
    torch.manual_seed(seed)
    method = find_method(options.method)
    hyper = read_settings(method, options.settings)
    folder = start.folder_for(seed)
    carried = Carried(start.name)
    name = options.encoder if folder is None else str(folder.absolute())
    encoder: Encoder
    if method.reads == "words":
        encoder = _start_words(hyper, name, folder, engine, known or KnownWords(), carried)
    else:
        encoder = _start_transformer(name, method.reads, engine, carried)
    # Published settings drop attention weights on CPUs too.
    encoder.prepare_for_training(on_cpu=engine.on_cpu and not options.paper)
    tagger = method(encoder, tag_set, hyper)
    if folder is not None and is_tagger_folder(folder):
        carry_over(tagger, folder, carried)  # what the encoder's file has besides is a copy of the classifier
    else:
        carried.add(0, tagger.above_encoder())
        carried.fresh_types = list(tag_set.types)
    if folder is not None and not carried.loaded:
        raise CrossNERError(
            f"The start {start.name!r} gives no weight: no tensor of {folder} has the name and size of one of this "
            f"{options.method} tagger.",
            hint="Give it the method and the sizes (--set) of the start, or start from base.",
        )
    return tagger, carried


def _start_transformer(name: str, reads: str, engine: Engine, carried: Carried) -> TransformerEncoder:
    """Load an encoder and note its tensors; what a tagger's file has besides is a copy of its classifier."""
    encoder: TransformerEncoder
    encoder, weights = load_transformer(name, reads, attention=engine.attention)
    left = () if is_tagger_folder(Path(name)) else weights.left
    carried.add(weights.loaded, weights.new, left, prefix="encoder.")
    return encoder


def _start_words(
    inputs: WordInputs, name: str, folder: Path | None, engine: Engine, known: KnownWords, carried: Carried
) -> WordEncoder:
    """Make an encoder of words, with the vectors of the start where it has any."""
    start = folder if folder is not None and (folder / VOCABULARY).is_file() else None
    transformer = None if inputs.transformer == "none" else _start_transformer(name, "subwords", engine, carried)
    vocabulary = known.vocabulary if start is None else read_vocabulary(start).extended(known.vocabulary)
    # Without new vectors those of the start go on, in their width.
    stored = {} if start is None else read_own_tensors(start)
    old = stored_sizes(stored, inputs)
    strings = known.strings or folder
    encoder = WordEncoder(
        vocabulary, inputs, transformer, known.vectors, ngram_vectors=known.ngram_vectors,
        word_size=None if known.vectors else old.get("word_size"),
        character_size=None if known.ngram_vectors else old.get("character_size"),
        strings=load_string_encoder(strings) if inputs.strings == "frozen" and strings else None,
    )  # fmt: skip
    carried.add(len(encoder.strings.state_dict()) if encoder.strings else 0, ())
    taken, own = carry_over_words(encoder, stored), encoder.own_tensors()
    carried.add(len(taken), [name for name in own if name not in taken], prefix="encoder.")
    return encoder


def carry_over(tagger: Tagger, folder: Path, carried: Carried) -> None:
    """Copy the tensors above the encoder: whole where no tags are in them, row by row where they are.

    Of those with a row a word the rows of the start's words, which are the first ones of the new tagger's.
    """
    old_set = read_tag_set(folder)
    old = read_tensors(folder / TENSORS)
    new = tagger.above_encoder()
    new_set, by_type = tagger.tag_set, type(tagger).type_dimensions
    tag_rows = _shared_rows(new_set.tags, old_set.tags)
    type_rows = _shared_rows(("", *new_set.types), ("", *old_set.types))  # O stands first
    taken, fresh, has_rows = [], [], False
    for name, value in new.items():
        if name in type(tagger).word_rows and name in old and _begins_with(value, old[name]):
            value[: len(old[name])] = old[name]  # the state dict shares memory with the parameters
            taken.append(name)
            continue
        dimensions = by_type.get(name) or type(tagger).tag_dimensions.get(name, ())
        if name not in old or not _fits(value, old[name], dimensions):
            fresh.append(name)
            continue
        _copy_rows(value, old[name], dimensions, *(type_rows if name in by_type else tag_rows))
        taken.append(name)
        has_rows = has_rows or bool(dimensions)
    carried.add(len(taken), fresh, [name for name in old if name not in taken])
    carried.carried_types = [each for each in new_set.types if has_rows and each in old_set.types]
    carried.fresh_types = [each for each in new_set.types if each not in carried.carried_types]


def _shared_rows(new: tuple[str, ...], old: tuple[str, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the names that both have stand in the new ones and in the old."""
    shared = [name for name in new if name in old]
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


def _begins_with(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Whether rows of the old tensor can stand first in the new one."""
    return new.shape[1:] == old.shape[1:] and len(new) >= len(old)


def _fits(new: torch.Tensor, old: torch.Tensor, tag_dimensions: tuple[int, ...]) -> bool:
    """Whether two tensors agree in every dimension that does not count tags."""
    if new.dim() != old.dim():
        return False
    return all(new.shape[place] == old.shape[place] for place in range(new.dim()) if place not in tag_dimensions)


def encoder_of(tagger: Tagger) -> TransformerEncoder:
    """The tagger's transformer."""
    assert isinstance(tagger.encoder, TransformerEncoder)
    return tagger.encoder
