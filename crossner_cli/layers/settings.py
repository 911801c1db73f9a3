"""Checks of settings that several methods share."""

from __future__ import annotations

import math

from crossner_cli.errors import CrossNERError


def check_rate(rate: float, name: str = "dropout") -> None:
    """Refuse a dropout rate outside [0, 1).

    Raises:
        CrossNERError: The rate is not in [0, 1).
    """
    if not 0 <= rate < 1:
        raise CrossNERError(
            f"A dropout rate of {rate} ({name}) is not in [0, 1).", hint=f"Give a share, as --set {name}=0.1."
        )


def check_range(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Refuse a setting that is not a finite number from ``least`` to ``most``.

    Raises:
        CrossNERError: It is not.
    """
    if not (least <= value <= most and math.isfinite(value)):
        wanted = f"at least {least}" if most == math.inf else f"from {least} to {most}"
        raise CrossNERError(f"{name}={value} is not {wanted}.", hint=f"Give a number {wanted}: --set {name}={least}.")


def check_lstm(layers: int, size: int, dropout: float, *, fewest: int) -> None:
    """Check the settings of a BiLSTM.

    Args:
        layers: Number of layers.
        size: Units of one direction.
        dropout: Share of values dropped.
        fewest: Smallest number of layers allowed.

    Raises:
        CrossNERError: One of them is out of range.
    """
    check_rate(dropout)
    check_range("lstm_layers", layers, fewest)
    check_range("lstm_size", size, 1)


def check_layers(layers: int, generator: str) -> None:
    """Check the number of layers of a BiLSTM whose parameters may be generated.

    Raises:
        CrossNERError: There is no layer, or there are several and ``generator`` is not none.
    """
    check_range("lstm_layers", layers, 1)
    if layers > 1 and generator != "none":
        raise CrossNERError(
            f"lstm_layers={layers} needs generator=none: parameters are generated for one layer only.",
            hint="Set lstm_layers=1 or generator=none.",
        )
