"""Raw text beside labelled sentences: found by place, shuffled, labelled by a dictionary, spread over the updates."""

from __future__ import annotations

import dataclasses
import math
import os
import tracemalloc
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.names import read_names
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.raw_text import LONGEST, RawFile, RawSentences, RawStream, frequent_words, label
from crossner_cli.encoders.subwords import UNLABELLED
from crossner_cli.encoders.word_reader import Vocabulary, WordInputs, WordReader
from crossner_cli.errors import CrossNERError
from crossner_cli.options import Finetune, JointTrain, PretrainSource
from crossner_cli.stages import train as tagger_training
from crossner_cli.training import streams as module
from crossner_cli.training.streams import (
    RawInputs,
    check_dictionary,
    describe_met,
    describe_names,
    domain_streams,
    read_dictionary,
    read_raw,
    tasks_of,
    types_of_dictionary,
)

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


def test_a_line_of_thousands_of_words_is_read_from_its_beginning(tmp_path):
    (words,) = file_of(tmp_path, "so " * 5000).sentences([0])
    assert words == ("so",) * LONGEST


@pytest.mark.parametrize(
    ("fewest", "known"), [(1, ["anna", "sang", "Abba"]), (2, ["anna", "sang"]), (3, ["anna"]), (4, [])]
)
def test_words_that_raw_text_has_often_enough_are_known_to_language_models(fewest, known):
    texts = {"target": RawSentences([("Anna", "sang"), ("anna", "sang")]), "source": RawSentences([("anna", "Abba")])}
    spelled = {"Anna": "anna"}
    raw = RawInputs(texts, {}, None, fewest, normalise=lambda word: spelled.get(word, word))
    assert raw.words() == known


def test_lines_of_which_not_all_is_read_are_counted_and_told(tmp_path):
    text = file_of(tmp_path, "so " * (LONGEST + 1), "so " * LONGEST, "so " * 5000)
    assert text.shortened == 2 and sum(text.counts.values()) == 3 * LONGEST
    assert RawInputs({"target": text}, {"target": "songs"}, None, 1).describe() == [
        "raw text of the target: 3 sentences, 600 words, from raw.txt; 2 cut behind 200 words"
    ]


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


def test_a_text_without_a_word_is_refused(tmp_path):
    with pytest.raises(CrossNERError, match=r"raw\.txt holds no word"):
        file_of(tmp_path, "", " ")


def test_an_epoch_reads_every_sentence_once_in_another_order_than_the_last(tmp_path):
    text = file_of(tmp_path, *(f"word{number}" for number in range(25)))
    stream = RawStream(text, "songs", READER, 4, 1, TAG_SET)
    first, second = stream.epoch(0), stream.epoch(1)
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(25)) and first != second
    assert first == RawStream(text, "songs", READER, 4, 1, TAG_SET).epoch(0)
    assert [len(batch) for batch in first] == [4] * 6 + [1]
    batch = stream.batch(first[0], 0)
    assert batch.is_raw and batch.tags is None and batch.domain == "songs" and batch.words == 4


def dictionary(folder: Path, *names: str) -> Any:
    path = folder / "names.tsv"
    path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return read_names([path])


def test_a_dictionary_labels_single_words_as_they_are_written_and_leaves_all_others_open(tmp_path):
    names = dictionary(tmp_path, "Abba\tartist", "Dancing Queen\tsong", "Paris\tcity", "Prince\tartist", "Prince\tsong")
    words = ("Abba", "sang", "Dancing", "Queen", "in", "Paris", "for", "Prince", "abba")
    artist, song, inside = TAG_SET.to_ids(("B-artist", "B-song", "I-song"))
    assert label(words, names, TAG_SET, "songs", phrases=False) == {0: artist}
    assert label(words, names, TAG_SET, "songs", phrases=True) == {0: artist, 2: song, 3: inside}
    assert label(words, names, TAG_SET, "news", phrases=True) == {}
    stream = RawStream(RawSentences([words]), "songs", READER, 1, 1, TAG_SET, names)
    assert stream.batch([0], 0).tags.tolist() == [[artist, *[UNLABELLED] * 8]]


