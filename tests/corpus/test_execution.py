"""Where the parts of a corpus are worked on changes nothing, and a killed command goes on where it was."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crossner_cli.corpus.execution import select_parts
from crossner_cli.corpus.levels import LEVELS, write_levels
from crossner_cli.corpus.parts import Job, UnfinishedError
from crossner_cli.corpus.selection import Execution, Selection
from crossner_cli.corpus.sentences import cut_into_parts
from crossner_cli.errors import CrossNERError
from crossner_cli.run.progress import exhaust

NAMES = "Ada Lovelace\tperson\nLondon\tcity\nNew York Times\tpaper\n"
SLURM = {
    # Each runs an array one task after the other, as a cluster of one node would.
    "sbatch": """
for argument in "$@"; do script="$argument"; done
echo "$@" >> "$SLURM_LOG"; cat "$script" >> "$SLURM_LOG"
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$script")
for task in $(seq 0 "$last"); do
  SLURM_ARRAY_TASK_ID=$task SLURM_NODELIST=node RUN_OFFSET=0 bash "$script" >> "$SLURM_LOG" 2>&1
done
echo "Submitted batch job 77"
""",
    "squeue": "true\n",
    "scontrol": "echo node\n",
    "scancel": 'echo "scancel $@" >> "$SLURM_LOG"\n',
}


@pytest.fixture
def corpus(tmp_path):
    """A corpus of several parts: a file each."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(4):
        lines = (f"Ada Lovelace saw London {number} {line}. Nobody read The New York Times.\n" for line in range(40))
        (folder / f"{number}.txt").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text(NAMES, encoding="utf-8")
    return path


def select(corpus, names, folder, execution):
    """Everything that is written, and the counts."""
    selection = Selection(
        specialised_types=frozenset({"paper"}),
        weak_labels=folder / "weak",
        execution=execution,
    )
    counts = exhaust(write_levels([corpus], [names], folder, selection))
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert sorted(files) == sorted(
        [f"{level}.{kind}" for level in LEVELS for kind in ("txt", "mentions")] + ["weak/train.jsonl"]
    )
    return {**files, "counts": json.dumps(counts).encode()}


def test_ray_writes_what_one_process_writes(corpus, names, tmp_path):
    pytest.importorskip("ray")
    here = select(corpus, names, tmp_path / "here", Execution(workers=1))
    assert select(corpus, names, tmp_path / "ray", Execution(executor="ray", workers=2)) == here


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A folder with the commands of Slurm, which write into ``slurm.log`` beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in SLURM.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{script}", encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SBATCH_PARTITION", "cpu")
    monkeypatch.setenv("SLURM_LOG", str(tmp_path / "slurm.log"))
    return folder


ON_SLURM = Execution(executor="slurm")


def test_slurm_writes_what_one_process_writes(corpus, names, tmp_path, slurm):
    one = corpus / "0.txt"
    here = select(one, names, tmp_path / "here", Execution(workers=1))
    assert select(one, names, tmp_path / "slurm", ON_SLURM) == here
    told = (tmp_path / "slurm.log").read_text(encoding="utf-8")
    assert "#SBATCH --partition=cpu" in told
    assert "merge_stats" not in told


def test_a_job_on_slurm_is_cancelled_where_the_command_is_interrupted(corpus, tmp_path, slurm):
    for name, said in (("sbatch", "Submitted batch job 77"), ("squeue", "77 PENDING")):
        (slurm / name).write_text(f"#!/usr/bin/env bash\necho {said}; echo {name} >> $SLURM_LOG\n", encoding="utf-8")
    work = write_levels([corpus], [], tmp_path / "out", Selection(execution=ON_SLURM))
    while not (tmp_path / "slurm.log").exists() or "squeue" not in (tmp_path / "slurm.log").read_text():
        next(work)
    work.close()
    assert "scancel 77" in (tmp_path / "slurm.log").read_text()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("execution", "problem", "hint"),
    [
        ({"executor": "slurm"}, "needs a partition", "export SBATCH_PARTITION=cpu"),
        ({"executor": "slurm", "partition": "cpu"}, "needs sbatch", "login node"),
        ({"executor": "ray", "missing": "ray"}, "ray", 'pip install "crossner[cluster]"'),
        ({"executor": "slurm", "missing": "datatrove"}, "datatrove", 'pip install "crossner[cluster]"'),
    ],
)
def test_what_cannot_run_is_refused_at_once(corpus, names, tmp_path, monkeypatch, execution, problem, hint):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SBATCH_PARTITION", raising=False)
    if "partition" in execution:
        monkeypatch.setenv("SBATCH_PARTITION", execution["partition"])
    if "missing" in execution:
        monkeypatch.setitem(sys.modules, execution["missing"], None)
    with pytest.raises(CrossNERError, match=problem) as refusal:
        select(corpus, names, tmp_path / "out", Execution(executor=execution["executor"]))
    assert hint in refusal.value.hint
    assert not (tmp_path / "out").exists()


