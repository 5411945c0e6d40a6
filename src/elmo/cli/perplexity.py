"""`elmo perplexity`: how well does a model predict a text?"""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console, counting


def perplexity(
    model: Annotated[str, Argument(help="A model with softmax and vocabulary.")],
    files: Annotated[list[Path], Argument(help="Text, one sentence per line (.gz, .xz too).")],
    raw: Annotated[
        bool, Option("--raw", help="Split lines into tokens; else white space separates them.")
    ] = False,
    language: Annotated[str, Option(help="Whose rules split raw text.")] = "en",
    state: Annotated[str, Option(help="Each sentence starts from: zero | carry")] = "zero",
    errors: Annotated[str, Option(help="Invalid UTF-8 and NUL: strict | replace")] = "strict",
    batch_tokens: Annotated[int, Option(help="Tokens per pass, padding included.")] = 4096,
    offline: options.Offline = False,
) -> None:
    """Print the perplexity of each direction on FILES, by the full softmax.

    For example: elmo perplexity default heldout.txt
    """
    from elmo.checkpoints.sources import load
    from elmo.pretrain.language_model import LanguageModel
    from elmo.pretrain.perplexity import perplexity as measure
    from elmo.text import WHITESPACE, Tokenizer, read_lines

    for file in files:
        options.existing(file)
    checkpoint = load(model, softmax=True, offline=offline or None)
    if checkpoint.softmax is None or checkpoint.vocabulary is None:
        raise ValueError(
            f"{model} has no softmax over a vocabulary, so it predicts no words (official files "
            "never have one): give a model of `elmo pretrain`"
        )
    tokenizer = Tokenizer(language if raw else WHITESPACE)
    lines = (line for file in files for line in read_lines(file, errors))
    sentences = ([token.text for token in tokenizer(line)] for line in lines)
    with counting("Reading", None) as progress:
        measured = measure(
            LanguageModel(checkpoint.bilm, checkpoint.softmax).eval(),
            checkpoint.vocabulary,
            sentences,
            state=state,
            batch_tokens=batch_tokens,
            progress=progress,
        )
    n_words = measured.n_tokens - measured.n_sentences
    console.print(f"forward   {measured.forward_lm:.3f}")
    console.print(f"backward  {measured.backward_lm:.3f}")
    console.print(f"both      {measured.average:.3f}  (exp of the mean loss)")
    console.print(
        f"{measured.n_sentences:,} sentences, {n_words:,} tokens, {measured.n_unknown:,} outside "
        f"the vocabulary ({measured.n_unknown / max(1, n_words):.2%}); state {state}"
    )
