"""prepare-data with dumps of Wikipedia, lists from DBpedia and names of the training sentences."""

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders.dumps import dump, labels, ontology, page, types
from builders.events import drain

from crossner_cli.errors import CrossNERError
from crossner_cli.options_data import PrepareData
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice
from crossner_cli.stages import prepare_data

for package in ("mwparserfromhell", "pyoxigraph"):
    pytest.importorskip(package)

PAGES = [
    page("Category:Music", ""),
    page("Category:Bands", "[[Category:Music]]"),
    page(
        "The Owls",
        "'''The Owls''' are a band.{{ref}} Their singer [[Ada Roe]] met Bob Fox.\n\n"
        "They sang Night Song in Rome.[[Category:Bands]]",
    ),
    page("Car", "A car of Ada Roe and Bob Fox.[[Category:Cars]]"),
]
MUSIC = "Ada\tB-musicalartist\nRoe\tI-musicalartist\nsang\tO\n\nIn\tO\nRome\tB-location\n"
NEWS = "Rome\tB-location\nfell\tO\n"


@pytest.fixture
def inputs(tmp_path):
    """A folder with a source, a target, a dump and RDF."""
    for name, text in {
        "news/train.txt": NEWS,
        "songs/train.txt": MUSIC,
        "songs/test.txt": NEWS.replace("fell", "rose"),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "wiki.xml.bz2").write_bytes(bz2.compress(dump(PAGES)))
    (tmp_path / "labels.ttl.bz2").write_bytes(bz2.compress(labels("The Owls", "Ada Roe", "Bob Fox", "Rome").encode()))
    (tmp_path / "types.ttl").write_text(types("The_Owls:Band", "Ada_Roe:Singer", "Bob_Fox:Person", "Rome:City"))
    (tmp_path / "ontology.nt").write_text(ontology("Singer:MusicalArtist", "MusicalArtist:Person", "Band:Group"))
    return tmp_path


def with_dump(folder, **options):
    """Options that take the music of the dump, and names of DBpedia."""
    rdf = [folder / name for name in ("labels.ttl.bz2", "types.ttl", "ontology.nt")]
    return {"corpus": [folder / "wiki.xml.bz2"], "wikipedia_category": ["Music"], "entities": rdf, **options}


def prepare(folder, **options):
    """Result, lines of each corpus level, and notices."""
    run = RunDirectory(folder / "run")
    given = {"source": [str(folder / "news")], "target": str(folder / "songs"), "force": True} | options
    manifest, events = drain(prepare_data.run(run, PrepareData(run=run.path, **given)))
    corpus = run.folder("prepare-data") / "corpus"
    texts = sorted(corpus.glob("*.txt"))
    mentions = [path.with_suffix(".mentions") for path in texts if options.get("entities")]
    assert sorted(corpus.iterdir()) == sorted([*texts, *mentions])
    levels = {path.stem: path.read_text().splitlines() for path in texts}
    return manifest["result"], levels, [event.text for event in events if isinstance(event, Notice)]


def refusal(folder, **options):
    with pytest.raises(CrossNERError) as found:
        prepare(folder, **options)
    assert found.value.hint and not (folder / "run" / "prepare-data").exists()
    return found.value


def test_a_dump_and_dbpedia_make_the_levels_of_the_paper(inputs):
    result, levels, notices = prepare(inputs, **with_dump(inputs))
    assert levels["domain"] == [
        "The Owls are a band.",
        "Their singer Ada Roe met Bob Fox.",
        "They sang Night Song in Rome.",
    ]
    assert levels["entity"] == levels["task"] == ["Their singer Ada Roe met Bob Fox."]
    assert result["corpus"]["wikipedia"]["kept"] == 1
    assert result["corpus"]["lists"]["rdf"]["types"] == {"Band": 1, "City": 1, "Person": 1, "Singer": 1}
    assert [text for text in notices if text.startswith("Specialised types")] == [
        "Specialised types, from DBpedia's classes of the target's types: MusicalArtist; the lists have none of "
        "ClassicalMusicArtist, MusicComposer."
    ]
    assert "The type MusicalArtist stands for Singer." in notices


def test_a_dump_that_is_named_twice_is_read_once_and_one_of_the_source_is_taken_whole(inputs):
    path = inputs / "wiki.xml.bz2"
    once = prepare(inputs, corpus=[path], wikipedia_category=["Music"])
    twice = prepare(inputs, corpus=[path, path], wikipedia_category=["Music"], source_corpus=[path])
    assert twice[1]["domain"] == once[1]["domain"]
    assert twice[0]["corpus"]["wikipedia"]["kept"] == 1 and twice[0]["source_corpus"]["wikipedia"]["kept"] == 2


