"""A random encoder of BERT-base's size with a tokenizer of its own: as fast as the real one, and no download.

python benchmarks/random_encoder.py FOLDER [TEXT] [--layers 12] [--width 768]

TEXT gives the words of the tokenizer; default: the bundled samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import BertWordPieceTokenizer
from tokenizers.processors import BertProcessing
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from crossner_cli.data.domains import find_bundled

VOCABULARY = 30_522  # of bert-base-uncased
SPECIAL = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the encoder as a Hugging Face folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("folder", type=Path)
    add("text", type=Path, nargs="?", help="default: the bundled samples")
    add("--layers", type=int, default=12)
    add("--width", type=int, default=768, help="a multiple of 64")
    options = parser.parse_args(arguments)
    write_encoder(
        options.folder, options.text or find_bundled("sample-target", "raw.txt"), options.layers, options.width
    )


def write_encoder(folder: Path, text: Path, layers: int, width: int) -> None:
    """Train a tokenizer on a text, and write it with random weights, always the same.

    Args:
        folder: Where to.
        text: Text for the tokenizer; rows of the vocabulary that it does not fill stay unused.
        layers: Layers of the encoder.
        width: Its width, of heads of 64 each.
    """
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(lines(text), vocab_size=VOCABULARY, show_progress=False)
    borders = ((name, tokenizer.token_to_id(name)) for name in ("[SEP]", "[CLS]"))
    tokenizer.post_processor = BertProcessing(*borders)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, model_max_length=512, **SPECIAL).save_pretrained(
        folder
    )
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    torch.manual_seed(1)
    BertForMaskedLM(config).save_pretrained(folder)


def lines(text: Path) -> Iterator[str]:
    """The lines of a text file."""
    with text.open(encoding="utf-8") as file:
        yield from file


if __name__ == "__main__":
    main()
