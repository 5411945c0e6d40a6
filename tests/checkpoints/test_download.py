"""Downloads, against a server on this machine; no other address can be reached from here."""

import hashlib
import io
import json
import os
import re
import shutil
import socket
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import h5py
import numpy as np
import pytest

from elmo.checkpoints import download, released
from elmo.checkpoints.download import CHUNK_BYTES, cache_folder, fetch_released

OPTIONS = b'{"lstm": {"dim": 3}, "char_cnn": {"n_filters": 5}}'
PAGE = b"<!DOCTYPE html><html><title>Welcome to the airport</title></html>"


def hdf5_bytes(seed):
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        file["char_embed"] = np.random.default_rng(seed).random((5, 11_003), dtype=np.float32)
    return held.getvalue()


WEIGHTS = hdf5_bytes(1)
OTHER_WEIGHTS = hdf5_bytes(2)
assert len(WEIGHTS) > 3 * CHUNK_BYTES


@dataclass
class Served:
    """A file as the server holds it, with the faults it is to show."""

    body: bytes
    etag: str | None = '"one"'
    modified: str | None = None
    has_ranges: bool = True
    heeds_if_range: bool = True
    says_length: bool = True
    says_etag_of_the_rest: bool = True
    cuts: list[int] = field(default_factory=list)  # the next answers end after so many bytes
    statuses: list[int] = field(default_factory=list)  # the next answers are these errors
    delay_s: float = 0.0


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        self.files = {}
        self.asked = []  # (path, Range, If-Range)
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def asked_for(self, path):
        return [request[1:] for request in self.asked if request[0] == path]


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        wanted, validator = self.headers.get("Range"), self.headers.get("If-Range")
        self.server.asked.append((self.path, wanted, validator))
        served = self.server.files.get(self.path)
        if served is None:
            return self.send_error(404)
        time.sleep(served.delay_s)
        if served.statuses:
            return self.send_error(served.statuses.pop(0))
        body, start = served.body, 0
        is_same = validator in (None, served.etag, served.modified) or not served.heeds_if_range
        if wanted and served.has_ranges and is_same:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(body):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if served.etag and (not start or served.says_etag_of_the_rest):
            self.send_header("ETag", served.etag)
        if served.modified and (not start or served.says_etag_of_the_rest):
            self.send_header("Last-Modified", served.modified)
        if served.says_length:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start : served.cuts.pop(0) if served.cuts else None])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        server.files = {"/options.json": Served(OPTIONS), "/weights.hdf5": Served(WEIGHTS)}
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No setting of this machine, no other machine, and no waiting between attempts."""
    for variable in list(os.environ):
        if variable.lower().endswith("_proxy") or variable.startswith(("ELMO_", "HF_")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "BACKOFF_S", 0.0)
    resolve = socket.getaddrinfo

    def resolve_here(host, *args, **kwargs):
        if host != "127.0.0.1":
            raise socket.gaierror(-2, "Name or service not known")
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "small"


def recorded(folder):
    return json.loads((folder / "checksums.json").read_text())


def one_line(caught):
    text = str(caught.value)
    assert text and "\n" not in text
    return text


# ---- the ordinary case ---------------------------------------------------------------------


def test_both_files_arrive_whole_and_their_checksums_are_recorded(server, folder):
    assert fetch_released("small", url=server.url) == folder
    assert (folder / "options.json").read_bytes() == OPTIONS
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS
    entry = recorded(folder)["weights.hdf5"]
    assert entry["sha256"] == hashlib.sha256(WEIGHTS).hexdigest()
    assert entry["bytes"] == len(WEIGHTS)
    assert entry["url"] == f"{server.url}/weights.hdf5"
    assert set(recorded(folder)) == {"options.json", "weights.hdf5"}
    left = {path.name for path in folder.iterdir()} - {".lock"}
    assert left == {"options.json", "weights.hdf5", "checksums.json"}


def test_a_second_use_asks_the_server_nothing(server, folder):
    fetch_released("small", url=server.url)
    asked = len(server.asked)
    fetch_released("small", url=server.url)
    fetch_released("small", url=server.url, verify=True)
    assert len(server.asked) == asked == 2


def test_progress_grows_to_the_size_of_the_weights(server):
    seen = []
    fetch_released("small", url=server.url, progress=lambda *now: seen.append(now))
    assert {total for _, total in seen} == {len(WEIGHTS)}
    done = [done for done, _ in seen]
    assert done == sorted(set(done))
    assert len(done) > 2
    assert done[-1] == len(WEIGHTS)


def test_refresh_replaces_what_is_cached(server, folder):
    fetch_released("small", url=server.url)
    server.files["/weights.hdf5"] = Served(OTHER_WEIGHTS, etag='"two"')
    fetch_released("small", url=server.url, refresh=True)
    assert (folder / "weights.hdf5").read_bytes() == OTHER_WEIGHTS
    assert recorded(folder)["weights.hdf5"]["sha256"] == hashlib.sha256(OTHER_WEIGHTS).hexdigest()


def test_refresh_does_not_go_on_with_a_partial_file(server):
    server.files["/weights.hdf5"].cuts = [100_000] * 4
    with pytest.raises(ConnectionError):
        fetch_released("small", url=server.url)
    fetch_released("small", url=server.url, refresh=True)
    assert server.asked_for("/weights.hdf5")[-1] == (None, None)


def test_a_query_in_an_address_is_used_but_not_written_down(server, folder):
    server.files["/w?key=secret"] = Served(WEIGHTS)
    pair = (f"{server.url}/options.json", f"{server.url}/w?key=secret")
    fetch_released("small", url=pair)
    assert recorded(folder)["weights.hdf5"]["url"] == f"{server.url}/w"


def test_two_threads_that_want_the_same_model_download_it_once(server, folder, caplog):
    server.files["/weights.hdf5"].delay_s = 0.1
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch_released("small", url=server.url)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [folder, folder]
    assert len(server.asked_for("/weights.hdf5")) == len(server.asked_for("/options.json")) == 1
    assert caplog.messages == [f"waiting for another process that is at work in {folder}"]


# ---- interruptions -------------------------------------------------------------------------


def test_an_interrupted_download_asks_only_for_the_rest(server, folder):
    server.files["/weights.hdf5"].cuts = [100_000]
    fetch_released("small", url=server.url)
    first, second = server.asked_for("/weights.hdf5")
    assert first == (None, None)
    assert second == ("bytes=100000-", '"one"')
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


def test_a_download_given_up_is_gone_on_with_by_the_next_process(server, folder):
    server.files["/weights.hdf5"].cuts = [70_000, 80_000, 90_000, 100_000]
    with pytest.raises(ConnectionError, match="100,000 bytes received are kept; run again") as e:
        fetch_released("small", url=server.url)
    assert "ended at 100,000 of" in one_line(e)
    assert not (folder / "weights.hdf5").exists()
    fetch_released("small", url=server.url)
    assert server.asked_for("/weights.hdf5")[-1] == ("bytes=100000-", '"one"')
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


def test_ctrl_c_keeps_what_has_arrived(server, folder):
    def interrupt(done, total):
        if done > CHUNK_BYTES:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_released("small", url=server.url, progress=interrupt)
    fetch_released("small", url=server.url)
    assert server.asked_for("/weights.hdf5")[-1][0] == f"bytes={2 * CHUNK_BYTES}-"
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


def test_a_file_that_arrived_whole_but_was_not_renamed_is_not_asked_for_again(server, folder):
    server.files["/weights.hdf5"].cuts = [len(WEIGHTS) - 1] * 4
    with pytest.raises(ConnectionError):
        fetch_released("small", url=server.url)
    with (folder / "weights.hdf5.partial").open("ab") as partial:
        partial.write(WEIGHTS[-1:])
    asked = len(server.asked)
    fetch_released("small", url=server.url)
    assert len(server.asked) == asked
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    "fault",
    [
        {"has_ranges": False},
        {"etag": None},
        {"etag": 'W/"weak"'},
        {"etag": None, "modified": "Tue, 01 May 2018 10:00:00 GMT"},
        {"says_etag_of_the_rest": False},
    ],
    ids=["no ranges", "no validator", "weak validator", "date only", "validator said once"],
)
def test_an_interrupted_download_ends_well_whatever_the_server_can_do(server, folder, fault):
    server.files["/weights.hdf5"] = replace(Served(WEIGHTS, cuts=[100_000]), **fault)
    fetch_released("small", url=server.url)
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS
    can_resume = fault.get("has_ranges", True) and (
        fault.get("modified") or "says_etag_of_the_rest" in fault
    )
    again = server.asked_for("/weights.hdf5")[1]
    if can_resume:
        assert again == ("bytes=100000-", fault.get("modified", '"one"'))
    elif "etag" in fault:
        assert again == (None, None)


@pytest.mark.parametrize("heeds_if_range", [True, False])
def test_a_file_that_changed_on_the_server_is_fetched_from_its_beginning(
    server, folder, heeds_if_range
):
    server.files["/weights.hdf5"].cuts = [100_000] * 4
    with pytest.raises(ConnectionError):
        fetch_released("small", url=server.url)
    server.files["/weights.hdf5"] = Served(
        OTHER_WEIGHTS, etag='"two"', heeds_if_range=heeds_if_range
    )
    fetch_released("small", url=server.url)
    assert (folder / "weights.hdf5").read_bytes() == OTHER_WEIGHTS


def test_a_file_that_got_shorter_on_the_server_is_fetched_from_its_beginning(server, folder):
    server.files["/weights.hdf5"].cuts = [len(WEIGHTS) - 1] * 4
    with pytest.raises(ConnectionError):
        fetch_released("small", url=server.url)
    shorter = io.BytesIO()
    h5py.File(shorter, "w").close()
    server.files["/weights.hdf5"] = Served(shorter.getvalue(), etag='"2"', heeds_if_range=False)
    fetch_released("small", url=server.url)
    assert (folder / "weights.hdf5").read_bytes() == shorter.getvalue()


def test_a_partial_file_from_another_address_is_not_gone_on_with(server, folder):
    server.files["/weights.hdf5"].cuts = [100_000] * 4
    with pytest.raises(ConnectionError):
        fetch_released("small", url=server.url)
    server.files |= {"/b/options.json": Served(OPTIONS), "/b/weights.hdf5": Served(OTHER_WEIGHTS)}
    fetch_released("small", url=f"{server.url}/b")
    assert server.asked_for("/b/weights.hdf5") == [(None, None)]
    assert (folder / "weights.hdf5").read_bytes() == OTHER_WEIGHTS


def test_errors_of_the_server_that_may_pass_are_tried_again(server, folder):
    server.files["/weights.hdf5"].statuses = [503, 500, 429]
    fetch_released("small", url=server.url)
    assert len(server.asked_for("/weights.hdf5")) == 4
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


# ---- failures ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_one_line_with_every_address_tried_and_what_to_do(server, folder, status):
    server.files["/options.json"].statuses = [status]
    with pytest.raises(ConnectionError) as caught:
        fetch_released("small", url=server.url)
    text = one_line(caught)
    assert f"{server.url}/options.json (HTTP {status}" in text
    assert f"{server.url}/elmo_2x1024_128_2048cnn_1xhighway_options.json (HTTP 404" in text
    assert "ELMO_MIRROR" in text and str(folder) in text
    assert len(server.asked) == 2


def test_a_refused_connection_is_one_line_at_once(folder):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(ConnectionError, match="refused") as caught:
        fetch_released("small", url=url)
    assert f"{url}/options.json" in one_line(caught)


def test_an_unknown_host_is_one_line_with_the_published_address():
    with pytest.raises(ConnectionError, match="Name or service not known") as caught:
        fetch_released("small")
    assert released.find_released("small").options_url in one_line(caught)


def test_a_server_that_does_not_answer_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    server.files["/options.json"].delay_s = 0.3
    with pytest.raises(ConnectionError, match="timed out, 2 attempts") as caught:
        fetch_released("small", url=server.url)
    assert "bytes received" not in one_line(caught)


def test_a_login_page_instead_of_the_weights_is_named_and_not_kept(server, folder):
    server.files["/weights.hdf5"] = Served(PAGE)
    with pytest.raises(ConnectionError, match=r"is not HDF5: it begins with b'<!DOCTYPE") as caught:
        fetch_released("small", url=server.url)
    assert f"{server.url}/weights.hdf5" in one_line(caught)
    assert not (folder / "weights.hdf5").exists()
    assert not (folder / "weights.hdf5.partial").exists()


def test_a_login_page_does_not_overwrite_what_had_arrived(server, folder):
    server.files["/weights.hdf5"].cuts = [100_000] * 4
    with pytest.raises(ConnectionError):
        fetch_released("small", url=server.url)
    server.files["/weights.hdf5"] = Served(PAGE, etag=None)
    with pytest.raises(ConnectionError, match="is not HDF5"):
        fetch_released("small", url=server.url)
    assert (folder / "weights.hdf5.partial").read_bytes() == WEIGHTS[:100_000]


@pytest.mark.parametrize("body", [PAGE, b"[1, 2]", b""], ids=["page", "list", "empty"])
def test_what_is_not_a_json_object_does_not_become_the_options(server, folder, body):
    server.files["/options.json"] = Served(body)
    with pytest.raises(ConnectionError, match=r"is not a JSON object \(options.json\)") as caught:
        fetch_released("small", url=server.url)
    one_line(caught)
    assert not (folder / "options.json").exists()


def test_an_empty_file_does_not_become_the_weights(server, folder):
    server.files["/weights.hdf5"] = Served(b"")
    with pytest.raises(ConnectionError, match="is not HDF5"):
        fetch_released("small", url=server.url)


def test_half_a_file_from_a_server_that_does_not_say_its_size_is_noticed(server, folder):
    server.files["/weights.hdf5"] = Served(WEIGHTS[:150_000], says_length=False)
    with pytest.raises(ConnectionError, match="cut short or damaged") as caught:
        fetch_released("small", url=server.url)
    one_line(caught)
    assert not (folder / "weights.hdf5").exists()


def test_a_whole_file_from_a_server_that_does_not_say_its_size_is_taken(server, folder):
    server.files["/weights.hdf5"] = Served(WEIGHTS, says_length=False)
    totals = set()
    fetch_released("small", url=server.url, progress=lambda done, total: totals.add(total))
    assert totals == {None}
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


def test_too_little_room_is_said_before_anything_is_written(server, folder, monkeypatch):
    usage = shutil.disk_usage(folder.parent.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    with pytest.raises(OSError, match=f"needs {len(WEIGHTS):,} more bytes.*room for 1,000") as e:
        fetch_released("small", url=server.url)
    one_line(e)
    assert not (folder / "weights.hdf5.partial").exists()


def test_a_cache_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot write to the cache folder .*ELMO_CACHE") as caught:
        fetch_released("small", url=server.url, cache_dir=tmp_path / "file")
    one_line(caught)


# ---- what was published, what was recorded -------------------------------------------------


@pytest.fixture
def published(monkeypatch):
    """`small`, as if its publishers had printed a digest of the weights."""

    def publish(digest):
        model = replace(released.RELEASED["small"], weights_digest=digest)
        monkeypatch.setitem(released.RELEASED, "small", model)

    return publish


def test_weights_with_the_published_digest_are_taken(server, published):
    published(f"sha1:{hashlib.sha1(WEIGHTS).hexdigest()}")
    fetch_released("small", url=server.url)


def test_weights_without_the_published_digest_are_refused_and_not_kept(server, folder, published):
    published(f"sha256:{hashlib.sha256(OTHER_WEIGHTS).hexdigest()}")
    with pytest.raises(ValueError, match='not the file published as "small": sha256') as caught:
        fetch_released("small", url=server.url)
    one_line(caught)
    assert not (folder / "weights.hdf5").exists()
    assert not (folder / "weights.hdf5.partial").exists()


def test_a_cached_file_of_another_size_is_noticed_at_the_next_use(server, folder):
    fetch_released("small", url=server.url)
    with (folder / "weights.hdf5").open("ab") as weights:
        weights.write(b"more")
    with pytest.raises(ValueError, match=r"has changed since .*refresh=True") as caught:
        fetch_released("small", url=server.url)
    assert str(folder / "weights.hdf5") in one_line(caught)
    fetch_released("small", url=server.url, refresh=True)
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


def damage_without_a_trace(path):
    """Change one byte, leaving size and time of the file as they were."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_verify_notices_what_size_and_time_do_not_show(server, folder):
    fetch_released("small", url=server.url)
    damage_without_a_trace(folder / "weights.hdf5")
    fetch_released("small", url=server.url)
    with pytest.raises(ValueError, match=r"weights\.hdf5 has changed since"):
        fetch_released("small", url=server.url, verify=True)


