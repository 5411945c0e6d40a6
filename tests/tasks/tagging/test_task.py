"""Tagging from files to files: spans and parts of speech, and what is wrong with either."""

import logging
import re
from pathlib import Path

import pytest
from tests.tasks.toy_tagging import toy_recipe, write_toy

from elmo.tasks.run import train_task
from elmo.tasks.tagging.score import score_tags
from elmo.tasks.tagging.task import TASK
from elmo.tasks.trained import Trained
from elmo.text import Tokenizer

WORDS = {"DET": ["the", "a"], "NOUN": ["run", "walk", "dog"], "VERB": ["run", "walk", "sleeps"]}
ORDERS = [("DET", "NOUN", "VERB"), ("VERB", "DET", "NOUN"), ("NOUN", "VERB")]


def write_conllu(path: Path, n: int = 20) -> Path:
    """Sentences whose words are nouns or verbs by what stands before them."""
    lines = []
    for k in range(n):
        for i, tag in enumerate(ORDERS[k % len(ORDERS)]):
            word = WORDS[tag][(k + i) % len(WORDS[tag])]
            lines.append("\t".join([str(i + 1), word, "_", tag, tag.lower(), *"_" * 5]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def parts_of_speech(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pos")
    data = str(write_conllu(folder / "toy.conllu"))
    recipe = toy_recipe(folder, data__train=[data], data__dev=[data], training__n_epochs=30)
    return recipe, train_task(recipe)


def test_parts_of_speech_are_learned_by_heart_and_kept(parts_of_speech):
    recipe, results = parts_of_speech
    assert results.metric == "accuracy" and results.dev[1]["accuracy"] >= 99
    trained = Trained.load(recipe.output)
    assert trained.model.crf is None
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    assert trained.evaluate(dev) == results.dev[1]
    together = trained.predict(dev)
    assert together == [trained.predict([sentence])[0] for sentence in dev]


def test_tags_of_another_column_are_learned_as_well(tmp_path):
    data = str(write_conllu(tmp_path / "toy.conllu"))
    recipe = toy_recipe(
        tmp_path,
        data__train=[data],
        data__dev=[data],
        model__column="xpos",
        model__crf=True,
        training__n_epochs=1,
    )
    train_task(recipe)
    trained = Trained.load(recipe.output)
    assert trained.labels["tags"] == ["det", "noun", "verb"] and trained.model.crf is not None


def test_words_without_tags_are_answered_and_written(parts_of_speech, tmp_path):
    recipe, _ = parts_of_speech
    trained = Trained.load(recipe.output)
    (tmp_path / "words.txt").write_text("the\ndog\n\nwalk\n\n")
    sentences = trained.task.read(tmp_path / "words.txt", recipe.model, labelled=False)
    answers = trained.predict(sentences)
    trained.task.write(tmp_path / "tagged.txt", sentences, answers)
    expected = [["the", answers[0][0]], ["dog", answers[0][1]], [], ["walk", answers[1][0]]]
    assert [line.split() for line in (tmp_path / "tagged.txt").read_text().splitlines()][
        :4
    ] == expected


def test_plain_text_is_answered_a_sentence_per_line(parts_of_speech, tmp_path):
    (tmp_path / "plain.txt").write_text("The dog sleeps.\n\nWalk!\n")
    sentences = TASK.read_text(tmp_path / "plain.txt", Tokenizer())
    assert [s.tokens for s in sentences] == [("The", "dog", "sleeps", "."), ("Walk", "!")]
    answers = Trained.load(parts_of_speech[0].output).predict(sentences)
    assert [len(answer) for answer in answers] == [4, 2]


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_what_is_written_scores_as_what_was_predicted(tmp_path, scheme):
    recipe = toy_recipe(tmp_path, training__n_epochs=4, model__scheme=scheme)
    results = train_task(recipe)
    trained = Trained.load(recipe.output)
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    trained.task.write(tmp_path / "out.txt", dev, trained.predict(dev))
    blocks = (tmp_path / "out.txt").read_text().strip().split("\n\n")
    rows = [[line.split() for line in block.splitlines()] for block in blocks]
    right, predicted = ([[row[k] for row in of] for of in rows] for k in (1, 2))
    assert score_tags(right, predicted).metrics() == results.dev[1]
    assert any(tag == "S-LOC" for tag in trained.labels["tags"]) == (scheme == "BIOES")


def test_training_tags_that_are_not_bio_are_read_as_conlleval_reads_them(tmp_path, caplog):
    path = write_toy(tmp_path / "train.txt")
    whole = TASK.read(path, TASK.settings())
    # IOB1: a span begins with I unless another of its type stands right before it.
    path.write_text(re.sub(r"(?m)^(\S+) B-", r"\1 I-", path.read_text()))
    with caplog.at_level(logging.WARNING):
        labels = TASK.labels(TASK.read(path, TASK.settings()), TASK.settings())
    assert re.search(r"\d+ of 20 training sentences were not in BIO", caplog.text)
    assert labels == TASK.labels(whole, TASK.settings())


def test_tags_that_write_no_spans_are_refused_where_spans_were_learned(tmp_path):
    labels = TASK.labels(TASK.read(write_toy(tmp_path / "a.txt"), TASK.settings()), TASK.settings())
    (tmp_path / "b.txt").write_text("Ada NOUN\n")
    sentences = TASK.read(tmp_path / "b.txt", TASK.settings())
    with pytest.raises(ValueError, match=r"b\.txt, line 1: tag 'NOUN' writes no span"):
        TASK.check(sentences, labels)


def test_spans_without_a_label_are_learned_by_heart(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("the O\ndog B\nran O\n\nNew B\nYork I\nis O\na O\ncity B\n\n" * 5)
    data = [str(path)]
    recipe = toy_recipe(tmp_path, data__train=data, data__dev=data, training__n_epochs=20)
    assert recipe.model.scheme == "BIOES" and train_task(recipe).dev[1]["f1"] == 100


def test_what_is_counted_is_what_the_model_learned_and_not_what_a_file_holds(tmp_path):
    (tmp_path / "train.txt").write_text("a O\nb ERR\n\n")
    (tmp_path / "dev.txt").write_text("a O\nb O\n\n")
    train, dev = (TASK.read(tmp_path / f"{name}.txt", TASK.settings()) for name in ("train", "dev"))
    labels = TASK.labels(train, TASK.settings())
    assert TASK.score(dev, [["O", "ERR"]], labels) == {"accuracy": 50.0}
    assert TASK.score(dev, [["O", "B"]], {"spans": True})["precision"] == 0


def test_right_tags_that_conlleval_repairs_are_counted(tmp_path, caplog):
    settings = TASK.settings()
    labels = TASK.labels(TASK.read(write_toy(tmp_path / "a.txt"), settings), settings)
    (tmp_path / "b.txt").write_text("Ada I-PER\n\nOslo B-LOC\n\nOslo S-LOC\n")
    with caplog.at_level(logging.WARNING):
        TASK.check(TASK.read(tmp_path / "b.txt", settings), labels)
    assert "1 of 3 sentences have tags that are neither BIO nor BIOES" in caplog.text


def test_the_report_is_that_of_conlleval(tmp_path):
    settings = TASK.settings()
    sentences = TASK.read(write_toy(tmp_path / "a.txt"), settings)
    labels, right = TASK.labels(sentences, settings), [s.tags for s in sentences]
    report = TASK.report(sentences, right, labels)
    assert report == score_tags(right, right).report() and "FB1: 100.00" in report


def test_training_tags_of_which_some_write_no_span_are_told(tmp_path, caplog):
    path = tmp_path / "train.txt"
    path.write_text("Ada B-PER\nsaw 0\nParis LOC\n. O\n")
    with caplog.at_level(logging.WARNING):
        labels = TASK.labels(TASK.read(path, TASK.settings()), TASK.settings())
    assert not labels["spans"]
    assert "not as spans, as 2 of 4 write none: 0, LOC" in caplog.text


def test_a_token_that_no_vocabulary_file_can_hold_is_learned_by_its_characters(tmp_path):
    path = tmp_path / "spaces.txt"
    path.write_text("\u00a0 O\nAda B-PER\nx\u00a0 O\n\n" * 3)
    recipe = toy_recipe(
        tmp_path, data__train=[str(path)], data__dev=[str(path)], training__n_epochs=1
    )
    train_task(recipe)
    trained = Trained.load(recipe.output)
    assert trained.vocabulary.words[3:] == ["Ada"]
    assert trained.predict(trained.task.read(path, recipe.model))


def test_a_broken_line_is_told_by_file_and_number(tmp_path):
    recipe = toy_recipe(tmp_path)
    path = Path(recipe.data.train[0])
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, "Ada B-PER extra"]) + "\n")
    with pytest.raises(ValueError, match=rf"train\.txt, line {len(lines) + 1}: .* has 3 columns"):
        train_task(recipe)


def test_unknown_tags_count_as_wrong(tmp_path, caplog):
    recipe = toy_recipe(tmp_path, training__n_epochs=12)
    train_task(recipe)
    trained = Trained.load(recipe.output)
    (tmp_path / "test.txt").write_text("Nobody O\nsaw O\nACME B-ORG\n. O\n")
    with caplog.at_level(logging.WARNING):
        scores = trained.evaluate(trained.task.read(tmp_path / "test.txt", recipe.model))
    assert "1 tokens have tags that the training data has not: B-ORG (1)" in caplog.text
    assert scores["recall/ORG"] == 0 and scores["accuracy"] <= 75
