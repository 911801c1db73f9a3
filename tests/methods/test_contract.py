"""The contract of every method: a new file in ``methods/`` is held to it without a word here."""

import copy
import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch
from builders.taggers import (
    TAG_SET,
    WORDS,
    batch_of,
    copy_in_another_order,
    decode,
    every_method,
    make_tagger,
    some_sentences,
)
from torch import Tensor

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet, illegal_positions
from crossner_cli.encoders.subwords import Batch
from crossner_cli.errors import CrossNERError
from crossner_cli.evaluation.scores import score
from crossner_cli.layers.randomness import Dropout
from crossner_cli.methods.contract import (
    Tagger,
    find_method,
    gives_distributions,
    head_tensors,
    method_names,
    read_settings,
)
from crossner_cli.methods.linear import LinearTagger


def loss_of(tagger: Tagger, sentences: list[Sentence]) -> dict[str, float]:
    with torch.no_grad():
        return {name: float(value) for name, value in tagger.loss(batch_of(tagger, sentences)).items()}


every_variant = pytest.mark.parametrize(
    ("method", "settings"),
    [
        *((name, ()) for name in method_names()),
        ("concept-tagger", ("lstm_layers=0",)),
        ("laner", ("background=false",)),
        ("laner", ("context=false",)),
        ("moee", ("lstm_layers=0", "decoder=softmax")),
        ("multi-task-lstm", ("adversary=grad",)),
        ("multi-task-lstm", ("adversary=dann",)),
    ],
)


def with_more_padding(batch: Batch, places: int = 5) -> Batch:
    """The same batch with more columns, filled with what must not be read."""
    rows, subwords = batch.input_ids.shape
    attention = torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
    row, column = batch.word_places // subwords, batch.word_places % subwords
    pad = torch.nn.functional.pad
    return Batch(
        input_ids=pad(batch.input_ids, (0, places), value=1),
        attention_mask=pad(attention, (0, places)),
        word_places=pad(row * (subwords + places) + column, (0, places)),
        word_mask=pad(batch.word_mask, (0, places)),
        tags=None if batch.tags is None else pad(batch.tags, (0, places), value=1),
        domains=batch.domains,
        words=batch.words,
        word_ids=None if batch.word_ids is None else pad(batch.word_ids, (0, places), value=1),
        characters=None if batch.characters is None else pad(batch.characters, (0, 2, 0, places), value=1),
        character_mask=None if batch.character_mask is None else pad(batch.character_mask, (0, 2, 0, places)),
    )


@every_variant
def test_padding_changes_nothing(tiny_encoder_folder, method, settings):
    tagger = make_tagger(tiny_encoder_folder, method, TAG_SET, *settings)
    batch = batch_of(tagger, some_sentences(5))
    padded = with_more_padding(batch)
    with torch.no_grad():
        plain, more = tagger.decode(batch), tagger.decode(padded)
        losses, more_losses = tagger.loss(batch), tagger.loss(padded)
    assert plain.tags == more.tags
    for first, second in zip(plain.probabilities, more.probabilities, strict=True):
        assert first == pytest.approx(second, abs=1e-5)
    assert {name: float(value) for name, value in losses.items()} == pytest.approx(
        {name: float(value) for name, value in more_losses.items()}, rel=1e-5
    )
    assert tagger.units(batch) == tagger.units(padded)


@every_method
def test_neither_the_order_nor_the_company_of_a_sentence_matters(tiny_encoder_folder, method):
    tagger, sentences = make_tagger(tiny_encoder_folder, method), some_sentences(6)
    together, backwards = decode(tagger, sentences), decode(tagger, sentences[::-1])
    assert together.tags == backwards.tags[::-1]
    for number, sentence in enumerate(sentences):
        alone = decode(tagger, [sentence])
        assert alone.tags[0] == together.tags[number]
        assert alone.probabilities[0] == pytest.approx(together.probabilities[number], abs=1e-5)
    apart = [loss_of(tagger, [sentence]) for sentence in sentences]
    for name, value in loss_of(tagger, sentences).items():
        assert value == pytest.approx(sum(losses.get(name, 0.0) for losses in apart), rel=1e-4)


