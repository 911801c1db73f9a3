"""Looking inside: the weights shown are those that decide, figures show words as they are, folders are whole."""

import json
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.commands import QUICK, crossner
from builders.encoders import make_encoder
from builders.results import assert_fits
from builders.taggers import TAG_SET, batch_of, make_tagger, some_sentences
from typer.testing import CliRunner

from crossner_cli.cli import app
from crossner_cli.data.tags import TagSet
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.laner import LANER, Prefix
from crossner_cli.recurrent.methods.moee import MoEETagger
from crossner_cli.reports.inspection import HeatMap, InspectedSentence, InspectResult, collect_states, inspection_tables
from crossner_cli.taggers.folder import save_tagger

HOSTILE = "$x^2$ <b>&amp;</b> _under \u65e5\u672c"


def test_the_experts_shown_are_those_that_are_mixed(tiny_encoder_folder: Path) -> None:
    tagger = make_tagger(tiny_encoder_folder, "moee")
    assert isinstance(tagger, MoEETagger)
    batch = batch_of(tagger, some_sentences(4), with_tags=False)
    with torch.no_grad():
        shares, columns = tagger.explain(batch)["experts"]
        assert columns == ("O", *TAG_SET.types)
        states = tagger.context(tagger.encoder(batch), batch.word_mask)
        mixture = tagger.experts(states, shares)
        moves, allowed = tagger.rules.moves(), tagger.rules.allowed(batch.domains)
        assert tagger.tag_layer.decode(mixture, batch.word_mask, allowed, moves) == tagger.decode(batch)


@pytest.mark.parametrize("setting", [(), ("background=false",), ("context=false",)])
def test_the_attention_shown_is_what_tags_were_chosen_by(tiny_encoder_folder: Path, setting: tuple[str, ...]) -> None:
    tagger = make_tagger(tiny_encoder_folder, "laner", TAG_SET, "legal=false", *setting)
    assert isinstance(tagger, LANER)
    labels = tagger.label_encoder
    for sentence in some_sentences(3, longest=7):
        batch = batch_of(tagger, [sentence], with_tags=False)
        with torch.no_grad():
            shown, decoded = tagger.explain(batch), tagger.decode(batch)
            words, table = tagger.encoder(batch), labels.table()
            previous, prefix = len(TAG_SET), None
            for place, (tag, probability) in enumerate(zip(decoded.tags[0], decoded.probabilities[0], strict=True)):
                prefix = labels.extend(prefix, torch.tensor([previous]), keep=True)
                encoded = labels.encode(Prefix(*prefix))[0].flip(0)  # the first label first, (L, 2 d2)
                read = [words[0, place]]
                if tagger.hyper.background:
                    read.append(shown["background"].values[0, place] @ words[0])
                if tagger.hyper.context:
                    shares = shown["context"].values[0, place]
                    assert not shares[place + 1 :].any(), "labels that come later are not seen"
                    read.append(shares[: place + 1] @ encoded)
                scores = tagger.output(torch.cat(read)).masked_fill(~tagger.rules.allowed(batch.domains)[0], -torch.inf)
                assert int(scores.argmax()) == tag
                assert float(scores.softmax(dim=-1)[tag]) == pytest.approx(probability, abs=1e-5)
                previous = tag
            assert len(table) == len(TAG_SET) + 1
    plain = make_tagger(tiny_encoder_folder, "laner", TAG_SET, "background=false", "context=false")
    assert plain.explain(batch) == {}


