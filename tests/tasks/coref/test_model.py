"""The span ranker learns, and its loss is the marginal likelihood of right antecedents."""

import math
import re
from dataclasses import replace
from itertools import product

import pytest
import torch
from tests.tasks.small import model_and_batch
from tests.tasks.toy_coref import toy_coref_recipe, toy_documents

from elmo.tasks.coref import scorers
from elmo.tasks.coref.batch import ReadDocument
from elmo.tasks.coref.data import Document, read_coref, write_coref
from elmo.tasks.coref.model import CorefConfig, marginal_loss, right_choices
from elmo.tasks.coref.scorers import PairScorer, distance_buckets, feed_forward
from elmo.tasks.coref.task import TASK
from elmo.tasks.features import Features, words_of
from elmo.tasks.run import train_task
from elmo.tasks.trained import Trained
from elmo.text import Tokenizer

CONFIG = CorefConfig(
    hidden_dim=3, score_dim=4, feature_dim=2, max_width=3, max_antecedents=4, spans_per_token=0.6
)
SPOKEN = Document(
    "tc/1",
    (("I", "saw", "her", "."), ("She", "saw", "me", "too", "."), ("Did", "I", "?")),
    (((0, 1), (6, 7), (10, 11)), ((2, 3), (4, 5)), ((1, 4), (2, 3))),
    (("a",) * 4, ("b",) * 5, ("-",) * 3),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coref")
    recipe = toy_coref_recipe(folder, data__dev=[str(folder / "train.conll")])
    return recipe, train_task(recipe)


def model_of(documents, config=CONFIG):
    return model_and_batch(TASK, documents, config)


def test_twenty_documents_are_learned_by_heart(run):
    _, results = run
    assert results.dev[1]["conll_f1"] >= 99
    assert results.dev[1]["mentions_f1"] >= 99


def test_a_loaded_model_answers_as_when_it_was_saved(run):
    recipe, results = run
    trained = Trained.load(recipe.output)
    assert trained.evaluate(read_coref(recipe.data.dev[0])) == results.dev[1]


def test_answers_do_not_depend_on_what_is_read_together(run, tmp_path):
    trained = Trained.load(run[0].output)
    documents = toy_documents(7, seed=5)
    together = trained.predict(documents)
    assert together == [trained.predict([document])[0] for document in documents]
    assert together == trained.predict(documents[::-1])[::-1]
    TASK.write(tmp_path / "a.conll", documents, together)
    assert [d.clusters for d in read_coref(tmp_path / "a.conll")] == together


def test_the_loss_sums_over_all_right_ways_to_follow():
    # Of spans 0 to 3 in clusters 1, 2, 1, 1: all ways in which each follows a right one.
    clusters = torch.tensor([1, 2, 1, 1])
    antecedents = torch.tensor([[0, 0, 0], [0, 0, 0], [1, 0, 0], [2, 1, 0]])
    mask = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]).bool()
    scores = torch.randn(4, 4, dtype=torch.double)
    scores[:, 0] = 0
    scores[:, 1:][~mask] = -torch.inf
    right = {0: [-1], 1: [-1], 2: [0], 3: [2, 0]}
    ways = total = 0.0
    possible = [[-1, *antecedents[i][mask[i]].tolist()] for i in range(4)]
    for way in product(*possible):
        weight = math.exp(sum(scores[i, possible[i].index(j)].item() for i, j in enumerate(way)))
        total += weight
        ways += weight if all(j in right[i] for i, j in enumerate(way)) else 0
    loss = marginal_loss(scores, right_choices(clusters, antecedents, mask))
    assert loss.item() == pytest.approx(-math.log(ways / total))


