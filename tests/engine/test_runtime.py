"""Memory that was freed is used again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from crossner_cli.engine.runtime import keep_freed_memory

PROGRAM = """
import resource, sys
from crossner_cli.engine.runtime import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [bytearray(b"x") * 12_000_000 for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="the allocator is not glibc's")
def test_pages_are_asked_for_once():
    faults = {}
    for setting in ("keep", "leave"):
        run = subprocess.run([sys.executable, "-c", PROGRAM, setting], capture_output=True, text=True, check=True)
        faults[setting] = int(run.stdout)
    assert faults["keep"] < 500 < faults["leave"], faults