def test_types_that_are_asked_for_stand_for_those_below(inputs):
    _, levels, _ = prepare(inputs, **with_dump(inputs, specialised_types="group,Nobody"))
    assert levels["task"] == ["The Owls are a band."]
    options = with_dump(inputs, specialised_types="Nobody", source=None, target=str(inputs / "songs"))
    found = refusal(inputs / "other", **options)
    assert "no name of the specialised types Nobody" in found.problem and "Singer (1 names)" in found.hint


def test_lists_are_checked_before_a_dump_is_read(inputs):
    (inputs / "broken.xml").write_text("no dump")
    (inputs / "names.tsv").write_text("Ada\tsinger\nBob\n")
    options: dict[str, Any] = {"corpus": [inputs / "broken.xml"], "entities": [inputs / "names.tsv"]}
    assert "names.tsv:2" in refusal(inputs, **options).problem
    (inputs / "names.tsv").write_text("Ada\tsinger\n")
    assert "types poet" in refusal(inputs, **options, specialised_types="poet").problem
    assert "it is not XML" in refusal(inputs, **options, specialised_types="singer").problem
    assert "it is not XML" in refusal(inputs, **options, specialised_types="poet", corpus_level="entity").problem


def test_the_training_sentences_are_a_list_of_names(inputs):
    (inputs / "corpus.jsonl.gz").write_bytes(gzip.compress(b'{"body": "Ada Roe left. Rome stood."}\n{"body": null}\n'))
    options = {"corpus": [inputs / "corpus.jsonl.gz"], "text_column": "body", "entities": [Path("train")]}
    result, levels, _ = prepare(inputs, **options, min_entities=1)
    assert levels["task"] == ["Ada Roe left."] and levels["entity"] == ["Ada Roe left.", "Rome stood."]
    assert result["corpus"]["lists"] == {"train": {"mentions": 2, "names": 2}}
    assert result["corpus"]["null_texts"] == 1


def test_names_of_training_sentences_are_on_one_line_each(inputs):
    record = {"words": ["Big\tBen", "\nTower", "sang"], "tags": ["B-place", "I-place", "O"]}
    (inputs / "songs" / "train.txt").unlink()
    (inputs / "songs" / "train.jsonl").write_text(json.dumps(record))
    (inputs / "raw.txt").write_text("I saw Big Ben Tower today.\n")
    _, levels, _ = prepare(inputs, corpus=[inputs / "raw.txt"], entities=[Path("train")], min_entities=1)
    assert levels["entity"] == ["I saw Big Ben Tower today."]


def test_what_cannot_be_prepared_is_reported_and_leaves_nothing(inputs):
    text = inputs / "text.txt"
    text.write_text("Ada Roe left.\n")
    assert "--corpus names none" in refusal(inputs, corpus=[text], wikipedia_category=["Music"]).problem
    assert "no category" in refusal(inputs, corpus=[inputs / "wiki.xml.bz2"], wikipedia_category=["Musik"]).problem
    assert "no training sentences" in refusal(inputs, corpus=[text], entities=[Path("train")], target=None).problem
    (inputs / "types.ttl").write_text("broken")
    assert "types.ttl:1: this is not a triple" in refusal(inputs, **with_dump(inputs)).problem


def interrupted(*_, **__):
    raise KeyboardInterrupt
    yield


def test_a_dump_is_read_once_where_the_selection_was_interrupted(inputs, monkeypatch):
    options = with_dump(inputs)
    expected = prepare(inputs, **options)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("crossner_cli.corpus.inputs.write_levels", interrupted)
        prepare(inputs, **options)
    monkeypatch.setattr("crossner_cli.corpus.inputs.write_articles", interrupted)
    found = prepare(inputs, **options)
    assert found[:2] == expected[:2]
    assert any("was read before the interruption" in notice for notice in found[2])
    assert not list((inputs / "run").glob("**/.*draft*")) and not list((inputs / "run").glob("**/.selection"))


def test_a_dump_that_was_read_in_part_is_not_kept(inputs, monkeypatch):
    def write_half(_, path, **__):
        path.write_text("half")
        return interrupted()

    monkeypatch.setattr("crossner_cli.corpus.inputs.write_articles", write_half)
    with pytest.raises(KeyboardInterrupt):
        prepare(inputs, corpus=[inputs / "wiki.xml.bz2"])
    assert not [path for path in (inputs / "run").rglob("*") if "lock" not in path.name]
