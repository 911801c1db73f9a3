"""LANER: a tagger that reads the tags it has given so far.

Paper: Hu et al. (2022), A Label-Aware Autoregressive Framework for Cross-Domain NER; its names of matrices stand beside
ours. A label is a tag as the model reads it: a vector.
Differs: words instead of subwords; padding masked in both attentions; a learned start label stands before the first
word (the paper has no rule, the code an untrained layer); the label of O is learned, which the code holds at zero;
dropout of the word vectors that the output layer reads (0 gives the paper's); greedy decoding gives legal sequences
(legal=false: any); after more than ``memory`` labels the context is made of the last ``memory`` only, and the backward
half of the label LSTM ends with them (its forward half still reads all). In training on the source it has the source's
labels only; those of the target are added in training on the target (the code's table holds all from the beginning),
and a sentence gets only labels of its own domain (the code's may get any).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from crossner_cli.data.tags import TagSet
from crossner_cli.encoders.encoder import Encoder
from crossner_cli.encoders.subwords import Batch
from crossner_cli.layers.crf import Decoded, unpad
from crossner_cli.layers.randomness import Dropout
from crossner_cli.layers.settings import Settings, rate, setting
from crossner_cli.methods.contract import Paper, Rows, Shares, Tagger

# Pairs of a word and a previous label whose states are held at once: half a gigabyte where gradients are wanted.
MOST_PAIRS = 2**17


def shares_of(asked: Tensor, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the dot products of queries, (B, Q, D), with vectors, (B, V, D): shares, (B, Q, V)."""
    scores = asked @ vectors.mT
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None], -torch.inf)
    return scores.softmax(dim=-1)


