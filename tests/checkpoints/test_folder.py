import dataclasses
import json
import os
import random
import re
import resource
import signal

import pytest
import torch
from hypothesis import given, settings
from safetensors.torch import load_file, save_file
from tests.models import config_of, random_bilm, shapes

from elmo import Elmo, ScalarMix, Vocabulary
from elmo.checkpoints import folder as folder_module
from elmo.checkpoints.describe import describe
from elmo.checkpoints.folder import (
    ALL_FILES,
    Checkpoint,
    load_folder,
    recover_folder,
    save_folder,
)
from elmo.config import AdaptiveSoftmaxConfig
from elmo.model.softmax import Softmax
from elmo.model.softmax_adaptive import AdaptiveSoftmax


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


@pytest.fixture
def adaptive(checkpoint):
    softmax = AdaptiveSoftmax(5, 6, AdaptiveSoftmaxConfig(cutoffs=(2, 4), shrink=2.0))
    softmax.reset_parameters()
    return dataclasses.replace(checkpoint, softmax=softmax)


def test_an_adaptive_softmax_comes_back_as_one(adaptive, tmp_path):
    save_folder(adaptive, tmp_path)
    again = load_folder(tmp_path)
    assert isinstance(again.softmax, AdaptiveSoftmax)
    assert again.softmax.config == adaptive.softmax.config
    same(again.softmax, adaptive.softmax)
    assert describe(tmp_path)["softmax"] == "adaptive, clusters from rank 2, 4"


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8])
def test_an_adaptive_softmax_is_stored_in_short_numbers_too(adaptive, tmp_path, dtype):
    save_folder(adaptive, tmp_path, softmax_dtype=dtype)
    stored = load_file(tmp_path / "softmax.safetensors")
    assert all(value.dtype == dtype for name, value in stored.items() if name.endswith("weight"))
    again = load_folder(tmp_path).softmax.state_dict()
    for name, wanted in adaptive.softmax.state_dict().items():
        assert again[name].dtype == torch.float32
        limit = float(wanted.abs().max()) / 200
        torch.testing.assert_close(again[name], wanted, atol=limit, rtol=0)


def test_a_plain_softmax_in_the_place_of_an_adaptive_one_leaves_nothing_of_it(
    adaptive, checkpoint, tmp_path
):
    save_folder(adaptive, tmp_path)
    save_folder(checkpoint, tmp_path)
    same(load_folder(tmp_path).softmax, checkpoint.softmax)
    assert describe(tmp_path)["softmax"] == "plain"


def test_a_softmax_of_the_other_kind_than_the_config_says_is_refused(adaptive, folder, tmp_path):
    save_folder(adaptive, tmp_path / "adaptive")
    mine, other = (path / "softmax.safetensors" for path in (folder, tmp_path / "adaptive"))
    plain = mine.read_bytes()
    mine.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match="has no tensor weight, but its config asks for one"):
        load_folder(folder)
    other.write_bytes(plain)
    with pytest.raises(ValueError, match=r"has no tensor words\.head\.weight, but its config asks"):
        load_folder(tmp_path / "adaptive")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cutoffs": [2, 5]}, "config.json: the adaptive softmax has cutoffs [2, 5], but the voca"),
        ({"cutoff": [2, 4]}, 'unknown setting "cutoff". Did you mean "cutoffs"?'),
        (None, "expected a table of settings, but found None"),
        ({"cutoffs": [1, 4], "shrink": 2.0}, "words.head.weight has shape (4, 6), but its config"),
    ],
)
def test_settings_that_are_not_those_of_the_adaptive_softmax_are_refused(
    adaptive, tmp_path, settings, said
):
    save_folder(adaptive, tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    values["adaptive_softmax"] = settings
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        load_folder(tmp_path)
    assert "\n" not in str(error.value)
    load_folder(tmp_path, softmax=False)


def test_float16_rounds_each_number_once(checkpoint, tmp_path):
    save_folder(checkpoint, tmp_path, dtype=torch.float16)
    again = load_folder(tmp_path).bilm.state_dict()
    for name, value in checkpoint.bilm.state_dict().items():
        assert torch.equal(again[name], value.half().float()), name
    stored = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}


