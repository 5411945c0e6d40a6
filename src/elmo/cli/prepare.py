"""`elmo prepare`: text of any size made ready for training."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from elmo.cli.console import INTERRUPTED, console, shares_done
from elmo.cli.options import n_cores


def prepare(
    files: Annotated[
        list[str],
        Argument(help="Files, folders, patterns: .txt .gz .xz .zst .parquet, saved datasets."),
    ],
    output: Annotated[Path, Option("--output", "-o", help="Folder to write.")],
    heldout: Annotated[
        list[str] | None, Option(help="Held-out text: likewise; give the option again for more.")
    ] = None,
    heldout_share: Annotated[
        float, Option(help="Share of the sentences that is held out instead, as 0.01.")
    ] = 0.0,
    heldout_seed: Annotated[int, Option(help="Which ones.")] = 1,
    exclude_heldout: Annotated[
        bool, Option("--exclude-heldout", help="Train on no sentence that --heldout has too.")
    ] = False,
    vocabulary: Annotated[str | None, Option(help="A vocabulary file; else it is built.")] = None,
    max_words: Annotated[int, Option(help="Size of a vocabulary that is built.")] = 50_000,
    min_count: Annotated[int, Option(help="Rarer words are not part of it.")] = 2,
    language: Annotated[
        str, Option(help="Of raw text: en, de, … xx; or whitespace: it is tokenized already.")
    ] = "whitespace",
    lines: Annotated[
        str, Option(help="What a line is: sentences | paragraphs | wrapped (until an empty line).")
    ] = "sentences",
    column: Annotated[str | None, Option(help="Of tables: where the text is.")] = None,
    repeat: Annotated[
        list[str] | None,
        Option(help="PATTERN=N: read files whose path matches N times; may be given again."),
    ] = None,
    deduplicate: Annotated[
        bool, Option("--deduplicate", help="Keep only the first of equal sentences.")
    ] = False,
    errors: Annotated[str, Option(help="Invalid UTF-8 and NUL: strict | replace.")] = "strict",
    max_chars: Annotated[int, Option(help="Characters per token that the biLM will read.")] = 50,
    processes: Annotated[
        int, Option(help="Processes; what is written does not depend on it. 0: one per core.")
    ] = 0,
) -> None:
    """Make the text of FILES ready for `elmo pretrain`: numbers, vocabulary, held-out part.

    For example: elmo prepare text/ --heldout-share 0.005 --output corpus
    """
    from elmo.pretrain.corpus_config import CorpusConfig
    from elmo.pretrain.prepare import prepare as run

    config = CorpusConfig(
        train=tuple(files),
        heldout=tuple(heldout or ()),
        heldout_share=heldout_share,
        heldout_seed=heldout_seed,
        exclude_heldout=exclude_heldout,
        vocabulary=vocabulary,
        max_words=max_words,
        min_count=min_count,
        language=language,
        lines=lines,
        column=column,
        repeat=tuple(map(_repeated, repeat or ())),
        deduplicate=deduplicate,
        errors=errors,
    )
    with shares_done() as show:
        try:
            counts = run(
                config,
                output,
                max_chars=max_chars,
                n_processes=processes or n_cores(),
                progress=lambda share, what: show("Preparing", share, what),
            ).counts
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    share = counts.n_unknown / counts.n_tokens
    console.print(
        f"{output}: {counts.n_tokens:,} tokens in {counts.n_sentences:,} sentences; a vocabulary "
        f"of {counts.n_words:,} words, {share:.1%} of tokens outside it"
    )
    if counts.n_heldout_sentences:
        share = counts.n_heldout_unknown / counts.n_heldout_tokens
        console.print(
            f"held out: {counts.n_heldout_tokens:,} tokens in {counts.n_heldout_sentences:,} "
            f"sentences, {share:.1%} of tokens outside the vocabulary"
        )
    if counts.n_duplicates or counts.n_excluded:
        console.print(
            f"left out: {counts.n_duplicates:,} duplicates, {counts.n_excluded:,} sentences that "
            "are held out"
        )


def _repeated(text: str) -> tuple[str, int]:
    """A value of `--repeat`."""
    pattern, _, times = text.rpartition("=")
    if not pattern or not times.isdecimal():
        raise ValueError(f'--repeat is {text}, but expected PATTERN=N, as "*/chats-*=4"')
    return pattern, int(times)
