"""Prediction: any text in, words, tags and spans out; order, offsets and lines are those of the input."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.data.documents import Document, document_of_words, read_documents
from crossner_cli.data.domains import read_labelled
from crossner_cli.data.files import Repairs
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet, illegal_positions
from crossner_cli.data.text import segment
from crossner_cli.encoders.transformer import load_encoder
from crossner_cli.engine.devices import start_engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Predict
from crossner_cli.prediction import chunks as prediction
from crossner_cli.prediction.chunks import Totals, _tagged_document, chunks
from crossner_cli.prediction.formats import to_conll, to_jsonl
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Progress, exhaust
from crossner_cli.stages.predict import run as predict
from crossner_cli.taggers.calibration import Calibration
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.tagging import Tagged, tag

SMALL_CHUNK = 100


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Let a few sentences fill several chunks."""
    monkeypatch.setattr(prediction, "CHUNK_SENTENCES", SMALL_CHUNK)


@pytest.fixture(scope="module")
def engine():
    return start_engine(Predict(device="cpu", precision="fp32", threads=1))


@pytest.fixture(scope="module")
def tagger(tiny_encoder_folder):
    torch.manual_seed(5)
    encoder, _ = load_encoder(str(tiny_encoder_folder))
    tag_set = TagSet({"politics": ("person", "place-name"), "source": ("thing",)})
    return LinearTagger(encoder, tag_set, LinearTagger.Hyperparameters()).eval()


