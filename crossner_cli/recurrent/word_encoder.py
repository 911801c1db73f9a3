"""Vectors of words from several parts: static vectors, characters, language models of characters, a transformer.

Paper: Lample et al. (2016), section 4, and Ma and Hovy (2016) for the characters; the inputs of Liu et al. (2021)'s
BiLSTM-CRF and Coach. Character n-grams as in Hashimoto et al. (2017), section 2.1.
Differs: a word outside the vocabulary is read as its lower-cased form if that is known, else with its digits as zeros,
else as unknown; n-gram vectors are learnt with the tagger; padding takes no part in the largest value over characters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.names import STRINGS, VOCABULARY
from crossner_cli.encoders.pretrained import read_tensors
from crossner_cli.encoders.start import EncoderStart, Start, TaggerDesign
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.encoders.type_descriptions import describe_type
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.randomness import Dropout, isolate_draws
from crossner_cli.layers.settings import Settings
from crossner_cli.recurrent.characters import CharacterCNN, NgramMean
from crossner_cli.recurrent.string_embeddings import StringEncoder, load_string_encoder, save_string_encoder
from crossner_cli.recurrent.word_reader import (
    CONVOLUTION,
    TENSORS,
    UNKNOWN,
    KnownWords,
    Vocabulary,
    WordInputs,
    WordReader,
    read_known_words,
    read_vector_sizes,
    read_vocabulary,
)
from crossner_cli.recurrent.word_vectors import WordVectors

TABLES = ("words.weight", "characters.table.weight")  # one row per word, character or n-gram


class WordEncoder(Encoder):
    """One vector per word, its parts side by side.

    Args:
        vectors: Static vectors to begin with; their width wins over ``word_size``.
        word_size: Width of the vectors of words, if not that of ``inputs``.
        ngram_vectors: Vectors of character n-grams to begin with; their width wins over ``character_size``.
        character_size: Width of the vectors of characters, if not that of ``inputs``.
    """

    reads = "words"
    rare: Tensor

    def __init__(
        self,
        vocabulary: Vocabulary,
        inputs: WordInputs,
        transformer: TransformerEncoder | None = None,
        vectors: WordVectors | None = None,
        word_size: int | None = None,
        ngram_vectors: WordVectors | None = None,
        character_size: int | None = None,
        strings: StringEncoder | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary, self.inputs = vocabulary, inputs
        self.transformer, self.strings = transformer, strings
        self.reader = WordReader(vocabulary, inputs, transformer.reader if transformer else None, strings)
        self.dropout = Dropout(inputs.input_dropout)
        self.output_dim = (transformer.output_dim if transformer else 0) + (strings.output_dim if strings else 0)
        self.words: nn.Embedding | None = None
        if inputs.words != "none":
            self._make_words(word_size or (inputs.word_size if vectors is None else vectors.size), vectors)
        self.characters: CharacterCNN | NgramMean | None = None
        self.character_size = character_size or (inputs.character_size if ngram_vectors is None else ngram_vectors.size)
        if inputs.characters != "none":
            self.characters = self._make_characters(ngram_vectors)
            self.output_dim += self.character_size

    @classmethod
    def reads_transformer(cls, settings: Settings) -> bool:
        """Return whether a transformer reads along."""
        return cast(WordInputs, settings).transformer != "none"

    @classmethod
    def check_start(cls, design: TaggerDesign, start: Start) -> None:
        """Refuse a start without the vectors, language models or transformer that are read."""
        inputs = cast(WordInputs, design.settings)
        if design.word_shapes:
            raise CrossNERError(
                f"--word-shapes has no effect: the method {design.name} reads characters of words.",
                hint="Leave it out, or take a method that reads subwords, as --method linear.",
            )
        if inputs.transformer != "none":
            TransformerEncoder.check_start(design, start)
        if inputs.words == "frozen" and not inputs.embeddings and not read_known_words(start):
            raise CrossNERError(
                f"words=frozen: there are no vectors to keep, in the start {start.name!r} or elsewhere.",
                hint="Give --set embeddings=FILE, or --set embeddings=corpus to train them on the raw text of the run;"
                " or learn them: --set words=trained.",
            )
        if inputs.strings != "none" and not inputs.string_embeddings and not start.holds(STRINGS):
            raise CrossNERError(
                f"strings=frozen: there are no language models of characters, in the start {start.name!r} or"
                " elsewhere.",
                hint="Train some (crossner dapt --encoder strings --name strings) and give --set"
                " string_embeddings=strings, or give --set string_embeddings=FOLDER.",
            )
        if start.folder is not None and not start.holds(VOCABULARY) and inputs.transformer == "none":
            raise CrossNERError(
                f"The start {start.name!r} holds a transformer, and this tagger reads none: nothing would carry over.",
                hint="Let it read along, as --set transformer=frozen, or start from base.",
            )

    @classmethod
    def start(cls, begin: EncoderStart) -> Self:
        """Make an encoder of the known words, with the vectors of the start where it has any."""
        inputs = cast(WordInputs, begin.design.settings)
        known: KnownWords = begin.known or KnownWords()
        transformer = None if inputs.transformer == "none" else TransformerEncoder.start(begin)
        stored: dict[str, Tensor] = {}
        vocabulary, folder = known.vocabulary, begin.folder
        word_size = known.vectors.size if known.vectors else None
        ngram_size = known.ngram_vectors.size if known.ngram_vectors else None
        if folder is not None and (folder / VOCABULARY).is_file():
            # Without new vectors those of the start go on, in their width.
            stored = read_tensors(folder / TENSORS)
            old = read_vector_sizes(stored, inputs)
            word_size, ngram_size = word_size or old.get("word_size"), ngram_size or old.get("character_size")
            # Words whose vectors only the start has would be noise in another width.
            is_other = {
                "words": old.get("word_size", word_size) != word_size,
                "ngrams": old.get("character_size", ngram_size) != ngram_size,
            }
            vocabulary = read_vocabulary(folder).without(**is_other).extended(vocabulary)
        strings = known.strings or folder
        encoder = cls(
            vocabulary,
            inputs,
            transformer,
            known.vectors,
            ngram_vectors=known.ngram_vectors,
            word_size=word_size,
            character_size=ngram_size,
            strings=load_string_encoder(strings) if inputs.strings == "frozen" and strings else None,
        )
        begin.carried.add(len(encoder.strings.state_dict()) if encoder.strings else 0, ())
        taken, own = encoder.take_over(stored), encoder.own_tensors()
        left = [name for name in stored if name not in taken]
        begin.carried.add(len(taken), [name for name in own if name not in taken], left, prefix="encoder.")
        return encoder

    def take_over(self, stored: Mapping[str, Tensor]) -> list[str]:
        """Copy the vectors of a start with whose vocabulary this one begins; return the names of those that fitted.

        A table of vectors may have more rows than before, other tensors must have the same shape. Vectors of characters
        are never copied to n-grams.
        """
        taken: list[str] = []
        own = self.own_tensors()
        reads_alike = (CONVOLUTION in own) == (CONVOLUTION in stored)
        for name, value in stored.items():
            new = own.get(name) if reads_alike or not name.startswith("characters.") else None
            has_more = name in TABLES and new is not None and len(new) >= len(value)
            if new is not None and new.shape[1:] == value.shape[1:] and (has_more or len(new) == len(value)):
                new[: len(value)] = value  # the state dict shares memory with the parameters
                taken.append(name)
        return taken

    def keeps_words(self, folder: Path) -> bool:
        """Return whether the vocabulary begins with the one in a folder."""
        words = read_vocabulary(folder).words
        return self.vocabulary.words[: len(words)] == words

    @classmethod
    def load(cls, folder: Path, settings: Settings, *, attention: str | None = None) -> Self:
        """Read an encoder back, with the transformer and the language models of characters that it reads."""
        inputs = cast(WordInputs, settings)
        stored = read_tensors(folder / TENSORS)
        sizes = read_vector_sizes(stored, inputs)
        encoder = cls(
            read_vocabulary(folder),
            inputs,
            None if inputs.transformer == "none" else TransformerEncoder.load(folder, inputs, attention=attention),
            word_size=sizes.get("word_size"),
            character_size=sizes.get("character_size"),
            strings=None if inputs.strings == "none" else load_string_encoder(folder),
        )
        shapes = {name: tuple(value.shape) for name, value in encoder.own_tensors().items()}
        if shapes != {name: tuple(value.shape) for name, value in stored.items()}:
            raise CrossNERError(
                f"{folder / TENSORS} does not fit {VOCABULARY} beside it.", hint="Train the tagger again."
            )
        encoder.load_state_dict(stored, strict=False)
        return encoder

    def save(self, folder: Path, tags: Sequence[str] = (), classifier: nn.Linear | None = None) -> None:
        """Write vocabulary and vectors, and the transformer and the language models of characters, if any."""
        vocabulary = self.vocabulary
        record = {"words": vocabulary.words, "characters": vocabulary.characters, "ngrams": vocabulary.ngrams}
        (folder / VOCABULARY).write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
        save_file({name: value.contiguous().cpu() for name, value in self.own_tensors().items()}, folder / TENSORS)
        if self.strings is not None:
            save_string_encoder(self.strings, folder)
        if self.transformer is not None:
            self.transformer.save(folder, tags)

    @property
    def files(self) -> tuple[str, ...]:
        """The vectors, and the files of the models that read along."""
        of_strings = () if self.strings is None else (STRINGS,)
        return (TENSORS, *of_strings, *(() if self.transformer is None else self.transformer.files))

    def _make_words(self, size: int, vectors: WordVectors | None) -> None:
        """Make the table of word vectors and the unknown vector, (size,)."""
        bound = (3 / size) ** 0.5
        with isolate_draws():
            self.words = nn.Embedding(len(self.vocabulary.words), size)
            nn.init.uniform_(self.words.weight, -bound, bound)
        self.unknown = nn.Parameter(torch.empty(size).uniform_(-bound, bound))
        if vectors is not None:
            copy_vectors(vectors, self.words.weight, self.vocabulary.words)
        self.output_dim += size
        rare = [False, *(word in self.vocabulary.rare for word in self.vocabulary.words)]
        self.register_buffer("rare", torch.tensor(rare), persistent=False)

    def _make_characters(self, ngram_vectors: WordVectors | None) -> CharacterCNN | NgramMean:
        if self.inputs.characters == "cnn":
            letters = len(self.vocabulary.characters)
            return CharacterCNN(letters, self.character_size, self.inputs.character_dropout)
        mean = NgramMean(len(self.vocabulary.ngrams), self.character_size)
        if ngram_vectors is not None:  # a word without a known n-gram is zero, as in CharNGram
            nn.init.zeros_(mean.table.weight[0])
            copy_vectors(ngram_vectors, mean.table.weight[1:], self.vocabulary.ngrams)
        return mean

    def forward(self, batch: Batch) -> Tensor:
        """Put the parts side by side, (B, W, D)."""
        parts: list[Tensor] = []
        if self.words is not None:
            parts.append(self._word_vectors(batch))
        if self.characters is not None:
            parts.append(self._character_vectors(batch))
        if self.frozen_size:
            states = self.read_frozen(batch) if batch.frozen_states is None else batch.frozen_states
            parts.append(states.float())
        if self.transformer is not None and self._frozen_transformer is None:
            parts.append(self.transformer(batch).float())
        vectors: Tensor = self.dropout(torch.cat(parts, dim=2))
        return vectors

    @property
    def frozen_size(self) -> int:
        """Width of the vectors of frozen models: the language models of characters, and a frozen transformer."""
        return sum(model.output_dim for model in (self.strings, self._frozen_transformer) if model is not None)

    @property
    def _frozen_transformer(self) -> TransformerEncoder | None:
        return self.transformer if self.inputs.transformer == "frozen" else None

    def read_frozen(self, batch: Batch) -> Tensor:
        """Compute the vectors of the words by frozen models, (B, W, D), without a gradient."""
        parts: list[Tensor] = []
        with torch.no_grad():
            if self.strings is not None:
                assert batch.strings is not None and batch.string_places is not None
                parts.append(self.strings(batch.strings, batch.string_places))
            if self._frozen_transformer is not None:
                parts.append(self._frozen_transformer.eval()(batch))
        return torch.cat(parts, dim=2)

    def _word_vectors(self, batch: Batch) -> Tensor:
        assert batch.word_ids is not None and self.words is not None
        numbers = batch.word_ids
        if self.training:  # half of the words met once are read as unknown, so that the unknown vector is learnt
            numbers = torch.where(
                self.rare[numbers] & (torch.rand(numbers.shape, device=numbers.device) < 0.5), 0, numbers
            )
        return self._look_up(numbers)

    def _look_up(self, numbers: Tensor) -> Tensor:
        """Look up the vectors of numbered words, (..., D); number 0 has the unknown one."""
        assert self.words is not None
        known = self.words((numbers - 1).clamp(min=0)) if len(self.vocabulary.words) else self.unknown
        return torch.where((numbers != UNKNOWN)[..., None], known, self.unknown)

    def _character_vectors(self, batch: Batch) -> Tensor:
        assert batch.characters is not None and batch.character_mask is not None and self.characters is not None
        found = batch.characters.new_zeros(*batch.word_mask.shape, self.character_size, dtype=torch.float32)
        real = batch.word_mask
        with torch.autocast(real.device.type, enabled=False):
            found[real] = self.characters(batch.characters[real], batch.character_mask[real])
        return found

    @property
    def description_size(self) -> int:
        """Width of the vectors of type descriptions."""
        if self.words is not None:
            return self.words.embedding_dim
        return self.transformer.word_embeddings.shape[1] if self.transformer is not None else 0

    def describe(self, types: Sequence[str], given: Mapping[str, Sequence[str]] | None = None) -> Tensor:
        """Return one vector per type: the sum of the vectors of its description's words, (E, D), without a gradient.

        Words have their static vectors, or without those the vectors of their subwords in the transformer's table.

        Args:
            types: Entity types.
            given: Words of some of them; the others are described by their names.
        """
        if self.words is None and self.transformer is None:
            raise CrossNERError(
                "Type descriptions need word vectors, and this tagger reads characters only.",
                hint="Set words=trained, words=frozen or transformer=frozen.",
            )
        with torch.no_grad():
            return torch.stack([self.embed_words(describe_type(name, given)).sum(dim=0) for name in types])

    def embed_words(self, words: Sequence[str]) -> Tensor:
        """Return the vectors of words outside a sentence, (N, D)."""
        if self.words is None:
            assert self.transformer is not None
            (encoded,) = self.transformer.reader.encode([Sentence(tuple(words))])
            return self.transformer.word_embeddings[torch.from_numpy(encoded.windows[0])]
        numbers = torch.tensor([self.reader.number(word) for word in words], device=self.unknown.device)
        return self._look_up(numbers)

    @property
    def width(self) -> int | None:
        """Width of the transformer if it is trained, else None."""
        return self.transformer.width if self.transformer and self.inputs.transformer == "trained" else None

    def transformer_parameters(self) -> list[nn.Parameter]:
        """Parameters of the transformer, trained or not."""
        return list(self.transformer.parameters()) if self.transformer else []

    def freeze_parameters(self, *, train_embeddings: bool) -> None:
        """Freeze the parts that the settings freeze."""
        if self.words is not None:
            self.words.weight.requires_grad_(self.inputs.words == "trained")
        if self.transformer is not None:
            self.transformer.requires_grad_(self.inputs.transformer == "trained")
            if self.inputs.transformer == "trained":
                self.transformer.freeze_parameters(train_embeddings=train_embeddings)

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take the transformer's fast layers."""
        if self.transformer is not None:
            self.transformer.prepare_for_training(on_cpu=on_cpu, attention_dropout=attention_dropout)

    def prepare_for_inference(self, precision: str, *, on_cpu: bool) -> None:
        """Take the transformer's fast layers.

        Raises:
            CrossNERError: int8, and there is no transformer.
        """
        if self.transformer is not None:
            self.transformer.prepare_for_inference(precision, on_cpu=on_cpu)
        elif precision == "int8":
            raise CrossNERError(
                "--precision int8 is for transformers, and this tagger has none.", hint="Use --precision fp32."
            )

    def own_tensors(self) -> dict[str, Tensor]:
        """Tensors of this encoder without those of the transformer and the language models of characters."""
        others = ("transformer.", "strings.")
        return {name: value for name, value in self.state_dict().items() if not name.startswith(others)}


def copy_vectors(vectors: WordVectors, table: Tensor, names: Sequence[str]) -> None:
    """Copy vectors into the rows, (N, D), of a table whose rows have the given names."""
    places = {name: number for number, name in enumerate(names)}
    numbers = torch.tensor([places[word] for word in vectors.words], dtype=torch.long)
    with torch.no_grad():
        table[numbers] = torch.from_numpy(vectors.rows)
