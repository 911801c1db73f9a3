"""spaCy on a CPU: the pipeline that ``spacy init config --pipeline ner`` proposes, trained as ``spacy train`` does."""

from __future__ import annotations

import sys
from pathlib import Path

import spacy
from exchange import OUTSIDE, Data, Request, Sentence, Tag, answer
from spacy.cli.init_config import init_config
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_pipeline


def train(request: Request, data: Data) -> Tag:
    """Train until dev has not improved for 1,600 updates, and keep the best pipeline.

    The encoder and the number of passes are not used: a network that begins with nothing needs many more passes.
    """
    folder = Path(request.folder)
    config = init_config(lang="en", pipeline=["ner"])
    for split in ("train", "dev"):
        write_docs(folder / f"{split}.spacy", data[split])
        config["paths"][split] = str(folder / f"{split}.spacy")
    config["system"]["seed"] = request.seed
    config["training"].update(request.given(updates="max_steps"))
    config["training"]["eval_frequency"] = min(config["training"]["eval_frequency"], config["training"]["max_steps"])
    config["training"]["optimizer"].update(request.given(learning_rate="learn_rate"))
    train_pipeline(init_nlp(config), folder, stdout=sys.stderr, stderr=sys.stderr)
    best = spacy.load(folder / "model-best")

    def tag(sentences: list[list[str]]) -> list[list[str]]:
        docs = best.pipe(Doc(best.vocab, words=words) for words in sentences)
        return [[f"{word.ent_iob_}-{word.ent_type_}" if word.ent_type_ else OUTSIDE for word in doc] for doc in docs]

    return tag


def write_docs(path: Path, sentences: list[Sentence]) -> None:
    """Write sentences in spaCy's format, each a document."""
    vocabulary = spacy.blank("en").vocab
    docs = [Doc(vocabulary, words=sentence.words, ents=sentence.tags) for sentence in sentences]
    DocBin(docs=docs).to_disk(path)


if __name__ == "__main__":
    answer(train)
