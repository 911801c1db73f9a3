"""Tagging: one tag a word in the order given, whatever the batches, the mode and the number of processes."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from typing import Any

import pytest
import torch

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.run.progress import Progress, exhaust
from crossner_cli.taggers.tagging import tag, tag_with_progress

WORDS = ["the", "London", "of", "anna", "x-ray", "acme", "3.14", "visited"]


@dataclasses.dataclass
class OneOfSeveral:
    """A process among others, which are run one after another; ``others`` are their results."""

    rank: int = 0
    world: int = 1
    others: list[Any] = dataclasses.field(default_factory=list)
    device: torch.device = torch.device("cpu")

    def autocast(self):
        return contextlib.nullcontext()

    def gather(self, items):
        self.mine = items
        return [*items, *self.others]


@pytest.fixture(scope="module")
def tagger(tiny_encoder_folder):
    torch.manual_seed(3)
    encoder, _ = load_encoder(str(tiny_encoder_folder))
    tag_set = TagSet({"news": ("person", "place"), "songs": ("artist",)})
    return LinearTagger(encoder, tag_set, LinearTagger.Hyperparameters()).eval()


def some_sentences(count: int, domain: str = "news", seed: int = 1) -> list[Sentence]:
    generator = random.Random(seed)
    return [Sentence(tuple(generator.choices(WORDS, k=generator.randint(1, 40))), None, domain) for _ in range(count)]


def test_every_word_gets_one_tag_and_a_probability_in_the_order_given(tagger):
    sentences = some_sentences(40)
    tagged = tag(tagger, sentences, OneOfSeveral(), batch_subwords=300)
    assert [len(each.tags) for each in tagged] == [len(sentence.words) for sentence in sentences]
    for sentence, each in zip(sentences, tagged, strict=True):
        alone = tag(tagger, [sentence], OneOfSeveral(), batch_subwords=64)[0]
        assert alone.tags == each.tags
        assert alone.probabilities == pytest.approx(each.probabilities, abs=1e-5)
        assert all(0 < probability <= 1 for probability in each.probabilities)


def test_five_thousand_words_get_five_thousand_tags(tagger):
    long = Sentence(tuple(random.Random(2).choices(WORDS, k=5000)), None, "news")
    tagged = tag(tagger, [long, *some_sentences(2)], OneOfSeveral(), batch_subwords=64)
    assert len(tagged[0].tags) == len(tagged[0].probabilities) == 5000


def test_only_types_of_the_domain_are_given(tagger):
    for domain, types in tagger.tag_set.domains.items():
        tagged = tag(tagger, some_sentences(30, domain), OneOfSeveral(), batch_subwords=500)
        found = {name.partition("-")[2] for each in tagged for name in each.tags} - {""}
        assert found and found <= set(types)


def test_gold_tags_are_not_read(tagger):
    sentences = some_sentences(5)
    labelled = [dataclasses.replace(each, tags=("B-unheard-of",) * len(each.words)) for each in sentences]
    assert tag(tagger, labelled, OneOfSeveral(), batch_subwords=500) == tag(
        tagger, sentences, OneOfSeveral(), batch_subwords=500
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored_and_dropout_is_off(tagger, training):
    tagger.train(training)
    try:
        first = tag(tagger, some_sentences(5), OneOfSeveral(), batch_subwords=500)
        assert tagger.training is training
        assert tag(tagger, some_sentences(5), OneOfSeveral(), batch_subwords=500) == first
    finally:
        tagger.eval()


def test_nothing_to_tag_gives_nothing(tagger):
    assert tag(tagger, [], OneOfSeveral(), batch_subwords=500) == []


def test_several_processes_share_the_work_and_all_know_the_result(tagger):
    sentences = some_sentences(25)
    whole = tag(tagger, sentences, OneOfSeveral(), batch_subwords=200)
    shares = []
    for rank in range(3):
        process = OneOfSeveral(rank, 3)
        tag(tagger, sentences, process, batch_subwords=200)
        shares.append(process.mine)
    assert sorted(number for share in shares for number, _ in share) == list(range(25))
    for rank in range(3):
        others = [item for number, share in enumerate(shares) if number != rank for item in share]
        assert tag(tagger, sentences, OneOfSeveral(rank, 3, others), batch_subwords=200) == whole


def test_progress_counts_up_to_all_sentences(tagger):
    work = tag_with_progress(tagger, some_sentences(20), OneOfSeveral(), batch_subwords=200, task="look")
    events = list(work)
    assert all(isinstance(event, Progress) and event.task == "look" and event.total == 20 for event in events)
    assert [event.done for event in events] == sorted(event.done for event in events)
    assert events[-1].done == 20
    assert len(exhaust(tag_with_progress(tagger, some_sentences(20), OneOfSeveral(), batch_subwords=200))) == 20
