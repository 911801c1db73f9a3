"""The whole chain through the real command line, on the bundled sample and a tiny encoder."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.commands import QUICK, crossner, invoke, refused
from builders.encoders import TOKENIZER_FILES
from huggingface_hub import ModelCard

from crossner_cli.corpus.levels import LEVELS
from crossner_cli.data.sentences import read_sentences
from crossner_cli.evaluation.scores import score
from crossner_cli.options import PretrainSource
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import exhaust
from crossner_cli.run.stage import Stage
from crossner_cli.stages import train
from crossner_cli.stages.train import read_data, resolve_recipe
from crossner_cli.taggers.tagging import Tagged

MODEL_FILES = {"README.md", "config.json", "model.safetensors", *TOKENIZER_FILES}
TAGGER_FILES = {*MODEL_FILES, "tagger.json", "tagger.safetensors", "training.json"}
PREPARED_FILES = (
    "statistics.json statistics.md repairs.json source/train.jsonl source/dev.jsonl source/words.json source/types.json"
    " source/places.json target/train.jsonl target/dev.jsonl target/test.jsonl target/words.json target/types.json"
    " target/places.json"
)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def test_each_stage_leaves_exactly_its_files(chain: Path) -> None:
    made = {
        "prepare-data": {
            *PREPARED_FILES.split(),
            *(f"corpus/{level}.{kind}" for level in LEVELS for kind in ("txt", "mentions")),
        },
        "dapt": {f"encoder/{name}" for name in {*MODEL_FILES, "training.json"}},
        "pretrain-source": {f"tagger/{name}" for name in TAGGER_FILES},
        "finetune": {f"tagger-seed-{seed}/{name}" for seed in (1, 2) for name in TAGGER_FILES},
    }
    for stage, files in made.items():
        assert files_of(chain / stage) == {"manifest.json", *files}
        assert manifest_of(chain / stage)["outputs"].keys() == files
    stages = {path.name for path in chain.iterdir() if not path.name.startswith(".lock-")}
    assert stages == {*made, "joint-train", "evaluate-finetune-joint-train"}


def test_a_tagger_tags_in_int8_as_its_card_says(chain: Path, tmp_path: Path) -> None:
    quick = (*QUICK[:-2], "--precision", "int8")
    tagger = manifest_of(chain / "finetune")["result"]["seeds"]["1"]
    scored = crossner("evaluate --split dev --name int8 --model", "finetune", "--run", chain, *quick)
    assert (
        "read in int8" in invoke("evaluate --split dev --name int8 --model", "finetune", "--run", chain, *quick).stdout
    )
    assert "dev F1 in int8: finetune" in invoke("status", "--run", chain).stdout
    shutil.rmtree(chain / "int8")
    (found,) = scored["result"]["models"].values()
    assert f"{tagger['dev_f1_int8']:.2f}" in (chain / "finetune" / tagger["folder"] / "README.md").read_text()
    assert found["seeds"]["1"]["f1"] == pytest.approx(tagger["dev_f1_int8"])
    text = tmp_path / "text.txt"
    text.write_text("Anna met Peter in London.\n" * 5)
    predict = ("predict", text, "--model finetune --run", chain, *quick, "--force --output")
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    crossner(*predict, one)
    crossner(*predict, two, "--workers 2")
    tags = [[json.loads(line)["tags"] for line in path.read_text().splitlines()] for path in (one, two)]
    assert len(tags[0]) == 5 and tags[0] == tags[1]


def test_an_adaptation_reads_the_share_of_the_corpus_that_it_is_given(run: Path, tiny_encoder_folder: Path) -> None:
    half = crossner(*short_adaptation(run, tiny_encoder_folder), "--corpus-share 0.5 --name half")["result"]["corpus"]
    assert 0 < half["left_out_lines"] < half["lines"] and half["share"] == 0.5


def short_adaptation(run: Path, encoder: Path) -> tuple[str | Path, ...]:
    return ("dapt --max-steps 4 --block-size 32 --batch-size 4", "--run", run, *QUICK, "--encoder", encoder)


def test_compiled_layers_learn_the_same(run: Path, tiny_encoder_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapt = short_adaptation(run, tiny_encoder_folder)
    plain = crossner(*adapt, "--name plain")["result"]
    compiled = []

    def traced(function: Any, **options: Any) -> Any:
        compiled.append(options)
        return real(function, backend="eager", **options)

    real = torch.compile
    monkeypatch.setattr(torch, "compile", traced)
    found = crossner(*adapt, "--compile --name compiled")["result"]
    assert compiled == [{"dynamic": False}], "one of two layers: the last one is cut down"
    assert found["losses"] == pytest.approx(plain["losses"], rel=1e-5)
    assert found["perplexity_after"] == pytest.approx(plain["perplexity_after"], rel=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "strings"])
def test_an_adaptation_that_ends_on_a_full_disk_is_finished_without_training_again(
    kind: str, run: Path, tiny_encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = ("--encoder", tiny_encoder_folder, "--block-size 32 --head-warmup 0.5")
    model = encoder if kind == "encoder" else ("--encoder strings --hidden-size 4",)
    adapt = ("dapt --max-steps 2 --epochs 1", "--run", run, *QUICK, *model)

    def full(stage: Stage, *arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Stage, "finish", full)
        refused(*adapt)
    assert not (run / "dapt").exists() and not list(run.glob(".draft-dapt/checkpoint*"))
    again = invoke(*adapt, "--json")
    assert again.exit_code == 0 and "trained before the interruption" in again.stderr and "updates" not in again.stderr
    assert json.loads(again.stdout)["result"]["updates"] == 2
    assert {path.name for path in (run / "dapt").iterdir()} & {"blocks", "text", "checkpoint"} == set()


def test_the_manifest_tells_the_line_of_the_weights_and_what_carried_over(chain: Path) -> None:
    manifest = manifest_of(chain / "finetune")
    assert [step.get("stage", "base") for step in manifest["lineage"]] == ["base", "dapt", "pretrain-source"]
    start = manifest["result"]["start"]
    assert set(start["carried_types"]) == {"person", "organisation", "location", "misc"}
    assert set(start["fresh_types"]) == {"astronomicalobject", "spacecraft", "telescope"}
    assert start["left_tensors"] == []
    adapted = manifest_of(chain / "dapt")["result"]["start"]
    assert adapted["loaded"] > 20 and adapted["new_tensors"] and adapted["left_tensors"] == []


def test_the_card_in_each_model_folder_tells_what_the_manifest_tells(chain: Path) -> None:
    train = manifest_of(chain / "prepare-data")["result"]["domains"]["target"]["splits"]["train"]
    for seed, record in manifest_of(chain / "finetune")["result"]["seeds"].items():
        card = ModelCard.load(chain / "finetune" / record["folder"] / "README.md")
        scored = {each.metric_type: each for each in card.data.eval_results or []}
        for metric in ("f1", "precision", "recall"):
            assert scored[metric].metric_value == round(record[f"dev_{metric}"], 2)
            assert (scored[metric].dataset_name, scored[metric].dataset_split) == ("sample-target", "dev")
            assert scored[metric].metric_args == {"seed": int(seed), "seeds": [1, 2]}
        assert (card.data.language, card.data.library_name) == ("en", "transformers")
        for told in (
            f"| target | sample-target | {train['sentences']:,} | {train['words']:,} |",
            "1. encoder tiny-encoder",
            "2. dapt, named dapt",
            "3. pretrain-source, named pretrain-source",
            f"4. finetune, named finetune, method linear, seed {seed}: this model",
            "seeds = 1,2",
        ):
            assert told in card.text
        assert str(chain.parent) not in card.content, "no path of the machine"
    encoder = ModelCard.load(chain / "dapt" / "encoder" / "README.md")
    assert encoder.data.pipeline_tag == "fill-mask" and "corpus level integrated" in encoder.text


def test_the_same_command_again_is_already_done_and_other_options_say_what_differs(chain: Path) -> None:
    before = (chain / "finetune" / "manifest.json").read_bytes()
    same = ("finetune --start-from pretrain-source --seeds 1,2", "--run", chain, *QUICK)
    again = invoke(*same, "--epochs 1")
    assert again.exit_code == 0 and "already done" in again.stderr
    told = refused(*same, "--epochs 2")
    assert "epochs: 1 -> 2" in told and "--force" in told
    assert (chain / "finetune" / "manifest.json").read_bytes() == before


def test_training_never_opens_the_test_split_and_finetune_never_the_source(
    run: Path, tiny_encoder_folder: Path
) -> None:
    (run / "prepare-data" / "target" / "test.jsonl").unlink()
    quick = ("--run", run, *QUICK, "--encoder", tiny_encoder_folder, "--max-steps 2")
    crossner("pretrain-source", *quick)
    crossner("joint-train", *quick)
    shutil.rmtree(run / "prepare-data" / "source")
    crossner("finetune", *quick)
    for stage in ("pretrain-source", "joint-train", "finetune"):
        assert files_of(run / stage) >= {f"tagger/{name}" for name in TAGGER_FILES}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("finetune --method nomethod", "There is no method"),
        ("finetune --set nokey=1", "no setting 'nokey'"),
        ("finetune --seeds 1,01", "distinct numbers"),
        ("finetune --seeds \N{SUPERSCRIPT TWO}", "distinct numbers"),
        ("finetune --seeds 99999999999999999999", "from 0 to 4294967295"),
        ("finetune --gpus 0,1", "0 GPUs"),
        ("dapt --block-size 100000", "reads at most"),
    ],
)
def test_what_does_not_exist_is_a_known_problem(
    line: str, told: str, chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert told in refused(line, "--name x --device cpu", "--run", chain)
    assert not (chain / "x").exists()


def test_a_sentence_of_5000_words_gets_5000_tags_in_training_evaluation_and_prediction(
    tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    words = ["anna" if number % 10 == 0 else "visited" for number in range(5000)]
    lines = "".join(f"{word}\t{'B-person' if word == 'anna' else 'O'}\n" for word in words)
    for split in ("train", "dev", "test"):
        (data / f"{split}.txt").write_text(f"{lines}\npeter\tB-person\nmet\tO\n\n")
    crossner("prepare-data", "--run", run, "--target", data)
    options = "--epochs 40 --patience 40 --set dropout=0 --learning-rate 0.005"
    tagged = crossner("finetune", options, "--run", run, *QUICK, "--encoder", tiny_encoder_folder)
    assert tagged["result"]["dev_f1"] > 99, "the loss must have reached words far behind the encoder's limit of 64"
    result = crossner("evaluate", "--run", run, *QUICK)
    assert next(iter(result["result"]["models"].values()))["f1"]["mean"] > 99
    predicted = [
        json.loads(line) for line in (run / "evaluate-finetune" / "predictions.jsonl").read_text().splitlines()
    ]
    assert [len(record["tags"]) for record in predicted] == [5000, 2]
    (tmp_path / "long.txt").write_text(" ".join(words) + "\n")
    crossner("predict", tmp_path / "long.txt", "--run", run, *QUICK, "--output", tmp_path / "out.jsonl")
    (record,) = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert (len(record["tags"]), len(record["entities"])) == (5000, 500)


def test_the_best_epoch_is_chosen_by_the_micro_f1_of_dev_as_conlleval_counts_it(
    run: Path, tiny_encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = list(read_sentences(run / "prepare-data" / "target" / "dev.jsonl"))
    gold = [sentence.tags or () for sentence in dev]
    missed = max(tag[2:] for tags in gold for tag in tags)  # a type of which nothing is found
    predicted = [
        tuple("O" if tag.endswith(missed) else tag.replace("B-", "I-") if number % 2 else tag for tag in tags)
        for number, tags in enumerate(gold)
    ]
    scores = {mode: score(gold, predicted, mode=mode) for mode in ("conll", "strict")}  # type: ignore[arg-type]
    found = scores["conll"]
    others = (found.macro_f1, found.precision, found.recall, scores["strict"].f1)
    assert all(abs(found.f1 - other) > 0.5 for other in others), f"{found.f1} is not told apart of {others}"

    def tagged(*_: Any, **__: Any) -> list[Tagged]:
        return [Tagged(tags, (0.5,) * len(tags)) for tags in predicted]

    monkeypatch.setattr(train, "tag", tagged)
    result = crossner("finetune --epochs 1", "--run", run, *QUICK, "--encoder", tiny_encoder_folder)["result"]
    assert result["dev_f1"] == pytest.approx(found.f1)


@pytest.mark.parametrize("role", ["target", "source"])
def test_the_dev_sentences_that_choose_are_those_of_the_domain_that_is_asked_for(chain: Path, role: Any) -> None:
    options = PretrainSource(select_on=role, method="bilstm-crf", device="cpu", threads=1)
    recipe = resolve_recipe(RunDirectory(chain), options, 1)
    data = exhaust(read_data(recipe))
    assert data.dev == recipe.prepared.domain(role, wanted_by="pretrain-source").sentences("dev")
