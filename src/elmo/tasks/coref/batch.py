"""Documents as the network reads them.

Axes: sentences, tokens (of a document, one after the other).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from jaxtyping import Int
from torch import Tensor

from elmo.tasks.coref.data import NOTHING, Clusters, Document
from elmo.tasks.features import SentenceBatch

UNKNOWN = 0


@dataclass(frozen=True)
class ReadDocument:
    """A document.

    Attributes:
        sentences: Its sentences.
        lengths: Tokens of each.
        speakers: A number of the speaker of each token, 0 where there is none.
        genre: The number of its genre, 0 if it is not known.
        clusters: Of mentions; None if they are not known.
    """

    sentences: SentenceBatch
    lengths: tuple[int, ...]
    speakers: Int[Tensor, " tokens"]
    genre: Int[Tensor, ""]
    clusters: Clusters | None

    @classmethod
    def of(
        cls,
        document: Document,
        read: Callable[[Sequence[Sequence[str]]], SentenceBatch],
        genres: Sequence[str],
    ) -> "ReadDocument":
        """A document whose sentences `read` makes a batch of."""
        names = [name for sentence in document.speakers for name in sentence]
        names = names or [NOTHING[0]] * len(document.tokens)
        known = sorted(set(names) - set(NOTHING))
        numbers = {name: i for i, name in enumerate(known, UNKNOWN + 1)}
        genre = genres.index(document.genre) + 1 if document.genre in genres else UNKNOWN
        return cls(
            read(document.sentences),
            tuple(map(len, document.sentences)),
            torch.tensor([numbers.get(name, UNKNOWN) for name in names]),
            torch.tensor(genre),
            document.clusters,
        )

    def window(self, n_sentences: int, n_tokens: int) -> "ReadDocument":
        """Sentences in a row, as many as are allowed, from one that is drawn; one at least."""
        first = self._first_of_last(n_sentences, n_tokens)
        begin = int(torch.randint(first + 1, ()))
        end = begin + 1
        while end < len(self.lengths) and end - begin < n_sentences:
            if sum(self.lengths[begin : end + 1]) > n_tokens:
                break
            end += 1
        return self._part(begin, end)

    def _first_of_last(self, n_sentences: int, n_tokens: int) -> int:
        """Where the last window begins."""
        begin = len(self.lengths) - 1
        while begin and len(self.lengths) - begin < n_sentences:
            if sum(self.lengths[begin - 1 :]) > n_tokens:
                break
            begin -= 1
        return begin

    def _part(self, begin: int, end: int) -> "ReadDocument":
        before = [0, *accumulate(self.lengths)]
        first, last = before[begin], before[end]
        clusters = tuple(
            tuple((s - first, e - first) for s, e in cluster if first <= s and e <= last)
            for cluster in self.clusters or ()
        )
        return replace(
            self,
            sentences=self.sentences.cut([(i, 0, self.lengths[i]) for i in range(begin, end)]),
            lengths=self.lengths[begin:end],
            speakers=self.speakers[first:last],
            clusters=None if self.clusters is None else clusters,
        )

    def to(self, device: torch.device | str) -> "ReadDocument":
        """The same on a device."""
        return replace(
            self,
            sentences=self.sentences.to(device),
            speakers=self.speakers.to(device),
            genre=self.genre.to(device),
        )


@dataclass(frozen=True)
class CorefBatch:
    """Documents, each to be read by itself."""

    documents: tuple[ReadDocument, ...]

    def to(self, device: torch.device | str) -> "CorefBatch":
        """The same on a device."""
        return CorefBatch(tuple(document.to(device) for document in self.documents))
