"""What the three training stages share: seeds, the start, the loop, the tagger's folder, the manifest."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_cli.checkpoints import Checkpoints
from crossner_cli.data import PreparedData, Sentence
from crossner_cli.encoder_decoder import check_encoder_decoder
from crossner_cli.encoders import Encoder
from crossner_cli.engine import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation import score
from crossner_cli.methods import Tagger, find_method, read_settings
from crossner_cli.options import LARGEST_SEED, Optimisation
from crossner_cli.progress import Notice, Work
from crossner_cli.run_directory import Manifest, RunDirectory, Stage, digest_file, write_json
from crossner_cli.starting import KnownWords, Start, find_start, start_tagger
from crossner_cli.tagger_folder import save_tagger
from crossner_cli.tagging import tag
from crossner_cli.tags import TagSet
from crossner_cli.text import segment
from crossner_cli.text_files import open_lines
from crossner_cli.training import FitResult, ParameterGroup, Plan, SentenceStream, fit
from crossner_cli.word_reader import LONGEST_WORD, WordInputs, collect_vocabulary
from crossner_cli.word_vectors import ngram_keys, read_vectors, train_vectors

# Of vectors that are trained on the run's raw text.
RAW_EPOCHS, RAW_MINIMUM = 10, 3
CORPUS = "corpus"  # what --embeddings calls the raw text of the run


@dataclass(frozen=True)
class TaggerData:
    """What a training stage trains on and chooses by.

    Args:
        tag_set: The tags of the tagger.
        sentences: Labelled sentences to train on.
        repeats: How often each counts in an epoch; None is once.
        dev: Labelled sentences that choose the best epoch.
    """

    tag_set: TagSet
    sentences: Sequence[Sentence]
    dev: Sequence[Sentence]
    repeats: Sequence[int] | None = None


def parse_seeds(options: Optimisation) -> list[int]:
    """The seeds of a stage: ``--seeds``, else ``--seed``.

    Raises:
        CrossNERError: Not a list of distinct numbers up to the largest seed.
    """
    if options.seeds is None:
        return [options.seed]
    parts = [part.strip() for part in options.seeds.split(",")]
    seeds = [int(part) for part in parts if part.isdecimal() and len(part) < 20]
    if len(set(seeds)) != len(parts) or max(seeds) > LARGEST_SEED:
        raise CrossNERError(
            f"--seeds {options.seeds!r} is not a list of distinct numbers from 0 to {LARGEST_SEED}.",
            hint="Write --seeds 1,2,3.",
        )
    return seeds


def train_stage(
    run: RunDirectory, options: Optimisation, engine: Engine, command: str,
    read: Callable[[PreparedData], TaggerData],
) -> Work[Manifest]:  # fmt: skip
    """Train one tagger a seed and leave their folders and a manifest.

    Args:
        run: Where.
        options: How.
        engine: On what.
        command: The stage's name.
        read: Picks the sentences out of the prepared data.

    Raises:
        CrossNERError: Anything a user can cause, before any work starts where it can be known then.
    """
    seeds = parse_seeds(options)
    check_embeddings(options)
    check_encoder(options)
    prepared = PreparedData.load(run, wanted_by=command)
    start = find_start(run, options, wanted_by=command)
    inputs = {"prepare-data": prepared.digest, "start": start.digest}
    files = {"embeddings": options.embeddings, "ngram_embeddings": options.ngram_embeddings}
    inputs |= {name: digest_file(Path(file)) for name, file in files.items() if file not in (None, CORPUS)}
    stage = engine.open_stage(run, command, options, inputs)
    with stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        yield Notice(f"{stage.name}: {engine.describe()}")
        for note in start.notes:
            yield Notice(note)
        data = read(prepared)
        known, notes = known_words(prepared, options, data)
        for note in notes:
            yield Notice(f"{stage.name}: {note}")
        records: dict[str, Any] = {}
        for seed in seeds:
            folder = stage.draft / ("tagger" if len(seeds) == 1 else f"tagger-seed-{seed}")
            records[str(seed)] = yield from _train_seed(stage, options, engine, data, start, known, seed, folder)
        return engine.first(lambda: stage.finish(_summary(records), lineage=start.lineage, device=engine.describe()))


def check_embeddings(options: Optimisation) -> None:
    """Refuse settings that do not exist, and word vectors that nobody would read.

    Raises:
        CrossNERError: As above, or there is no such file.
    """
    hyper = read_settings(find_method(options.method), options.settings)
    words, ngrams = (
        (hyper.words != "none", hyper.characters == "ngrams") if isinstance(hyper, WordInputs) else (False, False)
    )
    if options.embeddings is not None and not words:
        raise CrossNERError(
            f"--embeddings {options.embeddings}: the method {options.method!r} reads no static word vectors as set.",
            hint="Leave --embeddings out, or choose a method that reads words, as --method bilstm-crf.",
        )
    if options.ngram_embeddings is not None and not ngrams:
        raise CrossNERError(
            f"--ngram-embeddings {options.ngram_embeddings}: the method {options.method!r} reads no character n-grams"
            " as set.",
            hint="Leave it out, or choose a method that reads words, and --set characters=ngrams.",
        )
    if options.embeddings not in (None, CORPUS) and not Path(options.embeddings).is_file():
        raise CrossNERError(
            f"--embeddings {options.embeddings}: there is no such file.",
            hint="Give a file of word vectors (GloVe, word2vec, fastText), or corpus to train them on the raw text.",
        )
    if options.ngram_embeddings is not None and not Path(options.ngram_embeddings).is_file():
        raise CrossNERError(
            f"--ngram-embeddings {options.ngram_embeddings}: there is no such file.",
            hint="Give a file of vectors of character n-grams, as charNgram.txt.",
        )


def check_encoder(options: Optimisation) -> None:
    """Refuse an encoder of another kind than the method reads, where its configuration alone tells.

    Raises:
        CrossNERError: It is no encoder-decoder, and the method needs one.
    """
    if options.start_from == "base" and find_method(options.method).reads == "encoder-decoder":
        check_encoder_decoder(options.encoder)


@dataclass(frozen=True)
class RawSentences:
    """The words of a corpus, sentence by sentence, as often as asked for."""

    path: Path

    def __iter__(self) -> Iterator[list[str]]:
        for _, line in open_lines(self.path):
            for words in segment(line):
                yield [word.text for word in words]


def known_words(prepared: PreparedData, options: Optimisation, data: TaggerData) -> tuple[KnownWords | None, list[str]]:
    """What a method that reads words has vectors for, and what to tell of them; None for other methods.

    Words of every split of the domains that are trained on are looked up in a file of vectors, so that a word of a
    later test sentence is not unknown for want of a training sentence; no tag is read.
    """
    method = find_method(options.method)
    if method.reads != "words":
        return None, []
    inputs = read_settings(method, options.settings)
    vectors, notes = None, []
    domains = [domain for domain in prepared.domains.values() if domain.name in data.tag_set.domains]
    described = method.described_words(inputs, data.tag_set.types)
    if options.embeddings is not None or options.ngram_embeddings is not None:
        wanted = sorted({*described, *(word for domain in domains for word in domain.words())})
    if options.embeddings == CORPUS:
        vectors = train_vectors(
            RawSentences(prepared.corpus("domain")), size=inputs.word_size, seed=options.seed, epochs=RAW_EPOCHS,
            minimum_count=RAW_MINIMUM, workers=1, words=wanted,
        )  # fmt: skip
    elif options.embeddings is not None:
        vectors = read_vectors(Path(options.embeddings), wanted)
    if vectors is not None:
        notes.append(vectors.describe())
    ngram_vectors = None
    if options.ngram_embeddings is not None:
        keys = dict.fromkeys(key for word in wanted for key in ngram_keys(word[:LONGEST_WORD]))
        ngram_vectors = read_vectors(Path(options.ngram_embeddings), keys, exact_only=True)
        notes.append(ngram_vectors.describe())
    vocabulary = collect_vocabulary(data.sentences, inputs, vectors, described, ngram_vectors)
    return KnownWords(vocabulary, vectors, ngram_vectors), notes


def _train_seed(
    stage: Stage, options: Optimisation, engine: Engine, data: TaggerData, start: Start, known: KnownWords | None,
    seed: int, folder: Path,
) -> Work[dict[str, Any]]:  # fmt: skip
    """Train one tagger, or take up one that an interrupted command had finished."""
    task = f"{stage.name} seed {seed}"
    done, checkpoints = folder / "training.json", Checkpoints(stage.draft / f"checkpoint-{seed}")
    if done.is_file():
        if engine.is_main:
            checkpoints.remove()  # the interruption may have come before this was over
        record: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        yield Notice(f"{task}: finished before the interruption.")
        return record
    tagger, carried = start_tagger(start, options, data.tag_set, seed, engine, known)
    yield Notice(f"{task}: {carried.describe()}")
    encoder = tagger.encoder
    encoded = encoder.reader.encode(data.sentences, data.tag_set)
    stream = SentenceStream(encoded, encoder.reader, options.batch_size, seed, data.repeats)
    gold = [sentence.tags or () for sentence in data.dev]

    def dev_f1() -> dict[str, float]:
        tagged = tag(tagger, data.dev, engine)
        return {"dev_f1": score(gold, [sentence.tags for sentence in tagged], mode="conll").f1}

    result: FitResult = yield from fit(
        tagger, parameter_groups(tagger, options), [stream], plan_of(options), engine,
        score=dev_f1, checkpoints=checkpoints, task=task,
    )  # fmt: skip
    record = {
        "folder": folder.name,
        "learning_rate": learning_rate_of(encoder, options),
        "dev_f1": result.best,
        "epoch": result.best_epoch,
        "epochs": len(result.history),
        "updates": result.steps,
        "words_per_second": round(result.words_per_second),
        "start": carried.to_json(),
        "unreadable_words": encoder.reader.unreadable_words,
        "shortened_words": encoder.reader.shortened_words,
        "history": result.history,
    }
    if engine.is_main:
        save_tagger(tagger, folder, lineage=start.lineage, dev_f1=result.best)
        write_json(done, record)
        checkpoints.remove()
    engine.wait()
    return record


def plan_of(options: Optimisation) -> Plan:
    """The options that the loop reads."""
    return Plan(
        epochs=options.epochs, max_steps=options.max_steps, schedule=options.schedule, warmup=options.warmup,
        clip_norm=options.clip_norm, accumulate=options.accumulate, patience=options.patience, keep=options.keep,
        checkpoint_every=options.checkpoint_every,
    )  # fmt: skip


def learning_rate_of(encoder: Encoder, options: Optimisation) -> float | None:
    """The transformer's peak learning rate: the option, else by width; None where no transformer is trained.

    Small encoders need larger steps: the rule gives the usual 5e-5 for base and 2.4e-5 for large encoders, and for
    ``minilm`` a rate that did well on the dev sentences of ``ai``; never more than 5e-4.
    """
    if encoder.width is None or options.learning_rate is not None:
        return options.learning_rate
    return float(min(5e-4, 5e-5 * (768 / encoder.width) ** 2.5))


def parameter_groups(tagger: Tagger, options: Optimisation) -> list[ParameterGroup]:
    """Transformer and all above or beside it, each with and without weight decay."""
    encoder = tagger.encoder
    encoder.choose_trained(train_embeddings=options.train_embeddings)
    slow = {id(parameter) for parameter in encoder.transformer_parameters()}
    encoder_rate = learning_rate_of(encoder, options)
    rates = [encoder_rate, encoder_rate if options.head_learning_rate is None else options.head_learning_rate]
    groups = []
    for is_slow, rate in zip((True, False), rates, strict=True):
        for decays in (True, False):
            parameters = [
                parameter for parameter in tagger.parameters()
                if parameter.requires_grad and (id(parameter) in slow) is is_slow and (parameter.dim() > 1) is decays
            ]  # fmt: skip
            if parameters:
                assert rate is not None
                groups.append(ParameterGroup(parameters, rate, options.weight_decay if decays else 0.0))
    return groups


def _summary(records: dict[str, Any]) -> dict[str, Any]:
    scores = [record["dev_f1"] for record in records.values() if record["dev_f1"] is not None]
    return {
        "seeds": records,
        "dev_f1": statistics.fmean(scores) if scores else None,
        "dev_f1_deviation": statistics.stdev(scores) if len(scores) > 1 else None,
        "start": next(iter(records.values()))["start"],
    }
