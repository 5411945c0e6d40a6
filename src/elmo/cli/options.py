"""Options that several commands have."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="A name (see `elmo info`), a folder, or owner/name on the Hugging Face Hub.",
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        help="Whose rules split text into tokens (en, de, pt, xx …); the model's if not given."
    ),
]
Tokenized = Annotated[
    bool,
    typer.Option("--tokenized", help="Tokens are separated by white space already."),
]
CorpusTokenized = Annotated[
    bool,
    typer.Option("--tokenized", help="CORPUS has white space between tokens already."),
]
Errors = Annotated[str, typer.Option(help="Invalid UTF-8 and NUL: strict | replace")]
State = Annotated[
    str,
    typer.Option(
        help="Each sentence starts from: zero | carry (where the last one ended) | settled."
    ),
]
Device = Annotated[str, typer.Option(help="auto | cpu | cuda")]
Url = Annotated[
    str | None, typer.Option(help="Folder on a web server to download a released model from.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]
Encoder = Annotated[
    str,
    typer.Option(
        "--encoder",
        "-e",
        help="elmo | elmo:MODEL | static:FILE | transformer:NAME_OR_FOLDER",
    ),
]
Layers = Annotated[
    str,
    typer.Option(help="all (and their mean), or numbers and mean with commas between: 0,2,mean"),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write all numbers into this .json.")
]
Picture = Annotated[Path | None, typer.Option(help="Draw the table into this .png, .pdf …")]
DEFAULT_MODEL = "default"
DEFAULT_ENCODER = "elmo"
STDIN = STDOUT = Path("-")
DTYPES = ("float32", "bfloat16", "float16", "float64", "int8")


def load_elmo(
    model: str,
    *,
    device: str = "auto",
    dtype: str = "float32",
    language: str | None = None,
    url: str | None = None,
    offline: bool = False,
) -> Any:
    """The model that the options ask for, with a bar while it is downloaded."""
    import torch

    from elmo.cli.console import downloading
    from elmo.encode import Elmo

    if dtype not in DTYPES:
        raise ValueError(f"--dtype is {dtype}, but expected one of {', '.join(DTYPES)}")
    with downloading() as progress:
        return Elmo.from_pretrained(
            model,
            device=device,
            dtype=getattr(torch, dtype),
            language=language,
            url=url,
            offline=offline or None,
            progress=progress,
        )


def n_cores() -> int:
    """Processor cores that this process may use: fewer than there are in many a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def layers_of(text: str, *words: str) -> int | str:
    """The value of `--layers`: one of the words, or a number."""
    if text in words:
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"--layers is {text}, but expected {', '.join(words)} or the number of a layer"
        ) from None


def existing(path: Path) -> Path:
    """A file that has to be there."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a file is wanted")
    return path


def check_least(least: int, **given: int | None) -> None:
    """Refuse numbers that are too small, by the names of their options; None was not given.

    Raises:
        ValueError: If one is.
    """
    for name, value in given.items():
        if value is not None and value < least:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is {value}, but at least {least} is wanted")


def check_outputs(output: Path | None, picture: Path | None) -> None:
    """Refuse files that could not be written, before there is anything to write."""
    if output is not None:
        from elmo.text import check_writable

        check_writable(output)
    if picture is not None:
        from elmo.plots.figure import picture_path

        picture_path(picture)


def existing_or_stdin(path: Path) -> Path:
    """A file that has to be there, or `-`."""
    return path if path == STDIN else existing(path)


def lines(path: Path, errors: str) -> Iterator[str]:
    """Lines of a text file, or of standard input for `-`."""
    from elmo.text import read_lines

    return read_lines("/dev/stdin" if path == STDIN else path, errors)


def load_predictor(
    model: str,
    *,
    device: str = "auto",
    language: str | None = None,
    url: str | None = None,
    offline: bool = False,
) -> Any:
    """The model that the options ask for, with its softmax, with a bar while it is downloaded."""
    from elmo.cli.console import downloading
    from elmo.predict.word_predictor import WordPredictor

    with downloading() as progress:
        return WordPredictor.from_pretrained(
            model,
            device=device,
            language=language,
            url=url,
            offline=offline or None,
            progress=progress,
        )
