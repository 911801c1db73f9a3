"""The layers of the package: which folder may import which, and what each folder is for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "crossner_cli"
# What every module may import: the one exception, and numbers as people read them.
EVERYWHERE = {"errors", "figures", "__version__"}
BELOW_TAGGERS = {"engine", "methods", "encoders", "layers", "data", "run"}
LAYERS = {
    "run": set(),
    "layers": set(),
    "data": {"run"},
    "corpus": {"data", "run"},
    "encoders": {"layers", "data", "run"},
    "methods": {"encoders", "layers", "data"},
    "engine": {"encoders", "run", "options", "option_fields"},
    "recurrent": {"methods", "encoders", "layers", "data", "run", "corpus", "adaptation"},
    "taggers": BELOW_TAGGERS,
    "adaptation": {"engine", "encoders", "layers", "corpus", "data", "run"},
    "training": {"taggers"} | BELOW_TAGGERS,
    "evaluation": {"taggers", "data", "run"},
    "prediction": {"taggers", "engine", "methods", "data", "run"},
    "labelling": {"taggers", "corpus"} | BELOW_TAGGERS,
    "reports": {"evaluation", "taggers"} | BELOW_TAGGERS,
}
ABOVE = {
    "stages": {"options", "options_adapt", "options_data", "options_label", "options_trust", "option_fields", *LAYERS}
    - {"recurrent"}
}
MOST_LINES, MOST_LINES_OF_RECURRENT = 33_800, 5_500
MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 400, 60


def imports_of(path: Path) -> Iterator[str]:
    """First name below ``crossner_cli`` of everything that a module imports from it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "crossner_cli":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crossner_cli."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("crossner_cli."))


def modules() -> list[Path]:
    return sorted(path for folder in LAYERS | ABOVE for path in (PACKAGE / folder).rglob("*.py"))


def test_the_layers_are_all_folders() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert folders == set(LAYERS | ABOVE)
    assert len(modules()) > 100


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    folder = path.relative_to(PACKAGE).parts[0]
    allowed = EVERYWHERE | {folder} | (LAYERS | ABOVE)[folder]
    assert set(imports_of(path)) <= allowed


def test_nobody_imports_what_reads_words_through_lstms() -> None:
    """The look-ups of methods and of adaptations find it by name."""
    outside = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "recurrent"]
    assert not [path for path in outside if "recurrent" in imports_of(path)]


@pytest.mark.parametrize(("folder", "most"), [(".", MOST_LINES), ("recurrent", MOST_LINES_OF_RECURRENT)])
def test_the_package_keeps_to_its_budget_of_lines(folder: str, most: int) -> None:
    lines = (len(path.read_text(encoding="utf-8").splitlines()) for path in (PACKAGE / folder).rglob("*.py"))
    assert sum(lines) <= most


def test_no_file_has_more_than_400_lines_and_no_function_more_than_60() -> None:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= MOST_LINES_OF_A_FILE, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= MOST_LINES_OF_A_FUNCTION, (path, node.name, lines)


def classes_of_methods_and_encoders() -> dict[str, str]:
    """The folder of each class that is a tagger or an encoder, or its settings, by name."""
    bases, folders = {}, {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(base) for base in node.bases}
                folders[node.name] = path.relative_to(PACKAGE).parts[0]
    found = {"Tagger", "Encoder"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return {name: folders[name] for name in found}


def test_no_isinstance_names_a_class_of_a_method_or_an_encoder_outside_its_folder() -> None:
    folders = classes_of_methods_and_encoders()
    assert len(folders) > 15
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
                named = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)} & set(folders)
                assert {folders[name] for name in named} <= {path.relative_to(PACKAGE).parts[0]}, (path, named)


@pytest.mark.parametrize("folder", sorted(LAYERS | ABOVE))
def test_a_folder_says_in_one_sentence_what_it_is_for(folder: str) -> None:
    tree = ast.parse((PACKAGE / folder / "__init__.py").read_text(encoding="utf-8"))
    (only,) = tree.body
    assert isinstance(only, ast.Expr) and (ast.get_docstring(tree) or "").endswith(".")


def imported_modules(path: Path, names: set[str]) -> set[str]:
    """Modules of the package that a module imports: also in functions, and for the checker of types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names} & names
            found |= whole or {str(node.module)} & names
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & names
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    imports = {name: imported_modules(path, set(paths)) - {name} for name, path in paths.items()}
    while True:  # leave out what imports nothing of the rest, and what the rest does not import
        imported = set().union(*imports.values())
        left = {name: others & imports.keys() for name, others in imports.items() if name in imported}
        left = {name: others for name, others in left.items() if others}
        if left == imports:
            break
        imports = left
    assert not left
