"""A tagging task that a model can learn by heart in seconds."""

import random
from pathlib import Path

from tests.tasks.small import changed_recipe

from elmo.tasks.recipe import TaskRecipe

NAMES = {"PER": ["Ada", "Alan Turing", "Grace Hopper"], "LOC": ["Paris", "New York", "Oslo"]}
FRAMES = ["{PER} lives in {LOC} .", "In {LOC} , {PER} met {PER} .", "Nobody saw it .", "{LOC} !"]


def write_toy(path: Path, n: int = 20, seed: int = 1) -> Path:
    """Sentences with names of people and places, in two columns."""
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        for word in rng.choice(FRAMES).split():
            label = word.strip("{}")
            if label in NAMES:
                for k, token in enumerate(rng.choice(NAMES[label]).split()):
                    lines.append(f"{token} {'I' if k else 'B'}-{label}")
            else:
                lines.append(f"{word} O")
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def toy_recipe(folder: Path, **changes: object) -> TaskRecipe:
    """A recipe for it, whose runs take a second or two; `a.b=c` is written `a__b=c`."""
    values: dict[str, object] = {
        "task": "tagging",
        "output": str(folder / "runs"),
        "data": {
            "train": [str(write_toy(folder / "train.txt"))],
            "dev": [str(write_toy(folder / "dev.txt", n=8, seed=2))],
        },
        "input": {"word_dim": 12, "char_filters": 8, "dropout": 0.1, "min_count": 1},
        "model": {"hidden_dim": 12, "n_layers": 1, "dropout": 0.1},
        "optimiser": {"name": "adam", "learning_rate": 0.02, "schedule": "constant", "warmup": 0.0},
    }
    return changed_recipe(values, changes)
