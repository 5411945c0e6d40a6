"""Pairs of sentences whose labels a model can learn by heart in seconds."""

import json
import random
from pathlib import Path

from tests.tasks.small import changed_recipe

from elmo.tasks.recipe import TaskRecipe

WHO = ["the cat", "a tall man", "my old aunt", "nobody's dog"]
DOES = ["sleeps", "is running", "sings", "eats soup"]
WHERE = ["outside", "in the big hall", "at home ."]
HYPOTHESES = {
    "entailment": ["{who} {does}", "it is true that {who} {does} ."],
    "neutral": ["{who} {does} since it is late", "{who} often {does} and {other}"],
    "contradiction": ["nobody {does}", "{who} never {does} {where}"],
}


def write_pairs(path: Path, n: int = 20, seed: int = 1) -> Path:
    """SNLI's JSON lines, tokens between spaces, the labels in turn."""
    rng = random.Random(seed)
    lines = []
    for k in range(n):
        who, where = rng.choice(WHO), rng.choice(WHERE)
        does, other = rng.sample(DOES, 2)
        label = list(HYPOTHESES)[k % 3]
        hypothesis = rng.choice(HYPOTHESES[label])
        record = {
            "pairID": f"toy-{k}",
            "sentence1": f"{who} {does} {where}",
            "sentence2": hypothesis.format(who=who, does=does, other=other, where=where),
            "gold_label": label,
        }
        lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def pair_recipe(folder: Path, **changes: object) -> TaskRecipe:
    """A recipe for it, whose runs take a second or two; `a.b=c` is written `a__b=c`."""
    values: dict[str, object] = {
        "task": "snli",
        "output": str(folder / "runs"),
        "data": {
            "train": [str(write_pairs(folder / "train.jsonl"))],
            "dev": [str(write_pairs(folder / "dev.jsonl", n=9, seed=2))],
        },
        "input": {"word_dim": 16, "char_filters": 0, "dropout": 0.1, "min_count": 1},
        "model": {"hidden_dim": 12, "dropout": 0.1, "language": "whitespace"},
        "optimiser": {"name": "adam", "learning_rate": 0.01, "schedule": "constant", "warmup": 0.0},
    }
    return changed_recipe(values, changes)
