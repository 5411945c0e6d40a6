import re

import numpy as np
import pytest
from tests.probes.toy import random_encoder

from elmo.probes.layers import Layers, encode, on_disk, open_one, unit


@pytest.mark.parametrize(
    ("text", "chosen", "names"),
    [
        ("all", (0, 1, 2, None), ["layer 0", "layer 1", "layer 2", "mean of layers"]),
        ("2, 0", (2, 0), ["layer 2", "layer 0"]),
        ("-1,mean", (2, None), ["layer 2", "mean of layers"]),
    ],
)
def test_layers_are_read(text, chosen, names):
    layers = Layers.read(text, 3)
    assert (layers.chosen, layers.names) == (chosen, names)


def test_one_layer_has_no_mean_beside_it():
    assert Layers.read("mean", 1).chosen == (0,)
    assert Layers.read("all", 1).chosen == (0,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("top", "layers are 'top', but expected all, or numbers and mean with commas between"),
        ("3", "there is no layer 3: the encoder has layers 0 to 2"),
        ("-4", "there is no layer -4"),
        ("2,-1", "asks for one twice"),
        ("", "layers are ''"),
    ],
)
def test_other_layers_are_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Layers.read(text, 3)


@pytest.mark.parametrize("text", ["none", "elmo+static:x.txt"])
def test_a_probe_looks_at_one_encoder(text):
    with pytest.raises(ValueError, match="a probe looks at one at a time"):
        open_one(text)


def test_vectors_come_a_chunk_at_a_time_as_they_are():
    encoder, told = random_encoder(), []
    sentences = [["a"], ["b", "c"], ["d", "e", "f"]]
    progress = lambda *of: told.append(of)  # noqa: E731
    read = encode(encoder, sentences, Layers((1, None), 3), label="x", chunk=2, progress=progress)
    first = next(read)
    assert encoder.read == sentences[:2]
    given = [first, *read]
    for sentence, vectors in zip(sentences, given, strict=True):
        whole = encoder.encode_layers([sentence])[0]
        np.testing.assert_array_equal(vectors, [whole[1], whole.mean(axis=0)])
        assert vectors.flags.owndata
    assert told == [("x", 2 / 3, "2 of 3 sentences"), ("x", 1.0, "3 of 3 sentences")]


def test_vectors_on_disk_are_those_that_were_given():
    generator = np.random.default_rng(0)
    parts = [generator.normal(size=(2, n, 3)).astype(np.float32) for n in (1, 4, 2)]
    with on_disk(iter(parts), (2, 7, 3)) as vectors:
        np.testing.assert_array_equal(vectors, np.concatenate(parts, axis=1))
    with on_disk(iter(()), (2, 0, 3)) as vectors:
        assert vectors.shape == (2, 0, 3)


def test_vectors_for_which_there_is_no_room_are_refused():
    with pytest.raises(OSError, match="GB free"), on_disk(iter(()), (10**6, 10**7, 1000)):
        pass


def test_a_vector_without_length_stays():
    np.testing.assert_allclose(unit(np.array([[3.0, 4], [0, 0]])), [[0.6, 0.8], [0, 0]])
