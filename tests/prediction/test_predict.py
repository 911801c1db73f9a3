"""``crossner predict``: any text in, words, tags and spans out; order, offsets and lines are those of the input."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossner_cli.data.files import Repairs
from crossner_cli.data.labelled import read_labelled
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import illegal_positions
from crossner_cli.data.text import segment
from crossner_cli.engine.devices import Engine
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.linear import LinearTagger
from crossner_cli.options import Predict
from crossner_cli.prediction import inputs
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, exhaust
from crossner_cli.stages.predict import run as predict
from crossner_cli.taggers.folder import save_tagger
from crossner_cli.taggers.tagging import Calibration, tag

Predicted = Callable[..., tuple[dict[str, Any], list[str]]]
MANY_LINES = [f"Anna {number} met Peter in London" + " and Paris" * (number % 17) for number in range(60)]


def check_object(record: dict[str, Any]) -> None:
    """What holds of every object: lists of one length, offsets that point to the words, legal tags."""
    words, tags, text = record["words"], record["tags"], record["text"]
    assert len(words) == len(tags)
    for first, end in record["sentences"]:
        assert first < end and not illegal_positions(tags[first:end], "bio")
    assert [0, *(end for _, end in record["sentences"])][:-1] == [first for first, _ in record["sentences"]]
    assert len(words) == (record["sentences"][-1][1] if record["sentences"] else 0)
    assert len(record["entities"]) == sum(name.startswith("B-") for name in tags)
    for entity in record["entities"]:
        assert text[entity["start"] : entity["end"]] == entity["text"] != ""
        assert 0 < entity["score"] <= 1 and entity["type"] in ("person", "place-name")


def test_a_line_of_text_becomes_an_object_and_blank_lines_too(predicted: Predicted) -> None:
    data = "Anna met Peter. They visited London.\n\n  Zoë’s naïve 東京 👍🏽 text  \r\nlast line without end"
    result, lines = predicted(data.encode())
    records = [json.loads(line) for line in lines]
    assert [record["text"] for record in records] == data.replace("\r", "").split("\n")
    for record in records:
        check_object(record)
        assert record["words"] == [word.text for words in segment(record["text"]) for word in words]
    assert records[1]["words"] == records[1]["entities"] == records[1]["sentences"] == []
    assert len(records[0]["sentences"]) == 2
    assert (result["documents"], result["blank_documents"]) == (4, 1)
    assert result["words"] == sum(len(record["words"]) for record in records)
    assert sum(result["entities"].values()) == sum(len(record["entities"]) for record in records)
    assert "thing" not in result["entities"]


def test_tags_are_those_of_the_tagger_whatever_the_chunks(
    predicted: Predicted, tagger: LinearTagger, engine: Engine
) -> None:
    result, out = predicted("\n".join(MANY_LINES).encode())
    assert [json.loads(line)["text"] for line in out] == MANY_LINES
    assert result["sentences"] > 2 * inputs.CHUNK_SENTENCES
    sentences = [Sentence(tuple(line.split()), None, "politics") for line in MANY_LINES]
    expected = tag(tagger, sentences, engine, batch_subwords=4096)
    for line, each in zip(out, expected, strict=True):
        assert [name[2:] for name in json.loads(line)["tags"]] == [name[2:] for name in each.tags]


def test_other_keys_pass_through_unless_the_output_sets_them(predicted: Predicted) -> None:
    given = [
        {"id": 7, "words": ["Anna", "met", "New York"], "tags": ["O", "O", "O"], "note": {"a": [1.5, None]}},
        {"text": "Anna met Peter.", "entities": "mine", "ok": "\ud83d"},
    ]
    _, lines = predicted("\n".join(map(json.dumps, given)).encode(), input_format="jsonl")
    first, second = map(json.loads, lines)
    for record in (first, second):
        check_object(record)
    assert (first["id"], first["note"], first["text"]) == (7, {"a": [1.5, None]}, "Anna met New York")
    assert first["words"] == ["Anna", "met", "New York"]
    assert second["entities"] != "mine" and second["ok"] == "\ud83d"


def test_entities_that_score_too_low_are_left_out_and_counted(predicted: Predicted) -> None:
    data = "\n".join([*MANY_LINES, "", ""]).encode()
    everything, whole = predicted(data)
    records = [json.loads(line) for line in whole]
    entities = [entity for record in records for entity in record["entities"]]
    scores = sorted(entity["score"] for entity in entities)
    one_type = entities[0]["type"]
    for least in (0.0, scores[len(scores) // 2], scores[-1]):
        for given, types in (([str(least)], None), (["0", f"{one_type}={least}"], {one_type})):
            result, out = predicted(data, min_score=given)
            assert len(out) == len(whole)
            for line, record in zip(map(json.loads, out), records, strict=True):
                kept = [
                    each
                    for each in record["entities"]
                    if each["score"] >= least or (types and each["type"] not in types)
                ]
                assert line["entities"] == kept
                assert sum(tag.startswith("B-") for tag in line["tags"]) == len(kept)
            left = sum(result["entities"].values())
            assert left + result["unsure_entities"] == len(entities) == sum(everything["entities"].values())
    assert everything["unsure_entities"] == 0
    for value, said in (
        ("1.5", "not a score"),
        ("x", "not a score"),
        ("nobody=0.5", "does not know the type 'nobody'"),
    ):
        with pytest.raises(CrossNERError, match=said):
            predicted(data, min_score=[value])


def test_what_predict_wrote_can_be_predicted_again_sentence_by_sentence(predicted: Predicted) -> None:
    _, once = predicted(b"Anna met Peter in London. They visited Paris.\n\nParis of the x-ray")
    assert [len(json.loads(line)["sentences"]) for line in once] == [2, 0, 1]
    _, twice = predicted("\n".join(once).encode(), input_format="jsonl")
    assert once == twice
    words_alone = [{"words": record["words"], "sentences": record["sentences"]} for record in map(json.loads, once)]
    _, third = predicted("\n".join(map(json.dumps, words_alone)).encode(), input_format="jsonl")
    assert [json.loads(line)["tags"] for line in third] == [json.loads(line)["tags"] for line in once]


def test_columns_go_in_and_out_word_by_word(predicted: Predicted, tmp_path: Path) -> None:
    path, output = tmp_path / "in.conll", tmp_path / "out.conll"
    path.write_text("Anna\tO\nmet\tO\n\nNew York\tO\nis\nbig\n", encoding="utf-8")
    result, _ = predicted(input=[path], output=output, format="conll")
    sentences = [located.sentence for located in read_labelled(output, Repairs())]
    assert [sentence.words for sentence in sentences] == [("Anna", "met"), ("New York", "is", "big")]
    assert all(not illegal_positions(sentence.tags, "bio") for sentence in sentences)
    assert (result["documents"], result["sentences"], result["words"]) == (2, 2, 5)


def test_what_was_read_before_a_bad_line_is_written(folder: Path, engine: Engine, tmp_path: Path) -> None:
    source, stdout = tmp_path / "in.jsonl", io.BytesIO()
    source.write_text('{"text": "a"}\n' * 3000 + "bad\n")
    options = Predict(model=[str(folder)], input=[source])
    with pytest.raises(CrossNERError, match=r"in\.jsonl:3001"):
        exhaust(predict(RunDirectory(tmp_path), options, engine, stdout=stdout))
    assert stdout.getvalue().count(b"\n") == 3000


def test_skipped_lines_are_counted_and_their_places_told(folder: Path, engine: Engine, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n' + "bad\n" * 7)
    options = Predict(model=[str(folder)], input=[source], output=tmp_path / "out", skip_bad_lines=True)
    told = [event.text for event in predict(RunDirectory(tmp_path), options, engine) if isinstance(event, Notice)]
    assert told[-1] == f"bad line skipped: 7 (first: {', '.join(f'{source}:{number}' for number in range(2, 7))})"


def test_scores_are_probabilities_if_the_tagger_is_calibrated(
    tagger: LinearTagger, predicted: Predicted, tmp_path: Path
) -> None:
    calibration = Calibration(0.5, -1.0, 10, 5)
    save_tagger(tagger, tmp_path / "calibrated", calibration=calibration.to_json())
    data = b"Anna met Peter in London and Paris\n" * 3
    plain, before = predicted(data)
    result, after = predicted(data, model=[str(tmp_path / "calibrated")])
    assert (plain["calibrated"], result["calibrated"]) == (False, True)
    first, second = json.loads(before[0]), json.loads(after[0])
    assert (first.pop("calibrated"), second.pop("calibrated")) == (False, True)
    pairs = zip(first["entities"], second["entities"], strict=True)
    scores = [(one.pop("score"), other.pop("score")) for one, other in pairs]
    assert scores and first == second
    for raw, probability in scores:
        assert probability == pytest.approx(calibration(raw), abs=2e-4)
    assert not predicted(data, model=[str(tmp_path / "calibrated")], decoding="any")[0]["calibrated"]
    same, lines = predicted(data, model=[str(tmp_path / "calibrated")], decoding="legal")
    assert same["calibrated"] and lines == after, "it was trained to decode so"


def test_a_reader_that_goes_away_ends_the_work(folder: Path, engine: Engine, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    options, stdin = Predict(model=[str(folder)]), io.BytesIO(b"Anna met Peter\n" * 100)
    with os.fdopen(writing, "wb", buffering=0) as stdout, pytest.raises(BrokenPipeError):
        exhaust(predict(RunDirectory(tmp_path), options, engine, stdin=stdin, stdout=stdout))
    assert stdin.tell() < 100 * len(b"Anna met Peter\n")


def test_columns_of_parquet_pass_through_and_other_keys_become_json(predicted: Predicted, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"id": list(range(60)), "text": [f"Anna {n}" for n in range(60)], "tags": [1] * 60})
    parquet.write_table(table, tmp_path / "in.parquet")
    predicted(output=tmp_path / "out.parquet", input=[tmp_path / "in.parquet"])
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column_names == ["id", "text", "words", "tags", "entities", "sentences", "calibrated"]
    assert found.column("id").to_pylist() == list(range(60))
    assert found.column("tags").to_pylist()[0] != 1
    (tmp_path / "in.jsonl").write_text('{"text": "a", "id": 7, "tags": 1}\n{"text": "b"}\n')
    predicted(output=tmp_path / "other.parquet", input=[tmp_path / "in.jsonl", tmp_path / "in.parquet"])
    given = parquet.read_table(tmp_path / "other.parquet").column("given").to_pylist()
    assert given[:3] == ['{"id": 7}', None, '{"id": 0}']


def test_a_folder_of_csv_and_text_is_tagged_and_each_document_says_where_it_is_from(
    predicted: Callable[..., tuple[dict[str, Any], list[str]]], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text('id,body\n7,"Anna met\nPeter."\n8,Bye.\n')
    (tmp_path / "in" / "b.txt").write_text("Anna\n")
    result, lines = predicted(input=[tmp_path / "in"], text_column="body")
    found = [(each["text"], each.get("id"), Path(each["file"]).name) for each in map(json.loads, lines)]
    assert found == [("Anna met\nPeter.", "7", "a.csv"), ("Bye.", "8", "a.csv"), ("Anna", None, "b.txt")]
    assert result["documents"] == 3
