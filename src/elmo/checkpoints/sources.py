"""What a user calls a model → its files: a name, a folder of either format, or a Hub repository."""

import re
from collections.abc import Callable
from pathlib import Path

from elmo.checkpoints import hub
from elmo.checkpoints.download import fetch_released
from elmo.checkpoints.folder import CONFIG_FILE, Checkpoint, load_folder
from elmo.checkpoints.official import is_official, load_official_folder
from elmo.checkpoints.released import RELEASED
from elmo.config import suggest

DEFAULT_MODEL = "default"
DEFAULT_FOLDER = Path(__file__).parents[1] / "default_model"
"""The model that lies in the package."""


def load(
    source: str | Path = DEFAULT_MODEL,
    *,
    softmax: bool = False,
    url: str | tuple[str, str] | None = None,
    cache_dir: Path | str | None = None,
    offline: bool | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Checkpoint:
    """Read a model, whatever its format.

    Args:
        source: As for `locate`.
        softmax: Whether to read the softmax too, where it was kept.
        url: As for `locate`, like those that follow.

    Raises:
        FileNotFoundError: As for `locate`, and if a file that belongs to the model is missing.
        ValueError: As for `locate`, and if a file is damaged, contradicts another, or holds a NaN.
        OSError: As for `locate`.
    """
    folder = locate(source, url=url, cache_dir=cache_dir, offline=offline, progress=progress)
    if (folder / CONFIG_FILE).is_file():
        return load_folder(folder, softmax=softmax)
    return Checkpoint(load_official_folder(folder))


def locate(
    source: str | Path = DEFAULT_MODEL,
    *,
    url: str | tuple[str, str] | None = None,
    cache_dir: Path | str | None = None,
    offline: bool | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """The folder with a model's files, downloaded first where need be.

    Args:
        source: `default` (lies in the package), the name of a released model, a folder in our
            format, a folder with `options.json` and one HDF5 file, or a repository `owner/name` on
            the Hugging Face Hub. A folder of that name on this machine comes before a download.
        url: Where to download a released model from instead (see `fetch_released`).
        cache_dir: Where downloads are kept.
        offline: Never use the network.
        progress: Called with the bytes there so far and in all.

    Raises:
        ValueError: If there is no such name; the message lists the names.
        FileNotFoundError: If there is no such folder, or it holds no model; or offline, if the
            model is not in the cache.
        NotADirectoryError: If the source is a file.
        OSError: If a download fails.
    """
    if isinstance(source, str) and not source.strip():
        raise ValueError(f"the model is {source!r}: {_wanted()}")
    if source == DEFAULT_MODEL:
        return DEFAULT_FOLDER
    if source in RELEASED:
        return fetch_released(
            str(source), url=url, cache_dir=cache_dir, offline=offline, progress=progress
        )
    folder = Path(source).expanduser()
    if folder.is_dir():
        if (folder / CONFIG_FILE).is_file() or is_official(folder):
            return folder
        raise FileNotFoundError(
            f"{folder} holds no model: neither {CONFIG_FILE} nor options.json with one *.hdf5"
        )
    if folder.exists():
        raise NotADirectoryError(
            f"{folder} is a file, but a model is a folder; give the folder that the file is in"
        )
    if isinstance(source, str) and re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        return hub.download_repository(
            source, cache_dir=cache_dir, offline=offline, progress=progress
        )
    if isinstance(source, Path) or "/" in source or "\\" in source:
        raise FileNotFoundError(f"there is no folder {folder}: {_wanted()}")
    names = [DEFAULT_MODEL, *RELEASED]
    raise ValueError(f'no model is called "{source}".{suggest(source, names)} {_wanted()}')


def _wanted() -> str:
    names = ", ".join([DEFAULT_MODEL, *RELEASED])
    return f"give a folder, owner/name of a Hub repository, or one of the names {names}"
