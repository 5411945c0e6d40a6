"""The tagger: with a CRF over tags of spans, or a softmax over others."""

import itertools

import pytest
import torch
from tests.tasks.test_token_input import SENTENCES, VOCABULARY, Fake, features

from elmo.tasks.input_config import InputConfig
from elmo.tasks.tag_spans import rewritten, scheme_tags
from elmo.tasks.tagging.model import NO_TAG, Tagger, TaggingBatch, TaggingConfig
from elmo.tasks.token_input import TokenInput

SPAN_TAGS = scheme_tags(["LOC", "PER"], "BIOES")
WORD_TAGS = ["ADJ", "NOUN", "VERB"]
KINDS = [(SPAN_TAGS, True, None), (WORD_TAGS, False, None), (WORD_TAGS, False, True)]
IDS = ["spans", "words", "words-crf"]


def tagger(tags=SPAN_TAGS, spans=True, crf=None, where="input"):
    config = TaggingConfig(hidden_dim=5, n_layers=2, dropout=0.0, crf=crf)
    inputs = TokenInput(
        InputConfig(word_dim=6, char_filters=0, dropout=0.0),
        len(VOCABULARY),
        (Fake(),),
        where=where,
    )
    return Tagger(config, inputs, tags, spans=spans)


def batch(sentences=SENTENCES, tags=None):
    return TaggingBatch.of(features(Fake()).batch(sentences), tags)


@pytest.mark.parametrize("where", ["input", "output", "both"])
@pytest.mark.parametrize("tags, spans, crf", KINDS, ids=IDS)
def test_a_sentence_is_answered_the_same_whatever_is_read_beside_it(tags, spans, crf, where):
    model = tagger(tags, spans, crf, where).eval()
    together = model.scores(batch().sentences)
    for i, sentence in enumerate(SENTENCES):
        alone = model.scores(batch([sentence]).sentences)[0]
        torch.testing.assert_close(together[i, : len(sentence)], alone)
    answers = model.predict(batch())
    assert answers == [model.predict(batch([sentence]))[0] for sentence in SENTENCES]
    assert [len(answer) for answer in answers] == [len(sentence) for sentence in SENTENCES]


@pytest.mark.parametrize("tags, spans, crf", KINDS, ids=IDS)
def test_the_loss_is_minus_log_p_of_the_tags_by_brute_force(tags, spans, crf):
    model = tagger(tags, spans, crf).eval()
    sentence = SENTENCES[1]
    numbers = (
        (len(tags) - 1, len(tags) - 1) if not spans else (tags.index("S-PER"), tags.index("O"))
    )
    found = model.loss(batch([sentence], [numbers]))
    scores = model.scores(batch([sentence]).sentences)[0]
    if model.crf is None:
        each = [scores[k].logsumexp(0) - scores[k, n] for k, n in enumerate(numbers)]
        torch.testing.assert_close(found, torch.stack(each).mean())
        return
    every = {
        path: -model.crf(scores[None], torch.tensor([path]), torch.ones(1, 2, dtype=torch.bool))
        for path in itertools.product(range(len(tags)), repeat=2)
    }
    p = {path: torch.exp(-loss).item() for path, loss in every.items()}
    assert sum(p.values()) == pytest.approx(1, abs=1e-5)
    assert p[numbers] == pytest.approx(torch.exp(-found).item(), rel=1e-4)


@pytest.mark.parametrize("tags, spans, crf", [KINDS[0], KINDS[2]], ids=["spans", "words-crf"])
def test_the_loss_of_a_batch_is_the_mean_of_its_sentences(tags, spans, crf):
    model = tagger(tags, spans, crf).eval()
    numbers = [[tags.index("O") if spans else 1] * len(sentence) for sentence in SENTENCES]
    alone = [model.loss(batch([s], [n])) for s, n in zip(SENTENCES, numbers, strict=True)]
    torch.testing.assert_close(model.loss(batch(tags=numbers)), torch.stack(alone).mean())


def test_padding_has_no_tag_and_no_loss():
    model = tagger(WORD_TAGS, spans=False).eval()
    numbers = [[0] * len(sentence) for sentence in SENTENCES]
    made = batch(tags=numbers)
    assert (made.tags == NO_TAG).tolist() == (~made.sentences.mask).tolist()
    alone = [model.loss(batch([s], [n])) for s, n in zip(SENTENCES, numbers, strict=True)]
    lengths = torch.tensor([float(len(sentence)) for sentence in SENTENCES])
    expected = (torch.stack(alone) * lengths).sum() / lengths.sum()
    torch.testing.assert_close(model.loss(made), expected)


def test_tags_are_never_other_than_bio_however_little_was_learned():
    for seed in range(20):
        torch.manual_seed(seed)
        model = tagger().eval()
        torch.nn.init.normal_(model.emissions.weight, std=5)
        for answer in model.predict(batch()):
            assert {tag[0] for tag in answer} <= set("BIO") and answer == tuple(rewritten(answer))


@pytest.mark.parametrize("where, at_output", [("input", 0), ("output", 4), ("both", 4)])
def test_encoders_at_the_output_stand_beside_that_of_the_bilstm(where, at_output):
    assert tagger(where=where).emissions.in_features == 2 * 5 + at_output


@pytest.mark.parametrize("tags, spans, crf", KINDS, ids=IDS)
def test_every_weight_learns(tags, spans, crf):
    model = tagger(tags, spans, crf, "both").train()
    number = tags.index("O") if spans else 1
    model(batch(tags=[[number] * len(sentence) for sentence in SENTENCES])).backward()
    assert [
        name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()
    ] == []


def test_the_gradient_of_the_loss_is_that_of_finite_differences():
    model = tagger().double().eval()
    vectors = torch.randn(3, 4, model.inputs.dim, dtype=torch.double)
    numbers = [[SPAN_TAGS.index("O")] * len(sentence) for sentence in SENTENCES]
    made = batch(tags=numbers)

    def loss(weight):
        hidden = model.bilstm(vectors, made.sentences.mask)
        scores = torch.nn.functional.linear(hidden, weight, model.emissions.bias)
        return -model.crf(scores, made.tags, made.sentences.mask).mean()

    assert torch.autograd.gradcheck(loss, [model.emissions.weight])


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"hidden_dim": 0}, "hidden_dim is 0"),
        ({"dropout": 1.5}, "dropout is 1.5, but it is a probability below 1"),
        ({"scheme": "BILUO"}, "BILUO"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TaggingConfig(**settings)
