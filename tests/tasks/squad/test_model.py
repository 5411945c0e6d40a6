"""The network and its batches: windows, padding, loss."""

import math
from dataclasses import replace

import pytest
import torch
from tests.tasks.test_token_input import Fake

from elmo import Tokenizer
from elmo.tasks.features import Features, words_of
from elmo.tasks.input_config import InputConfig
from elmo.tasks.squad.batch import NO_TOKEN, SquadBatch, parts_of, window_of_answers
from elmo.tasks.squad.data import Answer, Question, ask
from elmo.tasks.squad.model import Reader, SquadConfig, span_loss
from elmo.tasks.token_input import TokenInput

WORDS = [f"w{i}" for i in range(23)]
VOCABULARY = words_of([WORDS], min_count=1, lowercase=False)


def question(n_tokens, *spans, asked="w0 w1 w2"):
    it = ask(asked, " ".join(WORDS[:n_tokens]), Tokenizer("whitespace"))
    answers = tuple(Answer("", 0, span) for span in spans)
    return Question(it.id, it.text, it.tokens, it.paragraph, answers or None)


def batch(*questions, max_context=10):
    return SquadBatch.of(
        questions, Features(VOCABULARY, [Fake().encode_layers]), max_context=max_context
    )


def reader(where="both", **settings):
    inputs = TokenInput(
        InputConfig(word_dim=3, char_filters=2, char_dim=2), len(VOCABULARY), [Fake()], where=where
    )
    settings = {"hidden_dim": 5, "max_answer": 4, "max_context": 10, **settings}
    return Reader(SquadConfig(**settings), inputs)


def test_a_long_paragraph_is_read_in_windows_that_overlap_by_half():
    made = batch(question(4), question(23, (7, 9)))
    assert parts_of(23, 10) == [(0, 10), (5, 15), (10, 20), (15, 23)]
    assert made.question_of.tolist() == [0, 1, 1, 1, 1]
    assert made.starts.tolist() == [0, 0, 5, 10, 15]
    assert [list(row) for row in made.windows.tokens] == [
        WORDS[:4],
        *(WORDS[start:end] for start, end in parts_of(23, 10)),
    ]
    assert made.windows.lengths.tolist() == [4, 10, 10, 10, 8]


def test_a_window_is_that_part_of_what_was_made_of_the_paragraph():
    whole, made = batch(question(23), max_context=50), batch(question(23))
    for row, (start, end) in enumerate(parts_of(23, 10)):
        n = end - start
        for name in ("mask", "word_ids", "type_ids"):
            values = getattr(made.windows, name)[row]
            assert torch.equal(values[:n], getattr(whole.windows, name)[0, start:end])
            assert not values[n:].any()
        layers = made.windows.encoded[0][:, row]
        assert torch.equal(layers[:, :n], whole.windows.encoded[0][:, 0, start:end])
        assert not layers[:, n:].any()


def test_the_window_to_learn_from_has_most_tokens_on_both_sides_of_the_answer():
    assert window_of_answers(question(23, (7, 9)), 10) == (5, 15)
    assert window_of_answers(question(23, (0, 1)), 10) == (0, 10)
    assert window_of_answers(question(23, (21, 22)), 10) == (15, 23)
    assert window_of_answers(question(23, (4, 4), (9, 9)), 10) in [(0, 10), (5, 15)]
    assert window_of_answers(question(23, (3, 12)), 10) is None
    assert window_of_answers(question(23), 10) is None


@pytest.mark.parametrize("first", range(20))
def test_an_answer_of_half_a_window_is_always_whole_in_one(first):
    it = question(23, (first, min(first + 5, 22)))
    (pair,) = (batch(it).spans[:, 0, 0] != NO_TOKEN).nonzero().flatten().tolist()
    start, (a, b) = batch(it).starts[pair].item(), batch(it).spans[pair, 0].tolist()
    assert (start + a, start + b) == it.span
    assert batch(it).windows.mask[pair, b]


def test_all_answers_of_the_window_are_learned():
    made = batch(question(8, (1, 2), (5, 5)), question(8, (3, 3)))
    assert made.spans.tolist() == [[[1, 2], [5, 5]], [[3, 3], [NO_TOKEN, NO_TOKEN]]]


def test_questions_about_a_paragraph_share_its_windows():
    first = question(23)
    second = ask("w4", first.paragraph, Tokenizer("whitespace"), id="2")
    made = batch(first, second, question(4))
    assert made.window_of.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    part = made.part(torch.tensor([1, 5, 3]))
    assert part.window_of.tolist() == [0, 0, 1] and part.question_of.tolist() == [0, 1, 0]
    assert [row[0] for row in part.windows.tokens] == ["w5", "w15"]


