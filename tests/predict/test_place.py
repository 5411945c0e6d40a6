import numpy as np
import pytest
import torch

from elmo.model.softmax import Softmax
from elmo.predict import place
from elmo.predict.place import admitted, combined, log_frequencies

WORDS = 9


def test_frequencies_make_one_and_fall():
    p = log_frequencies(WORDS).exp().numpy()
    assert p.sum() == pytest.approx(1) and (np.diff(p) < 0).all()
    assert p[3] == pytest.approx(np.log(5 / 4) / np.log(WORDS + 1))


def test_both_directions_together_are_bayes_rule():
    # A world in which left and right are independent given the word: the formula is exact there.
    rng = np.random.default_rng(0)
    p_word = log_frequencies(WORDS).exp().double().numpy()
    left, right = (rng.dirichlet(np.ones(n), size=WORDS) for n in (3, 4))  # p(l | w), p(r | w)
    joint = p_word[:, None, None] * left[:, :, None] * right[:, None, :]
    given_left, given_right = (joint.sum(axis=k) for k in (2, 1))
    given_left, given_right = given_left / given_left.sum(0), given_right / given_right.sum(0)
    expected = joint[:, 1, 2] / joint[:, 1, 2].sum()
    ours = combined(
        torch.from_numpy(np.log(given_left[None, :, 1])),
        torch.from_numpy(np.log(given_right[None, :, 2])),
        torch.from_numpy(np.log(p_word)),
        (),
    )
    np.testing.assert_allclose(ours.exp()[0], expected, rtol=1e-9)


@pytest.mark.parametrize("direction", place.DIRECTIONS)
def test_what_is_excluded_leaves_its_share_to_the_others(direction):
    softmax = Softmax(WORDS, 4)
    softmax.reset_parameters()
    forward_lm, backward_lm = torch.randn(2, 4), torch.randn(2, 4)
    every = admitted(softmax, forward_lm, backward_lm, direction, ())
    fewer = admitted(softmax, forward_lm, backward_lm, direction, (0, 5))
    assert torch.isneginf(fewer[:, [0, 5]]).all()
    torch.testing.assert_close(fewer.exp().sum(dim=1), torch.ones(2))
    others = [i for i in range(WORDS) if i not in (0, 5)]
    ratio = (fewer - every)[:, others]
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))


def test_a_chunk_is_at_least_one_token_and_holds_so_many_scores():
    assert place.chunk_tokens(1 << 30) == 1
    assert place.chunk_tokens(1 << 10) * (1 << 10) == place.CHUNK_SCORES
