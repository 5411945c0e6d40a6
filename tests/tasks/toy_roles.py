"""Sentences with roles that a model can learn by heart in seconds."""

import random
from pathlib import Path

from tests.tasks.toy_tagging import toy_recipe

from elmo.tasks.recipe import TaskRecipe
from elmo.tasks.srl.columns import write_srl
from elmo.tasks.srl.data import Argument, Frame, SrlSentence

WHO = ["the cat", "Ada", "a very old dog", "they"]
DOES = [("chased", "chase"), ("saw", "see"), ("ate", "eat")]


def toy_sentences(n: int = 20, seed: int = 1) -> list[SrlSentence]:
    """Who does what to whom, sometimes twice in a sentence; a few sentences say nothing."""
    rng = random.Random(seed)
    sentences = []
    for i in range(n):
        tokens: list[str] = []
        frames = []
        for k in range(i % 3):
            tokens += ["and"] if k else []
            agent, patient = (rng.choice(WHO).split() for _ in range(2))
            verb, lemma = rng.choice(DOES)
            begin, at = len(tokens), len(tokens) + len(agent)
            tokens += [*agent, verb, *patient]
            arguments = (
                Argument("ARG0", begin, at),
                Argument("V", at, at + 1),
                Argument("ARG1", at + 1, len(tokens)),
            )
            frames.append(Frame(at, lemma, arguments, f"{lemma}.01"))
        tokens = tokens or ["Nothing"]
        sentences.append(SrlSentence((*tokens, "."), tuple(frames), "toy"))
    return sentences


def toy_roles_recipe(folder: Path, **changes: object) -> TaskRecipe:
    """A recipe that learns them."""
    train, dev = folder / "train.conll", folder / "dev.conll"
    for path, n, seed in ((train, 20, 1), (dev, 9, 2)):
        sentences = toy_sentences(n, seed)
        write_srl(path, sentences, [sentence.frames for sentence in sentences])
    settings: dict[str, object] = {
        "task": "srl",
        "data__train": [str(train)],
        "data__dev": [str(dev)],
        "model": {
            "hidden_dim": 14,
            "n_layers": 2,
            "predicate_dim": 5,
            "recurrent_dropout": 0.1,
        },
        "training__n_epochs": 25,
    }
    return toy_recipe(folder, **(settings | changes))
