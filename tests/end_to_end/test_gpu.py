"""What a GPU computes is what the CPU computes; run where there is one, by benchmarks/gpu.sh."""

import copy
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.commands import crossner, invoke, line_of, refused
from builders.taggers import batch_of, every_method, make_tagger, some_sentences
from safetensors.torch import load_file

from crossner_cli.engine.devices import start_engine
from crossner_cli.options import Finetune
from crossner_cli.run.progress import exhaust
from crossner_cli.taggers.folder import load_tagger, save_tagger
from crossner_cli.taggers.tagging import tag
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import Plan, Rates, group_parameters
from crossner_cli.training.streams import SentenceStream

DEVICE = os.environ.get("CROSSNER_TEST_DEVICE", "")
THERE, HERE = ("--device", DEVICE), ("--device", "cpu", "--threads", "1")
UPDATES = 60
pytestmark = pytest.mark.skipif(not DEVICE, reason="CROSSNER_TEST_DEVICE names no device")
only_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="the CPU is no GPU")
each_precision = pytest.mark.parametrize("precision", ["fp32", "bf16", pytest.param("fp16", marks=only_gpu)])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("gpu") / "run"
    crossner("prepare-data --source sample-source --target sample-target --corpus sample-target", "--run", run)
    return run


def engine_on(device: str, precision: str = "fp32") -> Any:
    return start_engine(Finetune(device=device, precision=precision, threads=1))


@every_method
def test_loss_gradients_and_tags_are_those_of_the_cpu(tiny_encoder_folder: Path, method: str) -> None:
    tagger = make_tagger(tiny_encoder_folder, method)
    there = copy.deepcopy(tagger).to(DEVICE)
    for module in there.modules():
        if isinstance(module, torch.nn.RNNBase):
            module.train().dropout = 0.0  # cuDNN's have no backward pass otherwise
    batch = batch_of(tagger, some_sentences(6))
    torch.backends.cudnn.allow_tf32 = False  # PyTorch lets convolutions and LSTMs round to ten bits
    expected, found = tagger.loss(batch), there.loss(batch.to(torch.device(DEVICE)))
    assert {name: value.item() for name, value in found.items()} == pytest.approx(
        {name: value.item() for name, value in expected.items()}, rel=1e-4
    )
    sum(expected.values()).backward()
    sum(found.values()).backward()
    scale = max(each.grad.abs().max().item() for each in tagger.parameters() if each.grad is not None)
    for (name, one), two in zip(tagger.named_parameters(), there.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), name
        if one.grad is not None:
            torch.testing.assert_close(two.grad.cpu(), one.grad, rtol=1e-2, atol=1e-4 * scale, msg=name)
    with torch.no_grad():
        assert there.decode(batch.to(torch.device(DEVICE))).tags == tagger.decode(batch).tags


@every_method
def test_a_tagger_that_is_trained_there_tags_the_same_here(
    tiny_encoder_folder: Path, method: str, tmp_path: Path
) -> None:
    engine, sentences = engine_on(DEVICE), [each for each in some_sentences(24) if each.domain == "news"]
    tagger = make_tagger(tiny_encoder_folder, method).to(engine.device)
    before = {name: value.detach().cpu().clone() for name, value in tagger.named_parameters()}
    reader: Any = tagger.encoder.reader
    stream = SentenceStream(reader.encode(sentences, tagger.tag_set), reader, 4, 1)
    plan = Plan(epochs=1, max_steps=3, warmup=0.0)
    fitted = exhaust(fit(tagger, group_parameters(tagger, Rates()), [stream], plan, engine))
    assert fitted.steps == 3
    assert any(not torch.equal(value.detach().cpu(), before[name]) for name, value in tagger.named_parameters())
    save_tagger(tagger, tmp_path)
    found = {
        device: tag(load_tagger(tmp_path, started), sentences, started)
        for device in (DEVICE, "cpu")
        for started in [engine_on(device)]
    }
    assert [each.tags for each in found[DEVICE]] == [each.tags for each in found["cpu"]]


