"""Static word vectors: read from published files in bounded memory, trained on raw text, or made of character n-grams.

Papers: Pennington et al. (2014), GloVe; Mikolov et al. (2013), word2vec; Bojanowski et al. (2017), fastText; Hashimoto
et al. (2017), A Joint Many-Task Model, for character n-grams. A file is known by its content, never by its name.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from gzip import GzipFile
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from crossner_cli.data.readers import BYTE_ORDER_MARK, open_binary
from crossner_cli.errors import CrossNERError
from crossner_cli.run.environment import import_optional

LONGEST_SENTENCE = 10_000  # words; gensim drops what follows
# Hash values of the character n-grams; the usual 2,000,000 take 800 MB at 100 values, for any corpus.
BUCKETS = 2**18

Form = Literal["exact", "lower_cased", "digits", "n_grams"]
Vectors = NDArray[np.float32]

LABELS: dict[Form, str] = {
    "exact": "as they are", "lower_cased": "lower-cased", "digits": "with digits as 0",
    "n_grams": "from their character n-grams",
}  # fmt: skip
BLOCK = 2**20
LONGEST_LINE, LONGEST_WORD, LARGEST_SIZE = 2**24, 2**16, 2**15
LARGEST_VALUE = 1e6  # in binary: larger ones are letters, read as a number behind a word that holds a space
BEGIN, END = "#BEGIN#", "#END#"

_DIGIT, _WHOLE = re.compile(r"\d"), re.compile(rb"\d{1,18}")
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:[nN][aA][nN]|[iI][nN][fF])")
_OTHER_SEPARATORS = re.compile(rb"[\t,;]")
_FORMATS = "GloVe text, word2vec text or fastText .vec, and word2vec binary are read, plain or as gzip."
_MEND = "Mend or take out the entry. If it is a word that holds a number behind a space, write _ for the space."
_SPACED = "Write _ for the spaces of words, at which word2vec binary takes them to end; else the file is damaged."
_OTHER_FORMATS = (
    (b"PK\x03\x04", "a zip archive", "Unpack it, and name the file in it."),
    (b"BZh9", "a bzip2 file", "Unpack it: bunzip2 FILE"),
    (b"\xfd7zXZ\x00", "an xz file", "Unpack it: unxz FILE"),
    (b"\xba\x16\x4f\x2f", "a fastText model", "Give the .vec file that is published beside it."),
)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of the words that were asked for.

    Args:
        source: File name, or what trained them.
        words: Distinct words that have a vector, in the order asked.
        rows: Their vectors, (N, D).
        forms: The form under which each was found, N.
        asked: Number of distinct words asked for.
        entries: Vectors in the source, asked for or not.
        announced: Vectors in the file by its own header; None without a header.
        repeated: Entries of kept words that came again; the first counts.
        undecodable: Entries whose word is not UTF-8; skipped.
        written: How the source writes each, N; empty where it writes all of them as they were asked for.
    """

    source: str
    words: tuple[str, ...]
    rows: Vectors
    forms: tuple[Form, ...]
    asked: int
    entries: int
    announced: int | None = None
    repeated: int = 0
    undecodable: int = 0
    written: tuple[str, ...] = ()

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @property
    def size(self) -> int:
        """Values of a vector, D."""
        return int(self.rows.shape[1])

    @property
    def counts(self) -> dict[str, int]:
        """Words by the form they were found in, and those ``missing``."""
        return {form: self.forms.count(form) for form in LABELS} | {"missing": self.asked - len(self.words)}

    @property
    def share(self) -> float:
        """Share of the distinct words asked for that have a vector; 0 where none was asked for."""
        return len(self.words) / max(self.asked, 1)

    def include_written_forms(self) -> WordVectors:
        """These, and as words too what the source writes in their place: text to come may spell them in a third way."""
        others = {form: row for row, form in enumerate(self.written) if form not in self.index}
        exact: Form = "exact"
        rows = self.rows[[*range(len(self.words)), *others.values()]]
        return replace(
            self, words=(*self.words, *others), rows=rows, forms=(*self.forms, *[exact] * len(others)),
            asked=self.asked + len(others), written=(),
        )  # fmt: skip

    def describe(self, what: str = "words") -> str:
        """One line: how many words, or what they are called, were found, and how, and what was odd about the source."""
        found = f"{self.source}: {self.size:,} values, {len(self.words):,} of {self.asked:,} {what} found"
        parts = [f"{self.forms.count(form):,} {label}" for form, label in LABELS.items() if form in self.forms]
        share = 100 * self.share if len(self.words) == self.asked else min(100 * self.share, 99.9)  # 100 % is all
        notes = [f"{found} ({share:.1f} %)" + (": " if parts else "") + ", ".join(parts)]
        if self.announced not in (None, self.entries):
            notes.append(f"{self.announced:,} vectors announced, {self.entries:,} there")
        odd = [(self.repeated, "repeated (the first counts)"), (self.undecodable, "not UTF-8 (skipped)")]
        notes += [f"{count:,} {what}" for count, what in odd if count]
        return "; ".join(notes)


