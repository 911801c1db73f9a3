"""What methods of words read beside the sentences: files of vectors, or vectors trained on the run's raw text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.data.text import segment
from crossner_cli.data.text_files import check_file, open_lines
from crossner_cli.encoders.string_embeddings import CHARACTERS, TENSORS
from crossner_cli.encoders.vector_files import read_vector_width, read_vectors
from crossner_cli.encoders.word_reader import LONGEST_WORD, WordInputs, collect_vocabulary
from crossner_cli.encoders.word_vectors import WordVectors, character_ngrams, import_gensim, train_vectors
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, read_settings
from crossner_cli.options import Optimisation
from crossner_cli.run.directory import MANIFEST, RunDirectory, read_manifest
from crossner_cli.run.storage import digest_file, digest_path
from crossner_cli.taggers.carry_over import KnownWords
from crossner_cli.taggers.sources import VECTORS_WANTED, Start

# Of vectors that are trained on the run's raw text.
RAW_EPOCHS, RAW_MINIMUM = 10, 3
# Words of the raw text that frozen vectors are kept for beside those of the labelled data: the most frequent of the
# first sentences, so that a corpus of any size is read in half a minute.
MOST_RAW_WORDS, MOST_RAW_SENTENCES = 200_000, 500_000
CORPUS = "corpus"  # what --embeddings calls the raw text of the run


def check_word_inputs(options: Optimisation) -> None:
    """Refuse settings that do not exist, files that nobody would read or that are not there, vectors of a width that
    the method cannot read.

    Raises:
        CrossNERError: As above.
    """
    method = find_method(options.method)
    hyper = read_settings(method, options.settings)
    inputs = hyper if isinstance(hyper, WordInputs) else None
    for flag, given, is_read, what, way_out in (
        (
            "--embeddings",
            options.embeddings,
            inputs is not None and inputs.words != "none",
            "static word vectors",
            "choose a method that reads words, as --method bilstm-crf",
        ),
        (
            "--ngram-embeddings",
            options.ngram_embeddings,
            inputs is not None and inputs.characters == "ngrams",
            "character n-grams",
            "choose a method that reads words, and --set characters=ngrams",
        ),
        (
            "--string-embeddings",
            options.string_embeddings,
            inputs is not None and inputs.strings != "none",
            "contextual strings",
            "choose a method that reads words, and --set strings=frozen",
        ),
    ):
        if given is not None and not is_read:
            raise CrossNERError(
                f"{flag} {given}: the method {options.method!r} reads no {what} as set.",
                hint=f"Leave {flag} out, or {way_out}.",
            )
    _check_files(options)
    if inputs and inputs.words != "none":
        if options.embeddings not in (None, CORPUS):
            method.check_description_size(read_vector_width(Path(options.embeddings)))
        elif options.embeddings == CORPUS or options.start_from == "base":
            method.check_description_size(inputs.word_size)
    if inputs and inputs.words == "frozen" and options.embeddings is None and options.start_from == "base":
        raise CrossNERError("words=frozen: there are no vectors to keep as they are.", hint=VECTORS_WANTED)
    if inputs and inputs.strings != "none" and options.string_embeddings is None and options.start_from == "base":
        raise CrossNERError(
            "strings=frozen: there are no language models of characters to read.",
            hint="Train some (crossner dapt --encoder strings --name strings) and give --string-embeddings strings, or"
            f" give --string-embeddings FOLDER, with {TENSORS} and {CHARACTERS} in it.",
        )


def _check_files(options: Optimisation) -> None:
    """Refuse what is not there."""
    if options.embeddings is not None and options.embeddings != CORPUS:
        hint = "Give a file of word vectors (GloVe, word2vec, fastText), or corpus to train them on the raw text."
        check_file("--embeddings", Path(options.embeddings), hint)
    if options.ngram_embeddings is not None:
        hint = "Give a file of vectors of character n-grams, as charNgram.txt."
        check_file("--ngram-embeddings", Path(options.ngram_embeddings), hint)
        read_vector_width(Path(options.ngram_embeddings))  # refuses what holds none


def find_strings(run: RunDirectory, options: Optimisation) -> Path | None:
    """The folder of the language models of characters: of a stage of this run by its name, else the one given.

    Raises:
        CrossNERError: It holds none.
    """
    name = options.string_embeddings
    if name is None:
        return None
    folder = run.folder(name) if run.has(name) else Path(name)
    missing = [file for file in (TENSORS, CHARACTERS) if not (folder / file).is_file()]
    if missing:
        raise CrossNERError(
            f"--string-embeddings {name}: {folder} holds no {missing[0]}.",
            hint="Name a stage of this run made by crossner dapt --encoder strings (finished stages here: "
            f"{', '.join(run.stages()) or 'none'}), or give a folder with {TENSORS} and {CHARACTERS}; README.md tells "
            "how to write them with flair.",
        )
    return folder


def note_on_strings(folder: Path, prepared: PreparedData) -> str | None:
    """What a person should know of language models trained by crossner on other data than those of this run."""
    if not (folder / MANIFEST).is_file() or read_manifest(folder)["inputs"].get("prepare-data") == prepared.digest:
        return None
    return (
        f"The language models of {folder.name} were trained on other data than are prepared here: dev and test "
        "sentences of these may have been among what they read."
    )


def digest_word_inputs(options: Optimisation, strings: Path | None) -> dict[str, str]:
    """Digests of the files read beside the data, by option; of a stage that of its manifest."""
    files = {name: getattr(options, name) for name in ("embeddings", "ngram_embeddings")}
    if options.embeddings == CORPUS:
        del files["embeddings"]
    digests = {name: digest_path(Path(file)) for name, file in files.items() if file is not None}
    if strings is not None:
        manifest = strings / MANIFEST
        digests["string_embeddings"] = digest_file(manifest) if manifest.is_file() else digest_path(strings)
    return digests


@dataclass(frozen=True)
class CorpusSentences:
    """The words of a corpus, as ``inputs`` spell them, sentence by sentence, as often as asked for."""

    path: Path
    inputs: WordInputs

    def __iter__(self) -> Iterator[list[str]]:
        for _, line in open_lines(self.path):
            for words in segment(line):
                yield [self.inputs.normalise_word(word.text) for word in words]


def check_corpus(options: Optimisation, prepared: PreparedData) -> None:
    """Refuse ``--embeddings corpus`` where there is no raw text, or nothing to train vectors with.

    Raises:
        CrossNERError: As above.
    """
    if options.embeddings == CORPUS:
        prepared.corpus("domain")
        import_gensim()


def _words_of_raw_text(prepared: PreparedData, inputs: WordInputs) -> list[str]:
    """The frequent words of the run's raw text, where there is one."""
    corpus = prepared.raw_text("target")
    if corpus is None:
        return []
    sentences = islice(CorpusSentences(corpus, inputs), MOST_RAW_SENTENCES)
    counts = Counter(word for words in sentences for word in words)
    return [word for word, count in counts.most_common(MOST_RAW_WORDS) if count >= RAW_MINIMUM]


