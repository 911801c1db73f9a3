"""Tiny tokenizers of every layout, trained here: WordPiece, Unigram, byte-level BPE, and BPE as of Llama 3 or Gemma."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
TEXT = [
    "Anna met Peter in London, and the mid-term vote of 2020 (the 3rd) was theirs to win.",
    "to the north of the town the river met the sea; the theatre and the thespians moved to Paris in 1999",
    "of the other theses, 20 met the norm and 3 did not",
]
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LAYOUTS = ("word-piece", "byte-level", "metaspace", "metaspace-never", "split-byte-level", "replace-split")


def train_tokenizer(layout: str) -> Tokenizer:
    """Train a tokenizer on a few sentences. Its words in a text are cut as behind a space, which it never adds."""
    bpe: dict[str, Any] = {"vocab_size": 400, "special_tokens": SPECIAL, "show_progress": False}
    if layout == "word-piece":
        made = Tokenizer(models.WordPiece(unk_token="<unk>"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(**bpe)
    elif layout.startswith("metaspace"):
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=layout.partition("-")[2] or "always")
        trainer = trainers.UnigramTrainer(unk_token="<unk>", **{**bpe, "vocab_size": 120})
    elif layout == "replace-split":
        return _replace_and_split()
    else:
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if layout == "split-byte-level":
            split = pre_tokenizers.Split(Regex(LLAMA_3), "isolated")
            only_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            made.pre_tokenizer = pre_tokenizers.Sequence([split, only_bytes])
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **bpe)
    made.train_from_iterator(TEXT * 9, trainer)
    return made


def _replace_and_split() -> Tokenizer:
    """A BPE whose normaliser turns spaces into marks, so that its pre-tokenizer finds none to split at."""
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=[*SPECIAL, *bytes_], show_progress=False)
    made.train_from_iterator(TEXT * 9, trainer)
    record = json.loads(made.to_str())
    record["added_tokens"] = [token for token in record["added_tokens"] if token["content"] in SPECIAL]
    made = Tokenizer.from_str(json.dumps(record))
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return made


def save_tokenizer(made: Tokenizer, folder: Path) -> Path:
    """Save a tokenizer as a Hugging Face folder holds it."""
    PreTrainedTokenizerFast(
        tokenizer_object=made, cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder
