"""A tagger to be trained: made from what a stage starts from, with what of that carries over told by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from crossner_cli import figures
from crossner_cli.data.tags import TagSet, split_tag
from crossner_cli.encoders.pretrained import read_config, read_tensors
from crossner_cli.encoders.string_embeddings import TENSORS as STRINGS
from crossner_cli.encoders.string_embeddings import load_string_encoder
from crossner_cli.encoders.transformer import Encoder, TransformerEncoder, check_encoder_decoder, load_transformer
from crossner_cli.encoders.word_encoder import TENSORS as OWN_TENSORS
from crossner_cli.encoders.word_encoder import (
    VOCABULARY,
    WordEncoder,
    carry_over_words,
    read_vector_sizes,
    read_vocabulary,
    read_word_tensors,
)
from crossner_cli.encoders.word_reader import Vocabulary, WordInputs
from crossner_cli.encoders.word_vectors import WordVectors
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import Tagger, find_method, read_settings
from crossner_cli.options import Optimisation
from crossner_cli.taggers.folder import TENSORS, is_tagger_folder, read_description, read_tag_set
from crossner_cli.taggers.sources import Start


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
    start: Start,
    options: Optimisation,
    tag_set: TagSet,
    seed: int,
    engine: Engine,
    known: KnownWords | None = None,
) -> tuple[Tagger, Carried]:
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
    if folder is not None:
        _note_unread(folder, encoder, carried)
    encoder.prepare_for_training(on_cpu=engine.on_cpu, attention_dropout=options.attention_dropout)
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


def check_encoder(options: Optimisation, start: Start | None = None) -> None:
    """Refuse an encoder, or that of a start, of another kind than the method reads, where its configuration tells.

    Raises:
        CrossNERError: As above.
    """
    reads_both = find_method(options.method).reads == "encoder-decoder"
    if start is None:
        if reads_both and options.start_from == "base":
            check_encoder_decoder(options.encoder)
        return
    folder = next(iter(start.seeds.values()), start.folder)
    if folder is None or not start.has_transformer:
        return
    if reads_both:
        check_encoder_decoder(str(folder), start=start.name)
    elif (config := read_config(str(folder))).is_encoder_decoder:
        raise CrossNERError(
            f"The start {start.name!r} holds an encoder-decoder ({config.model_type}), and the method "
            f"{options.method!r} reads an encoder.",
            hint="Start from base, from a dapt stage, or from a tagger that has one.",
        )


def _start_transformer(name: str, reads: str, engine: Engine, carried: Carried) -> TransformerEncoder:
    """Load an encoder and note its tensors; what a tagger's file has besides is a copy of its classifier."""
    encoder: TransformerEncoder
    encoder, weights = load_transformer(name, reads, attention=engine.attention)
    left = () if is_tagger_folder(Path(name)) else weights.left
    carried.add(weights.loaded, weights.new, left, prefix="encoder.")
    return encoder


def _note_unread(folder: Path, encoder: Encoder, carried: Carried) -> None:
    """Note the parts of a start, each a file of tensors, that the new encoder does not read."""
    words = encoder if isinstance(encoder, WordEncoder) else None
    parts = {
        "model.safetensors": words is None or words.transformer is not None,
        OWN_TENSORS: words is not None,
        STRINGS: words is not None and words.strings is not None,
    }
    for name, is_read in parts.items():
        if not is_read and (folder / name).is_file():
            with safe_open(folder / name, "numpy") as tensors:
                carried.add(0, (), tensors.keys(), prefix="encoder.")


