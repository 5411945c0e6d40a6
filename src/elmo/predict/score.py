"""How surprising every token is: −log p, in bits or nats, by each direction and by both.

Forward: given what stands left of it; backward: given what stands right; combined: given both (see
`place`), among all words, `<UNK>` included. Words outside the vocabulary count as `<UNK>`, but are
read by their own characters. Axes: tokens.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from elmo.model.bilm import BiLMState
from elmo.predict.place import chunk_tokens, combined, log_frequencies
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.outputs import Outputs, check_reading, check_vocabulary, grouped, read_group
from elmo.pretrain.perplexity import CACHE_TOKENS, perplexity_of
from elmo.reader import Reader
from elmo.text import BEGIN_SENTENCE, END_SENTENCE, Vocabulary

UNITS = {"bits": math.log(2), "nats": 1.0}
"""How many nats a unit is."""


@dataclass(frozen=True, eq=False)
class Surprisal:
    """How surprising a sentence is.

    Attributes:
        tokens: −log p of each token.
        end: −log p of the sentence end that is predicted last: `</S>` by the forward model, `<S>`
            by the backward model. None for both together, and for a sentence without tokens.
        unit: `bits` or `nats`.
    """

    tokens: Float[np.ndarray, " tokens"]
    end: float | None
    unit: str

    @property
    def n_predictions(self) -> int:
        """Tokens, and the sentence end if one is predicted."""
        return len(self.tokens) + (self.end is not None)

    @property
    def total(self) -> float:
        """Of the whole sentence, its end included: −log p(sentence), for one direction."""
        return float(self.tokens.sum()) + (self.end or 0.0)

    @property
    def mean(self) -> float:
        """Per prediction; NaN for a sentence without tokens."""
        return self.total / self.n_predictions if self.n_predictions else math.nan

    @property
    def perplexity(self) -> float:
        """Exp of the mean, in nats: of how many equally likely words one comes as a surprise."""
        return perplexity_of(self.mean * UNITS[self.unit])


@dataclass(frozen=True, eq=False)
class SentenceScore:
    """How surprising a sentence and its tokens are.

    Attributes:
        tokens: As they were read.
        known: Which of them are in the vocabulary.
        forward_lm: By the model that reads from left to right.
        backward_lm: By the model that reads from right to left.
        combined: By both, each token given all others; None if it was not asked for. Its total is
            no −log p(sentence): every token is seen by its neighbours, and no end is predicted.
    """

    tokens: Sequence[str]
    known: Bool[np.ndarray, " tokens"]
    forward_lm: Surprisal
    backward_lm: Surprisal
    combined: Surprisal | None

    @property
    def n_unknown(self) -> int:
        """Tokens outside the vocabulary."""
        return int(np.count_nonzero(~self.known))

    def by_direction(self) -> dict[str, Surprisal]:
        """What there is, under `forward`, `backward` and `combined`."""
        all_three = {
            "forward": self.forward_lm,
            "backward": self.backward_lm,
            "combined": self.combined,
        }
        return {name: of for name, of in all_three.items() if of is not None}


def check_unit(unit: str) -> None:
    """Refuse what is no unit of surprisal."""
    if unit not in UNITS:
        raise ValueError(f"unit is {unit!r}, but expected one of {', '.join(UNITS)}")


def check_no_boundary(sentence: Sequence[str], i: int) -> None:
    """Refuse a boundary among the tokens, which would be read as the end of the sentence."""
    for boundary in (BEGIN_SENTENCE, END_SENTENCE):
        if boundary in sentence:
            raise ValueError(
                f"sentences[{i}] holds {boundary}, which stands for a sentence's boundary and is "
                "no token: remove it, each sentence gets its boundaries by itself"
            )


def scores(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Iterable[Sequence[str]],
    *,
    unit: str = "bits",
    both: bool = True,
    state: str = "zero",
    batch_tokens: int = 4096,
    progress: Callable[[int], object] | None = None,
    reader: Reader | None = None,
) -> Iterator[SentenceScore]:
    """Surprisals of each sentence in turn, reading ahead a little; empty ones keep their place.

    The totals of each direction, added over a text, are what `perplexity_sums` gives for it.

    Args:
        model: The model; nothing is dropped out.
        vocabulary: The words of its softmax.
        sentences: Tokenized; read once, streaming.
        unit: `bits` or `nats`.
        both: Whether to combine the directions too.
        state: As for `perplexity`, like those that follow.
        reader: Of the model's biLM, where there is one that remembers its tokens.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
        ValueError: If a token is `<S>` or `</S>`, the unit or the state is no choice, or the
            vocabulary is not that of the softmax.
    """
    check_unit(unit)
    check_reading(state, batch_tokens)
    check_vocabulary(vocabulary, model.softmax.n_words)
    reader = reader or Reader(model.bilm, CACHE_TOKENS)
    return _scores(model, vocabulary, sentences, unit, both, state, batch_tokens, progress, reader)


def _scores(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Iterable[Sequence[str]],
    unit: str,
    both: bool,
    state: str,
    batch_tokens: int,
    progress: Callable[[int], object] | None,
    reader: Reader,
) -> Iterator[SentenceScore]:
    carried: BiLMState | None = None
    n_before = 0
    for group in grouped(sentences, state):
        for i, sentence in enumerate(group):
            check_no_boundary(sentence, n_before + i)
        n_before += len(group)
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = [(np.zeros(0),) * 3] * len(group)
        for outputs in read_group(reader, vocabulary, group, carried, batch_tokens=batch_tokens):
            carried = outputs.state if state == "carry" else None
            for i, of_sentence in _batch(model, vocabulary, outputs, both):
                found[i] = of_sentence
            if progress is not None:
                progress(len(outputs.numbers))
        for sentence, nats in zip(group, found, strict=True):
            yield _score(sentence, vocabulary, unit, both, *(n / UNITS[unit] for n in nats))


def _score(
    sentence: Sequence[str],
    vocabulary: Vocabulary,
    unit: str,
    both: bool,
    forward_lm: np.ndarray,
    backward_lm: np.ndarray,
    together: np.ndarray,
) -> SentenceScore:
    n = len(sentence)
    return SentenceScore(
        list(sentence),
        np.array([token in vocabulary for token in sentence], dtype=bool),
        Surprisal(forward_lm[:n], float(forward_lm[n]) if n else None, unit),
        Surprisal(backward_lm[1:], float(backward_lm[0]) if n else None, unit),
        Surprisal(together, None, unit) if both else None,
    )


@torch.inference_mode()
def _batch(
    model: LanguageModel, vocabulary: Vocabulary, outputs: Outputs, both: bool
) -> list[tuple[int, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Of each sentence, nats of all predictions of either direction, and of the tokens by both."""
    softmax = model.softmax
    forward_nats, backward_nats = (
        softmax.full_loss(hidden, words).double().cpu().numpy()
        for hidden, words in (
            (outputs.forward_lm, outputs.forward_words),
            (outputs.backward_lm, outputs.backward_words),
        )
    )
    places = np.concatenate(
        [
            np.arange(start, start + length)
            for start, length in zip(outputs.starts, outputs.lengths, strict=True)
        ]
    )
    together = np.zeros(len(forward_nats))
    if both:
        together[places] = _combined_nats(model, vocabulary, outputs, torch.from_numpy(places))
    return [
        (
            i,
            (
                forward_nats[start : start + length + 1],
                backward_nats[start : start + length + 1],
                together[start : start + length],
            ),
        )
        for i, start, length in zip(outputs.numbers, outputs.starts, outputs.lengths, strict=True)
    ]


