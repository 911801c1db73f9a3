"""Tiny encoders and their tokenizers, made here: no network, no downloads."""

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.methods.contract import Tagger

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,-'\"()"
NAMES = "the in of and to on london paris berlin anna peter acme met visited"


def make_tokenizer(folder: Path, letters: str = LETTERS, longest: int = 64) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer over single letters and a few whole words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = special + list(letters) + [f"##{letter}" for letter in letters] + NAMES.split()
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {f"{piece.strip('[]').lower()}_token": piece for piece in special}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=longest, **named)
    fast.save_pretrained(folder)
    return fast


def make_model(
    folder: Path, kind: str, config: dict[str, Any], *, seed: int = 7, longest: int = 64, **more: Any
) -> Path:
    """A random model of ``transformers`` with its tokenizer, as a Hugging Face folder."""
    tokenizer = make_tokenizer(folder, longest=longest)
    torch.manual_seed(seed)
    configuration = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer), **config)
    getattr(transformers, f"{kind}Model")(configuration, **more).save_pretrained(folder)
    return folder


def make_encoder(folder: Path, **changes: int) -> Path:
    """A random two-layer BERT with its tokenizer, as a Hugging Face folder."""
    config = {**SMALL, "max_position_embeddings": 64, **changes}
    return make_model(folder, "Bert", config, longest=config["max_position_embeddings"], add_pooling_layer=False)


def make_encoder_decoder(folder: Path, kind: str = "Bart", **changes: Any) -> Path:
    """A random encoder-decoder of the BART family, two layers each, with its tokenizer, as a Hugging Face folder."""
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 64))
    }
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "forced_eos_token_id": 3}
    sizes = {"d_model": 32, "max_position_embeddings": 64, "dropout": 0.0, "init_std": 0.2}
    return make_model(folder, kind, {**sides, **special, **sizes, "decoder_start_token_id": 3, **changes})


def folder_for(kind: type[Tagger], folder: Path) -> Path:
    """The folder of an encoder, or beside it, made once, of an encoder-decoder where the method reads one."""
    if kind.encoder_class.reads != "encoder-decoder":
        return folder
    beside = folder.with_name(f"{folder.name}-encoder-decoder")
    return beside if beside.is_dir() else make_encoder_decoder(beside)


SPECIAL = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


TOKENIZER_FILES = {"tokenizer.json", "tokenizer_config.json"}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Bert": SMALL,
    "Roberta": {**SMALL, "pad_token_id": 0},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "Electra": {**SMALL, "embedding_size": 16},
    "DebertaV2": {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 16},
    "MPNet": {**SMALL, "pad_token_id": 1},  # its positions start at 2 whatever the config says
    "ModernBert": {**SMALL, **SPECIAL, "embedding_dropout": 0.1, "mlp_dropout": 0.1},
    "Albert": {**SMALL, "embedding_size": 16, "hidden_dropout_prob": 0.1},
    "Camembert": {**SMALL, "pad_token_id": 0},
    "Data2VecText": {**SMALL, "pad_token_id": 0},
    "Ernie": SMALL,
    "XLMRoberta": {**SMALL, "pad_token_id": 0},
}


def make_architecture(folder: Path, name: str) -> Path:
    return make_model(folder, name, {**ARCHITECTURES[name], "max_position_embeddings": 60}, seed=3)


def encode_sentences(encoder: TransformerEncoder, sentences: list[Sentence]) -> Tensor:
    """The vectors of a batch of sentences, (B, W, H), in evaluation mode."""
    with torch.no_grad():
        vectors: Tensor = encoder.eval()(encoder.reader.collate(encoder.reader.encode(sentences)))
    return vectors
