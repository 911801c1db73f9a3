"""The plan of ``crossner adapt``: stages and options, chosen by data and encoder, with their measurements.

Measurements are F1 with ``minilm``; of two numbers the first is of ``ai``, the second of ``music``. The gains of steps
are measured on test and listed in ``recipes/README.md``. Numbers of options are chosen on dev, whose scores are in
``recipes/tried.csv``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from crossner_cli.evaluation.finished import FOLDS
from crossner_cli.option_fields import Command
from crossner_cli.options import Dapt, Evaluate, Finetune, PretrainSource
from crossner_cli.options_adapt import Adapt, SizeName
from crossner_cli.options_data import PrepareData
from crossner_cli.options_label import Label
from crossner_cli.options_trust import CrossValidate
from crossner_cli.run.directory import FINAL

SOURCE, ALONE, TEACHERS, TAGGER = "pretrain-source", "target-alone", "after-source", FINAL
SILVER = Path("labels") / "silver"  # in the run directory; two folders deep, so that it is not taken for a stage
DEFAULT_SOURCE = ["conll2003"]
FOLDS_ALONE = "folds-alone"  # beside folds: cross-validation of the training on the target alone
MEAN_WORDS = 23  # of a sentence of raw text
WEAK = "weak"  # a run directory inside, for sentences that lists of names label


# Each with its measurement.
READINGS = 20  # passes over up to 200 target sentences: 20 passes 59.0 and 67.1, 40 passes 59.6 and 67.4
REPLACED = 0.5  # share of mentions that are replaced: none 57.3 and 63.2, half 58.6 and 64.4
SOURCE_READINGS = 3  # passes over the source: 1, 2, 3 and 6 passes 58.7, 59.6, 60.0 and 58.7 (ai)
STUDENT_READINGS = 2  # passes over the sentences of the teachers: 2 passes 68.9, 4 passes 67.8 (music)
STUDENT_BATCH = 16  # sentences of an update beside the teachers': as above
ENOUGH_TEXT = 0.5  # share of a size's sentences that raw text needs: with 410 sentences teachers 88.2, student 86.4
MOST_SENTENCES = 200  # with more labels fewer passes, for the same number of updates
FEWEST_PASSES = 5


class Size(NamedTuple):
    """The meaning of a value of ``--size``: teachers, and the sentences that they label; 0 for no student."""

    teachers: int
    sentences: int


SIZES: Mapping[SizeName, Size] = {
    "quick": Size(1, 0),
    "standard": Size(3, 6_000),
    "thorough": Size(5, 20_000),
}


@dataclass(frozen=True)
class Facts:
    """The facts that decide: words of one pass by role, target sentences and splits, and the kind of encoder."""

    words: Mapping[str, int]
    sentences: int
    has_test: bool
    ignores_case: bool
    has_masked_lm_head: bool


@dataclass(frozen=True)
class Step:
    """One command of the plan: its options, its gain, and the words that it learns and reads."""

    command: str
    options: Command
    brings: str
    learns: float = 0.0
    reads: float = 0.0

    @property
    def line(self) -> list[str]:
        """The command line."""
        return ["crossner", self.command, *self.options.arguments()]


def make_steps(options: Adapt, facts: Facts, *, has_labels: bool) -> list[Step]:
    """Make the steps that suit the facts.

    Args:
        options: The user's options.
        facts: The facts that decide.
        has_labels: Whether the run holds the teachers' labels already, so that its data are prepared with them.
    """
    size = SIZES[options.size]
    sentences = round(facts.words["corpus"] / MEAN_WORDS)
    needed = round(ENOUGH_TEXT * size.sentences)
    teaches = options.silver is None and bool(options.corpus) and 0 < needed <= sentences
    short = ""
    if options.silver is None and options.corpus and sentences < needed:
        short = f"; raw text of about {sentences:,} sentences is not labelled: {needed:,} are needed"
    silver = str(options.run / SILVER) if teaches else options.silver
    steps = [_label_weakly(options)] if options.entities else []
    prepared = _prepare(options, silver=options.silver if teaches and not has_labels else silver)
    steps.append(Step("prepare-data", prepared, "checks, counts and stores the data"))
    if options.corpus and facts.has_masked_lm_head:
        adapts = Dapt(run=options.run, force=options.force, encoder=options.encoder)
        brings = "3.7 F1 after the source, published for BERT-base (Liu et al. 2021, table 2, ai)"
        steps.append(Step("dapt", adapts, brings, 5 * facts.words["corpus"]))
    steps += _train(options, facts, size, teaches=teaches, has_labels=has_labels, silver=silver, short=short)
    models = [ALONE, *([TEACHERS] if silver else []), TAGGER]
    if not facts.has_test:
        trained = {step.options.name: step for step in steps if isinstance(step.options, Finetune)}
        steps += _cross_validate(trained[ALONE], trained[TEACHERS if silver else TAGGER], facts)
        models = [FOLDS_ALONE, FOLDS]
    scores = Evaluate(run=options.run, force=options.force, model=models)
    reads = 7 * facts.words["test"] if facts.has_test else 0
    return [*steps, Step("evaluate", scores, "differences with their intervals", reads=reads)]


def _cross_validate(alone: Step, after_source: Step, facts: Facts) -> list[Step]:
    """Score both ways to train on the training sentences, with one seed and the options of the taggers."""
    steps = []
    for step, name in ((alone, FOLDS_ALONE), (after_source, FOLDS)):
        assert isinstance(step.options, Finetune) and step.options.seeds is not None
        seeds = step.options.seeds.split(",")
        folds = min(CrossValidate.folds, facts.sentences)
        given = {**vars(step.options), "seeds": seeds[0], "silver_weight": 0.0}
        options = CrossValidate(**{**given, "name": name, "folds": folds})
        learns = (folds - 1) * step.learns / len(seeds)
        steps.append(
            Step("cross-validate", options, "F1 without test: each sentence by a tagger that has not seen it", learns)
        )
    return steps


def _label_weakly(options: Adapt) -> Step:
    weak = PrepareData(
        run=options.run / WEAK,
        force=options.force,
        target=options.target,
        corpus=options.corpus,
        entities=options.entities,
        corpus_level="entity",
        min_entities=1,
        weak_labels=True,
        dev_from_train=options.dev_from_train,
    )
    return Step("prepare-data", weak, "a source of the genre of the raw text: 0.5 and 1.3 F1")


def _prepare(options: Adapt, silver: str | None) -> PrepareData:
    weak = [str(options.run / WEAK / "prepare-data" / "weak-labels")] if options.entities else []
    return PrepareData(
        run=options.run,
        force=options.force,
        source=[*(options.source or DEFAULT_SOURCE), *weak],
        target=options.target,
        silver=silver,
        corpus=options.corpus,
        map_types=options.map_types,
        dev_from_train=options.dev_from_train,
    )


def _train(
    options: Adapt, facts: Facts, size: Size, *, teaches: bool, has_labels: bool, silver: str | None, short: str
) -> list[Step]:
    """Make the trainings: on the source, on the target alone, of the teachers, and of the final tagger."""
    # The source is trained again only if it differs.
    shared: dict[str, Any] = {"run": options.run, "force": options.force, "encoder": options.encoder, "keep": "last"}
    seeds = options.seeds or ",".join(map(str, range(1, size.teachers + 1)))
    count = len(seeds.split(","))
    passes = scale_passes(READINGS, facts.sentences)
    gold: dict[str, Any] = {**shared, "epochs": passes, "replace_mentions": REPLACED, "seeds": seeds}
    shapes: dict[str, Any] = {"word_shapes": facts.ignores_case}
    start = "dapt" if options.corpus and facts.has_masked_lm_head else "base"
    source = PretrainSource(**{**shared, "force": False}, **shapes, start_from=start, epochs=SOURCE_READINGS)
    first = {**gold, "seeds": seeds.split(",")[0]}
    alone = Finetune(**first, **shapes, start_from=start, name=ALONE, silver_weight=0.0)
    learns = count * passes * facts.words["train"]
    steps = [
        Step(SOURCE, source, "2.2 to 3.6 F1, and kept for other runs", source.epochs * facts.words["source"]),
        Step("finetune", alone, "to compare with", learns / count),
    ]
    if silver is None:
        tagger = Finetune(**gold, start_from=SOURCE, name=TAGGER)
        return [*steps, Step("finetune", tagger, f"the tagger{short}", learns)]
    teachers = Finetune(**gold, start_from=SOURCE, name=TEACHERS, silver_weight=0.0)
    steps.append(Step("finetune", teachers, "to compare with, and to teach", learns))
    words = min(MEAN_WORDS * size.sentences, facts.words["corpus"]) if teaches else facts.words["silver"]
    if teaches:
        labels = Label(
            run=options.run,
            force=options.force,
            teacher=[TEACHERS],
            sentences=size.sentences,
            output=options.run / SILVER,
        )
        steps.append(Step("label", labels, "labels of all teachers together", reads=count * words))
        again = dataclasses.replace(_prepare(options, silver), force=options.force or not has_labels)
        steps.append(Step("prepare-data", again, "puts these labels beside the gold ones"))
    student = Finetune(
        **first,
        start_from=SOURCE,
        name=TAGGER,
        batch_size=STUDENT_BATCH,
        silver_weight=STUDENT_READINGS / passes,
    )
    work = passes * facts.words["train"] + STUDENT_READINGS * words
    return [*steps, Step("finetune", student, "one tagger as good as the mean of its teachers: 0.8 to 1.6 F1", work)]


def scale_passes(passes: float, sentences: int) -> int:
    """Return the passes over this number of target sentences: fewer above ``MOST_SENTENCES``."""
    return max(FEWEST_PASSES, round(passes * min(1.0, MOST_SENTENCES / max(1, sentences))))
