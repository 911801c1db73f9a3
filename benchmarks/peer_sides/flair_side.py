"""flair's ``SequenceTagger`` on a transformer, trained as its documentation of fine-tuning says: no RNN, no CRF."""

from __future__ import annotations

import math

import flair
import torch
from exchange import OUTSIDE, Data, Request, Tag, answer, names_of, to_spans, to_tags
from exchange import Sentence as Labelled
from flair.data import Corpus, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import TransformerWordEmbeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer

LABEL = "ner"
BATCH_SIZE, EPOCHS = 4, 10  # the defaults of fine_tune


def train(request: Request, data: Data) -> Tag:
    """Train with the defaults of ``fine_tune``, which keeps the last epoch, or for passes whose best on dev is kept."""
    flair.device = torch.device("cpu")
    flair.set_seed(request.seed)
    types = {tag[2:] for tag in names_of(data["train"]) if tag != OUTSIDE}
    train_set, dev_set = (
        FlairDatapointDataset([to_flair(each, types) for each in data[split]]) for split in ("train", "dev")
    )
    corpus: Corpus[Sentence] = Corpus(train=train_set, dev=dev_set, sample_missing_splits=False)
    tagger = SequenceTagger(
        hidden_size=256,
        embeddings=TransformerWordEmbeddings(request.encoder, layers="-1", subtoken_pooling="first", fine_tune=True),
        tag_dictionary=corpus.make_label_dictionary(LABEL, add_unk=False),
        tag_type=LABEL,
        use_crf=False,
        use_rnn=False,
        reproject_embeddings=False,
    )
    epochs = request.epochs or EPOCHS
    if request.updates:  # flair counts epochs only
        epochs = min(epochs, math.ceil(request.updates / math.ceil(len(data["train"]) / BATCH_SIZE)))
    ModelTrainer(tagger, corpus).fine_tune(
        request.folder,
        mini_batch_size=BATCH_SIZE,
        max_epochs=epochs,
        save_final_model=False,
        use_final_model_for_eval=request.epochs is None,
        **request.given(learning_rate="learning_rate"),
    )

    def tag(sentences: list[list[str]]) -> list[list[str]]:
        read = [Sentence(words) for words in sentences]
        tagger.predict(read)
        return [
            to_tags(
                len(each),
                [(span[0].idx - 1, span[-1].idx, span.get_label(LABEL).value) for span in each.get_spans(LABEL)],
            )
            for each in read
        ]

    return tag


def to_flair(sentence: Labelled, types: set[str]) -> Sentence:
    """A sentence with its entities of these types as labels; flair stops at a type of dev that train lacks."""
    made = Sentence(sentence.words)
    for start, end, name in to_spans(sentence.tags):
        if name in types:
            made[start:end].add_label(LABEL, name)
    return made


if __name__ == "__main__":
    answer(train)
