"""The multi-cell LSTM: which domain runs which cells, and what each loss reads and reaches."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.taggers import TAG_SET, batch_of, make_tagger, some_sentences
from torch import Tensor

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import UNLABELLED, Batch
from crossner_cli.recurrent.language_model import language_model_loss
from crossner_cli.recurrent.methods.multi_cell_lstm import MultiCellTagger

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
        return tagger.run_cells(tagger.encoder(batch), batch.word_mask, domain)


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
    alone = make(tiny_encoder_folder, tag_set=ONE)
    assert alone.cells_of(NEWS).tolist() == alone.cells_of(SONGS).tolist() == [0, 1, 2]


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


def test_a_domain_with_attention_of_its_own_leaves_that_of_the_other_alone(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, "attention=domain")
    learn(tagger, of_domain(tagger, "songs"))
    for value in (tagger.lstm.query, tagger.lstm.key, tagger.lstm.score):
        assert value.grad is not None and value.grad[SONGS].any() and not value.grad[NEWS].any()
    batch = of_domain(tagger, "news")
    elsewhere = dataclasses.replace(batch, domains=("elsewhere",) * len(batch))
    torch.testing.assert_close(tagger.loss(batch), tagger.loss(elsewhere))  # unknown domains are read as the target
    for attention in ("shared", "domain"):
        same = make(tiny_encoder_folder, f"attention={attention}", tag_set=SAME)
        one, other = states_of(same, batch, NEWS), states_of(same, batch, SONGS)
        assert torch.equal(one.hidden, other.hidden) == (attention == "shared")
        assert torch.equal(one.attention, other.attention) == (attention == "shared")


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


def test_raw_text_is_predicted_in_both_directions_from_states_without_dropout(tiny_encoder_folder):
    tagger = make(tiny_encoder_folder, LM, "lm_weight=0.5", "dropout=0.5", "input_dropout=0")
    batch, songs = raw(of_domain(tagger, "news")), of_domain(tagger, "songs")
    assert tagger.units(batch) == {"language target": 2 * batch.words} and batch.word_ids is not None
    assert tagger.language_model is not None and not tagger.language_model.correct
    states = states_of(tagger, batch, NEWS)
    expected = language_model_loss(tagger.language_model, states.hidden, batch.word_ids, batch.word_mask)
    torch.testing.assert_close(tagger.loss(batch)["language target"], 0.5 * expected)
    reached = learn(tagger, batch)
    assert {"lstm.type_gate", "language_model.weight", "language_model.bias", "encoder.words.weight"} <= reached
    assert not {name for name in reached if name.startswith(("tag_layers", "type_score"))}
    assert set(tagger.units(songs)) == {"tags source", "entity source", "attention source"}
    assert not {name for name in learn(tagger, songs) if name.startswith("language_model")}, "labelled text is not read"
    found = []
    tagger.train()
    for _ in range(2):  # with all words drawn, nothing is left to chance
        found.append(float(tagger.loss(batch)["language target"].detach()))
    assert found[0] == pytest.approx(found[1]) == pytest.approx(0.5 * float(expected.detach()))
    none = make(tiny_encoder_folder, LM, "lm_weight=0")
    assert learn(none, raw(of_domain(none, "news"))) == set()


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
    # A name of a type of which no label is learnt teaches nothing either.
    for tag, teaches in (("B-place", True), ("B-person", False)):
        named = raw(batch, torch.full_like(batch.tags, TAG_SET.tags.index(tag)))
        assert bool(learn(tagger, named, "entity target")) == teaches
