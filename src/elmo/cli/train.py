"""`elmo train`: a task model by a recipe, with honest scores over seeds."""

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from elmo.cli.console import INTERRUPTED, console, messages, shares_done
from elmo.seed_scores import mean_told

if TYPE_CHECKING:
    from elmo.tasks.fit import Progress
    from elmo.tasks.run import TaskResults


def train(
    recipe: Annotated[Path, Argument(help="A TOML file, as recipes/ner/wikigold-cpu.toml.")],
    set: Annotated[
        list[str] | None,
        Option("--set", help="key=value in place of the recipe's, as encoder=none."),
    ] = None,
    output: Annotated[Path | None, Option(help="Folder in place of the recipe's.")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Go on with the runs in the folder, if there are some.")
    ] = False,
) -> None:
    """Train a model per seed as RECIPE says, and report its scores.

    For example: elmo train recipes/ner/wikigold-cpu.toml --set encoder=none

    On several GPUs, or in several processes: torchrun --nproc-per-node 2 -m elmo train …
    """
    from elmo.recipe_file import quoted
    from elmo.tasks.recipe import read_task_recipe

    overrides = list(set or ())
    if output is not None:
        overrides.append(f"output={quoted(str(output))}")
    settings = read_task_recipe(recipe, overrides)

    from elmo.tasks.run import train_task

    if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
        logging.getLogger("elmo").setLevel(logging.INFO)
    with shares_done() as show:

        def report(now: "Progress") -> None:
            best = "" if now.best is None else f"  best on dev {now.best:.2f}"
            show(
                f"Seed {now.seed}",
                now.share,
                f"step {now.step:,}  {now.examples_per_second:,.0f} examples/s  "
                f"loss {now.loss:.3f}{best}",
                seconds_left=now.seconds_left,
            )

        try:
            results = train_task(
                settings,
                resume=resume,
                report=report,
                progress=lambda share, what: show("Encoding", share, what),
            )
        except KeyboardInterrupt:
            messages.print(f"interrupted; --resume goes on with what is in {settings.output}")
            raise typer.Exit(INTERRUPTED) from None
    if results.first_process:
        _tell(results, settings.output)


def _tell(results: "TaskResults", output: str) -> None:
    for seed, run in results.fitted.items():
        why = {"budget": "to the end of its budget", "patience": "until dev got no better"}
        console.print(
            f"Seed {seed}: {run.n_steps:,} steps in {timedelta(seconds=round(run.seconds))}, "
            f"{why[run.stopped]}; the best was step {run.best_step:,}."
        )
    for name, scores in (("dev", results.dev), ("test", results.test)):
        if scores:
            values = [of_seed[results.metric] for of_seed in scores.values()]
            each = ", ".join(f"{value:.2f}" for value in values)
            of = f" (mean and standard deviation of {len(values)} seeds: {each})"
            console.print(
                f"{name}: {results.metric} {mean_told(values)}{of if len(values) > 1 else ''}"
            )
    n = next(iter(results.fitted.values())).n_parameters
    console.print(
        f"{n:,} parameters learned; {results.seconds_encoding:.0f} s for the encoder; "
        f"{results.peak_memory / 1e9:.1f} GB of memory at most"
    )
    messages.print(f"The models are in {output}.")