@pytest.fixture(scope="module")
def folder(tagger, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "tagger"
    save_tagger(tagger, path)
    return path


@pytest.fixture
def predicted(folder, engine, tmp_path):
    """Run the command on bytes from stdin; give its record and the lines on stdout."""

    def run(data: bytes = b"", **options):
        stdout = io.BytesIO()
        work = predict(
            RunDirectory(tmp_path / "no-run"), Predict(**{"model": str(folder), **options}), engine,
            stdin=io.BytesIO(data), stdout=stdout,
        )  # fmt: skip
        manifest = exhaust(work)
        return manifest["result"], stdout.getvalue().decode().splitlines()

    return run


def check_object(record: dict) -> None:
    """What holds of every object: lists of one length, offsets that point to the words, legal tags."""
    words, tags, text = record["words"], record["tags"], record["text"]
    assert len(words) == len(tags)
    assert not illegal_positions(tags, "bio") or len(record["sentences"]) > 1
    for first, end in record["sentences"]:
        assert first < end and not illegal_positions(tags[first:end], "bio")
    assert [0, *(end for _, end in record["sentences"])][:-1] == [first for first, _ in record["sentences"]]
    assert len(words) == (record["sentences"][-1][1] if record["sentences"] else 0)
    assert len(record["entities"]) == sum(name.startswith("B-") for name in tags)
    for entity in record["entities"]:
        assert text[entity["start"] : entity["end"]] == entity["text"] != ""
        assert 0 < entity["score"] <= 1 and entity["type"] in ("person", "place-name")


def test_a_line_of_text_becomes_an_object_and_blank_lines_too(predicted):
    data = "Anna met Peter. They visited London.\n\n  Zoë’s naïve 東京 👍🏽 text  \r\nlast line without end".encode()
    result, lines = predicted(data)
    records = [json.loads(line) for line in lines]
    assert [record["text"] for record in records] == [
        "Anna met Peter. They visited London.", "", "  Zoë’s naïve 東京 👍🏽 text  ", "last line without end",
    ]  # fmt: skip
    for record in records:
        check_object(record)
        assert record["words"] == [word.text for words in segment(record["text"]) for word in words]
    assert records[1]["words"] == records[1]["entities"] == records[1]["sentences"] == []
    assert len(records[0]["sentences"]) == 2
    assert (result["documents"], result["blank_documents"]) == (4, 1)
    assert result["words"] == sum(len(record["words"]) for record in records)
    assert sum(result["entities"].values()) == sum(len(record["entities"]) for record in records)
    assert "thing" not in result["entities"]


def test_tags_are_those_of_the_tagger_whatever_the_chunks(predicted, tagger, engine):
    lines = [f"Anna {number} met Peter in London" + " and Paris" * (number % 17) for number in range(250)]
    result, out = predicted("\n".join(lines).encode())
    assert [json.loads(line)["text"] for line in out] == lines
    assert result["sentences"] > 2 * SMALL_CHUNK
    sentences = [Sentence(tuple(line.split()), None, "politics") for line in lines]
    expected = tag(tagger, sentences, engine, batch_subwords=4096)
    for line, each in zip(out, expected, strict=True):
        assert [name[2:] for name in json.loads(line)["tags"]] == [name[2:] for name in each.tags]


def test_objects_pass_other_keys_through_and_ours_win(predicted):
    given_objects = [
        {"id": 7, "words": ["Anna", "met", "New York"], "tags": ["O", "O", "O"], "note": {"a": [1.5, None]}},
        {"text": "Anna met Peter.", "entities": "mine", "ok": "\ud83d"},
        {"text": "Anna  met", "words": ["Anna", "met"]},
        {"words": []},
        {"text": ""},
    ]
    _, lines = predicted("\n".join(map(json.dumps, given_objects)).encode(), input_format="jsonl")
    first, second, third, fourth, fifth = map(json.loads, lines)
    for record in (first, second, third, fourth, fifth):
        check_object(record)
    assert (first["id"], first["note"], first["text"]) == (7, {"a": [1.5, None]}, "Anna met New York")
    assert first["words"] == ["Anna", "met", "New York"]
    assert second["entities"] != "mine" and second["ok"] == "\ud83d"
    assert third["text"] == "Anna  met" and third["words"] == ["Anna", "met"]
    assert fourth["tags"] == fifth["tags"] == []


def test_blank_lines_around_objects_keep_lines_in_step(predicted):
    _, lines = predicted(b'\n{"text": "a"}\n\n{"text": "b"}\n\n\n', input_format="jsonl")
    assert [json.loads(line)["text"] for line in lines] == ["", "a", "", "b", "", ""]


def test_only_documents_whose_entities_all_score_enough_are_written(predicted, tmp_path):
    lines = [f"Anna {number} met Peter in London" + " and Paris" * (number % 17) for number in range(250)] + [""]
    everything, whole = predicted("\n".join(lines + [""]).encode())
    records = [json.loads(line) for line in whole]
    scores = sorted(entity["score"] for record in records for entity in record["entities"])
    lowest = sorted(min(entity["score"] for entity in record["entities"]) for record in records if record["entities"])
    for least in (0.0, lowest[0], lowest[len(lowest) // 2], lowest[-1]):
        result, out = predicted("\n".join(lines + [""]).encode(), min_score=least)
        expected = [
            line for line, record in zip(whole, records, strict=True)
            if record["entities"] and all(entity["score"] >= least for entity in record["entities"])
        ]  # fmt: skip
        assert out == expected != []
        assert result["unsure_documents"] == len(whole) - len(out)
        assert sum(result["entities"].values()) == sum(len(json.loads(line)["entities"]) for line in out)
        assert result["words"] == everything["words"], "what was tagged is counted, written or not"
    assert everything["unsure_documents"] == 0 and scores[-1] < 1
    assert predicted("\n".join(lines).encode(), min_score=1.0)[1] == []


def test_files_of_brat_are_called_by_the_number_of_the_document_whichever_are_written(predicted, tmp_path, monkeypatch):
    data = b"\n\nAnna met Peter.\nx\n\nBob visited Paris.\n"
    predicted(data, format="brat", output=tmp_path / "all")
    texts = {path.name: path.read_text() for path in (tmp_path / "all").glob("*.txt")}
    for size in (2, 3, SMALL_CHUNK):
        monkeypatch.setattr(prediction, "CHUNK_SENTENCES", size)
        result, _ = predicted(data, format="brat", output=tmp_path / f"sure{size}", min_score=0.0)
        written = {path.name: path.read_text() for path in (tmp_path / f"sure{size}").glob("*.txt")}
        assert 0 < len(written) == len(texts) - result["unsure_documents"] < len(texts)
        assert written == {name: texts[name] for name in written}


@pytest.mark.parametrize("output_format", ["conll", "brat", "html", "parquet", "spacy"])
def test_files_are_whole_where_no_document_is_sure_enough(predicted, tmp_path, output_format):
    if output_format in ("parquet", "spacy"):
        pytest.importorskip("pyarrow" if output_format == "parquet" else "spacy")
    output = tmp_path / f"tagged.{output_format}"
    result, _ = predicted(b"Anna met Peter.\nIn London.\n", min_score=1.0, format=output_format, output=output)
    empty, _ = predicted(b"", format=output_format, output=tmp_path / f"empty.{output_format}")
    assert (result["unsure_documents"], empty["unsure_documents"]) == (2, 0)

    def contents(path: Path) -> list[bytes]:
        return [each.read_bytes() for each in (sorted(path.iterdir()) if path.is_dir() else [path])]

    assert contents(output) == contents(tmp_path / f"empty.{output_format}")


def test_what_predict_wrote_can_be_predicted_again_sentence_by_sentence(predicted):
    _, once = predicted(b"Anna met Peter in London. They visited Paris.\n\nParis of the x-ray")
    assert [len(json.loads(line)["sentences"]) for line in once] == [2, 0, 1]
    _, twice = predicted("\n".join(once).encode(), input_format="jsonl")
    assert once == twice
    words_alone = [{"words": record["words"], "sentences": record["sentences"]} for record in map(json.loads, once)]
    _, third = predicted("\n".join(map(json.dumps, words_alone)).encode(), input_format="jsonl")
    assert [json.loads(line)["tags"] for line in third] == [json.loads(line)["tags"] for line in once]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "stdin:2: .* no JSON"),
        ("[1]", "stdin:2: .*expected a JSON object"),
        ('{"id": 1}', "stdin:2: found neither text nor words, only 'id'"),
        ('{"words": "Anna"}', "stdin:2: words is no list"),
        ('{"words": ["a", 1]}', "stdin:2: words holds a value of type int"),
        ('{"words": ["a", null]}', "stdin:2: words holds a value of type NoneType"),
        ('{"text": 5}', "stdin:2: text holds a value of type int"),
        ('{"text": "\\ud83d"}', "stdin:2: text holds half a surrogate pair"),
        ('{"text": "a b", "words": ["b", "a"]}', "stdin:2: word 2, 'a', is not in the text"),
    ],
)
def test_a_broken_line_is_told_with_its_number(predicted, line, message):
    with pytest.raises(CrossNERError, match=message) as caught:
        predicted(('{"text": "fine"}\n' + line + "\n").encode(), input_format="jsonl")
    assert '"tags"' not in caught.value.hint, "a line to tag needs none"


