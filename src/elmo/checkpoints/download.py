"""Released weights on disk: downloaded once, checked, and kept in a cache folder.

A cached model is a folder of its own: `options.json`, `weights.hdf5` and `checksums.json`, which
says what the first two were when they came. A file still on its way is `*.partial`, with
`*.partial.json` beside it for what the server said of it; neither is ever read as weights.
"""

import contextlib
import hashlib
import http.client
import json
import logging
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

from elmo.checkpoints.released import Released, find_released

logger = logging.getLogger(__name__)

OPTIONS, WEIGHTS, RECORD = "options.json", "weights.hdf5", "checksums.json"
FILES = (OPTIONS, WEIGHTS)

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
CHUNK_BYTES = 1 << 16
TIMEOUT_S = 30.0
ATTEMPTS = 4
BACKOFF_S = 1.0  # before the second attempt; doubled before each later one

Progress = Callable[[int, int | None], None]


def fetch_released(
    name: str,
    *,
    url: str | tuple[str, str] | None = None,
    cache_dir: Path | str | None = None,
    offline: bool | None = None,
    verify: bool = False,
    refresh: bool = False,
    progress: Progress | None = None,
) -> Path:
    """The folder that holds a released model, downloaded if it is not in the cache yet.

    An interrupted download goes on where it stopped, if the server can do that and the file
    there is still the same. Of several processes that want the same model, one downloads.

    Args:
        name: One of `elmo.checkpoints.released.RELEASED`.
        url: Where to download from instead of the published address. A string is a folder on a
            web server that holds `options.json` and `weights.hdf5`, or the two files under their
            published names. A pair is the addresses of the options and of the weights. Wins over
            `ELMO_MIRROR`. Not looked at when the model is cached already.
        cache_dir: Holds one folder per model. Default: see `cache_folder`.
        offline: Never use the network. Default: whether ELMO_OFFLINE or HF_HUB_OFFLINE says so.
        verify: Read the cached files and compare their SHA-256 with the recorded one. By default
            that happens only if size or modification time differ from what was recorded.
        refresh: Download anew, replacing what is cached.
        progress: Called with the bytes of `weights.hdf5` there so far and in all (None if the
            server does not say). The first number falls if a download has to start again.

    Returns:
        A folder with `options.json` and `weights.hdf5`.

    Raises:
        ValueError: If the name is unknown, the URL is no http(s) address, a cached file is not
            the one that was recorded, or a downloaded one not the one that was published.
        FileNotFoundError: If offline and the model is not in the cache.
        ConnectionError: If the download fails: no connection, a refusal such as 404, an answer
            that is not the file.
        OSError: If the disk has no room or the cache folder cannot be written.
    """
    model = find_released(name)
    sources = _sources(model, url)
    folder = cache_folder(cache_dir) / model.name
    because = offline_because(offline)
    missing = [file for file in FILES if not (folder / file).is_file()]

    if because and (missing or refresh):
        raise _offline_error(model, folder, missing, because)
    if not (missing or verify or refresh):
        # Without the lock, so that a cache on a read-only disk serves too.
        record = _read_record(folder)
        if all(_is_unchanged(folder / file, record.get(file)) for file in FILES):
            return folder

    with _locked(folder, to_write=bool(missing or refresh)):
        record = _read_record(folder, forgiving=refresh)
        for file in FILES:
            path = folder / file
            if refresh:
                _discard(path)
            if path.is_file() and not refresh:
                entry = _checked(path, record.get(file), model, verify=verify)
            else:
                came_from = _download(sources[file], path, progress if file == WEIGHTS else None)
                entry = _placed(path, came_from, record.get(file), model)
            if record.get(file) != entry:
                record[file] = entry
                _write_record(folder, record)
    return folder


