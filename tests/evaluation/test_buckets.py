"""Buckets of entities against plain loops over sentences."""

import random
from collections import Counter, defaultdict

import pytest

from crossner_cli.data.sentences import Sentence
from crossner_cli.data.statistics import STOP_WORDS
from crossner_cli.data.tags import to_spans
from crossner_cli.evaluation.buckets import SENTENCE_LENGTHS, KnownText
from crossner_cli.evaluation.fine_grained import Tagging, analyse_taggings
from crossner_cli.run.progress import exhaust

WORDS = ["a", "b", "c", "The", "of", ",", "d"]
TYPES = ["person", "place", "tool"]


def random_sentences(generator: random.Random, count: int) -> list[Sentence]:
    tags = ["O"] * 6 + [f"{prefix}-{name}" for prefix in "BI" for name in TYPES]
    found = []
    for _ in range(count):
        length = generator.randint(1, 14)
        words = tuple(generator.choice(WORDS) for _ in range(length))
        found.append(Sentence(words, tuple(generator.choices(tags, k=length))))
    return found


def is_content(word: str) -> bool:
    return any(map(str.isalnum, word)) and word.lower() not in STOP_WORDS


def seen_by_hand(surface, entity_type, train) -> str:
    mentions = [(tuple(each.words[span.start : span.end]), span.type) for each in train for span in to_spans(each.tags)]
    if (surface, entity_type) in mentions:
        return "seen, this type"
    if surface in [words for words, _ in mentions]:
        return "seen, other type"
    known = {word for words, _ in mentions for word in words}
    return "partly seen" if any(word in known and is_content(word) for word in surface) else "unseen"


def raw_by_hand(surface, lines) -> str:
    if any(tuple(line[at : at + len(surface)]) == surface for line in lines for at in range(len(line))):
        return "seen"
    known = {word for line in lines for word in line}
    return "partly seen" if any(word in known and is_content(word) for word in surface) else "unseen"


def by_hand(tagged: Sentence, start: int, end: int, entity_type: str, around: dict) -> dict[str, str]:
    """The bucket of an entity in every bucketing, by plain look-ups."""
    surface, length = tagged.words[start:end], len(tagged.words)
    inside = sum(span.end - span.start for span in to_spans(tagged.tags))
    share = next((at for at, high in enumerate((0, 0.1, 0.2, 0.3)) if inside / length <= high), 4)
    size, sentence = end - start, next(name for high, name in SENTENCE_LENGTHS.items() if length <= high)
    return {
        "mention length": ("1 word", "2 words", "3 words", "4 words", "5+ words")[min(size, 5) - 1],
        "sentence length": sentence,
        "entity density": ("0 %", "0-10 %", "10-20 %", "20-30 %", "over 30 %")[share],
        "seen in target train": seen_by_hand(surface, entity_type, around["train"]),
        "seen in source train": seen_by_hand(surface, entity_type, around["source"]),
        "seen in raw text": raw_by_hand(surface, around["lines"]),
        "type and source": "shared" if entity_type == "person" else "target only",
    }


@pytest.mark.parametrize("seed", range(4))
def test_every_bucket_equals_plain_loops(seed, tmp_path):
    generator = random.Random(seed)
    sentences, train, source = (random_sentences(generator, count) for count in (25, 8, 5))
    predicted = [tuple(tag if generator.random() < 0.7 else "O" for tag in sentence.tags) for sentence in sentences]
    lines = [[generator.choice(WORDS) for _ in range(generator.randint(1, 9))] for _ in range(6)]
    raw = tmp_path / "raw.txt"
    raw.write_text("\n".join(" ".join(line) for line in lines))
    known = KnownText(train, source, raw, ("person", "song"))
    work = analyse_taggings(sentences, [Tagging("m", "-", predicted)], known)
    rows = exhaust(work)["m"].record["parts"]
    found = {(row["by"], row["part"]): row for row in rows if row["by"] not in ("all", "type")}
    counts: dict[str, Counter] = defaultdict(Counter)
    around = {"train": train, "source": source, "lines": lines}
    for sentence, tags in zip(sentences, predicted, strict=True):
        gold, given_spans = set(to_spans(sentence.tags)), set(to_spans(tags))
        for name, spans in (("entities", gold), ("predicted", given_spans), ("correct", gold & given_spans)):
            for span in spans:
                for bucketing, bucket in by_hand(sentence, *span, around).items():
                    counts[bucketing][bucket, name] += 1
    assert {by for by, _ in found} == set(counts) and len(counts) == 7
    for (bucketing, bucket), row in found.items():
        for name in ("entities", "predicted", "correct"):
            assert row[name] == counts[bucketing].pop((bucket, name), 0), (bucketing, bucket)
    assert not any(counts.values()), "every part of an entity has a row"
