"""``crossner adapt``: plan the stages that suit the data and the encoder, run them, and show their gains."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossner_cli import figures
from crossner_cli.data.domains import cache_folder, find_raw_text
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.errors import CrossNERError, suggest_path
from crossner_cli.evaluation.finished import FOLDS, OUT_OF_FOLD, name_evaluation
from crossner_cli.options import Dapt, Evaluate, Finetune, PretrainSource
from crossner_cli.options_adapt import Adapt
from crossner_cli.options_data import PrepareData
from crossner_cli.options_label import Label
from crossner_cli.reports.blocks import Block, Line, Table
from crossner_cli.run.directory import (
    MANIFEST,
    PREPARED,
    RunDirectory,
    describe_differences,
    digest_stage,
    propose_tagger,
    read_manifest,
)
from crossner_cli.run.freshness import changed_data, find_outdated
from crossner_cli.run.progress import Notice, Work, exhaust
from crossner_cli.run.records import read_result
from crossner_cli.run.results import EvaluateResult, TrainResult
from crossner_cli.run.stage import Stage
from crossner_cli.run.storage import output_folder
from crossner_cli.stages.adapt_plan import (
    ALONE,
    DEFAULT_SOURCE,
    FOLDS_ALONE,
    SILVER,
    SOURCE,
    TAGGER,
    TEACHERS,
    Facts,
    Step,
    make_steps,
)
from crossner_cli.stages.checks import parse_seeds
from crossner_cli.stages.data_sets import find_sets, read_sets
from crossner_cli.stages.prepare_data import find_inputs
from crossner_cli.stages.rerun import Execute, run_command

CACHED = "sources"  # in the user's cache folder
BYTES_OF_A_WORD, BYTES_OF_A_TAGGED_WORD = 6, 9
# Words a second of minilm in fp32 on two cores without bf16.
LEARNING_SPEED, READING_SPEED = 1_700, 5_800
DATA_OPTIONS = ("source", "target", "corpus", "map_types", "dev_from_train")  # options of prepare-data
NAMES = {
    **dict.fromkeys((ALONE, FOLDS_ALONE), "target alone"),
    **dict.fromkeys((TEACHERS, FOLDS), "after the source"),
    TAGGER: "the tagger",
}


def plan(run: RunDirectory, options: Adapt) -> Work[list[Step]]:
    """Read the labelled data and the encoder's configuration, and choose the steps.

    Raises:
        CrossNERError: A data set, the raw text or the encoder cannot be read, the target has no training sentences, the
            seeds are invalid, or the run holds stages with other options.
    """
    yield Notice(f"reading the target {', '.join(options.target)}")
    if options.seeds is not None:
        parse_seeds(Finetune(seeds=options.seeds))  # a stage would refuse them only after the training on the source
    sets = find_sets(PrepareData(source=options.source or DEFAULT_SOURCE, target=options.target, silver=options.silver))
    read = exhaust(read_sets({place: sets[place] for place in ("target", "silver") if place in sets}, PrepareData()))
    target = read["target"]
    if not target.splits.get("train"):
        raise CrossNERError(
            f"The target {sets['target'].name} has no training sentences.", hint="Give a folder with a train file."
        )
    if len(target.splits["train"]) < 2 and not target.splits.get("test"):
        raise CrossNERError(
            f"The target {sets['target'].name} has one training sentence and no test: nothing can be scored.",
            hint="Label more sentences.",
        )
    words = {split: sum(len(each.words) for each in sentences) for split, sentences in target.splits.items()}
    trains = [path for place, found in sets.items() if "source" in place for path in found.files.get("train", [])]
    words["source"] = sum(map(_count_bytes, trains)) // BYTES_OF_A_TAGGED_WORD
    words["silver"] = sum(len(each.words) for each in read["silver"].splits.get("train", ())) if options.silver else 0
    words["corpus"] = sum(map(_count_bytes, options.corpus)) // BYTES_OF_A_WORD
    words["source"] += words["corpus"] if options.entities else 0
    ignores_case, has_masked_lm_head = yield from _look_at_encoder(run, options)
    facts = Facts(
        words={"dev": 0, "test": 0, **words},
        sentences=len(target.splits["train"]),
        has_test=bool(target.splits.get("test")),
        ignores_case=ignores_case,
        has_masked_lm_head=has_masked_lm_head,
    )
    before = run.read(PREPARED)["options"] if run.has(PREPARED) else {}
    has_labels = before.get("silver") == str(options.run / SILVER) and (options.run / SILVER / MANIFEST).is_file()
    steps = make_steps(options, facts, has_labels=has_labels)
    if not options.force:
        _check_stages(run, before, steps)
    return steps


def _look_at_encoder(run: RunDirectory, options: Adapt) -> Work[tuple[bool, bool]]:
    """Return whether the encoder ignores case and has a masked-LM head; a run that was begun knows both."""
    folder = resolve_encoder(options.encoder)
    before = run.read(ALONE)["options"] if run.has(ALONE) and not options.force else {}
    if before.get("encoder") == options.encoder:
        return bool(before.get("word_shapes")), before.get("start_from") == "dapt"
    yield Notice("loading PyTorch and transformers")
    from crossner_cli.encoders.pretrained import read_config, read_tokenizer
    from crossner_cli.encoders.word_shapes import ignores_case

    has_head = any("ForMaskedLM" in name for name in read_config(folder).architectures or ())
    return ignores_case(read_tokenizer(folder)), has_head


def _count_bytes(path: Path) -> int:
    """Count the bytes of raw text: a file, the files of a folder, or the text of a bundled data set."""
    place = find_raw_text(path)
    if not place.exists():
        raise CrossNERError(
            f"--corpus: there is no file or folder {path}.", hint=f"{suggest_path(path)}Give raw text of your domain."
        )
    return sum(each.stat().st_size for each in (place.rglob("*") if place.is_dir() else [place]) if each.is_file())


def _check_stages(run: RunDirectory, before: Mapping[str, Any], steps: Sequence[Step]) -> None:
    """Refuse a run whose data or stages were made with other options, before a step changes anything."""
    hint = "Give another --run; or --force, which makes every stage except the source's again."
    now = next(step.options for step in steps if isinstance(step.options, PrepareData) and step.options.run == run.path)
    record = now.record() if before else {}
    if changed := describe_differences(*({name: each.get(name) for name in DATA_OPTIONS} for each in (before, record))):
        raise CrossNERError(
            f"The data of {run.path} were prepared with other options:\n  " + "\n  ".join(changed), hint=hint
        )
    for step in steps:
        if isinstance(step.options, Dapt | Finetune):
            try:
                Stage(run, step.options.stage_request({})).check_options()
            except CrossNERError as error:
                raise CrossNERError(error.problem, hint=hint) from None


def describe_plan(steps: Sequence[Step]) -> list[Block]:
    """Show the steps with their expected gains and minutes on a CPU, and their command lines."""
    rows = []
    for number, step in enumerate(steps, start=1):
        minutes = (step.learns / LEARNING_SPEED + step.reads / READING_SPEED) / 60
        time = "made" if _is_made(step) else f"{minutes:.0f}" if minutes >= 1 else "< 1"
        rows.append((str(number), step.command, getattr(step.options, "name", None) or "", step.brings, time))
    table = Table(
        "Plan",
        ("", "command", "stage", "gain (measured with minilm)", "minutes on a CPU"),
        rows,
        texts=(1, 2, 3),
    )
    folders = [step.options.place.parent for step in steps if isinstance(step.options, Label)]
    lines = [shlex.join(["mkdir", "-p", str(each)]) for each in folders]
    return [table, *map(Line, [*lines, *(shlex.join(step.line) for step in steps)])]


def _is_made(step: Step) -> bool:
    """Return whether a step's result exists, made with its options from the current inputs; it loads no PyTorch."""
    options, run = step.options, RunDirectory(step.options.run)
    if isinstance(options, Label):
        return _is_labelled(run, options)
    name = name_evaluation(options.model, options.split) if isinstance(options, Evaluate) else options.name
    name = name or step.command
    if options.force or not run.has(name) or name in find_outdated(run):
        return False
    manifest = run.read(name)
    if manifest["options"] != options.record():
        return False
    if isinstance(options, PrepareData):
        with contextlib.suppress(CrossNERError):  # a missing file may be made by an earlier step
            return find_inputs(options).digests() == manifest["inputs"]
        return False
    return True


