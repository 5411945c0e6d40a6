"""`elmo senses`: which senses does a word have in a text?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console, shares_done

if TYPE_CHECKING:
    from elmo.probes.senses import Senses

CONTEXT = 8.0
"""As `elmo.probes.found_usages.CONTEXT`."""
N_AROUND = 8
"""Tokens that are printed to either side of an example."""
FEW_POINTS = 3
"""Fewer usages are not drawn."""


def senses(
    word: Annotated[str, Argument(help="As it is written in the text; case does not count.")],
    corpus: Annotated[
        list[Path],
        Argument(help="Text, one sentence per line; or a folder that `elmo neighbors` made."),
    ],
    also: Annotated[
        list[str] | None, Option(help="Another form of the word: banks (repeatable).")
    ] = None,
    encoder: Annotated[
        str | None,
        Option(
            "--encoder",
            "-e",
            help="elmo (the default) | elmo:MODEL | static:FILE | transformer:NAME_OR_FOLDER",
        ),
    ] = None,
    layer: Annotated[
        str | None,
        Option(
            help="The number of one, or mean (of all).",
            show_default="the last; of an index, the last it has",
        ),
    ] = None,
    context: Annotated[
        float,
        Option(
            help="How fast words around it count less: tokens to where one counts e times less. 0: "
            "only the word itself."
        ),
    ] = CONTEXT,
    clusters: Annotated[
        int | None, Option(help="How many; without it the silhouette chooses.")
    ] = None,
    max_clusters: Annotated[int, Option(help="That may be chosen.")] = 8,
    max_usages: Annotated[int, Option(help="Of more, so many are drawn.")] = 500,
    examples: Annotated[int, Option(help="Lines per cluster.")] = 5,
    collocates: Annotated[int, Option(help="Words per cluster.")] = 8,
    seed: Annotated[int, Option(help="Of all that is drawn.")] = 0,
    tokenized: options.CorpusTokenized = False,
    language: options.Language = None,
    errors: options.Errors = "strict",
    html: Annotated[Path | None, Option(help="Write a page, all in one, into this .html.")] = None,
    picture: Annotated[Path | None, Option(help="Draw the usages into this .png, .pdf …")] = None,
    projection: Annotated[
        str, Option(help="How they are laid out in the plane: pca | tsne | umap")
    ] = "pca",
    output: options.Output = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    """Divide the usages of WORD in CORPUS into clusters, and say what is typical of each.

    For example: elmo senses bank news.txt --also banks --html bank.html
    """
    from elmo.json_files import write_json
    from elmo.plots.html import page_path, write_page
    from elmo.plots.projection import METHODS, project
    from elmo.probes.found_usages import usages_in_index, usages_in_text
    from elmo.probes.layers import open_one, unit
    from elmo.probes.senses import senses as divide
    from elmo.probes.senses_page import senses_page
    from elmo.probes.usages import UsageIndex, name_of
    from elmo.text import Tokenizer

    options.check_outputs(output, picture)
    options.check_least(1, examples=examples)
    options.check_least(0, collocates=collocates)
    if html is not None:
        page_path(html)
    if projection not in METHODS:
        raise ValueError(f"--projection is {projection}, but expected {', '.join(METHODS)}")
    forms = [word, *(also or [])]
    with shares_done() as show:
        if len(corpus) == 1 and corpus[0].is_dir():
            index = UsageIndex.open(corpus[0])
            if encoder is not None or tokenized or language is not None:
                raise ValueError(
                    f"{corpus[0]} is an index, with tokens and vectors of {index.encoder_name}: "
                    "leave out --encoder, --tokenized and --language, or give text"
                )
            name = index.encoder_name
            if layer is None:
                wanted = max((of for of in index.layers if of is not None), default=None)
            else:
                wanted = _layer(layer, index.n_layers)
            found = usages_in_index(
                index, forms, layer=wanted, context=context, max_usages=max_usages, seed=seed
            )
        else:
            for path in corpus:
                options.existing(path)
            opened = open_one(
                encoder or options.DEFAULT_ENCODER, device=device, offline=offline or None
            )
            name, wanted = opened.name, _layer(layer or "-1", opened.n_layers)
            found = usages_in_text(
                corpus,
                forms,
                opened,
                layer=wanted,
                tokenizer=None if tokenized else Tokenizer(language or "en"),
                errors=errors,
                context=context,
                max_usages=max_usages,
                seed=seed,
                progress=show,
            )
        divided = divide(
            forms,
            found,
            n_clusters=clusters,
            max_clusters=max_clusters,
            n_collocates=collocates,
            n_examples=examples,
            seed=seed,
            progress=show,
        )
    around = ", with the words around it" if context else ""
    source = f"{', '.join(path.name for path in corpus)}; {name}, {name_of(wanted)}{around}"
    _print(divided, source)
    on_page = html is not None and len(found.usages) >= FEW_POINTS
    if picture is not None or on_page:
        plane = project(unit(found.vectors), projection, seed=seed)
    if picture is not None:
        _draw(picture, divided, plane)
        console.print(f"The picture is {picture}.")
    if html is not None:
        points = plane.points if on_page else None
        write_page(html, senses_page(divided, points, source=source))
        console.print(f"The page is {html}.")
    if output is not None:
        about = {
            "word": word,
            "forms": forms,
            "files": [str(path) for path in corpus],
            "encoder": name,
            "layer": name_of(wanted),
            "context": context,
            "seed": seed,
        }
        values = {**about, **_as_json(divided)}
        write_json(output, values)


def _layer(text: str, n_layers: int) -> int | None:
    from elmo.probes.layers import Layers

    chosen = Layers.read(text, n_layers).chosen
    if len(chosen) != 1:
        raise ValueError(f"--layer is {text}, but one layer is wanted, or mean")
    return chosen[0]


def _print(senses: "Senses", source: str) -> None:
    from rich.table import Table

    from elmo.probes.senses import counted

    n, n_found = len(senses.usages), senses.found.n_found
    drawn = f"{n:,} of {n_found:,} usages" if n < n_found else counted(n)
    console.print(f"{senses.word}: {drawn} in {source}")
    if len(senses.clusters.silhouettes) > 1:
        table = Table(title="silhouette by number of clusters", title_justify="left")
        for k in senses.clusters.silhouettes:
            table.add_column(str(k), justify="right")
        table.add_row(*(f"{score:.3f}" for score in senses.clusters.silhouettes.values()))
        console.print(table)
    console.print(f"{senses.why()}.")
    for i, sense in enumerate(senses.senses, start=1):
        beside = ", ".join(of.word for of in sense.collocates)
        table = Table(
            title=f"cluster {i}: {counted(len(sense.usages))} ({len(sense.usages) / n:.0%})"
            + (f"; beside it: {beside}" if beside else ""),
            title_justify="left",
            show_header=False,
        )
        table.add_column(justify="right")
        table.add_column()
        table.add_column()
        for usage in sense.examples:
            table.add_row(*senses.usages[usage].parts(N_AROUND))
        console.print(table)


def _draw(path: Path, senses: "Senses", projection: Any) -> None:
    from elmo.plots.projection import save_projection

    names = []
    for i, sense in enumerate(senses.senses, start=1):
        beside = ", ".join(of.word for of in sense.collocates[:3])
        names.append(f"{i}: {beside}" if beside else str(i))
    labels = [""] * len(senses.usages)
    for sense in senses.senses:
        for usage in sense.examples[:3]:
            labels[usage] = senses.usages[usage].marked(2)
    # Cluster by cluster: colours are given in the order of appearance, as on the page.
    order = [usage for sense in senses.senses for usage in sense.usages]
    save_projection(
        path,
        [projection._replace(points=projection.points[order])],
        groups=[names[i] for i, sense in enumerate(senses.senses) for _ in sense.usages],
        labels=[labels[usage] for usage in order],
        titles=[senses.word],
    )


def _as_json(senses: "Senses") -> dict[str, Any]:
    return {
        "n_found": senses.found.n_found,
        "n_usages": len(senses.usages),
        "why": senses.why(),
        "silhouettes": senses.clusters.silhouettes,
        "silhouettes_by_chance": list(senses.clusters.by_chance),
        "clusters": [
            {
                "n_usages": len(sense.usages),
                "silhouette": sense.silhouette,
                "collocates": [of._asdict() for of in sense.collocates],
                "examples": list(sense.examples),
            }
            for sense in senses.senses
        ],
        "usages": [
            {"cluster": cluster, **usage._asdict()}
            for cluster, usage in zip(senses.clusters.labels.tolist(), senses.usages, strict=True)
        ],
    }
