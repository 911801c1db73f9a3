"""Model cards: what stands in them is true, and whatever people named stands in them letter by letter."""

import dataclasses
import html
import re
from pathlib import Path
from typing import Any

import pytest
from builders.runs import prepared_result
from builders.taggers import make_tagger
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.options import Finetune
from crossner_cli.run.results import CarryOver, PrepareDataResult, SeedResult
from crossner_cli.taggers.card import CARD, ModelOrigin, TrainingFacts, base_model, plain, settings, write_tagger_card
from crossner_cli.taggers.folder import save_tagger

HOSTILE = "a|b `x` <script>alert(1)</script> **c** [d](http://e) ![f](g) $h$ _i_ &amp; --- \\| ~~j~~ {{k}} : 'l' #m"
KINDS = ("person", HOSTILE, "--- license: mit - x: {y")
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
START = CarryOver("base", 3, ["a", "b"], ["c"], [], [])
RESULT = SeedResult("tagger", 1e-4, 1e-3, 61.234, 2, 5, 50, 1000.0, START, 0, 0, [], 70.5, 54.116)


def shown(text: str) -> str:
    """What a reader of Markdown sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", RENDERER.render(text))).split())


def prepared(*names: str) -> PrepareDataResult:
    """The data of a run whose domains are known data sets: none came from a folder."""
    result = prepared_result(dict(zip(("target", "source"), names, strict=False)), KINDS)
    origins = {"train": "cache"}
    return dataclasses.replace(
        result, domains={role: dataclasses.replace(each, origins=origins) for role, each in result.domains.items()}
    )


def provenance(*names: str, **options: Any) -> ModelOrigin:
    lineage = [
        {"encoder": "bert-base-cased", "digest": "name:bert-base-cased"},
        {"stage": "dapt", "name": HOSTILE, "digest": "0123456789abcdef0123"},
    ]
    request = Finetune(**options).stage_request({})
    return ModelOrigin(request, "of | all", lineage, prepared(*names))


def training(name: str, **more: Any) -> TrainingFacts:
    tags = ("B-person", "I-person", f"B-{HOSTILE}", "B-person")
    sentences = [Sentence(("a", "b", "c", "d"), tags, name)] * 12
    facts = TrainingFacts({"target": sentences}, [], name, dev_sentences=7, seed=3, seeds=[2, 3], result=RESULT)
    return dataclasses.replace(facts, **more)


def tagger_card(folder: Path, tagger: Any, provenance: ModelOrigin, facts: TrainingFacts) -> str:
    write_tagger_card(folder, tagger, provenance, facts)
    return (folder / CARD).read_text()


@pytest.fixture(scope="module")
def linear(tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("linear")
    tagger = make_tagger(tiny_encoder_folder, "linear", TagSet({HOSTILE: KINDS}))
    save_tagger(tagger, folder)
    return folder, tagger


def test_names_that_are_markdown_yaml_or_html_are_shown_as_they_are(linear: Any) -> None:
    folder, tagger = linear
    text = tagger_card(folder, tagger, provenance(HOSTILE, settings=[HOSTILE]), training(HOSTILE))
    card = ModelCard(text)
    assert {each.dataset_name for each in card.data.eval_results or []} == {HOSTILE}
    assert (card.data.library_name, card.data.base_model) == ("transformers", "bert-base-cased")
    assert "license" not in card.data.to_dict() and card.data.language is None, "a folder's language is not known"
    rendered = RENDERER.render(card.text)
    assert not re.search(r"<(script|a|img|em|strong|s|h[3-9])\b", rendered)
    assert rendered.count("<table>") == 2 and rendered.count("<th>") == rendered.count("<td>") == 12
    seen = shown(card.text)
    assert seen.count(HOSTILE) == 10, "title, types, data, scores, lineage, options and limits"
    assert f"{HOSTILE} 12" in seen and "person 24" in seen


def test_the_model_index_holds_the_scores_on_dev_with_data_split_and_seeds(linear: Any) -> None:
    folder, tagger = linear
    write_tagger_card(folder, tagger, provenance("news"), training("news"))
    card = ModelCard.load(folder / CARD)
    found = card.data.eval_results or []
    assert [(score.metric_type, score.metric_value) for score in found] == [
        ("f1", 61.23),
        ("precision", 70.5),
        ("recall", 54.12),
    ]
    for score in found:
        assert (score.dataset_name, score.dataset_split, score.task_type) == ("news", "dev", "token-classification")
        assert score.metric_args == {"seed": 3, "seeds": [2, 3]} and "percent (micro, CoNLL)" in str(score.metric_name)
    (entry,) = card.data.to_dict()["model-index"]
    assert entry["name"] == "of | all-seed-3" and len(entry["results"]) == 1, "one data set and split"
    assert "| news | dev | 7 | 61.23 | 70.50 | 54.12 | 2 of 5 |" in card.text


def test_of_a_path_only_the_last_name_is_shown() -> None:
    assert plain(Path("/somewhere/of/mine/glove.txt")) == "glove.txt"
    warning = "8 sentences stand again (first: /home/A B/train.txt:7, C:\\Users\\A B\\dev.txt:9), see https://a.b/c"
    assert shown(plain(warning)) == "8 sentences stand again (first: train.txt:7, dev.txt:9), see https://a.b/c"
    assert settings({"corpus": ["/a/b.txt", "/a/c.txt"], "seed": 1}) == "corpus = b.txt, c.txt, seed = 1"
    assert base_model([{"encoder": "/a/encoder", "digest": "0"}]) is None
    assert base_model([{"encoder": "./encoder", "digest": "0"}]) is None
    assert base_model([{"folder": "/a/encoder", "digest": "0"}]) is None
    assert base_model([{"encoder": "minilm", "digest": "0"}]) == "sentence-transformers/all-MiniLM-L6-v2"
    assert base_model([{"encoder": "google/electra", "digest": "0"}]) == "google/electra"


def test_limits_are_told_by_what_was_read(linear: Any) -> None:
    folder, tagger = linear

    def told(facts: TrainingFacts, *names: str, **options: Any) -> str:
        return tagger_card(folder, tagger, provenance(*names, **options), facts)

    few = shown(told(training(HOSTILE), HOSTILE))
    assert "looks better than on new text" in few and "licence of the data is not recorded" in few
    zero = training("conll2003", labelled={"source": training("conll2003").labelled["target"]}, raw=["raw | text"])
    text = told(zero, HOSTILE, "conll2003")
    assert ModelCard(text).data.language == "en"
    assert "Read besides, unlabelled: raw | text." in shown(text)
    assert "conll2003: labels as released with CrossNER: MIT; text: Reuters, research use." in shown(text)
    last = shown(told(training(HOSTILE), HOSTILE, keep="last"))
    assert f"The last epoch was kept; F1 on dev sentences of {HOSTILE} did not choose it." in last
    assert "The epoch was chosen by F1 on dev" in few and "was chosen" not in last and "looks better" not in last
    nothing = dataclasses.replace(RESULT, dev_f1=None, dev_precision=None, dev_recall=None)
    unscored = told(training("x", result=nothing), "x")
    assert ModelCard(unscored).data.eval_results is None and "It was scored on nothing." in unscored


def test_what_transformers_cannot_read_is_not_said_to_be_its(tiny_encoder_folder: Path, tmp_path: Path) -> None:
    for method in ("crf", "bilstm-crf"):
        tagger = make_tagger(tiny_encoder_folder, method, TagSet({"news": ("person",)}))
        save_tagger(tagger, tmp_path / method)
        card = ModelCard(tagger_card(tmp_path / method, tagger, provenance("news"), training("news")))
        assert card.data.library_name == "crossner" and "pipeline(" not in card.text
        assert (card.data.base_model is None) == (method == "bilstm-crf")