def cache_folder(cache_dir: Path | str | None = None) -> Path:
    """The folder of all cached models: the argument, or ELMO_CACHE, or `~/.cache/elmo`.

    XDG_CACHE_HOME, if set, stands for `~/.cache`. The folder need not exist.
    """
    if cache_dir is not None:
        return Path(cache_dir).expanduser()
    if chosen := os.environ.get("ELMO_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "elmo"


# ---- where from ----------------------------------------------------------------------------


def _sources(model: Released, url: str | tuple[str, str] | None) -> dict[str, tuple[str, ...]]:
    """For each file the addresses to try, in order."""
    published = _published(model)
    if url is None:
        mirror = os.environ.get("ELMO_MIRROR")
        if not mirror:
            return {file: (address,) for file, address in published.items()}
        base = _web_folder(mirror, "ELMO_MIRROR")
        return {file: (base + urlsplit(address).path,) for file, address in published.items()}
    if isinstance(url, str):
        base = _web_folder(url, "url")
        return {
            # A set would lose the order, in which the plain name comes first.
            file: tuple(dict.fromkeys(f"{base}/{n}" for n in (file, address.rpartition("/")[2])))
            for file, address in published.items()
        }
    return {
        file: (_web_address(address, f"url[{i}]"),)
        for i, (file, address) in enumerate(zip(FILES, url, strict=True))
    }


def _published(model: Released) -> dict[str, str]:
    return {OPTIONS: model.options_url, WEIGHTS: model.weights_url}


def _web_folder(url: str, said_in: str) -> str:
    base = _web_address(url, said_in).rstrip("/")
    if "?" in base or "#" in base or base.endswith((".json", ".hdf5")):
        raise ValueError(
            f"{said_in} is {url!r}, but one address stands for a folder that holds both files. "
            "Give the folder, or pass url=(address of the options, address of the weights)."
        )
    return base


def _web_address(url: str, said_in: str) -> str:
    parts = urlsplit(url)
    is_web = parts.scheme in ("http", "https") and parts.hostname
    if not is_web or not re.fullmatch("[!-~]+", url):
        raise ValueError(
            f"{said_in} is {url!r}, but must be an http:// or https:// address, percent-encoded. "
            "Files that are on this machine already need no address: put them into the cache."
        )
    return url


def _shown(url: str) -> str:
    """An address without its query, which may hold a signature that is nobody else's business."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def offline_because(offline: bool | None) -> str | None:
    """What forbids the network, or None: the argument, else ELMO_OFFLINE or HF_HUB_OFFLINE."""
    if offline is not None:
        return "offline=True" if offline else None
    for variable in ("ELMO_OFFLINE", "HF_HUB_OFFLINE"):
        if os.environ.get(variable, "").lower() in ("1", "true", "yes", "on"):
            return f"{variable}={os.environ[variable]}"
    return None


def _offline_error(model: Released, folder: Path, missing: list[str], because: str) -> OSError:
    wanted = " and ".join(f"{file} from {_published(model)[file]}" for file in missing)
    if not missing:
        return ConnectionError(
            f'"{model.name}" cannot be downloaded anew, as refresh=True asks: {because} forbids '
            f"the network. Without refresh the copy in {folder} is used."
        )
    return FileNotFoundError(
        f'"{model.name}" is not in the cache, and {because} forbids the network. '
        f"Put {wanted} into {folder}, under these names."
    )


# ---- what was recorded ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """What `checksums.json` says of one file. `url` is None for a file put there by hand."""

    sha256: str
    bytes: int
    modified_ns: int
    url: str | None
    date: str


def _read_record(folder: Path, *, forgiving: bool = False) -> dict[str, _Entry]:
    path = folder / RECORD
    if not path.is_file():
        return {}
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return {file: _Entry(**entry) for file, entry in said.items()}
    except (ValueError, TypeError, AttributeError):
        if forgiving:
            return {}
        raise ValueError(
            f"{path} is not a list of checksums as written here. Delete it to record the files "
            "beside it as they are, or pass refresh=True to fetch them anew."
        ) from None


def _write_record(folder: Path, record: dict[str, _Entry]) -> None:
    text = json.dumps({file: asdict(entry) for file, entry in record.items()}, indent=2) + "\n"
    try:
        _write_beside(folder / RECORD, text)
    except OSError as error:
        # The files are good; only the next use has to read them again.
        logger.info("could not write %s: %s", folder / RECORD, error)


def _write_beside(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def _is_unchanged(path: Path, entry: _Entry | None) -> bool:
    status = path.stat()
    return entry is not None and (status.st_size, status.st_mtime_ns) == (
        entry.bytes,
        entry.modified_ns,
    )


def _checked(path: Path, entry: _Entry | None, model: Released, *, verify: bool) -> _Entry:
    """The entry of a file found in the cache, after comparing the file with it."""
    if entry is None:
        _check_format(path, found=str(path))
        _check_published(path, model)
        logger.info("recording %s, which was put into the cache by hand", path)
        return _entry_of(path, url=None)
    if _is_unchanged(path, entry) and not verify:
        return entry
    now = _entry_of(path, url=entry.url)
    if now.sha256 != entry.sha256:
        raise ValueError(
            f"{path} has changed since {entry.date}: sha256 {now.sha256[:16]}… in {now.bytes:,} "
            f"bytes, recorded {entry.sha256[:16]}… in {entry.bytes:,}. Delete the file or pass "
            f"refresh=True to fetch it anew; if the change is meant, delete {path.parent / RECORD}."
        )
    return _Entry(now.sha256, now.bytes, now.modified_ns, entry.url, entry.date)


def _placed(path: Path, url: str, before: _Entry | None, model: Released) -> _Entry:
    """The entry of a file that has just arrived, after checking it and renaming it into place."""
    partial, _ = _partial(path)
    try:
        _check_format(partial, found=f"what came from {_shown(url)}")
        _check_published(partial, model)
    except (OSError, ValueError):
        _discard(path)
        raise
    os.replace(partial, path)
    _discard(path)
    entry = _entry_of(path, url=_shown(url))
    if before is not None and before.sha256 != entry.sha256:
        logger.warning("%s is another file than the one recorded on %s", path, before.date)
    return entry


def _entry_of(path: Path, *, url: str | None) -> _Entry:
    status = path.stat()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return _Entry(_digest(path, "sha256"), status.st_size, status.st_mtime_ns, url, date)


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _check_published(path: Path, model: Released) -> None:
    said = model.options_digest if path.name.startswith(OPTIONS) else model.weights_digest
    if said is None:
        return
    algorithm, _, digest = said.partition(":")
    if (found := _digest(path, algorithm)) != digest:
        raise ValueError(
            f'{path.name} is not the file published as "{model.name}": {algorithm} {found}, '
            f"published {digest}. Download it again, or from another address (url=…)."
        )


def _check_format(path: Path, *, found: str) -> None:
    """Refuse a login page, an error message or half a file before it passes for a model."""
    if path.name.startswith(OPTIONS):
        text = path.read_bytes()
        try:
            if isinstance(json.loads(text), dict):
                return
        except ValueError:
            pass
        raise ConnectionError(_not_the_file(found, text, "a JSON object (options.json)"))
    with path.open("rb") as file:
        _check_signature(file.read(64), found=found)
    import h5py

    try:
        h5py.File(path, "r").close()
    except OSError as error:
        raise ConnectionError(
            f"{found} is cut short or damaged: {_one_line(error)}. Fetch it again."
        ) from None


def _check_signature(head: bytes, *, found: str) -> None:
    if not head.startswith(HDF5_SIGNATURE):
        raise ConnectionError(_not_the_file(found, head, "HDF5"))


def _not_the_file(found: str, head: bytes, wanted: str) -> str:
    return (
        f"{found} is not {wanted}: it begins with {head[:24]!r}. If that is a web page, a login or "
        "a proxy may stand between: open the address in a browser, then try again."
    )


# ---- the download itself -------------------------------------------------------------------


class _Refused(Exception):
    """The answer is no, and asking again would not change it."""


class _Interrupted(Exception):
    """It failed in a way that may pass."""


def _download(urls: tuple[str, ...], path: Path, progress: Progress | None) -> str:
    """Bring the file into `path`'s partial file, complete; returns the address it came from."""
    partial, _ = _partial(path)
    failures = []
    for url in urls:
        logger.info("downloading %s", _shown(url))
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(BACKOFF_S * 2 ** (attempt - 1))
            try:
                _receive(url, path, progress)
                return url
            except _Refused as refusal:
                failures.append(f"{_shown(url)} ({refusal})")
                break
            except _Interrupted as interruption:
                logger.info("%s: %s, attempt %d", _shown(url), interruption, attempt + 1)
                reason = str(interruption)
        else:
            kept = partial.stat().st_size if partial.is_file() else 0
            part = f" The {kept:,} bytes received are kept; run again to go on." if kept else ""
            raise ConnectionError(
                f"could not download {_shown(url)} ({reason}, {ATTEMPTS} attempts).{part} "
                f"{_elsewhere(path)}"
            )
    raise ConnectionError(f"could not download {' or '.join(failures)}. {_elsewhere(path)}")


def _elsewhere(path: Path) -> str:
    return (
        f"To take it from elsewhere, pass url=… or set ELMO_MIRROR, or put {path.name} into "
        f"{path.parent} by hand."
    )


@dataclass(frozen=True)
class _Note:
    """What the server said of the file whose beginning is in `*.partial`."""

    url: str
    validator: str | None
    total: int | None


def _receive(url: str, path: Path, progress: Progress | None) -> None:
    """One attempt: ask for what is still missing of the file and append it as it comes."""
    partial, note_path = _partial(path)
    note = _read_note(note_path, url)
    start = partial.stat().st_size if note and partial.is_file() else 0
    headers = {"User-Agent": "elmo-torch", "Accept-Encoding": "identity"}
    if note and start:
        if start == note.total:
            return
        # If-Range: the rest if the file is still the same, otherwise all of it.
        headers |= {"Range": f"bytes={start}-", "If-Range": str(note.validator)}

    with _answer(urllib.request.Request(url, headers=headers), path) as response:
        now = _Note(_shown(url), _validator(response.headers), _length(response.headers))
        if response.status == http.client.PARTIAL_CONTENT:
            first, total = _content_range(response.headers)
            # Some leave out in the rest what they said at the beginning, and some ignore If-Range.
            now = _Note(now.url, now.validator or (note.validator if note else None), total)
            if first != start or now != note:
                _discard(path)
                raise _Interrupted("the file changed on the server")
        else:
            start = 0
        chunk = _read(response)
        if start == 0:
            if path.name == WEIGHTS and (len(chunk) >= 8 or len(chunk) == now.total):
                # Before anything is overwritten: what is there already may be most of the file.
                _check_signature(chunk, found=f"what came from {_shown(url)}")
            _write_beside(note_path, json.dumps(asdict(now)))
        _check_room(path, now.total, start)
        done = start
        with partial.open("ab" if start else "wb") as file:
            while chunk:
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, now.total)
                chunk = _read(response)
    if now.total is not None and done != now.total:
        raise _Interrupted(f"the connection ended at {done:,} of {now.total:,} bytes")