def _found(vectors: WordVectors, flag: str, what: str, of_data: Set[str]) -> WordVectors:
    """The vectors, unless there are none of the data: then the file is of another language, or of another form.

    Args:
        vectors: Those found.
        flag: What named the file.
        what: They are of.
        of_data: What of that is of the data; words that describe types need not be.

    Raises:
        CrossNERError: No word of the data has a vector.
    """
    if of_data.isdisjoint(vectors.words):
        raise CrossNERError(
            f"{flag} {vectors.source}: none of {len(of_data):,} {what} of the data has one of its {vectors.entries:,} "
            f"vectors of {vectors.size:,} values.",
            hint="Give a file of the language of the data, a word or n-gram and its values on each line, one space "
            "between them.",
        )
    return vectors


def _notes_on_descriptions(
    described: Sequence[str], vectors: WordVectors | None, start: Start, *, is_kept: bool
) -> list[str]:
    """Tell of words that describe types and have no vector: what they begin with is drawn at random.

    Args:
        described: The words.
        vectors: Those given.
        start: What has others.
        is_kept: Whether these are taken over.
    """
    if described and vectors is None and not start.has_words:
        return [
            "no --embeddings: the vectors of words that describe types are drawn at random, so that nothing tells "
            "which other types a type resembles (--embeddings FILE, or corpus to train them on the raw text of the run)"
        ]
    known = {*(() if vectors is None else vectors.words), *(start.words() if described and is_kept else ())}
    missing = [word for word in dict.fromkeys(described) if word not in known]
    if not missing:
        return []
    return [
        f"words that describe types and have no vector: {', '.join(missing)}; theirs are random, so that nothing tells "
        "which other types such a type resembles"
    ]


