"""Documents whose clusters a model can learn by heart in seconds."""

import random
from pathlib import Path

from tests.tasks.toy_tagging import toy_recipe

from elmo.tasks.coref.data import Document, Span, write_coref
from elmo.tasks.recipe import TaskRecipe

PEOPLE = {"Ada": "she", "Grace Hopper": "she", "Alan": "he", "the old man": "he"}


def toy_documents(n: int = 20, seed: int = 1) -> list[Document]:
    """Two people who meet, pronouns for them, and a place that is met once."""
    rng = random.Random(seed)
    documents = []
    for i in range(n):
        woman, man = rng.choice(list(PEOPLE)[:2]), rng.choice(list(PEOPLE)[2:])
        place = rng.choice(["Paris", "the city"])
        pairs = [[(woman, 0), ("met", -1), (man, 1), ("in", -1), (place, 2), (".", -1)]]
        told = [(PEOPLE[woman], 0), (PEOPLE[man], 1)]
        rng.shuffle(told)
        for pronoun, of in told[: 1 + i % 2]:
            pairs.append([(pronoun, of), ("left", -1), (".", -1)])
        clusters: list[list[Span]] = [[], [], []]
        sentences: list[tuple[str, ...]] = []
        n_before = 0
        for sentence in pairs:
            tokens: list[str] = []
            for words, of in sentence:
                begin = n_before + len(tokens)
                tokens += words.split()
                if of >= 0:
                    clusters[of].append((begin, n_before + len(tokens)))
            n_before += len(tokens)
            sentences.append(tuple(tokens))
        found = tuple(tuple(cluster) for cluster in clusters)
        documents.append(Document(f"toy/{i}", tuple(sentences), found))
    return documents


def toy_coref_recipe(folder: Path, **changes: object) -> TaskRecipe:
    """A recipe that learns them."""
    train, dev = folder / "train.conll", folder / "dev.conll"
    for path, n, seed in ((train, 20, 1), (dev, 6, 2)):
        documents = toy_documents(n, seed)
        write_coref(path, documents, [document.clusters or () for document in documents])
    settings: dict[str, object] = {
        "task": "coref",
        "data__train": [str(train)],
        "data__dev": [str(dev)],
        "model": {
            "hidden_dim": 24,
            "dropout": 0.0,
            "score_dim": 32,
            "score_layers": 1,
            "feature_dim": 3,
            "max_width": 4,
            "spans_per_token": 0.6,  # short documents that are little else than mentions
            "max_antecedents": 20,
        },
        "optimiser__learning_rate": 0.004,
        "training__n_epochs": 24,
    }
    return toy_recipe(folder, **(settings | changes))
