"""Shapes and optimisers of the default model at equal small budgets: which learns fastest?

    python benchmarks/shapes.py recipes/pretrain/default.toml FOLDER [--minutes 10] [--set ...]

Each run is the recipe with another shape, optimiser and rate, on one thread for the same time; two
run at once, on a core each (nothing else should). FOLDER keeps the runs: one that was interrupted
goes on, one that is complete is only read. Their curves and ends are written to results/.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from circumstances import circumstances, write_result

SHAPES = {"512/256": (512, 256), "768/256": (768, 256), "1024/384": (1024, 384)}
OPTIMISERS = {
    "AdamW": ["optimiser.name=adamw", "optimiser.learning_rate=4e-3", "optimiser.schedule=cosine"],
    "Adagrad": [
        "optimiser.name=adagrad",
        "optimiser.learning_rate=0.5",
        "optimiser.schedule=cosine",
    ],
}
RUN = """
import sys, torch
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain
torch.set_num_threads(1)
pretrain(read_recipe(sys.argv[1], sys.argv[2:]), resume=True)
"""


def main() -> None:
    """Make the runs, two at a time, and write what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--set", action="append", default=[], help="key=value for all runs")
    parser.add_argument("--together", type=int, default=2, help="runs at a time")
    parser.add_argument("--out", type=Path, default=Path("results/shapes.json"))
    arguments = parser.parse_args()
    waiting = {
        f"{shape} {optimiser}": settings_of(shape, optimiser, arguments)
        for shape in SHAPES
        for optimiser in OPTIMISERS
    }
    names = list(waiting)
    running: dict[str, subprocess.Popen[bytes]] = {}
    while waiting or running:
        while waiting and len(running) < arguments.together:
            name, settings = next(iter(waiting.items()))
            del waiting[name]
            command = [sys.executable, "-c", RUN, str(arguments.recipe), *settings]
            running[name] = subprocess.Popen(command)
            print(f"{name}: started", flush=True)
        done, process = next(iter(running.items()))
        if process.wait():
            raise SystemExit(f"{done}: failed with {process.returncode}")
        del running[done]
    runs = {name: ended(arguments.folder / folder_of(name)) for name in names}
    for name, run in runs.items():
        forward_lm, backward_lm = run["heldout"]
        print(f"{name}: {run['tokens']:,} tokens, held-out {forward_lm:.1f} / {backward_lm:.1f}")
    result = {
        "what": f"held-out perplexity after {arguments.minutes:g} minutes on one thread each",
        "recipe": str(arguments.recipe),
        "settings": arguments.set,
        "runs": runs,
        "circumstances": circumstances(1),
    }
    write_result(arguments.out, result)


def folder_of(name: str) -> str:
    """A run's name as that of a folder."""
    return name.replace("/", "-").replace(" ", "-")


def settings_of(shape: str, optimiser: str, arguments: argparse.Namespace) -> list[str]:
    """What of the recipe is replaced."""
    hidden_dim, dim = SHAPES[shape]
    return [
        f"output={arguments.folder / folder_of(f'{shape} {optimiser}')}",
        f"model.lstm.hidden_dim={hidden_dim}",
        f"model.lstm.dim={dim}",
        f"model.char_cnn.dim={dim}",
        *OPTIMISERS[optimiser],
        f"training.minutes={arguments.minutes}",
        "validation.every_tokens=200_000",
        "validation.n_sentences=500",
        "log.every_steps=20",
        "log.save_minutes=2",
        "log.tensorboard=false",
        *arguments.set,
    ]


def ended(folder: Path) -> dict[str, Any]:
    """What a run came to, and its curve: minutes, tokens, held-out perplexity of each direction."""
    summary = json.loads((folder / "pretraining.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    keys = ("train/minutes", "train/tokens")
    measured = [f"heldout/{direction}_perplexity_full" for direction in ("forward", "backward")]
    return {
        "tokens": summary["n_tokens"],
        "heldout": [summary["heldout"][lm] for lm in ("forward_lm", "backward_lm")],
        "curve": [
            [round(line[key], 3) for key in (*keys, *measured)]
            for line in lines
            if measured[0] in line
        ],
    }


if __name__ == "__main__":
    main()
