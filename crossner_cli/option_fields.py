"""An option: one field that is the flag, its help, its limits, its published value and its entry in the manifest."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from crossner_cli.errors import CrossNERError
from crossner_cli.run.stage import StageRequest

NOT_PUBLISHED: Any = object()
LARGEST_SEED = 2**32 - 1
# Groups of the help that come last, below those of a command's own options.
DEVICE, EVERY_COMMAND = "Device", "Every command"
ARGUMENTS, OPTIONS, LAST = "Arguments", "Options", (DEVICE, EVERY_COMMAND)
# Names of stdout, and of streams that are open already.
STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
STREAMS = ("/dev/fd/", "/proc/self/fd/", "/dev/stderr")


def option(
    default: Any,
    help: str,
    *flags: str,
    minimum: float | None = None,
    maximum: float | None = None,
    paper: Any = NOT_PUBLISHED,
    panel: str | None = None,
    envvar: str | None = None,
    argument: bool = False,
    counts: bool = True,
    needs: str | tuple[str, ...] = (),
) -> Any:
    """Declare one option.

    Args:
        default: Value without the flag; a list is copied for each command.
        help: The text of ``--help``; its first sentence says what the option is.
        flags: Spelling, if it is not the field's name.
        minimum: Smallest value allowed.
        maximum: Largest value allowed.
        paper: The published value, which ``--paper`` takes unless the flag is given.
        panel: Group in the help; options without one come first.
        envvar: Environment variable that gives the default.
        argument: A positional argument instead of a flag.
        counts: True if another value makes another result; else the option is not compared when a stage is repeated.
        needs: Options, by field name, without any of which this one has no effect and is refused; ``encoder=strings``
            needs this value, ``encoder!=strings`` any other.
    """
    typer = {
        "help": help if paper is NOT_PUBLISHED else f"{help} Paper: {paper}.",
        "min": minimum,
        "max": maximum,
        "rich_help_panel": panel,
        "envvar": envvar,
    }
    needed = (needs,) if isinstance(needs, str) else needs
    metadata = {"typer": typer, "flags": flags, "paper": paper, "argument": argument, "counts": counts, "needs": needed}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Command:
    """The options of every command."""

    command: ClassVar[str]  # its name
    makes_stage: ClassVar[bool] = True
    takes_name: ClassVar[bool] = True  # for its stage
    makes_taggers: ClassVar[bool] = False  # one per seed, in its stage
    replaces: ClassVar[bool] = False  # work with other options or inputs than before, without --force

    run: Path = option(Path("run"), "Run directory.", panel=EVERY_COMMAND, envvar="CROSSNER_RUN", counts=False)
    name: str | None = option(
        None, "Folder of this stage in the run; default: the command's name.", panel=EVERY_COMMAND, counts=False
    )
    force: bool = option(False, "Do it again and replace what is there.", panel=EVERY_COMMAND, counts=False)
    quiet: bool = option(False, "Print errors and warnings only.", panel=EVERY_COMMAND, counts=False)
    verbose: bool = option(False, "Print every step, and where a problem arose.", panel=EVERY_COMMAND, counts=False)
    json: bool = option(
        False,
        "Print the result as one JSON object on stdout, or on stderr if stdout is for data.",
        panel=EVERY_COMMAND,
        counts=False,
    )

    @property
    def has_data_on_stdout(self) -> bool:
        """Return whether stdout is for data, so that results go to stderr."""
        return False

    @property
    def is_resumable(self) -> bool:
        """Return whether the same command continues after an interruption."""
        return True

    @property
    def needs_device(self) -> bool:
        """Return whether the command computes with a model."""
        return False

    def record(self) -> dict[str, Any]:
        """Record the options that make a result, as JSON values, for manifests and for repeated commands."""
        return {
            field.name: to_json(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.metadata["counts"]
        }

    def given(self, name: str) -> list[str]:
        """Write an option as on a command line; nothing if it has its default value."""
        field = next(field for field in dataclasses.fields(self) if field.name == name)
        value = getattr(self, name)
        if value == default_of(field):
            return []
        if value is True:
            return [flag_of(field)]
        return [
            part for each in (value if isinstance(value, list) else [value]) for part in (flag_of(field), str(each))
        ]

    @classmethod
    def arguments_of(cls, record: Mapping[str, Any]) -> list[str]:
        """The arguments of a command line that gives the options of a record."""
        known = [field.name for field in fields_in_order(cls) if field.metadata["counts"] and field.name in record]
        return cls(**{name: record[name] for name in known}).arguments()

    def arguments(self) -> list[str]:
        """The arguments of a command line that gives these options."""
        return [part for field in fields_in_order(type(self)) for part in self.given(field.name)]

    def check_needs(self) -> None:
        """Refuse an option that has no effect because of another one, and a number that is not finite."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise CrossNERError(f"{flag_of(field)} {value} is not a finite number.", hint="Give a number, as 0.1.")
            needs = field.metadata["needs"]
            if needs and (written := shlex.join(self.given(field.name))) and not any(map(self._has, needs)):
                named = [f"--{need.replace('_', '-').replace('!=', ' ').replace('=', ' ')}" for need in needs]
                missing = f"{'with' if '!=' in needs[0] else 'without'} {' or '.join(named)}"
                add = "" if "!=" in needs[0] else f"Add {' or '.join(named)}, or leave"
                hint = f"{add or 'Leave'} {flag_of(field)} out."
                raise CrossNERError(f"{written} has no effect {missing}.", hint=hint)

    def _has(self, need: str) -> bool:
        if "!=" in need:
            name, _, value = need.partition("!=")
            return str(getattr(self, name)) != value
        name, _, value = need.partition("=")
        return str(getattr(self, name)) == value if value else bool(self.given(name))

    def stage_request(self, inputs: Mapping[str, str]) -> StageRequest:
        """Make the request of a command with these options to a run directory, from the digests of its inputs."""
        return StageRequest(
            self.command,
            self.record(),
            inputs,
            self.name,
            self.force,
            {field.name: to_json(default_of(field)) for field in dataclasses.fields(self)},
            replaces=self.replaces,
            makes_taggers=self.makes_taggers,
        )


