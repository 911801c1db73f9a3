"""Coach of Liu et al. (2020): what its two stages promise, against independent computations."""

import itertools
from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
import torch
from builders.tasks import GivenVectors
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from crossner_cli.data.tags import TagSet, illegal_positions, to_spans
from crossner_cli.encoders.subwords import Batch
from crossner_cli.methods.contract import find_method, read_settings
from crossner_cli.recurrent.methods.bilstm_crf import BiLSTMCRFTagger
from crossner_cli.recurrent.methods.coach import (
    FIRST,
    INSIDE,
    OUTSIDE,
    Entities,
    EntityReader,
    find_entities,
)

ONE_TYPE = TagSet({"news": ("person",)})


TAG_SET = TagSet({"news": ("person", "place"), "songs": ("artist", "place"), "numbers": ("amount",)})
GOLD = (
    ("B-person", "I-person", "O", "B-place", "B-place", "I-place", "I-place"),
    ("O", "B-artist"),
    ("O", "O", "O", "O"),
    ("B-place", "I-place", "B-artist"),
)
DOMAINS = ("news", "songs", "news", "songs")
SETTINGS = ("lstm_size=6", "dropout=0")


def batch_of(gold: Sequence[Sequence[str]], domains: Sequence[str], tag_set: TagSet) -> Batch:
    longest = max(map(len, gold))
    mask = torch.arange(longest) < torch.tensor([len(tags) for tags in gold])[:, None]
    tags = torch.zeros(mask.shape, dtype=torch.long)
    for row, names in enumerate(gold):
        tags[row, : len(names)] = torch.tensor(tag_set.to_ids(names))
    return Batch(torch.zeros(0), None, torch.zeros_like(tags), mask, tags, tuple(domains), int(mask.sum()))


def given(
    *settings: str, tag_set: TagSet = TAG_SET, gold: Any = GOLD, domains: Any = DOMAINS, method: str = "coach"
) -> tuple[Any, Batch]:
    """A tagger of random weights over given vectors, and a batch of those."""
    torch.manual_seed(3)
    batch = batch_of(gold, domains, tag_set)
    kind = find_method(method)
    encoder: Any = GivenVectors(torch.randn(*batch.word_mask.shape, 5), description_size=8)
    tagger = kind(encoder, tag_set, read_settings(kind, (*SETTINGS, *settings)))
    with torch.no_grad():
        for value in tagger.parameters():
            value.copy_(torch.randn_like(value))
    return tagger, batch


def states_of(tagger: Any, batch: Batch) -> Tensor:
    states: Tensor = tagger.lstm(tagger.encoder(batch), batch.word_mask)
    return states


def naive_entities(row: Sequence[int]) -> list[tuple[int, int]]:
    """First word and the one after the last of each entity, word by word."""
    found: list[list[int]] = []
    for place, boundary in enumerate(row):
        if boundary == FIRST or (boundary == INSIDE and not (found and found[-1][1] == place)):
            found.append([place, place + 1])
        elif boundary == INSIDE:
            found[-1][1] = place + 1
    return [(start, end) for start, end in found]