@every_method
def test_what_a_tagger_shows_of_its_inside_is_shares_that_neither_padding_nor_gold_tags_change(
    tiny_encoder_folder, method
):
    tagger, sentences = make_tagger(tiny_encoder_folder, method), some_sentences(5, longest=9)
    batch = batch_of(tagger, sentences)
    assert batch.tags is not None
    retagged = dataclasses.replace(batch, tags=(batch.tags + 1) % len(TAG_SET))
    padded = with_more_padding(batch)
    for show in (tagger.explain, tagger.hidden_states):
        with torch.no_grad():
            shown = [show(each) for each in (batch, padded, retagged)]
        assert shown[0].keys() == shown[1].keys() == shown[2].keys()
        for name in shown[0]:
            found = [each[name] if isinstance(each[name], Tensor) else each[name][0] for each in shown]
            values, wider, again = found
            assert values.shape[:2] == batch.word_mask.shape and torch.equal(values, again)
            if show == tagger.explain:
                assert (values >= 0).all()
                assert torch.allclose(values.sum(dim=-1)[batch.word_mask], torch.ones(batch.words), atol=1e-5)
            wider = wider[:, : values.shape[1], : values.shape[2]][batch.word_mask]
            assert torch.allclose(values[batch.word_mask], wider, atol=1e-5)


@every_variant
def test_each_tensor_tells_which_of_its_dimensions_count_tags_or_types(tiny_encoder_folder, method, settings):
    """Shapes with another number of types differ exactly where ``rows`` says so."""
    few_types = TagSet({"news": ("person",), "songs": ("place",)})
    few = head_tensors(make_tagger(tiny_encoder_folder, method, few_types, *settings))
    tagger = make_tagger(tiny_encoder_folder, method, TAG_SET, *settings)
    assert {*tagger.rows.tags, *tagger.rows.types}, "no rows of tags would carry over to another tag set"
    for name, value in head_tensors(tagger).items():
        sizes = enumerate(zip(few[name].shape, value.shape, strict=True))
        counting = {place: pair for place, pair in sizes if pair[0] != pair[1]}
        by_tag = dict.fromkeys(tagger.rows.tags.get(name, ()), (5, 7))
        assert counting == by_tag | dict.fromkeys(tagger.rows.types.get(name, ()), (3, 4)), name


@every_variant
def test_types_in_another_order_change_nothing_where_their_rows_go_along(tiny_encoder_folder, method, settings):
    union = TagSet({"news": TAG_SET.types})
    other = TagSet({"news": ("place", "artist", "person")})
    old, new = (make_tagger(tiny_encoder_folder, method, tag_set, *settings) for tag_set in (union, other))
    sentences = [dataclasses.replace(sentence, domain="news") for sentence in some_sentences(4, longest=8)]
    batch = batch_of(old, sentences)
    moved = copy_in_another_order(old, new, batch)
    with torch.no_grad():
        losses, others = old.loss(batch), new.loss(moved)
        before, after = old.decode(batch), new.decode(moved)
    for term, value in losses.items():
        torch.testing.assert_close(value, others[term], rtol=1e-5, atol=1e-4)
    assert [other.from_ids(ids) for ids in after.tags] == [union.from_ids(ids) for ids in before.tags]


@every_variant
def test_mixed_precision_stops_at_the_encoder(tiny_encoder_folder, method, settings):
    tagger, sentences = make_tagger(tiny_encoder_folder, method, TAG_SET, *settings), some_sentences(10)
    batch = batch_of(tagger, sentences)
    with torch.no_grad():
        plain = tagger.decode(batch)
        with torch.autocast("cpu", torch.bfloat16):
            mixed, losses = tagger.decode(batch), tagger.loss(batch)
    assert all(value.dtype == torch.float32 for value in losses.values())
    pairs = [pair for rows in zip(plain.tags, mixed.tags, strict=True) for pair in zip(*rows, strict=True)]
    assert sum(first == second for first, second in pairs) / len(pairs) > 0.9
    assert all(math.isfinite(value) and value <= 1 for row in mixed.probabilities for value in row)
    if method in {"bartner", "linear", "crf", "multi-cell-lstm"}:  # their products are rounded
        return
    with torch.no_grad():
        vectors = tagger.encoder(batch)
    tagger.encoder.forward = lambda batch: vectors
    found = []
    for is_mixed in (True, False):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            terms = tagger.loss(batch)
            if method == "cross-domain-lm":  # types are told in the precision that is set
                terms = {name: value for name, value in terms.items() if not name.startswith("entity")}
            found.append((terms, tagger.decode(batch)))
    assert found[0] == found[1], "what stands above the encoder is computed in full precision"