def _start_words(
    inputs: WordInputs, name: str, folder: Path | None, engine: Engine, known: KnownWords, carried: Carried
) -> WordEncoder:
    """Make an encoder of words, with the vectors of the start where it has any."""
    start = folder if folder is not None and (folder / VOCABULARY).is_file() else None
    transformer = None if inputs.transformer == "none" else _start_transformer(name, "subwords", engine, carried)
    # Without new vectors those of the start go on, in their width.
    stored = {} if start is None else read_word_tensors(start)
    old, vocabulary = read_vector_sizes(stored, inputs), known.vocabulary
    if start is not None:  # what only the start has vectors of would be noise in another width
        is_other = {
            "words": known.vectors is not None and old.get("word_size", known.vectors.size) != known.vectors.size,
            "ngrams": known.ngram_vectors is not None
            and old.get("character_size", known.ngram_vectors.size) != known.ngram_vectors.size,
        }
        vocabulary = read_vocabulary(start).without(**is_other).extended(vocabulary)
    strings = known.strings or folder
    encoder = WordEncoder(
        vocabulary,
        inputs,
        transformer,
        known.vectors,
        ngram_vectors=known.ngram_vectors,
        word_size=None if known.vectors else old.get("word_size"),
        character_size=None if known.ngram_vectors else old.get("character_size"),
        strings=load_string_encoder(strings) if inputs.strings == "frozen" and strings else None,
    )
    carried.add(len(encoder.strings.state_dict()) if encoder.strings else 0, ())
    taken, own = carry_over_words(encoder, stored), encoder.own_tensors()
    left = [name for name in stored if name not in taken]
    carried.add(len(taken), [name for name in own if name not in taken], left, prefix="encoder.")
    return encoder


def carry_over(tagger: Tagger, folder: Path, carried: Carried) -> None:
    """Copy the tensors above the encoder: whole where no tags are in them, row by row where they are.

    Of those with a row a word the rows of the start's words, where these are the first ones of the new tagger's.
    """
    old_set, settings = read_tag_set(folder), read_description(folder)["hyperparameters"]
    old = tagger.adopt(read_tensors(folder / TENSORS), old_set, settings)
    new = tagger.above_encoder()
    new_set, by_type = tagger.tag_set, type(tagger).type_dimensions
    taught = tagger.taught_types(old_set, settings)
    # The rows of types that no label taught have learnt never to be chosen.
    tag_rows = _shared_rows(new_set.tags, old_set.tags, lambda tag: tag == "O" or split_tag(tag)[1] in taught)
    type_rows = _shared_rows(("", *new_set.types), ("", *old_set.types), lambda _: True)  # O stands first
    taken: list[str] = []
    fresh: list[str] = []
    learnt = {name for name, _ in tagger.named_parameters()}
    # Taggers that read descriptions have no row a type that is learnt: all that is learnt tells types apart.
    rows_of = {name: by_type.get(name) or type(tagger).tag_dimensions.get(name, ()) for name in new}
    by_rows = any(rows_of[name] for name in learnt & rows_of.keys())
    has_rows, lost_rows = False, False
    for name, value in new.items():
        if name in type(tagger).word_rows and name in old:
            is_kept = _begins_with(value, old[name]) and _keeps_words(tagger, folder)
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
    """Where the names that both have, and that are kept, stand in the new ones and in the old."""
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


def _begins_with(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Whether rows of the old tensor can stand first in the new one."""
    return new.shape[1:] == old.shape[1:] and len(new) >= len(old)


def _keeps_words(tagger: Tagger, folder: Path) -> bool:
    """Whether the words of a start have the numbers in the new tagger that they have there."""
    assert isinstance(tagger.encoder, WordEncoder)
    words = read_vocabulary(folder).words
    return tagger.encoder.vocabulary.words[: len(words)] == words


def _fits(new: torch.Tensor, old: torch.Tensor, tag_dimensions: tuple[int, ...]) -> bool:
    """Whether two tensors agree in every dimension that does not count tags."""
    if new.dim() != old.dim():
        return False
    return all(new.shape[place] == old.shape[place] for place in range(new.dim()) if place not in tag_dimensions)


def encoder_of(tagger: Tagger) -> TransformerEncoder:
    """The tagger's transformer."""
    assert isinstance(tagger.encoder, TransformerEncoder)
    return tagger.encoder
