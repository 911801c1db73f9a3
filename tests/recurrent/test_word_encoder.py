"""Words to vectors: every part is what it says, unknown words are read too, and what is frozen stays as it is."""

from pathlib import Path
from typing import Any

import pytest
import torch
from builders.starts import design_tagger
from builders.taggers import small_sizes, some_sentences
from torch import Tensor

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.start import Start
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, method_names
from crossner_cli.options import Finetune
from crossner_cli.recurrent.vector_files import read_vectors
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import KnownWords, Vocabulary, WordInputs, collect_vocabulary
from crossner_cli.recurrent.word_vectors import character_ngrams
from crossner_cli.run.progress import exhaust
from crossner_cli.stages.train import make_plan, make_rates
from crossner_cli.taggers.carry_over import start_tagger
from crossner_cli.taggers.folder import load_tagger, save_tagger
from crossner_cli.taggers.tagging import tag
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import group_parameters
from crossner_cli.training.streams import SentenceStream

WORDS_ONLY = {"characters": "none", "word_size": 6, "input_dropout": 0.0}
KNOWN = [Sentence(("Paris", "met", "anna", "Paris", "met")), Sentence(("the", "the"))]
TAG_SET = TagSet({"news": ("person", "place"), "songs": ("artist", "place")})


@pytest.fixture
def vector_file(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("paris 1 2 3\nmet 4 5 6\nlondon 7 8 9\n", encoding="utf-8")
    return path


def make(inputs: WordInputs, transformer: Any = None, **more: Any) -> WordEncoder:
    torch.manual_seed(1)
    return WordEncoder(collect_vocabulary(KNOWN, inputs, more.get("vectors")), inputs, transformer, **more).eval()


def read(encoder: WordEncoder, *sentences: tuple[str, ...]) -> tuple[Tensor, Batch]:
    batch = encoder.reader.collate(encoder.reader.encode([Sentence(words) for words in sentences]))
    with torch.no_grad():
        return encoder(batch), batch


def test_a_word_has_its_row_or_that_of_its_lower_cased_form_or_the_unknown_one():
    encoder = make(WordInputs(**WORDS_ONLY))
    assert encoder.vocabulary.words == ("Paris", "anna", "met", "the") and encoder.words is not None
    (vectors,), _ = read(encoder, ("the", "The", "Paris", "paris", "zzz"))
    rows = encoder.words.weight
    expected = torch.stack([rows[3], rows[3], rows[0], encoder.unknown, encoder.unknown])
    assert torch.equal(vectors, expected)
    assert encoder.reader.unknown_words == 2
    # A word met once is read as unknown half of the time, in training only.
    (vectors,), _ = read(encoder.train(), ("anna", "the") * 500)
    unknown = (vectors == encoder.unknown).all(dim=1)
    assert 180 < unknown[::2].sum() < 320 and not unknown[1::2].any()
    (vectors,), _ = read(encoder.eval(), ("anna",))
    assert not torch.equal(vectors[0], encoder.unknown)


def test_given_vectors_are_looked_up_by_case_and_counted(vector_file):
    vectors = read_vectors(vector_file, ["Paris", "met", "anna", "the"])
    for words in ("frozen", "trained"):
        encoder = make(WordInputs(**{**WORDS_ONLY, "words": words}), vectors=vectors)
        (found,), _ = read(encoder, ("Paris", "met", "anna"))
        assert encoder.output_dim == 3 and found[:2].tolist() == [[1, 2, 3], [4, 5, 6]]
        assert torch.equal(found[2], encoder.unknown) is (words == "frozen")
    # Text that spells a word as neither the data nor the file does has its vector, too.
    vector_file.write_text("paris 1 2\n0000 3 4\n")
    vectors = read_vectors(vector_file, ["Paris", "1998"]).include_written_forms()
    encoder = make(WordInputs(words="frozen", characters="none", input_dropout=0.0), vectors=vectors)
    (found,), _ = read(encoder, ("Paris", "paris", "PARIS", "1998", "2024", "0000"))
    assert found.tolist() == [[1, 2]] * 3 + [[3, 4]] * 3 and encoder.reader.unknown_words == 0


@pytest.mark.parametrize("words", ["frozen", "trained"])
@pytest.mark.parametrize(
    "method", [name for name in method_names() if find_method(name).encoder_class.reads == "words"]
)
def test_frozen_vectors_are_bit_equal_after_training_and_trained_ones_are_not(tmp_path, engine, words, method):
    kind = find_method(method)
    (tmp_path / "even.txt").write_text("paris 1 2 3 4\nmet 4 5 6 7\nlondon 7 8 9 10\n", encoding="utf-8")
    vectors = read_vectors(tmp_path / "even.txt", ["the", "London", "of", "met", "visited"])
    options = Finetune(epochs=2, device="cpu")
    sentences = some_sentences(6)
    described = TAG_SET.types if "descriptions" in kind.rows.types else ()
    design = design_tagger(tmp_path, method, [f"words={words}", *small_sizes(kind)])
    known = KnownWords(collect_vocabulary(sentences, design.settings, vectors, described=described), vectors)
    tagger, _ = start_tagger(design.base, design, TAG_SET, 1, engine, known)
    assert isinstance(tagger.encoder, WordEncoder) and tagger.encoder.words is not None
    before = tagger.encoder.words.weight.detach().clone()
    stream = SentenceStream(tagger.encoder.reader.encode(sentences, TAG_SET), tagger.encoder.reader, 3, 1)
    exhaust(fit(tagger, group_parameters(tagger, make_rates(options)), [stream], make_plan(options), engine))
    assert torch.equal(before, tagger.encoder.words.weight) is (words == "frozen")


def test_published_vectors_of_n_grams_give_a_word_their_mean_and_zero_where_none_is_known(tmp_path):
    path = tmp_path / "charNgram.txt"
    path.write_text("2gram-Pa 1 2 3\n3gram-Par 3 4 5\n2gram-zz 9 9 9\n4gram-Pari -1 0 1\n")
    keys = [key for sentence in KNOWN for word in sentence.words for key in character_ngrams(word)]
    vectors = read_vectors(path, [*keys, *character_ngrams("Paris")], exact_only=True)
    inputs = WordInputs(words="none", characters="ngrams", input_dropout=0.0)
    vocabulary = collect_vocabulary(KNOWN, inputs, ngram_vectors=vectors)
    encoder = WordEncoder(vocabulary, inputs, ngram_vectors=vectors).eval()
    (found,), _ = read(encoder, ("Paris", "Ж"))
    assert found[0].tolist() == [1, 2, 3] and found[1].tolist() == [0, 0, 0]
    encoder.save(tmp_path)
    again = WordEncoder.load(tmp_path, inputs).eval()
    assert torch.equal(read(again, ("Paris", "Ж"))[0][0], found)


@pytest.mark.parametrize("kind", ["frozen", "trained"])
def test_a_transformer_reads_along_frozen_or_trained(tiny_encoder_folder, engine, kind):
    transformer, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder))
    alone = transformer.eval()
    encoder = make(WordInputs(transformer=kind, word_size=5, character_size=3), transformer)
    words = ("anna", "visited", "paris", "x-ray")
    (found,), batch = read(encoder, words)
    assert found.shape == (4, 5 + 3 + alone.output_dim) and encoder.output_dim == 8 + alone.output_dim
    with torch.no_grad():
        torch.testing.assert_close(found[:, 8:], alone(batch)[0])
    encoder.freeze_parameters(train_embeddings=False)
    encoder.train()
    encoder(batch).sum().backward()
    reached = [value.grad is not None for value in alone.parameters()]
    assert any(reached) is (kind == "trained")
    assert encoder.width == (alone.output_dim if kind == "trained" else None)
    assert alone.training is (kind == "trained")


