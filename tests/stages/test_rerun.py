"""Commands that run within another command."""

import sys

import pytest

from crossner_cli.options_adapt import Adapt
from crossner_cli.stages.rerun import run_command


@pytest.mark.parametrize(("command", "gpus"), [("finetune", "0,1"), ("label", "0")])
def test_a_step_gets_all_gpus_unless_it_works_in_one_process(command: str, gpus: str) -> None:
    seen: list[list[str]] = []

    def execute(arguments: list[str]) -> int:
        seen.extend([arguments, list(sys.argv)])
        return 0

    run_command(["crossner", command], Adapt(gpus="0,1"), execute)
    assert seen == [[command, "--gpus", gpus], ["crossner", command, "--gpus", gpus]]
