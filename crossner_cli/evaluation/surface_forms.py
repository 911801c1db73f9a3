"""Surface forms: the words of entities, numbered, so that the same words have one number wherever they stand.

Words are numbers from 1; 0 stands where there is no word, as after each sentence. Forms are found in a text one word
further a step, for all places at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_cli.evaluation.spans import Mask, Numbers

NO_FORM = -1


@dataclass(frozen=True)
class SurfaceForms:
    """Distinct sequences of words.

    Args:
        beginnings: For each length, the beginnings of forms of that many words, sorted: number of the beginning one
            word shorter times ``words`` plus the last word.
        endings: For each length, the number of the form that each beginning is, or ``NO_FORM``.
        words: One more than the largest word.
        count: Number of forms.
    """

    beginnings: tuple[Numbers, ...]
    endings: tuple[Numbers, ...]
    words: int
    count: int

    @classmethod
    def build(cls, text: NDArray[Any], start: Numbers, end: Numbers) -> tuple[SurfaceForms, Numbers]:
        """Number the forms at some places of a text.

        Args:
            text: Words, (P,).
            start: Where each begins, (N,).
            end: Where it ends, exclusive, (N,).

        Returns:
            The forms, and the number of the form at each of the places, (N,).
        """
        words = int(text.max(initial=0)) + 1
        numbers = np.full(len(start), NO_FORM, np.int64)
        state, active = np.zeros(len(start), np.int64), np.arange(len(start))
        beginnings: list[Numbers] = []
        endings: list[Numbers] = []
        count = 0
        while len(active):
            length = len(beginnings)
            keys, places = np.unique(state[active] * words + text[start[active] + length], return_inverse=True)
            state[active] = places
            is_over = end[active] - start[active] == length + 1
            ending = np.full(len(keys), NO_FORM, np.int64)
            over = np.unique(places[is_over])
            ending[over] = count + np.arange(len(over))
            count += len(over)
            numbers[active[is_over]] = ending[places[is_over]]
            beginnings.append(keys.astype(np.int64))
            endings.append(ending)
            active = active[~is_over]
        return cls(tuple(beginnings), tuple(endings), words, count), numbers

    def find(self, text: NDArray[Any]) -> Iterator[tuple[Numbers, Numbers, int]]:
        """Every place where a form stands in a text, overlapping ones too.

        Args:
            text: Words, (P,); a word that is in no form may have any other number.

        Returns:
            By length: places of the first words, numbers of the forms, and the length.
        """
        if not self.count:
            return
        first = np.full(self.words, NO_FORM, np.int64)
        first[self.beginnings[0]] = np.arange(len(self.beginnings[0]))
        state = first[np.where(text < self.words, text, 0)]
        places = np.flatnonzero(state != NO_FORM)
        state = state[places]
        for length, ending in enumerate(self.endings, start=1):
            is_form = ending[state] != NO_FORM
            yield places[is_form], ending[state[is_form]], length
            if length == len(self.endings):
                return
            goes_on = places + length < len(text)
            places, state = places[goes_on], state[goes_on]
            following = text[places + length]
            keys = self.beginnings[length]
            wanted = np.where(following < self.words, state * self.words + following, NO_FORM)
            found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            is_known = keys[found] == wanted
            places, state = places[is_known], found[is_known]


def any_within(mask: Mask, start: Numbers, end: Numbers) -> Mask:
    """Whether the mask holds anywhere between each start and end, (N,)."""
    total = np.zeros(len(mask) + 1, np.int32)
    np.cumsum(mask, out=total[1:])
    found: Mask = total[end] > total[start]
    return found
