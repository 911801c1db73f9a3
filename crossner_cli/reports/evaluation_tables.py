"""Tables at the end of ``evaluate``: scores side by side and by type, their reliability, and comparisons of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from crossner_cli import figures
from crossner_cli.evaluation.verdict import describe_verdict
from crossner_cli.reports.blocks import Block, Line, Row, Table, heading, renamed, short_names, warning_line
from crossner_cli.reports.fine_grained import fine_grained_blocks
from crossner_cli.run.directory import Manifest
from crossner_cli.run.results import EvaluateResult, ModelResult, Record
from crossner_cli.taggers.thresholds import PRECISIONS

DECODINGS = {"legal": "legal tag sequences", "any": "any tag sequence"}
AVERAGES = {"F1": "f1", "precision": "precision", "recall": "recall", "macro F1": "macro_f1"}
COUNTS = {
    "repaired tags": "repaired",
    "repaired tags in gold": "illegal_in_gold",
    "unreadable words": "unreadable_words",
    "shortened words": "shortened_words",
    "words without vector": "unknown_words",
    "discarded sequences": "discarded_sequences",
    "words/s": "words_per_second",
}
LEFT_TO_FILES, WEAKEST_TYPES = ("macro F1", "words/s"), 3  # of a screen
SCORES_SHOWN = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of precision and recall by score
TYPE_MEASURES = {"F1": "f1", "precision": "precision", "recall": "recall"}
Models = Mapping[str, ModelResult]


def format_average(average: Mapping[str, float | None]) -> str:
    """Write a score in percent; over several seeds with its deviation."""
    return figures.spread(average["mean"], average["deviation"])


def result_tables(result: EvaluateResult, _: Manifest | None = None, *, is_short: bool = True) -> list[Block]:
    """Show scores of models side by side, over all entities and by type, after comparisons with others.

    For a screen, numbers that are seldom looked at and long tables are left to the stage's files.
    """
    names = short_names(result.models)
    models = {names[label]: model for label, model in result.models.items()}
    place = " ".join(part for part in (result.domain, result.split) if part)
    best = max(models, key=lambda label: models[label].f1.mean or 0)
    size = f"{figures.count(result.sentences)} sentences, {figures.count(result.words)} words"
    size += ", read in int8" if result.precision == "int8" else ""
    comparisons = renamed(result.comparisons, ("model", "against"), names)
    within = [each for each in comparisons if each.get("is_within")]
    verdict = f"F1 {format_average(asdict(models[best].f1))} on {place}"
    if within:
        verdict = describe_verdict(within[0], len(models))
    others = [each for each in comparisons if not each.get("is_within")]
    blocks = comparison_tables(others, "comparisons in scores.json")
    blocks += [
        Line(verdict, is_headline=True),
        _scores(models, f"{place}: {size}", is_short=is_short),
    ]
    is_fine = models[best].fine_grained is not None
    has_intervals = models[best].intervals is not None
    if is_short and not is_fine:
        blocks.append(_type_scores(models) if has_intervals else Line(_weakest_types(best, models[best])))
    else:
        blocks += [_type_scores(models), *_recall_at(models), *_reliability(models, result.split)]
    if is_fine:
        blocks += fine_grained_blocks(models, is_short=is_short)
    lines = []
    if not is_short or is_fine or _depends_on_mode(models):
        lines.append(f"Read as {result.mode}, {result.tool}: {result.repair}")
    if result.decoding != "trained":
        lines.append(f"Decoded to {DECODINGS[result.decoding]}, whatever the taggers were trained to give")
    lines += [f"{name} is {label}" for label, name in names.items() if name != label]
    for label, model in models.items():
        if model.unknown_types:
            lines.append(f"{label}: types it does not know: {', '.join(model.unknown_types)}")
        if model.extra_types:
            lines.append(f"{label}: types these sentences lack: {', '.join(model.extra_types)}")
    if has_intervals:
        lines.append("In brackets: 95 % intervals, by bootstrap over the sentences")
    lines += result.notes
    if result.forecast:
        gain, low, high = (figures.count(result.forecast[name]) for name in ("gain", "low", "high"))
        lines.append(
            f"Forecast: about {gain} F1 more with {result.forecast['sentences']} more sentences ({low} to {high}), by a"
            f" power law: F1 {figures.score(result.forecast['half_f1'])} with half of the sentences"
        )
    return [*blocks, *map(Line, lines), *map(warning_line, result.warnings)]


def _scores(models: Models, title: str, *, is_short: bool) -> Table:
    every = list(models.values())
    rows: list[Row] = [
        (words, *(_with_interval(asdict(getattr(model, name)), model, name) for model in every))
        for words, name in AVERAGES.items()
        if not (is_short and words in LEFT_TO_FILES)
    ]
    if not is_short or _depends_on_mode(models):
        strict = (format_average(asdict(model.other_mode.f1)) for model in every)
        rows.append((f"F1 if {every[0].other_mode.mode}", *strict))
    rows.append(("seeds", *(figures.count(len(model.seeds)) for model in every)))
    rows.append(("entities", *(figures.count(model.support) for model in every)))
    for words, name in COUNTS.items():
        values = [getattr(model, name) for model in every]
        if any(values) and not (is_short and words in LEFT_TO_FILES):
            rows.append((words, *map(figures.count, values)))
    return Table(title, ("score", *map(heading, models)), rows)


def _with_interval(average: Mapping[str, float | None], model: ModelResult, name: str) -> str:
    """Write an average with its interval, if it has one."""
    interval = (model.intervals or {}).get(name)
    return format_average(average) + (f" [{interval[0]:.0f}, {interval[1]:.0f}]" if interval else "")


def _depends_on_mode(models: Models) -> bool:
    """Return whether a score changes with the other reading of tags."""
    return any(model.other_mode.f1 != model.f1 for model in models.values())


def _weakest_types(label: str, model: ModelResult) -> str:
    """Name the types with the lowest F1 of a model, and the file with all types."""
    scored = [row for row in model.per_type if row.f1 is not None and row.support]
    weakest = sorted(scored, key=lambda row: (row.f1, row.type))[:WEAKEST_TYPES]
    named = ", ".join(f"{row.type} {figures.score(row.f1)}" for row in weakest)
    return f"F1 by entity type: per_type.csv{f'; lowest of {label}: {named}' if named else ''}"


def _type_scores(models: Models) -> Table:
    by_label = {label: {row.type: row for row in model.per_type} for label, model in models.items()}
    supports: dict[str, int] = {}
    for types in by_label.values():
        for name, row in types.items():
            supports[name] = max(supports.get(name, 0), row.support)
    # One model leaves room for precision and recall.
    measures = TYPE_MEASURES if len(models) == 1 else {"F1": "f1"}
    rows: list[Row] = []
    for name in sorted(supports, key=lambda name: (-supports[name], name)):
        scores = [
            _with_interval(
                {"mean": getattr(types[name], measure), "deviation": None}, models[label], f"{measure} of {name}"
            )
            if name in types
            else figures.score(None)
            for label, types in by_label.items()
            for measure in measures.values()
        ]
        rows.append((name, figures.count(supports[name]), *scores))
    if len(models) == 1:
        return Table("By entity type", ("type", "entities", *measures), rows)
    return Table("F1 by entity type", ("type", "entities", *map(heading, models)), rows)


def _reliability(models: Models, split: str | None) -> list[Block]:
    """Show the calibration error of each model; of a single one also score and share correct in bins."""
    blocks: list[Block] = []
    for label, model in models.items():
        if model.reliability is None:
            continue
        before, after = model.reliability["before"], model.reliability["after"]
        error = f"{figures.score(100 * before['ece'])} %"
        if after:
            fitted_on = "these sentences" if split == "dev" else "dev"
            error += f" -> {figures.score(100 * after['ece'])} % by calibration on {fitted_on}"
        if len(models) == 1:
            rows = [
                (
                    f"{each['from']:.1f} to {each['to']:.1f}",
                    figures.count(each["entities"]),
                    figures.score(100 * each["mean_score"]),
                    figures.score(100 * each["share_correct"]),
                )
                for each in (after or before)["bins"]
                if each["entities"]
            ]
            columns = ("score", "entities", "mean score, %", "correct, %")
            kind = "calibrated" if after else "not calibrated"
            blocks.append(Table(f"Reliability of the scores of entities ({kind})", columns, rows))
            blocks.append(_by_score(model.reliability["curve"]))
        blocks.append(Line(f"{label}: expected calibration error {error}"))
    return blocks


def _by_score(curve: Sequence[Record]) -> Table:
    """Precision and recall of the entities that have a score or more."""
    rows: list[Row] = [
        (
            f"{each['score']:.2f}",
            *map(figures.score, (each["precision"], each["recall"])),
            figures.count(each["entities"]),
        )
        for each in curve
        if round(each["score"], 2) in SCORES_SHOWN
    ]
    return Table("Entities of a score or more", ("score", "precision", "recall", "entities"), rows)


def _recall_at(models: Models) -> list[Block]:
    """The recall that is left where only scores that have a precision are kept."""
    scored = {label: model for label, model in models.items() if model.reliability is not None}
    rows: list[Row] = [
        (label, figures.score(model.recall.mean), *map(figures.score, (model.reliability or {})["recall_at"].values()))
        for label, model in scored.items()
    ]
    columns = ("model", "recall", *(f"at precision {each}" for each in PRECISIONS))
    return [Table("Recall that a precision leaves", columns, rows, texts=(0,))] if rows else []


def comparison_tables(comparisons: Sequence[Record], details_in: str) -> list[Block]:
    """Show comparisons, one per row; a single one also by type.

    Args:
        comparisons: As ``compare_models`` makes them; none shows nothing.
        details_in: The place of the details, named if there are several.
    """
    if not comparisons:
        return []
    comparisons = [_with_full_names(each) for each in comparisons]
    # The best model against its strongest opponent; the clearest of many differences would be chosen by chance.
    best = max(comparisons, key=lambda each: (each["f1"]["mean"], each["against_f1"]["mean"]))
    blocks: list[Block] = [Line(describe_verdict(best), is_headline=True), _overview(comparisons)]
    blocks.append(_by_type(best) if len(comparisons) == 1 else Line(f"By entity type: {details_in}"))
    sentences = " or ".join(map(figures.count, sorted({each["sentences"]["all"] for each in comparisons})))
    seeds = "several seeds: intervals and p allow for other seeds, too"
    if any(max(each["runs"]) == 1 for each in comparisons):
        seeds = "one seed per side: about these two trained taggers, not about how they were trained"
    return [
        *blocks,
        Line(f"Paired on {sentences} sentences, {figures.count(best['resamples'])} resamples, read as {best['mode']}"),
        Line(f"p: the larger of bootstrap's and randomisation's (p swapped); {seeds}"),
    ]


def _with_full_names(comparison: Record) -> Record:
    """Name the models of a comparison with an unusual decoding, and with their places where these differ.

    The other model is also named with its place if both have the same label.
    """
    places = {"model": comparison.get("place"), "against": comparison["against_place"]}
    is_elsewhere = places["model"] not in (None, places["against"])
    named = {}
    for side, decoding in (("model", "decoding"), ("against", "against_decoding")):
        found = comparison.get(decoding, "trained")
        named[side] = comparison[side] if found == "trained" else f"{comparison[side]} ({found})"
        if is_elsewhere or (side == "against" and comparison["model"] == comparison["against"]):
            named[side] += f" of {places[side]}"
    return {**comparison, **named}


def _overview(comparisons: Sequence[Record]) -> Table:
    has_targets = len({each.get("target") for each in comparisons}) > 1
    rows: list[Row] = [
        (
            each["model"],
            each["against"],
            *([each.get("target", "")] if has_targets else []),
            format_average(each["f1"]),
            format_average(each["against_f1"]),
            figures.signed(each["difference"]),
            _interval(each),
            figures.p_value(each["p"]),
            figures.p_value(each["of_these_taggers"]["randomisation_p"]),
            "/".join(figures.count(each["sentences"][name]) for name in ("won", "lost", "tied")),
        )
        for each in comparisons
    ]
    names = ("model", "against", "target") if has_targets else ("model", "against")
    scores = ("F1", "F1 against", "difference", _interval_name(comparisons[0]), "p", "p\nswapped", "won/lost/tied")
    return Table("Compared on the same sentences", (*names, *scores), rows, texts=tuple(range(len(names))))


def _by_type(comparison: Record) -> Table:
    rows: list[Row] = [
        (
            row["type"],
            figures.count(row["support"]),
            figures.score(row["f1"]),
            figures.score(row["against_f1"]),
            figures.signed(row["difference"]),
            _interval(row),
            figures.p_value(row["p"]),
            figures.p_value(row["adjusted_p"]),
        )
        for row in comparison["per_type"]
    ]
    columns = ("type", "entities", "F1", "against", "difference", _interval_name(comparison), "p", "p (Holm)")
    return Table("By entity type; p (Holm) allows for how many types there are", columns, rows)


def _interval_name(comparison: Record) -> str:
    return f"{100 * comparison['confidence']:.0f}\u00a0%\ninterval"


def _interval(record: Record) -> str:
    return f"{figures.signed(record['low'])} to {figures.signed(record['high'])}"
