"""Mention replacement: in each epoch, a share of the gold mentions gives way to other mentions of the same type.

Source: Dai and Adel (2020), An Analysis of Simple Data Augmentation for Named Entity Recognition, section 3, "mention
replacement". Differs: sentences are drawn anew in each epoch instead of added once, and lists of names add mentions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crossner_cli.data.files import check_file
from crossner_cli.data.names import Name, Names, read_names
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import Scheme, Span, to_spans, to_tags
from crossner_cli.errors import CrossNERError


@dataclass(frozen=True)
class Mentions:
    """Mentions by type, each once, and the share of the mentions of a sentence that others replace."""

    share: float
    by_type: Mapping[str, Sequence[Name]]
    scheme: Scheme

    def replace_in(self, sentence: Sentence, random: np.random.Generator) -> Sentence:
        """Draw for each mention whether another one of its type replaces it, and which; all else stays."""
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


def collect_mentions(
    sentences: Iterable[Sentence], share: float, scheme: Scheme, names: Names | None = None
) -> Mentions:
    """Collect the mentions of labelled sentences, and the listed names of one type that the sentences have."""
    found: dict[str, dict[Name, None]] = {}
    for sentence in sentences:
        for span in to_spans(sentence.tags or ()):
            found.setdefault(span.type, {})[sentence.words[span.start : span.end]] = None
    for name, types in (names.types if names else {}).items():
        if len(types) == 1 and types[0] in found:
            found[types[0]][name] = None
    return Mentions(share, {kind: tuple(mentions) for kind, mentions in found.items()}, scheme)


def read_mention_names(paths: Sequence[Path], types: Sequence[str]) -> Names:
    """Read the names that may replace mentions of some types.

    Raises:
        CrossNERError: A list is broken, or no name has one of the types.
    """
    for path in paths:
        check_file("--mention-names", path, "Give a file of lines of the form name<TAB>type.")
    names = read_names(paths)
    known = sorted({kind for kinds in names.types.values() for kind in kinds})
    if not set(known) & set(types):
        raise CrossNERError(
            f"--mention-names has no effect: its types are {', '.join(known)}, the target's {', '.join(types)}.",
            hint="Give each name a type of the target.",
        )
    return names