def _static_vectors(
    prepared: PreparedData, options: Optimisation, inputs: WordInputs, of_data: set[str], described: Set[str]
) -> tuple[WordVectors | None, list[str]]:
    """Those of words of the data and of descriptions, read or trained, and what to tell of them; None without
    ``--embeddings``.
    """
    if options.embeddings is None:
        return None, []
    if inputs.words == "frozen":
        of_data = of_data.union(_words_of_raw_text(prepared, inputs))
    wanted = sorted(of_data | described)
    if options.embeddings != CORPUS:
        vectors = _found(read_vectors(Path(options.embeddings), wanted), "--embeddings", "words", of_data)
        return vectors.include_written_forms(), [vectors.describe()]
    vectors = train_vectors(
        CorpusSentences(prepared.corpus("domain"), inputs),
        size=inputs.word_size,
        seed=options.seed,
        epochs=RAW_EPOCHS,
        minimum_count=RAW_MINIMUM,
        workers=1,
        words=wanted,
    )
    once = f"the vectors of the corpus are trained once, with --seed {options.seed}, for all seeds"
    return vectors, [*([once] if options.seeds is not None else []), vectors.describe()]


def _read_ngram_vectors(path: Path, words: Iterable[str]) -> WordVectors:
    """Those of the character n-grams of the words."""
    keys = dict.fromkeys(key for word in sorted(set(words)) for key in character_ngrams(word[:LONGEST_WORD]))
    return _found(read_vectors(path, keys, exact_only=True), "--ngram-embeddings", "character n-grams", keys.keys())


def known_words(
    prepared: PreparedData,
    options: Optimisation,
    sentences: Sequence[Sentence],
    tag_set: TagSet,
    start: Start,
    raw_words: Sequence[str] = (),
    strings: Path | None = None,
) -> tuple[KnownWords | None, list[str]]:
    """What a method that reads words has vectors for, and what to tell of them; None for other methods.

    Words of every split of every domain of the run are looked up in a file of vectors, so that a word of a later test
    sentence is not unknown for want of a training sentence, on a domain that is not trained on either; no tag is read.
    So are the words that describe the types of all domains.
    Frozen vectors cost training nothing, so words of the run's raw text have theirs too: text like it is tagged later.

    Args:
        prepared: The run's data.
        options: Method and files.
        sentences: Those to train on.
        tag_set: The tags of the tagger.
        start: What it starts from.
        raw_words: Words of raw text that are to be known; where vectors are frozen, those that have one.
        strings: Folder of the language models of characters, as ``find_strings`` gives it.
    """
    method = find_method(options.method)
    if method.reads != "words":
        return None, []
    inputs = read_settings(method, options.settings)
    notes: list[str] = []
    described = [inputs.normalise_word(word) for word in method.described_words(inputs, tag_set.types)]
    of_types = tuple(described) if inputs.words != "none" else ()
    raw_words = [inputs.normalise_word(word) for word in raw_words]
    has_vectors = options.embeddings is not None or start.has_words
    if inputs.words != "frozen" or not has_vectors:  # a frozen row without a vector would be noise for ever
        described += raw_words
    words: list[str] = []
    if options.embeddings is not None or options.ngram_embeddings is not None:
        words = [word for domain in prepared.domains.values() for word in domain.words()]
    # Those of types that a later stage of the run has are found in the start then, as they stand here.
    later = method.described_words(inputs, [name for domain in prepared.domains.values() for name in domain.types])
    of_data = {*raw_words, *map(inputs.normalise_word, words)}
    vectors, told = _static_vectors(prepared, options, inputs, of_data, {*of_types, *map(inputs.normalise_word, later)})
    notes += told
    is_kept = vectors is None or start.vector_sizes(inputs).get("word_size") == vectors.size
    notes += _notes_on_descriptions(of_types, vectors, start, is_kept=is_kept)
    ngram_vectors = None
    if options.ngram_embeddings is not None:
        ngram_vectors = _read_ngram_vectors(Path(options.ngram_embeddings), map(inputs.normalise_letters, words))
        notes.append(ngram_vectors.describe("n-grams"))
    vocabulary = collect_vocabulary(
        sentences, inputs, vectors, described, ngram_vectors, has_vectors=vectors is not None or start.has_words
    )
    # A word that raw text has often is met often, and hiding half of its places there would teach nothing.
    vocabulary = replace(vocabulary, rare=vocabulary.rare.difference(raw_words))
    return KnownWords(vocabulary, vectors, ngram_vectors, strings), notes
