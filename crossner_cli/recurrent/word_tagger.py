"""What all taggers have in common that read words."""

from __future__ import annotations

from crossner_cli.methods.contract import Tagger
from crossner_cli.recurrent.inputs import WordTrainingInputs
from crossner_cli.recurrent.word_encoder import WordEncoder


class WordTagger(Tagger):
    """A tagger above an encoder of words, whose settings are among its own, as ``WordInputs``."""

    encoder_class = WordEncoder
    inputs_class = WordTrainingInputs