def test_a_file_that_was_only_touched_is_read_once_and_recorded_again(server, folder, monkeypatch):
    fetch_released("small", url=server.url)
    before = recorded(folder)["weights.hdf5"]
    os.utime(folder / "weights.hdf5", ns=(1, 1))
    fetch_released("small", url=server.url)
    assert recorded(folder)["weights.hdf5"] == before | {"modified_ns": 1}
    monkeypatch.delattr(download, "_digest")  # a third use has nothing to read
    fetch_released("small", url=server.url)


def test_a_deleted_file_is_fetched_again_alone(server, folder):
    fetch_released("small", url=server.url)
    (folder / "weights.hdf5").unlink()
    fetch_released("small", url=server.url)
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS
    assert len(server.asked_for("/options.json")) == 1


def test_an_unreadable_record_is_named_and_refresh_replaces_it(server, folder):
    fetch_released("small", url=server.url)
    (folder / "checksums.json").write_text('{"weights.hdf5": {"md5": 3}}')
    with pytest.raises(ValueError, match=re.escape(str(folder / "checksums.json"))) as caught:
        fetch_released("small", url=server.url)
    one_line(caught)
    fetch_released("small", url=server.url, refresh=True)
    assert set(recorded(folder)) == {"options.json", "weights.hdf5"}


