"""Evaluation of taggers and of files: what is found, what is written, what is refused."""

import csv
import json
import shutil
import statistics
from pathlib import Path

import pytest
import torch
from builders.events import drain
from builders.files import tag_columns, write_pair
from builders.runs import rewrite_output
from builders.starts import save_stage
from safetensors.torch import load_file, save_file

from crossner_cli.data.sentences import PreparedData, read_sentences
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.finished import name_evaluation
from crossner_cli.evaluation.scores import score
from crossner_cli.evaluation.verdict import describe_verdict
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Evaluate
from crossner_cli.options_data import PrepareData
from crossner_cli.reports.blocks import Line, Table
from crossner_cli.reports.evaluation_tables import result_tables
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, exhaust
from crossner_cli.run.records import read_result
from crossner_cli.run.results import EvaluateResult
from crossner_cli.stages.evaluate import run as evaluate
from crossner_cli.stages.evaluate_files import score_files
from crossner_cli.stages.prepare_data import run as prepare_data
from crossner_cli.stages.table import make_tables
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.tagging import Calibration

DOMAINS = {"news": ("person", "place", "song")}
SPLITS = {
    "train": "anna\tB-person\nmet\tO\npeter\tB-person\n\nlondon\tB-place\n\n",
    "dev": "acme\tB-company\nin\tO\nparis\tB-place\n\n",
    "test": "anna\tB-person\nvisited\tO\nthe\tB-place\nlondon\tI-place\n\nacme\tB-company\n\nx-ray\tO\nof\tO\n\n",
}


@pytest.fixture
def run(tmp_path):
    """A run with prepared data."""
    folder = tmp_path / "news"
    folder.mkdir()
    for split, text in SPLITS.items():
        (folder / f"{split}.conll").write_text(text)
    found = RunDirectory(tmp_path / "run")
    exhaust(prepare_data(found, PrepareData(run=found.path, target=str(folder))))
    return found


@pytest.fixture
def add_stage(run, tiny_encoder_folder):
    """Leave a training stage in the run: random taggers of a domain named like the target."""

    def add(name="finetune", seeds=(1,), scores=()):
        taggers = {seed: make_tagger(tiny_encoder_folder, seed) for seed in seeds}
        inputs = PreparedData.load(run, wanted_by="finetune").inputs("target/train.jsonl", "target/dev.jsonl")
        save_stage(run, name, taggers, scores or [None] * len(seeds), inputs=inputs)

    return add


def make_tagger(encoder_folder: Path, seed: int, domains=DOMAINS) -> LinearTagger:
    torch.manual_seed(seed)
    encoder, _ = TransformerEncoder.from_pretrained(str(encoder_folder))
    return LinearTagger(encoder, TagSet(domains), LinearTagger.Hyperparameters())


def go(run, engine, **options):
    """Run the command in the folder ``evaluate`` unless it is named; give its manifest and what it said."""
    options = Evaluate(run=run.path, **{"name": "evaluate", **options})
    manifest, events = drain(evaluate(run, options, engine))
    return manifest, [event.text for event in events if isinstance(event, Notice)]


def test_a_tagger_is_scored_on_test_and_everything_is_written(run, engine, add_stage):
    add_stage()
    manifest, _ = go(run, engine)
    folder = run.folder("evaluate")
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json",
        "predictions.jsonl",
        "scores.json",
        "per_type.csv",
    }
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    gold = list(read_sentences(run.folder("prepare-data") / "target" / "test.jsonl"))
    assert [tuple(line["words"]) for line in lines] == [sentence.words for sentence in gold]
    assert [tuple(line["gold"]) for line in lines] == [sentence.tags for sentence in gold]
    expected = score([line["gold"] for line in lines], [line["tags"] for line in lines])
    model = models_of(manifest)["finetune"]
    assert model["f1"] == {"mean": expected.f1, "deviation": None}
    assert model["seeds"]["1"]["repaired"] == expected.repaired == model["repaired"]
    assert model["unknown_types"] == ["company"] and model["extra_types"] == ["song"]
    assert (manifest["result"]["sentences"], manifest["result"]["words"]) == (3, 7)
    assert model["words_per_second"] > 0
    stored = json.loads((folder / "scores.json").read_text())
    assert stored["tool"].startswith("seqeval") and stored["mode"] == "conll" and stored["zero_division"] == 0
    assert "opens an entity" in stored["repair"] and stored["models"] == json.loads(json.dumps(models_of(manifest)))
    with (folder / "per_type.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["type"]: float(row["f1"]) for row in rows} == pytest.approx(
        {name: row.f1 for name, row in expected.per_type.items()}
    )
    as_file = score_files(run.path.parent / "news" / "test.conll", folder / "predictions.jsonl", mode="conll")
    assert as_file.scored.scores.f1 == expected.f1, "predictions of a run can be scored as a file"


