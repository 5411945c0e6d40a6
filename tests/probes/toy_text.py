"""A text of a few sentences, and an encoder in which a word's neighbours make its vector."""

import hashlib
import zlib

import numpy as np

LINES = (
    "We sat on the river bank .",
    "The bank raised its rates .",
    "",
    "My bank lent me money .",
    "They walked along the bank of the river .",
    "We sat on the river bank .",
    "Banks lend money .",
)
N_TOKENS = 39
RIVER = [f"they sat on the river bank with {name} ." for name in ("Ann", "Bob", "Cy", "Di")]
MONEY = [f"the big bank lent {name} some money ." for name in ("Ann", "Bob", "Cy", "Di", "Ed")]


class ToyEncoder:
    """Layer 0 depends on the word alone, layer 1 on the words beside it as well."""

    n_layers, dim = 2, 5

    def __init__(self, seed: int = 0, *, fail_after: int | None = None) -> None:
        self.name, self.identity = f"toy:{seed}", hashlib.sha256(bytes([seed])).hexdigest()
        self.seed, self.fail_after = seed, fail_after
        self.n_encoded = 0

    def encode_layers(self, sentences):
        if self.fail_after is not None and self.n_encoded >= self.fail_after:
            raise KeyboardInterrupt
        self.n_encoded += sum(map(len, sentences))
        return [self._of(sentence) for sentence in sentences]

    def trainable(self):
        raise ValueError("none")

    def _of(self, sentence):
        own = np.array([self._vector(token) for token in sentence], dtype="f4").reshape(-1, 5)
        around = np.zeros_like(own)
        around[1:] += own[:-1]
        around[:-1] += own[1:]
        return np.stack([own, own + 3 * around])

    def _vector(self, token):
        draw = np.random.default_rng(zlib.crc32(f"{self.seed} {token}".encode()))
        return draw.standard_normal(5)


def write_text(path, lines=LINES):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
