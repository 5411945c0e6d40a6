"""`elmo embed`: contextual vectors of a file of text."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import INTERRUPTED, console, counting, messages


def embed(
    input: Annotated[Path, Argument(help="UTF-8 text, one sentence per line (.gz and .xz too).")],
    output: Annotated[Path, Argument(help="Vectors: .hdf5 (as bilm-tf writes), .npz or .parquet.")],
    model: options.Model = options.DEFAULT_MODEL,
    layers: Annotated[str, Option(help="all | mix | the number of one layer")] = "all",
    tokenized: options.Tokenized = False,
    state: options.State = "zero",
    boundaries: Annotated[
        bool, Option("--boundaries", help="Keep the vectors of <S> and </S>.")
    ] = False,
    normalise: Annotated[
        bool, Option("--normalise", help="Scale each vector to length 1.")
    ] = False,
    language: options.Language = None,
    errors: Annotated[
        str, Option(help="Invalid UTF-8 and NUL: strict (refuse) | replace (by U+FFFD)")
    ] = "strict",
    batch_tokens: Annotated[int, Option(help="Tokens per pass, padding included.")] = 8192,
    device: options.Device = "auto",
    dtype: Annotated[str, Option(help="Of arithmetic: float32 | bfloat16 | …")] = "float32",
    url: options.Url = None,
    offline: options.Offline = False,
    force: Annotated[bool, Option("--force", help="Replace OUTPUT if it exists.")] = False,
    resume: Annotated[bool, Option("--resume", help="Go on with an interrupted run.")] = False,
) -> None:
    """Write one contextual vector per token of INPUT, at every layer, to OUTPUT.

    A line without tokens is kept, as a sentence without vectors.

    For example: elmo embed news.txt news.hdf5 --layers all
    """
    from elmo.text import count_lines

    wanted = options.layers_of(layers, "all", "mix")
    options.existing(input)
    elmo = options.load_elmo(
        model, device=device, dtype=dtype, language=language, url=url, offline=offline
    )
    try:
        with counting("Embedding", count_lines(input)) as progress:
            written = elmo.encode_file(
                input,
                output,
                layers=wanted,
                tokenized=tokenized,
                state=state,
                boundaries=boundaries,
                normalise=normalise,
                errors=errors,
                batch_tokens=batch_tokens,
                force=force,
                resume=resume,
                progress=progress,
            )
    except KeyboardInterrupt:
        messages.print(f"interrupted; to go on: the same command with --resume ({output}.partial)")
        raise typer.Exit(INTERRUPTED) from None
    n_layers = elmo.n_layers if wanted == "all" else 1
    empty = f" ({written.n_empty:,} empty)" if written.n_empty else ""
    console.print(
        f"Wrote {written.n_sentences:,} sentences{empty}, {written.n_tokens:,} tokens to {output} "
        f"({n_layers} × {elmo.dim} per token)"
    )
