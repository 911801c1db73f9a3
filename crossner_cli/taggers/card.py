"""Model cards: the README.md of every model folder, in the form that the Hugging Face hub reads.

Whatever people named (types, domains, stages, files) is escaped, in the front matter by YAML, below it for Markdown;
of a path only the last name is shown. A card holds no date and no speed, so that the same training writes the same
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
from crossner_cli.data.known_domains import known_domains
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.encoders.pretrained import MINILM
from crossner_cli.methods.contract import Tagger
from crossner_cli.methods.multi_task import domain_of_new_text
from crossner_cli.run.directory import Manifest
from crossner_cli.run.results import ExportResult, SeedResult
from crossner_cli.run.stage import StageRequest
from crossner_cli.run.storage import write_atomically
from crossner_cli.taggers.calibration import METHOD as CALIBRATION_METHOD
from crossner_cli.taggers.calibration import read_calibration
from crossner_cli.taggers.folder import get_method_name, read_types

CARD = "README.md"
FEW_ENTITIES = 10
MINILM_ON_THE_HUB = "sentence-transformers/all-MiniLM-L6-v2"
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
# All that can begin something inside a line: what a card quotes never stands at the beginning of one.
MARKDOWN = re.compile(r"([\\`*_\[\]{}<>|~&$#!@:])")


@dataclass(frozen=True)
class Provenance:
    """The making of a model.

    Args:
        request: Command and options.
        name: The stage's name.
        lineage: The stages it started from, the first weights first.
        prepared: Manifest of the run's data.
    """

    request: StageRequest
    name: str
    lineage: Sequence[Mapping[str, str]]
    prepared: Manifest

    @property
    def domains(self) -> Mapping[str, Any]:
        """The records of the run's domains, by role."""
        domains: Mapping[str, Any] = self.prepared["result"]["domains"]
        return domains

    def describe_lineage(self, method: str | None, seed: int) -> list[str]:
        """The steps to this model, the first weights first, in Markdown."""
        lines = []
        for step in self.lineage:
            kind = next((key for key in ("encoder", "folder") if key in step), None)
            text = f"{kind} {plain(step[kind])}" if kind else f"{plain(step['stage'])}, named {plain(step['name'])}"
            is_name = step["digest"].startswith("name:")  # of an encoder that only a hub knows
            lines.append(text if is_name else f"{text} (digest {plain(step['digest'][:16])})")
        this = f"{plain(self.request.command)}, named {plain(self.name)}"
        return [*lines, f"{this}{f', method {plain(method)}' if method else ''}, seed {seed}: this model"]


@dataclass(frozen=True)
class TrainingFacts:
    """The data that a tagger was trained on and chosen by.

    Args:
        labelled: Labelled sentences, by role.
        raw: The raw text that was read, a line each.
        dev: Name of the domain whose dev sentences the epochs were scored on.
        dev_sentences: Number of these.
        seed: Of this tagger.
        seeds: Of all taggers of its stage.
        result: The training's result.
    """

    labelled: Mapping[str, Sequence[Sentence]]
    raw: Sequence[str]
    dev: str
    dev_sentences: int
    seed: int
    seeds: Sequence[int]
    result: SeedResult


def write_tagger_card(folder: Path, tagger: Tagger, provenance: Provenance, facts: TrainingFacts) -> None:
    """Write the card of a tagger that has been saved into its folder."""
    method, calibration = get_method_name(tagger), read_calibration(folder)
    target = domain_of_new_text(tagger.tag_set, vars(tagger.hyper))
    names = [provenance.domains[role]["name"] for role in facts.labelled]
    is_classifier, score = _is_token_classifier(folder), facts.result.dev_f1
    front_matter = ModelCardData(
        language="en" if _are_known(provenance, names) else None,
        base_model=base_model(provenance.lineage) if (folder / "config.json").is_file() else None,
        pipeline_tag="token-classification",
        library_name="transformers" if is_classifier else "crossner",
        tags=["named-entity-recognition", "token-classification", "crossner", method],
        model_name=f"{provenance.name}-seed-{facts.seed}",
        eval_results=None if score is None else [_dev_score(facts.dev, score)],
    )
    text = _render(
        "tagger.md",
        front_matter,
        provenance,
        lineage=provenance.describe_lineage(method, facts.seed),
        facts=facts,
        result=facts.result,
        method=method,
        settings=vars(tagger.hyper),
        target=target,
        types=read_types(folder, target),
        is_classifier=is_classifier,
        is_legal=getattr(tagger.hyper, "legal", True),
        keeps_last=provenance.request.options.get("keep") == "last",
        data=_count_data(provenance, facts),
        calibration=calibration,
        calibration_method=CALIBRATION_METHOD,
        correct=figures.percent(calibration.correct, calibration.entities) if calibration else "",
        domains=names,
        is_known=_are_known(provenance, names),
        licences=_licences(provenance, names),
        warnings=provenance.prepared["result"].get("warnings", []),
        **_count_examples(provenance, facts, target, tagger.tag_set.domains[target]),
    )
    write_atomically(folder / CARD, text)


def write_encoder_card(folder: Path, provenance: Provenance, result: Mapping[str, Any]) -> None:
    """Write the card of an encoder that was adapted to raw text."""
    domains = provenance.domains
    front_matter = ModelCardData(
        base_model=base_model(provenance.lineage),
        pipeline_tag="fill-mask",
        library_name="transformers",
        tags=["domain-adaptive-pretraining", "fill-mask", "crossner"],
        model_name=provenance.name,
    )
    text = _render(
        "encoder.md",
        front_matter,
        provenance,
        lineage=provenance.describe_lineage(None, provenance.request.options["seed"]),
        target=domains.get("target", next(iter(domains.values())))["name"],
        corpus=result["corpus"],
        result=result,
    )
    write_atomically(folder / CARD, text)


