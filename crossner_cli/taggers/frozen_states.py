"""What frozen models make of sentences, read once: a tagger above them reads the same sentences in each epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crossner_cli import figures
from crossner_cli.data.sentences import Sentence
from crossner_cli.encoders.raw_text import RawSentences, RawText
from crossner_cli.encoders.subwords import batches_by_length
from crossner_cli.encoders.word_encoder import WordEncoder
from crossner_cli.engine.devices import Engine
from crossner_cli.methods.contract import Tagger
from crossner_cli.run.progress import Notice, Progress, Work
from crossner_cli.taggers.tagging import reading

MOST_BYTES = 4 * 10**9


def keep_frozen_states(
    tagger: Tagger, sentences: Sequence[Sentence], engine: Engine, task: str, raw: Iterable[RawText] = ()
) -> Work[None]:
    """Let the tagger's reader know what frozen models make of sentences; nothing for a tagger without such models.

    In batches of its own, so that an interrupted command that begins again reads the very same numbers.

    Args:
        tagger: Its encoder reads words, a frozen transformer or frozen language models of characters, or neither.
        sentences: Those that will be read again and again.
        engine: Where.
        task: Name for the progress.
        raw: Texts that will be, too. Of the sentences and of each text nothing is kept where it would not fit into
            ``MOST_BYTES`` with what is kept before it.
    """
    encoder = tagger.encoder
    if not isinstance(encoder, WordEncoder) or not encoder.frozen_size:
        return
    distinct: dict[tuple[str, ...], None] = {}
    free = MOST_BYTES
    labelled = dict.fromkeys(sentence.words for sentence in sentences)
    for text in (RawSentences(tuple(labelled)), *raw):
        size = 4 * encoder.frozen_size * sum(text.counts.values())
        if size > free:
            told = [figures.amount(number, None, "bytes") for number in (size, free, MOST_BYTES)]
            yield Notice(
                f"{task}: frozen models read {figures.count(len(text))} sentences anew each time they are met: what "
                f"they make of them, {told[0]}, is more than what is left ({told[1]}) of the {told[2]} that are kept"
            )
            continue
        free -= size
        distinct |= dict.fromkeys(text.sentences(range(len(text))))
    encoder.to(engine.device)  # the training loop comes later
    reader = encoder.reader
    encoded = reader.encode([Sentence(words) for words in distinct])
    done = 0
    for numbers in batches_by_length(encoded, engine.batch_subwords):
        rows = [encoded[number] for number in numbers]
        with reading(tagger, engine):
            states = encoder.read_frozen(reader.collate(rows).to(engine.device)).cpu()
        for row, of_sentence in zip(rows, states, strict=True):
            reader.frozen_states[row.words] = of_sentence[: len(row.words)].clone()  # not a view: padding goes
        done += len(rows)
        yield Progress(f"{task}: frozen models", done, len(encoded), "sentences", is_milestone=done == len(encoded))
