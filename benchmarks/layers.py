"""What each layer knows: part of speech by a linear probe, word senses by nearest neighbour.

    python benchmarks/layers.py MODEL... --pos FOLDER --wsd FOLDER [--senses FILE] [--out FILE.json]

MODEL is a name or a folder. `--pos` has `*-train.conllu`, `*-dev.conllu` and `*-test.conllu`, as UD
English EWT; `--wsd` has `*-train.data.xml` and `*-train.gold.key.txt` and the same of `dev`, as
SemCor in the format of Raganato et al. (2017); any of them may end in `.gz`. `--senses` has a
lemma, its part of speech and its senses on each line, the first sense first.

Part of speech: multinomial logistic regression from one layer's vector of the word, standardised,
with L2 chosen on the dev part. Senses, as Peters et al. (2018, section 5.3) after Melamud et al.
(2016): a sense is the mean of its vectors in the training part; a word gets the sense of its lemma
whose mean has the largest cosine; a lemma that was not seen, its first sense (none without
`--senses`). A word of several tokens is the mean of their vectors. Beside it: the sense of the
nearest use of the lemma in the training part, and of most of the ten nearest; for every word the
sense that its lemma has most often in the training part, and the first one of `--senses`. Columns:
all words; those whose lemma was seen; those whose lemma was seen with several senses.
Axes: layers, words, dim, tags.
"""

import argparse
import gzip
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import torch
from circumstances import circumstances, write_result
from torch import Tensor, nn

from elmo import Elmo

CHUNK = 512
"""Sentences whose vectors are in memory at a time, where not all need be."""
PENALTIES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""λ of λ/2 · |weights|² beside the mean loss, each fit starting from the one before."""
ITERATIONS = 30
"""Of L-BFGS, per penalty."""
WAYS = {"": 0, ", nearest use": 1, ", ten nearest uses": 10}
"""How many uses of a lemma decide by majority; 0: the mean of each sense, as the paper has it."""
COSINE_PLACES = 5
"""Digits after the point beyond which cosines are equal: the rest is rounding."""
QUOTES = {"``": '"', "''": '"', "`": "'"}
"""SemCor's signs → those of the default model's text and of the 1 Billion Words'."""


class Word(NamedTuple):
    """A word with a sense: its tokens' places in the sentence, lemma and part, right answers."""

    begin: int
    end: int
    lemma: tuple[str, str]
    senses: tuple[str, ...]


class Sentence(NamedTuple):
    """Tokens, and which of them are words whose sense is known."""

    tokens: list[str]
    words: list[Word]


