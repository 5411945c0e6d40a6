"""FastText's character n-grams.

Axes: buckets (that n-grams are hashed to), dim.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Ngrams:
    """FastText's vectors of character n-grams, which give words that were never seen a vector.

    Attributes:
        vectors: Of each bucket that n-grams are hashed to.
        min_n: Characters of the shortest n-gram, `<` and `>` around the word included.
        max_n: Of the longest.
    """

    vectors: Float[np.ndarray, "buckets dim"]
    min_n: int
    max_n: int

    def buckets(self, word: str) -> list[int]:
        """Where the n-grams of a word are."""
        from gensim.models.fasttext import ft_ngram_hashes

        if not len(self.vectors):
            return []
        return [int(b) for b in ft_ngram_hashes(word, self.min_n, self.max_n, len(self.vectors))]