def models_of(manifest):
    return manifest["result"]["models"]


def lines_of(manifest):
    """The lines of the full result, of which a screen shows a part."""
    blocks = result_tables(read_result(manifest, EvaluateResult), is_short=False)
    return [block.text for block in blocks if isinstance(block, Line)]


def test_several_models_are_compared_stage_folder_and_tagger_folder_alike(run, engine, add_stage, tmp_path):
    add_stage()
    stage, tagger = (str(shutil.copytree(run.folder("finetune"), tmp_path / name / "finetune")) for name in "ab")
    tagger += "/tagger"
    manifest, _ = go(run, engine, model=["finetune", stage, tagger])
    models = models_of(manifest)
    assert list(models) == ["finetune", stage, tagger], "files keep the whole path"
    assert models["finetune"]["f1"] == models[stage]["f1"] == models[tagger]["f1"]
    assert list(models[tagger]["seeds"]) == ["-"]
    assert len(list(run.folder("evaluate").glob("predictions-*.jsonl"))) == 3
    (table, *_) = (block for block in make_tables(manifest) if isinstance(block, Table))
    assert [column.replace("\n", "") for column in table.columns] == ["score", "finetune", "a/finetune", "tagger"]
    assert f"a/finetune is {stage}" in lines_of(manifest)


@pytest.mark.parametrize(
    ("other", "told"), [("news", "trained on another 'news', with other types"), ("songs", "not trained on 'news'")]
)
def test_sentences_get_the_types_of_the_domain_that_has_theirs_not_of_the_one_called_so(
    other, told, run, engine, tiny_encoder_folder, tmp_path
):
    domains = {other: ("song", "band"), "mine": ("person", "place", "company")}
    save_tagger(make_tagger(tiny_encoder_folder, 1, domains), tmp_path / "tagger")
    manifest, said = go(run, engine, model=[str(tmp_path / "tagger")])
    (model,) = models_of(manifest).values()
    assert model["unknown_types"] == [] == model["extra_types"]
    assert sum(f"{told}: these sentences are tagged as its 'mine'." in text for text in said) == 1
    lines = [json.loads(line) for line in (run.folder("evaluate") / "predictions.jsonl").read_text().splitlines()]
    assert {tag.partition("-")[2] for line in lines for tag in line["tags"]} <= {"", "person", "place", "company"}


def test_the_other_mode_and_the_other_split_can_be_had_and_what_is_finished_is_not_done_again(run, engine, add_stage):
    add_stage()
    conll, _ = go(run, engine, split="dev", name="dev")
    strict, _ = go(run, engine, split="dev", mode="strict", name="strict")
    one, other = models_of(conll)["finetune"], models_of(strict)["finetune"]
    assert conll["result"]["sentences"] == 1 and strict["result"]["mode"] == "strict"
    assert one["other_mode"] == {"mode": "strict", "f1": other["f1"]}
    assert other["other_mode"] == {"mode": "conll", "f1": one["f1"]}
    again, said = go(run, engine, split="dev", name="dev")
    assert again == conll and "already done" in said[0]
    assert go(run, engine, name="dev", mode="strict")[0]["result"]["mode"] == "strict", "scores are made anew at once"


def test_an_evaluation_is_named_by_what_it_holds(run, engine, add_stage):
    add_stage("one")
    add_stage("other")
    go(run, engine, name=None, model=["one"])
    go(run, engine, name=None, model=["one", "other"], split="dev")
    assert run.stages() == ["evaluate-one", "evaluate-one-other-dev", "one", "other", "prepare-data"]
    (within,) = run.read("evaluate-one-other-dev")["result"]["comparisons"]
    assert {within["model"], within["against"]} == {"one", "other"}
    assert make_tables(run.read("evaluate-one-other-dev"))[0].text == describe_verdict(within)
    assert name_evaluation(["a/b c/run/finetune"], "test") == "evaluate-run-finetune"
    assert name_evaluation(["x" * 40, "y" * 40], "dev") == "evaluate-2-models-dev"