def run(run: RunDirectory, options: Adapt, steps: Sequence[Step], execute: Execute) -> dict[str, Any]:
    """Run the steps that are not done; a source tagger may come from the user's cache.

    Returns:
        The command lines, and F1 of each model with its difference to the one to use, which is the best on dev.

    Raises:
        CrossNERError: A command failed, and has reported why.
        KeyboardInterrupt: A command was interrupted.
    """
    for step in steps:
        of_step, is_old = step.options, False
        if _is_made(step):
            continue
        if isinstance(of_step, PretrainSource):
            is_old = not _find_source(run, of_step) and run.has(SOURCE)
        if isinstance(of_step, Label):
            of_step.place.parent.mkdir(parents=True, exist_ok=True)
            is_old = of_step.place.exists()
        try:
            line = [*step.line, *(["--force"] if is_old and not of_step.force else [])]
            run_command(line, options, execute)
        except SystemExit:
            raise CrossNERError(
                f"adapt stopped: crossner {step.command} failed, see above.",
                hint="Solve that, and give the same adapt command again: it continues with that step.",
            ) from None
        if isinstance(of_step, PretrainSource):
            _keep_in_cache(run)
    scored = steps[-1].options
    assert isinstance(scored, Evaluate)
    result = read_result(run.read(name_evaluation(scored.model, scored.split)), EvaluateResult)
    trained = [step.options.name for step in steps if type(step.options) is Finetune and step.options.name]
    f1, chosen_on = {name: read_result(run.read(name), TrainResult).dev_f1 for name in trained}, "dev"
    if FOLDS in scored.model and None in f1.values():
        f1, chosen_on = {ALONE: result.models[FOLDS_ALONE].f1.mean, TAGGER: result.models[FOLDS].f1.mean}, FOLDS
    proposed = propose_tagger(f1)
    used = {ALONE: FOLDS_ALONE}.get(proposed, FOLDS) if FOLDS in scored.model else proposed
    record = {
        "use": proposed,
        "chosen_on": None if None in f1.values() else chosen_on,
        "chosen_f1": f1,
        "compared": used,
    }
    return {"commands": [step.line for step in steps], **record, **_compare(result, used)}


