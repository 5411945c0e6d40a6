"""Where adaptation to a domain begins: a trained biLM, and a softmax over the words to predict.

A model that can predict words keeps its vocabulary, has it extended with words of the domain, or
gets the domain's instead; a new word takes over its share of what `<UNK>` got so far. A model
without a softmax (official files have none) gets one that starts from the words' frequencies and is
learned first, the biLM being frozen. Axes: words, dim.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int

from elmo.checkpoints.folder import Checkpoint
from elmo.config import suggest
from elmo.model.softmax import Softmax
from elmo.model.softmax_adaptive import AdaptiveSoftmax, AnySoftmax
from elmo.pretrain.language_model import LanguageModel
from elmo.text import SPECIALS, Vocabulary

VOCABULARIES = ("keep", "extend", "replace")
SOFTMAX_SHARE = 0.3


@dataclass(frozen=True)
class Phase:
    """A part of training, in which some of the model is learned.

    Attributes:
        name: Of the phase, for logs.
        parts: What is learned: `bilm`, `softmax`; the rest is frozen.
        share: Of the whole budget, above 0 to 1.
    """

    name: str
    parts: tuple[str, ...]
    share: float

    def freeze_the_rest(self, model: LanguageModel) -> None:
        """Let gradients reach what is learned in this phase, and nothing else."""
        for part, module in model.named_children():
            module.requires_grad_(part in self.parts)


EVERYTHING = Phase("everything", ("bilm", "softmax"), 1.0)


def phase_at(phases: Sequence[Phase], progress: float) -> Phase:
    """The phase in which a training is, when `progress`, from 0 to 1, of its budget is used."""
    end = 0.0
    for phase in phases:
        end += phase.share
        if progress < end:
            return phase
    return phases[-1]


@dataclass(frozen=True)
class Beginning:
    """A model to be adapted.

    Attributes:
        model: Independent of the checkpoint: training it does not change the other.
        vocabulary: The words that it predicts.
        phases: What is to be learned, one after the other; the shares make 1.
        order: All words by falling frequency in the domain's text, for drawing negatives: only a
            vocabulary that is replaced is numbered so.
        n_known: Words whose weights were learned before.
        n_new: Words that the model did not know.
        n_forgotten: Words of the model that are not predicted any more.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    phases: tuple[Phase, ...]
    order: Int[np.ndarray, " words"]
    n_known: int
    n_new: int
    n_forgotten: int


def domain_vocabulary(
    known: Vocabulary | None,
    counts: Mapping[str, int],
    *,
    how: str | None = None,
    max_words: int | None = None,
    min_count: int = 2,
) -> Vocabulary:
    """The words that an adapted model is to predict.

    Args:
        known: The words that the model predicts so far; None if it predicts none.
        counts: How often each token occurs in the domain's text.
        how: `keep` them; `extend` them: they keep their numbers, and frequent words of the domain
            follow by falling frequency; `replace` them with the domain's. None extends a
            vocabulary and replaces a missing one.
        max_words: Size at most, specials and known words included; None for no bound.
        min_count: Rarer words of the domain are not added.

    Raises:
        ValueError: If `how` is no choice or asks for a vocabulary that there is not, or the known
            words alone are more than `max_words`.
    """
    how = how or ("replace" if known is None else "extend")
    if how not in VOCABULARIES:
        raise ValueError(
            f'vocabulary is "{how}", but expected one of {", ".join(VOCABULARIES)}.'
            f"{suggest(how, VOCABULARIES)}"
        )
    if how == "replace":
        return Vocabulary.from_counts(counts, max_words=max_words, min_count=min_count)
    if known is None:
        raise ValueError(
            f"the model predicts no words (it has no softmax), so there is no vocabulary to {how}: "
            "replace it"
        )
    if how == "keep":
        return known
    if max_words is not None and max_words < len(known):
        raise ValueError(
            f"max_words is {max_words:,}, but the vocabulary to extend has {len(known):,} words "
            "already: give more, or keep it, or replace it"
        )
    others = {word: n for word, n in counts.items() if word not in known}
    bound = None if max_words is None else max_words - len(known) + len(SPECIALS)
    if bound == len(SPECIALS):
        return known
    found = Vocabulary.from_counts(others, max_words=bound, min_count=min_count)
    return Vocabulary([*known.words, *found.words[len(SPECIALS) :]])


