"""`elmo adapt`: a trained biLM goes on with the text of another domain."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from elmo.cli.pretrain import run


def adapt(
    model: Annotated[str, Argument(help="The model to go on from: a folder or a name.")],
    files: Annotated[list[str], Argument(help="Text of the domain: files, folders or patterns.")],
    output: Annotated[Path, Option(help="Folder of the adapted model.")],
    heldout: Annotated[
        list[str] | None,
        Option(help="Text to measure on (may be repeated); else a sentence in twenty is held out."),
    ] = None,
    vocabulary: Annotated[
        str | None,
        Option(
            help="Words to predict: keep | extend | replace; extend, unless the model predicts none"
        ),
    ] = None,
    language: Annotated[
        str | None, Option(help="Whose rules split raw text; without it white space does.")
    ] = None,
    set: Annotated[
        list[str] | None, Option("--set", help="key=value, as training.n_epochs=3.")
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
) -> None:
    """Go on training MODEL on FILES, and report the perplexity of held-out text before and after.

    A model without a softmax (official files) learns one first. Training stops when held-out text
    is predicted no better, and the best model is kept.

    For example: elmo adapt default notes/*.txt --output runs/clinical --language en
    """
    from elmo.pretrain.recipe import adaptation_recipe

    overrides = [*(set or ())]
    for key, value in (("start.vocabulary", vocabulary), ("corpus.language", language)):
        if value is not None:
            overrides.append(f"{key}={value}")
    recipe = adaptation_recipe(model, files, output, heldout=heldout or (), overrides=overrides)
    run(recipe, resume=resume)
