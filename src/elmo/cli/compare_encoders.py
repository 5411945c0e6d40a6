"""`elmo compare-encoders`: does ELMo help, and is a transformer better?"""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from elmo.cli.console import console, messages
from elmo.seed_scores import mean_told


def compare_encoders(
    recipe: Annotated[Path, Argument(help="A TOML file, as for `elmo train`.")],
    encoders: Annotated[
        str, Option(help="With commas between: none,static:FILE,elmo,transformer:PATH.")
    ],
    output: Annotated[
        Path | None,
        Option(
            help="Folder of all runs; those that are done are read. Without it, the recipe's own "
            "output with -encoders after it."
        ),
    ] = None,
    set: Annotated[
        list[str] | None, Option("--set", help="key=value in place of the recipe's.")
    ] = None,
) -> None:
    """Train RECIPE with each encoder, and print and plot one table.

    For example: elmo compare-encoders recipes/ner/wikigold-cpu.toml --encoders none,elmo
    """
    from elmo.json_files import write_json
    from elmo.plots import save_scores
    from elmo.plots.figure import picture_path
    from elmo.tasks.comparison import compare_encoders as compare
    from elmo.tasks.recipe import read_task_recipe

    own = Path(read_task_recipe(recipe, set or ()).output)
    output = output or own.with_name(f"{own.name}-encoders")
    output.mkdir(parents=True, exist_ok=True)
    picture = picture_path(output / "comparison.png")  # before hours are spent
    metric, compared = compare(
        recipe,
        [encoder.strip() for encoder in encoders.split(",")],
        output,
        overrides=set or (),
        begun=lambda encoder: messages.print(f"{encoder}:"),
    )
    values = {"metric": metric, "encoders": [asdict(each) for each in compared]}
    write_json(output / "comparison.json", values)
    xlabel = f"{metric} on {compared[0].split} (%)"
    save_scores(picture, {xlabel: {each.encoder: each.scores for each in compared}})
    width = max(len(each.encoder) for each in compared)
    console.print(
        f"{'encoder':<{width}}  {metric + ' ' + compared[0].split:>16}  {'fewer errors':>12}  "
        f"{'parameters':>12}  {'time':>8}  {'memory':>8}"
    )
    for each in compared:
        console.print(
            f"{each.encoder:<{width}}  {mean_told(each.scores):>16}  "
            f"{each.error_reduction:>10.1f} %  {each.n_parameters:>12,}  "
            f"{timedelta(seconds=round(each.seconds))!s:>8}  "
            f"{each.peak_memory / 1e9:>5.1f} GB"
        )
    console.print(f"The picture is {picture}.")
