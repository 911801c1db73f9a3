"""Run directories: finished stages are found, and a missing or broken one is a known problem."""

from __future__ import annotations

import pytest
from builders.stages import assert_finished, finish_stage, open_finetune
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.errors import CrossNERError
from crossner_cli.run.directory import RunDirectory, describe_differences
from crossner_cli.run.storage import digest_file


def test_a_missing_stage_is_told_with_who_wants_it_and_how_to_make_it(tmp_path):
    finish_stage(tmp_path, name="mine")
    with pytest.raises(CrossNERError) as caught:
        RunDirectory(tmp_path).manifest("prepare-data", wanted_by="finetune")
    assert "finetune needs the stage 'prepare-data'" in caught.value.problem
    assert "(finished stages here: mine)" in caught.value.problem
    assert "crossner prepare-data" in caught.value.hint and f"--run {tmp_path}" in caught.value.hint
    with pytest.raises(CrossNERError, match="finished stages here: none") as caught:
        RunDirectory(tmp_path / "nowhere").manifest("special", wanted_by="evaluate")
    assert "crossner COMMAND --name special" in caught.value.hint


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b"\xff\xfe", b'{"stage": "finetune", "options": 3}'])
def test_a_broken_manifest_is_a_known_problem(tmp_path, content):
    finish_stage(tmp_path)
    (tmp_path / "finetune/manifest.json").write_bytes(content)
    for read in (
        lambda: RunDirectory(tmp_path).manifest("finetune", wanted_by="evaluate"),
        lambda: open_finetune(tmp_path),
    ):
        with pytest.raises(CrossNERError, match=r"manifest\.json") as caught:
            read()
        assert "--force" in caught.value.hint
    finish_stage(tmp_path, "again", force=True)
    assert_finished(tmp_path, "again")


def test_the_digest_of_a_stage_changes_with_its_result(tmp_path):
    finish_stage(tmp_path)
    before = RunDirectory(tmp_path).digest("finetune")
    assert before == digest_file(tmp_path / "finetune/manifest.json")
    finish_stage(tmp_path, "other", force=True)
    assert RunDirectory(tmp_path).digest("finetune") != before


def test_stages_are_listed_without_drafts(tmp_path):
    for name in ("b", "a"):
        finish_stage(tmp_path, name=name)
    with open_finetune(tmp_path, name="c"):
        (tmp_path / "notes").mkdir()
        assert RunDirectory(tmp_path).stages() == ["a", "b"]


def test_a_name_is_a_finished_stage_or_a_path(tmp_path):
    run = RunDirectory(tmp_path)
    finish_stage(tmp_path)
    assert run.stage_or_path("finetune") == run.stage_or_path("finetune/") == tmp_path / "finetune"
    assert run.stage_or_path("dapt").name == "dapt" and not run.stage_or_path("dapt").is_absolute()
    assert not run.has(str(tmp_path / "finetune"))


@given(
    before=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
    after=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
)
def test_differences_are_told_for_each_key_once_and_only_where_they_are(before, after):
    lines = describe_differences(before, after)
    told = {line.partition(":")[0]: line.partition(": ")[2] for line in lines}
    assert len(told) == len(lines)
    assert told == {
        key: f"{before.get(key)!r} -> {after.get(key)!r}"
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }
