"""``crossner status``: the stages of a run, what is out of date and why, and the next command."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossner_cli.data.domains import find_domains, known_domains
from crossner_cli.data.formats.hugging_face import HUB
from crossner_cli.data.splits import list_sets
from crossner_cli.errors import CrossNERError
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.directory import PREPARED, PREVIOUS, Manifest, RunDirectory, given_in, propose_tagger
from crossner_cli.run.freshness import describe_changed, find_outdated, in_order_of_making
from crossner_cli.run.records import read_result
from crossner_cli.run.results import EvaluateResult, PrepareDataResult, TrainResult
from crossner_cli.run.stage import DRAFT, is_at_work
from crossner_cli.run.storage import digest_file, digest_path, read_record
from crossner_cli.stages.rerun import command_again, command_line
from crossner_cli.stages.table import find_kind
from crossner_cli.taggers.sources import BASE

UP_TO_DATE, AT_WORK = "up to date", "at work"
Stages = Mapping[str, tuple[Manifest, Any]]  # manifest and result by name


def run(run: RunDirectory) -> tuple[list[Block], dict[str, Any]]:
    """Describe the stages of a run; return what is shown, and the same as a record."""
    stages = read_stages(run)
    manifests = {name: manifest for name, (manifest, _) in stages.items()}
    outdated, troubles = find_outdated(run), _find_troubles(run, manifests)
    if PREPARED in manifests and (changed := changed_files(manifests[PREPARED])):
        outdated = {PREPARED: changed, **outdated}
    states = {name: describe_changed(outdated[name]) if name in outdated else UP_TO_DATE for name in manifests}
    states |= {name: "kept from before" for name in manifests if name.endswith(PREVIOUS)} | troubles
    interrupted = find_interrupted(run)
    shown = [
        {"name": name, "command": manifests[name]["stage"], "result": stages[name][1].summary, "state": states[name]}
        for name in in_order_of_making(run, manifests)
    ]
    drafts = {name: AT_WORK if is_at_work(run, name) else "interrupted" for name in interrupted}
    shown += [{"name": name, "command": interrupted[name][1], "result": "", "state": drafts[name]} for name in drafts]
    step = None if AT_WORK in drafts.values() else next_step(run, stages, outdated, interrupted)
    rows = [(each["name"], each["result"], each["state"]) for each in shown]
    table = Table(f"Stages of {run.path}", ("stage", "result", "state"), rows, texts=(0, 1, 2))
    blocks: list[Block] = [table] if rows else [Line(f"{run.path} holds no stage yet.")]
    blocks += [Line(f"Next: {step}")] if step else []
    return blocks, {"run": str(run.path), "stages": shown, "next": step}


def suggest_next(run: RunDirectory) -> str | None:
    """Suggest the usual command after a finished stage; None while others are out of date or interrupted."""
    with contextlib.suppress(CrossNERError):  # a broken manifest, which stops whoever reads its stage
        stages = read_stages(run)
        if PREPARED in stages and not find_outdated(run) and not find_interrupted(run):
            return next_step(run, stages, {}, {})
    return None


def read_stages(run: RunDirectory) -> Stages:
    """Read the manifest and the result of each finished stage."""
    found = {}
    for name in run.stages():
        manifest = run.read(name)
        list_sets(manifest["options"])
        found[name] = manifest, find_kind(manifest["stage"], run.folder(name)).read_result(manifest)
    return found


def changed_files(prepared: Manifest) -> list[str]:
    """Name the files of labelled sentences, of data sets in folders, that differ from those that were prepared."""
    found = []
    for role, paths in _own_data(prepared).items():
        with contextlib.suppress(CrossNERError, OSError):  # it is gone, which is another trouble
            now = {place: digest_path(path) for place, path in find_domains(paths).named_files(role).items()}
            before = {place: digest for place, digest in prepared["inputs"].items() if place.startswith(f"{role}/")}
            found += [place for place in {**before, **now} if before.get(place) != now.get(place)]
    return found


def _own_data(prepared: Manifest) -> dict[str, list[str]]:
    """Find the files and folders of a run's data sets that are not known by name, by part."""
    directory = given_in(prepared)
    return {
        place: [str(directory / name) for name in names]
        for place, names in list_sets(prepared["options"]).items()
        if not any(name in known_domains() or name.startswith(HUB) for name in names)
    }


