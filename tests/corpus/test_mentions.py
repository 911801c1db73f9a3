"""Masks that know listed names: from the mentions of a corpus level to the subwords that are masked together."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import PreTrainedTokenizerFast

from crossner_cli.adaptation.masking import NOT_CHOSEN, choose_units, mask_block
from crossner_cli.adaptation.token_stream import HELD_OUT, TRAIN, StreamSettings, TokenBlocks, write_token_stream
from crossner_cli.corpus.levels import write_levels
from crossner_cli.corpus.mentions import MENTION, MentionedLines
from crossner_cli.corpus.selection import Selection
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import exhaust

BLOCK = 16
SENTENCES = ["Ada Lovelace saw New York.", "In York she read the New York Times.", "Ada, Ada Lovelace!"]


@functools.cache
def tokenizer(large=False):
    """Word pieces of one to three characters, which tell their text."""
    special = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    special |= {"mask_token": "[MASK]", "pad_token": "[PAD]"}
    pieces = [*special.values(), *sorted({f"{start}{char}" for char in "".join(SENTENCES) for start in ("", "##")})]
    pieces += ["Ada", "Love", "##lace", "New", "York", "##es", "Tim"]
    pieces += [f"unused{number}" for number in range(40_000)] if large else []
    backend = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.pre_tokenizer = BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


@pytest.fixture
def level(tmp_path):
    """A corpus level with its mentions."""
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES * 20) + "\n", encoding="utf-8")
    names = ["Ada\tperson", "Ada Lovelace\tperson", "New York\tcity", "New York Times\tpaper", "York\tcity"]
    (tmp_path / "names.tsv").write_text("\n".join(names), encoding="utf-8")
    exhaust(write_levels([tmp_path / "text.txt"], [tmp_path / "names.tsv"], tmp_path / "corpus", Selection()))
    return tmp_path / "corpus" / "domain.txt"


def stream(level, folder, *, large=False, **options):
    mentions = options.get("mentions", level.with_suffix(".mentions"))
    settings = StreamSettings(options.get("held_out", 0.0), BLOCK)
    return exhaust(write_token_stream(level, tokenizer(large), folder, settings, mentions))


def blocks_of(folder, counts, name=TRAIN):
    return TokenBlocks(folder / name, BLOCK, 1, 2, counts["dtype"], has_joins=True)


def test_the_mentions_of_a_level_are_its_names(level):
    rows = np.fromfile(level.with_suffix(".mentions"), MENTION).reshape(-1, 3).tolist()
    found = [(line, SENTENCES[line % 3][start:end]) for line, start, end in rows]
    names = [["Ada Lovelace", "New York"], ["York", "New York Times"], ["Ada", "Ada Lovelace"]]
    assert found == [(line, name) for line in range(60) for name in names[line % 3]]
    level.with_suffix(".mentions").write_bytes(b"x" * 13)
    with pytest.raises(CrossNERError, match="13 bytes are not a whole number of mentions"):
        MentionedLines(level.with_suffix(".mentions"))


@pytest.mark.parametrize("large", [False, True])
def test_subwords_of_a_mention_are_joined_and_no_others(level, tmp_path, large):
    counts = stream(level, tmp_path / "stream", large=large)
    assert counts["dtype"] == ("<u4" if large else "<u2")
    ids, joins = blocks_of(tmp_path / "stream", counts).batch_with_joins([0, 1, 2])
    pieces = tokenizer(large).convert_ids_to_tokens(ids[:, 1:-1].flatten().tolist())
    units: list[str] = []
    for piece, is_joined in zip(pieces, joins[:, 1:-1].flatten().tolist(), strict=True):
        if is_joined:
            units[-1] += piece.removeprefix("##")
        else:
            units.append(piece)
    assert units[:6] == ["AdaLovelace", "s", "##a", "##w", "NewYork", "."]
    assert "NewYorkTimes" in units and "Ada" in units and "York" in units
    assert counts["joined_subwords"] >= int(joins.sum()) > 0
    assert not joins[:, [0, -1]].any()


def test_a_stream_without_mentions_has_the_same_subwords(level, tmp_path):
    marked, plain = stream(level, tmp_path / "a"), stream(level, tmp_path / "b", mentions=None)
    assert "joined_subwords" not in plain and plain["subwords"] == marked["subwords"]
    blocks = TokenBlocks(tmp_path / "b" / TRAIN, BLOCK, 1, 2, plain["dtype"])
    assert torch.equal(blocks_of(tmp_path / "a", marked).batch([0, 3]), blocks.batch([0, 3]))
    assert not blocks.batch_with_joins([0, 3])[1].any()
    exhausted = stream(level, tmp_path / "b")
    assert "joined_subwords" in exhausted, "a stream without joins was taken for one with them"


def test_held_out_lines_carry_their_joins_too(level, tmp_path):
    counts = stream(level, tmp_path / "stream", held_out=0.4)
    assert counts["held_out_subwords"] > 0
    parts = [np.fromfile(tmp_path / "stream" / name, counts["dtype"]) for name in (TRAIN, HELD_OUT)]
    joined = [int(np.count_nonzero(part >> (8 * part.itemsize - 1))) for part in parts]
    assert max(joined) > 0 and sum(joined) == counts["joined_subwords"]


def test_mentions_of_overlong_lines_are_found_in_their_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("crossner_cli.adaptation.token_stream.LONGEST_LINE", 40)
    line = "x " * 30 + "Ada Lovelace " + "y " * 30 + "New York"
    (tmp_path / "long.txt").write_text(line + "\nAda Lovelace\n", encoding="utf-8")
    rows = [(0, line.index("Ada"), line.index(" y")), (0, line.index("New"), len(line)), (1, 0, 12)]
    np.array(rows, MENTION).tofile(tmp_path / "long.mentions")
    counts = stream(tmp_path / "long.txt", tmp_path / "stream")
    assert counts["cut_lines"] == 1
    assert counts["joined_subwords"] == 2 + 1 + 2  # Ada Love ##lace, New York, Ada Love ##lace


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.booleans(), min_size=3, max_size=40), st.floats(0.05, 0.9), st.integers(0, 1000))
def test_units_are_chosen_whole(joined, rate, seed):
    joins = torch.tensor([joined])
    special = torch.zeros_like(joins)
    special[:, [0, -1]] = True
    chosen = choose_units(special, joins, rate, torch.Generator().manual_seed(seed))[0].tolist()
    assert not chosen[0] and not chosen[-1]
    for place in range(2, len(joined) - 1):
        if joined[place]:
            assert chosen[place] == chosen[place - 1]


def mask(ids, joins, special_ids):
    """Whether each subword is masked."""
    generator = torch.Generator().manual_seed(2)
    _, labels = mask_block(
        ids,
        level="entity",
        rate=0.15,
        special_ids=special_ids,
        mask_id=3,
        vocabulary_size=50,
        generator=generator,
        joins=joins,
    )
    return labels != NOT_CHOSEN


def test_the_rate_is_kept_however_long_the_mentions_are():
    joins = torch.rand((400, 128), generator=torch.Generator().manual_seed(0)) < 0.5
    assert abs(mask(torch.full((400, 128), 7), joins, []).float().mean().item() - 0.15) < 0.01


def test_masks_of_mentions_are_the_chosen_units_and_are_moved_nowhere():
    ids = torch.randint(5, 50, (8, 64), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = 1, 2
    joins = torch.rand((8, 64), generator=torch.Generator().manual_seed(1)) < 0.3
    expected = choose_units((ids == 1) | (ids == 2), joins, 0.15, torch.Generator().manual_seed(2))
    assert torch.equal(mask(ids, joins, [1, 2]), expected)
