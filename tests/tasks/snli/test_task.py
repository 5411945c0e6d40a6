"""Entailment from files to files, and what is wrong with either; each recipe on toy data."""

import json
import logging
import re
from pathlib import Path

import pytest
from tests.tasks.toy_pairs import pair_recipe, write_pairs

from elmo.tasks.attention import MOST_ATTENDED
from elmo.tasks.recipe import read_task_recipe
from elmo.tasks.run import train_task
from elmo.tasks.snli.data import Pair
from elmo.tasks.snli.score import score
from elmo.tasks.snli.task import TASK
from elmo.tasks.trained import Trained
from elmo.text import Tokenizer

FOLDER = Path(__file__).parents[3] / "recipes"
RECIPES = sorted((FOLDER / "snli").glob("*.toml"))
SETTINGS = TASK.settings(language="whitespace")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    recipe = pair_recipe(tmp_path_factory.mktemp("runs"), training__n_epochs=6)
    return recipe, train_task(recipe)


def test_twenty_pairs_are_learned_by_heart(tmp_path):
    train = str(write_pairs(tmp_path / "train.jsonl"))
    recipe = pair_recipe(tmp_path, data__dev=[train], training__n_epochs=30)
    results = train_task(recipe)
    assert results.metric == "accuracy" and results.dev[1]["accuracy"] >= 99


def test_a_loaded_model_answers_as_when_it_was_saved(run, tmp_path):
    recipe, results = run
    Path(recipe.output).joinpath("seed-1").rename(tmp_path / "elsewhere")
    try:
        trained = Trained.load(tmp_path / "elsewhere")
    finally:
        (tmp_path / "elsewhere").rename(Path(recipe.output) / "seed-1")
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    assert trained.evaluate(dev) == results.dev[1] == trained.scores
    assert trained.predict(dev) == trained.predict(dev)


def test_answers_do_not_depend_on_what_is_read_together(run):
    recipe, _ = run
    trained = Trained.load(recipe.output)
    pairs = trained.task.read(Path(recipe.data.train[0]), recipe.model)
    together = trained.predict(pairs)
    assert together == [trained.predict([pair])[0] for pair in pairs]
    assert together == trained.predict(pairs[::-1])[::-1]


@pytest.mark.parametrize("where", ["output", "both"])
def test_an_encoder_enters_where_it_is_told_to(tmp_path, where):
    recipe = pair_recipe(
        tmp_path,
        encoder="elmo",
        encoder_mode="on_the_fly",
        where=where,
        training__n_epochs=1,
        data__n_train=4,
        data__n_dev=2,
    )
    weights = train_task(recipe).layer_weights[1]
    assert set(weights) == {"input", "output"} - ({"input"} if where == "output" else set())


def test_answers_are_written_with_the_pairs_names_and_can_be_scored(run, tmp_path):
    recipe, results = run
    trained = Trained.load(recipe.output)
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    trained.task.write(tmp_path / "answers.jsonl", dev, trained.predict(dev))
    records = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [record["pairID"] for record in records] == [f"toy-{k}" for k in range(9)]
    gold, predicted = ([r[name] for r in records] for name in ("gold_label", "predicted_label"))
    assert score(gold, predicted) == results.dev[1]


def test_pairs_without_labels_and_pairs_of_text_are_answered(run, tmp_path):
    recipe, _ = run
    trained = Trained.load(recipe.output)
    (tmp_path / "x.jsonl").write_text('{"sentence1": "my cat sings", "sentence2": "it sings"}\n')
    (tmp_path / "x.txt").write_text("my cat sings\tit sings\n")
    unlabelled = trained.task.read(tmp_path / "x.jsonl", recipe.model, labelled=False)
    of_text = trained.task.read_text(tmp_path / "x.txt", Tokenizer())
    assert unlabelled == of_text
    assert trained.predict(unlabelled) == trained.predict(of_text)
    with pytest.raises(ValueError, match="the pair '1' has no label"):
        trained.evaluate(of_text)


def test_pairs_on_which_annotators_did_not_agree_are_left_out_and_told(tmp_path, caplog):
    path = write_pairs(tmp_path / "x.jsonl", n=5)
    path.write_text(path.read_text().replace('"neutral"', '"-"'))
    with caplog.at_level(logging.WARNING):
        pairs = TASK.read(path, SETTINGS)
    assert [pair.id for pair in pairs] == ["toy-0", "toy-2", "toy-3"]
    assert f'{path}: 2 of 5 pairs are left out: their label is "-"' in caplog.text
    assert len(TASK.read(path, SETTINGS, labelled=False)) == 5


def test_nothing_but_pairs_without_agreement_is_refused(tmp_path):
    recipe = pair_recipe(tmp_path)
    path = Path(recipe.data.train[0])
    path.write_text(re.sub('"gold_label": "[a-z]+"', '"gold_label": "-"', path.read_text()))
    with pytest.raises(ValueError, match="no example was found"):
        train_task(recipe)


def test_labels_that_the_training_data_has_not_are_told_and_count_as_wrong(run, tmp_path, caplog):
    recipe, _ = run
    trained = Trained.load(recipe.output)
    path = write_pairs(tmp_path / "x.jsonl", n=6)
    path.write_text(path.read_text().replace('"entailment"', '"implied"'))
    with caplog.at_level(logging.WARNING):
        scores = trained.evaluate(trained.task.read(path, recipe.model))
    assert "2 pairs have labels that the training data has not: implied (2)" in caplog.text
    assert scores["recall/implied"] == 0 and scores["accuracy"] <= 100 * 4 / 6


def test_a_broken_line_is_told_by_file_and_number(tmp_path):
    recipe = pair_recipe(tmp_path)
    with open(recipe.data.dev[0], "a", encoding="utf-8") as file:
        file.write('{"sentence1": "a", "gold_label": "neutral"}\n')
    with pytest.raises(ValueError, match=r'dev\.jsonl, line 10: "sentence2" is missing'):
        train_task(recipe)


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_of_ours_runs_on_toy_data(path, tmp_path):
    recipe = read_task_recipe(path)
    assert recipe.output == f"runs/snli/{path.stem}" and recipe.encoder == "elmo"
    data = write_pairs(tmp_path / "toy.jsonl", n=6)
    settings = [
        f"output={tmp_path / 'run'}",
        *(f"data.{part}=['{data}']" for part in ("train", "dev", "test")),
        "encoder=none",
        "seeds=[1]",
        "training.n_epochs=1",
        "training.batch_size=3",
        "training.device=cpu",
    ]
    results = train_task(read_task_recipe(path, settings))
    assert results.fitted[1].n_steps == 2 and results.test[1].keys() == results.dev[1].keys()


@pytest.mark.parametrize(
    "path",
    [path for path in RECIPES if path.stem != "snli"],  # its data are for the user to fetch
    ids=lambda path: path.stem,
)
def test_the_data_of_every_recipe_is_there(path, shared):
    recipe = read_task_recipe(path)
    for name in (*recipe.data.train, *recipe.data.dev, *recipe.data.test):
        assert (shared / name.removeprefix("../shared/")).is_file(), name


def test_sentences_that_are_too_long_for_attention_are_refused():
    pair = Pair(("word",) * (MOST_ATTENDED + 1), ("short",))
    with pytest.raises(ValueError, match="has 10,001 tokens, but at most 10,000 can be read"):
        TASK.check_lengths([pair], {})
