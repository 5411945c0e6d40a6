"""Texts whose labels a model can learn by heart in seconds: whether and what they praise."""

import random
from pathlib import Path

from tests.tasks.small import changed_recipe

from elmo.tasks.recipe import TaskRecipe

THINGS = {"food": ["soup", "bread", "warm meal"], "film": ["plot", "actor", "last scene"]}
JUDGED = {"good": ["lovely", "fine", "not bad"], "bad": ["dull", "poor", "not good"]}


def write_texts(path: Path, n: int = 20, seed: int = 1, *, several: bool = False) -> Path:
    """Tab-separated texts: praise or blame; with `several`, also of what, and at times nothing."""
    rng = random.Random(seed)
    lines = []
    for k in range(n):
        topic, judged = list(THINGS)[k % 2], list(JUDGED)[k // 2 % 2]
        words = f"the {rng.choice(THINGS[topic])} was {rng.choice(JUDGED[judged])}"
        words += rng.choice(["", " .", " , I think .", " again and again !"])
        lines.append(f"{words}\t{f'{judged},{topic}' if several else judged}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def text_recipe(folder: Path, task: str = "classification", **changes: object) -> TaskRecipe:
    """A recipe for it, whose runs take a second or two; `a.b=c` is written `a__b=c`."""
    several = bool(changes.pop("several", False))
    values: dict[str, object] = {
        "task": task,
        "output": str(folder / "runs"),
        "data": {
            "train": [str(write_texts(folder / "train.tsv", several=several))],
            "dev": [str(write_texts(folder / "dev.tsv", n=8, seed=2, several=several))],
        },
        "input": {"word_dim": 32, "char_filters": 0, "dropout": 0.1, "min_count": 1},
        "model": {"hidden_dim": 12, "dropout": 0.1},
        "optimiser": {"name": "adam", "learning_rate": 0.01, "schedule": "constant", "warmup": 0.0},
    }
    if task == "bcn":
        values["model"] = {"hidden_dim": 32, "head_dim": 32, "dropout": 0.1}
    return changed_recipe(values, changes)
