"""`elmo evaluate`: the official scores of a task model on labelled data."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from elmo.cli.console import console, counting
from elmo.cli.options import STDOUT, Device, existing


def evaluate(
    model: Annotated[Path, Argument(help="Folder of a task model, or of a recipe's runs.")],
    data: Annotated[list[Path], Argument(help="Labelled data in a format of the task.")],
    output: Annotated[
        Path | None, Option(help="Write predictions here, as the official scorer reads them.")
    ] = None,
    encoder: Annotated[
        str | None, Option(help="Where the encoder lies now, if it was moved since training.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the scores as JSON.")] = False,
    report: Annotated[
        bool, Option("--report", help="Print the table of conlleval or of scikit-learn.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Measure MODEL on DATA.

    For example: elmo evaluate runs/ner test.txt --output predictions.txt
    """
    from elmo.tasks.task import Reports, WritesByName
    from elmo.tasks.trained import Trained
    from elmo.text import check_writable

    if output == STDOUT:
        raise ValueError("--output -: scores go to standard output; give predictions a file")
    if report and as_json:
        raise ValueError("--report is a table for people, --json is not: give one of them")
    if output is not None:
        check_writable(output)
    trained = Trained.load(model, encoder=encoder, device=device)
    task = trained.task
    if report and not isinstance(task, Reports):
        raise ValueError(f"--report: {task.name} has no table but its scores: leave it out")
    examples = [each for path in data for each in task.read(existing(path), trained.settings)]
    if output is not None and isinstance(task, WritesByName):
        task.check_names(examples)
    trained.check(examples)
    with counting("Answering", len(examples)) as advance:
        answers = trained.predict(examples, progress=advance)
    if output is not None:
        task.write(output, examples, answers)
    if report and isinstance(task, Reports):
        console.print(task.report(examples, answers, trained.labels))
        return
    scores = task.score(examples, answers, trained.labels)
    if as_json:
        console.print(json.dumps(scores))
        return
    width = max(map(len, scores))
    for name, value in scores.items():
        console.print(f"{name:<{width}}  {value:6.2f}")