def _is_labelled(run: RunDirectory, options: Label) -> bool:
    """Return whether the labels of these teachers for this raw text exist."""
    if options.force or not (options.place / MANIFEST).is_file() or not run.has(TEACHERS) or not run.has(PREPARED):
        return False
    manifest, data = read_manifest(options.place), run.read(PREPARED).get("outputs", {})
    is_same = manifest["options"] == options.record() and manifest["inputs"].get(TEACHERS) == run.digest(TEACHERS)
    return is_same and TEACHERS not in find_outdated(run) and not changed_data(manifest, data)


def _compare(result: EvaluateResult, used: str) -> dict[str, Any]:
    """Return F1 of each model, and the difference of the one to use to each other one, with its interval."""
    found = {}
    for label, model in result.models.items():
        pair = next((each for each in result.comparisons if {each["model"], each["against"]} == {label, used}), None)
        gain = None
        if pair is not None:
            sign = 1 if pair["model"] == used else -1
            gain = [sign * pair["difference"], *sorted((sign * pair["low"], sign * pair["high"]))]
        found[label] = {"f1": model.f1.mean, "deviation": model.f1.deviation, "gain": gain}
    return {"split": result.split, "domain": result.domain, "models": found}


def describe_result(run: RunDirectory, record: dict[str, Any]) -> list[Block]:
    """Show the table of the models, and the next command."""
    rows, used, split = [], record["use"], record["split"]
    for label, model in record["models"].items():
        gain = model["gain"]
        shown = f"{gain[0]:+.1f} [{gain[1]:.1f}, {gain[2]:.1f}]" if gain else ""
        rows.append((NAMES.get(label, label), figures.spread(model["f1"], model["deviation"]), shown, label))
    table = Table(
        f"F1 {'' if split.startswith(OUT_OF_FOLD) else 'on '}{split} of {record['domain']}",
        ("model", "F1", f"{record['compared']} is better by [95 %]", "stage"),
        rows,
        texts=(0, 3),
    )
    scores = ", ".join(f"{name} {figures.score(f1)}" for name, f1 in record["chosen_f1"].items())
    why = {"dev": f", the best on dev ({scores})", FOLDS: f", the best out of fold ({scores})", None: ""}
    return [
        table,
        Line(f"Use {used}{why[record['chosen_on']]}."),
        Line(f"Next: {shlex.join(['crossner', 'predict', 'FILE', '--model', used, '--run', str(run.path)])}"),
    ]


def _find_source(run: RunDirectory, options: PretrainSource) -> bool:
    """Return whether there is a tagger of this source with these options: in the run, or copied from the cache."""
    from crossner_cli.stages.train import resolve_recipe

    inputs = resolve_recipe(run, options, 1).digest_inputs()
    cached = sorted((cache_folder() / CACHED).glob(f"*/{MANIFEST}"))
    for folder in (run.folder(SOURCE), *(path.parent for path in cached)):
        with contextlib.suppress(CrossNERError):  # it is missing or broken
            manifest = read_manifest(folder)
            if manifest["options"] == options.record() and manifest["inputs"] == inputs:
                if folder != run.folder(SOURCE):
                    _copy(folder, run.folder(SOURCE))
                return True
    return False


def _keep_in_cache(run: RunDirectory) -> None:
    folder = cache_folder() / CACHED / digest_stage(run.read(SOURCE))[:16]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(CrossNERError):  # another process is writing it
            _copy(run.folder(SOURCE), folder)


def _copy(source: Path, folder: Path) -> None:
    """Copy the folder of a stage, whole or not at all."""
    with output_folder(folder, MANIFEST, force=True) as draft:
        shutil.copytree(source, draft, dirs_exist_ok=True)
