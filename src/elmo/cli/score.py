"""`elmo score`: how surprising is every token of a text?"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console, counting

if TYPE_CHECKING:
    from elmo.predict.score import SentenceScore


def score(
    input: Annotated[
        Path, Argument(help="Text, one sentence per line, compressed or not; - for stdin.")
    ],
    output: Annotated[
        Path | None, Argument(help="Scores: .tsv, .jsonl or .parquet; stdout if not given.")
    ] = None,
    model: options.Model = options.DEFAULT_MODEL,
    unit: Annotated[str, Option(help="Of surprisal, −log p: bits | nats")] = "bits",
    rows: Annotated[str, Option(help="A row is for each of the: tokens | sentences")] = "tokens",
    as_json: Annotated[
        bool, Option("--json", help="To stdout: JSON lines, with tokens and sentences.")
    ] = False,
    ends: Annotated[
        bool, Option("--ends", help="Rows for <S> and </S> too; sentences count them anyway.")
    ] = False,
    one_by_one: Annotated[
        bool, Option("--no-combined", help="Each direction alone: half the time.")
    ] = False,
    tokenized: options.Tokenized = False,
    language: options.Language = None,
    state: Annotated[str, Option(help="Each sentence starts from: zero | carry")] = "zero",
    errors: options.Errors = "strict",
    batch_tokens: Annotated[int, Option(help="Tokens per pass, padding included.")] = 4096,
    device: options.Device = "auto",
    url: options.Url = None,
    offline: options.Offline = False,
    force: Annotated[bool, Option("--force", help="Replace OUTPUT if it exists.")] = False,
) -> None:
    """Print how surprising each token of INPUT is, by each direction and by both together.

    Surprisal is −log p: forward, given what stands left of the token; backward, given what stands
    right; combined, given both. Tokens that are not known count as <UNK>.

    For example: elmo score news.txt scores.tsv
    """
    from elmo.predict import score_file
    from elmo.text import WHITESPACE, Tokenizer

    options.existing_or_stdin(input)
    score_file.check_rows(rows)
    predictor = options.load_predictor(
        model, device=device, language=language, url=url, offline=offline
    )
    tokenizer = Tokenizer(WHITESPACE) if tokenized else predictor.tokenizer

    def scores(progress: Callable[[int], object] | None = None) -> Iterator["SentenceScore"]:
        return predictor.score_stream(
            ([token.text for token in tokenizer(line)] for line in options.lines(input, errors)),
            unit=unit,
            both=not one_by_one,
            state=state,
            batch_tokens=batch_tokens,
            progress=progress,
        )

    if output is not None:
        with counting("Scoring", None) as progress:
            written = score_file.write_scores(
                scores(progress), output, rows=rows, ends=ends, force=force
            )
        console.print(
            f"Wrote {written.n_sentences:,} sentences, {written.n_tokens:,} tokens "
            f"({written.n_unknown:,} outside the vocabulary) to {output}, in {unit}"
        )
    elif as_json:
        score_file.write_json_lines(scores(), sys.stdout.write)
    else:
        score_file.write_tsv(scores(), sys.stdout.write, rows, ends)
