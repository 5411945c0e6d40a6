"""Runs of recipes for labels of texts: they learn, are kept, and say what is wrong."""

import json
import logging
from pathlib import Path

import pytest
from tests.tasks.toy_texts import text_recipe, write_texts

from elmo.tasks.attention import MOST_ATTENDED
from elmo.tasks.classification.data import LabelledText, read_texts
from elmo.tasks.classification.score import score_labels
from elmo.tasks.run import read_data, train_task
from elmo.tasks.trained import TASK_FILE, Trained
from elmo.text import Tokenizer

KINDS = [("classification", False), ("classification", True), ("bcn", False), ("bcn", True)]


@pytest.fixture(
    scope="module", params=KINDS, ids=["pooled", "pooled-several", "bcn", "bcn-several"]
)
def run(request, tmp_path_factory):
    task, several = request.param
    recipe = text_recipe(tmp_path_factory.mktemp("runs"), task, several=several)
    return recipe, train_task(recipe)


@pytest.mark.parametrize("task, several", KINDS)
def test_twenty_texts_are_learned_by_heart(tmp_path, task, several):
    train = str(write_texts(tmp_path / "train.tsv", several=several))
    recipe = text_recipe(tmp_path, task, several=several, data__dev=[train], training__n_epochs=30)
    results = train_task(recipe)
    assert results.metric == ("f1_macro" if several else "accuracy")
    assert results.dev[1][results.metric] >= 99


def test_a_loaded_model_answers_as_when_it_was_saved(run):
    recipe, results = run
    trained = Trained.load(recipe.output)
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    assert trained.evaluate(dev) == results.dev[1] == trained.scores


def test_answers_do_not_depend_on_what_is_read_together(run):
    recipe, _ = run
    trained = Trained.load(recipe.output)
    texts = trained.task.read(Path(recipe.data.train[0]), recipe.model)
    together = trained.predict(texts)
    assert together == [trained.predict([text])[0] for text in texts]
    assert together == trained.predict(texts[::-1])[::-1]


def test_answers_are_written_as_texts_that_can_be_read_and_scored(run, tmp_path):
    recipe, results = run
    trained = Trained.load(recipe.output)
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    answers = trained.predict(dev)
    trained.task.write(tmp_path / "answers.jsonl", dev, answers)
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    scores = score_labels([line["labels"] for line in lines], [line["predicted"] for line in lines])
    assert scores.metrics == results.dev[1]
    assert trained.task.report(dev, answers, trained.labels) == scores.report


def test_a_text_per_line_is_answered_without_labels(run, tmp_path):
    recipe, _ = run
    trained = Trained.load(recipe.output)
    (tmp_path / "texts.txt").write_text("The soup was lovely.\n\n  \nA dull plot!\n")
    texts = trained.task.read_text(tmp_path / "texts.txt", Tokenizer())
    assert [text.text for text in texts] == ["The soup was lovely.", "A dull plot!"]
    assert [text.tokens[-1] for text in texts] == [".", "!"]
    assert len(trained.predict(texts)) == 2


@pytest.mark.parametrize("word_dim", [0, 8])
def test_terms_of_documents_are_fitted_on_training_texts_and_kept_with_the_model(
    tmp_path, word_dim
):
    recipe = text_recipe(tmp_path, encoder="tfidf", input__word_dim=word_dim, training__n_epochs=20)
    results = train_task(recipe)
    assert results.dev[1]["accuracy"] >= 99
    trained = Trained.load(recipe.output)
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    assert trained.evaluate(dev) == results.dev[1]
    kept = json.loads((tmp_path / "runs" / "seed-1" / TASK_FILE).read_text())["labels"]["tfidf"]
    words = {" ".join(text.tokens) for text in read_texts(recipe.data.train[0])}
    assert all(any(term in text.lower() for text in words) for term in kept["terms"])
    assert len(kept["terms"]) == len(kept["weights"])


def test_terms_are_chosen_as_the_recipe_says(tmp_path):
    recipe = text_recipe(
        tmp_path, encoder="tfidf", model__tfidf={"max_terms": 3}, training__n_epochs=1
    )
    train_task(recipe)
    assert Trained.load(recipe.output).model.documents.dim == 3