@every_method
def test_five_thousand_words_or_odd_ones_each_get_a_tag_and_a_probability(tiny_encoder_folder, method):
    tagger = make_tagger(tiny_encoder_folder, method)
    long = Sentence(tuple(np.random.default_rng(2).choice(WORDS, 5000)), ("O",) * 5000, "news")
    odd = Sentence(("the", "\u200b", "x" * 100, ""), None, "news")
    for sentences in ([long, *some_sentences(2)], [odd, *some_sentences(6), *some_sentences(1, longest=1)]):
        decoded = decode(tagger, sentences)
        for sentence, tags, probabilities in zip(sentences, decoded.tags, decoded.probabilities, strict=True):
            assert len(tags) == len(probabilities) == len(sentence.words)
            assert all(isinstance(tag, int) and 0 <= tag < len(TAG_SET) for tag in tags)
            assert all(0 < probability <= 1 for probability in probabilities)
    batch = batch_of(tagger, [long])
    units = tagger.units(batch)
    assert all(value.isfinite() and (value > 0 or not units[name]) for name, value in tagger.loss(batch).items())


@every_method
def test_decoding_never_reads_gold_tags(tiny_encoder_folder, method):
    tagger, sentences = make_tagger(tiny_encoder_folder, method), some_sentences(4)
    batch = batch_of(tagger, sentences)
    assert batch.tags is not None
    others = dataclasses.replace(batch, tags=(batch.tags + 1) % len(TAG_SET))
    with torch.no_grad():
        assert tagger.decode(batch) == tagger.decode(others) == tagger.decode(dataclasses.replace(batch, tags=None))


@every_method
def test_five_sentences_are_learnt_by_heart(tiny_encoder_folder, method):
    # A score of so small a decoder is noise where a third of all values is dropped.
    tagger = make_tagger(tiny_encoder_folder, method, TAG_SET, *(["dropout=0"] if method == "bartner" else [])).train()
    gold = [
        Sentence(("anna", "visited", "london", "of", "paris"), ("B-person", "O", "B-place", "O", "B-place"), "news"),
        Sentence(("acme", "x-ray", "anna", "anna"), ("B-artist", "I-artist", "B-artist", "O"), "songs"),
        Sentence(("the",) * 5, ("O", "B-person", "B-person", "I-person", "O"), "news"),
        Sentence(("x-ray", "of", "visited"), ("O", "O", "O"), "songs"),
        Sentence(("paris", "x-ray"), ("B-place", "I-place"), "news"),
    ]
    batch = batch_of(tagger, gold)
    optimiser = torch.optim.AdamW(tagger.parameters(), lr=2e-2 if tagger.encoder_class.reads == "words" else 5e-3)
    for _ in range(300):
        terms, units = tagger(batch), tagger.units(batch)
        shares = {name: value / units[name] for name, value in terms.items()}
        optimiser.zero_grad()
        torch.stack(list(shares.values())).sum().backward()
        optimiser.step()
        if sum(value.item() for name, value in shares.items() if not name.startswith("language")) < 0.01:
            break
    found = [TAG_SET.from_ids(ids) for ids in decode(tagger.eval(), gold).tags]
    assert score([sentence.tags or () for sentence in gold], found, mode="conll").f1 == 100
    assert found == [list(sentence.tags or ()) for sentence in gold]


@every_method
def test_the_same_seed_gives_the_very_same_losses_and_another_one_others(tiny_encoder_folder, method):
    begun = make_tagger(tiny_encoder_folder, method).train()

    def losses(seed):
        tagger = copy.deepcopy(begun)
        optimiser, found = torch.optim.AdamW(tagger.parameters(), lr=1e-3), []
        torch.manual_seed(seed)  # of what is dropped, hidden and drawn
        for update in range(4):
            terms = tagger(batch_of(tagger, some_sentences(5, seed=update)))
            optimiser.zero_grad()
            torch.stack(list(terms.values())).sum().backward()
            optimiser.step()
            found.append({name: value.item() for name, value in terms.items()})
        return found

    assert losses(1) == losses(1) != losses(2)


