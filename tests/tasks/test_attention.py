import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.attention import (
    BiAttention,
    SelfAttention,
    TrilinearSimilarity,
    comparison,
    masked_softmax,
    soft_alignment,
)

BATCH, TOKENS, OTHERS, DIM = 2, 5, 3, 4


def vectors(n_tokens):
    return torch.randn(BATCH, n_tokens, DIM, dtype=torch.float64)


def lengths(n_tokens, *each):
    return torch.arange(n_tokens) < torch.tensor(each).unsqueeze(1)


@given(st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_masked_softmax_is_the_softmax_of_what_is_let_through(allowed):
    scores, mask = 30 * torch.randn(3, 4), torch.tensor(allowed)
    found = masked_softmax(scores, mask)
    assert (found[:, ~mask] == 0).all()
    torch.testing.assert_close(found[:, mask], scores[:, mask].softmax(dim=-1))


def test_where_nothing_is_let_through_all_is_zero_and_so_is_the_gradient():
    scores = torch.randn(2, 3, requires_grad=True)
    mask = torch.tensor([[False, False, False], [True, False, True]])
    found = masked_softmax(scores, mask)
    (found * torch.randn(2, 3)).sum().backward()
    assert (found[0] == 0).all() and (scores.grad[0] == 0).all()
    assert scores.grad.isfinite().all() and (scores.grad[1] != 0).any()


def test_trilinear_similarity_is_that_of_the_concatenated_pairs():
    similarity = TrilinearSimilarity(DIM).double()
    x, y = vectors(TOKENS), vectors(OTHERS)
    of_x = x.unsqueeze(2).expand(-1, -1, OTHERS, -1)
    of_y = y.unsqueeze(1).expand(-1, TOKENS, -1, -1)
    pairs = torch.cat([of_x, of_y, of_x * of_y], dim=3)
    torch.testing.assert_close(similarity(x, y), pairs @ similarity.weight.flatten())


def test_both_directions_of_attention_are_those_of_the_equations():
    attention = BiAttention(DIM).double()
    context, query = vectors(TOKENS), vectors(OTHERS)
    n_tokens, n_others = (5, 3), (3, 2)
    found = attention(context, lengths(TOKENS, *n_tokens), query, lengths(OTHERS, *n_others))
    weight = attention.similarity.weight.flatten()
    for i in range(BATCH):
        c, q = context[i, : n_tokens[i]], query[i, : n_others[i]]
        scores = torch.stack(
            [torch.stack([weight @ torch.cat([one, two, one * two]) for two in q]) for one in c]
        )
        to_query = torch.stack([row.softmax(0) @ q for row in scores])
        to_context = scores.amax(1).softmax(0) @ c
        wanted = torch.cat([c, to_query, c * to_query, c * to_context], dim=1)
        torch.testing.assert_close(found[i, : n_tokens[i]], wanted)


def test_a_token_attends_to_all_others_or_to_nothing_but_never_to_itself():
    attention = SelfAttention(DIM).double()
    x = vectors(TOKENS)
    found = attention(x, lengths(TOKENS, 5, 3))
    weight = attention.similarity.weight.flatten()
    for i, n_tokens in enumerate((5, 3)):
        for j in range(n_tokens):
            one = x[i, j]
            others = [x[i, k] for k in range(n_tokens) if k != j]
            scores = torch.stack([weight @ torch.cat([one, two, one * two]) for two in others])
            # `nothing` competes with the others, and what it gets is lost.
            share = scores.exp() / (scores.exp().sum() + attention.nothing.exp())
            attended = share @ torch.stack(others)
            torch.testing.assert_close(found[i, j], torch.cat([one, attended, one * attended]))


def test_the_only_token_of_a_paragraph_finds_nothing_in_itself():
    x = vectors(TOKENS).requires_grad_()
    found = SelfAttention(DIM).double()(x, lengths(TOKENS, 1, 5))
    assert (found[0, 0, DIM:] == 0).all()
    found.sum().backward()
    assert x.grad.isfinite().all()


def test_each_sentence_is_aligned_with_the_other():
    premise, hypothesis = vectors(TOKENS), vectors(OTHERS)
    n_tokens, n_others = (4, 5), (3, 1)
    of_premise, of_hypothesis = soft_alignment(
        premise, lengths(TOKENS, *n_tokens), hypothesis, lengths(OTHERS, *n_others)
    )
    for i in range(BATCH):
        p, h = premise[i, : n_tokens[i]], hypothesis[i, : n_others[i]]
        for j, token in enumerate(p):
            torch.testing.assert_close(of_premise[i, j], (h @ token).softmax(0) @ h)
        for j, token in enumerate(h):
            torch.testing.assert_close(of_hypothesis[i, j], (p @ token).softmax(0) @ p)


def test_a_comparison_has_both_their_difference_and_their_product():
    x, aligned = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])
    torch.testing.assert_close(
        comparison(x, aligned), torch.tensor([[1.0, 2, 3, -1, -2, 3, 3, -2]])
    )


@pytest.mark.parametrize("attend", ["biattention", "self-attention", "alignment"])
def test_what_stands_in_padding_changes_no_real_token(attend):
    bi, own = BiAttention(DIM).double(), SelfAttention(DIM).double()
    mask, other_mask = lengths(TOKENS, 5, 2), lengths(OTHERS, 1, 3)

    def attended(x, y):
        if attend == "biattention":
            return bi(x, mask, y, other_mask)
        return (
            own(x, mask)
            if attend == "self-attention"
            else soft_alignment(x, mask, y, other_mask)[0]
        )

    x, y = vectors(TOKENS), vectors(OTHERS)
    for other in (1e6, -1e6):
        elsewhere_x = x.masked_fill(~mask.unsqueeze(2), other)
        elsewhere_y = y.masked_fill(~other_mask.unsqueeze(2), other)
        torch.testing.assert_close(attended(x, y)[mask], attended(elsewhere_x, elsewhere_y)[mask])
