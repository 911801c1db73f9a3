"""Checks before PyTorch is loaded, which takes seconds: wrong paths, unknown names, changed options."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path

from crossner_cli.data.domains import find_raw_text
from crossner_cli.data.files import refuse_pipe
from crossner_cli.data.sentences import PreparedData
from crossner_cli.errors import CrossNERError, suggest_path
from crossner_cli.evaluation.finished import find_evaluation, find_folds
from crossner_cli.labelling.language_model import check_server
from crossner_cli.layers.settings import check_setting_name
from crossner_cli.option_fields import LARGEST_SEED, Command, is_stream
from crossner_cli.options import STRINGS, Dapt, Evaluate, Optimisation, Predict
from crossner_cli.options_label import Label
from crossner_cli.prediction.inputs import Inputs
from crossner_cli.prediction.output import check_output, choose_format, make_writer
from crossner_cli.reports.methods import describe_methods
from crossner_cli.run.directory import MANIFEST, PREPARED, RunDirectory, read_manifest
from crossner_cli.run.stage import Stage
from crossner_cli.run.storage import check_output_folder
from crossner_cli.taggers.sources import check_start_name, find_folders


@singledispatch
def check_early(options: Command, run: RunDirectory) -> None:
    """Check the options of a command that computes, as far as this needs no model.

    Raises:
        CrossNERError: A path, a stage, a method, a setting or an encoder does not exist, the run is not prepared, the
            stage is finished with other options, or the output cannot be written.
    """
    model = getattr(options, "model", None) or []
    find_folders(run, [model] if isinstance(model, str) else model, wanted_by=options.command)


@check_early.register
def _(options: Evaluate, run: RunDirectory) -> None:
    folds = find_folds(run, options.model)
    for path in options.against:
        find_evaluation(path, of_folds=bool(folds))
    if folds:
        return
    target = PreparedData.load(run, wanted_by=options.command).domain("target", wanted_by=options.command)
    target.check_has(options.split)
    find_folders(run, options.model, wanted_by=options.command)


@check_early.register
def _(options: Predict, run: RunDirectory) -> None:
    find_folders(run, options.model, wanted_by=options.command)
    if len(options.model) > 1 and not options.ensemble:
        raise CrossNERError(
            f"predict tags with one model, and {len(options.model)} are given: {', '.join(options.model)}.",
            hint="Add --ensemble to tag with their mean, or name one.",
        )
    if options.ensemble and options.decoding == "any":
        raise CrossNERError(
            "--decoding any is not possible with --ensemble, which gives legal sequences.",
            hint="Leave --decoding out.",
        )
    check_files(options, Inputs(options.input, options.read_as, texts=options.text, column=options.text_column))


@check_early.register
def _(options: Dapt, run: RunDirectory) -> None:
    _check_training(options, run, None if options.encoder == STRINGS else options.encoder)


@check_early.register
def _(options: Optimisation, run: RunDirectory) -> None:
    parse_seeds(options)
    (method,) = describe_methods([options.method])
    for text in options.settings:
        check_setting_name(text, method.settings)
    _check_training(options, run, None if method.reads == "words" else options.encoder)


def _check_training(options: Dapt | Optimisation, run: RunDirectory, encoder: str | None) -> None:
    run.manifest(PREPARED, wanted_by=options.command)
    Stage(run, options.stage_request({})).check_options()
    check_start_name(run, options.start_from, encoder, wanted_by=options.command)


def parse_seeds(options: Optimisation) -> list[int]:
    """Parse the seeds of a stage: ``--seeds``, else ``--seed``.

    Raises:
        CrossNERError: Not a list of distinct numbers up to the largest seed.
    """
    if options.seeds is None:
        return [options.seed]
    parts = [part.strip() for part in options.seeds.split(",")]
    seeds = [int(part) for part in parts if part.isdecimal() and len(part) < 20]
    if len(set(seeds)) != len(parts) or max(seeds) > LARGEST_SEED:
        raise CrossNERError(
            f"--seeds {options.seeds!r} is not a list of distinct numbers from 0 to {LARGEST_SEED}.",
            hint="Write --seeds 1,2,3.",
        )
    return seeds


def check_files(options: Predict, inputs: Inputs, *, on_terminal: bool = False) -> str:
    """Refuse input that cannot be read and output that cannot be written; return the name of the output format."""
    inputs.check()
    place: Path | None = options.place
    name = choose_format(options.format, None if place is None else options.output, on_terminal=on_terminal)
    kind = make_writer(name)
    if options.order != "input" and kind.has_parts:
        raise CrossNERError(
            f"--order {options.order} is not possible with --format {name}.",
            hint="Leave --order out, or choose another --format, as jsonl.",
        )
    if place is not None and is_stream(place) and kind.has_parts:
        raise CrossNERError(f"--format {name} cannot be written to {place}.", hint="Name a file or a folder.")
    if place is not None and not is_stream(place):
        check_output(place, is_folder=kind.is_folder, is_forced=options.force, inputs=inputs.files)
    return name


@check_early.register
def check_labelling(options: Label, run: RunDirectory) -> None:
    """Refuse teachers, texts and an output of ``label`` that do not exist or cannot be used.

    Raises:
        CrossNERError: As above, or the client or the key of a language model is missing.
    """
    check_label_output(run, options)
    for path in options.input:
        refuse_pipe(path)
        if not find_raw_text(path).exists():
            raise CrossNERError(
                f"There is no file or folder {path}.", hint=f"{suggest_path(path)}Give files or folders of raw text."
            )
    if not options.input and not (run.has(PREPARED) and run.folder(PREPARED).joinpath("corpus/domain.txt").is_file()):
        raise CrossNERError(
            f"label needs raw text, and {run.path} holds no prepared corpus.",
            hint="Name files, as: crossner label raw.txt …; or crossner prepare-data … --corpus FILE --force",
        )
    if not options.input:
        PreparedData.load(run, wanted_by="label").corpus("domain")
    if options.language_model is None:
        find_folders(run, options.teacher, wanted_by="label", flag="--teacher")
    else:
        check_server(options.base_url)
        target = PreparedData.load(run, wanted_by="label").domain("target", wanted_by="label")
        if not target.has("train"):
            raise CrossNERError(
                f"The target {target.name!r} has no training sentences to show to the language model.",
                hint="Add a train file to the data set and prepare the data again.",
            )
    if options.first is not None:
        find_folders(run, [options.first], wanted_by="label", flag="--first")


def check_label_output(run: RunDirectory, options: Label) -> None:
    """Refuse an output that would look like a stage, or replace files of others."""
    output = options.place
    if output.parent.resolve() == run.path.resolve():
        raise CrossNERError(
            f"--output {output} lies in the run directory, where it would be taken for a stage.",
            hint=f"Name a folder beside it, as --output {output.name}.",
        )
    if (output / MANIFEST).is_file() and read_manifest(output)["stage"] != "label":
        raise CrossNERError(f"--output {output} is a stage of a run.", hint="Name another folder.")
    check_output_folder(output, MANIFEST, force=options.force)
