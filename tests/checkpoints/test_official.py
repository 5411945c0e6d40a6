import json
import re

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.models import TINY, config_of, random_bilm, shapes

from elmo import batch_char_ids
from elmo.checkpoints.official import load_official, load_official_folder, save_official

SENTENCES = [["The", "naïve", "—"], ["a"]]


@pytest.fixture
def folder(tmp_path):
    save_official(random_bilm(), tmp_path / "official")
    return tmp_path / "official"


def change(folder, name, value):
    """Replace a dataset of the weights; None deletes it."""
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file[name]
        if value is not None:
            file[name] = value


def change_options(folder, table, key, value):
    options = json.loads((folder / "options.json").read_text())
    options[table][key] = value
    (folder / "options.json").write_text(json.dumps(options))


@settings(max_examples=25)
@given(shape=shapes(), seed=st.integers(0, 99))
def test_what_is_exported_and_loaded_again_gives_bit_identical_numbers(
    tmp_path_factory, shape, seed
):
    config, folder = config_of(shape), tmp_path_factory.mktemp("official")
    bilm = random_bilm(config, seed=seed)
    try:
        save_official(bilm, folder)
    except ValueError as error:
        assert "its official form would be read wrongly" in str(error)
        assert config.lstm.projection == (config.lstm.dim == config.lstm.hidden_dim) or (
            config.char_cnn.projection == (config.char_cnn.dim == config.char_cnn.n_filters)
        )
        return
    again = load_official_folder(folder)
    for name, value in bilm.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    assert again.config == config


def test_the_export_read_by_its_official_names_gives_the_same_vectors(folder):
    # As bilm-tf would read it: kernels are (in, out), input weights above state weights.
    weights = {}
    with h5py.File(folder / "weights.hdf5") as file:
        embedding = file["char_embed"][...]
        weights["char_cnn.embedding.weight"] = np.vstack([np.zeros_like(embedding[:1]), embedding])
        for k in range(len(TINY.char_cnn.filters)):
            kernel = file[f"CNN/W_cnn_{k}"][...]  # (1, width, char_dim, filters)
            weights[f"char_cnn.convolutions.{k}.weight"] = kernel[0].transpose(2, 1, 0)
            weights[f"char_cnn.convolutions.{k}.bias"] = file[f"CNN/b_cnn_{k}"][...]
        for ours, theirs in (("gates", "carry"), ("transforms", "transform")):
            high = file["CNN_high_0"]
            weights[f"char_cnn.highway.{ours}.0.weight"] = high[f"W_{theirs}"][...].T
            weights[f"char_cnn.highway.{ours}.0.bias"] = high[f"b_{theirs}"][...]
        weights["char_cnn.projection.weight"] = file["CNN_proj/W_proj"][...].T
        weights["char_cnn.projection.bias"] = file["CNN_proj/b_proj"][...]
        for d, name in enumerate(("forward_lm", "backward_lm")):
            for k in range(TINY.lstm.n_layers):
                cell = file[f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"]
                kernel = cell["W_0"][...].T
                weights[f"{name}.{k}.input_weight"] = kernel[:, : TINY.lstm.dim]
                weights[f"{name}.{k}.state_weight"] = kernel[:, TINY.lstm.dim :]
                weights[f"{name}.{k}.bias"] = cell["B"][...]
                weights[f"{name}.{k}.projection_weight"] = cell["W_P_0"][...].T
    bilm = random_bilm().requires_grad_(False)
    char_ids = batch_char_ids(SENTENCES)
    ours = bilm(torch.from_numpy(char_ids)).layers
    config = bilm.config
    zeros = np.zeros((2, 2, 6)), np.zeros((2, 2, 7))
    for i, sentence in enumerate(SENTENCES):
        n = len(sentence) + 2
        vectors = np.array(
            [reference.token_vector(weights, config, ids) for ids in char_ids[i, :n]]
        )
        layers, *_ = reference.read(weights, config, vectors, *zeros)
        np.testing.assert_allclose(ours[:, i, :n], layers, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CNN/W_cnn_0", None, "has no dataset CNN/W_cnn_0, but its options ask for one of shape"),
        ("CNN_proj/W_proj", np.zeros((3, 2), "f4"), "(3, 2)"),
        ("char_embed", np.full((261, 4), np.nan, "f4"), "char_embed holds a NaN"),
    ],
)
def test_bad_datasets_are_named_with_shapes(folder, name, value, said):
    change(folder, name, value)
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        load_official_folder(folder)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_a_file_with_a_row_for_no_token_is_read_too(folder):
    expected = load_official_folder(folder).char_cnn.embedding.weight.detach().numpy()
    change(folder, "char_embed", expected)
    again = load_official_folder(folder).char_cnn.embedding.weight.detach().numpy()
    np.testing.assert_array_equal(again, expected)


def test_layers_that_the_options_do_not_know_are_a_contradiction(folder):
    change_options(folder, "lstm", "n_layers", 1)
    with pytest.raises(ValueError, match="contradict each other"):
        load_official_folder(folder)


def test_files_that_are_not_there_or_not_whole_are_refused(folder):
    weights = (folder / "weights.hdf5").read_bytes()
    (folder / "weights.hdf5").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ValueError, match="is not a whole HDF5 file"):
        load_official_folder(folder)
    (folder / "weights.hdf5").write_text("hello")
    with pytest.raises(ValueError, match="is not a whole HDF5 file"):
        load_official_folder(folder)
    (folder / "weights.hdf5").unlink()
    with pytest.raises(FileNotFoundError, match=r"has options.json but no weights"):
        load_official_folder(folder)
    with pytest.raises(FileNotFoundError, match=r"does not exist, but .* needs its weights"):
        load_official(folder / "options.json", folder / "weights.hdf5")
    (folder / "options.json").unlink()
    (folder / "other.hdf5").write_bytes(weights)
    with pytest.raises(FileNotFoundError, match=r"has other.hdf5 but no options.json"):
        load_official_folder(folder)


def test_of_several_hdf5_files_the_one_called_weights_counts(folder):
    (folder / "vectors.hdf5").write_bytes(b"some vectors")
    load_official_folder(folder)
    (folder / "more_weights.hdf5").write_bytes(b"?")
    with pytest.raises(ValueError, match="has several HDF5 files"):
        load_official_folder(folder)
