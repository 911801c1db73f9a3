"""BARTNER: an encoder-decoder writes the entities, each as the positions of its words and then its type.

Paper: Yan et al. (2021), A Unified Generative Framework for Various NER Subtasks, flat NER.
Differs: only the first subwords of words can be pointed to, and windows of a long sentence are written one by one, an
entity across their border in two parts that are joined again; end and types have separate vectors, which begin as the
paper's and leave the table of subword vectors as it is; greedy, no beam; entities are made of neighbouring words.
Values are dropped where the code drops them: of the decoder's states, of what they are compared with, and inside MLP.
The probability of an entity is that of its steps, given those before; of a word outside, that no step points to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_cli.data.tags import Span, TagSet, split_tag, to_tags
from crossner_cli.encoders.encoder_decoder import EncoderDecoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import Decoded
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import Settings, rate
from crossner_cli.methods.contract import OtherUnits, Paper, Rows, Tagger

# A step is a number: the end, then 1 .. E for the types, then one for each word of the window.
END = 0
NO_STEP = -100
LEAST = 1e-12  # probability that is written where rounding leaves none


class Windows(NamedTuple):
    """The words that the R rows of a batch write about: N in all, at most P in a row."""

    rows: Tensor  # of each word, (N,); never falls
    places: Tensor  # of each word in its row, (N,)
    counts: Tensor  # words of each row, (R,)
    columns: Tensor  # of each word's first subword, (R, P)
    sentences: Tensor  # of each row, (R,)

    @property
    def mask(self) -> Tensor:
        """True at places of words, (R, P)."""
        return torch.arange(self.columns.shape[1], device=self.counts.device) < self.counts[:, None]


def find_windows(batch: Batch) -> Windows:
    """Find the words that a batch reads in each row."""
    height, width = batch.input_ids.shape
    flat = batch.word_places[batch.word_mask]  # (N,)
    rows = flat // width
    counts = rows.bincount(minlength=height)
    places = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    columns = torch.zeros(height, int(counts.max()), dtype=torch.long, device=rows.device)
    columns[rows, places] = flat % width
    sentences = torch.zeros_like(counts)
    sentences[rows] = batch.word_mask.nonzero()[:, 0]
    return Windows(rows, places, counts, columns, sentences)


class WrittenEntity(NamedTuple):
    """One entity that was written: words ``start`` to ``end`` of its row, number of its type, probability."""

    start: int
    end: int
    type: int
    probability: float


def read_entities(steps: Sequence[int], types: int, probabilities: Sequence[float]) -> tuple[list[WrittenEntity], int]:
    """Read a written sequence without its end, given the number of types, E, and the probability of each step.

    Returns:
        The entities, and the number of parts that are not entities: without a type or words, with words that do not
        follow one another, or with a word of an earlier entity.
    """
    entities: list[WrittenEntity] = []
    taken: set[int] = set()
    words: list[int] = []
    probability, discarded = 1.0, 0
    for step, share in zip(steps, probabilities, strict=True):
        probability *= share
        if step > types:
            words.append(step - types - 1)
            continue
        run = range(words[0], words[0] + len(words)) if words else range(0)
        if words and words == list(run) and taken.isdisjoint(run):
            entities.append(WrittenEntity(run.start, run.stop, step, max(probability, LEAST)))
            taken.update(run)
        else:
            discarded += 1
        words, probability = [], 1.0
    return entities, discarded + bool(words)


def join_entities(before: list[WrittenEntity], entities: Sequence[WrittenEntity], words: int) -> list[WrittenEntity]:
    """Put the entities of a window after those of the windows before it, which hold ``words`` words.

    An entity at the start of the window continues one of its type that ended with the words before.
    """
    moved = [entity._replace(start=entity.start + words, end=entity.end + words) for entity in entities]
    ending = next((entity for entity in before if entity.end == words), None)
    opening = next((entity for entity in moved if entity.start == words), None)
    if words == 0 or ending is None or opening is None or ending.type != opening.type:
        return before + moved
    probability = max(ending.probability * opening.probability, LEAST)
    whole = WrittenEntity(ending.start, opening.end, ending.type, probability)
    others = [entity for entity in before if entity is not ending]
    return [*others, whole, *(entity for entity in moved if entity is not opening)]


class BARTNER(Tagger):
    """Writes the entities of a sentence in the order of their words."""

    @dataclass(frozen=True)
    class Hyperparameters(Settings):
        """Settings of the scores."""

        dropout: float = rate(
            0.3,
            "Share of the values dropped where scores are made: of the decoder's states, of the vectors of end, types"
            " and subwords that they are compared with, and inside the layers that the encoder's states pass.",
        )

    encoder_class = EncoderDecoder
    rows = Rows(types={"symbols": (0,)})  # the end stands where others have O
    # The encoder-decoder of Hu et al. (2022); the rest of the authors' code, which clips values, not the norm.
    paper = Paper(
        options={
            "encoder": "facebook/bart-base",
            "learning_rate": 1e-5,
            "head_learning_rate": 1e-5,
            "weight_decay": 0.01,
            "epochs": 30,
            "warmup": 0.01,
            "schedule": "linear",
            "clip_norm": None,
            "patience": None,
            "upsample": None,
            "keep": None,
        }
    )
    hyper: Hyperparameters
    encoder: EncoderDecoder
    opening: Tensor
    tag_types: Tensor
    opens: Tensor
    closes: Tensor

    def __init__(self, encoder: EncoderDecoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        self.discarded_sequences = 0  # parts of its sequences that were not entities, since the tagger was made
        size, types = encoder.output_dim, tag_set.types
        self.dropout = Dropout(hyper.dropout)
        self.mlp = nn.Sequential(nn.Linear(size, size), Dropout(hyper.dropout), nn.ReLU(), nn.Linear(size, size))
        start = torch.cat([encoder.end_vector.detach()[None], encoder.describe(types)])
        self.symbols = nn.Parameter(start)  # the end and the types, (1+E, H)
        prefixes = [split_tag(tag)[0] for tag in tag_set.tags]
        for name, values in {
            "opening": torch.tensor(tag_set.to_ids([f"B-{name}" for name in types]), dtype=torch.long),  # (E,)
            "tag_types": torch.tensor(tag_set.type_numbers()),  # (K,)
            "opens": torch.tensor([prefix in "BS" for prefix in prefixes]),
            "closes": torch.tensor([prefix in "ESO" for prefix in prefixes]),
        }.items():
            self.register_buffer(name, values, persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy, summed over the steps, each given the gold steps before it."""
        windows = find_windows(batch)
        steps = self._targets(batch, windows)  # (R, S)
        read = self.encoder.read(batch)
        start = self.encoder.start_vector.expand(len(steps), 1, -1)
        before = self._vectors(steps[:, :-1], batch.input_ids.gather(1, windows.columns))
        states = self.encoder.write(torch.cat([start, before], dim=1), read, batch.attention_mask)
        scores = self._scores(states, self._pointed(read, batch, windows), windows.mask)
        return {"steps": functional.cross_entropy(scores.flatten(0, 1), steps.flatten(), reduction="sum")}

    def units(self, batch: Batch) -> dict[str, int]:
        """Count steps: a word of an entity, a type, an end."""
        return {"steps": OtherUnits((self._targets(batch, find_windows(batch)) != NO_STEP).sum())}

    def decode(self, batch: Batch) -> Decoded:
        """Write entities step by step, each time the likeliest; discard and count what is not an entity."""
        windows = find_windows(batch)
        types = self.tag_set.types
        probabilities: list[list[float]] = [[] for _ in range(len(batch))]
        found: list[list[WrittenEntity]] = [[] for _ in range(len(batch))]
        rows = (windows.sentences, windows.counts, *self._write(batch, windows))
        for sentence, count, steps, likely, outside in zip(*(part.tolist() for part in rows), strict=True):
            length = next((place for place, step in enumerate(steps) if step in (END, NO_STEP)), len(steps))
            entities, discarded = read_entities(steps[:length], len(types), likely[:length])
            self.discarded_sequences += discarded
            before = len(probabilities[sentence])
            probabilities[sentence] += outside[:count]
            found[sentence] = join_entities(found[sentence], entities, before)
        tags = []
        for entities, likely in zip(found, probabilities, strict=True):
            for start, end, _, probability in entities:
                likely[start:end] = [probability] * (end - start)
            spans = [Span(entity.start, entity.end, types[entity.type - 1]) for entity in entities]
            tags.append(self.tag_set.to_ids(to_tags(spans, len(likely), self.tag_set.scheme)))
        return Decoded(tags, probabilities)

    def _targets(self, batch: Batch, windows: Windows) -> Tensor:
        """Return the steps of the gold tags, (R, S); ``NO_STEP`` after the end. Spans are read by conlleval's rule."""
        assert batch.tags is not None
        tags = batch.tags[batch.word_mask]  # (N,)
        # Steps are counted before a batch is moved to the model's device.
        tag_types, opens, closes = (each.to(tags.device) for each in (self.tag_types, self.opens, self.closes))
        types = tag_types[tags]
        # The word before the first one is the last one, which does not matter: every row begins again.
        begins = (windows.places == 0) | opens[tags] | closes[tags.roll(1)] | (types != types.roll(1))
        inside = types > 0
        last = inside & begins.roll(-1)
        sizes = inside.long() + last  # steps of each word
        totals = torch.zeros_like(windows.counts).index_add_(0, windows.rows, sizes)  # (R,)
        at = sizes.cumsum(0) - sizes - (totals.cumsum(0) - totals)[windows.rows]
        steps = totals.new_full((len(totals), int(totals.max()) + 1), NO_STEP)
        steps[windows.rows[inside], at[inside]] = windows.places[inside] + len(self.symbols)
        steps[windows.rows[last], at[last] + 1] = types[last]
        holds_words = (windows.counts > 0).nonzero()[:, 0]
        steps[holds_words, totals[holds_words]] = END
        return steps

    def _vectors(self, steps: Tensor, subwords: Tensor) -> Tensor:
        """Return the vectors of steps, (R, S, H): of the pointed one of the ``subwords``, (R, P), or of the symbol."""
        symbols = functional.embedding(steps.clamp(0, len(self.symbols) - 1), self.symbols)
        chosen = subwords.gather(1, (steps - len(self.symbols)).clamp(min=0))
        words = functional.embedding(chosen, self.encoder.word_embeddings)
        return torch.where((steps >= len(self.symbols))[..., None], words, symbols)

    def _pointed(self, read: Tensor, batch: Batch, windows: Windows) -> Tensor:
        """Return the vectors that a state is compared with to point to a word, (R, P, H)."""
        rows = torch.arange(len(read), device=read.device)[:, None]
        words = functional.embedding(batch.input_ids[rows, windows.columns], self.encoder.word_embeddings)
        pointed: Tensor = (self.mlp(read[rows, windows.columns]).float() + self.dropout(words.float())) / 2
        return pointed

    def _scores(self, states: Tensor, pointed: Tensor, mask: Tensor) -> Tensor:
        """Score all steps, (R, S, 1+E+P), given states, (R, S, H); -infinity where no word is."""
        with torch.autocast(states.device.type, enabled=False):
            states, symbols = self.dropout(states.float()), self.dropout(self.symbols.float())
            words = (states @ pointed.mT).masked_fill(~mask[:, None], -torch.inf)
            return torch.cat([states @ symbols.T, words], dim=-1)

    def _banned(self, batch: Batch, windows: Windows) -> Tensor:
        """Return the steps that cannot be written, (R, 1+E+P): types of other domains; words if there is no type."""
        types = ~self.rules.allowed(batch.domains)[windows.sentences][:, self.opening]  # (R, E)
        words = types.all(dim=1, keepdim=True).expand(-1, windows.columns.shape[1])
        return torch.cat([torch.zeros_like(words[:, :1]), types, words], dim=1)

    def _write(self, batch: Batch, windows: Windows) -> tuple[Tensor, Tensor, Tensor]:
        """Write until every row has ended, or has as many steps as the longest sequence of entities takes.

        Rows that have ended are left out of the steps that follow.

        Returns:
            The steps, (R, S), ``NO_STEP`` after the end, the probability of each, and for each word, (R, P), the
            probability that no step points to it: the least of all steps.
        """
        alive, longest = (windows.counts > 0).nonzero()[:, 0], 2 * windows.counts + 1
        steps = torch.full((len(longest), int(longest.max())), NO_STEP, device=longest.device)
        probabilities = torch.ones_like(steps, dtype=torch.float)
        most = torch.zeros_like(windows.mask, dtype=torch.float)  # of the step that most probably points to a word
        read, attention = self.encoder.read(batch), batch.attention_mask
        pointed = self._pointed(read, batch, windows)
        banned, subwords = self._banned(batch, windows), batch.input_ids.gather(1, windows.columns)
        of_rows = [part[alive] for part in (read, pointed, windows.mask, banned, subwords)]
        attention = None if attention is None else attention[alive]
        inputs, cache = self.encoder.start_vector.expand(len(alive), 1, -1), self.encoder.new_cache()
        for number in range(steps.shape[1]):
            read, pointed, mask, banned, subwords = of_rows
            states = self.encoder.write(inputs, read, attention, cache)  # (alive, 1, H)
            shares = self._scores(states, pointed, mask)[:, 0].masked_fill(banned, -torch.inf).softmax(dim=-1)
            best, chosen = shares.max(dim=-1)
            steps[alive, number], probabilities[alive, number] = chosen, best
            most[alive] = torch.maximum(most[alive], shares[:, len(self.symbols) :])
            kept = ((chosen != END) & (longest[alive] > number + 1)).nonzero()[:, 0]
            if not len(kept):
                break
            if len(kept) < len(alive):
                cache.batch_select_indices(kept)
                alive, chosen, *of_rows = (part[kept] for part in (alive, chosen, *of_rows))
                attention = None if attention is None else attention[kept]
            inputs = self._vectors(chosen[:, None], of_rows[-1])
        return steps, probabilities, (1 - most).clamp(LEAST, 1.0)


METHOD = BARTNER
