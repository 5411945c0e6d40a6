"""Draw pre-training runs side by side: held-out perplexity and training loss, by tokens and time.

    python benchmarks/curves.py RUN... --out curves.png [--names A B ...]

RUN is a folder with the `metrics.jsonl` of a run, or such a file. Held-out perplexity is of the
full softmax, by the mean of both directions' losses, on the sentences that are measured on the way;
what is printed is the end's, of the best model on all of them, where the log has it. Training loss
is of the softmax that the run trained with, so that runs with other negatives are not comparable by
it. The first tenth of the longest run is left out, where curves fall so steeply that nothing else
could be seen. Minutes are what the log says, or, where an older log does not, tokens by tokens per
second, which leaves evaluation out.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from elmo.plots import save_curves

STEPS = {"tokens": "million tokens read", "minutes": "minutes"}


def main() -> None:
    """Draw the runs that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--names", nargs="+", help="instead of the folders' names")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    names = arguments.names or [
        (run if run.is_dir() else run.parent).resolve().name for run in arguments.runs
    ]
    if len(set(names)) != len(arguments.runs):
        parser.error(f"{len(set(names))} different names for {len(arguments.runs)} runs")
    draw(dict(zip(names, arguments.runs, strict=True)), arguments.out)


def draw(folders: dict[str, Path], out: Path) -> None:
    """Read the logs, draw the picture, print how each run ended."""
    runs = {name: read_run(run) for name, run in folders.items()}
    heights = {
        "heldout": ("held-out perplexity (full softmax)", True),
        "train": ("training loss (nats, as trained)", False),
    }
    save_curves(
        out,
        [
            [
                {
                    "curves": late(
                        {name: (run[what][x], run[what]["y"]) for name, run in runs.items()}
                    ),
                    "xlabel": title,
                    "ylabel": ylabel,
                    "log": log,
                }
                for x, title in STEPS.items()
            ]
            for what, (ylabel, log) in heights.items()
            if any(run[what]["y"] for run in runs.values())
        ],
    )
    for name, run in runs.items():
        of = run["heldout"]
        ends = [*of["y"], *of["end"]]
        last = f"{ends[-1]:.1f}" if ends else "not measured"
        read = run["train"]
        print(f"{name}: {read['tokens'][-1]:.2f} M tokens, {read['minutes'][-1]:.1f} min, {last}")


def late(curves: dict[str, tuple[list[float], list[float]]]) -> dict[str, Any]:
    """Curves after the first tenth of the longest."""
    begin = max((x[-1] for x, _ in curves.values() if x), default=0.0) / 10
    return {
        name: ([a for a in x if a >= begin], [b for a, b in zip(x, y, strict=True) if a >= begin])
        for name, (x, y) in curves.items()
    }


def read_run(run: Path) -> dict[str, dict[str, list[float]]]:
    """Points of both curves of a log, and the perplexity at its end.

    A run that was continued from a checkpoint wrote some lines twice: the later ones count. A line
    that was cut off by an interruption is no line.
    """
    path = run / "metrics.jsonl" if run.is_dir() else run
    train: dict[int, dict[str, Any]] = {}
    heldout: dict[int, dict[str, Any]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        kind = train if "train/tokens_per_second" in line else heldout
        kind[line["step"]] = {**kind.get(line["step"], {}), **line}
    if not train:
        raise SystemExit(f"{path} has no line of training")
    steps = np.array(sorted(train))
    tokens = np.array([train[step]["train/tokens"] for step in steps]) / 1e6
    speed = np.array([train[step]["train/tokens_per_second"] for step in steps])
    minutes = np.cumsum(np.diff(tokens, prepend=0.0) * 1e6 / speed) / 60
    if all("train/minutes" in train[step] for step in steps):
        minutes = np.array([train[step]["train/minutes"] for step in steps])
    ends = {step: of for step, of in heldout.items() if "heldout/forward_perplexity_full" in of}
    final = [of for of in heldout.values() if "final/forward_perplexity_full" in of]
    # The end of an older log has no step: −1 stands after all.
    order = sorted(ends, key=lambda step: step if step >= 0 else math.inf)
    at = [step if step >= 0 else int(steps[-1]) for step in order]

    def both(line: dict[str, Any], name: tuple[str, str]) -> float:
        return math.sqrt(line[f"{name[0]}forward_{name[1]}"] * line[f"{name[0]}backward_{name[1]}"])

    loss = next(
        name.removeprefix("train/forward_")
        for name in train[int(steps[0])]
        if name.startswith("train/forward_")
    )
    return {
        "train": {
            "tokens": tokens.tolist(),
            "minutes": minutes.tolist(),
            "y": [math.log(both(train[step], ("train/", loss))) for step in steps.tolist()],
        },
        "heldout": {
            "tokens": np.interp(at, [0, *steps], [0, *tokens]).tolist(),
            "minutes": np.interp(at, [0, *steps], [0, *minutes]).tolist(),
            "y": [both(ends[step], ("heldout/", "perplexity_full")) for step in order],
            "end": [both(line, ("final/", "perplexity_full")) for line in final],
        },
    }


if __name__ == "__main__":
    main()
