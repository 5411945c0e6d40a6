import json
import re

import pytest
import torch
from hypothesis import given, settings
from safetensors.torch import load_file, save_file
from tests.models import config_of, random_bilm, shapes

from elmo import ScalarMix, Vocabulary
from elmo.checkpoints.folder import Checkpoint, load_folder, save_folder
from elmo.model.softmax import Softmax


@pytest.fixture
def checkpoint():
    softmax = Softmax(5, 6)
    softmax.reset_parameters()
    mixes = [ScalarMix(3, weights=[0.1, -2.0, 0.3], gamma=1.7, layer_norm=True), ScalarMix(3)]
    return Checkpoint(random_bilm(), Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"]), softmax, mixes)


@pytest.fixture
def folder(tmp_path, checkpoint):
    save_folder(checkpoint, tmp_path / "model")
    return tmp_path / "model"


def same(a, b):
    assert a.state_dict().keys() == b.state_dict().keys()
    assert all(torch.equal(x, b.state_dict()[name]) for name, x in a.state_dict().items())


def test_everything_comes_back_bit_identical(checkpoint, folder):
    again = load_folder(folder)
    same(again.bilm, checkpoint.bilm)
    same(again.softmax, checkpoint.softmax)
    assert again.bilm.config == checkpoint.bilm.config
    assert again.vocabulary.words == checkpoint.vocabulary.words
    assert [mix.layer_norm for mix in again.mixes] == [True, False]
    for mix, before in zip(again.mixes, checkpoint.mixes, strict=True):
        same(mix, before)
    assert not again.bilm.training
    assert load_folder(folder, softmax=False).softmax is None


@settings(max_examples=20)
@given(shape=shapes())
def test_every_architecture_comes_back(tmp_path_factory, shape):
    bilm = random_bilm(config_of(shape))
    folder = tmp_path_factory.mktemp("model")
    save_folder(Checkpoint(bilm), folder)
    again = load_folder(folder)
    same(again.bilm, bilm)
    assert again.bilm.config == bilm.config


def test_short_numbers_take_less_and_are_read_as_float32(checkpoint, folder, tmp_path):
    save_folder(checkpoint, tmp_path / "short", dtype=torch.float16, softmax_dtype=torch.int8)
    again = load_folder(tmp_path / "short")
    for ours, before in ((again.bilm, checkpoint.bilm), (again.softmax, checkpoint.softmax)):
        for name, value in ours.state_dict().items():
            assert value.dtype == torch.float32
            wanted = before.state_dict()[name]
            torch.testing.assert_close(value, wanted, atol=float(wanted.abs().max()) / 200, rtol=0)
    small, large = (
        (path / "softmax.safetensors").stat().st_size for path in (tmp_path / "short", folder)
    )
    assert small < large
    same(again.mixes[0], checkpoint.mixes[0])


def test_a_new_model_leaves_nothing_of_an_old_one(checkpoint, folder):
    save_folder(Checkpoint(checkpoint.bilm), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_a_failed_save_leaves_the_old_model_whole(checkpoint, folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elmo.checkpoints.folder.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        save_folder(Checkpoint(random_bilm(seed=1)), folder)
    assert not list(folder.glob("*.tmp"))
    same(load_folder(folder).bilm, checkpoint.bilm)


def damage(folder, name, content):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "error", "said"),
    [
        ("config.json", None, FileNotFoundError, "config.json does not exist"),
        ("config.json", b"{", ValueError, "is not a JSON file"),
        ("config.json", b'{"format": "other"}', ValueError, "is not the config of a model of ours"),
        ("model.safetensors", None, FileNotFoundError, "the folder is not a whole model"),
        ("model.safetensors", b"123", ValueError, "is not a whole safetensors file"),
        ("vocabulary.txt", None, FileNotFoundError, "but no vocabulary.txt"),
        ("vocabulary.txt", b"<S>\n</S>\n<UNK>\na\n", ValueError, "has shape (5, 6), but"),
    ],
)
def test_missing_and_damaged_files_are_refused(folder, name, content, error, said):
    damage(folder, name, content)
    with pytest.raises(error, match=re.escape(said)) as raised:
        load_folder(folder)
    assert "\n" not in str(raised.value)


def test_an_unknown_setting_suggests_the_nearest(folder):
    values = json.loads((folder / "config.json").read_text())
    values["model"]["lstm"]["n_layer"] = values["model"]["lstm"].pop("n_layers")
    (folder / "config.json").write_text(json.dumps(values))
    with pytest.raises(
        ValueError, match=re.escape('unknown setting "n_layer". Did you mean "n_layers"?')
    ):
        load_folder(folder)


def test_a_newer_format_says_so(folder):
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "version": 99}))
    with pytest.raises(ValueError, match="format version 99"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (None, "has no tensor forward_lm.0.bias"),
        (torch.zeros(3), "tensor forward_lm.0.bias has shape (3,), but its config asks for (28,)"),
        (torch.full((28,), torch.nan), "tensor forward_lm.0.bias holds a NaN"),
    ],
)
def test_bad_tensors_are_named_with_shapes(folder, tensor, said):
    tensors = load_file(folder / "model.safetensors")
    del tensors["forward_lm.0.bias"]
    if tensor is not None:
        tensors["forward_lm.0.bias"] = tensor
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=re.escape(said)):
        load_folder(folder)


def test_tensors_of_another_architecture_are_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "forward_lm.2.bias": torch.zeros(28)}, folder / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"has forward_lm.2.bias, of which its config knows nothing"
    ):
        load_folder(folder)
