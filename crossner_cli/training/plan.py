"""Length and learning rates of a training, with the defaults of the rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from crossner_cli.data.sentences import PreparedData, Sentence
from crossner_cli.data.tags import types_of
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import SubwordReader
from crossner_cli.encoders.word_shapes import WordShapes
from crossner_cli.methods.contract import Tagger

COMPARED = 500  # sentences whose subwords are counted
# Times as many subwords a word. With minilm, English has 0.9 to 1.2 times those of CoNLL-2003, French 1.4, German 2.1.
FINELY_CUT = 1.35


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Length and course of a training.

    Args:
        epochs: Passes over the first stream.
        warmup: Share of the updates that warm up.
        clip_norm: Largest gradient norm; 0 for no clipping.
        accumulate: Parts a batch is cut into.
        patience: Epochs without a gain after which training stops; None for never.
        checkpoint_every: Seconds between checkpoints; 0 writes one after each update.
    """

    epochs: int
    max_steps: int | None = None
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = 0.0
    clip_norm: float = 1.0
    accumulate: int = 1
    patience: int | None = None
    keep: Literal["best", "last"] = "best"
    checkpoint_every: int = 30

    def factor(self, step: int, total: int) -> float:
        """Return the learning rate at an update, from 0, as a share of the peak."""
        rising = self.warmup * total
        if step < rising:
            return (step + 1) / (rising + 1)
        return 1.0 if self.schedule == "constant" else max(0.0, (total - step) / max(1.0, total - rising))


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate.

    Args:
        starts_at: Share of all updates before which these stay as they are.
    """

    parameters: list[nn.Parameter]
    learning_rate: float
    weight_decay: float
    starts_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Learning rates of a tagger.

    Args:
        learning_rate: Peak of the transformer; None for a default by its width.
        head_learning_rate: Peak of all other layers; None for a default that depends on the encoder.
    """

    learning_rate: float | None = None
    head_learning_rate: float | None = None
    weight_decay: float = 0.01
    train_embeddings: bool = False

    def for_transformer(self, encoder: Encoder) -> float | None:
        """Return the transformer's peak learning rate; None if no transformer is trained.

        Small encoders need larger steps: the rule gives the usual 5e-5 for base and 2.4e-5 for large encoders, and for
        ``minilm`` a rate that did well on the dev sentences of ``ai``; never more than 5e-4.
        """
        if encoder.width is None:
            return None
        if self.learning_rate is not None:
            return self.learning_rate
        return float(min(5e-4, 5e-5 * (768 / encoder.width) ** 2.5))

    def for_head(self, encoder: Encoder) -> float:
        """Return the peak learning rate of all other layers.

        Recurrent layers that learn alone take five times the step of layers above a transformer that learns too: on
        BioNLP13CG and CoNLL-2003 that comes to 5 points more dev F1 in the same number of epochs.
        """
        if self.head_learning_rate is not None:
            return self.head_learning_rate
        return 1e-3 if encoder.width is not None else 5e-3


def group_parameters(tagger: Tagger, rates: Rates) -> list[ParameterGroup]:
    """Group the parameters to train: transformer and all others, with and without decay; generators at their share."""
    encoder = tagger.encoder
    encoder.freeze_parameters(train_embeddings=rates.train_embeddings)
    slow = {id(parameter) for parameter in encoder.transformer_parameters()}
    shares = tagger.rate_shares()
    groups: dict[tuple[bool, bool, float], list[nn.Parameter]] = {}
    shapes = {id(module.vectors) for module in tagger.modules() if isinstance(module, WordShapes)}
    for parameter in tagger.parameters():
        if parameter.requires_grad:
            decays = parameter.dim() > 1 and id(parameter) not in shapes
            key = (id(parameter) in slow, decays, shares.get(parameter, 1.0))
            groups.setdefault(key, []).append(parameter)
    found = []
    for (is_slow, decays, share), parameters in sorted(groups.items(), key=lambda group: group[0], reverse=True):
        rate = rates.for_transformer(encoder) if is_slow else rates.for_head(encoder)
        assert rate is not None
        found.append(ParameterGroup(parameters, share * rate, rates.weight_decay if decays else 0.0))
    return found


def note_on_dev(dev: Sequence[Sentence], types: Sequence[str], role: str) -> list[str]:
    """Return a note where dev sentences cannot choose an epoch: they hold no entity that the tagger can find."""
    gold = types_of([sentence.tags or () for sentence in dev])
    if set(gold) & set(types):
        return []
    found = f"are of {', '.join(gold)}, and the tagger learns {', '.join(types) or 'none'}" if gold else "are none"
    return [
        f"The dev sentences of the {role} cannot choose the best epoch: their entities {found}. The last epoch is kept."
        " Use --select-on with the other domain, or prepare-data --map-types."
    ]


def note_on_language(tagger: Tagger, prepared: PreparedData) -> list[str]:
    """Say that the encoder cuts the target's words far more finely than the source's, as those of another language."""
    reader, domains = tagger.encoder.reader, [prepared.domains.get(role) for role in ("source", "target")]
    if not isinstance(reader, SubwordReader) or not all(each and each.has("train") for each in domains):
        return []
    source, target = (reader.count_subwords(each.sentences("train")[:COMPARED]) for each in domains if each)
    if target <= FINELY_CUT * source:
        return []
    return [
        f"the encoder cuts a word of the target into {target:.1f} subwords, one of the source into {source:.1f}. Was it"
        " made for the target's language? Give one that was with --encoder."
    ]
