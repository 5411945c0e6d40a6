"""`elmo neighbors`: which usages in a text are like this one?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import INTERRUPTED, console, messages, shares_done

if TYPE_CHECKING:
    from elmo.compare import Place
    from elmo.encoders.static import StaticEncoder
    from elmo.plots.neighbours_table import Query
    from elmo.probes.neighbors import Neighbor
    from elmo.probes.usages import Layer

NO_VECTOR = "no vector for this word"
N_AROUND = 8
"""Tokens that are printed to either side of a usage; a page and a file have all."""


def neighbors(
    texts: Annotated[list[str], Argument(help="Sentences; [brackets] mark a word in each.")],
    index: Annotated[Path, Option(help="Folder of the index: built if it is missing, else read.")],
    corpus: Annotated[
        list[Path] | None, Option(help="Text to build it of, one sentence per line (repeatable).")
    ] = None,
    encoder: Annotated[
        str | None,
        Option(
            "--encoder",
            "-e",
            help="elmo | elmo:MODEL | static:FILE | transformer:NAME_OR_FOLDER; the index's, or "
            "else elmo.",
        ),
    ] = None,
    layers: options.Layers = "mean",
    n: Annotated[int, Option("--n", "-n", help="How many usages.")] = 10,
    same: Annotated[bool, Option("--same", help="Only usages of the marked word itself.")] = False,
    form: Annotated[list[str] | None, Option(help="Only usages of this word (repeatable).")] = None,
    static: Annotated[
        str | None, Option(help="static:FILE, whose nearest words are shown beside.")
    ] = None,
    tokenized: options.CorpusTokenized = False,
    language: options.Language = None,
    errors: options.Errors = "strict",
    rebuild: Annotated[
        bool, Option("--rebuild", help="Build the index anew, of CORPUS as it is now.")
    ] = False,
    output: options.Output = None,
    html: Annotated[Path | None, Option(help="Write the tables into this .html.")] = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    r"""Print the usages whose vectors are nearest to that of the marked word (table 4).

    Every token of CORPUS is indexed, at the layers that are asked for; further ones are added when
    they are. All of them are compared. A bracket of the text itself is written \[ or \].

    For example: elmo neighbors "Chico made a spectacular [play] on a grounder." --index news.index
    --corpus news.txt -n 5
    """
    from elmo.compare import marked_place
    from elmo.encoders import record
    from elmo.json_files import write_json
    from elmo.plots.html import page_path
    from elmo.probes.layers import Layers, open_one
    from elmo.probes.neighbors import check_n, query_vector, static_neighbors
    from elmo.probes.neighbors import neighbors as nearest
    from elmo.probes.usages import UsageIndex, build_index, built_with, complete_index
    from elmo.text import WHITESPACE, Tokenizer

    check_n(n)
    if same and form:
        raise ValueError("--same and --form were both given: leave one out")
    if rebuild and not corpus:
        raise ValueError("--rebuild needs the text: give it by --corpus")
    if tokenized and not corpus:
        raise ValueError("--tokenized tells of --corpus, which was not given")
    options.check_outputs(output, None)
    if html is not None:
        page_path(html)
    files = [options.existing(path) for path in corpus or []]
    of_text = WHITESPACE if tokenized else language or "en"
    there = None if files else UsageIndex.open(index)
    if there is not None:
        of_text = there.language
    of_query = language or ("en" if of_text == WHITESPACE else of_text)
    places = [marked_place(text, Tokenizer(of_query)) for text in texts]
    words = _static(static, offline)
    before = None if rebuild else built_with(index)
    opened = open_one(
        encoder or before or options.DEFAULT_ENCODER, device=device, offline=offline or None
    )
    layers_chosen = Layers.read(layers, opened.n_layers).chosen
    with shares_done() as show:
        try:
            if there is not None:
                built = complete_index(there, opened, layers=layers_chosen, progress=show)
            else:
                built = build_index(
                    files,
                    index,
                    opened,
                    layers=layers_chosen,
                    tokenizer=None if of_text == WHITESPACE else Tokenizer(of_text),
                    errors=errors,
                    rebuild=rebuild,
                    progress=show,
                )
        except KeyboardInterrupt:
            messages.print(f"interrupted; the same command goes on from there ({index})")
            raise typer.Exit(INTERRUPTED) from None
    answers = []
    for text, place in zip(texts, places, strict=True):
        word = place.tokens[place.position]
        found = {
            layer: nearest(
                built,
                query_vector(opened, place, layer),
                layer=layer,
                n=n,
                forms=[word] if same else form,
                but=place,
            )
            for layer in layers_chosen
        }
        beside: list[tuple[str, float]] = []
        if words is not None and words.encode_layers([[word]])[0].any():
            beside = static_neighbors(words, word, n=n)
        answers.append(_Answer(text, place, found, beside))
    for answer in answers:
        _print(answer, opened.name, static)
    if output is not None:
        values = {
            "encoder": asdict(record(opened)),
            "files": list(map(str, built.files)),
            "n_sentences": built.n_sentences,
            "n_tokens": built.n_tokens,
            "forms": "the marked word's" if same else form,
            "queries": list(map(_as_json, answers)),
        }
        write_json(output, values)
    if html is not None:
        _write_page(html, answers, opened.name, static)
        console.print(f"The page is {html}.")


class _Answer(NamedTuple):
    """What was found for one of the texts: usages by layer, and words by static vectors."""

    text: str
    place: "Place"
    usages: "Mapping[Layer, Sequence[Neighbor]]"
    words: Sequence[tuple[str, float]]


def _static(specification: str | None, offline: bool) -> "StaticEncoder | None":
    from elmo.encoders.static import StaticEncoder
    from elmo.probes.layers import open_one

    if specification is None:
        return None
    opened = open_one(specification, offline=offline or None)
    if not isinstance(opened, StaticEncoder):
        raise ValueError(f"--static is {specification}, but static:FILE is wanted")
    return opened


def _print(answer: _Answer, encoder: str, static: str | None) -> None:
    from rich.table import Table

    from elmo.probes.usages import name_of

    console.print(answer.text)
    if static is not None:
        words = ", ".join(word for word, _ in answer.words)
        console.print(f"{static}: {words or NO_VECTOR}")
    for layer, usages in answer.usages.items():
        table = Table(title=f"{encoder}, {name_of(layer)}", title_justify="left")
        table.add_column("cosine", justify="right")
        table.add_column("usage")
        for cosine, usage in usages:
            table.add_row(f"{cosine:.3f}", usage.marked(N_AROUND))
        console.print(table)


def _as_json(answer: _Answer) -> dict[str, Any]:
    from elmo.probes.usages import name_of

    return {
        "text": answer.text,
        **answer.place._asdict(),
        "static": [{"word": word, "cosine": cosine} for word, cosine in answer.words],
        "neighbors": {
            name_of(layer): [{"cosine": cosine, **usage._asdict()} for cosine, usage in usages]
            for layer, usages in answer.usages.items()
        },
    }


def _query(text: str) -> "Query":
    from elmo.compare import read_marked
    from elmo.plots.neighbours_table import Query

    clean, span = read_marked(text)
    start, end = span or (len(clean), len(clean))
    return Query(clean[:start], clean[start:end], clean[end:])


def _write_page(path: Path, answers: Sequence[_Answer], encoder: str, static: str | None) -> None:
    from elmo.plots.neighbours_table import Line, NeighbourRow, save_neighbours_table
    from elmo.probes.usages import name_of

    tables = {}
    for answer in answers:
        rows = []
        if static is not None:
            note = "" if answer.words else NO_VECTOR
            rows.append(NeighbourRow(static, answer.words, note=note))
        for layer, usages in answer.usages.items():
            lines = [Line(cosine, *usage.parts()) for cosine, usage in usages]
            rows.append(NeighbourRow(f"{encoder}, {name_of(layer)}", lines=lines))
        tables[_query(answer.text)] = rows
    save_neighbours_table(path, tables, title="Nearest neighbours in context")
