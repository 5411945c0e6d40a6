import json
import re
from collections import Counter

import pytest

from elmo.tasks.classification.data import (
    LabelledText,
    have_several_labels,
    known_labels,
    read_texts,
    unknown_labels,
    write_texts,
)
from elmo.text import WHITESPACE, Tokenizer

TREE = "(3 (2 It) (4 (3 (2 's) (1 n\u00a0t)) (2 -LRB-)))"


@pytest.fixture
def write(tmp_path):
    def write(text, name):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_tree_is_a_sentence_with_the_label_of_its_root(write):
    (text,) = read_texts(write(TREE + "\n\n", "data.txt"))
    assert text == LabelledText(("It", "'s", "n\u00a0t", "("), ("3",), "It 's n\u00a0t (")


def test_phrases_of_a_tree_are_texts_of_their_own(write):
    texts = read_texts(write(TREE, "data.tree"), phrases=True)
    assert [(t.text, *t.labels) for t in texts] == [
        ("It 's n\u00a0t (", "3"),
        ("It", "2"),
        ("'s n\u00a0t (", "4"),
        ("'s n\u00a0t", "3"),
        ("'s", "2"),
        ("n\u00a0t", "1"),
        ("(", "2"),
    ]


def test_slashes_are_put_back(write):
    assert read_texts(write("(2 (2 1\\/2) (2 \\*))", "a.txt"))[0].tokens == ("1/2", "*")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(3 (2 It) (4 works)", "1 brackets are not closed"),
        ("(3 (2 It) (4 works)))", "')' stands outside the brackets"),
        ("It works", "'It' stands outside the brackets"),
        ("(3 (2 It) (4))", "a phrase has no tokens"),
        ("(3)", "a phrase has no tokens"),
        ("((2 It) (4 works))", "a phrase has no label"),
        ("((2 It) 3 works)", "a phrase has no label"),
        ("(3 It) (4 works)", "has more than one tree"),
    ],
)
def test_a_broken_tree_is_refused_with_file_and_line(write, tree, message):
    path = write(f"{TREE}\n{tree}\n", "data.txt")
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 2: ") + ".*") as error:
        read_texts(path)
    assert message in str(error.value)


def test_values_between_tabs_are_text_labels_and_id(write):
    texts = read_texts(write("Don't, please!\t4,27\tee8\nWell.\t3\n", "data.tsv"))
    assert texts == [
        LabelledText(("Do", "n't", ",", "please", "!"), ("4", "27"), "Don't, please!", "ee8"),
        LabelledText(("Well", "."), ("3",), "Well."),
    ]
    assert have_several_labels(texts)
    assert not have_several_labels(texts[1:])


def test_a_label_is_the_same_with_spaces_around_it_and_counts_once(write):
    texts = read_texts(write("fine\tjoy, love\nwell\tlove ,joy, joy\n", "data.tsv"))
    assert [text.labels for text in texts] == [("joy", "love"), ("love", "joy")]
    (text,) = read_texts(write('{"text": "fine", "labels": ["joy", "joy"]}', "data.jsonl"))
    assert text.labels == ("joy",)


def test_a_header_is_no_text(write):
    assert len(read_texts(write("Sentence\tLabel\nfine\tgood\n", "data.tsv"))) == 1
    path = write("text\nfine\n", "data.tsv")
    assert [text.text for text in read_texts(path, labelled=False)] == ["fine"]


