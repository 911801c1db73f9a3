"""Tagging: one tag a word in the order given, whatever the batches, the mode and the number of processes.

States of frozen models are read once, and are what the models would give each time. Scores become probabilities of
being right, fitted on some entities and true of others.
"""

import contextlib
import dataclasses
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.strings import make_encoder as make_strings
from builders.taggers import TAG_SET, some_sentences
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import score
from crossner_cli.methods.contract import Tagger, find_method, read_settings
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Finetune
from crossner_cli.recurrent.raw_text import RawFile
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import WordInputs, collect_vocabulary
from crossner_cli.run.progress import Notice, exhaust
from crossner_cli.stages.train import make_plan, make_rates
from crossner_cli.taggers import tagging
from crossner_cli.taggers.tagging import (
    CALIBRATION,
    Calibration,
    ScoredEntity,
    Tagged,
    fit_calibration,
    keep_frozen_states,
    log_odds,
    measure_reliability,
    read_calibration,
    score_entities,
    tag,
)
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import group_parameters
from crossner_cli.training.streams import SentenceStream

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
    encoder, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder))
    tag_set = TagSet({"news": ("person", "place"), "songs": ("artist",)})
    return LinearTagger(encoder, tag_set, LinearTagger.Hyperparameters()).eval()


def random_sentences(count: int, domain: str = "news", seed: int = 1) -> list[Sentence]:
    generator = random.Random(seed)
    return [Sentence(tuple(generator.choices(WORDS, k=generator.randint(1, 40))), None, domain) for _ in range(count)]


def test_every_word_gets_one_tag_and_a_probability_in_the_order_given(tagger):
    long = Sentence(tuple(random.Random(2).choices(WORDS, k=5000)), None, "news")
    tagged = tag(tagger, [long, *random_sentences(2)], OneOfSeveral(), batch_subwords=64)
    assert len(tagged[0].tags) == len(tagged[0].probabilities) == 5000
    sentences = random_sentences(40)
    tagged = tag(tagger, sentences, OneOfSeveral(), batch_subwords=300)
    assert [len(each.tags) for each in tagged] == [len(sentence.words) for sentence in sentences]
    for sentence, each in zip(sentences, tagged, strict=True):
        alone = tag(tagger, [sentence], OneOfSeveral(), batch_subwords=64)[0]
        assert alone.tags == each.tags
        assert alone.probabilities == pytest.approx(each.probabilities, abs=1e-5)
        assert all(0 < probability <= 1 for probability in each.probabilities)
    labelled = [dataclasses.replace(each, tags=("B-unheard-of",) * len(each.words)) for each in sentences]
    assert tag(tagger, labelled, OneOfSeveral(), batch_subwords=300) == tagged, "gold tags are not read"
    assert tag(tagger, [], OneOfSeveral(), batch_subwords=500) == []


def test_several_processes_share_the_work_and_all_know_the_result(tagger):
    sentences = random_sentences(25)
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


SENTENCES = [*some_sentences(12), *some_sentences(3)]  # three of them twice
BYTES_OF_STATES = 4 * 32 * sum(len(words) for words in {sentence.words for sentence in SENTENCES})
BOTH = {"transformer": "frozen", "strings": "frozen"}


@pytest.fixture
def make(tiny_encoder_folder: Path) -> Any:
    """A BiLSTM-CRF that reads words and, as its settings say, other models beside them."""

    def make_tagger(**inputs: Any) -> Tagger:
        torch.manual_seed(3)
        reads = WordInputs(word_size=5, character_size=3, **inputs)
        transformer = (
            None if reads.transformer == "none" else TransformerEncoder.from_pretrained(str(tiny_encoder_folder))[0]
        )
        strings = None if reads.strings == "none" else make_strings()
        encoder = WordEncoder(collect_vocabulary(SENTENCES, reads), reads, transformer, strings=strings)
        method = find_method("bilstm-crf")
        given = [f"{name}={value}" for name, value in inputs.items()]
        return method(encoder, TAG_SET, read_settings(method, ["lstm_size=4", *given])).eval()

    return make_tagger


def test_int8_is_refused_without_a_transformer(make: Any) -> None:
    make(transformer="frozen").encoder.prepare_for_inference("int8", on_cpu=True)
    with pytest.raises(CrossNERError, match="this tagger has none") as caught:
        make().encoder.prepare_for_inference("int8", on_cpu=True)
    assert caught.value.hint == "Use --precision fp32."