def test_what_a_dictionary_cannot_label_is_told(tmp_path):
    names = dictionary(tmp_path, "Abba\tartist", "Dancing Queen\tsong", "Paris\tcity", "Prince\tartist", "Prince\tsong")
    said = describe_names(names, ("artist", "song"), phrases=False)
    assert said == (
        "dictionary: 1 of 4 names can label words of raw text; 1 have several types; 1 have a type that the target "
        "lacks; 1 are of several words (--dictionary-phrases reads them)"
    )
    assert "2 of 4 names" in describe_names(names, ("artist", "song"), phrases=True)


def test_a_dictionary_of_a_run_in_bioes_ends_its_phrases(tmp_path):
    names = dictionary(tmp_path, "Dancing Queen\tsong", "Abba\tartist")
    bioes = TagSet({"songs": ("artist", "song")}, "bioes")
    found = label(("Abba", "Dancing", "Queen"), names, bioes, "songs", phrases=True)
    assert bioes.from_ids(list(found.values())) == ["S-artist", "B-song", "E-song"]


def test_the_longest_of_the_names_that_begin_at_a_word_labels_it(tmp_path):
    names = dictionary(tmp_path, "Dancing Queen\tsong", "Dancing Queen Band\tartist", "Dancing\tsong")
    found = label(("the", "Dancing", "Queen", "Band", "sang"), names, TAG_SET, "songs", phrases=True)
    assert TAG_SET.from_ids(list(found.values())) == ["B-artist", "I-artist", "I-artist"] and list(found) == [1, 2, 3]


def test_a_dictionary_that_can_label_nothing_is_refused(tmp_path):
    path = tmp_path / "names.tsv"
    for line, phrases, hint in (
        ("Paris\tcity", False, "as the target does: artist, song."),
        ("Dancing Queen\tsong", False, "--dictionary-phrases reads names of several words"),
        ("Dancing Queen\tcity", True, "as the target does"),
    ):
        path.write_text(f"{line}\n")
        options = JointTrain(dictionary=[path], dictionary_phrases=phrases)
        with pytest.raises(CrossNERError, match="labels nothing") as caught:
            read_dictionary(options, ("artist", "song"))
        assert hint in caught.value.hint
    path.write_text("Dancing Queen\tsong\n")
    phrases = JointTrain(dictionary=[path], dictionary_phrases=True)
    names = read_dictionary(phrases, ("artist", "song"))
    told = describe_met(names, ("artist", "song"), True, {"Dancing": 2, "Queen": 1})
    assert names.types and told == "dictionary: 1 of 1 names can label words of raw text; the words of 1 are in it"
    for counts in ({}, {"Dancing": 2}, {"dancing": 2, "queen": 1}):
        with pytest.raises(CrossNERError, match="none of its 1 names .* is in the raw text") as caught:
            describe_met(names, ("artist", "song"), True, counts)
        assert "in the same case" in caught.value.hint
    path.write_text("Dancing Queen\tsong\nParis\tsong\nParis\tartist\n")
    with pytest.raises(CrossNERError, match="none of its 1 names .* 1 of 2 names can label .*; 1 have several types"):
        describe_met(read_dictionary(phrases, ("artist", "song")), ("artist", "song"), True, {"Paris": 1})
    with pytest.raises(CrossNERError, match="--dictionary-phrases tells how names are read"):
        check_dictionary(JointTrain(dictionary_phrases=True), [])


