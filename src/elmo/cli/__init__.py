"""The command line: `elmo embed`, `elmo compare`, … Each sub-command is a file."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from elmo.cli import (
    adapt,
    compare,
    compare_encoders,
    convert,
    embed,
    evaluate,
    info,
    neighbors,
    perplexity,
    predict,
    prepare,
    pretrain,
    probe,
    score,
    senses,
    substitutes,
    train,
    train_static,
)
from elmo.cli.console import report_errors

app = typer.Typer(
    name="elmo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("embed")(embed.embed)
app.command("compare")(compare.compare)
app.command("convert")(convert.convert)
app.command("info")(info.info)
app.command("prepare")(prepare.prepare)
app.command("pretrain")(pretrain.pretrain)
app.command("adapt")(adapt.adapt)
app.command("perplexity")(perplexity.perplexity)
app.command("score")(score.score)
app.command("substitutes")(substitutes.substitutes)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("compare-encoders")(compare_encoders.compare_encoders)
app.command("train-static")(train_static.train_static)
app.add_typer(probe.app, name="probe")
app.command("neighbors")(neighbors.neighbors)
app.command("senses")(senses.senses)


@app.callback()
def elmo(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error came from (anywhere).")
    ] = False,
) -> None:
    """One contextual vector per word, by a biLM over characters (ELMo; Peters et al., 2018)."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; what it was given wrongly is one line on stderr and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        from importlib.metadata import version

        print(f"elmo-torch {version('elmo-torch')}")
        return
    options = given[: given.index("--")] if "--" in given else given
    traceback = "--traceback" in options
    if traceback:
        given.remove("--traceback")
    with report_errors(traceback=traceback):
        app(args=given, prog_name="elmo")
