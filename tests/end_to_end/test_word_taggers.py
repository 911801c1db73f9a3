"""Taggers of words and of several tasks through the real command line, on the bundled sample."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from builders.commands import QUICK, crossner, invoke, refused
from safetensors.torch import load_file

from crossner_cli.data.tags import TagSet, split_tag
from crossner_cli.data.text import find_words

SMALL = "--set lstm_size=4 --max-steps 2"
every_method_of_several_tasks = pytest.mark.parametrize(
    "method", ["cross-domain-lm", "multi-cell-lstm", "multi-task-lstm"]
)


def words_of(tagger: Path) -> list[str]:
    """The words that a tagger knows."""
    found: list[str] = json.loads((tagger / "words.json").read_text())["words"]
    return found


def test_a_tagger_of_words_reads_a_file_of_vectors_or_learns_them_from_the_raw_text(run: Path, tmp_path: Path) -> None:
    vectors, ngrams = tmp_path / "vectors.txt", tmp_path / "charNgram.txt"
    vectors.write_text("telescope 0.5 1 2\nthe 1 0 -1\n")
    here = ("--run", run, *QUICK)
    train = ("finetune --method bilstm-crf --set word_size=5", SMALL, *here)
    given = (*train, f"--set embeddings={vectors}")
    first = invoke(*given)
    assert first.exit_code == 0 and "4 of" in first.stderr
    assert "already done" in invoke(*given).stderr
    vectors.write_text("telescope 0.5 1 3\nthe 1 0 -1\n")
    changed = refused(*given)
    assert f"is out of date: {vectors} has changed" in changed and "--force" in changed
    ngrams.write_text("2gram-th 0.5 1\n3gram-ing 1 0\n")
    crossner(*train, f"--set characters=ngrams --name ngrams --set ngram_embeddings={ngrams}")
    crossner("evaluate --model ngrams --name of-ngrams", *here)
    pytest.importorskip("gensim")
    crossner(*train, "--set embeddings=corpus --name raw")
    result = crossner("evaluate --model finetune --model raw", *here)["result"]
    assert set(result["models"]) == {"finetune", "raw"}


def test_a_source_tagger_of_several_tasks_knows_both_domains_and_starts_a_joint_one(run: Path) -> None:
    quick = ("--run", run, *QUICK, "--method cross-domain-lm", SMALL)
    source = crossner("pretrain-source --set lm_text=labelled", *quick)["result"]
    assert set(source["seeds"]["1"]["history"][-1]["losses"]) == {"tags source", "language source"}
    folder = run / "pretrain-source" / "tagger"
    weights, words = load_file(folder / "tagger.safetensors"), words_of(folder)
    frequent = {words[number - 1] for number in weights["language_model.ids_by_rank"][:30].tolist() if number}
    assert {"the", "of", "in"} <= frequent, "negative words are ranked by frequency, without raw text too"
    assert not any("tag_layers.1" in name for name in weights), "what no task learns is not there"
    assert source["settings"]["tasks"] == "source-ner,source-lm"
    start = crossner("joint-train --start-from pretrain-source", *quick)["result"]["start"]
    assert start["loaded"] > 10 and len(start["left_tensors"]) == 2, (
        "but for the ranks of the words, which are counted anew"
    )


@every_method_of_several_tasks
def test_a_target_starts_from_the_tags_that_its_source_learnt_and_tells_which_types_those_were(
    method: str, run: Path
) -> None:
    quick = ("--run", run, *QUICK, f"--method {method}", SMALL)
    lines = invoke("pretrain-source", *quick).stderr
    assert "trains source-ner" in lines and "as pretrain-source does not read that domain" in lines
    start = crossner("finetune --head-learning-rate 0 --start-from pretrain-source", *quick)["result"]["start"]
    folders = [run / stage / "tagger" for stage in ("pretrain-source", "finetune")]
    learnt, begun = (load_file(each / "tagger.safetensors")["tag_layers.0.crf.transitions"] for each in folders)
    assert learnt.abs().sum() > 0
    domains = [json.loads((each / "tagger.json").read_text())["tag_set"]["domains"] for each in folders]
    old, new = (TagSet({name: tuple(types) for name, types in found.items()}) for found in domains)
    source_types = set(old.domains[list(old.domains)[-1]])
    taught = [tag for tag in new.tags if tag == "O" or split_tag(tag)[1] in source_types]
    assert set(new.tags) & set(old.tags) > set(taught), "rows of the target's own types are there, and are not taken"
    into, out_of = ([tags.index(tag) for tag in taught] for tags in (new.tags, old.tags))
    assert torch.equal(begun[into][:, into], learnt[out_of][:, out_of])
    assert set(start["carried_types"]) == source_types & set(new.types)
    assert set(start["fresh_types"]) == set(new.types) - source_types


@every_method_of_several_tasks
def test_methods_of_several_tasks_open_only_what_their_tasks_read_and_never_a_test_split(
    chain: Path, run: Path, method: str
) -> None:
    data, quick = run / "prepare-data", ("--run", run, *QUICK, f"--method {method}", SMALL)
    lines = (data / "target" / "test.jsonl").read_text().splitlines()
    tested = {word for line in lines for word in json.loads(line)["words"]}
    for split in data.glob("*/test.jsonl"):
        split.unlink()
    crossner("joint-train", *quick)
    read = {word for path in data.glob("*/*.jsonl") for line in path.open() for word in json.loads(line)["words"]}
    read |= {word.text for line in (data / "corpus" / "domain.txt").open() for word in find_words(line)}
    words = {*words_of(run / "joint-train" / "tagger")}
    assert words <= read and tested - words
    shutil.rmtree(data / "corpus")
    (data / "target" / "train.jsonl").unlink()
    crossner("pretrain-source --set tasks=source-ner", *quick)
    shutil.rmtree(data / "target")
    shutil.copytree(chain / "prepare-data" / "target", data / "target")
    (data / "target" / "test.jsonl").unlink()
    shutil.rmtree(data / "source")
    crossner("finetune --set tasks=target-ner", *quick)
