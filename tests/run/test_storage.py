"""Files as they are stored: folders behind links, arrays, and a disk that takes no more."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_cli.corpus.levels import work_folder
from crossner_cli.run.storage import files_below, save_array


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=40), st.sampled_from(["<u2", "<i8", "?"]))
def test_arrays_are_stored_as_numpy_reads_them(
    tmp_path_factory: pytest.TempPathFactory, values: list, kind: str
) -> None:
    array = np.array(values, np.uint32).astype(kind).reshape(-1, 1)
    path = tmp_path_factory.mktemp("arrays") / "array.npy"
    save_array(path, array[::2])
    found = np.load(path, mmap_mode="r", allow_pickle=False) if len(array) else np.load(path, allow_pickle=False)
    assert found.dtype == array.dtype and np.array_equal(found, array[::2])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_array_that_a_full_disk_does_not_take_is_told_by_its_reason() -> None:
    with pytest.raises(OSError, match="No space left on device") as caught:
        save_array(Path("/dev/full"), np.arange(100, dtype="<u2"))
    assert caught.value.errno == errno.ENOSPC, "tofile says nothing of so few"


def test_folders_behind_links_are_walked_once_however_links_turn(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x.txt").touch()
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert {path.name for path in files_below(tmp_path)} == {"x.txt", "gone"}
    assert len(list(files_below(tmp_path))) == 2


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()])
def test_work_that_a_full_disk_or_memory_ends_is_kept_and_what_a_problem_of_the_text_ends_is_not(
    tmp_path: Path, error: Exception
) -> None:
    for problem, is_kept in ((error, True), (ValueError("text"), False)):
        with pytest.raises(type(problem)), work_folder(tmp_path / "corpus") as work:
            (work / "texts").mkdir(parents=True, exist_ok=True)
            (work / "texts" / "wikipedia.json").write_text("{}")
            raise problem
        assert (work / "texts" / "wikipedia.json").exists() is is_kept
