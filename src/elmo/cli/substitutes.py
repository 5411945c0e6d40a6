"""`elmo substitutes`: which words could stand there?"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console


def substitutes(
    texts: Annotated[
        list[str] | None, Argument(help="Sentences; [brackets] mark a word in each.")
    ] = None,
    file: Annotated[
        Path | None, Option(help="Sentences, one per line, compressed or not; - for stdin.")
    ] = None,
    model: options.Model = options.DEFAULT_MODEL,
    n: Annotated[int, Option("--n", "-n", help="How many words.")] = 10,
    direction: Annotated[
        str, Option(help="Look: both (ways) | forward (at what is left) | backward")
    ] = "both",
    as_json: Annotated[bool, Option("--json", help="Print JSON, a line per sentence.")] = False,
    tokenized: options.Tokenized = False,
    language: options.Language = None,
    errors: options.Errors = "strict",
    device: options.Device = "auto",
    url: options.Url = None,
    offline: options.Offline = False,
) -> None:
    r"""Print the likeliest words for the marked place of each sentence, and their probabilities.

    The marked word itself is not read; where it ranks is said below. A bracket of the text itself
    is written \[. Empty lines of a file are passed over.

    For example: elmo substitutes "We sat on the river [bank]."
    """
    from elmo.compare import marked_place
    from elmo.predict.substitutes import as_json as facts
    from elmo.text import WHITESPACE, Tokenizer

    if bool(texts) == (file is not None):
        raise ValueError(
            "give sentences, or --file with one on each line: "
            + ("both were given" if texts else "neither was given")
        )
    if file is not None:
        options.existing_or_stdin(file)
    given: Iterable[tuple[str, str]] = [(f"sentence {i}", t) for i, t in enumerate(texts or [], 1)]
    if file is not None:
        numbered = enumerate(options.lines(file, errors), start=1)
        given = ((f"{file}, line {i}", line) for i, line in numbered if line.strip())
    elif len(texts or []) == 1:
        given = [("", text) for text in texts or []]
    predictor = options.load_predictor(
        model, device=device, language=language, url=url, offline=offline
    )
    tokenizer = Tokenizer(WHITESPACE) if tokenized else predictor.tokenizer

    def places():  # type: ignore[no-untyped-def]
        for where, text in given:
            try:
                yield marked_place(text, tokenizer)
            except ValueError as error:
                raise ValueError(f"{where}: {error}" if where else str(error)) from None

    for found in predictor.substitutes_stream(places(), n=n, direction=direction):
        if as_json:
            print(json.dumps(facts(found), ensure_ascii=False))
            continue
        before, after = found.tokens[: found.position], found.tokens[found.position + 1 :]
        console.print(" ".join([*before, f"[{found.word}]", *after]))
        for candidate in found.candidates:
            console.print(f"  {candidate.probability:.4f}  {candidate.word}")
        if found.rank is None:
            console.print(f"  {found.word} is not in the vocabulary, so it has no rank")
        else:
            console.print(f"  {found.word} has rank {found.rank:,} ({found.probability:.2g})")
