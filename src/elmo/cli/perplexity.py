"""`elmo perplexity`: how well does a model predict a text?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from elmo.cli import options
from elmo.cli.console import console, counting

if TYPE_CHECKING:
    from elmo.pretrain.perplexity import Perplexity


def perplexity(
    model: Annotated[str, Argument(help="A model with softmax and vocabulary.")],
    files: Annotated[
        list[Path], Argument(help="Text, one sentence per line, compressed or not; - for stdin.")
    ],
    raw: Annotated[
        bool, Option("--raw", help="Split lines into tokens; else white space separates them.")
    ] = False,
    language: Annotated[str, Option(help="Whose rules split raw text.")] = "en",
    state: Annotated[
        str, Option(help="Each sentence starts from: zero | carry (on, within a file)")
    ] = "zero",
    errors: options.Errors = "strict",
    batch_tokens: Annotated[int, Option(help="Tokens per pass, padding included.")] = 4096,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    device: options.Device = "auto",
    offline: options.Offline = False,
) -> None:
    """Print the perplexity of each direction on FILES, by the full softmax.

    Several files get a line each, before what they have together.

    For example: elmo perplexity default heldout.txt
    """
    from elmo.pretrain.perplexity import PerplexitySums
    from elmo.text import WHITESPACE, Tokenizer

    for file in files:
        options.existing_or_stdin(file)
    predictor = options.load_predictor(model, device=device, offline=offline)
    tokenizer = Tokenizer(language if raw else WHITESPACE)
    of_files = []
    with counting("Reading", None) as progress:
        for file in files:
            lines = options.lines(file, errors)
            sums = predictor.perplexity_sums(
                ([token.text for token in tokenizer(line)] for line in lines),
                state=state,
                batch_tokens=batch_tokens,
                progress=progress,
            )
            of_files.append(sums)
    total = sum(of_files, PerplexitySums()).result()
    parts = [
        (str(file), sums.result() if sums.n_tokens else None)
        for file, sums in zip(files, of_files, strict=True)
    ]
    if as_json:
        facts = {
            "state": state,
            **_facts(total),
            "files": [{"file": name, **_facts(of)} for name, of in parts],
        }
        print(json.dumps(facts, indent=2))
        return
    if len(parts) > 1:
        for name, of in parts:
            console.print(f"{name}: {_line(of)}")
    console.print(f"forward   {total.forward_lm:.3f}")
    console.print(f"backward  {total.backward_lm:.3f}")
    console.print(f"both      {total.average:.3f}  (exp of the mean loss)")
    console.print(f"{_counts(total)}; state {state}")


def _facts(of: "Perplexity | None") -> dict[str, Any]:
    if of is None:
        return {"forward": None, "backward": None, "both": None, "sentences": 0, "tokens": 0}
    return {
        "forward": of.forward_lm,
        "backward": of.backward_lm,
        "both": of.average,
        "sentences": of.n_sentences,
        "tokens": of.n_tokens - of.n_sentences,
        "predictions": of.n_tokens,
        "unknown": of.n_unknown,
    }


def _line(of: "Perplexity | None") -> str:
    if of is None:
        return "no tokens"
    return f"forward {of.forward_lm:.3f}, backward {of.backward_lm:.3f}; {_counts(of)}"


def _counts(of: "Perplexity") -> str:
    n_words = of.n_tokens - of.n_sentences
    return (
        f"{of.n_sentences:,} sentences, {n_words:,} tokens, {of.n_unknown:,} outside "
        f"the vocabulary ({of.n_unknown / max(1, n_words):.2%})"
    )
