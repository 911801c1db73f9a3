"""Streams of characters: both directions as taggers read them, held-out sentences apart, and rows of every epoch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.recurrent.character_stream import (
    HELD_OUT,
    TRAIN,
    CharacterStream,
    Words,
    join_words,
    write_character_stream,
)
from crossner_cli.run.progress import exhaust

SOME = [["ab", "ba."], ["ba"], ["ab", "ab", "b"], ["a" * 60]] * 3

sentences = st.lists(st.lists(st.text("abc.Ж", min_size=1, max_size=5), min_size=1, max_size=4), min_size=1, max_size=8)


def write(folder: Path, texts: dict[str, list[Words]], held_out: float = 0.0, window: int = 8) -> dict[str, Any]:
    return exhaust(write_character_stream(texts, folder, held_out=held_out, window=window))


def decoded(folder: Path, side: str, held: str, characters: list[str]) -> str:
    return "".join(characters[number] for number in np.fromfile(folder / f"{held}-{side}.bin", "<u2"))


@settings(max_examples=25)
@given(sentences)
def test_both_directions_are_written_as_taggers_read_them(
    tmp_path_factory: pytest.TempPathFactory, text: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("text")
    thrice = [*text] * 3  # what is met less often has no number
    record = write(folder, {"target": thrice})
    assert record["characters"][:3] == ["<unk>", "\n", " "] and record["unknown_characters"] == 0
    spelled = [join_words(words) for words in thrice]
    forward, backward = (decoded(folder, side, TRAIN, record["characters"]) for side in ("forward", "backward"))
    assert forward == "".join(f"\n{each} " for each in spelled)
    assert backward == "".join(f"\n{each[::-1]} " for each in spelled)
    assert record["length"] == {"target": len(forward)} and not (folder / "held-out-forward.bin").read_bytes()


def test_equal_sentences_are_held_out_together_and_nothing_is_lost(tmp_path: Path) -> None:
    texts = {"target": [["word", str(number % 50)] for number in range(200)], "source": [["news", str(7)]] * 4}
    record = write(tmp_path, texts, held_out=0.2, window=40)
    train, held = (
        {*decoded(tmp_path, "forward", side, record["characters"]).split("\n")} - {""} for side in (TRAIN, HELD_OUT)
    )
    assert not train & held and len(train | held) == 51
    assert 40 <= record["held_out_length"] <= sum(record["length"].values()) - 40
    assert record["sentences"] == {"target": 200, "source": 4}
    again = write(tmp_path, {}, held_out=0.2, window=40)
    assert again == record


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(8, 20), st.integers(0, 2))
def test_an_epoch_reads_each_character_of_a_row_once_wherever_it_begins(
    tmp_path_factory: pytest.TempPathFactory, rows: int, window: int, epoch: int
) -> None:
    folder = tmp_path_factory.mktemp("text")
    write(folder, {"target": SOME})
    stream = CharacterStream(folder, TRAIN, rows, window, seed=3)
    whole = np.fromfile(folder / "train-forward.bin", "<u2")
    batches = [stream.batch(items, epoch) for items in stream.epoch(epoch)]
    assert [batch.begins for batch in batches] == [True] + [False] * (len(batches) - 1)
    read = torch.cat([batch.read[0] for batch in batches], dim=1)
    following = torch.cat([batch.following[0] for batch in batches], dim=1)
    assert read.shape == (stream.rows, stream.row_length) and sum(batch.words for batch in batches) == read.numel()
    assert torch.equal(read[:, 1:], following[:, :-1]) and torch.equal(read.flatten()[1:], following.flatten()[:-1])
    twice = np.concatenate([whole, whole]).tolist()
    assert any(twice[start : start + read.numel()] == read.flatten().tolist() for start in range(len(whole)))
    assert len(whole) - 1 - read.numel() < stream.rows


def test_rows_begin_elsewhere_in_each_epoch_and_where_the_text_does_without_a_seed(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    write(tmp_path, {"target": [["".join(draw.choice(list("abcdefgh"), 9))] for _ in range(40)]})
    whole = np.fromfile(tmp_path / "train-forward.bin", "<u2").tolist()

    def first_characters(seed: int | None, epoch: int) -> list[int]:
        read: list[int] = CharacterStream(tmp_path, TRAIN, 1, 8, seed=seed).batch([0], epoch).read[0, 0].tolist()
        return read

    assert [first_characters(None, epoch) for epoch in (0, 1)] == [whole[:8]] * 2
    begun = [first_characters(seed, epoch) for seed in (1, 2) for epoch in range(3)]
    assert len({tuple(read) for read in begun}) == 6
    assert begun[:3] == [first_characters(1, epoch) for epoch in range(3)]
