"""Threads that wait let others work, and memory that was freed is used again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from crossner_cli.engine.runtime import SPIN_COUNT, keep_freed_memory, limit_spinning

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


def test_threads_spin_shortly_unless_the_user_has_set_how_they_wait(monkeypatch):
    for given in ({}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}):
        monkeypatch.setattr(os, "environ", dict(given))
        limit_spinning()
        assert os.environ == (given or {"GOMP_SPINCOUNT": str(SPIN_COUNT)})


def test_the_command_line_sets_how_threads_wait_before_torch_is_imported():
    program = "import sys; from crossner_cli.cli import main; sys.argv = ['crossner', '--version']\n"
    program += "try:\n    main()\nfinally:\n    import os; print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_WAIT", "GOMP"))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.split()[-2:] == [str(SPIN_COUNT), "False"]
