"""Reading by recipe: it learns, answers alike in any batch, and says what is wrong."""

import json
import logging
import re
from pathlib import Path

import pytest
from tests.tasks.squad.toy_squad import toy_recipe, toy_squad, write_toy

from elmo import Tokenizer
from elmo.tasks.recipe import read_task_recipe
from elmo.tasks.run import spread, train_task
from elmo.tasks.squad.data import read_predictions
from elmo.tasks.squad.model import SquadConfig
from elmo.tasks.squad.task import TASK
from elmo.tasks.trained import Trained

SETTINGS = SquadConfig()
RECIPES = sorted((Path(__file__).parents[3] / "recipes" / "squad").glob("*.toml"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    recipe = toy_recipe(
        folder,
        data__dev=[str(write_toy(folder / "train.json"))],
        training__n_epochs=30,
        training__every_steps=50,
    )
    return recipe, train_task(recipe)


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def with_answers(*answers, text="He came in May. She came in May, too.", question="When?"):
    return {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": text,
                        "qas": [
                            {"id": "1", "question": question, "answers": [*answers]},
                            {"id": "2", "question": "Who came?", "answers": [{"text": "She"}]},
                        ],
                    }
                ]
            }
        ]
    }


def test_a_reader_learns_twenty_questions_by_heart(runs):
    _, results = runs
    assert results.metric == "f1"
    assert results.dev[1]["f1"] >= 99 and results.dev[1]["exact_match"] >= 99


def test_a_loaded_reader_answers_as_when_it_was_saved(runs):
    recipe, results = runs
    trained = Trained.load(recipe.output)
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    assert trained.evaluate(dev) == results.dev[1]


def test_answers_do_not_depend_on_what_is_read_together(runs):
    recipe, _ = runs
    trained = Trained.load(recipe.output)
    questions = [
        *TASK.read(Path(recipe.data.dev[0]), SETTINGS),
        *TASK.read(Path(recipe.data.train[0]), SETTINGS)[::-1],
    ]
    together = trained.predict(questions)
    assert together == [trained.predict([question])[0] for question in questions]
    assert together == trained.predict(questions[::-1])[::-1]


def test_a_paragraph_longer_than_the_limit_is_answered_from_all_its_windows(runs, tmp_path):
    recipe, _ = runs
    trained = Trained.load(recipe.output)
    (question, *_) = TASK.read(Path(recipe.data.dev[0]), SETTINGS)
    trained.labels = {"max_context": 40}
    answer = trained.predict([question])
    filler = "Rain fell upon the roof and on it went. " * 100
    for text in (filler + question.paragraph.text, question.paragraph.text + " " + filler):
        (long,) = TASK.read_text(
            written(tmp_path / "long.tsv", f"{text}\t{question.text}\n"), Tokenizer()
        )
        assert len(long.paragraph.tokens) > 900
        (found,) = trained.predict([long])
        assert found and found in text
    assert answer == [question.answers[0].text]


@pytest.mark.parametrize("where", ["input", "output", "both"])
def test_an_encoder_enters_at_each_place(tmp_path, where):
    recipe = toy_recipe(
        tmp_path,
        encoder="elmo",
        cache=str(tmp_path / "cache"),
        where=where,
        training__n_epochs=1,
        data__n_train=4,
        data__n_dev=2,
        model__max_context=12,
        model__max_answer=5,
    )
    results = train_task(recipe)
    places = ["input", "output"] if where == "both" else [where]
    assert [*results.layer_weights[1]] == places
    trained = Trained.load(recipe.output)
    dev = spread(TASK.read(Path(recipe.data.dev[0]), SETTINGS), 2)
    assert trained.evaluate(dev) == results.dev[1]


def test_questions_about_a_paragraph_share_what_encoders_read(tmp_path):
    first, second, *_ = TASK.read(write_toy(tmp_path / "x.json"), SETTINGS)
    (context, query), (other, _) = TASK.texts(first), TASK.texts(second)
    assert context is other and query == first.tokens
    assert context[:4] == ("In", first.paragraph.text[3:7], ",", "it")


def test_any_of_several_answers_is_right_and_each_place_is_learned(tmp_path):
    answers = [{"text": "May", "answer_start": 11}, {"text": "May"}, {"text": "in May"}]
    path = written(tmp_path / "x.json", with_answers(*answers, {"text": "May", "answer_start": 28}))
    questions = TASK.read(path, SETTINGS)
    assert questions[0].spans == ((3, 3), (2, 3), (8, 8))
    assert TASK.score(questions, ["in may", "He"], {}) == {"exact_match": 50.0, "f1": 50.0}


def test_questions_of_several_files_with_the_same_ids_are_scored_each(tmp_path):
    path = write_toy(tmp_path / "x.json", n=2)
    questions = [*TASK.read(path, SETTINGS), *TASK.read(path, SETTINGS)]
    right = [question.answers[0].text for question in questions]
    assert TASK.score(questions, [*right[:2], "?", "?"], {})["f1"] == 50
    with pytest.raises(ValueError, match="2 questions have the id of another"):
        TASK.write(tmp_path / "y.json", questions, right)