@contextlib.contextmanager
def _answer(request: urllib.request.Request, path: Path) -> Iterator[http.client.HTTPResponse]:
    """The open answer to a request; its failures sorted into those that may pass and the rest."""
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        reason = _one_line(f"HTTP {error.code} {error.reason}")
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            _discard(path)
            raise _Interrupted(reason) from None
        if error.code in (408, 425, 429) or error.code >= 500:
            raise _Interrupted(reason) from None
        raise _Refused(reason) from None
    except urllib.error.URLError as error:
        passing = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
        if isinstance(error.reason, passing):
            raise _Interrupted(_one_line(error.reason)) from None
        raise _Refused(_one_line(error.reason)) from None
    except http.client.InvalidURL as error:
        raise _Refused(_one_line(error)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_one_line(error)) from None
    with response:
        yield response


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_one_line(error)) from None


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _partial(path: Path) -> tuple[Path, Path]:
    """The half-arrived file, and what the server said of it."""
    return path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.partial.json")


def _discard(path: Path) -> None:
    for leftover in _partial(path):
        leftover.unlink(missing_ok=True)


def _read_note(path: Path, url: str) -> _Note | None:
    """What was said of the partial file; None if that file cannot be gone on with."""
    try:
        note = _Note(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return note if note.url == _shown(url) and note.validator else None


def _validator(headers: Message) -> str | None:
    """What tells one version of a file from another: a strong ETag, or else the date."""
    tag: str | None = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _length(headers: Message) -> int | None:
    length = headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _content_range(headers: Message) -> tuple[int | None, int | None]:
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range", ""))
    return (int(match[1]), int(match[2])) if match else (None, None)


def _check_room(path: Path, total: int | None, start: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if total is not None and total - start > free:
        raise OSError(
            f"{path.name} needs {total - start:,} more bytes, but {path.parent} has room for "
            f"{free:,}. Make room, or choose another cache folder with ELMO_CACHE."
        )


@contextlib.contextmanager
def _locked(folder: Path, *, to_write: bool) -> Iterator[None]:
    """Alone in the folder, among all processes. Waits for as long as another one downloads."""
    if not to_write and not os.access(folder, os.W_OK):
        yield  # nobody can write there, so there is nothing to wait for
        return
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.warning("waiting for another process that is at work in %s", folder)
            lock.acquire()
    except OSError as error:
        raise OSError(
            f"cannot write to the cache folder {folder}: {_one_line(error)}. Choose another with "
            "ELMO_CACHE."
        ) from None
    try:
        yield
    finally:
        lock.release()
