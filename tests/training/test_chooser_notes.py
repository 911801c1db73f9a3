"""What is told of a training that got nothing right: what would give it more, and nothing that would not."""

from __future__ import annotations

from typing import Any

import pytest

from crossner_cli.data.sentences import Sentence
from crossner_cli.options import Finetune
from crossner_cli.training.chooser_notes import note_on_epochs


@pytest.mark.parametrize(
    ("options", "steps", "way_out"),
    [
        ({"epochs": 2}, [5, 10], "more --epochs"),
        ({"epochs": 9, "patience": 2}, [5, 10], "more --patience"),
        ({"epochs": 9, "patience": 2, "max_steps": 10}, [5, 10], "more --max-steps than 10"),
        ({"epochs": 9, "max_steps": 7}, [5, 7], "more --max-steps than 7"),
        ({"epochs": 2, "max_steps": 11}, [5, 10], "more --epochs"),
    ],
)
def test_what_ended_a_training_that_got_nothing_right_is_named(
    options: dict[str, Any], steps: list[int], way_out: str
) -> None:
    history = [{"score": 0.0, "step": step} for step in steps]
    (note,) = note_on_epochs(history, [Sentence(("Anna",), ("B-PER",), "news")], ["PER"], Finetune(**options))
    assert f"the last is kept: {way_out}, or a higher --head-learning-rate" in note
