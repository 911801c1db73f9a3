"""Model cards: the README.md of every model folder, in the form that the Hugging Face hub reads.

Whatever people named (types, domains, stages, files) is escaped, in the front matter by YAML, below it for Markdown;
of a path only the last name is told. A card holds no date and no speed, so that the same training writes the same card.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from crossner_cli import __version__, figures
from crossner_cli.data.domains import bundled_domains, known_domains
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import to_spans
from crossner_cli.encoders.pretrained import MINILM
from crossner_cli.methods.contract import Tagger
from crossner_cli.run.directory import Manifest
from crossner_cli.taggers.calibration import METHOD as CALIBRATION_METHOD
from crossner_cli.taggers.calibration import read_calibration
from crossner_cli.taggers.folder import read_types

CARD = "README.md"
FEW_SENTENCES, FEW_ENTITIES = 1000, 10
MINILM_ON_THE_HUB = "sentence-transformers/all-MiniLM-L6-v2"
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
# All that can begin something inside a line: what a card quotes never stands at the beginning of one.
MARKDOWN = re.compile(r"([\\`*_\[\]{}<>|~&$#!@:])")
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Provenance:
    """How a model was made.

    Args:
        command: The stage's command.
        name: The stage's name.
        options: Of the command, as its manifest keeps them.
        defaults: Of the same options.
        lineage: What it started from, the first weights first.
        prepared: Manifest of the run's data.
    """

    command: str
    name: str
    options: Mapping[str, Any]
    defaults: Mapping[str, Any]
    lineage: Sequence[Mapping[str, str]]
    prepared: Manifest


@dataclass(frozen=True)
class TrainingFacts:
    """What a tagger was trained on and chosen by.

    Args:
        labelled: Labelled sentences, by role.
        raw: What raw text was read, a line each.
        dev: Name of the domain whose dev sentences the epochs were scored on.
        dev_sentences: How many.
        seed: Of this tagger.
        seeds: Of all taggers of its stage.
        record: What the stage notes of this seed.
    """

    labelled: Mapping[str, Sequence[Sentence]]
    raw: Sequence[str]
    dev: str
    dev_sentences: int
    seed: int
    seeds: Sequence[int]
    record: Mapping[str, Any]


def tagger_card(folder: Path, method: str, tagger: Tagger, provenance: Provenance, training: TrainingFacts) -> str:
    """The card of a tagger.

    Args:
        folder: Where the tagger has been saved: whether transformers reads all of it is seen there.
        method: Its name.
        tagger: The tagger.
        provenance: Start and options.
        training: Data and scores.
    """
    is_classifier = is_token_classifier(folder)
    target = tagger.domain_of_new_text(tagger.tag_set, vars(tagger.hyper))
    names = [provenance.prepared["result"]["domains"][role]["name"] for role in training.labelled]
    score, has_encoder = training.record["dev_f1"], (folder / "config.json").is_file()
    front = front_matter(
        provenance,
        names,
        pipeline_tag="token-classification",
        has_encoder=has_encoder,
        library_name="transformers" if is_classifier else "crossner",
        tags=["named-entity-recognition", "token-classification", "crossner", method],
        model_name=f"{provenance.name}-seed-{training.seed}",
        eval_results=None
        if score is None
        else [
            EvalResult(
                task_type="token-classification",
                dataset_type=training.dev,
                dataset_name=training.dev,
                dataset_split="dev",
                metric_type="f1",
                metric_name="F1 in percent (micro, CoNLL)",
                metric_value=round(score, 2),
            )
        ],
    )
    return "\n".join(
        [
            front,
            f"# {plain(provenance.name)}: a tagger of named entities in {plain(target)}",
            "",
            f"Method {plain(method)}, seed {training.seed}. It tags the types of {plain(target)}:"
            f" {listed(read_types(folder, target))}.",
            "",
            "## Use",
            "",
            *_use(is_classifier, getattr(tagger.hyper, "legal", True)),
            "",
            "## Data",
            "",
            *_data(tagger, provenance, training),
            "",
            "## Scores",
            "",
            *_scores(training),
            *_calibration(folder),
            "",
            "## Lineage",
            "",
            *_lineage(provenance, method, training.seed),
            f"- Settings of the method: {settings(vars(tagger.hyper))}",
            f"- Start: {training.record['start']['loaded']} tensors loaded, {training.record['start']['new']} new,"
            f" {training.record['start']['left']} left",
            "",
            "## Limits",
            "",
            *_limits(tagger, provenance, training, names),
            "",
        ]
    )


def encoder_card(provenance: Provenance, result: Mapping[str, Any]) -> str:
    """The card of an encoder that was adapted to raw text.

    Args:
        provenance: Start and options.
        result: What the stage found.
    """
    corpus, domains = result["corpus"], provenance.prepared["result"]["domains"]
    target = domains["target"]["name"] if "target" in domains else next(iter(domains.values()))["name"]
    before, after = (figures.score(result[f"perplexity_{when}"]) for when in ("before", "after"))
    front = front_matter(
        provenance,
        [],
        library_name="transformers",
        pipeline_tag="fill-mask",
        model_name=provenance.name,
        has_encoder=True,
        tags=["domain-adaptive-pretraining", "fill-mask", "crossner"],
    )
    sizes = (corpus["blocks"], corpus["block_size"], corpus.get("unknown_subwords", 0))
    return "\n".join(
        [
            front,
            f"# {plain(provenance.name)}: an encoder adapted to raw text of {plain(target)}",
            "",
            "Masked-language-model training went on, on the text described below. It tags nothing by itself.",
            "",
            "## Use",
            "",
            "```sh",
            "crossner finetune --start-from FOLDER",
            "```",
            "",
            "`AutoModel.from_pretrained(FOLDER)` and `AutoModelForMaskedLM.from_pretrained(FOLDER)` of transformers"
            " read it too.",
            "",
            "## Data",
            "",
            f"Raw text of {plain(target)}, corpus level {plain(corpus['level'])}: {figures.count(sizes[0])} blocks of"
            f" {figures.count(sizes[1])} subwords; {figures.count(sizes[2])} subwords unknown to the encoder.",
            "",
            "## Scores",
            "",
            f"Perplexity of masked subwords in held-out lines of the same text: {before} before, {after} after,"
            f" {result['epochs']} epochs, {figures.count(result['updates'])} updates.",
            "",
            "## Lineage",
            "",
            *_lineage(provenance, None, provenance.options["seed"]),
            "",
            "## Limits",
            "",
            "- It was adapted to this text only; of other text it may know less than its start did.",
            "- Whatever is in the raw text, wrong or unfair, it may have learnt. The text was not looked through.",
            "- Perplexity tells how well subwords are guessed. Whether a tagger that starts here is better has to be"
            " measured.",
            "- The language of the text is not recorded; nor is its licence: check it before you publish the weights.",
            "",
        ]
    )


def strings_card(provenance: Provenance, result: Mapping[str, Any]) -> str:
    """The card of language models of characters.

    Args:
        provenance: Start and options.
        result: What the stage found.
    """
    read, domains = result["strings"], provenance.prepared["result"]["domains"]
    roles = ("target", "source") if read["text"] == "both" else (read["text"],)
    names = [domains[role]["name"] for role in roles]
    before, after = (figures.score(result[f"perplexity_{when}"]) for when in ("before", "after"))
    front = front_matter(
        provenance,
        [],
        library_name="crossner",
        model_name=provenance.name,
        has_encoder=False,
        tags=["language-model", "contextual-string-embeddings", "crossner"],
    )
    return "\n".join(
        [
            front,
            f"# {plain(provenance.name)}: language models of characters of {listed(names)}",
            "",
            "Two LSTMs, one reading forward and one backward, whose states tell a word in its sentence. They tag"
            " nothing by themselves.",
            "",
            "## Use",
            "",
            "```sh",
            "crossner finetune --method bilstm-crf --set strings=frozen --string-embeddings FOLDER",
            "```",
            "",
            "## Data",
            "",
            f"Text of {listed(names)}; {figures.count(read['characters'])} characters are told apart.",
            "",
            "## Scores",
            "",
            f"Perplexity a character in held-out lines of the same text: {before} before, {after} after,"
            f" {result['epochs']} epochs, {figures.count(result['updates'])} updates.",
            "",
            "## Lineage",
            "",
            *_lineage(provenance, None, provenance.options["seed"]),
            "",
            "## Limits",
            "",
            "- They know this text only; whether a tagger that reads them is better has to be measured.",
            "- Whatever is in the text, wrong or unfair, they may have learnt. The text was not looked through.",
            "- The language of the text is not recorded; nor is its licence: check it before you publish the weights.",
            "",
        ]
    )


def front_matter(provenance: Provenance, names: Sequence[str], *, has_encoder: bool, **facts: Any) -> str:
    """YAML between two lines of dashes; no value can end it."""
    known = names and all(is_known(provenance.prepared, name) for name in names)
    base = base_model(provenance.lineage) if has_encoder else None
    data = ModelCardData(language="en" if known else None, base_model=base, **facts)
    return f"---\n{data.to_yaml()}\n---\n"


def base_model(lineage: Sequence[Mapping[str, str]]) -> str | None:
    """Name on the hub of the encoder that all began with; None for a folder, which only one machine knows."""
    encoder = lineage[0].get("encoder", "") if lineage else ""
    if encoder == MINILM:
        return MINILM_ON_THE_HUB
    return encoder if HUB_NAME.fullmatch(encoder) and not Path(encoder).exists() else None


def is_known(prepared: Manifest, name: str) -> bool:
    """Whether a domain of the run is a data set known by name: all of these are English."""
    records = prepared["result"]["domains"].values()
    is_folder = any("folder" in record.get("origins", {}).values() for record in records if record["name"] == name)
    return not is_folder and name in {*known_domains(), *bundled_domains()}


def is_token_classifier(folder: Path) -> bool:
    """Whether transformers reads a folder as a token classifier, which is then all of the tagger."""
    config = folder / "config.json"
    record = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    return any(str(name).endswith("ForTokenClassification") for name in record.get("architectures") or [])


def plain(value: Any) -> str:
    """A value as Markdown shows it letter by letter, on one line; of a path its last name."""
    text = str(value)
    if len(text) > 1 and Path(text).is_absolute():
        text = Path(text).name
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return MARKDOWN.sub(r"\\\1", text) or figures.NOTHING


def listed(values: Iterable[Any]) -> str:
    """Values with commas between."""
    return ", ".join(plain(value) for value in values) or "none"


def settings(values: Mapping[str, Any]) -> str:
    """Names and values."""
    told = ", ".join(
        f"{plain(name)} = {listed(value) if isinstance(value, list) else plain(value)}"
        for name, value in values.items()
    )
    return told or "none"


def table(columns: Sequence[str], rows: Rows) -> list[str]:
    """A table of Markdown, of cells that are escaped already."""
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _use(is_classifier: bool, is_legal: bool) -> list[str]:
    if is_legal:
        decoding = (
            "; `crossner predict` gives the likeliest sequence that the tag scheme allows, of the types above, and"
            " `--decoding any` as the pipeline does."
        )
    else:
        decoding = (
            ", and so does `crossner predict`, of the types above; with `--decoding legal` it gives the likeliest"
            " sequence that the tag scheme allows."
        )
    lines = ["```sh", "crossner predict text.txt --model FOLDER", "```"]
    if is_classifier:
        lines += [
            "",
            "It is a token classifier of transformers as well:",
            "",
            "```python",
            "from transformers import pipeline",
            'tagger = pipeline("token-classification", "FOLDER", aggregation_strategy="first")',
            'tagger("A sentence.")',
            "```",
            "",
            f"The pipeline gives each word its likeliest tag, of all domains{decoding} What"
            " punctuation parts, as x-ray, is several words to the pipeline. It cuts what is longer than the encoder"
            " reads; `crossner predict` reads it in windows.",
        ]
    return lines


def _data(tagger: Tagger, provenance: Provenance, training: TrainingFacts) -> list[str]:
    domains, rows = provenance.prepared["result"]["domains"], []
    for role, sentences in training.labelled.items():
        counts = count_types(sentences)
        words = sum(len(sentence.words) for sentence in sentences)
        entities = ", ".join(f"{plain(name)} {figures.count(counts[name])}" for name in domains[role]["types"])
        cells = (role, plain(domains[role]["name"]), *map(figures.count, (len(sentences), words)), entities)
        rows.append(cells)
    lines = table(("role", "domain", "sentences", "words", "entities of each type"), rows)
    lines += ["", f"Labelled sentences of {plain(provenance.command)}. What earlier stages read, their own cards tell."]
    return lines + [f"Read besides, unlabelled: {plain(text)}." for text in training.raw]


def _scores(training: TrainingFacts) -> list[str]:
    record = training.record
    row = (
        plain(training.dev),
        "dev",
        figures.count(training.dev_sentences),
        figures.score(record["dev_f1"]),
        f"{record['epoch']} of {record['epochs']}",
    )
    return [
        *table(("domain", "split", "sentences", "F1", "epoch kept"), [row]),
        "",
        "F1 is micro-averaged over entities, in percent, by the rules of conlleval (seqeval's default mode). Test"
        " sentences were not read: `crossner evaluate` scores them.",
        f"Seeds of this stage: {listed(training.seeds)}; this is seed {training.seed}.",
    ]


def _calibration(folder: Path) -> list[str]:
    calibration = read_calibration(folder)
    if calibration is None:
        return ["", "Scores of entities are not calibrated: no entity was predicted on dev to fit them to."]
    return [
        "",
        "Scores of entities, as `crossner predict` gives them, are calibrated probabilities of being right:"
        f" {CALIBRATION_METHOD}, on {figures.count(calibration.entities)} entities predicted there,"
        f" {figures.percent(calibration.correct, calibration.entities)} of them right.",
    ]


def _lineage(provenance: Provenance, method: str | None, seed: int) -> list[str]:
    lines = []
    for step in provenance.lineage:
        kind = next((key for key in ("encoder", "folder") if key in step), None)
        told = f"{kind} {plain(step[kind])}" if kind else f"{plain(step['stage'])}, named {plain(step['name'])}"
        is_name = step["digest"].startswith("name:")  # of an encoder that only a hub knows
        lines.append(told if is_name else f"{told} (digest {plain(step['digest'][:16])})")
    this = f"{plain(provenance.command)}, named {plain(provenance.name)}" + (
        f", method {plain(method)}" if method else ""
    )
    changed = {name: value for name, value in provenance.options.items() if value != provenance.defaults.get(name)}
    return [
        *(f"{number}. {text}" for number, text in enumerate([*lines, f"{this}, seed {seed}: this model"], start=1)),
        "",
        f"- Options that are not the defaults of crossner {__version__}: {settings(changed)}",
    ]


def _limits(tagger: Tagger, provenance: Provenance, training: TrainingFacts, names: Sequence[str]) -> list[str]:
    target = tagger.domain_of_new_text(tagger.tag_set, vars(tagger.hyper))
    types = tagger.tag_set.domains[target]
    records = provenance.prepared["result"]["domains"]
    labelled = {records[role]["name"]: sentences for role, sentences in training.labelled.items()}
    of_target, counts = len(labelled.get(target, ())), sum(map(count_types, labelled.values()), Counter[str]())
    unseen = [name for name in types if not counts[name]]
    few = [f"{name} ({counts[name]})" for name in types if 0 < counts[name] < FEW_ENTITIES]
    texts = {name: domain.licence for name, domain in known_domains().items()}
    texts |= dict.fromkeys(bundled_domains(), "as crossner itself")
    licences = [f"{plain(name)}: {plain(texts[name])}" for name in names if is_known(provenance.prepared, name)]
    told = [
        f"This stage read no labelled sentence of {plain(target)}."
        if not of_target
        else f"It learnt from {of_target} labelled sentences of {plain(target)}"
        + (": another sample would give other scores." if of_target < FEW_SENTENCES else "."),
        _how_chosen(provenance, training),
        f"Types without an example in this stage's training sentences: {listed(unseen)}." if unseen else "",
        f"Types with fewer than {FEW_ENTITIES} examples there: {listed(few)}." if few else "",
        "It finds no other types, and no entities inside or across others.",
        f"It knows text like that of {listed(names)}; of other kinds of text its scores are not known.",
        "Its training sentences are English."
        if names and all(is_known(provenance.prepared, name) for name in names)
        else "The language of its training sentences is not recorded; other languages are not to be expected.",
        f"Licences of the data: {'; '.join(licences)}."
        if licences
        else "The licence of the data is not recorded: check it before you publish the weights.",
        *(
            f"Of the data, prepare-data warned: {plain(text)}"
            for text in provenance.prepared["result"].get("warnings", [])
        ),
    ]
    return [f"- {text}" for text in told if text]


def _how_chosen(provenance: Provenance, training: TrainingFacts) -> str:
    """What dev sentences had to do with the epoch that was kept."""
    if training.record["dev_f1"] is None:
        return "It was scored on nothing."
    if not training.record["epochs"]:
        return "It was not trained: there were no epochs to choose from."
    if provenance.options.get("keep") == "last":
        return f"The last epoch was kept; F1 on dev sentences of {plain(training.dev)} did not choose it."
    return (
        f"The epoch was chosen by F1 on dev sentences of {plain(training.dev)}: on these it looks better than on new"
        " text."
    )


def count_types(sentences: Iterable[Sentence]) -> Counter[str]:
    """Entities of each type."""
    return Counter(name for sentence in sentences for _, _, name in to_spans(sentence.tags or ()))
