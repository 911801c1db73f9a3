"""prepare-data: what it writes, what it refuses, and that nothing half-done stays."""

import json
import os
from pathlib import Path

import pytest

from crossner_cli.data.domains import find_domain
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.sentences import PreparedData, split_place
from crossner_cli.data.splits import LEAK
from crossner_cli.errors import CrossNERError
from crossner_cli.options_data import PrepareData
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Notice, Progress, exhaust
from crossner_cli.stages import prepare_data, status
from crossner_cli.stages.data_sets import COPY_OF_GOLD


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def folders(tmp_path):
    """A source and a target of a few sentences, as folders."""
    for name, files in {
        "news": {"train.txt": "Rome\tB-location\n\nIt\tO\n\n", "dev.txt": "Paris\tB-location\n"},
        "food": {"train.txt": "\n".join(f"w{number}\tB-dish\n" for number in range(10)), "test.txt": "w1\tB-dish\n"},
    }.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    return {"source": [str(tmp_path / "news")], "target": str(tmp_path / "food")}


def prepare(run, **options):
    if isinstance(options.get("source"), str):
        options["source"] = [options["source"]]
    return exhaust(prepare_data.run(run, PrepareData(run=run.path, **options)))


def failure(run, **options):
    with pytest.raises(CrossNERError) as raised:
        prepare(run, **options)
    assert raised.value.hint
    return str(raised.value)


def words(run, role, split):
    sentences = PreparedData.load(run, wanted_by="test").domains[role].sentences(split)
    return [" ".join(sentence.words) for sentence in sentences]


def test_types_that_are_named_alike_are_renamed_in_each_source_and_the_names_are_told(run, tmp_path):
    for name, tags in {"news": ["person"], "wiki": ["PER", "LOC", "FOOD"], "mine": ["person", "location"]}.items():
        (tmp_path / name).mkdir()
        for split in ("train", "dev", "test"):
            rows = [f"{name}-{split}-{number}\tB-{tag}\n" for number, tag in enumerate(tags * 4)]
            (tmp_path / name / f"{split}.txt").write_text("\n".join(rows))
    sources = [str(tmp_path / "news"), str(tmp_path / "wiki")]
    given = {"source": sources, "target": str(tmp_path / "mine")}
    for maps, left in ((None, "wiki:PER=person,wiki:LOC=location"), ("LOC=location", "wiki:PER=person")):
        assert prepare(run, **given, map_types=maps)["result"]["warnings"][-1].endswith(f"--map-types {left}")
    for maps, renamed in (("auto", {}), ("auto, FOOD=person", {"FOOD": "person"}), ("PER=O,auto", {"PER": "O"})):
        result = prepare(run, **given, map_types=maps)["result"]
        assert result["renamed"] == {"wiki": {"PER": "person", "LOC": "location", **renamed}}
        assert result["warnings"] == []
    assert result["domains"]["source"]["types"] == ["person", "location", "FOOD"]
    assert "Types renamed in wiki: PER=O, LOC=location" in (run.folder("prepare-data") / "statistics.md").read_text()
    assert "auto needs a target" in failure(run, source=sources, map_types="auto", force=True)


def test_several_sources_are_one_domain_and_silver_is_the_targets(run, tmp_path):
    for name, text in {
        "a": {"train": "Anna\tB-PER\n\nyes\tO\n", "dev": "Bob\tB-PER\n"},
        "b": {"train": "Rome\tB-city\n\nBob\tO\n"},
        "mine": {"train": "Rome\tB-place\nOtto\tB-person\n", "test": "Yes\tO\n"},
        "silver": {"train": "Oslo\tB-place\n\nbob\tO\n\nRome\tO\notto\tO\n"},
    }.items():
        (tmp_path / name).mkdir()
        for split, rows in text.items():
            (tmp_path / name / f"{split}.txt").write_text(rows)
    options = {"source": [str(tmp_path / "a"), f"{tmp_path / 'b'}=2"], "target": str(tmp_path / "mine")}
    manifest = prepare(run, **options, map_types="a:PER=person,b:city=place", silver=str(tmp_path / "silver"))
    assert words(run, "source", "train") == ["Anna", "Rome", "Rome"], "dev of a and test of the target stay unseen"
    assert words(run, "silver", "train") == ["Oslo"]
    result = manifest["result"]
    assert result["domains"]["source"]["name"] == "a+b" and result["domains"]["silver"]["name"] == "silver"
    assert result["domains"]["source"]["types"] == ["person", "place"]
    assert [each["train"]["sentences"] for each in result["statistics"]["source"]["sources"].values()] == [1, 1]
    assert result["repairs"]["silver"] == {LEAK: 1, COPY_OF_GOLD: 1} and result["repairs"]["source"] == {LEAK: 2}
    assert set(manifest["inputs"]) >= {"source/train", "source-2/train", "silver/train"}
    with pytest.raises(CrossNERError, match="the target has no type place") as caught:
        prepare(run, target=str(tmp_path / "a"), silver=str(tmp_path / "silver"))
    assert "--map-types silver:place=O drops it" in caught.value.hint
    with pytest.raises(CrossNERError, match="a occurs twice"):
        prepare(run, source=[str(tmp_path / "a")] * 2)


