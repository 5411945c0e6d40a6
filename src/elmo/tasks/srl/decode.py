"""Arguments of a predicate ↔ BIO tags of the tokens, and the best tags that are well-formed.

With roles r₁, r₂, … the tags are O, B-r₁, I-r₁, B-r₂, I-r₂, …, numbered from 0.
Axes: batch, tokens, tags.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from elmo.tasks.srl.data import Argument, SrlSentence

OUTSIDE = 0


class TagIds(NamedTuple):
    """Tags of arguments.

    Attributes:
        ids: Of each token.
        n_overlapping: Arguments left out because they share a token with one before them.
    """

    ids: list[int]
    n_overlapping: int


def roles_of(sentences: Iterable[SrlSentence]) -> list[str]:
    """All roles that arguments play in these sentences, sorted."""
    return sorted(
        {
            argument.role
            for sentence in sentences
            for frame in sentence.frames
            for argument in frame.arguments or ()
        }
    )


def tag_names(roles: Sequence[str]) -> list[str]:
    """Tags in the order of their numbers."""
    return ["O", *(f"{prefix}-{role}" for role in roles for prefix in "BI")]


def tag_ids(arguments: Iterable[Argument], n_tokens: int, roles: Sequence[str]) -> TagIds:
    """Tags of a sentence's tokens; an outer argument goes before those within it.

    Arguments whose role is not among these are left out.
    """
    numbers = {role: 2 * i + 1 for i, role in enumerate(roles)}
    ids = [OUTSIDE] * n_tokens
    n_overlapping = 0
    for role, start, end in sorted(arguments, key=lambda a: (a.start, -a.end)):
        if role not in numbers:
            continue
        if any(ids[start:end]):
            n_overlapping += 1
        else:
            begin = numbers[role]
            ids[start:end] = [begin] + [begin + 1] * (end - start - 1)
    return TagIds(ids, n_overlapping)


def arguments_of_tags(ids: Sequence[int], roles: Sequence[str]) -> tuple[Argument, ...]:
    """Arguments that well-formed tags say, in order.

    Raises:
        ValueError: If an I-tag follows neither its B-tag nor itself.
    """
    found: list[Argument] = []
    for i, tag in enumerate(ids):
        if tag == OUTSIDE:
            continue
        role, goes_on = roles[(tag - 1) // 2], tag % 2 == 0
        if not goes_on:
            found.append(Argument(role, i, i + 1))
        elif i and ids[i - 1] in (tag, tag - 1):
            found[-1] = found[-1]._replace(end=i + 1)
        else:
            raise ValueError(f"token {i} has tag I-{role}, but no {role} goes on there")
    return tuple(found)


@torch.no_grad()
def best_tags(
    scores: Float[Tensor, "batch tokens tags"], mask: Bool[Tensor, "batch tokens"]
) -> list[list[int]]:
    """The tags with the largest sum of scores among those where I-r follows B-r or I-r only.

    Viterbi's algorithm. As transitions are either free or forbidden, a step needs to look at the
    best tag before and at two for each role, not at all pairs of tags.

    Args:
        scores: Log-probabilities, or any others.
        mask: True where a token is; every sentence has one, and they come first.
    """
    lengths = mask.sum(dim=1).tolist()
    begins = torch.arange(1, scores.shape[2], 2, device=scores.device)
    best = scores[:, 0].clone()  # (batch, tags): of the sequences that end so
    best[:, 2::2] = -torch.inf
    came_from = []
    for t in range(1, scores.shape[1]):
        any_score, any_tag = best.max(dim=1, keepdim=True)
        goes_on = best[:, 2::2] > best[:, 1::2]
        before = any_tag.expand_as(best).clone()
        before[:, 2::2] = torch.where(goes_on, begins + 1, begins)
        longer = any_score.expand_as(best).clone()
        longer[:, 2::2] = torch.maximum(best[:, 1::2], best[:, 2::2])
        best = torch.where(mask[:, t, None], longer + scores[:, t], best)
        came_from.append(before)
    last = best.argmax(dim=1).tolist()
    pointers = torch.stack(came_from, dim=1).cpu() if came_from else None
    paths = []
    for row, (tag, length) in enumerate(zip(last, lengths, strict=True)):
        path = [tag]
        for t in range(length - 1, 0, -1):
            assert pointers is not None
            path.append(int(pointers[row, t - 1, path[-1]]))
        paths.append(path[::-1])
    return paths