def test_terms_of_documents_are_refused_where_a_network_has_no_use_for_them(tmp_path):
    with pytest.raises(ValueError, match="only classification takes it"):
        train_task(text_recipe(tmp_path, "bcn", encoder="tfidf"))


def test_a_text_with_several_labels_is_refused_where_one_is_wanted(tmp_path):
    recipe = text_recipe(tmp_path, several=True, model__several=False)
    with pytest.raises(
        ValueError,
        match=r"has the labels good, food, but model\.several is false",
    ):
        train_task(recipe)


def test_texts_without_a_label_are_learned_and_measured(tmp_path):
    recipe = text_recipe(tmp_path, model__several=True, training__n_epochs=30)
    for name in (*recipe.data.train, *recipe.data.dev):
        Path(name).write_text("the soup was lovely\tgood,food\na dull plot\t\n" * 8)
    assert train_task(recipe).dev[1]["accuracy"] == 100
    trained = Trained.load(recipe.output)
    dull = trained.task.read(Path(name), recipe.model)[1]
    assert (dull.labels, trained.predict([dull])) == ((), [()])


def test_training_data_without_any_label_is_refused(tmp_path):
    recipe = text_recipe(tmp_path, model__several=True)
    Path(recipe.data.train[0]).write_text("a dull plot\t\n")
    with pytest.raises(ValueError, match="no text of the training data has a label"):
        train_task(recipe)


def test_labels_that_the_training_data_has_not_are_told_and_count_as_wrong(tmp_path, caplog):
    recipe = text_recipe(tmp_path, training__n_epochs=20)
    train_task(recipe)
    trained = Trained.load(recipe.output)
    (tmp_path / "test.tsv").write_text("the soup was lovely\tgood\nit was odd\todd\nso\tgood,bad\n")
    test = trained.task.read(tmp_path / "test.tsv", recipe.model)
    with caplog.at_level(logging.WARNING):
        scores = trained.evaluate(test)
    assert "1 labels of texts are not in the training data: odd (1)" in caplog.text
    assert "1 texts have several labels, but the model gives one" in caplog.text
    assert scores["accuracy"] == pytest.approx(100 / 3) and scores["recall/odd"] == 0


def test_phrases_are_learned_from_and_sentences_are_measured(tmp_path):
    tree = "(3 (2 It) (4 (4 (2 really) (3 works)) (2 (2 so) (2 far))))"
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text(f"{tree}\n")
    sizes = {}
    for phrases, min_phrase in ((False, 4), (True, 1), (True, 4), (True, 2)):
        recipe = text_recipe(
            tmp_path,
            "bcn",
            data__train=[str(tmp_path / "train.txt")],
            data__dev=[str(tmp_path / "dev.txt")],
            model__phrases=phrases,
            model__min_phrase=min_phrase,
        )
        data = read_data(recipe)
        assert [text.labels for text in data.dev] == [("3",)]
        sizes[phrases, min_phrase] = sorted(len(text.tokens) for text in data.train)
    assert sizes == {
        (False, 4): [5],
        (True, 1): [1, 1, 1, 1, 1, 2, 2, 4, 5],
        (True, 4): [4, 5],
        (True, 2): [2, 2, 4, 5],
    }


def test_what_may_have_several_labels_may_have_none_once_that_is_learned(run, tmp_path):
    recipe, results = run
    trained = Trained.load(recipe.output)
    (tmp_path / "none.tsv").write_text("good film\t\n")
    if results.metric == "f1_macro":
        (text,) = trained.task.read(tmp_path / "none.tsv", trained.settings)
        assert text.labels == ()
    else:
        with pytest.raises(ValueError, match=r"none\.tsv, line 1: .* has no label"):
            trained.task.read(tmp_path / "none.tsv", trained.settings)


def test_texts_that_are_too_long_for_attention_are_refused_before_any_is_answered(run):
    recipe, _ = run
    trained = Trained.load(recipe.output)
    texts = [LabelledText(("short",)), LabelledText(("word",) * (MOST_ATTENDED + 1))]
    done = []
    if recipe.task == "bcn":
        with pytest.raises(ValueError, match="has 10,001 tokens, but at most 10,000 can be read"):
            trained.predict(texts, progress=done.append)
        assert not done
    else:
        assert len(trained.predict(texts)) == 2
