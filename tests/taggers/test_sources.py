"""Names of starts and taggers stand for one folder of weights each, and for nothing that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders.encoders import make_encoder
from builders.starts import begin, design_tagger, find, save_stage
from builders.taggers import make_tagger
from safetensors.torch import load_file

from crossner_cli.data.tags import TagSet
from crossner_cli.engine.devices import Engine, start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Dapt, Finetune, PrepareData
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.stage import open_stage
from crossner_cli.run.storage import digest_file, digest_folder
from crossner_cli.taggers.sources import Start, find_start, notes_on_start

TYPES = TagSet({"conll": ("person", "misc", "place")})


@pytest.fixture(scope="module")
def engine() -> Engine:
    return start_engine(Finetune(device="cpu", precision="fp32", threads=1))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def tagger(tiny_encoder_folder):
    return make_tagger(tiny_encoder_folder, "linear", TYPES)


def test_base_is_the_untouched_encoder(tiny_encoder_folder, run):
    start = find(run, "base", design_tagger(tiny_encoder_folder))
    digest = digest_folder(tiny_encoder_folder)
    assert start == Start("base", None, digest, lineage=[{"encoder": str(tiny_encoder_folder), "digest": digest}])
    assert start.folder_for(7) is None


def test_words_alone_start_without_any_encoder(run):
    assert find_start(run, "base", None, wanted_by="finetune") == Start("base", None, "nothing")
    with pytest.raises(CrossNERError, match="not-there"):
        find_start(run, "base", "./not-there", wanted_by="finetune")


def test_an_adapted_encoder_starts_a_tagger(tmp_path, tiny_encoder_folder, run, engine):
    adapted = make_encoder(tmp_path / "adapted", intermediate_size=48)
    with open_stage(run, Dapt().stage_request("dapt", {})) as stage:
        adapted.rename(stage.draft / "encoder")
        stage.finish({}, lineage=[{"encoder": "minilm", "digest": "d"}])
    design = design_tagger(tiny_encoder_folder)
    for name in ("dapt", str(run.folder("dapt")), str(run.folder("dapt") / "encoder")):
        assert find(run, name, design).folder_for(1) == run.folder("dapt") / "encoder"
        tagger, carried = begin(run, engine, design, TYPES, start=name)
        expected = load_file(run.folder("dapt") / "encoder/model.safetensors")
        assert all((value == expected[name]).all() for name, value in tagger.encoder.model.state_dict().items())
        assert carried.loaded == len(expected) and carried.fresh_types == list(TYPES.types)
    digest = digest_file(run.folder("dapt") / "manifest.json")
    start = find(run, "dapt", design)
    assert start.digest == digest
    assert start.lineage == [{"encoder": "minilm", "digest": "d"}, {"stage": "dapt", "name": "dapt", "digest": digest}]


def test_a_seed_starts_from_its_own_seed_and_else_from_the_best(tiny_encoder_folder, run, engine):
    taggers = {}
    for seed in (1, 2, 10):
        taggers[seed] = make_tagger(tiny_encoder_folder, "linear", TYPES)
        taggers[seed].classifier.bias.data.fill_(float(seed))
    folder = save_stage(run, "pretrain-source", taggers, [40.0, 70.0, 55.5])
    for name in ("pretrain-source", str(folder)):
        start = find(run, name, design_tagger(tiny_encoder_folder))
        assert start.best_seed == 2
        assert start.seeds == {seed: folder / f"tagger-seed-{seed}" for seed in (1, 2, 10)}
        for seed, source in {1: 1, 2: 2, 10: 10, 3: 2}.items():
            tagger, _ = begin(run, engine, design_tagger(tiny_encoder_folder), TYPES, start=name, seed=seed)
            assert tagger.classifier.bias.tolist() == [float(source)] * len(TYPES)


@pytest.mark.parametrize(("seeds", "scores", "expected"), [((4,), [None], "tagger"), ((4, 5), [0, 0], "tagger-seed-4")])
def test_without_scores_the_first_seed_stands_for_the_others(run, tiny_encoder_folder, tagger, seeds, scores, expected):
    save_stage(run, "source", dict.fromkeys(seeds, tagger), scores)
    assert find(run, "source", design_tagger(tiny_encoder_folder)).folder_for(1) == run.folder("source") / expected


def test_a_stage_is_preferred_to_a_folder_of_its_name(tiny_encoder_folder, run, tagger, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_encoder(Path("mine"))
    design = design_tagger(tiny_encoder_folder)
    assert find(run, "mine", design).folder == Path("mine")
    save_stage(run, "mine", {1: tagger}, [1.0])
    assert find(run, "mine", design).folder_for(1) == run.folder("mine") / "tagger"


@pytest.mark.parametrize("name", ["pretrain-source", "nowhere/tagger", "/nowhere", "BASE", "../run"])
def test_an_unknown_start_is_answered_with_what_there_is(run, tiny_encoder_folder, tagger, name):
    save_stage(run, "mine", {1: tagger}, [1.0])
    with pytest.raises(CrossNERError) as caught:
        find(run, name, design_tagger(tiny_encoder_folder))
    expected = f"finetune: --start-from {name!r} is neither base, a finished stage of {run.path} (mine)"
    assert expected in str(caught.value) and "stage of this run" in caught.value.hint


def test_a_folder_that_is_no_model_is_refused(run, tmp_path):
    with pytest.raises(CrossNERError, match="holds neither a finished stage"):
        find_start(run, str(tmp_path), "minilm", wanted_by="finetune")


def test_a_stage_without_weights_is_refused(run):
    with open_stage(run, PrepareData(source="a").stage_request("prepare-data", {})) as stage:
        stage.finish({"domains": {}})
    with pytest.raises(CrossNERError, match=r"'prepare-data' \(prepare-data\) in .* holds no weights to start from"):
        find_start(run, "prepare-data", "minilm", wanted_by="finetune")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"stage": "dapt"}'])
def test_a_broken_manifest_is_a_known_problem(run, tagger, content):
    folder = save_stage(run, "mine", {1: tagger}, [1.0])
    (folder / "manifest.json").write_text(content)
    with pytest.raises(CrossNERError, match="manifest.json"):
        find_start(run, "mine", "minilm", wanted_by="finetune")


def test_a_tagger_that_was_deleted_is_a_known_problem(run, tiny_encoder_folder, tagger, engine):
    folder = save_stage(run, "mine", {1: tagger}, [1.0])
    (folder / "tagger").rename(folder / "elsewhere")
    with pytest.raises(CrossNERError, match="The encoder folder .* was not found"):
        begin(run, engine, design_tagger(tiny_encoder_folder), TYPES, start="mine")


def test_the_digest_of_a_start_follows_its_files(run, tmp_path):
    folder = make_encoder(tmp_path / "other")
    before = find_start(run, str(folder), "minilm", wanted_by="finetune")
    assert before.lineage == [{"folder": str(folder), "digest": before.digest}]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-6}))
    assert find_start(run, str(folder), "minilm", wanted_by="finetune").digest != before.digest


def test_a_start_that_is_made_again_between_two_seeds_is_refused(run, tagger):
    save_stage(run, "source", {1: tagger}, [50.0])
    start = find_start(run, "source", "minilm", wanted_by="finetune")
    start.check_unchanged("finetune")
    manifest = run.folder("source") / "manifest.json"
    manifest.write_text(manifest.read_text().replace("50.0", "51.0"))
    with pytest.raises(CrossNERError, match="'source' was made again while this stage trained"):
        start.check_unchanged("finetune")


def test_an_encoder_beside_a_start_that_has_its_own_is_ignored_with_a_note(run, tiny_encoder_folder, tagger):
    save_stage(run, "words", {1: make_tagger(tiny_encoder_folder, "bilstm-crf", TYPES)}, [1.0])
    save_stage(run, "encoder", {1: tagger}, [1.0], lineage=[{"encoder": "electra", "digest": "d"}])
    words, encoder = (find_start(run, name, "minilm", wanted_by="finetune") for name in ("words", "encoder"))
    (note,) = notes_on_start(encoder, run, "bert-base-cased")
    assert note == "--encoder bert-base-cased is ignored: the encoder is that of 'encoder' (electra)."
    for start, given in ((words, "bert-base-cased"), (encoder, None), (encoder, "electra"), (encoder, "minilm")):
        assert notes_on_start(start, run, given) == []
