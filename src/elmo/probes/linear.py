"""What a linear classifier reads from the vectors of each layer: parts of speech, any other label.

Multinomial logistic regression, from one layer's vector of a word, in coordinates of mean 0 and
deviation 1 over the training text, with L2 chosen on dev. A probe may get far by remembering words;
how far, a *control task* says, in which each word has a label drawn at random, and only remembering
helps. The difference of both accuracies is the probe's *selectivity*.

Source:
    J. Hewitt, P. Liang (2019): Designing and interpreting probes with control tasks. EMNLP.

Axes: words (of a text), dim, labels; chosen (layers).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo.encoders import Encoder
from elmo.model.device import named_device
from elmo.probes.layers import Layers, Progress, encode, on_disk
from elmo.tagged import TaggedSentence

PENALTIES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)
"""λ of λ/2 · |weights|² beside the mean loss."""
MAX_ITERATIONS = 100
"""Of L-BFGS, per penalty."""
N_RESAMPLED = 1000
"""Texts drawn for an interval."""
Z_95 = 1.959964
"""Of the normal distribution 95 % lie within so many deviations."""
NO_LABEL = -1
"""Of a word whose label the training text lacks; a probe cannot be right about it."""


@dataclass(frozen=True)
class Parts:
    """A labelled text in three parts.

    Raises:
        ValueError: If a sentence has no labels, a part no sentences, or the training part fewer
            than two labels.
    """

    train: Sequence[TaggedSentence]
    dev: Sequence[TaggedSentence]
    test: Sequence[TaggedSentence]

    def __post_init__(self) -> None:
        for name, part in self.named.items():
            if not part:
                raise ValueError(f"the {name} part has no sentences, but at least one is needed")
            if any(sentence.tags is None for sentence in part):
                raise ValueError(f"the {name} part has a sentence without labels")
        if len(self.labels) < 2:
            raise ValueError(
                f"each word of the training part has the label {self.labels[0]!r}: there is "
                "nothing to learn; give another column"
            )

    @property
    def named(self) -> dict[str, Sequence[TaggedSentence]]:
        """The parts by name."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    @property
    def labels(self) -> list[str]:
        """Those of the training part, sorted."""
        return sorted({label for sentence in self.train for label in sentence.tags or ()})

    def unknown(self) -> dict[str, Counter[str]]:
        """Labels of the dev and test parts that the training part lacks, and how often they are."""
        known = set(self.labels)
        return {
            name: Counter(t for s in part for t in s.tags or () if t not in known)
            for name, part in self.named.items()
            if name != "train"
        }

    def numbered(self) -> dict[str, Int[np.ndarray, " _"]]:
        """The label of each word of each part: its place in `labels`, or `NO_LABEL`."""
        places = {label: place for place, label in enumerate(self.labels)}
        return {
            name: np.array([places.get(t, NO_LABEL) for s in part for t in s.tags or ()])
            for name, part in self.named.items()
        }


@dataclass(frozen=True)
class Accuracy:
    """A share of right answers, and where it would lie in other texts: intervals of 95 %.

    Attributes:
        value: Right answers, of all words.
        wilson: As if each word were drawn on its own (E. B. Wilson, 1927).
        bootstrap: From texts of as many sentences, drawn from these with replacement.
    """

    value: float
    wilson: tuple[float, float]
    bootstrap: tuple[float, float]

    @classmethod
    def of(
        cls, right: Bool[np.ndarray, " words"], lengths: Sequence[int], *, seed: int
    ) -> "Accuracy":
        """From which words are right, and how many words each sentence has."""
        starts = np.cumsum([0, *lengths[:-1]])
        n_right = np.add.reduceat(right.astype(np.int64), starts)
        n_words = np.asarray(lengths)
        return cls(
            float(right.mean()),
            wilson_interval(int(right.sum()), len(right)),
            bootstrap_interval(n_right, n_words, seed=seed),
        )


