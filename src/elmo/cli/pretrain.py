"""`elmo pretrain`: a biLM of one's own text."""

import logging
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from elmo.cli.console import INTERRUPTED, console, messages, share_done


def pretrain(
    recipe: Annotated[Path, Argument(help="A TOML file, as recipes/pretrain/default.toml.")],
    set: Annotated[
        list[str] | None,
        Option("--set", help="key=value in place of the recipe's, as training.minutes=10."),
    ] = None,
    output: Annotated[Path | None, Option(help="Folder in place of the recipe's.")] = None,
) -> None:
    """Train a biLM as RECIPE says, and report its held-out perplexity.

    For example: elmo pretrain recipes/pretrain/default.toml --set training.minutes=10
    """
    from elmo.pretrain.recipe import read_recipe, with_output
    from elmo.pretrain.run import Progress
    from elmo.pretrain.run import pretrain as run

    settings = read_recipe(recipe, set or ())
    if output is not None:
        settings = with_output(settings, output)
    logging.getLogger("elmo").setLevel(logging.INFO)
    kind = "sampled softmax, no perplexity" if settings.training.n_negatives else "full softmax"
    with share_done("Training") as show:

        def report(now: Progress) -> None:
            text = (
                f"step {now.step:,}  {now.tokens_per_second:,.0f} tokens/s  exp(loss) forward "
                f"{now.forward_lm:.1f} backward {now.backward_lm:.1f} ({kind})"
            )
            show(now.share, text)
            if not messages.is_terminal:
                messages.print(f"{now.share:6.1%}  {text}")

        try:
            _, measured = run(settings, report=report)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    console.print(f"Wrote the model to {settings.output}")
    if measured is not None:
        console.print(
            f"held-out perplexity (full softmax): forward {measured.forward_lm:.2f}, backward "
            f"{measured.backward_lm:.2f}; {measured.n_tokens:,} predictions per direction, "
            f"{measured.n_unknown:,} of words outside the vocabulary"
        )
