"""Held-out perplexity of n-gram models of a recipe's training text, estimated by KenLM.

    python benchmarks/kneser_ney.py MODEL RECIPE --kenlm FOLDER --out FILE.json

Interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1999), nothing pruned, over the
vocabulary of MODEL and with the predictions of `elmo perplexity`: every token and one sentence end,
words outside the vocabulary as one word. The backward model is one of sentences from end to begin.

KenLM (Heafield et al., 2013) is published as `kenlm` on PyPI, whose source distribution has the
programs too. They need CMake and Boost (Debian: libboost-{program-options,system,thread,test}-dev):

    pip download --no-deps --no-binary :all: kenlm && tar xf kenlm-*.tar.gz
    cmake -S kenlm-*/ -B kenlm && cmake --build kenlm --target lmplz build_binary query

after which FOLDER is kenlm/bin. Memory is bounded by `--memory`; disk is needed in `--scratch`:
some 10 GB for 100 million tokens.
"""

import argparse
import hashlib
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from circumstances import circumstances

from elmo.checkpoints.sources import load
from elmo.json_files import write_json
from elmo.pretrain.corpus import find_files, read_sentences
from elmo.pretrain.recipe import read_recipe
from elmo.text import Vocabulary

DIRECTIONS = ("forward", "backward")
PROGRAMS = ("lmplz", "build_binary", "query")


class Text(NamedTuple):
    """Sentences as word numbers in files, in either direction.

    Attributes:
        files: One per direction.
        n_sentences: Lines; those without tokens are left out.
        n_tokens: Words, without boundaries.
        n_unknown: Words outside the vocabulary.
    """

    files: tuple[Path, Path]
    n_sentences: int
    n_tokens: int
    n_unknown: int


def main() -> None:
    """Estimate one model per order and direction; measure it on each held-out file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="whose vocabulary counts")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--kenlm", type=Path, required=True, help="the folder of its programs")
    parser.add_argument("--memory", default="3G", help="of lmplz and of build_binary, each")
    parser.add_argument("--scratch", type=Path, help="where intermediate files lie for a while")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if missing := [name for name in PROGRAMS if not (arguments.kenlm / name).is_file()]:
        parser.error(f"{arguments.kenlm} has no {', '.join(missing)}: see the head of this file")
    recipe = read_recipe(arguments.recipe)
    corpus = recipe.corpus
    if (corpus.language, corpus.lines) != ("whitespace", "sentences"):
        parser.error(f"{arguments.recipe} has raw text; only tokenized sentences are read here")
    if corpus.deduplicate or corpus.heldout_share or corpus.exclude_heldout:
        parser.error(f"{arguments.recipe} leaves sentences out, which is not done here")
    vocabulary = load(arguments.model).vocabulary
    if vocabulary is None:
        parser.error(f"{arguments.model} has no vocabulary")
    train, heldout = find_files(corpus.train), find_files(corpus.heldout)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        scratch = Path(name)
        parts = {
            part: number_words([path], vocabulary, scratch / f"heldout-{i}")
            for i, (part, path) in enumerate(zip(part_names(heldout), heldout, strict=True))
        }
        text = number_words(train, vocabulary, scratch / "train")
        print(f"{text.n_tokens:,} tokens, {time.perf_counter() - started:.0f} s", flush=True)
        rows: dict[str, dict[str, Any]] = {
            part: {"predictions": of.n_tokens + of.n_sentences, "unknown": of.n_unknown}
            for part, of in parts.items()
        }
        for order in arguments.orders:
            for which, direction in enumerate(DIRECTIONS):
                model = scratch / "model"
                estimate(
                    arguments.kenlm,
                    text.files[which],
                    model,
                    order=order,
                    n_words=len(vocabulary),
                    memory=arguments.memory,
                )
                for part, of in parts.items():
                    found = measure(arguments.kenlm, model, of.files[which])
                    rows[part].setdefault(f"{order}-gram", []).append(found)
                model.unlink()
                seconds = time.perf_counter() - started
                print(f"{order}-gram, {direction}: done after {seconds:.0f} s", flush=True)
    write_json(
        arguments.out,
        {
            "what": "held-out perplexity of n-gram models by KenLM, forward and backward: "
            "interpolated modified Kneser-Ney, nothing pruned",
            "recipe": str(arguments.recipe),
            "train": [path.name for path in train],
            "n_train_tokens": text.n_tokens,
            "n_train_sentences": text.n_sentences,
            "n_train_unknown": text.n_unknown,
            "vocabulary": len(vocabulary),
            "vocabulary_sha256": digest(vocabulary),
            "minutes": round((time.perf_counter() - started) / 60, 1),
            "parts": rows,
            **circumstances(2),
        },
    )


def number_words(files: Iterable[Path], vocabulary: Vocabulary, path: Path) -> Text:
    """Write sentences as numbers of words: so no token is taken for a boundary of KenLM's."""
    names = (path.with_suffix(".forward"), path.with_suffix(".backward"))
    n_sentences = n_tokens = n_unknown = 0
    unknown = str(vocabulary.unknown)
    numbers = {word: str(vocabulary.id(word)) for word in vocabulary.words}
    with open(names[0], "w") as forward, open(names[1], "w") as backward:
        for sentence in read_sentences(files):
            words = [numbers.get(token, unknown) for token in sentence]
            n_sentences, n_tokens = n_sentences + 1, n_tokens + len(words)
            n_unknown += words.count(unknown)
            forward.write(" ".join(words) + "\n")
            backward.write(" ".join(reversed(words)) + "\n")
    return Text(names, n_sentences, n_tokens, n_unknown)


def estimate(
    programs: Path, text: Path, model: Path, *, order: int, n_words: int, memory: str
) -> None:
    """Estimate a model of a text; on little text, discounts that it cannot give are assumed."""
    scratch = f"{model.parent}/"
    learn = [programs / "lmplz", "-o", order, "-S", memory, "-T", scratch, "--discount_fallback"]
    # Words that the text lacks share what is left too: KenLM counts its own <unk>, but not <s>.
    learn += ["--vocab_pad", n_words + 1]
    pack = [programs / "build_binary", "-S", memory, "-T", scratch, "trie", "/dev/stdin", model]
    with (
        open(text, "rb") as source,
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            list(map(str, learn)), stdin=source, stdout=subprocess.PIPE, stderr=said
        ) as lmplz,
    ):
        packed = subprocess.run(list(map(str, pack)), stdin=lmplz.stdout, stderr=said, stdout=said)
        lmplz.stdout.close()
        if lmplz.wait() or packed.returncode:
            said.seek(0)
            raise SystemExit(f"KenLM failed:\n{said.read().decode()[-2000:]}")


def measure(programs: Path, model: Path, text: Path) -> float:
    """Perplexity of a text, sentence ends and unknown words included."""
    with open(text, "rb") as source:
        found = subprocess.run(
            [str(programs / "query"), "-v", "summary", str(model)],
            stdin=source,
            capture_output=True,
            text=True,
            check=True,
        )
    return round(float(re.search(r"including OOVs:\s*(\S+)", found.stdout)[1]), 2)


def digest(vocabulary: Vocabulary) -> str:
    """What tells one vocabulary from another."""
    return hashlib.sha256("\n".join(vocabulary.words).encode()).hexdigest()


def part_names(files: Sequence[Path]) -> list[str]:
    """A name for each file, short where that tells it from the others."""
    short = [path.name.partition(".")[0] for path in files]
    return [
        str(path) if short.count(name) > 1 else name
        for path, name in zip(files, short, strict=True)
    ]


if __name__ == "__main__":
    main()
