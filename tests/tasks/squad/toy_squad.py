"""Questions that a model can learn to answer by heart in seconds."""

import json
import random
from pathlib import Path

from tests.tasks.small import changed_recipe

from elmo.tasks.recipe import TaskRecipe

PEOPLE, PLACES = ("Ada", "Alan Turing", "Grace Hopper"), ("Paris", "New York", "the north of Oslo")
YEARS = ("1815", "1912", "1906")


def toy_squad(n: int, seed: int) -> dict[str, object]:
    """Paragraphs with a person, a place and a year, and two questions about each."""
    rng = random.Random(seed)
    paragraphs = []
    for i in range(n // 2):
        who, where, when = rng.choice(PEOPLE), rng.choice(PLACES), rng.choice(YEARS)
        text = f"In {when}, it rained.  {who} was born in {where}"
        text += rng.choice([" (they say).", ".", "; nobody saw it, and all went home again."])
        asked = rng.sample([("Who was born?", who), ("Born where?", where), ("When?", when)], 2)
        qas = [
            {
                "id": f"{seed}-{i}-{k}",
                "question": question,
                "answers": [{"text": answer, "answer_start": text.index(answer)}],
            }
            for k, (question, answer) in enumerate(asked)
        ]
        paragraphs.append({"context": text, "qas": qas})
    return {"version": "1.1", "data": [{"title": "Toy", "paragraphs": paragraphs}]}


def write_toy(path: Path, n: int = 20, seed: int = 1) -> Path:
    """A file of such questions."""
    path.write_text(json.dumps(toy_squad(n, seed)), encoding="utf-8")
    return path


def toy_recipe(folder: Path, **changes: object) -> TaskRecipe:
    """A recipe for it, whose runs take seconds; `a.b=c` is written `a__b=c`."""
    values: dict[str, object] = {
        "task": "squad",
        "output": str(folder / "runs"),
        "data": {
            "train": [str(write_toy(folder / "train.json"))],
            "dev": [str(write_toy(folder / "dev.json", n=8, seed=2))],
        },
        "input": {"word_dim": 12, "char_filters": 8, "dropout": 0.0, "min_count": 1},
        "model": {"hidden_dim": 8, "dropout": 0.1},
        "optimiser": {"name": "adam", "learning_rate": 0.02, "schedule": "constant", "warmup": 0.0},
    }
    return changed_recipe(values, changes)