def count_reads(tagger: Any) -> list[int]:
    """The sentences of each batch that the transformer reads from now on."""
    read: list[int] = []
    tagger.encoder.transformer.register_forward_pre_hook(lambda _, inputs: read.append(len(inputs[0])))
    return read


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
    exhaust(keep_frozen_states(tagger, SENTENCES[:4], engine, "test"))
    mixed = reader.collate(reader.encode(SENTENCES))  # a sentence that is not kept is read, as those beside it
    exhaust(keep_frozen_states(tagger, SENTENCES, engine, "test"))
    kept = reader.collate(reader.encode(SENTENCES))
    again = make(**inputs)  # as a command that begins again
    exhaust(keep_frozen_states(again, SENTENCES, engine, "test"))
    states = again.encoder.reader.frozen_states
    assert all(torch.equal(states[words], value) for words, value in reader.frozen_states.items())
    assert anew.frozen_states is mixed.frozen_states is None and kept.frozen_states is not None
    assert kept.frozen_states.shape[2] == tagger.encoder.frozen_size
    mask = kept.word_mask
    assert torch.equal(mask, anew.word_mask) and torch.equal(kept.word_ids, anew.word_ids)
    with torch.no_grad():
        for batch in (kept, mixed):
            torch.testing.assert_close(tagger.encoder(batch)[mask], tagger.encoder(anew)[mask], atol=1e-5, rtol=1e-5)
    assert [each.tags for each in tag(tagger, SENTENCES, engine)] == [each.tags for each in tagged]


def test_a_frozen_transformer_reads_each_distinct_sentence_once_in_any_number_of_epochs(make, engine):
    tagger = make(transformer="frozen")
    read = count_reads(tagger)
    exhaust(keep_frozen_states(tagger, SENTENCES, engine, "test"))
    assert sum(read) == len({sentence.words for sentence in SENTENCES}) == 12
    options = Finetune(epochs=3, batch_size=4, warmup=0.0)
    stream = SentenceStream(tagger.encoder.reader.encode(SENTENCES, TAG_SET), tagger.encoder.reader, 4, 1)
    before = [value.clone() for value in tagger.encoder.transformer.parameters()]
    exhaust(fit(tagger, group_parameters(tagger, make_rates(options)), [stream], make_plan(options), engine))
    assert sum(read) == 12
    assert all(map(torch.equal, before, tagger.encoder.transformer.parameters()))


@pytest.mark.parametrize(("free", "told", "kept", "size"), [(-1, 12, 20, 4 * 32 * 100), (0, 20, 12, BYTES_OF_STATES)])
def test_what_would_fill_the_memory_is_not_kept_and_told(make, engine, tmp_path, monkeypatch, free, told, kept, size):
    (tmp_path / "raw.txt").write_text("".join(f"line {number} of the text\n" for number in range(20)))
    tagger, raw_text = make(transformer="frozen"), RawFile.read(tmp_path / "raw.txt")
    monkeypatch.setattr(tagging, "MOST_BYTES", BYTES_OF_STATES + free)
    events = list(keep_frozen_states(tagger, SENTENCES, engine, "test", [raw_text]))
    (notice,) = (event for event in events if isinstance(event, Notice))
    assert f"{told} sentences again in each epoch" in notice.text
    held = tagger.encoder.reader.frozen_states.values()
    assert len(held) == kept, "what does fit is kept"
    assert sum(states.untyped_storage().nbytes() for states in held) == size, "no padding is held"


ENTITIES = st.lists(st.tuples(st.floats(0, 1), st.booleans()).map(lambda pair: ScoredEntity(*pair)), max_size=30)


def too_sure(count: int, seed: int, slope: float = 0.5, intercept: float = -0.7) -> list[ScoredEntity]:
    """Entities whose chance of being right follows from their scores by a known rule."""
    generator = random.Random(seed)
    true = Calibration(slope, intercept, 0, 0)
    scores = [generator.betavariate(3, 1) for _ in range(count)]
    return [ScoredEntity(score, generator.random() < true(score)) for score in scores]


