"""What a run starts from: text in numbers, words to predict, a model before its first step."""

import logging
from pathlib import Path

import torch

from elmo.checkpoints.folder import Checkpoint
from elmo.config import BiLMConfig
from elmo.model.bilm import BiLM
from elmo.model.softmax import Softmax
from elmo.model.softmax_adaptive import AdaptiveSoftmax, AnySoftmax
from elmo.pretrain.adaptation import Beginning, begin, domain_vocabulary
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.prepare import Progress, open_prepared, prepare
from elmo.pretrain.processes import Processes
from elmo.pretrain.recipe import PretrainRecipe, StartConfig
from elmo.pretrain.run_folder import CORPUS_FOLDER

logger = logging.getLogger(__name__)


def adaptation_start(
    recipe: PretrainRecipe, settings: StartConfig, origin: Checkpoint, corpus: Corpus
) -> tuple[Corpus, Beginning]:
    """The corpus with the words to predict, and the trained model with a softmax over them."""
    counts = corpus.counts()
    vocabulary = domain_vocabulary(
        None if origin.softmax is None else origin.vocabulary,
        counts,
        how=settings.vocabulary,
        max_words=None if recipe.corpus is None else recipe.corpus.max_words,
        min_count=2 if recipe.corpus is None else recipe.corpus.min_count,
    )
    start = begin(
        origin,
        vocabulary,
        counts,
        corpus.n_sentences,
        dropout=settings.dropout,
        softmax_share=settings.softmax_share,
    )
    logger.info(
        "starting from %s: %s words, %s of them new to it; %s of its words are left out",
        settings.model,
        f"{len(vocabulary):,}",
        f"{start.n_new:,}",
        f"{start.n_forgotten:,}",
    )
    return corpus.with_vocabulary(vocabulary), start


def corpora(
    recipe: PretrainRecipe,
    processes: Processes,
    max_chars: int,
    n_processes: int,
    progress: Progress | None,
) -> tuple[Corpus, Corpus | None]:
    """What to learn from, and what is held out; the first process prepares it if need be."""
    folder = Path(recipe.prepared or Path(recipe.output) / CORPUS_FOLDER)
    if processes.first and recipe.corpus is not None:
        prepare(
            recipe.corpus,
            folder,
            max_chars=max_chars,
            n_processes=n_processes,
            progress=progress,
        )
    processes.wait()
    prepared = open_prepared(folder)
    counts = prepared.counts
    logger.info(
        "%s tokens in %s sentences, %s distinct; vocabulary of %s words, %.2f %% of tokens outside",
        f"{counts.n_tokens:,}",
        f"{counts.n_sentences:,}",
        f"{counts.n_types:,}",
        f"{counts.n_words:,}",
        100 * counts.n_unknown / max(1, counts.n_tokens),
    )
    if prepared.heldout is None:
        logger.warning("no text is held out, so nothing tells when to stop: give corpus.heldout")
    return prepared.train, prepared.heldout


def new_model(recipe: PretrainRecipe, n_words: int) -> LanguageModel:
    """A model with the weights that the recipe's seed draws."""
    torch.manual_seed(recipe.seed)
    config = recipe.model or BiLMConfig()
    bilm = BiLM(config)
    bilm.reset_parameters()
    dim = config.lstm.dim
    softmax: AnySoftmax = (
        AdaptiveSoftmax(n_words, dim, recipe.adaptive_softmax)
        if recipe.training.softmax == "adaptive"
        else Softmax(n_words, dim)
    )
    softmax.reset_parameters()
    return LanguageModel(bilm, softmax)
