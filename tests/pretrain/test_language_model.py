import copy

import numpy as np
import pytest
import torch
from tests.models import TINY, random_bilm

from elmo.model.lstm_window import read_window
from elmo.model.lstm_window_cuda import WindowGraphs
from elmo.model.softmax import Negatives, Softmax
from elmo.pretrain.corpus import build_corpus
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import perplexity
from elmo.pretrain.windows import NO_TARGET, Window, Windows

SENTENCES = [["a", "bb", "ccc"], ["bb"], ["ccc", "a", "a", "bb"], ["dddd", "a"]]


@pytest.fixture
def corpus():
    return build_corpus(SENTENCES)


@pytest.fixture
def model(corpus):
    bilm = random_bilm(type(TINY)(TINY.char_cnn, TINY.lstm, dropout=0.0), scale=1.0)
    softmax = Softmax(len(corpus.vocabulary), 6)
    softmax.reset_parameters()
    return LanguageModel(bilm, softmax)


def run(model, corpus, made, **settings):
    """Losses of consecutive windows, the state handed on."""
    state, losses = model.zero_state(made[0].inputs.shape[2]), []
    for window in made:
        out = model(window, corpus.char_ids, state, **settings)
        state = out.state
        losses.append(torch.stack([out.forward_lm, out.backward_lm]))
    return torch.stack(losses).double().mean(0).exp().tolist()


@pytest.mark.parametrize(("carry", "state"), [(True, "carry"), (False, "zero")])
def test_windows_lose_what_reading_sentence_by_sentence_loses(model, corpus, carry, state):
    # One row, one step: every prediction of the corpus, in order, nothing cut.
    made = list(Windows(corpus, range(len(SENTENCES)), n_rows=1, n_steps=1))
    forward_lm, backward_lm = run(model, corpus, made, carry=carry)
    measured = perplexity(model, corpus.vocabulary, SENTENCES, state=state)
    assert forward_lm == pytest.approx(measured.forward_lm, rel=1e-5)
    assert backward_lm == pytest.approx(measured.backward_lm, rel=1e-5)


def test_the_length_of_windows_changes_no_loss(model, corpus):
    by_ones, by_sevens = (
        run(model, corpus, list(Windows(corpus, range(4), n_rows=1, n_steps=n))) for n in (1, 14)
    )
    assert by_ones == pytest.approx(by_sevens, rel=1e-5)


def test_token_vectors_are_those_of_the_cnn_whatever_the_order(model, corpus):
    inputs = np.array([[[3, 2], [4, 5]], [[0, 1], [2, 2]]])
    vectors = model.token_vectors(inputs, corpus.char_ids)
    from elmo.text import char_ids

    for place, i in np.ndenumerate(inputs):
        alone = model.bilm.char_cnn(torch.from_numpy(char_ids([corpus.types[i]])))[0]
        torch.testing.assert_close(vectors[place], alone, atol=1e-5, rtol=0)


def test_every_weight_gets_a_gradient(model, corpus):
    window = next(Windows(corpus, range(4), n_rows=2, n_steps=4))
    negatives = Negatives(torch.arange(len(corpus.vocabulary)), 50)
    for drawn in (None, negatives):
        model.zero_grad()
        model(window, corpus.char_ids, model.zero_state(2), negatives=drawn).total.backward()
        for name, parameter in model.named_parameters():
            gradient = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
            assert gradient.abs().sum() > 0, name


def test_dropout_acts_in_training_alone(corpus, model):
    model.bilm.config = type(TINY)(TINY.char_cnn, TINY.lstm, dropout=0.5)
    window = next(Windows(corpus, range(4), n_rows=2, n_steps=4))

    def loss():
        return model(window, corpus.char_ids, model.zero_state(2)).total.item()

    model.eval()
    assert loss() == loss()
    model.train()
    assert loss() != loss()


def test_a_model_on_another_device_makes_nothing_elsewhere(model, corpus, monkeypatch):
    # On `meta` tensors have no numbers, but do not mix with those of a CPU.
    window = next(Windows(corpus, range(4), n_rows=2, n_steps=4))
    model.to("meta")
    x = torch.empty(*window.inputs.shape, 6, device="meta")
    monkeypatch.setattr(model, "token_vectors", lambda *_: x)
    monkeypatch.setattr(torch, "unique", lambda ids: ids[:5])  # how many needs numbers
    for negatives in (None, Negatives(torch.arange(3), 5)):
        for carry in (True, False):
            losses = model(
                window, corpus.char_ids, model.zero_state(2), negatives=negatives, carry=carry
            )
            assert losses.total.device.type == losses.state[0].c.device.type == "meta"


