"""A training stage says what its encoder's tokenizer does to words."""

from __future__ import annotations

import shutil
from pathlib import Path

from builders.commands import QUICK, invoke
from tokenizers import Tokenizer, normalizers, pre_tokenizers


def test_a_tokenizer_that_cuts_words_otherwise_in_a_text_is_one_warning_even_of_quiet(
    tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    encoder = shutil.copytree(tiny_encoder_folder, tmp_path / "encoder")
    made = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    made.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Replace(" ", "-")])
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(encoder / "tokenizer.json"))
    invoke("prepare-data --target sample-target --quiet --run", tmp_path / "run")
    train = ("--encoder", encoder, "--max-steps 2 --epochs 1 --seeds 1,2 --quiet", *QUICK, "--run", tmp_path / "run")
    (line,) = invoke("finetune", *train).stderr.splitlines()
    assert line.startswith("Warning: the encoder's tokenizer cuts words alone otherwise than inside a text, as the, ")
    train = ("--encoder", tiny_encoder_folder, *train[2:])
    assert invoke("finetune --name usual", *train).stderr == ""
