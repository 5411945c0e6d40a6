"""`elmo probe`: what do the layers of an encoder know? Each probe is a file."""

import typer

from elmo.cli.probe import contextuality, linear, similarity, wic, wsd

app = typer.Typer(
    help="What do the layers of an encoder know? Each probe takes any encoder.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("wsd")(wsd.wsd)
app.command("linear")(linear.linear)
app.command("contextuality")(contextuality.contextuality)
app.command("wic")(wic.wic)
app.command("similarity")(similarity.similarity)
