"""Numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_cli import figures


@given(st.floats(min_value=0, max_value=10**7))
def test_durations_read_back_to_the_second(seconds: float) -> None:
    parts = [int(part) for part in figures.duration(seconds).split(":")]
    hours, minutes, rest = [0] * (3 - len(parts)) + parts
    assert hours * 3600 + minutes * 60 + rest == round(seconds)
    assert minutes < 60 and rest < 60


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (figures.duration(41.2), "0:41"),
        (figures.duration(None), "–"),
        (figures.duration(float("inf")), "–"),
        (figures.score(61.196), "61.20"),
        (figures.score(None), "–"),
        (figures.spread(61.2, 0.4), "61.20 ± 0.40"),
        (figures.spread(61.2, None), "61.20"),
        (figures.count(1234567), "1,234,567"),
        (figures.percent(1, 0), "–"),
        (figures.value("loss", 1.0), "loss 1.000"),
        (figures.value("loss", float("nan")), "loss nan"),
        (figures.value("learning_rate", 0.00005), "learning_rate 5.0e-05"),
        (figures.value("dev_f1", 100.0), "dev_f1 100.00"),
        (figures.value("epoch", 3.0), "epoch 3"),
        (figures.value("words/s", 2950.4), "2,950 words/s"),
        (figures.amount(1234, 5000, "updates"), "1,234/5,000 updates"),
        (figures.amount(1_200_000, 3_400_000_000, "bytes"), "0.0/3.4 GB"),
        (figures.amount(10, 999, "bytes"), "10/999 bytes"),
        (figures.amount(10, None, "files"), "10 files"),
    ],
)
def test_numbers_read_alike_everywhere(found: str, wanted: str) -> None:
    assert found == wanted
