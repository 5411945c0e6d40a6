"""Words → pieces of a transformer's vocabulary, in windows that it can read.

A sentence of more pieces than fit is read in windows that overlap by half. A word's vector comes
from the window in which the nearer of its two edges is farthest away; the edges of the sentence
itself do not count, since nothing lies beyond them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """A piece of a word, read at `position` of its window (special tokens included)."""

    position: int
    word: int


@dataclass(frozen=True)
class Window:
    """What is read in one pass, special tokens included, and which pieces speak for which words."""

    ids: list[int]
    pieces: list[Piece]


class Subwords:
    """Splits words into pieces, and long sentences into windows.

    Args:
        tokenizer: A fast tokenizer of `transformers`.
        max_pieces: Pieces per window, special tokens included.

    Raises:
        ValueError: If no piece fits beside the special tokens.
    """

    def __init__(self, tokenizer: Any, max_pieces: int) -> None:
        self._tokenizer = tokenizer
        # Words stand behind spaces. A byte-level vocabulary knows two forms of each, and has to be
        # told where it may not add the space itself.
        self._before = " " if leaves_spaces_out(tokenizer) else ""
        framed = self._encode([["a"]], special=True)[0]
        of_words = [i for i, word in enumerate(framed.word_ids) if word is not None]
        first, last = (of_words[0], of_words[-1]) if of_words else (1, 0)
        self._opening, self._closing = framed.ids[:first], framed.ids[last + 1 :]
        self.room = max_pieces - len(self._opening) - len(self._closing)
        if self.room < 1:
            raise ValueError(
                f"max_pieces is {max_pieces}, but {max_pieces - self.room} special tokens and at "
                "least one piece have to fit"
            )

    def windows(self, sentences: Sequence[Sequence[str]]) -> Iterator[list[Window]]:
        """Windows of each sentence in turn; none of a sentence without pieces."""
        filled = [sentence for sentence in sentences if sentence]
        encoded = iter(self._encode(filled) if filled else ())
        for sentence in sentences:
            one = next(encoded) if sentence else None
            yield self._of_sentence(one.ids, one.word_ids) if one is not None else []

    def _of_sentence(self, ids: Sequence[int], words: Sequence[int]) -> list[Window]:
        before = len(self._opening)
        return [
            Window(
                [*self._opening, *ids[start:end], *self._closing],
                [Piece(before + i - start, words[i]) for i in chosen],
            )
            for start, end, chosen in choose_windows(words, self.room)
        ]

    def _encode(self, sentences: Sequence[Sequence[str]], *, special: bool = False) -> Any:
        spaced = [[self._before + word for word in sentence] for sentence in sentences]
        return self._tokenizer(
            spaced,
            is_split_into_words=True,
            add_special_tokens=special,
            truncation=False,  # nor what the tokenizer's file says
            padding=False,
            verbose=False,
        ).encodings


def choose_windows(words: Sequence[int], room: int) -> list[tuple[int, int, list[int]]]:
    """Cut pieces into windows: start, end, and the pieces whose vectors come from there.

    Args:
        words: The word of each piece; pieces of a word stand together.
        room: Pieces per window.
    """
    n = len(words)
    if n == 0:
        return []
    if n <= room:
        return [(0, n, list(range(n)))]
    stride = max(1, room // 2)
    starts = [*range(0, n - room, stride), n - room]
    chosen: list[list[int]] = [[] for _ in starts]
    for start, end in _runs(words):
        window = _best(start, end, starts, room, n, stride)
        if window is not None:
            chosen[window].extend(range(start, end))
            continue
        for i in range(start, end):  # a word that no window holds: piece by piece
            window = _best(i, i + 1, starts, room, n, stride)
            assert window is not None
            chosen[window].append(i)
    windows = [(s, s + room, pieces) for s, pieces in zip(starts, chosen, strict=True)]
    return [window for window in windows if window[2]]


def _best(
    start: int, end: int, starts: Sequence[int], room: int, n: int, stride: int
) -> int | None:
    """The window that holds these pieces with most context on their poorer side."""
    middle = min(len(starts) - 1, max(0, round(((start + end - room) / 2) / stride)))
    near = {max(0, middle - 1), middle, min(len(starts) - 1, middle + 1)}
    near |= {len(starts) - 2, len(starts) - 1}  # the last one may lie closer to its neighbour
    best, most = None, -1
    for window in sorted(near):
        left, right = start - starts[window], starts[window] + room - end
        if left < 0 or right < 0:
            continue
        context = min(left if starts[window] else n, right if starts[window] + room < n else n)
        if context > most:
            best, most = window, context
    return best


def _runs(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for i in range(1, len(words) + 1):
        if i == len(words) or words[i] != words[start]:
            yield start, i
            start = i


def leaves_spaces_out(tokenizer: Any) -> bool:
    """Whether it is byte-level and takes a word without a space before it as the end of another."""

    def somewhere(part: Any) -> bool:
        if isinstance(part, dict):
            if part.get("type") == "ByteLevel" and part.get("add_prefix_space") is False:
                return True
            return any(somewhere(value) for value in part.values())
        return isinstance(part, list) and any(somewhere(value) for value in part)

    return somewhere(json.loads(tokenizer.backend_tokenizer.to_str()).get("pre_tokenizer"))
