"""`elmo probe linear`: what does a linear classifier read from each layer?"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from elmo.cli import options
from elmo.cli.console import console, messages, shares_done

if TYPE_CHECKING:
    from elmo.probes.linear import Accuracy, LayerProbe


def linear(
    train: Annotated[Path, Option(help="Labelled sentences: CoNLL-U (.conllu), or columns.")],
    dev: Annotated[Path, Option(help="Likewise; to choose the L2 penalty on.")],
    test: Annotated[Path, Option(help="Likewise; to measure on.")],
    encoder: options.Encoder = options.DEFAULT_ENCODER,
    column: Annotated[
        str | None,
        Option(
            help="Of the labels: upos (the default), xpos, deprel … of CoNLL-U; else a number from "
            "0, or from -1 backwards (the default)."
        ),
    ] = None,
    layers: options.Layers = "all",
    penalties: Annotated[
        str | None, Option(help="L2 penalties to choose from, with commas between.")
    ] = None,
    seed: Annotated[int, Option(help="Of the control task and of the intervals.")] = 0,
    output: options.Output = None,
    picture: options.Picture = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    """Learn the labels of TRAIN from the vectors of each layer, and test them (table 6).

    Beside the accuracy stands that of a control task, in which each word has a label drawn at
    random, and how much higher the first one is: the probe's selectivity.

    For example: elmo probe linear --train en-train.conllu --dev en-dev.conllu --test en-test.conllu
    """
    from elmo.encoders import record
    from elmo.json_files import write_json
    from elmo.probes.layers import Layers, open_one
    from elmo.probes.linear import (
        PENALTIES,
        Parts,
        most_frequent_labels,
        part_vectors,
        probe,
    )
    from elmo.tagged import read_tagged

    options.check_outputs(output, picture)
    choice = PENALTIES if penalties is None else _numbers(penalties)
    of = int(column) if column is not None and column.lstrip("-").isdecimal() else column
    parts = Parts(*(read_tagged(path, column=of) for path in (train, dev, test)))
    for name, unknown in parts.unknown().items():
        if unknown:
            messages.print(
                f"{unknown.total():,} words of the {name} part have labels that the training part "
                f"lacks ({', '.join(sorted(unknown)[:5])}): they count as wrong"
            )
    opened = open_one(encoder, device=device, offline=offline or None)
    chosen = Layers.read(layers, opened.n_layers)
    with shares_done() as show, part_vectors(opened, parts, chosen, progress=show) as vectors:
        probes = probe(
            vectors, parts, chosen, penalties=choice, seed=seed, device=device, progress=show
        )
    usual = most_frequent_labels(parts, seed=seed)
    name = column or "labels"
    _print(f"{name} by {opened.name}, accuracy in percent", probes, usual, choice)
    if output is not None:
        values = {
            "what": f"{name} by logistic regression (accuracy on test)",
            "encoder": asdict(record(opened)),
            "train": str(train),
            "dev": str(dev),
            "test": str(test),
            "column": column,
            "n_labels": len(parts.labels),
            "n_words": {part: sum(len(s.tokens) for s in of) for part, of in parts.named.items()},
            "n_unknown": {part: of.total() for part, of in parts.unknown().items()},
            "penalties": list(choice),
            "seed": seed,
            "most_frequent_label_of_the_word": asdict(usual),
            "layers": [asdict(each) | {"selectivity": each.selectivity} for each in probes],
        }
        write_json(output, values)
    if picture is not None:
        from elmo.plots import save_layer_curves

        numbers = dict(zip(chosen.names, chosen.chosen, strict=True))
        curves = {
            "test": {numbers[each.layer]: 100 * each.test.value for each in probes},
            "control task": {numbers[each.layer]: 100 * each.control for each in probes},
        }
        panel = {
            "curves": curves,
            "levels": {"most frequent label": 100 * usual.value},
            "ylabel": f"accuracy of {name} (%)",
        }
        save_layer_curves(picture, [panel])
        console.print(f"Drew {picture}")


def _print(
    title: str, probes: "list[LayerProbe]", usual: "Accuracy", choice: Sequence[float]
) -> None:
    from rich.table import Table

    # Fits into 80 columns.
    table = Table(title=title, title_justify="left")
    table.add_column("layer", no_wrap=True)
    for name in ("dev", "test", "95 % of texts", "control", "selectivity", "L2"):
        table.add_column(name, justify="right", no_wrap=name == "selectivity")
    table.add_row("most frequent", "", *_told(usual), "", "", "")
    for each in probes:
        shares = (f"{100 * share:.2f}" for share in (each.control, each.selectivity))
        table.add_row(
            each.layer, f"{100 * each.dev:.2f}", *_told(each.test), *shares, f"{each.penalty:g}"
        )
    console.print(table)
    edge = [each.layer for each in probes if each.penalty == min(choice) > 0]
    if edge and len(choice) > 1:
        console.print(f"the least L2 was best for {', '.join(edge)}: --penalties takes lesser ones")


def _told(accuracy: "Accuracy") -> tuple[str, str]:
    low, high = accuracy.bootstrap
    return f"{100 * accuracy.value:.2f}", f"{100 * low:.2f}–{100 * high:.2f}"


def _numbers(text: str) -> list[float]:
    from elmo.probes.linear import check_penalties

    try:
        numbers = [float(part) for part in text.split(",")]
        check_penalties(numbers)
    except ValueError:
        raise ValueError(
            f"--penalties is {text!r}, but expected numbers from 0 on with commas between"
        ) from None
    return numbers
