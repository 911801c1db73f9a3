"""Published numbers: whole, with their encoder, and beside what they can be compared with."""

from __future__ import annotations

import statistics

import pytest

from crossner_cli.methods.contract import method_names
from crossner_cli.reports.measured import Provenance
from crossner_cli.reports.published import PAPERS, RELABELLED, ROW, mark_comparable, published_results


def made(method: str, regime: str = "finetune", corpus_share: float = 0.0) -> Provenance:
    return Provenance("run", "finetune", "x", "music", method, "minilm", "base", regime, 100, corpus_share, {}, {})


def test_every_number_names_its_encoder_and_means_are_those_of_the_five_domains() -> None:
    numbers = published_results()
    assert set(numbers["paper"]) == set(PAPERS)
    assert len(numbers) > 350 and numbers["encoder"].all() and numbers["value"].between(0, 100).all()
    assert not numbers.duplicated([*ROW, "target"]).any()
    means = 0
    for row, values in numbers.groupby(ROW):
        by_target = dict(zip(values["target"], values["value"], strict=True))
        if "average" in by_target:
            means += 1
            five = statistics.fmean(by_target[name] for name in RELABELLED)
            # One printed mean is off by more than rounding: LANER's ablation without label context.
            assert by_target["average"] == pytest.approx(five, abs=0.08 if row[3] == "BERT; w/o LC" else 0.025)
    assert means >= 40
    by_type = published_results(["music:song"])
    assert len(by_type) == 4 and set(by_type["table"]) == {"Table 4"}


def test_printed_rows_name_methods_and_regimes_that_there_are() -> None:
    numbers = published_results()
    assert set(numbers["method"]) - {""} <= set(method_names())
    assert set(numbers["regime"]) == {"", "finetune", "pretrain-source > finetune", "joint-train"}
    assert set(numbers["adapted"]) == {"yes", "no"}
    for printed, method in (
        ("BERT tagger", "linear"),
        ("MULTITASK(NER+LM)", "cross-domain-lm"),
        ("Flair", "bilstm-crf"),
        ("BiLSTM-CRF w/ MTL and MoEE", "moee"),
        ("BERT-BASE", ""),
    ):
        assert set(numbers[numbers["printed"] == printed]["method"]) == {method}


def test_rows_are_comparable_where_method_regime_and_adaptation_were_measured() -> None:
    rows = published_results(["music"])

    def comparable(*measured: Provenance) -> set[tuple[str, str]]:
        found = rows[mark_comparable(rows, measured)]
        return set(zip(found["printed"], found["variant"], strict=True))

    assert comparable(made("linear")) == {
        ("BERT tagger", "directly fine-tune; w/o DAPT"),
        ("BERT-tagger", "w/o LB+LC"),
        ("BERT tagger (w/o DAPT)", "in-domain training only"),
    }
    adapted = comparable(made("laner", corpus_share=1.0))
    assert {("LANER", "DAPT; LB+LC"), ("LANER", "BERT; LB+LC")} <= adapted
    assert not rows[(rows["adapted"] == "yes") & rows["encoder"].str.startswith("GloVe")].size
    assert len(comparable()) == len(rows.drop_duplicates(["printed", "variant"]))
