"""`elmo train-static`: Word2Vec or FastText of one's own text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from elmo.cli.console import INTERRUPTED, console, shares_done


def train_static(
    text: Annotated[
        list[str],
        Argument(
            help="A folder that `elmo prepare` made; or files, folders, patterns: a sentence per "
            "line, tokens between white space."
        ),
    ],
    output: Annotated[
        Path, Option("--output", "-o", help="Vectors: .bin, or .txt (skip-gram and cbow).")
    ],
    method: Annotated[str, Option(help="skip-gram | cbow | fasttext")] = "skip-gram",
    dim: Annotated[int, Option(help="Width of a vector.")] = 300,
    window: Annotated[int, Option(help="Words to either side.")] = 5,
    min_count: Annotated[int, Option(help="Rarer words get no vector.")] = 5,
    max_words: Annotated[int | None, Option(help="Only so many words, the most frequent.")] = None,
    epochs: Annotated[int, Option(help="Passes over the text.")] = 5,
    negatives: Annotated[int, Option(help="Wrong answers per right one.")] = 5,
    subsample: Annotated[float, Option(help="Leave out words of a larger share.")] = 1e-3,
    learning_rate: Annotated[float, Option(help="At the beginning.")] = 0.025,
    buckets: Annotated[int, Option(help="That FastText's n-grams share.")] = 200_000,
    seed: Annotated[int, Option(help="Of all that is drawn.")] = 1,
    threads: Annotated[
        int, Option(help="With 1, the same text and seed give the same file; more are faster.")
    ] = 1,
    force: Annotated[bool, Option("--force", help="Replace OUTPUT if it exists.")] = False,
) -> None:
    """Learn one vector per word from TEXT, to compare with: `static:OUTPUT` names them.

    For example: elmo train-static corpus --output vectors.bin --min-count 2
    """
    from elmo.encoders.static_training import StaticTrainingConfig
    from elmo.encoders.static_training import train_static as train

    config = StaticTrainingConfig(
        method=method,
        dim=dim,
        window=window,
        min_count=min_count,
        max_words=max_words,
        n_epochs=epochs,
        n_negatives=negatives,
        subsample=subsample,
        learning_rate=learning_rate,
        n_buckets=buckets,
        seed=seed,
        n_threads=threads,
    )
    with shares_done() as show:
        try:
            made = train(
                _sentences(text), output, config, force=force, progress=partial(show, "Training")
            )
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    console.print(
        f"{output}: {made.n_words:,} words × {dim}, from {made.n_tokens:,} tokens in "
        f"{made.n_sentences:,} sentences, {made.n_covered / made.n_tokens:.1%} of which these are; "
        f"{made.seconds:,.0f} s"
    )


class _Again(Iterable[Sequence[str]]):
    """Sentences that can be read any number of times."""

    def __init__(self, begin: Callable[[], Iterator[Sequence[str]]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[Sequence[str]]:
        return self._begin()


def _sentences(text: Sequence[str]) -> Iterable[Sequence[str]]:
    from elmo.pretrain.corpus import read_sentences
    from elmo.pretrain.prepare import RECORD, open_prepared
    from elmo.pretrain.sources import TEXT, find_sources

    prepared = [path for path in text if (Path(path) / RECORD).exists()]
    if prepared:
        if len(text) > 1:
            raise ValueError(
                f"{prepared[0]} was made by `elmo prepare`: give it alone, or files of text"
            )
        return _Again(open_prepared(prepared[0]).train.texts)
    sources = find_sources(text)
    for source in sources:
        if source.kind != TEXT:
            raise ValueError(
                f"{source.path} is a table: make it ready with `elmo prepare`, and give its folder"
            )
    files = [source.path for source in sources]
    return _Again(lambda: read_sentences(files))
