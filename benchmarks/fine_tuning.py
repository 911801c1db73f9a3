"""Fine-tuning a tagger: ``transformers.Trainer`` and ``crossner finetune --method linear`` on the same sentences."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import trainer_side
from measuring import Measured, Side, Stopwatch
from torch import nn
from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.names import resolve_encoder
from crossner_cli.encoders.pretrained import position_limit, quiet_transformers, read_config, read_tokenizer
from crossner_cli.encoders.start import Start, TaggerDesign
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.engine.devices import choose_precision, start_engine
from crossner_cli.evaluation.scores import score
from crossner_cli.layers.randomness import Dropout
from crossner_cli.methods.contract import Tagger, find_method
from crossner_cli.options import Finetune
from crossner_cli.run.progress import exhaust
from crossner_cli.stages.train import make_plan, make_rates
from crossner_cli.taggers.carry_over import start_tagger
from crossner_cli.taggers.tagging import tag
from crossner_cli.training.loop import fit
from crossner_cli.training.plan import group_parameters
from crossner_cli.training.streams import SentenceStream

IGNORED = -100


@dataclass(frozen=True)
class FineTuning:
    """What both sides are given.

    Args:
        train: Labelled sentences.
        dev: Labelled sentences to score.
        tag_set: Their tags.
        encoder: A Hugging Face name, a folder or ``minilm``.
        epochs: Passes over ``train``.
        batch_size: Sentences of an update.
        learning_rate: Peak, of all weights.
        head_learning_rate: Peak of the product's classifier; None is the same as the rest.
        threads: CPU threads; None is all cores.
        device: As ``--device``.
    """

    train: Sequence[Sentence]
    dev: Sequence[Sentence]
    tag_set: TagSet
    encoder: str = "minilm"
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-4
    head_learning_rate: float | None = None
    threads: int | None = None
    device: str = "cpu"

    @property
    def words(self) -> int:
        """Words read in training."""
        return self.epochs * sum(len(sentence.words) for sentence in self.train)

    def f1(self, predicted: Sequence[Sequence[str]]) -> float:
        """Score tags of the dev sentences, in percent."""
        return score([sentence.tags or () for sentence in self.dev], predicted).f1

    def shortened(self) -> FineTuning:
        """The same in a few updates, to warm up."""
        return dataclasses.replace(self, train=self.train[: 2 * self.batch_size], dev=self.dev[:8], epochs=1)

    def options(self, seed: int, **changes: Any) -> Finetune:
        """The product's options: its defaults but for what both sides share."""
        shared = {
            "encoder": self.encoder,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "head_learning_rate": self.head_learning_rate,
            "threads": self.threads,
            "seed": seed,
            "device": self.device,
            "patience": None,
        }
        return Finetune(**{**shared, **changes})


def sides(task: FineTuning) -> dict[str, Side]:
    """The sides of the comparison, by name; bf16 only where the device multiplies it in hardware.

    The Trainer with batches by length computes as fast as it can: in bf16 where there is bf16, without cuDNN.
    """
    trainer = functools.partial(functools.partial, train_with_trainer, task)
    has_bf16, on_cpu = choose_precision("auto", task.device) == "bf16", task.device == "cpu"
    found: dict[str, Side] = {"Trainer fp32": trainer(bf16=False)} if on_cpu else {}
    if has_bf16:
        found["Trainer bf16"] = trainer(bf16=True)
    if not on_cpu:
        found["Trainer bf16, no cuDNN"] = trainer(bf16=True, cudnn=False)
    found["Trainer by length"] = trainer(bf16=has_bf16, cudnn=on_cpu, train_sampling_strategy="group_by_length")
    return {**found, "crossner": functools.partial(train_with_product, task)}


def ablations(task: FineTuning) -> dict[str, Side]:
    """The product as it is, and with one acceleration after the other switched off."""
    side = functools.partial(functools.partial, train_with_product, task)
    return {
        "crossner": side(),
        "fp32": side(precision="fp32"),
        "batches not by length": side(stream_type=ShuffledStream),
        "last layer whole": side(alter=compute_the_last_layer_whole),
        "softmax in bf16": side(alter=use_eager_attention),
        "fused attention kernel": side(alter=use_fused_attention),
        "PyTorch's dropout layers": side(alter=use_torch_dropout),
        "attention weights dropped": side(alter=drop_attention),
        "word embeddings trained": side(train_embeddings=True),
        "embeddings not cast": side(alter=leave_embeddings_uncast),
    }


