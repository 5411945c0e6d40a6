"""Static vectors of one's own text, by gensim: Word2Vec (skip-gram, CBOW) and FastText."""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.config import config_to_dict
from elmo.encoders.encoder import extra
from elmo.text import check_tokens, check_writable

SKIP_GRAM, CBOW, FASTTEXT = METHODS = ("skip-gram", "cbow", "fasttext")
BINARY, TEXT = SUFFIXES = (".bin", ".txt")
MOST_TOGETHER = 10_000
"""Tokens of a sentence that gensim reads; it passes over the rest, so longer ones are cut."""

Progress = Callable[[float, str], object]


@dataclass(frozen=True)
class StaticTrainingConfig:
    """How static vectors are learned.

    Args:
        method: `skip-gram` or `cbow` of Word2Vec, or `fasttext` (skip-gram over n-grams too, so
            that unknown words get vectors).
        dim: Width of a vector.
        window: Words to either side that are predicted, or predicted from.
        min_count: Rarer words get no vector.
        max_words: Only so many words, the most frequent, get one; None for no bound.
        n_epochs: Passes over the text.
        n_negatives: Words drawn as wrong answers, per right one.
        subsample: Share of the text from which on a word is so frequent that it is left out now and
            then; 0 for never.
        learning_rate: At the beginning; it falls evenly to next to nothing.
        min_n: Characters of FastText's shortest n-gram, with `<` and `>` around the word.
        max_n: Of the longest.
        n_buckets: That n-grams share; each takes `dim` numbers.
        seed: Of all that is drawn.
        n_threads: With 1 the same text and seed give the same file; more are faster.
    """

    method: str = SKIP_GRAM
    dim: int = 300
    window: int = 5
    min_count: int = 5
    max_words: int | None = None
    n_epochs: int = 5
    n_negatives: int = 5
    subsample: float = 1e-3
    learning_rate: float = 0.025
    min_n: int = 3
    max_n: int = 6
    n_buckets: int = 200_000
    seed: int = 1
    n_threads: int = 1

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}, but expected one of {', '.join(METHODS)}")
        positive = ("dim", "window", "min_count", "n_epochs", "n_negatives", "n_threads", "min_n")
        for name in (*positive, "n_buckets"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        if self.max_words is not None and self.max_words < 1:
            raise ValueError(f"max_words is {self.max_words}, but must be at least 1")
        if self.max_n < self.min_n:
            raise ValueError(f"max_n is {self.max_n}, but min_n is {self.min_n}")
        if not 0 <= self.subsample < 1:
            raise ValueError(f"subsample is {self.subsample}, but must be from 0 to below 1")
        if not 0 < self.learning_rate <= 1:
            raise ValueError(f"learning_rate is {self.learning_rate}, but must be above 0, up to 1")


@dataclass(frozen=True)
class StaticTraining:
    """What was learned from, and how long it took.

    Attributes:
        n_sentences: Sentences of one pass.
        n_tokens: Their tokens.
        n_words: Words that have a vector.
        n_covered: Tokens that these words are.
        seconds: From the first reading to the file.
    """

    n_sentences: int
    n_tokens: int
    n_words: int
    n_covered: int
    seconds: float


def train_static(
    sentences: Iterable[Sequence[str]],
    output: str | Path,
    config: StaticTrainingConfig | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> StaticTraining:
    """Learn vectors of words and write them to a file; `<output>.json` beside it tells how.

    Args:
        sentences: Tokenized; read 1 + `n_epochs` times, so that an iterator will not do.
        output: `.bin` (Word2Vec's binary form; FastText's own form, with n-grams) or `.txt` (a word
            and its numbers per line; not for FastText, whose n-grams would be lost).
        config: How.
        force: Replace an existing output.
        progress: Called with the share that is done, and what is being done.

    Raises:
        TypeError: If `sentences` can be read but once, or a sentence is a string.
        ValueError: If the output's suffix is none of these, or no word is frequent enough.
        FileExistsError: If the output exists.
        FileNotFoundError: If the output's folder does not exist.
        ImportError: If gensim is not installed.
    """
    config, output = config or StaticTrainingConfig(), Path(output)
    _check_output(output, config, force)
    if isinstance(sentences, Iterator):
        raise TypeError(
            "sentences can be read but once, but training reads them once more than n_epochs: pass "
            "a list, or an object whose __iter__ begins anew"
        )
    with extra("compare", "training of static vectors"):
        from gensim.models import FastText, Word2Vec

    settings = {
        "vector_size": config.dim,
        "window": config.window,
        "min_count": config.min_count,
        "max_final_vocab": config.max_words,
        "epochs": config.n_epochs,
        "negative": config.n_negatives,
        "sample": config.subsample,
        "alpha": config.learning_rate,
        "sg": 0 if config.method == CBOW else 1,
        "seed": config.seed,
        "workers": config.n_threads,
    }
    start = time.perf_counter()
    passes = _Passes(sentences, config.n_epochs, progress or (lambda share, text: None))
    with _quiet():
        if config.method == FASTTEXT:
            ngrams = {"min_n": config.min_n, "max_n": config.max_n, "bucket": config.n_buckets}
            model: Any = FastText(**settings, **ngrams)
        else:
            model = Word2Vec(**settings)
        model.build_vocab(passes)
        if not passes.n_tokens:
            raise ValueError("the text has no token: give files with a sentence on each line")
        if not len(model.wv):
            raise ValueError(
                f"no word occurs min_count = {config.min_count} times in {passes.n_tokens:,} "
                "tokens: give more text, or a smaller min_count"
            )
        model.train(passes, total_examples=model.corpus_count, epochs=config.n_epochs)
    if passes.fault is not None:
        raise passes.fault
    made = StaticTraining(
        n_sentences=passes.n_sentences,
        n_tokens=passes.n_tokens,
        n_words=len(model.wv),
        n_covered=sum(int(model.wv.get_vecattr(w, "count")) for w in model.wv.index_to_key),
        seconds=time.perf_counter() - start,
    )
    _write(model, output, config, made)
    return made


class _Passes:
    """Sentences again and again, no longer than gensim reads; counts, and tells how far it is."""

    _TELL = 1000

    def __init__(
        self, sentences: Iterable[Sequence[str]], n_epochs: int, progress: Progress
    ) -> None:
        self._sentences, self._n_epochs, self._progress = sentences, n_epochs, progress
        self._n_begun = 0
        self.n_sentences = self.n_tokens = 0
        self.fault: Exception | None = None

    def __iter__(self) -> Iterator[list[str]]:
        self._n_begun += 1
        try:
            yield from self._once(self._n_begun - 1)
        except Exception as error:
            if self._n_begun == 1:
                raise
            # Training reads in a thread of its own, and would wait for ever if that died.
            self.fault = error

    def _once(self, epoch: int) -> Iterator[list[str]]:
        counting, done = epoch == 0, 0
        for i, sentence in enumerate(self._sentences):
            check_tokens(sentence, i)
            if counting:
                self.n_sentences += 1
                self.n_tokens += len(sentence)
            for start in range(0, len(sentence), MOST_TOGETHER):
                yield list(sentence[start : start + MOST_TOGETHER])
            done += 1
            if done % self._TELL == 0:
                self._tell(counting, epoch, done)
        self._tell(counting, epoch, done)

    def _tell(self, counting: bool, epoch: int, done: int) -> None:
        if counting:
            self._progress(0.0, f"counting words: {done:,} sentences")
        else:
            share = (epoch - 1 + done / max(1, self.n_sentences)) / self._n_epochs
            self._progress(min(1.0, share), f"pass {epoch} of {self._n_epochs}")


def _check_output(output: Path, config: StaticTrainingConfig, force: bool) -> None:
    if output.suffix not in SUFFIXES:
        raise ValueError(
            f"{output} ends in {output.suffix!r}, but expected {' or '.join(SUFFIXES)}"
        )
    if config.method == FASTTEXT and output.suffix != BINARY:
        raise ValueError(
            f"{output} would lose FastText's n-grams: give a name that ends in {BINARY}"
        )
    check_writable(output)
    if output.exists() and not force:
        raise FileExistsError(f"{output} exists: pass force=True (--force) to replace it")


def _write(model: Any, output: Path, config: StaticTrainingConfig, made: StaticTraining) -> None:
    """Both files beside, then renamed."""
    from importlib.metadata import version

    about = {
        "settings": config_to_dict(config),
        **config_to_dict(made),
        "gensim": version("gensim"),
    }
    beside = output.with_name(f"{output.stem}.{os.getpid()}.tmp{output.suffix}")
    about_beside = output.with_name(f"{output.name}.json.{os.getpid()}.tmp")
    try:
        if config.method == FASTTEXT:
            from gensim.models.fasttext import save_facebook_model

            save_facebook_model(model, str(beside))
        else:
            model.wv.save_word2vec_format(str(beside), binary=output.suffix == BINARY)
        about_beside.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        os.replace(beside, output)
        os.replace(about_beside, output.with_name(f"{output.name}.json"))
    finally:
        beside.unlink(missing_ok=True)
        about_beside.unlink(missing_ok=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let gensim not warn of few words and short epochs: it is told what there is."""
    logger = logging.getLogger("gensim")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
