"""Batches of several tasks, and taggers over given vectors."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from builders.taggers import TAG_SET
from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.subwords import Batch
from crossner_cli.encoders.type_descriptions import describe_type
from crossner_cli.methods.contract import find_method, read_settings
from crossner_cli.recurrent.word_reader import Vocabulary

SAME_TYPES = TagSet({"news": ("person", "place"), "songs": ("person", "place")})


SMALL = ("lstm_size=6", "dropout=0", "negatives=3", "domain_size=3", "task_size=2")


WORDS = 9


class GivenVectors(torch.nn.Module):
    """In an encoder's place: vectors of a batch that are parameters, and a vector of each word drawn from its name."""

    def __init__(self, vectors: Tensor, description_size: int = 6) -> None:
        super().__init__()
        self.vectors = torch.nn.Parameter(vectors)
        self.output_dim, self.description_size = vectors.shape[-1], description_size
        self.vocabulary = Vocabulary(tuple(map(str, range(WORDS))))

    def forward(self, batch: Batch) -> Tensor:
        return self.vectors

    def vector_of(self, word: str) -> Tensor:
        seed = int.from_bytes(word.encode(), "big") % 2**60
        return torch.randn(self.description_size, generator=torch.Generator().manual_seed(seed))

    def embed_words(self, words: Sequence[str]) -> Tensor:
        return torch.stack([self.vector_of(word) for word in words])

    def describe(self, types: Sequence[str], given: Any = None) -> Tensor:
        return torch.stack([self.embed_words(describe_type(name)).sum(dim=0) for name in types])


def over_vectors(*settings: str, tag_set: TagSet = TAG_SET, method: str = "cross-domain-lm") -> Any:
    """A tagger of random weights over given vectors."""
    torch.manual_seed(3)
    kind = find_method(method)
    known = {field.name for field in dataclasses.fields(kind.Hyperparameters)}
    small = [setting for setting in SMALL if setting.partition("=")[0] in known]
    tagger = kind(GivenVectors(torch.randn(3, 7, 5)), tag_set, read_settings(kind, (*small, *settings)))
    with torch.no_grad():
        for value in tagger.parameters():
            value.copy_(torch.randn_like(value) / value.shape[-1] ** 0.5)
    return tagger.eval()


def a_batch(*domains: str, raw: bool = False, tag_set: TagSet = TAG_SET) -> Batch:
    """Three sentences, two of them padded, of one domain or several."""
    torch.manual_seed(4)
    mask = torch.arange(7) < torch.tensor([7, 3, 5])[:, None]
    ids = torch.randint(WORDS + 1, mask.shape) * mask
    tags = torch.randint(3, mask.shape) * mask  # O and a type that both domains have
    none, places = torch.zeros(0), torch.zeros_like(ids)
    names = domains * 3 if len(domains) == 1 else domains
    return Batch(none, None, places, mask, None if raw else tags, names, int(mask.sum()), word_ids=ids, is_raw=raw)


def step(tagger: Any, *batches: Batch) -> dict[str, Tensor | None]:
    """Gradients of an update that reads these batches."""
    tagger.zero_grad()
    for batch in batches:
        torch.stack(list(tagger(batch).values())).sum().backward()
    return {name: value.grad for name, value in tagger.named_parameters()}


SOURCE_NER, TARGET_NER = a_batch("songs"), a_batch("news")


SOURCE_LM, TARGET_LM = a_batch("songs", raw=True), a_batch("news", raw=True)
