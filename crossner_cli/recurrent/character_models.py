"""Training of the language models of contextual string embeddings, both directions in one update.

Paper: Akbik, Blythe and Vollgraf (2018), section 2.1; STM+ELMo of Jia, Liang and Zhang (2019) is built with them, whose
own language model reads words and whose sizes are not published.
Differs: the text is the run's, so the models are smaller. States are carried from window to window, gradients are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.layers.randomness import Dropout
from crossner_cli.recurrent.character_stream import CharacterBatch, CharacterStream
from crossner_cli.recurrent.string_embeddings import SIDES, CharacterLM, StringEncoder

CHARACTER_SIZE = 100
DROPOUT = 0.1  # before and after the LSTMs
States = Tensor  # (2 directions, 2 for h and c, 1 layer, B, H)


class StringLanguageModels(nn.Module):
    """A forward and a backward language model of characters.

    Args:
        rows: Rows of the training text, B; each has states.
    """

    states: Tensor

    def __init__(self, characters: Sequence[str], hidden: int, rows: int) -> None:
        super().__init__()
        self.characters = tuple(characters)
        self.models = nn.ModuleList(CharacterLM(len(characters), CHARACTER_SIZE, hidden) for _ in SIDES)
        self.decoders = nn.ModuleList(nn.Linear(hidden, len(characters)) for _ in SIDES)
        self.dropout = Dropout(DROPOUT)
        # Persistent: a checkpoint has to hold the states of the next window.
        self.register_buffer("states", self.no_states(rows))

    def no_states(self, rows: int) -> States:
        """Return the states at the beginning of rows."""
        weight = self.decoders[0].weight
        assert isinstance(weight, Tensor)
        return torch.zeros(2, 2, 1, rows, weight.shape[1], device=weight.device)

    def forward(self, batch: CharacterBatch) -> dict[str, Tensor]:
        """Return the summed cross-entropy of each direction; states continue those of the last batch."""
        before = torch.zeros_like(self.states) if batch.begins else self.states.clone()
        losses, after = self.losses(batch, before)
        self.states.copy_(after)
        return dict(zip(SIDES, losses, strict=True))

    def units(self, batch: CharacterBatch) -> dict[str, int]:
        """Count the characters to predict in each direction."""
        return dict.fromkeys(SIDES, batch.words)

    def losses(self, batch: CharacterBatch, before: States) -> tuple[list[Tensor], States]:
        """Return the summed cross-entropy of each direction, and the states after the window, without a gradient."""
        losses, after = [], []
        for side, (model, decoder) in enumerate(zip(self.models, self.decoders, strict=True)):
            assert isinstance(model, CharacterLM)
            read = self.dropout(model.encoder(batch.read[side]))  # (B, T, D)
            states, state = model.rnn(read, tuple(before[side]))
            scores = decoder(self.dropout(states)).float()  # (B, T, C)
            following = batch.following[side].flatten()
            losses.append(functional.cross_entropy(scores.flatten(0, 1), following, reduction="sum"))
            after.append(torch.stack(state).detach().to(before.dtype))
        return losses, torch.stack(after)

    def make_encoder(self) -> StringEncoder:
        """Make the encoder for taggers, which holds the same models, frozen."""
        return StringEncoder([model for model in self.models if isinstance(model, CharacterLM)], self.characters)


@torch.no_grad()
def held_out_losses(models: StringLanguageModels, text: CharacterStream, device: torch.device) -> list[float]:
    """Measure the mean cross-entropy of a character in each direction, in nats, without dropout."""
    was_training = models.training
    models.eval()
    states, sums, characters = models.no_states(text.rows), torch.zeros(2), 0
    for items in text.epoch(0):
        batch = text.batch(items, 0).to(device)
        losses, states = models.losses(batch, states)
        sums += torch.stack(losses).cpu()
        characters += batch.words
    models.train(was_training)
    return [float(value) / characters for value in sums]
