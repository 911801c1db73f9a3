"""crossner: take a named-entity tagger to a new domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from crossner_cli.prediction.texts import TextTagger

__version__ = "0.1.0"


def load_tagger(folder: str | Path) -> TextTagger:
    """Load a tagger that tags texts as ``crossner predict`` does, on a GPU if there is one.

    Like each command, it sets the threads and the random seed of PyTorch.

    Args:
        folder: The folder of a stage, as ``run/finetune``, of a tagger, or of an exported graph. Of a stage with
            several seeds, the tagger with the best dev F1 is loaded.

    Returns:
        Its ``tag`` takes a list of texts and returns a list of entities for each.

    Raises:
        CrossNERError: The folder holds no tagger, or a damaged one.
    """
    from pathlib import Path

    from crossner_cli.engine.devices import start_engine  # PyTorch takes seconds to import
    from crossner_cli.options import Predict
    from crossner_cli.prediction.texts import TextTagger

    return TextTagger(Path(folder), start_engine(Predict()))