def test_states_are_those_of_words_inside_entities_as_many_of_each_domain(
    tiny_encoder_folder: Path, engine: Engine
) -> None:
    tagger, sentences = make_tagger(tiny_encoder_folder, "crf"), some_sentences(30)
    arguments: Any = {"kind": "hidden", "points": 40, "seed": 3}
    vectors, words = collect_states(tagger, sentences, engine, **arguments)
    domains = [domain for _, _, domain in words]
    assert domains.count("news") == domains.count("songs") == 20
    assert {name for _, name, _ in words} == {"person", "place", "artist"} and vectors.shape == (40, 32)
    assert np.array_equal(collect_states(tagger, sentences, engine, **arguments)[0], vectors)
    arguments["points"] = 100_000
    inside = sum(tag != "O" for sentence in sentences for tag in sentence.tags or ())
    vectors, words = collect_states(tagger, sentences, engine, **arguments)
    assert len(words) == len(vectors) == inside
    number, word = next((n, w) for n, s in enumerate(sentences) for w, t in enumerate(s.tags or ()) if t != "O")
    with torch.no_grad():
        alone = tagger.encoder(batch_of(tagger, [sentences[number]]))[0, word].numpy()
    (place,) = np.flatnonzero(np.abs(vectors - alone).max(axis=1) < 1e-5)
    assert words[place][0] == sentences[number].words[word]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of taggers, and a run with prepared data."""
    place = tmp_path_factory.mktemp("inspected")
    encoder = make_encoder(place / "encoder")
    for method in ("moee", "linear"):
        save_tagger(make_tagger(encoder, method, TagSet({"sample-target": ("person", "$a$")})), place / method)
    data = place / "data"
    data.mkdir()
    for split in ("train", "dev"):
        lines = "anna\tB-person\nvisited\tO\nparis\tB-$a$\n\n" * 8
        (data / f"{split}.txt").write_text(lines)
    crossner("prepare-data", "--run", place / "run", "--target", data, "--source", "sample-source")
    return {name: place / name for name in ("moee", "linear", "run")}


def inspect(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["inspect", *map(str, arguments), *QUICK])


def test_the_command_shows_a_table_and_draws_figures_that_say_what_the_words_say(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    given = ("--model", folders["moee"], "--sentence", HOSTILE)
    shown = inspect(*given)
    assert shown.exit_code == 0 and "Sentence 1: experts" in shown.stdout and "person" in shown.stdout
    (tmp_path / "a").mkdir()  # an empty folder may be filled
    record = crossner("inspect", *given, "--output", tmp_path / "a", *QUICK)["result"]
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"inspection.json", "sentence-1-experts.svg"}
    assert json.loads((tmp_path / "a" / "inspection.json").read_text())["result"] == record
    (sentence,) = record["sentences"]
    assert np.allclose(np.sum(sentence["weights"]["experts"]["values"], axis=1), 1, atol=1e-5)
    drawn = (tmp_path / "a" / "sentence-1-experts.svg").read_bytes()
    texts = "\n".join(ElementTree.fromstring(drawn).itertext())
    for word in (*sentence["words"], "$a$", "experts"):
        assert word in texts, "as text, neither markup nor a formula"
    (tmp_path / "a" / "old").touch()
    again = inspect(*given, "--output", tmp_path / "a")
    assert again.exit_code == 1 and "--force replaces it" in again.stderr
    assert inspect(*given, "--output", tmp_path / "a", "--force").exit_code == 0
    assert not (tmp_path / "a" / "old").exists()
    assert (tmp_path / "a" / "sentence-1-experts.svg").read_bytes() == drawn, "the same each time"


def test_a_domain_without_the_split_is_named_and_left_out_of_the_states(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    shutil.copytree(folders["run"], tmp_path / "run")
    (tmp_path / "run" / "prepare-data" / "source" / "dev.jsonl").unlink()
    given = (
        "--run",
        tmp_path / "run",
        "--model",
        folders["linear"],
        "--states",
        "hidden",
        "--output",
        tmp_path / "out",
    )
    told = CliRunner().invoke(app, ["inspect", *map(str, given), *map(str, QUICK)])
    assert told.exit_code == 0, told.output
    assert "The source sample-source has no dev sentences and is left out of the states." in " ".join(
        told.output.split()
    )


def test_what_cannot_be_shown_is_a_known_problem_and_leaves_nothing(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moee, linear, output = folders["moee"], folders["linear"], tmp_path / "out"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    states, of_run = ("--states", "hidden"), ("--output", output, "--run", folders["run"])
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((moee, "--sentence", "  "), "holds no word"),
        ((linear, "--sentence", "a b"), "Methods that do: laner, moee, multi-cell-lstm"),
        ((moee, *states), "--states hidden has no effect without --output"),
        ((linear, "--states", "cells", *of_run), "It has: hidden"),
        ((linear, *states, *of_run, "--split", "test"), "0 words inside entities"),
        ((moee, "--sentence", "a", "--output", tmp_path / "full", "--force"), "inspection.json"),
    ]
    for (model, *arguments), problem in cases:
        done = inspect("--model", model, *arguments)
        assert done.exit_code == 1, (arguments, done.stdout, done.stderr)
        assert problem in " ".join(done.stderr.split()), done.stderr
        assert "Traceback" not in done.stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = inspect("--model", moee, "--sentence", "a", "--output", output)
    assert done.exit_code == 1 and 'pip install "crossner[plots]"' in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["full"], "no draft is left"
    assert (tmp_path / "full" / "letter.txt").read_text() == "mine"


@pytest.mark.parametrize("width", [80, 100])
def test_the_tables_of_an_inspection_fit(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["A", "word", "of-a-length-that-no-table-can-hold-on-one-line-" * 2]
    weights = HeatMap([f"B-{name} {word}" for name in ("politicalparty", "x") for word in words], [[0.1] * 6] * 3)
    sentence = InspectedSentence(words, ["O", "B-politicalparty", "O"], {"background": weights})
    assert_fits(inspection_tables(InspectResult("laner", 1, [sentence], [], None)), width, monkeypatch)
