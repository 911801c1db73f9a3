"""Plain text to words and sentences, with character offsets.

Words are cut as in the CoNLL and Penn corpora that taggers are trained on: punctuation stands alone, hyphenated words
stay whole, clitics come off (``company 's``, ``do n't``), abbreviations keep their dot. Text that is already cut like
this keeps its words. Scripts without spaces: Han and Kana are read character by character, Thai, Lao, Khmer and Burmese
letter by letter, each with its marks. Every pattern reads each character a bounded number of times.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

OTHER_SPACES: dict[int, str] = {}
if TYPE_CHECKING or sys.version_info >= (3, 11, 5):
    import re
else:
    # Before 3.11.5 re loses its place in possessive repetitions (CPython issue 106052); Debian 12 has 3.11.2. The
    # package comes with transformers and reads the same patterns.
    import regex as re

    OTHER_SPACES = dict.fromkeys(range(0x1C, 0x20), " ")  # white space to Python and re, but not to regex


class Word(NamedTuple):
    """A word of a text: ``text[start:end]``, end exclusive."""

    text: str
    start: int
    end: int


def _ranges(codes: list[int]) -> str:
    """Write code points as the inside of a character class."""
    firsts = [code for previous, code in pairwise([-2, *codes]) if code != previous + 1]
    lasts = [code for code, following in pairwise([*codes, -2]) if following != code + 1]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(firsts, lasts, strict=True))


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# The re module knows no category of marks, and \w leaves out the vowel signs of Indic and other scripts. The scan ends
# where emoji begin; beyond them only tags and variation selectors are marks.
MARKS = "\u00ad\U000e0001-\U000e01ef" + _ranges(
    [code for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in {"Mn", "Mc", "Me", "Cf"}]
)
ONE_BY_ONE = "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
ONE_BY_ONE += "\uff66-\uff9f\U00020000-\U0003ffff"
# Thai, Lao, Burmese and Khmer, except two vowels that belong to the letter before them, as marks do.
_SPACELESS = [*range(0xE00, 0xF00), *range(0x1000, 0x10A0), *range(0x1780, 0x1800)]
ONE_BY_ONE += _ranges([code for code in _SPACELESS if chr(code).isalpha() and code not in (0xE33, 0xEB3)])
MARKS += "\u0e33\u0eb3"
_SKIN = "\U0001f3fb-\U0001f3ff"
_LETTER = rf"[^\W{ONE_BY_ONE}]"
_RUN = rf"{_LETTER}++(?:[{MARKS}]++{_LETTER}*+)*+"
_CLOSERS = r"\"'’”»)\]}"

_WORD = re.compile(
    rf"""
    (?:(?:[hH]ttps?|ftp)://|www\.)[^\s<>"]*[^\s<>.,;:!?{_CLOSERS}]       # addresses, without the stop that follows
    | [A-Z]{{1,3}}\$                                                     # US$
    | (?:[-+−](?=\.?\d)|-(?={_LETTER}))?+                                # -5, -led
      (?:(?<![^\s(\[{{+\-−$£€])\.(?={_LETTER}))?+                        # .5, .NET
      {_RUN}
      (?:(?: \.?[-‐‑–] | [.&@·] | (?P<apostrophe>['’])                   # U.S.-led, AT&T, me@home.org, O'Hara
          | (?<=\d)[:/](?=\d) | (?<=\d),(?=\d{{3}}(?!\d)|\d\d,\d)        # 10:30, 1/2, 1,200
          | \+(?=[\w.+-]{{1,64}}@) )(?={_LETTER}) {_RUN})*+
      (?: (?P<dot>\.)(?!\.) | -(?![^\s,;)/]) | \+{{1,2}}(?![\w+]) | (?<=\b[A-Z])\#(?!\w) )?   # pre-, C++, C#
    | ['’](?:[sSmMdDtT]|re|RE|ve|VE|ll|LL|[eE]m|[tT]il|[tT]is|[tT]was|\d\ds?)(?!\w)  # clitics cut off before, '90s
    | (?<![^\s].[ ])(?<=[DOLdlo][ ])['’](?={_LETTER}){_RUN}               # the Connor of "O 'Connor"
    | (?<!\S)(?:[:;=]['’]?-?[()\[\]DPpOo3/|\\*]+|<3)(?!\S)              # :-)
    | [@\#]{_RUN}
    | </?[A-Za-z][\w-]{{0,20}}>                                          # <unk>
    | `` | '' | \.{{2,}} | -{{2,}} | :{{2,}} | [!?]+ | \*+ | =+
    | [\U0001f1e6-\U0001f1ff]{{2}}
    | [\u2600-\u27bf\U0001f000-\U0001faff][{MARKS}{_SKIN}]*+
      (?:(?<=\u200d)[\u2600-\u27bf\U0001f000-\U0001faff][{MARKS}{_SKIN}]*+)*+
    | \S[{MARKS}]*+
    """,
    re.VERBOSE,
)
# The words of find_words in ordinary text, found several times as fast: clitics but n't come off, initials and acronyms
# keep their dot; other abbreviations lose it, and addresses and smileys come apart.
_CLITIC = r"['’](?:[sSmMdD]|[rR][eE]|[vV][eE]|[lL][lL])(?!\w)"
PLAIN_WORD = re.compile(
    rf"""
    [A-Za-z]++(?=[ ])  # most words, found at once
    | {_CLITIC}
    | [-@\#]?{_RUN} (?:(?:[-‐‑–.&@·] | (?!{_CLITIC})['’] | (?<=\d)[,:/](?=\d)) {_RUN})*+
      (?:(?<=\b[A-Z])\.(?![.]|\Z) | (?<=\.[^\W\d_])\.(?!\.) | -(?!\S))?
    | `` | '' | \.+ | -+ | \S
    """,
    re.VERBOSE,
)
_CLITICS = frozenset(["n't", "'s", "'m", "'d", "'re", "'ve", "'ll"])
_ACRONYM = re.compile(r"[^\W\d_]{1,3}(?:\.[^\W\d_]{1,2})++")
_NUMBER_FOLLOWS = re.compile(r"\s{0,2}[#(]?\w?\d")
_LINE_ENDS = re.compile(rf"[{_CLOSERS}]*+[^\S\n]*+(?:\n|\Z)")

# Those in lower case are found in any case; those with a capital only as they are.
_TITLES = _set(
    "mr mrs ms messrs mme mlle dr prof rev fr hon gen col lt sgt cpl capt cmdr cdr adm maj pvt gov sen rep pres supt "
    "st ste mt ft vs v cf viz approx esp incl resp feat"
)
_ABBREVIATIONS = _TITLES | _set(
    "inc corp ltd bros co cos assn dept univ intl jr sr esq etc al ca ave blvd rd bldg est Ph "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Thu Thur Thurs Fri Ala Ariz Ark Calif Colo Conn Fla "
    "Ga Ill Kan Ky Md Mich Minn Mont Neb Nev Okla Pa Tenn Tex Va Vt Wis Wyo"
)
_BEFORE_NUMBERS = _set("no nos nr fig figs eq eqs eqn sec sect vol vols ch chap p pp c b d op art para tab ref refs")
_NEVER_LAST = frozenset({"e.g", "i.e", "a.k.a"}) | _TITLES | _BEFORE_NUMBERS
_SENTENCE_STARTS = _set(
    "The This That These Those It Its He She They We You There Then In On At For From With After Before During While "
    "When Where As But And Or However Although Though If Since Because By To Our His Her Their My Here Also "
    "Furthermore Moreover Thus Therefore Hence Meanwhile According Both Many Most Some Such What Who Why How"
)
STOPS = frozenset(".!?…。！？｡।॥؟۔።։")
_STOPS_WITHOUT_SPACE = frozenset("。！？｡")
_CLOSING = frozenset([")", "]", "}", "”", "’", "»", "''", "-RRB-", "」", "』", "）", "】"])
_PAIRED = frozenset(['"', "'"])


def find_words(text: str) -> list[Word]:
    """Cut a text into words.

    Every character that is not white space is part of exactly one word, and no word holds white space.
    """
    words: list[Word] = []
    for match in _WORD.finditer(text.translate(OTHER_SPACES) if OTHER_SPACES else text):
        if match.lastindex is None:
            words.append(Word(match.group(), *match.span()))
        else:
            is_first = not words or words[-1].text[-1] in STOPS or "\n" in text[words[-1].end : match.start()]
            words.extend(_cut(match, is_first))
    return words


def cut_words(text: str) -> tuple[str, ...]:
    """Return the words of ``find_words`` without their places."""
    return tuple(word.text for word in find_words(text))


def segment(text: str, *, at_line_breaks: bool = False) -> list[list[Word]]:
    """Cut a text into sentences of words; the words are those of ``find_words``.

    Args:
        text: Any text.
        at_line_breaks: Let a single line break end a sentence; a blank line always does.
    """
    words = find_words(text)
    bounds = [0, *_sentence_ends(text, words, 1 if at_line_breaks else 2), len(words)]
    return [words[start:end] for start, end in pairwise(bounds) if start < end]


def _cut(match: re.Match[str], is_first: bool) -> Iterator[Word]:
    """Cut clitics and the final dot off a match that may have them."""
    text, (start, end) = match.string, match.span()
    words: list[Word] = []
    if match.group("dot") and not _keeps_dot(text, start, end, is_first):
        words.append(Word(".", end - 1, end))
        end -= 1
    while match.group("apostrophe") and (length := _clitic_length(text, start, end)):
        words.append(Word(text[end - length : end], end - length, end))
        end -= length
    words.append(Word(text[start:end], start, end))
    return reversed(words)


def _clitic_length(text: str, start: int, end: int) -> int:
    """Return the length of the clitic at the end of ``text[start:end]``, which is not all of it; 0 if none."""
    tail = text[max(start + 1, end - 3) : end].lower().replace("’", "'")
    return next((length for length in (3, 2) if length <= len(tail) and tail[-length:] in _CLITICS), 0)


def _keeps_dot(text: str, start: int, end: int, is_first: bool) -> bool:
    """Return whether the dot that ends ``text[start:end]`` is part of the word."""
    part = text[start : end - 1].rpartition("-")[2]
    if len(part) == 1 and part.isupper():
        return not _LINE_ENDS.match(text, end)
    if part.isdecimal():
        return is_first and len(part) <= 2 and not _LINE_ENDS.match(text, end)
    if part.lower() in _BEFORE_NUMBERS:
        return _NUMBER_FOLLOWS.match(text, end) is not None
    return part in _ABBREVIATIONS or part.lower() in _ABBREVIATIONS or _ACRONYM.fullmatch(part) is not None


def _sentence_ends(text: str, words: list[Word], line_breaks: int) -> Iterator[int]:
    """Yield the positions in ``words`` at which a sentence has just ended."""
    is_stopped, quotes = False, dict.fromkeys(_PAIRED, 0)
    for position, (word, start, _) in enumerate(words):
        previous, _, end = words[position - 1] if position else Word("", 0, 0)
        gap = start - end
        breaks = gap and _count_breaks(text, end, start) >= line_breaks
        if is_stopped and not breaks and _closes(text, words, position, quotes):
            quotes[word] = 0
            continue
        if breaks or (is_stopped and _starts(word, gap > 0 or previous in _STOPS_WITHOUT_SPACE)):
            quotes = dict.fromkeys(_PAIRED, 0)
            yield position
        is_stopped = word[-1] in STOPS and _may_end(words, position)
        if word in _PAIRED:
            quotes[word] += 1


def _count_breaks(text: str, start: int, end: int) -> int:
    if end - start == 1:
        return 2 if text[start] == "\u2029" else text[start] == "\n"
    gap = text[start:end]
    return gap.count("\n") + 2 * gap.count("\u2029")


def _closes(text: str, words: list[Word], position: int, quotes: dict[str, int]) -> bool:
    """Return whether a word after a stop still belongs to the sentence: a bracket or a quotation mark that closes."""
    word, start, end = words[position]
    if word in _PAIRED:
        if position + 1 == len(words) or not text[start - 1].isspace():
            return True
        return quotes[word] % 2 == 1 and text[end].isspace()
    return word in _CLOSING


def _starts(word: str, is_apart: bool) -> bool:
    """Return whether a word may start a sentence: it is not a lower-case word or a mark that needs one before it."""
    first = word[1] if word[0] in "@#" and len(word) > 1 else word[0]
    return is_apart and not first.islower() and first not in STOPS and first not in ",;:)]}%'’"


def _may_end(words: list[Word], position: int) -> bool:
    """Return whether a word that ends in a stop may end a sentence."""
    text, start, _ = words[position]
    following = words[position + 1].text if position + 1 < len(words) else ""
    if text != ".":
        stem = text.rstrip(".")
        is_mark = not stem or stem[0] in STOPS
        return is_mark or (following in _SENTENCE_STARTS and stem.lower() not in _NEVER_LAST and not stem.isdecimal())
    previous, _, end = words[position - 1] if position else Word("", 0, start)
    if end == start:
        return True
    # Text in which every mark is separate has its decimal points, initials and titles separate, too.
    if previous.isdecimal() and following[:1].isdecimal():
        return False
    is_short_form = (len(previous) == 1 and previous.isupper()) or previous.lower() in _TITLES
    return not is_short_form or following in _SENTENCE_STARTS
