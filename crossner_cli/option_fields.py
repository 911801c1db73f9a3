"""What an option is: a field that is at once the flag, its help, its limits and the manifest entry."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_cli.errors import CrossNERError

if TYPE_CHECKING:
    from crossner_cli.run.stage import StageRequest

NOT_PUBLISHED: Any = object()
EVERY_COMMAND = "Every command"


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
) -> Any:
    """Declare one option.

    Args:
        default: Value without the flag; a list type gets a fresh list.
        help: The sentence shown by ``--help``.
        flags: Spelling where it is not the field's own name.
        minimum: Smallest value allowed.
        maximum: Largest value allowed.
        paper: The published value, taken by ``--paper`` unless the flag is given.
        panel: Group in the help.
        envvar: Environment variable that gives the default.
        argument: A positional argument instead of a flag.
        counts: Whether another value makes another result; if not, it is left out of the comparison of options.
    """
    metadata = {
        "typer": {
            "help": help if paper is NOT_PUBLISHED else f"{help} Paper: {paper}.",
            "min": minimum, "max": maximum, "rich_help_panel": panel, "envvar": envvar,
        },
        "flags": flags, "paper": paper, "argument": argument, "counts": counts,
    }  # fmt: skip
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Command:
    """What every command takes."""

    run: Path = option(Path("run"), "The run directory.", panel=EVERY_COMMAND, envvar="CROSSNER_RUN", counts=False)
    name: str | None = option(
        None,
        "Folder of this stage in the run, of commands that make one; default: the command's name.",
        panel=EVERY_COMMAND,
        counts=False,
    )
    force: bool = option(
        False, "Do the stage again, replacing its folder.", "--force", panel=EVERY_COMMAND, counts=False
    )
    quiet: bool = option(False, "Say nothing but errors.", "--quiet", panel=EVERY_COMMAND, counts=False)
    verbose: bool = option(False, "Say more.", "--verbose", panel=EVERY_COMMAND, counts=False)
    json: bool = option(
        False, "One machine-readable result on stdout, all else on stderr.", "--json",
        panel=EVERY_COMMAND, counts=False,
    )  # fmt: skip

    def record(self) -> dict[str, Any]:
        """The options that make a result, as JSON values: what a manifest keeps and a repeated command compares."""
        return {
            field.name: to_json(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.metadata["counts"]
        }

    def given(self, name: str) -> str | None:
        """An option as it is written on a command line; None where it has the value that it has without its flag."""
        field = next(field for field in dataclasses.fields(self) if field.name == name)
        value = getattr(self, name)
        if value == _default(field):
            return None
        flag: str = next(iter(field.metadata["flags"]), f"--{name.replace('_', '-')}")
        if value is True:
            return flag
        return " ".join(f"{flag} {each}" for each in (value if isinstance(value, list) else [value]))

    def unread(self, reasons: Mapping[str, str]) -> list[str]:
        """A line on each of these options that was given and changes nothing, with the reason."""
        given = ((flag, reason) for name, reason in reasons.items() if (flag := self.given(name)) is not None)
        return [f"{flag} is not read: {reason}." for flag, reason in given]

    def stage_request(self, command: str, inputs: Mapping[str, str]) -> StageRequest:
        """What a command with these options asks of a run directory.

        Args:
            command: The command, as ``finetune``.
            inputs: Digest of everything that the result depends on, by name.
        """
        from crossner_cli.run.stage import StageRequest

        return StageRequest(command, self.record(), inputs, self.name, self.force, self.defaults())

    def refuse_name(self, command: str) -> None:
        """Refuse ``--name`` of a command that makes no stage.

        Raises:
            CrossNERError: It was given.
        """
        if self.name is not None:
            raise CrossNERError(f"--name names a stage's folder, and {command} makes none.", hint="Use --output.")

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The defaults of the options that ``record`` gives, as it gives them."""
        return {field.name: to_json(_default(field)) for field in dataclasses.fields(cls) if field.metadata["counts"]}


def _default(field: Any) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def to_json(value: Any) -> Any:
    """Turn an option's value into what JSON can hold."""
    if isinstance(value, Path):
        return str(value)
    return [to_json(item) for item in value] if isinstance(value, list) else value
