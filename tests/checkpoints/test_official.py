import dataclasses
import json
import os
import random
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


@pytest.mark.parametrize("n_characters", [261, 262])
def test_the_number_of_characters_in_the_options_changes_no_vector(folder, n_characters):
    change_options(folder, "char_cnn", "n_characters", n_characters)
    char_ids = torch.from_numpy(batch_char_ids(SENTENCES))
    again = load_official_folder(folder).requires_grad_(False)
    expected = random_bilm().requires_grad_(False)
    assert torch.equal(again(char_ids).layers, expected(char_ids).layers)


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


def names_of(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("table", "key", "value", "name", "shapes_said"),
    [
        ("char_cnn", "filters", [[1, 4], [2, 4]], "CNN/W_cnn_0", ["(1, 1, 4, 3)", "(1, 1, 4, 4)"]),
        ("char_cnn", "embedding", {"dim": 5}, "char_embed", ["(261, 4)", "(261, 5)"]),
        ("lstm", "dim", 9, "Cell0/LSTMCell/W_0", ["(12, 28)", "(12, 36)"]),
        ("char_cnn", "n_highway", 2, "CNN_high_1/W_transform", ["(8, 8)"]),
        ("lstm", "n_layers", 3, "Cell2/LSTMCell/W_0", ["(12, 28)"]),
        ("char_cnn", "n_highway", 0, "CNN_high_0/W_carry", []),
    ],
)
def test_options_that_contradict_the_weights_name_the_dataset_and_the_shapes(
    folder, table, key, value, name, shapes_said
):
    change_options(folder, table, key, value)
    with pytest.raises(ValueError) as error:
        load_official_folder(folder)
    said = str(error.value)
    assert all(part in said for part in [name, str(folder / "weights.hdf5"), *shapes_said])
    assert "\n" not in said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.full(3, np.inf, "f4"), "b_cnn_0 holds a NaN or an infinity"),
        (np.array([b"a", b"b", b"c"]), "b_cnn_0 cannot be read"),
        (np.zeros((3, 1), "f4"), "b_cnn_0 has shape (3, 1), but the options ask for (3,)"),
    ],
)
def test_numbers_that_are_none_are_refused(folder, value, said):
    change(folder, "CNN/b_cnn_0", value)
    with pytest.raises(ValueError, match=re.escape(said)):
        load_official_folder(folder)


def test_a_group_where_a_dataset_belongs_is_none(folder):
    change(folder, "CNN/b_cnn_0", None)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file.create_group("CNN/b_cnn_0")
    with pytest.raises(ValueError, match="has no dataset CNN/b_cnn_0"):
        load_official_folder(folder)


@pytest.mark.parametrize("dtype", ["f2", "f8", "i4"])
def test_numbers_of_other_widths_are_read_as_float32(folder, dtype):
    change(folder, "CNN/b_cnn_0", np.array([1, -2, 3], dtype))
    bias = load_official_folder(folder).char_cnn.convolutions[0].bias
    assert bias.dtype == torch.float32 and bias.tolist() == [1, -2, 3]


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "options.json is not a JSON file"), ("[1]", "options.json holds list, but a JSON")],
)
def test_options_that_are_no_json_object_are_refused(folder, content, said):
    (folder / "options.json").write_text(content)
    with pytest.raises(ValueError, match=re.escape(said)):
        load_official_folder(folder)


def test_a_folder_that_is_missing_or_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    for name, error in (("no", FileNotFoundError), ("file", NotADirectoryError)):
        with pytest.raises(error, match=re.escape(str(tmp_path / name))):
            load_official_folder(tmp_path / name)


def test_what_a_kill_left_beside_the_weights_is_not_read(folder):
    (folder / "weights.hdf5.123.tmp").write_bytes(b"half")
    (folder / "options.json.123.tmp").write_bytes(b"{")
    load_official_folder(folder)


@given(share=st.floats(0, 1, exclude_max=True))
def test_weights_cut_anywhere_are_refused(tmp_path_factory, share):
    folder = tmp_path_factory.mktemp("official")
    save_official(random_bilm(), folder)
    whole = (folder / "weights.hdf5").read_bytes()
    (folder / "weights.hdf5").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="is not a whole HDF5 file"):
        load_official_folder(folder)