def train_with_trainer(
    task: FineTuning, seed: int, *, bf16: bool, cudnn: bool = True, train_sampling_strategy: str = "random"
) -> Measured:
    """Train as the token-classification example of transformers does: the first subword of a word carries its tag."""
    start_engine(task.options(seed))  # the same threads and seed as the product's side
    folder = resolve_encoder(task.encoder)
    tokenizer = read_tokenizer(folder)
    length = position_limit(read_config(folder), tokenizer)
    numbers = dict(enumerate(task.tag_set.tags))
    with quiet_transformers():
        model = AutoModelForTokenClassification.from_pretrained(
            folder,
            id2label=numbers,
            label2id={name: number for number, name in numbers.items()},
            dtype=torch.float32,
        )
    trainer, seconds = trainer_side.train(
        model,
        label_subwords(task.train, task.tag_set, tokenizer, length),
        DataCollatorForTokenClassification(tokenizer),
        batch_size=task.batch_size,
        seed=seed,
        bf16=bf16,
        on_cpu=task.device == "cpu",
        cudnn=cudnn,
        num_train_epochs=task.epochs,
        learning_rate=task.learning_rate,
        train_sampling_strategy=train_sampling_strategy,
    )
    found = trainer.predict(label_subwords(task.dev, task.tag_set, tokenizer, length))
    read = [
        numbers_of[gold != IGNORED]
        for numbers_of, gold in zip(found.predictions.argmax(-1), found.label_ids, strict=True)
    ]
    predicted = [
        [*task.tag_set.from_ids(ids.tolist()), *["O"] * (len(sentence.words) - len(ids))]
        for ids, sentence in zip(read, task.dev, strict=True)
    ]
    return Measured(task.words, seconds, task.f1(predicted))


def label_subwords(
    sentences: Sequence[Sentence], tag_set: TagSet, tokenizer: Any, length: int
) -> list[dict[str, list[int]]]:
    """Sentences as the trainer reads them; -100 at every subword that is not the first of a word."""
    encoded = tokenizer(
        [list(sentence.words) for sentence in sentences], is_split_into_words=True, truncation=True, max_length=length
    )
    rows = []
    for number, sentence in enumerate(sentences):
        ids = tag_set.to_ids(sentence.tags or ())
        words = [None, *encoded.word_ids(number)]
        labels = [
            IGNORED if word is None or word == before else ids[word]
            for before, word in zip(words, words[1:], strict=False)
        ]
        rows.append({**{name: values[number] for name, values in encoded.items()}, "labels": labels})
    return rows


def train_with_product(
    task: FineTuning,
    seed: int,
    *,
    alter: Callable[[nn.Module], None] | None = None,
    stream_type: type[SentenceStream] = SentenceStream,
    **changes: Any,
) -> Measured:
    """Train with the product's loop; ``alter`` changes the encoder, ``changes`` the options."""
    _, measured = train_tagger(task, seed, alter=alter, stream_type=stream_type, **changes)
    return measured


def start_from_base(encoder: str) -> Start:
    """The start of a training from an encoder as it is."""
    return Start("base", None, "", encoder=encoder)


def design_tagger(options: Finetune) -> TaggerDesign:
    """The tagger that the options ask for, with the method's default settings."""
    settings = find_method(options.method).Hyperparameters()
    return TaggerDesign(options.method, settings, attention_dropout=options.attention_dropout)


def train_tagger(
    task: FineTuning,
    seed: int,
    *,
    alter: Callable[[nn.Module], None] | None = None,
    stream_type: type[SentenceStream] = SentenceStream,
    **changes: Any,
) -> tuple[Tagger, Measured]:
    """As ``train_with_product``, with the tagger."""
    options = task.options(seed, **changes)
    engine = start_engine(options)
    tagger, _ = start_tagger(start_from_base(options.encoder), design_tagger(options), task.tag_set, seed, engine)
    encoder = tagger.encoder
    assert isinstance(encoder, TransformerEncoder)
    if alter:
        alter(encoder.model)
    stream = stream_type(encoder.reader.encode(task.train, task.tag_set), encoder.reader, options.batch_size, seed)
    stopwatch = Stopwatch()
    with stopwatch.running(engine.device):
        exhaust(fit(tagger, group_parameters(tagger, make_rates(options)), [stream], make_plan(options), engine))
    tagged = tag(tagger, task.dev, engine)
    return tagger, Measured(task.words, stopwatch.seconds, task.f1([sentence.tags for sentence in tagged]))


class ShuffledStream(SentenceStream):
    """Batches in the order of the shuffle, whatever the lengths."""

    def epoch(self, number: int) -> list[list[int]]:
        """Shuffle and cut."""
        order = np.random.default_rng([self.seed, number]).permutation(len(self.sentences))
        return [order[first : first + self.batch_size].tolist() for first in range(0, len(order), self.batch_size)]


def compute_the_last_layer_whole(model: Any) -> None:
    """Compute every position of the last layer, not those alone that begin a word."""
    model.config.chunk_size_feed_forward = 1 << 30  # more than there are positions: nothing is cut


def use_eager_attention(model: Any) -> None:
    """Take transformers' own attention, one step after the other."""
    model.set_attn_implementation("eager")


def use_fused_attention(model: Any) -> None:
    """Take PyTorch's fused attention kernel."""
    model.set_attn_implementation("sdpa")


def use_torch_dropout(model: nn.Module) -> None:
    """Put PyTorch's dropout layers back."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Dropout):
                setattr(parent, name, nn.Dropout(child.p))


def drop_attention(model: Any) -> None:
    """Drop attention weights at the encoder's own rate."""
    for module in model.modules():
        if "attention" in type(module).__name__.lower() and isinstance(getattr(module, "dropout", None), nn.Dropout):
            module.dropout.p = model.config.attention_probs_dropout_prob


def leave_embeddings_uncast(model: Any) -> None:
    """Let autocast decide the number format between the matrix products."""
    model.embeddings._forward_hooks.clear()