def test_one_domain_alone_is_enough_and_hides_a_folder_of_its_name(run, folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample-target").mkdir()
    (tmp_path / "sample-target" / "train.txt").write_text("Rome\tB-city\n")
    (note, *_) = prepare_data.run(run, PrepareData(run=run.path, target="sample-target"))
    assert note.text.endswith("for the folder sample-target, give ./sample-target.")
    run = RunDirectory(tmp_path / "other")
    assert list(prepare(run, target=folders["target"])["result"]["domains"]) == ["target"]
    assert list(prepare(run, source=folders["source"], force=True)["result"]["domains"]) == ["source"]


def test_other_files_or_options_prepare_the_data_anew_and_what_changed_is_told(run, folders):
    def notices(**changes):
        events = list(prepare_data.run(run, PrepareData(run=run.path, **folders, **changes)))
        return " ".join(event.text for event in events if isinstance(event, Notice))

    first, before = prepare(run, **folders), run.digest("prepare-data")
    assert "nothing was done" in notices() and prepare(run, **folders) == first
    assert "sentences added" not in notices(force=True) and run.digest("prepare-data") == before
    (Path(folders["target"]) / "test.txt").write_text("Another\tO\nsentence\tO\n\nother\tB-dish\n")
    told = notices()
    assert "target test: sentences added: 2, removed: 1, with other labels: 0." in told and "target train" not in told
    (Path(folders["target"]) / "test.txt").write_text("Another\tO\nsentence\tO\n\nother\tO\n")
    assert "target test: sentences added: 0, removed: 0, with other labels: 1." in notices()
    assert words(run, "target", "test") == ["Another sentence", "other"]
    assert "target train: sentences added: 0, removed:" in notices(train_limit="1")


@pytest.mark.parametrize("content", [b"a\tO\nb\n", b"\xff\tO\n", b"a\tlocation\n", b""])
def test_malformed_input_leaves_nothing_and_can_be_mended(run, folders, content):
    path = Path(folders["target"]) / "test.txt"
    path.write_bytes(content)
    assert "test.txt" in failure(run, **folders)
    assert run.stages() == []
    assert [path for path in run.path.iterdir() if path.is_dir()] == []
    path.write_text("mended\tB-dish\n")
    prepare(run, **folders)
    assert run.stages() == ["prepare-data"]


def test_an_interrupted_stage_is_done_again_even_with_other_options(run, folders):
    work = prepare_data.run(run, PrepareData(run=run.path, **folders))
    next(work)
    next(work)
    work.close()
    assert run.stages() == []
    prepare(run, **folders, train_limit="2")
    assert len(words(run, "target", "train")) == 2


def test_a_target_without_training_sentences_is_an_error(run, folders, tmp_path):
    (tmp_path / "food" / "train.txt").rename(tmp_path / "food" / "labels.txt")
    assert "no training sentences" in failure(run, **folders)
    (tmp_path / "food" / "labels.txt").unlink()
    alone = {role: folder for role, folder in folders.items() if role == "target"}
    assert "no training sentences" in failure(run, **alone)
    assert not run.has("prepare-data")
    prepare(run, **folders)  # a tagger of the source can be scored on it


def test_several_files_are_one_target_and_unread_files_of_a_folder_are_named(run, folders, tmp_path):
    (tmp_path / "more.txt").write_text("w1\tO\n\nnew\tB-dish\n")
    (tmp_path / "news" / "old.txt").write_text("")
    options = PrepareData(
        run=run.path, source=folders["source"], target=[folders["target"], str(tmp_path / "more.txt")]
    )
    notices = [each.text for each in prepare_data.run(run, options) if isinstance(each, Notice)]
    assert "target food: train read as one from 2 files (train.txt, more.txt)." in notices
    assert "source news: not read of the folder: 1 files (old.txt)." in notices
    assert any("also in a later file of the split" in notice for notice in notices)
    assert sorted(words(run, "target", "train")) == sorted([*(f"w{number}" for number in range(10)), "new"])
    assert status.changed_files(run.read("prepare-data")) == []
    (tmp_path / "more.txt").write_text("new\tB-dish\n")
    assert status.changed_files(run.read("prepare-data")) == ["target/train-2"]


def test_dev_is_taken_from_train_where_there_is_none(run, folders):
    prepare(run, **folders, dev_from_train=0.3)
    train, dev = words(run, "target", "train"), words(run, "target", "dev")
    assert (len(train), len(dev)) == (7, 3)
    assert sorted(train + dev) == [f"w{number}" for number in range(10)]
    assert words(run, "source", "dev") == ["Paris"]
    prepare(run, **folders, dev_from_train=0.3, train_limit="2", force=True)
    assert words(run, "target", "dev") == dev, "dev does not depend on the limit"
    assert len(words(run, "target", "train")) == 2


def test_warnings_are_kept_in_the_result(run, folders):
    for split in ("dev", "test"):
        (Path(folders["target"]) / f"{split}.txt").write_text("x\tB-Location\n\nw1\tB-dish\n")
    assert prepare(run, **folders)["result"]["warnings"] == [
        "The source 'news': train has 2 sentences with 1 entities, too few to learn from.",
        "The target 'food': types that train does not show: Location.",
        "The target 'food': 1 of 2 test sentences are in train, word for word.",
        "The target 'food': dev equals test, so scores on test are those of sentences that chose the epoch.",
        "Types of the source and the target with similar names count as different. If they mean the same:"
        " --map-types location=Location",
    ]


@pytest.mark.skipif(not os.environ.get("CROSSNER_MIRROR"), reason="CROSSNER_MIRROR is not set")
def test_warnings_of_a_cached_data_set_are_shown_once_and_kept_in_every_manifest(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSNER_CACHE", str(tmp_path / "cache"))
    first, again = (prepare(RunDirectory(tmp_path / name), source="music")["result"] for name in ("first", "again"))
    assert not first["known_warnings"] and set(again["warnings"] + again["known_warnings"]) == set(first["warnings"])
    shown = [warning for warning in again["warnings"] if "are in train, word for word" not in warning]
    assert not shown and len(again["warnings"]) == 2, "what changes the meaning of scores is said each time"


def test_sentences_keep_the_file_and_line_they_were_read_from(run, folders):
    prepare(run, **folders, dev_from_train=0.5)
    target = PreparedData.load(run, wanted_by="test").domain("target", wanted_by="test")
    path = Path(folders["target"]) / "test.txt"
    lines = path.read_text().split("\n")
    for sentence in target.sentences("test"):
        file, line = split_place(sentence.place)
        assert file == str(path) and line and lines[line - 1].startswith(sentence.words[0])


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ("C:/a:b.txt:12", ("C:/a:b.txt", 12)),
        ("tasks.json, record 3", ("tasks.json", 3)),
        ("notes/a.txt", ("notes/a.txt", None)),
        ("", ("", None)),
    ],
)
def test_places_are_split_into_the_file_and_its_line_or_record(place, parts):
    assert split_place(place) == parts