def _combined_nats(
    model: LanguageModel, vocabulary: Vocabulary, outputs: Outputs, places: torch.Tensor
) -> np.ndarray:
    softmax = model.softmax
    log_frequency = log_frequencies(softmax.n_words).to(outputs.forward_lm)
    nats = []
    for some in places.to(outputs.forward_words.device).split(chunk_tokens(softmax.n_words)):
        log_p = combined(
            softmax.log_probabilities(outputs.forward_lm[some]),
            softmax.log_probabilities(outputs.backward_lm[some + 1]),
            log_frequency,
            (vocabulary.begin, vocabulary.end),
        )
        nats.append(-log_p.gather(1, outputs.forward_words[some].unsqueeze(1)).squeeze(1))
    return torch.cat(nats).double().cpu().numpy()


def as_json(score: SentenceScore) -> dict[str, Any]:
    """A score as JSON can hold it; what is no number is null."""
    return {
        "tokens": list(score.tokens),
        "known": score.known.tolist(),
        "unit": score.forward_lm.unit,
        **{
            name: {
                "tokens": of.tokens.tolist(),
                "end": of.end,
                "total": of.total,
                "mean": of.mean if of.n_predictions else None,
                "perplexity": of.perplexity if of.n_predictions else None,
            }
            for name, of in score.by_direction().items()
        },
    }