def loss(entities: list[ScoredEntity], slope: float, intercept: float) -> float:
    """What the fit is to make small, entity by entity."""
    total = ((slope - 1) ** 2 + intercept**2) / 2
    for entity in entities:
        odds = slope * log_odds(entity.score) + intercept
        total += math.log1p(math.exp(-abs(odds))) + max(0.0, -odds if entity.is_correct else odds)
    return total


@given(ENTITIES)
def test_no_neighbour_of_the_fit_is_better(entities: list[ScoredEntity]) -> None:
    found = fit_calibration(entities)
    if found.slope > 0:
        best = loss(entities, found.slope, found.intercept)
        for slope, intercept in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01), (0.01, 0.01), (-0.01, -0.01)):
            assert best <= loss(entities, found.slope + slope, found.intercept + intercept) + 1e-9


def test_entities_that_are_none_certain_or_misleading_are_fitted() -> None:
    none = fit_calibration([])
    assert none == Calibration(1.0, 0.0, 0, 0)
    assert [none(score) for score in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([0.0, 0.25, 0.5, 1.0], abs=1e-5)
    for is_correct in (True, False):
        certain = fit_calibration([ScoredEntity(1.0, is_correct)] * 500 + [ScoredEntity(0.0, is_correct)] * 2)
        assert math.isfinite(certain.slope) and math.isfinite(certain.intercept)
        assert (certain(0.9) > 0.9) is is_correct
    misleading = fit_calibration([ScoredEntity(0.95, False)] * 300 + [ScoredEntity(0.05, True)] * 100)
    assert misleading.slope == 0, "every entity gets the share that is right"
    assert misleading(0.1) == misleading(0.9) == pytest.approx(0.25, abs=0.01)


def test_an_entity_is_right_where_words_and_type_are_those_of_a_gold_one() -> None:
    gold = [("B-x", "I-x", "O", "B-y"), ("O", "B-x")]
    tagged = [
        Tagged(("B-x", "I-x", "O", "B-x"), (0.9, 0.6, 1.0, 0.8)),
        Tagged(("I-x", "B-x"), (0.3, 0.7)),
    ]
    found = [(each.score, each.is_correct) for each in score_entities(gold, tagged)]
    assert found == [(0.6, True), (0.8, False), (0.3, False), (0.7, True)]
    counted = score(gold, [each.tags for each in tagged]).per_type
    assert sum(each.correct for each in counted.values()) == 2
    assert sum(each.predicted for each in counted.values()) == 4


@given(ENTITIES)
def test_the_bins_hold_every_entity_once(entities: list[ScoredEntity]) -> None:
    found = measure_reliability(entities)
    assert sum(each["entities"] for each in found["bins"]) == len(entities)
    for each in found["bins"]:
        if each["entities"]:
            assert each["from"] - 1e-9 <= each["mean_score"] <= each["to"] + 1e-9
    if not entities:
        assert found["ece"] is None
        return
    expected = 0.0
    for low in range(10):
        inside = [entity for entity in entities if low == min(9, int(10 * entity.score))]
        expected += abs(sum(entity.score - entity.is_correct for entity in inside)) / len(entities)
    assert found["ece"] == pytest.approx(expected)


def test_numbers_in_the_folder_are_read_back_and_what_are_none_is_told(tmp_path: Path) -> None:
    description: dict[str, Any] = {
        "method": "linear",
        "hyperparameters": {},
        "tag_set": {"domains": {"news": ["person"]}, "scheme": "bio"},
    }
    description |= {"domain_of_new_text": "news", "taught_types": []}
    found = fit_calibration(too_sure(50, 4))
    (tmp_path / "tagger.json").write_text(json.dumps(description))
    assert read_calibration(tmp_path) is None
    (tmp_path / "tagger.json").write_text(json.dumps({**description, CALIBRATION: found.to_json()}))
    assert read_calibration(tmp_path) == found
    for wrong in (
        5,
        {},
        {**found.to_json(), "slope": math.nan},
        {**found.to_json(), "intercept": True},
        {**found.to_json(), "slope": 10**400},
    ):
        (tmp_path / "tagger.json").write_text(json.dumps({**description, CALIBRATION: wrong}))
        with pytest.raises(CrossNERError, match="calibration must hold the numbers slope"):
            read_calibration(tmp_path)