def test_objects_have_a_text_or_tokens_and_a_label_or_labels(write):
    lines = [
        {"text": "Well, well.", "label": 3},
        {"tokens": ["Well,", "well."], "labels": ["joy", "fear, or so"], "id": 7},
    ]
    assert read_texts(write("\n".join(map(json.dumps, lines)), "data.jsonl")) == [
        LabelledText(("Well", ",", "well", "."), ("3",), "Well, well."),
        LabelledText(("Well,", "well."), ("joy", "fear, or so"), "Well, well.", "7"),
    ]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a.tsv", "no label", "'no label' has 1 columns between tabs"),
        ("a.tsv", "a\tb\tc\td", "has 4 columns between tabs"),
        ("a.tsv", "a\t\tid", "the text 'a' has no label"),
        ("a.tsv", "\u00a0 \t3", "has no tokens"),
        ("a.jsonl", "{", "is not JSON"),
        ("a.jsonl", "[" * 99999 + "]" * 99999, "stand too deep within each other"),
        ("a.jsonl", "[1]", "holds list, but a JSON object was expected"),
        ("a.jsonl", '{"text": "a"}', '"label" is [None]'),
        ("a.jsonl", '{"text": "a", "label": true}', '"label" is [True]'),
        ("a.jsonl", '{"text": "a", "labels": []}', "has no label"),
        ("a.jsonl", '{"text": 3, "label": "x"}', '"text" is 3, but expected a string'),
        ("a.jsonl", '{"text": "", "label": "x"}', "the text '' has no tokens"),
        ("a.jsonl", '{"tokens": "a", "label": "x"}', "\"tokens\" is 'a', but expected a list"),
        ("a.jsonl", '{"tokens": ["a", " "], "label": "x"}', "\"tokens\" is ['a', ' '], but each"),
        ("a.jsonl", '{"tokens": ["\\ud800"], "label": "x"}', '"tokens" holds a lone surrogate'),
        ("a.jsonl", '{"tokens": ["a"], "text": 3, "label": "x"}', '"text" is 3, but expected a'),
        ("a.jsonl", '{"text": "a", "label": "\\ud800"}', '"label" holds a lone surrogate'),
    ],
)
def test_a_broken_line_is_refused_with_file_and_line(write, name, line, message):
    good = {"a.tsv": "a\t1", "a.jsonl": '{"text": "a", "label": "1"}'}[name]
    path = write(f"{good}\n{line}\n", name)
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 2: ") + ".*") as error:
        read_texts(path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"), [("a.tsv", "a b\t\n"), ("a.jsonl", '{"text": "a b", "labels": []}')]
)
def test_no_label_is_an_answer_where_there_may_be_several(write, name, text):
    path = write(text, name)
    assert read_texts(path, several=True) == [LabelledText(("a", "b"), (), "a b")]
    for several in (None, False):
        with pytest.raises(ValueError, match=r"has no label: .* set model\.several = true"):
            read_texts(path, several=several)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "a b\n"),
        ("a.tsv", "a b\tx\n"),
        ("a.jsonl", '{"text": "a b"}'),
        ("a.txt", "(3 (2 a) (2 b))"),
    ],
)
def test_labels_may_be_absent_if_none_are_wanted(write, name, text):
    assert read_texts(write(text, name), labelled=False) == [LabelledText(("a", "b"), None, "a b")]


def test_a_name_of_no_format_is_refused(write):
    path = write("a", "data.csv.gz")
    with pytest.raises(ValueError, match=re.escape(f"{path}: its name says no format")):
        read_texts(path)


def test_only_trees_have_phrases(write):
    with pytest.raises(ValueError, match="has no phrases, as trees have"):
        read_texts(write("a\tb", "data.tsv"), phrases=True)


def test_a_file_without_texts_is_refused(write):
    with pytest.raises(ValueError, match="has no texts"):
        read_texts(write("text\tlabel\n\n", "data.tsv"))


def test_labels_are_in_order_and_unknown_ones_counted():
    texts = [LabelledText(("a",), ("10", "9")), LabelledText(("b",), ("9",)), LabelledText(("c",))]
    assert known_labels(texts) == ["9", "10"]
    assert known_labels([*texts, LabelledText(("d",), ("x",))]) == ["10", "9", "x"]
    assert unknown_labels(texts, ["10"]) == {"9": 2}


@pytest.mark.parametrize("name", ["out.tsv", "out.tsv.gz"])
def test_predictions_between_tabs_can_be_read_as_labels(tmp_path, name):
    path = tmp_path / name
    texts = [
        LabelledText(("So", ","), ("1",), "So,\n\t ", "x"),
        LabelledText(("a", "b"), None, "a b"),
    ]
    write_texts(path, texts, [("3", "4"), ("1",)])
    assert read_texts(path) == [
        LabelledText(("So", ","), ("3", "4"), "So,", "x"),
        LabelledText(("a", "b"), ("1",), "a b"),
    ]
    assert list(tmp_path.iterdir()) == [path]


def test_predictions_as_objects_stand_beside_the_right_labels(tmp_path):
    path = tmp_path / "out.jsonl"
    text = LabelledText(("So", ","), ("1",), "So,\n", "x")
    write_texts(path, [text, LabelledText(("a", "b"))], [("3",), ()])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"text": "So,\n", "predicted": ["3"], "labels": ["1"], "id": "x"},
        {"text": "a b", "predicted": []},
    ]


def test_the_treebank_has_the_counts_of_its_readme(shared):
    path = shared / "datasets/sentiment/sst5/dev.txt"
    labels = Counter(label for text in read_texts(path) for label in text.labels)
    assert labels == {"0": 139, "1": 289, "2": 229, "3": 279, "4": 165}


@pytest.mark.slow
def test_the_treebank_has_the_phrases_of_its_readme(shared):
    path = shared / "datasets/sentiment/sst5/dev.txt"
    assert len(read_texts(path, phrases=True)) == 41447


def test_comments_have_the_counts_of_their_readme(shared):
    folder = shared / "datasets/sentiment/goemotions"
    texts = read_texts(folder / "dev.tsv", tokenizer=Tokenizer(WHITESPACE))
    assert len(texts) == 5426
    n_labels = len((folder / "labels.txt").read_text().split())
    assert known_labels(texts) == [str(i) for i in range(n_labels)]
