"""A pre-training run: recipe in, model folder out."""

import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.model import lstm_window, softmax_chunked
from elmo.model.bilm import BiLM
from elmo.model.device import named_device
from elmo.model.lstm import LayerState
from elmo.model.lstm_window_cuda import WindowGraphs
from elmo.model.softmax import Softmax, draw_negatives
from elmo.pretrain.corpus import Corpus, build_corpus, find_files, read_sentences
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import Perplexity, perplexity
from elmo.pretrain.recipe import PretrainRecipe
from elmo.pretrain.shuffle import Shuffled
from elmo.pretrain.windows import Windows
from elmo.text import Vocabulary
from elmo.training import Budget, MetricLog, Optimiser

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever draws it.

    Attributes:
        share: Of the budget that is used, 0 to 1.
        step: Windows read.
        tokens_per_second: Tokens predicted per direction, since the last report.
        forward_lm: exp of the training loss; by a sampled softmax this is no perplexity.
        backward_lm: Likewise.
    """

    share: float
    step: int
    tokens_per_second: float
    forward_lm: float
    backward_lm: float


def pretrain(
    recipe: PretrainRecipe, *, report: Callable[[Progress], object] | None = None
) -> tuple[LanguageModel, Perplexity | None]:
    """Train a biLM from text.

    Writes into the recipe's output folder: the model with its vocabulary and softmax (every few
    minutes, at the end, and on Ctrl-C), `metrics.jsonl` and TensorBoard events.

    Args:
        recipe: What to do.
        report: Called whenever a line of the metric log is written.

    Returns:
        The model, and its perplexity on all held-out text (None without any).

    Raises:
        FileNotFoundError: If a file of text is missing.
        ValueError: If the corpus is empty or too small for one window, the device is absent, or the
            loss is not finite.
    """
    output, device = Path(recipe.output), named_device(recipe.training.device)
    train_files, heldout_files = (
        find_files(recipe.corpus.train),
        find_files(recipe.corpus.heldout),
    )
    both = set(map(os.path.realpath, train_files)) & set(map(os.path.realpath, heldout_files))
    if both:
        raise ValueError(f"{sorted(both)[0]} is both in corpus.train and in corpus.heldout")
    vocabulary = (
        None if recipe.corpus.vocabulary is None else Vocabulary.read(recipe.corpus.vocabulary)
    )
    logger.info("reading %d files", len(train_files))
    corpus = build_corpus(
        read_sentences(train_files),
        vocabulary,
        max_words=recipe.corpus.max_words,
        min_count=recipe.corpus.min_count,
        max_chars=recipe.model.char_cnn.max_chars,
    )
    heldout = list(read_sentences(heldout_files))
    logger.info(
        "%s tokens in %s sentences, %s distinct; vocabulary of %s words",
        f"{corpus.n_tokens:,}",
        f"{corpus.n_sentences:,}",
        f"{len(corpus.types):,}",
        f"{len(corpus.vocabulary):,}",
    )
    model = new_model(recipe, len(corpus.vocabulary)).to(device)
    with MetricLog(output, tensorboard=recipe.log.tensorboard) as log:
        try:
            _train(recipe, corpus, heldout, model, log, report)
        except KeyboardInterrupt:
            save(model, corpus.vocabulary, output)
            logger.warning("interrupted; the model so far is in %s", output)
            raise
        model.eval()
        save(model, corpus.vocabulary, output)
        if not heldout:
            return model, None
        final = perplexity(model, corpus.vocabulary, heldout)
        log.write(-1, _measures(final))
    return model, final


def new_model(recipe: PretrainRecipe, n_words: int) -> LanguageModel:
    """A model with the weights that the recipe's seed draws."""
    torch.manual_seed(recipe.seed)
    bilm = BiLM(recipe.model)
    bilm.reset_parameters()
    softmax = Softmax(n_words, recipe.model.lstm.dim)
    softmax.reset_parameters()
    return LanguageModel(bilm, softmax)


def save(model: LanguageModel, vocabulary: Vocabulary, folder: Path) -> None:
    """Write a model with its vocabulary and softmax in our format."""
    save_folder(Checkpoint(model.bilm, vocabulary, model.softmax), folder)


