"""What is shown at the end of ``evaluate``: scores side by side, by type, and how far they are to be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossner_cli import figures
from crossner_cli.reports.blocks import WARNING, Block, Line, Table, heading, renamed, short_names
from crossner_cli.reports.comparison_tables import comparison_tables
from crossner_cli.run.directory import Manifest

DECODINGS = {"legal": "legal tag sequences", "any": "any tag sequence"}


def evaluation_tables(manifest: Manifest) -> list[Block]:
    """Scores of models side by side, over all entities and by type."""
    shown = short_names(manifest["result"]["models"])
    models = {shown[label]: model for label, model in manifest["result"]["models"].items()}
    result = {**manifest["result"], "models": models}
    place = " ".join(part for part in (result["domain"], result["split"]) if part)
    best = max(models, key=lambda label: models[label]["f1"]["mean"])
    is_best = f" (best of {len(models)}: {best})" if len(models) > 1 else ""
    lines = [f"Read as {result['mode']}, {result['tool']}: {result['repair']}"]
    if result.get("decoding", "trained") != "trained":
        lines.append(f"Decoded to {DECODINGS[result['decoding']]}, whatever the taggers were trained to give")
    lines += [f"{name} is {label}" for label, name in shown.items() if name != label]
    for label, model in models.items():
        for name, words in (("unknown_types", "types it does not know"), ("extra_types", "types these sentences lack")):
            if model[name]:
                lines.append(f"{label}: {words}: {', '.join(model[name])}")
    lines += [f"{WARNING}{warning}" for warning in result["warnings"]]
    comparisons = result.get("comparisons", [])
    return [
        *(
            comparison_tables(renamed(comparisons, ("model", "against"), shown), "comparisons in scores.json")
            if comparisons
            else []
        ),
        Line(f"F1 {_spread(models[best]['f1'])} on {place}{is_best}", is_headline=True),
        _scores(
            models, f"{place}: {figures.count(result['sentences'])} sentences, {figures.count(result['words'])} words"
        ),
        _type_scores(models),
        *_reliability(models, result["split"]),
        *_fine_grained(result),
        *map(Line, lines),
    ]


def _fine_grained(result: Mapping[str, Any]) -> list[Block]:
    """What ``--fine-grained`` adds, where it was asked for."""
    if result.get("fine_grained") is None:
        return []
    from crossner_cli.reports.fine_grained_tables import fine_grained_blocks

    return fine_grained_blocks(result)


def _spread(average: Mapping[str, float | None]) -> str:
    return figures.spread(average["mean"], average["deviation"])


def _scores(models: Mapping[str, Any], title: str) -> Table:
    other = next(iter(models.values()))["other_mode"]["mode"]
    averages = (("F1", "f1"), ("precision", "precision"), ("recall", "recall"), ("macro F1", "macro_f1"))
    counts = (
        ("repaired tags", "repaired"),
        ("repaired tags in gold", "illegal_in_gold"), ("unreadable words", "unreadable_words"),
        ("shortened words", "shortened_words"), ("words without vector", "unknown_words"),
        ("discarded sequences", "discarded_sequences"),
        ("words/s", "words_per_second"),
    )  # fmt: skip
    rows = [
        *((words, *(_spread(model[name]) for model in models.values())) for words, name in averages),
        (f"F1 if {other}", *(_spread(model["other_mode"]["f1"]) for model in models.values())),
        ("seeds", *(figures.count(len(model["seeds"])) for model in models.values())),
        ("entities", *(figures.count(model.get("support", 0)) for model in models.values())),
        *((words, *(figures.count(model.get(name, 0)) for model in models.values()))
          for words, name in counts if any(model.get(name) for model in models.values())),
    ]  # fmt: skip
    return Table(title, ("score", *map(heading, models)), rows)


def _type_scores(models: Mapping[str, Any]) -> Table:
    by_label = {label: {row["type"]: row for row in model["per_type"]} for label, model in models.items()}
    supports: dict[str, int] = {}
    for types in by_label.values():
        for name, row in types.items():
            supports[name] = max(supports.get(name, 0), row["support"])
    names = sorted(supports, key=lambda name: (-supports[name], name))
    # One model leaves room for what its F1 is made of.
    measures = ("f1", "precision", "recall") if len(models) == 1 else ("f1",)
    columns = ("F1", "precision", "recall") if len(models) == 1 else tuple(map(heading, models))
    rows = [
        (name, figures.count(supports[name]), *(
            figures.score(types[name][measure] if name in types else None)
            for types in by_label.values() for measure in measures
        ))
        for name in names
    ]  # fmt: skip
    return Table("F1 by entity type" if len(models) > 1 else "By entity type", ("type", "entities", *columns), rows)


def _reliability(models: Mapping[str, Any], split: str | None) -> list[Block]:
    """Of each model its calibration error; of one alone, mean score and share correct in bins of the score."""
    blocks: list[Block] = []
    for label, model in models.items():
        found = model.get("reliability")
        if not found:
            continue
        before, after = found["before"], found["after"]
        rows = [
            (f"{each['from']:.1f} to {each['to']:.1f}", figures.count(each["entities"]),
             figures.score(100 * each["mean_score"]), figures.score(100 * each["share_correct"]))
            for each in (after or before)["bins"] if each["entities"]
        ]  # fmt: skip
        if len(models) == 1:
            kind = "calibrated" if after else "not calibrated"
            columns = ("score", "entities", "mean score, %", "correct, %")
            blocks.append(Table(f"Reliability of the scores of entities ({kind})", columns, rows))
        error = f"{figures.score(100 * before['ece'])} %"
        fitted_on = "these sentences" if split == "dev" else "dev"
        error += (
            f" -> {figures.score(100 * after['ece'])} % by calibration on {fitted_on}" if after else ", not calibrated"
        )
        blocks.append(Line(f"{label}: expected calibration error {error}"))
    return blocks
