"""Facts on methods, read without importing them, are those of their classes."""

import dataclasses
import subprocess
import sys
from typing import Any

from crossner_cli.methods.contract import find_method, method_names, read_settings
from crossner_cli.options import Finetune
from crossner_cli.reports.methods import DEFAULT, describe_methods


def test_facts_read_from_files_are_those_of_the_classes() -> None:
    found = {facts.name: facts for facts in describe_methods()}
    assert sorted(found) == method_names() and next(iter(found)) == DEFAULT == Finetune().method
    for name, facts in found.items():
        method = find_method(name)
        settings: Any = read_settings(method, [])
        assert facts.settings == dataclasses.asdict(settings) and list(facts.settings) == list(vars(settings))
        assert facts.meaning == {field.name: field.metadata["help"] for field in dataclasses.fields(settings)}
        assert facts.reads == method.encoder_class.reads
        assert facts.title.endswith(".") and facts.paper and facts.differs
        assert all(facts.meaning.values()) and facts.values.keys() == facts.settings.keys()


def test_methods_are_described_without_importing_torch() -> None:
    code = """
import sys
from typer.testing import CliRunner
from crossner_cli.cli import app
result = CliRunner().invoke(app, ["methods"])
sys.exit(result.exit_code or "linear (default)" not in result.output or "torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