def test_folders_of_one_name_stay_two_domains_and_the_target_keeps_the_name(run, folders, tmp_path):
    (tmp_path / "other").mkdir()
    other = str(Path(folders["target"]).rename(tmp_path / "other" / "news"))
    both = prepare(run, source=folders["source"], target=other)["result"]["domains"]
    assert [domain["name"] for domain in both.values()] == ["news-source", "news"]
    alone = prepare(RunDirectory(tmp_path / "alone"), target=other)["result"]["domains"]
    assert alone["target"]["name"] == "news", "else a tagger of one run would take it for the source in another"


def test_repairs_are_counted_with_their_places(run, folders):
    path = Path(folders["source"][0]) / "dev.txt"
    path.write_text("-DOCSTART- O\n\nParis\tI-location\n\tO\n \nRome\tB-location\nCity\tE-location\n")
    repairs = prepare(run, **folders)["result"]["repairs"]
    stored = json.loads((run.folder("prepare-data") / "repairs.json").read_text())
    assert {kind: record["count"] for kind, record in stored["source"].items()} == repairs["source"]
    assert stored["source"]["-DOCSTART- dropped"] == {"count": 1, "first": [f"{path}:1"]}
    assert len(repairs["source"]) == 4


@pytest.fixture
def corpora(monkeypatch):
    """A stand-in for the function that writes corpus levels; keeps what it was called with."""
    calls = []

    def write_levels(corpus, entities, folder, selection):
        calls.append({"corpus": corpus, "entities": entities, **vars(selection)})
        folder.mkdir()
        (folder / "domain.txt").write_text("Rome has dishes\n")
        yield Progress("corpus", 1)
        return {"documents": 1, "sentences": 1, "levels": {}}

    monkeypatch.setattr("crossner_cli.corpus.inputs.write_levels", write_levels)
    return calls


