"""A command run as a user types it."""

from elmo.cli import main


def run(*arguments):
    """The exit code."""
    try:
        main(arguments)
    except SystemExit as end:
        return end.code or 0
    return 0


def refused(capsys, *arguments):
    """What was said, in one line on stderr, with exit code 2."""
    assert run(*arguments) == 2
    out, said = capsys.readouterr()
    assert out == "" and said.startswith("error: ") and said.count("\n") == 1
    return said