def read_vectors(path: Path, words: Iterable[str], *, exact_only: bool = False) -> WordVectors:
    """Read the vectors of some words from a file of any size, in the memory of what is kept.

    A word is looked up as it is, else in lower case, else with its digits replaced by 0, as it is or in lower case;
    the order of the file makes no difference. In text a word may hold spaces, in binary it ends at its first space.

    Args:
        path: GloVe text, word2vec text or fastText ``.vec``, or word2vec binary; plain or gzip.
        words: What to look up; repetitions count once.
        exact_only: Look words up as they are and in no other form.

    Raises:
        CrossNERError: The file cannot be read, is no such file, or is cut off; or the vector of a kept word has
            another length than the first one, or a value that is no finite number.
    """
    wanted = {word: _forms(word, exact_only) for word in words}
    with open_binary(path) as file:
        source = _Source(path, file)
        head = source.read()
        layout = _recognise(path, head)
        scan = _Scan(layout.size, frozenset(chain.from_iterable(wanted.values())))
        (_scan_binary if layout.binary else _scan_text)(source, head, layout, scan)
    if not scan.entries:
        raise _not_vectors(path, "holds no vectors, only a header")
    # Each word gets the vector of its best form.
    best = {word: next((form for form in forms if form in scan.found), b"") for word, forms in wanted.items()}
    found = {word: form for word, form in best.items() if form}
    forms = tuple(wanted[word][form] for word, form in found.items())
    rows = np.array([scan.found[form] for form in found.values()], dtype=np.float32).reshape(-1, scan.size)
    return WordVectors(
        path.name, tuple(found), rows, forms, len(wanted), scan.entries, layout.announced, scan.repeated,
        scan.undecodable, tuple(form.decode() for form in found.values()),
    )  # fmt: skip


def read_vector_width(path: Path) -> int:
    """The width of the vectors of a file, D, from its beginning alone.

    Raises:
        CrossNERError: The file cannot be read, or begins as none that ``read_vectors`` knows.
    """
    with open_binary(path) as file:
        return _recognise(path, _Source(path, file).read()).size


def replace_digits(word: str) -> str:
    """A word with its digits replaced by 0."""
    return _DIGIT.sub("0", word)


def fallback_forms(word: str) -> Iterator[str]:
    """In what forms a word is looked up that is not there as it is, best first; made as far as they are wanted."""
    yield word.lower()
    zeros = replace_digits(word)
    yield zeros
    yield zeros.lower()


def _forms(word: str, exact_only: bool) -> dict[bytes, Form]:
    """The forms to look up, best first. What cannot be written as UTF-8, or is empty, is in no file."""
    forms: dict[bytes, Form] = {}
    labels: tuple[Form, ...] = ("exact", "lower_cased", "digits", "digits")
    for text, form in zip((word, *fallback_forms(word)), labels, strict=True):
        written = text.encode("utf-8", "surrogatepass")
        if written and _is_utf8(written):
            forms.setdefault(written, form)
        if exact_only:
            break
    return forms


