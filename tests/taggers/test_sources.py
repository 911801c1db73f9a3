"""Names of starts and taggers stand for one folder of weights each, and for nothing that is not there."""

import json
from dataclasses import asdict

import pytest
from builders.encoders import make_encoder
from builders.runs import prepared_result, seeds_result
from builders.starts import begin, design_tagger, find, save_stage
from builders.taggers import make_tagger
from safetensors.torch import load_file

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.start import Start
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Dapt, Finetune
from crossner_cli.options_data import PrepareData
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.stage import open_stage
from crossner_cli.run.storage import digest_folder
from crossner_cli.taggers.sources import find_start, find_taggers

TYPES = TagSet({"conll": ("person", "misc", "place")})


@pytest.fixture
def tagger(tiny_encoder_folder):
    return make_tagger(tiny_encoder_folder, "linear", TYPES)


@pytest.fixture
def design(tiny_encoder_folder):
    return design_tagger(tiny_encoder_folder)


def test_base_is_the_untouched_encoder_and_words_alone_start_without_any(tiny_encoder_folder, run, design):
    start = find(run, "base", design)
    digest = digest_folder(tiny_encoder_folder)
    assert start == Start(
        "base",
        None,
        digest,
        lineage=[{"encoder": str(tiny_encoder_folder), "digest": digest}],
        encoder=str(tiny_encoder_folder),
    )
    assert start.folder_for(7) is None
    assert find_start(run, "base", None, wanted_by="finetune") == Start("base", None, "nothing")
    with pytest.raises(CrossNERError, match="not-there"):
        find_start(run, "base", "./not-there", wanted_by="finetune")


def test_an_adapted_encoder_starts_a_tagger(tmp_path, run, design, engine):
    adapted = make_encoder(tmp_path / "adapted", intermediate_size=48)
    with open_stage(run, Dapt().stage_request({})) as stage:
        adapted.rename(stage.draft / "encoder")
        stage.finish({}, lineage=[{"encoder": "minilm", "digest": "d"}])
    folder = run.folder("dapt")
    for name in ("dapt", str(folder), str(folder / "encoder")):
        assert find(run, name, design).folder_for(1) == folder / "encoder"
        tagger, carried = begin(run, engine, design, TYPES, start=name)
        expected = load_file(folder / "encoder/model.safetensors")
        assert all((value == expected[name]).all() for name, value in tagger.encoder.model.state_dict().items())
        assert carried.loaded == len(expected) and carried.fresh_types == list(TYPES.types)
    start, digest = find(run, "dapt", design), run.digest("dapt")
    assert start.digest == digest
    assert start.lineage == [{"encoder": "minilm", "digest": "d"}, {"stage": "dapt", "name": "dapt", "digest": digest}]


def test_a_seed_starts_from_its_own_seed_and_else_from_the_best_or_the_first(tiny_encoder_folder, run, design, engine):
    taggers = {seed: make_tagger(tiny_encoder_folder, "linear", TYPES) for seed in (1, 2, 10)}
    for seed, tagger in taggers.items():
        tagger.classifier.bias.data.fill_(float(seed))
    folder = save_stage(run, "pretrain-source", taggers, [40.0, 70.0, 55.5])
    for name in ("pretrain-source", str(folder)):
        start = find(run, name, design)
        assert start.folder == folder / "tagger-seed-2"
        assert start.seeds == {seed: folder / f"tagger-seed-{seed}" for seed in (1, 2, 10)}
        for seed, source in {1: 1, 2: 2, 10: 10, 3: 2}.items():
            tagger, _ = begin(run, engine, design, TYPES, start=name, seed=seed)
            assert tagger.classifier.bias.tolist() == [float(source)] * len(TYPES)
    folder = save_stage(run, "unscored", {2: taggers[2], 10: taggers[10]}, [0, 0])
    assert find(run, "unscored", design).folder_for(1) == folder / "tagger-seed-2"


@pytest.mark.parametrize("name", ["pretrain-source", "/nowhere", "BASE", "../run"])
def test_an_unknown_start_is_answered_with_what_there_is(run, design, tagger, name):
    save_stage(run, "mine", {1: tagger}, [1.0])
    with pytest.raises(CrossNERError) as caught:
        find(run, name, design)
    expected = f"finetune: --start-from {name!r} is neither base, a finished stage of {run.path} (mine)"
    assert expected in str(caught.value) and "stage of this run" in caught.value.hint