@pytest.mark.parametrize(
    ("method", "tasks", "taught"),
    [
        ("multi-cell-lstm", ["source-ner", "target-lm"], ["song"]),
        ("multi-cell-lstm", ["target-ner", "source-ner", "target-lm"], ["artist", "song"]),
        ("multi-cell-lstm", ["target-ner", "target-lm"], ["artist", "song"]),
        ("cross-domain-lm", ["source-ner", "target-lm"], ["artist", "song"]),
    ],
)
def test_names_of_types_that_a_method_learns_nothing_of_label_nothing(tmp_path, method, tasks, taught):
    domains = {"target": ("artist", "song"), "source": ("person", "song")}
    prepared: Any = SimpleNamespace(
        domains={role: SimpleNamespace(types=types) for role, types in domains.items()},
        tag_set=lambda *roles: TagSet({role: domains[role] for role in roles}),
    )
    options = JointTrain(method=method, settings=[f"tasks={','.join(tasks)}"], dictionary=[tmp_path / "names.tsv"])
    types, untaught = types_of_dictionary(prepared, options, tasks)
    assert list(types) == taught and sorted([*types, *untaught]) == ["artist", "song"]
    dictionary(tmp_path, "Abba\tartist", "Waterloo\tsong", "Paris\tcity")
    said = describe_names(read_dictionary(options, types, untaught), types, False, untaught)
    assert (
        said.startswith(f"dictionary: {len(taught)} of 3 names can label") and "1 have a type that the target" in said
    )
    assert ("1 have a type of which no task learns labels (artist)" in said) == (taught == ["song"])
    dictionary(tmp_path, "Abba\tartist")
    if "artist" in taught:
        assert read_dictionary(options, types, untaught).types
        return
    with pytest.raises(CrossNERError, match=r"labels nothing. dictionary: 0 of 1 .* no task learns labels") as caught:
        read_dictionary(options, types, untaught)
    assert "as the target does: song." in caught.value.hint
    with pytest.raises(CrossNERError, match="labels nothing") as caught:
        read_dictionary(options, [], ["artist", "song"])
    assert "--map-types calls types of the source as the target does: artist, song." in caught.value.hint


SEVERAL = ["tasks=target-ner,source-ner,target-lm", "entity_weight=0.1"]


def test_a_stage_trains_the_tasks_of_the_domains_it_reads(tmp_path):
    options = Finetune(method="cross-domain-lm", settings=SEVERAL)
    assert tasks_of(options, "finetune", ("target",)) == ["target-ner", "target-lm"]
    assert tasks_of(options, "pretrain-source", ("source",)) == ["source-ner"]
    assert tasks_of(options, "joint-train", ("target", "source")) == ["target-ner", "source-ner", "target-lm"]
    with pytest.raises(CrossNERError, match="read no labelled sentences of it"):
        tasks_of(options, "other", ("elsewhere",))
    with pytest.raises(CrossNERError, match="cross-domain-lm as set learns from no such labels"):
        check_dictionary(dataclasses.replace(options, dictionary=[tmp_path]), ["source-ner"])
    with pytest.raises(CrossNERError, match="not found"):
        check_dictionary(dataclasses.replace(options, dictionary=[tmp_path / "no.tsv"]), ["target-lm"])


def test_a_dictionary_that_no_loss_reads_is_refused(tmp_path):
    off = ["tasks=source-ner,target-lm", "entity_weight=0", "attention_weight=0"]
    for settings in (off[:2], [off[0], off[2]], off):
        options = Finetune(method="multi-cell-lstm", dictionary=[tmp_path / "no.tsv"], settings=settings)
        with pytest.raises(CrossNERError) as caught:
            check_dictionary(options, ["source-ner", "target-lm"])
        assert ("learns from no such labels" in caught.value.problem) == (settings == off)
        assert settings != off or "--set entity_weight=0.1" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        (JointTrain(method="cross-domain-lm"), "add --set entity_weight=0.1."),
        (JointTrain(method="multi-cell-lstm"), "add --set tasks=target-ner,source-ner,target-lm."),
        (
            Finetune(method="cross-domain-lm", settings=["tasks=target-ner"]),
            "add --set tasks=target-ner,target-lm --set entity_weight=0.1.",
        ),
        (JointTrain(method="multi-task-lstm"), "choose --method multi-cell-lstm"),
        (Finetune(method="linear"), "choose --method multi-cell-lstm"),
        (PretrainSource(method="multi-cell-lstm"), "train with joint-train"),
    ],
)
def test_what_a_dictionary_lacks_is_named_and_no_label_of_the_target_given_up(tmp_path, options, way_out):
    (tmp_path / "names.tsv").write_text("Anna\tartist\n")
    inputs = module.read_settings(module.find_method(options.method), options.settings)
    tasks = [task for task in getattr(inputs, "task_names", ()) if not options.of_source or "source" in task]
    with pytest.raises(CrossNERError) as caught:
        check_dictionary(dataclasses.replace(options, dictionary=[tmp_path / "names.tsv"]), tasks)
    assert f"Leave it out, or {way_out}" in caught.value.hint