def spans_of(entities: Entities, width: int) -> list[tuple[int, int, int]]:
    """Sentence, first word and the one after the last of each entity."""
    pairs = zip(entities.firsts.tolist(), entities.lengths.tolist(), strict=True)
    return [(first // width, first % width, first % width + length) for first, length in pairs]


ROWS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=4)


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Boundaries with an entity in every padded place, and where words are."""
    longest = max(map(len, rows))
    boundaries = torch.tensor([row + [FIRST] * (longest - len(row)) for row in rows])
    return boundaries, torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]


@hypothesis.given(ROWS)
def test_entities_are_those_that_a_loop_over_words_finds(rows):
    boundaries, mask = padded(rows)
    entities = find_entities(boundaries, mask)
    expected = [(number, *span) for number, row in enumerate(rows) for span in naive_entities(row)]
    assert spans_of(entities, mask.shape[1]) == expected
    assert entities.sentences(mask).tolist() == [sentence for sentence, _, _ in expected]
    words = [
        (sentence * mask.shape[1] + place, number, place - start)
        for number, (sentence, start, end) in enumerate(expected)
        for place in range(start, end)
    ]
    found = (entities.places.tolist(), entities.numbers.tolist(), entities.positions.tolist())
    assert list(zip(*found, strict=True)) == words


@hypothesis.given(ROWS)
@hypothesis.settings(max_examples=25)
def test_an_entity_is_the_sum_of_a_bilstm_over_its_words_alone(rows):
    torch.manual_seed(1)
    reader = EntityReader(3, 4)
    boundaries, mask = padded(rows)
    states = torch.randn(*mask.shape, 3)
    entities = find_entities(boundaries, mask)
    found = reader(states, entities)
    expected = [reader.lstm(states[row, a:b])[0].sum(dim=0) for row, a, b in spans_of(entities, mask.shape[1])]
    torch.testing.assert_close(found, torch.stack(expected) if expected else torch.zeros(0, 4))


def test_gold_entities_are_those_of_the_tags_in_either_scheme():
    bioes = TagSet(TAG_SET.domains, "bioes")
    other = (("B-person", "E-person", "O", "S-place", "B-place", "I-place", "E-place"), ("O", "S-artist"))
    for gold, tag_set in ((GOLD, TAG_SET), ((*other, GOLD[2]), bioes)):
        tagger, batch = given(tag_set=tag_set, gold=gold, domains=DOMAINS[: len(gold)])
        entities = find_entities(tagger.boundary_of_tag[batch.tags], batch.word_mask)
        spans = [(row, span.start, span.end) for row, tags in enumerate(gold) for span in to_spans(tags)]
        assert spans_of(entities, batch.word_mask.shape[1]) == spans
        assert tagger.units(batch) == {"boundaries": batch.words, "types": len(spans)}


# Losses


def test_the_losses_are_those_of_a_crf_and_of_a_softmax_over_types():
    tagger, batch = given()
    states, losses = states_of(tagger, batch), tagger.loss(batch)
    boundaries, width = tagger.boundary_of_tag[batch.tags], batch.word_mask.shape[1]
    expected = torch.zeros(())
    for row, start, end in spans_of(find_entities(boundaries, batch.word_mask), width):
        read = tagger.entity_reader.lstm(states[row, start:end])[0].sum(dim=0)
        scores = torch.stack([read @ described for described in tagger.descriptions[1:]])
        gold = TAG_SET.types.index(GOLD[row][start].partition("-")[2])
        expected = expected - scores.log_softmax(dim=0)[gold]
    torch.testing.assert_close(losses["types"], expected)
    layer = tagger.boundary_layer
    likely = layer.crf.log_likelihood(layer.classifier(states), boundaries, batch.word_mask)
    torch.testing.assert_close(losses["boundaries"], -likely.sum())


def test_with_one_type_coach_is_a_boundary_tagger_under_another_name():
    gold = (("B-person", "I-person", "O", "B-person", "B-person", "I-person", "O"), ("O", "O"))
    coach, batch = given(tag_set=ONE_TYPE, gold=gold, domains=("news", "news"))
    plain, _ = given(tag_set=ONE_TYPE, gold=gold, domains=("news", "news"), method="bilstm-crf")
    assert isinstance(plain, BiLSTMCRFTagger)
    plain.load_state_dict(
        {
            name.replace("boundary_layer", "tag_layer"): value
            for name, value in coach.state_dict().items()
            if name.startswith(("encoder.", "lstm.", "boundary_layer."))
        }
    )
    losses = coach.loss(batch)
    torch.testing.assert_close(losses["boundaries"], plain.loss(batch)["crf"])
    assert losses["types"].item() == 0
    found, expected = coach.decode(batch), plain.decode(batch)
    assert found.tags == expected.tags and any(map(any, found.tags))
    for row, other in zip(found.probabilities, expected.probabilities, strict=True):
        assert row == pytest.approx(other)


def test_a_batch_without_an_entity_costs_nothing_but_its_boundaries():
    tagger, batch = given(gold=(("O", "O"), ("O",)), domains=("news", "songs"))
    losses = tagger.loss(batch)
    sum(losses.values()).backward()
    assert losses["boundaries"] > 0
    for term in losses.keys() - {"boundaries"}:
        assert losses[term].item() == 0 and tagger.units(batch)[term] == 0
    # Data-parallel training waits for a gradient of every parameter.
    assert [name for name, value in tagger.named_parameters() if value.grad is None] == []
    assert not tagger.entity_reader.lstm.weight_hh_l0.grad.any()


def brute_force(tagger: Any, batch: Batch) -> list[tuple[list[str], list[float]]]:
    """Every boundary sequence of each sentence scored; then every entity of the best one alone."""
    states, crf = states_of(tagger, batch).detach(), tagger.boundary_layer.crf
    answers = []
    for row, length in enumerate(batch.word_mask.sum(dim=1).tolist()):
        scores = tagger.boundary_layer.classifier(states[row, :length])
        names, total = "OBI", {}
        types = TAG_SET.domains[batch.domains[row]]
        for sequence in itertools.product(range(3), repeat=length):
            value = crf.start[sequence[0]] + crf.stop[sequence[-1]] + sum(scores[w, c] for w, c in enumerate(sequence))
            value = value + sum(crf.transitions[pair] for pair in itertools.pairwise(sequence))
            total[sequence] = float(value)
        shares = dict(zip(total, torch.tensor(list(total.values())).softmax(dim=0).tolist(), strict=True))
        legal = {
            sequence
            for sequence in total
            if not illegal_positions([names[c] + "-x" * (c > 0) for c in sequence], "bio")
        }
        best = max(legal if tagger.hyper.legal else total, key=total.__getitem__)
        begun = best.index(FIRST) if FIRST in best else length
        best = (OUTSIDE,) * begun + best[begun:]
        tags = ["O"] * length
        probabilities = [sum(share for other, share in shares.items() if other[w] == best[w]) for w in range(length)]
        for start, end in naive_entities(best):
            read = tagger.entity_reader.lstm(states[row, start:end])[0].sum(dim=0)
            fits = torch.stack([read @ tagger.descriptions[1 + TAG_SET.types.index(name)] for name in types])
            for word in range(start, end):
                tags[word] = f"{names[best[word]]}-{types[int(fits.argmax())]}"
                probabilities[word] *= float(fits.softmax(dim=0).max())
        answers.append((tags, probabilities))
    return answers


@pytest.mark.parametrize("legal", ["true", "false"])
def test_decoding_agrees_with_enumeration(legal):
    gold = (("O",) * 5, ("O",) * 3, ("O",), ("O",) * 5, ("O",) * 4)
    domains = ("news", "songs", "numbers", "songs", "news")
    tagger, batch = given(f"legal={legal}", gold=gold, domains=domains)
    for seed in range(3):
        torch.manual_seed(seed)
        with torch.no_grad():
            for value in (*tagger.boundary_layer.parameters(), tagger.encoder.vectors):
                value.copy_(torch.randn_like(value))
            found, expected = tagger.decode(batch), brute_force(tagger, batch)
        assert [TAG_SET.from_ids(ids) for ids in found.tags] == [tags for tags, _ in expected]
        for row, (_, probabilities) in zip(found.probabilities, expected, strict=True):
            assert row == pytest.approx(probabilities, abs=1e-5)


def decoded(boundaries: Sequence[int], legal: str, scheme: Any = "bio") -> list[str]:
    """The tags of one sentence whose words score high for the given boundaries."""
    tag_set = TagSet({"news": ("person",)}, scheme)
    tagger, batch = given(f"legal={legal}", tag_set=tag_set, gold=(("O",) * len(boundaries),), domains=("news",))
    tagger.boundary_layer.scores = lambda states: 1e3 * functional.one_hot(torch.tensor([boundaries]), 3).float()
    (tags,) = tagger.decode(batch).tags
    return tag_set.from_ids(tags)


def test_an_inside_word_before_any_entity_is_outside_and_after_one_opens_another_in_the_scheme_of_the_run():
    boundaries = (INSIDE, INSIDE, OUTSIDE, FIRST, INSIDE, OUTSIDE, INSIDE, INSIDE, FIRST)
    tags = decoded(boundaries, "false")
    b, i = "B-person", "I-person"
    assert tags == ["O", "O", "O", b, i, "O", i, i, b]
    assert [(span.start, span.end) for span in to_spans(tags)] == [(3, 5), (6, 8), (8, 9)]
    for scheme in ("bio", "bioes"):
        legal = decoded(boundaries, "true", scheme)
        assert not illegal_positions(legal, scheme) and [tag == "O" for tag in legal[3:6]] == [False, False, True]
    boundaries = (FIRST, INSIDE, INSIDE, FIRST, OUTSIDE, FIRST, INSIDE)
    for scheme, expected in (("bio", "BIIBOBI"), ("bioes", "BIESOBE")):
        assert "".join(tag[0] for tag in decoded(boundaries, "true", scheme)) == expected
