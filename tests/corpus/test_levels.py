"""The corpus levels, from raw text and lists of names."""

import errno
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.corpus.levels import LEVELS, open_work_folder, write_levels
from crossner_cli.corpus.mentions import COLUMNS, MENTION
from crossner_cli.corpus.selection import Execution, Selection
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.leaks import make_leak_key
from crossner_cli.data.names import read_names
from crossner_cli.data.tags import to_spans
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import Notice, Progress, exhaust

NAMES = "Ada Lovelace\tperson\nLondon\tcity\nNew York\tcity\nNew York Times\tpaper\nParis\tcity\nParis\tperson\n"
TEXT = (
    "Ada Lovelace lived in London. She read, and London slept.\n"
    "\n"
    "The New York  Times wrote of Paris; london did not.\tNobody came.\n"
    "In London, London is London.\n"
)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def entities(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text(NAMES, encoding="utf-8")
    return path


def write(corpus, entities, folder, **options):
    """Write levels."""
    return exhaust(work(corpus, entities, folder, **options))


def work(corpus, entities, folder, **options):
    """The work of writing levels, with the options of the command as defaults."""
    given = {"specialised_types": {"paper"}, "excluded": (), **options}
    types, excluded, workers = given.pop("specialised_types"), given.pop("excluded"), given.pop("workers", 1)
    selection = Selection(
        specialised_types=None if types is None else frozenset(types),
        excluded=frozenset(make_leak_key(" ".join(words)) for words in excluded),
        execution=Execution(workers=workers),
        **given,
    )
    paths = corpus if isinstance(corpus, list) else [corpus]
    return write_levels(paths, [entities] if entities else [], folder, selection)


def read(folder, level):
    return (folder / f"{level}.txt").read_bytes().decode().splitlines()


def files_of(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_each_level_holds_its_sentences(corpus, entities, tmp_path):
    statistics = write(corpus, entities, tmp_path / "out")
    times = "The New York Times wrote of Paris; london did not."
    assert read(tmp_path / "out", "domain") == [
        "Ada Lovelace lived in London.",
        "She read, and London slept.",
        times,
        "Nobody came.",
        "In London, London is London.",
    ]
    assert read(tmp_path / "out", "entity") == ["Ada Lovelace lived in London.", times]
    assert read(tmp_path / "out", "task") == [times]
    assert read(tmp_path / "out", "integrated") == ["Ada Lovelace lived in London.", times, times, times]
    assert files_of(tmp_path / "out") == sorted(f"{level}.{kind}" for level in LEVELS for kind in ("txt", "mentions"))
    assert statistics == {
        "documents": 3,
        "blank_lines": 1,
        "sentences": 5,
        "dropped_leaks": 0,
        "sentences_without_names": 1,
        "names": {
            "lines": 6,
            "blank_lines": 0,
            "names": 5,
            "repeated": 0,
            "names_with_several_types": 1,
            "types": {"city": 3, "paper": 1, "person": 2},
        },
        "levels": {
            "domain": {"documents": 3, "sentences": 5, "words": 35, "mentions": {"city": 6, "paper": 1, "person": 2}},
            "entity": {"documents": 2, "sentences": 2, "words": 18, "mentions": {"city": 2, "paper": 1, "person": 2}},
            "task": {"documents": 1, "sentences": 1, "words": 12, "mentions": {"city": 1, "paper": 1, "person": 1}},
            "integrated": {
                "documents": 4,
                "sentences": 4,
                "words": 42,
                "mentions": {"city": 4, "paper": 3, "person": 4},
            },
        },
    }


def test_without_names_only_the_domain_level_is_made_and_a_line_may_be_one_sentence(corpus, tmp_path):
    statistics = write(corpus, None, tmp_path / "out", specialised_types=None, one_a_line=True)
    assert files_of(tmp_path / "out") == ["domain.txt"]
    assert read(tmp_path / "out", "domain") == [" ".join(line.split()) for line in TEXT.splitlines() if line]
    assert statistics["names"] is None
    assert "sentences_without_names" not in statistics


def test_one_level_leaves_no_other_file_and_survives_a_later_failure(corpus, entities, tmp_path):
    write(corpus, entities, tmp_path / "all")
    (tmp_path / "blank.txt").write_text("\n\n", encoding="utf-8")
    for level in LEVELS:
        write(corpus, entities, tmp_path / level, level=level)
        with pytest.raises(CrossNERError):
            write(tmp_path / "blank.txt", entities, tmp_path / level, level=level)
        assert files_of(tmp_path / level) == [f"{level}.mentions", f"{level}.txt"]
        assert read(tmp_path / level, level) == read(tmp_path / "all", level)


def test_levels_and_types_that_are_left_out_have_a_notice(corpus, entities, tmp_path):
    events = list(work([corpus, corpus], entities, tmp_path / "out", specialised_types=None))
    assert ["left out" in event.text for event in events if isinstance(event, Notice)] == [True]
    told = [event for event in events if isinstance(event, Progress) and event.unit == "bytes"]
    assert told[-1].done == told[-1].total == len(TEXT)
    assert files_of(tmp_path / "out") == ["domain.mentions", "domain.txt", "entity.mentions", "entity.txt"]
    events = list(work(corpus, entities, tmp_path / "task", level="task", specialised_types={"paper", "song"}))
    assert Notice("The entity lists have no name of the specialised types song.") in events
    assert len(read(tmp_path / "task", "task")) == 1


def test_sentences_the_target_is_scored_on_are_in_no_level(corpus, entities, tmp_path):
    excluded = {
        ("ada", "LOVELACE", "lived", "in", "London", "."),
        ("The", "New York Times", "wrote of", "Paris", ";", "london", "did", "not", ".", "Nobody", "came", "."),
    }
    with pytest.raises(CrossNERError, match="'entity' is empty.* 3 of them dropped as leaks"):
        write(corpus, entities, tmp_path / "out", excluded=excluded)
    statistics = write(corpus, entities, tmp_path / "out", excluded=excluded, level="domain")
    assert read(tmp_path / "out", "domain") == ["She read, and London slept.", "In London, London is London."]
    assert statistics["dropped_leaks"] == 3
    corpus.write_text("Ada saw Paris\nADA saw Paris!\nAda saw Paris once.\n?\n")
    statistics = write(corpus, None, tmp_path / "out", excluded={("Ada", "saw", "Paris", ".")})
    assert statistics["dropped_leaks"] == 2 and read(tmp_path / "out", "domain") == ["Ada saw Paris once.", "?"]


def test_the_number_of_processes_changes_nothing_and_a_bad_line_that_several_meet_leaves_nothing(entities, tmp_path):
    folder = tmp_path / "corpus"
    (folder / "below").mkdir(parents=True)
    for name in ("0.txt", "below/1.txt", "below/2.txt"):
        lines = (f"Ada Lovelace saw London {name} {line}. Nobody read The New York Times.\n" for line in range(1500))
        (folder / name).write_text("".join(lines), encoding="utf-8")
    (folder / "other.md").write_text("Not read.", encoding="utf-8")
    statistics = [write(folder, entities, tmp_path / f"out{workers}", workers=workers) for workers in (1, 2)]
    assert statistics[0] == statistics[1]
    assert statistics[0]["sentences"] == 9000
    for level in LEVELS:
        first, second = (tmp_path / f"out{workers}" / f"{level}.txt" for workers in (1, 2))
        assert first.read_bytes() == second.read_bytes()
    (folder / "0.txt").write_bytes((folder / "0.txt").read_bytes() + b"caf\xe9\n")
    with pytest.raises(CrossNERError, match=r"0.txt:1501: byte 0xe9 at position 4 is not UTF-8"):
        write(folder, entities, tmp_path / "bad", workers=2)
    assert files_of(tmp_path / "bad") == []


WORDS = st.sampled_from(["Ada", "Bob", "Cid", "came", "to", "Dow"])
SENTENCES = st.lists(
    st.lists(WORDS, min_size=1, max_size=6).map(lambda words: " ".join(words) + "."), min_size=1, max_size=8
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SENTENCES, st.integers(1, 3), st.integers(1, 3))
def test_levels_have_the_sizes_and_the_nesting_of_the_paper(lines, threshold, upsample):
    lines = [*lines, "Ada Bob Cid Dow."]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
        (folder / "names.tsv").write_text("Ada\tX\nBob\tX\nCid\tX\nDow\tY\n", encoding="utf-8")
        options: dict[str, Any] = {"specialised_types": {"Y"}, "task_upsample": upsample}
        statistics = write(folder / "corpus.txt", folder / "names.tsv", folder, min_entities=threshold, **options)
        level = {level: Counter(read(folder, level)) for level in LEVELS}
        write(folder / "corpus.txt", folder / "names.tsv", folder / "more", min_entities=threshold + 1, **options)
        stricter = Counter(read(folder / "more", "entity"))
    sizes = {name: found["sentences"] for name, found in statistics["levels"].items()}
    assert sizes == {name: found.total() for name, found in level.items()}
    assert sizes["integrated"] == sizes["entity"] + upsample * sizes["task"]
    assert level["entity"] <= level["domain"]
    assert level["task"] <= level["domain"]
    assert stricter <= level["entity"]
    assert level["domain"] == Counter(lines)
    assert level["task"] == Counter(line for line in lines if "Dow" in line)
    assert level["entity"] == Counter(
        line for line in lines if sum(entity in line for entity in ("Ada", "Bob", "Cid", "Dow")) >= threshold
    )


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        ({"level": "task", "specialised_types": None}, "'task' needs specialised", "city (3 names), paper (1 names)"),
        ({"level": "integrated", "specialised_types": set()}, "'integrated' needs", "--specialised-types"),
        ({"specialised_types": {"poem", "song"}}, "no name of the specialised types poem, song", "person (2 names)"),
        ({"min_entities": 3}, "'entity' is empty: 5 sentences in 1 files", "Lower --min-entities (now 3)"),
        (
            {"level": "integrated", "specialised_types": {"town"}},
            "1 without any of the 6 listed names",
            "other --specialised-types (now town). Types in the list: city (3 names)",
        ),
        ({"entities": None, "level": "entity"}, "'entity' needs an entity list", "--entities LIST"),
        ({"entities": None, "weak_labels": Path("weak")}, "--weak-labels needs an entity list", "--entities"),
        ({"text": "\n\n"}, "'domain' is empty: 0 sentences in 1 files", ""),
    ],
)
def test_levels_that_cannot_be_made_are_refused(corpus, entities, tmp_path, options, problem, hint):
    names = f"{NAMES}Rome\ttown\n" if options.get("specialised_types") == {"town"} else NAMES
    entities.write_text(names, encoding="utf-8")
    corpus.write_text(options.pop("text", TEXT), encoding="utf-8")
    with pytest.raises(CrossNERError) as refusal:
        write(corpus, options.pop("entities", entities), tmp_path / "out", **options)
    assert problem in refusal.value.problem
    assert hint in refusal.value.hint
    assert files_of(tmp_path / "out") == []


