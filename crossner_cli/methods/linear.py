"""Linear tagger: one classifier over contextual word vectors.

Paper: the BERT tagger of Liu et al. (2021), CrossNER, section 4.
Differs: scores words instead of subwords, so every word receives exactly one tag; padding is masked; dropout
before the classifier (0 gives the paper's); decoding gives legal sequences of tags of the sentence's domain only
(legal=false: any of them). The source is learnt with its own tags, where the code's classifier has the target's too.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import rate
from crossner_cli.methods.contract import Paper, Rows
from crossner_cli.methods.wordwise import WordwiseTagger


class LinearTagger(WordwiseTagger):
    """One linear layer above the encoder."""

    @dataclass(frozen=True)
    class Hyperparameters(WordwiseTagger.Hyperparameters):
        """Settings of the classifier."""

        dropout: float = rate(0.1, "Share of the values of each word vector dropped before the classifier.")

    hyper: Hyperparameters
    can_export = True
    rows = Rows(tags={"classifier.weight": (0,), "classifier.bias": (0,)})
    paper = Paper(settings={"dropout": "0", "legal": "false"})

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.dropout = Dropout(hyper.dropout)
        self.classifier = nn.Linear(encoder.output_dim, len(tag_set))

    def scores(self, batch: Batch) -> Tensor:
        """Score the tags of each word, (B, W, K)."""
        scores: Tensor = self.classifier(self.dropout(self.encoder(batch)))
        return scores


METHOD = LinearTagger
