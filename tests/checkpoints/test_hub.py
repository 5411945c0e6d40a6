"""The Hugging Face Hub, played by a local server."""

import base64
import functools
import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.utils import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from tests.models import random_bilm

from elmo import Elmo
from elmo.checkpoints import hub
from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.checkpoints.official import save_official
from elmo.checkpoints.sources import load, locate

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Repositories by name: what files each holds; and what was asked and uploaded."""

    def __init__(self):
        self.repositories = {}
        self.asked, self.committed, self.created = [], [], []
        self.refuse = None
        self.gated = False
        self.cut = None  # the file that the connection breaks off in
        self.instead = None  # what a proxy answers in the Hub's place; b"" hangs up
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def _handler(hub):
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, body=b"", **headers):
                if not isinstance(body, bytes):
                    body = json.dumps(body).encode()
                    headers["Content-Type"] = "application/json"
                self.send_response(status)
                headers.setdefault("Content-Length", len(body))
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_GET(self):
                hub.asked.append(self.path)
                if hub.instead is not None:
                    self.close_connection = True
                    return self.answer(200, hub.instead) if hub.instead else None
                if hub.gated:
                    return self.answer(403, {}, X_Error_Code="GatedRepo")
                if found := re.fullmatch(r"/api/models/(\w+/[\w-]+)(?:/revision/(.+))?", self.path):
                    files = hub.repositories.get(found[1])
                    if files is None:
                        return self.answer(404, {}, X_Error_Code="RepoNotFound")
                    if found[2] not in (None, "main", COMMIT):
                        return self.answer(404, {}, X_Error_Code="RevisionNotFound")
                    siblings = [{"rfilename": name} for name in files]
                    return self.answer(200, {"id": found[1], "sha": COMMIT, "siblings": siblings})
                if found := re.match(r"/api/models/(\w+/[\w-]+)/tree/", self.path):
                    tree = [
                        {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
                        for name, content in hub.repositories[found[1]].items()
                    ]
                    return self.answer(200, tree)
                if found := re.fullmatch(r"/(\w+/[\w-]+)/resolve/\w+/(.+)", self.path):
                    content = hub.repositories[found[1]][found[2]]
                    etag = f'"{hash(content) & 0xFFFFFFFF:x}"'
                    headers = {
                        "ETag": etag,
                        "X_Repo_Commit": COMMIT,
                        "Content-Length": len(content),
                    }
                    if hub.cut == found[2]:
                        self.close_connection = True
                        content = content[: len(content) // 2]
                    return self.answer(200, content, **headers)
                return self.answer(404, {})

            do_HEAD = do_GET

            def do_POST(self):
                hub.asked.append(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if hub.refuse is not None:
                    return self.answer(hub.refuse, {"error": "You shall not pass"})
                if self.path == "/api/repos/create":
                    asked = json.loads(body)
                    hub.created.append(asked)
                    name = f"{asked.get('organization') or 'me'}/{asked['name']}"
                    return self.answer(200, {"url": f"{hub.url}/{name}", "name": name})
                if self.path.endswith("/preupload/main"):
                    files = [
                        {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                        for f in json.loads(body)["files"]
                    ]
                    return self.answer(200, {"files": files})
                if self.path.endswith("/commit/main"):
                    hub.committed += [json.loads(line) for line in body.splitlines()]
                    url = f"{hub.url}/me/it/commit/{COMMIT}"
                    return self.answer(200, {"commitUrl": url, "commitOid": COMMIT})
                return self.answer(200, {"errors": [], "warnings": []})

        return Handler


@pytest.fixture
def served(monkeypatch, tmp_path):
    hub = Hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("ELMO_OFFLINE", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name)
    # The Hub's client waits between attempts; a name of its own, as the server needs the true one.
    at_once = SimpleNamespace(**{**vars(time), "sleep": lambda _: None})
    for module in ("file_download", "utils._http"):
        monkeypatch.setattr(f"huggingface_hub.{module}.time", at_once)
    yield hub
    hub.close()


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def repository(served, tmp_path):
    save_folder(Checkpoint(random_bilm()), tmp_path / "model")
    harmful = {"pytorch_model.bin": b"pickle", "modeling.py": b"print('code')"}
    served.repositories["owner/model"] = {**files_of(tmp_path / "model"), **harmful}
    return "owner/model"


def one_line(raised):
    text = str(raised.value)
    assert text and "\n" not in text
    return text


def weights(bilm):
    return torch.cat([value.flatten() for value in bilm.state_dict().values()])


def test_a_repository_is_loaded_and_only_files_of_a_model_are_fetched(served, repository, tmp_path):
    elmo = Elmo.from_pretrained(repository, cache_dir=tmp_path / "cache")
    assert torch.equal(weights(elmo.bilm), weights(random_bilm()))
    assert not any("pytorch_model" in path or "modeling" in path for path in served.asked)
    kept = [p for p in (tmp_path / "cache").rglob("snapshots/*/*") if p.is_file()]
    assert {path.name for path in kept} == {"config.json", "model.safetensors"}


def test_who_asks_is_told_of_every_byte_and_nothing_is_drawn(
    served, repository, tmp_path, monkeypatch, capfd
):
    # A bar is drawn where somebody looks at a terminal, or where this is set.
    monkeypatch.setenv("TQDM_POSITION", "-1")
    seen = []
    ask = functools.partial(
        locate, repository, cache_dir=tmp_path / "cache", progress=lambda *now: seen.append(now)
    )
    folder = ask()
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert seen[-1] == (size, size)
    done = [now[0] for now in seen]
    assert done == sorted(done) and all(now[1] is None or now[0] <= now[1] for now in seen)
    seen.clear()
    assert ask() == folder and seen == []  # all is there
    assert Elmo.from_pretrained(repository, cache_dir=tmp_path / "other").n_layers == 3
    Elmo(random_bilm()).push_to_hub("it", token="hf_test")
    assert capfd.readouterr() == ("", "")


def test_bars_of_the_hubs_client_are_as_they_were_afterwards(served, repository, tmp_path):
    assert not are_progress_bars_disabled()
    locate(repository, cache_dir=tmp_path / "cache")
    assert not are_progress_bars_disabled()
    with pytest.raises(FileNotFoundError):
        locate("owner/nothing", cache_dir=tmp_path / "cache")
    assert not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        locate(repository, cache_dir=tmp_path / "cache")
        assert are_progress_bars_disabled()
    finally:
        enable_progress_bars()


def test_what_was_fetched_once_is_there_without_a_network(served, repository, tmp_path):
    Elmo.from_pretrained(repository, cache_dir=tmp_path / "cache")
    n_asked = len(served.asked)
    Elmo.from_pretrained(repository, cache_dir=tmp_path / "cache", offline=True)
    assert len(served.asked) == n_asked


def test_a_second_use_fetches_no_file_again_and_needs_no_hub(
    served, repository, tmp_path, monkeypatch
):
    first = locate(repository, cache_dir=tmp_path / "cache")
    served.asked.clear()
    assert locate(repository, cache_dir=tmp_path / "cache") == first
    assert not any("/resolve/" in path for path in served.asked)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert locate(repository, cache_dir=tmp_path / "cache") == first
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    assert locate(repository, cache_dir=tmp_path / "cache") == first


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_half_a_file_is_never_read_as_a_model(served, repository, tmp_path, file):
    cache = tmp_path / "cache"
    served.cut = file
    with pytest.raises(ConnectionError, match=f"could not download {repository}") as raised:
        load(repository, cache_dir=cache)
    one_line(raised)
    with pytest.raises(FileNotFoundError, match="offline=True") as raised:
        load(repository, cache_dir=cache, offline=True)
    one_line(raised)
    served.cut = None
    assert torch.equal(weights(load(repository, cache_dir=cache).bilm), weights(random_bilm()))


@pytest.mark.parametrize("instead", [b"", b"<html>log in first</html>"], ids=["hangs up", "page"])
def test_what_does_not_answer_as_the_hub_is_a_failed_connection(
    served, repository, tmp_path, instead
):
    served.instead = instead
    with pytest.raises(ConnectionError, match=repository) as raised:
        locate(repository, cache_dir=tmp_path / "cache")
    one_line(raised)


def test_a_gated_repository_says_to_log_in(served, repository, tmp_path):
    served.gated = True
    with pytest.raises(FileNotFoundError, match="hf auth login") as raised:
        locate(repository, cache_dir=tmp_path / "cache")
    one_line(raised)


def test_a_disk_that_cannot_be_written_is_not_blamed_on_the_network(served, repository, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=re.escape(str(tmp_path / "file"))) as raised:
        locate(repository, cache_dir=tmp_path / "file")
    one_line(raised)
    assert not isinstance(raised.value, ConnectionError)


@pytest.mark.parametrize("name", ["owner/mo--del", "owner/model.git", "owner/model."])
def test_a_name_that_no_repository_has_is_refused_in_one_line(served, tmp_path, name):
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(name)) as raised:
        locate(name, cache_dir=tmp_path)
    one_line(raised)
    assert served.asked == []


def test_official_files_in_a_repository_work_too(served, tmp_path):
    save_official(random_bilm(), tmp_path / "official")
    served.repositories["owner/official"] = files_of(tmp_path / "official")
    elmo = Elmo.from_pretrained("owner/official", cache_dir=tmp_path / "cache")
    assert torch.equal(weights(elmo.bilm), weights(random_bilm()))


def test_what_is_not_there_is_said_in_one_line(served, repository, tmp_path):
    cache = tmp_path / "cache"
    served.repositories["owner/other"] = {"README.md": b"no model"}
    for ask, error, said in (
        (lambda: locate("owner/nothing", cache_dir=cache), FileNotFoundError, "nor a repository"),
        (lambda: locate("owner/other", cache_dir=cache), FileNotFoundError, "holds no ELMo model"),
        (
            lambda: hub.download_repository(repository, revision="v9", cache_dir=cache),
            FileNotFoundError,
            "owner/model at v9",
        ),
        (
            lambda: locate("owner/unseen", cache_dir=cache, offline=True),
            FileNotFoundError,
            "offline=True forbids the network",
        ),
    ):
        with pytest.raises(error, match=said) as raised:
            ask()
        assert "\n" not in str(raised.value)


def test_a_hub_that_does_not_answer_is_said_in_one_line(served, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConnectionError, match="owner/model") as raised:
        locate(repository, cache_dir=tmp_path / "cache")
    assert "\n" not in str(raised.value)


def test_a_model_is_pushed_with_a_card_and_can_be_loaded_from_what_was_sent(served, tmp_path):
    elmo = Elmo(random_bilm())
    address = elmo.push_to_hub("it", token="hf_test", message="First")
    assert address.endswith(COMMIT)
    assert served.created[0]["name"] == "it"
    header, *files = served.committed
    assert header["value"]["summary"] == "First"
    sent = {f["value"]["path"]: base64.b64decode(f["value"]["content"]) for f in files}
    assert {"config.json", "model.safetensors", "mixes.safetensors", "README.md"} == set(sent)
    assert b"library_name: elmo-torch" in sent["README.md"]
    assert b'Elmo.from_pretrained("me/it")' in sent["README.md"]
    served.repositories["me/it"] = sent
    again = Elmo.from_pretrained("me/it", cache_dir=tmp_path / "cache")
    assert torch.equal(weights(again.bilm), weights(elmo.bilm))


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_upload_is_said_in_one_line(served, status):
    served.refuse = status
    with pytest.raises(ConnectionError, match="could not upload to it") as raised:
        Elmo(random_bilm()).push_to_hub("it", token="hf_wrong")
    assert "token" in one_line(raised)  # what to do about it
    assert "hf_wrong" not in str(raised.value)


def test_an_upload_to_a_hub_that_does_not_answer_is_a_failed_connection(served, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConnectionError, match="could not upload to it") as raised:
        Elmo(random_bilm()).push_to_hub("it", token="hf_test")
    one_line(raised)


def test_whether_a_new_repository_is_private_is_passed_on(served):
    Elmo(random_bilm()).push_to_hub("owner/it", token="hf_test", private=True)
    assert served.created[0]["organization"] == "owner"
    assert True in (served.created[0].get("private"), served.created[0]["visibility"] == "private")


def test_a_card_that_lies_beside_the_model_is_uploaded_instead_of_ours(
    served, repository, tmp_path
):
    (tmp_path / "model" / "README.md").write_text("# Mine")
    (tmp_path / "model" / "train.pkl").write_bytes(b"pickle")
    hub.upload_folder(tmp_path / "model", "it", token="hf_test")
    sent = {f["value"]["path"]: f["value"]["content"] for f in served.committed[1:]}
    assert base64.b64decode(sent["README.md"]) == b"# Mine"
    assert set(sent) == {"config.json", "model.safetensors", "README.md"}


def test_a_folder_without_a_model_is_not_uploaded(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no model in our format"):
        hub.upload_folder(tmp_path, "it")
