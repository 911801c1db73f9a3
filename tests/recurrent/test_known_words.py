"""Words that a method has vectors for: files are checked first, and words of every part of the run are looked up."""

from pathlib import Path

import pytest
from builders.starts import design_tagger

from crossner_cli.encoders.start import Start
from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent.known_words import CorpusSentences, check_word_files
from crossner_cli.recurrent.word_reader import WordInputs

BASE = Start("base", None, "")


def test_files_that_are_not_read_or_do_not_exist_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("vectors.txt").write_text("paris 1 2 3\n")
    for settings, problem in (
        (["words=none", "embeddings=corpus"], "embeddings=corpus is not read with these settings"),
        (["embeddings=."], "a folder"),
        (["ngram_embeddings=vectors.txt"], "ngram_embeddings=vectors.txt is not read with these settings"),
        (["characters=ngrams", "ngram_embeddings=none.txt"], "not found"),
        (["string_embeddings=vectors.txt"], "string_embeddings=vectors.txt is not read with these settings"),
    ):
        with pytest.raises(CrossNERError, match=problem):
            check_word_files(design_tagger(tmp_path, "bilstm-crf", settings), BASE)
    with pytest.raises(CrossNERError, match="this method has no setting 'embeddings'"):
        design_tagger(tmp_path, "linear", ["embeddings=vectors.txt"])
    check_word_files(design_tagger(tmp_path, "bilstm-crf", ["embeddings=vectors.txt"]), BASE)
    of_ngrams = ["characters=ngrams", "ngram_embeddings=vectors.txt"]
    check_word_files(design_tagger(tmp_path, "bilstm-crf", of_ngrams), BASE)


def test_raw_text_that_vectors_are_trained_on_is_read_as_words_are_spelled(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("In 1999 Paris won .\n")
    inputs = WordInputs(lower_case=True, digits="zeros")
    assert list(CorpusSentences(corpus, inputs)) == [["in", "0000", "paris", "won", "."]]
