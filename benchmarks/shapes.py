"""Shapes and optimisers of the default model at equal small budgets: which learns fastest?

    python benchmarks/shapes.py recipes/pretrain/default.toml FOLDER [--minutes 10] [--set ...]

Each run is the recipe with another shape, optimiser and rate, on one thread for the same time,
measured on every eleventh held-out sentence. Time is what the processor spent on the run, so that
other work on the machine counts little; two run at once. The corpus is prepared once, and a few
steps of each shape fill the compiler's cache beforehand, so that no run pays for either. FOLDER
keeps the runs: one that was interrupted goes on, one that is complete is only read. Their curves
and ends are written to results/, and a picture of them beside.
"""

import argparse
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from circumstances import circumstances
from curves import draw

from elmo.json_files import write_json
from elmo.pretrain.prepare import prepare
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run_folder import SUMMARY_FILE
from elmo.pretrain.sources import find_sources
from elmo.text import read_lines

SHAPES = {"512/256": (512, 256), "768/256": (768, 256), "1024/384": (1024, 384)}
OPTIMISERS = {
    "AdamW": ["optimiser.name=adamw", "optimiser.learning_rate=4e-3"],
    "Adagrad": ["optimiser.name=adagrad", "optimiser.learning_rate=0.5"],
}
STRIDE = 11
RUN = """
import sys, time, types, torch
import elmo.training
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain
torch.set_num_threads(1)
elmo.training.time = types.SimpleNamespace(monotonic=time.process_time)
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
    common = [*arguments.set, *prepared(arguments)]
    runs = {
        f"{shape} {optimiser}": (shape, optimiser) for shape in SHAPES for optimiser in OPTIMISERS
    }
    folders = {name: arguments.folder / name.replace("/", "-").replace(" ", "-") for name in runs}
    waiting = {
        name: [*settings_of(*runs[name], folder, arguments.minutes), *common]
        for name, folder in folders.items()
        if not (folder / SUMMARY_FILE).exists()
    }
    make(arguments.recipe, warming(waiting, arguments.folder), arguments.together)
    make(arguments.recipe, waiting, arguments.together)
    ends = {name: ended(folder) for name, folder in folders.items()}
    time = f"{arguments.minutes:g} minutes of processor time on one thread each"
    result = {
        "what": f"held-out perplexity after {time}",
        "recipe": str(arguments.recipe),
        "settings": arguments.set,
        "seed": read_recipe(arguments.recipe, arguments.set).seed,
        "runs": ends,
        "circumstances": circumstances(1),
    }
    write_json(arguments.out, result)
    draw(folders, arguments.out.with_suffix(".png"))


def prepared(arguments: argparse.Namespace) -> list[str]:
    """Settings that name the corpus in numbers and the sentences to measure on; both are made."""
    heldout, folder = arguments.folder / "heldout.txt", arguments.folder / "corpus"
    recipe = read_recipe(arguments.recipe, arguments.set)
    if not recipe.corpus or not recipe.corpus.heldout:
        raise SystemExit(f"{arguments.recipe} names no text to learn from and to measure on")
    sentences = (
        line for source in find_sources(recipe.corpus.heldout) for line in read_lines(source.path)
    )
    arguments.folder.mkdir(parents=True, exist_ok=True)
    heldout.write_text("".join(f"{line}\n" for line in islice(sentences, 0, None, STRIDE)))
    settings = [f"corpus.heldout={json.dumps([str(heldout)])}", f"prepared={folder}"]
    print(f"preparing the corpus in {folder}", flush=True)
    corpus = read_recipe(arguments.recipe, [*arguments.set, *settings]).corpus
    assert corpus is not None
    prepare(corpus, folder, n_processes=2)
    return settings


def settings_of(shape: str, optimiser: str, folder: Path, minutes: float) -> list[str]:
    """What of the recipe is replaced."""
    hidden_dim, dim = SHAPES[shape]
    return [
        f"output={folder}",
        f"model.lstm.hidden_dim={hidden_dim}",
        f"model.lstm.dim={dim}",
        f"model.char_cnn.dim={dim}",
        *OPTIMISERS[optimiser],
        "optimiser.schedule=cosine",
        f"training.minutes={minutes}",
        "validation.every_tokens=200_000",
        "validation.n_sentences=500",
        "log.every_steps=20",
        "log.save_minutes=2",
        "log.tensorboard=false",
    ]


def warming(waiting: dict[str, list[str]], folder: Path) -> dict[str, list[str]]:
    """A few steps of each shape that has a run to make, in folders of their own."""
    first = {}
    for name, settings in waiting.items():
        first.setdefault(name.partition(" ")[0], settings)
    return {
        f"compiling {shape}": [
            *settings,
            f"output={folder / 'compiling' / shape.replace('/', '-')}",
            "training.minutes=0.2",
        ]
        for shape, settings in first.items()
    }


def make(recipe: Path, waiting: dict[str, list[str]], n_together: int) -> None:
    """Make the runs, so many at a time, in order."""
    left, running = dict(waiting), {}
    try:
        while left or running:
            while left and len(running) < n_together:
                name = next(iter(left))
                command = [sys.executable, "-c", RUN, str(recipe), *left.pop(name)]
                running[name] = subprocess.Popen(command)
                print(f"{name}: started", flush=True)
            done, process = next(iter(running.items()))
            if process.wait():
                raise SystemExit(f"{done}: failed with {process.returncode}")
            del running[done]
    finally:
        for process in running.values():
            process.terminate()


def ended(folder: Path) -> dict[str, Any]:
    """What a run came to, and its curve: minutes, tokens, held-out perplexity of each direction."""
    summary = json.loads((folder / SUMMARY_FILE).read_text())
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
