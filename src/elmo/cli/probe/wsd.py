"""`elmo probe wsd`: which layer tells the senses of a word apart?"""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from elmo.cli import options
from elmo.cli.console import console, shares_done

if TYPE_CHECKING:
    from elmo.probes.wsd import WsdAnswers
    from elmo.probes.wsd_score import WsdScore


def wsd(
    train: Annotated[
        Path, Option(help="Sentences with senses: XML of the unified evaluation framework.")
    ],
    test: Annotated[Path, Option(help="Sentences whose senses are asked for, likewise.")],
    encoder: options.Encoder = options.DEFAULT_ENCODER,
    train_keys: Annotated[
        Path | None, Option(help="Senses of TRAIN; by default the .gold.key.txt beside it.")
    ] = None,
    test_keys: Annotated[
        Path | None, Option(help="Senses of TEST; by default the .gold.key.txt beside it.")
    ] = None,
    unscored: Annotated[
        bool, Option("--unscored", help="TEST has no keys: only answer, into --keys.")
    ] = False,
    senses: Annotated[
        Path | None,
        Option(help="Lemma, part of speech, senses in order: the first is for unseen words."),
    ] = None,
    layers: options.Layers = "all",
    methods: Annotated[
        str, Option(help="mean | K-nn | linear | linear:L2, with commas between.")
    ] = "mean",
    keys: Annotated[
        Path | None, Option(help="Folder for the answers, a file for each line of the table.")
    ] = None,
    output: options.Output = None,
    picture: options.Picture = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    """Find the sense of each word of TEST by the uses of its lemma in TRAIN (table 5).

    With `mean`, the sense whose mean vector is nearest, as in the paper; with 10-nn, most of the
    ten nearest uses decide; with `linear`, a logistic regression for each lemma. Nothing is drawn
    at random.

    For example: elmo probe wsd --train semcor-train.data.xml.gz --test semcor-dev.data.xml.gz
    --senses senses.tsv.gz
    """
    from elmo.encoders import record
    from elmo.json_files import write_json
    from elmo.probes import wsd_data
    from elmo.probes.layers import Layers, open_one
    from elmo.probes.wsd import SenseCounts, disambiguate, read_methods
    from elmo.probes.wsd_score import score, score_by_pos

    options.check_outputs(output, picture)
    if unscored and (keys is None or test_keys or output or picture):
        raise ValueError(
            "--unscored goes with --keys, and with none of --test-keys, --output and --picture: "
            "without right senses there are no numbers"
        )
    ways = read_methods(methods)
    learnt = wsd_data.read_set(train, train_keys)
    asked = wsd_data.read_wsd(test) if unscored else wsd_data.read_set(test, test_keys)
    inventory = None if senses is None else wsd_data.read_inventory(senses)
    opened = open_one(encoder, device=device, offline=offline or None)
    chosen = Layers.read(layers, opened.n_layers)
    if keys is not None:
        keys.mkdir(parents=True, exist_ok=True)
    with shares_done() as show:
        found = disambiguate(
            opened, learnt, asked, layers=chosen, methods=ways, inventory=inventory, progress=show
        )
    if keys is not None:
        for answers in found:
            wsd_data.write_keys(
                keys / f"{re.sub('[,: ]+', '-', _name(answers))}.key.txt",
                answers.senses,
            )
        console.print(f"Wrote {len(found)} files of keys into {keys}")
    if unscored:
        return
    instances = wsd_data.instances_of(asked)
    groups = {"all": instances, **SenseCounts(learnt, inventory).groups(instances)}
    rows = [
        {name: score({i.id: i.senses for i in of}, answers.senses) for name, of in groups.items()}
        | score_by_pos(instances, answers.senses)
        for answers in found
    ]
    _print(f"word senses by {opened.name}", found, rows)
    if output is not None:
        values = {
            "what": "word senses (precision, recall and F1)",
            "encoder": asdict(record(opened)),
            "train": str(train),
            "test": str(test),
            "senses": None if senses is None else str(senses),
            "layers": chosen.names,
            "methods": [way.name for way in ways],
            "rows": [
                {"layer": answers.layer or None, "method": answers.method}
                | {name: _facts(of) for name, of in row.items()}
                for answers, row in zip(found, rows, strict=True)
            ],
        }
        write_json(output, values)
    if picture is not None:
        _draw(picture, found, rows, dict(zip(chosen.names, chosen.chosen, strict=True)))
        console.print(f"Drew {picture}")


def _print(title: str, found: "list[WsdAnswers]", rows: "list[dict[str, WsdScore]]") -> None:
    """Two tables, as one would not fit into 80 columns."""
    names = list(map(_name, found))
    columns = {name: [row[name].f1 for row in rows] for name in rows[0]}
    words = {name: f"{of.n_instances:,}" for name, of in rows[0].items()}
    first = {
        "precision": [row["all"].precision for row in rows],
        "recall": [row["all"].recall for row in rows],
        **{name: columns.pop(name) for name in ("all", "seen", "several")},
    }
    _table(f"{title}, F1 in percent", names, first, words)
    if columns:
        _table("F1 by part of speech", names, columns, words)


def _table(
    title: str, names: list[str], columns: dict[str, list[float]], words: dict[str, str]
) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("layer, method", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    for name, shares in zip(names, zip(*columns.values(), strict=True), strict=True):
        table.add_row(name, *(f"{100 * share:.1f}" for share in shares))
    table.add_section()
    table.add_row("words", *(words.get(column, "") for column in columns))
    console.print(table)


def _draw(
    picture: Path,
    found: "list[WsdAnswers]",
    rows: "list[dict[str, WsdScore]]",
    numbers: dict[str, int | None],
) -> None:
    from elmo.plots import save_layer_curves

    curves: dict[str, dict[int | None, float | None]] = {}
    levels = {}
    for answers, row in zip(found, rows, strict=True):
        if answers.layer:
            curves.setdefault(answers.method, {})[numbers[answers.layer]] = 100 * row["all"].f1
        else:
            levels[answers.method] = 100 * row["all"].f1
    panel = {"curves": curves, "levels": levels, "ylabel": "F1 of word senses (%)"}
    save_layer_curves(picture, [panel])


def _facts(of: "WsdScore") -> dict[str, float | int]:
    return asdict(of) | {"precision": of.precision, "recall": of.recall, "f1": of.f1}


def _name(answers: "WsdAnswers") -> str:
    return f"{answers.layer}, {answers.method}" if answers.layer else answers.method