@dataclass(frozen=True)
class LayerProbe:
    """What a probe of one layer can do.

    Attributes:
        layer: Its name.
        penalty: The one that was best on dev.
        dev: Accuracy there.
        test: Accuracy there.
        control: Of the control task, on test, learned with the same penalty.
    """

    layer: str
    penalty: float
    dev: float
    test: Accuracy
    control: float

    @property
    def selectivity(self) -> float:
        """How much better the labels are read than labels drawn at random for each word."""
        return self.test.value - self.control


def check_penalties(penalties: Sequence[float]) -> None:
    """Refuse what is no λ.

    Raises:
        ValueError: If there is no penalty, or one is negative or not finite.
    """
    if not penalties or not all(penalty >= 0 and isfinite(penalty) for penalty in penalties):
        raise ValueError(f"penalties are {list(penalties)}, but expected numbers from 0 on")


@contextmanager
def part_vectors(
    encoder: Encoder, parts: Parts, layers: Layers, *, progress: Progress | None = None
) -> Iterator[dict[str, Float[np.ndarray, "chosen _ dim"]]]:
    """The vectors of all words of each part, on disk meanwhile; see `layers.on_disk`."""
    train, dev, test = (
        on_disk(
            encode(encoder, texts, layers, label=f"Reading {name}", progress=progress),
            (len(layers.chosen), sum(map(len, texts)), encoder.dim),
        )
        for name, part in parts.named.items()
        for texts in [[sentence.tokens for sentence in part]]
    )
    with train as of_train, dev as of_dev, test as of_test:
        yield {"train": of_train, "dev": of_dev, "test": of_test}


def probe(
    vectors: Mapping[str, Float[np.ndarray, "chosen _ dim"]],
    parts: Parts,
    layers: Layers,
    *,
    penalties: Sequence[float] = PENALTIES,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: Progress | None = None,
) -> list[LayerProbe]:
    """Learn the labels from each layer, and those of the control task.

    Args:
        vectors: As `part_vectors` gives them.
        parts: The labels.
        layers: Which those are.
        penalties: To choose from.
        seed: Of the control task's labels, and of the bootstrap.
        device: Where to learn; `auto` is a GPU if there is one.
        progress: Called after each fit.

    Raises:
        ValueError: As `check_penalties`.
    """
    check_penalties(penalties)
    numbered, controls = parts.numbered(), control_labels(parts, seed=seed)
    n_labels, lengths = len(parts.labels), [len(sentence.tokens) for sentence in parts.test]
    found = []
    n_fits, n_done = len(layers.chosen) * (len(penalties) + 1), 0

    def tell(layer: str) -> None:
        nonlocal n_done
        n_done += 1
        if progress is not None:
            progress("Probing", n_done / n_fits, layer)

    for k, layer in enumerate(layers.names):
        x = _standardised({name: of[k] for name, of in vectors.items()}, named_device(device))
        best: tuple[float, float, Bool[np.ndarray, " words"]] | None = None
        for penalty, linear in fit(x["train"], numbered["train"], n_labels, penalties):
            dev = float(_right(linear, x["dev"], numbered["dev"]).mean())
            if best is None or dev > best[1]:
                best = penalty, dev, _right(linear, x["test"], numbered["test"])
            tell(layer)
        assert best is not None
        ((_, control),) = fit(x["train"], controls["train"], n_labels, best[:1])
        tell(layer)
        found.append(
            LayerProbe(
                layer,
                penalty=best[0],
                dev=best[1],
                test=Accuracy.of(best[2], lengths, seed=seed),
                control=float(_right(control, x["test"], controls["test"]).mean()),
            )
        )
    return found


