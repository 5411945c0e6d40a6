import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.coref.data import (
    Document,
    crossing,
    in_order_of_reading,
    read_coref,
    write_coref,
)

TEXT = """\
#begin document (nw/x_1); part 001
nw/x_1 1 0 Ann NNP * - - - Bo * (4)
nw/x_1 1 1 and CC * - - - Bo * -
nw/x_1 1 2 her PRP * - - - Bo * (7|(4)

nw/x_1 1 0 son NN * - - - - * 7)
nw/x_1 1 1 . . * - - - - * -

#end document
#begin document (nw/x_1); part 002
nw/x_1 2 0 Yes UH * - - - - * -
#end document
"""
ANN = Document(
    "nw/x_1",
    (("Ann", "and", "her"), ("son", ".")),
    (((0, 1), (2, 3)), ((2, 4),)),
    (("Bo", "Bo", "Bo"), ("-", "-")),
    "001",
)
YES = Document("nw/x_1", (("Yes",),), (), (("-",),), "002")


def written(path, text):
    path.write_text(text)
    return path


def column(path):
    return [line.split("\t")[-1] for line in path.read_text().splitlines() if "\t" in line]


def document(n_tokens, name="d"):
    return Document(name, (tuple("w" * n_tokens),))


def read_cells(path, *cells):
    text = "".join(f"d\t0\t{i}\tw\t{cell}\n" for i, cell in enumerate(cells))
    return read_coref(written(path / "cells", f"#begin document (d);\n{text}\n#end document\n"))[
        0
    ].clusters


def test_documents_are_read_with_clusters_over_all_of_their_sentences(tmp_path):
    assert read_coref(written(tmp_path / "a", TEXT)) == [ANN, YES]
    assert ANN.tokens == ("Ann", "and", "her", "son", ".")


def test_what_is_written_has_tabs_and_the_first_line_that_the_scorer_looks_for(tmp_path):
    write_coref(tmp_path / "a", [ANN], [ANN.clusters])
    lines = (tmp_path / "a").read_text().splitlines()
    assert lines[0] == "#begin document (nw/x_1); part 001" and lines[-1] == "#end document"
    assert lines[1].split("\t") == ["nw/x_1", *"10", "Ann", *"-*---", "Bo", "*", "(0)"]
    assert column(tmp_path / "a") == ["(0)", "-", "(0)|(1", "1)", "-"]


@pytest.mark.parametrize("heading", ["(d)", "(d);part 0", "(d); part 0 ", "(d) part 000;"])
def test_the_first_line_by_which_the_scorer_finds_a_document_stays_as_it_was(tmp_path, heading):
    text = f"#begin document {heading}\nd 0 0 a (0)\n\n#end document\n"
    documents = read_coref(written(tmp_path / "a", text))
    write_coref(tmp_path / "b", documents, [documents[0].clusters])
    assert (tmp_path / "b").read_text().splitlines()[0] == f"#begin document {heading}"
    assert read_coref(tmp_path / "b")[0].heading == heading


def test_documents_can_be_read_back(tmp_path):
    path = tmp_path / "a.gz"
    without_part = Document("x (y)", (("a b",),), (((0, 1),),), (("-",),), "")
    documents = [ANN, YES, without_part]
    write_coref(path, documents, [each.clusters for each in documents])
    assert read_coref(path) == documents


def test_without_speakers_five_columns_are_enough(tmp_path):
    text = "#begin document (LuoTestCase);\nt\t0\t0\ta\t(0\nt\t0\t1\tb\t0)\t\n#end document\n"
    (found,) = read_coref(written(tmp_path / "a", text))
    assert found == Document("LuoTestCase", (("a", "b"),), (((0, 2),),), (), "")


def test_a_bracket_closes_the_mention_of_its_cluster_that_was_opened_last(tmp_path):
    assert read_cells(tmp_path, "(0", "(0", "0)", "0)") == (((0, 4), (1, 3)),)
    assert read_cells(tmp_path, "(0|(0", "0)", "0)") == (((0, 2), (0, 3)),)


def test_mentions_of_different_clusters_may_cross_and_are_counted(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        found = read_cells(tmp_path, "(0", "(1", "0)", "1)")
    assert found == (((0, 3),), ((1, 4),))
    assert "1 pairs of mentions cross" in caplog.text


def test_in_a_cell_openings_are_read_before_closings_whatever_their_order(tmp_path):
    # As the reference scorer does: the mention of one token, then (0, then 0).
    assert read_cells(tmp_path, "(0", "0)|(0", "0)") == (((0, 3), (1, 2)),)
    assert read_cells(tmp_path, "-", "(0|(1)", "0)") == (((1, 2),), ((1, 3),))


def test_a_mention_that_is_there_twice_stays_so(tmp_path):
    clusters = read_cells(tmp_path, "(0)|(1)", "(1)|(1)", "_")
    assert clusters == (((0, 1),), ((0, 1), (1, 2), (1, 2)))
    write_coref(tmp_path / "a", [document(3)], [clusters])
    assert read_coref(tmp_path / "a")[0].clusters == clusters


def test_pairs_cross_if_they_share_tokens_and_none_holds_the_other():
    assert crossing([[(0, 3), (0, 2)], [(1, 3), (2, 4)], [(3, 4)]]) == [
        ((0, 2), (1, 3)),
        ((0, 3), (2, 4)),
        ((1, 3), (2, 4)),
    ]


@pytest.mark.parametrize(
    "name, genre",
    [("bc/cctv/00/cctv_0000", "bc"), ("GUM_academic_exposure", "academic"), ("32_herland", "")],
)
def test_the_genre_is_what_the_name_says(name, genre):
    assert Document(name, (("a",),)).genre == genre


spans = st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda s: (s[0], min(7, sum(s))))


