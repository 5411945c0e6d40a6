"""`WordPredictor`: the biLM as a language model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from elmo.checkpoints.released import RELEASED
from elmo.checkpoints.sources import DEFAULT_MODEL, load
from elmo.compare import Place, marked_place
from elmo.model.bilm import BiLM
from elmo.model.device import named_device
from elmo.model.softmax_adaptive import AnySoftmax
from elmo.predict.score import SentenceScore, scores
from elmo.predict.substitutes import Substitutes, substitutes
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.outputs import check_vocabulary
from elmo.pretrain.perplexity import CACHE_TOKENS, Perplexity, PerplexitySums, perplexity_sums
from elmo.reader import Reader
from elmo.text import Tokenizer, Vocabulary

Progress = Callable[[int], object]


class WordPredictor:
    """How well a biLM predicts words: perplexity, surprisal of tokens, words for a place.

    Sentences are raw texts (str), which are split into tokens, or tokenized (sequences of str).
    Each is read on its own, from a zero state, unless another is asked for.

    Args:
        bilm: The network below the softmax.
        softmax: Over the words, for both directions.
        vocabulary: The words.
        language: Whose rules split raw text into tokens (see `elmo.text.Tokenizer`).
        cache_tokens: Tokens of which the character CNN's vectors are remembered.

    Raises:
        ValueError: If the vocabulary is of another size than the softmax.

    Example:
        >>> predictor = WordPredictor.from_pretrained()
        >>> predictor.perplexity(["We sat down.", "Why?"]).forward_lm
        >>> predictor.score(["We sat down."])[0].combined.tokens
        >>> predictor.substitutes("We sat on the river [bank].", n=3).candidates
    """

    def __init__(
        self,
        bilm: BiLM,
        softmax: AnySoftmax,
        vocabulary: Vocabulary,
        *,
        language: str = "en",
        cache_tokens: int = CACHE_TOKENS,
    ) -> None:
        check_vocabulary(vocabulary, softmax.n_words)
        self.model = LanguageModel(bilm, softmax)
        self.vocabulary = vocabulary
        self.language = language
        self._tokenizer: Tokenizer | None = None
        self._reader = Reader(bilm, cache_tokens)

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path = DEFAULT_MODEL,
        *,
        device: str = "auto",
        language: str | None = None,
        url: str | tuple[str, str] | None = None,
        cache_dir: Path | str | None = None,
        offline: bool | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> "WordPredictor":
        """A model with trained weights that still has its softmax.

        Args:
            model: As for `Elmo.from_pretrained`, like those that follow.
            device: Where to compute; `auto` takes a GPU if there is one.
            language: Whose rules split raw text; None for the model's, if known, else English.

        Raises:
            ValueError: If the model has no softmax or no vocabulary (official files never have),
                is not known, damaged or contradictory, or the device absent.
            FileNotFoundError: If a file is missing, or the model is not in the cache while offline.
            OSError: If a download fails.
        """
        target = named_device(device)
        checkpoint = load(
            model, softmax=True, url=url, cache_dir=cache_dir, offline=offline, progress=progress
        )
        if checkpoint.softmax is None or checkpoint.vocabulary is None:
            raise ValueError(
                f"{model} has no softmax over a vocabulary, so it predicts no words (official "
                "files never have one): give a model of `elmo pretrain`"
            )
        if language is None:
            language = RELEASED[str(model)].language if str(model) in RELEASED else "en"
        return cls(
            checkpoint.bilm.to(target),
            checkpoint.softmax.to(target),
            checkpoint.vocabulary,
            language=language,
        )

    @property
    def tokenizer(self) -> Tokenizer:
        """What splits raw text."""
        if self._tokenizer is None or self._tokenizer.language != self.language:
            self._tokenizer = Tokenizer(self.language)
        return self._tokenizer

    def perplexity(
        self,
        sentences: Iterable[Any],
        *,
        state: str = "zero",
        batch_tokens: int = 4096,
        progress: Progress | None = None,
    ) -> Perplexity:
        """Perplexity of each direction, by the full softmax.

        Args:
            sentences: Raw or tokenized; those without tokens are left out.
            state: As for `elmo.pretrain.perplexity.perplexity`, like those that follow.

        Raises:
            TypeError: If `sentences` is one string, or a sentence is neither text nor tokens.
            ValueError: If there is no token, or the state is no choice.
        """
        return self.perplexity_sums(
            sentences, state=state, batch_tokens=batch_tokens, progress=progress
        ).result()

    def perplexity_sums(
        self,
        sentences: Iterable[Any],
        *,
        state: str = "zero",
        batch_tokens: int = 4096,
        progress: Progress | None = None,
    ) -> PerplexitySums:
        """As `perplexity`, as sums that can be added to those of another text."""
        return perplexity_sums(
            self.model,
            self.vocabulary,
            self._tokenized(sentences),
            state=state,
            batch_tokens=batch_tokens,
            progress=progress,
            reader=self._reader,
        )

    def score(
        self,
        sentences: Iterable[Any],
        *,
        unit: str = "bits",
        both: bool = True,
        state: str = "zero",
        batch_tokens: int = 4096,
        progress: Progress | None = None,
    ) -> list[SentenceScore]:
        """How surprising each sentence is, and each of its tokens.

        Args:
            sentences: Raw or tokenized; one without tokens keeps its place.
            unit: Of −log p: `bits` or `nats`.
            both: Whether to combine the directions too, which takes twice the time.
            state: As for `elmo.pretrain.perplexity.perplexity`, like those that follow.

        Raises:
            TypeError: If `sentences` is one string, or a sentence is neither text nor tokens.
            ValueError: If the unit or the state is no choice, or a token is `<S>` or `</S>`.

        Example:
            >>> (score,) = predictor.score(["The cat sat down."])
            >>> score.tokens, score.combined.tokens, score.forward_lm.total
        """
        return list(
            self.score_stream(
                sentences,
                unit=unit,
                both=both,
                state=state,
                batch_tokens=batch_tokens,
                progress=progress,
            )
        )

    def score_stream(
        self,
        sentences: Iterable[Any],
        *,
        unit: str = "bits",
        both: bool = True,
        state: str = "zero",
        batch_tokens: int = 4096,
        progress: Progress | None = None,
    ) -> Iterator[SentenceScore]:
        """As `score`, one after the other, in memory that does not grow with the text."""
        return scores(
            self.model,
            self.vocabulary,
            self._tokenized(sentences),
            unit=unit,
            both=both,
            state=state,
            batch_tokens=batch_tokens,
            progress=progress,
            reader=self._reader,
        )

    def substitutes(
        self,
        sentence: str | Sequence[str],
        position: int | None = None,
        *,
        n: int = 10,
        direction: str = "both",
    ) -> Substitutes:
        r"""The likeliest words for a place in a sentence.

        Args:
            sentence: Raw text in which [brackets] mark a word (one of the text itself is written
                `\[`), or tokens.
            position: Of tokens, which one, from 0.
            n: How many words.
            direction: `forward` looks at what stands left of the place, `backward` at what stands
                right, `both` combines them as `elmo.predict.place` says.

        Raises:
            TypeError: If a position is missing or one too many.
            ValueError: If the text marks no word or several, the position is not in the sentence,
                the direction is no choice, or no word is wanted.

        Example:
            >>> predictor.substitutes("We sat on the river [bank].").candidates[0].word
            >>> predictor.substitutes(["We", "sat", "on", "the", "bank"], 4, direction="forward")
        """
        if isinstance(sentence, str):
            if position is not None:
                raise TypeError(
                    f"position is {position}, but in raw text [brackets] mark the word: pass "
                    "tokens, or no position"
                )
            place = marked_place(sentence, self.tokenizer)
        else:
            if position is None:
                raise TypeError("position is missing: which of the tokens is to be replaced?")
            place = Place(sentence, position)
        (found,) = self.substitutes_stream([place], n=n, direction=direction)
        return found

    def substitutes_stream(
        self,
        places: Iterable[str | tuple[Sequence[str], int]],
        *,
        n: int = 10,
        direction: str = "both",
        batch_tokens: int = 4096,
    ) -> Iterator[Substitutes]:
        """As `substitutes`, for many sentences, one after the other.

        Args:
            places: Raw texts with a word in [brackets], or pairs of tokens and a position.
            n: As for `substitutes`, like `direction`.
            batch_tokens: Tokens per forward pass, padding included.
        """
        return substitutes(
            self.model,
            self.vocabulary,
            (
                marked_place(place, self.tokenizer) if isinstance(place, str) else Place(*place)
                for place in places
            ),
            n=n,
            direction=direction,
            batch_tokens=batch_tokens,
            reader=self._reader,
        )

    def _tokenized(self, sentences: Iterable[Any]) -> Iterator[Any]:
        if isinstance(sentences, str):
            raise TypeError(
                f"sentences is the string {sentences[:40]!r}, but several are wanted: pass a list"
            )
        return (
            [token.text for token in self.tokenizer(s)] if isinstance(s, str) else s
            for s in sentences
        )
