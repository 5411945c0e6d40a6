import logging
import re

import numpy as np
import pytest
import torch
from tests.models import TINY, random_bilm

from elmo import Elmo
from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.encoders.elmo import ElmoEncoder
from elmo.encoders.encoder import Encoder, check_same, record

SENTENCES = [["The", "cat", "sat", "."], [], ["a"], ["naïve", "dogs", "run"]]


@pytest.fixture
def encoder():
    return ElmoEncoder(Elmo(random_bilm()), "elmo:tiny")


def test_it_gives_the_layers_of_elmo(encoder):
    expected = Elmo(random_bilm()).encode_layers(SENTENCES)
    for ours, wanted in zip(encoder.encode_layers(SENTENCES), expected, strict=True):
        np.testing.assert_allclose(ours, wanted, atol=1e-6)
        assert ours.dtype == np.float32 and ours.shape[0] == encoder.n_layers == 3
    assert isinstance(encoder, Encoder) and encoder.dim == 12


def test_neither_order_nor_batches_change_a_vector(encoder):
    small = ElmoEncoder(Elmo(random_bilm()), batch_tokens=1)
    backwards = small.encode_layers(SENTENCES[::-1])[::-1]
    for a, b in zip(encoder.encode_layers(SENTENCES), backwards, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)  # of numbers up to 25


def test_the_trainable_copy_begins_with_the_same_layers_and_learns(encoder):
    before = encoder.encode_layers(SENTENCES)
    module = encoder.trainable()
    assert module.training and all(p.requires_grad for p in module.parameters())
    padded = module.eval()(SENTENCES)
    assert padded.shape == (3, 4, 4, 12)
    for row, layers in enumerate(before):
        n = layers.shape[1]
        np.testing.assert_allclose(padded[:, row, :n].detach(), layers, atol=1e-5)
        assert not padded[:, row, n:].any()
    padded.square().sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    torch.optim.SGD(module.parameters(), lr=0.01).step()
    assert (module(SENTENCES) - padded).abs().max() > 1e-3
    for a, b in zip(before, encoder.encode_layers(SENTENCES), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_trainable_copy_drops_out_only_while_it_trains(encoder):
    module = encoder.trainable()
    assert not torch.equal(module(SENTENCES), module(SENTENCES))
    module.eval()
    assert torch.equal(module(SENTENCES), module(SENTENCES))


def test_the_identity_is_of_weights_alone(encoder, tmp_path):
    save_folder(Checkpoint(random_bilm()), tmp_path / "a")
    assert ElmoEncoder.open(tmp_path / "a").identity == encoder.identity
    assert ElmoEncoder(Elmo(random_bilm(seed=1))).identity != encoder.identity
    assert ElmoEncoder(Elmo(random_bilm(), n_mixes=2)).identity == encoder.identity


def test_a_name_that_is_none_gets_the_nearest(encoder):
    with pytest.raises(ValueError, match=re.escape('Did you mean "default"?')):
        ElmoEncoder.open("defalt")


def test_a_string_instead_of_tokens_is_refused(encoder):
    with pytest.raises(TypeError, match=re.escape("pass sentences[0].split()")):
        encoder.encode_layers(["not tokenized"])
    with pytest.raises(TypeError, match="sentences is the string 'one'"):
        encoder.trainable()("one")


def test_an_encoder_of_another_size_is_refused_and_other_weights_are_told(encoder, caplog):
    trained_on = record(encoder)
    check_same(encoder, trained_on)
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "elmo"):
        check_same(ElmoEncoder(Elmo(random_bilm(seed=1)), "other"), trained_on)
    assert "other has other weights or settings than elmo:tiny" in caplog.text
    from dataclasses import replace

    smaller = ElmoEncoder(Elmo(random_bilm(replace(TINY, lstm=replace(TINY.lstm, n_layers=1)))))
    with pytest.raises(ValueError, match=re.escape("elmo gives 2 × 12 (layers × width), but")):
        check_same(smaller, trained_on)
