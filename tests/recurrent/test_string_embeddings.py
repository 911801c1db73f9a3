"""Contextual string embeddings: equal to reading each sentence alone, character by character, as the paper does."""

import json
from pathlib import Path

import pytest
import torch
from builders.strings import CHARACTERS, make_encoder
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from typer.testing import CliRunner

from crossner_cli.cli import app
from crossner_cli.data.sentences import Sentence
from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent.string_embeddings import CharacterLM, load_string_encoder, save_string_encoder
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import Vocabulary, WordInputs

FLAIR = Path(__file__).parent / "flair_reference"  # what the package made; make.py there tells how
QUICK = ("--device", "cpu", "--threads", "1", "--precision", "fp32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Language models as a person would write them with flair, decoder included."""
    save_string_encoder(make_encoder(), tmp_path)
    tensors = load_file(tmp_path / "strings.safetensors")
    tensors |= {f"{side}.decoder.weight": torch.zeros(3, 3) for side in ("forward", "backward")}
    save_file(tensors, tmp_path / "strings.safetensors")
    return tmp_path


def step_by_step(model: CharacterLM, text: str) -> Tensor:
    """State behind the last character, one step after another."""
    state = None
    for character in text:
        number = CHARACTERS.index(character) if character in CHARACTERS else 0
        output, state = model.rnn(model.encoder(torch.tensor([[number]])), state)
    return (output if model.proj is None else model.proj(output))[0, 0]


words = st.lists(st.text("abcdeinorstAB.Ж", min_size=1, max_size=6), min_size=1, max_size=5)


@settings(max_examples=20, deadline=None)
@given(st.lists(words, min_size=1, max_size=3), st.sampled_from([(1, None), (2, 3)]))
def test_a_word_is_the_state_behind_it_and_the_backward_state_before_it(
    sentences: list[list[str]], shape: tuple[int, int | None]
) -> None:
    encoder = make_encoder(*shape)
    found = encoder(*encoder.number(sentences))
    forward, backward = encoder.models
    for row, sentence in enumerate(sentences):
        for place in range(len(sentence)):
            read = "\n" + " ".join(sentence[: place + 1]) + " "
            unread = "\n" + " ".join(sentence[place:])[::-1] + " "
            expected = torch.cat([step_by_step(forward, read), step_by_step(backward, unread)])
            torch.testing.assert_close(found[row, place], expected, rtol=1e-4, atol=1e-5)


def test_words_have_the_vectors_that_the_flair_package_gives_them() -> None:
    reference = json.loads((FLAIR / "vectors.json").read_text())
    encoder = load_string_encoder(FLAIR)
    found = encoder(*encoder.number(reference["sentences"]))
    for row, sentence in enumerate(reference["sentences"]):
        sides = [torch.tensor(reference[side][row]) for side in ("forward", "backward")]
        torch.testing.assert_close(found[row, : len(sentence)], torch.cat(sides, dim=1), rtol=1e-5, atol=1e-7)


def test_what_is_stored_is_read_back_and_a_decoder_is_left_out_and_nothing_learns(folder: Path) -> None:
    again, expected = load_string_encoder(folder), make_encoder()
    given = expected.number([["Anna", "sees"], ["Bonn"]])
    found = again.train()(*given)
    assert torch.equal(found, expected(*given)) and again.characters == tuple(CHARACTERS)
    assert not found.requires_grad and not any(parameter.requires_grad for parameter in again.parameters())
    inputs = WordInputs(words="none", characters="none", strings="frozen", input_dropout=0.0)
    encoder = WordEncoder(Vocabulary(), inputs, strings=expected).eval()
    sentences = [Sentence(("Anna", "sees")), Sentence(("Bonn",))]
    batch = encoder.reader.collate(encoder.reader.encode(sentences))
    assert encoder.output_dim == 11
    torch.testing.assert_close(encoder(batch), found)


def test_files_that_do_not_fit_are_refused(folder: Path) -> None:
    tensors = load_file(folder / "strings.safetensors")
    (folder / "strings.json").write_text(json.dumps(CHARACTERS[1:]))
    with pytest.raises(CrossNERError, match=f"lists {len(CHARACTERS) - 1} characters, and the forward model"):
        load_string_encoder(folder)
    for content, said in (("{}", "not a JSON list"), ("[", "cannot be read")):
        (folder / "strings.json").write_text(content)
        with pytest.raises(CrossNERError, match=said):
            load_string_encoder(folder)
    (folder / "strings.json").write_text(json.dumps(CHARACTERS))
    for name, value in (("backward.encoder.weight", None), ("forward.rnn.weight_hh_l0", torch.zeros(18, 6))):
        broken = {key: tensor for key, tensor in tensors.items() if key != name}
        save_file(broken if value is None else broken | {name: value}, folder / "strings.safetensors")
        with pytest.raises(CrossNERError, match=f"no {name.partition('.')[0]} language model"):
            load_string_encoder(folder)
    (folder / "strings.safetensors").write_bytes(b"x")
    with pytest.raises(CrossNERError, match="cannot be read"):
        load_string_encoder(folder)


def test_a_tagger_reads_strings_from_training_to_prediction_and_hands_them_on(folder: Path, tmp_path: Path) -> None:
    run = ("--run", str(tmp_path / "run"))

    def crossner(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, [*arguments])
        assert done.exit_code == code, done.stderr
        return done.stdout + done.stderr

    crossner("prepare-data", *run, "--source", "sample-source", "--target", "sample-target")
    unread = (*run, "--method", "bilstm-crf")
    train = (*unread, *QUICK, "--max-steps", "2", "--set", "lstm_size=4", "--set", "strings=frozen")
    given, wrong = (("--set", f"string_embeddings={path}") for path in (folder, tmp_path / "run"))
    assert "--set string_embeddings=FOLDER" in crossner("pretrain-source", *train, code=1)
    assert "holds no strings.safetensors" in crossner("finetune", *train, *wrong, code=1)
    assert "is not read with these settings" in crossner("finetune", *unread, *given, code=1)
    crossner("pretrain-source", *train, *given)
    crossner("finetune", *train, "--start-from", "pretrain-source")
    kept = load_file(tmp_path / "run" / "finetune" / "tagger" / "strings.safetensors")
    first = load_file(folder / "strings.safetensors")
    assert kept and all(torch.equal(value, first[name]) for name, value in kept.items())
    crossner("evaluate", *run, *QUICK, "--model", "finetune")
