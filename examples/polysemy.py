"""Does a word get different vectors in its different senses? Asks the model in the package.

For each word there are four sentences with one sense and four with another. Of the 28 pairs of
sentences twelve share a sense; in a contextual model they should be the closer ones.

    python examples/polysemy.py [MODEL]
"""

import sys
from itertools import combinations

import numpy as np

from elmo import Elmo

SENTENCES = {
    "bank": [
        ("river", "We sat down on the grassy bank of the river and watched the boats go by."),
        ("river", "Heavy rain washed away the muddy bank on the far side of the stream."),
        ("river", "The children played on the bank of the canal until it was dark."),
        ("river", "They tied the boat to a tree on the opposite bank."),
        ("money", "She asked the bank for a loan to buy a small house."),
        ("money", "The bank raised its interest rates again last month."),
        ("money", "He opened an account at the bank when he got his first job."),
        ("money", "The bank will not lend money to a firm with so many debts."),
    ],
    "bark": [
        ("dog", "The loud bark of the dog next door woke the children at night."),
        ("dog", "I heard a short bark, and then a puppy ran out to meet us."),
        ("dog", "With an angry bark the old dog ran to the gate."),
        ("dog", "A single bark from the yard told us that somebody had come."),
        ("tree", "The bark of the old oak was rough and covered with moss."),
        ("tree", "Deer had eaten the bark from the trunks of the young trees."),
        ("tree", "Insects live under the bark of dead pines."),
        ("tree", "The white bark of the birch peels off in thin sheets."),
    ],
    "play": [
        ("stage", "The new play opened at the theatre last week to good reviews."),
        ("stage", "He wrote a play in three acts about the life of his father."),
        ("stage", "Her first play was about two sisters in a small town."),
        ("stage", "The actors read the play together before they learned their parts."),
        ("game", "The children play football in the park after school."),
        ("game", "My brothers play cards together every afternoon."),
        ("game", "Will you play chess with me tonight?"),
        ("game", "The team will play its last match of the season on Sunday."),
    ],
    "bat": [
        ("animal", "A bat flew out of the dark cave to hunt for insects."),
        ("animal", "The bat hung upside down from the roof and slept through the day."),
        ("animal", "A small brown bat was sleeping in the attic."),
        ("animal", "Scientists studied how the bat finds its prey at night."),
        ("sport", "He swung the bat and hit the ball over the fence."),
        ("sport", "The batter dropped his bat and ran to first base."),
        ("sport", "The player leaned on his bat and waited for the next ball."),
        ("sport", "He bought a new bat and a glove before the season began."),
    ],
    "crane": [
        ("bird", "A white crane stood in the shallow water, looking for fish."),
        ("bird", "The crane spread its wings and flew south for the winter."),
        ("bird", "The crane builds its nest among the reeds of the marsh."),
        ("bird", "We watched a grey crane feeding its young."),
        ("machine", "A tall crane lifted the steel beams to the top of the building."),
        ("machine", "The workers used a crane to load the containers onto the ship."),
        ("machine", "The crane at the building site can lift twenty tons."),
        ("machine", "A crane was needed to raise the engine out of the wreck."),
    ],
    "spring": [
        ("season", "The trees begin to flower in early spring."),
        ("season", "We plant potatoes every spring, when the snow has gone."),
        ("season", "In spring the birds return from the south."),
        ("season", "Last spring was the wettest in ten years."),
        ("coil", "The metal spring inside the lock was broken."),
        ("coil", "A strong spring pulls the door shut behind you."),
        ("coil", "The spring in the old watch had lost its tension."),
        ("coil", "Press the button, and a small spring lifts the lid."),
    ],
    "discharge": [
        ("hospital", "The patient was ready for discharge from the hospital after three days."),
        ("hospital", "The nurse explained the medicines to him before his discharge."),
        ("hospital", "Most patients go home within a week of discharge."),
        ("hospital", "After her discharge she visited the doctor every month."),
        ("outflow", "The factory was fined for the discharge of waste water into the lake."),
        ("outflow", "The discharge of oil from the ship polluted the coast for years."),
        ("outflow", "The law limits the discharge of chemicals into rivers."),
        ("outflow", "Fish died after a discharge of hot water from the power plant."),
    ],
    "culture": [
        ("people", "Visitors come to learn about the music and culture of the region."),
        ("people", "Food is an important part of Italian culture."),
        ("people", "The museum shows the history and culture of the island."),
        ("people", "Language is at the heart of every culture."),
        ("cells", "The bacteria were grown in culture for two days before the test."),
        ("cells", "A culture of the cells was kept warm in the laboratory."),
        ("cells", "The virus grew quickly in a culture of human cells."),
        ("cells", "Each culture was tested for bacteria after two days."),
    ],
}


def main() -> None:
    """Print for every word and layer whether same-sense pairs are closer, and the closest pairs."""
    elmo = Elmo.from_pretrained(*sys.argv[1:2])
    right = [0] * elmo.n_layers
    words_right = 0
    for word, sentences in SENTENCES.items():
        print(f"\n{word}")
        for i, (sense, text) in enumerate(sentences, start=1):
            print(f"  {i} {sense:9} {text}")
        vectors = vectors_of(elmo, word, [text for _, text in sentences])
        senses = [sense for sense, _ in sentences]
        somewhere = False
        for layer in range(elmo.n_layers):
            pairs = similarities(vectors[:, layer])
            same = [cosine for (i, j), cosine in pairs.items() if senses[i] == senses[j]]
            cross = [cosine for (i, j), cosine in pairs.items() if senses[i] != senses[j]]
            closer = float(np.mean(same)) > float(np.mean(cross)) + 1e-6
            first, second = sorted(pairs, key=lambda pair: -pairs[pair])[:2]
            right[layer] += closer
            somewhere |= closer
            print(
                f"  layer {layer}: same sense {np.mean(same):.3f}, other sense "
                f"{np.mean(cross):.3f} {'✓' if closer else '✗'}   closest pairs: "
                f"{named(first, pairs)}, {named(second, pairs)}"
            )
        words_right += somewhere
    print("\nWords whose same-sense pairs are closer than their cross-sense pairs:")
    for layer, n in enumerate(right):
        note = " (characters alone: the word looks the same everywhere)" if layer == 0 else ""
        print(f"  layer {layer}: {n} of {len(SENTENCES)}{note}")
    print(f"  at some layer: {words_right} of {len(SENTENCES)}")


def vectors_of(elmo: Elmo, word: str, texts: list[str]) -> np.ndarray:
    """Vectors of `word` in each text: (sentences, layers, dim)."""
    tokens = [elmo.tokenize(text) for text in texts]
    layers = elmo.encode_layers(tokens)
    return np.stack([of[:, t.index(word)] for of, t in zip(layers, tokens, strict=True)])


def similarities(vectors: np.ndarray) -> dict[tuple[int, int], float]:
    """Cosine of each pair."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return {(i, j): float(unit[i] @ unit[j]) for i, j in combinations(range(len(unit)), 2)}


def named(pair: tuple[int, int], pairs: dict[tuple[int, int], float]) -> str:
    """A pair and its cosine, for reading."""
    return f"{pair[0] + 1}–{pair[1] + 1} ({pairs[pair]:.3f})"


if __name__ == "__main__":
    main()