def dropout_settings(kind: type[Tagger]) -> list[str]:
    """Names of the settings that are shares of values dropped."""
    hyper: Any = read_settings(kind, [])
    return [field.name for field in dataclasses.fields(hyper) if field.name.endswith("dropout")]


@every_method
def test_wherever_a_setting_drops_values_training_misses_them_and_evaluation_does_not(tiny_encoder_folder, method):
    names = dropout_settings(find_method(method))
    for name in names:
        rates = [f"{other}={0.5 if other == name else 0}" for other in names]
        tagger = make_tagger(tiny_encoder_folder, method, TAG_SET, *rates)
        batch = batch_of(tagger, some_sentences(5))
        places = {place: module for place, module in tagger.named_modules() if isinstance(module, Dropout) and module.p}
        assert places, name
        for module in places.values():
            module.p = 0
        for place, module in places.items():
            found = []
            for rate in (0.9, 0):
                module.p = rate
                torch.manual_seed(1)
                losses = [tagger.train(training).loss(batch) for training in (True, False)]
                found.append([{name: float(value.detach()) for name, value in terms.items()} for terms in losses])
            (dropped, evaluated), (whole, again) = found
            assert dropped != whole and evaluated == again, (name, place)


@every_method
def test_the_loss_reaches_every_trainable_parameter(tiny_encoder_folder, method):
    tagger = make_tagger(tiny_encoder_folder, method).train()
    losses = tagger.loss(batch_of(tagger, some_sentences(4)))
    torch.stack(list(losses.values())).sum().backward()
    unreached = [name for name, value in tagger.named_parameters() if value.grad is None or not value.grad.any()]
    # Keys see their bias only as a constant, which a softmax does not change.
    assert [name for name in unreached if not name.endswith(("key.bias", "k_proj.bias"))] == []


@every_method
def test_each_loss_term_has_its_units_and_is_a_sum_over_them(tiny_encoder_folder, method):
    tagger, sentences = make_tagger(tiny_encoder_folder, method), some_sentences(3)
    once, twice = batch_of(tagger, sentences), batch_of(tagger, sentences * 2)
    losses, doubled = tagger.loss(once), tagger.loss(twice)
    assert list(losses) == list(doubled) == list(tagger.units(once))
    for name, value in losses.items():
        assert value.dim() == 0 and value > 0
        assert float(doubled[name].detach()) == pytest.approx(2 * float(value.detach()), rel=1e-4)
        assert tagger.units(twice)[name] == 2 * tagger.units(once)[name] > 0
    assert tagger(once).keys() == losses.keys()


@every_method
def test_only_tags_of_the_domain_are_decoded(tiny_encoder_folder, method):
    found = set()
    sentences = [
        dataclasses.replace(sentence, domain=domain)
        for sentence in some_sentences(20)
        for domain in ("news", "songs", "elsewhere")
    ]
    for seed in range(8):
        decoded = decode(make_tagger(tiny_encoder_folder, method, seed=seed), sentences)
        for sentence, tags, probabilities in zip(sentences, decoded.tags, decoded.probabilities, strict=True):
            allowed = TAG_SET.of(sentence.domain)
            assert all(allowed[tag] for tag in tags)
            assert all(probability > 0 for probability in probabilities)
            found |= {(sentence.domain, TAG_SET.tags[tag]) for tag in tags}
    assert {tag for domain, tag in found if domain == "elsewhere"} >= {"B-artist", "B-person"}


@every_method
def test_words_of_a_domain_without_types_are_outside_for_certain(tiny_encoder_folder, method):
    tagger = make_tagger(tiny_encoder_folder, method, TagSet({"news": ()}))
    decoded = decode(tagger, [Sentence(("anna", "of"), None, "news")])
    assert decoded.tags == [[0, 0]]
    assert decoded.probabilities[0] == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@pytest.mark.parametrize("method", method_names())