def test_paths_that_cannot_be_read_are_known_problems(tmp_path):
    with pytest.raises(CrossNERError, match="Is a directory"):
        read_names([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(CrossNERError, match="empty holds no files of raw text"):
        write(tmp_path / "empty", None, tmp_path / "out")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "missing.txt", tmp_path / "loop", tmp_path / ("x" * 300), Path(__file__) / "below"):
        with pytest.raises(CrossNERError, match="cannot be read"):
            write(path, None, tmp_path / "out")


def test_the_selected_sentences_become_labelled_data_that_a_source_can_be(corpus, entities, tmp_path):
    with corpus.open("a", encoding="utf-8") as stream:
        stream.write("Ada Lovelace left London's New York Times Inc. for Paris-Match.\n")
    entities.write_text(NAMES + "New York Times Inc\tpaper\n", encoding="utf-8")
    statistics = write(corpus, entities, tmp_path / "out", weak_labels=tmp_path / "weak")
    assert statistics["weak_labels"] == {
        "levels": ["entity", "task"],
        "sentences": 3,
        "mentions": 7,
        "dropped_mentions_within_words": 0,
        "mentions_of_several_types": 1,
    }
    found = read_domain({"train": [tmp_path / "weak" / "train.jsonl"]}, name="weak").splits["train"]
    entities_of = [
        [(" ".join(each.words[start:end]), kind) for start, end, kind in to_spans(each.tags or ())] for each in found
    ]
    assert entities_of == [
        [("Ada Lovelace", "person"), ("London", "city")],
        [("New York Times", "paper"), ("Paris", "city")],
        [("Ada Lovelace", "person"), ("London", "city"), ("New York Times Inc.", "paper")],
    ]


def test_mentions_are_written_for_the_lines_of_all_files_and_for_both_parts_of_the_integrated_level(tmp_path):
    (tmp_path / "names.tsv").write_text("Ada\tperson\nThe Times\tpaper\nLondon\tcity\n", encoding="utf-8")
    for number in range(3):
        text = f"We read The Times {number} in London.\nAda saw London {number}.\nNobody came {number}.\n"
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    write(sorted(tmp_path.glob("*.txt")), tmp_path / "names.tsv", tmp_path / "out")
    for level in LEVELS:
        lines = read(tmp_path / "out", level)
        rows = np.fromfile(tmp_path / "out" / f"{level}.mentions", MENTION).reshape(-1, COLUMNS).tolist()
        found = [(line, lines[line][start:end]) for line, start, end in rows]
        names = ("The Times", "Ada", "London")
        assert found == [(number, name) for number, line in enumerate(lines) for name in names if name in line]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()])
def test_work_that_a_full_disk_or_memory_ends_is_kept_and_what_a_problem_of_the_text_ends_is_not(tmp_path, error):
    for problem, is_kept in ((error, True), (ValueError("text"), False)):
        with pytest.raises(type(problem)), open_work_folder(tmp_path / "corpus") as work:
            (work / "texts").mkdir(parents=True, exist_ok=True)
            (work / "texts" / "wikipedia.json").write_text("{}")
            raise problem
        assert (work / "texts" / "wikipedia.json").exists() is is_kept