class _Source:
    """The bytes of a file, unpacked if it is gzip, block by block."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._offset = path, 0
        # A pipe can be peeked into, but not rewound.
        head = self._checked(cast(io.BufferedReader, file).peek, 2)
        self._stream: BinaryIO | GzipFile = GzipFile(fileobj=file) if head.startswith(b"\x1f\x8b") else file

    def read(self) -> bytes:
        """The next block; nothing at the end."""
        block = self._checked(self._stream.read, BLOCK)
        self._offset += len(block)
        return block

    def _checked(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except (EOFError, OSError, zlib.error) as problem:
            raise CrossNERError(f"{self.path} cannot be read behind byte {self._offset:,} of its content: {problem}.",
                                hint="Fetch it again; it is cut off or damaged.") from None  # fmt: skip

    def whole_lines(self, rest: bytes) -> Iterator[bytes]:
        """What follows in blocks of whole lines, ``rest`` first; a last line without an end gets one."""
        while block := self.read():
            cut = block.rfind(b"\n") + 1
            if cut:
                yield rest + block[:cut]
                rest = b""
            rest += block[cut:]
            if len(rest) > LONGEST_LINE:
                raise _not_vectors(self.path, f"has a line of more than {LONGEST_LINE:,} bytes")
        yield rest + b"\n"


class _Layout(NamedTuple):
    """What the head of a file tells: values of a vector, entries by its header, and the byte they begin at."""

    size: int
    announced: int | None
    binary: bool
    start: int


def _recognise(path: Path, head: bytes) -> _Layout:
    if not head:
        raise _not_vectors(path, "is empty")
    for magic, what, hint in _OTHER_FORMATS:
        if head.startswith(magic):
            raise CrossNERError(f"{path} is {what}.", hint=hint)
    start = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    first, _, following = head[start:].partition(b"\n")
    header = first.split()
    if len(header) == 2 and all(map(_WHOLE.fullmatch, header)) and 1 <= int(header[1]) <= LARGEST_SIZE:
        line = following.lstrip(b"\r\n").partition(b"\n")[0]
        if b" " not in line and len(_OTHER_SEPARATORS.split(line)) == int(header[1]) + 1:
            shown = line[:60].decode("utf-8", "replace")
            raise _not_vectors(path, f"separates values by something else than spaces: {shown!r}")
        fields = _fields(line)
        is_text = not following or 0 < len(fields) <= 2 * sum(map(bool, map(_NUMBER.fullmatch, fields)))
        return _Layout(int(header[1]), int(header[0]), not is_text, len(head) - len(following))
    size = len(list(takewhile(_NUMBER.fullmatch, reversed(_fields(first)))))
    # A word and one number is a list of counts, as vocabularies are.
    if not 2 <= size <= LARGEST_SIZE:
        shown = first[:60].decode("utf-8", "replace")
        raise _not_vectors(path, f"has no word with its vector, separated by spaces, on line 1: {shown!r}")
    return _Layout(size, None, False, start)


def _not_vectors(path: Path, problem: str) -> CrossNERError:
    return CrossNERError(f"{path} {problem}.", hint=_FORMATS)


def _fields(line: bytes) -> list[bytes]:
    """What stands behind the first field, which is the word or its beginning, whatever it looks like."""
    return line.rstrip(b" \r").split(b" ")[1:]


def _is_utf8(text: bytes) -> bool:
    return text.isascii() or text.decode("utf-8", "ignore").encode() == text


class _Scan:
    """What a pass over a file has found."""

    def __init__(self, size: int, forms: frozenset[bytes]) -> None:
        self.size, self.forms = size, forms
        self.found: dict[bytes, Vectors] = {}
        self.entries = self.repeated = self.undecodable = 0

    def keep(self, form: bytes, values: Sequence[bytes] | Vectors, place: str) -> None:
        """Keep a vector unless its word had one before."""
        if form in self.found:
            self.repeated += 1
            return
        if len(values) != self.size:
            first = f"The first line of the file tells of {self.size:,} values a vector. If that is wrong, mend it. "
            raise CrossNERError(f"{place}: {form.decode()!r} has {len(values):,} values, expected {self.size:,}.",
                                hint=_MEND if self.found else first + _MEND)  # fmt: skip
        try:
            numbers = list(map(float, values))
        except ValueError as problem:
            raise CrossNERError(f"{place}: vector of {form.decode()!r}: {problem}.", hint=_MEND) from None
        with np.errstate(over="ignore"):
            row = np.array(numbers, dtype=np.float32)
        if not np.isfinite(row).all():
            odd = row[~np.isfinite(row)][0]
            raise CrossNERError(f"{place}: {form.decode()!r} has the value {odd}, which is not finite.", hint=_MEND)
        self.found[form] = row


def _scan_text(source: _Source, head: bytes, layout: _Layout, scan: _Scan) -> None:
    # Values are parsed only behind what may be a wanted word: what stands before the first space.
    firsts = {form.partition(b" ")[0] for form in scan.forms}
    number = 1 if layout.announced is None else 2
    for block in source.whole_lines(head[layout.start :]):
        if not _is_utf8(block):
            scan.undecodable += sum(not _is_utf8(line) for line in block.split(b"\n"))
        start = 0
        # Far faster than to split the block, which looks at its bytes one by one.
        while (end := block.find(b"\n", start)) >= 0:
            space = block.find(b" ", start, end)
            if block[start : space if space >= 0 else end] in firsts:
                _take_line(block[start:end], f"{source.path}:{number}", scan)
            scan.entries += end > start
            number, start = number + 1, end + 1


def _take_line(line: bytes, place: str, scan: _Scan) -> None:
    """Keep the vector of a line whose word is wanted; its first field is, or begins, a wanted word."""
    fields = line.rstrip(b" \r").split(b" ")
    word = b" ".join(fields[: -scan.size])
    if word in scan.forms:
        scan.keep(word, fields[-scan.size :], place)
    elif fields[0] in scan.forms and (len(fields) <= scan.size or (b"." in fields[1] and _NUMBER.fullmatch(fields[1]))):
        # Too few values, or too many: "New York" is another word than "New", "New 0.12" is none.
        scan.keep(fields[0], fields[1:], place)


def _scan_binary(source: _Source, head: bytes, layout: _Layout, scan: _Scan) -> None:
    data, base, width = head[layout.start :], layout.start, 4 * layout.size
    while True:
        position = _take_entries(data, base, width, source.path, scan)
        base += position
        block = source.read()
        if not block:
            break
        data = data[position:] + block
    if data[position:].strip(b"\n"):
        assert layout.announced is not None
        is_wide = scan.entries >= layout.announced  # more than there are: each was read with too few values
        hint = f"Its first line tells of {layout.size:,} values a vector, and there are more." if is_wide else (
            "Fetch it again; it is cut off or damaged.")  # fmt: skip
        raise CrossNERError(f"{source.path}: byte {base:,}: the file ends within this entry, {scan.entries + 1:,} of "
                            f"{layout.announced:,}.", hint=hint)  # fmt: skip


def _take_entries(data: bytes, base: int, width: int, path: Path, scan: _Scan) -> int:
    """Go through the whole entries in ``data``, which begins at byte ``base``, and return where they end."""
    position, forms = 0, scan.forms
    while True:
        begin = position + (data[position : position + 1] == b"\n")
        space = data.find(b" ", begin)
        if (space if space >= 0 else len(data)) - begin > LONGEST_WORD:
            raise CrossNERError(f"{path}: byte {base + begin:,}: no word ends within {LONGEST_WORD:,} bytes.",
                                hint=f"The header says {scan.size:,} values a vector. {_FORMATS}")  # fmt: skip
        end = space + 1 + width
        if space < 0 or end > len(data):
            return position
        word = data[begin:space]
        if word in forms:
            row = np.frombuffer(data, dtype="<f4", count=scan.size, offset=space + 1).astype(np.float32)
            place = f"{path}: byte {base + begin:,}"
            if (odd := row[np.isfinite(row) & (np.abs(row) > LARGEST_VALUE)]).size:
                raise CrossNERError(f"{place}: {word.decode()!r} has the value {odd[0]:.3g}, which no vector has.",
                                    hint=_SPACED)  # fmt: skip
            scan.keep(word, row, place)
        elif not _is_utf8(word):
            scan.undecodable += 1
        scan.entries += 1
        position = end


def character_ngrams(word: str) -> list[str]:
    """Keys of all 2-, 3- and 4-grams of ``#BEGIN#``, the characters of a word and ``#END#``, as CharNGram files have.

    A key stands once for each place it occurs at. Read vectors of them with ``exact_only``: 2gram-Ab is not 2gram-ab,
    nor 0gram-Ab. The mean of those that have one is the character vector of the word (Hashimoto et al., 2017).
    """
    characters = [BEGIN, *word, END]
    return [f"{n}gram-{''.join(characters[at : at + n])}" for n in (2, 3, 4) for at in range(len(characters) - n + 1)]


class _Pieces:
    """Sentences as gensim reads them whole, as often as asked for."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self._sentences = list(sentences) if iter(sentences) is sentences else sentences

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self._sentences:
            for start in range(0, len(sentence), LONGEST_SENTENCE):
                yield list(sentence[start : start + LONGEST_SENTENCE])


