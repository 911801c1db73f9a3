"""The command line: the commands and their work."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import signal
import sys
import typing
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crossner_cli import __version__
from crossner_cli.command_group import CommandGroup, CommandHelp
from crossner_cli.engine.processes import end_one_of_several, limit_spinning
from crossner_cli.errors import IS_STEP, known_problems
from crossner_cli.option_fields import NOT_PUBLISHED, Command, Compute, fields_in_order, flag_of
from crossner_cli.options import Optimisation, Rerun, Status
from crossner_cli.options_adapt import Adapt
from crossner_cli.options_data import PrepareData
from crossner_cli.run.directory import RunDirectory
from crossner_cli.stages.table import STAGES

if TYPE_CHECKING:
    from crossner_cli.engine.devices import Engine
    from crossner_cli.run.directory import Manifest
    from crossner_cli.run.progress import Work

Options = TypeVar("Options", bound=Command)

MOST_CHOICES = 8  # choices that a placeholder of the help lists

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help takes half the time, and its columns are never cut
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command that ``sys.argv`` holds."""
    limit_spinning()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a scheduler that stops the command acts for the user
    for stream in (sys.stdout, sys.stderr):  # an ASCII terminal gets ? for what it cannot show, never a traceback
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    with known_problems(Command()):  # problems of help and of the command line; a command handles its own
        try:
            app(prog_name="crossner")
        except SystemExit as end:
            end_one_of_several(end.code)
            raise