@dataclass(frozen=True, kw_only=True)
class OnDevice(Command):
    """The options of devices."""

    device: str = option("auto", "Device: auto, cpu, cuda, cuda:N or mps.", panel=DEVICE, counts=False)
    gpus: str | None = option(
        None, "GPUs of this machine, as 0,2,3; one process runs on each.", panel=DEVICE, counts=False
    )
    threads: int | None = option(
        None,
        "CPU threads; default: OMP_NUM_THREADS, else all cores.",
        minimum=1,
        maximum=1024,
        panel=DEVICE,
        counts=False,
    )


@dataclass(frozen=True, kw_only=True)
class Compute(OnDevice):
    """The options of every command that computes."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = option(
        "auto", "Number format; auto is bf16 if the hardware has it, else fp32.", panel=DEVICE
    )
    seed: int = option(1, "Seed of all random choices.", minimum=0, maximum=LARGEST_SEED, panel=DEVICE)

    @property
    def needs_device(self) -> bool:
        """Return whether the command computes with a model."""
        return True


@dataclass(frozen=True, kw_only=True)
class ComputeTags(Compute):
    """The options of every command that tags."""

    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = option(  # type: ignore[assignment]  # one more
        "auto",
        "Number format; auto is bf16 if the hardware has it, else fp32. int8 is the fastest on a CPU, and may lose some"
        " tenths of F1.",
        panel=DEVICE,
    )


def fields_in_order(options_type: type[Command]) -> list[Any]:
    """Return the fields of a command in the order of its help: its own options first, those of all commands last."""
    is_named = options_type.makes_stage and options_type.takes_name
    own = [each for each in dataclasses.fields(options_type) if each.name != "name" or is_named]
    groups = list(dict.fromkeys(map(group_of, own)))
    order = [ARGUMENTS, OPTIONS, *(group for group in groups if group not in LAST), *LAST]
    return sorted(own, key=lambda field: order.index(group_of(field)))


def group_of(field: Any) -> str:
    """Return the group of an option in the help."""
    return ARGUMENTS if field.metadata["argument"] else field.metadata["typer"]["rich_help_panel"] or OPTIONS


def flag_of(field: Any) -> str:
    """Return the flag of an option."""
    flag: str = next(iter(field.metadata["flags"]), f"--{field.name.replace('_', '-')}")
    return flag


def default_of(field: Any) -> Any:
    """Return the default value of an option."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def to_json(value: Any) -> Any:
    """Turn the value of an option into a JSON value."""
    if isinstance(value, Path):
        return str(value)
    return [to_json(item) for item in value] if isinstance(value, list) else value


def resolve_output(path: Path | None) -> Path | None:
    """Return the path of an output, links followed so that they stay; None for stdout."""
    if path is None or str(path) in STDOUT:
        return None
    return path.resolve() if path.is_symlink() and not is_stream(path) else path


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a device, or a stream that is open already: it cannot be replaced."""
    return str(path).startswith(STREAMS) or (path.exists() and not path.is_file() and not path.is_dir())
