"""LANER against a plain reading of its paper: the label LSTM run again for every word."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from builders.tasks import GivenVectors
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from crossner_cli.data.tags import TagSet, illegal_positions
from crossner_cli.encoders.subwords import Batch
from crossner_cli.methods.contract import head_tensors
from crossner_cli.methods.laner import LANER, attend
from crossner_cli.methods.linear import LinearTagger

TAG_SET = TagSet({"news": ("person", "place"), "songs": ("artist", "place")})
ABLATIONS: list[dict[str, bool]] = [
    {"background": background, "context": context} for background in (True, False) for context in (True, False)
]


every_ablation = pytest.mark.parametrize("ablation", ABLATIONS, ids=str)


def make_batch(lengths: list[int], tags: Tensor, domains: tuple[str, ...] | None = None) -> Batch:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    nothing = torch.zeros_like(mask).long()
    return Batch(nothing, None, nothing, mask, tags, domains or ("",) * len(lengths), int(mask.sum()))


def make(
    lengths: list[int], tag_set: TagSet = TAG_SET, width: int = 12, seed: int = 0, **settings: Any
) -> tuple[LANER, Batch]:
    """A random LANER, sharp enough for its attentions to matter, and a batch whose padding holds other numbers."""
    torch.manual_seed(seed)
    encoder: Any = GivenVectors(torch.randn(len(lengths), max(lengths), width))
    tagger = LANER(encoder, tag_set, LANER.Hyperparameters(**{"label_size": 6, "dropout": 0.0, **settings}))
    with torch.no_grad():
        for name, value in tagger.named_parameters():
            if not name.startswith("encoder."):
                value.add_(torch.randn_like(value) * 0.3)
    tags = torch.randint(len(tag_set), (len(lengths), max(lengths)))
    return tagger, make_batch(lengths, tags)


def scores_of(tagger: LANER, batch: Batch, tags: Tensor | None = None) -> Tensor:
    given = batch.tags if tags is None else tags
    assert given is not None
    return tagger._scores(tagger.encoder(batch), batch.word_mask, given)


def naive_bilstm(tagger: LANER) -> Callable[[Tensor], tuple[Tensor, Any]]:
    """The label LSTM as the paper has it: one module of two directions, whose gradients reach the tagger's weights."""
    encoder = tagger.label_encoder
    size = encoder.labels.embedding_dim
    lstm = nn.LSTM(size, size, bidirectional=True)
    own = {
        f"{name}_l0": getattr(encoder.forward_lstm, f"{name}_l0")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    own |= {f"{name}_reverse": getattr(encoder.backward_lstm, name) for name in list(own)}
    return lambda labels: functional_call(lstm, own, labels)


def naive_scores(tagger: LANER, h: Tensor, tags: list[int], memory: int = 10**6) -> Tensor:
    """Scores of the next word of one sentence, (K,), word by word as the paper writes it; h: (W, H)."""
    encoder, parts = tagger.label_encoder, [h[len(tags)]]
    prefix = torch.cat([encoder.start, encoder.labels.weight[torch.tensor(tags, dtype=torch.long)]])  # (labels, d2)
    lstm = naive_bilstm(tagger)
    e = lstm(prefix)[0]
    if len(prefix) > memory:
        half = e.shape[1] // 2
        e = torch.cat([e[-memory:, :half], lstm(prefix[-memory:])[0][:, half:]], dim=1)
    if tagger.hyper.background:
        query = tagger.background_query.weight @ e[-1] + tagger.background_query.bias
        parts.append(torch.softmax(h @ query, 0) @ h)
    if tagger.hyper.context:
        asked = tagger.context_query.weight @ torch.cat(parts) + tagger.context_query.bias
        parts.append(torch.softmax(e @ asked, 0) @ e)
    return tagger.output.weight @ torch.cat(parts) + tagger.output.bias


@pytest.mark.parametrize("memory", [2, 128])
@pytest.mark.parametrize("ablation", ABLATIONS[:3], ids=str)
def test_greedy_decoding_equals_the_naive_one(ablation, memory):
    lengths = [7, 1, 12, 4]
    tagger, batch = make(lengths, legal=False, memory=memory, **ablation)
    with torch.no_grad():
        decoded = tagger.decode(batch)
        for number, length in enumerate(lengths):
            tags: list[int] = []
            probabilities = []
            for _ in range(length):
                scores = naive_scores(tagger, tagger.encoder.vectors[number, :length], tags, memory)
                tags.append(int(scores.argmax()))
                probabilities.append(float(scores.softmax(0).max()))
            assert decoded.tags[number] == tags
            assert decoded.probabilities[number] == pytest.approx(probabilities, abs=1e-5)
    assert len({tag for tags in decoded.tags for tag in tags}) > 3, "the choices must differ to mean anything"


@every_ablation
def test_a_score_depends_on_the_tags_before_and_on_no_other(ablation):
    tagger, batch = make([8], **ablation)
    assert batch.tags is not None
    with torch.no_grad():
        scores = scores_of(tagger, batch)
        for word in range(8):
            later = batch.tags.clone()
            later[:, word:] = (later[:, word:] + 1) % len(TAG_SET)
            changed = (scores_of(tagger, batch, later) - scores).abs().amax(dim=-1)[0]
            assert (changed[: word + 1] == 0).all()
            if word < 7:
                assert (changed[word + 1] > 1e-6) == tagger.reads_labels


def test_attention_is_a_mean_of_the_vectors_that_are_there():
    torch.manual_seed(1)
    asked, vectors = torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    constant = torch.cat([vectors, torch.ones(2, 3, 1)], dim=-1)
    weighed = attend(torch.cat([asked, torch.zeros(2, 4, 1)], dim=-1), constant, mask)
    assert torch.allclose(weighed[..., -1], torch.ones(2, 4)), "weights sum to one"
    assert torch.allclose(attend(asked[:1], vectors[:1], mask[:1]), attend(asked[:1], vectors[:1, :2]))
    shares = torch.softmax(asked[1] @ vectors[1].T, dim=-1)
    assert torch.allclose(attend(asked, vectors, mask)[1], shares @ vectors[1], atol=1e-6)


def test_the_weights_of_the_labels_before_a_word_sum_to_one_and_no_other_has_any():
    tagger, batch = make([6, 4])
    assert batch.tags is not None
    encoder = tagger.label_encoder
    previous = encoder.previous(batch.tags)
    ends, sentences = batch.word_mask.t().nonzero(as_tuple=True)
    with torch.no_grad():
        weights, _ = encoder._attend_backwards(
            torch.randn(10, 6), torch.randn(10, 6), torch.randn(8, 24), previous, sentences, ends
        )
    assert torch.allclose(weights.sum(dim=1), torch.ones(10))
    assert torch.equal(weights > 0, torch.arange(6) <= ends[:, None])


@every_ablation
def test_without_weights_for_what_it_sees_it_is_the_linear_tagger(ablation):
    tagger, batch = make([6, 2], legal=False, **ablation)
    linear = LinearTagger(tagger.encoder, TAG_SET, LinearTagger.Hyperparameters(dropout=0.0, legal=False))
    with torch.no_grad():
        tagger.output.weight[:, 12:] = 0
        linear.classifier.weight.copy_(tagger.output.weight[:, :12])
        linear.classifier.bias.copy_(tagger.output.bias)
        assert float(tagger.loss(batch)["tags"]) == pytest.approx(float(linear.loss(batch)["tags"]), rel=1e-5)
        own, other = tagger.decode(batch), linear.decode(batch)
    assert own.tags == other.tags
    assert own.probabilities[0] == pytest.approx(other.probabilities[0], abs=1e-5)


def test_every_label_that_was_read_learns_the_one_of_outside_too():
    tagger, batch = make([4])
    tagger.loss(make_batch([4], torch.tensor([[0, 3, 0, 5]])))["tags"].backward()
    gradient = tagger.label_encoder.labels.weight.grad
    assert gradient is not None
    assert gradient.any(dim=1).tolist() == [True, False, False, True, False, False, False], "the last tag is not read"
    assert tagger.label_encoder.start.grad is not None and tagger.label_encoder.start.grad.any()


def count(module: nn.Module) -> int:
    return sum(value.numel() for value in module.parameters())


def test_the_parameters_are_as_many_as_the_paper_derives():
    encoder: Any = GivenVectors(torch.zeros(1, 1, 768))
    tag_set = TagSet({"ai": tuple("abcdefghijklmn")})
    tagger = LANER(encoder, tag_set, LANER.Hyperparameters())
    assert len(tag_set) == 29
    assert count(tagger.label_encoder.labels) + tagger.label_encoder.start.numel() == 2_900 + 100
    assert count(tagger.label_encoder.forward_lstm) + count(tagger.label_encoder.backward_lstm) == 161_600
    assert count(tagger.background_query) == 154_368
    assert count(tagger.context_query) == 307_400
    assert count(tagger.output) == 50_373
    assert sum(value.numel() for value in head_tensors(tagger).values()) == 676_741
    own = {name for name, _ in tagger.named_parameters() if not name.startswith("encoder.")}
    assert own == set(head_tensors(tagger)), "no two share a tensor"


@every_ablation
def test_one_sentence_is_learnt_by_heart_tag_by_tag(ablation):
    """Two words have equal vectors and different tags: only what was read before tells them apart."""
    torch.manual_seed(2)
    vectors = torch.randn(1, 6, 12)
    vectors[:, 3] = vectors[:, 2]
    encoder: Any = GivenVectors(vectors)
    encoder.requires_grad_(False)
    tag_set = TagSet({"news": ("person", "place")}, "bioes")
    tagger = LANER(encoder, tag_set, LANER.Hyperparameters(label_size=8, legal=False, **ablation))
    gold = tag_set.to_ids(["O", "S-place", "B-person", "I-person", "E-person", "O"])
    batch = make_batch([6], torch.tensor([gold]))
    optimiser = torch.optim.Adam(tagger.parameters(), lr=0.03)
    for _ in range(80):
        optimiser.zero_grad()
        tagger.loss(batch)["tags"].backward()
        optimiser.step()
    with torch.no_grad():
        found = tagger.eval().decode(batch)
    assert (found.tags == [gold]) == tagger.reads_labels
    if tagger.reads_labels:
        assert min(found.probabilities[0]) > 0.9


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_greedy_decoding_keeps_to_the_scheme_to_the_last_word_and_to_the_domain(scheme):
    tag_set = TagSet({"news": ("person", "place"), "songs": ("artist",)}, scheme)
    found = set()
    for seed in range(12):
        lengths = [1, 2, 3, 9, 5]
        tagger, batch = make(lengths, tag_set, seed=seed)
        batch.domains = ("news", "songs", "elsewhere", "news", "songs")
        with torch.no_grad():
            tagger.output.weight.mul_(4)
            decoded = tagger.decode(batch)
        for tags, probabilities, domain in zip(decoded.tags, decoded.probabilities, batch.domains, strict=True):
            names = tag_set.from_ids(tags)
            assert illegal_positions(names, scheme) == []
            assert all(tag_set.of(domain)[tag] for tag in tags)
            assert all(0 < probability <= 1 for probability in probabilities)
            found |= {name[0] for name in names}
    assert found == set("OBI" if scheme == "bio" else "OBIES")


@pytest.mark.parametrize("memory", [1, 3, 128])
@pytest.mark.parametrize("ablation", ABLATIONS[:3], ids=str)
def test_scores_and_gradients_are_those_of_the_label_lstm_run_again_for_every_word(ablation, memory):
    lengths = [7, 1, 12, 4]
    tagger, batch = make(lengths, memory=memory, **ablation)
    assert batch.tags is not None
    naive, fast = torch.zeros(()), scores_of(tagger, batch)
    for number, length in enumerate(lengths):
        h, tags = tagger.encoder.vectors[number, :length], batch.tags[number, :length]
        scores = torch.stack([naive_scores(tagger, h, tags[:word].tolist(), memory) for word in range(length)])
        assert torch.allclose(fast[number, :length], scores, atol=1e-5)
        naive = naive + functional.cross_entropy(scores, tags, reduction="sum")
    learning = dict(tagger.named_parameters())
    found, expected = (torch.autograd.grad(loss, learning.values()) for loss in (tagger.loss(batch)["tags"], naive))
    for name, own, other in zip(learning, found, expected, strict=True):
        assert torch.allclose(own, other, atol=1e-4), name
