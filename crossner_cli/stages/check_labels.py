"""``crossner check-labels``: the labels of the target that are probably wrong, the worst first."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence

from crossner_cli.data.documents import TaggedDocument, Totals, document_of_words
from crossner_cli.data.formats.label_studio import to_prediction
from crossner_cli.data.inconsistencies import Suspect, find_inconsistencies
from crossner_cli.data.sentences import PreparedData, Sentence, split_place
from crossner_cli.data.tags import Span, to_spans
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import CROSS_VALIDATE, FOLDS, find_evaluations
from crossner_cli.evaluation.folds import read_predictions
from crossner_cli.evaluation.suspects import find_suspects
from crossner_cli.methods.contract import find_method, gives_distributions, method_names
from crossner_cli.options_trust import CheckLabels, CrossValidate
from crossner_cli.prediction.output import make_writer
from crossner_cli.reports.suspects import render_suspects
from crossner_cli.run.directory import Manifest, RunDirectory
from crossner_cli.run.freshness import find_outdated
from crossner_cli.run.progress import Notice, Work
from crossner_cli.run.results import CheckLabelsResult, Record
from crossner_cli.stages import cross_validate

COMMAND = CheckLabels.command
FIRST = 20  # on the screen
SUSPECTS, INCONSISTENCIES, PAGE = "suspects.jsonl", "inconsistencies.jsonl", "suspects.html"
TASKS = {"label-studio": "tasks.json", "prodigy": "tasks.jsonl", "doccano": "tasks.jsonl"}


def run(run: RunDirectory, options: CheckLabels, engine: Engine) -> Work[Manifest]:
    """Make the folds, if there are none, and write what is suspect.

    Raises:
        CrossNERError: Anything that stops ``cross-validate``; or the folds were made with other options than are given,
            or by a method that does not give the probability of every tag.
    """
    yield from _make_folds(run, options, engine)
    folds = run.read(FOLDS)
    if folds["stage"] != CROSS_VALIDATE:
        raise CrossNERError(f"The stage {FOLDS!r} was not made by cross-validate.", hint="Take another run.")
    prepared = PreparedData.load(run, wanted_by=COMMAND)
    inputs = {**prepared.inputs("target/train.jsonl", "target/dev.jsonl"), FOLDS: run.digest(FOLDS)}
    with engine.open_stage(run, options.stage_request(inputs)) as stage:
        if stage.finished is not None:
            yield Notice(f"{stage.name}: already done (same options and inputs).")
            return stage.finished
        target = prepared.domain("target", wanted_by=COMMAND)
        sentences = target.sentences("train")
        sentences += target.sentences("dev") if folds["options"]["with_dev"] else []
        model = find_evaluations(run.folder(FOLDS))[0].models()[0]
        model.read()  # checks that the files are those of the manifest
        runs = [read_predictions(path) for path in model.files.values()]
        suspects, inconsistencies = find_suspects(sentences, runs), find_inconsistencies(sentences)

        def finish() -> Manifest:
            records, others = _to_records(sentences, suspects), _to_records(sentences, inconsistencies)
            files = {
                SUSPECTS: _to_lines(records),
                INCONSISTENCIES: _to_lines(others),
                PAGE: "".join(render_suspects(target.name, records)),
            }
            if options.format != "none":
                files[TASKS[options.format]] = _write_tasks(options.format, sentences, suspects)
            for name, text in files.items():
                (stage.draft / name).write_text(text, "utf-8", "backslashreplace")
            result = CheckLabelsResult(
                domain=target.name,
                sentences=len(sentences),
                entities=sum(len(to_spans(sentence.tags or ())) for sentence in sentences),
                suspects=dict(Counter(each.kind for each in suspects).most_common()),
                inconsistencies=dict(Counter(each.kind for each in inconsistencies).most_common()),
                first=records[:FIRST],
                written=[*files],
            )
            return stage.finish(dataclasses.asdict(result))

        return engine.on_main(finish)


def _make_folds(run: RunDirectory, options: CheckLabels, engine: Engine) -> Work[None]:
    """Make the folds, if there are none, if they are out of date, or if options that are given differ from theirs.

    Raises:
        CrossNERError: Anything that stops ``cross-validate``, or the method does not give the probability of every tag.
    """
    shared = {field.name: getattr(options, field.name) for field in dataclasses.fields(CrossValidate)}
    of_folds = CrossValidate(**{**shared, "name": FOLDS})
    made = run.read(FOLDS)["options"] if run.has(FOLDS) else {}
    given = {name: value for name, value in of_folds.record().items() if of_folds.given(name)}
    method = of_folds.method if "method" in given or not made else made["method"]
    if not gives_distributions(find_method(method)):
        able = ", ".join(name for name in method_names() if gives_distributions(find_method(name)))
        raise CrossNERError(
            f"The method {method} does not tell the probability of every tag.", hint=f"Methods that do: {able}."
        )
    if not made or FOLDS in find_outdated(run) or any(made.get(name) != value for name, value in given.items()):
        yield from cross_validate.run(run, of_folds, engine)
    else:
        yield Notice(f"{COMMAND}: the folds of {run.folder(FOLDS)} are used.")


def _to_records(sentences: Sequence[Sentence], suspects: Sequence[Suspect]) -> list[Record]:
    """Put suspects into the form of ``suspects.jsonl``."""
    records = []
    for rank, each in enumerate(suspects, start=1):
        words = sentences[each.sentence].words
        file, line = split_place(sentences[each.sentence].place)
        found_start, found_end, found = each.found or (None, None, None)
        records.append(
            {
                "rank": rank,
                "file": file or None,
                "line": line,
                "sentence": each.sentence,
                "words": words,
                "start": each.place.start,
                "end": each.place.end,
                "gold": each.gold.type if each.gold else None,
                "found": found,
                "found_start": found_start,
                "found_end": found_end,
                "kind": each.kind,
                "score": round(each.score, 4),
            }
        )
    return records


def _to_lines(records: Iterable[Record]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _write_tasks(name: str, sentences: Sequence[Sentence], suspects: Sequence[Suspect]) -> str:
    """Write the sentences with suspects as tasks, each once, with the gold labels and with what the others say."""
    of_sentence: dict[int, list[Suspect]] = {}
    for suspect in suspects:
        of_sentence.setdefault(suspect.sentence, []).append(suspect)
    tasks = (_make_task(name, sentences[number], found) for number, found in of_sentence.items())
    return json.dumps([*tasks], ensure_ascii=False, indent=1) if name == "label-studio" else _to_lines(tasks)


def _make_task(name: str, sentence: Sentence, suspects: Sequence[Suspect]) -> Record:
    gold, found = to_spans(sentence.tags or ()), {each.found for each in suspects if each.found}
    doubted = {each.gold for each in suspects}
    beside = [span for span in gold if all(span.end <= each.start or each.end <= span.start for each in found)]
    others, score = sorted(found | ({*beside} - doubted)), round(suspects[0].score, 4)
    labelled, other = _to_document(sentence, gold, score), _to_document(sentence, others, score)
    note = {"place": sentence.place, "score": score}
    if name != "label-studio":
        task = json.loads(make_writer(name).write_document(labelled, Totals()))
        texts = [f"{entity['type']}: {entity['text']}" for entity in other.entities]
        return {**task, "meta": {**note, "others say": ", ".join(texts)}}
    result = [
        {key: value for key, value in each.items() if key != "score"} for each in to_prediction(labelled, "")["result"]
    ]
    data = {"text": labelled.document.text, **note}
    return {"data": data, "annotations": [{"result": result}], "predictions": [to_prediction(other, COMMAND)]}


def _to_document(sentence: Sentence, spans: Sequence[Span], score: float) -> TaggedDocument:
    """Make a document of a sentence, its words joined by single spaces, with these entities."""
    document = document_of_words(sentence.words)
    entities = []
    for span in spans:
        words = document.sentences[0][span.start : span.end]
        place = {"start": words[0].start, "end": words[-1].end, "type": span.type, "score": score}
        entities.append({**place, "text": document.text[words[0].start : words[-1].end]})
    return TaggedDocument(document, [sentence.tags or ()], entities, 0, score)
