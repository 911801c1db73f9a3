"""``transformers.Trainer`` as its example ``run_ner.py`` uses it: the first subword of a word carries its tag."""

from __future__ import annotations

from typing import Any

from exchange import OUTSIDE, Data, Request, Sentence, Tag, answer, names_of
from seqeval.metrics import f1_score
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

IGNORED = -100


def train(request: Request, data: Data) -> Tag:
    """Train with the defaults of ``TrainingArguments``, or for a number of passes of which the best on dev is kept."""
    set_seed(request.seed)
    names = names_of(data["train"])
    tokenizer = AutoTokenizer.from_pretrained(request.encoder)
    model = AutoModelForTokenClassification.from_pretrained(
        request.encoder, id2label=dict(enumerate(names)), label2id={name: number for number, name in enumerate(names)}
    )
    each_pass = "epoch" if request.epochs else "no"
    arguments = TrainingArguments(
        output_dir=request.folder,
        use_cpu=True,
        seed=request.seed,
        eval_strategy=each_pass,
        save_strategy=each_pass,
        save_only_model=True,
        save_total_limit=1,
        load_best_model_at_end=request.epochs is not None,
        metric_for_best_model="f1",
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
        **request.given(learning_rate="learning_rate", epochs="num_train_epochs", updates="max_steps"),
    )
    trainer = Trainer(
        model,
        arguments,
        data_collator=DataCollatorForTokenClassification(tokenizer),
        train_dataset=label_subwords(data["train"], names, tokenizer),
        eval_dataset=label_subwords(data["dev"], names, tokenizer),
        compute_metrics=lambda found: {
            "f1": f1_score(
                read_tags(found.label_ids, found, names), read_tags(found.predictions.argmax(-1), found, names)
            )
        },
    )
    trainer.train()

    def tag(sentences: list[list[str]]) -> list[list[str]]:
        unlabelled = [Sentence(words, [OUTSIDE] * len(words)) for words in sentences]
        found = trainer.predict(label_subwords(unlabelled, names, tokenizer))
        tags = read_tags(found.predictions.argmax(-1), found, names)
        # Words behind the longest input of the encoder are cut off.
        return [[*read, *[OUTSIDE] * (len(words) - len(read))] for read, words in zip(tags, sentences, strict=True)]

    return tag


def read_tags(numbers: Any, found: Any, names: list[str]) -> list[list[str]]:
    """The tags of the words, which stand at their first subwords."""
    return [
        [names[number] for number in row[gold != IGNORED]] for row, gold in zip(numbers, found.label_ids, strict=True)
    ]


def label_subwords(sentences: list[Sentence], names: list[str], tokenizer: Any) -> list[dict[str, list[int]]]:
    """Sentences as the trainer reads them; -100 at every subword that is not the first of a word.

    A tag of dev that train lacks counts as outside.
    """
    encoded = tokenizer([sentence.words for sentence in sentences], is_split_into_words=True, truncation=True)
    numbers = {name: number for number, name in enumerate(names)}
    rows = []
    for place, sentence in enumerate(sentences):
        words = [None, *encoded.word_ids(place)]
        labels = [
            IGNORED if word is None or word == before else numbers.get(sentence.tags[word], numbers[OUTSIDE])
            for before, word in zip(words, words[1:], strict=False)
        ]
        rows.append({**{key: values[place] for key, values in encoded.items()}, "labels": labels})
    return rows


if __name__ == "__main__":
    answer(train)
