"""A small predictor with random weights, and what it should say, step by step."""

import numpy as np
import torch
from tests.models import random_bilm

from elmo import Vocabulary, WordPredictor, batch_char_ids
from elmo.model.softmax import Softmax

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c", "."])
SENTENCES = [["a", "b", "zzz"], [], ["b"], ["a", "c"] * 5, ["c", "."]]


def random_predictor():
    softmax = Softmax(len(VOCABULARY), 6)
    softmax.reset_parameters()
    torch.nn.init.normal_(softmax.bias)
    return WordPredictor(random_bilm(), softmax, VOCABULARY, language="whitespace")


@torch.no_grad()
def log_probabilities(predictor, sentence):
    """Log p of every word at `<S>`, tokens and `</S>`, by either direction; NumPy, one by one.

    What the forward model reads ends before the place, what the backward model reads begins behind.
    """
    bilm, softmax = predictor.model.bilm, predictor.model.softmax
    weight, bias = (p.double().numpy() for p in (softmax.weight, softmax.bias))
    ids = batch_char_ids([sentence])
    half = weight.shape[1]

    def normalised(hidden):
        scores = weight @ hidden.double().numpy() + bias
        return scores - np.log(np.exp(scores).sum())

    forward_lm = [
        normalised(bilm(torch.from_numpy(ids[:, :i])).layers[-1, 0, -1, :half])
        for i in range(1, len(sentence) + 2)
    ]
    backward_lm = [
        normalised(bilm(torch.from_numpy(ids[:, i:])).layers[-1, 0, 0, half:])
        for i in range(1, len(sentence) + 2)
    ]
    nothing = np.full(len(weight), np.nan)
    return np.array([nothing, *forward_lm]), np.array([*backward_lm, nothing])


def together(forward_lm, backward_lm, excluded):
    """Both, by the formula."""
    rank = np.arange(len(forward_lm))
    frequency = np.log((rank + 2) / (rank + 1)) / np.log(len(rank) + 1)
    p = np.exp(forward_lm + backward_lm) / frequency
    p[list(excluded)] = 0
    return p / p.sum()
