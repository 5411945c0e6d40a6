"""Outputs of a biLM that words are predicted from, a batch of sentences at a time.

Axes: predictions, dim.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.model.bilm import BiLMState
from elmo.reader import Reader
from elmo.text import Vocabulary, check_tokens, length_sorted_batches

STATES = ("zero", "carry")
GROUP_SENTENCES = 512
"""Sentences that are sorted by length together."""


class Outputs(NamedTuple):
    """What both directions predict words from, sentence after sentence.

    A sentence of n tokens has n + 1 predictions in each direction: the forward model predicts its
    tokens, then `</S>`; the backward model, listed from left to right too, `<S>`, then its tokens.
    So token i of the sentence that starts at s is predicted from `forward_lm[s + i]`, an output
    that knows what is left of it, and from `backward_lm[s + i + 1]`, which knows what is right.

    Attributes:
        numbers: Which sentences of the group these are.
        lengths: Tokens of each.
        forward_lm: Outputs of the last layer that the forward model predicts from.
        backward_lm: Likewise the backward model.
        forward_words: Ids of what is to be predicted from `forward_lm`.
        backward_words: Likewise from `backward_lm`.
        state: After the batch, for reading on.
    """

    numbers: list[int]
    lengths: list[int]
    forward_lm: Float[Tensor, "predictions dim"]
    backward_lm: Float[Tensor, "predictions dim"]
    forward_words: Int[Tensor, " predictions"]
    backward_words: Int[Tensor, " predictions"]
    state: BiLMState

    @property
    def starts(self) -> list[int]:
        """Where the predictions of each sentence start."""
        starts = [0]
        for length in self.lengths[:-1]:
            starts.append(starts[-1] + length + 1)
        return starts


def check_vocabulary(vocabulary: Vocabulary, n_words: int) -> None:
    """Refuse a vocabulary of another size than the softmax."""
    if len(vocabulary) != n_words:
        raise ValueError(
            f"the vocabulary has {len(vocabulary):,} words, but the softmax predicts "
            f"{n_words:,}: give the vocabulary that the model learned"
        )


def check_reading(state: str, batch_tokens: int) -> None:
    """Refuse a state or a budget that cannot be."""
    if state not in STATES:
        raise ValueError(f"state is {state!r}, but expected one of {STATES}")
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}, but a batch has at least 1 token")


def grouped(sentences: Iterable[Sequence[str]], state: str) -> Iterator[list[Sequence[str]]]:
    """Sentences in input order, as many together as are read together; one where states carry.

    Raises:
        TypeError: If a sentence is a string instead of a sequence of tokens.
    """
    group: list[Sequence[str]] = []
    for i, sentence in enumerate(sentences):
        check_tokens(sentence, i)
        group.append(sentence)
        if len(group) == (1 if state == "carry" else GROUP_SENTENCES):
            yield group
            group = []
    if group:
        yield group


def read_group(
    reader: Reader,
    vocabulary: Vocabulary,
    group: Sequence[Sequence[str]],
    carried: BiLMState | None = None,
    *,
    batch_tokens: int = 4096,
) -> Iterator[Outputs]:
    """Read sentences, those of similar length together; those without tokens are left out.

    Args:
        reader: The biLM.
        vocabulary: The words that it predicts.
        group: Tokenized sentences.
        carried: State to start from, of one row, for a group of one sentence; None for zero.
        batch_tokens: Tokens per forward pass, padding included.
    """
    full = [i for i, sentence in enumerate(group) if len(sentence)]
    for batch in length_sorted_batches([len(group[i]) + 2 for i in full], batch_tokens):
        numbers = [full[i] for i in batch]
        yield _read(reader, vocabulary, numbers, [group[i] for i in numbers], carried)


@torch.inference_mode()
def _read(
    reader: Reader,
    vocabulary: Vocabulary,
    numbers: list[int],
    batch: Sequence[Sequence[str]],
    carried: BiLMState | None,
) -> Outputs:
    """Outputs of one batch.

    The forward model predicts from every position but the last, the backward model from every
    position but the first; where states are carried, what it read last is not carried on, as in
    training: `</S>` is predicted but never an input.
    """
    tokens, mask = reader.batch([list(sentence) for sentence in batch])
    device = mask.device
    words = torch.full(mask.shape, -1)
    for row, sentence in enumerate(batch):
        ids = [vocabulary.begin, *map(vocabulary.id, sentence), vocabulary.end]
        words[row, : len(ids)] = torch.tensor(ids)
    words = words.to(device)
    lengths = mask.sum(dim=1)
    n = mask.shape[1] - 1
    inner = torch.arange(n, device=device) < (lengths - 1).unsqueeze(1)
    half = tokens.shape[-1]
    # Each direction reads without the boundary at its end, so that its state ends where it should.
    left = reader.read_padded(tokens[:, :n], inner, carried)
    right = reader.read_padded(tokens[:, 1:], inner, carried)
    state = BiLMState(
        *(
            torch.stack([of_left[0], of_right[1]])
            for of_left, of_right in zip(left.state, right.state, strict=True)
        )
    )
    return Outputs(
        numbers,
        [len(sentence) for sentence in batch],
        left.layers[-1][inner][:, :half],
        right.layers[-1][inner][:, half:],
        words[:, 1:][inner],
        words[:, :n][inner],
        state,
    )