# ---- offline, and by hand ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "offline", "said"),
    [
        ("ELMO_OFFLINE", None, "ELMO_OFFLINE=1"),
        ("HF_HUB_OFFLINE", None, "HF_HUB_OFFLINE=1"),
        (None, True, "offline=True"),
    ],
)
def test_offline_without_a_cache_says_which_files_go_where(
    server, folder, monkeypatch, variable, offline, said
):
    if variable:
        monkeypatch.setenv(variable, "1")
    with pytest.raises(FileNotFoundError) as caught:
        fetch_released("small", url=server.url, offline=offline)
    text = one_line(caught)
    model = released.find_released("small")
    assert said in text
    assert f"options.json from {model.options_url}" in text
    assert f"weights.hdf5 from {model.weights_url}" in text
    assert str(folder) in text
    assert server.asked == []
    assert not folder.exists()


def test_offline_serves_what_is_cached(server, folder, monkeypatch):
    fetch_released("small", url=server.url)
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    assert fetch_released("small") == folder
    assert fetch_released("small", verify=True) == folder


def test_offline_false_wins_over_the_environment(server, folder, monkeypatch):
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    assert fetch_released("small", url=server.url, offline=False) == folder


def test_refresh_offline_fails_and_leaves_the_cache_alone(server, folder):
    fetch_released("small", url=server.url)
    with pytest.raises(ConnectionError, match="refresh=True asks: offline=True forbids") as caught:
        fetch_released("small", refresh=True, offline=True)
    one_line(caught)
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


