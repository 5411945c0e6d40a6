"""`elmo probe wic`: does a word mean the same here as there?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from elmo.cli import options
from elmo.cli.console import console, shares_done


def wic(
    train: Annotated[
        Path, Option(help="Pairs to choose a threshold by, or uses to learn senses from.")
    ],
    test: Annotated[Path, Option(help="Of the same kind: what is asked.")],
    encoder: options.Encoder = options.DEFAULT_ENCODER,
    layers: options.Layers = "all",
    output: options.Output = None,
    picture: options.Picture = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    """Tell by cosine whether a word has the same sense in two sentences, or which one.

    Pairs as WiC has them (NAME.data.txt, and NAME.gold.txt beside it): two uses count as the same
    sense from a cosine on, which is chosen on TRAIN. Uses as CoarseWSD-20 has them (.jsonl, .gz):
    the sense of the nearest use in TRAIN, and that whose uses' mean is nearest. Nothing is drawn
    at random.

    For example: elmo probe wic --train train.data.txt --test dev.data.txt
    """
    from elmo.encoders import record
    from elmo.json_files import write_json
    from elmo.probes.layers import Layers, open_one
    from elmo.probes.word_in_context_data import DATA

    options.check_outputs(output, picture)
    pairs = [DATA in options.existing(path).name for path in (train, test)]
    if any(pairs) != all(pairs):
        raise ValueError(
            f"{train} and {test} are not of one kind: give pairs twice (NAME{DATA}), or uses"
        )
    opened = open_one(encoder, device=device, offline=offline or None)
    chosen = Layers.read(layers, opened.n_layers)
    probe = _pairs if all(pairs) else _senses
    rows = probe(opened, train, test, chosen, picture)
    if output is not None:
        values = {
            "what": "same sense or not (accuracy)" if all(pairs) else "sense in context (accuracy)",
            "encoder": asdict(record(opened)),
            "train": str(train),
            "test": str(test),
            "layers": chosen.names,
            "rows": rows,
        }
        write_json(output, values)
    if picture is not None:
        console.print(f"Drew {picture}")


def _pairs(
    encoder: Any, train: Path, test: Path, layers: Any, picture: Path | None
) -> list[dict[str, Any]]:
    from rich.table import Table

    from elmo.probes.word_in_context import NONE_SAME, score_pairs
    from elmo.probes.word_in_context_data import read_pairs

    tune, asked = read_pairs(train), read_pairs(test)
    with shares_done() as show:
        scores = score_pairs(encoder, tune, asked, layers, progress=show)
    n_same = sum(pair.same for pair in asked)
    frequent = 100 * max(n_same, len(asked) - n_same) / len(asked)
    title = f"same sense or not, by {encoder.name}: accuracy on {len(asked):,} pairs"
    table = Table(title=title, title_justify="left")
    for name in ("layer", "threshold", "train", "test", "95 % interval"):
        table.add_column(
            name, justify="left" if name == "layer" else "right", no_wrap=name == "layer"
        )
    for name, of in zip(layers.names, scores, strict=True):
        low, high = of.interval
        table.add_row(
            name,
            "none" if of.threshold == NONE_SAME else f"{of.threshold:.3f}",
            f"{of.tuned:.1f}",
            f"{of.accuracy:.1f}",
            f"{low:.1f} – {high:.1f}",
        )
    table.add_section()
    table.add_row("the same answer for all", "", "", f"{frequent:.1f}", "")
    console.print(table)
    if any(of.threshold == NONE_SAME for of in scores):
        console.print("none: no threshold is right more often than to call no pair the same.")
    if picture is not None:
        from elmo.plots import save_layer_curves

        curves = {encoder.name: {of.layer: of.accuracy for of in scores}}
        save_layer_curves(
            picture,
            [{"curves": curves, "ylabel": "accuracy (%)", "levels": {"one answer": frequent}}],
        )
    return [
        *(asdict(of) | {"layer": name} for name, of in zip(layers.names, scores, strict=True)),
        {"layer": None, "accuracy": frequent},
    ]


def _senses(
    encoder: Any, train: Path, test: Path, layers: Any, picture: Path | None
) -> list[dict[str, Any]]:
    from rich.table import Table

    from elmo.probes.word_in_context import MOST_FREQUENT, WAYS, score_senses
    from elmo.probes.word_in_context_data import read_sense_uses

    learnt, asked = read_sense_uses(train), read_sense_uses(test)
    n_words = len({use.word for use in asked})
    with shares_done() as show:
        scores = score_senses(encoder, learnt, asked, layers, progress=show)
    names = dict(zip(layers.chosen, layers.names, strict=True))
    title = f"senses of {n_words} words by {encoder.name}: {len(asked):,} uses"
    table = Table(title=title, title_justify="left")
    for name in ("layer", "by", "accuracy", "95 % interval", "mean of words", "macro F1"):
        table.add_column(
            name, justify="left" if name in ("layer", "by") else "right", no_wrap=name == "layer"
        )
    for of in scores:
        low, high = of.interval
        if of.way == MOST_FREQUENT:
            table.add_section()
        table.add_row(
            "" if of.way == MOST_FREQUENT else names[of.layer],
            of.way,
            f"{of.accuracy:.1f}",
            f"{low:.1f} – {high:.1f}",
            f"{of.of_words:.1f}",
            f"{of.macro_f1:.1f}",
        )
    console.print(table)
    if picture is not None:
        from elmo.plots import save_layer_curves

        curves = {way: {of.layer: of.accuracy for of in scores if of.way == way} for way in WAYS}
        levels = {MOST_FREQUENT: scores[-1].accuracy}
        save_layer_curves(
            picture,
            [{"curves": curves, "ylabel": "accuracy (%)", "levels": levels, "title": encoder.name}],
        )
    return [
        asdict(of) | {"layer": None if of.way == MOST_FREQUENT else names[of.layer]}
        for of in scores
    ]
