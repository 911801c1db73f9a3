"""Time of a training step and of decoding, method by method, beside the linear tagger; see README.md beside this file.

python benchmarks/method_speed.py [--methods linear crf laner ...] [--rounds 5]
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from measuring import Measured, Side, measure_in_turn, show, tabulate
from torch import Tensor, nn

from crossner_cli.data.domains import find_domain
from crossner_cli.data.labelled import read_domain
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.encoders.subwords import Batch
from crossner_cli.engine.devices import Engine, start_engine
from crossner_cli.methods.contract import Tagger, find_method
from crossner_cli.options import Finetune
from crossner_cli.recurrent.word_reader import KnownWords, collect_vocabulary
from crossner_cli.stages.train import make_rates
from crossner_cli.taggers.carry_over import start_tagger
from crossner_cli.training.plan import group_parameters

METHODS = ("linear", "crf", "laner")
TYPES = tuple(f"type{number}" for number in range(14))  # 29 tags


@dataclass(frozen=True)
class Task:
    """One batch of sentences of one length, with random tags of 14 types.

    Args:
        sentences: Of the batch.
        words: Of a sentence.
        encoder: A Hugging Face name, a folder or ``minilm``.
        repeats: Steps or batches of one measurement.
        threads: CPU threads; None is all cores.
    """

    sentences: int = 32
    words: int = 40
    encoder: str = "minilm"
    repeats: int = 5
    threads: int | None = None

    @property
    def all_words(self) -> int:
        """Words of one measurement."""
        return self.sentences * self.words * self.repeats

    def batch(self) -> list[Sentence]:
        """Running text of the bundled news, cut into sentences of one length, with random tags."""
        news = read_domain(find_domain("sample-source").files).splits["train"]
        text = [word for sentence in news for word in sentence.words]
        tags = TagSet({"any": TYPES}).tags
        draw = np.random.default_rng(1)
        starts = range(0, self.sentences * self.words, self.words)
        return [
            Sentence(tuple(text[start : start + self.words]), tuple(draw.choice(tags, self.words).tolist()), "any")
            for start in starts
        ]

    def prepare(self, method: str) -> tuple[Tagger, Batch, Engine, Finetune]:
        """A tagger ready to be trained, and the batch."""
        options = Finetune(method=method, encoder=self.encoder, threads=self.threads, device="cpu")
        engine = start_engine(options)
        sentences, tag_set = self.batch(), TagSet({"any": TYPES})
        kind = find_method(method)
        known = (
            KnownWords(collect_vocabulary(sentences, kind.Hyperparameters()))
            if kind.encoder_class.reads == "words"
            else None
        )
        design = TaggerDesign(method, kind.Hyperparameters())
        tagger, _ = start_tagger(Start("base", None, "", encoder=self.encoder), design, tag_set, 1, engine, known)
        reader = tagger.encoder.reader
        return tagger, reader.collate(reader.encode(sentences, tag_set)), engine, options


def measure(work: Callable[[], None], task: Task) -> Measured:
    """Time ``repeats`` calls, after one that is not counted."""
    work()
    began = time.perf_counter()
    for _ in range(task.repeats):
        work()
    return Measured(task.all_words, time.perf_counter() - began)


def train(task: Task, method: str, seed: int) -> Measured:
    """Whole updates: forward, backward, clipping, AdamW."""
    tagger, batch, engine, options = task.prepare(method)
    groups = group_parameters(tagger.train(), make_rates(options))
    trained = [parameter for group in groups for parameter in group.parameters]
    optimiser = torch.optim.AdamW(trained, lr=1e-5, fused=True)

    def update() -> None:
        with engine.autocast():
            losses = tagger.loss(batch)
        torch.stack([value / max(1, tagger.units(batch)[name]) for name, value in losses.items()]).sum().backward()
        engine.clip(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return measure(update, task)


def decode(task: Task, method: str, seed: int) -> Measured:
    """Tags of the batch, as ``predict`` finds them."""
    tagger, batch, engine, _ = task.prepare(method)
    tagger.encoder.prepare_for_inference(engine.precision, on_cpu=True)
    tagger.eval()

    def tag() -> None:
        with torch.no_grad(), engine.autocast():
            tagger.decode(batch)

    return measure(tag, task)


def label_lstm_again_for_every_word(task: Task, seed: int, *, with_gradient: bool) -> Measured:
    """LANER's label LSTM as the paper writes it, run on every prefix, and nothing else of the tagger."""
    start_engine(Finetune(threads=task.threads, device="cpu"))
    lstm = nn.LSTM(100, 100, batch_first=True, bidirectional=True)
    labels = torch.randn(task.sentences, task.words, 100)

    def run() -> None:
        with torch.set_grad_enabled(with_gradient):
            total: Tensor = torch.stack([lstm(labels[:, : word + 1])[0].sum() for word in range(task.words)]).sum()
        if with_gradient:
            total.backward()

    return measure(run, task)


def crf_alone(task: Task, seed: int) -> Measured:
    """The CRF's loss with its gradient, and Viterbi: nothing else of the tagger."""
    from crossner_cli.layers.crf import LinearChainCRF

    start_engine(Finetune(threads=task.threads, device="cpu"))
    crf = LinearChainCRF(2 * len(TYPES) + 1)
    scores = torch.randn(task.sentences, task.words, 2 * len(TYPES) + 1, requires_grad=True)
    tags = torch.randint(0, scores.shape[2], scores.shape[:2])
    mask = torch.ones(scores.shape[:2], dtype=torch.bool)

    def run() -> None:
        (-crf.log_likelihood(scores, tags, mask).sum()).backward()
        crf.viterbi(scores.detach(), mask)

    return measure(run, task)


def sides(task: Task, methods: Sequence[str]) -> dict[str, dict[str, Side]]:
    """Training and decoding, side by side."""
    training: dict[str, Side] = {name: functools.partial(train, task, name) for name in methods}
    decoding: dict[str, Side] = {name: functools.partial(decode, task, name) for name in methods}
    naive = functools.partial(functools.partial, label_lstm_again_for_every_word, task)
    if "laner" in methods:
        training["label LSTM, naive"] = naive(with_gradient=True)
        decoding["label LSTM, naive"] = naive(with_gradient=False)
    if "crf" in methods:
        training["CRF and Viterbi alone"] = functools.partial(crf_alone, task)
    return {"training": training, "decoding": decoding}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description="Time of each method beside the linear tagger.")
    add: Any = parser.add_argument
    add("--methods", nargs="+", default=list(METHODS), help="the first one is what the others are compared with")
    add("--rounds", type=int, default=5, help="measurements of each side, in turn")
    add("--sentences", type=int, default=32, help="of a batch")
    add("--words", type=int, default=40, help="of a sentence")
    add("--encoder", default="minilm", help="a Hugging Face name, a folder, or minilm")
    add("--repeats", type=int, default=5, help="updates or batches of a measurement")
    add("--threads", type=int, help="CPU threads; default: all cores")
    wanted = parser.parse_args(arguments)
    task = Task(wanted.sentences, wanted.words, wanted.encoder, wanted.repeats, wanted.threads)
    for name, of_task in sides(task, wanted.methods).items():
        title = f"{name}: {task.sentences} sentences of {task.words} words, 29 tags"
        show(title, tabulate("words", measure_in_turn(of_task, wanted.rounds), wanted.methods[:1]))


if __name__ == "__main__":
    main()