def scored(run):
    """Keys of what taggers are selected and scored on."""
    splits = [
        words(run, role, split)
        for role in ("source", "target")
        for split in ("dev", "test")
        if (run.folder("prepare-data") / role / f"{split}.jsonl").is_file()
    ]
    return {make_leak_key(sentence) for split in splits for sentence in split}


def test_raw_text_that_leaves_nothing_is_told_by_its_option(run, tmp_path):
    empty, leaks = tmp_path / "empty.txt", tmp_path / "leaks.txt"
    empty.write_text("\n")
    sample = read_domain(find_domain("sample-target").files)
    leaks.write_text("".join(f"{' '.join(sentence.words)}\n" for sentence in sample.splits["test"][:3]))
    for role in ("corpus", "source_corpus"):
        flag = f"--{role.replace('_', '-')}"
        for path, way_out in (
            (empty, f"Give {flag} files that hold text"),
            (leaks, "sentences of dev and test are left out"),
        ):
            message = failure(run, source="sample-source", target="sample-target", **{role: [path]})
            assert f"{flag}: the corpus level 'domain' is empty" in message and way_out in message


def test_raw_text_of_the_source_is_kept_apart_without_what_taggers_are_scored_on(run, folders, corpora, tmp_path):
    (tmp_path / "raw.txt").write_text("Rome\n")
    manifest = prepare(run, **folders, source_corpus=[tmp_path / "raw.txt"], dev_from_train=0.1)
    (call,) = corpora
    assert call["excluded"] == scored(run)
    assert (call["level"], call["entities"]) == ("domain", [])
    assert "source-corpus/0" in manifest["inputs"] and "source-corpus/domain.txt" in manifest["outputs"]
    assert (
        manifest["result"]["source_corpus"] == {"documents": 1, "sentences": 1, "levels": {}}
        and not manifest["result"]["corpus"]
    )


def test_a_run_directory_in_the_folder_of_its_corpus_is_finished_and_no_text(run, folders, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("Ada went home.\nBob came back.\n")
    made = [prepare(RunDirectory(texts / name), **folders, corpus=[texts], dev_from_train=0.1) for name in "xyx"]
    assert made[0] == made[2], "finished, since nothing of the corpus is another"
    assert made[0]["result"]["corpus"] == made[1]["result"]["corpus"]


def test_the_corpus_is_written_without_dev_and_test_sentences_and_for_types_the_source_lacks(
    run, folders, corpora, tmp_path
):
    (tmp_path / "raw.txt").write_text("Rome\n")
    (Path(folders["target"]) / "test.txt").write_text("Eat\tO\nW1\tB-dish\n\nOslo\tB-location\n")
    manifest = prepare(run, **folders, corpus=[tmp_path / "raw.txt"], dev_from_train=0.1, min_entities=3)
    (call,) = corpora
    assert call["excluded"] == scored(run) >= {make_leak_key("eat w1"), make_leak_key("Oslo")}
    assert call["specialised_types"] == {"dish"}
    assert (call["min_entities"], call["level"]) == (3, None)
    assert manifest["result"]["corpus"] == {"documents": 1, "sentences": 1, "levels": {}}
    assert manifest["result"]["statistics"]["vocabulary_overlap"]["corpus_level"] == "domain"
    assert manifest["result"]["statistics"]["vocabulary_overlap"]["shared"] == 1
    assert "corpus/0" in manifest["inputs"] and "corpus/domain.txt" in manifest["outputs"]


def test_sentences_labelled_by_names_are_a_source_of_another_run(run, tmp_path):
    bundled = [Path("sample-target")]
    texts = {"corpus": bundled, "corpus_level": "entity"}
    made = prepare(run, target="sample-target", entities=bundled, weak_labels=True, **texts)
    weak = made["result"]["corpus"]["weak_labels"]
    other = RunDirectory(tmp_path / "other")
    source = str(run.folder("prepare-data") / "weak-labels")
    result = prepare(other, source=source, target="sample-target", dev_from_train=0.2)["result"]
    splits = result["domains"]["source"]["splits"]
    assert result["domains"]["source"]["name"] == "weak-labels"
    assert splits["train"]["sentences"] + splits["dev"]["sentences"] == weak["sentences"] > 100
    assert splits["train"]["entities"] + splits["dev"]["entities"] == weak["mentions"]
    assert sum(result["repairs"]["source"].values()) == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("role", ["corpus", "source_corpus", "entities"])
def test_a_pipe_is_refused_at_once_since_inputs_are_read_more_than_once(run, folders, tmp_path, role):
    os.mkfifo(tmp_path / "pipe")  # whoever reads it waits
    (tmp_path / "raw.txt").write_text("Rome\n")
    options = {"corpus": [tmp_path / "raw.txt"], role: [tmp_path / "pipe"]}
    with pytest.raises(CrossNERError, match="pipe is neither a plain file"):
        prepare(run, **folders, **options)
