"""`elmo convert`: from the official format to ours, or from ours to the official one."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console


def convert(
    source: Annotated[str, Argument(help="A name, a folder, or owner/name on the Hub.")],
    target: Annotated[Path, Argument(help="The folder to write.")],
    to: Annotated[
        str | None, Option(help="ours | official; if not given, the one SOURCE is not in")
    ] = None,
    dtype: Annotated[str, Option(help="Of stored numbers: float32 | float16 (ours only)")] = (
        "float32"
    ),
    softmax_dtype: Annotated[
        str | None,
        Option(help="Of the softmax: float32 | float16 | int8; if not given, as the rest"),
    ] = None,
    url: options.Url = None,
    offline: options.Offline = False,
    force: Annotated[bool, Option("--force", help="Replace TARGET if it exists.")] = False,
) -> None:
    """Write the model SOURCE into the folder TARGET, in the other format.

    Ours: config.json and model.safetensors; official: options.json and weights.hdf5, which bilm-tf
    and AllenNLP read.

    For example: elmo convert original runs/original
    """
    from elmo.checkpoints.convert import convert as convert_model
    from elmo.cli.console import downloading

    with downloading() as progress:
        form = convert_model(
            source,
            target,
            to=to,
            dtype=dtype,
            softmax_dtype=softmax_dtype,
            url=url,
            offline=offline or None,
            force=force,
            progress=progress,
        )
    files = ", ".join(sorted(path.name for path in target.iterdir()))
    console.print(
        f"Wrote {target} in {'our' if form == 'ours' else 'the official'} format: {files}"
    )