@pytest.mark.parametrize("where", ["input", "output", "both"])
def test_padding_and_neighbours_change_no_score(where):
    model = reader(where).double().eval()
    questions = [question(4, asked="w7"), question(9, asked="w1 w2 w3 w4 w5"), question(23)]
    together = batch(*questions)
    starts, ends = model.scores(as_double(together))
    assert len(starts) == 6
    pair = 0
    for each in questions:
        own = as_double(batch(each))
        for alone in zip(*model.scores(own), strict=True):
            n = len(alone[0])
            torch.testing.assert_close(starts[pair, :n], alone[0])
            torch.testing.assert_close(ends[pair, :n], alone[1])
            pair += 1


def test_many_windows_are_read_a_few_at_a_time(monkeypatch):
    model = reader().eval()
    made = batch(question(23), question(23, asked="w9"), question(5))
    whole = model.predict(made)
    monkeypatch.setattr("elmo.tasks.squad.model.PAIRS", 2)
    assert model.predict(made) == whole


def test_the_answer_is_that_of_the_best_window_as_the_paragraph_writes_it(monkeypatch):
    model, made = reader(), batch(question(23), question(4))
    starts, ends = torch.zeros(5, 10), torch.zeros(5, 10)
    starts[2, 4], ends[2, 7], starts[0, 1], ends[0, 2] = 3.0, 2.0, 2.0, 2.5
    starts[4, 2], starts[4, 9] = 1.0, 9.0  # the second is padding
    monkeypatch.setattr(model, "scores", lambda part: (starts, ends))
    assert model.predict(made) == ["w14 w15 w16 w17", "w2"]


def test_an_answer_has_as_many_tokens_as_allowed_at_most():
    model = reader(max_answer=2).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    answers = model.predict(batch(question(23), question(9), question(1)))
    assert all(1 <= len(answer.split()) <= 2 for answer in answers)


def test_the_loss_of_one_span_is_that_of_its_start_and_its_end():
    starts, ends = torch.randn(2, 5), torch.randn(2, 5)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    spans = torch.tensor([[[1, 3]], [[0, 2]]])
    for i, n in enumerate([5, 3]):
        first, last = spans[i, 0].tolist()
        wanted = -(starts[i, :n].log_softmax(0)[first] + ends[i, :n].log_softmax(0)[last]).item()
        assert span_loss(starts, ends, mask, spans)[i].item() == pytest.approx(wanted, abs=1e-5)


def test_the_loss_of_several_spans_is_that_their_probabilities_sum_to():
    starts, ends = torch.randn(1, 6), torch.randn(1, 6)
    mask = torch.ones(1, 6, dtype=torch.bool)
    p, q = starts[0].softmax(0), ends[0].softmax(0)
    spans = torch.tensor([[[1, 2], [4, 4], [NO_TOKEN, NO_TOKEN]]])
    wanted = -math.log(p[1] * q[2] + p[4] * q[4])
    assert span_loss(starts, ends, mask, spans).item() == pytest.approx(wanted, abs=1e-5)


def test_the_gradient_of_the_loss_is_right():
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    spans = torch.tensor([[[1, 3], [2, 2]], [[0, 2], [NO_TOKEN, NO_TOKEN]]])
    scores = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: span_loss(s[0], s[1], mask, spans), (scores,))


def test_questions_without_an_answer_to_learn_from_do_not_count():
    model = reader().eval()
    taught = question(23, (7, 9))
    torch.testing.assert_close(
        model.loss(batch(question(9, (3, 3)), question(6), taught)),
        model.loss(batch(question(9, (3, 3)), taught)),
    )
    nothing = model.loss(batch(question(6), question(23)))
    assert nothing.item() == 0
    nothing.backward()
    assert all(
        not parameter.grad.any() for parameter in model.parameters() if parameter.requires_grad
    )


def test_everything_that_learns_has_a_gradient():
    model = reader()
    model.loss(batch(question(9, (3, 3)), question(23, (20, 21)))).backward()
    still = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    # Scores of all tokens plus a number are the same distribution.
    assert still <= {"start.bias", "end.bias"}


def test_what_was_cut_is_padded_with_zeros():
    sentences = Features(VOCABULARY, [Fake().encode_layers]).batch([WORDS[:5], WORDS[5:8]])
    parts = sentences.cut([(1, 1, 3), (0, 0, 1)])
    assert [list(row) for row in parts.tokens] == [["w6", "w7"], ["w0"]]
    assert parts.mask.tolist() == [[True, True], [True, False]]


def as_double(made):
    def of(sentences):
        return replace(sentences, encoded=tuple(layers.double() for layers in sentences.encoded))

    return replace(made, queries=of(made.queries), windows=of(made.windows))
