"""Model cards: the README.md of every model folder, in the form that the Hugging Face hub reads.

Names given by people (types, domains, stages, files) are escaped, in the front matter by YAML, below it for Markdown;
only the last name of a path is shown. A card holds no date and no speed, so that the same training writes the same
card.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from crossner_cli import __version__, figures
from crossner_cli.data.domains import known_domains
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.encoders.names import MINILM
from crossner_cli.encoders.word_shapes import WORD_SHAPES, show_source
from crossner_cli.layers.settings import kept_settings
from crossner_cli.methods.contract import Tagger, name_of_method
from crossner_cli.run.results import DaptResult, ExportResult, PrepareDataResult, SeedResult
from crossner_cli.run.stage import StageRequest
from crossner_cli.run.storage import strip_folders, write_atomically
from crossner_cli.taggers.description import read_description
from crossner_cli.taggers.tagging import CALIBRATION_METHOD, read_calibration

CARD = "README.md"
MINILM_ON_THE_HUB = "sentence-transformers/all-MiniLM-L6-v2"
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
# The signs with a meaning inside a line: a card never quotes at the beginning of a line.
MARKDOWN = re.compile(r"([\\`*_\[\]{}<>|~&$#!@:])")


@dataclass(frozen=True)
class ModelOrigin:
    """The making of a model: command and options, the stages it started from, the first one first, and the data."""

    request: StageRequest
    name: str
    lineage: Sequence[Mapping[str, str]]
    data: PrepareDataResult

    def find_licences(self, names: Sequence[str]) -> dict[str, str]:
        """Find the licences of the domains that are data sets known by name; all of these are English."""
        known = known_domains()
        folders = {each.name for each in self.data.domains.values() if "folder" in each.origins.values()}
        return {name: known[name].licence for name in names if name in known and name not in folders}


@dataclass(frozen=True)
class TrainingFacts:
    """The data that a tagger was trained on and chosen by.

    Labelled sentences are given by role, raw text with a line each, and ``dev`` is the name of the domain whose dev
    sentences the epochs were scored on.
    """

    labelled: Mapping[str, Sequence[Sentence]]
    raw: Sequence[str]
    dev: str
    dev_sentences: int
    seed: int
    seeds: Sequence[int]
    result: SeedResult


def write_tagger_card(folder: Path, tagger: Tagger, provenance: ModelOrigin, facts: TrainingFacts) -> None:
    """Write the card of a tagger that has been saved into its folder."""
    method, calibration = name_of_method(type(tagger)), read_calibration(folder)
    target = tagger.domain_of_new_text
    names = [provenance.data.domains[role].name for role in facts.labelled]
    licences = provenance.find_licences(names)
    is_known = licences.keys() == set(names) != set()
    is_classifier, result = _is_token_classifier(folder), facts.result
    scores = {"F1": result.dev_f1, "precision": result.dev_precision, "recall": result.dev_recall}
    seeds: dict[str, Any] = {"seed": facts.seed, "seeds": list(facts.seeds)}
    measured = [
        _to_result(facts.dev, "dev", name, value, **seeds) for name, value in scores.items() if value is not None
    ]
    front_matter = ModelCardData(
        language="en" if is_known else None,
        base_model=base_model(provenance.lineage) if (folder / "config.json").is_file() else None,
        pipeline_tag="token-classification",
        library_name="transformers" if is_classifier else "crossner",
        tags=["named-entity-recognition", "token-classification", "crossner", method],
        model_name=f"{provenance.name}-seed-{facts.seed}",
        eval_results=measured or None,
    )
    _write(
        folder,
        "tagger.md",
        front_matter,
        provenance,
        seed=facts.seed,
        facts=facts,
        result=result,
        method=method,
        settings=kept_settings(tagger.hyper),
        target=target,
        types=read_description(folder).list_types(target),
        is_classifier=is_classifier,
        reads_shapes=(folder / WORD_SHAPES).is_file(),
        keeps_last=provenance.request.options.get("keep") == "last",
        roles=provenance.data.domains,
        counts={role: _count_types(sentences) for role, sentences in facts.labelled.items()},
        calibration=calibration,
        calibration_method=CALIBRATION_METHOD,
        correct=figures.percent(calibration.correct, calibration.entities) if calibration else "",
        domains=names,
        is_known=is_known,
        licences=licences,
        warnings=provenance.data.warnings,
    )


def write_encoder_card(folder: Path, provenance: ModelOrigin, result: DaptResult) -> None:
    """Write the card of an encoder that was adapted to raw text."""
    domains = provenance.data.domains
    front_matter = ModelCardData(
        base_model=base_model(provenance.lineage),
        pipeline_tag="fill-mask",
        library_name="transformers",
        tags=["domain-adaptive-pretraining", "fill-mask", "crossner"],
        model_name=provenance.name,
    )
    _write(
        folder,
        "encoder.md",
        front_matter,
        provenance,
        method=None,
        seed=provenance.request.options["seed"],
        target=domains.get("target", next(iter(domains.values()))).name,
        corpus=result.corpus,
        result=result,
    )


def write_onnx_card(folder: Path, tagger_folder: Path, label: str, result: ExportResult) -> None:
    """Write the card of an exported tagger: the tagger's own, with the use of the graphs and their scores."""
    path = tagger_folder / CARD
    without = f"---\nlibrary_name: crossner\n---\n\n# {plain(label)}, exported\n"
    card = ModelCard(path.read_text(encoding="utf-8") if path.is_file() else without)
    card.data["library_name"] = "onnx"
    graphs = {model.name: model.f1 for model in result.models[1:] if model.name.startswith("ONNX")}
    measured = [
        _to_result(str(result.domain), result.split, "F1", f1, of=f" of {name}", seed=result.seed)
        for name, f1 in graphs.items()
        if f1 is not None
    ]
    if measured:
        index: Any = card.data
        index.model_name = index.model_name or Path(label).name
        index.eval_results = [*(index.eval_results or []), *measured]
    card.text = re.sub(r"(?ms)^## Use\n.*?(?=^## )", "", card.text, count=1)  # for PyTorch
    shapes = show_source() if (tagger_folder / WORD_SHAPES).is_file() else ""
    card.text += "\n" + _templates().get_template("onnx.md").render(result=result, shapes=shapes)
    write_atomically(folder / CARD, str(card))