def test_what_holds_nothing_to_start_from_is_refused(run, tagger, tmp_path, design, engine):
    with open_stage(run, PrepareData(source=["a"]).stage_request({})) as stage:
        stage.finish(asdict(prepared_result()))
    folder = save_stage(run, "mine", {1: tagger}, [1.0])
    for name, problem in (
        (str(tmp_path), "holds neither a finished stage"),
        ("prepare-data", r"'prepare-data' \(prepare-data\) in .* holds no weights to start from"),
    ):
        with pytest.raises(CrossNERError, match=problem):
            find_start(run, name, "minilm", wanted_by="finetune")
    (folder / "tagger").rename(folder / "elsewhere")
    with pytest.raises(CrossNERError, match="The encoder folder .* was not found"):
        begin(run, engine, design, TYPES, start="mine")
    (folder / "manifest.json").write_text('{"stage": "dapt"}')
    with pytest.raises(CrossNERError, match="manifest.json"):
        find_start(run, "mine", "minilm", wanted_by="finetune")


def test_the_digest_of_a_start_follows_its_files_and_one_made_again_between_two_seeds_is_refused(run, tagger, tmp_path):
    folder = make_encoder(tmp_path / "other")
    before = find_start(run, str(folder), "minilm", wanted_by="finetune")
    assert before.lineage == [{"folder": str(folder), "digest": before.digest}]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-6}))
    assert find_start(run, str(folder), "minilm", wanted_by="finetune").digest != before.digest
    save_stage(run, "source", {1: tagger}, [50.0])
    start = find_start(run, "source", "minilm", wanted_by="finetune")
    start.check_unchanged("finetune")
    tokenizer = run.folder("source") / "tagger" / "tokenizer.json"
    text = tokenizer.read_text()
    tokenizer.write_text(text + " ")
    with pytest.raises(CrossNERError, match=r"tokenizer\.json is not the file listed in its manifest"):
        start.check_unchanged("finetune")
    tokenizer.write_text(text)
    start.check_unchanged("finetune")
    manifest = run.folder("source") / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "source"', '"name": "other"'))
    with pytest.raises(CrossNERError, match="'source' was made again while this stage trained"):
        start.check_unchanged("finetune")


@pytest.fixture
def add_stage(run):
    """Leave a training stage in a run with prepared data; its taggers are folders by name only."""
    with open_stage(run, PrepareData(source=["a"]).stage_request({})) as stage:
        stage.finish(asdict(prepared_result()))

    def add(name="finetune", seeds=(1,), scores=None, start_from="base", **inputs):
        inputs = {"base": "", **inputs}
        request = Finetune(run=run.path, name=name, start_from=start_from).stage_request(inputs)
        with open_stage(run, request) as stage:
            result = seeds_result(dict(zip(seeds, scores or [None] * len(seeds), strict=True)))
            for record in result.seeds.values():
                (stage.draft / record.folder).mkdir()
                (stage.draft / record.folder / "tagger.json").write_text("{}")
            stage.finish(asdict(result))
        return run.folder(name)

    return add


def labels(run: RunDirectory, *names: str) -> list[str]:
    return [tagger.label for tagger in find_taggers(run, list(names), wanted_by="evaluate")]


def test_without_a_name_the_end_of_the_only_chain_is_taken(run, add_stage):
    add_stage("pretrain-source")
    add_stage("finetune", start_from="pretrain-source", scores=[60.5])
    assert labels(run) == ["finetune"]
    add_stage("other", scores=[7.25], start_from="other/")  # a stage that was continued from itself ends its chain
    with pytest.raises(
        CrossNERError, match=r"to choose from: finetune \(dev F1 60.50\), other \(dev F1 7.25\)"
    ) as found:
        labels(run)
    assert "crossner evaluate --model finetune --run" in found.value.hint


def test_what_is_no_tagger_is_refused_with_the_way_out(run, add_stage, tmp_path):
    for names, problem in (
        ([], r"holds none \(finished stages: prepare-data\)"),
        (["prepare-data"], "'prepare-data' .* holds no tagger"),
        (["nothing"], "neither a finished stage of .* nor a folder"),
        ([str(tmp_path)], "holds neither a finished stage"),
    ):
        with pytest.raises(CrossNERError, match=problem) as found:
            labels(run, *names)
        assert found.value.hint