def make_job(folder, files, workers):
    return Job(folder, Selection(execution=Execution(workers=workers)), ("domain",), cut_into_parts(files))


def test_parts_that_are_done_are_not_done_again(corpus, tmp_path):
    job = make_job(tmp_path / "job", sorted(corpus.iterdir()), 1)
    work = select_parts(job, None)
    while 1 not in job.find_done():
        next(work)
    work.close()
    times = {number: job.part_folder(number).stat().st_mtime_ns for number in (0, 1)}
    assert 2 not in job.find_done()
    exhaust(select_parts(job, None))
    assert times == {number: job.part_folder(number).stat().st_mtime_ns for number in (0, 1)}
    assert job.find_done() >= {0, 1, 2, 3}


def test_a_killed_worker_is_reported_and_its_part_is_left(corpus, tmp_path):
    os.mkfifo(corpus / "4.pipe")  # whoever reads it waits
    job = make_job(tmp_path / "job", [*sorted(corpus.glob("*.txt")), corpus / "4.pipe"], 2)
    work = select_parts(job, None)
    while not job.find_done() >= {0, 1, 2, 3}:
        next(work)
    for child in multiprocessing.active_children():
        child.kill()
    with pytest.raises(UnfinishedError, match="ended from outside") as problem:
        exhaust(work)
    assert "4 of 5 parts are done and kept" in problem.value.hint


def _processes():
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found[int(path.parent.name)] = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found


def test_a_killed_command_goes_on_where_it_was(corpus, names, tmp_path):
    for number in range(4, 30):
        text = (corpus / "0.txt").read_text(encoding="utf-8").replace("London 0", f"London {number}")
        (corpus / f"{number}.txt").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "crossner_cli", "prepare-data", "--target", "sample-target", "--workers", "2"]
    command += ["--corpus", str(corpus), "--entities", str(names), "--specialised-types", "paper", "--run"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen([*command, str(killed)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    work = killed / ".draft-prepare-data" / "corpus" / ".selection"
    while len(list(work.glob("parts/[0-9]*"))) < 3:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    # All its processes end with it.
    until = time.monotonic() + 20
    while any(str(work) in line for line in _processes().values()):
        assert time.monotonic() < until
        time.sleep(0.05)
    done = sorted(path.name for path in work.glob("parts/[0-9]*"))
    assert 3 <= len(done) < 30, "nothing was left to go on with"
    # What is done is not done again: a trace left in it is in the result.
    traced = work / "parts" / done[0] / "domain.txt"
    traced.write_bytes(b"A trace" + traced.read_bytes()[7:])
    assert subprocess.run([*command, str(killed)], capture_output=True, check=False).returncode == 0
    selection = Selection(specialised_types=frozenset({"paper"}), execution=Execution(workers=1))
    exhaust(write_levels([corpus], [names], whole, selection))
    for path in sorted(whole.iterdir()):
        again = (killed / "prepare-data" / "corpus" / path.name).read_bytes()
        if path.name == "domain.txt":
            assert again.count(b"A trace") == 1
        else:
            assert again == path.read_bytes()
    assert list(killed.glob("**/.selection")) == []


def test_a_module_of_the_folder_at_hand_is_not_taken_for_one_of_python(corpus, names, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (here / "random.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(here)
    assert select(corpus, names, tmp_path / "several", Execution(workers=2))


def test_machines_of_a_cluster_get_absolute_paths(corpus, names, tmp_path, monkeypatch):
    told: list[Path] = []

    def run(job, *_):
        told.extend([job.folder, *(part.path for part in job.parts)])
        raise UnfinishedError("Over.", hint="Again.")
        yield

    monkeypatch.setattr("crossner_cli.corpus.levels.select_parts", run)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SBATCH_PARTITION", "cpu")
    selection = Selection(execution=Execution(executor="slurm"))
    with pytest.raises(UnfinishedError):
        exhaust(write_levels([corpus.relative_to(tmp_path)], [names], Path("out"), selection))
    assert len(told) == 5 and all(path.is_absolute() for path in told)


def test_the_log_of_a_cluster_is_shown_if_nothing_of_it_is_kept(corpus, names, tmp_path, monkeypatch):
    monkeypatch.setattr("crossner_cli.corpus.selection.Execution.check", lambda self: None)
    monkeypatch.setenv("PATH", str(tmp_path))  # without sbatch
    monkeypatch.setenv("SBATCH_PARTITION", "cpu")
    with pytest.raises(UnfinishedError, match="early: .*No such file.*sbatch") as found:
        exhaust(write_levels([corpus], [names], tmp_path / "out", Selection(execution=Execution(executor="slurm"))))
    assert "The end of their log:\n" in found.value.hint and "sbatch" in found.value.hint
    assert not (tmp_path / "out").exists()
