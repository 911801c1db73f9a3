"""A tagger to be trained, made from a start, and the record of what carried over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from crossner_cli import figures
from crossner_cli.data.tags import TagSet, split_tag
from crossner_cli.encoders.names import STRINGS, VOCABULARY
from crossner_cli.encoders.pretrained import read_config, read_tensors
from crossner_cli.encoders.transformer import Encoder, TransformerEncoder, check_encoder_decoder, load_transformer
from crossner_cli.encoders.word_shapes import WORD_SHAPES
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger, find_method, head_tensors
from crossner_cli.recurrent.described import DescribedTagger
from crossner_cli.recurrent.multi_task import MultiTaskTagger
from crossner_cli.recurrent.string_embeddings import load_string_encoder
from crossner_cli.recurrent.word_encoder import TENSORS as OWN_TENSORS
from crossner_cli.recurrent.word_encoder import (
    WordEncoder,
    carry_over_words,
    read_vector_sizes,
    read_vocabulary,
    read_word_tensors,
)
from crossner_cli.recurrent.word_reader import Vocabulary, WordInputs
from crossner_cli.recurrent.word_vectors import WordVectors
from crossner_cli.run.results import StartCounts
from crossner_cli.taggers.description import is_tagger_folder, read_description, read_tag_set
from crossner_cli.taggers.folder import TENSORS
from crossner_cli.taggers.sources import Start, check_transformer

# Settings that differ between the stages of a chain as a rule.
SETTINGS_OF_A_STAGE = ("tasks", "descriptions", "examples")


@dataclass(frozen=True)
class TaggerDesign:
    """The tagger that a stage makes.

    Args:
        name: The method's name.
        settings: The method's settings.
        encoder: The transformer that ``base`` stands for.
        embeddings: File of word vectors, or ``corpus``.
        ngram_embeddings: File of vectors of character n-grams.
        strings: Folder of the language models of characters.
        attention_dropout: True if attention weights are dropped on CPUs too.
        word_shapes: True if an uncased encoder reads the shapes of words.
    """

    name: str
    settings: Any
    encoder: str
    embeddings: str | None = None
    ngram_embeddings: str | None = None
    strings: Path | None = None
    attention_dropout: bool = False
    word_shapes: bool = False

    @property
    def method(self) -> type[Tagger]:
        """The method's class."""
        return find_method(self.name)

    @property
    def word_inputs(self) -> WordInputs | None:
        """The settings of a method that reads words; None for other methods."""
        return self.settings if isinstance(self.settings, WordInputs) else None

    @property
    def reads_transformer(self) -> bool:
        """True if a transformer is read; else the encoder need not exist."""
        return self.word_inputs is None or self.word_inputs.transformer != "none"


