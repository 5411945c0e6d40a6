"""What we export, read by another hand: h5py, bilm-tf's names and plain NumPy, none of our code."""

import dataclasses

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.models import TINY, config_of, random_bilm, shapes

from elmo import batch_char_ids
from elmo.checkpoints.official import load_official, save_official

SENTENCES = [["The", "naïve", "x" * 60], [], ["—"]]


def as_the_original_projects(config):
    """Exactly where sizes differ: other models have no official form."""
    cnn, lstm = config.char_cnn, config.lstm
    return dataclasses.replace(
        config,
        char_cnn=dataclasses.replace(cnn, projection=cnn.dim != cnn.n_filters),
        lstm=dataclasses.replace(lstm, projection=lstm.dim != lstm.hidden_dim),
    )


def datasets_of(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[...]}) if hasattr(item, "shape") else None
        )
    return found


@settings(max_examples=30)
@given(shape=shapes(), seed=st.integers(0, 99))
def test_another_reader_of_an_export_gets_the_same_layers_and_states(tmp_path_factory, shape, seed):
    bilm = random_bilm(as_the_original_projects(config_of(shape)), scale=1.0, seed=seed)
    folder = tmp_path_factory.mktemp("official")
    save_official(bilm, folder)
    weights, config = reference.read_official(folder / "options.json", folder / "weights.hdf5")
    char_ids = batch_char_ids(SENTENCES)
    bilm.double().requires_grad_(False)  # the file holds float32, and so did the model
    output = bilm(torch.from_numpy(char_ids))
    for i, sentence in enumerate(SENTENCES):
        n = len(sentence) + 2
        layers, h, c = reference.encode_ids(weights, config, char_ids[i, :n])
        np.testing.assert_allclose(output.layers[:, i, :n], layers, atol=1e-10, rtol=0)
        np.testing.assert_allclose(output.state.h[:, :, i], h, atol=1e-10, rtol=0)
        np.testing.assert_allclose(output.state.c[:, :, i], c, atol=1e-10, rtol=0)


def test_an_export_holds_the_datasets_of_the_original_and_no_others(tmp_path):
    save_official(random_bilm(), tmp_path)
    found = datasets_of(tmp_path / "weights.hdf5")
    assert {array.dtype for array in found.values()} == {np.dtype("float32")}
    filters, dim, hidden = TINY.char_cnn.n_filters, TINY.lstm.dim, TINY.lstm.hidden_dim
    wanted = {"char_embed": (261, 4), "CNN_proj/W_proj": (filters, dim), "CNN_proj/b_proj": (dim,)}
    for k, (width, n) in enumerate(TINY.char_cnn.filters):
        wanted |= {f"CNN/W_cnn_{k}": (1, width, 4, n), f"CNN/b_cnn_{k}": (n,)}
    for name in ("carry", "transform"):
        wanted |= {f"CNN_high_0/W_{name}": (filters, filters), f"CNN_high_0/b_{name}": (filters,)}
    for cell in (f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell" for d in (0, 1) for k in (0, 1)):
        wanted |= {f"{cell}/W_0": (2 * dim, 4 * hidden), f"{cell}/B": (4 * hidden,)}
        wanted[f"{cell}/W_P_0"] = (hidden, dim)
    assert {name: array.shape for name, array in found.items()} == wanted


@pytest.mark.parity
@pytest.mark.parametrize(
    "weights",
    [
        "relu-1highway/weights.hdf5",
        "relu-2highway-clipping/weights.hdf5",
        "bilm-tf-fixture/lm_weights.hdf5",
        "trained-by-bilm-tf/weights.hdf5",
    ],
)
def test_our_export_of_an_original_holds_its_datasets_bit_by_bit(shared, tmp_path, weights):
    original = shared / "golden" / weights
    save_official(load_official(original.parent / "options.json", original), tmp_path)
    theirs, ours = datasets_of(original), datasets_of(tmp_path / "weights.hdf5")
    assert len(theirs) > 20 and theirs.keys() == ours.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array)
