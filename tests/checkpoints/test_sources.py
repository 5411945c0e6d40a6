import os
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from tests.models import random_bilm

from elmo import Elmo
from elmo.checkpoints.convert import convert
from elmo.checkpoints.describe import describe
from elmo.checkpoints.folder import Checkpoint, load_folder, save_folder
from elmo.checkpoints.official import load_official_folder, save_official
from elmo.checkpoints.sources import DEFAULT_FOLDER, load, locate


@pytest.fixture
def ours(tmp_path):
    save_folder(Checkpoint(random_bilm()), tmp_path / "ours")
    return tmp_path / "ours"


@pytest.fixture
def official(tmp_path):
    save_official(random_bilm(), tmp_path / "official")
    return tmp_path / "official"


def weights(bilm):
    return torch.cat([value.flatten() for value in bilm.state_dict().values()])


def test_a_folder_of_either_format_is_read(ours, official):
    assert torch.equal(weights(load(ours).bilm), weights(random_bilm()))
    assert torch.equal(weights(load(str(official)).bilm), weights(random_bilm()))


@pytest.mark.skipif(
    not (DEFAULT_FOLDER / "config.json").exists(), reason="this checkout has no default model"
)
def test_the_default_model_needs_no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    checkpoint = load("default", softmax=True)
    assert checkpoint.vocabulary is not None and checkpoint.softmax is not None
    size = sum(path.stat().st_size for path in DEFAULT_FOLDER.iterdir())
    assert size <= 32_000_000


def test_an_unknown_name_lists_the_names_and_suggests_the_nearest():
    with pytest.raises(ValueError, match='Did you mean "small"') as error:
        locate("smal")
    assert all(name in str(error.value) for name in ("default", "original-5.5b", "portuguese"))
    with pytest.raises(ValueError, match="the model is ''"):
        locate("")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        locate(tmp_path / "no")
    with pytest.raises(FileNotFoundError, match=re.escape("holds no model: neither config.json")):
        locate(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="is a file, but a model is a folder"):
        locate(tmp_path / "file")
    (tmp_path / "options.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="but no weights"):
        load(tmp_path)


def test_a_released_name_offline_with_an_empty_cache_says_what_to_put_where(tmp_path):
    with pytest.raises(FileNotFoundError, match='"original" is not in the cache') as error:
        locate("original", offline=True, cache_dir=tmp_path)
    assert str(tmp_path / "original") in str(error.value)


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def mirror(official, monkeypatch):
    """The address of a server with the official files."""
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "ELMO_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(official)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_released_name_is_downloaded_once_and_then_read_from_the_cache(mirror, tmp_path):
    seen = []
    cache = tmp_path / "cache"
    model = load("small", url=mirror, cache_dir=cache, progress=lambda *now: seen.append(now))
    assert torch.equal(weights(model.bilm), weights(random_bilm()))
    assert seen[-1][0] == seen[-1][1] == (cache / "small" / "weights.hdf5").stat().st_size
    again = Elmo.from_pretrained("small", cache_dir=cache, offline=True)
    assert torch.equal(weights(again.bilm), weights(random_bilm()))


def test_a_released_model_splits_text_by_the_rules_of_its_language(mirror, tmp_path):
    elmo = Elmo.from_pretrained("portuguese", url=mirror, cache_dir=tmp_path)
    assert elmo.language == "pt"
    elmo = Elmo.from_pretrained("portuguese", cache_dir=tmp_path, language="de", offline=True)
    assert elmo.language == "de"


def test_a_folder_here_comes_before_a_repository_of_that_name(ours, tmp_path, monkeypatch):
    (tmp_path / "owner").mkdir()
    ours.rename(tmp_path / "owner" / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("elmo.checkpoints.hub.download_repository", pytest.fail)
    assert torch.equal(weights(load("owner/model").bilm), weights(random_bilm()))


def test_a_path_that_leads_nowhere_is_no_name_and_no_repository(tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.checkpoints.hub.download_repository", pytest.fail)
    for source in ("models/english/small", "./small", str(tmp_path / "no" / "model")):
        with pytest.raises(FileNotFoundError, match="there is no folder") as error:
            locate(source)
        assert "original-5.5b" in str(error.value) and "\n" not in str(error.value)


def test_converting_there_and_back_changes_no_bit(official, tmp_path):
    assert convert(official, tmp_path / "a") == "ours"
    assert torch.equal(weights(load_folder(tmp_path / "a").bilm), weights(random_bilm()))
    assert convert(tmp_path / "a", tmp_path / "b") == "official"
    assert torch.equal(weights(load_official_folder(tmp_path / "b")), weights(random_bilm()))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "official"]


def test_converting_to_the_same_format_can_shorten_numbers(ours, tmp_path):
    assert convert(ours, tmp_path / "short", to="ours", dtype="float16") == "ours"
    small, large = ((p / "model.safetensors").stat().st_size for p in (tmp_path / "short", ours))
    assert small < 0.6 * large


def test_a_conversion_replaces_only_by_force_and_never_its_source(ours, official):
    before = (official / "weights.hdf5").read_bytes()
    with pytest.raises(FileExistsError, match="pass force=True"):
        convert(ours, official)
    with pytest.raises(ValueError, match="same folder"):
        convert(ours, ours, force=True)
    assert (official / "weights.hdf5").read_bytes() == before
    convert(ours, official, to="ours", force=True)
    assert sorted(p.name for p in official.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"to": "theirs"}, "to is 'theirs', but expected one of ours, official"),
        ({"dtype": "int3"}, "dtype is 'int3'"),
        ({"dtype": "float16"}, "the official format holds float32"),
    ],
)
def test_settings_of_a_conversion_are_checked_before_anything_is_written(
    ours, tmp_path, settings, said
):
    with pytest.raises(ValueError, match=said):
        convert(ours, tmp_path / "target", **settings)
    assert not (tmp_path / "target").exists()


def test_a_failed_conversion_leaves_the_target_as_it_was(ours, official, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elmo.checkpoints.convert.save_folder", full)
    with pytest.raises(OSError, match="No space left"):
        convert(official, ours, force=True)
    load_folder(ours)
    assert sorted(p.name for p in ours.parent.iterdir()) == ["official", "ours"]


def test_a_conversion_that_cannot_be_renamed_leaves_the_target_as_it_was(
    ours, official, monkeypatch
):
    replace = os.replace

    def refuse(source, target):
        if (Path(source).name, Path(target)) == (f"ours.{os.getpid()}.tmp", ours):
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        convert(official, ours, force=True)
    load_folder(ours)
    assert sorted(p.name for p in ours.parent.iterdir()) == ["official", "ours"]


def test_a_model_is_described_in_numbers_that_are_true(ours, official):
    bilm = random_bilm()
    for folder, form in ((ours, "ours"), (official, "official")):
        facts = describe(folder)
        assert facts["format"] == form
        assert facts["parameters"] == sum(p.numel() for p in bilm.parameters())
        assert facts["parameters_char_cnn"] + facts["parameters_lstms"] == facts["parameters"]
        assert (facts["layers"], facts["vector"]) == (3, 12)
        assert facts["vocabulary"] == "none"
