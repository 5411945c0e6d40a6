"""`elmo pretrain`: a biLM of one's own text."""

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from elmo.cli.console import INTERRUPTED, console, messages, shares_done
from elmo.cli.options import n_cores

if TYPE_CHECKING:
    from elmo.pretrain.recipe import PretrainRecipe
    from elmo.pretrain.report import Pretrained, Progress


def pretrain(
    recipe: Annotated[Path, Argument(help="A TOML file, as recipes/pretrain/laptop.toml.")],
    set: Annotated[
        list[str] | None,
        Option("--set", help="key=value in place of the recipe's, as training.minutes=10."),
    ] = None,
    output: Annotated[Path | None, Option(help="Folder in place of the recipe's.")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
) -> None:
    """Train a biLM as RECIPE says, and report its held-out perplexity.

    For example: elmo pretrain recipes/pretrain/default.toml --set training.minutes=10

    On several GPUs, or in several processes: torchrun --nproc-per-node 2 -m elmo pretrain …
    """
    from elmo.pretrain.recipe import read_recipe, with_output

    settings = read_recipe(recipe, set or ())
    run(settings if output is None else with_output(settings, output), resume=resume)


def run(recipe: "PretrainRecipe", *, resume: bool) -> None:
    """Train, showing how far it is, and say what was done."""
    from elmo.pretrain.run import pretrain as train

    if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
        logging.getLogger("elmo").setLevel(logging.INFO)
    with shares_done() as show:

        def report(now: "Progress") -> None:
            text = _line(now)
            show("Training", now.share, text, seconds_left=now.seconds_left)
            if not messages.is_terminal:
                left = timedelta(seconds=round(now.seconds_left))
                messages.print(f"{now.share:6.1%}  {left} left  {text}")

        try:
            made = train(
                recipe,
                resume=resume,
                n_processes=n_cores(),
                report=report,
                progress=lambda share, what: show("Preparing text", share, what),
            )
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    if made.first_process:
        _tell(made, recipe.output)


def _tell(made: "Pretrained", output: str) -> None:
    why = {
        "budget": "to the end of its budget",
        "patience": "until held-out text was predicted no better",
    }[made.stopped]
    console.print(
        f"Trained {made.n_steps:,} steps, {made.n_tokens:,} tokens per direction, in "
        f"{timedelta(seconds=round(made.seconds))}, {why}."
    )
    if made.best_step == 0 and made.before is None:
        console.print(
            f"No step was found to be the best by held-out text; {output} holds a model that was "
            f"saved on the way, the last is in {Path(output) / 'last'}."
        )
    elif made.best_step == 0:
        console.print(
            f"No step predicted held-out text better than the model it started from, which is in "
            f"{output}; the last is in {Path(output) / 'last'}."
        )
    elif made.best_step != made.n_steps:
        console.print(
            f"The best model was that of step {made.best_step:,}: it is the one in {output}; the "
            f"last is in {Path(output) / 'last'}."
        )
    else:
        console.print(f"The model is in {output}.")
    for when, measured in (("before", made.before), ("after", made.heldout)):
        if measured is not None:
            console.print(
                f"Held-out perplexity (full softmax){f' {when}' if made.before else ''}: forward "
                f"{measured.forward_lm:.2f}, backward {measured.backward_lm:.2f}; "
                f"{measured.n_tokens:,} predictions per direction, {measured.n_unknown:,} of words "
                "outside the vocabulary"
            )


def _line(now: "Progress") -> str:
    kind = "sampled softmax, no perplexity" if now.softmax == "sampled" else "full softmax"
    line = (
        f"step {now.step:,}  {now.tokens_per_second:,.0f} tokens/s  exp(loss) forward "
        f"{now.forward_lm:.1f} backward {now.backward_lm:.1f} ({kind})"
    )
    if now.heldout is not None:
        line += (
            f"  held-out perplexity forward {now.heldout.forward_lm:.1f} backward "
            f"{now.heldout.backward_lm:.1f} (full softmax)"
        )
    return line