def begin(
    checkpoint: Checkpoint,
    vocabulary: Vocabulary,
    counts: Mapping[str, int],
    n_sentences: int,
    *,
    dropout: float | None = None,
    softmax_share: float = SOFTMAX_SHARE,
) -> Beginning:
    """The model to adapt, as it is before the first step.

    Args:
        checkpoint: The trained model; it stays as it is.
        vocabulary: The words to predict, as from `domain_vocabulary`.
        counts: How often each token occurs in the domain's text.
        n_sentences: Sentences of that text.
        dropout: Of the model while it learns; None for what its config says.
        softmax_share: Where a softmax is learned from nothing: the share of the budget in which it
            is learned alone.

    Raises:
        ValueError: If the share is not between 0 and 1, or an adaptive softmax would have to learn
            some words more.
    """
    if not 0 < softmax_share < 1:
        raise ValueError(f"softmax_share is {softmax_share}, but is a share between 0 and 1")
    bilm = copy.deepcopy(checkpoint.bilm)
    if dropout is not None:
        bilm.config = dataclasses.replace(bilm.config, dropout=dropout)
    known, softmax = checkpoint.vocabulary, checkpoint.softmax
    changed: AnySoftmax
    phases: tuple[Phase, ...] = (EVERYTHING,)
    if known is None or softmax is None:
        known = Vocabulary(SPECIALS)
        changed = softmax_of_frequencies(vocabulary, counts, n_sentences, bilm.config.lstm.dim)
        phases = (
            Phase("softmax", ("softmax",), softmax_share),
            Phase("everything", ("bilm", "softmax"), 1 - softmax_share),
        )
    elif vocabulary.words == known.words:
        changed = copy.deepcopy(softmax)
    elif isinstance(softmax, AdaptiveSoftmax):
        raise ValueError(
            "the model has an adaptive softmax, whose clusters have no room for other words: keep "
            "its vocabulary"
        )
    else:
        changed = softmax_of_other_words(softmax, known, vocabulary, counts)
    n_known = sum(word in known for word in vocabulary.words)
    return Beginning(
        LanguageModel(bilm, changed),
        vocabulary,
        phases,
        # Stable: words that are as frequent keep their order, and so do those that do not occur.
        np.argsort(-_frequencies(vocabulary, counts, n_sentences), kind="stable"),
        n_known=n_known,
        n_new=len(vocabulary) - n_known,
        n_forgotten=len(known) - n_known,
    )


def softmax_of_other_words(
    softmax: Softmax, known: Vocabulary, vocabulary: Vocabulary, counts: Mapping[str, int]
) -> Softmax:
    """A softmax over another vocabulary, from one that was learned.

    Known words keep their weights. A new word gets the row of `<UNK>` and such a bias that,
    whatever was read, `<UNK>`'s probability is divided among the new words and what remains unknown
    as the domain's text divides it. Where no word is left out, the known ones are as probable as
    before.

    Args:
        softmax: Over `known`.
        known: Words that were learned.
        vocabulary: Words to predict.
        counts: How often each token occurs in the domain's text.
    """
    places = [i for i, word in enumerate(vocabulary.words) if word not in known]
    often = [max(1, counts.get(vocabulary.words[i], 0)) for i in places]
    unknown = sum(n for word, n in counts.items() if word not in known and word not in vocabulary)
    # `<UNK>` and those that it is divided among.
    places, often = [vocabulary.unknown, *places], [max(1, unknown), *often]
    shares = torch.tensor(often, dtype=torch.float64) / sum(often)
    rows = torch.tensor([known.id(word) for word in vocabulary.words])
    changed = Softmax(len(vocabulary), softmax.weight.shape[1]).to(softmax.weight)
    with torch.no_grad():
        changed.weight.copy_(softmax.weight[rows])
        changed.bias.copy_(softmax.bias[rows])
        changed.bias[places] += torch.log(shares).to(changed.bias)
    return changed


def softmax_of_frequencies(
    vocabulary: Vocabulary, counts: Mapping[str, int], n_sentences: int, dim: int
) -> Softmax:
    """A softmax that gives each word its frequency in the domain's text, whatever was read.

    A word that does not occur counts as if it did once. The weights are zero: learning a softmax
    alone is a convex problem, in which nothing is gained from chance.

    Args:
        vocabulary: Words to predict.
        counts: How often each token occurs in the domain's text.
        n_sentences: How often a sentence begins and ends.
        dim: Size of an output of the biLM.
    """
    softmax = Softmax(len(vocabulary), dim)
    with torch.no_grad():
        softmax.weight.zero_()
        often = np.maximum(1, _frequencies(vocabulary, counts, n_sentences))
        softmax.bias.copy_(torch.from_numpy(np.log(often / often.sum())))
    return softmax


def _frequencies(
    vocabulary: Vocabulary, counts: Mapping[str, int], n_sentences: int
) -> Int[np.ndarray, " words"]:
    """How often each word is predicted by both directions together."""
    # Each direction predicts every token, but only one of the two boundaries.
    often = np.array([2 * counts.get(word, 0) for word in vocabulary.words])
    often[[vocabulary.begin, vocabulary.end]] = n_sentences
    often[vocabulary.unknown] = 2 * sum(n for word, n in counts.items() if word not in vocabulary)
    return often
