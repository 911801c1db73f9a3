"""MTL and MoEE of Liu, Winata and Fung (2020): what their formulas promise, against independent computations."""

import itertools
from typing import Any

import pytest
import torch
from builders.taggers import TAG_SET
from builders.tasks import GivenVectors
from torch import Tensor
from torch.nn import functional

from crossner_cli.data.tags import TagSet, illegal_positions
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import TagLayer
from crossner_cli.methods.contract import Tagger, find_method, read_settings
from crossner_cli.recurrent.methods.moee import EntityExperts, MoEETagger
from crossner_cli.recurrent.methods.mtl import entity_class_of_tags

ONE_TYPE = TagSet({"news": ("person",)})


SMALL = ("lstm_size=6", "dropout=0")
SETTINGS = {
    "the paper's": (),
    "the paper's BERT version": ("lstm_layers=0", "decoder=softmax"),
}
both = pytest.mark.parametrize("method", ["mtl", "moee"])
every_version = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


def given(method: str, *settings: str, tag_set: TagSet = TAG_SET, width: int = 5) -> tuple[Any, Batch]:
    """A tagger of random weights over given vectors, and three sentences, two of them padded."""
    torch.manual_seed(3)
    mask = torch.arange(7) < torch.tensor([7, 2, 4])[:, None]
    tags = torch.randint(len(tag_set), mask.shape) * mask
    kind = find_method(method)
    tagger = kind(
        GivenVectors(torch.randn(*mask.shape, width)), tag_set, read_settings(kind, (*SMALL, "legal=false", *settings))
    )
    with torch.no_grad():
        for value in tagger.parameters():
            value.copy_(torch.randn_like(value) / value.shape[-1] ** 0.5)
    none = torch.zeros(0)
    domains = (next(iter(tag_set.domains)),) * 3
    return tagger, Batch(none, None, torch.zeros_like(tags), mask, tags, domains, int(mask.sum()))


def states_of(tagger: Any, batch: Batch) -> Tensor:
    """What the BiLSTM says, (B, W, D)."""
    states: Tensor = tagger.context(tagger.encoder(batch), batch.word_mask)
    return states


def outputs_of(experts: EntityExperts, states: Tensor) -> Tensor:
    """Each expert on its own, (B, W, E, S)."""
    pairs = zip(experts.weight, experts.bias, strict=True)
    return torch.stack([functional.linear(states, weight, bias) for weight, bias in pairs], dim=2)


def reached(tagger: Tagger, term: str, batch: Batch) -> set[str]:
    """The parts of a tagger that a loss term sends a gradient to."""
    tagger.zero_grad()
    tagger.loss(batch)[term].backward()
    return {name.partition(".")[0] for name, value in tagger.named_parameters() if value.grad is not None}


def test_a_mixture_lies_among_what_its_experts_say():
    tagger, batch = given("moee")
    states = states_of(tagger, batch)
    mixture, gate = tagger._mixture(states)
    alpha, outputs = gate.softmax(dim=-1), outputs_of(tagger.experts, states)
    assert alpha.min() >= 0
    torch.testing.assert_close(alpha.sum(dim=-1), torch.ones(3, 7))
    torch.testing.assert_close(mixture, sum(alpha[..., a, None] * outputs[:, :, a] for a in range(4)))
    assert bool((mixture <= outputs.amax(dim=2) + 1e-5).all() and (mixture >= outputs.amin(dim=2) - 1e-5).all())


