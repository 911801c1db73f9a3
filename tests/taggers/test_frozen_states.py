"""What frozen models make of sentences is read once, and is what they would make of them each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from builders.strings import make_encoder as make_strings
from builders.taggers import TAG_SET, some_sentences

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.raw_text import RawFile, RawStream
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.encoders.word_encoder import WordEncoder
from crossner_cli.encoders.word_reader import WordInputs, collect_vocabulary
from crossner_cli.engine.devices import Engine, start_engine
from crossner_cli.methods.contract import Tagger, find_method, read_settings
from crossner_cli.options import Finetune
from crossner_cli.run.progress import Notice, exhaust
from crossner_cli.taggers import tagging
from crossner_cli.taggers.tagging import keep_frozen_states, tag
from crossner_cli.training.loop import SentenceStream, fit
from crossner_cli.training.plan import parameter_groups, plan_of
from crossner_cli.training.streams import RawInputs

SENTENCES = [*some_sentences(12), *some_sentences(3)]  # three of them twice
BOTH = {"transformer": "frozen", "strings": "frozen"}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return start_engine(Finetune(device="cpu", precision="fp32", threads=1))


@pytest.fixture
def make(tiny_encoder_folder: Path) -> Any:
    """A BiLSTM-CRF that reads words and, as its settings say, other models beside them."""

    def make_tagger(**inputs: Any) -> Tagger:
        torch.manual_seed(3)
        reads = WordInputs(word_size=5, character_size=3, **inputs)
        transformer = None if reads.transformer == "none" else load_encoder(str(tiny_encoder_folder))[0]
        strings = None if reads.strings == "none" else make_strings()
        encoder = WordEncoder(collect_vocabulary(SENTENCES, reads), reads, transformer, strings=strings)
        method = find_method("bilstm-crf")
        given = [f"{name}={value}" for name, value in inputs.items()]
        return method(encoder, TAG_SET, read_settings(method, ["lstm_size=4", *given])).eval()

    return make_tagger


@pytest.mark.parametrize(
    "inputs",
    [{"transformer": "frozen"}, {"strings": "frozen"}, BOTH, {**BOTH, "transformer": "trained"}],
    ids=["transformer", "strings", "both", "strings beside a trained transformer"],
)
def test_words_have_the_same_vectors_and_tags_whether_states_are_kept_or_read_anew(make, engine, inputs):
    tagger = make(**inputs)
    reader = tagger.encoder.reader
    anew = reader.collate(reader.encode(SENTENCES))
    tagged = tag(tagger, SENTENCES, engine)
    exhaust(keep_frozen_states(tagger, SENTENCES, engine, "test"))
    kept = reader.collate(reader.encode(SENTENCES))
    assert anew.frozen_states is None and kept.frozen_states is not None
    assert kept.tagging.shape[2] == tagger.encoder.frozen_size
    mask = kept.word_mask
    assert torch.equal(mask, anew.word_mask) and torch.equal(kept.word_ids, anew.word_ids)
    with torch.no_grad():
        torch.testing.assert_close(tagger.encoder(kept)[mask], tagger.encoder(anew)[mask], atol=1e-5, rtol=1e-5)
    assert [each.tags for each in tag(tagger, SENTENCES, engine)] == [each.tags for each in tagged]


def test_a_sentence_that_is_not_kept_is_read_and_so_are_those_beside_it(make, engine):
    tagger = make(**BOTH)
    reader = tagger.encoder.reader
    exhaust(keep_frozen_states(tagger, SENTENCES[:4], engine, "test"))
    mixed = reader.collate(reader.encode(SENTENCES))
    assert mixed.frozen_states is None and mixed.strings is not None
    with torch.no_grad():
        assert tagger.encoder(mixed).shape[:2] == mixed.word_mask.shape


def test_a_frozen_transformer_reads_each_distinct_sentence_once_in_any_number_of_epochs(make, engine):
    tagger = make(transformer="frozen")
    read: list[int] = []
    tagger.encoder.transformer.register_forward_pre_hook(lambda _, inputs: read.append(len(inputs[0])))
    exhaust(keep_frozen_states(tagger, SENTENCES, engine, "test"))
    assert sum(read) == len({sentence.words for sentence in SENTENCES}) == 12
    options = Finetune(epochs=3, batch_size=4, warmup=0.0)
    stream = SentenceStream(tagger.encoder.reader.encode(SENTENCES, TAG_SET), tagger.encoder.reader, 4, 1)
    before = [value.clone() for value in tagger.encoder.transformer.parameters()]
    exhaust(fit(tagger, parameter_groups(tagger, options), [stream], plan_of(options), engine))
    assert sum(read) == 12
    assert all(map(torch.equal, before, tagger.encoder.transformer.parameters()))


def test_a_command_that_begins_again_keeps_the_same_numbers(make, engine):
    first, second = make(**BOTH), make(**BOTH)
    for tagger in (first, second):
        exhaust(keep_frozen_states(tagger, SENTENCES, engine, "test"))
        tagger.train()
    kept = first.encoder.reader.frozen_states
    again = second.encoder.reader.frozen_states
    assert kept.keys() == again.keys() and all(torch.equal(kept[words], again[words]) for words in kept)


@pytest.fixture
def raw_text(tmp_path: Path) -> RawFile:
    """Twenty lines, the first of them also a labelled sentence."""
    lines = [" ".join(SENTENCES[0].words), *(f"line {number} of the text" for number in range(19))]
    (tmp_path / "raw.txt").write_text("\n".join(lines) + "\n")
    return RawFile.read(tmp_path / "raw.txt")


def test_raw_text_is_read_once_too_and_anew_where_it_does_not_fit_beside_the_labelled_sentences(
    make, engine, raw_text, monkeypatch
):
    tagger = make(transformer="frozen")
    read: list[int] = []
    tagger.encoder.transformer.register_forward_pre_hook(lambda _, inputs: read.append(len(inputs[0])))
    exhaust(keep_frozen_states(tagger, SENTENCES, engine, "test", [raw_text]))
    assert sum(read) == 12 + 19
    stream = RawStream(raw_text, "news", tagger.encoder.reader, 8, 1, TAG_SET)
    with torch.no_grad():
        for batch in (stream.batch(items, 0) for items in stream.epoch(0)):
            assert batch.frozen_states is not None and tagger.encoder(batch).shape[:2] == batch.word_mask.shape
    assert sum(read) == 12 + 19
    other = make(transformer="frozen")
    labelled = 4 * 32 * sum(len(words) for words in {sentence.words for sentence in SENTENCES})
    monkeypatch.setattr(tagging, "MOST_BYTES", labelled + 8)
    notices = [
        each for each in keep_frozen_states(other, SENTENCES, engine, "test", [raw_text]) if isinstance(each, Notice)
    ]
    assert ["20 sentences anew each time" in each.text for each in notices] == [True]
    assert len(other.encoder.reader.frozen_states) == 12, "what does fit is kept"


@pytest.mark.parametrize(("epochs", "max_steps", "is_reread"), [(3, None, False), (4, None, True), (9, 7, False)])
def test_raw_text_that_a_training_hardly_reads_is_not_read_before(raw_text, epochs, max_steps, is_reread):
    """Five updates an epoch read two lines each, of twenty."""
    raw = RawInputs({"target": raw_text}, {"target": "news"}, None, 1)
    options = Finetune(epochs=epochs, max_steps=max_steps, batch_size=3, raw_batch_size=2)
    labelled = {"source": SENTENCES[:13], "target": SENTENCES[:4]}
    assert raw.reread(labelled, options) == ([raw_text] if is_reread else [])


def test_what_would_fill_the_memory_is_not_kept_and_told(make, engine, monkeypatch):
    tagger = make(transformer="frozen")
    size = 4 * 32 * sum(len(words) for words in {sentence.words for sentence in SENTENCES})
    monkeypatch.setattr(tagging, "MOST_BYTES", size - 1)
    (told,) = keep_frozen_states(tagger, SENTENCES, engine, "test")
    assert isinstance(told, Notice) and "12 sentences anew each time" in told.text
    assert not tagger.encoder.reader.frozen_states
    monkeypatch.setattr(tagging, "MOST_BYTES", size)
    exhaust(keep_frozen_states(tagger, SENTENCES, engine, "test"))
    held = tagger.encoder.reader.tagging.values()
    assert sum(states.untyped_storage().nbytes() for states in held) == size  # no padding is held


def test_a_tagger_without_frozen_models_keeps_nothing(make, engine):
    for inputs in ({}, {"transformer": "trained"}):
        tagger = make(**inputs)
        assert list(keep_frozen_states(tagger, [Sentence(("a", "b"))], engine, "test")) == []
        assert not tagger.encoder.reader.frozen_states