@pytest.mark.parametrize("singletons", [False, True])
def test_gradients_are_right(singletons):
    model, batch = model_of([SPOKEN], replace(CONFIG, singletons=singletons))
    model.double().eval()
    names, values = zip(*model.named_parameters(), strict=True)
    with torch.no_grad():
        for name, value in zip(names, values, strict=True):
            if name.endswith("bias"):  # at 0 a unit without input stands in ReLU's corner
                value.normal_(std=0.1)

    def loss(*given):
        return torch.func.functional_call(model, dict(zip(names, given, strict=True)), (batch,))

    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


def test_pairs_score_as_one_network_over_all_that_is_known_of_them():
    scorer = PairScorer(5, 3, 4, 2, 0.0)
    spans, others = torch.randn(6, 5), torch.randint(6, (6, 2))
    features = torch.randn(6, 2, 3)
    whole = feed_forward(18, 4, 2, 0.0)
    with torch.no_grad():
        whole[0].load_state_dict(scorer.first.state_dict())
        whole[3].load_state_dict(scorer.rest[2][0].state_dict())
        whole[6].load_state_dict(scorer.rest[2][3].state_dict())
    one, other = spans.unsqueeze(1).expand(6, 2, 5), spans[others]
    expected = whole(torch.cat([one, other, one * other, features], dim=-1)).squeeze(-1)
    found = scorer(spans, others, lambda part, _: features[part])
    torch.testing.assert_close(found, expected)


def test_pairs_a_few_at_a_time_give_the_same_gradients(monkeypatch):
    model, batch = model_of([SPOKEN])
    model.eval()
    gradients = []
    for n_at_once in (10_000, 5):
        monkeypatch.setattr(scorers, "PAIRS_AT_ONCE", n_at_once)
        model.zero_grad()
        model(batch).backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_the_head_is_a_mean_of_the_spans_tokens():
    model, batch = model_of([SPOKEN])
    model.eval()
    (document,) = batch.documents
    with torch.no_grad():
        torch.nn.init.zeros_(model.head[-1].weight)
        ranked = model.rank(document)
        spans = ranked.candidates
        vectors = model.represent(document, spans)
    inputs = model.inputs(document.sentences).input[document.sentences.mask]
    for k, (start, end) in enumerate(spans.pairs()):
        torch.testing.assert_close(vectors[k, 12:17], inputs[start:end].mean(dim=0))


def test_spans_are_looked_at_up_to_their_number_and_follow_the_nearest():
    model, batch = model_of([SPOKEN])
    ranked = model.eval().rank(batch.documents[0])
    assert len(ranked.kept) == int(0.6 * 12)
    assert ranked.antecedents[5].tolist() == [4, 3, 2, 1] and ranked.mask[5].all()
    assert ranked.mask.sum(dim=1).tolist() == [0, 1, 2, 3, 4, 4, 4]


def test_features_say_who_speaks():
    model, batch = model_of([SPOKEN])
    document = batch.documents[0]
    assert document.speakers.tolist() == [1] * 4 + [2] * 5 + [0] * 3
    torch.nn.init.zeros_(model.speakers.weight)
    with torch.no_grad():
        model.speakers.weight += torch.tensor([[0.0], [1.0], [2.0]])
    first_tokens = torch.tensor([0, 2, 4, 10])
    features = model.eval()._features(
        document, first_tokens, torch.tensor([1, 2, 3]), torch.tensor([[0], [1], [2]])
    )
    assert features[:, 0, 2].tolist() == [2, 1, 0]


def test_distances_fall_into_the_buckets_of_the_paper():
    distances = torch.tensor([1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 999])
    assert distance_buckets(distances).tolist() == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]


