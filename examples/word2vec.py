"""The Word2Vec lab: words that are used alike get vectors that are alike.

A thousand small sentences are made up: animals eat, people pay, rivers flow. Skip-gram learns a
vector per word from them, knowing nothing else. Then: the nearest words of some, and all of them
in the plane by t-SNE. Where is *bank*, which has two senses but one vector? Give a text of your
own, a sentence on each line, to learn from that instead.

    python examples/word2vec.py [--text FILE] [--picture word2vec.png]

Needs: pip install 'elmo-torch[compare,plots,tasks]'
"""

import argparse
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from elmo.encoders.static import StaticEncoder
from elmo.encoders.static_training import StaticTrainingConfig, train_static
from elmo.plots import project, save_projection
from elmo.probes.neighbors import static_neighbors
from elmo.text import Tokenizer

GROUPS = {
    "animal": "cat dog horse cow sheep goat rabbit hen",
    "food": "grass bread corn hay apples carrots seeds cabbage",
    "person": "man woman teacher doctor farmer student clerk lawyer",
    "money": "rent loan bill debt fee tax salary interest",
    "water": "river stream canal lake brook creek pond harbour",
    "place": "house school office market shop church farm town",
}
WORDS = {group: words.split() for group, words in GROUPS.items()}
PATTERNS = [
    "the animal eats food near the place",
    "a hungry animal finds some food in the field",
    "the person pays the money at the place",
    "a person must pay his money to the bank",
    "the bank takes the money and the money of a person",
    "boats cross the water by the muddy bank",
    "the bank lies along the water and the water",
    "the person walks from the place to the other place",
]
N_SENTENCES = 1000
MOST_DRAWN = 60
"""Of a text of one's own: its most frequent words of four letters or more."""


def main() -> None:
    """Learn vectors, print neighbours, draw a picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a sentence on each line")
    parser.add_argument("--picture", type=Path, default=Path("word2vec.png"))
    arguments = parser.parse_args()
    if arguments.text is None:
        sentences = made_up_sentences()
        group_of = {word: group for group, words in WORDS.items() for word in words}
        group_of["bank"] = "bank"
    else:
        split = Tokenizer("en")
        lines = arguments.text.read_text("utf-8").lower().splitlines()
        sentences = [tokens for line in lines if (tokens := [token.text for token in split(line)])]
        counts = Counter(w for tokens in sentences for w in tokens if len(w) > 3 and w.isalpha())
        group_of = {word: "frequent words" for word, _ in counts.most_common(MOST_DRAWN)}

    encoder = learn(sentences)
    shown = [word for word in group_of if encoder.coverage([[word]])]
    for word in shown[::8]:
        nearest = static_neighbors(encoder, word, n=5)
        near = ", ".join(f"{other} {cosine:.2f}" for other, cosine in nearest)
        print(f"{word:10} {near}")

    vectors = encoder.encode_layers([shown])[0][0]  # (words, dim)
    save_projection(
        arguments.picture,
        [project(vectors, "tsne", seed=0)],
        groups=[group_of[word] for word in shown],
        labels=shown,
    )
    print(f"Drew {len(shown)} words into {arguments.picture}")


def made_up_sentences(seed: int = 0) -> list[list[str]]:
    """Patterns, with a word of the group in place of its name."""
    choose = random.Random(seed)
    sentences = [choose.choice(PATTERNS).split() for _ in range(N_SENTENCES)]
    return [[choose.choice(WORDS.get(word, [word])) for word in tokens] for tokens in sentences]


def learn(sentences: list[list[str]]) -> StaticEncoder:
    """Skip-gram with negative sampling, by gensim."""
    config = StaticTrainingConfig(dim=20, window=4, min_count=3, n_epochs=20, subsample=0.0)
    with TemporaryDirectory() as folder:
        made = train_static(sentences, Path(folder) / "vectors.bin", config)
        print(f"{made.n_words:,} words from {made.n_tokens:,} tokens in {made.seconds:.1f} s\n")
        return StaticEncoder.open(Path(folder) / "vectors.bin")


if __name__ == "__main__":
    main()
