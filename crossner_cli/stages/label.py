"""``crossner label``: a teacher labels raw text, as a data set for ``prepare-data``."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossner_cli.corpus.raw_files import digest_corpus
from crossner_cli.data.domains import find_raw_text
from crossner_cli.data.sentences import PreparedData, Sentence, write_sentences
from crossner_cli.data.splits import list_sets
from crossner_cli.data.tags import OUTSIDE, to_spans
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.labelling.language_model import LONGEST_REASON, Answer, Failure, LanguageModel, check_server
from crossner_cli.labelling.prompt import Prompt, make_prompt, read_answer, read_descriptions
from crossner_cli.labelling.sentences import (
    LEVEL,
    NOT_SELECTED,
    TASK,
    RawText,
    choose_dense,
    choose_random,
    choose_uncertain,
    read_raw_text,
)
from crossner_cli.labelling.teachers import TaggerTeacher, is_sure
from crossner_cli.options_label import Label
from crossner_cli.run.directory import MANIFEST, PREPARED, Manifest, RunDirectory
from crossner_cli.run.environment import make_record
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.run.results import LabelResult
from crossner_cli.run.storage import output_folder, write_json
from crossner_cli.stages.checks import check_labelling
from crossner_cli.taggers.sources import best_on_dev, find_taggers, notes_on_taggers

COMMAND, CACHE = "label", "label-cache"
SENTENCES_AT_ONCE = 512
UNSURE = "left out by --min-probability"
FIRST_ANSWERS = 20  # answers that are checked before more is asked
NOT_ASKED = "not asked because of --max-requests"


class Silver:
    """The data set in the making: who labelled it, and the counts of what is in it and what was left out."""

    def __init__(self, dropped: Counter[str]) -> None:
        self.dropped = dropped
        self.repairs: Counter[str] = Counter()
        self.entities: Counter[str] = Counter()
        self.sentences = self.words = 0
        self.has_soft = False
        self.scheme = "bio"
        self.teachers: list[dict[str, Any]] = []
        self.inputs: dict[str, str] = {}  # digests of the teachers
        self.requests: dict[str, int] = {}
        self.warnings: list[str] = []

    def add(self, folder: Path, sentences: Sequence[Sentence]) -> None:
        """Append sentences."""
        self.sentences += write_sentences(folder / "train.jsonl", sentences, append=True)
        for sentence in sentences:
            self.words += len(sentence.words)
            self.entities.update(span.type for span in to_spans(sentence.tags or ()))
            self.has_soft |= sentence.soft is not None


def run(run: RunDirectory, options: Label, engine: Engine) -> Work[Manifest]:
    """Read, select and label sentences, and write the data set with its manifest; return the manifest.

    Raises:
        CrossNERError: A text or a teacher is missing or not usable, nothing could be labelled, or the output exists.
    """
    began = time.perf_counter()
    if engine.world > 1:
        raise CrossNERError(f"{COMMAND} runs in one process.", hint="Leave --gpus out; --device cuda:1 names one GPU.")
    check_labelling(options, run)
    prepared = PreparedData.load(run, wanted_by=COMMAND) if run.has(PREPARED) else None
    if prepared is None:
        yield Notice(f"{run.path} holds no prepared data, so no sentences of dev and test are left out.")
    with output_folder(options.place, MANIFEST, force=options.force) as folder:
        raw = yield from read_raw_text(options.input, prepared, column=options.text_column)
        texts = yield from _select(run, options, engine, raw, prepared)
        silver = Silver(raw.dropped + Counter({NOT_SELECTED: len(raw.texts) - len(texts)}))
        if options.language_model is None:
            yield from _label_with_taggers(run, options, engine, texts, silver, folder)
        else:
            assert prepared is not None
            sentences = yield from _ask_model(run, options, options.language_model, prepared, texts, silver)
            silver.add(folder, sentences)
        if not silver.entities:
            silver.warnings.append(f"There are no entities: every tag is {OUTSIDE}.")
        result = LabelResult(
            output=str(options.place),
            teachers=silver.teachers,
            read=raw.read,
            dropped={reason: number for reason, number in silver.dropped.items() if number},
            sentences=silver.sentences,
            words=silver.words,
            entities=dict(sorted(silver.entities.items())),
            soft=silver.has_soft,
            repairs=dict(silver.repairs),
            requests=silver.requests,
            warnings=silver.warnings,
            next=_suggest_next(run, options, prepared, silver.scheme),
        )
        inputs = {**_digest_inputs(options, prepared), **silver.inputs}
        record = make_record(COMMAND, options.record(), inputs, dataclasses.asdict(result), began)
        write_json(folder / MANIFEST, record)
    return record


def _select(
    run: RunDirectory, options: Label, engine: Engine, raw: RawText, prepared: PreparedData | None
) -> Work[list[str]]:
    """Select the sentences to label, in the order of the text."""
    count = options.sentences
    if count is None or count >= len(raw.texts):
        return raw.texts
    if options.select == "random":
        return choose_random(raw, count, options.seed)
    if options.select == "dense":
        chosen = yield from choose_dense(raw, count, prepared, options.entities, is_prepared=not options.input)
        return chosen
    assert options.first is not None
    first = best_on_dev(find_taggers(run, [options.first], wanted_by=COMMAND, flag="--first"))
    chosen = yield from choose_uncertain(raw, count, first, engine)
    return chosen


def _label_with_taggers(
    run: RunDirectory, options: Label, engine: Engine, texts: Sequence[str], silver: Silver, folder: Path
) -> Work[None]:
    """Label with the mean of all taggers of the teachers."""
    trained = find_taggers(run, options.teacher, wanted_by=COMMAND, flag="--teacher")
    yield from map(Notice, notes_on_taggers(run, trained))
    teacher = TaggerTeacher(trained, engine)
    began, words = time.perf_counter(), 0
    for start in range(0, len(texts), SENTENCES_AT_ONCE):
        sentences = teacher.label(texts[start : start + SENTENCES_AT_ONCE])
        read, words = start + len(sentences), words + sum(len(each.words) for each in sentences)
        if options.min_probability is not None:
            sure = [each for each in sentences if is_sure(each, options.min_probability)]
            silver.dropped[UNSURE] += len(sentences) - len(sure)
            sentences = sure
        silver.add(folder, sentences)
        rate = words / max(1e-9, time.perf_counter() - began)
        yield Progress(TASK, read, len(texts), "sentences", {"words/s": rate})
    if not silver.sentences:
        raise CrossNERError(
            f"The teacher is not sure of any of {len(texts)} sentences.",
            hint="Take a lower --min-probability, or leave it out.",
        )
    silver.teachers = [{"name": each.label, "seed": each.seed, "digest": each.digest} for each in trained]
    silver.inputs = {each.label: each.digest for each in trained}
    silver.scheme = teacher.ensemble.tag_set.scheme


def _ask_model(
    run: RunDirectory, options: Label, name: str, prepared: PreparedData, texts: Sequence[str], silver: Silver
) -> Work[list[Sentence]]:
    """Label with the answers of a language model; unusable ones are counted."""
    target = prepared.domain("target", wanted_by=COMMAND)
    descriptions = read_descriptions(options.descriptions, target.types)
    prompt = make_prompt(target.sentences("train"), target.types, options.shots, descriptions)
    base_url, key = check_server(options.base_url)
    model = LanguageModel(
        name,
        base_url,
        key,
        run.path / CACHE,
        parallel=options.parallel,
        timeout=options.timeout,
        max_requests=options.max_requests,
    )
    warnings = silver.warnings
    if hidden := [each for each in target.types if each not in prompt.shown_types]:
        warnings.append(f"No sentence that is shown to the model has these types: {', '.join(hidden)}.")
    questions = [prompt.ask(text) for text in texts]
    answers = yield from model.answer_all(questions[:FIRST_ANSWERS], f"{TASK}: first answers")
    _check_use(prompt, texts, answers)
    if rest := questions[FIRST_ANSWERS:]:
        answers += yield from model.answer_all(rest, TASK)
    again: dict[int, str] = {}
    if options.second_pass:
        again = yield from _ask_again(model, prompt, texts, answers)
    sentences = _read_answers(prompt, texts, answers, again, silver)
    if model.failures:
        warnings.append(f"Not every request has an answer. The last failure: {model.failures[-1]}")
    if "temperature" not in model.wishes:
        warnings.append("The model does not take the temperature 0: asked again, it may answer differently.")
    if left := answers.count(None):
        warnings.append(
            f"{left} sentences are {NOT_ASKED}. The same command with --force continues; nothing is asked twice."
        )
    shared = hashlib.sha256(json.dumps(prompt.messages).encode()).hexdigest()
    shots = (len(prompt.messages) - 1) // 2
    silver.teachers = [{"name": options.teacher[0], "base_url": base_url, "prompt": shared, "shots": shots}]
    silver.requests = {"requests": model.requests, "answers": len(model.used), **model.count_tokens()}
    silver.inputs = {**prepared.inputs("target/train.jsonl"), "prompt": shared}
    return sentences


def _check_use(prompt: Prompt, texts: Sequence[str], answers: Sequence[Answer | Failure | None]) -> None:
    """Stop if none of the first answers is usable, and show one."""
    given = [(text, answer) for text, answer in zip(texts, answers, strict=False) if answer is not None]
    read = [read_answer(each.text, text, prompt.types, Counter()) for text, each in given if isinstance(each, Answer)]
    if any(sentence for sentence, _ in read):
        return
    text, first = given[0]
    said = first.text if isinstance(first, Answer) else first.reason
    raise CrossNERError(
        f"No usable answer among the first {len(given)}:"
        f" {text[:LONGEST_REASON]!r} was answered with {said[:LONGEST_REASON]!r}.",
        hint="Check --base-url, try another model, or show it more sentences with --shots.",
    )


def _ask_again(
    model: LanguageModel, prompt: Prompt, texts: Sequence[str], answers: Sequence[Answer | Failure | None]
) -> Work[dict[int, str]]:
    """Ask again for the least certain half; return the second answers by number of sentence."""
    certainty = {
        number: answer.certainty
        for number, answer in enumerate(answers)
        if isinstance(answer, Answer) and answer.certainty is not None
    }
    if not certainty:
        yield Notice("There is no second pass: the server does not return the probabilities of tokens.")
        return {}
    least = sorted(heapq.nsmallest((len(certainty) + 1) // 2, certainty, key=lambda each: (certainty[each], each)))
    questions = []
    for number in least:
        answer = answers[number]
        assert isinstance(answer, Answer)
        questions.append(prompt.ask_again(texts[number], answer.text))
    found = yield from model.answer_all(questions, f"{TASK}: second pass")
    return {number: each.text for number, each in zip(least, found, strict=True) if isinstance(each, Answer)}


def _read_answers(
    prompt: Prompt,
    texts: Sequence[str],
    answers: Sequence[Answer | Failure | None],
    again: dict[int, str],
    silver: Silver,
) -> list[Sentence]:
    """Read the usable answers, second ones first; the others are counted."""
    sentences = []
    for number, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        if not isinstance(answer, Answer):
            silver.dropped[answer.kind if answer else NOT_ASKED] += 1
            continue
        given = [again[number]] if number in again else []
        for each in (*given, answer.text):
            sentence, reason = read_answer(each, text, prompt.types, silver.repairs)
            if sentence is not None:
                sentences.append(sentence)
                break
        else:
            silver.dropped[reason] += 1
    return sentences


def _digest_inputs(options: Label, prepared: PreparedData | None) -> dict[str, str]:
    """Digest the texts."""
    if not options.input and prepared is not None:
        return prepared.inputs(f"corpus/{LEVEL}.txt")
    files = [*map(find_raw_text, options.input)]
    return {f"input/{number}": digest_corpus(path) for number, path in enumerate(files)}


def _suggest_next(run: RunDirectory, options: Label, prepared: PreparedData | None, scheme: str) -> str:
    """The command that makes the labels the source of another run."""
    place, targets = options.place, ["DATASET"]
    if prepared is not None:
        targets = list_sets(run.read(PREPARED)["options"]).get("target", targets)
    given = [part for target in targets for part in ("--target", target)]
    source = ["--source", str(place), *given, "--run", f"{run.path}-{place.name}", "--dev-from-train", "0.1"]
    kept = [] if scheme == "bio" else ["--scheme", scheme]
    return shlex.join(["crossner", "prepare-data", *source, *kept])
