"""Words that a method has vectors for: files are checked first, and words of every part of the run are looked up."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from builders.starts import design_tagger

from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent.word_reader import WordInputs
from crossner_cli.taggers.carry_over import TaggerDesign
from crossner_cli.taggers.known_words import CorpusSentences, check_word_files
from crossner_cli.taggers.sources import Start

BASE = Start("base", None, "")


def design(folder: Path, method: str, *settings: str, **files: str) -> TaggerDesign:
    return dataclasses.replace(design_tagger(folder, method, settings), **files)  # type: ignore[arg-type]


def test_files_that_are_not_read_or_do_not_exist_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("vectors.txt").write_text("paris 1 2 3\n")
    for method, settings, flag, file, problem in (
        ("linear", [], "embeddings", "vectors.txt", "does not read it with these settings"),
        ("bilstm-crf", ["words=none"], "embeddings", "corpus", "does not read it with these settings"),
        ("bilstm-crf", [], "embeddings", ".", "a folder"),
        ("bilstm-crf", [], "ngram_embeddings", "vectors.txt", "does not read it with these settings"),
        ("bilstm-crf", ["characters=ngrams"], "ngram_embeddings", "none.txt", "not found"),
        ("bilstm-crf", [], "strings", "vectors.txt", "does not read it with these settings"),
    ):
        with pytest.raises(CrossNERError, match=problem):
            check_word_files(design(tmp_path, method, *settings, **{flag: file}), BASE)
    check_word_files(design(tmp_path, "bilstm-crf", embeddings="vectors.txt"), BASE)
    check_word_files(design(tmp_path, "bilstm-crf", "characters=ngrams", ngram_embeddings="vectors.txt"), BASE)


def test_raw_text_that_vectors_are_trained_on_is_read_as_words_are_spelled(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("In 1999 Paris won .\n")
    inputs = WordInputs(lower_case=True, digits="zeros")
    assert list(CorpusSentences(corpus, inputs)) == [["in", "0000", "paris", "won", "."]]
