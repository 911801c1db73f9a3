"""``crossner dapt --encoder strings``: the training of language models of characters on the run's raw text."""

from __future__ import annotations

import statistics
from typing import Any

import torch

from crossner_cli.adaptation.adaptation import Adaptation, Fit, perplexity_of
from crossner_cli.adaptation.masked_lm import perplexity
from crossner_cli.data.sentences import PreparedData
from crossner_cli.errors import CrossNERError
from crossner_cli.recurrent import character_stream
from crossner_cli.recurrent.character_models import StringLanguageModels, held_out_losses
from crossner_cli.recurrent.character_stream import CharacterStream, LinesOfWords, Texts, write_character_stream
from crossner_cli.recurrent.string_embeddings import SIDES, save_string_encoder
from crossner_cli.run.directory import RunDirectory
from crossner_cli.run.progress import Work
from crossner_cli.run.results import DaptResult
from crossner_cli.run.stage import Stage


class StringsAdaptation(Adaptation):
    """The training of language models of characters in both directions, for ``string_embeddings``."""

    made, temporary, unit = ".", "text", "character"

    def __init__(self, run: RunDirectory, options: Any, engine: Any) -> None:
        if engine.world > 1:
            raise CrossNERError(
                f"dapt --encoder strings trains in one process, not in {engine.world}.",
                hint="Name one GPU: --gpus 0.",
            )
        super().__init__(run, options, engine)
        self.texts, self.notes, files = find_texts(self.prepared, options.text)
        self.inputs = self.prepared.inputs(*files)

    def train(self, stage: Stage, fit: Fit) -> Work[DaptResult]:
        """Write the text as numbers, and train on it."""
        options, folder = self.options, stage.draft / self.temporary
        work = write_character_stream(self.texts, folder, held_out=options.held_out, window=options.block_size)
        counts = yield from work
        stream = CharacterStream(folder, character_stream.TRAIN, options.batch_size, options.block_size, options.seed)
        self.held_out = CharacterStream(folder, character_stream.HELD_OUT, options.batch_size, options.block_size, None)
        torch.manual_seed(options.seed)
        self.models = StringLanguageModels(counts["characters"], options.hidden_size, stream.rows)
        self.distinct = len(counts["characters"])
        fitted, before, after = yield from fit(self.models, [(list(self.models.parameters()), 0.0)], stream)
        counts["characters"] = len(counts["characters"])
        result = DaptResult(
            perplexity_before=perplexity_of(before),
            perplexity_after=perplexity_of(after),
            perplexities={"before": _by_side(before), "after": _by_side(after)},
            updates=fitted.steps,
            epochs=len(fitted.history),
            losses=[sum(epoch["losses"].values()) / 2 for epoch in fitted.history],
            units_per_second=round(fitted.words_per_second),
            strings={"text": options.text, **counts, "rows": stream.rows, "window": stream.window},
        )
        stream.close()
        self.held_out.close()
        return result

    def save(self, stage: Stage, result: DaptResult) -> None:
        """Write both models."""
        save_string_encoder(self.models.make_encoder(), stage.draft)

    @property
    def choices(self) -> int:
        """The number of distinct characters."""
        return self.distinct

    def measure(self) -> list[float]:
        """Measure the mean loss of a character in each direction."""
        if self.held_out.length < 2:
            return []
        return list(held_out_losses(self.models, self.held_out, self.engine.device))


def find_texts(prepared: PreparedData, role: str) -> tuple[Texts, list[str], list[str]]:
    """Find the raw text of the target, the source or both, with notes and the prepared files that hold it.

    A domain without any gives its training sentences.

    Neither holds sentences of dev and test: ``prepare-data`` leaves them out of raw text.

    Raises:
        CrossNERError: A domain has neither.
    """
    texts: dict[str, Any] = {}
    notes, files = [], []
    for name in ("target", "source") if role == "both" else (role,):
        path, domain = prepared.raw_text(name), prepared.domains.get(name)
        if path is not None:
            texts[name] = LinesOfWords(path)
            files.append(path.relative_to(prepared.folder).as_posix())
            notes.append(f"reads the raw text of the {name}, {path.name}")
        elif domain is not None and domain.has("train"):
            texts[name] = [sentence.words for sentence in domain.sentences("train")]
            files.append(f"{name}/train.jsonl")
            notes.append(f"the {name} has no raw text: its {len(texts[name]):,} training sentences are read instead")
        else:
            raise CrossNERError(
                f"--text {role}: this run has no raw text of the {name}.",
                hint=f"crossner prepare-data … --{'corpus' if name == 'target' else 'source-corpus'} FILE --force",
            )
    return texts, notes, files


def _by_side(losses: list[float]) -> dict[str, float] | None:
    """Return the perplexities of each direction and of both; None without losses."""
    if not losses:
        return None
    return dict(zip((*SIDES, "both"), map(perplexity, [*losses, statistics.fmean(losses)]), strict=True))


ADAPTATION = StringsAdaptation
