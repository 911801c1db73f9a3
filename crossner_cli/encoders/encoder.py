"""The base of encoders: one vector per word, and the verbs by which a tagger starts, saves and loads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from crossner_cli.encoders.start import EncoderStart, Start, TaggerDesign
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.settings import Settings


class Encoder(nn.Module):
    """Turns a batch of sentences into one vector per word.

    Attributes:
        reads: Its input, in a word or two.
        output_dim: Width of the vectors, H.
    """

    reads: ClassVar[str]
    output_dim: int
    reader: Any

    def forward(self, batch: Batch) -> Tensor:
        """Return one vector per word, (B, W, H); rows outside the word mask are meaningless."""
        raise NotImplementedError

    @classmethod
    def reads_transformer(cls, settings: Settings) -> bool:
        """Return whether a transformer is read with these settings of the method."""
        return True

    @classmethod
    def check_start(cls, design: TaggerDesign, start: Start) -> None:
        """Refuse a start that lacks parts that are read, or has none of them, before any work."""

    @classmethod
    def start(cls, begin: EncoderStart) -> Self:
        """Make an encoder to be trained, and count in ``begin.carried`` what came from the start."""
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path, settings: Settings, *, attention: str | None) -> Self:
        """Read the encoder of a tagger's folder.

        Raises:
            CrossNERError: A file is missing or broken, or they do not belong together.
        """
        raise NotImplementedError

    def save(self, folder: Path, tags: Sequence[str], classifier: nn.Linear | None = None) -> None:
        """Write all that ``load`` reads.

        Args:
            tags: The names of the tags, for other programs that read the folder.
            classifier: The layer above the encoder, if the tagger has only one linear layer there.
        """
        raise NotImplementedError

    @property
    def files(self) -> tuple[str, ...]:
        """Patterns of the files of tensors in a model folder that the encoder reads."""
        return ()

    def keeps_words(self, folder: Path) -> bool:
        """Return whether the words of a start's folder keep their numbers, where words are numbered."""
        return False

    @property
    def frozen_size(self) -> int:
        """Width of the vectors by frozen models, which need not be computed twice; 0 without any."""
        return 0

    def read_frozen(self, batch: Batch) -> Tensor:
        """Return the vectors of the words by frozen models, (B, W, D), without a gradient."""
        raise NotImplementedError

    @property
    def width(self) -> int | None:
        """The width of the transformer that is trained, which sets its learning rate; None without one."""
        return None

    def transformer_parameters(self) -> list[nn.Parameter]:
        """Pre-trained parameters, which learn at the encoder's rate; all others learn at the head's."""
        return []

    def freeze_parameters(self, *, train_embeddings: bool) -> None:
        """Freeze the parameters that are not to be trained."""

    def prepare_for_training(self, *, on_cpu: bool, attention_dropout: bool = False) -> None:
        """Take the layers that train fast on the device."""

    def prepare_for_inference(self, precision: str, *, on_cpu: bool) -> None:
        """Take the layers that are fast without training in the precision of an engine."""
