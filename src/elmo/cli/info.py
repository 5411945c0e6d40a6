"""`elmo info`: what is in a model, and which models there are."""

import json
from typing import Annotated

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console


def info(
    model: Annotated[
        str | None, Argument(help="A name, a folder, or owner/name; without it all names.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    url: options.Url = None,
    offline: options.Offline = False,
) -> None:
    """Say what is in MODEL: sizes, parameters, layers, vocabulary, memory.

    For example: elmo info default
    """
    from rich.table import Table

    if model is None:
        from elmo.checkpoints.released import RELEASED

        names = {
            "default": "English, trained by us from openly licensed text; lies in the package",
            **{name: released.description for name, released in RELEASED.items()},
        }
        if as_json:
            console.print(json.dumps(names, indent=2, ensure_ascii=False))
            return
        table = Table(box=None, show_header=False)
        for name, description in names.items():
            table.add_row(name, description)
        console.print(table)
        return
    from elmo.checkpoints.describe import describe
    from elmo.cli.console import downloading

    with downloading() as progress:
        facts = describe(model, url=url, offline=offline or None, progress=progress)
    if as_json:
        console.print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, show_header=False)
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        table.add_row(name.replace("_", " "), str(shown))
    console.print(table)
