import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.models import config_of, random_bilm, shapes

from elmo.text import char_ids

tokens = st.lists(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1),
    min_size=1,
    max_size=4,
)


@given(shape=shapes(), words=tokens)
def test_a_token_is_encoded_as_the_equations_say(shape, words):
    config = config_of(shape)
    bilm = random_bilm(config).double()
    ids = char_ids(words)
    ours = bilm.char_cnn(torch.from_numpy(ids)).detach().numpy()
    weights = reference.weights_of(bilm)
    for vector, token in zip(ours, ids, strict=True):
        np.testing.assert_allclose(
            vector, reference.token_vector(weights, config, token), atol=1e-12
        )


def test_a_token_is_encoded_the_same_whatever_stands_beside_it():
    cnn = random_bilm().char_cnn
    ids = torch.from_numpy(char_ids(["a", "b" * 45, "word"]))
    together = cnn(ids)
    for i in range(3):
        torch.testing.assert_close(cnn(ids[i : i + 1])[0], together[i], atol=1e-5, rtol=0)
