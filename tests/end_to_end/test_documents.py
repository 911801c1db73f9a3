"""What the documents say exists: commands, flags, files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from crossner_cli import options

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "prepare-data": options.PrepareData, "dapt": options.Dapt, "pretrain-source": options.PretrainSource,
    "finetune": options.Finetune, "joint-train": options.JointTrain, "evaluate": options.Evaluate,
    "predict": options.Predict, "inspect": options.Inspect, "export": options.Export, "report": options.Report,
}  # fmt: skip
DOCUMENTS = [ROOT / "README.md", ROOT / "recipes" / "README.md", *sorted((ROOT / "recipes").glob("*.sh"))]


def flags_of(command: str) -> set[str]:
    fields = dataclasses.fields(COMMANDS[command])
    given = {flag for field in fields for flag in field.metadata["flags"]}
    return given | {"--" + field.name.replace("_", "-") for field in fields} | {"--no-train-embeddings", "--help"}


def called_commands(text: str) -> list[tuple[str, list[str]]]:
    """Each ``crossner COMMAND …`` of a text with its flags, continuation lines joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    found = []
    for line in re.findall(r"(?:^|[|\s`])crossner ([a-z-]+)( [^\n`|]*)?", joined):
        if line[0] in COMMANDS:
            found.append((line[0], re.findall(r"(?<=\s)--[a-z-]+", line[1] or "")))
    return found


def test_every_document_was_found_and_calls_commands() -> None:
    assert len(DOCUMENTS) >= 4
    assert sum(len(called_commands(path.read_text())) for path in DOCUMENTS) >= 20


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_flags_in_documents_exist(path: Path) -> None:
    for command, flags in called_commands(path.read_text()):
        unknown = set(flags) - flags_of(command)
        assert not unknown, f"{path.name}: crossner {command} has no {unknown}"


def test_files_linked_in_the_documents_exist() -> None:
    for path in (ROOT / "README.md", ROOT / "recipes" / "README.md", ROOT / "benchmarks" / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links {target}"


def test_every_method_is_in_the_readme_table() -> None:
    from crossner_cli.methods.contract import method_names

    readme = (ROOT / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in method_names())


def test_no_document_names_a_path_of_one_machine() -> None:
    for path in DOCUMENTS:
        assert not re.search(r"(^|[\s\"'(=])/(home|root|work|tmp)/", path.read_text()), path