def test_with_a_constant_gate_the_experts_are_one_factorised_emission():
    tagger, batch = given("moee")
    with torch.no_grad():
        tagger.gate.weight.zero_()
    alpha = tagger.gate.bias.softmax(dim=0)
    weight = torch.einsum("e,esd->sd", alpha, tagger.experts.weight)
    classifier = tagger.tag_layer.classifier
    plain, _ = given("mtl")
    plain.context, plain.entity_layer = tagger.context, tagger.entity_layer
    plain.tag_layer.crf = tagger.tag_layer.crf
    with torch.no_grad():
        plain.tag_layer.classifier.weight.copy_(classifier.weight @ weight)
        plain.tag_layer.classifier.bias.copy_(classifier.weight @ (alpha @ tagger.experts.bias) + classifier.bias)
        plain.encoder.vectors.copy_(tagger.encoder.vectors)
    expected, found = plain.loss(batch), tagger.loss(batch)
    torch.testing.assert_close(found["tags"], expected["tags"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["entity"], expected["entity"])
    assert tagger.decode(batch).tags == plain.decode(batch).tags


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_the_gate_learns_types_and_not_tags(scheme):
    tag_set = TagSet({"news": ("person", "B-cell"), "songs": ("O", "person")}, scheme)
    tagger, batch = given("moee", tag_set=tag_set)
    names = ("", "person", "B-cell", "O")
    for tag, row in zip(tag_set.tags, tagger.type_row.tolist(), strict=True):
        assert names[row] == tag.partition("-")[2]
    _, gate = tagger._mixture(states_of(tagger, batch))
    expected = torch.zeros(())
    for sentence, word in batch.word_mask.nonzero().tolist():
        scores = gate[sentence, word]
        expected = expected + scores.logsumexp(0) - scores[tagger.type_row[batch.tags[sentence, word]]]
    torch.testing.assert_close(tagger.loss(batch)["gate"], expected)


# Losses


def test_with_one_type_task1_is_task2():
    assert entity_class_of_tags(ONE_TYPE).tolist() == [0, 1, 2]
    tagger, batch = given("mtl", tag_set=ONE_TYPE)
    tagger.entity_layer.load_state_dict(tagger.tag_layer.state_dict())
    losses = tagger.loss(batch)
    assert torch.equal(losses["tags"], losses["entity"])


@both
@every_version
def test_each_loss_reaches_its_own_layers_and_the_shared_ones_only(method, settings):
    tagger, batch = given(method, *settings)
    shared = {"encoder"} | ({"context"} if tagger.context.bilstm is not None else set())
    own = {"tags": {"tag_layer"}, "entity": {"entity_layer"}}
    if method == "moee":
        own = {"tags": {"tag_layer", "experts", "gate"}, "gate": {"gate"}, "entity": {"entity_layer"}}
    assert {term: reached(tagger, term, batch) for term in tagger.units(batch)} == {
        term: shared | parts for term, parts in own.items()
    }


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_task1_merges_the_types(scheme):
    tag_set = TagSet({"news": ("person", "place"), "songs": ("E-number",)}, scheme)
    wanted = {"O": 0, "B": 1, "S": 1, "I": 2, "E": 2}
    found = entity_class_of_tags(tag_set).tolist()
    assert found == [wanted[tag[0]] for tag in tag_set.tags]
    assert [number for number, entity_class in enumerate(found) if entity_class == 0] == [0]


@both
@every_version
@pytest.mark.parametrize("weight", ["gate_weight", "entity_weight"])
def test_a_weight_scales_its_term_alone_and_zero_removes_its_gradient(method, settings, weight):
    if method == "mtl" and weight == "gate_weight":
        pytest.skip("MTL has no gate")
    term = weight.removesuffix("_weight")
    losses = {}
    for factor in (0, 1, 2.5):
        tagger, batch = given(method, *settings, f"{weight}={factor}")
        losses[factor] = tagger.loss(batch)
        losses[factor][term].backward()
        size = sum(float(value.grad.abs().sum()) for value in tagger.parameters() if value.grad is not None)
        assert (size == 0) == (factor == 0)
    torch.testing.assert_close(losses[2.5][term], 2.5 * losses[1][term])
    assert losses[0][term].item() == 0
    for other in losses[1].keys() - {term}:
        assert torch.equal(losses[0][other], losses[1][other]) and torch.equal(losses[2.5][other], losses[1][other])


@both
def test_the_softmax_version_is_token_cross_entropy(method):
    tagger, batch = given(method, "decoder=softmax")
    states = states_of(tagger, batch)
    read = {"entity": states, "tags": states if method == "mtl" else tagger._mixture(states)[0]}
    gold = {"entity": tagger.entity_class[batch.tags], "tags": batch.tags}
    layers = {"entity": tagger.entity_layer, "tags": tagger.tag_layer}
    losses = tagger.loss(batch)
    for term, layer in layers.items():
        shares = layer.classifier(read[term]).softmax(dim=-1)
        words = batch.word_mask.nonzero().tolist()
        expected = -sum(shares[row, word, gold[term][row, word]].log() for row, word in words)
        torch.testing.assert_close(losses[term], expected)


def test_sizes_are_those_of_the_paper():
    tag_set = TagSet({"news": ("PER", "LOC", "ORG", "MISC")})
    tagger = MoEETagger(GivenVectors(torch.zeros(1, 1, 300)), tag_set, MoEETagger.Hyperparameters())
    assert (tagger.context.bilstm.lstm.num_layers, tagger.context.bilstm.lstm.hidden_size) == (2, 200)
    assert tagger.experts.weight.shape == (5, 200, 400) and tagger.gate.weight.shape == (5, 400)
    assert tagger.tag_layer.classifier.weight.shape == (9, 200)
    assert tagger.entity_layer.classifier.weight.shape == (3, 400)
    assert tagger.hyper.input_dropout == tagger.context.bilstm.lstm.dropout == 0.3
    spread = tagger.experts.weight.abs().amax(dim=(1, 2))
    assert ((spread > 400**-0.5 * 0.9) & (spread <= 400**-0.5)).all(), "each begins as a linear map of its own"


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_decoders_agree_with_enumeration(decoder):
    """The best of all legal sequences of the allowed tags, with probabilities by summing over sequences or not."""
    torch.manual_seed(2)
    layer, words = TagLayer(6, len(TAG_SET), decoder), 3
    with torch.no_grad():
        for value in layer.parameters():
            value.copy_(torch.randn_like(value))
    values, mask = torch.randn(1, words, 6), torch.ones(1, words, dtype=torch.bool)
    tagger, _ = given("mtl")
    allowed = torch.tensor([TAG_SET.of("songs")])
    found = layer.decode(values, mask, allowed, tagger.rules.moves())
    usable = [number for number, used in enumerate(TAG_SET.of("songs")) if used]
    scores = layer.scores(values)[0].detach()
    total = {}
    for tags in itertools.product(usable, repeat=words):
        total[tags] = sum(float(scores[word, tag]) for word, tag in enumerate(tags))
        if layer.crf is not None:
            moved = sum(float(layer.crf.transitions[pair].detach()) for pair in itertools.pairwise(tags))
            total[tags] += float((layer.crf.start[tags[0]] + layer.crf.stop[tags[-1]]).detach()) + moved
    legal = [tags for tags in total if not illegal_positions(TAG_SET.from_ids(tags), "bio")]
    best = max(legal, key=total.__getitem__)
    assert tuple(found.tags[0]) == best
    shares = torch.tensor(list(total.values())).softmax(dim=0).tolist()
    for word, tag in enumerate(best):
        share = sum(share for tags, share in zip(total, shares, strict=True) if tags[word] == tag)
        assert found.probabilities[0][word] == pytest.approx(share, abs=1e-5)


def test_without_its_second_task_mtl_is_the_bilstm_crf_beside_which_its_gain_is_measured():
    settings = ("lstm_layers=2", "dropout=0.3")
    tagger, batch = given("mtl", *settings, "entity_weight=0")
    plain, _ = given("bilstm-crf", *settings)
    plain.encoder.load_state_dict(tagger.encoder.state_dict())
    plain.lstm.load_state_dict(tagger.context.bilstm.state_dict())
    plain.tag_layer.load_state_dict(tagger.tag_layer.state_dict())
    losses = []
    for each in (tagger, plain):
        torch.manual_seed(5)  # of the values dropped between the layers
        losses.append(float(sum(each.train().loss(batch).values()).detach()))
    assert losses[0] == pytest.approx(losses[1])
    undropped = float(sum(plain.eval().loss(batch).values()).detach())
    assert losses[1] != pytest.approx(undropped, abs=1e-3), "training drops values"
