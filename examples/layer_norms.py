"""How long are the vectors of each layer, and how alike are those of different words?

Layers are mixed by weights: of two with the same weight, the one with longer vectors has more to
say. And where all vectors of a layer point to one side, a large cosine means little.

    python examples/layer_norms.py [ENCODER...]

ENCODER is `elmo`, `elmo:MODEL`, `static:FILE` or `transformer:NAME_OR_FOLDER`.
"""

import sys

import numpy as np

from elmo.encoders import open_encoders

TEXT = """
We sat on the bank of the river and watched the boats .
The bank raised its interest rates again last month .
In spring the birds return from the south .
The actors read the play together before they learned their parts .
A tall crane lifted the steel beams to the top of the building .
Most patients go home within a week .
Will you play chess with me tonight ?
"""


def main() -> None:
    """Print a line per layer: the length of vectors, and the cosine of different words."""
    sentences = [line.split() for line in TEXT.strip().splitlines()]
    words = np.array([word.lower() for sentence in sentences for word in sentence])
    for name in sys.argv[1:] or ["elmo"]:
        (encoder,) = open_encoders(name)
        # All tokens of all sentences, one below the other: (layers, tokens, dim).
        layers = np.concatenate(encoder.encode_layers(sentences), axis=1)
        known = layers.any(axis=(0, 2))  # static vectors have none for other words
        print(f"\n{encoder.name}: {known.sum()} of {len(words)} words have a vector")
        print("         length (mean ± deviation)    cosine of different words")
        for layer, vectors in enumerate(layers[:, known]):
            lengths = np.linalg.norm(vectors, axis=1)
            cosine = mean_cosine(vectors / lengths[:, None], words[known])
            print(
                f"layer {layer}  {lengths.mean():7.2f} ± {lengths.std():<6.2f}{' ' * 16}"
                f"{cosine:6.3f}    {'▪' * min(40, round(lengths.mean()))}"
            )


def mean_cosine(unit: np.ndarray, words: np.ndarray) -> float:
    """The mean cosine of two tokens that are not the same word, of vectors of length 1."""
    return float((unit @ unit.T)[words[:, None] != words].mean())


if __name__ == "__main__":
    main()