def _train(
    recipe: PretrainRecipe,
    corpus: Corpus,
    heldout: list[list[str]],
    model: LanguageModel,
    log: MetricLog,
    report: Callable[[Progress], object] | None,
) -> None:
    settings, output = recipe.training, Path(recipe.output)
    if settings.compile:
        compile_cells()
    dtype = getattr(torch, settings.dtype)
    rng = np.random.default_rng(recipe.seed)
    tokens_per_step = settings.n_rows * settings.n_steps
    n_predicted = corpus.n_tokens + corpus.n_sentences
    budget = Budget(
        max(1, int(settings.n_epochs * n_predicted / tokens_per_step)), settings.minutes
    )
    n_negatives = min(settings.n_negatives, len(corpus.vocabulary))
    sparse = list(model.softmax.parameters()) if n_negatives else []
    dense = [p for p in model.parameters() if not any(p is s for s in sparse)]
    optimiser = Optimiser(recipe.optimiser, dense, sparse)
    some = heldout[:: max(1, len(heldout) // max(1, recipe.log.heldout_sentences))]
    state, read, device = model.zero_state(settings.n_rows), WindowGraphs(), dense[0].device
    model.train()
    lines, saved, since = time.monotonic(), time.monotonic(), 0
    sums = torch.zeros(2, device=device)
    for step, window in enumerate(
        Windows(
            corpus,
            Shuffled(corpus.n_sentences, recipe.seed),
            n_rows=settings.n_rows,
            n_steps=settings.n_steps,
        ),
        start=1,
    ):
        negatives = (
            draw_negatives(len(corpus.vocabulary), n_negatives, rng) if n_negatives else None
        )
        losses = model(
            window,
            corpus.char_ids,
            state,
            negatives=negatives,
            carry=settings.carry,
            dtype=dtype,
            read=read,
        )
        # As the original: the mean over tokens, times the steps of a window.
        (losses.total * settings.n_steps).backward()
        state = [LayerState(layer.h.detach(), layer.c.detach()) for layer in losses.state]
        share = budget.progress(step - 1)
        norm = optimiser.step(share)
        since += 1
        sums += torch.stack([losses.forward_lm.detach(), losses.backward_lm.detach()])
        if not math.isfinite(norm):
            raise ValueError(f"step {step}: the gradient is not finite; lower the learning rate")
        share, now = budget.progress(step), time.monotonic()
        if step % recipe.log.every_steps == 0 or share >= 1:
            forward_lm, backward_lm = (sums / since).exp().tolist()
            speed = since * tokens_per_step / (now - lines)
            kind = "sampled" if n_negatives else "full"
            log.write(
                step,
                {
                    f"train/forward_exp_loss_{kind}": forward_lm,
                    f"train/backward_exp_loss_{kind}": backward_lm,
                    "train/gradient_norm": norm,
                    "train/learning_rate": optimiser.rate(share),
                    "train/tokens_per_second": speed,
                    "train/tokens": step * tokens_per_step,
                },
            )
            if report is not None:
                report(Progress(share, step, speed, forward_lm, backward_lm))
            lines, since, sums = now, 0, torch.zeros(2, device=device)
        if now - saved > recipe.log.save_minutes * 60 and share < 1:
            model.eval()
            save(model, corpus.vocabulary, output)
            if some:
                measured = perplexity(model, corpus.vocabulary, some)
                log.write(step, _measures(measured))
                logger.info("step %d: held-out %s", step, measured)
            model.train()
            lines = saved = time.monotonic()
            since, sums = 0, torch.zeros(2, device=device)
        if share >= 1:
            return


def compile_cells() -> None:
    """Fuse the arithmetic between matrix products: fewer passes over memory, the same formulas."""
    for module, name in (
        (lstm_window, "cell_forward"),
        (lstm_window, "cell_backward"),
        (softmax_chunked, "probabilities"),
    ):
        function = getattr(module, name)
        setattr(module, name, torch.compile(function, dynamic=name == "probabilities" or None))


def _measures(measured: Perplexity) -> dict[str, float]:
    return {
        "heldout/forward_perplexity_full": measured.forward_lm,
        "heldout/backward_perplexity_full": measured.backward_lm,
        "heldout/tokens": measured.n_tokens,
    }
