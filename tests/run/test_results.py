"""Results read back from manifests."""

from dataclasses import asdict
from typing import Any

import pytest

from crossner_cli.errors import CrossNERError
from crossner_cli.run.records import read_result
from crossner_cli.run.results import PrepareDataResult, SeedScores

COUNTS = {"sentences": 3, "words": 9, "longest_sentence": 5, "entities": 2}
PREPARED: dict[str, Any] = {
    "domains": {
        "target": {
            "name": "music",
            "types": ["band"],
            "found_scheme": "bio",
            "origins": {"train": "folder"},
            "splits": {"train": COUNTS},
        }
    },
    "statistics": {"anything": [1, None]},
    "repairs": {"target": {"odd tags": 1}},
    "corpus": {},
    "source_corpus": {},
    "warnings": ["mind the gap"],
    "known_warnings": ["seen before"],
    "renamed": {"wiki": {"PER": "person"}},
}


def test_a_result_is_read_as_it_was_written_and_what_has_a_default_may_be_missing() -> None:
    found = read_result({"name": "prepare-data", "result": PREPARED}, PrepareDataResult)
    assert found.domains["target"].splits["train"].words == 9
    assert asdict(found) == PREPARED
    scores = {"precision": 1, "recall": 1.0, "f1": 1.0, "macro_f1": 1.0, "per_type": {}, "support": 1, "sentences": 1}
    scores |= {"repaired": 0, "illegal_in_gold": 0, "mode": "conll", "other_mode_f1": 1.0, "more": "is ignored"}
    assert read_result({"result": scores}, SeedScores).seconds is None


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"warnings": None}, "result.warnings is None"),
        ({"domains": {"target": {"name": "x"}}}, "result.domains.target.types is missing"),
        ({"repairs": {"target": {"odd": "1"}}}, "result.repairs.target.odd is '1'"),
    ],
)
def test_a_broken_or_missing_result_is_named(broken: dict[str, Any], told: str) -> None:
    with pytest.raises(CrossNERError, match="'prepare-data' is broken") as refused:
        read_result({"name": "prepare-data", "result": {**PREPARED, **broken}}, PrepareDataResult)
    assert told in refused.value.problem
    with pytest.raises(CrossNERError, match="result is missing"):
        read_result({"name": "prepare-data"}, PrepareDataResult)
