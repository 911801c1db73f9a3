"""The command line: its commands, and what each of them does."""

from __future__ import annotations

import dataclasses
import inspect
import io
import math
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crossner_cli import __version__
from crossner_cli.option_fields import NOT_PUBLISHED, Command, to_json
from crossner_cli.options import (
    Compute,
    Dapt,
    Evaluate,
    Export,
    Finetune,
    Inspect,
    JointTrain,
    Predict,
    PrepareData,
    PretrainSource,
    Report,
)
from crossner_cli.problems import GroupOfCommands, has_data_on_stdout, known_problems

if TYPE_CHECKING:
    from crossner_cli.engine.devices import Engine
    from crossner_cli.methods.contract import Tagger
    from crossner_cli.run.directory import Manifest, RunDirectory
    from crossner_cli.run.progress import Work

Options = TypeVar("Options", bound=Command)

app = typer.Typer(
    cls=GroupOfCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of ``crossner`` and of ``python -m crossner_cli``."""
    for stream in (sys.stdout, sys.stderr):  # an ASCII terminal gets ? for what it cannot show, never a traceback
        if not isinstance(stream, io.TextIOWrapper):
            continue
        is_utf8 = stream.encoding.lower().replace("-", "") == "utf8"
        if stream.errors == "strict" or (stream.errors == "surrogateescape" and not is_utf8):
            stream.reconfigure(errors="replace")
    app(prog_name="crossner")


def takes(options_type: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Give a command body one flag a field of its options, their docstring as help, and the error boundary."""

    def decorate(body: Callable[[Options], None]) -> Callable[..., None]:
        def command(context: typer.Context, **values: Any) -> None:
            options = with_published(options_type(**values), context)
            with known_problems(options):
                body(options)

        hints = typing.get_type_hints(options_type)
        flags = [to_parameter(field, hints[field.name]) for field in dataclasses.fields(options_type)]
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        vars(command)["__signature__"] = inspect.Signature([context, *flags])
        command.__doc__ = options_type.__doc__
        return command

    return decorate


def to_parameter(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    """The flag or argument that an options field declares."""
    is_list = field.default is dataclasses.MISSING
    kind = typer.Argument if field.metadata["argument"] else typer.Option
    callback = finite if hint in (float, float | None) else None
    is_path = hint in (Path, Path | None)
    declared = kind(
        *field.metadata["flags"], **field.metadata["typer"], callback=callback,
        parser=path if is_path or hint == list[Path] else None, metavar="<path>" if is_path else None,
    )  # fmt: skip
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=[] if is_list else field.default,
        annotation=Annotated[hint, declared],
    )


def path(text: str) -> Path:
    """A path as it is written, but for ``./-``: ``Path`` makes ``-`` of it, which is stdin or stdout."""
    found = Path(text)
    return found.absolute() if str(found) == "-" != text else found


def finite(value: Any) -> Any:
    """Refuse infinity, which options without a largest value would take, and nan, which versions of Typer let pass.

    Raises:
        typer.BadParameter: It is one of them.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number.")
    return value


def with_published(options: Options, context: typer.Context) -> Options:
    """With ``--paper``, take the published value of every field and setting that is not on the command line."""
    if not getattr(options, "paper", False):
        return options
    published, own = {}, options_of_the_paper(options)
    for field in dataclasses.fields(options):
        source = context.get_parameter_source(field.name)
        is_given = source is not None and source.name == "COMMANDLINE"
        value = own.get(field.name, field.metadata["paper"])
        if value not in (NOT_PUBLISHED, None) and not is_given:
            published[field.name] = value
    if hasattr(options, "settings"):
        published["settings"] = [*settings_of_the_paper(options), *options.settings]
    return dataclasses.replace(options, **published)


def options_of_the_paper(options: Any) -> Mapping[str, Any]:
    """What the paper of the method has for options, where that is not CrossNER's; nothing for one that is not there."""
    method = method_of(options)
    return {} if method is None else method.paper.options_for(of_source=options.of_source)


def settings_of_the_paper(options: Any) -> list[str]:
    """The published settings of the method that ``--set`` does not give; none of a method that is not there."""
    from crossner_cli.methods.contract import published_settings

    method = method_of(options)
    return [] if method is None else published_settings(method, options.settings, of_source=options.of_source)


def method_of(options: Any) -> type[Tagger] | None:
    """The method that options name, if there is one."""
    from crossner_cli.methods.contract import find_method, method_names

    name = getattr(options, "method", None)
    return find_method(name) if name in method_names() else None


def open_run(options: Command) -> RunDirectory:
    """The run directory of a command."""
    from crossner_cli.run.directory import RunDirectory

    return RunDirectory(options.run)


def start(options: Compute) -> Engine:
    """Choose the device, or leave the work to one process a GPU and exit with their status."""
    from crossner_cli.engine.devices import start_engine
    from crossner_cli.engine.processes import launch_processes

    status = launch_processes(options, sys.argv[1:])
    if status is not None:
        raise typer.Exit(status)
    return start_engine(options)


def present(work: Work[Manifest], options: Command, engine: Engine | None = None) -> None:
    """Do the work of a stage, show how it goes, then what came out."""
    from crossner_cli import console

    is_main = engine is None or engine.is_main
    quiet = options.quiet or not is_main
    to_stderr = has_data_on_stdout(options)
    if not quiet and getattr(options, "paper", False):
        announce_published(options)
    bars = not (to_stderr and sys.stdout.isatty())
    manifest, told = console.follow(work, quiet=quiet, verbose=options.verbose, bars=bars)
    if is_main and (options.json or not options.quiet):
        console.show_manifest(manifest, json=options.json, to_stderr=to_stderr, told=told)


def announce_published(options: Command) -> None:
    """Say which values ``--paper`` stands for in this command."""
    fields = [field for field in dataclasses.fields(options) if field.metadata["paper"] is not NOT_PUBLISHED]
    chosen = ", ".join(f"{field.name} {to_json(getattr(options, field.name))}" for field in fields)
    if getattr(options, "settings", []):
        chosen += f", {', '.join(options.settings)}"  # type: ignore[attr-defined]
    typer.echo(f"with --paper: {chosen}", err=True)


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"crossner {__version__}")
        raise typer.Exit