def import_gensim() -> Any:
    """The models of gensim.

    Raises:
        CrossNERError: It is not installed.
    """
    return import_optional("gensim.models", "Word vectors are trained with gensim", extra="vectors")


def train_vectors(
    sentences: Iterable[Sequence[str]], *, size: int = 100, seed: int, epochs: int, minimum_count: int, workers: int,
    words: Iterable[str] | None = None,
) -> WordVectors:  # fmt: skip
    """Train fastText skip-gram vectors on raw text with gensim.

    fastText rather than word2vec: its character n-grams (3 to 6) give vectors to words that the text lacks or has too
    rarely, and those are many where the text is small. With one worker, the same seed gives the same vectors.

    Args:
        sentences: Words of each sentence; read ``epochs + 1`` times, an iterator from memory.
        size: Values of a vector, D.
        minimum_count: Words that occur less often are not learnt as such; 1 takes all.
        workers: Threads; more than one are faster, and no two runs are equal.
        words: Words to give vectors to; by default all that are learnt.

    Raises:
        CrossNERError: gensim is not installed, or no word occurs ``minimum_count`` times.
    """
    gensim_models = import_gensim()
    pieces = _Pieces(sentences)
    model = gensim_models.FastText(
        vector_size=size, sg=1, min_count=minimum_count, bucket=BUCKETS, seed=seed, workers=workers, epochs=epochs
    )
    model.build_vocab(pieces)
    if not len(model.wv):
        raise CrossNERError(f"No word of the text occurs {minimum_count:,} times; it has {model.corpus_total_words:,} "
                            "words.", hint="Give more text, or a file of word vectors.")  # fmt: skip
    model.train(pieces, total_examples=model.corpus_count, epochs=epochs)
    known = model.wv.key_to_index
    asked = list(known if words is None else dict.fromkeys(words))
    found = [word for word in asked if word]  # only the empty word has no n-gram
    rows = np.array(list(map(model.wv.get_vector, found)), dtype=np.float32).reshape(-1, size)
    forms: list[Form] = ["exact" if word in known else "n_grams" for word in found]
    return WordVectors("fastText", tuple(found), rows, tuple(forms), len(asked), len(known))
