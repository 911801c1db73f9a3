"""Token streams: nothing lost, equal lines on one side, redone when interrupted, and no memory for large files."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from crossner_cli.adaptation import token_stream
from crossner_cli.adaptation.token_stream import StreamSettings, TokenBlocks, border_ids, write_token_stream
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Progress, exhaust

WORDS = [f"w{number}" for number in range(60)]
SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
BLOCK = 12


def make_tokenizer(vocabulary_size: int = 0, **special: str) -> PreTrainedTokenizerFast:
    """Whole words of WORDS; every other word is unknown. Cuts and pads, as some published tokenizers do."""
    names = [*SPECIAL.values(), *WORDS, "[", "]", "SEP"]
    names += [f"filler{number}" for number in range(vocabulary_size - len(names))]
    backend = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", names.index("[CLS]")), ("[SEP]", names.index("[SEP]"))]
    )
    backend.enable_truncation(4)
    backend.enable_padding(length=4)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **(special or SPECIAL))


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()


def some_lines(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 15))) for _ in range(count)]


def write_corpus(folder: Path, lines: list[str]) -> Path:
    path = folder / "domain.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def stream_of(corpus: Path, tokenizer, folder: Path, held_out: float = 0.0, block_size: int = BLOCK):
    return exhaust(write_token_stream(corpus, tokenizer, folder, StreamSettings(held_out, block_size)))


def words_in(path: Path, tokenizer, dtype: str = "<u2") -> list[str]:
    return tokenizer.convert_ids_to_tokens(np.fromfile(path, dtype=dtype).tolist())


def blocks_of(folder: Path, tokenizer, name: str = "train.bin", block_size: int = BLOCK) -> TokenBlocks:
    counts = json.loads((folder / "token-stream.json").read_text())["counts"]
    return TokenBlocks(folder / name, block_size, *border_ids(tokenizer), counts["dtype"])


def test_the_stream_is_the_subwords_of_all_lines_in_order_without_special_ones(tmp_path, tokenizer):
    before = tokenizer.backend_tokenizer.to_str()
    lines = [*some_lines(200), "w1 [SEP] w2"]
    counts = stream_of(write_corpus(tmp_path, lines), tokenizer, tmp_path / "stream")
    expected = [*" ".join(lines[:-1]).split(), "w1", "[", "SEP", "]", "w2"]
    assert words_in(tmp_path / "stream" / "train.bin", tokenizer) == expected
    assert (counts["lines"], counts["subwords"], counts["held_out_subwords"]) == (201, len(expected), 0)
    assert (counts["split"], counts["dtype"]) == ("none", "<u2")
    assert tokenizer.backend_tokenizer.to_str() == before, "the tokenizer is left unaltered"


def test_batches_of_any_size_make_the_same_stream_and_progress_counts_bytes_to_the_end(
    tmp_path, tokenizer, monkeypatch
):
    corpus = write_corpus(tmp_path, some_lines(300))
    one = stream_of(corpus, tokenizer, tmp_path / "one", 0.1)
    monkeypatch.setattr(token_stream, "BATCH_CHARACTERS", 100)
    events = list(write_token_stream(corpus, tokenizer, tmp_path / "many", StreamSettings(0.1, BLOCK)))
    assert one == stream_of(corpus, tokenizer, tmp_path / "many", 0.1)
    for name in ("train.bin", "held-out.bin"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()
    done = [event.done for event in events if isinstance(event, Progress)]
    assert len(done) > 3 and done == sorted(done)
    assert done[-1] == events[-1].total == corpus.stat().st_size


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_share_asked_for_is_held_out_equal_lines_on_one_side_and_no_line_lost(tmp_path, tokenizer, share):
    lines = [f"{line} x{number}" for number, line in enumerate(some_lines(4000))]
    counts = stream_of(write_corpus(tmp_path, lines), tokenizer, tmp_path / "once", share)
    assert counts["held_out_lines"] / counts["lines"] == pytest.approx(share, abs=0.02)
    assert (counts["split"], counts["held_out_share"]) == ("line", share)
    train, held = (words_in(tmp_path / "once" / name, tokenizer) for name in ("train.bin", "held-out.bin"))
    expected = [word if word in WORDS else "[UNK]" for word in " ".join(lines).split()]
    assert sorted(train + held) == sorted(expected)
    assert (counts["subwords"] - counts["held_out_subwords"], counts["held_out_subwords"]) == (len(train), len(held))
    twice = stream_of(write_corpus(tmp_path, lines + lines), tokenizer, tmp_path / "twice", share)
    assert twice["held_out_lines"] == 2 * counts["held_out_lines"] > 0
    assert words_in(tmp_path / "twice" / "held-out.bin", tokenizer) == held + held


def test_the_share_is_doubled_until_a_whole_block_is_held_out_of_two_or_more(tmp_path, tokenizer):
    counts = stream_of(write_corpus(tmp_path, some_lines(40)), tokenizer, tmp_path / "stream", 0.0001)
    assert counts["split"] == "line"
    assert counts["held_out_subwords"] >= BLOCK - 2
    doublings = np.log2(counts["held_out_share"] / 0.0001)
    assert doublings == round(doublings) > 0 or counts["held_out_share"] == 0.5
    for lines in (6, 1):
        counts = stream_of(write_corpus(tmp_path, ["w1 w2 w3"] * lines), tokenizer, tmp_path / "stream", 0.5)
        assert (counts["split"], counts["held_out_subwords"], counts["subwords"]) == ("none", 0, 3 * lines)
        assert len(blocks_of(tmp_path / "stream", tokenizer, "held-out.bin")) == 0
    blocks = blocks_of(tmp_path / "stream", tokenizer)
    assert (len(blocks), blocks.dropped_subwords) == (0, 3)
    assert blocks.epoch_order(0, 0).tolist() == []
    assert blocks.batch([]).shape == (0, BLOCK)


def test_a_file_of_one_long_line_is_cut_at_spaces_and_loses_nothing(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(token_stream, "LONGEST_LINE", 50)
    words = " ".join(some_lines(60)).split()
    corpus = tmp_path / "domain.txt"
    corpus.write_text(" ".join(words))
    counts = stream_of(corpus, tokenizer, tmp_path / "stream")
    assert words_in(tmp_path / "stream" / "train.bin", tokenizer) == words
    assert counts["cut_lines"] == 1 and counts["lines"] > 10 and counts["blank_lines"] == 0
    for line in ("a b" * 40, "a" * 120, " " * 120, "ab " * 40):
        parts = list(token_stream._parts(line))
        assert "".join(parts) == line and all(len(part) <= 50 for part in parts)


def test_a_finished_stream_is_used_again_until_share_corpus_or_tokenizer_is_another(tmp_path, tokenizer):
    folder, corpus = tmp_path / "stream", write_corpus(tmp_path, some_lines(50))
    first = stream_of(corpus, tokenizer, folder, 0.2)
    assert list(write_token_stream(corpus, tokenizer, folder, StreamSettings(0.2, BLOCK))) == []
    assert stream_of(corpus, tokenizer, folder, 0.2) == first
    assert stream_of(corpus, tokenizer, folder, 0.4)["held_out_share"] == 0.4
    assert stream_of(corpus, make_tokenizer(70_000), folder, 0.4)["dtype"] == "<u4"
    assert stream_of(write_corpus(tmp_path, some_lines(60)), tokenizer, folder, 0.4)["lines"] == 60


def test_an_interrupted_or_damaged_stream_is_redone(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(token_stream, "BATCH_CHARACTERS", 100)
    folder, corpus = tmp_path / "stream", write_corpus(tmp_path, some_lines(50))
    work = write_token_stream(corpus, tokenizer, folder, StreamSettings(0.2, BLOCK))
    next(work)
    work.close()
    record, stream = folder / "token-stream.json", folder / "train.bin"
    assert not record.exists() and not stream.exists()
    assert stream_of(corpus, tokenizer, folder, 0.2)["lines"] == 50
    whole = stream.read_bytes()
    for is_recorded in (True, False):
        stream.write_bytes(whole[:100])
        if not is_recorded:
            record.unlink()
        stream_of(corpus, tokenizer, folder, 0.2)
        assert stream.read_bytes() == whole


def test_a_missing_or_cut_stream_file_is_refused(tmp_path):
    with pytest.raises(CrossNERError, match="cannot be read"):
        TokenBlocks(tmp_path / "train.bin", BLOCK, 1, 2, "<u2")
    (tmp_path / "train.bin").write_bytes(b"abc")
    with pytest.raises(CrossNERError, match="3 bytes"):
        TokenBlocks(tmp_path / "train.bin", BLOCK, 1, 2, "<u2")


def test_blocks_are_the_stream_in_order_between_cls_and_sep_and_every_epoch_has_its_own_order(tmp_path, tokenizer):
    lines = some_lines(100)
    stream_of(write_corpus(tmp_path, lines), tokenizer, tmp_path / "stream")
    blocks = blocks_of(tmp_path / "stream", tokenizer)
    words = " ".join(lines).split()
    assert len(blocks) == len(words) // (BLOCK - 2)
    assert blocks.dropped_subwords == len(words) % (BLOCK - 2)
    ids = blocks.batch(range(len(blocks)))
    assert ids.shape == (len(blocks), BLOCK)
    assert (ids[:, 0] == tokenizer.cls_token_id).all()
    assert (ids[:, -1] == tokenizer.sep_token_id).all()
    assert tokenizer.convert_ids_to_tokens(ids[:, 1:-1].flatten().tolist()) == words[: len(blocks) * (BLOCK - 2)]
    assert not (ids == tokenizer.pad_token_id).any()
    assert blocks.batch([5, 0, 5]).tolist() == ids[[5, 0, 5]].tolist()
    assert blocks.batch(np.array([3])).tolist() == ids[[3]].tolist()
    orders = [blocks.epoch_order(epoch, seed).tolist() for epoch, seed in [(0, 1), (1, 1), (0, 2)]]
    assert all(sorted(order) == list(range(len(blocks))) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert blocks.epoch_order(1, 1).tolist() == orders[1]


@pytest.mark.parametrize(
    ("special", "borders"),
    [
        ({"bos_token": "w1", "eos_token": "w2"}, ["w1", "w2"]),
        ({"eos_token": "w2"}, [None, "w2"]),
        ({"unk_token": "[UNK]"}, [None, None]),
        ({"cls_token": "[CLS]", "sep_token": "[SEP]", "bos_token": "w1", "eos_token": "w2"}, ["[CLS]", "[SEP]"]),
    ],
)
def test_blocks_open_and_close_with_what_the_tokenizer_has(tmp_path, special, borders):
    other = make_tokenizer(**special)
    stream_of(write_corpus(tmp_path, ["w3 " * 50]), other, tmp_path / "stream")
    blocks = blocks_of(tmp_path / "stream", other)
    inside = BLOCK - sum(border is not None for border in borders)
    assert len(blocks) == 50 // inside
    expected = [borders[0], *["w3"] * inside, borders[1]]
    assert other.convert_ids_to_tokens(blocks.batch([0])[0].tolist()) == [word for word in expected if word]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident set from /proc")
def test_reading_a_large_stream_takes_no_memory(tmp_path):
    size = 400 * 2**20
    path = tmp_path / "train.bin"
    with path.open("wb") as stream:
        stream.truncate(size)  # sparse: takes no space on disk
    blocks = TokenBlocks(path, 2050, 1, 2, "<u2")  # a block is one page
    blocks.batch([0])
    before, most = resident_bytes(), 0
    order = np.arange(len(blocks))
    for start in range(0, len(order), 4096):
        for numbers in np.split(order[start : start + 4096], 16):
            blocks.batch(numbers)
        most = max(most, resident_bytes())
    assert most - before < size / 8


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_smaller_share_of_the_corpus_is_part_of_a_larger_one_beside_the_same_held_out_lines(tmp_path, tokenizer):
    lines = [f"{WORDS[number % 60]} {WORDS[number // 60]}" for number in range(600)]
    corpus = write_corpus(tmp_path, lines)
    sides: dict[float, list[set[tuple[str, str]]]] = {}
    for share in (0.1, 0.5, 1.0):
        folder = tmp_path / str(share)
        work = write_token_stream(corpus, tokenizer, folder, StreamSettings(0.2, BLOCK, share))
        counts = exhaust(work)
        words = [words_in(folder / name, tokenizer) for name in ("train.bin", "held-out.bin")]
        sides[share] = [set(zip(side[::2], side[1::2], strict=True)) for side in words]
        assert counts["lines"] + counts["left_out_lines"] == 600
        taken = counts["lines"] - counts["held_out_lines"]
        assert abs(taken / (600 - counts["held_out_lines"]) - share) < 0.06
    assert sides[0.1][1] == sides[0.5][1] == sides[1.0][1]
    assert sides[0.1][0] < sides[0.5][0] < sides[1.0][0]
    assert len(sides[1.0][0] | sides[1.0][1]) == 600
