"""BARTNER against a plain reading of its paper: sequences word by word, scores pair by pair."""

from pathlib import Path

import pytest
import torch
import transformers
from builders.encoders import make_encoder_decoder
from builders.taggers import TAG_SET, batch_of, decode, some_sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet, to_spans, to_tags
from crossner_cli.encoders.encoder_decoder import BART_FAMILY, EncoderDecoder
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.encoders.type_descriptions import describe_type
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.bartner import (
    BARTNER,
    END,
    NO_STEP,
    Windows,
    WrittenEntity,
    find_windows,
    join_entities,
    read_entities,
)
from crossner_cli.methods.contract import find_method
from crossner_cli.taggers.carry_over import check_start

TYPES = TAG_SET.types
SYMBOLS = 1 + len(TYPES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_decoder(tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def tagger(folder: Path) -> BARTNER:
    return make(folder)


def make(folder: Path, tag_set: TagSet = TAG_SET, seed: int = 5) -> BARTNER:
    """A random tagger, sharp enough to write something."""
    torch.manual_seed(seed)
    tagger = BARTNER(EncoderDecoder.from_pretrained(str(folder))[0], tag_set, BARTNER.Hyperparameters())
    with torch.no_grad():
        for name, value in tagger.named_parameters():
            if not name.startswith("encoder."):
                value.add_(torch.randn_like(value) * 0.5)
    return tagger.eval()


def spans_of(tagger: BARTNER, sentence: Sentence) -> tuple[list[tuple[int, int, str]], int]:
    """What the gold steps of a sentence say, read back, and how many parts are no entity."""
    batch = batch_of(tagger, [sentence])
    windows = find_windows(batch)
    found: list[WrittenEntity] = []
    words = bad = 0
    for count, row in zip(windows.counts.tolist(), tagger._targets(batch, windows).tolist(), strict=True):
        steps = [step for step in row if step != NO_STEP]
        assert (steps[-1:] == [END] and END not in steps[:-1]) if count else not steps
        entities, discarded = read_entities(steps[:-1], len(TYPES), [1.0] * len(steps[:-1]))
        found, words, bad = join_entities(found, entities, words), words + count, bad + discarded
    return [(entity.start, entity.end, TYPES[entity.type - 1]) for entity in found], bad


@pytest.fixture(scope="module")
def of_schemes(folder: Path) -> list[BARTNER]:
    return [make(folder, TagSet(TAG_SET.domains, scheme)) for scheme in ("bio", "bioes")]


@settings(max_examples=60)
@given(st.data())
def test_gold_steps_read_back_are_the_entities_of_the_tags_whether_or_not_the_scheme_allows_them(of_schemes, data):
    tagger = data.draw(st.sampled_from(of_schemes))
    tags = data.draw(st.lists(st.sampled_from(tagger.tag_set.tags), min_size=1, max_size=25))
    found, discarded = spans_of(tagger, Sentence(("the",) * len(tags), tuple(tags), "news"))
    assert found == to_spans(tags) and discarded == 0


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_entities_across_windows_are_read_back_whole(folder, scheme):
    tagger = make(folder, TagSet(TAG_SET.domains, scheme))
    spans = [(start, start + 9, "place" if start % 4 else "person") for start in range(3, 180, 10)]
    tags = to_tags(spans, 200, scheme)  # type: ignore[arg-type]
    sentence = Sentence(("acme",) * 200, tuple(tags), "news")
    assert len(batch_of(tagger, [sentence]).input_ids) > 5
    assert spans_of(tagger, sentence) == (spans, 0)


E = 3  # types: the first word is step 4


@pytest.mark.parametrize(
    ("steps", "entities", "discarded"),
    [
        ([], [], 0),
        ([4, 1, 6, 7, 3], [(0, 1, 1), (2, 4, 3)], 0),
        ([6, 2, 4, 1], [(2, 3, 2), (0, 1, 1)], 0),
        ([5, 4, 1], [], 1),
        ([4, 4, 1], [], 1),
        ([1, 2, 4, 3], [(0, 1, 3)], 2),
        ([4], [], 1),
        ([4, 5, 1, 5, 6, 2], [(0, 2, 1)], 1),
        ([5, 4, 1, 5, 2], [(1, 2, 2)], 1),
    ],
)
def test_what_is_no_entity_is_discarded_and_counted(steps, entities, discarded):
    found, count = read_entities(steps, E, [1.0] * len(steps))
    assert [(entity.start, entity.end, entity.type) for entity in found] == entities
    assert count == discarded


def test_types_begin_as_the_mean_of_their_words_and_the_end_as_its_token(folder):
    encoder, _ = EncoderDecoder.from_pretrained(str(folder))
    tagger = BARTNER(encoder, TagSet({"a": ("politicalparty", "person")}), BARTNER.Hyperparameters())
    table, tokenizer = encoder.model.shared.weight, encoder.reader.tokenizer
    for row, name in enumerate(("politicalparty", "person"), start=1):
        ids = [number for word in describe_type(name) for number in tokenizer.encode(word, add_special_tokens=False)]
        assert len(ids) == len("politicalparty" if row == 1 else "person")
        torch.testing.assert_close(tagger.symbols[row], torch.stack([table[number] for number in ids]).mean(0))
    assert torch.equal(tagger.symbols[END], table[tokenizer.sep_token_id])


def naive_scores(tagger: BARTNER, sentence: Sentence, steps: list[int]) -> list[list[float]]:
    """The scores of each step of one short sentence, given the steps before it, with the model run from the start."""
    encoder = tagger.encoder
    ids = [encoder.reader.first_id]
    places = []
    for word in sentence.words:
        places.append(len(ids))
        ids += encoder.reader.tokenizer.encode(word, add_special_tokens=False)
    ids.append(encoder.reader.last_id)
    table = encoder.model.shared.weight
    rows = []
    for length in range(len(steps)):
        written = [table[encoder.reader.first_id]]
        for step in steps[:length]:
            written.append(tagger.symbols[step] if step < SYMBOLS else table[ids[places[step - SYMBOLS]]])
        output = encoder.model(input_ids=torch.tensor([ids]), decoder_inputs_embeds=torch.stack(written)[None])
        state, read = output.last_hidden_state[0, -1], output.encoder_last_hidden_state[0]
        first, _, relu, second = tagger.mlp
        scores = [float(state @ symbol) for symbol in tagger.symbols]
        for place in places:
            scores.append(float(state @ (second(relu(first(read[place]))) + table[ids[place]]) / 2))
        rows.append(scores)
    return rows


def scores_of(tagger: BARTNER, batch: Batch, windows: Windows, steps: Tensor) -> Tensor:
    """The scores of each step given the steps before it, as the loss computes them."""
    read = tagger.encoder.read(batch)
    start = tagger.encoder.start_vector.expand(len(steps), 1, -1)
    before = tagger._vectors(steps[:, :-1], batch.input_ids.gather(1, windows.columns))
    states = tagger.encoder.write(torch.cat([start, before], dim=1), read, batch.attention_mask)
    return tagger._scores(states, tagger._pointed(read, batch, windows), windows.mask)


def test_the_scores_and_the_loss_are_those_of_a_plain_reading(folder):
    tagger = make(folder)
    sentences = [
        Sentence(("anna", "x-ray", "of", "acme"), ("B-person", "I-person", "O", "B-place"), "news"),
        Sentence(("the", "london"), ("O", "O"), "news"),
    ]
    gold = [[4 + 0, 4 + 1, 1, 4 + 3, 2, END], [END]]
    batch = batch_of(tagger, sentences)
    windows = find_windows(batch)
    assert tagger._targets(batch, windows).tolist() == [gold[0], [END] + [NO_STEP] * 5]
    total = 0.0
    with torch.no_grad():
        scores = scores_of(tagger, batch, windows, tagger._targets(batch, windows))
        for number, (sentence, steps) in enumerate(zip(sentences, gold, strict=True)):
            expected = torch.tensor(naive_scores(tagger, sentence, steps))
            torch.testing.assert_close(
                scores[number, : len(steps), : expected.shape[1]], expected, atol=1e-4, rtol=1e-4
            )
            assert (scores[number, :, expected.shape[1] :] == -torch.inf).all()
            total -= float(expected.log_softmax(-1)[range(len(steps)), steps].sum())
        assert float(tagger.loss(batch)["steps"]) == pytest.approx(total, rel=1e-4)
    assert tagger.units(batch) == {"steps": 7}


def test_decoded_tags_are_the_written_entities_and_the_rest_is_counted(folder):
    sentences, seen, discarded = some_sentences(12, longest=6), 0, 0
    for seed in range(3):
        tagger = make(folder, seed=seed)
        assert tagger.discarded_sequences == 0
        decoded = decode(tagger, sentences)
        together, alone = tagger.discarded_sequences, 0
        for sentence, tags, likely in zip(sentences, decoded.tags, decoded.probabilities, strict=True):
            batch = batch_of(tagger, [sentence], with_tags=False)
            with torch.no_grad():
                (written,), (shares,), _ = tagger._write(batch, find_windows(batch))
            steps = [step for step in written.tolist() if step not in (END, NO_STEP)]
            entities, count = read_entities(steps, len(TYPES), shares[: len(steps)].tolist())
            expected = ["O"] * len(tags)
            for start, end, number, probability in entities:
                expected[start:end] = [f"I-{TYPES[number - 1]}"] * (end - start)
                expected[start] = f"B-{TYPES[number - 1]}"
                assert likely[start:end] == pytest.approx([probability] * (end - start), abs=1e-5)
            assert TAG_SET.from_ids(tags) == expected
            seen, alone = seen + len(entities), alone + count
        assert together == alone
        discarded += alone
        decode(tagger, sentences)
        assert tagger.discarded_sequences == 2 * together
    assert seen and discarded, "or the test means nothing"


@pytest.mark.parametrize("kind", ["Bart", "MBart", "PLBart"])
def test_each_of_the_family_writes_what_its_own_decoder_says(tmp_path, kind):
    make_encoder_decoder(tmp_path, kind, scale_embedding=True)
    encoder, weights = EncoderDecoder.from_pretrained(str(tmp_path), attention="eager")
    assert encoder.model.config.model_type == kind.lower() and kind.lower() in BART_FAMILY
    assert weights.new == weights.left == ()
    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    encoder.eval()
    batch = encoder.reader.collate(encoder.reader.encode(some_sentences(3, longest=8)))
    ids = torch.randint(5, 40, (3, 6))
    with torch.no_grad():
        expected = model(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask, decoder_input_ids=ids
        ).last_hidden_state
        read, vectors = encoder.read(batch), encoder.word_embeddings[ids]
        torch.testing.assert_close(encoder.write(vectors, read, batch.attention_mask), expected, atol=1e-5, rtol=1e-5)
        cache = encoder.new_cache()
        steps = [encoder.write(vectors[:, [step]], read, batch.attention_mask, cache) for step in range(6)]
        torch.testing.assert_close(torch.cat(steps, dim=1), expected, atol=1e-5, rtol=1e-5)
        assert torch.equal(encoder(batch)[0, 0], read[0, 1])


def check(method: str, encoder: Path) -> None:
    """Check an untouched encoder as the start of a method."""
    design = TaggerDesign(method, find_method(method).Hyperparameters())
    check_start(design, Start("base", None, "", encoder=str(encoder)))


def test_what_is_not_an_encoder_decoder_is_refused(tiny_encoder_folder, tmp_path, folder):
    transformers.T5Config(vocab_size=99, d_model=16).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")  # never read: the configuration tells
    for path, kind in ((tiny_encoder_folder, "bert"), (tmp_path, "t5")):
        with pytest.raises(CrossNERError, match=rf"\({kind}\) is not an encoder-decoder of the BART family") as caught:
            check("bartner", path)
        assert "facebook/bart-base" in caught.value.hint
        with pytest.raises(CrossNERError, match="is not an encoder-decoder"):
            EncoderDecoder.from_pretrained(str(path))
    check("bartner", folder)
    check("linear", tiny_encoder_folder)
    with pytest.raises(CrossNERError, match="it is a decoder"):
        TransformerEncoder.from_pretrained(str(folder))


def test_parts_are_joined_only_where_one_goes_on_in_the_type_of_the_other_and_probabilities_multiply():
    written, _ = read_entities([4, 5, 1, 1, 6, 2], E, [0.5, 0.5, 0.8, 0.1, 0.9, 0.7])
    assert [entity.probability for entity in written] == pytest.approx([0.2, 0.63])
    before = [WrittenEntity(0, 1, 1, 0.5), WrittenEntity(3, 5, 2, 0.5)]
    rest = WrittenEntity(0, 2, 2, 0.5)
    assert join_entities(before, [rest], 5) == [before[0], WrittenEntity(3, 7, 2, 0.25)]
    assert join_entities(before, [rest], 6)[2:] == [WrittenEntity(6, 8, 2, 0.5)]
    assert join_entities(before, [rest._replace(type=1)], 5)[2:] == [WrittenEntity(5, 7, 1, 0.5)]
    assert join_entities([], [rest], 0) == [rest]
