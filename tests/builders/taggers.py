"""Taggers, sentences and batches of every method."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from builders.encoders import folder_for
from crossner_cli.data.sentences import Sentence
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.encoder_decoder import EncoderDecoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.layers.crf import Decoded
from crossner_cli.methods.contract import Tagger, find_method, method_names, read_settings
from crossner_cli.recurrent.word_encoder import WordEncoder
from crossner_cli.recurrent.word_reader import collect_vocabulary

TAG_SET = TagSet({"news": ("person", "place"), "songs": ("artist", "place")})


WORDS = ["the", "London", "of", "anna", "x-ray", "acme", "3.14", "visited", "paris"]


every_method = pytest.mark.parametrize("method", method_names())


def make_tagger(folder: Path, method: str, tag_set: TagSet = TAG_SET, *settings: str, seed: int = 5) -> Tagger:
    """A random tagger whose transitions, if it has any, are no longer zero."""
    torch.manual_seed(seed)
    kind = find_method(method)
    hyper = read_settings(kind, [*small_sizes(kind), *settings])
    tagger = kind(make_encoder_of(kind, hyper, folder), tag_set, hyper)
    with torch.no_grad():
        for name, value in tagger.named_parameters():
            if not name.startswith("encoder."):
                # Recurrences with large weights are chaotic: rounding errors grow from word to word. Their states are
                # small, so what stands above must be large for tags to differ.
                spread = 0.05 if "lstm" in name else 1.0 if kind.encoder_class.reads == "words" else 0.5
                value.add_(torch.randn_like(value) * spread)
    return tagger.eval()


def small_sizes(kind: type[Tagger]) -> list[str]:
    """Settings that keep recurrences small enough to be tried quickly, and have words told their types."""
    fields = {field.name: field.default for field in dataclasses.fields(kind.Hyperparameters)}
    sizes = [f"{name}=16" for name in ("lstm_size", "label_size", "expert_size") if name in fields]
    return [*sizes, "entity_weight=0.5"] if fields.get("entity_weight") == 0 else sizes


def make_encoder_of(kind: type[Tagger], hyper: Any, folder: Path) -> Encoder:
    """A transformer, an encoder-decoder, or an encoder of words that knows all but one of them."""
    if kind.encoder_class.reads == "encoder-decoder":
        return EncoderDecoder.from_pretrained(str(folder_for(kind, folder)), attention="eager")[0]
    if kind.encoder_class.reads == "subwords":
        return TransformerEncoder.from_pretrained(str(folder), attention="eager")[0]
    transformer = (
        None if hyper.transformer == "none" else TransformerEncoder.from_pretrained(str(folder), attention="eager")[0]
    )
    known = [Sentence((word, word)) for word in WORDS if word != "acme"]
    # Where types are compared with words, every type has a vector of its own.
    described = [*TAG_SET.types, "Quigley", "Samokhalova"] if "descriptions" in kind.rows.types else []
    return WordEncoder(collect_vocabulary(known, hyper, described=described), hyper, transformer)


def some_sentences(count: int, *, longest: int = 30, seed: int = 1) -> list[Sentence]:
    generator = np.random.default_rng(seed)
    sentences = []
    for number in range(count):
        words = int(generator.integers(1, longest + 1))
        domain = ("news", "songs")[number % 2]
        allowed = [tag for tag, used in zip(TAG_SET.tags, TAG_SET.of(domain), strict=True) if used]
        sentences.append(
            Sentence(tuple(generator.choice(WORDS, words)), tuple(generator.choice(allowed, words)), domain)
        )
    return sentences


def batch_of(tagger: Tagger, sentences: list[Sentence], *, with_tags: bool = True) -> Batch:
    reader: Any = tagger.encoder.reader
    batch: Batch = reader.collate(reader.encode(sentences, tagger.tag_set if with_tags else None))
    return batch


def decode(tagger: Tagger, sentences: list[Sentence]) -> Decoded:
    with torch.no_grad():
        return tagger.decode(batch_of(tagger, sentences, with_tags=False))


def copy_in_another_order(old: Tagger, new: Tagger, batch: Batch) -> Batch:
    """Give ``new`` the weights of ``old``, whose entity types stand in another order; return the batch in new tags."""
    other, known = new.tag_set, old.tag_set
    types = [0, *(1 + known.types.index(entity_type) for entity_type in other.types)]
    tags = known.to_ids(other.tags)
    values = old.state_dict()
    for name, value in values.items():
        for rows, dimensions in ((types, old.rows.types), (tags, old.rows.tags)):
            for dimension in dimensions.get(name, ()):
                value = value.index_select(dimension, torch.tensor(rows))
        values[name] = value
    new.load_state_dict(values)
    assert batch.tags is not None
    return dataclasses.replace(batch, tags=torch.tensor(tags).argsort()[batch.tags] * batch.word_mask)
