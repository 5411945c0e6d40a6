"""What runs of tasks came to, kept in one file: those of several days and machines make one table.

A run is known by its recipe's file and by what was set in place of the recipe's own; it counts for
as long as a recipe says the same, but for what changes no result (`NOT_OF_RESULTS`).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from circumstances import circumstances

from elmo.config import config_to_dict, read_json_object
from elmo.json_files import read_json_lines, write_json
from elmo.tasks.comparison import results_of
from elmo.tasks.identity import NOT_OF_RESULTS
from elmo.tasks.recipe import TaskRecipe, read_task_recipe
from elmo.tasks.run import RESULTS_FILE

Run = dict[str, Any]
"""`recipe`, `metric`, `dev` and `test` (of each seed the metric in percent; `test` may be None),
`seconds`, `layer_weights` and `curves` (steps, and the metric on dev after each) of each seed, and
the `circumstances`."""


class Runs:
    """Those of a file, and of a folder where more are made.

    Args:
        path: A JSON file; it is written anew whenever a run was made.
        folder: Of the runs: `NAME/PLACE/results.json` each.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        runs = read_json_object(path)["runs"] if path.exists() else {}
        self.kept: dict[str, dict[str, Run]] = runs

    def run(
        self,
        name: str,
        recipe: str,
        settings: Sequence[str],
        *,
        make: bool,
        begun: Callable[[], object] | None = None,
    ) -> Run | None:
        """What a recipe with these settings came to.

        Args:
            name: Folder of its task.
            recipe: A TOML file.
            settings: `key=value`; the encoder and those that change a result tell runs apart.
            make: Make what is neither in the file nor in the folder; otherwise that is None.
            begun: Called if there is anything to make.
        """
        asked = read_task_recipe(recipe, settings)
        wanted, own = _comparable(asked), _comparable(read_task_recipe(recipe))
        changed = [
            setting
            for setting in settings
            if setting.startswith("encoder=")
            or _comparable(read_task_recipe(recipe, [setting])) != own
        ]
        place = _place(changed)
        kept = self.kept.get(Path(recipe).stem, {}).get(place)
        if kept is not None and kept["recipe"] != wanted:
            kept = None
        output = self.folder / name / place
        made = _made(output, wanted)
        seeds = set(map(str, asked.seeds))
        if make and not any(run and run["dev"].keys() >= seeds for run in (made, kept)):
            results_of(recipe, settings, output, begun=begun)
            made = _made(output, wanted)
        if made is not None and (kept is None or _says_more(made, kept)):
            self.kept.setdefault(Path(recipe).stem, {})[place] = kept = made
            self._write()
        if kept is None and not make:
            print(f"{name}, {' '.join(changed)}: no run in {output}")
        return kept

    def _write(self) -> None:
        ordered = {
            recipe: {place: runs[place] for place in sorted(runs)}
            for recipe, runs in sorted(self.kept.items())
        }
        write_json(
            self.path, {"what": "runs of tasks, for the tables of the paper", "runs": ordered}
        )


def _place(settings: Sequence[str]) -> str:
    """A folder's name for what is set; of word vectors, whatever their file, there are but one."""
    names = ["encoder=static" if s.startswith("encoder=static:") else s for s in settings]
    return re.sub(r"[=:]+", "-", "_".join(sorted(names)))


def _comparable(recipe: TaskRecipe | Mapping[str, Any]) -> dict[str, Any]:
    """What of a recipe a result depends on; word vectors go by their file's name alone."""
    if isinstance(recipe, TaskRecipe):
        recipe = config_to_dict(recipe)
    values = {key: value for key, value in recipe.items() if key not in NOT_OF_RESULTS}
    values["encoder"] = re.sub(r"static:\S*/", "static:", recipe["encoder"])
    return json.loads(json.dumps(values))  # tuples as lists, as in the file


def _made(output: Path, wanted: Mapping[str, Any]) -> Run | None:
    """The run in a folder, if it is by this recipe."""
    if not (output / RESULTS_FILE).exists():
        return None
    results = read_json_object(output / RESULTS_FILE)
    recipe, metric = _comparable(results["recipe"]), results["metric"]
    if recipe != wanted:
        print(f"{output}: the runs there are by another recipe, and left out")
        return None
    scores = {
        split: {seed: of[metric] for seed, of in results[split]["seeds"].items()}
        for split in ("dev", "test")
        if results[split]
    }
    runs = results["runs"]
    return {
        "recipe": recipe,
        "metric": metric,
        "dev": scores["dev"],
        "test": scores.get("test"),
        "seconds": {seed: run["seconds"] for seed, run in runs.items()},
        "layer_weights": {seed: run["layer_weights"] for seed, run in runs.items()},
        "curves": {seed: _curve(output / f"seed-{seed}", metric) for seed in runs},
        "circumstances": circumstances(results["threads"]),
    }


def _curve(folder: Path, metric: str) -> dict[str, list[float]]:
    """Steps of a run, and the score on dev after each."""
    lines = read_json_lines(folder / "metrics.jsonl")
    measured = [line for _, line in lines if f"dev/{metric}" in line]
    return {
        "steps": [float(line["step"]) for line in measured],
        "scores": [line[f"dev/{metric}"] for line in measured],
    }


def _says_more(made: Run, kept: Run) -> bool:
    """Whether a run has other scores, more seeds or curves than one that was kept of the same."""
    return made["dev"].keys() >= kept["dev"].keys() and any(
        made[key] != kept[key] for key in ("dev", "test", "curves")
    )