def test_text_that_is_no_utf8_is_told_with_its_number(predicted):
    with pytest.raises(CrossNERError, match="stdin:2: byte 0xe9"):
        predicted(b"fine\ncaf\xe9\n")


@pytest.mark.parametrize(
    ("data", "found"),
    [(b"Anna B-person\nmet O\nPeter B-person\n", "conll"), (b"Anna\tO\nmet\tO\n\nhim\tO", "conll"),
     (b'{"text": "a"}\n{"words": ["b"]}\n', "jsonl")],
)  # fmt: skip
def test_other_formats_are_not_taken_for_text_unless_told(predicted, data, found):
    with pytest.raises(CrossNERError, match=f"look like {found}"):
        predicted(data)
    assert predicted(data, input_format="text")[0]["documents"] == len(data.splitlines())
    assert predicted(data, input_format=found)[0]["documents"] >= 1
    assert predicted(b"Blood of type O\nVitamin O")[0]["documents"] == 2


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [("stdin", b'\xef\xbb\xbf{"text": "Anna met Peter."}\n{"text": "Bob"}\n', "look like jsonl"),
     ("x.json", b'{"text": "Anna met Peter."}\n', "look like jsonl"),
     ("x.json", b'[{"text": "Anna met Peter."}, {"text": "Bob"}]\n', "is JSON, which is not read"),
     ("x.json", b'"Anna met Peter."\n', "is JSON"),
     ("stdin", b'[\n  {\n    "text": "Anna met Peter."\n  }\n]\n', "is JSON"),
     ("x.txt", b'{\n "text": "Anna met Peter."\n}\n', "is JSON"),
     ("x.txt", b'\xef\xbb\xbf{"sentence": "Anna met Peter."}\n', "is JSON"),
     ("x.conllu", b"1\tAnna\n", "is CoNLL-U"), ("x.conllu", b"", "is CoNLL-U"), ("x.csv", b"id,text\n", "is CSV")],
)  # fmt: skip
def test_what_is_no_text_and_not_read_is_refused_with_a_way_out_unless_it_is_called_text(name, data, found):
    with pytest.raises(CrossNERError, match=f"{name} .*{found}") as caught:
        list(read_documents(io.BytesIO(data), name, Repairs()))
    assert "--input-format text" in caught.value.hint
    documents = list(read_documents(io.BytesIO(data), name, Repairs(), input_format="text"))
    assert len(documents) == data.count(b"\n")