def test_a_number_too_large_for_float16_is_not_stored_as_an_infinity(checkpoint, folder):
    checkpoint.bilm.forward_lm[0].bias.data[0] = 70_000.0  # float16 ends at 65,504
    said = "forward_lm.0.bias has numbers up to 70000, but torch.float16 ends at 65504"
    with pytest.raises(ValueError, match=re.escape(said)):
        save_folder(checkpoint, folder, dtype=torch.float16)
    load_folder(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_a_model_that_could_not_be_read_again_does_not_replace_one_that_can(
    checkpoint, folder, dtype
):
    checkpoint.softmax.weight.data[1, 2] = torch.nan
    with pytest.raises(ValueError, match="holds a NaN or an infinity: such a model is not saved"):
        save_folder(checkpoint, folder, softmax_dtype=dtype)
    assert load_folder(folder).softmax.weight.isfinite().all()
    assert not list(folder.glob("*.tmp"))


def test_two_saves_make_the_same_bytes(checkpoint, folder, tmp_path):
    save_folder(checkpoint, tmp_path / "again")
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


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


class Killed(BaseException):
    """What ends a process between two changes of a folder: none comes after it."""


def save_until(monkeypatch, folder, n_changes, error):
    """Save another model; after so many renamings and deletions the next raises, and if the process
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
        save_folder(Checkpoint(random_bilm(seed=1)), folder)


def test_a_folder_saved_by_a_process_killed_at_any_moment_is_never_half_read(
    checkpoint, tmp_path, monkeypatch
):
    found = []
    for n_changes in range(99):
        folder = tmp_path / str(n_changes)
        save_folder(checkpoint, folder)
        try:
            save_until(monkeypatch, folder, n_changes, Killed())
            break  # it had nothing left to change
        except Killed:
            pass
        try:
            again = load_folder(folder)
        except FileNotFoundError as error:
            found.append(str(error).replace(str(folder), "").strip("/"))
            continue
        seed = int(again.vocabulary is None)
        same(again.bilm, random_bilm(seed=seed))
        found.append(seed)
    assert n_changes > 7
    assert set(found) == {0, "config.json does not exist", 1}


def test_what_a_killed_process_left_is_cleared_away_and_the_older_model_put_back(
    checkpoint, tmp_path, monkeypatch
):
    seeds = []
    for n_changes in range(99):
        folder = tmp_path / str(n_changes)
        save_folder(checkpoint, folder)
        (folder / "vocabulary.txt.0123abcd.tmp.77.tmp").touch()
        (folder / "of-another.tmp").touch()
        try:
            save_until(monkeypatch, folder, n_changes, Killed())
            break
        except Killed:
            pass
        recover_folder(folder)
        again = load_folder(folder)
        seeds.append(int(again.vocabulary is None))
        same(again.bilm, random_bilm(seed=seeds[-1]))
        left = {path.name for path in folder.iterdir()} - {"of-another.tmp"}
        assert left == set(ALL_FILES if seeds[-1] == 0 else ALL_FILES[:2])
    assert n_changes > 7 and seeds == sorted(seeds) and set(seeds) == {0, 1}


def test_a_save_that_fails_at_any_moment_leaves_the_old_model_or_the_new(
    checkpoint, tmp_path, monkeypatch
):
    seeds = []
    for n_changes in range(99):
        folder = tmp_path / str(n_changes)
        save_folder(checkpoint, folder)
        try:
            save_until(monkeypatch, folder, n_changes, OSError(5, "Input/output error"))
            break
        except OSError as error:
            assert "Input/output error" in str(error)
        again = load_folder(folder)
        seeds.append(int(again.vocabulary is None))
        same(again.bilm, random_bilm(seed=seeds[-1]))
        if seeds[-1] == 0:
            assert {path.name for path in folder.iterdir()} == set(ALL_FILES)
            same(again.softmax, checkpoint.softmax)
    # Only deleting what is no longer needed can fail after the last renaming.
    assert n_changes > 7 and seeds == sorted(seeds) and set(seeds) == {0, 1}


def test_an_interruption_after_the_last_renaming_leaves_the_new_model_alone(folder, monkeypatch):
    replace = os.replace

    def replace_and_stop(source, target):
        replace(source, target)
        if str(target).endswith("config.json"):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", replace_and_stop)
        save_folder(Checkpoint(random_bilm(seed=1)), folder)
    same(load_folder(folder).bilm, random_bilm(seed=1))
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_a_folder_that_got_another_model_while_it_was_read_is_refused(folder, monkeypatch):
    other = Checkpoint(random_bilm(seed=1))
    load = folder_module.load_file

    def load_late(path):
        save_folder(other, folder)
        return load(path)

    with monkeypatch.context() as patch, pytest.raises(ValueError, match="got another model"):
        patch.setattr(folder_module, "load_file", load_late)
        load_folder(folder)
    same(load_folder(folder).bilm, other.bilm)


def test_what_a_kill_left_beside_is_not_read(checkpoint, folder):
    (folder / "model.safetensors.123.tmp").write_bytes(b"half")
    (folder / "config.json.123.tmp").write_bytes(b"{")
    same(load_folder(folder).bilm, checkpoint.bilm)


def test_a_folder_that_is_missing_or_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    for name, error in (("no", FileNotFoundError), ("file", NotADirectoryError)):
        with pytest.raises(error, match=re.escape(str(tmp_path / name))):
            load_folder(tmp_path / name)


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
        ("config.json", b"[1]", ValueError, "config.json holds list, but a JSON object"),
        ("config.json", b"\xff", ValueError, "is not a JSON file"),
        ("config.json", b'{"format": "elmo", "version": 1}', ValueError, "is not the config of"),
        ("config.json", b'{"format": "other"}', ValueError, "is not the config of a model of ours"),
        ("model.safetensors", None, FileNotFoundError, "the folder is not a whole model"),
        ("model.safetensors", b"123", ValueError, "is not a whole safetensors file"),
        ("softmax.safetensors", b"123", ValueError, "is not a whole safetensors file"),
        ("mixes.safetensors", b"123", ValueError, "is not a whole safetensors file"),
        ("vocabulary.txt", None, FileNotFoundError, "but no vocabulary.txt"),
        ("vocabulary.txt", b"a\nb\n", ValueError, "the vocabulary has no <S>"),
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


@pytest.mark.parametrize("value", [{"lstm": {"n_layers": -1}}, {"lstm": {"dim": "6"}}])
def test_a_config_with_wrong_values_names_the_file(folder, value):
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "model": value}))
    with pytest.raises(ValueError) as error:
        load_folder(folder)
    said = str(error.value)
    assert said.startswith(f"{folder / 'config.json'}: ") and "\n" not in said


def test_whole_numbers_without_their_scale_are_refused(checkpoint, folder):
    save_folder(checkpoint, folder, softmax_dtype=torch.int8)
    path = folder / "softmax.safetensors"
    tensors = load_file(path)
    scale = tensors.pop("scale")
    save_file(tensors, path)
    with pytest.raises(ValueError, match="has no tensor scale"):
        load_folder(folder)
    save_file({**tensors, "scale": scale[:-1].contiguous()}, path)
    with pytest.raises(ValueError, match=re.escape("scale has shape (4, 1), but its config asks")):
        load_folder(folder)


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("weights", torch.zeros(2, 4), "weights of shape (2, 3) is wanted"),
        ("gamma", torch.tensor(1.0), "gamma of shape (1,) is wanted"),
        ("gamma", None, "gamma of shape (0,) is wanted"),
        ("weights", torch.full((2, 3), torch.nan), "weights holds a NaN"),
    ],
)
def test_mixes_that_are_none_of_this_model_are_refused(folder, name, tensor, said):
    path = folder / "mixes.safetensors"
    tensors = load_file(path) | {name: tensor}
    save_file({key: value for key, value in tensors.items() if value is not None}, path)
    with pytest.raises(ValueError, match=re.escape(said)):
        load_folder(folder)


def test_fixed_mixes_stay_fixed_and_learned_ones_learnable(checkpoint, folder):
    mixes = [ScalarMix(3), ScalarMix.single(-1, 3), ScalarMix(3, gamma=2.0, learned=False)]
    save_folder(Checkpoint(checkpoint.bilm, mixes=mixes), folder)
    again = load_folder(folder).mixes
    for mix, before in zip(again, mixes, strict=True):
        same(mix, before)
        assert [p.requires_grad for p in mix.parameters()] == [
            p.requires_grad for p in before.parameters()
        ]
    assert Elmo.from_pretrained(folder).mixes[1].weights.requires_grad is False


@pytest.mark.parametrize(
    ("said", "learned"),
    [(None, [True, True]), ("[false, true]", [False, True]), ("[1]", None), ("yes", None)],
)
def test_a_folder_that_does_not_say_which_mixes_are_fixed_has_learned_ones(folder, said, learned):
    path = folder / "mixes.safetensors"
    save_file(load_file(path), path, None if said is None else {"learned": said})
    if learned is None:
        with pytest.raises(ValueError, match=re.escape(f"learned is {said!r}, but expected")):
            load_folder(folder)
    else:
        assert [mix.weights.requires_grad for mix in load_folder(folder).mixes] == learned


def test_damaged_weights_are_refused_or_read_but_nothing_else(folder):
    draw = random.Random(0)
    whole = (folder / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    n_refused = 0
    for place in range(60):
        damaged = bytearray(whole)
        if place % 2:
            damaged = damaged[: draw.randrange(len(whole))]
        else:
            damaged[draw.randrange(header)] ^= 1 << draw.randrange(8)
        (folder / "model.safetensors").write_bytes(damaged)
        try:
            load_folder(folder)
        except ValueError as error:
            n_refused += 1
            assert str(folder / "model.safetensors") in str(error) and "\n" not in str(error)
    assert n_refused > 30


def test_a_disk_without_room_is_an_error_of_the_system_and_the_older_model_stays(tmp_path):
    save_folder(Checkpoint(random_bilm()), tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limit[1]))
    try:
        with pytest.raises(OSError, match=r"model\.safetensors.* could not be written"):
            save_folder(Checkpoint(random_bilm()), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert not list(tmp_path.glob("*.tmp"))