def test_files_put_there_by_hand_are_recorded_and_then_watched(folder):
    folder.mkdir(parents=True)
    (folder / "options.json").write_bytes(OPTIONS)
    (folder / "weights.hdf5").write_bytes(WEIGHTS)
    assert fetch_released("small", offline=True) == folder
    assert recorded(folder)["weights.hdf5"]["url"] is None
    (folder / "weights.hdf5").write_bytes(OTHER_WEIGHTS)
    os.utime(folder / "weights.hdf5", ns=(1, 1))
    with pytest.raises(ValueError, match="has changed"):
        fetch_released("small", offline=True)


def test_a_cache_on_a_read_only_disk_serves_without_a_lock(server, folder, monkeypatch):
    fetch_released("small", url=server.url)
    os.utime(folder / "weights.hdf5", ns=(1, 1))
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.delattr("filelock.FileLock")

    def refuse(*paths):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    assert fetch_released("small", verify=True) == folder
    assert recorded(folder)["weights.hdf5"]["modified_ns"] != 1


def test_a_page_saved_by_hand_instead_of_the_weights_is_noticed(folder):
    folder.mkdir(parents=True)
    (folder / "options.json").write_bytes(OPTIONS)
    (folder / "weights.hdf5").write_bytes(PAGE)
    with pytest.raises(OSError, match="is not HDF5") as caught:
        fetch_released("small", offline=True)
    assert str(folder / "weights.hdf5") in one_line(caught)


