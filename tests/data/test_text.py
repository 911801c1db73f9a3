"""Plain text to words and sentences."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossner_cli.data.labelled import read_domain
from crossner_cli.data.text import PLAIN_WORD, cut_words, find_words, segment

MIRROR = os.environ.get("CROSSNER_MIRROR")
ANY_TEXT = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="aB1 .,'’n\"t-+@#/:$()!?\n\u0301\u200d我\u3000<>w&*=…", max_size=60),
)


def cut(text: str) -> str:
    """Words joined by single spaces."""
    return " ".join(word.text for word in find_words(text))


def sentences(text: str, **options: bool) -> list[str]:
    """Texts of the sentences."""
    return [text[words[0].start : words[-1].end] for words in segment(text, **options)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('He said "yes", (then) left; why?', 'He said " yes " , ( then ) left ; why ?'),
        ("The company's dogs' owners don't, can't.", "The company 's dogs ' owners do n't , ca n't ."),
        ("the company’s; they’ll", "the company ’s ; they ’ll"),
        ("DON'T wouldn't've rock'n'roll O'Hara's", "DO N'T would n't 've rock'n'roll O'Hara 's"),
        ("Mr. Smith of the U.S. (e.g. J. K. Rowling) etc.", "Mr. Smith of the U.S. ( e.g. J. K. Rowling ) etc."),
        (
            "The U.S.-led group, Run-D.M.C. and A.N.S.W.E.R. met.",
            "The U.S.-led group , Run-D.M.C. and A.N.S.W.E.R. met .",
        ),
        ("1,200.5 and 1,400,000 at 9:30, 3/8; .5 -3 +0.7", "1,200.5 and 1,400,000 at 9:30 , 3/8 ; .5 -3 +0.7"),
        ("red,green and 1998,1999", "red , green and 1998 , 1999"),
        ("US$1,200 or $5-$10, 5%", "US$ 1,200 or $ 5 - $ 10 , 5 %"),
        ("See https://a.org/b_(c)?d=1. Or www.x.com, ok", "See https://a.org/b_(c)?d=1 . Or www.x.com , ok"),
        ("mail a.b+c@d.co.uk, @me, #tag.", "mail a.b+c@d.co.uk , @me , #tag ."),
        ("pre- and post-war, 26-year-old; 1998–2003", "pre- and post-war , 26-year-old ; 1998–2003"),
        ("well—maybe -- or--not...and… so", "well — maybe -- or -- not ... and … so"),
        ("C++, C#, AT&T, .NET and AC/DC", "C++ , C# , AT&T , .NET and AC / DC"),
        ("“Quoted” ‘single’ «guillemets»", "“ Quoted ” ‘ single ’ « guillemets »"),
        ("1. First\n2. Second of 2.", "1. First\n2. Second of 2 .".replace("\n", " ")),
        ("No. 5, no. Fig. 3 is plan B.", "No. 5 , no . Fig. 3 is plan B ."),
        ("the '90s weren't 'quoted'", "the '90s were n't ' quoted '"),
        ("<unk> & a<b", "<unk> & a < b"),
        ("нет, это «Москва». Ελλάδα; état", "нет , это « Москва » . Ελλάδα ; état"),
        ("हिन्दी भाषा। เมือง", "हिन्दी भाषा । เ มื อ ง"),
        ("我在北京。", "我 在 北 京 。"),
        ("cafe\u0301s go\u00adod", "cafe\u0301s go\u00adod"),
        ("👩‍💻👍🏽🇫🇷 :-) ok", "👩‍💻 👍🏽 🇫🇷 :-) ok"),
        ("", ""),
        (" \n\t\u2028 ", ""),
    ],
)
def test_text_is_cut_as_in_the_corpora(text: str, words: str) -> None:
    assert cut(text) == words


def test_text_that_was_cut_before_keeps_its_words() -> None:
    for text in (
        'said . " Yes " , he did n\'t .',
        "-LRB- U.S. -RRB- `` Mr. Smith '' 's 'll n't",
        "1. Leverkusen ( Germany ) 6-4 6-4 .576 +301 1,397 $ 5 A$ 7 # 8",
        "Caroline O 'Connor of Côte d 'Ivoire ca n 't -led non-",
    ):
        assert cut(text) == text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(ANY_TEXT)
def test_words_cover_every_character_once(text: str) -> None:
    words = find_words(text)
    assert all(text[word.start : word.end] == word.text for word in words)
    assert not any(character.isspace() for word in words for character in word.text)
    covered = [position for word in words for position in range(word.start, word.end)]
    assert covered == [position for position, character in enumerate(text) if not character.isspace()]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(ANY_TEXT, st.booleans())
def test_sentences_partition_the_words_in_order(text: str, at_line_breaks: bool) -> None:
    parts = segment(text, at_line_breaks=at_line_breaks)
    assert all(parts)
    assert [word for words in parts for word in words] == find_words(text)


@pytest.mark.parametrize(
    "marked",
    [
        'He came.|She left!|Why?|"No."|(Yes.)|He said so.',
        "Dr. J. K. Rowling of Acme Inc. met Prof. X in Jan. 2004 vs. No. 5 etc. and so on.",
        "The U.S. economy grew 3.5 percent... and then fell.|It is 5 p.m. in the U.S.|The end.",
        "Smith et al. (2018) show it, i.e. Fig. 3 (cf. Eq. 2).|We agree.",
        "Yahoo! is here, he said.|“Really?” she asked.|‘Go!’|They went...|Then nothing.",
        "Point five is 0 . 5 here .|W . V . Greenhouse vs . Lee .",
    ],
)
def test_sentence_ends_are_told_from_other_stops(marked: str) -> None:
    assert sentences(marked.replace("|", " ")) == marked.split("|")


def test_quotation_marks_go_by_their_pair_and_scripts_without_spaces_end_their_sentences_too() -> None:
    text = '" Yes . " He left . " No . " Then " so . "'
    assert sentences(text) == ['" Yes . "', "He left .", '" No . "', 'Then " so . "']
    assert sentences("我在北京。他很好！是吗？") == ["我在北京。", "他很好！", "是吗？"]
    assert sentences("यह ठीक है। वह गया।") == ["यह ठीक है।", "वह गया।"]


def test_a_blank_line_ends_a_sentence_and_a_line_break_only_when_asked() -> None:
    text = "A title\n\nFirst line\nsecond line\r\n\r\nlast"
    assert sentences(text) == ["A title", "First line\nsecond line", "last"]
    assert sentences(text, at_line_breaks=True) == ["A title", "First line", "second line", "last"]


@pytest.mark.parametrize(
    "piece",
    [
        *["a", ".", "-", "'", '"', "A.", "1,", "1,2", "a+", "+a", "n't", "a's", "www.(", "a@", "#", "<a", "a'", "A. "],
        *["A.\t\t", "1.\n", ". ", '." ', "\n", "我", "a\u0301", "👩\u200d", "e.g.", ":)", "A$", "o 'a ", "U.S. The "],
    ],
)
def test_reading_time_is_linear_in_the_text(piece: str) -> None:
    text = (piece * 100_000)[:100_000]
    started = time.process_time()
    segment(text)
    assert time.process_time() - started < 5


@pytest.mark.skipif(MIRROR is None, reason="CROSSNER_MIRROR is unset")
@pytest.mark.parametrize("name", ["politics", "music", "ai", "conll2003"])
def test_published_sentences_are_found_again_in_their_joined_words(name: str) -> None:
    splits = read_domain({"dev": [Path(MIRROR or "", name, "dev.txt")]}).splits
    found = [list(sentence.words) for sentence in splits["dev"]]
    assert len(found) >= 350
    kept = sum([word.text for word in find_words(" ".join(words))] == words for words in found)
    whole = sum(len(segment(" ".join(words))) == 1 for words in found)
    assert kept / len(found) >= 0.98
    assert whole / len(found) >= 0.97


TOKENS = """The U.S. company's well-known J. R. Smith (1999) 3.5 1,200 10:30 "Yes" Ada, end. O'Hara AT&T
    O'Neill's they've -- ... me@home.org #tag é naïve 我们 नमस्ते 's we'll [1] café's pre- ``so ''"""


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(TOKENS.split()), min_size=1, max_size=8).map(" ".join))
@example("J.")
def test_plain_words_are_the_words_of_ordinary_text(line: str) -> None:
    assert PLAIN_WORD.findall(line) == list(cut_words(line))