@each_precision
def test_every_command_runs_there(prepared: Path, tiny_encoder_folder: Path, precision: str, tmp_path: Path) -> None:
    on = ("--run", prepared, *THERE, "--precision", precision)
    encoder = ("--encoder", tiny_encoder_folder)
    adapted = crossner("dapt --max-steps 3 --block-size 32 --name", f"dapt-{precision}", *on, *encoder)
    assert adapted["result"]["perplexity_after"] > 1
    source, target, joint = (f"{name}-{precision}" for name in ("source", "target", "joint"))
    crossner("pretrain-source --max-steps 3 --start-from", f"dapt-{precision}", "--name", source, *on)
    crossner("finetune --max-steps 3 --seeds 1,2 --start-from", source, "--name", target, *on)
    crossner("joint-train --max-steps 3 --method crf --name", joint, *on, *encoder)
    made = crossner("evaluate --fine-grained --model", target, "--model", joint, "--name", f"scores-{precision}", *on)
    assert set(made["result"]["models"]) == {target, joint}
    (tmp_path / "text.txt").write_text("Anna met Peter in London.\n" * 3)
    predict = ("predict", tmp_path / "text.txt", "--model", target, *on)
    output = ("--output", tmp_path / "out.jsonl")
    crossner(*predict, *output)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3


@only_gpu
def test_gpus_chooses_a_gpu_and_workers_need_the_cpu(prepared: Path, tiny_encoder_folder: Path, tmp_path: Path) -> None:
    made = ("--run", prepared, "--encoder", tiny_encoder_folder, "--max-steps 2 --name gpus")
    crossner("finetune --gpus 0", *made)
    more = torch.cuda.device_count()
    assert f"--gpus {more}" in refused("finetune --force --gpus", str(more), *made) or more > 1
    (tmp_path / "text.txt").write_text("Anna met Peter.\n")
    text = ("predict --workers 2 --model gpus", tmp_path / "text.txt", "--output", tmp_path / "out.jsonl")
    assert "--workers 2 needs the CPU" in refused(*text, "--run", prepared, *THERE)
    assert invoke(*text, "--run", prepared, "--device", "cpu").exit_code == 0


def test_a_launcher_of_one_process_trains_there(prepared: Path, tiny_encoder_folder: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", "-m", "--")
    options = ("--run", prepared, "--name", "launched", "--encoder", tiny_encoder_folder, "--max-steps", "3")
    command = line_of("finetune", *options, *THERE, launcher=launcher)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (prepared / "launched" / "tagger" / "model.safetensors").is_file()


@pytest.mark.parametrize("first_there", [True, False], ids=["there first", "here first"])
def test_an_interrupted_training_goes_on_on_the_other_device(
    prepared: Path, plain_encoder: Path, first_there: bool
) -> None:
    places = [THERE, HERE] if first_there else [HERE, THERE]
    exact = ("--precision", "fp32", "--set", "dropout=0", "--max-steps", str(UPDATES), "--epochs", "100", "--verbose")
    whole, stopped = (
        ("finetune", "--run", prepared, "--name", f"{name}-{first_there}", "--encoder", plain_encoder, *exact)
        for name in ("whole", "stopped")
    )
    subprocess.run(line_of(*whole, *HERE), capture_output=True, check=True)
    with subprocess.Popen(line_of(*stopped, *places[0]), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if f"11/{UPDATES} updates" in line:
                running.send_signal(signal.SIGINT)
        assert running.wait() == 130
    resumed = subprocess.run(line_of(*stopped, *places[1]), capture_output=True, text=True, check=False)
    assert resumed.returncode == 0 and "continues after update" in resumed.stderr, resumed.stderr
    expected, found = (
        load_file(prepared / f"{name}-{first_there}" / "tagger" / "model.safetensors") for name in ("whole", "stopped")
    )
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0.02, atol=0.01, msg=name)