@given(target=st.integers(1, 60), source=st.integers(1, 200), upsample=st.integers(1, 50), size=st.integers(1, 16))
def test_the_smaller_domain_is_spread_over_the_updates_of_the_larger(target, source, upsample, size):
    sentences = {
        "target": [Sentence(("Anna",), ("O",), "songs")] * target,
        "source": [Sentence(("Abba", "sang"), ("O", "O"), "news")] * source,
    }
    raw = RawInputs({"target": RawSentences([("Anna", "sang")] * 7)}, {"target": "songs"}, None, 1)
    options = JointTrain(method="cross-domain-lm", batch_size=size, upsample=upsample, raw_batch_size=3)
    streams: list[Any] = domain_streams(TAGGER, ("target-ner", "source-ner", "target-lm"), sentences, raw, options, 1)
    larger, smaller, raw_stream = streams
    updates = math.ceil(max(target, source) / size)
    assert len(larger.epoch(0)) == updates
    assert len(larger.sentences) == max(target, source) and len(smaller.sentences) == min(target, source)
    order = smaller.epoch(0)
    often, rest = divmod(sum(map(len, order)), len(smaller.sentences))
    most = min(upsample, updates * size // target) if target < source else 1  # what the updates of an epoch can hold
    assert rest == 0 and often == max(1, most)
    assert all(len(items) <= size for items in order)
    assert len(order) <= updates, "nothing of the smaller domain is left out of an epoch"
    assert raw_stream.batch_size == 3 and raw_stream.batch([0], 0).is_raw


@pytest.mark.parametrize("roles", [("source", "target"), ("target", "source")])
def test_raw_text_of_each_role_has_its_own_domain_and_names_label_that_of_the_target_only(tmp_path, roles):
    words, domains = ("Abba", "sang", "Anna"), {"source": "news", "target": "songs"}
    names = dictionary(tmp_path, "Abba\tartist", "Anna\tperson")
    raw = RawInputs({role: RawSentences([words]) for role in roles}, domains, names, 1)
    labelled = {"source": [Sentence(words, ("O",) * 3, "news")]}
    _, *streams = domain_streams(TAGGER, ["source-ner"], labelled, raw, JointTrain(), 1)
    read: dict[str, Any] = {role: stream.batch([0], 0) for role, stream in zip(roles, streams, strict=True)}
    assert {role: batch.domain for role, batch in read.items()} == domains
    assert read["source"].tags is None
    assert read["target"].tags.tolist() == [[*TAG_SET.to_ids(["B-artist"]), UNLABELLED, UNLABELLED]]


def test_a_tagger_is_told_that_every_sentence_ends():
    told: list[torch.Tensor] = []
    tagger: Any = SimpleNamespace(encoder=SimpleNamespace(reader=READER), set_word_counts=told.append)
    sentences = [Sentence(words, None, "songs") for words in (("Anna", "sang"), ("Anna",))]
    tagger.hyper = SimpleNamespace(task_names=("target-ner", "source-ner", "target-lm"), lm_text="labelled")
    unread = [Sentence(("wept", "Anna"), None, "news")]  # no language model reads the source
    data: Any = SimpleNamespace(raw=None, labelled={"target": sentences, "source": unread})
    tagger_training._count_words(tagger, data)
    raw = RawInputs({"": RawSentences([sentence.words for sentence in sentences])}, {}, None, 1)
    assert torch.equal(told[0], raw.count(READER) + torch.tensor([2, 0, 0, 0]))


@pytest.mark.parametrize(
    ("lm_text", "tasks", "counted"),
    [
        ("labelled", "source-ner,source-lm,target-lm", "both"),
        ("raw", "source-ner,source-lm,target-lm", "raw"),
        ("labelled", "source-ner,target-lm", "raw"),
    ],
)
def test_labelled_sentences_are_counted_where_a_language_model_reads_them_instead_of_raw_text(lm_text, tasks, counted):
    told: list[torch.Tensor] = []
    labelled, raw = RawSentences([("Anna", "sang")]), RawSentences([("sang", "Anna", "wept")])
    tagger: Any = SimpleNamespace(encoder=SimpleNamespace(reader=READER), set_word_counts=told.append)
    tagger.hyper = SimpleNamespace(task_names=tuple(tasks.split(",")), lm_text=lm_text)
    inputs = RawInputs({"target": raw}, {"target": "songs"}, None, 1)
    data: Any = SimpleNamespace(raw=inputs, labelled={"source": [Sentence(words) for words in labelled.words]})
    tagger_training._count_words(tagger, data)
    both = RawInputs({"source": labelled, "target": raw}, {}, None, 1) if counted == "both" else inputs
    assert torch.equal(told[0], both.predicted(both.count(READER)))


def test_words_of_raw_text_are_counted_by_number_and_the_frequent_ones_are_known():
    text = RawSentences([("Anna", "sang"), ("Anna", "wept"), ("sang", "Anna", "wept")])
    raw = RawInputs({"target": text}, {"target": "songs"}, None, 2)
    assert raw.words() == ["Anna", "sang", "wept"]
    assert frequent_words({"a": text, "b": text}, 5) == ["Anna"]
    years = RawSentences([("In", str(year)) for year in range(1950, 1954)])
    inputs = WordInputs(digits="zeros", lower_case=True)
    assert frequent_words({"a": years}, 4, inputs.normalise_word) == ["in", "0000"], "however often each is written so"
    assert torch.equal(raw.count(READER), torch.tensor([2, 3, 2, 0]))
    assert torch.equal(raw.predicted(raw.count(READER)), torch.tensor([2 + 3, 3, 2, 0])), "each of 3 sentences ends"
    assert raw.describe() == ["raw text of the target: 3 sentences, 7 words, from its training sentences"]


def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_told_to_be_that(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, said in (
        (tmp_path, "a folder"),
        (tmp_path / "pipe", "no plain file"),
        (tmp_path / "no", "not found"),
    ):
        with pytest.raises(CrossNERError, match=f"--dictionary {path}: {said}") as caught:
            check_dictionary(JointTrain(method="multi-cell-lstm", dictionary=[path]), ["source-ner", "target-lm"])
        assert "name<TAB>type" in caught.value.hint


def test_what_is_read_of_raw_text_is_each_domains_own_with_the_names_and_the_cut_off_that_are_given(tmp_path):
    for role, line in (("target", "Abba"), ("source", "Anna sang")):
        (tmp_path / role).mkdir()
        file_of(tmp_path / role, line)
    domains = {"target": ("songs", ("artist", "song")), "source": ("news", ("song",))}
    prepared: Any = SimpleNamespace(
        raw_text=lambda role: tmp_path / role / "raw.txt",
        domains={role: SimpleNamespace(name=name, types=types) for role, (name, types) in domains.items()},
        tag_set=lambda *roles: TAG_SET,
    )
    names, tasks = dictionary(tmp_path, "Abba\tartist"), ("target-ner", "source-ner", "target-lm", "source-lm")
    options = JointTrain(method="cross-domain-lm", settings=["entity_weight=1"], raw_minimum=2)
    raw = read_raw(prepared, options, tasks, {}, names)
    assert raw is not None and raw.names is names and raw.fewest == 2
    first = {role: text.sentences([0]) for role, text in raw.texts.items()}
    assert first == {"target": [("Abba",)], "source": [("Anna", "sang")]}
    assert raw.domains == {"target": "songs", "source": "news"}


@pytest.mark.parametrize("phrases", [False, True])
def test_names_of_several_words_label_what_an_update_reads_where_that_is_asked_for(tmp_path, phrases):
    names = dictionary(tmp_path, "Anna\tartist", "Dancing Queen\tsong")
    raw = RawInputs({"target": RawSentences([("Anna", "sang", "Dancing", "Queen")])}, {"target": "songs"}, names, 1)
    labelled = {"source": [Sentence(("Abba",), ("O",), "news")]}
    _, stream = domain_streams(TAGGER, ["source-ner"], labelled, raw, JointTrain(dictionary_phrases=phrases), 1)
    artist, *song = TAG_SET.to_ids(("B-artist", "B-song", "I-song"))
    assert stream.batch([0], 0).tags.tolist() == [[artist, UNLABELLED, *(song if phrases else [UNLABELLED] * 2)]]