@pytest.mark.parametrize(
    "settings", [("transformer=frozen",), ("characters=ngrams",), ("words=none", "characters=cnn")]
)
def test_a_saved_tagger_of_words_predicts_the_same_and_as_a_start_learns_new_words(
    tiny_encoder_folder, tmp_path, engine, settings
):
    sentences = some_sentences(5)
    design = design_tagger(tiny_encoder_folder, "bilstm-crf", ["lstm_size=8", *settings])
    known = KnownWords(Vocabulary(("the", "London"), "abcdeL", ("2gram-th",)))
    tagger, _ = start_tagger(design.base, design, TAG_SET, 1, engine, known)
    save_tagger(tagger.eval(), tmp_path / "tagger")
    again = load_tagger(tmp_path / "tagger", engine)
    assert tag(again, sentences, engine) == tag(tagger, sentences, engine)
    wider = KnownWords(Vocabulary(("berlin", "the"), "bcf"))
    new, carried = start_tagger(Start("old", tmp_path / "tagger", ""), design, TAG_SET, 2, engine, wider)
    assert isinstance(tagger.encoder, WordEncoder) and isinstance(new.encoder, WordEncoder)
    assert new.encoder.vocabulary.words == ("the", "London", "berlin")
    assert new.encoder.vocabulary.characters == "abcdeLf"
    assert carried.new_tensors == carried.left_tensors == []
    if tagger.encoder.words is not None and new.encoder.words is not None:
        assert torch.equal(new.encoder.words.weight[:2], tagger.encoder.words.weight)


