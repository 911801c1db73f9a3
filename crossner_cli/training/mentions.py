"""Mention replacement: in each epoch, a share of the gold mentions is replaced by other mentions of the same type.

Source: Dai and Adel (2020), An Analysis of Simple Data Augmentation for Named Entity Recognition, section 3, "mention
replacement". Differs: sentences are drawn again in each epoch instead of added once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crossner_cli.data.names import Name
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Scheme, Span, to_spans, to_tags


@dataclass(frozen=True)
class Mentions:
    """Mentions by type, each once, and the share of the mentions of a sentence that others replace."""

    share: float
    by_type: Mapping[str, Sequence[Name]]
    scheme: Scheme

    def replace_in(self, sentence: Sentence, random: np.random.Generator) -> Sentence:
        """Draw for each mention if another one of its type replaces it, and which one."""
        words: list[str] = []
        spans: list[Span] = []
        end = 0
        for span in to_spans(sentence.tags or ()):
            words += sentence.words[end : span.start]
            mention, choice = sentence.words[span.start : span.end], self.by_type.get(span.type, ())
            if len(choice) and random.random() < self.share:
                mention = choice[int(random.integers(len(choice)))]
            spans.append(Span(len(words), len(words) + len(mention), span.type))
            words += mention
            end = span.end
        words += sentence.words[end:]
        return replace(sentence, words=tuple(words), tags=tuple(to_tags(spans, len(words), self.scheme)))


def collect_mentions(sentences: Iterable[Sentence], share: float, scheme: Scheme) -> Mentions:
    """Collect the mentions of labelled sentences."""
    found: dict[str, dict[Name, None]] = {}
    for sentence in sentences:
        for span in to_spans(sentence.tags or ()):
            found.setdefault(span.type, {})[sentence.words[span.start : span.end]] = None
    return Mentions(share, {kind: tuple(mentions) for kind, mentions in found.items()}, scheme)
