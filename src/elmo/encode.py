"""`Elmo`: sentences in, one contextual vector per token out.

Axes: layers, batch, tokens, dim.
"""

import hashlib
import logging
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.checkpoints import hub
from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.checkpoints.released import RELEASED
from elmo.checkpoints.sources import DEFAULT_MODEL, load
from elmo.model.bilm import BiLM, BiLMState
from elmo.model.device import named_device
from elmo.model.scalar_mix import ScalarMix
from elmo.reader import Mixing, Reader, check_reading
from elmo.store import VectorWriter, check_room
from elmo.text import (
    BEGIN_SENTENCE,
    END_SENTENCE,
    ERRORS,
    WHITESPACE,
    Errors,
    Tokenizer,
    Vocabulary,
    batch_char_ids,
    check_text,
    check_tokens,
    read_lines,
)

logger = logging.getLogger(__name__)

Sentences = Sequence[Any]
"""Raw texts (str), or tokenized sentences (sequences of str); we say ourselves which is neither."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8)
MANY_ROWS = 64
"""A batch of so many sentences is read in the way that is for large batches."""
LONG_INPUT = 1000
"""Sentences from which on a progress bar is shown, where someone can see it."""


class ElmoOutput(NamedTuple):
    """What `Elmo` gives a model that it is part of.

    Attributes:
        mixes: One per scalar mix; zero outside the mask.
        mask: True where a token is.
        state: LSTM state after the batch.
    """

    mixes: list[Float[Tensor, "batch tokens dim"]]
    mask: Bool[Tensor, "batch tokens"]
    state: BiLMState


class Written(NamedTuple):
    """What a file of vectors holds; tokens count `<S>` and `</S>` where those were asked for."""

    n_sentences: int
    n_tokens: int
    n_empty: int


class Elmo(nn.Module):
    """Contextual vectors of tokens, by a biLM and mixes of its layers.

    To get vectors, call `encode`, `encode_tokens` or `encode_layers`. As a part of another model,
    call it on tokenized sentences: the mixes then learn with that model.

    Args:
        bilm: The network below the mixes.
        vocabulary: The words of the softmax that it was trained with; only saved again.
        language: Whose rules split raw text into tokens (see `elmo.text.Tokenizer`).
        n_mixes: Scalar mixes over one pass, for models that take vectors in at several places.
        layer_norm: Whether mixes normalise each layer first. Then, and only then, a vector of
            `forward` depends on the batch; the `encode…` methods normalise each sentence alone.
        l2: λ of the penalty on each mix's weights.
        dropout: Of the mixes in training mode. 0.5 is the original's.
        boundaries: Whether `forward` keeps the vectors of `<S>` and `</S>`.
        fine_tune: Whether the biLM's weights learn too. Otherwise it never changes, and never drops
            out.
        mixes: Instead of new ones, in place of `n_mixes`, `layer_norm` and `l2`.
        cache_tokens: Tokens of which the character CNN's vectors are remembered.
        int8: Whether vectors are computed by products of 8-bit numbers in the LSTMs; see
            `from_pretrained`.

    Source:
        Peters et al. (2018), sections 3.2 and 3.3; `Elmo` in AllenNLP.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        vocabulary: Vocabulary | None = None,
        language: str = "en",
        n_mixes: int = 1,
        layer_norm: bool = False,
        l2: float = 0.0,
        dropout: float = 0.5,
        boundaries: bool = False,
        fine_tune: bool = False,
        mixes: Sequence[ScalarMix] = (),
        cache_tokens: int = 50_000,
        int8: bool = False,
    ) -> None:
        super().__init__()
        if n_mixes < 1:
            raise ValueError(f"n_mixes is {n_mixes}, but at least 1 is wanted")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout is {dropout}, but must be at least 0 and below 1")
        self.bilm = bilm.requires_grad_(fine_tune)
        n_layers = bilm.config.n_layers
        self.mixes = nn.ModuleList(
            mixes or (ScalarMix(n_layers, layer_norm=layer_norm, l2=l2) for _ in range(n_mixes))
        )
        self.vocabulary = vocabulary
        self.language = language
        self.dropout = dropout
        self.boundaries = boundaries
        self.fine_tune = fine_tune
        self._tokenizer: Tokenizer | None = None
        self._reader = Reader(bilm, cache_tokens, int8)
        self.eval()

    @classmethod
    def from_pretrained(
        cls,
        model: str | Path = DEFAULT_MODEL,
        *,
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float32,
        language: str | None = None,
        n_mixes: int | None = None,
        layer_norm: bool = False,
        l2: float = 0.0,
        dropout: float = 0.5,
        boundaries: bool = False,
        fine_tune: bool = False,
        cache_tokens: int = 50_000,
        url: str | tuple[str, str] | None = None,
        cache_dir: Path | str | None = None,
        offline: bool | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> "Elmo":
        """A model with trained weights.

        Args:
            model: `default`, which lies in the package; the name of a released model; a folder in
                our format; a folder with `options.json` and one `*.hdf5`; a Hub repository.
            device: Where to compute; `auto` takes a GPU if there is one.
            dtype: Of weights and arithmetic. `torch.bfloat16` is several times faster on
                processors made for it; `torch.int8` rounds the LSTMs' weights, and what they are
                multiplied by, to 8 bits and leaves the rest in float32. How far their vectors are
                from those of float32 is in the guide to vectors, which are float32 in any case.
            language: Whose rules split raw text; None for the model's, if known, else English.
            n_mixes: As for `Elmo`, like those that follow; None for the mixes stored with the
                model, or else one.
            url: As for `elmo.checkpoints.sources.locate`, like those that follow.

        Raises:
            ValueError: If the model is not known, damaged or contradictory, or the device absent.
            FileNotFoundError: If a file is missing, or the model is not in the cache while offline.
            OSError: If a download fails.

        Example:
            >>> elmo = Elmo.from_pretrained()
            >>> [vectors.shape for vectors in elmo.encode_tokens(["We sat down.", "Why?"])]
            [(4, 512), (2, 512)]
        """
        target = named_device(device)
        if dtype not in DTYPES:
            raise TypeError(
                f"dtype is {dtype!r}, but expected one of {', '.join(map(str, DTYPES))}"
            )
        if dtype == torch.int8 and target.type != "cpu":
            raise ValueError(
                f"dtype is torch.int8, which is for the CPU, but the device is {target}: pass "
                'device="cpu", or dtype=torch.bfloat16'
            )
        checkpoint = load(model, url=url, cache_dir=cache_dir, offline=offline, progress=progress)
        stored = checkpoint.mixes if n_mixes is None else ()
        if layer_norm and not all(mix.layer_norm for mix in stored):
            raise ValueError(
                f"layer_norm is True, but {model} brings mixes of its own without it: pass n_mixes "
                "to begin with new ones"
            )
        for mix in stored:
            mix.l2 = l2
        if language is None:
            language = RELEASED[str(model)].language if str(model) in RELEASED else "en"
        elmo = cls(
            checkpoint.bilm,
            vocabulary=checkpoint.vocabulary,
            language=language,
            n_mixes=n_mixes or 1,
            layer_norm=layer_norm,
            l2=l2,
            dropout=dropout,
            boundaries=boundaries,
            fine_tune=fine_tune,
            mixes=stored,
            cache_tokens=cache_tokens,
            int8=dtype == torch.int8,
        )
        elmo.bilm.to(target, torch.float32 if dtype == torch.int8 else dtype)
        return elmo.to(target)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write biLM, vocabulary and mixes in our format; `from_pretrained` reads them again."""
        mixes = [mix for mix in self.mixes if isinstance(mix, ScalarMix)]
        save_folder(Checkpoint(self.bilm, self.vocabulary, mixes=mixes), folder)

    def push_to_hub(
        self,
        repository: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        message: str | None = None,
    ) -> str:
        """Save the model into a repository on the Hugging Face Hub, and give the commit's address.

        Args:
            repository: `owner/name`, or `name` for one's own account.
            private: Whether a new repository is private; None for the account's default.
            token: Of the Hub; None for the one that `hf auth login` stored.
            message: Of the commit.

        Raises:
            ConnectionError: If the Hub cannot be reached or refuses.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.upload_folder(
                Path(folder), repository, private=private, token=token, message=message
            )

    @property
    def n_layers(self) -> int:
        """Layers, the character CNN included: 3 in every released model."""
        return self.bilm.config.n_layers

    @property
    def dim(self) -> int:
        """Width of a vector: both directions."""
        return 2 * self.bilm.config.lstm.dim

    def tokenize(self, text: str) -> list[str]:
        """Tokens of a raw text, as the `encode…` methods split it."""
        return _split(text, self.tokenizer)

    @property
    def tokenizer(self) -> Tokenizer:
        """What splits raw text; made when it is first used."""
        if self._tokenizer is None or self._tokenizer.language != self.language:
            self._tokenizer = Tokenizer(self.language)
        return self._tokenizer

    def warm_up(self) -> None:
        """Do now what the first calls would wait for: the tokenizer, weights made ready.

        For a server, say. Without it the first sentence, and the first large batch, take longer, by
        tenths of a second with the largest models.
        """
        self.encode_tokens(["A word."])
        for n_rows in (1, 2, MANY_ROWS):
            self.encode_tokens([["word"]] * n_rows)

    def encode(
        self,
        sentences: Sentences,
        *,
        layers: int | str = "mix",
        state: str = "zero",
        normalise: bool = False,
        batch_tokens: int = 8192,
        progress: bool | None = None,
    ) -> Float[np.ndarray, "sentences dim"]:
        """One vector per sentence: the mean of its tokens' vectors, boundaries not among them.

        A sentence without tokens gets zeros, and a warning is logged.

        Args:
            sentences: As for `encode_tokens`, like those that follow.
            normalise: Whether to scale each sentence's vector to length 1.

        Raises:
            TypeError: As for `encode_tokens`.
            ValueError: As for `encode_tokens`.
        """
        tokenized = self._tokenized(sentences)
        read = self._reader.read(tokenized, self._mixing(layers), state, batch_tokens)
        vectors = np.zeros((len(tokenized), self.dim), dtype=np.float32)
        with _progress_bar(len(tokenized), progress) as advance:
            for i, of_sentence in enumerate(read):
                if of_sentence.shape[1]:
                    vectors[i] = of_sentence[0].mean(axis=0, dtype=np.float64)
                advance(1)
        if n_empty := sum(not sentence for sentence in tokenized):
            logger.warning(
                "%d of %d sentences have no token; their vectors are zero", n_empty, len(tokenized)
            )
        return _normalised(vectors) if normalise else vectors

    def encode_tokens(
        self,
        sentences: Sentences,
        *,
        layers: int | str = "mix",
        state: str = "zero",
        boundaries: bool = False,
        normalise: bool = False,
        batch_tokens: int = 8192,
        progress: bool | None = None,
    ) -> list[Float[np.ndarray, "tokens dim"]]:
        """One vector per token.

        With `state="zero"` each sentence is read on its own: neither its neighbours, nor their
        order, nor `batch_tokens` change a vector, beyond rounding of the dtype.

        Args:
            sentences: Raw texts, each split as `tokenize` does; or tokenized sentences of any
                lengths. Case matters: the model reads bytes.
            layers: `mix` for the model's (first) scalar mix, by default the mean of all layers; or
                the number of one layer, negative from the top.
            state: `zero` starts every sentence from zero; `carry` reads all as one stream, as the
                originals do, so that a vector depends on what came before; `settled` starts every
                sentence from the state in which the model comes to rest between empty sentences.
            boundaries: Whether to give vectors of `<S>` and `</S>` too, first and last.
            normalise: Whether to scale each vector to length 1.
            batch_tokens: Tokens per pass, padding included. Trades memory for speed.
            progress: Whether to show a bar on stderr; None for long input at a terminal.

        Returns:
            One float32 array per sentence, in input order; of shape (0, dim) for a sentence without
            tokens.

        Raises:
            TypeError: If `sentences` is one string, or holds texts and tokenized sentences.
            ValueError: If a setting is none of its choices, or a token holds a lone surrogate or a
                NUL.
        """
        tokenized = self._tokenized(sentences)
        read = self._reader.read(tokenized, self._mixing(layers), state, batch_tokens, boundaries)
        with _progress_bar(len(tokenized), progress) as advance:
            vectors = [_counted(of_sentence[0], advance) for of_sentence in read]
        return [_normalised(v) for v in vectors] if normalise else vectors

    def encode_layers(
        self,
        sentences: Sentences,
        *,
        state: str = "zero",
        boundaries: bool = False,
        normalise: bool = False,
        batch_tokens: int = 8192,
        progress: bool | None = None,
    ) -> list[Float[np.ndarray, "layers tokens dim"]]:
        """One vector per token and layer.

        Args:
            sentences: As for `encode_tokens`, like those that follow.

        Returns:
            One float32 array per sentence, in input order. Layer 0 is the character CNN, repeated
            to fill `dim`; each later layer holds the left-to-right state in the first half of `dim`
            and the right-to-left state in the second.

        Raises:
            TypeError: As for `encode_tokens`.
            ValueError: As for `encode_tokens`.

        Example:
            >>> elmo.encode_layers([["Stick", "to", "it"], ["A", "walking", "stick"]])[1].shape
            (3, 3, 512)

        Source:
            Peters et al. (2018), section 3.2; layer order as in `allenai/bilm-tf`.
        """
        tokenized = self._tokenized(sentences)
        read = self._reader.read(tokenized, None, state, batch_tokens, boundaries)
        with _progress_bar(len(tokenized), progress) as advance:
            vectors = [_counted(of_sentence, advance) for of_sentence in read]
        return [_normalised(v) for v in vectors] if normalise else vectors

    def encode_file(
        self,
        input: str | Path,
        output: str | Path,
        *,
        layers: int | str = "all",
        tokenized: bool = False,
        state: str = "zero",
        boundaries: bool = False,
        normalise: bool = False,
        errors: Errors = "strict",
        batch_tokens: int = 8192,
        force: bool = False,
        resume: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> Written:
        """Vectors of a file of text, one sentence per line, into a file; memory stays bounded.

        A line without tokens is kept as a sentence without vectors. The output appears when it is
        whole; until then what was computed lies beside it, for `resume`.

        Args:
            input: UTF-8 text, `.gz` or `.xz` decompressed.
            output: `.hdf5` (one array (layers, tokens, dim) per line, named "0", "1", …, as bilm-tf
                writes), `.npz` or `.parquet`; see `elmo.store`.
            layers: `all`, or one layer that is written as the only one: `mix` or a number.
            tokenized: Whether tokens are separated by white space already.
            state: As for `encode_tokens`, like those that follow.
            errors: `strict` refuses invalid UTF-8 and NUL characters, naming the line; `replace`
                reads U+FFFD in their place.
            force: Replace an existing output.
            resume: Go on with what an interrupted run left, under the same settings.
            progress: Called with the number of lines done since the last call.

        Returns:
            What the output holds.

        Raises:
            FileExistsError: If the output exists, or an unfinished one, and nothing says what to
                do with it.
            FileNotFoundError: If the input, or the folder of the output, does not exist.
            ValueError: If a line is not UTF-8, a setting is none of its choices, or the unfinished
                output came from other settings, another input or model.
            OSError: If the disk is full.
        """
        input, output = Path(input), Path(output)
        transform = None if layers == "all" else self._mixing(layers)
        tokenizer = Tokenizer(WHITESPACE) if tokenized else self.tokenizer
        n_layers = self.n_layers if transform is None else 1
        settings = {
            "layers": layers,
            "language": tokenizer.language,
            "state": state,
            "boundaries": boundaries,
            "normalise": normalise,
            "errors": errors,
            "input": _fingerprint_of_file(input),
            "model": self._fingerprint(),
            "int8": self._reader.int8,
        }
        check_reading(state, batch_tokens)
        if errors not in ERRORS:
            raise ValueError(f"errors is {errors!r}, but expected one of {', '.join(ERRORS)}")
        edges = ([BEGIN_SENTENCE], [END_SENTENCE]) if boundaries else ([], [])
        # Far fewer tokens than any text of that size has; compressed text has more.
        if output.parent.is_dir():
            check_room(output, input.stat().st_size // 20 * n_layers * self.dim * 4)
        waiting: deque[list[str]] = deque()

        def sentences() -> Iterator[list[str]]:
            for line in read_lines(input, errors):
                waiting.append(_split(line, tokenizer))
                yield waiting[-1]

        n_empty = 0
        with VectorWriter(
            output,
            n_layers=n_layers,
            dim=self.dim,
            settings=settings,
            force=force,
            resume=resume,
        ) as writer:
            n_done = writer.n_sentences
            lines = sentences()
            if state != "carry":  # a carried state depends on every line before
                for _, sentence in zip(range(n_done), lines, strict=False):
                    n_empty += not sentence
                    waiting.clear()
                if progress is not None and n_done:
                    progress(n_done)
            first = 0 if state == "carry" else n_done
            read = self._reader.read(lines, transform, state, batch_tokens, boundaries)
            for i, of_sentence in enumerate(read, start=first):
                tokens = waiting.popleft()
                n_empty += not tokens
                if i >= n_done:
                    vectors = _normalised(of_sentence) if normalise else of_sentence
                    writer.append([*edges[0], *tokens, *edges[1]], vectors)
                if progress is not None:
                    progress(1)
            n_sentences, n_tokens = writer.n_sentences, writer.n_tokens
        return Written(n_sentences, n_tokens, n_empty)

    def forward(
        self,
        sentences: Sequence[Any] | Int[Tensor, "batch tokens chars"],
        state: BiLMState | None = None,
    ) -> ElmoOutput:
        """Mixed vectors of a batch, padded, with gradients: for use inside another model.

        Args:
            sentences: Tokenized; or character ids with boundaries, as
                `elmo.text.batch_char_ids` makes them.
            state: To start from; None for zero.

        Raises:
            TypeError: If a sentence is a string instead of a sequence of tokens.
        """
        learns = self.fine_tune and (self.training or torch.is_grad_enabled())
        with nullcontext() if learns else torch.no_grad():
            if not isinstance(sentences, Tensor):
                for i, sentence in enumerate(sentences):
                    check_tokens(sentence, i)
            if learns or isinstance(sentences, Tensor):
                tokens, mask = self.bilm.embed(self._char_ids(sentences))
            else:
                tokens, mask = self._reader.batch([list(sentence) for sentence in sentences])
            read = self.bilm.read if learns else self._reader.read_padded
            output = read(tokens, mask, state)
        # The biLM may compute with shorter numbers than the mixes.
        layers = output.layers.to(next(self.mixes.parameters()).dtype)
        mixes = [mix(layers, output.mask) for mix in self.mixes]
        mask = output.mask
        if not self.boundaries:
            mask = mask[:, 2:]
            mixes = [mix[:, 1:-1] for mix in mixes]
        mixes = [
            functional.dropout(mix * mask.unsqueeze(-1), self.dropout, self.training)
            for mix in mixes
        ]
        return ElmoOutput(mixes, mask, output.state)

    def _char_ids(self, sentences: Sequence[Any] | Tensor) -> Tensor:
        if not isinstance(sentences, Tensor):
            max_chars = self.bilm.config.char_cnn.max_chars
            sentences = torch.from_numpy(batch_char_ids(sentences, max_chars))
        return sentences.to(self.bilm.char_cnn.embedding.weight.device)

    def penalty(self) -> Float[Tensor, ""]:
        """λ‖w‖² of all mixes, to be added to a task's loss (section 3.3)."""
        penalties = [mix.penalty() for mix in self.mixes if isinstance(mix, ScalarMix)]
        return torch.stack(penalties).sum()

    def train(self, mode: bool = True) -> "Elmo":
        """Training or evaluation mode; a biLM that does not learn stays in evaluation mode."""
        super().train(mode)
        self.bilm.train(mode and self.fine_tune)
        return self

    def _tokenized(self, sentences: Sentences) -> list[list[Any]]:
        if isinstance(sentences, str):
            raise TypeError(
                f"sentences is the string {_short(sentences)}, but a sequence of sentences is "
                "wanted: for one text, pass [text]"
            )
        if not isinstance(sentences, Sequence):
            raise TypeError(
                f"sentences is {type(sentences).__name__}, but a sequence of sentences is wanted"
            )
        if not sentences:
            return []
        tokenized = []
        raw = isinstance(sentences[0], str)
        for i, sentence in enumerate(sentences):
            if not raw:
                check_tokens(sentence, i)
                tokenized.append(list(sentence))
            elif isinstance(sentence, str):
                tokenized.append(_split(sentence, self.tokenizer, f"sentences[{i}]"))
            else:
                raise TypeError(
                    f"sentences[{i}] is {type(sentence).__name__}, but sentences[0] is a text: "
                    "pass either texts or tokenized sentences"
                )
        return tokenized

    def _mixing(self, layers: Any) -> Mixing:
        """All layers of one sentence → the one wanted."""
        if layers == "mix":
            return self.mixes[0]
        if isinstance(layers, bool) or not isinstance(layers, int | np.integer):
            raise ValueError(
                f'layers is {layers!r}, but expected a mix or one layer: "mix" or a number from '
                f"0 to {self.n_layers - 1}"
            )
        if not -self.n_layers <= layers < self.n_layers:
            raise ValueError(
                f"layers is {layers}, but the model has layers 0 to {self.n_layers - 1}"
            )
        return lambda of_batch: of_batch[layers]

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, value in self.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().to("cpu", torch.float32).contiguous().numpy().data)
        return digest.hexdigest()


def _split(text: str, tokenizer: Tokenizer, name: str = "the text") -> list[str]:
    check_text(text, name)
    return [token.text for token in tokenizer(text)]


def _normalised(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, np.float32(1))


def _counted(vectors: np.ndarray, advance: Callable[[int], object]) -> np.ndarray:
    advance(1)
    return vectors


def _fingerprint_of_file(path: Path) -> str:
    """Size, and a digest of the first and last MiB: another text is noticed, without reading it."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a text file was expected")
    size = path.stat().st_size
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(1 << 20))
        file.seek(max(0, size - (1 << 20)))
        digest.update(file.read(1 << 20))
    return f"{size} {digest.hexdigest()}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


@contextmanager
def _progress_bar(n: int, wanted: bool | None) -> Iterator[Callable[[int], object]]:
    if wanted is None:
        wanted = n >= LONG_INPUT and sys.stderr.isatty()
    if not wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("Encoding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=n)
        yield lambda done: bar.advance(task, done)