@app.callback()
def crossner(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Take a named-entity tagger to a new domain: each command is one stage of a run."""


@app.command("prepare-data")
@takes(PrepareData)
def prepare_data(options: PrepareData) -> None:
    """Store, check and count the data of a run, or list the known data sets."""
    if options.list_known:
        from crossner_cli import console

        console.show_known_domains(json=options.json)
        return
    from crossner_cli.stages import prepare_data as stage

    present(stage.run(open_run(options), options), options)


@app.command("dapt")
@takes(Dapt)
def dapt(options: Dapt) -> None:
    """Adapt an encoder to raw text."""
    engine = start(options)
    from crossner_cli.stages import dapt as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("pretrain-source")
@takes(PretrainSource)
def pretrain_source(options: PretrainSource) -> None:
    """Train a tagger on the source."""
    engine = start(options)
    from crossner_cli.stages import pretrain_source as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("finetune")
@takes(Finetune)
def finetune(options: Finetune) -> None:
    """Train a tagger on the target."""
    engine = start(options)
    from crossner_cli.stages import finetune as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("joint-train")
@takes(JointTrain)
def joint_train(options: JointTrain) -> None:
    """Train a tagger on both domains."""
    engine = start(options)
    from crossner_cli.stages import joint_train as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("evaluate")
@takes(Evaluate)
def evaluate(options: Evaluate) -> None:
    """Score taggers, or one file of tags against another."""
    engine = None if options.gold or options.predictions else start(options)
    from crossner_cli.stages import evaluate as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("predict")
@takes(Predict)
def predict(options: Predict) -> None:
    """Tag new text."""
    engine = start(options)
    from crossner_cli.stages import predict as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("inspect")
@takes(Inspect)
def inspect_tagger(options: Inspect) -> None:
    """Look inside a tagger."""
    engine = start(options)
    from crossner_cli.stages import inspect as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("export")
@takes(Export)
def export(options: Export) -> None:
    """Write a linear tagger as ONNX."""
    engine = start(options)
    from crossner_cli.stages import export as stage

    present(stage.run(open_run(options), options, engine), options, engine)


@app.command("report")
@takes(Report)
def report(options: Report) -> None:
    """Put many runs into one table, curve or comparison."""
    from crossner_cli.stages import report as stage

    present(stage.run(options), options)


@app.command("methods")
def methods(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Methods to explain.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """List the tagging methods, or explain some: paper, inputs, size, settings."""
    from crossner_cli import console

    with known_problems(Command(json=json)):
        console.show_methods(names or (), json=json)
