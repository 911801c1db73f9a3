"""Words that a method has vectors for: from files, or trained on the run's raw text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import cast

from crossner_cli.data.files import check_file, open_lines
from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.data.text import segment
from crossner_cli.encoders.names import STRINGS, VOCABULARY
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.inputs import TrainingStage
from crossner_cli.recurrent.string_embeddings import CHARACTERS
from crossner_cli.recurrent.vector_files import read_vector_width, read_vectors
from crossner_cli.recurrent.word_reader import (
    LONGEST_WORD,
    KnownWords,
    WordInputs,
    collect_vocabulary,
    read_known_words,
)
from crossner_cli.recurrent.word_vectors import WordVectors, character_ngrams, import_gensim, train_vectors
from crossner_cli.run.directory import MANIFEST, RunDirectory, check_outputs, digest_model, read_manifest
from crossner_cli.run.freshness import changed_data
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.storage import digest_path

# Of vectors that are trained on the run's raw text.
RAW_EPOCHS, RAW_MINIMUM = 10, 3
# Words of the raw text that frozen vectors are kept for beside those of the labelled data: the most frequent of the
# first sentences, so that a corpus of any size is read in half a minute.
MOST_RAW_WORDS, MOST_RAW_SENTENCES = 200_000, 500_000
CORPUS = "corpus"  # the value of embeddings that means the raw text of the run


def check_word_files(design: TaggerDesign, start: Start) -> None:
    """Refuse files that do not exist, and vectors of a width that the tagger cannot read."""
    inputs = cast(WordInputs, design.settings)
    size = 0 if inputs.words == "none" else inputs.word_size
    if inputs.embeddings == CORPUS:
        import_gensim()
    elif inputs.embeddings:
        hint = "Give a file of word vectors (GloVe, word2vec, fastText), or corpus to train them on the raw text."
        check_file("--set embeddings", Path(inputs.embeddings), hint)
        size = read_vector_width(Path(inputs.embeddings))
    if inputs.ngram_embeddings:
        hint = "Give a file of vectors of character n-grams, as charNgram.txt."
        check_file("--set ngram_embeddings", Path(inputs.ngram_embeddings), hint)
        read_vector_width(Path(inputs.ngram_embeddings))  # refuses a file without any
    if size and (inputs.embeddings or start.folder is None):
        inputs.check_width(size)


def find_strings(run: RunDirectory, name: str) -> Path | None:
    """Find the folder of the language models of characters: that of a stage of this run, or the one given."""
    if not name:
        return None
    folder = run.stage_or_path(name)
    missing = [file for file in (STRINGS, CHARACTERS) if not (folder / file).is_file()]
    if missing:
        raise CrossNERError(
            f"--set string_embeddings={name}: {folder} holds no {missing[0]}.",
            hint="Name a stage of this run made by crossner dapt --encoder strings (finished stages here: "
            f"{', '.join(run.stages()) or 'none'}), or give a folder with {STRINGS} and {CHARACTERS}.",
        )
    if (folder / MANIFEST).is_file():
        check_outputs(folder, folder, hint=f"Make {name} again with --force.")
    return folder


def note_on_strings(folder: Path | None, prepared: PreparedData) -> list[str]:
    """Return a warning where language models were trained on other data than those of this run."""
    if folder is None or not (folder / MANIFEST).is_file():
        return []
    if not changed_data(read_manifest(folder), prepared.digests):
        return []
    return [
        f"The language models of {folder.name} were trained on other data: they may have read these test sentences."
    ]


def digest_word_files(inputs: WordInputs, strings: Path | None) -> dict[str, str]:
    """Digest the files read beside the data, by path; ``strings`` is the folder of language models of characters."""
    files = (inputs.embeddings, inputs.ngram_embeddings)
    digests = {file: digest_path(Path(file)) for file in files if file not in ("", CORPUS)}
    return digests | ({} if strings is None else {str(strings): digest_model(strings)})


@dataclass(frozen=True)
class CorpusSentences:
    """The words of a corpus, spelt as ``inputs`` say, sentence by sentence; may be iterated again."""

    path: Path
    inputs: WordInputs

    def __iter__(self) -> Iterator[list[str]]:
        for _, line in open_lines(self.path):
            for words in segment(line):
                yield [self.inputs.normalise_word(word.text) for word in words]


def collect_known_words(
    stage: TrainingStage, sentences: Sequence[Sentence], tag_set: TagSet, raw_words: Sequence[str] = ()
) -> Work[KnownWords]:
    """Collect the words that a method has vectors for.

    Words of every split of every domain of the run are looked up in a file of vectors, so that a word of a later test
    sentence is known, even on a domain that is not trained on; no tag is read. So are the words that describe the types
    of all domains. Frozen vectors cost no training time, so words of the run's raw text have theirs too: similar text
    is tagged later.

    Args:
        raw_words: Words of raw text to know; where vectors are frozen, only those that have one.
    """
    inputs = cast(WordInputs, stage.design.settings)
    prepared, start = stage.prepared, stage.start
    described = _describe_types(inputs, tag_set.types)
    # So a later stage of the run finds the words of its types in the start.
    later = _describe_types(inputs, [name for domain in prepared.domains.values() for name in domain.types])
    of_types = described if inputs.words != "none" else []
    raw_words = [inputs.normalise_word(word) for word in raw_words]
    words: list[str] = []
    if inputs.embeddings or inputs.ngram_embeddings:
        words = [word for domain in prepared.domains.values() for word in domain.words()]
    of_data = {*raw_words, *map(inputs.normalise_word, words)}
    vectors = yield from _read_word_vectors(inputs, prepared, of_data, {*of_types, *later}, stage.seed)
    ngram_vectors = yield from _read_ngram_vectors(inputs, words)
    known = {*(() if vectors is None else vectors.words), *(read_known_words(start) if of_types else ())}
    if missing := [word for word in dict.fromkeys(of_types) if word not in known]:
        yield Notice(f"words of type descriptions without a vector, which get random ones: {', '.join(missing)}")
    has_vectors = vectors is not None or start.holds(VOCABULARY)
    # A frozen row without a vector would stay noise.
    own = described if inputs.words == "frozen" and has_vectors else [*described, *raw_words]
    vocabulary = collect_vocabulary(sentences, inputs, vectors, own, ngram_vectors, has_vectors=has_vectors)
    # A word that is frequent in raw text is met often; hiding half of its places there would teach nothing.
    vocabulary = replace(vocabulary, rare=vocabulary.rare.difference(raw_words))
    return KnownWords(vocabulary, vectors, ngram_vectors)


def _describe_types(inputs: WordInputs, types: Sequence[str]) -> list[str]:
    """Return the words that describe entity types, for a method that reads descriptions."""
    return [inputs.normalise_word(word) for word in inputs.described_words(types)]


def _read_word_vectors(
    inputs: WordInputs, prepared: PreparedData, of_data: set[str], described: set[str], seed: int
) -> Work[WordVectors | None]:
    """Read or train the vectors of words of the data and of descriptions; None without ``embeddings``."""
    embeddings = inputs.embeddings
    if not embeddings:
        return None
    yield Notice(f"reading word vectors: {embeddings}")
    if inputs.words == "frozen":
        of_data = of_data.union(_words_of_raw_text(prepared, inputs))
    wanted = sorted(of_data | described)
    if embeddings != CORPUS:
        vectors = _require_some(read_vectors(Path(embeddings), wanted), "embeddings", "words", of_data)
        yield Notice(vectors.describe())
        return vectors.include_written_forms()
    vectors = train_vectors(
        CorpusSentences(prepared.corpus("domain"), inputs),
        size=inputs.word_size,
        seed=seed,
        epochs=RAW_EPOCHS,
        minimum_count=RAW_MINIMUM,
        words=wanted,
    )
    yield Notice(vectors.describe())
    return vectors


def _words_of_raw_text(prepared: PreparedData, inputs: WordInputs) -> list[str]:
    """Return the frequent words of the run's raw text, if it has any."""
    corpus = prepared.raw_text("target")
    if corpus is None:
        return []
    sentences = islice(CorpusSentences(corpus, inputs), MOST_RAW_SENTENCES)
    counts = Counter(word for words in sentences for word in words)
    return [word for word, count in counts.most_common(MOST_RAW_WORDS) if count >= RAW_MINIMUM]


