"""What a corpus is made of, and how."""

from dataclasses import dataclass

from elmo.text import ERRORS, SPECIALS, WHITESPACE

SENTENCES, PARAGRAPHS, WRAPPED = LINES = ("sentences", "paragraphs", "wrapped")


@dataclass(frozen=True)
class CorpusConfig:
    """Text to learn from, and what is to be made of it.

    Args:
        train: Files, folders or shell patterns, relative to where the command runs: UTF-8 text
            (`.txt`, `.gz`, `.xz`, `.zst`), Parquet, or data sets that `datasets` saved to disk.
        heldout: Likewise, for perplexity during and after training; no file may be in `train`.
        heldout_share: Share of the sentences of `train` that is held out instead, chosen by what
            they say: neither order nor file matters, and equal sentences stay together.
        heldout_seed: Another seed holds out others.
        exclude_heldout: Whether sentences that stand in `heldout` too are left out of training.
        vocabulary: A vocabulary file, in any order; without one the vocabulary is built from the
            training text.
        max_words: Size of a vocabulary that is built, specials included.
        min_count: Rarer words are not part of a vocabulary that is built.
        language: Whose rules split raw text into tokens (`en`, `de`, …, `xx` for any), or
            `whitespace` for text that is tokenized already.
        lines: What a line (or a row of a table) is: `sentences`, one each; `paragraphs` of running
            text, to be split into sentences; or `wrapped`, part of a paragraph that ends at the
            next line without text.
        column: Of tables, where the text is: strings, or lists of tokens. If not given, the column
            `text`, or the only one of strings.
        repeat: Pairs of a shell pattern and a number: files of `train` whose path it matches are
            read so many times, so that a small part of a mixture is learned as well as the rest.
        deduplicate: Whether of equal sentences only the first is kept.
        errors: What to do with invalid UTF-8 and NUL characters: `strict` refuses them, naming
            file and line, `replace` reads U+FFFD in their place.
    """

    train: tuple[str, ...]
    heldout: tuple[str, ...] = ()
    heldout_share: float = 0.0
    heldout_seed: int = 1
    exclude_heldout: bool = False
    vocabulary: str | None = None
    max_words: int | None = 50_000
    min_count: int = 2
    language: str = WHITESPACE
    lines: str = SENTENCES
    column: str | None = None
    repeat: tuple[tuple[str, int], ...] = ()
    deduplicate: bool = False
    errors: str = "strict"

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train is empty: give files of text to learn from")
        if self.max_words is not None and self.max_words <= len(SPECIALS):
            raise ValueError(
                f"max_words is {self.max_words}, but the specials alone are {len(SPECIALS)}"
            )
        if self.min_count < 1:
            raise ValueError(f"min_count is {self.min_count}, but must be at least 1")
        if not 0 <= self.heldout_share < 1:
            raise ValueError(
                f"heldout_share is {self.heldout_share}, but must be from 0 to below 1"
            )
        if self.heldout_share and self.heldout:
            raise ValueError(
                f"heldout_share is {self.heldout_share}, but heldout names files too: give one"
            )
        for pattern, times in self.repeat:
            if times < 1:
                raise ValueError(f"repeat reads {pattern} {times} times: give at least 1")
        if self.repeat and self.deduplicate:
            raise ValueError("what is repeated would be left out again: repeat or deduplicate")
        if self.heldout_seed < 0:
            raise ValueError(f"heldout_seed is {self.heldout_seed}, but must be at least 0")
        for name, choices in (("lines", LINES), ("errors", ERRORS)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but expected one of {', '.join(choices)}"
                )
