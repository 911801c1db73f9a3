"""The tasks of a stage, the raw text that they read, and the dictionary that labels it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders.files import write_names

from crossner_cli.data.names import read_names
from crossner_cli.data.tags import TagSet
from crossner_cli.errors import CrossNERError
from crossner_cli.methods.contract import find_method, read_settings
from crossner_cli.recurrent.raw_inputs import (
    Dictionary,
    find_tasks,
    narrow_tasks,
    read_dictionary,
    read_raw,
)

TYPES = ("artist", "song")


def settings_of(method: str, *texts: str) -> Any:
    return read_settings(find_method(method), texts)


def prepared_of(**types: tuple[str, ...]) -> Any:
    """Prepared data of these domains."""
    return SimpleNamespace(tag_set=lambda *roles: TagSet({role: types[role] for role in roles}))


@pytest.mark.parametrize(
    ("method", "texts"),
    [
        ("cross-domain-lm", ("tasks=target-ner",)),
        ("cross-domain-lm", ("tasks=target-ner,target-lm", "entity_weight=0")),
        ("multi-task-lstm", ()),
        ("multi-cell-lstm", ("tasks=source-ner",)),
    ],
)
def test_a_dictionary_that_no_task_reads_is_refused_with_a_way_out(method: str, texts: tuple[str, ...]) -> None:
    settings = settings_of(method, *texts, "dictionary=names.tsv")
    with pytest.raises(CrossNERError, match=f"{method} does not learn from them as set") as caught:
        read_dictionary(prepared_of(), method, settings, settings.task_names)
    assert "Leave it out; or train multi-cell-lstm" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "tasks", "phrases", "can_label"),
    [
        ("Abba\tartist", "target-ner,target-lm", False, True),
        ("Paris\tcity", "target-ner,target-lm", False, False),
        ("Dancing Queen\tsong", "target-ner,target-lm", False, False),
        ("Dancing Queen\tsong", "target-ner,target-lm", True, True),
        ("Abba\tartist", "source-ner,target-lm", False, False),
        ("Waterloo\tsong", "source-ner,target-lm", False, True),
    ],
)
def test_a_dictionary_that_can_label_nothing_is_refused(tmp_path, line, tasks, phrases, can_label) -> None:
    """The cells of types that no labels teach are never run."""
    path = write_names(tmp_path, line)
    more = (f"dictionary={path}", f"dictionary_phrases={phrases}", f"tasks={tasks}", "entity_weight=0.1")
    settings = settings_of("multi-cell-lstm", *more)
    prepared = prepared_of(target=("artist", "song"), source=("person", "song"))
    if can_label:
        found = read_dictionary(prepared, "multi-cell-lstm", settings, settings.task_names)
        assert found is not None and len(found.labelling_names()) == 1
        return
    with pytest.raises(CrossNERError, match="labels nothing: dictionary: 0 of 1 names have one type"):
        read_dictionary(prepared, "multi-cell-lstm", settings, settings.task_names)


def test_each_domain_reads_its_own_raw_text_with_the_given_names_and_cut_off(tmp_path: Path) -> None:
    for role, line in (("target", "Abba"), ("source", "Anna sang")):
        (tmp_path / role).write_text(f"{line}\n")
    prepared: Any = SimpleNamespace(
        raw_text=lambda role: tmp_path / role,
        domains={"target": SimpleNamespace(name="songs"), "source": SimpleNamespace(name="news")},
    )
    dictionary = Dictionary(read_names([write_names(tmp_path, "Abba\tartist")]), TYPES)
    tasks, settings = (
        ("target-ner", "source-ner", "target-lm", "source-lm"),
        settings_of("cross-domain-lm", "raw_minimum=2"),
    )
    raw = read_raw(prepared, settings, tasks, {}, dictionary)
    assert raw is not None and raw.dictionary is dictionary and raw.fewest == 2
    first = {role: text.sentences([0]) for role, text in raw.texts.items()}
    assert first == {"target": [("Abba",)], "source": [("Anna", "sang")]}
    assert raw.domains == {"target": "songs", "source": "news"}
    assert read_raw(prepared, settings, ("target-ner",), {}, None) is None


def test_a_stage_trains_the_tasks_of_the_domains_it_reads_and_notes_those_it_leaves_out() -> None:
    settings = settings_of("cross-domain-lm", "tasks=target-ner,source-ner,target-lm")
    assert find_tasks(settings, "pretrain-source", ("source",)) == ["source-ner"]
    assert find_tasks(settings, "joint-train", ("target", "source")) == ["target-ner", "source-ner", "target-lm"]
    with pytest.raises(CrossNERError, match="read no labelled sentences of it"):
        find_tasks(settings, "other", ("elsewhere",))
    narrowed, note = narrow_tasks(settings, "finetune", ("target",))
    assert narrowed.tasks == "target-ner,target-lm"
    assert note == ["trains target-ner, target-lm; not source-ner, as finetune does not read that domain"]
    assert narrow_tasks(narrowed, "finetune", ("target",)) == (narrowed, [])
    with pytest.raises(CrossNERError, match="finetune trains target-ner; not source-ner") as caught:
        narrow_tasks(settings_of("multi-task-lstm", "adversary=dann"), "finetune", ("target",))
    assert caught.value.hint.startswith("Or joint-train: ")
