"""Raw text beside labelled sentences: found by place, shuffled, labelled by a dictionary, spread over the updates."""

import tracemalloc
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders.files import write_names
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.names import read_names
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import UNLABELLED
from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent.raw_text import LONGEST, Dictionary, RawFile, RawSentences, RawStream
from crossner_cli.recurrent.word_reader import Vocabulary, WordInputs, WordReader

TAG_SET = TagSet({"songs": ("artist", "song"), "news": ("person",)})
READER = WordReader(Vocabulary(("Anna", "sang", "Abba")), WordInputs(characters="none"), None)
TAGGER: Any = SimpleNamespace(encoder=SimpleNamespace(reader=READER), tag_set=TAG_SET)


def file_of(folder: Path, *lines: str) -> RawFile:
    path = folder / "raw.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return RawFile.read(path)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=12), max_size=6))
def test_every_line_with_a_word_is_found_again_by_its_place(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("raw")
    try:
        text = file_of(folder, "last", *lines)
    except CrossNERError:
        pytest.fail("there is a word")
    found = text.sentences(range(len(text)))
    assert found[0] == ("last",) and all(found)
    assert ["".join(words) for words in found[1:]] == [joined for line in lines if (joined := "".join(line.split()))]
    assert text.counts == Counter(word for words in found for word in words)
    assert text.sentences([0]) == [("last",)]


def test_a_long_line_is_read_from_its_beginning_and_a_text_without_a_word_is_refused(tmp_path):
    (words,) = file_of(tmp_path, "so " * 5000).sentences([0])
    assert words == ("so",) * LONGEST
    with pytest.raises(CrossNERError, match=r"raw\.txt holds no words"):
        file_of(tmp_path, "", " ")


def test_raw_text_is_streamed_not_held(tmp_path):
    line = "in the beginning there was a line of words that said the same as all of the other lines " * 3

    def peak_of(lines: int) -> int:
        path = tmp_path / f"{lines}.txt"
        path.write_text(f"{line}\n" * lines)
        tracemalloc.start()
        text = RawFile.read(path)
        assert len(text.sentences(range(lines - 32, lines))) == 32 and len(text) == lines
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    few, many = 500, 3000
    assert (peak_of(many) - peak_of(few)) / (many - few) < 25, "bytes of a line: twice its place, not its words"


def test_an_epoch_reads_every_sentence_once_in_another_order_than_the_last(tmp_path):
    text = file_of(tmp_path, *(f"word{number}" for number in range(25)))
    stream = RawStream(text, "songs", READER, 4, 1, TAG_SET)
    first, second = stream.epoch(0), stream.epoch(1)
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(25)) and first != second
    assert first == RawStream(text, "songs", READER, 4, 1, TAG_SET).epoch(0)
    assert [len(batch) for batch in first] == [4] * 6 + [1]
    batch = stream.batch(first[0], 0)
    assert batch.is_raw and batch.tags is None and batch.domain == "songs" and batch.words == 4


def test_a_dictionary_labels_single_words_as_they_are_written_and_leaves_all_others_open(tmp_path):
    lines = ("Abba\tartist", "Dancing Queen\tsong", "Paris\tcity", "Prince\tartist", "Prince\tsong")
    names = read_names([write_names(tmp_path, *lines)])
    words = ("Abba", "sang", "Dancing", "Queen", "in", "Paris", "for", "Prince", "abba")
    artist, song, inside = TAG_SET.to_ids(("B-artist", "B-song", "I-song"))
    assert Dictionary(names, ()).label(words, TAG_SET, "songs") == {0: artist}
    assert Dictionary(names, (), phrases=True).label(words, TAG_SET, "songs") == {0: artist, 2: song, 3: inside}
    assert Dictionary(names, (), phrases=True).label(words, TAG_SET, "news") == {}
    stream = RawStream(RawSentences([words]), "songs", READER, 1, 1, TAG_SET, Dictionary(names, ()))
    assert stream.batch([0], 0).tags.tolist() == [[artist, *[UNLABELLED] * 8]]


@pytest.mark.parametrize(("scheme", "ends"), [("bio", ["I-artist", "B-song"]), ("bioes", ["E-artist", "S-song"])])
def test_the_longest_of_the_names_that_begin_at_a_word_labels_it(tmp_path, scheme, ends):
    lines = ("Dancing Queen\tsong", "Dancing Queen Band\tartist", "Dancing\tsong", "Abba\tsong")
    names = read_names([write_names(tmp_path, *lines)])
    tag_set = TagSet({"songs": ("artist", "song")}, scheme)
    words = ("the", "Dancing", "Queen", "Band", "sang", "Abba")
    found = Dictionary(names, (), phrases=True).label(words, tag_set, "songs")
    assert tag_set.from_ids(list(found.values())) == ["B-artist", "I-artist", *ends] and list(found) == [1, 2, 3, 5]
