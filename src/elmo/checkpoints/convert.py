"""A model from one format to the other."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from elmo.checkpoints.folder import CONFIG_FILE, VOCABULARY_FILE, save_folder
from elmo.checkpoints.official import save_official
from elmo.checkpoints.sources import load, locate

FORMATS = ("ours", "official")
DTYPES = {"float32": torch.float32, "float16": torch.float16}
SOFTMAX_DTYPES = {**DTYPES, "int8": torch.int8}


def convert(
    source: str | Path,
    target: str | Path,
    *,
    to: str | None = None,
    dtype: str = "float32",
    softmax_dtype: str | None = None,
    url: str | tuple[str, str] | None = None,
    offline: bool | None = None,
    force: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> str:
    """Write the model `source` into the folder `target`; whole, or not at all.

    Args:
        source: As for `elmo.checkpoints.sources.locate`.
        target: A folder that does not exist yet, or is empty.
        to: `ours` or `official`; None for the one that the source is not in.
        dtype: Of stored numbers, in our format: `float32`, or `float16` for half the size.
        softmax_dtype: Of the softmax, where it is to be another one; `int8` is the shortest.
        url: As for `locate`, like `offline` and `progress`.
        force: Replace the target if it exists.

    Returns:
        The format written.

    Raises:
        ValueError: If a setting is none of its choices, source and target are the same, or the
            official format has no words for the model.
        FileExistsError: If the target exists and not `force`.
        FileNotFoundError: If the source, or the target's parent folder, does not exist.
    """
    target = Path(target)
    if to not in (None, *FORMATS):
        raise ValueError(f"to is {to!r}, but expected one of {', '.join(FORMATS)}")
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}, but expected one of {', '.join(DTYPES)}")
    if softmax_dtype not in (None, *SOFTMAX_DTYPES):
        raise ValueError(
            f"softmax_dtype is {softmax_dtype!r}, but expected one of {', '.join(SOFTMAX_DTYPES)}"
        )
    folder = locate(source, url=url, offline=offline, progress=progress)
    if target.exists() and folder.resolve() == target.resolve():
        raise ValueError(f"source and target are the same folder, {target}: choose another target")
    if target.is_file():
        raise NotADirectoryError(f"{target} is a file, but a folder is to be written")
    if target.is_dir() and any(target.iterdir()) and not force:
        raise FileExistsError(f"{target} exists; pass force=True (--force) to replace it")
    if not target.resolve().parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: the folder around it does not exist")
    ours = (folder / CONFIG_FILE).is_file()
    form = to or ("official" if ours else "ours")
    if form == "official" and dtype != "float32":
        raise ValueError("the official format holds float32; dtype is for ours")
    checkpoint = load(folder, softmax=True)
    beside = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        if form == "ours":
            save_folder(
                checkpoint,
                beside,
                dtype=DTYPES[dtype],
                softmax_dtype=SOFTMAX_DTYPES[softmax_dtype or dtype],
            )
        else:
            save_official(checkpoint.bilm, beside)
            if checkpoint.vocabulary is not None:
                checkpoint.vocabulary.write(beside / VOCABULARY_FILE)
        if target.exists():
            old = target.with_name(f"{target.name}.{os.getpid()}.old")
            os.replace(target, old)
            try:
                os.replace(beside, target)
            except BaseException:
                os.replace(old, target)
                raise
            shutil.rmtree(old)
        else:
            os.replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return form