def test_decoding_can_be_that_of_the_papers(run, engine, add_stage):
    add_stage()
    trained, legal = go(run, engine)[0], go(run, engine, decoding="legal", name="legal")[0]
    loose = go(run, engine, decoding="any", name="any")[0]
    assert models_of(trained)["finetune"]["f1"] == models_of(legal)["finetune"]["f1"]
    assert models_of(legal)["finetune"]["repaired"] == 0 < models_of(loose)["finetune"]["repaired"]
    assert loose["result"]["decoding"] == "any"
    assert "Decoded to any tag sequence, whatever the taggers were trained to give" in lines_of(loose)
    assert not any("Decoded" in text for text in lines_of(trained))


def test_scores_are_measured_on_test_before_and_after_the_calibration_of_the_folder(run, engine, add_stage):
    add_stage()
    before = models_of(go(run, engine)[0])["finetune"]["reliability"]
    assert before["after"] is None
    path = run.folder("finetune") / "tagger" / "tagger.json"
    description = json.loads(path.read_text())
    calibration = Calibration(0.0, 0.0, 4, 2).to_json()
    rewrite_output(run.path, path, json.dumps({**description, "calibration": calibration}))
    manifest, _ = go(run, engine, name="again")
    found, scores = models_of(manifest)["finetune"]["reliability"], models_of(manifest)["finetune"]["seeds"]["1"]
    predicted = sum(row["predicted"] for row in scores["per_type"].values())
    correct = sum(row["correct"] for row in scores["per_type"].values())
    assert found["before"] == before["before"]
    assert sum(each["entities"] for each in found["before"]["bins"]) == predicted > 0
    # A calibration that gives every entity one half is off by the distance of the precision from it.
    assert found["after"]["ece"] == pytest.approx(abs(correct / predicted - 0.5))
    (half,) = [each for each in found["after"]["bins"] if each["entities"]]
    assert (half["from"], half["entities"], half["mean_score"]) == (0.5, predicted, 0.5)
    assert half["share_correct"] == pytest.approx(correct / predicted)
    errors = [100 * found[when]["ece"] for when in ("before", "after")]
    told = f"finetune: expected calibration error {errors[0]:.2f} % -> {errors[1]:.2f} % by calibration on dev"
    assert told in lines_of(manifest)
    on_dev = lines_of(go(run, engine, split="dev", name="dev")[0])
    assert any("by calibration on these sentences" in text for text in on_dev)
    loose = models_of(go(run, engine, decoding="any", name="any")[0])["finetune"]["reliability"]
    assert loose["after"] is None


def test_two_files_need_no_run_and_no_engine(tmp_path):
    gold, predictions = write_pair(tmp_path, tag_columns("B-Song I-Song", "O"), tag_columns("B-Song I-Song", "I-song"))
    none = RunDirectory(tmp_path / "none")
    manifest, _ = go(none, None, gold=gold, predictions=predictions)
    result = manifest["result"]
    model = result["models"][str(predictions)]
    assert model["f1"]["mean"] == pytest.approx(200 / 3) and model["repaired"] == 1
    assert (result["sentences"], result["words"], result["gold_scheme"]) == (2, 3, "bio")
    (warning,) = result["warnings"]
    assert "differ by case only" in warning and model["extra_types"] == ["song"]
    gold.write_text(tag_columns("O O", "O"))
    manifest, said = go(none, None, gold=gold, predictions=predictions)
    assert f"{gold} has no entities: every tag is O, so its scores mean nothing." in said
    scores = next(block for block in make_tables(manifest) if isinstance(block, Table))
    assert ("entities", "0") in scores.rows
    assert not none.path.exists()
    with pytest.raises(CrossNERError, match="needs both --gold and --predictions"):
        go(none, None, gold=gold)


def test_predictions_that_are_the_gold_tags_are_told(tmp_path):
    rows = [("In", "O", "O"), ("Rome", "B-place", "B-place"), ("Oslo", "B-place", "O")]
    gold, predictions = write_pair(
        tmp_path, "".join(f"{word}\t{tag}\n" for word, tag, _ in rows), "".join("\t".join(row) + "\n" for row in rows)
    )
    none = RunDirectory(tmp_path / "none")
    (warning,) = go(none, None, gold=gold, predictions=predictions)[0]["result"]["warnings"]
    assert f"Every tag of {predictions} equals that of {gold}" in warning and "cut -f1,3 FILE" in warning
    predictions.write_text("".join(f"{word}\t{tag}\n" for word, _, tag in rows))
    assert not go(none, None, gold=gold, predictions=predictions)[0]["result"]["warnings"]


