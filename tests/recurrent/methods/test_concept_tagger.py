"""Concept tagger and robust tagger: passes, merge and examples against independent computations."""

import dataclasses
import itertools
from typing import Any

import pytest
import torch
from builders.taggers import decode, some_sentences
from builders.tasks import GivenVectors
from torch import Tensor

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet, illegal_positions
from crossner_cli.encoders.subwords import Batch
from crossner_cli.engine.devices import start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, head_tensors, read_settings
from crossner_cli.options import Finetune
from crossner_cli.recurrent.methods import concept_tagger
from crossner_cli.recurrent.methods.concept_tagger import ConceptTagger
from crossner_cli.recurrent.methods.robust_tagger import RobustTagger, example_words, read_examples
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import collect_vocabulary
from crossner_cli.run.results import CarryOver
from crossner_cli.taggers.carry_over import carry_over
from crossner_cli.taggers.folder import load_tagger, save_tagger

TAG_SET = TagSet({"news": ("person", "place"), "songs": ("song", "place")})  # song has no examples
DOMAINS = ("news", "songs", "elsewhere")
LENGTHS = (7, 2, 4)
SETTINGS = {
    "concept-tagger": ("lstm_size=4", "dropout=0"),
    "robust-tagger": ("lstm_size=4", "dropout=0", "examples=place=Oslo+Lima+Rome"),
}
both = pytest.mark.parametrize("method", SETTINGS)


def given(
    method: str, *settings: str, tag_set: TagSet = TAG_SET, domains: tuple[str, ...] = DOMAINS
) -> tuple[Any, Batch]:
    """A tagger of random weights over given vectors, and three sentences, two of them padded."""
    torch.manual_seed(3)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    allowed = [[number for number, used in enumerate(tag_set.of(domain)) if used] for domain in domains]
    tags = torch.zeros_like(mask, dtype=torch.long)
    for row, usable in enumerate(allowed):
        tags[row, : LENGTHS[row]] = torch.tensor(usable)[torch.randint(len(usable), (LENGTHS[row],))]
    kind = find_method(method)
    encoder: Any = GivenVectors(torch.randn(*mask.shape, 5))
    tagger: Any = kind(encoder, tag_set, read_settings(kind, (*SETTINGS[method], *settings)))
    with torch.no_grad():
        for name, value in tagger.named_parameters():
            value.copy_(torch.randn_like(value) * (6 if "classifier.weight" in name else 0.7))
    return tagger, Batch(torch.zeros(0), None, torch.zeros_like(tags), mask, tags, domains, int(mask.sum()))


def passes_of(tagger: Any, batch: Batch) -> dict[tuple[int, str], Tensor]:
    """Scores of O, B and I at the words of each sentence for each type, (W, 3)."""
    sentences, types, scores = tagger._passes(batch)
    return {
        (sentence, tagger.tag_set.types[place]): scores[number, : LENGTHS[sentence]].detach()
        for number, (sentence, place) in enumerate(zip(sentences.tolist(), types.tolist(), strict=True))
    }


def naive_pass(tagger: Any, batch: Batch, sentence: int, entity_type: str) -> Tensor:
    """One pass over one sentence without padding, word by word as the papers write it, (W, 3)."""
    words = tagger.encoder.vectors[sentence : sentence + 1, : LENGTHS[sentence]]
    h = tagger.context.bilstm.lstm(words)[0][0]
    q = tagger.encoder.describe([entity_type])[0]
    read = []
    for state in h:
        parts = [state, q]
        if isinstance(tagger, RobustTagger):
            listed = example_words(entity_type, read_examples(tagger.hyper.examples))
            x = [tagger.encoder.vector_of(word) for word in listed] or [q]
            shares = torch.stack([(state * tagger.example_weight) @ example for example in x]).softmax(dim=0)
            parts.append(sum(share * example for share, example in zip(shares, x, strict=True)))
        read.append(torch.cat(parts))
    states = tagger.type_lstm.lstm(torch.stack(read)[None])[0][0]
    return (states @ tagger.type_classifier.weight.T + tagger.type_classifier.bias).detach()


