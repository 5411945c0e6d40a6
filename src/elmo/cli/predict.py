"""`elmo predict`: a task model's answers for text or for a file in the task's format."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Option

from elmo.cli.console import console, counting
from elmo.cli.options import STDIN, STDOUT, Device, existing_or_stdin


def predict(
    model: Annotated[Path, Argument(help="Folder of a task model, or of a recipe's runs.")],
    input: Annotated[
        Path,
        Argument(help="A file in a format of the task, or text with --text; - is standard input."),
    ],
    output: Annotated[
        Path,
        Argument(help="Where to write, in the task's standard format; - is standard output."),
    ] = STDOUT,
    text: Annotated[
        bool, Option("--text", help="INPUT is plain text, laid out as the guide says of the task.")
    ] = False,
    tokenized: Annotated[
        bool, Option("--tokenized", help="The text's tokens stand between spaces already.")
    ] = False,
    language: Annotated[str, Option(help="Whose rules split text into tokens.")] = "en",
    format: Annotated[
        str | None,
        Option(help="How the name of standard input would end: conllu, tsv, jsonl, trees, …"),
    ] = None,
    encoder: Annotated[
        str | None, Option(help="Where the encoder lies now, if it was moved since training.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Answer for each example of INPUT, and write that to OUTPUT.

    For example: elmo predict runs/ner letter.txt entities.txt --text
    """
    from elmo.tasks.trained import Trained
    from elmo.text import WHITESPACE, Tokenizer, check_writable

    existing_or_stdin(input)
    if format is not None and input != STDIN:
        raise ValueError(f"--format is of standard input, but INPUT is {input}: name its file so")
    if output != STDOUT:
        check_writable(output)
    trained = Trained.load(model, encoder=encoder, device=device)
    task = trained.task
    with TemporaryDirectory() as folder:
        # Formats are recognised by a look at the beginning, so that a file is read twice.
        source = input
        if input == STDIN:
            ending = "" if format is None else f".{Path(format).name.lstrip('.')}"
            source = Path(folder) / f"standard input{ending}"
            source.write_bytes(sys.stdin.buffer.read())
        try:
            if text or tokenized:
                tokenizer = Tokenizer(WHITESPACE if tokenized else language)
                examples = task.read_text(source, tokenizer)
            else:
                examples = task.read(source, trained.settings, labelled=False)
        except ValueError as error:  # the folder is nobody's business
            raise ValueError(str(error).replace(f"{folder}/", "")) from None
        if not examples:
            raise ValueError(f"{input} holds nothing to answer: no line has a token")
        with counting("Answering", len(examples)) as advance:
            answers = trained.predict(examples, progress=advance)
        if output == STDOUT:
            written = Path(folder) / "stdout"
            task.write(written, examples, answers)
            sys.stdout.write(written.read_text(encoding="utf-8"))
            return
    task.write(output, examples, answers)
    console.print(f"Wrote answers for {len(examples):,} examples to {output}")
