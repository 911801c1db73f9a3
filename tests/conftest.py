"""Tiny encoders and runs, made here: no network, no downloads."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read once, when transformers is imported
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast  # noqa: E402

settings.register_profile("crossner", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("crossner")


LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,-'\"()"


def make_tokenizer(folder: Path, letters: str = LETTERS) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer over single letters and a few whole words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["the", "in", "of", "and", "to", "on", "london", "paris", "berlin", "anna", "peter", "acme"]
    words += ["met", "visited"]
    pieces = special + list(letters) + [f"##{letter}" for letter in letters] + words
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip
    fast.save_pretrained(folder)
    return fast


def make_encoder(folder: Path, **changes: int) -> Path:
    """A random two-layer BERT with its tokenizer, as a Hugging Face folder."""
    tokenizer = make_tokenizer(folder)
    tokenizer.model_max_length = changes.get("max_position_embeddings", 64)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    config = BertConfig(**{
        "vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 64, **changes,
    })  # fmt: skip
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random encoder."""
    return make_encoder(tmp_path_factory.mktemp("tiny-encoder"))


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of real data sets; tests that need it are skipped without."""
    folder = os.environ.get("CROSSNER_MIRROR", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CROSSNER_MIRROR is not a folder")
    return Path(folder)