@dataclass(frozen=True)
class KnownWords:
    """The vocabulary of an encoder of words, and the vectors of words and character n-grams that it begins with."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    vectors: WordVectors | None = None
    ngram_vectors: WordVectors | None = None


@dataclass
class CarryOver:
    """The tensors and types that a start gave to a new tagger.

    ``loaded`` tensors were taken over, in part or whole, others start afresh, and those left have no place in the new
    tagger. Rows of carried types were taken over, those of fresh types were not.
    """

    start: str
    loaded: int = 0
    new_tensors: list[str] = field(default_factory=list)
    left_tensors: list[str] = field(default_factory=list)
    carried_types: list[str] = field(default_factory=list)
    fresh_types: list[str] = field(default_factory=list)

    def add(self, loaded: int, new: Iterable[str], left: Iterable[str] = (), *, prefix: str = "") -> None:
        """Count tensors of a part of the tagger, whose names begin with ``prefix``."""
        self.loaded += loaded
        self.new_tensors += [prefix + name for name in new]
        self.left_tensors += [prefix + name for name in left]

    def to_counts(self) -> StartCounts:
        """The record for the manifest."""
        return StartCounts(**vars(self), new=len(self.new_tensors), left=len(self.left_tensors))

    def describe(self, *, verbose: bool = False) -> str:
        """One line for the log; verbose with the tensors."""
        text = f"start from {self.start}"
        if verbose:
            text += f": {figures.tensors(asdict(self.to_counts()))}"
        if self.carried_types:
            text += f"; types carried over: {', '.join(self.carried_types)}"
        return text + (f"; types new: {', '.join(self.fresh_types)}" if self.fresh_types else "")


def check_start(design: TaggerDesign, start: Start) -> None:
    """Refuse a start that lacks what the tagger reads, or that has nothing of it."""
    if design.reads_transformer:
        check_transformer(start, f"the method {design.name!r} reads as set")
        _check_kind_of_encoder(design, start)
    inputs = design.word_inputs
    if design.word_shapes and (inputs is not None or design.method.reads != "subwords"):
        raise CrossNERError(
            f"--word-shapes has no effect: the method {design.name} reads "
            + ("characters of words." if inputs is not None else "an encoder-decoder."),
            hint="Leave it out, or take a method that reads subwords, as --method linear.",
        )
    if inputs is None:
        return
    if inputs.words == "frozen" and design.embeddings is None and not start.read_words():
        raise CrossNERError(
            f"words=frozen: there are no vectors to keep, in the start {start.name!r} or elsewhere.",
            hint="Give --embeddings FILE, or --embeddings corpus to train them on the raw text of the run; or learn "
            "them: --set words=trained.",
        )
    if inputs.strings != "none" and design.strings is None and not start.has_strings:
        raise CrossNERError(
            f"strings=frozen: there are no language models of characters, in the start {start.name!r} or elsewhere.",
            hint="Train some (crossner dapt --encoder strings --name strings) and give --string-embeddings strings, "
            "or give --string-embeddings FOLDER.",
        )
    if start.folder is not None and not start.has_words and not design.reads_transformer:
        raise CrossNERError(
            f"The start {start.name!r} holds a transformer, and this tagger reads none: nothing would carry over.",
            hint="Let it read along, as --set transformer=frozen, or start from base.",
        )


def _check_kind_of_encoder(design: TaggerDesign, start: Start) -> None:
    """Refuse an encoder where the method reads an encoder-decoder, and the other way round."""
    folder = None if start.folder is None else str(start.folder)
    if design.method.reads == "encoder-decoder":
        check_encoder_decoder(folder or design.encoder, start=start.name if folder else None)
    elif folder is not None and (config := read_config(folder)).is_encoder_decoder:
        raise CrossNERError(
            f"The start {start.name!r} holds an encoder-decoder ({config.model_type}), and the method "
            f"{design.name!r} reads an encoder.",
            hint="Start from base, from a dapt stage, or from a tagger that has one.",
        )


def note_on_settings(design: TaggerDesign, start: Start) -> str | None:
    """Return a warning about settings of a start of the same method that are others here; None without any."""
    if start.folder is None or not is_tagger_folder(start.folder):
        return None
    before, now = read_description(start.folder), asdict(design.settings)
    changed = [
        f"{key}={figures.setting(value)} (here {figures.setting(now[key])})"
        for key, value in before["hyperparameters"].items()
        if key in now and key not in SETTINGS_OF_A_STAGE and value != now[key]
    ]
    if before["method"] != design.name or not changed:
        return None
    return f"The start {start.name!r} was trained with {', '.join(changed)}; settings are not inherited (--set)."


def start_tagger(
    start: Start,
    design: TaggerDesign,
    tag_set: TagSet,
    seed: int,
    engine: Engine,
    known: KnownWords | None = None,
) -> tuple[Tagger, CarryOver]:
    """Make the tagger that a stage trains.

    Rows of the types that start and new tagger share carry over, others start fresh, from this seed. A method that
    reads words has vectors for those that are ``known``.

    Raises:
        CrossNERError: The start gives no weight at all.
    """
    torch.manual_seed(seed)
    folder = start.folder_for(seed)
    carried = CarryOver(start.name)
    name = design.encoder if folder is None else str(folder.absolute())
    encoder: Encoder
    if design.word_inputs is not None:
        encoder = _start_words(design, name, folder, engine, known or KnownWords(), carried)
    else:
        encoder = _start_transformer(name, design.method.reads, engine, carried, word_shapes=design.word_shapes)
    if folder is not None:
        _add_unread_parts(folder, encoder, carried)
    encoder.prepare_for_training(on_cpu=engine.on_cpu, attention_dropout=design.attention_dropout)
    tagger = design.method(encoder, tag_set, design.settings)
    if folder is not None and is_tagger_folder(folder):
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


def _start_transformer(
    name: str, reads: str, engine: Engine, carried: CarryOver, *, word_shapes: bool = False
) -> TransformerEncoder:
    """Load an encoder and count its tensors; what a tagger's file has besides is a copy of its classifier.

    Vectors of word shapes come along where the start has them, else with ``word_shapes`` they are new.
    """
    encoder: TransformerEncoder
    encoder, weights = load_transformer(name, reads, attention=engine.attention)
    left = () if is_tagger_folder(Path(name)) else weights.left
    carried.add(weights.loaded, weights.new, left, prefix="encoder.")
    if encoder.shapes is not None:
        carried.add(1, ())
    elif word_shapes:
        encoder.read_shapes()
        carried.add(0, ["shapes.vectors"], prefix="encoder.")
    return encoder


def _add_unread_parts(folder: Path, encoder: Encoder, carried: CarryOver) -> None:
    """Count the parts of a start, each a file of tensors, that the new encoder does not read."""
    words = encoder if isinstance(encoder, WordEncoder) else None
    parts = {
        "model.safetensors": words is None or words.transformer is not None,
        OWN_TENSORS: words is not None,
        STRINGS: words is not None and words.strings is not None,
    }
    for name, is_read in parts.items():
        if not is_read:
            count_unread_part(folder / name, carried, prefix="encoder.")
    if words is not None and words.transformer is None:
        count_unread_part(folder / WORD_SHAPES, carried, prefix="encoder.shapes.")


def count_unread_part(path: Path, carried: CarryOver, *, prefix: str) -> None:
    """Count the tensors of a file of the start as left, if there is such a file."""
    if path.is_file():
        with safe_open(path, "numpy") as tensors:
            carried.add(0, (), tensors.keys(), prefix=prefix)


def _start_words(
    design: TaggerDesign, name: str, folder: Path | None, engine: Engine, known: KnownWords, carried: CarryOver
) -> WordEncoder:
    """Make an encoder of words, with the vectors of the start where it has any."""
    inputs = design.settings
    transformer = None if inputs.transformer == "none" else _start_transformer(name, "subwords", engine, carried)
    stored, vocabulary = {}, known.vocabulary
    word_size = known.vectors.size if known.vectors else None
    ngram_size = known.ngram_vectors.size if known.ngram_vectors else None
    if folder is not None and (folder / VOCABULARY).is_file():
        # Without new vectors those of the start go on, in their width.
        stored = read_word_tensors(folder)
        old = read_vector_sizes(stored, inputs)
        word_size, ngram_size = word_size or old.get("word_size"), ngram_size or old.get("character_size")
        # What only the start has vectors of would be noise in another width.
        is_other = {
            "words": old.get("word_size", word_size) != word_size,
            "ngrams": old.get("character_size", ngram_size) != ngram_size,
        }
        vocabulary = read_vocabulary(folder).without(**is_other).extended(vocabulary)
    strings = design.strings or folder
    encoder = WordEncoder(
        vocabulary,
        inputs,
        transformer,
        known.vectors,
        ngram_vectors=known.ngram_vectors,
        word_size=word_size,
        character_size=ngram_size,
        strings=load_string_encoder(strings) if inputs.strings == "frozen" and strings else None,
    )
    carried.add(len(encoder.strings.state_dict()) if encoder.strings else 0, ())
    taken, own = carry_over_words(encoder, stored), encoder.own_tensors()
    left = [name for name in stored if name not in taken]
    carried.add(len(taken), [name for name in own if name not in taken], left, prefix="encoder.")
    return encoder


def carry_over(tagger: Tagger, folder: Path, carried: CarryOver) -> None:
    """Copy the tensors above the encoder: whole where no tags are in them, row by row where they are.

    Of those with a row a word the rows of the start's words, where these are the first ones of the new tagger's.
    """
    old_set, description = read_tag_set(folder), read_description(folder)
    old = read_tensors(folder / TENSORS)
    if isinstance(tagger, MultiTaskTagger | DescribedTagger):
        old = tagger.adopt(old, old_set, description["hyperparameters"])
    new = head_tensors(tagger)
    new_set, by_type = tagger.tag_set, tagger.rows.types
    taught = description["taught_types"]
    # The rows of types that no label taught have learnt never to be chosen.
    tag_rows = _shared_rows(new_set.tags, old_set.tags, lambda tag: tag == "O" or split_tag(tag)[1] in taught)
    type_rows = _shared_rows(("", *new_set.types), ("", *old_set.types), lambda _: True)  # O stands first
    taken: list[str] = []
    fresh: list[str] = []
    learnt = {name for name, _ in tagger.named_parameters()}
    # Taggers that read descriptions have no row a type that is learnt: all that is learnt tells types apart.
    rows_of = {name: by_type.get(name) or tagger.rows.tags.get(name, ()) for name in new}
    by_rows = any(rows_of[name] for name in learnt & rows_of.keys())
    has_rows, lost_rows = False, False
    for name, value in new.items():
        if name in tagger.rows.words and name in old:
            is_kept = value.shape[1:] == old[name].shape[1:] and _keeps_words(tagger, folder)
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
    # Where weights that tell a type from others have another size, a bias or transitions alone carry no type over.
    carries = has_rows and not lost_rows
    carried.carried_types = [each for each in new_set.types if carries and each in taught]
    carried.fresh_types = [each for each in new_set.types if each not in carried.carried_types]


def _shared_rows(
    new: tuple[str, ...], old: tuple[str, ...], is_kept: Callable[[str], bool]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the names that both have, and that are kept, in the new ones and in the old."""
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


def _keeps_words(tagger: Tagger, folder: Path) -> bool:
    """Return whether the words of a start keep their numbers in the new tagger."""
    assert isinstance(tagger.encoder, WordEncoder)
    words = read_vocabulary(folder).words
    return tagger.encoder.vocabulary.words[: len(words)] == words


def _fits(new: torch.Tensor, old: torch.Tensor, tag_dimensions: tuple[int, ...]) -> bool:
    """Return whether two tensors agree in every dimension that does not count tags."""
    if new.dim() != old.dim():
        return False
    return all(new.shape[place] == old.shape[place] for place in range(new.dim()) if place not in tag_dimensions)