def test_tags_without_types_are_scored_as_conlleval_reads_them(tmp_path):
    words = ["the", "right", "lung", "is", "enlarged", "."]
    paths = write_pair(
        tmp_path,
        "".join(f"{word}\t{tag}\n" for word, tag in zip(words, "OBIOIO", strict=True)),
        "".join(f"{word}\t{tag}\n" for word, tag in zip(words, "OBIOOO", strict=True)),
    )
    assert score_files(*paths, mode="conll").scored.scores.f1 == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("gold", "predicted", "conll", "strict"),
    [
        (["O B-x", "B-x O"], ["O B-x", "I-x O"], 100, 200 / 3),
        (["B-x E-x S-y"], ["B-x I-x B-y"], 100, 100),  # whole entities, each file in its own scheme
        (["I-x I-x B-x O I-y"], ["B-x I-x B-x O B-y"], 100, 100),  # IOB1 against BIO
        (["B-x L-x U-y"], ["B-x E-x S-y"], 100, 100),
    ],
)
def test_files_of_any_scheme_are_scored(tmp_path, gold, predicted, conll, strict):
    paths = write_pair(tmp_path, tag_columns(*gold), tag_columns(*predicted))
    found = score_files(*paths, mode="conll").scored
    assert (found.scores.f1, found.other.f1) == (pytest.approx(conll), pytest.approx(strict))
    swapped = score_files(*paths, mode="strict").scored
    assert (swapped.scores, swapped.other) == (found.other, found.scores)


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ("a\tO\nx\tO\n\nc\tO\n", r"sentence 1, word 2: .*gold\.conll:2 has 'b', .*predictions\.conll:2 has 'x'"),
        ("a\tO\n\nc\tO\n", r"sentence 1, word 2: .*gold\.conll:2 has 'b', .*predictions\.conll has no more words"),
        ("a\tO\nb\tO\n", r"sentence 2, word 1: .*gold\.conll:4 has 'c', .*predictions\.conll has no more words"),
        ("", "holds no sentence"),
    ],
)
def test_files_of_other_words_are_refused_with_the_place(tmp_path, predicted, message):
    paths = write_pair(tmp_path, "a\tO\nb\tO\n\nc\tO\n", predicted)
    with pytest.raises(CrossNERError, match=message):
        score_files(*paths, mode="conll")


def test_sentences_that_gold_joins_for_an_entity_across_their_border_are_joined_in_predictions(tmp_path):
    gold, predictions = tmp_path / "gold.jsonl", tmp_path / "predictions.jsonl"
    text, place = "Anna lives in St. Petersburg. He met Peter.", {"start": 21, "end": 32, "label": "place"}
    first = {"text": text, "entities": [place, {"start": 37, "end": 42, "label": "person"}]}
    second = {"text": "Acme came.", "entities": []}
    gold.write_text("".join(json.dumps(record) + "\n" for record in (first, second)))
    halves = [{"start": 18, "end": 28, "label": "place"}, {"start": 30, "end": 32, "label": "place"}]
    predicted = {"text": text, "entities": [*halves, first["entities"][1]]}
    predictions.write_text("".join(json.dumps(record) + "\n" for record in (predicted, second)))
    manifest, _ = go(RunDirectory(tmp_path / "none"), None, gold=gold, predictions=predictions)
    assert (manifest["result"]["sentences"], manifest["result"]["words"]) == (2, 13)
    (model,) = manifest["result"]["models"].values()
    assert model["recall"]["mean"] == 50  # the halves stay two entities
    second["text"] = "Acme went."
    predictions.write_text("".join(json.dumps(record) + "\n" for record in (predicted, second)))
    with pytest.raises(CrossNERError, match=r"gold.jsonl:2 has 'came', .*predictions.jsonl:2 has 'went'"):
        go(RunDirectory(tmp_path / "none"), None, gold=gold, predictions=predictions)
    gold.write_text("".join(json.dumps(record) + "\n" for record in (first, {**second, "text": "Acme came. It won."})))
    same = score_files(gold, gold, mode="conll").scored.scores
    assert (same.f1, same.sentences) == (100, 3), "sentences that agree stay as they are"


FINE_GRAINED_FILES = {"fine_grained.csv", "errors.html"}


def test_seeds_are_scored_one_by_one_and_fine_grained_files_stand_beside_their_means(run, engine, add_stage):
    add_stage(seeds=(1, 2, 3), scores=[10.0, 30.0, 20.0])
    plain, (manifest, _) = go(run, engine, name="plain")[0], go(run, engine, fine_grained=True)
    model = models_of(manifest)["finetune"]
    assert models_of(plain)["finetune"]["fine_grained"] is None
    for name in ("f1", "per_type", "support", "repaired", "other_mode"):
        assert models_of(plain)["finetune"][name] == model[name]
    each = [model["seeds"][seed]["f1"] for seed in "123"]
    assert model["f1"] == pytest.approx({"mean": statistics.fmean(each), "deviation": statistics.stdev(each)})
    folder = run.folder("evaluate")
    written = {*FINE_GRAINED_FILES, "manifest.json", "scores.json", "per_type.csv"}
    predictions = {f"predictions-finetune-seed-{seed}.jsonl" for seed in (1, 2, 3)}
    assert {path.name for path in folder.iterdir()} == written | predictions
    record = model["fine_grained"]
    assert record["shown_seed"] == "2"
    stored = json.loads((folder / "scores.json").read_text())["models"]["finetune"]
    for name in ("f1", "precision", "recall"):
        assert record["parts"][0][name] == pytest.approx(stored[name]["mean"])
    assert record["parts"][0]["f1_deviation"] == pytest.approx(stored["f1"]["deviation"])
    assert "seen in target train" in {row["by"] for row in record["parts"]}
    with (folder / "fine_grained.csv").open() as stream:
        rows = {(row["by"], row["part"]): row for row in csv.DictReader(stream)}
    assert float(rows["all", "entities"]["f1"]) == pytest.approx(stored["f1"]["mean"])
    assert go(run, engine, fine_grained=True)[1][0].startswith("evaluate: already done")


def test_models_are_compared_with_those_of_another_evaluation(run, engine, add_stage, tmp_path):
    add_stage("one", seeds=(1, 2))
    add_stage("other", seeds=(3, 4))
    go(run, engine, model=["other"], name="first")
    manifest, said = go(run, engine, model=["one"], against=[run.folder("first")])
    (comparison,) = manifest["result"]["comparisons"]
    scores = [manifest, run.manifest("first", wanted_by="a test")]
    means = [next(iter(each["result"]["models"].values()))["f1"]["mean"] for each in scores]
    assert comparison["difference"] == pytest.approx(means[0] - means[1])
    assert (comparison["model"], comparison["against"], comparison["runs"]) == ("one", "other", [2, 2])
    stored = json.loads((run.folder("evaluate") / "scores.json").read_text())
    assert stored["comparisons"] == json.loads(json.dumps([comparison]))
    assert make_tables(manifest)[0].text == describe_verdict(comparison)
    assert any("comparing with 1 evaluated model." in text for text in said)
    _, said = go(run, engine, model=["one"], against=[run.folder("first")])
    assert "already done" in said[0]


def test_weights_that_are_not_those_of_the_manifest_are_refused_but_in_a_folder_given_itself(run, engine, add_stage):
    add_stage()
    folder = run.folder("finetune") / "tagger"
    weights = load_file(folder / "model.safetensors")
    save_file({name: value + 1 for name, value in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CrossNERError, match=r"model.safetensors is not the file") as problem:
        go(run, engine)
    assert f"--model {folder}" in problem.value.hint
    go(run, engine, model=[str(folder)])


def test_what_was_scored_on_other_sentences_is_refused_before_any_tagging(run, engine, add_stage, tmp_path):
    add_stage()
    other = RunDirectory(tmp_path / "other")
    folder = tmp_path / "news"
    (folder / "test.conll").write_text(SPLITS["test"].replace("visited", "left"))
    exhaust(prepare_data(other, PrepareData(run=other.path, target=str(folder))))
    exhaust(evaluate(other, Evaluate(run=other.path, model=[str(run.folder("finetune"))]), engine))
    with pytest.raises(CrossNERError, match="Sentence 1 has other words"):
        go(run, engine, against=[other.path])
    assert not run.has("evaluate")
    with pytest.raises(CrossNERError, match="neither --model nor --against"):
        go(run, engine, gold=folder / "test.conll", predictions=folder / "test.conll", against=[other.path])