def _read_ngram_vectors(inputs: WordInputs, words: Iterable[str]) -> Work[WordVectors | None]:
    """Read the vectors of the character n-grams of the words; None without ``ngram_embeddings``."""
    if not inputs.ngram_embeddings:
        return None
    yield Notice(f"reading vectors of n-grams: {inputs.ngram_embeddings}")
    letters = sorted({inputs.normalise_letters(word) for word in words})
    keys = dict.fromkeys(key for word in letters for key in character_ngrams(word[:LONGEST_WORD]))
    vectors = read_vectors(Path(inputs.ngram_embeddings), keys, exact_only=True)
    vectors = _require_some(vectors, "ngram_embeddings", "character n-grams", keys.keys())
    yield Notice(vectors.describe("n-grams"))
    return vectors


def _require_some(vectors: WordVectors, flag: str, what: str, of_data: Set[str]) -> WordVectors:
    """Return the vectors; refuse a file that has none for the data: it is of another language or format."""
    if of_data.isdisjoint(vectors.words):
        raise CrossNERError(
            f"--set {flag}={vectors.source}: none of {len(of_data):,} {what} of the data has one of its "
            f"{vectors.entries:,} vectors of {vectors.size:,} values.",
            hint="Give a file of the language of the data, a word or n-gram and its values on each line, one space "
            "between them.",
        )
    return vectors
