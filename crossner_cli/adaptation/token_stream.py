"""A text file as one stream of subword ids on disk, cut into blocks of equal length.

Paper: Liu et al. (2021), CrossNER: line ends are ignored, the last partial block is dropped, nothing is padded.
Differs: some lines are held out to measure perplexity, and a line is text throughout: "[SEP]" in it is not a separator.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor

from crossner_cli.corpus.mentions import Line, MentionedLines, make_join_bit
from crossner_cli.data.files import open_lines
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Progress, Work
from crossner_cli.run.storage import flush_folder, write_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRAIN, HELD_OUT, RECORD = "train.bin", "held-out.bin", "token-stream.json"
BATCH_CHARACTERS = 2**18
LONGEST_LINE = 2**16  # characters; a file may be a single line
LARGEST_SHARE = 0.5
CORPUS_SHARE = b"corpus share"  # lines are taken by another hash than they are held out

Counts = dict[str, Any]


@dataclass(frozen=True)
class StreamSettings:
    """The way to cut a corpus into blocks.

    Args:
        held_out: Share of lines to hold out.
        block_size: Subwords of a block, special ones included.
        share: Share of the other lines to train on, by another hash of their text: a smaller share is part of a larger
            one, and the held-out lines are the same for all.
    """

    held_out: float
    block_size: int
    share: float = 1.0


def border_ids(tokenizer: PreTrainedTokenizerBase) -> tuple[int | None, int | None]:
    """Ids that open and close a block: [CLS] and [SEP], else begin and end of text, else None."""
    first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    return first, last


def write_token_stream(
    corpus: Path,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    settings: StreamSettings,
    mentions: Path | None = None,
) -> Work[Counts]:
    """Write the subwords of a text file as ``train.bin`` and ``held-out.bin``, in the memory of a batch of lines.

    A line is held out by a hash of its text, so equal lines are on the same side, on every machine. If that leaves a
    side without a whole block, the share is doubled, up to a half, until both have one; if they never do, the last
    block of the stream is held out instead (``split`` is then ``place``). A corpus of less than two blocks is all for
    training, as with ``held_out`` 0 (``split`` is ``none``).

    A finished folder of the same corpus, tokenizer and settings is used again; an unfinished one is written again.

    Args:
        mentions: The places of names in the corpus, if ``prepare-data`` stored them; then the highest bit of a subword
            is set if it belongs to the mention of the subword before it.

    Returns:
        Counts: ``lines``, ``subwords``, ``held_out_lines``, ``held_out_subwords`` (the totals include the held-out
        ones), ``unknown_subwords``, with mentions ``joined_subwords``, ``blank_lines`` (skipped), ``left_out_lines``
        (beyond ``share``; no other count has them), ``cut_lines`` (longer than 65,536 characters and read as several),
        ``split``, ``held_out_share`` and ``dtype``.

    Raises:
        CrossNERError: The corpus cannot be read, is not UTF-8 or has no text.
    """
    encoder = _plain_encoder(tokenizer)
    pieces = settings.block_size - sum(border is not None for border in border_ids(tokenizer))
    request = {
        "corpus": corpus.name,
        "corpus_bytes": _size(corpus),
        "tokenizer": hashlib.sha256(encoder.to_str().encode()).hexdigest(),
        "mentions_bytes": _size(mentions) if mentions else None,
        **asdict(settings),
    }
    finished = _finished(folder, request)
    if finished is not None:
        return finished
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).unlink(missing_ok=True)
    names = MentionedLines(mentions) if mentions else None
    writer = _Writer(corpus, encoder, tokenizer.unk_token_id, folder, settings.share, names)
    counts = yield from _split(writer, settings.held_out, pieces)
    if counts["subwords"] == 0:
        raise CrossNERError(f"{corpus} has no text.", hint="Give prepare-data a --corpus that has text.")
    for name in (TRAIN, HELD_OUT):
        writer.draft(name).replace(folder / name)
    flush_folder(folder)
    write_json(folder / RECORD, {"request": request, "counts": counts})
    return counts


def _split(writer: _Writer, held_out: float, pieces: int) -> Work[Counts]:
    """Write both sides so that each has a whole block, as ``write_token_stream`` says."""
    share = held_out
    while True:
        counts = yield from writer.write(share)
        if share == 0:
            return counts | {"split": "none"}
        train = counts["subwords"] - counts["held_out_subwords"]
        if train >= pieces and counts["held_out_subwords"] >= pieces:
            return counts | {"split": "line"}
        if counts["subwords"] < 2 * pieces or share >= LARGEST_SHARE:
            break
        share = min(2 * share, LARGEST_SHARE)
    counts = yield from writer.write(0.0)
    if counts["subwords"] < 2 * pieces:
        return counts | {"split": "none"}
    writer.move_end(pieces)
    return counts | {"split": "place", "held_out_subwords": pieces}


@dataclass
class _Writer:
    """Reads a corpus and writes both sides under draft names, always from the start."""

    corpus: Path
    encoder: Tokenizer
    unknown_id: int | None
    folder: Path
    share: float
    mentions: MentionedLines | None = None
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        largest = max(self.encoder.get_vocab(with_added_tokens=True).values(), default=0)
        self.dtype = "<u2" if largest < (2**15 if self.mentions else 2**16) else "<u4"

    def draft(self, name: str) -> Path:
        """Path of a side until both are finished."""
        return self.folder / f".{name}.draft"

    def write(self, share: float) -> Work[Counts]:
        """Write both sides, with this share of the lines held out."""
        names = ["lines", "subwords", "held_out_lines", "held_out_subwords", "unknown_subwords", "left_out_lines"]
        names += ["joined_subwords"] if self.mentions else []
        counts: Counts = dict.fromkeys((*names, "blank_lines", "cut_lines", "bytes"), 0)
        size = _size(self.corpus)
        with self.draft(TRAIN).open("wb") as train, self.draft(HELD_OUT).open("wb") as held_out:
            for lines in _batches(_lines(self.corpus, counts)):
                self._append(lines, share, train, held_out, counts)
                done = min(counts["bytes"], size)
                yield Progress("tokenise", done, size, "bytes", {"subwords": counts["subwords"]})
            for stream in (train, held_out):
                stream.flush()
                os.fsync(stream.fileno())
        del counts["bytes"]
        return counts | {"held_out_share": share, "dtype": self.dtype}

    def _append(self, lines: list[Line], share: float, train: BinaryIO, held_out: BinaryIO, counts: Counts) -> None:
        if self.share < 1:
            taken = [line for line in lines if _is_below(line, share) or _is_below(line, self.share, CORPUS_SHARE)]
            counts["left_out_lines"] += len(lines) - len(taken)
            lines = taken
        if not lines:
            return
        encoded = self._encode([line.text for line in lines])
        lengths = np.array([len(encoding.ids) for encoding in encoded], np.int64)
        ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encoded), self.dtype, int(lengths.sum()))
        is_held_out = np.array([_is_below(line, share) for line in lines], np.bool_)
        here = np.repeat(is_held_out, lengths)
        counts["subwords"] += len(ids)
        counts["held_out_subwords"] += int(np.count_nonzero(here))
        if self.unknown_id is not None:
            counts["unknown_subwords"] += int(np.count_nonzero(ids == self.unknown_id))
        if self.mentions:
            joins = self.mentions.find_joins(lines, encoded, lengths)
            counts["joined_subwords"] += int(np.count_nonzero(joins))
            ids[joins] |= make_join_bit(self.dtype)
        for stream, side in ((train, ids[~here]), (held_out, ids[here])):
            stream.write(side.tobytes())  # tofile does not report a full disk
        counts["lines"] += len(lines)
        counts["held_out_lines"] += int(is_held_out.sum())

    def _encode(self, texts: list[str]) -> list[Encoding]:
        # Only the slower of the two gives the place of a subword in the text.
        encode = self.encoder.encode_batch if self.mentions else self.encoder.encode_batch_fast
        return list(encode(texts, add_special_tokens=False))

    def move_end(self, pieces: int) -> None:
        """Move the last subwords of the training side to the held-out side, which is empty."""
        size = pieces * np.dtype(self.dtype).itemsize
        with self.draft(TRAIN).open("r+b") as train, self.draft(HELD_OUT).open("wb") as held_out:
            end = train.seek(-size, os.SEEK_END)
            held_out.write(train.read())
            train.truncate(end)
            for stream in (train, held_out):
                stream.flush()
                os.fsync(stream.fileno())


def _plain_encoder(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """Copy the backend of a fast tokenizer without truncation, padding or special subwords in the text."""
    backend: Tokenizer = tokenizer.backend_tokenizer
    encoder: Tokenizer = Tokenizer.from_str(backend.to_str())
    encoder.no_truncation()
    encoder.no_padding()
    encoder.encode_special_tokens = True
    return encoder


def _finished(folder: Path, request: dict[str, Any]) -> Counts | None:
    """Return the counts of a finished folder of the same request, or None."""
    path = folder / RECORD
    if not path.is_file():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    counts: Counts = record["counts"]
    width = np.dtype(counts["dtype"]).itemsize
    sizes = [path.stat().st_size // width if path.is_file() else -1 for path in (folder / TRAIN, folder / HELD_OUT)]
    expected = [counts["subwords"] - counts["held_out_subwords"], counts["held_out_subwords"]]
    return counts if record["request"] == request and sizes == expected else None


def _is_below(line: Line, share: float, purpose: bytes = b"") -> bool:
    """Return whether a line is in a share, by a hash of its text; each purpose has an independent hash."""
    digest = hashlib.blake2b(line.text.encode(), digest_size=8, person=purpose).digest()
    return int.from_bytes(digest, "little") < share * 2**64


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise CrossNERError(f"{path}: cannot be read ({error.strerror}).", hint="Check the path.") from None


def _lines(corpus: Path, counts: Counts) -> Iterator[Line]:
    """Yield stripped lines; blank ones are counted and skipped, overlong ones counted and cut."""
    for number, line in open_lines(corpus):
        counts["bytes"] += len(line.encode()) + 1
        counts["cut_lines"] += len(line) > LONGEST_LINE
        start = 0
        for part in _parts(line):
            if text := part.strip():
                yield Line(text, number - 1, start + len(part) - len(part.lstrip()))
            else:
                counts["blank_lines"] += 1
            start += len(part)


def _parts(line: str) -> Iterator[str]:
    """Cut a line that is too long, at spaces if there are any."""
    start = 0
    while len(line) - start > LONGEST_LINE:
        space = line.rfind(" ", start, start + LONGEST_LINE)
        end = space if space > start else start + LONGEST_LINE
        yield line[start:end]
        start = end
    yield line[start:]


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Group lines into batches of about as many characters each."""
    batch: list[Line] = []
    characters = 0
    for line in lines:
        batch.append(line)
        characters += len(line.text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


class TokenBlocks:
    """Blocks of a token stream, read from disk on access.

    The file is mapped and its pages are given back to the system at once, so memory does not depend on the corpus.

    Args:
        path: A file that ``write_token_stream`` wrote.
        block_size: Subwords of a block, special ones included (T).
        has_joins: True if the highest bit of a subword marks it as part of the mention of the one before it.

    Raises:
        CrossNERError: The file is missing or was cut.
    """

    def __init__(
        self,
        path: Path,
        block_size: int,
        cls_id: int | None,
        sep_id: int | None,
        dtype: str,
        *,
        has_joins: bool = False,
    ) -> None:
        self.block_size = block_size
        self._join_bit = int(make_join_bit(dtype)) if has_joins else 0
        self._first = [] if cls_id is None else [cls_id]
        self._last = [] if sep_id is None else [sep_id]
        self._pieces = block_size - len(self._first) - len(self._last)
        width = np.dtype(dtype).itemsize
        size = _size(path)
        if size % width:
            raise CrossNERError(f"{path}: {size} bytes are not a whole number of subwords.", hint="Give --force.")
        self._count, self.dropped_subwords = divmod(size // width, self._pieces)
        self._map: mmap.mmap | None = None
        if self._count:
            with path.open("rb") as stream:
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        stored = np.frombuffer(self._map or b"", dtype=dtype, count=self._count * self._pieces)
        self._stored = stored.reshape(self._count, self._pieces)

    def close(self) -> None:
        """Close the file, which some network file systems cannot delete while it is mapped; no block is left."""
        self._count, self._stored = 0, self._stored[:0].copy()
        if self._map is not None:
            self._map.close()
            self._map = None

    def __len__(self) -> int:
        """Whole blocks; the subwords of the last partial one are ``dropped_subwords``."""
        return self._count

    def batch(self, indices: Sequence[int] | np.ndarray[Any, Any]) -> Tensor:
        """Read some blocks: ids (B, T), none of them padding."""
        return self.batch_with_joins(indices)[0]

    def batch_with_joins(self, indices: Sequence[int] | np.ndarray[Any, Any]) -> tuple[Tensor, Tensor]:
        """Read some blocks: ids, and which subwords belong to the mention of the one before them; both (B, T)."""
        rows = np.asarray(indices, dtype=np.int64)
        ids = torch.empty((len(rows), self.block_size), dtype=torch.long)
        first = len(self._first)
        ids[:, :first] = torch.tensor(self._first, dtype=torch.long)
        ids[:, first + self._pieces :] = torch.tensor(self._last, dtype=torch.long)
        ids[:, first : first + self._pieces] = torch.from_numpy(self._stored[rows].astype(np.int64))
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)
        joins = (ids & self._join_bit) != 0
        return (ids & ~self._join_bit if self._join_bit else ids), joins

    def epoch_order(self, epoch: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the order in which an epoch reads the blocks, each once, (blocks,)."""
        return np.random.default_rng((seed, epoch)).permutation(len(self))