def test_predictions_are_what_the_official_script_reads(tmp_path):
    questions = TASK.read(write_toy(tmp_path / "x.json", n=4), SETTINGS)
    TASK.write(tmp_path / "y.json", questions, ["a", "é", "c", "d"])
    assert read_predictions(tmp_path / "y.json") == dict(
        zip([question.id for question in questions], ["a", "é", "c", "d"], strict=True)
    )


def test_answers_that_are_not_in_the_paragraph_are_counted(tmp_path, caplog):
    questions = TASK.read(
        written(tmp_path / "x.json", with_answers({"text": "June"}, {"text": "July"})), SETTINGS
    )
    with caplog.at_level(logging.WARNING):
        labels = TASK.labels(questions, SETTINGS)
        TASK.check(questions, labels)
    assert "1 of 2 training questions are not learned from" in caplog.text
    assert "2 of 3 gold answers are not in their paragraph" in caplog.text
    assert "1 questions have no other" in caplog.text
    with pytest.raises(ValueError, match="none of 1 training questions has an answer"):
        TASK.labels(questions[:1], SETTINGS)


def test_paragraphs_read_in_windows_are_counted(tmp_path, caplog):
    questions = TASK.read(write_toy(tmp_path / "x.json"), SETTINGS)
    n_tokens = [len(question.paragraph.tokens) for question in questions]
    with caplog.at_level(logging.WARNING):
        TASK.check(questions, {"max_context": max(n_tokens)})
    assert not caplog.text
    with caplog.at_level(logging.WARNING):
        TASK.check(questions, {"max_context": 13})
    n_longer = sum(n > 13 for n in n_tokens)
    assert (
        f"{n_longer} of 20 questions are about paragraphs of more than 13 tokens "
        f"(up to {max(n_tokens)})"
    ) in caplog.text


def test_a_run_with_an_absent_answer_goes_on(tmp_path):
    content = toy_squad(4, 1)
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "nowhere"}]
    train = written(tmp_path / "x.json", content)
    results = train_task(
        toy_recipe(tmp_path, data__train=[str(train)], training__n_epochs=2, training__batch_size=1)
    )
    assert results.fitted[1].n_steps == 8


def test_text_is_a_paragraph_and_a_question_on_each_line(tmp_path):
    path = written(tmp_path / "x.tsv", "It rained.\tWhat?\n\nIt rained.\tDid it?\nNo.\tWhy?\n")
    first, second, third = TASK.read_text(path, Tokenizer())
    assert [question.id for question in (first, second, third)] == ["1", "3", "4"]
    assert first.paragraph is second.paragraph and first.paragraph.words == ("It", "rained", ".")
    assert third.tokens == ("Why", "?") and third.answers is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("It rained.\tWhat?\nIt rained.\n", "x.tsv, line 2: has 1 columns, but 2 are wanted"),
        ("a\tb\tc\n", "x.tsv, line 1: has 3 columns"),
        ("a\tb\n\tWho?\n", "x.tsv, line 2: the paragraph is ''"),
        ("a\t \n", "x.tsv, line 1: the question is ' '"),
    ],
)
def test_broken_lines_are_told(tmp_path, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TASK.read_text(written(tmp_path / "x.tsv", content), Tokenizer())


def test_questions_without_answers_can_be_answered_but_not_measured(tmp_path):
    content = toy_squad(4, 1)
    del content["data"][0]["paragraphs"][1]["qas"][0]["answers"]
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"] = []
    path = written(tmp_path / "x.json", content)
    with pytest.raises(ValueError, match=re.escape('paragraphs[0].qas[0]: "answers" is empty')):
        TASK.read(path, SETTINGS)
    assert all(q.answers is None for q in TASK.read(path, SETTINGS, labelled=False))
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "it"}]
    with pytest.raises(ValueError, match=r'1 of 4 questions have no "answers", .* "1-1-0"'):
        TASK.read(written(path, content), SETTINGS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dropout": 1.0}, "dropout is 1.0, but it is a probability below 1"),
        ({"hidden_dim": 0}, "hidden_dim is 0"),
        ({"max_context": 20}, "max_answer is 17, but windows of max_context = 20 tokens"),
    ],
)
def test_settings_that_cannot_be_are_told(values, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SquadConfig(**values)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_each_recipe_makes_two_steps_on_toy_data(path, tmp_path):
    train, dev = write_toy(tmp_path / "train.json", n=8), write_toy(tmp_path / "dev.json", n=2)
    recipe = read_task_recipe(
        path,
        [
            f"output={tmp_path / 'runs'}",
            f"data.train={json.dumps([str(train)])}",
            f"data.dev={json.dumps([str(dev)])}",
            "data.test=[]",
            "encoder=elmo",
            "encoder_mode=on_the_fly",
            "seeds=[1]",
            "training.batch_size=4",
            "training.n_epochs=1",
            "training.every_steps=2",
            "training.device=cpu",
        ],
    )
    assert train_task(recipe).fitted[1].n_steps == 2
