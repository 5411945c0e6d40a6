"""`elmo compare`: how alike are the uses of a word, or sentences?"""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console


def compare(
    texts: Annotated[list[str], Argument(help="Two or more; [brackets] mark a word in each.")],
    model: options.Model = options.DEFAULT_MODEL,
    layers: Annotated[str, Option(help="mix | the number of one layer | all, one by one")] = "mix",
    state: options.State = "zero",
    plot: Annotated[Path | None, Option(help="Draw the heat map into this .png, .pdf …")] = None,
    language: options.Language = None,
    device: options.Device = "auto",
    url: options.Url = None,
    offline: options.Offline = False,
) -> None:
    r"""Print the cosine similarity of each pair of marked words, or of sentences without marks.

    A mark over several tokens stands for their mean; a bracket of the text itself is written \[.

    For example: elmo compare "We sat on the river [bank]." "The [bank] raised its rates."
    """
    from rich.table import Table

    from elmo.compare import closest, read_marked, similarity

    wanted = options.layers_of(layers, "mix", "all")
    marked = [read_marked(text) for text in texts]
    elmo = options.load_elmo(model, device=device, language=language, url=url, offline=offline)
    numbers = range(elmo.n_layers) if wanted == "all" else [wanted]
    matrices = {n: similarity(elmo, marked, layers=n, state=state) for n in numbers}
    for i, text in enumerate(texts, start=1):
        console.print(f"{i}  {text}")
    for layer, matrix in matrices.items():
        name = "mix of all layers" if layer == "mix" else f"layer {layer}"
        table = Table(title=f"cosine similarity, {name}", title_justify="left")
        table.add_column("")
        for i in range(len(texts)):
            table.add_column(str(i + 1), justify="right")
        for i, row in enumerate(matrix):
            table.add_row(str(i + 1), *(f"{cosine:.3f}" for cosine in row))
        console.print(table)
        for i, j in enumerate(closest(matrix)):
            console.print(f"{i + 1} is closest to {j + 1} ({matrix[i, j]:.3f})")
    if plot is not None:
        from elmo.plots import save_heat_maps

        titles = ["" if n == "mix" else f"layer {n}" for n in matrices]
        save_heat_maps(plot, list(matrices.values()), texts, titles)
        console.print(f"Drew {plot}")