def attend(asked: Tensor, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sum vectors, each weighted by its share: one sum per query, (B, Q, D)."""
    return shares_of(asked, vectors, mask) @ vectors


class Prefix(NamedTuple):
    """The labels given so far to B sentences, the last label first, as far as the context may see them."""

    labels: Tensor  # (B, L, d2)
    forward: Tensor  # their forward states, (B, L, d2)
    state: tuple[Tensor, Tensor]  # the state that the forward half continues from


class LabelEncoder(nn.Module):
    """A bidirectional LSTM over the labels before a word, for every word of a sentence.

    e_j of word i is [forward state after labels 1..j ; backward state after labels i-1..j]: its backward half depends
    on where the labels end, so the paper runs the LSTM again for each word, W^2 / 2 steps in a row. Exact in W steps:

    - The forward half is one pass over all labels.
    - The backward state of the last label has read that label only: a table of one row per tag.
    - All other backward states are one batch with one row per word. Step t reads the label t places before each row's
      last one and drops the rows that have none left; at most ``memory`` labels are read backwards.
    """

    def __init__(self, tags: int, size: int, memory: int) -> None:
        super().__init__()
        self.memory = memory
        self.labels = nn.Embedding(tags, size)  # U_lab, (K, d2)
        self.start = nn.Parameter(torch.randn(1, size))
        self.forward_lstm = nn.LSTM(size, size, batch_first=True)
        self.backward_lstm = nn.LSTM(size, size, batch_first=True)

    def table(self) -> Tensor:
        """Return the label of each tag and, after them, the start label, (K+1, d2)."""
        return torch.cat([self.labels.weight, self.start])

    def previous(self, tags: Tensor) -> Tensor:
        """Return the rows of the table that stand before each word, (B, W), given the tags, (B, W)."""
        start = torch.full_like(tags[:, :1], self.labels.num_embeddings)
        return torch.cat([start, tags[:, :-1]], dim=1)

    def last(self, previous: Tensor) -> tuple[Tensor, Tensor]:
        """Encode the label before each word, given its row of the table, (B, W).

        Returns:
            The e_{i-1} of each word i, (B, W, 2 d2), and of them the forward states, (B, W, d2).
        """
        table = self.table()
        forward, _ = self.forward_lstm(functional.embedding(previous, table))
        alone, _ = self.backward_lstm(table[:, None])  # (K+1, 1, d2)
        return torch.cat([forward, functional.embedding(previous, alone[:, 0])], dim=-1), forward

    def extend(self, prefix: Prefix | None, labels: Tensor, *, keep: bool) -> Prefix:
        """Put one label, a row of the table, (B,), after each prefix; the first word has no prefix.

        If there are fewer labels than prefixes, the last prefixes end here. ``keep`` keeps the labels before, up to
        ``memory``, which only the context needs.
        """
        label, left, kept = self.table()[labels][:, None], len(labels), self.memory - 1
        hidden, cell = prefix.state if prefix else 2 * [label.new_zeros(1, left, label.shape[-1])]
        forward, state = self.forward_lstm(label, (hidden[:, :left], cell[:, :left]))
        if prefix is None or not keep:
            return Prefix(label, forward, state)
        return Prefix(
            torch.cat([label, prefix.labels[:left, :kept]], dim=1),
            torch.cat([forward, prefix.forward[:left, :kept]], dim=1),
            state,
        )

    def encode(self, prefix: Prefix) -> Tensor:
        """Return the e_j of the labels of a prefix, the last label first, (B, L, 2 d2)."""
        backward, _ = self.backward_lstm(prefix.labels)
        return torch.cat([prefix.forward, backward], dim=-1)

    def context(self, asked: Tensor, forward: Tensor, previous: Tensor, mask: Tensor) -> Tensor:
        """Attend from each word to the labels before it: the e^c of each word, (B, W, 2 d2)."""
        shares, backward = self.weigh(asked, forward, previous, mask)
        return torch.cat([shares @ forward, backward], dim=-1)

    def weigh(self, asked: Tensor, forward: Tensor, previous: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Weigh the labels before each word.

        Args:
            asked: One query per word, (B, W, 2 d2).
            forward: Forward states of the labels, (B, W, d2).
            previous: Rows of the table, (B, W).
            mask: True at words, (B, W).

        Returns:
            The share of each label, (B, W, W), and the sum of backward states so weighted, (B, W, d2).
        """
        input_weight, _, input_bias, hidden_bias = self.backward_lstm.all_weights[0]
        gates = functional.linear(self.table(), input_weight, input_bias + hidden_bias)  # (K+1, 4 d2)
        asked_forward, asked_backward = asked.chunk(2, dim=-1)
        scores = asked_forward @ forward.mT  # (B, W, W): what the forward half adds to a score
        ends, sentences = mask.t().nonzero(as_tuple=True)  # (R,): one row per word, those with most labels last
        weights, read = [], []
        size = max(1, MOST_PAIRS // min(mask.shape[1], self.memory))
        for first in range(0, len(ends), size):
            rows = sentences[first : first + size], ends[first : first + size]
            parts = (asked_backward[rows], scores[rows], gates, previous, *rows)
            if size < len(ends) and torch.is_grad_enabled():  # computed again in the backward pass, not kept
                found = checkpoint(self._attend_backwards, *parts, use_reentrant=False, preserve_rng_state=False)
            else:
                found = self._attend_backwards(*parts)
            weights.append(found[0])
            read.append(found[1])
        places = sentences, ends
        shares = torch.zeros_like(scores).index_put(places, torch.cat(weights))  # (B, W, W)
        return shares, torch.zeros_like(forward).index_put(places, torch.cat(read))

    def _attend_backwards(
        self, asked: Tensor, scores: Tensor, gates: Tensor, previous: Tensor, sentences: Tensor, ends: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attend from R words, in order of their places.

        Args:
            asked: The part of each query that meets backward states, (R, d2).
            scores: What forward states add to the score of each label, (R, W).
            gates: What the gates of the LSTM receive from each label, (K+1, 4 d2).
            previous: Rows of the table, (B, W).
            sentences, ends: Sentence of each word, (R,), and its place there, which is that of its last label.

        Returns:
            The weight of each label, (R, W), and the weighted sum of the backward states, (R, d2).
        """
        back = torch.arange(min(int(ends[-1]) + 1, self.memory), device=ends.device)[:, None]  # (T, 1)
        exists = ends >= back  # (T, R)
        places = (ends - back).clamp(min=0)  # (T, R)
        states = self._read_backwards(gates, previous[sentences, places], exists.sum(dim=1).tolist())  # (T, R, d2)
        scores = scores.t().gather(0, places) + (states * asked).sum(dim=-1)
        weights = scores.masked_fill(~exists, -torch.inf).softmax(dim=0)  # (T, R)
        by_place = weights.new_zeros(previous.shape[1], len(ends)).scatter_add(0, places, weights)
        return by_place.t(), (weights[..., None] * states).sum(dim=0)

    def _read_backwards(self, gates: Tensor, labels: Tensor, counts: list[int]) -> Tensor:
        """Return the backward states after each of the labels, (T, R, d2), the last label of each row first.

        Labels are rows of ``gates``, (K+1, 4 d2); step t has one for the last ``counts[t]`` of the R rows.
        """
        weight = self.backward_lstm.all_weights[0][1].t()  # (d2, 4 d2)
        hidden = cell = gates.new_zeros(labels.shape[1], len(weight))
        states = []
        for row, count in zip(labels, counts, strict=True):
            hidden, cell = hidden[-count:], cell[-count:]
            received = torch.addmm(functional.embedding(row[-count:], gates), hidden, weight)
            enter, keep, new, show = received.chunk(4, dim=1)  # (count, d2) each, in the order of nn.LSTM
            cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = show.sigmoid() * cell.tanh()
            states += [hidden.new_zeros(len(row) - count, len(weight)), hidden]
        return torch.cat(states).view(*labels.shape, -1)


class LANER(Tagger):
    """Tags word by word, given the sentence (background) and the tags before (context)."""

    @dataclass(frozen=True)
    class Hyperparameters(Settings):
        """Settings of the label encoder and both attentions; without both, a linear tagger."""

        label_size: int = setting(
            100, "Values of a label and of each half of the label LSTM (the paper's d2).", minimum=1
        )
        background: bool = setting(True, "Look at the whole sentence (label background, LB).")
        context: bool = setting(True, "Look at the previous labels (label context, LC).")
        memory: int = setting(
            128,
            "Most previous labels that the context is made of; no sentence of CrossNER, CoNLL-2003 or MIT has more.",
            minimum=1,
        )
        dropout: float = rate(0.1, "Share of the values of each word vector dropped where the output layer reads it.")
        legal: bool = setting(
            True, "Give only tag sequences that the scheme allows; without, each word gets its likeliest tag."
        )

    hyper: Hyperparameters
    rows = Rows(tags={"label_encoder.labels.weight": (0,), "output.weight": (0,), "output.bias": (0,)})
    paper = Paper(
        settings={"dropout": "0", "legal": "false"},
        options={"patience": 16, "epochs": 100},
        target_options=frozenset(("epochs", "patience")),  # the source is trained as CrossNER trains it
    )

    def __init__(self, encoder: Encoder, tag_set: TagSet, hyper: Hyperparameters) -> None:
        super().__init__(encoder, tag_set, hyper)
        size, seen = hyper.label_size, encoder.output_dim * (1 + hyper.background)
        self.reads_labels = hyper.background or hyper.context
        self.dropout = Dropout(hyper.dropout)
        if self.reads_labels:
            self.label_encoder = LabelEncoder(len(tag_set), size, hyper.memory)
        self.output = nn.Linear(seen + 2 * size * hyper.context, len(tag_set))  # Wo
        if hyper.background:
            self.background_query = nn.Linear(2 * size, encoder.output_dim)  # W2
        if hyper.context:
            self.context_query = nn.Linear(seen, 2 * size)  # W3

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy, summed over the real words, each given the gold tags before it."""
        assert batch.tags is not None
        real, words = batch.word_mask, self.encoder(batch)
        with torch.autocast(words.device.type, enabled=False):
            scores = self._scores(words.float(), real, batch.tags)
            return {"tags": functional.cross_entropy(scores[real], batch.tags[real], reduction="sum")}

    def decode(self, batch: Batch) -> Decoded:
        """Return the likeliest tag of each word given those before it, with the probability of each choice."""
        words = self.encoder(batch)
        with torch.autocast(words.device.type, enabled=False):
            tags, probabilities = self._decode(words.float(), batch.word_mask, self.rules.allowed(batch.domains))
        return Decoded(unpad(tags, batch.word_mask), unpad(probabilities, batch.word_mask))

    def explain(self, batch: Batch) -> dict[str, Shares]:
        """Return the attention to the sentence (background) and to the labels before (context), as in decoding."""
        words, mask, found = self.encoder(batch), batch.word_mask, {}
        if not self.reads_labels:
            return {}
        with torch.autocast(words.device.type, enabled=False):
            words, labels = words.float(), self.label_encoder
            previous = labels.previous(self._decode(words, mask, self.rules.allowed(batch.domains))[0])
            last, forward = labels.last(previous)
            read = words
            if self.hyper.background:
                shares = shares_of(self.background_query(last), words, mask)
                read = torch.cat([words, shares @ words], dim=-1)
                found["background"] = Shares(shares, "words")
            if self.hyper.context:
                shares, _ = labels.weigh(self.context_query(read), forward, previous, mask)
                found["context"] = Shares(shares, "labels")
        return found

    def _scores(self, words: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Score the tags of each word given the tags before it, (B, W, K), all words at once."""
        if not self.reads_labels:
            return self._predict(words, words, mask)
        labels = self.label_encoder
        previous = labels.previous(tags)
        last, forward = labels.last(previous)
        return self._predict(words, words, mask, last, lambda asked: labels.context(asked, forward, previous, mask))

    def _decode(self, words: Tensor, mask: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """Choose the tag of each word greedily; return tags and probabilities, (B, W).

        No legal tag leads where no other can follow: what is begun can end with the next word, in the same type.
        """
        lengths, order = mask.sum(dim=1).sort(descending=True)  # sentences that have a word left come first
        words, mask, allowed, rules = words[order], mask[order], allowed[order], self.rules
        tags, probabilities = torch.zeros_like(mask, dtype=torch.long), torch.zeros_like(mask, dtype=torch.float)
        prefix, previous = None, torch.full_like(lengths, allowed.shape[1])  # the start label
        penalties = rules.start.expand_as(allowed)
        for word, left in enumerate(mask.sum(dim=0).tolist()):
            here, sentences, real, banned = words[:left, word, None], words[:left], mask[:left], ~allowed[:left]
            if self.reads_labels:
                prefix = self.label_encoder.extend(prefix, previous[:left], keep=self.hyper.context)
                encoded = self.label_encoder.encode(prefix)  # (left, L, 2 d2), the last label first
                scores = self._predict(here, sentences, real, encoded[:, :1], partial(attend, vectors=encoded))
            else:
                scores = self._predict(here, sentences, real)
            if self.hyper.legal:
                is_last = (lengths[:left] == word + 1)[:, None]
                banned |= penalties[:left] + rules.stop * is_last < 0
            best, previous = scores[:, 0].masked_fill(banned, -torch.inf).log_softmax(dim=-1).max(dim=-1)
            penalties = rules.transitions[previous]
            tags[order[:left], word], probabilities[order[:left], word] = previous, best.exp()
        return tags, probabilities

    def _predict(
        self,
        here: Tensor,
        words: Tensor,
        mask: Tensor,
        last: Tensor | None = None,
        context: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Return the scores o_i, (B, Q, K), of the tags of words whose vectors h_i are ``here``, (B, Q, H).

        Args:
            words: The vectors of the whole sentence, (B, W, H).
            mask: True at words, (B, W).
            last: The label before each, e_{i-1}, (B, Q, 2 d2).
            context: From queries h'_i, (B, Q, 2 d2), to what they see of the labels before each, e^c_i, likewise.
        """
        background, labels = [], []
        if self.hyper.background:
            background = [attend(self.background_query(last), words, mask)]  # h^b_i, (B, Q, H)
        if self.hyper.context:
            assert context is not None
            labels = [context(self.context_query(torch.cat([here, *background], dim=-1)))]
        scores: Tensor = self.output(torch.cat([self.dropout(here), *background, *labels], dim=-1))
        return scores


METHOD = LANER