@pytest.mark.parametrize(
    "line", ["[1] Anna met Peter.", "{Anna} met Peter.", '"Anna" met "Peter".', "# Anna", "1\tAnna"]
)
def test_text_that_begins_with_brackets_is_text(line):
    (document,) = read_documents(io.BytesIO(f"\ufeff{line}\n".encode()), "stdin", Repairs())
    assert document.text == line


def test_columns_go_in_and_out_word_by_word(predicted, tmp_path):
    path, output = tmp_path / "in.conll", tmp_path / "out.conll"
    path.write_text("Anna\tO\nmet\tO\n\nNew York\tO\nis\nbig\n", encoding="utf-8")
    result, _ = predicted(input=[path], output=output, format="conll")
    sentences = [located.sentence for located in read_labelled(output, Repairs())]
    assert [sentence.words for sentence in sentences] == [("Anna", "met"), ("New York", "is", "big")]
    assert all(not illegal_positions(sentence.tags, "bio") for sentence in sentences)
    assert (result["documents"], result["sentences"], result["words"]) == (2, 2, 5)


def test_words_that_would_break_columns_are_replaced_and_counted(predicted, tmp_path):
    output = tmp_path / "out.conll"
    words = json.dumps({"words": ["a\tb", " ", "c\nd", "fine"]}).encode()
    result, _ = predicted(words, input_format="jsonl", output=output, format="conll")
    (located,) = read_labelled(output, Repairs())
    assert located.sentence.words == ("a b", "\ufffd", "c d", "fine")
    assert result["rewritten_words"] == 3


def test_a_byte_order_mark_before_a_word_is_left_out_of_columns_and_counted(predicted, tmp_path):
    output = tmp_path / "out.conll"
    words = json.dumps({"words": ["\ufeffAnna", "\ufeff", "met"]}).encode()
    result, _ = predicted(words, input_format="jsonl", output=output, format="conll")
    assert [line.split("\t")[0] for line in output.read_text().splitlines() if line] == ["Anna", "\ufffd", "met"]
    assert result["rewritten_words"] == 2


def test_tokens_of_prodigy_which_are_objects_are_no_words_beside_a_text(predicted):
    record = {"text": "Anna met.", "tokens": [{"text": "Anna", "start": 0, "end": 4, "id": 0}]}
    result, _ = predicted(json.dumps(record).encode(), input_format="jsonl")
    assert (result["documents"], result["words"]) == (1, 3)
    with pytest.raises(CrossNERError, match="tokens holds a value of type dict"):
        predicted(json.dumps({"tokens": record["tokens"]}).encode(), input_format="jsonl")