def test_a_window_is_a_document_of_its_own():
    features = Features(words_of(SPOKEN.sentences, min_count=1, lowercase=False))
    whole = ReadDocument.of(SPOKEN, features.batch, ["tc"])
    seen = set()
    for seed in range(20):
        torch.manual_seed(seed)
        part = whole.window(n_sentences=2, n_tokens=9)
        seen.add(part.lengths)
        begin = {(4, 5): 0, (5, 3): 4}[part.lengths]
        n = sum(part.lengths)
        alone = Document("tc/1", tuple(part.sentences.tokens), ())
        expected = ReadDocument.of(alone, features.batch, ["tc"])
        torch.testing.assert_close(part.sentences.word_ids, expected.sentences.word_ids)
        torch.testing.assert_close(part.speakers, whole.speakers[begin : begin + n])
        tokens = [token for sentence in part.sentences.tokens for token in sentence]
        assert [[tokens[s:e] for s, e in cluster] for cluster in part.clusters if cluster] == [
            kept
            for cluster in SPOKEN.clusters
            if (
                kept := [
                    list(SPOKEN.tokens[s:e]) for s, e in cluster if begin <= s and e <= begin + n
                ]
            )
        ]
    assert seen == {(4, 5), (5, 3)}
    assert len(whole.window(n_sentences=5, n_tokens=2).lengths) == 1
    assert whole.window(n_sentences=5, n_tokens=12).lengths == (4, 5, 3)


def test_plain_text_is_one_document(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Ada came. She saw\n\nBob left.\n")
    (document,) = TASK.read_text(path, Tokenizer("en"))
    assert document.name == "letter" and document.clusters is None
    assert [len(sentence) for sentence in document.sentences] == [3, 2, 3]
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="empty: holds no word"):
        TASK.read_text(tmp_path / "empty", Tokenizer("en"))


def test_answers_may_lack_where_they_are_not_wanted(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("#begin document (a); part 000\na 0 0 Go x\n\n#end document\n")
    assert TASK.read(path, CONFIG, labelled=False)[0].clusters is None
    with pytest.raises(ValueError, match="the last column is 'x'"):
        TASK.read(path, CONFIG)


def test_a_document_that_is_too_long_is_refused_with_its_length():
    labels = TASK.labels([SPOKEN], replace(CONFIG, max_tokens=11))
    said = "tc/1 has 12 tokens, but at most 11 can be read: split it, or train with a larger"
    with pytest.raises(ValueError, match=re.escape(said)):
        TASK.check_lengths([SPOKEN], labels)


def test_documents_are_measured_before_a_model_is_trained(tmp_path):
    path = tmp_path / "test.conll"
    words = tuple(["word"] * 90)
    write_coref(path, [Document("long", (words,))], [[]])
    changes = {"data__test": [str(path)], "model": {"max_tokens": 60}}
    recipe = toy_coref_recipe(tmp_path, **changes)
    with pytest.raises(ValueError, match="document long has 90 tokens, but at most 60"):
        train_task(recipe)
    assert not list(tmp_path.glob("**/metrics.jsonl"))


def test_mentions_that_are_too_wide_are_counted(caplog):
    labels = TASK.labels([SPOKEN], replace(CONFIG, max_width=2))
    assert "1 of 7 training mentions have more than 2 tokens" in caplog.text
    assert labels["genres"] == ["tc"] and labels["singletons"] is False


def test_singletons_that_cannot_be_found_are_told(caplog):
    single = replace(SPOKEN, clusters=(((0, 1),),))
    TASK.check([single], TASK.labels([SPOKEN], CONFIG))
    assert "1 clusters have one mention, but the model finds none such" in caplog.text
    assert TASK.labels([single], CONFIG)["singletons"] is True


def test_documents_without_any_mention_are_told(caplog):
    labels = TASK.labels([SPOKEN], CONFIG)
    TASK.check([SPOKEN], labels)
    TASK.check([], labels)
    assert "every score is 0" not in caplog.text
    TASK.check([replace(SPOKEN, clusters=())], labels)
    assert "no document has a mention in its last column: every score is 0" in caplog.text


def test_training_data_without_clusters_is_refused():
    with pytest.raises(ValueError, match="no mention in any document"):
        TASK.labels([replace(SPOKEN, clusters=())], CONFIG)