def add_flags(options_type: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Give a command a flag per field of its options, their docstring as help, and the boundary for errors."""

    def decorate(body: Callable[[Options], None]) -> Callable[..., None]:
        def command(context: typer.Context, **values: Any) -> None:
            given = options_type(**values)
            options = with_published(given, context)
            with known_problems(options):
                given.check_needs()
                body(options)

        hints = typing.get_type_hints(options_type)
        flags = [to_parameter(field, hints[field.name]) for field in fields_in_order(options_type)]
        context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        vars(command)["__signature__"] = Signature([context, *flags])
        vars(command)["options_type"] = options_type
        command.__doc__ = cleandoc(options_type.__doc__ or "").replace("``", "")
        return command

    return decorate


def to_parameter(field: dataclasses.Field[Any], hint: Any) -> Parameter:
    """Make the flag or argument that an options field declares."""
    kind = typer.Argument if field.metadata["argument"] else typer.Option
    flags = field.metadata["flags"]
    if hint is bool and field.metadata["paper"] is not True:
        flags = (flag_of(field),)  # a switch has a --no- form only if --paper may have set it
    declared = kind(
        *flags,
        **field.metadata["typer"],
        metavar=field.name.upper() if field.metadata["argument"] else find_metavar(hint),
    )
    default = [] if field.default is dataclasses.MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, declared])


def find_metavar(hint: Any) -> str | None:
    """Find the placeholder of a value in the help; None leaves it to Typer, which lists choices.

    Many choices are left to the text of the help.
    """
    names = {Path: "<path>", int: "<int>", float: "<float>", str: "<text>"}
    kinds = [hint, *typing.get_args(hint)]
    if len(kinds) > MOST_CHOICES:
        return "<name>"
    return next((name for kind, name in names.items() if kind in kinds), None)


def with_published(options: Options, context: typer.Context) -> Options:
    """With ``--paper``, take the published value of every option and setting that is not on the command line."""
    if not getattr(options, "paper", False):
        return options
    own: Mapping[str, Any] = {}
    published: dict[str, Any] = {}
    if isinstance(options, Optimisation):
        own, settings = paper_of(options)
        published["settings"] = [*settings, *options.settings]
    for field in dataclasses.fields(options):
        source = context.get_parameter_source(field.name)
        value = own.get(field.name, field.metadata["paper"])
        if value not in (NOT_PUBLISHED, None) and (source is None or source.name != "COMMANDLINE"):
            published[field.name] = value
    return dataclasses.replace(options, **published)


def paper_of(options: Optimisation) -> tuple[Mapping[str, Any], list[str]]:
    """Find the options and settings of the method's paper; nothing for an unknown method."""
    from crossner_cli.methods.contract import find_method, method_names, published_settings

    if options.method not in method_names():
        return {}, []
    method, of_source = find_method(options.method), options.of_source
    return method.paper.options_for(of_source=of_source), published_settings(
        method, options.settings, of_source=of_source
    )


def start(options: Compute) -> Engine:
    """Choose the device, or start one process per GPU and exit with their status, after checks that need no model."""
    from crossner_cli import console
    from crossner_cli.stages.checks import check_early

    check_early(options, RunDirectory(options.run))
    is_told = not options.quiet and "torch" not in sys.modules
    with console.show_waiting("loading PyTorch and transformers") if is_told else contextlib.nullcontext():
        from crossner_cli.engine.devices import start_engine
        from crossner_cli.engine.processes import launch_processes

    status = launch_processes(options.gpus, sys.argv[1:])
    if status is not None:
        raise typer.Exit(status)
    return start_engine(options)


def present(work: Work[Manifest], options: Command, engine: Engine | None = None) -> None:
    """Do the work of a stage, and show its progress and its result."""
    from crossner_cli import console

    is_main = engine is None or engine.is_main
    to_stderr = options.has_data_on_stdout
    bars = not (to_stderr and sys.stdout.isatty())
    manifest = console.follow(work, quiet=options.quiet or not is_main, verbose=options.verbose, bars=bars)
    if is_main and (options.json or not options.quiet):
        from crossner_cli.stages.status import suggest_next

        step = None
        if not options.json and IS_STEP not in os.environ:
            result = STAGES[options.command].read_result(manifest)
            step = suggest_next(RunDirectory(options.run)) if "outputs" in manifest else getattr(result, "next", None)
        console.show_manifest(manifest, run=options.run, step=step, json=options.json, to_stderr=to_stderr)
    elif is_main:
        console.show_warnings(manifest)


def run_stage(options: Command) -> None:
    """Do the work of a command of the table: its module is imported once the device is chosen."""
    if isinstance(options, PrepareData) and options.list_known:
        show_known_domains(json=options.json)
        return
    engine = start(options) if isinstance(options, Compute) and options.needs_device else None
    work = STAGES[options.command].load_run()(RunDirectory(options.run), options, *([engine] if engine else []))
    present(work, options, engine)


def execute(arguments: list[str]) -> Any:
    """Run the command that these arguments of a command line give in this process, as a step of another command."""
    return app(arguments, prog_name="crossner", standalone_mode=False)


def show_known_domains(*, json: bool) -> None:
    """Show the data sets known by name."""
    from crossner_cli import console
    from crossner_cli.data.domains import bundled_domains, known_domains
    from crossner_cli.reports.tables import known_domain_tables

    known, bundled = known_domains(), bundled_domains()
    record = {name: dataclasses.asdict(domain) for name, domain in known.items()}
    console.show(known_domain_tables(known, bundled), {"known": record, "bundled": list(bundled)}, json=json)


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
    """Take a named-entity tagger to a new domain. Each command is one stage of a run."""


def declare(options_type: type[Options], title: str, body: Callable[[Options], None]) -> None:
    """Declare a command by its options, with its line in the list of commands."""
    app.command(options_type.command, cls=CommandHelp, short_help=title)(add_flags(options_type)(body))


def adapt(options: Adapt) -> None:
    """Take a tagger to a new domain: all of the stages below in one command."""
    from crossner_cli import console
    from crossner_cli.stages import adapt as stage

    run, is_shown = RunDirectory(options.run), not options.quiet and not options.json
    steps = console.follow(stage.plan(run, options), quiet=options.quiet, verbose=options.verbose)
    blocks = stage.describe_plan(steps)
    if options.plan:
        console.show(blocks, {"commands": [step.line for step in steps]}, json=options.json)
        return
    if is_shown:
        console.show(blocks, {}, json=False)
    record = stage.run(run, options, steps, execute)
    if options.json or not options.quiet:
        console.show(stage.describe_result(run, record), record, json=options.json)


def status(options: Status) -> None:
    """Show a run, what is out of date, and the next command."""
    from crossner_cli import console
    from crossner_cli.stages import status as stage

    blocks, record = stage.run(RunDirectory(options.run))
    console.show(blocks, record, json=options.json)


def rerun(options: Rerun) -> None:
    """Make again what is out of date."""
    from crossner_cli import console
    from crossner_cli.reports.blocks import Block, Line
    from crossner_cli.stages import rerun as stage

    record = stage.run(RunDirectory(options.run), options, execute)
    made = len(record["commands"]) - 1
    blocks: list[Block] = [Line(f"{made} of the stages were out of date." if made else "Nothing was out of date.")]
    for name in record["kept"]:
        again = name.removesuffix("-previous")
        blocks.append(Line(f"Compare: crossner evaluate --model {name} --model {again} --run {options.run}"))
    if options.json or not options.quiet:
        console.show(blocks, record, json=options.json)


declare(Adapt, "Take a tagger to a new domain: all of the stages below in one command.", adapt)
for kind in STAGES.values():
    declare(kind.options, kind.title, run_stage)
declare(Status, "Show a run, what is out of date, and the next command.", status)
declare(Rerun, "Make again what is out of date.", rerun)


@app.command("methods", cls=CommandHelp)
def methods(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Methods to explain.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the tagging methods, or explain some."""
    from crossner_cli import console
    from crossner_cli.reports.methods import describe_methods, method_details, method_tables

    with known_problems(Command(json=json)):
        facts = describe_methods(names or ())
        blocks = [block for one in facts for block in method_details(one)] if names else method_tables(facts)
        console.show(blocks, {"methods": [dataclasses.asdict(one) for one in facts]}, json=json)
