"""Mention replacement: types and all other words stay, and the mentions are those of the same type."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders.commands import QUICK, crossner
from builders.encoders import make_encoder
from builders.taggers import TAG_SET, make_tagger, some_sentences
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.training.mentions import collect_mentions
from crossner_cli.training.streams import Batching, make_streams

MIXED: Any = SimpleNamespace(mixes=True)
SENTENCES = (
    Sentence(("anna", "met", "peter", "smith", "in", "paris"), ("B-per", "O", "B-per", "I-per", "O", "B-loc"), "a"),
    Sentence(("new", "york", "is", "far"), ("B-loc", "I-loc", "O", "O"), "a"),
)


def outline(sentence: Sentence) -> list[str]:
    """The words outside entities, and the types of the entities, in their order."""
    spans = {span.start: span for span in to_spans(sentence.tags or ())}
    inside = {place for span in spans.values() for place in range(span.start, span.end)}
    return [
        f"<{spans[place].type}>" if place in spans else word
        for place, word in enumerate(sentence.words)
        if place in spans or place not in inside
    ]


@given(st.sampled_from(SENTENCES), st.floats(0, 1), st.integers(0, 1000), st.sampled_from(["bio", "bioes"]))
def test_only_mentions_change_and_each_becomes_one_of_its_type(sentence, share, seed, scheme):
    mentions = collect_mentions(SENTENCES, share, scheme)
    made = mentions.replace_in(sentence, np.random.default_rng(seed))
    assert outline(made) == outline(sentence) and made.domain == sentence.domain
    for span in to_spans(made.tags or ()):
        assert made.words[span.start : span.end] in mentions.by_type[span.type]
    assert len(made.words) == len(made.tags or ())
    prefixes = {tag[0] for tag in made.tags or ()}
    assert prefixes <= set("BIO" if scheme == "bio" else "BIESO")


def test_a_stream_draws_target_sentences_anew_in_each_epoch_and_the_same_ones_when_asked_again(tiny_encoder_folder):
    tagger = make_tagger(tiny_encoder_folder, "linear", TAG_SET)
    target, source = some_sentences(8), some_sentences(4, seed=3)
    (stream,) = make_streams(
        tagger, MIXED, {"target": target, "source": source}, Batching(batch_size=4, replace_mentions=0.9), 1
    )
    first, again, later = (stream.batch(range(8), epoch).input_ids.tolist() for epoch in (0, 0, 1))
    assert first == again != later
    plain = tagger.encoder.reader.collate(tagger.encoder.reader.encode(source, tagger.tag_set))
    assert stream.batch(range(8, 12), 5).input_ids.tolist() == plain.input_ids.tolist()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("mentions")
    crossner("prepare-data", "--run", place / "run", "--target", "sample-target")
    return place / "run", make_encoder(place / "encoder")


def test_finetune_replaces_mentions(run):
    folder, encoder = run
    common = ("finetune", "--run", folder, "--encoder", encoder, "--epochs", "1", "--max-steps", "2", *QUICK)
    result = crossner(*common, "--replace-mentions", "0.5")
    assert result["options"]["replace_mentions"] == 0.5