def _to_result(domain: str, split: str, name: str, value: float, *, of: str = "", **args: Any) -> EvalResult:
    """Make a score in percent for the model index: F1, precision or recall; ``args`` describe the seeds."""
    return EvalResult(
        task_type="token-classification",
        dataset_type=domain,
        dataset_name=domain,
        dataset_split=split,
        metric_type=name.lower(),
        metric_name=f"{name} in percent{of} (micro, CoNLL)",
        metric_value=round(value, 2),
        metric_args={key: arg for key, arg in args.items() if arg is not None},
    )


def base_model(lineage: Sequence[Mapping[str, str]]) -> str | None:
    """Find the name on the hub of the encoder that all began with; None for a folder, which only one machine knows."""
    encoder = lineage[0].get("encoder", "") if lineage else ""
    if encoder == MINILM:
        return MINILM_ON_THE_HUB
    return encoder if HUB_NAME.fullmatch(encoder) and not Path(encoder).exists() else None


def plain(value: Any) -> str:
    """Escape a value so that Markdown shows it letter by letter, on one line; of absolute paths their last names."""
    text = strip_folders(str(value))
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return MARKDOWN.sub(r"\\\1", text) or figures.NOTHING


def listed(values: Iterable[Any]) -> str:
    """Escape values and put commas between."""
    return ", ".join(plain(value) for value in values) or "none"


def settings(values: Mapping[str, Any]) -> str:
    """Escape names and values of settings."""
    pairs = ((name, listed(value) if isinstance(value, list) else plain(value)) for name, value in values.items())
    return ", ".join(f"{plain(name)} = {value}" for name, value in pairs) or "none"


def _count_types(sentences: Iterable[Sentence]) -> Counter[str]:
    return Counter(name for sentence in sentences for _, _, name in to_spans(sentence.tags or ()))


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # Markdown is escaped by ``plain``
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "plain": plain,
        "listed": listed,
        "settings": settings,
        "count": figures.count,
        "score": figures.score,
        "bytes": lambda number: figures.amount(number, None, "bytes"),
    }
    return environment


def _write(folder: Path, template: str, front_matter: ModelCardData, provenance: ModelOrigin, **values: Any) -> None:
    request = provenance.request
    defaults = request.defaults
    text = (
        _templates()
        .get_template(template)
        .render(
            front_matter=front_matter.to_yaml(),
            name=provenance.name,
            origins=provenance.lineage,
            command=request.command,
            changed={name: value for name, value in request.options.items() if value != defaults.get(name)},
            version=__version__,
            **values,
        )
    )
    write_atomically(folder / CARD, str(ModelCard(text)))


def _is_token_classifier(folder: Path) -> bool:
    """Return whether transformers reads the whole tagger in a folder as a token classifier."""
    config = folder / "config.json"
    record = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    return any(str(name).endswith("ForTokenClassification") for name in record.get("architectures") or [])
