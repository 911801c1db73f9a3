"""A small fine-grained analysis, with words that would steer a terminal or a page."""

from typing import Any

from builders.runs import model_result
from crossner_cli.data.sentences import Sentence
from crossner_cli.evaluation.buckets import KnownText
from crossner_cli.evaluation.fine_grained import Analysis, Tagging, analyse_taggings
from crossner_cli.evaluation.scores import describe_mode
from crossner_cli.run.progress import exhaust
from crossner_cli.run.results import EvaluateResult

NASTY = "<script>alert(1)</script>"
GOLD = [
    ("Anna Smith met Bob in Paris .", "B-politician I-politician O B-person O B-place O"),
    ("Bob saw Paris .", "B-person O B-place O"),
    ("Nothing here .", "O O O"),
    (f"{NASTY} & \x1b[31m\u202ered 'quoted' .", "B-song O B-song O O"),
]
FIRST = ["B-person I-person O B-person O O O", "B-person O O O", "O O I-place", "O O B-song I-song O"]
SECOND = ["B-politician O O B-person O B-place O", "B-person O O O", "O O O", "B-person O B-song O O"]
TRAIN = [Sentence(("Bob", "saw", "Bob"), ("B-person", "O", "B-person"))]


def gold_sentences() -> list[Sentence]:
    return [Sentence(tuple(words.split(" ")), tuple(tags.split())) for words, tags in GOLD]


def analyse(*sides: list[str], labels: tuple[str, ...] = ("model", "model")) -> dict[str, Analysis]:
    """Analyse taggings of ``GOLD``; errors are shown of the second seed of a model."""
    taggings = [
        Tagging(label, str(number), [tags.split() for tags in side], is_shown=number == 2 or len(set(labels)) > 1)
        for number, (label, side) in enumerate(zip(labels, sides, strict=False), start=1)
    ]
    return exhaust(analyse_taggings(gold_sentences(), taggings, KnownText(TRAIN)))


def evaluation_of(sentences: list[Sentence], taggings: dict[str, dict[str, Any]]) -> EvaluateResult:
    """The result of ``evaluate`` for the tags of each model and seed."""
    gold = [sentence.tags or () for sentence in sentences]
    return EvaluateResult(
        domain="news",
        split="test",
        **describe_mode("conll"),
        sentences=len(sentences),
        words=sum(len(sentence.words) for sentence in sentences),
        warnings=[],
        models={label: model_result(gold, seeds) for label, seeds in taggings.items()},
    )


def evaluate(*sides: list[str], labels: tuple[str, ...] = ("model", "model")) -> EvaluateResult:
    """The result of ``evaluate`` for the taggings that ``analyse`` takes."""
    models: dict[str, dict[str, Any]] = {}
    for number, (label, side) in enumerate(zip(labels, sides, strict=False), start=1):
        models.setdefault(label, {})[str(number)] = [tags.split() for tags in side]
    return evaluation_of(gold_sentences(), models)
