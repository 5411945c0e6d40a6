"""One vector for *bank*, or one for each of its uses? Static and contextual vectors side by side.

Word2Vec, learned here from eight sentences, has one vector for a word, so all its uses are alike.
ELMo reads the sentence: from layer 1 on, uses of one sense are nearer to each other.

    python examples/bank.py [PICTURE.png]

Needs: pip install 'elmo-torch[compare,plots]'
"""

import sys
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from elmo import Elmo
from elmo.encoders.static import StaticEncoder
from elmo.encoders.static_training import StaticTrainingConfig, train_static
from elmo.plots import save_heat_maps

USES = [
    ("river", "We sat down on the grassy bank of the river and watched the boats go by."),
    ("river", "Heavy rain washed away the muddy bank on the far side of the stream."),
    ("river", "The children played on the bank of the canal until it was dark."),
    ("river", "They tied the boat to a tree on the opposite bank."),
    ("money", "She asked the bank for a loan to buy a small house."),
    ("money", "The bank raised its interest rates again last month."),
    ("money", "He opened an account at the bank when he got his first job."),
    ("money", "The bank will not lend money to a firm with so many debts."),
]


def main() -> None:
    """Print how alike uses of one sense and of different senses are, by both kinds of vectors."""
    elmo = Elmo.from_pretrained()
    sentences = [elmo.tokenize(text) for _, text in USES]
    static = learn_static(sentences)
    vectors = {"Word2Vec": bank_vectors(static.encode_layers(sentences), sentences, layer=0)}
    layers = elmo.encode_layers(sentences)
    for layer in range(elmo.n_layers):
        vectors[f"ELMo, layer {layer}"] = bank_vectors(layers, sentences, layer=layer)

    print("mean cosine of two uses of bank    same sense   other sense")
    cosines = {name: cosine_matrix(of) for name, of in vectors.items()}
    for name, matrix in cosines.items():
        same, other = by_sense(matrix)
        print(f"{name:35}{same:10.3f}{other:14.3f}")
    if len(sys.argv) > 1:
        shown = ["Word2Vec", "ELMo, layer 2"]
        texts = [text for _, text in USES]
        save_heat_maps(sys.argv[1], [cosines[name] for name in shown], texts, shown)
        print(f"Drew {sys.argv[1]}")


def learn_static(sentences: list[list[str]]) -> StaticEncoder:
    """Word2Vec of these sentences, read again and again."""
    config = StaticTrainingConfig(dim=20, min_count=1, n_epochs=50)
    with TemporaryDirectory() as folder:
        train_static(sentences, Path(folder) / "vectors.bin", config)
        return StaticEncoder.open(Path(folder) / "vectors.bin")


def bank_vectors(
    encoded: list[np.ndarray], sentences: list[list[str]], *, layer: int
) -> np.ndarray:
    """The vector of *bank* in each sentence: (sentences, dim)."""
    pairs = zip(encoded, sentences, strict=True)
    return np.stack([of[layer, tokens.index("bank")] for of, tokens in pairs])


def cosine_matrix(vectors: np.ndarray) -> np.ndarray:
    """The cosine of each vector and each other."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def by_sense(cosines: np.ndarray) -> tuple[float, float]:
    """Mean cosine of pairs that share their sense, and of those that do not."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for i, j in combinations(range(len(USES)), 2):
        found[USES[i][0] == USES[j][0]].append(float(cosines[i, j]))
    return float(np.mean(found[True])), float(np.mean(found[False]))


if __name__ == "__main__":
    main()
