"""`elmo probe similarity`: do cosines agree with what people say? And analogies."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console, shares_done

PAIRS, USES, ANALOGIES = "pairs", "uses", "analogies"


def similarity(
    files: Annotated[
        list[Path],
        Argument(help="Rated pairs of words, rated pairs of sentences, or questions-words.txt."),
    ],
    encoder: options.Encoder = options.DEFAULT_ENCODER,
    layers: options.Layers = "all",
    vocabulary: Annotated[
        Path | None,
        Option(help="Words among which answers are looked for, one per line: of any encoder."),
    ] = None,
    max_words: Annotated[int, Option(help="Of these, only the first so many.")] = 30_000,
    language: Annotated[
        str, Option(help="Whose rules split sentences into tokens (en, de, pt, xx …).")
    ] = "en",
    output: options.Output = None,
    picture: options.Picture = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    """Correlate cosines with ratings of people (Spearman), and answer analogies (3CosAdd).

    What a file holds is told by its first line: a header with sentence1 begins rated uses of words
    in sentences; a colon, analogies; anything else is two words and a rating. A word without a
    sentence is read as a sentence of its own. Nothing is drawn at random.

    For example: elmo probe similarity SIMLEX-999.tsv --encoder static:vectors.bin
    """
    from elmo.encoders import record
    from elmo.json_files import write_json
    from elmo.probes.layers import Layers, open_one

    options.check_outputs(output, picture)
    options.check_least(1, max_words=max_words)
    kinds = [_kind(options.existing(path)) for path in files]
    opened = open_one(encoder, device=device, offline=offline or None)
    chosen = Layers.read(layers, opened.n_layers)
    found: dict[str, list[dict[str, Any]]] = {}
    for path, kind in zip(files, kinds, strict=True):
        if kind == ANALOGIES:
            found[str(path)] = _analogies(opened, path, chosen, vocabulary, max_words)
        elif kind == USES:
            found[str(path)] = _uses(opened, path, chosen, language)
        else:
            found[str(path)] = _word_pairs(opened, path, chosen)
    if output is not None:
        values = {
            "what": "similarity (Spearman's correlation with ratings) and analogies (accuracy)",
            "encoder": asdict(record(opened)),
            "layers": chosen.names,
            "vocabulary": None if vocabulary is None else str(vocabulary),
            "max_words": max_words,
            "files": found,
        }
        write_json(output, values)
    if picture is not None:
        _draw(picture, files, kinds, found, chosen)
        console.print(f"Drew {picture}")


def _kind(path: Path) -> str:
    from elmo.text import read_lines

    first = next(read_lines(path), "")
    if first.startswith(":"):
        return ANALOGIES
    return USES if "sentence1" in first.split("\t") else PAIRS


def _word_pairs(encoder: Any, path: Path, layers: Any) -> list[dict[str, Any]]:
    from elmo.probes.similarity import read_rated_pairs, score_pairs

    pairs = read_rated_pairs(path)
    with shares_done() as show:
        scores = score_pairs(encoder, pairs, layers, progress=show)
    rows = [
        {"layer": name, "pairs": "all pairs", "n_pairs": of.n_pairs} | of.correlation._asdict()
        for name, of in zip(layers.names, scores, strict=True)
    ]
    _print(f"{path.name} by {encoder.name}: Spearman", rows)
    return rows


def _uses(encoder: Any, path: Path, layers: Any, language: str) -> list[dict[str, Any]]:
    from elmo.probes.contextual_similarity import read_rated_uses, score_rated_uses
    from elmo.text import Tokenizer

    pairs = read_rated_uses(path, Tokenizer(language))
    with shares_done() as show:
        scores = score_rated_uses(encoder, pairs, layers, progress=show)
    names = dict(zip(layers.chosen, layers.names, strict=True))
    rows = [
        {"layer": names[of.layer], "pairs": of.pairs, "n_pairs": of.correlation.n}
        | of.correlation._asdict()
        for of in scores
    ]
    _print(f"{path.name} by {encoder.name}: Spearman", rows)
    return rows


def _analogies(
    encoder: Any, path: Path, layers: Any, vocabulary: Path | None, max_words: int
) -> list[dict[str, Any]]:
    from rich.table import Table

    from elmo.probes.similarity import read_questions, score_analogies, vocabulary_of
    from elmo.text import read_lines

    questions = read_questions(path)
    if vocabulary is None:
        words = vocabulary_of(encoder, max_words)
    else:
        lines = read_lines(options.existing(vocabulary))
        words = [line.strip() for line in lines if line.strip()][:max_words]
    with shares_done() as show:
        scores = score_analogies(encoder, questions, words, layers, progress=show)
    title = f"{path.name} by {encoder.name}: answers among {len(words):,} words"
    table = Table(title=title, title_justify="left")
    table.add_column("section")
    for name in layers.names:
        table.add_column(name, justify="right")
    table.add_column("asked", justify="right")
    table.add_column("of", justify="right")
    for section in dict.fromkeys(of.section for of in scores):
        inside = [of for of in scores if of.section == section]
        told = ["–" if of.accuracy is None else f"{of.accuracy:.1f}" for of in inside]
        n_asked, n_questions = inside[0].n_asked, inside[0].n_questions
        table.add_row(section, *told, f"{n_asked:,}", f"{n_questions:,}")
    console.print(table)
    names = dict(zip(layers.chosen, layers.names, strict=True))
    return [asdict(of) | {"layer": names[of.layer], "accuracy": of.accuracy} for of in scores]


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in ("pairs", "layer", "ρ", "95 % interval", "n", "of"):
        table.add_column(
            name, justify="left" if name in ("pairs", "layer") else "right", no_wrap=name == "layer"
        )
    for row in rows:
        interval = row["interval"]
        table.add_row(
            row["pairs"],
            row["layer"],
            "–" if row["rho"] is None else f"{row['rho']:.3f}",
            "" if interval is None else f"{interval[0]:.3f} – {interval[1]:.3f}",
            f"{row['n']:,}",
            f"{row['n_pairs']:,}",
        )
    console.print(table)


def _draw(
    picture: Path,
    files: list[Path],
    kinds: list[str],
    found: dict[str, list[dict[str, Any]]],
    layers: Any,
) -> None:
    from elmo.plots import save_layer_curves

    numbers = dict(zip(layers.names, layers.chosen, strict=True))
    correlations: dict[str, dict[int | None, float | None]] = {}
    accuracies: dict[str, dict[int | None, float | None]] = {}
    stems = [path.stem for path in files]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in files]
    for path, name, kind in zip(files, names, kinds, strict=True):
        rows = found[str(path)]
        if kind == ANALOGIES:
            for section in ("semantic", "syntactic", "all"):
                inside = [row for row in rows if row["section"] == section]
                if inside:
                    curve = section if kinds.count(ANALOGIES) == 1 else f"{name}: {section}"
                    accuracies[curve] = {numbers[row["layer"]]: row["accuracy"] for row in inside}
        else:
            whole = [row for row in rows if row["pairs"] == "all pairs"]
            correlations[name] = {numbers[row["layer"]]: row["rho"] for row in whole}
    panels = []
    if correlations:
        panels.append({"curves": correlations, "ylabel": "Spearman's ρ with ratings"})
    if accuracies:
        panels.append({"curves": accuracies, "ylabel": "analogies (%)"})
    save_layer_curves(picture, panels)