def main() -> None:
    """Probe each model; print a table per probe, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--pos", type=Path)
    parser.add_argument("--wsd", type=Path)
    parser.add_argument("--senses", type=Path, help="lemma, part, keys: tab-separated")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.pos is None and arguments.wsd is None:
        parser.error("nothing to probe: give --pos, --wsd or both")
    torch.set_num_threads(arguments.threads)
    results = {}
    for name in arguments.models:
        elmo, result = Elmo.from_pretrained(name), {}
        if arguments.pos is not None:
            result["pos"] = probe_tags(elmo, arguments.pos)
            show(f"{name}: part of speech, accuracy", result["pos"])
        if arguments.wsd is not None:
            result["wsd"] = probe_senses(elmo, arguments.wsd, arguments.senses)
            show(f"{name}: word senses, F1", result["wsd"])
        results[name] = result
    if arguments.out:
        write_result(
            arguments.out,
            {
                "what": "what each layer knows: part of speech by logistic regression (accuracy), "
                "word senses by nearest mean (F1); percent",
                "data": [path.name for path in (arguments.pos, arguments.wsd) if path],
                "seed": 0,
                "models": results,
                **circumstances(arguments.threads),
            },
        )


# ------------------------------------------------------------------------------- part of speech


def probe_tags(elmo: Elmo, folder: Path) -> dict[str, Any]:
    """Accuracy of a linear probe on each layer, dev and test part, for both sets of tags."""
    parts = {part: read_tags(find(folder, f"*-{part}.conllu")) for part in ("train", "dev", "test")}
    n_layers = elmo.bilm.config.n_layers
    result: dict[str, Any] = {f"layer {layer}": {} for layer in range(n_layers)}
    names = [sorted({of[which] for _, tags in parts["train"] for of in tags}) for which in range(2)]
    vectors = {part: all_vectors(elmo, [s for s, _ in of], part) for part, of in parts.items()}
    numbered = {
        part: [number([t[which] for _, tags in of for t in tags], names[which]) for which in (0, 1)]
        for part, of in parts.items()
    }
    for layer in range(n_layers):
        started = time.perf_counter()
        x = {part: standardised(of[layer], vectors["train"][layer]) for part, of in vectors.items()}
        scores = fit_tags(x, numbered, [len(of) for of in names])
        for which, tagset in enumerate(("UPOS", "XPOS")):
            best = max(scores, key=lambda row: row[1]["dev"][which])
            result[f"layer {layer}"] |= {
                tagset: best[1]["test"][which],
                f"{tagset} dev": best[1]["dev"][which],
                f"{tagset} penalty": best[0],
            }
        note(f"layer {layer}: {time.perf_counter() - started:.0f} s\n")
    result["most frequent tag of the word"] = {
        tagset: baseline_tags(parts["train"], parts["test"], which)
        for which, tagset in enumerate(("UPOS", "XPOS"))
    }
    return result


def fit_tags(
    x: dict[str, Tensor], numbered: dict[str, list[Tensor]], n_tags: list[int]
) -> list[tuple[float, dict[str, list[float]]]]:
    """Accuracies for each penalty: two independent regressions, computed as one."""
    linear = nn.Linear(x["train"].shape[1], sum(n_tags))
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    scores = []
    for penalty in PENALTIES:
        optimiser = torch.optim.LBFGS(
            linear.parameters(), max_iter=ITERATIONS, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimiser.zero_grad()  # noqa: B023
            logits = linear(x["train"]).split(n_tags, dim=1)
            of_tags = sum(
                nn.functional.cross_entropy(of, tags)
                for of, tags in zip(logits, numbered["train"], strict=True)
            )
            total = of_tags + penalty / 2 * linear.weight.square().sum()  # noqa: B023
            total.backward()
            return total

        optimiser.step(loss)
        with torch.no_grad():
            scores.append(
                (
                    penalty,
                    {
                        part: [
                            percent((of.argmax(dim=1) == tags).float().mean().item())
                            for of, tags in zip(
                                linear(x[part]).split(n_tags, dim=1), numbered[part], strict=True
                            )
                        ]
                        for part in ("dev", "test")
                    },
                )
            )
        note(f"  penalty {penalty:g}: dev {scores[-1][1]['dev']}\n")
    return scores


def all_vectors(elmo: Elmo, sentences: list[list[str]], title: str) -> list[np.ndarray]:
    """Vectors of all words, per layer (words, dim)."""
    n_words, n_done = sum(map(len, sentences)), 0
    layers: list[np.ndarray] = []
    for of_sentence in encode(elmo, sentences, title):
        if not layers:
            n_layers, _, dim = of_sentence.shape
            layers = [np.empty((n_words, dim), dtype=np.float32) for _ in range(n_layers)]
        n = of_sentence.shape[1]
        for layer, of_layer in zip(layers, of_sentence, strict=True):
            layer[n_done : n_done + n] = of_layer
        n_done += n
    return layers


def standardised(vectors: np.ndarray, train: np.ndarray) -> Tensor:
    """Mean 0 and deviation 1 in each dimension of the training part."""
    mean, deviation = train.mean(axis=0), train.std(axis=0) + 1e-6
    return torch.from_numpy((vectors - mean) / deviation)


def number(tags: list[str], names: list[str]) -> Tensor:
    """Tags as numbers; −1 for one that the training part lacks, which is never right."""
    numbers = {name: i for i, name in enumerate(names)}
    return torch.tensor([numbers.get(tag, -1) for tag in tags])


def baseline_tags(train: list[Any], test: list[Any], which: int) -> float:
    """Accuracy of the tag that the word has most often, or for a new word, the commonest tag."""
    of_word: dict[str, Counter[str]] = defaultdict(Counter)
    for tokens, tags in train:
        for token, tag in zip(tokens, tags, strict=True):
            of_word[token][tag[which]] += 1
    commonest = sum(of_word.values(), Counter()).most_common(1)[0][0]
    best = {token: counts.most_common(1)[0][0] for token, counts in of_word.items()}
    right = [
        best.get(token, commonest) == tag[which]
        for tokens, tags in test
        for token, tag in zip(tokens, tags, strict=True)
    ]
    return percent(sum(right) / len(right))


def read_tags(path: Path) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """Tokens, and universal and own tag of each, of every sentence of a CoNLL-U file."""
    sentences: list[tuple[list[str], list[tuple[str, str]]]] = []
    fresh = True
    with opened(path) as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t")
            if fields[0].isdecimal():  # neither 1-2 (joined by spelling) nor 1.1 (left unsaid)
                if fresh:
                    sentences.append(([], []))
                fresh = False
                # A few words are written with a space within: it is no token of any text.
                sentences[-1][0].append(fields[1].replace(" ", ""))
                sentences[-1][1].append((fields[3], fields[4]))
            elif not line.strip():
                fresh = True
    return sentences


# ---------------------------------------------------------------------------------- word senses


def probe_senses(elmo: Elmo, folder: Path, inventory: Path | None) -> dict[str, Any]:
    """F1 of the nearest mean in each layer, of the first sense, and of the most frequent one."""
    train, dev = (
        list(
            read_senses(find(folder, f"*-{part}.data.xml"), find(folder, f"*-{part}.gold.key.txt"))
        )
        for part in ("train", "dev")
    )
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word in sentence.words:
            counts[word.lemma].update(word.senses)
    first = {} if inventory is None else read_first_senses(inventory)
    # Of senses equally frequent, the one that the list has first; else that seen first.
    frequent = {
        lemma: max(of, key=lambda sense: (of[sense], sense == first.get(lemma)))
        for lemma, of in counts.items()
    }
    rows = {sense: i for i, sense in enumerate({s: None for of in counts.values() for s in of})}
    asked = [word for sentence in dev for word in sentence.words]
    hard = {word.lemma for word in asked if len(counts.get(word.lemma, ())) > 1}
    means, uses = learn_senses(elmo, train, rows, hard)
    of_lemma: dict[tuple[str, str], list[int]] = defaultdict(list)
    vectors = []
    for i, (word, of_word) in enumerate(words_of(elmo, dev, "dev")):
        of_lemma[word.lemma].append(i)
        vectors.append(of_word)
    answers: dict[str, list[str | None]] = {
        f"layer {layer}{way}": [frequent.get(word.lemma, first.get(word.lemma)) for word in asked]
        for way in WAYS
        for layer in range(len(means))
    }
    for lemma in hard:
        # The most frequent first: it gets what is equally near (layer 0 knows nothing but letters).
        senses = sorted(counts[lemma], key=lambda s: (s != frequent[lemma], -counts[lemma][s]))
        places = of_lemma[lemma]
        for layer in range(len(means)):
            x = unit(np.stack([vectors[i][layer] for i in places]))
            near = unit(np.stack([of[layer] for of, _ in uses[lemma]]).astype(np.float32))
            which = np.array([[s in of for s in senses] for _, of in uses[lemma]], np.float64)
            order = np.argsort(-(x @ near.T).round(COSINE_PLACES), axis=1, kind="stable")
            for way, k in WAYS.items():
                if k:
                    scores = which[order[:, :k]].sum(axis=1)
                else:
                    of_senses = means[layer][[rows[sense] for sense in senses]]
                    scores = (x @ of_senses.T).round(COSINE_PLACES)
                for i, best in zip(places, scores.argmax(axis=1), strict=True):
                    answers[f"layer {layer}{way}"][i] = senses[best]
    answers |= {
        "most frequent sense": [frequent.get(word.lemma, first.get(word.lemma)) for word in asked],
        "first sense": [first.get(word.lemma) for word in asked],
    }
    seen = np.array([word.lemma in counts for word in asked])
    several = np.array([len(counts.get(word.lemma, ())) > 1 for word in asked])
    table = {}
    for name, given in answers.items():
        right = np.array([a in word.senses for a, word in zip(given, asked, strict=True)])
        table[name] = {
            "all": f1(right, given, np.ones(len(asked), dtype=bool)),
            "seen": f1(right, given, seen),
            "several": f1(right, given, several),
        } | {
            part: f1(right, given, np.array([word.lemma[1] == part for word in asked]))
            for part in ("NOUN", "VERB", "ADJ", "ADV")
        }
    table["words"] = {
        "all": len(asked),
        "seen": int(seen.sum()),
        "several": int(several.sum()),
    }
    return table


def learn_senses(
    elmo: Elmo, train: list[Sentence], rows: dict[str, int], hard: set[tuple[str, str]]
) -> tuple[list[np.ndarray], dict[tuple[str, str], list[Any]]]:
    """The mean of each sense, per layer (senses, dim), of length 1; and every use of hard lemmas.

    A use is vectors (layers, dim), in float16 as there are many, and senses.
    """
    sums: list[np.ndarray] = []
    uses: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for word, vectors in words_of(elmo, train, "train"):
        if not sums:
            sums = [np.zeros((len(rows), vectors.shape[1]), np.float32) for _ in vectors]
        for of_layer, vector in zip(sums, vectors, strict=True):
            for sense in word.senses:
                of_layer[rows[sense]] += vector
        if word.lemma in hard:
            uses[word.lemma].append((vectors.astype(np.float16), word.senses))
    return [unit(of) for of in sums], uses


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def words_of(
    elmo: Elmo, sentences: list[Sentence], title: str
) -> Iterator[tuple[Word, np.ndarray]]:
    """Each word with a sense, and its vectors (layers, dim)."""
    with_words = [sentence for sentence in sentences if sentence.words]
    read = encode(elmo, [sentence.tokens for sentence in with_words], title)
    for sentence, vectors in zip(with_words, read, strict=True):
        for word in sentence.words:
            yield word, vectors[:, word.begin : word.end].mean(axis=1)


def f1(right: np.ndarray, answers: Sequence[str | None], among: np.ndarray) -> float:
    """2 · right / (answered + asked), in percent: no answer is not wrong, but missing."""
    answered = np.array([answer is not None for answer in answers]) & among
    return percent(2 * int(right[among].sum()) / max(1, int(answered.sum()) + int(among.sum())))


def read_senses(xml: Path, keys: Path) -> Iterator[Sentence]:
    """Sentences of a file in the format of the unified evaluation framework."""
    with opened(keys) as lines:
        answers = {number: tuple(senses) for number, *senses in map(str.split, lines)}
    with opened(xml) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag != "sentence":
                continue
            tokens: list[str] = []
            words: list[Word] = []
            for part in element:
                begin = len(tokens)
                tokens += [QUOTES.get(token, token) for token in (part.text or "").split()]
                if part.tag == "instance":
                    lemma = (part.attrib["lemma"].lower(), part.attrib["pos"])
                    words.append(Word(begin, len(tokens), lemma, answers[part.attrib["id"]]))
            element.clear()
            if tokens:
                yield Sentence(tokens, words)


def read_first_senses(path: Path) -> dict[tuple[str, str], str]:
    """The first sense of each lemma and part of speech."""
    with opened(path) as lines:
        rows = (line.rstrip("\n").split("\t") for line in lines)
        return {(lemma, part): keys.split()[0] for lemma, part, keys in rows}


# --------------------------------------------------------------------------------------- reading


def encode(elmo: Elmo, sentences: list[list[str]], title: str) -> Iterator[np.ndarray]:
    """Vectors (layers, tokens, dim) of each sentence in turn, a chunk in memory at a time."""
    started = time.perf_counter()
    for at in range(0, len(sentences), CHUNK):
        yield from elmo.encode_layers(sentences[at : at + CHUNK], progress=False)
        done = min(at + CHUNK, len(sentences))
        seconds = time.perf_counter() - started
        note(f"\r{title}: {done:,} of {len(sentences):,} sentences, {seconds:.0f} s ")
    note("\n")


def find(folder: Path, pattern: str) -> Path:
    """The one file of that name, compressed or not."""
    found = [*folder.glob(pattern), *folder.glob(f"{pattern}.gz")]
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} files {pattern}[.gz], but one is wanted")
    return found[0]


def opened(path: Path) -> Any:
    """A text file, compressed or not."""
    return (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8")


def percent(share: float) -> float:
    """Of hundred, to two places."""
    return round(100 * share, 2)


def note(text: str) -> None:
    """Say how far it is."""
    print(text, end="", file=sys.stderr, flush=True)


def show(title: str, table: dict[str, dict[str, Any]]) -> None:
    """Print a table in Markdown."""
    columns = list(dict.fromkeys(name for row in table.values() for name in row))
    print(f"\n{title}\n\n| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name, row in table.items():
        print(f"| {name} | {' | '.join(str(row.get(column, '')) for column in columns)} |")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
