"""How long and how fast a tagger is trained: what the options say, and the rates that stand in where they do not."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import types_of
from crossner_cli.encoders.transformer import Encoder
from crossner_cli.layers.generated_lstm import ParameterGenerator
from crossner_cli.methods.contract import Tagger
from crossner_cli.options import Optimisation
from crossner_cli.training.loop import ParameterGroup, Plan


def plan_of(options: Optimisation) -> Plan:
    """The options that the loop reads."""
    return Plan(
        epochs=options.epochs, max_steps=options.max_steps, schedule=options.schedule, warmup=options.warmup,
        clip_norm=options.clip_norm, accumulate=options.accumulate, patience=options.patience, keep=options.keep,
        checkpoint_every=options.checkpoint_every,
    )  # fmt: skip


def learning_rate_of(encoder: Encoder, options: Optimisation) -> float | None:
    """The transformer's peak learning rate: the option, else by width; None where no transformer is trained.

    Small encoders need larger steps: the rule gives the usual 5e-5 for base and 2.4e-5 for large encoders, and for
    ``minilm`` a rate that did well on the dev sentences of ``ai``; never more than 5e-4.
    """
    if encoder.width is None:
        return None
    if options.learning_rate is not None:
        return options.learning_rate
    return float(min(5e-4, 5e-5 * (768 / encoder.width) ** 2.5))


def head_learning_rate_of(encoder: Encoder, options: Optimisation) -> float:
    """The peak learning rate of all other layers: the option, else by what they learn with.

    Recurrent layers that learn alone take five times the step of layers above a transformer that learns too: on
    BioNLP13CG and CoNLL-2003 that comes to 5 points more dev F1 in the same number of epochs.
    """
    if options.head_learning_rate is not None:
        return options.head_learning_rate
    return 1e-3 if encoder.width is not None else 5e-3


def parameter_groups(tagger: Tagger, options: Optimisation) -> list[ParameterGroup]:
    """Transformer and all above or beside it, each with and without weight decay; generators at their share."""
    encoder = tagger.encoder
    encoder.freeze_parameters(train_embeddings=options.train_embeddings)
    slow = {id(parameter) for parameter in encoder.transformer_parameters()}
    rates = [learning_rate_of(encoder, options), head_learning_rate_of(encoder, options)]
    shares = {
        id(weight): module.rate_share
        for module in tagger.modules() if isinstance(module, ParameterGenerator) for weight in module.weights
    }  # fmt: skip
    groups: dict[tuple[bool, bool, float], list[nn.Parameter]] = {}
    for parameter in tagger.parameters():
        if parameter.requires_grad:
            key = (id(parameter) in slow, parameter.dim() > 1, shares.get(id(parameter), 1.0))
            groups.setdefault(key, []).append(parameter)
    found = []
    for (is_slow, decays, share), parameters in sorted(groups.items(), key=lambda group: group[0], reverse=True):
        rate = rates[0] if is_slow else rates[1]
        assert rate is not None
        found.append(ParameterGroup(parameters, share * rate, options.weight_decay if decays else 0.0))
    return found


def note_on_dev(dev: Sequence[Sentence], types: Sequence[str], role: str) -> list[str]:
    """Return a note where dev sentences cannot choose an epoch: they hold no entity that the tagger can find.

    Args:
        dev: The sentences that choose.
        types: Entity types that the tagger learns.
        role: Whose they are, source or target.
    """
    gold = types_of([sentence.tags or () for sentence in dev])
    if set(gold) & set(types):
        return []
    found = f"are of {', '.join(gold)}, and the tagger learns {', '.join(types) or 'none'}" if gold else "are none"
    return [
        f"The dev sentences of the {role} cannot choose the best epoch: their entities {found}. The last epoch is kept."
        " Use --select-on with the other domain, or prepare-data --map-types."
    ]