def test_only_sequences_that_the_scheme_allows_are_given(tiny_encoder_folder, method, scheme):
    tag_set = TagSet({"news": ("person", "place")}, scheme)
    sentences = [
        Sentence(tuple(["anna", "visited", "london", "of", "acme"][:length]), None, "news") for length in range(1, 6)
    ]

    def illegal(legal: str, seed: int) -> int:
        tagger = make_tagger(tiny_encoder_folder, method, tag_set, f"legal={legal}", seed=seed)
        given = decode(tagger, sentences).tags
        return sum(len(illegal_positions(tag_set.from_ids(tags), scheme)) for tags in given)

    if "legal" not in {field.name for field in dataclasses.fields(find_method(method).Hyperparameters)}:
        given = [decode(make_tagger(tiny_encoder_folder, method, tag_set, seed=seed), sentences) for seed in range(20)]
        found = [tag_set.from_ids(tags) for decoded in given for tags in decoded.tags]
        assert not any(illegal_positions(tags, scheme) for tags in found)
        assert any(tag != "O" for tags in found for tag in tags), "or the test means nothing"
        return
    assert not any(illegal("true", seed) for seed in range(5))
    assert any(illegal("false", seed) for seed in range(80)), "or the test means nothing"


def test_a_linear_tagger_learns_the_distribution_of_a_teacher_where_there_is_one(tiny_encoder_folder):
    tag_set = TagSet({"news": ("person",)})
    tagger = make_tagger(tiny_encoder_folder, "linear", tag_set)
    soft = ({"B-person": 0.7, "O": 0.2, "B-unknown": 0.1}, {"O": 1.0}, {})
    taught = Sentence(("anna", "visited", "london"), ("B-person", "O", "O"), "news", soft)
    hard = Sentence(("anna", "of"), ("B-person", "O"), "news")
    batch = batch_of(tagger, [taught, hard])
    with torch.no_grad():
        logs = tagger.scores(batch).log_softmax(-1)
        found = float(tagger.loss(batch)["tags"])
    number = {name: place for place, name in enumerate(tag_set.tags)}
    person, outside = number["B-person"], number["O"]
    of_taught = (0.7 * logs[0, 0, person] + 0.2 * logs[0, 0, outside]) / 0.9 + logs[0, 1, outside] + logs[0, 2, outside]
    assert found == pytest.approx(-float(of_taught + logs[1, 0, person] + logs[1, 1, outside]), rel=1e-5)
    assert batch_of(tagger, [hard]).soft is None
    certain = Sentence(hard.words, hard.tags, "news", ({"B-person": 1.0}, {"O": 1.0}))
    assert loss_of(tagger, [certain]) == pytest.approx(loss_of(tagger, [hard]))


class Configurable(LinearTagger):
    """A method with a setting of each kind."""

    @dataclass(frozen=True)
    class Hyperparameters:
        """One of each."""

        dropout: float = 0.1
        layers: int = 2
        use_memory: bool = False
        reading: Literal["first", "mean"] = "first"
        note: str = ""


def test_settings_are_converted_by_the_types_of_their_fields():
    given = ["dropout=0.5", "layers = 3", "use-memory=Yes", "reading=mean", "note=a=b"]
    assert read_settings(Configurable, given) == Configurable.Hyperparameters(0.5, 3, True, "mean", "a=b")
    assert read_settings(Configurable, ["use_memory=0", "dropout=1e-1"]) == Configurable.Hyperparameters()
    assert read_settings(Configurable, ["layers=3", "layers=4"]).layers == 4
    assert read_settings(Configurable, ["note=café 名"]).note == "café 名"


@pytest.mark.parametrize(
    ("setting", "problem", "hint"),
    [
        ("layers=2.5", "--set 'layers=2.5': expected int, got '2.5'.", "key=value"),
        ("reading=last", "--set 'reading=last': expected first or mean, got 'last'.", "key=value"),
        ("dropout", "--set 'dropout': expected float, got ''.", "key=value"),
        ("heads=2", "this method has no setting", "dropout=0.1, layers=2, use_memory=False"),
        ("", "this method has no setting", "dropout=0.1, layers=2, use_memory=False"),
    ],
)
def test_a_setting_that_cannot_be_read_is_refused(setting, problem, hint):
    with pytest.raises(CrossNERError) as caught:
        read_settings(Configurable, [setting])
    assert problem in caught.value.problem and hint in caught.value.hint