def write_strings_card(folder: Path, provenance: Provenance, result: Mapping[str, Any]) -> None:
    """Write the card of language models of characters."""
    read = result["strings"]
    roles = ("target", "source") if read["text"] == "both" else (read["text"],)
    front_matter = ModelCardData(
        library_name="crossner",
        tags=["language-model", "contextual-string-embeddings", "crossner"],
        model_name=provenance.name,
    )
    text = _render(
        "strings.md",
        front_matter,
        provenance,
        lineage=provenance.describe_lineage(None, provenance.request.options["seed"]),
        domains=[provenance.domains[role]["name"] for role in roles],
        characters=read["characters"],
        result=result,
    )
    write_atomically(folder / CARD, text)


def write_onnx_card(folder: Path, tagger_folder: Path, label: str, result: ExportResult) -> None:
    """Write the card of an exported tagger: the tagger's own, with the use of the graphs and their scores."""
    path = tagger_folder / CARD
    without = f"---\nlibrary_name: crossner\n---\n\n# {plain(label)}, exported\n"
    card = ModelCard(path.read_text(encoding="utf-8") if path.is_file() else without)
    card.data["library_name"] = "onnx"
    card.text = re.sub(r"(?ms)^## Use\n.*?(?=^## )", "", card.text, count=1)  # for PyTorch, which finds nothing here
    card.text += "\n" + _templates().get_template("onnx.md").render(result=result)
    write_atomically(folder / CARD, str(card))


def base_model(lineage: Sequence[Mapping[str, str]]) -> str | None:
    """Name on the hub of the encoder that all began with; None for a folder, which only one machine knows."""
    encoder = lineage[0].get("encoder", "") if lineage else ""
    if encoder == MINILM:
        return MINILM_ON_THE_HUB
    return encoder if HUB_NAME.fullmatch(encoder) and not Path(encoder).exists() else None


def plain(value: Any) -> str:
    """Escape a value so that Markdown shows it letter by letter, on one line; of a path its last name."""
    text = str(value)
    if len(text) > 1 and Path(text).is_absolute():
        text = Path(text).name
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return MARKDOWN.sub(r"\\\1", text) or figures.NOTHING


def listed(values: Iterable[Any]) -> str:
    """Escape values and put commas between."""
    return ", ".join(plain(value) for value in values) or "none"


def settings(values: Mapping[str, Any]) -> str:
    """Escape names and values of settings."""
    pairs = ((name, listed(value) if isinstance(value, list) else plain(value)) for name, value in values.items())
    return ", ".join(f"{plain(name)} = {value}" for name, value in pairs) or "none"


def count_types(sentences: Iterable[Sentence]) -> Counter[str]:
    """Count the entities of each type."""
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


def _render(template: str, front_matter: ModelCardData, provenance: Provenance, **values: Any) -> str:
    request = provenance.request
    defaults = request.defaults or {}
    text = (
        _templates()
        .get_template(template)
        .render(
            front_matter=front_matter.to_yaml(),
            name=provenance.name,
            command=request.command,
            changed={name: value for name, value in request.options.items() if value != defaults.get(name)},
            version=__version__,
            **values,
        )
    )
    return str(ModelCard(text))


def _dev_score(domain: str, score: float) -> EvalResult:
    return EvalResult(
        task_type="token-classification",
        dataset_type=domain,
        dataset_name=domain,
        dataset_split="dev",
        metric_type="f1",
        metric_name="F1 in percent (micro, CoNLL)",
        metric_value=round(score, 2),
    )


def _is_token_classifier(folder: Path) -> bool:
    """Return whether transformers reads a folder as a token classifier, which is then all of the tagger."""
    config = folder / "config.json"
    record = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    return any(str(name).endswith("ForTokenClassification") for name in record.get("architectures") or [])


def _are_known(provenance: Provenance, names: Sequence[str]) -> bool:
    """Return whether domains of the run are data sets known by name: all of these are English."""
    known = known_domains()
    folders = {each["name"] for each in provenance.domains.values() if "folder" in each.get("origins", {}).values()}
    return bool(names) and all(name in known and name not in folders for name in names)


def _licences(provenance: Provenance, names: Sequence[str]) -> list[tuple[str, str]]:
    texts = {name: domain.licence for name, domain in known_domains().items()}
    return [(name, texts[name]) for name in names if _are_known(provenance, [name])]


def _count_data(provenance: Provenance, facts: TrainingFacts) -> list[dict[str, Any]]:
    """One row a role of labelled sentences."""
    rows = []
    for role, sentences in facts.labelled.items():
        domain, counts = provenance.domains[role], count_types(sentences)
        rows.append(
            {
                "role": role,
                "domain": domain["name"],
                "sentences": len(sentences),
                "words": sum(len(sentence.words) for sentence in sentences),
                "entities": [(name, counts[name]) for name in domain["types"]],
            }
        )
    return rows


def _count_examples(provenance: Provenance, facts: TrainingFacts, target: str, types: Sequence[str]) -> dict[str, Any]:
    """Labelled sentences of the target, and its types with few examples or none."""
    labelled = {provenance.domains[role]["name"]: sentences for role, sentences in facts.labelled.items()}
    counts = sum(map(count_types, labelled.values()), Counter[str]())
    return {
        "labelled_of_target": len(labelled.get(target, ())),
        "unseen": [name for name in types if not counts[name]],
        "few": [f"{name} ({counts[name]})" for name in types if 0 < counts[name] < FEW_ENTITIES],
    }
