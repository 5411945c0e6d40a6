"""Models on the Hugging Face Hub: repositories with the files of our format."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from elmo.checkpoints.download import offline_because
from elmo.checkpoints.folder import (
    CONFIG_FILE,
    MIXES_FILE,
    MODEL_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
)

logger = logging.getLogger(__name__)

CARD_FILE = "README.md"
FILES = (CONFIG_FILE, MODEL_FILE, SOFTMAX_FILE, VOCABULARY_FILE, MIXES_FILE, CARD_FILE)
OFFICIAL_FILES = ("options.json", "*.hdf5")
CARD = """---
library_name: elmo-torch
pipeline_tag: feature-extraction
tags: [elmo, bilm, word-embeddings]
---

# {name}

A character-based bidirectional LSTM language model (ELMo; Peters et al., 2018): one contextual
vector per word.

```python
from elmo import Elmo

elmo = Elmo.from_pretrained("{name}")
vectors = elmo.encode_tokens(["We sat on the river bank."])
```
"""


def download_repository(
    repository: str,
    *,
    revision: str | None = None,
    cache_dir: Path | str | None = None,
    offline: bool | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """The folder with a repository's model, downloaded if it is not in the Hub's cache yet.

    Only files of a model are fetched: never code, never pickles.

    Args:
        repository: `owner/name`.
        revision: A branch, tag or commit; None for the main branch.
        cache_dir: Instead of the Hub's own cache folder.
        offline: Never use the network. Default: whether ELMO_OFFLINE or HF_HUB_OFFLINE says so.
        progress: Called with the bytes there so far and in all, of the files begun so far. The
            calls come from several threads, one at a time. None comes where all is in the cache, or
            the Hub's client (before 1.1) does not tell.

    Raises:
        FileNotFoundError: If the repository does not exist, holds no model, or is not in the cache
            while offline.
        ConnectionError: If the Hub cannot be reached.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    because = offline_because(offline)
    try:
        with _no_bars():
            found = snapshot_download(
                repository,
                revision=revision,
                cache_dir=cache_dir,
                endpoint=os.environ.get("HF_ENDPOINT"),
                local_files_only=because is not None,
                allow_patterns=[*FILES, *OFFICIAL_FILES],
                tqdm_class=_byte_counter(progress),
            )
        folder = Path(found)
    except (RepositoryNotFoundError, RevisionNotFoundError):
        what = f"{repository} at {revision}" if revision else repository
        raise FileNotFoundError(
            f"{what} is neither a folder here nor a repository on the Hub that may be read; for a "
            "private one, log in with `hf auth login`"
        ) from None
    except LocalEntryNotFoundError as error:
        if because is not None:
            raise _offline_error(repository, because) from None
        raise ConnectionError(f"could not download {repository}: {_line(error)}") from None
    except Exception as error:
        if not _is_of_network(error):
            raise
        raise ConnectionError(f"could not download {repository}: {_line(error)}") from None
    if not (_has(folder, CONFIG_FILE, MODEL_FILE) or _has(folder, "options.json", "*.hdf5")):
        if because is not None:  # the files that came before the connection broke
            raise _offline_error(repository, because)
        raise FileNotFoundError(
            f"{repository} on the Hub holds no ELMo model: neither {CONFIG_FILE} with {MODEL_FILE} "
            "nor options.json with an HDF5 file"
        )
    return folder


def upload_folder(
    folder: Path,
    repository: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    message: str | None = None,
) -> str:
    """Put a model's files into a repository on the Hub, which is made if it does not exist.

    Args:
        folder: In our format. Without a model card (`README.md`), a short one is uploaded.
        repository: `owner/name`, or `name` for one's own account.
        private: Whether a new repository is private; None for the account's default.
        token: Of the Hub; None for the one that `hf auth login` stored.
        message: Of the commit.

    Returns:
        The address of the commit.

    Raises:
        FileNotFoundError: If the folder holds no model of ours.
        ConnectionError: If the Hub cannot be reached or refuses.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    if not (folder / CONFIG_FILE).is_file():
        raise FileNotFoundError(f"{folder} holds no model in our format: no {CONFIG_FILE}")
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    try:
        name = api.create_repo(repository, private=private, exist_ok=True).repo_id
        operations = [
            CommitOperationAdd(file, folder / file) for file in FILES if (folder / file).is_file()
        ]
        if not (folder / CARD_FILE).is_file():
            card = CARD.format(name=name).encode()
            operations.append(CommitOperationAdd(CARD_FILE, card))
        with _no_bars():
            commit = api.create_commit(
                name, operations, commit_message=message or "Upload an ELMo model"
            )
    except Exception as error:
        if not _is_of_network(error):
            raise
        response = getattr(error, "response", None)
        refused = getattr(response, "status_code", None) in (401, 403)
        hint = " (is the token valid, and may it write there? see `hf auth login`)"
        raise ConnectionError(
            f"could not upload to {repository}{hint if refused else ''}: {_line(error)}"
        ) from None
    return commit.commit_url


def _byte_counter(progress: Callable[[int, int | None], None] | None) -> Any:
    """What the Hub's client takes for its bars: nothing is drawn, but `progress` called."""
    from huggingface_hub.utils.tqdm import tqdm

    lock = threading.Lock()

    class ByteCounter(tqdm):
        def __init__(self, *args: Any, **settings: Any) -> None:
            # There are bars of bytes and of files; that of bytes sent, which may be packed, of
            # bytes on disk, and in older clients one for both.
            name = str(settings.get("name"))
            self._counts = settings.get("unit") == "B" and not name.endswith(".transfer")
            super().__init__(*args, **{**settings, "disable": True})

        def update(self, n: int | float | None = 1) -> None:
            if self._counts and progress is not None:
                with lock:
                    self.n += n or 0
                    progress(int(self.n), int(self.total) if self.total else None)

    return ByteCounter


@contextmanager
def _no_bars() -> Iterator[None]:
    """Let the Hub's client draw nothing: only the command line draws."""
    from huggingface_hub import constants
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    # A user who set HF_HUB_DISABLE_PROGRESS_BARS has decided, and the client goes by it.
    if constants.HF_HUB_DISABLE_PROGRESS_BARS is not None or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _has(folder: Path, *patterns: str) -> bool:
    return all(any(folder.glob(pattern)) for pattern in patterns)


def _offline_error(repository: str, because: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"{repository} is neither a folder here nor whole in the Hub's cache, and {because} "
        "forbids the network"
    )


def _is_of_network(error: Exception) -> bool:
    """Whether the Hub's client failed to reach or to understand a server.

    Which library it asks with depends on its version, so their errors are told by their modules.
    """
    if isinstance(error, ValueError) and not isinstance(error, JSONDecodeError):
        return False  # a name that cannot be one
    modules = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    clients = {"httpx", "httpx2", "httpcore", "httpcore2", "requests", "huggingface_hub", "hf_xet"}
    return bool(modules & clients) or isinstance(error, ConnectionError | JSONDecodeError)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
