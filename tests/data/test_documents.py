"""Documents: text, JSONL and columns are read line by line, and what cannot be read is reported with its line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from crossner_cli.data.documents import Document, Format, read_documents
from crossner_cli.data.files import Repairs
from crossner_cli.errors import CrossNERError


def read(
    data: bytes, input_format: Format | None = None, *, name: str = "stdin", skips: bool = False
) -> list[Document]:
    return list(read_documents(io.BytesIO(data), name, Repairs(skips_bad_lines=skips), input_format=input_format))


def words_of(document: Document) -> list[str]:
    return [word.text for words in document.sentences for word in words]


def test_keys_words_and_blank_lines_of_objects_are_kept() -> None:
    given = [
        {"id": 7, "words": ["Anna", "met", "New York"], "note": {"a": [1.5, None]}},
        {"text": "Anna  met", "words": ["Anna", "met"]},
        {"words": []},
        {"text": ""},
    ]
    found = read("\n\n".join(map(json.dumps, given)).encode(), "jsonl")
    assert [document.text for document in found] == ["Anna met New York", "", "Anna  met", "", "", "", ""]
    assert found[0].given == given[0] and words_of(found[0]) == given[0]["words"]
    assert words_of(found[2]) == ["Anna", "met"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "stdin:2: .* no JSON"),
        ("[1]", "stdin:2: .*expected a JSON object"),
        ('{"id": 1}', "stdin:2: found neither text nor words, only 'id'"),
        ('{"words": "Anna"}', "stdin:2: words is no list"),
        ('{"words": ["a", null]}', "stdin:2: words holds a value of type NoneType"),
        ('{"text": 5}', "stdin:2: text holds a value of type int"),
        ('{"text": "\\ud83d"}', "stdin:2: text holds half a surrogate pair"),
        ('{"text": "a b", "words": ["b", "a"]}', "stdin:2: word 2, 'a', is not in the text"),
    ],
)
def test_a_broken_line_is_reported_with_its_number(line: str, message: str) -> None:
    with pytest.raises(CrossNERError, match=message):
        read(('{"text": "fine"}\n' + line + "\n").encode(), "jsonl")


SEVERAL = b'{"text": "a"}\n\n{"text": 5}\nno JSON\n\n[1]\n\xff\n{"words": ["b"]}\n{"id": 1}\n'


@pytest.mark.parametrize(
    ("input_format", "data", "texts"),
    [
        ("jsonl", SEVERAL, ["a", "", "", "b"]),
        ("text", b"Anna\ncaf\xe9\n\nPeter\n", ["Anna", "", "Peter"]),
        ("conll", b"Anna\tO\nmet him today\nPeter O\n\ncaf\xe9 O\n\nthere O\n", ["Anna Peter", "there"]),
    ],
)
def test_bad_lines_are_left_out_if_asked(input_format: Format, data: bytes, texts: list[str]) -> None:
    with pytest.raises(CrossNERError):
        read(data, input_format)
    assert [document.text for document in read(data, input_format, skips=True)] == texts


@pytest.mark.parametrize(
    ("name", "data", "said", "input_format"),
    [
        ("stdin", b"Anna B-person\nmet O\nPeter B-person\n", "look like conll", "conll"),
        ("stdin", b"Anna\tO\nmet\tO\n\nhim\tO", "look like conll", "conll"),
        ("stdin", b'{"text": "a"}\n{"words": ["b"]}\n', "look like jsonl", "jsonl"),
        ("stdin", b'\xef\xbb\xbf{"text": "Anna met Peter."}\n{"text": "Bob"}\n', "look like jsonl", "jsonl"),
        ("x.json", b'[{"text": "Anna met Peter."}, {"text": "Bob"}]\n', "JSON", None),
        ("stdin", b'[\n  {\n    "text": "Anna met Peter."\n  }\n]\n', "JSON", None),
        ("x.conllu", b"1\tAnna\n", "CoNLL-U", None),
        ("x.csv", b"id,text\n", "CSV", None),
    ],
)
def test_what_is_not_text_is_refused_unless_it_is_called_text(
    name: str, data: bytes, said: str, input_format: Format | None
) -> None:
    with pytest.raises(CrossNERError, match=f"{name} .*{said}") as caught:
        read(data, name=name)
    assert "--input-format text" in caught.value.hint
    assert len(read(data, "text", name=name)) == len(data.splitlines())
    assert input_format is None or read(data, input_format)


def test_tokens_that_are_objects_are_not_words_beside_a_text() -> None:
    record = {"text": "Anna met.", "tokens": [{"text": "Anna", "start": 0, "end": 4, "id": 0}]}
    (document,) = read(json.dumps(record).encode(), "jsonl")
    assert words_of(document) == ["Anna", "met", "."]
    with pytest.raises(CrossNERError, match="tokens holds a value of type dict"):
        read(json.dumps({"tokens": record["tokens"]}).encode(), "jsonl")


def test_text_that_begins_with_brackets_is_text() -> None:
    for line in ("[1] Anna met Peter.", "{Anna} met Peter.", '"Anna" met "Peter".', "# Anna", "1\tAnna"):
        assert [document.text for document in read(f"\ufeff{line}\n".encode())] == [line]
    assert len(read(b"Blood of type O\nVitamin O")) == 2


def test_reading_goes_line_by_line() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"Anna met Peter.\n"

    documents = read_documents(endless(), "stdin", Repairs())
    assert [next(documents).text for _ in range(100)] == ["Anna met Peter."] * 100