@st.composite
def partitions(draw):
    clusters = []
    for span in draw(st.lists(spans, unique=True, max_size=8)):
        place = draw(st.integers(0, len(clusters)))
        # Not `crossing`: what checks its annotations draws at random, which strategies must not.
        if place == len(clusters) or any(
            a < c < b < d for x in clusters[place] for (a, b), (c, d) in ((x, span), (span, x))
        ):
            clusters.append([span])
        else:
            clusters[place].append(span)
    return clusters


@given(partitions())
def test_any_clusters_whose_mentions_do_not_cross_can_be_read_back(tmp_path_factory, clusters):
    path = tmp_path_factory.mktemp("a") / "a"
    write_coref(path, [document(7)], [clusters])
    found = read_coref(path)[0].clusters
    assert found == tuple(map(tuple, in_order_of_reading(clusters)))
    assert {frozenset(cluster) for cluster in found} == {frozenset(c) for c in clusters}


@pytest.mark.parametrize(
    "clusters, message",
    [
        ([[(0, 2), (1, 3)]], "document d: mentions (0, 2) and (1, 3) of one cluster cross"),
        ([[(2, 4)]], "document d: (2, 4) is no span of its 3 tokens"),
        ([[(1, 1)]], "document d: (1, 1) is no span of its 3 tokens"),
    ],
)
def test_clusters_that_the_format_cannot_say_are_refused(tmp_path, clusters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        write_coref(tmp_path / "a", [document(3)], [clusters])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("speaker", ["", "a\tb"])
def test_speakers_that_a_column_cannot_hold_are_refused(tmp_path, speaker):
    spoken = Document("d", (("w",),), None, ((speaker,),))
    with pytest.raises(ValueError, match=r"document d, sentence 0: .* cannot stand in a column"):
        write_coref(tmp_path / "a", [spoken], [[]])


def test_documents_that_the_scorer_could_not_tell_apart_are_refused(tmp_path):
    with pytest.raises(ValueError, match="document d, part 000, is there twice"):
        write_coref(tmp_path / "a", [document(1), document(2)], [[], []])
    twice = TEXT.replace("part 002", "part 001")
    message = "line 10: document nw/x_1, part 001, begins a second time, after line 1"
    with pytest.raises(ValueError, match=message):
        read_coref(written(tmp_path / "b", twice))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("* (4)\n", "* (4\n", "line 2: (4 opens a mention that its document does not close"),
        ("* 7)", "* 8)", "line 6: 8) closes a mention of cluster 8, but none is open"),
        ("* 7)", "* 7", "line 6: the last column is '7', but expected mentions such as (7, 7)"),
        ("(7|(4)", "(7(4)", "line 4: the last column is '(7(4)'"),
        ("nw/x_1 2 0 Yes UH * - - - - * -", "nw/x_1 2 0 -", "line 11: 4 columns, but at least 5"),
        ("#begin document (nw/x_1); part 001\n", "", "line 1: stands outside of a document"),
        (
            "\n#end document\n#b",
            "\n#b",
            "line 9: document nw/x_1 begins before nw/x_1, from line 1",
        ),
        ("nw/x_1 2 0 Yes UH * - - - - * -\n", "", "line 10: document nw/x_1 has no sentence"),
    ],
)
def test_broken_files_are_refused_with_file_and_line(tmp_path, old, new, message):
    assert TEXT.count(old) == 1
    path = written(tmp_path / "a", TEXT.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(f"{path}, {message}")):
        read_coref(path)


def test_a_document_that_never_ends_is_refused(tmp_path):
    path = written(tmp_path / "a", TEXT.removesuffix("#end document\n"))
    with pytest.raises(ValueError, match="line 10: document nw/x_1 begins, but never ends"):
        read_coref(path)


def test_a_file_without_documents_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a: holds no document, but expected #begin document"):
        read_coref(written(tmp_path / "a", "\n\n"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, expected",
    [
        ("litbank/train.conll.gz", (80, 6_755, 169_456, 23_218, 6_344, 4_635)),
        ("litbank/dev.conll.gz", (10, 927, 20_438, 3_053, 776, 563)),
        ("litbank/test.conll.gz", (10, 880, 20_638, 2_832, 807, 565)),
        ("ontogum/train.conll.gz", (84, 3_663, 75_964, 9_056, 2_272, 4)),
        ("ontogum/dev.conll", (11, 385, 9_497, 1_080, 250, 0)),
    ],
)
def test_all_of_a_data_set_is_read_as_its_readme_counts_it_and_written_back(
    shared, tmp_path, name, expected
):
    documents = read_coref(shared / "datasets/coref" / name)
    sizes = [len(cluster) for document in documents for cluster in document.clusters]
    assert expected == (
        len(documents),
        sum(len(document.sentences) for document in documents),
        sum(len(document.tokens) for document in documents),
        sum(sizes),
        len(sizes),
        sizes.count(1),
    )
    write_coref(tmp_path / "a", documents, [document.clusters for document in documents])
    assert read_coref(tmp_path / "a") == documents