@pytest.mark.parametrize("words", ["frozen", "trained"])
def test_words_that_the_start_knows_are_not_hidden_though_they_are_met_once(vector_file, engine, words, tmp_path):
    design = design_tagger(tmp_path, "bilstm-crf", [f"words={words}", "lstm_size=8"])
    inputs, sentences = WordInputs(words=words), [Sentence(("met", "Paris", "anna"), ("O",) * 3, "news")]
    vectors = read_vectors(vector_file, ["met", "Paris"])
    known = KnownWords(collect_vocabulary(sentences, inputs, vectors), vectors)
    tagger, _ = start_tagger(design.base, design, TAG_SET, 1, engine, known)
    save_tagger(tagger, tmp_path)
    start = Start("source", tmp_path, "", seeds={1: tmp_path})
    again = KnownWords(collect_vocabulary([*sentences, Sentence(("Bob",))], inputs, has_vectors=True))
    onward, _ = start_tagger(start, design, TAG_SET, 1, engine, again)
    assert isinstance(onward.encoder, WordEncoder)
    vocabulary = onward.encoder.vocabulary
    hidden = {word for word, is_rare in zip(vocabulary.words, onward.encoder.rare[1:].tolist(), strict=True) if is_rare}
    assert hidden == ({"Bob"} if words == "trained" else set())


def test_a_stream_of_words_is_read_in_constant_memory(monkeypatch):
    monkeypatch.setattr("crossner_cli.recurrent.word_reader.MOST_WORDS", 10)
    encoder = make(WordInputs())
    for number in range(50):
        encoder.reader.collate(encoder.reader.encode([Sentence((f"new{number}",))]))
    assert len(encoder.reader._pieces) + len(encoder.reader._unknown) <= 12
    assert encoder.reader.unknown_words == 50


def test_a_type_is_described_by_the_sum_of_its_words(tiny_encoder_folder):
    inputs = WordInputs(**WORDS_ONLY)
    vocabulary = collect_vocabulary(KNOWN, inputs, described=["political", "party", "anna"])
    encoder = WordEncoder(vocabulary, inputs)
    assert vocabulary.words == ("Paris", "anna", "met", "the", "political", "party") and encoder.words is not None
    rows = encoder.words.weight
    found = encoder.describe(["politicalparty", "anna", "nobody"])
    assert torch.equal(found, torch.stack([rows[4] + rows[5], rows[1], encoder.unknown])) and not found.requires_grad
    assert encoder.description_size == 6
    transformer, _ = TransformerEncoder.from_pretrained(str(tiny_encoder_folder))
    other = WordEncoder(Vocabulary(), WordInputs(words="none", characters="none", transformer="frozen"), transformer)
    (encoded,) = transformer.reader.encode([Sentence(("political", "party"))])
    expected = transformer.word_embeddings[torch.from_numpy(encoded.windows[0])].sum(dim=0)
    torch.testing.assert_close(other.describe(["politicalparty"])[0], expected)
    assert other.description_size == transformer.output_dim
    letters = WordInputs(words="none")
    with pytest.raises(CrossNERError, match="Type descriptions need word vectors"):
        WordEncoder(collect_vocabulary(KNOWN, letters), letters).describe(["person"])
