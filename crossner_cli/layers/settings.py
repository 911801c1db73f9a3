"""Settings of methods: fields of a dataclass, declared with default, help and limits as options are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossner_cli.errors import CrossNERError, suggest


def setting(
    default: Any, help: str, *, minimum: float | None = None, maximum: float = math.inf, of_stage: bool = False
) -> Any:
    """Declare a setting.

    Args:
        help: The sentence that ``crossner methods`` shows.
        minimum: Smallest value allowed; None where every value of the field's type is allowed.
        of_stage: Whether it differs between the stages of a chain as a rule.
    """
    return _declare(default, help, (minimum, maximum), of_stage=of_stage)


def input_setting(default: Any, help: str, *, minimum: float | None = None) -> Any:
    """Declare a setting that says what a training reads; a trained tagger does without, and does not keep it."""
    return _declare(default, help, (minimum, math.inf), kept=False)


def rate(default: float, help: str) -> Any:
    """Declare a setting that is a dropout rate, in [0, 1)."""
    return _declare(default, help, (None, 1), is_rate=True)


def _declare(default: Any, help: str, limits: tuple[float | None, float], **more: bool) -> Any:
    metadata = {"help": help, "limits": limits, "is_rate": False, "kept": True, "of_stage": False, **more}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """Base of the settings of a method.

    Raises:
        CrossNERError: A value is outside the limits that its field declares.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, (minimum, maximum) = getattr(self, field.name), field.metadata["limits"]
            if field.metadata["is_rate"]:
                check_rate(value, field.name)
            elif minimum is not None:
                check_range(field.name, value, minimum, maximum)


def kept_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that a trained tagger keeps, by name."""
    return {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings) if each.metadata["kept"]}


def settings_to_compare(settings: Settings) -> dict[str, Any]:
    """Return the settings, by name, that the stages of a chain have in common as a rule."""
    chosen = {each.name for each in dataclasses.fields(settings) if not each.metadata["of_stage"]}
    return {name: value for name, value in kept_settings(settings).items() if name in chosen}


def split_setting(text: str) -> tuple[str, str]:
    """Split ``key=value`` into the name of a setting and its value."""
    key, _, value = text.partition("=")
    return key.strip().replace("-", "_"), value.strip()


def check_setting_name(text: str, known: Mapping[str, Any]) -> None:
    """Refuse a ``key=value`` whose key is not one of the settings, given with their defaults."""
    key, _ = split_setting(text)
    if key not in known:
        defaults = ", ".join(f"{name}={default}" for name, default in known.items()) or "none"
        hint = f"{suggest(key, known)}Settings and defaults: {defaults}."
        raise CrossNERError(f"--set {text!r}: this method has no setting {key!r}.", hint=hint)


def check_rate(rate: float, name: str = "dropout") -> None:
    """Refuse a dropout rate outside [0, 1)."""
    if not 0 <= rate < 1:
        raise CrossNERError(
            f"A dropout rate of {rate} ({name}) is not in [0, 1).", hint=f"Give a share, as --set {name}=0.1."
        )


def check_range(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Refuse a setting that is not a finite number from ``least`` to ``most``."""
    if not (least <= value <= most and math.isfinite(value)):
        wanted = f"at least {least}" if most == math.inf else f"from {least} to {most}"
        raise CrossNERError(f"{name}={value} is not {wanted}.", hint=f"Give a number {wanted}: --set {name}={least}.")


def check_layers(layers: int, generator: str) -> None:
    """Refuse several layers of a BiLSTM whose parameters are generated."""
    if layers > 1 and generator != "none":
        raise CrossNERError(
            f"lstm_layers={layers} needs generator=none: parameters are generated for one layer only.",
            hint="Set lstm_layers=1 or generator=none.",
        )
