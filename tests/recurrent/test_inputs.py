"""Raw text that methods of several tasks read in a stream of its own."""

from types import SimpleNamespace
from typing import Any

import pytest
from builders.files import write_names

from crossner_cli.data.names import read_names
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import UNLABELLED
from crossner_cli.recurrent.inputs import TaskTrainingInputs
from crossner_cli.recurrent.raw_inputs import Dictionary, RawInputs
from crossner_cli.recurrent.raw_text import RawFile, RawSentences
from crossner_cli.recurrent.word_reader import Vocabulary, WordInputs, WordReader
from crossner_cli.training.streams import Batching, make_streams

TAG_SET = TagSet({"songs": ("artist", "song"), "news": ("person",)})
READER: Any = WordReader(Vocabulary(("Anna", "sang", "Abba")), WordInputs(characters="none"), None)
TAGGER: Any = SimpleNamespace(encoder=SimpleNamespace(reader=READER), tag_set=TAG_SET)


def reading(raw: RawInputs, raw_batch_size: int = 32) -> TaskTrainingInputs:
    """The inputs of a stage that has read raw text."""
    inputs = TaskTrainingInputs.__new__(TaskTrainingInputs)
    inputs.raw, inputs.dictionary = raw, raw.dictionary
    inputs.settings = SimpleNamespace(raw_batch_size=raw_batch_size)
    return inputs


@pytest.mark.parametrize("roles", [("source", "target"), ("target", "source")])
def test_raw_text_has_the_domain_of_its_role_and_names_label_that_of_the_target_only(tmp_path, roles):
    words, domains = ("Abba", "sang", "Anna"), {"source": "news", "target": "songs"}
    path = write_names(tmp_path, "Abba\tartist", "Anna\tperson")
    names = Dictionary(read_names([path]), ("artist", "song"), phrases=False)
    raw = RawInputs({role: RawSentences([words]) for role in roles}, domains, names)
    labelled = {"source": [Sentence(words, ("O",) * 3, "news")]}
    _, *streams = make_streams(TAGGER, reading(raw), labelled, Batching(batch_size=8), 1)
    read: dict[str, Any] = {role: stream.batch([0], 0) for role, stream in zip(roles, streams, strict=True)}
    assert {role: batch.domain for role, batch in read.items()} == domains
    assert read["source"].tags is None
    assert read["target"].tags.tolist() == [[*TAG_SET.to_ids(["B-artist"]), UNLABELLED, UNLABELLED]]


@pytest.mark.parametrize(("updates", "is_reread"), [(3, False), (4, True)])
def test_files_that_a_training_reads_twice_are_found(tmp_path, updates, is_reread):
    (tmp_path / "raw.txt").write_text("Anna sang\n" * 20)
    raw = RawInputs({"target": RawFile.read(tmp_path / "raw.txt"), "source": RawSentences([("Abba",)])})
    found = reading(raw, raw_batch_size=10).find_reread_texts(updates)
    assert found == ([raw.texts["target"]] if is_reread else [])


def test_raw_text_is_read_in_batches_of_their_own_size() -> None:
    raw = RawInputs({"target": RawSentences([("Anna", "sang")] * 7)}, {"target": "songs"})
    (stream,) = reading(raw, raw_batch_size=3).make_raw_streams(READER, TAG_SET, 1)
    assert stream.batch_size == 3 and stream.batch([0], 0).is_raw
