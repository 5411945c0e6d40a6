"""A learned mix of layers, over any encoder: which layers does a task ask for?

One vector per word is made of all layers, γ · Σ softmax(w) · layer, and a linear classifier tells
its part of speech. Mix and classifier learn together; the encoder stays as it is.

    python examples/layer_mix.py [ENCODER]

ENCODER is `elmo`, `elmo:MODEL` or `transformer:NAME_OR_FOLDER`.
"""

import sys

import numpy as np
import torch
from torch import nn

from elmo.encoders import Encoder, open_encoders
from elmo.model.scalar_mix import ScalarMix

# Words such as play, light and run are of one part of speech here and of another there.
TRAIN = """
the/DET children/NOUN play/VERB in/ADP the/DET garden/NOUN
she/PRON wrote/VERB a/DET new/ADJ play/NOUN
the/DET light/NOUN of/ADP the/DET moon/NOUN was/VERB pale/ADJ
they/PRON light/VERB a/DET fire/NOUN on/ADP the/DET beach/NOUN
he/PRON carried/VERB a/DET light/ADJ bag/NOUN
we/PRON run/VERB to/ADP the/DET station/NOUN
his/DET morning/NOUN run/NOUN took/VERB an/DET hour/NOUN
you/PRON work/VERB in/ADP a/DET large/ADJ office/NOUN
the/DET work/NOUN was/VERB hard/ADJ
old/ADJ men/NOUN walk/VERB by/ADP the/DET river/NOUN
a/DET long/ADJ walk/NOUN is/VERB good/ADJ
I/PRON open/VERB the/DET heavy/ADJ door/NOUN
the/DET open/ADJ window/NOUN is/VERB small/ADJ
"""
TEST = """
the/DET play/NOUN was/VERB long/ADJ
dogs/NOUN run/VERB on/ADP the/DET beach/NOUN
she/PRON opened/VERB a/DET light/ADJ box/NOUN
we/PRON walk/VERB to/ADP work/NOUN
the/DET walk/NOUN took/VERB a/DET day/NOUN
they/PRON play/VERB by/ADP an/DET open/ADJ fire/NOUN
"""
N_STEPS = 200


def main() -> None:
    """Learn, and print the weight of each layer and how many words of the test are right."""
    (encoder,) = open_encoders(*(sys.argv[1:2] or ["elmo"]))
    tags = sorted({word.split("/")[1] for word in TRAIN.split()})
    (train, train_tags), (test, test_tags) = (
        (vectors_of(encoder, text), tags_of(text, tags)) for text in (TRAIN, TEST)
    )
    torch.manual_seed(0)
    mix = ScalarMix(encoder.n_layers)
    classifier = nn.Linear(encoder.dim, len(tags))
    optimiser = torch.optim.Adam([*mix.parameters(), *classifier.parameters()], lr=0.02)
    for _ in range(N_STEPS):
        loss = nn.functional.cross_entropy(classifier(mix(train)), train_tags)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    print(f"{encoder.name}: what a linear classifier of parts of speech takes of each layer")
    for layer, weight in enumerate(mix.normalised_weights.tolist()):
        print(f"  layer {layer}  {weight:.2f}  {'▪' * round(40 * weight)}")
    right = (classifier(mix(test)).argmax(dim=1) == test_tags).sum().item()
    print(f"{right} of {len(test_tags)} words of new sentences are right")


def vectors_of(encoder: Encoder, text: str) -> torch.Tensor:
    """All words of a text, at every layer: (layers, words, dim)."""
    sentences = [
        [word.split("/")[0] for word in line.split()] for line in text.strip().splitlines()
    ]
    return torch.from_numpy(np.concatenate(encoder.encode_layers(sentences), axis=1))


def tags_of(text: str, tags: list[str]) -> torch.Tensor:
    """The number of each word's tag."""
    return torch.tensor([tags.index(word.split("/")[1]) for word in text.split()])


if __name__ == "__main__":
    main()