def _find_troubles(run: RunDirectory, manifests: Mapping[str, Manifest]) -> dict[str, str]:
    """Name the stages whose inputs are gone or whose prepared files were edited."""
    found = {}
    for name, manifest in manifests.items():
        start = str(manifest["options"].get("start_from") or BASE)
        if start != BASE and not run.stage_or_path(start, given_in(manifest)).exists():
            found[name] = f"its start {start} is gone"
    if PREPARED in manifests:
        gone = [path for paths in _own_data(manifests[PREPARED]).values() for path in paths if not Path(path).exists()]
        edited = edited_files(run, manifests[PREPARED])
        parts = [f"{path} is gone" for path in gone] + [f"{place} was edited" for place in edited]
        found |= {PREPARED: ", ".join(parts)} if parts else {}
    return found


def edited_files(run: RunDirectory, prepared: Manifest) -> list[str]:
    """Name the prepared files of labelled sentences that are not those in the manifest."""
    folder, roles = run.folder(PREPARED), read_result(prepared, PrepareDataResult).domains
    digests = {place: each for place, each in prepared.get("outputs", {}).items() if place.partition("/")[0] in roles}
    return [each for each in digests if not ((folder / each).is_file() and digest_file(folder / each) == digests[each])]


def find_interrupted(run: RunDirectory) -> dict[str, list[str]]:
    """Find the stages that were interrupted, each with the command line that continues it."""
    found = {}
    for path in sorted(run.path.glob(f".draft-*/{DRAFT}")):
        if any(each.name != DRAFT for each in path.parent.iterdir()):
            record, name = read_record(path), path.parent.name.removeprefix(".draft-")
            more = ["--force"] if record.get("forced") else []
            found[name] = command_line(run, str(record.get("command")), name, record.get("options") or {}, more)
    return found


def next_step(
    run: RunDirectory,
    stages: Stages,
    outdated: Mapping[str, Any],
    interrupted: Mapping[str, list[str]],
) -> str:
    """Find the next command for a run: continue, update, train, score or tag."""
    place = [] if run.path == Path("run") else ["--run", str(run.path)]
    if interrupted:
        return shlex.join(next(iter(interrupted.values())))
    if outdated:
        return shlex.join(["crossner", "rerun", *place])
    if PREPARED not in stages:
        return shlex.join(["crossner", "prepare-data", "--source", "DATASET", "--target", "DATASET", *place])
    again = command_again(run, PREPARED)
    prepared, result = stages[PREPARED]
    if edited_files(run, prepared):
        return shlex.join([*again, "--force"])
    splits = {role: domain.splits for role, domain in result.domains.items()}
    trained = {
        name: (manifest["stage"], each)
        for name, (manifest, each) in stages.items()
        if isinstance(each, TrainResult) and not name.endswith(PREVIOUS)
    }
    made = {command for command, _ in trained.values()}
    starts = {name: ["--start-from", name] for name in ("pretrain-source", "dapt")}
    start = next((starts[name] for name in starts if name in stages), [])
    trainings = {
        "source": ("pretrain-source", not trained),
        "target": ("finetune", not made & {"finetune", "joint-train"}),
    }
    for role, (command, is_wanted) in trainings.items():
        if is_wanted and "train" in splits.get(role, {}):
            has_dev = "dev" in splits[role] or "--dev-from-train" in again
            return shlex.join(["crossner", command, *start, *place] if has_dev else [*again, "--dev-from-train", "0.2"])
    scored = {label for _, each in stages.values() if isinstance(each, EvaluateResult) for label in each.models}
    of_target = {name: each for name, each in trained.items() if each[0] != "pretrain-source"} or trained
    unscored = [name for name in of_target if name not in scored]
    if unscored and {"dev", "test"} & {*splits.get("target", ())}:
        split = [] if "test" in splits["target"] else ["--split", "dev"]
        models = [part for name in unscored for part in ("--model", name)]
        return shlex.join(["crossner", "evaluate", *models, *split, *place])
    scores = {name: each.dev_f1 for name, (_, each) in of_target.items()}
    return shlex.join(["crossner", "predict", "FILE", "--model", propose_tagger(scores or {"MODEL": None}), *place])