@pytest.mark.parametrize(
    ("method", "setting", "told"),
    [
        *((name, "dropout=1", "is not in [0, 1)") for name in method_names()),
        *((name, "dropout=nan", "is not in [0, 1)") for name in method_names()),
        ("coach", "lstm_layers=0", "lstm_layers"),
        ("coach", "words=none", "type descriptions need vectors of words"),
        ("concept-tagger", "lstm_layers=-1", "lstm_layers"),
        ("cross-domain-lm", "tasks=target-ner,ner", "'ner' is not a task"),
        ("cross-domain-lm", "tasks=target-ner,target-ner", "'target-ner' is named twice"),
        ("cross-domain-lm", "tasks=target-lm", "no tags are learnt"),
        ("cross-domain-lm", "words=none", "without words there is nothing to predict"),
        ("cross-domain-lm", "negatives=0", "negatives=0"),
        ("cross-domain-lm", "target_weight=inf", "target_weight"),
        ("cross-domain-lm", "lstm_layers=2 generator=domain", "lstm_layers=2 needs generator=none"),
        ("laner", "memory=0", "memory"),
        ("moee", "gate_weight=-0.5", "gate_weight"),
        ("multi-cell-lstm", "attention=other", "shared or domain"),
        ("multi-cell-lstm", "tasks=source-ner,target-lm words=none", "without words there is nothing to predict"),
        ("multi-task-lstm", "tasks=source-ner,target-lm", "nothing reads raw text"),
        ("multi-task-lstm", "tasks=target-ner,target-lm adversary=dann", "of one domain alone there is nothing"),
        ("robust-tagger", "lstm_layers=0", "lstm_layers"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_any_work(method, setting, told):
    if setting.startswith("dropout") and "dropout" not in dropout_settings(find_method(method)):
        pytest.skip("this method has no dropout")
    with pytest.raises(CrossNERError) as caught:
        read_settings(find_method(method), setting.split())
    assert told in caught.value.problem and caught.value.hint


def test_methods_are_found_by_file_name():
    assert {"linear", "crf"} <= set(method_names())
    assert method_names() == sorted(method_names())
    assert find_method("linear") is LinearTagger
    for name in ("nope", "", "Linear", "__init__", "../linear", "linear.py"):
        with pytest.raises(CrossNERError, match="There is no method") as caught:
            find_method(name)
        assert ", ".join(method_names()) in caught.value.hint


@pytest.mark.parametrize("method", ["linear", "crf"])
def test_a_probability_is_that_among_the_tags_of_the_domain(tiny_encoder_folder, method):
    tagger: Any = make_tagger(tiny_encoder_folder, method)
    sentences = [sentence for sentence in some_sentences(6) if sentence.domain == "news"]
    found = decode(tagger, sentences)
    with torch.no_grad():
        tagger.classifier.bias[~torch.tensor(TAG_SET.of("news"))] = -1e4
    expected = decode(tagger, sentences)
    assert found.tags == expected.tags
    for own, other in zip(found.probabilities, expected.probabilities, strict=True):
        assert own == pytest.approx(other, abs=1e-4)


def test_some_methods_give_the_probability_of_every_tag_among_those_of_the_domain(tiny_encoder_folder: Any) -> None:
    teachers = [name for name in method_names() if gives_distributions(find_method(name))]
    assert teachers == ["bilstm-crf", "crf", "cross-domain-lm", "linear", "multi-cell-lstm", "multi-task-lstm"]
    sentences = some_sentences(6)
    for name in teachers:
        tagger = make_tagger(tiny_encoder_folder, name)
        batch, decoded = batch_of(tagger, sentences, with_tags=False), decode(tagger, sentences)
        with torch.no_grad():
            found = tagger.distributions(batch)
        for row, sentence, tags, probabilities in zip(found, sentences, *decoded, strict=True):
            of_words = row[: len(sentence.words)]
            assert torch.allclose(of_words.sum(-1), torch.ones(len(sentence.words)), atol=1e-4)
            assert of_words[:, ~torch.tensor(TAG_SET.of(sentence.domain))].max() < 1e-6
            picked = of_words.gather(1, torch.tensor(tags)[:, None])[:, 0]
            assert picked.tolist() == pytest.approx(probabilities, abs=1e-5)
