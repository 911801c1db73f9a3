"""SpanMarker, trained with the settings of its documentation."""

from __future__ import annotations

from datasets import Dataset
from exchange import Data, Request, Sentence, Tag, answer, names_of, to_tags
from span_marker import SpanMarkerModel, Trainer
from transformers import TrainingArguments, set_seed


def train(request: Request, data: Data) -> Tag:
    """Train with the documented lengths, warm-up and weight decay; batch and epochs are Trainer's defaults."""
    set_seed(request.seed)
    names = names_of(data["train"])
    model = SpanMarkerModel.from_pretrained(
        request.encoder, labels=names, model_max_length=256, marker_max_length=128, entity_max_length=8
    )
    arguments = TrainingArguments(
        output_dir=request.folder,
        use_cpu=True,
        seed=request.seed,
        weight_decay=0.01,
        warmup_ratio=0.1,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        **request.given(learning_rate="learning_rate", epochs="num_train_epochs", updates="max_steps"),
    )
    Trainer(model=model, args=arguments, train_dataset=to_dataset(data["train"], names)).train()

    def tag(sentences: list[list[str]]) -> list[list[str]]:
        found = model.predict(sentences)
        return [
            to_tags(
                len(words), [(each["word_start_index"], each["word_end_index"], each["label"]) for each in entities]
            )
            for words, entities in zip(sentences, found, strict=True)
        ]

    return tag


def to_dataset(sentences: list[Sentence], names: list[str]) -> Dataset:
    """Sentences in the columns that SpanMarker reads."""
    numbers = {name: number for number, name in enumerate(names)}
    tags = [[numbers[tag] for tag in sentence.tags] for sentence in sentences]
    return Dataset.from_dict({"tokens": [sentence.words for sentence in sentences], "ner_tags": tags})


if __name__ == "__main__":
    answer(train)