def test_files_and_stdin_are_read_in_the_order_given(predicted, tmp_path):
    (tmp_path / "one.txt").write_text("first\n")
    (tmp_path / "two.jsonl").write_text('{"text": "third"}\n')
    _, lines = predicted(b"second\n", input=[tmp_path / "one.txt", Path("-"), tmp_path / "two.jsonl"])
    assert [json.loads(line)["text"] for line in lines] == ["first", "second", "third"]


def test_a_pipe_is_opened_once_and_read_to_its_end(predicted, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    failures = []

    def write() -> None:
        try:
            pipe.write_bytes(b"Anna met Peter.\n" * 3)
        except OSError as error:
            failures.append(error)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    result, _ = predicted(input=[pipe])
    writer.join(timeout=10)
    assert result["documents"] == 3 and not failures
    pipe.rename(tmp_path / "pipe.parquet")
    with pytest.raises(CrossNERError, match=r"pipe\.parquet is no file, and Parquet is read from files alone"):
        predicted(input=[tmp_path / "pipe.parquet"])


def test_a_sentence_longer_than_the_encoder_is_tagged_whole(predicted):
    words = ["anna", "met", "london"] * 1667
    _, lines = predicted(json.dumps({"words": words}).encode(), input_format="jsonl", batch_subwords=512)
    assert len(json.loads(lines[0])["tags"]) == 5001


def test_a_long_sentence_takes_no_more_subwords_at_once_than_asked_for(tagger, engine):
    read = []
    hook = tagger.encoder.model.register_forward_pre_hook(
        lambda model, args, given: read.append(given["input_ids"].numel()), with_kwargs=True
    )
    sentence = Sentence(("anna", "met", "london") * 300, None, "politics")
    (at_once,) = tag(tagger, [sentence], engine, batch_subwords=10**6)
    (in_parts,) = tag(tagger, [sentence], engine, batch_subwords=128)
    hook.remove()
    assert read[0] == sum(read[1:]) and max(read[1:]) <= 128
    assert in_parts.tags == at_once.tags
    assert in_parts.probabilities == pytest.approx(at_once.probabilities, abs=1e-5)


def test_an_existing_output_is_kept_unless_forced(predicted, tmp_path):
    output = tmp_path / "out.jsonl"
    predicted(b"one\n", output=output)
    before = output.read_bytes()
    with pytest.raises(CrossNERError, match=r"out\.jsonl exists"):
        predicted(b"two\n", output=output)
    assert output.read_bytes() == before
    predicted(b"two\n", output=output, force=True)
    assert b"two" in output.read_bytes() and [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_file_is_never_replaced_by_its_own_tags(predicted, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text("anna met peter\n")
    with pytest.raises(CrossNERError, match="is one of the files to tag"):
        predicted(b"", input=[text], output=text, force=True)
    assert text.read_text() == "anna met peter\n"


@pytest.mark.parametrize("how", ["error", "interrupt", "close"])
def test_an_interrupted_predict_leaves_no_output_but_what_to_continue_from(folder, engine, tmp_path, how):
    output = tmp_path / "out.jsonl"
    source = tmp_path / "in.jsonl"
    broken = "" if how != "error" else "broken\n"
    source.write_text('{"text": "Anna met Peter"}\n' * 2 * SMALL_CHUNK + broken)
    options = Predict(model=str(folder), input=[source], output=output)
    work = predict(RunDirectory(tmp_path / "run"), options, engine)
    while not isinstance(next(work), Progress):
        pass
    assert not output.exists()
    if how == "error":
        with pytest.raises(CrossNERError, match=r"in\.jsonl:201"):
            exhaust(work)
    elif how == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            work.throw(KeyboardInterrupt())
    else:
        work.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".out.jsonl.draft",
        ".out.jsonl.progress.json",
        "in.jsonl",
    ]
    source.write_text('{"text": "Anna met Peter"}\n')
    exhaust(predict(RunDirectory(tmp_path / "run"), options, engine))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]
    assert len(output.read_text().splitlines()) == 1


def test_what_failed_before_anything_was_tagged_leaves_nothing(predicted, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "Anna met Peter"}\nbroken\n')
    for output, output_format in ((tmp_path / "out", "brat"), (tmp_path / "out.jsonl", "jsonl")):
        with pytest.raises(CrossNERError, match=r"in\.jsonl:2"):
            predicted(input=[source], output=output, format=output_format)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


BAD = [
    ("jsonl", b'{"text": "a"}\n\n{"text": 5}\nno JSON\n\n[1]\n\xff\n{"words": ["b"]}\n{"id": 1}\n', ["a", "", "", "b"],
     [3, 4, 6, 7, 9]),
    ("text", b"Anna\ncaf\xe9\n\nPeter\n", ["Anna", "", "Peter"], [2]),
    ("conll", b"Anna\tO\nmet him today\nPeter O\n\ncaf\xe9 O\n\nthere O\n", ["Anna Peter", "there"], [2, 5]),
]  # fmt: skip


@pytest.mark.parametrize(("input_format", "data", "texts", "bad"), BAD)
def test_bad_lines_are_left_out_and_counted_where_asked(predicted, input_format, data, texts, bad):
    with pytest.raises(CrossNERError, match=f"stdin:{bad[0]}: ") as caught:
        predicted(data, input_format=input_format)
    assert caught.value.hint.endswith("Or leave such lines out: --skip-bad-lines.")
    result, lines = predicted(data, input_format=input_format, skip_bad_lines=True)
    assert [json.loads(line)["text"] for line in lines] == texts
    assert result["repairs"] == {"bad line skipped": len(bad)}


@pytest.mark.parametrize(("name", "is_told"), [("out.csv", True), ("out", False), ("out.jsonl", False)])
def test_an_ending_that_names_no_format_is_told(folder, engine, tmp_path, name, is_told):
    (tmp_path / "in.txt").write_text("Anna met Peter.\n")
    options = Predict(model=str(folder), input=[tmp_path / "in.txt"], output=tmp_path / name)
    told = [event.text for event in predict(RunDirectory(tmp_path), options, engine) if isinstance(event, Notice)]
    assert any("is written as jsonl: its ending names no format" in text for text in told) is is_told
    assert (tmp_path / name).read_text().startswith("{")


def test_blank_lines_behind_a_bad_line_of_an_earlier_file_stay_documents(folder, engine, tmp_path):
    first, second, output = (tmp_path / name for name in ("first.jsonl", "second.jsonl", "out.jsonl"))
    first.write_text('{"text": "a"}\nbad\n{"text": "b"}\n')
    second.write_text('{"text": "c"}\n\n{"text": "d"}\n')
    options = Predict(model=str(folder), input=[first, second], output=output, skip_bad_lines=True)
    exhaust(predict(RunDirectory(tmp_path), options, engine))
    assert [json.loads(line)["text"] for line in output.read_text().splitlines()] == ["a", "b", "c", "", "d"]


def test_the_places_of_bad_lines_are_told(folder, engine, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n' + "bad\n" * 7)
    options = Predict(model=str(folder), input=[source], output=tmp_path / "out", skip_bad_lines=True)
    told = [event.text for event in predict(RunDirectory(tmp_path), options, engine) if isinstance(event, Notice)]
    assert told[-1] == f"bad line skipped: 7 (first: {', '.join(f'{source}:{number}' for number in range(2, 7))})"


def test_scores_are_the_calibrated_ones_where_the_tagger_has_a_calibration(folder, tagger, predicted, tmp_path):
    calibration = Calibration(0.5, -1.0, 10, 5)
    save_tagger(tagger, tmp_path / "calibrated", calibration=calibration.to_json())
    data = b"Anna met Peter in London and Paris\n" * 3
    plain, before = predicted(data)
    result, after = predicted(data, model=str(tmp_path / "calibrated"))
    assert (plain["calibrated"], result["calibrated"]) == (False, True)
    first, second = json.loads(before[0]), json.loads(after[0])
    assert (first.pop("calibrated"), second.pop("calibrated")) == (False, True)
    scores = [
        (one.pop("score"), other.pop("score")) for one, other in zip(first["entities"], second["entities"], strict=True)
    ]
    assert scores and first == second
    for raw, probability in scores:
        assert probability == pytest.approx(calibration(raw), abs=2e-4)
    other, _ = predicted(data, model=str(tmp_path / "calibrated"), decoding="any")
    assert not other["calibrated"]
    same, lines = predicted(data, model=str(tmp_path / "calibrated"), decoding="legal")
    assert same["calibrated"] and lines == after, "it was trained to decode so"


def test_a_reader_that_goes_away_ends_the_work_quietly(folder, engine, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stdout:
        work = predict(
            RunDirectory(tmp_path), Predict(model=str(folder)), engine,
            stdin=io.BytesIO(b"Anna met Peter\n" * 3 * SMALL_CHUNK), stdout=stdout,
        )  # fmt: skip
        result = exhaust(work)["result"]
    assert not result["is_complete"] and result["documents"] == SMALL_CHUNK


def test_places_that_cannot_be_read_or_written_are_told(predicted, tmp_path):
    with pytest.raises(CrossNERError, match="nothing.txt cannot be read"):
        predicted(input=[tmp_path / "nothing.txt"])
    with pytest.raises(CrossNERError, match="cannot be read"):
        predicted(input=[tmp_path])
    with pytest.raises(CrossNERError, match="is a folder"):
        predicted(output=tmp_path)
    with pytest.raises(CrossNERError, match="There is no folder"):
        predicted(output=tmp_path / "there" / "out.jsonl")
    with pytest.raises(CrossNERError, match="more than once"):
        predicted(input=[Path("-"), Path("-")])


def test_no_input_gives_no_output(predicted, tmp_path):
    result, lines = predicted(b"", output=tmp_path / "out.jsonl")
    assert lines == [] and result["documents"] == 0 and (tmp_path / "out.jsonl").read_bytes() == b""


def test_tags_that_cannot_follow_are_repaired_and_counted():
    document = document_of_words(["a", "bc", "d", "e"])
    found = Tagged(("I-x", "I-x", "I-y", "O"), (0.9, 0.5, 0.75, 1.0))
    tagged = _tagged_document(document, [found], "bio")
    assert tagged.tags == [["B-x", "I-x", "B-y", "O"]]
    assert tagged.repaired == 2
    assert tagged.entities == [
        {"start": 0, "end": 4, "type": "x", "text": "a bc", "score": 0.5},
        {"start": 5, "end": 6, "type": "y", "text": "d", "score": 0.75},
    ]
    bioes = _tagged_document(document, [Tagged(("S-x", "B-x", "I-x", "E-x"), (1.0, 0.9, 0.8, 0.7))], "bioes")
    assert bioes.tags == [["B-x", "B-x", "I-x", "I-x"]] and bioes.repaired == 0


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=8))
def test_offsets_point_to_the_words_of_any_document(words):
    document = document_of_words(words)
    assert document.text == " ".join(words)
    for sentence in document.sentences:
        assert [document.text[word.start : word.end] for word in sentence] == words
        tagged = _tagged_document(document, [Tagged(("B-x",) * len(words), (0.5,) * len(words))], "bio")
        record = json.loads(to_jsonl(tagged))
        assert [entity["text"] for entity in record["entities"]] == words
        assert to_conll(tagged, Totals()).count("\n") == len(words) + 1


@given(st.lists(st.integers(0, 300), max_size=8))
def test_chunks_keep_every_document_whole_and_in_order(sizes):
    documents = [Document(str(number), segment("a. B " * size)) for number, size in enumerate(sizes)]
    found = list(chunks(documents))
    assert [document for chunk in found for document in chunk] == documents
    assert all(sum(len(document.sentences) for document in chunk[:-1]) < SMALL_CHUNK for chunk in found)


def test_reading_goes_line_by_line():
    def endless():
        while True:
            yield b"Anna met Peter.\n"

    documents = read_documents(endless(), "stdin", Repairs())
    assert [next(documents).text for _ in range(100)] == ["Anna met Peter."] * 100