@pytest.mark.gpu
@pytest.mark.parametrize("carry", [True, False])
@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("graphs", [True, False])
def test_steps_on_a_gpu_are_those_of_the_cpu(model, corpus, no_tf32, carry, sampled, graphs):
    made = list(Windows(corpus, range(4), n_rows=2, n_steps=3))
    negatives = Negatives(torch.arange(4), 9) if sampled else None
    on_gpu = copy.deepcopy(model).cuda()
    read = WindowGraphs() if graphs else read_window
    states = [each.zero_state(2) for each in (model, on_gpu)]
    for window in made:
        results = []
        for k, each in enumerate((model, on_gpu)):
            each.zero_grad()
            losses = each(
                window, corpus.char_ids, states[k], negatives=negatives, carry=carry, read=read
            )
            losses.total.backward()
            states[k] = [type(layer)(*(p.detach() for p in layer)) for layer in losses.state]
            gradients = [
                p.grad.to_dense() if p.grad.is_sparse else p.grad for p in each.parameters()
            ]
            results.append([losses.total.detach().cpu(), *(g.cpu() for g in gradients)])
        for ours, wanted in zip(*results, strict=True):
            torch.testing.assert_close(ours, wanted, atol=2e-5, rtol=1e-4)


def test_with_every_word_drawn_the_sampled_loss_is_the_full_one(model, corpus):
    window = next(Windows(corpus, range(4), n_rows=2, n_steps=4))
    state, n_words = model.zero_state(2), len(corpus.vocabulary)
    full = model(window, corpus.char_ids, state)
    # So many tries that every word is certain to be drawn: nothing is left to correct.
    every = Negatives(torch.arange(n_words), 10**9)
    sampled = model(window, corpus.char_ids, state, negatives=every)
    few = model(window, corpus.char_ids, state, negatives=Negatives(torch.arange(2), 2))
    for direction in ("forward_lm", "backward_lm"):
        loss = getattr(full, direction)
        torch.testing.assert_close(getattr(sampled, direction), loss, atol=1e-5, rtol=0)
        assert abs(getattr(few, direction) - loss) > 1e-2


def test_what_a_row_loses_does_not_depend_on_the_rows_beside_it(model, corpus):
    # Two rows take turns with four sentences; each row is a corpus of its own.
    (window,) = Windows(corpus, [0, 3, 1, 2], n_rows=2, n_steps=6)
    together = model(window, corpus.char_ids, model.zero_state(2))
    for direction in ("forward_lm", "backward_lm"):
        alone = [
            getattr(
                model(
                    Window(*(part[:, :, row : row + 1] for part in window[:3]), 6),
                    corpus.char_ids,
                    model.zero_state(1),
                ),
                direction,
            )
            for row in range(2)
        ]
        torch.testing.assert_close(getattr(together, direction), sum(alone) / 2)


@pytest.mark.parametrize("negatives", [None, Negatives(torch.arange(4), 9)])
def test_shares_of_a_batch_lose_together_what_the_batch_loses(model, corpus, negatives):
    whole, *parts = (
        next(Windows(corpus, [0, 3, 1, 2], n_rows=2, n_steps=6, rows=rows))
        for rows in (slice(None), slice(0, 1), slice(1, 2))
    )
    together = model(whole, corpus.char_ids, model.zero_state(2), negatives=negatives)
    shares = [model(p, corpus.char_ids, model.zero_state(1), negatives=negatives) for p in parts]
    for direction in ("forward_lm", "backward_lm"):
        losses = [getattr(share, direction) for share in shares]
        torch.testing.assert_close(sum(losses), getattr(together, direction))


@pytest.mark.parametrize("negatives", [None, Negatives(torch.arange(4), 9)])
def test_what_is_not_predicted_changes_no_loss_and_no_gradient(model, corpus, negatives):
    (window,) = Windows(corpus, [0], n_rows=1, n_steps=4)
    padded = Window(
        np.pad(window.inputs, ((0, 0), (0, 2), (0, 0))),
        np.pad(window.targets, ((0, 0), (0, 2), (0, 0)), constant_values=NO_TARGET),
        np.pad(window.begins, ((0, 0), (0, 2), (0, 0))),
        window.n_predicted,
    )
    results = []
    for each in (window, padded):
        model.zero_grad()
        losses = model(each, corpus.char_ids, model.zero_state(1), negatives=negatives)
        losses.total.backward()
        gradients = [p.grad.to_dense() for p in model.parameters()]
        results.append([losses.forward_lm.detach(), losses.backward_lm.detach(), *gradients])
    for ours, wanted in zip(*results, strict=True):
        torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("negatives", [None, Negatives(torch.arange(4), 9)])
def test_an_empty_share_loses_nothing_and_gives_every_weight_a_gradient_of_zero(
    model, corpus, negatives
):
    (window,) = Windows(corpus, [0], n_rows=1, n_steps=4)
    nothing = window._replace(targets=np.full_like(window.targets, NO_TARGET), n_predicted=7)
    losses = model(nothing, corpus.char_ids, model.zero_state(1), negatives=negatives)
    losses.total.backward()
    assert losses.total.item() == 0.0
    for parameter in model.parameters():
        assert parameter.grad.to_dense().abs().sum() == 0


def test_a_table_of_other_characters_than_the_bilm_reads_is_refused(model):
    corpus = build_corpus(SENTENCES, max_chars=20)
    window = next(Windows(corpus, range(4), n_rows=2, n_steps=4))
    with pytest.raises(ValueError, match="has 20 characters per token, but the biLM reads 50"):
        model(window, corpus.char_ids, model.zero_state(2))
