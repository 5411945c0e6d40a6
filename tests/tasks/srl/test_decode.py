from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.srl.data import Argument, Frame, SrlSentence
from elmo.tasks.srl.decode import (
    arguments_of_tags,
    best_tags,
    roles_of,
    tag_ids,
    tag_names,
)

ROLES = ["ARG0", "C-ARG0", "V"]


def is_well_formed(names):
    before = ["O", *names]
    return all(
        name[0] != "I" or previous in (name, f"B{name[1:]}")
        for previous, name in zip(before, names, strict=False)
    )


def mask_of(*lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


@st.composite
def flat_arguments(draw):
    n_tokens = draw(st.integers(1, 8))
    arguments, i = [], 0
    while i < n_tokens:
        if draw(st.booleans()):
            end = draw(st.integers(i + 1, n_tokens))
            arguments.append(Argument(draw(st.sampled_from(ROLES)), i, end))
            i = end
        else:
            i += 1
    return n_tokens, tuple(arguments)


@given(flat_arguments())
def test_arguments_can_be_read_back_from_their_tags(drawn):
    n_tokens, arguments = drawn
    found = tag_ids(arguments, n_tokens, ROLES)
    assert (len(found.ids), found.n_overlapping) == (n_tokens, 0)
    assert arguments_of_tags(found.ids, ROLES) == arguments


def test_tags_are_written_as_BIO():
    arguments = [Argument("V", 2, 3), Argument("ARG0", 0, 2), Argument("ARG0", 3, 4)]
    names = tag_names(ROLES)
    ids = tag_ids(arguments, 5, ROLES).ids
    assert [names[i] for i in ids] == ["B-ARG0", "I-ARG0", "B-V", "B-ARG0", "O"]


def test_of_arguments_that_share_a_token_the_first_and_outermost_is_kept_and_others_counted():
    crossing = [Argument("V", 2, 4), Argument("ARG0", 0, 3), Argument("C-ARG0", 0, 2)]
    found = tag_ids(crossing, 4, ROLES)
    assert arguments_of_tags(found.ids, ROLES) == (Argument("ARG0", 0, 3),)
    assert found.n_overlapping == 2


def test_roles_that_are_not_known_are_left_out():
    found = tag_ids([Argument("ARG9", 0, 1), Argument("V", 1, 2)], 2, ROLES)
    assert arguments_of_tags(found.ids, ROLES) == (Argument("V", 1, 2),)


def test_an_inside_tag_that_goes_on_with_nothing_is_refused():
    names = tag_names(ROLES)
    with pytest.raises(ValueError, match="token 1 has tag I-V, but no V goes on there"):
        arguments_of_tags([names.index("B-ARG0"), names.index("I-V")], ROLES)


def test_roles_are_those_of_all_frames_sorted():
    frames = (Frame(0, "go", (Argument("V", 0, 1),)), Frame(1, "be"))
    assert roles_of([SrlSentence(("a", "b"), frames), SrlSentence(("c",))]) == ["V"]


@given(st.integers(1, 4), st.integers(0, 2), st.integers(0, 2**32 - 1), st.booleans())
def test_the_best_tags_are_those_that_brute_force_finds(n_tokens, n_roles, seed, with_ties):
    names = tag_names(ROLES[:n_roles])
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n_tokens, len(names), generator=generator, dtype=torch.float64)
    scores = scores.round() if with_ties else scores

    def total(ids):
        return sum(scores[t, i].item() for t, i in enumerate(ids))

    best = max(
        total(ids)
        for ids in product(range(len(names)), repeat=n_tokens)
        if is_well_formed([names[i] for i in ids])
    )
    (found,) = best_tags(scores.unsqueeze(0), mask_of(n_tokens))
    assert len(found) == n_tokens and is_well_formed([names[i] for i in found])
    assert total(found) == pytest.approx(best)


def test_sentences_of_a_padded_batch_are_decoded_as_alone():
    lengths = (3, 5, 1)
    scores = torch.randn(3, 5, 7)
    together = best_tags(scores, mask_of(*lengths))
    alone = [best_tags(scores[row : row + 1, :n], mask_of(n))[0] for row, n in enumerate(lengths)]
    assert together == alone and [len(ids) for ids in together] == list(lengths)