def fit(
    x: Float[Tensor, "words dim"],
    labels: Int[np.ndarray, " words"],
    n_labels: int,
    penalties: Sequence[float],
) -> Iterator[tuple[float, nn.Linear]]:
    """The regression for each penalty, from the greatest on; each begins where the last one ended.

    A yielded module changes when the next one is asked for.

    Args:
        x: A vector per word.
        labels: From 0 to `n_labels` − 1.
        n_labels: All there are.
        penalties: λ of λ/2 · |weights|² beside the mean loss; biases are free.
    """
    y = torch.from_numpy(labels).to(x.device)
    linear = nn.Linear(x.shape[1], n_labels, device=x.device)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    for penalty in sorted(penalties, reverse=True):
        optimiser = torch.optim.LBFGS(
            linear.parameters(),
            max_iter=MAX_ITERATIONS,
            tolerance_grad=1e-6,
            tolerance_change=1e-8,
            line_search_fn="strong_wolfe",
        )

        def loss(optimiser: Any = optimiser, penalty: float = penalty) -> Tensor:
            optimiser.zero_grad()
            total = nn.functional.cross_entropy(linear(x), y)
            total = total + penalty / 2 * linear.weight.square().sum()
            total.backward()
            return total

        optimiser.step(loss)
        yield penalty, linear


def control_labels(parts: Parts, *, seed: int) -> dict[str, Int[np.ndarray, " _"]]:
    """A label for each word, by its form alone, drawn as often as the training part has each label.

    Words that the training part lacks have one too, which a probe can only guess.
    """
    shares = np.bincount(parts.numbered()["train"], minlength=len(parts.labels))
    forms = sorted({t for part in parts.named.values() for s in part for t in s.tokens})
    drawn = np.random.default_rng(seed).choice(len(shares), len(forms), p=shares / shares.sum())
    of_form = dict(zip(forms, drawn.tolist(), strict=True))
    return {
        name: np.array([of_form[token] for sentence in part for token in sentence.tokens])
        for name, part in parts.named.items()
    }


def most_frequent_labels(parts: Parts, *, seed: int = 0) -> Accuracy:
    """Accuracy on test of the label that the word has most often, which needs no vectors.

    A word that the training part lacks gets the label that is the most frequent of all.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in parts.train:
        for token, label in zip(sentence.tokens, sentence.tags or (), strict=True):
            counts[token][label] += 1
    commonest = sum(counts.values(), Counter()).most_common(1)[0][0]
    of_word = {token: count.most_common(1)[0][0] for token, count in counts.items()}
    right = [
        of_word.get(token, commonest) == label
        for sentence in parts.test
        for token, label in zip(sentence.tokens, sentence.tags or (), strict=True)
    ]
    return Accuracy.of(np.array(right), [len(s.tokens) for s in parts.test], seed=seed)


def wilson_interval(n_right: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a share."""
    share, z2 = n_right / n, z * z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap_interval(
    n_right: Int[np.ndarray, " sentences"], n_words: Int[np.ndarray, " sentences"], *, seed: int
) -> tuple[float, float]:
    """From the 2.5th to the 97.5th percentile of the share in texts of sentences drawn anew."""
    generator = np.random.default_rng(seed)
    shares = np.empty(N_RESAMPLED)
    for i in range(N_RESAMPLED):
        drawn = generator.integers(len(n_words), size=len(n_words))
        shares[i] = n_right[drawn].sum() / n_words[drawn].sum()
    low, high = np.percentile(shares, [2.5, 97.5])
    return float(low), float(high)


def _standardised(
    vectors: Mapping[str, Float[np.ndarray, "_ dim"]], device: torch.device
) -> dict[str, Float[Tensor, "_ dim"]]:
    """In coordinates of mean 0 and deviation 1 in the training part; constant ones are 0 there."""
    x = {name: torch.from_numpy(of).to(device) for name, of in vectors.items()}
    variance, mean = torch.var_mean(x["train"], dim=0, correction=0)
    deviation = variance.sqrt()
    deviation[deviation <= 1e-6 * mean.abs()] = 1.0
    return {name: (of - mean) / deviation for name, of in x.items()}


@torch.no_grad()
def _right(
    linear: nn.Linear, x: Float[Tensor, "words dim"], labels: Int[np.ndarray, " words"]
) -> Bool[np.ndarray, " words"]:
    return linear(x).argmax(dim=1).cpu().numpy() == labels
