"""Documents: the commands, options, values and files that they name exist, and the reference is that of the program."""

import itertools
import re
import runpy
import shlex
import typing
from pathlib import Path
from typing import Any

import pytest

from crossner_cli.cli import app
from crossner_cli.data.files import Repairs
from crossner_cli.data.formats.known import FORMATS, LABELLED
from crossner_cli.methods.contract import Tagger, method_names
from crossner_cli.option_fields import fields_in_order, flag_of

ROOT = Path(__file__).parents[2]
CHANGELOG = ROOT / "CHANGELOG.md"
COMMANDS = {str(each.name): getattr(each.callback, "options_type", None) for each in app.registered_commands}
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "recipes" / "README.md", ROOT / "benchmarks" / "README.md"]
DOCUMENTS = sorted([*PAGES, *ROOT.glob("recipes/*.sh")])


def code_of(path: Path) -> list[str]:
    """The lines of a script, or of the code in a page, each with what continues it."""
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
    if path.suffix == ".sh":
        return [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    return [line for block in blocks for line in block.splitlines()] + [" ".join(span.split()) for span in spans]


def calls_in(path: Path) -> list[tuple[str, list[str]]]:
    """Each call of ``crossner`` in the code of a document: the command and what follows it."""
    found = []
    for line in code_of(path):
        for command, rest in re.findall(r"(?:^|[|&;({]\s*|\s)crossner ([a-z][a-z-]*)([^\n|;&)]*)", line):
            try:
                found.append((command, shlex.split(rest.partition(" #")[0], posix=False)))
            except ValueError:  # a quotation that the line does not end
                found.append((command, rest.split()))
    return found


def problems_of(command: str, words: list[str]) -> list[str]:
    """The options of a call that the program does not have, and values that they do not take."""
    if command not in COMMANDS:
        return [f"there is no command {command}"]
    options_type = COMMANDS[command]
    if options_type is None:
        return []
    hints: dict[str, Any] = typing.get_type_hints(options_type)
    known = {flag_of(field): hints[field.name] for field in fields_in_order(options_type)}
    problems = []
    for word, value in itertools.pairwise([*words, ""]):
        flag = word.partition("=")[0].rstrip("].,:")
        if not re.fullmatch(r"--[a-z][a-z-]*", flag) or flag == "--help":
            continue
        name = flag.replace("--no-", "--", 1)
        if flag not in known and known.get(name) is not bool:
            problems.append(f"{command} has no {flag}")
            continue
        kinds = [known.get(flag), *typing.get_args(known.get(flag))]
        choices = [each for kind in kinds for each in typing.get_args(kind) if isinstance(each, str)]
        choices = method_names() if flag == "--method" else choices
        if choices and re.fullmatch(r"[a-z][a-z0-9-]*", value) and value not in choices:
            problems.append(f"{command} {flag} does not take {value}")
    return problems


def test_the_documents_are_found_and_call_commands() -> None:
    assert len(DOCUMENTS) >= 16
    assert sum(len(calls_in(path)) for path in DOCUMENTS) >= 60
    assert calls_in(ROOT / "README.md")[0][0] in COMMANDS


def test_what_does_not_exist_is_found() -> None:
    assert problems_of("evaluat", []) == ["there is no command evaluat"]
    line = "--epochs 3 --epoch 3 --keep worst --method lanner --no-train-embeddings --no-keep"
    assert problems_of("finetune", line.split()) == [
        "finetune has no --epoch",
        "finetune --keep does not take worst",
        "finetune --method does not take lanner",
        "finetune has no --no-keep",
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_options_and_values_in_documents_exist(path: Path) -> None:
    assert [problem for call in calls_in(path) for problem in problems_of(*call)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_options_named_in_pages_exist(path: Path) -> None:
    """An option on its own, as ``--min-score 0.9``, is one of some command, or of the benchmarks."""
    known = {flag_of(field) for each in COMMANDS.values() if each for field in fields_in_order(each)}
    scripts = "".join(each.read_text(encoding="utf-8") for each in ROOT.glob("benchmarks/*.py"))
    others = {"--help", "--version", "--install-completion", *re.findall(r'"(--[a-z-]+)"', scripts)}
    own = [line for line in code_of(path) if re.match(r"--[a-z]", line)]
    named = {flag for line in own for flag in re.findall(r"(?:^|\s)(--[a-z][a-z-]*)", line)}
    assert {flag for flag in named if flag.replace("--no-", "--", 1) not in known} <= others


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_linked_in_pages_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links {target}"


def test_lists_of_methods_are_complete() -> None:
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([a-z][a-z-]*)` \| .* \| .* \|$", page, re.MULTILINE)) == method_names()
    number, names = re.search(r"Train (\d+) methods: ([^;]*)", CHANGELOG.read_text(encoding="utf-8")).groups()
    assert sorted(re.findall("`(.*?)`", names)) == method_names() and int(number) == len(method_names())


def test_lists_of_formats_are_complete() -> None:
    page = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    written = {name for name, row in FORMATS.items() if row.writes}
    assert set(re.findall(r"^\| `([a-z][a-z-]*)` \| ", page, re.MULTILINE)) == written
    for path in (ROOT / "README.md", CHANGELOG):
        text = path.read_text(encoding="utf-8").lower()
        assert [name for name in LABELLED if name.removesuffix("-lists").replace("-", " ") not in text] == []


def test_the_reference_is_that_of_the_program() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    text = script["REFERENCE"].read_text(encoding="utf-8")
    assert text == script["reference"](), "write it again: python docs/make_reference.py"
    assert all(f"## crossner {name}\n" in text for name in COMMANDS)


def test_no_document_names_a_path_of_one_machine() -> None:
    for path in DOCUMENTS:
        assert not re.search(r"(^|[\s\"'(=])/(home|root|work|tmp)/", path.read_text(encoding="utf-8")), path


def test_the_method_and_the_format_of_contributing_work(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    method: dict[str, Any] = {}
    form: dict[str, Any] = {}
    for code, names in zip(re.findall(r'^```python\n(""".*?)^```', text, re.M | re.S), (method, form), strict=True):
        exec(code, names)
    assert issubclass(method["METHOD"], Tagger) and not method["METHOD"].__abstractmethods__
    (tmp_path / "train.jsonl").write_text(form["HINT"].removeprefix("A line is ").rstrip(".") + "\n")
    (item,) = form["FORMAT"].reads(tmp_path / "train.jsonl", Repairs())
    assert item.text == "In Rome" and [(each.start, each.type) for each in item.entities] == [(3, "place")]
