"""Files as they are stored: digests, folders behind links, records, arrays, and a disk that takes no more."""

import csv
import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli.run.storage import (
    digest_file,
    digest_folder,
    digest_path,
    save_array,
    walk_files,
    write_csv,
    write_json,
)


def test_the_digest_of_a_file_is_its_sha256_and_that_of_a_folder_tells_names_places_and_contents(tmp_path):
    def digest(**files: str) -> str:
        folder = tmp_path / hashlib.sha256(repr(files).encode()).hexdigest()
        for name, text in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            assert digest_file(path) == digest_path(path) == hashlib.sha256(text.encode()).hexdigest()
        assert digest_folder(folder) == digest_path(folder)
        return digest_folder(folder)

    cases = [digest(a="1", b="2"), digest(a="2", b="1"), digest(a="1"), digest(a__b="1"), digest(a__b="1", c="")]
    assert len(set(cases)) == len(cases)
    assert digest(b="2", a="1") == cases[0]


def test_a_name_that_is_not_utf8_has_a_digest_and_can_be_written_down(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    odd = os.fsdecode(b"caf\xe9")
    (folder / odd).write_text("x")
    assert len(digest_folder(folder)) == 64
    write_json(tmp_path / "record.json", {"path": odd, "word": "Straße"})
    assert json.loads((tmp_path / "record.json").read_text(encoding="utf-8")) == {"path": odd, "word": "Straße"}
    assert "Straße" in (tmp_path / "record.json").read_text(encoding="utf-8")


def test_folders_behind_links_are_walked_once_however_links_turn(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x.txt").touch()
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert sorted(path.name for path in walk_files(tmp_path)) == ["gone", "x.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_array_that_a_full_disk_does_not_take_is_told_by_its_reason():
    with pytest.raises(OSError, match="No space left on device") as caught:
        save_array(Path("/dev/full"), np.arange(100, dtype="<u2"))
    assert caught.value.errno == errno.ENOSPC, "tofile says nothing of so few"


NUMBERS = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\x00"), max_size=6)


@given(st.lists(st.tuples(TEXTS, NUMBERS, NUMBERS), max_size=5))
def test_every_cell_is_read_back_as_it_was(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    write_csv(path, ("type", "first", "second"), [*rows, ("\udcff", None, 1)])
    with path.open(encoding="utf-8", newline="") as stream:
        header, *found, last = csv.reader(stream)
    assert header == ["type", "first", "second"] and last == ["\\udcff", "", "1"]
    assert found == [[text, *("" if each is None else str(each) for each in numbers)] for text, *numbers in rows]