# ---- where from, where to ------------------------------------------------------------------


def test_a_mirror_stands_for_the_host_of_every_published_address(server, folder, monkeypatch):
    monkeypatch.setenv("ELMO_MIRROR", f"{server.url}/copies/")
    path = "/copies/allennlp/models/elmo/2x1024_128_2048cnn_1xhighway/"
    stem = path + "elmo_2x1024_128_2048cnn_1xhighway_"
    server.files = {
        f"{stem}options.json": Served(OPTIONS),
        f"{stem}weights.hdf5": Served(WEIGHTS),
    }
    fetch_released("small")
    assert recorded(folder)["weights.hdf5"]["url"] == f"{server.url}{stem}weights.hdf5"


def test_an_explicit_address_wins_over_the_mirror(server, folder, monkeypatch):
    monkeypatch.setenv("ELMO_MIRROR", "http://mirror.example")
    assert fetch_released("small", url=server.url) == folder


def test_a_folder_may_hold_the_files_under_their_published_names(server, folder):
    stem = "/elmo_2x1024_128_2048cnn_1xhighway_"
    server.files = {
        f"{stem}options.json": Served(OPTIONS),
        f"{stem}weights.hdf5": Served(WEIGHTS),
    }
    fetch_released("small", url=f"{server.url}/")
    assert (folder / "weights.hdf5").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/data/elmo", "must be an http:// or https:// address"),
        ("file:///data/elmo", "put them into the cache"),
        ("https://", "must be an http:// or https:// address"),
        ("https://host/a b", "percent-encoded"),
        ("https://host/weights.hdf5", "stands for a folder"),
        ("https://host/elmo?key=1", "stands for a folder"),
        (("https://host/options.json", "weights.hdf5"), r"url\[1\] is 'weights.hdf5'"),
    ],
)
def test_an_address_that_cannot_serve_is_refused_with_the_reason(url, said):
    with pytest.raises(ValueError, match=said) as caught:
        fetch_released("small", url=url)
    one_line(caught)


def test_an_unknown_name_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(ValueError, match='Did you mean "small"'):
        fetch_released("smal")
    assert not (tmp_path / "cache").exists()


def test_the_cache_is_the_argument_or_elmo_cache_or_that_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(tmp_path / "mine") == tmp_path / "mine"
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("ELMO_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "elmo"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "home" / ".cache" / "elmo"
    assert cache_folder("~/there") == tmp_path / "home" / "there"
