import pytest
from tests.test_tagged import CONLLU

from elmo.tagged import TaggedSentence, read_tagged
from elmo.tasks.tag_spans import tag_spans
from elmo.tasks.tagging.data import (
    repaired,
    span_labels,
    unknown_tags,
    write_tagged,
)


@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        (None, ["\tADP\t", "\tDET\t", "\tPROPN\t", "\tSYM\t"], "\t{}\t"),
        ("xpos", ["\tIN\t", "\tDT\t", "\tNNP\t", "\tNN\t"], "\t{}\t"),
    ],
)
def test_conllu_that_was_to_be_tagged_is_written_with_its_tags_alone_replaced(
    tmp_path, column, old, new
):
    path = tmp_path / "data.conllu"
    path.write_text(CONLLU)
    sentences = read_tagged(path, column=column, labelled=False)
    assert [s.tags for s in sentences] == [None, None]
    write_tagged(tmp_path / "out.conllu", sentences, [["T0", "T1", "T2"], ["T3"]])
    expected = CONLLU
    for k, before in enumerate(old):
        assert expected.count(before) == 1
        expected = expected.replace(before, new.format(f"T{k}"))
    assert (tmp_path / "out.conllu").read_text() == expected
    write_tagged(tmp_path / "scored", read_tagged(path), [["T0", "T1", "T2"], ["T3"]])
    assert (tmp_path / "scored").read_text().startswith("From ADP T0\n")


def test_tags_that_are_not_bio_are_repaired_and_counted():
    sentences = [
        TaggedSentence(("a", "b", "c"), ("I-PER", "I-PER", "B-PER")),
        TaggedSentence(("d", "e"), ("B-LOC", "I-LOC")),
        TaggedSentence(("f",)),
        TaggedSentence(("g", "h"), ("B-LOC", "I-ORG")),
    ]
    fixed, n_changed = repaired(sentences)
    assert n_changed == 2
    assert [s.tags for s in fixed] == [
        ("B-PER", "I-PER", "B-PER"),
        ("B-LOC", "I-LOC"),
        None,
        ("B-LOC", "B-ORG"),
    ]
    assert span_labels(fixed) == ["LOC", "ORG", "PER"]


def test_unknown_tags_are_counted_by_token():
    sentences = [TaggedSentence(("a", "b"), ("B-NEW", "O")), TaggedSentence(("c",), ("B-NEW",))]
    assert unknown_tags(sentences, ["O", "B-PER"]) == {"B-NEW": 2}


def test_predictions_are_written_as_conlleval_reads_them(tmp_path):
    path = tmp_path / "predicted.txt"
    sentences = [
        TaggedSentence(("A P", "b"), ("I-ORG", "O")),
        TaggedSentence(("c", "-X-", "e"), ("S-PER", "B-LOC", "E-LOC")),
    ]
    write_tagged(path, sentences, [["B-ORG", "O"], ["S-PER", "S-PER", "O"]])
    assert path.read_text() == (
        "A_P I-ORG B-ORG\nb O O\n\nc B-PER B-PER\n_X_ B-LOC B-PER\ne I-LOC O\n\n"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_predictions_of_unlabelled_sentences_can_be_read_as_labelled_ones(tmp_path):
    path = tmp_path / "predicted.txt.gz"
    write_tagged(path, [TaggedSentence(("S", "b"))], [["NOUN", "S"]])
    assert read_tagged(path) == [TaggedSentence(("S", "b"), ("NOUN", "S"))]


def test_predictions_need_a_tag_for_each_token(tmp_path):
    with pytest.raises(ValueError, match="1 tags were given for the 2 tokens"):
        write_tagged(tmp_path / "x", [TaggedSentence(("a", "b"))], [["O"]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "n_sentences", "n_tokens", "n_spans"),
    [
        ("ner/wnut17/dev.txt", 1009, 15733, 836),
        ("ner/wikigold/dev.txt", 176, 3702, 386),
        ("ner/btc/dev.txt", 2000, 29476, 3368),
        ("bioner/ncbi-disease/dev.txt", 923, 23969, 787),
    ],
)
def test_data_sets_have_the_counts_of_their_readmes(shared, file, n_sentences, n_tokens, n_spans):
    sentences = read_tagged(shared / "datasets" / file)
    assert len(sentences) == n_sentences
    assert sum(len(s.tokens) for s in sentences) == n_tokens
    assert sum(len(tag_spans(s.tags)) for s in sentences) == n_spans