def test_damaged_weights_are_refused_or_read_but_nothing_else(folder):
    draw = random.Random(0)
    whole = (folder / "weights.hdf5").read_bytes()
    for _ in range(60):
        damaged = bytearray(whole)
        start = draw.randrange(len(damaged) - 64)
        damaged[start : start + 64] = bytes(64)
        (folder / "weights.hdf5").write_bytes(damaged)
        try:
            load_official_folder(folder)
        except ValueError as error:
            assert str(folder / "weights.hdf5") in str(error)


def test_weights_of_a_shape_that_no_memory_holds_are_refused_unread(folder):
    change(folder, "CNN/b_cnn_0", None)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file.create_dataset("CNN/b_cnn_0", shape=(1 << 50,), dtype="f4", chunks=(1,))
    with pytest.raises(ValueError, match=re.escape("has shape (1125899906842624,)")):
        load_official_folder(folder)


# The same weights would fit both: only the options tell the two models apart.
OTHER = dataclasses.replace(TINY, lstm=dataclasses.replace(TINY.lstm, cell_clip=0.1))


def found_in(folder):
    """Which of the two models is there: 0 for the older, 1 for the other, None for none."""
    try:
        found = load_official_folder(folder)
    except FileNotFoundError:
        return None
    for seed, config in enumerate((TINY, OTHER)):
        if torch.equal(found.forward_lm[0].bias, random_bilm(seed=seed).forward_lm[0].bias):
            assert found.config == config
            return seed
    raise AssertionError("weights of neither")


class Killed(BaseException):
    """What ends a process between two changes of a folder: none comes after it."""


def export_until(monkeypatch, folder, n_changes, error):
    """Export the other; after so many renamings and deletions the next raises, and if the process
    was killed, all that follow.
    """
    n_done = 0

    def counted(change):
        def change_some(*arguments, **options):
            nonlocal n_done
            n_done += 1
            if n_done == n_changes + 1 or (n_done > n_changes and isinstance(error, Killed)):
                raise error
            return change(*arguments, **options)

        return change_some

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink"):
            patch.setattr(os, name, counted(getattr(os, name)))
        save_official(random_bilm(OTHER, seed=1), folder)


def test_an_export_over_another_that_is_killed_never_mixes_the_two(tmp_path, monkeypatch):
    found = []
    for n_changes in range(99):
        folder = tmp_path / str(n_changes)
        save_official(random_bilm(), folder)
        try:
            export_until(monkeypatch, folder, n_changes, Killed())
            break
        except Killed:
            found.append(found_in(folder))
    assert n_changes > 4
    assert set(found) == {0, None, 1}


def test_an_export_that_fails_at_any_moment_leaves_the_old_model_or_the_new(tmp_path, monkeypatch):
    found = []
    for n_changes in range(99):
        folder = tmp_path / str(n_changes)
        save_official(random_bilm(), folder)
        try:
            export_until(monkeypatch, folder, n_changes, OSError(5, "Input/output error"))
            break
        except OSError as error:
            assert "Input/output error" in str(error)
            found.append(found_in(folder))
            if found[-1] == 0:
                assert names_of(folder) == ["options.json", "weights.hdf5"]
    assert n_changes > 4
    assert found == sorted(found) and set(found) == {0, 1}


def test_an_export_that_cannot_be_written_leaves_nothing_of_it(folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.Group, "create_dataset", full)
    with pytest.raises(OSError, match="No space left"):
        save_official(random_bilm(OTHER, seed=1), folder)
    assert names_of(folder) == ["options.json", "weights.hdf5"] and found_in(folder) == 0


def test_options_that_got_other_weights_while_they_were_read_are_refused(folder, monkeypatch):
    open_file, replaced = h5py.File, []

    def open_late(path, mode):
        if not replaced:
            replaced.append(path)
            save_official(random_bilm(OTHER, seed=1), folder)
        return open_file(path, mode)

    with monkeypatch.context() as patch, pytest.raises(ValueError, match="got another model"):
        patch.setattr(h5py, "File", open_late)
        load_official_folder(folder)
    assert found_in(folder) == 1
