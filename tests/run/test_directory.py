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
    with pytest.raises(CrossNERError, match=r"manifest\.json") as caught:
        RunDirectory(tmp_path).manifest("finetune", wanted_by="evaluate")
    assert "--force" in caught.value.hint
    with pytest.raises(CrossNERError, match=r"manifest\.json") as caught:
        open_finetune(tmp_path)
    assert "--force" in caught.value.hint
    finish_stage(tmp_path, "again", force=True)
    assert_finished(tmp_path, "again")


def test_a_finished_stage_is_found_by_its_name_and_its_digest_changes_with_its_result(tmp_path):
    run = RunDirectory(tmp_path)
    finish_stage(tmp_path)
    before = run.digest("finetune")
    assert before == digest_file(tmp_path / "finetune/manifest.json")
    finish_stage(tmp_path, "other", force=True)
    assert run.digest("finetune") != before
    with open_finetune(tmp_path, name="draft"):
        (tmp_path / "notes").mkdir()
        finish_stage(tmp_path, name="a")
        assert run.stages() == ["a", "finetune"]
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
