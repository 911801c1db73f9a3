"""Evaluation of taggers and of files: what is found, what is written, what is refused."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
from pathlib import Path

import pytest
import torch
from builders.files import tag_columns, write_pair
from safetensors.torch import load_file, save_file

from crossner_cli.data.sentences import read_sentences
from crossner_cli.data.tags import TagSet, to_spans, to_tags
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.engine.devices import start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scored_files import score_files
from crossner_cli.evaluation.scores import score
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Evaluate, Finetune, PrepareData
from crossner_cli.reports.blocks import Line, Table, short_names
from crossner_cli.reports.evaluation_tables import evaluation_tables
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, exhaust
from crossner_cli.run.stage import open_stage
from crossner_cli.stages.evaluate import run as evaluate
from crossner_cli.stages.prepare_data import run as prepare_data
from crossner_cli.taggers.calibration import Calibration
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.sources import best_on_dev, find_taggers

SPLITS = {
    "train": "anna\tB-person\nmet\tO\npeter\tB-person\n\nlondon\tB-place\n\n",
    "dev": "acme\tB-company\nin\tO\nparis\tB-place\n\n",
    "test": "anna\tB-person\nvisited\tO\nthe\tB-place\nlondon\tI-place\n\nacme\tB-company\n\nx-ray\tO\nof\tO\n\n",
}


@pytest.fixture(scope="module")
def engine():
    return start_engine(Evaluate(device="cpu", precision="fp32", threads=1))


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


def make_tagger(encoder_folder: Path, folder: Path, seed: int, types=("person", "place", "song")) -> None:
    """A random tagger of a domain named like the target."""
    torch.manual_seed(seed)
    encoder, _ = load_encoder(str(encoder_folder))
    save_tagger(LinearTagger(encoder, TagSet({"news": tuple(types)}), LinearTagger.Hyperparameters()), folder)


@pytest.fixture
def add_stage(run, tiny_encoder_folder):
    """Leave a training stage in the run."""

    def add(name="finetune", seeds=(1,), start_from="base", dev_f1=None, data_digest=None, start=""):
        options = Finetune(run=run.path, name=name, start_from=start_from)
        inputs = {"prepare-data": data_digest or run.digest("prepare-data"), "start": start}
        with open_stage(run, options.stage_request("finetune", inputs)) as stage:
            records = {}
            for number, seed in enumerate(seeds):
                folder = "tagger" if len(seeds) == 1 else f"tagger-seed-{seed}"
                make_tagger(tiny_encoder_folder, stage.draft / folder, seed)
                records[str(seed)] = {"folder": folder, "dev_f1": dev_f1[number] if dev_f1 else None}
            stage.finish({"seeds": records})

    return add


def go(run, engine, **options):
    """Run the command; give its manifest and what it said."""
    work = evaluate(run, Evaluate(run=run.path, **options), engine)
    said = []
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            return end.value, said
        if isinstance(event, Notice):
            said.append(event.text)


def test_a_tagger_is_scored_on_test_and_everything_is_written(run, engine, add_stage):
    add_stage()
    manifest, said = go(run, engine)
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
    model = manifest["result"]["models"]["finetune"]
    assert model["f1"] == {"mean": expected.f1, "deviation": None}
    assert model["seeds"]["1"]["repaired"] == expected.repaired == model["repaired"]
    assert model["unknown_types"] == ["company"] and model["extra_types"] == ["song"]
    assert any("missed: company" in text for text in said) and any("lack: song" in text for text in said)
    assert (manifest["result"]["sentences"], manifest["result"]["words"]) == (3, 7)
    assert model["words_per_second"] > 0
    stored = json.loads((folder / "scores.json").read_text())
    assert stored["tool"].startswith("seqeval") and stored["mode"] == "conll" and stored["zero_division"] == 0
    assert "opens an entity" in stored["repair"] and stored["models"] == json.loads(json.dumps(model_of(manifest)))
    with (folder / "per_type.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["type"]: float(row["f1"]) for row in rows} == pytest.approx(
        {name: row.f1 for name, row in expected.per_type.items()}
    )


def model_of(manifest):
    return manifest["result"]["models"]


def test_seeds_are_scored_one_by_one_with_mean_and_deviation(run, engine, add_stage):
    add_stage(seeds=(1, 2, 3))
    manifest, _ = go(run, engine)
    model = manifest["result"]["models"]["finetune"]
    scores = [model["seeds"][seed]["f1"] for seed in ("1", "2", "3")]
    assert model["f1"]["mean"] == pytest.approx(statistics.fmean(scores))
    assert model["f1"]["deviation"] == pytest.approx(statistics.stdev(scores))
    names = {path.name for path in run.folder("evaluate").glob("predictions*")}
    assert names == {f"predictions-finetune-seed-{seed}.jsonl" for seed in (1, 2, 3)}


def test_several_models_are_compared_stage_folder_and_tagger_folder_alike(run, engine, add_stage, tmp_path):
    add_stage("a")
    stage, tagger = (str(shutil.copytree(run.folder("a"), tmp_path / name)) for name in ("stage", "copy"))
    tagger += "/tagger"
    models = go(run, engine, model=["a", stage, tagger])[0]["result"]["models"]
    assert list(models) == ["a", stage, tagger]
    assert models["a"]["f1"] == models[stage]["f1"] == models[tagger]["f1"]
    assert list(models[tagger]["seeds"]) == ["-"]
    assert len(list(run.folder("evaluate").glob("predictions-*.jsonl"))) == 3


@pytest.mark.parametrize(
    ("other", "told"), [("news", "trained on another 'news', of other types"), ("songs", "not trained on 'news'")]
)
def test_sentences_get_the_types_of_the_domain_that_has_theirs_not_of_the_one_called_so(
    other, told, run, engine, tiny_encoder_folder, tmp_path
):
    torch.manual_seed(1)
    encoder, _ = load_encoder(str(tiny_encoder_folder))
    tag_set = TagSet({other: ("song", "band"), "mine": ("person", "place", "company")})
    save_tagger(LinearTagger(encoder, tag_set, LinearTagger.Hyperparameters()), tmp_path / "tagger")
    manifest, said = go(run, engine, model=[str(tmp_path / "tagger")])
    model = next(iter(manifest["result"]["models"].values()))
    assert model["unknown_types"] == [] == model["extra_types"]
    assert sum(f"{told}: these sentences are tagged as its 'mine'." in text for text in said) == 1
    lines = [json.loads(line) for line in (run.folder("evaluate") / "predictions.jsonl").read_text().splitlines()]
    assert {tag.partition("-")[2] for line in lines for tag in line["tags"]} <= {"", "person", "place", "company"}


def test_the_other_mode_and_the_other_split_can_be_had(run, engine, add_stage):
    add_stage()
    conll, _ = go(run, engine, split="dev", name="dev")
    strict, _ = go(run, engine, split="dev", mode="strict", name="strict")
    one, other = conll["result"]["models"]["finetune"], strict["result"]["models"]["finetune"]
    assert conll["result"]["sentences"] == 1 and strict["result"]["mode"] == "strict"
    assert one["other_mode"] == {"mode": "strict", "f1": other["f1"]}
    assert other["other_mode"] == {"mode": "conll", "f1": one["f1"]}


def test_tables_call_models_given_by_path_by_as_much_of_the_end_as_tells_them_apart(run, engine, add_stage, tmp_path):
    labels = ["direct", "/long/way/one/direct", "/long/way/two/other", "two/other"]
    assert list(short_names(labels).values()) == ["direct", "one/direct", "way/two/other", "two/other"]
    add_stage()
    path = str(shutil.copytree(run.folder("finetune"), tmp_path / "other" / "finetune"))
    manifest, _ = go(run, engine, model=["finetune", path])
    assert list(model_of(manifest)) == ["finetune", path], "files keep the whole path"
    (table, *_) = (block for block in evaluation_tables(manifest) if isinstance(block, Table))
    name = "other/finetune"
    assert [column.replace("\n", "") for column in table.columns] == ["score", "finetune", name]
    assert f"{name} is {path}" in [block.text for block in evaluation_tables(manifest) if isinstance(block, Line)]


def test_decoding_can_be_that_of_the_papers(run, engine, add_stage):
    add_stage()
    trained, legal = go(run, engine)[0], go(run, engine, decoding="legal", name="legal")[0]
    loose = go(run, engine, decoding="any", name="any")[0]
    assert model_of(trained)["finetune"]["f1"] == model_of(legal)["finetune"]["f1"]
    assert model_of(legal)["finetune"]["repaired"] == 0 < model_of(loose)["finetune"]["repaired"]
    assert loose["result"]["decoding"] == "any"
    lines = [block.text for block in evaluation_tables(loose) if isinstance(block, Line)]
    assert "Decoded to any tag sequence, whatever the taggers were trained to give" in lines
    assert not any("Decoded" in block.text for block in evaluation_tables(trained) if isinstance(block, Line))


def test_scores_are_measured_on_test_before_and_after_the_calibration_of_the_folder(run, engine, add_stage):
    add_stage()
    before = model_of(go(run, engine)[0])["finetune"]["reliability"]
    assert before["after"] is None
    path = run.folder("finetune") / "tagger" / "tagger.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps({**description, "calibration": Calibration(0.0, 0.0, 4, 2).to_json()}))
    manifest, _ = go(run, engine, name="again")
    found, scores = model_of(manifest)["finetune"]["reliability"], model_of(manifest)["finetune"]["seeds"]["1"]
    predicted = sum(row["predicted"] for row in scores["per_type"].values())
    correct = sum(row["correct"] for row in scores["per_type"].values())
    assert found["before"] == before["before"]
    assert sum(each["entities"] for each in found["before"]["bins"]) == predicted > 0
    # A calibration that gives every entity one half is off by the distance of the precision from it.
    assert found["after"]["ece"] == pytest.approx(abs(correct / predicted - 0.5))
    (half,) = [each for each in found["after"]["bins"] if each["entities"]]
    assert (half["from"], half["entities"], half["mean_score"]) == (0.5, predicted, 0.5)
    assert half["share_correct"] == pytest.approx(correct / predicted)
    lines = [block.text for block in evaluation_tables(manifest) if isinstance(block, Line)]
    errors = [100 * found[when]["ece"] for when in ("before", "after")]
    assert f"finetune: expected calibration error {errors[0]:.2f} % -> {errors[1]:.2f} % by calibration on dev" in lines
    titles = [block.title for block in evaluation_tables(manifest) if isinstance(block, Table)]
    assert "Reliability of the scores of entities (calibrated)" in titles
    on_dev = evaluation_tables(go(run, engine, split="dev", name="dev")[0])
    assert any("by calibration on these sentences" in block.text for block in on_dev if isinstance(block, Line))
    loose = model_of(go(run, engine, decoding="any", name="any")[0])["finetune"]["reliability"]
    assert loose["after"] is None
    assert model_of(go(run, engine, decoding="legal", name="legal")[0])["finetune"]["reliability"] == found


def test_a_finished_evaluation_is_not_done_again(run, engine, add_stage):
    add_stage()
    first, _ = go(run, engine)
    second, said = go(run, engine)
    assert first == second and "already done" in said[0]
    with pytest.raises(CrossNERError, match=r"split: 'test' -> 'dev'"):
        go(run, engine, split="dev")


def test_without_a_name_the_end_of_the_only_chain_is_taken(run, engine, add_stage):
    add_stage("pretrain-source")
    add_stage("finetune", start_from="pretrain-source")
    assert [tagger.label for tagger in find_taggers(run, [], wanted_by="evaluate")] == ["finetune"]
    add_stage("other")
    with pytest.raises(CrossNERError, match="several taggers to choose from: finetune.*, other"):
        find_taggers(run, [], wanted_by="evaluate")
    for name, f1 in (("finetune", 60.5), ("other", 7.25)):
        manifest = json.loads((run.folder(name) / "manifest.json").read_text())
        manifest["result"]["dev_f1"] = f1
        (run.folder(name) / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CrossNERError, match=r"finetune \(dev F1 60.50\), other \(dev F1 7.25\)") as problem:
        find_taggers(run, [], wanted_by="evaluate")
    assert "crossner evaluate --model finetune --run" in problem.value.hint


@pytest.mark.parametrize("way", ["pretrain-source/", "{}/pretrain-source", "{}/pretrain-source/tagger", "./run/dapt"])
def test_the_end_of_a_chain_is_found_however_its_starts_were_given(run, add_stage, monkeypatch, way):
    monkeypatch.chdir(run.path.parent)
    add_stage("pretrain-source" if "pretrain" in way else "dapt")
    add_stage("finetune", start_from=way.format(run.path))
    assert [tagger.label for tagger in find_taggers(run, [], wanted_by="evaluate")] == ["finetune"]


def test_the_end_of_a_chain_is_found_from_another_folder_than_a_start_was_given_in(run, add_stage, monkeypatch):
    add_stage("source")
    add_stage("finetune", start_from="./source", start=run.digest("source"))
    assert [tagger.label for tagger in find_taggers(run, [], wanted_by="evaluate")] == ["finetune"]


def test_a_stage_that_was_continued_from_itself_is_the_end_of_its_chain(run, add_stage):
    add_stage("w1", start_from="w1")
    assert [tagger.label for tagger in find_taggers(run, [], wanted_by="evaluate")] == ["w1"]
    add_stage("w2", start_from="w2/")
    with pytest.raises(CrossNERError, match="several taggers to choose from: w1, w2"):
        find_taggers(run, [], wanted_by="evaluate")


def test_a_tagger_that_is_named_in_several_ways_is_one(run, add_stage):
    add_stage()
    tagger = str(run.folder("finetune") / "tagger")
    for names in (["finetune", "finetune/", str(run.folder("finetune")), tagger], [tagger, "finetune"]):
        assert [each.label for each in find_taggers(run, names, wanted_by="evaluate")] == names[:1]
    add_stage("seeds", seeds=(1, 2))
    one = str(run.folder("seeds") / "tagger-seed-1")
    found = find_taggers(run, [one, "seeds", one + "/"], wanted_by="evaluate")
    assert [each.label for each in found] == [one, "seeds", "seeds"], "the mean is of all seeds"


def test_a_stage_may_be_named_with_the_slash_that_a_shell_puts_behind_a_folder(run, engine, add_stage):
    add_stage()
    assert find_taggers(run, ["finetune/"], wanted_by="evaluate")[0].folder.parent == run.folder("finetune")
    assert run.stage_or_path("./finetune/") == Path("finetune")


def test_what_is_no_tagger_is_refused_with_the_way_out(run, tmp_path):
    with pytest.raises(CrossNERError, match=r"holds none \(finished stages: prepare-data\)"):
        find_taggers(run, [], wanted_by="predict")
    with pytest.raises(CrossNERError, match="'prepare-data' .* holds no tagger"):
        find_taggers(run, ["prepare-data"], wanted_by="predict")
    with pytest.raises(CrossNERError, match=r"neither a finished stage of .* nor a folder"):
        find_taggers(run, ["nothing"], wanted_by="predict")
    with pytest.raises(CrossNERError, match="holds neither a finished stage"):
        find_taggers(run, [str(tmp_path)], wanted_by="predict")


def test_a_stage_of_other_data_is_refused_in_its_own_run_only(run, add_stage, tmp_path):
    add_stage(data_digest="0" * 64)
    with pytest.raises(CrossNERError, match="was trained before the data .* were prepared again") as caught:
        find_taggers(run, ["finetune"], wanted_by="evaluate")
    assert "--force" in caught.value.hint
    with pytest.raises(CrossNERError, match="prepared again"):
        find_taggers(run, [str(run.folder("finetune"))], wanted_by="evaluate")
    elsewhere = RunDirectory(tmp_path / "elsewhere")
    assert find_taggers(elsewhere, [str(run.folder("finetune"))], wanted_by="evaluate")[0].seed == 1


def test_a_missing_seed_folder_is_told(run, add_stage):
    add_stage()
    (run.folder("finetune") / "tagger" / "tagger.json").unlink()
    with pytest.raises(CrossNERError, match="names the tagger .*, which does not exist"):
        find_taggers(run, ["finetune"], wanted_by="evaluate")


def test_prediction_takes_the_seed_that_is_best_on_dev(run, add_stage):
    add_stage(seeds=(4, 5, 6), dev_f1=[10.0, 30.0, 20.0])
    assert best_on_dev(find_taggers(run, ["finetune"], wanted_by="predict")).seed == 5
    add_stage("unscored", seeds=(4, 5))
    assert best_on_dev(find_taggers(run, ["unscored"], wanted_by="predict")).seed == 4


def test_two_files_need_no_run_and_no_engine(tmp_path):
    gold, predictions = write_pair(tmp_path, tag_columns("B-x I-x", "O"), tag_columns("B-x I-x", "I-x"))
    manifest, _ = go(RunDirectory(tmp_path / "none"), None, gold=gold, predictions=predictions)
    result = manifest["result"]
    model = result["models"][str(predictions)]
    assert model["f1"]["mean"] == pytest.approx(200 / 3) and model["repaired"] == 1
    assert (result["sentences"], result["words"], result["gold_scheme"]) == (2, 3, "bio")
    assert not (tmp_path / "none").exists()
    with pytest.raises(CrossNERError, match="takes --gold and --predictions, both"):
        go(RunDirectory(tmp_path / "none"), None, gold=gold)


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
    with pytest.raises(CrossNERError, match=r"predictions.jsonl:2: found the word 'went', .*gold.jsonl:2 has 'came'"):
        go(RunDirectory(tmp_path / "none"), None, gold=gold, predictions=predictions)


def test_gold_without_an_entity_is_told_and_counted(tmp_path):
    gold, predictions = write_pair(tmp_path, tag_columns("O O"), tag_columns("B-song O"))
    manifest, said = go(RunDirectory(tmp_path / "none"), None, gold=gold, predictions=predictions)
    assert f"{gold} has no entity: every tag is O, so no score of it means anything." in said
    scores = next(block for block in evaluation_tables(manifest) if isinstance(block, Table))
    assert ("entities", "0") in scores.rows


def test_types_of_two_files_that_differ_by_case_are_told(tmp_path):
    gold, predictions = write_pair(tmp_path, tag_columns("B-Song O B-place"), tag_columns("B-song B-x B-place"))
    manifest, said = go(RunDirectory(tmp_path / "none"), None, gold=gold, predictions=predictions)
    (warning,) = manifest["result"]["warnings"]
    assert warning == f"The type 'song' of {predictions} and 'Song' of {gold} differ by case only: two types."
    assert warning in said
    assert manifest["result"]["models"][str(predictions)]["extra_types"] == ["song", "x"]


def test_warnings_of_the_data_are_those_of_the_split_that_is_scored(engine, add_stage, run):
    path = run.folder("prepare-data") / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    texts = [f"The target 'x': 1 of 9 {split} sentences are in train, word for word." for split in ("dev", "test")]
    manifest["result"]["warnings"] = [*texts, "The source 'y': 1 of 9 dev sentences are in train, word for word."]
    path.write_text(json.dumps(manifest), encoding="utf-8")
    add_stage()
    for split, text in zip(("dev", "test"), texts, strict=True):
        scored, said = go(run, engine, split=split, name=split)
        assert scored["result"]["warnings"] == [text] and text in said


def test_predictions_of_a_run_can_be_scored_as_a_file(run, engine, add_stage, tmp_path):
    add_stage()
    manifest, _ = go(run, engine)
    gold, predictions = tmp_path / "news" / "test.conll", run.folder("evaluate") / "predictions.jsonl"
    found = score_files(gold, predictions, mode="conll")
    assert found.scores.f1 == manifest["result"]["models"]["finetune"]["f1"]["mean"]


FINE_GRAINED_FILES = {"fine_grained.csv", "fine_grained.md", "errors.html"}


def test_fine_grained_files_stand_beside_the_scores(run, engine, add_stage):
    add_stage(seeds=(1, 2, 3), dev_f1=[10.0, 30.0, 20.0])
    manifest, _ = go(run, engine, fine_grained=True)
    folder = run.folder("evaluate")
    assert {path.name for path in folder.iterdir()} >= {*FINE_GRAINED_FILES, "scores.json", "per_type.csv"}
    record = model_of(manifest)["finetune"]["fine_grained"]
    assert record["shown_seed"] == "2" and "seeds" not in record
    stored = json.loads((folder / "scores.json").read_text())["models"]["finetune"]
    for name in ("f1", "precision", "recall"):
        assert record["mean"]["scores"]["micro"][name] == pytest.approx(stored[name])
        for seed, scores in stored["seeds"].items():
            assert stored["fine_grained"]["seeds"][seed]["scores"]["micro"][name] == pytest.approx(scores[name])
    assert record["mean"]["illegal_tags"]["count"]["mean"] * 3 == pytest.approx(stored["repaired"])
    assert "seen in target train" in record["mean"]["buckets"]
    about = manifest["result"]["fine_grained"]
    assert set(about["left_out"]) == {"seen in source train", "seen in raw text", "type and source"}
    with (folder / "fine_grained.csv").open() as stream:
        rows = {tuple(row[name] for name in ("section", "group", "measure")): row for row in csv.DictReader(stream)}
    assert float(rows["scores", "micro", "f1"]["mean"]) == pytest.approx(stored["f1"]["mean"])
    assert go(run, engine, fine_grained=True)[1][0].startswith("evaluate: already done")


def test_the_other_numbers_are_the_same_with_and_without_fine_grained(run, engine, add_stage):
    add_stage()
    plain, fine = go(run, engine)[0], go(run, engine, fine_grained=True, name="fine", mode="conll")[0]
    assert plain["result"]["fine_grained"] is None
    one, other = model_of(plain)["finetune"], model_of(fine)["finetune"]
    for name in ("f1", "per_type", "support", "repaired", "other_mode"):
        assert one[name] == other[name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type_parents": "person=place"}, "--type-parents has no effect without --fine-grained"),
        ({"type_parents": "persn=place", "fine_grained": True}, "'persn' is none of the entity types: company, person"),
    ],
)
def test_parents_are_checked_before_any_tagging(run, engine, add_stage, options, message):
    add_stage()
    with pytest.raises(CrossNERError, match=message):
        go(run, engine, **options)
    assert not run.has("evaluate")


def test_errors_of_two_files_are_analysed_in_a_stage(tmp_path):
    gold, predictions = write_pair(tmp_path, tag_columns("B-x I-x O", "B-y O"), tag_columns("B-x O O", "S-y S-x"))
    run = RunDirectory(tmp_path / "run")
    manifest, said = go(run, None, gold=gold, predictions=predictions, fine_grained=True, name="files")
    assert {path.name for path in run.folder("files").iterdir()} >= {*FINE_GRAINED_FILES, "scores.json"}
    model = model_of(manifest)[str(predictions)]
    errors = model["fine_grained"]["mean"]["errors"]["all"]
    assert {kind: count["mean"] for kind, count in errors.items() if count["mean"]} == {
        "correct": 1,
        "boundary_right": 1,
        "spurious": 1,
    }
    assert set(model["fine_grained"]["mean"]["buckets"]) == {"mention length", "sentence length", "entity density"}
    said = [block.text for block in evaluation_tables(manifest) if isinstance(block, Line)]
    assert "Left out: seen in target train, because there are no training sentences of the target" in said
    assert "already done" in go(run, None, gold=gold, predictions=predictions, fine_grained=True, name="files")[1][0]
    with pytest.raises(CrossNERError, match="is no file"):
        go(run, None, gold=tmp_path, predictions=predictions, fine_grained=True, name="other")


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
    assert evaluation_tables(manifest)[0].text.startswith(f"F1 {comparison['difference']:+.2f} (95 % interval")
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


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_a_tagger_is_compared_with_predictions_of_another_tool_whatever_its_scheme(
    run, engine, add_stage, tmp_path, scheme
):
    add_stage()
    gold = list(read_sentences(run.folder("prepare-data") / "target" / "test.jsonl"))
    path = tmp_path / "all-right.conll"
    tags = [to_tags(to_spans(sentence.tags), len(sentence.words), scheme) for sentence in gold]
    sides = zip(gold, tags, strict=True)
    path.write_text("\n".join("".join(map("{}\t{}\n".format, sentence.words, its)) for sentence, its in sides))
    other, said = go(run, None, gold=path, predictions=path, fine_grained=True, name="other-tool", split="dev")
    assert other["result"]["models"][str(path)]["scheme"] == scheme
    manifest, _ = go(run, engine, against=[run.folder("other-tool")])
    (comparison,) = manifest["result"]["comparisons"]
    assert comparison["against_f1"]["mean"] == 100 and comparison["sentences"]["won"] == 0
    assert comparison["difference"] == pytest.approx(manifest["result"]["models"]["finetune"]["f1"]["mean"] - 100)


def test_what_was_scored_on_other_sentences_is_refused_before_any_tagging(run, engine, add_stage, tmp_path):
    add_stage()
    other = RunDirectory(tmp_path / "other")
    folder = tmp_path / "news"
    (folder / "test.conll").write_text(SPLITS["test"].replace("visited", "left"))
    exhaust(prepare_data(other, PrepareData(run=other.path, target=str(folder))))
    exhaust(evaluate(other, Evaluate(run=other.path, model=[str(run.folder("finetune"))]), engine))
    with pytest.raises(CrossNERError, match="Sentence 1 has other words .*: word 2: 'left' and not 'visited'"):
        go(run, engine, against=[other.path])
    assert not run.has("evaluate")
    with pytest.raises(CrossNERError, match="neither --model nor --against"):
        go(run, engine, gold=folder / "test.conll", predictions=folder / "test.conll", against=[other.path])
