"""Words that are cut alone as they are cut inside a text, after a space."""

from __future__ import annotations

from typing import Any

# A word, and words after it that show how a tokenizer treats letters, digits, brackets and hyphens.
BEFORE, PROBES = "to", ("the", "London", "2020", "(3)", "mid-term")


def put_spaces_before_words(tokenizer: Any) -> None:
    """Let a fast tokenizer cut a word alone as after a space, by its pre-tokenizer or by a space before all it reads.

    A tokenizer that does so already is left as it is. The change is saved with the tokenizer.
    """
    from tokenizers import normalizers, pre_tokenizers

    cutter = tokenizer.backend_tokenizer
    if isinstance(cutter.pre_tokenizer, pre_tokenizers.ByteLevel):
        cutter.pre_tokenizer.add_prefix_space = True
    before = find_differently_cut(tokenizer)
    if not before:
        return
    # A ByteLevel after a Split would put a space before every part of a word, so the space comes first of all.
    own, space = cutter.normalizer, normalizers.Prepend(" ")
    cutter.normalizer = normalizers.Sequence([space] if own is None else [space, own])
    if len(find_differently_cut(tokenizer)) >= len(before):
        cutter.normalizer = own


def find_differently_cut(tokenizer: Any) -> list[str]:
    """Return those of a few words that a fast tokenizer cuts differently alone than after another word and a space."""
    cutter = tokenizer.backend_tokenizer
    cutter.no_truncation()
    cutter.no_padding()
    first = _cut_text(cutter, BEFORE)
    return [
        word
        for word in PROBES
        if first + cutter.encode([word], is_pretokenized=True, add_special_tokens=False).ids
        != _cut_text(cutter, f"{BEFORE} {word}")
    ]


def _cut_text(cutter: Any, text: str) -> list[int]:
    ids: list[int] = cutter.encode(text, add_special_tokens=False).ids
    return ids