def types_of(domain: str, tag_set: TagSet = TAG_SET) -> tuple[str, ...]:
    return tag_set.domains.get(domain, tag_set.types)


@both
def test_each_pass_reads_one_sentence_and_one_type_of_its_domain_and_no_padding(method):
    tagger, batch = given(method)
    found = passes_of(tagger, batch)
    assert set(found) == {(row, name) for row, domain in enumerate(DOMAINS) for name in types_of(domain)}
    for (sentence, entity_type), scores in found.items():
        torch.testing.assert_close(scores, naive_pass(tagger, batch, sentence, entity_type), rtol=1e-4, atol=1e-5)


@both
def test_passes_that_do_not_fit_into_memory_at_once_are_the_same(method, monkeypatch):
    tagger, batch = given(method)

    def gradients() -> dict[str, Tensor]:
        tagger.zero_grad()
        tagger.loss(batch)["tags"].backward()
        return {name: value.grad for name, value in tagger.named_parameters()}

    before, decoded = gradients(), tagger.decode(batch)
    monkeypatch.setattr(concept_tagger, "MOST_READ", 3 * max(LENGTHS) + 1)
    torch.testing.assert_close(gradients(), before, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        again = tagger.decode(batch)
    assert again.tags == decoded.tags
    for first, second in zip(again.probabilities, decoded.probabilities, strict=True):
        assert first == pytest.approx(second, abs=1e-5)


@both
@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_the_loss_is_the_mean_over_the_types_of_the_domain_and_the_sum_over_words(method, scheme):
    tag_set = TagSet(TAG_SET.domains, scheme)
    tagger, batch = given(method, tag_set=tag_set)
    expected = 0.0
    for row, domain in enumerate(DOMAINS):
        gold = tag_set.from_ids(batch.tags[row, : LENGTHS[row]].tolist())
        for name in types_of(domain):
            shares = naive_pass(tagger, batch, row, name).log_softmax(dim=-1)
            for word, tag in enumerate(gold):
                prefix, _, entity_type = tag.partition("-")
                place = {"B": 1, "S": 1, "I": 2, "E": 2}[prefix] if entity_type == name else 0
                expected -= float(shares[word, place]) / len(types_of(domain))
    assert tagger.loss(batch)["tags"].item() == pytest.approx(expected, rel=1e-4)
    assert tagger.units(batch) == {"tags": sum(LENGTHS)}


@both
def test_a_domain_without_types_has_words_outside_of_entities_only(method):
    tag_set = TagSet({"news": ("person",), "none": ()})
    tagger, batch = given(method, tag_set=tag_set, domains=("none", "news", "none"))
    decoded = tagger.decode(batch)
    assert decoded.tags[0] == [0] * 7 and decoded.probabilities[0] == pytest.approx([1] * 7)
    alone, batch = given(method, tag_set=tag_set, domains=("none",) * 3)
    loss = alone.loss(batch)["tags"]
    loss.backward()
    assert loss.item() == 0
    # All that is trained has a gradient of zero: processes wait for each.
    assert all(value.grad is not None and not value.grad.any() for value in alone.parameters() if value.requires_grad)
    empty, batch = given(method, tag_set=TagSet({"none": ()}), domains=("none",) * 3)
    assert empty.decode(batch).tags == [[0] * length for length in LENGTHS]


@pytest.mark.parametrize("text", ["person", "person=", "=a name", "person=a;person=b"])
def test_words_that_describe_no_type_or_are_no_examples_of_one_are_refused(text):
    for method in ("concept-tagger", "robust-tagger", "coach"):
        with pytest.raises(CrossNERError, match="descriptions: .* is not a type with its words") as caught:
            read_settings(find_method(method), [f"descriptions={text}"])
        assert "MISC=nationality or event" in caught.value.hint
    for examples in (text, "language=C++Ada"):
        with pytest.raises(CrossNERError, match="is not a type with its words, or names a type again") as caught:
            read_settings(RobustTagger, [f"examples={examples}"])
        assert "--set" in caught.value.hint
    assert read_examples(r"language=C\+\++Ada;B-c=y=z") == {"language": ("C++", "Ada"), "B-c": ("y=z",)}


def probabilities_of(tagger: Any, batch: Batch, sentence: int) -> list[dict[str, float]]:
    """Of each word's BIO tags: passes are independent, and at most one of them names the word."""
    types = types_of(DOMAINS[sentence])
    shares = torch.stack([naive_pass(tagger, batch, sentence, name).softmax(dim=-1) for name in types]).double()
    found = []
    for word in range(LENGTHS[sentence]):
        weights = {}
        for classes in itertools.product(range(3), repeat=len(types)):
            named = [(name, place) for name, place in zip(types, classes, strict=True) if place]
            if len(named) <= 1:
                tag = f"{'OBI'[named[0][1]]}-{named[0][0]}" if named else "O"
                weights[tag] = float(shares[range(len(types)), word, classes].prod())
        found.append({tag: weight / sum(weights.values()) for tag, weight in weights.items()})
    return found


@both
@pytest.mark.parametrize("legal", [True, False])
def test_decoding_gives_the_best_of_all_sequences(method, legal):
    tagger, batch = given(method, f"legal={legal}")
    decoded = tagger.decode(batch)
    broken = 0
    for row in (1, 2):
        shares = probabilities_of(tagger, batch, row)
        weights = {}
        for tags in itertools.product(shares[0], repeat=LENGTHS[row]):
            if not legal or not illegal_positions(tags, "bio"):
                weights[tags] = torch.tensor([share[tag] for share, tag in zip(shares, tags, strict=True)]).log().sum()
        best = max(weights, key=lambda tags: float(weights[tags]))
        broken += len(illegal_positions(best, "bio"))
        assert tuple(TAG_SET.from_ids(decoded.tags[row])) == best
        chosen = [share[tag] for share, tag in zip(shares, best, strict=True)]
        assert decoded.probabilities[row] == pytest.approx(chosen, abs=1e-5)
    assert legal or broken, "every sequence is legal here: the test means nothing"


# Sizes, settings, folders


def attended(tagger: Any, states: Tensor, entity_type: str) -> Tensor:
    """What the passes of a type read of its examples, (N, W, D)."""
    rows = torch.full((len(states),), 1 + tagger.tag_set.types.index(entity_type))
    return tagger._inputs(states, rows)[..., -tagger.encoder.description_size :].detach()


def test_without_weights_examples_are_averaged_however_many_another_type_has():
    tagger, _ = given("robust-tagger")
    states = torch.randn(2, 7, tagger.example_weight.shape[0])
    before = attended(tagger, states, "place")
    torch.nn.init.zeros_(tagger.example_weight)
    for name, words in {"place": ("Oslo", "Lima", "Rome"), "person": ("Quigley", "Samokhalova")}.items():
        found = attended(tagger, states, name)
        torch.testing.assert_close(found, tagger.encoder.embed_words(words).mean(dim=0).expand_as(found))
    assert not torch.allclose(before, attended(tagger, states, "place"), atol=1e-2)
    # A type without examples has its description for one.
    found = attended(tagger, states, "song")
    torch.testing.assert_close(found, tagger.encoder.describe(["song"]).expand_as(found))


def test_sizes_are_those_of_the_papers():
    tag_set = TagSet({"news": ("PER", "LOC", "ORG", "MISC")})
    encoder: Any = GivenVectors(torch.zeros(1, 1, 300), description_size=300)
    concept = ConceptTagger(encoder, tag_set, ConceptTagger.Hyperparameters())
    robust = RobustTagger(encoder, tag_set, RobustTagger.Hyperparameters())
    for tagger, size, described in ((concept, 200, 300), (robust, 150, 600)):
        first, second = tagger.context.bilstm.lstm, tagger.type_lstm.lstm
        assert (first.input_size, first.hidden_size, first.num_layers) == (300, size, 2)
        assert (second.input_size, second.hidden_size, second.num_layers) == (2 * size + described, size, 1)
        assert tagger.type_classifier.weight.shape == (3, 2 * size)
        assert tagger.hyper.input_dropout == first.dropout == 0.3 and tagger.descriptions.shape == (5, 300)
    assert robust.examples.shape == (5, 2, 300) and robust.is_example[1:].all()
    assert robust.example_weight.shape == (300,) and 0.009 < robust.example_weight.abs().max() <= 0.01


def over_words(method: str, tag_set: TagSet, known: str, seed: int, *settings: str) -> Any:
    torch.manual_seed(seed)
    kind = find_method(method)
    hyper = read_settings(kind, ["lstm_size=4", "word_size=6", "characters=none", *settings])
    sentences = [Sentence(tuple(known.split()))]
    encoder = WordEncoder(collect_vocabulary(sentences, hyper), hyper)
    return kind(encoder, tag_set, hyper).eval()


@both
def test_vectors_of_types_stay_as_they_were_read_when_words_learn_and_taggers_are_saved(method, tmp_path):
    known = "anna person place song Quigley Samokhalova"
    old = over_words(method, TagSet({"news": ("person", "place")}), known, 1)
    with torch.no_grad():
        old.encoder.words.weight.add_(1)  # as training may do
    save_tagger(old, tmp_path)
    again = load_tagger(tmp_path, start_engine(Finetune(device="cpu", precision="fp32", threads=1)))
    sentences = [dataclasses.replace(sentence, domain="news") for sentence in some_sentences(3, longest=6)]
    assert decode(again, sentences) == decode(old, sentences)


every_describing_method = pytest.mark.parametrize("method", ["concept-tagger", "robust-tagger", "coach"])


@every_describing_method
def test_a_type_is_described_by_the_words_that_are_given_or_by_its_name(method):
    known = "anna person name of a place song"
    tag_set = TagSet({"news": ("person", "place")})
    tagger = over_words(method, tag_set, known, 1, "descriptions=person=name of  a person")
    words = tagger.encoder.embed_words
    torch.testing.assert_close(tagger.descriptions[1], words(["name", "of", "a", "person"]).sum(dim=0))
    torch.testing.assert_close(tagger.descriptions[2], words(["place"])[0])
    assert not tagger.descriptions[0].any()
    assert tagger.hyper.described_words(tag_set.types)[:5] == ["name", "of", "a", "person", "place"]


@every_describing_method
def test_types_are_described_again_beside_a_start_and_all_that_is_learnt_carries_over(method, tmp_path):
    known = "anna bach paris oslo rome human town"
    old = over_words(method, TagSet({"news": ("human", "town")}), known, 1, "descriptions=town=paris")
    save_tagger(old, tmp_path)
    new = over_words(method, TagSet({"music": ("town", "human")}), known, 2, "descriptions=human=anna bach")
    own = {name: value.clone() for name, value in head_tensors(new).items()}
    carried = CarryOver("old")
    carry_over(new, tmp_path, carried)
    learnt = {name for name, _ in new.named_parameters() if not name.startswith("encoder.")}
    before = head_tensors(old)
    for name, value in head_tensors(new).items():
        assert torch.equal(value, before[name] if name in learnt else own[name]), name
    assert carried.carried_types == ["town", "human"]


@both
def test_the_vectors_of_words_learn_but_not_by_describing_types(method):
    tagger = over_words(method, TagSet({"news": ("person", "place")}), "anna person place Quigley Samokhalova", 1)
    reader = tagger.encoder.reader
    gold = [Sentence(("anna", "Oslo"), ("B-person", "O"), "news")]
    tagger.loss(reader.collate(reader.encode(gold, tagger.tag_set)))["tags"].backward()
    learnt = tagger.encoder.words.weight.grad.any(dim=1).tolist()
    assert dict(zip(tagger.encoder.vocabulary.words, learnt, strict=True)) == {
        word: word == "anna" for word in tagger.encoder.vocabulary.words
    }
