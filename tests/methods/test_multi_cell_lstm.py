"""The multi-cell LSTM: which domain runs which cells, and what each loss reads and reaches."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.taggers import TAG_SET, batch_of, copy_in_another_order, make_tagger, some_sentences
from torch import Tensor

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import UNLABELLED, Batch
from crossner_cli.errors import CrossNERError
from crossner_cli.layers.language_model import language_model_loss
from crossner_cli.methods.contract import find_method, head_tensors, read_settings
from crossner_cli.methods.multi_cell_lstm import MultiCellTagger

NEWS, SONGS = 0, 1
SAME = TagSet({"news": ("person", "place"), "songs": ("place", "person")})
ONE = TagSet({"news": ("person", "place")})
LM = "tasks=source-ner,target-lm"


def make(folder: Path, *settings: str, tag_set: TagSet = TAG_SET) -> MultiCellTagger:
    tagger = make_tagger(folder, "multi-cell-lstm", tag_set, "characters=none", *settings)
    assert isinstance(tagger, MultiCellTagger)
    return tagger


def of_domain(tagger: MultiCellTagger, domain: str, count: int = 3) -> Batch:
    sentences = [sentence for sentence in some_sentences(2 * count, longest=8) if sentence.domain == domain]
    return batch_of(tagger, sentences)


def raw(batch: Batch, tags: Tensor | None = None) -> Batch:
    return dataclasses.replace(batch, is_raw=True, tags=tags)


def learn(tagger: MultiCellTagger, batch: Batch, *terms: str) -> set[str]:
    """What gets a gradient from the loss, or from some of its terms; what does not, gets exactly none."""
    tagger.zero_grad()
    losses = tagger.loss(batch)
    torch.stack([losses[name] for name in terms or losses]).sum().backward()
    return {name for name, value in tagger.named_parameters() if value.grad is not None and value.grad.any()}


def states_of(tagger: MultiCellTagger, batch: Batch, domain: int) -> Any:
    with torch.no_grad():
        return tagger.states(tagger.encoder(batch), batch.word_mask, domain)


def test_a_domain_runs_the_cells_of_its_types_and_no_others(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder)
    assert TAG_SET.types == ("person", "place", "artist")
    assert tagger.cells_of(NEWS).tolist() == [0, 1, 2]
    assert tagger.cells_of(SONGS).tolist() == [0, 2, 3]
    for domain, outside, inside in (("news", 3, [0, 1, 2]), ("songs", 1, [0, 2, 3])):
        learn(tagger, of_domain(tagger, domain))
        for value in map(tagger.get_parameter, tagger.rows.types):
            assert value.grad is not None
            assert not value.grad[outside].any() and all(value.grad[cell].any() for cell in inside)


@pytest.mark.parametrize(
    ("tasks", "news", "songs"),
    [
        ("source-ner", [0, 2], [0, 2, 3]),
        ("source-ner,target-lm", [0, 2], [0, 2, 3]),
        ("target-ner", [0, 1, 2], [0, 2]),
        ("target-ner,source-ner", [0, 1, 2], [0, 2, 3]),
    ],
)
def test_types_of_which_no_label_is_learnt_run_no_cells(tiny_encoder_folder, tasks, news, songs):
    tagger = make(tiny_encoder_folder, f"tasks={tasks}").eval()
    assert (tagger.cells_of(NEWS).tolist(), tagger.cells_of(SONGS).tolist()) == (news, songs)
    batch = of_domain(tagger, "news")
    person = TAG_SET.types.index("person") + 1
    tagger.type_of_tag.fill_(person)  # whatever tag a word is given
    with torch.no_grad():
        cells = tagger.hidden_states(batch)["cells"]
        states = states_of(tagger, batch, NEWS)
    place = news.index(person if person in news else 0)  # O's, where it has none
    expected = states.in_words(states.cells)[..., place, :].flatten(2)
    assert torch.equal(cells[batch.word_mask], expected[batch.word_mask])


def test_names_of_types_of_which_no_label_is_learnt_teach_nothing(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, LM)
    batch = of_domain(tagger, "news")

    def taught(tag: str) -> set[str]:
        number = TAG_SET.tags.index(tag)
        return learn(tagger, raw(batch, torch.full_like(batch.word_mask, number, dtype=torch.long)), "entity target")

    assert taught("B-place") and not taught("B-person")


def test_attention_is_shared_out_among_the_cells_of_the_domain(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder)
    batch = of_domain(tagger, "news")
    attention = states_of(tagger, batch, NEWS).attention[batch.word_mask].softmax(dim=-1)
    assert attention.shape == (batch.words, 2, 3)
    torch.testing.assert_close(attention.sum(dim=-1), torch.ones(batch.words, 2))


def test_a_tag_set_of_one_domain_runs_every_cell(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, tag_set=ONE)
    assert tagger.cells_of(NEWS).tolist() == tagger.cells_of(SONGS).tolist() == [0, 1, 2]
    assert learn(tagger, of_domain(tagger, "news")) >= {"lstm.type_gate", "tag_layers.0.crf.transitions"}


def test_an_unknown_domain_is_read_as_the_target(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, "attention=domain")
    batch = of_domain(tagger, "news")
    elsewhere = dataclasses.replace(batch, domains=("elsewhere",) * len(batch))
    for name, value in tagger.loss(batch).items():
        assert torch.equal(value, tagger.loss(elsewhere)[name])


def test_both_domains_read_a_sentence_alike_where_types_and_attention_are_the_same(tiny_encoder_folder):
    for settings, is_same in (((), True), (("attention=domain",), False)):
        tagger = make(tiny_encoder_folder, *settings, tag_set=SAME)
        batch = of_domain(tagger, "news")
        one, other = states_of(tagger, batch, NEWS), states_of(tagger, batch, SONGS)
        assert torch.equal(one.hidden, other.hidden) == is_same
        assert torch.equal(one.attention, other.attention) == is_same


def test_domains_share_a_crf_where_they_share_all_types_unless_told_otherwise(tiny_encoder_folder):
    count = {
        (tag_set, crf): len(make(tiny_encoder_folder, f"crf={crf}", tag_set=tags).tag_layers)
        for tag_set, tags in (("same", SAME), ("other", TAG_SET))
        for crf in ("auto", "shared", "domain")
    }
    assert count == {
        ("same", "auto"): 1,
        ("same", "shared"): 1,
        ("same", "domain"): 2,
        ("other", "auto"): 2,
        ("other", "shared"): 1,
        ("other", "domain"): 2,
    }


def test_a_domain_with_attention_of_its_own_leaves_that_of_the_other_alone(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, "attention=domain")
    learn(tagger, of_domain(tagger, "songs"))
    for value in (tagger.lstm.query, tagger.lstm.key, tagger.lstm.score):
        assert value.grad is not None and value.grad[SONGS].any() and not value.grad[NEWS].any()


def test_entity_prediction_lets_each_cell_score_its_own_type(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder)
    batch = of_domain(tagger, "songs")
    states = states_of(tagger, batch, SONGS)
    with torch.no_grad():
        found = tagger.entity_scores(states, SONGS)
    cells = states.in_words(states.cells)  # (B, W, 2, l, H)
    for place, cell in enumerate(tagger.cells_of(SONGS).tolist()):
        both = cells[:, :, :, place].flatten(2)
        expected = both @ tagger.type_score.weight[cell] + tagger.type_score.bias[cell]
        torch.testing.assert_close(found[..., place][batch.word_mask], expected[batch.word_mask])


def test_the_type_losses_are_cross_entropies_of_types_without_prefix(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder)
    batch = of_domain(tagger, "songs")
    assert batch.tags is not None
    losses, states = tagger.loss(batch), states_of(tagger, batch, SONGS)
    place = {"O": 0, "place": 1, "artist": 2}
    gold = torch.tensor([place[TAG_SET.tags[tag].split("-")[-1]] for tag in batch.tags[batch.word_mask].tolist()])
    for name, scores in (
        ("entity", tagger.entity_scores(states, SONGS)),
        ("attention", (states.attention[:, :, 0] + states.attention[:, :, 1]) / 2),
    ):
        chosen = scores[batch.word_mask].softmax(dim=-1)[torch.arange(batch.words), gold]
        torch.testing.assert_close(losses[f"{name} source"], -chosen.log().sum())


def test_the_attention_loss_can_vanish_which_a_second_softmax_would_forbid(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder)
    scores, mask = torch.tensor([[[[50.0, 0, 0], [30.0, 0, 0]]]]), torch.ones(1, 1, dtype=torch.bool)
    states = states_of(tagger, of_domain(tagger, "news"), NEWS)._replace(attention=scores)
    loss = tagger._type_loss(tagger.attention_scores(states, NEWS), torch.zeros(1, 1).long(), mask, NEWS)
    assert loss < 1e-9
    twice = torch.nn.functional.cross_entropy(scores.softmax(dim=-1).mean(dim=2)[0], torch.zeros(1).long())
    assert float(twice) == pytest.approx(math.log(math.e + 2) - 1)


def test_types_in_another_order_change_nothing_where_cells_and_tags_go_along(tiny_encoder_folder):
    other = TagSet({"news": ("place", "artist", "person")})
    union = TagSet({"news": TAG_SET.types})
    old, new = make(tiny_encoder_folder, tag_set=union), make(tiny_encoder_folder, tag_set=other)
    batch = of_domain(old, "news")
    moved = copy_in_another_order(old, new, batch)
    types = [0, *(1 + union.types.index(entity_type) for entity_type in other.types)]
    for term, value in old.loss(batch).items():
        torch.testing.assert_close(value, new.loss(moved)[term], rtol=1e-5, atol=1e-4)
    one, two = states_of(old, batch, NEWS), states_of(new, moved, NEWS)
    torch.testing.assert_close(one.attention[..., types], two.attention)
    torch.testing.assert_close(one.hidden, two.hidden)
    before, after = old.decode(batch), new.decode(moved)
    assert [other.from_ids(ids) for ids in after.tags] == [union.from_ids(ids) for ids in before.tags]


def test_each_tensor_tells_which_of_its_dimensions_count_tags_or_types(tiny_encoder_folder):
    few = head_tensors(make(tiny_encoder_folder, LM, tag_set=TagSet({"news": ("person",)})))
    tagger = make(tiny_encoder_folder, LM)
    for name, value in head_tensors(tagger).items():
        sizes = enumerate(zip(few[name].shape, value.shape, strict=True))
        counting = {place: pair for place, pair in sizes if pair[0] != pair[1]}
        by_tag = dict.fromkeys(tagger.rows.tags.get(name, ()), (3, 7))
        assert counting == by_tag | dict.fromkeys(tagger.rows.types.get(name, ()), (2, 4)), name


def test_weights_multiply_their_terms_and_zero_leaves_a_term_out(tiny_encoder_folder):
    plain = make(tiny_encoder_folder)
    batch = of_domain(plain, "news")
    heavy = make(tiny_encoder_folder, "entity_weight=0.1", "attention_weight=3", "target_weight=2", "source_weight=5")
    wanted = {"tags target": 2, "entity target": 0.1, "attention target": 3}
    for name, value in heavy.loss(batch).items():
        torch.testing.assert_close(value, wanted[name] * plain.loss(batch)[name])
    songs = of_domain(plain, "songs")
    torch.testing.assert_close(heavy.loss(songs)["tags source"], 5 * plain.loss(songs)["tags source"])
    none = make(tiny_encoder_folder, "entity_weight=0", "attention_weight=0")
    assert list(none.loss(batch)) == list(none.units(batch)) == ["tags target"]
    assert not {name for name in learn(none, batch) if name.startswith("type_score")}


def test_what_scores_the_types_of_cells_begins_alike_with_them(tiny_encoder_folder):
    for cells in ("alike", "apart"):
        tagger = make(tiny_encoder_folder, f"cells={cells}")
        torch.manual_seed(0)
        fresh = type(tagger)(tagger.encoder, TAG_SET, tagger.hyper)
        for value in fresh.type_score.parameters():
            assert bool((value == value[:1]).all()) == (cells == "alike")


def test_cells_that_begin_alike_stay_alike_without_the_type_losses(tiny_encoder_folder):
    for settings, stay in ((("entity_weight=0", "attention_weight=0"), True), ((), False)):
        torch.manual_seed(1)
        kind, made = find_method("multi-cell-lstm"), make(tiny_encoder_folder, tag_set=ONE)
        hyper = read_settings(kind, ["lstm_size=16", "characters=none", "cells=alike", *settings])
        tagger = kind(made.encoder, ONE, hyper).eval()
        assert isinstance(tagger, MultiCellTagger)
        batch = of_domain(tagger, "news")
        optimiser = torch.optim.SGD(tagger.parameters(), lr=0.01)
        for _ in range(5):
            optimiser.zero_grad()
            torch.stack(list(tagger.loss(batch).values())).sum().backward()
            optimiser.step()
        weight = tagger.lstm.type_candidate.detach()
        apart = float((weight - weight[:1]).abs().max())
        assert apart < 1e-7 if stay else apart > 1e-4


def test_raw_text_is_predicted_in_both_directions_from_states_without_dropout(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, LM, "lm_weight=0.5", "dropout=0.5", "input_dropout=0")
    batch = raw(of_domain(tagger, "news"))
    assert tagger.units(batch) == {"language target": 2 * batch.words} and batch.word_ids is not None
    assert tagger.language_model is not None and not tagger.language_model.correct
    states = states_of(tagger, batch, NEWS)
    expected = language_model_loss(tagger.language_model, states.hidden, batch.word_ids, batch.word_mask)
    torch.testing.assert_close(tagger.loss(batch)["language target"], 0.5 * expected)
    reached = learn(tagger, batch)
    assert {"lstm.type_gate", "language_model.weight", "language_model.bias", "encoder.words.weight"} <= reached
    assert not {name for name in reached if name.startswith(("tag_layers", "type_score"))}
    found = []
    tagger.train()
    for _ in range(2):  # with all words drawn, nothing is left to chance
        found.append(float(tagger.loss(batch)["language target"].detach()))
    assert found[0] == pytest.approx(found[1]) == pytest.approx(0.5 * float(expected.detach()))


@pytest.mark.parametrize("negatives", [1, 3, 9, 50])
def test_training_tells_words_of_raw_text_from_drawn_ones_only_until_these_are_all(tiny_encoder_folder, negatives):
    tagger = make(tiny_encoder_folder, LM, f"negatives={negatives}", "input_dropout=0")
    assert tagger.language_model is not None and tagger.language_model.words == 9
    batch = raw(of_domain(tagger, "news"))
    with torch.no_grad():
        whole, drawn = (float(tagger.train(training).loss(batch)["language target"]) for training in (False, True))
    assert drawn == pytest.approx(whole) if negatives >= 9 else 0 < drawn < whole * 0.99


def test_dropout_lies_before_tags_and_type_prediction_and_not_before_attention(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder)
    batch = of_domain(tagger, "news")
    whole = tagger.loss(batch)
    tagger.dropout = torch.nn.Threshold(torch.inf, 0.0)  # type: ignore[assignment]  # drops everything
    assert batch.tags is not None
    found, states = tagger.loss(batch), states_of(tagger, batch, NEWS)
    hidden = tagger.tag_loss(torch.zeros_like(states.hidden), batch.tags, batch.word_mask, NEWS)
    assert not tagger.tag_states(tagger.encoder(batch), batch.word_mask, NEWS).any()
    torch.testing.assert_close(found["tags target"], hidden)
    bias = tagger.type_score.bias[tagger.cells_of(NEWS)].expand(*batch.word_mask.shape, -1)
    entity = tagger._type_loss(bias, batch.tags, batch.word_mask, NEWS)
    torch.testing.assert_close(found["entity target"], entity)
    torch.testing.assert_close(found["attention target"], whole["attention target"])


def test_a_weight_of_zero_removes_the_gradient_of_the_language_model(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, LM, "lm_weight=0")
    assert learn(tagger, raw(of_domain(tagger, "news"))) == set()


def test_what_asks_and_what_is_asked_are_never_one_matrix(tiny_encoder_folder):
    """The released code reads P where Q is meant, for the source."""
    for setting in ("shared", "domain"):
        tagger = make(tiny_encoder_folder, f"attention={setting}")
        for number, domain in ((NEWS, "news"), (SONGS, "songs")):
            batch, own = of_domain(tagger, domain), number if setting == "domain" else 0
            attention = tagger.lstm.query, tagger.lstm.key, tagger.lstm.score
            for weight in attention:
                before = states_of(tagger, batch, number).attention[batch.word_mask]
                with torch.no_grad():
                    weight[own] += torch.randn_like(weight[own])
                after = states_of(tagger, batch, number).attention[batch.word_mask]
                assert not torch.allclose(before, after)
            gradients = learn(tagger, batch, f"attention {'target' if domain == 'news' else 'source'}")
            assert gradients >= {"lstm.query", "lstm.key", "lstm.score"}


def test_words_of_raw_text_without_a_type_teach_no_types(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, LM)
    batch = of_domain(tagger, "news")
    assert batch.tags is not None
    silent = raw(batch, torch.full_like(batch.tags, UNLABELLED))
    # The divisor does not depend on how many words the dictionary has: few labels weigh little.
    of_types = {"entity target": batch.words, "attention target": batch.words}
    assert tagger.units(silent) == {"language target": 2 * batch.words, **of_types}
    assert learn(tagger, silent, "entity target", "attention target") == set()
    assert float(tagger.loss(silent)["entity target"].detach()) == 0
    assert list(tagger.loss(raw(batch))) == ["language target"]
    # One word that the dictionary has: its loss is what it is where every word has a tag, less the others.
    known = torch.full_like(batch.tags, UNLABELLED)
    known[0, 0] = batch.tags[0, 0]
    others = batch.tags.clone()
    others[0, 0] = UNLABELLED
    parts = [tagger.loss(raw(batch, tags)) for tags in (known, others, batch.tags)]
    for name in ("entity target", "attention target"):
        assert float(parts[0][name].detach()) > 0
        torch.testing.assert_close(parts[0][name] + parts[1][name], parts[2][name])
    assert learn(tagger, raw(batch, known), "entity target") >= {"type_score.weight", "lstm.type_gate"}


def test_labelled_text_does_not_reach_the_language_model(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, LM)
    batch = of_domain(tagger, "songs")
    assert tagger.units(batch) == dict.fromkeys(["tags source", "entity source", "attention source"], batch.words)
    assert not {name for name in learn(tagger, batch) if name.startswith("language_model")}


def test_word_counts_are_stored_with_the_tagger(tiny_encoder_folder):
    tagger, other = make(tiny_encoder_folder, LM), make(tiny_encoder_folder, LM)
    counts = torch.arange(len(tagger.encoder.vocabulary.words) + 1)
    tagger.set_word_counts(counts)
    other.load_state_dict(tagger.state_dict())
    assert other.language_model is not None
    assert other.language_model.ids_by_rank.tolist() == counts.flip(0).tolist()
    make(tiny_encoder_folder).set_word_counts(counts)  # without raw text there is nothing to count for


def test_an_update_reads_a_batch_of_each_task():
    def streams(*settings: str) -> tuple[str, ...]:
        found: tuple[str, ...] = read_settings(MultiCellTagger, settings).streams
        return found

    assert streams() == ("target-ner", "source-ner")
    assert streams(LM) == ("source-ner", "target-lm")
    assert streams("tasks=target-ner") == ("target-ner",)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["tasks=target-ner,nothing"], "nothing"),
        (["tasks=target-lm"], "no tags are learnt"),
        (["tasks="], "''"),
        ([LM, "words=none"], "no words to predict"),
        (["entity_weight=-1"], "entity_weight"),
        (["attention_weight=nan"], "attention_weight"),
        (["lm_weight=-1"], "lm_weight"),
        (["negatives=0"], "negatives"),
        (["attention=both"], "shared or domain"),
        (["cells=other"], "apart or alike"),
        (["lstm_size=0"], "lstm_size"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, told):
    with pytest.raises(CrossNERError, match=told):
        read_settings(MultiCellTagger, settings)


def test_a_batch_of_both_domains_is_tagged_as_each_alone(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, "attention=domain", "crf=domain")
    sentences = [Sentence(("anna", "visited", "paris"), None, name) for name in ("songs", "news", "songs", "elsewhere")]
    with torch.no_grad():
        together = tagger.decode(batch_of(tagger, sentences))
        alone = [tagger.decode(batch_of(tagger, [sentence])) for sentence in sentences]
    assert together.tags == [decoded.tags[0] for decoded in alone]
    assert len(TAG_SET) > 0 and together.tags[0] == together.tags[2]


def test_states_and_cells_are_dropped_at_the_rate_that_is_set(tiny_encoder_folder: Path):
    tagger = make(tiny_encoder_folder, "dropout=0.5", "input_dropout=0")
    assert tagger.dropout.p == 0.5
    batch = batch_of(tagger, some_sentences(4))
    dropped = tagger.train().tag_states(tagger.encoder(batch), batch.word_mask, 0)[batch.word_mask]
    assert 0.2 < float((dropped != 0).float().mean()) < 0.8


def test_defaults_are_those_of_the_paper_with_labels_of_the_target():
    hyper = MultiCellTagger.Hyperparameters()
    assert (hyper.cells, hyper.attention, hyper.negatives) == ("apart", "shared", 50)
    assert (hyper.lm_weight, hyper.entity_weight, hyper.attention_weight, hyper.target_weight) == (1, 1, 1, 1)
