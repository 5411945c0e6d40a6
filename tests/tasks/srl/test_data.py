import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.srl.columns import role_cells, write_srl
from elmo.tasks.srl.data import (
    Argument,
    BracketError,
    Frame,
    SrlSentence,
    arguments_of,
    read_props,
    read_srl,
)
from elmo.text import read_lines

# Of the sentences "From the AP comes this story :" and "Yes", columns as CoNLL-2012 has them.
CONLL_2012 = """\
#begin document (a/b.xml); part 000
a/b 0 0 From IN (PP* - - - - * (ARG2* -
a/b 0 1 AP NNP *) - - - - * *) -
a/b 0 2 comes VBZ (VP*) come come.03 - - * (V*) -
a/b 0 3 this DT (NP* - - - - * (ARG1* -
a/b 0 4 story NN *) - - - - * *) (3)

a/b 0 0 Yes UH * - - - - * -
#end document
"""
AP_COMES = SrlSentence(
    ("From", "AP", "comes", "this", "story"),
    (
        Frame(
            2,
            "come",
            (Argument("ARG2", 0, 2), Argument("V", 2, 3), Argument("ARG1", 3, 5)),
            "come.03",
        ),
    ),
    "a/b.xml",
)
YES = SrlSentence(("Yes",), (), "a/b.xml")


def written(path, text):
    path.write_text(text)
    return path


def test_sentences_of_conll_2012_are_read_with_their_frames(tmp_path):
    assert read_srl(written(tmp_path / "a", CONLL_2012)) == [AP_COMES, YES]


def test_conll_2012_is_known_without_lines_that_begin_documents(tmp_path):
    text = "".join(line for line in CONLL_2012.splitlines(True) if line[0] != "#")
    sentences = read_srl(written(tmp_path / "a", text))
    assert [s.frames for s in sentences] == [AP_COMES.frames, ()]


def test_predicates_without_a_column_of_roles_are_read_without_answers(tmp_path):
    text = re.sub(r"\* \(?(ARG\d|V)?\*\)? (?=-|\(3)", "* ", CONLL_2012)
    (frame,) = read_srl(written(tmp_path / "a", text), labelled=False)[0].frames
    assert frame == Frame(2, "come", None, "come.03")


CONLL_2005 = "The - (A0*\ndog - *)\nbarked bark (V*)\n"


@pytest.mark.parametrize(
    "text, old, new, said",
    [
        (CONLL_2012, "(ARG1*", "(ARG1", "line 5: column 12 has"),
        (CONLL_2012, "(ARG1*", "?", "line 5: column 12 has"),
        (CONLL_2012, "*) - - -", "*) ap ap.01 -", "line 2: a sentence with 3 predicates, but 1"),
        (CONLL_2005, "(A0*", "(A0", "line 1: column 3 has '(A0', but expected role brackets"),
        (CONLL_2005, "*)", "*))", "line 2: column 3 has"),
    ],
)
def test_broken_columns_of_roles_are_passed_over_where_answers_are_not_wanted(
    tmp_path, text, old, new, said
):
    path = written(tmp_path / "a", text.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(said)):
        read_srl(path)
    frames = read_srl(path, labelled=False)[0].frames
    assert 2 in {frame.predicate for frame in frames}
    assert {frame.arguments for frame in frames} == {None}


def test_conll_2005_has_words_first_and_lemmas_before_the_roles(tmp_path):
    text = """\
The    DT  (NP*  -    (A0*   *
dog    NN  *)    -    *)     (A0*)
came   VBD (VP*) come (V*)   *
barked VBD (VP*) bark *      (V*)

Yes    UH  *     -
"""
    assert read_srl(written(tmp_path / "a", text)) == [
        SrlSentence(
            ("The", "dog", "came", "barked"),
            (
                Frame(2, "come", (Argument("A0", 0, 2), Argument("V", 2, 3))),
                Frame(3, "bark", (Argument("A0", 1, 2), Argument("V", 3, 4))),
            ),
        ),
        SrlSentence(("Yes",)),
    ]


def test_props_are_read_for_scoring_but_have_no_words_to_train_on(tmp_path):
    path = written(tmp_path / "a", "-  (A0*)\ngo (V*)\n\n-\n")
    arguments = (Argument("A0", 0, 1), Argument("V", 1, 2))
    assert read_props(path) == [(Frame(1, "go", arguments),), ()]
    with pytest.raises(ValueError, match="read as that of predicates, and holds no words"):
        read_srl(path)


def test_what_is_written_for_the_scorer_is_lemmas_and_brackets(tmp_path):
    path = tmp_path / "out.props"
    write_srl(path, [AP_COMES, YES], [AP_COMES.frames, ()])
    assert path.read_text() == "-\t(ARG2*\n-\t*)\ncome\t(V*)\n-\t(ARG1*\n-\t*)\n\n-\n\n"
    assert [[f.arguments for f in frames] for frames in read_props(path)] == [
        [AP_COMES.frames[0].arguments],
        [],
    ]


@pytest.mark.parametrize(
    "name, n_columns",
    [("a.conll.props", 2), ("a.conll.gz", 13), ("a.conll", 13), ("a.b.conll.xz", 13), ("a", 2)],
)
def test_the_end_of_a_name_says_which_columns_are_written(tmp_path, name, n_columns):
    write_srl(tmp_path / name, [AP_COMES], [AP_COMES.frames])
    lines = [line for line in read_lines(tmp_path / name) if line and line[0] != "#"]
    assert {len(line.split("\t")) for line in lines} == {n_columns}


def test_a_predicate_is_marked_even_if_its_lemma_is_what_marks_none(tmp_path):
    path = tmp_path / "a"
    sentence = SrlSentence(("Go", "-", "on", "X ray", "\xa0"))
    frames = [Frame(i, lemma, ()) for i, lemma in enumerate(["-", "-", "go on", "-", ""])]
    write_srl(path, [sentence], [frames])
    lemmas = ["go", "_", "go_on", "x_ray", "_"]
    assert [frame.lemma for frame in read_props(path)[0]] == lemmas


def test_frames_may_be_given_in_any_order(tmp_path):
    sentence = SrlSentence(("a", "b"))
    frames = (Frame(0, "a", (Argument("V", 0, 1),)), Frame(1, "b", (Argument("V", 1, 2),)))
    write_srl(tmp_path / "a", [sentence], [frames[::-1]])
    assert read_props(tmp_path / "a") == [frames]


def test_documents_are_written_in_conll_2012_and_read_back(tmp_path):
    other = SrlSentence(("x y", "#"), (Frame(1, "#", (), "#.01"),), "second")
    sentences = [AP_COMES, YES, replace(YES, part="001"), other]
    path = tmp_path / "out.conll.gz"
    write_srl(path, sentences, [s.frames for s in sentences])
    assert read_srl(path) == sentences
    lines = list(read_lines(path))
    assert [line for line in lines if "part 001" in line] == [
        f"#begin document ({YES.document}); part 001"
    ]
    assert {line.split("\t")[1] for line in lines if line and line[0] != "#"} == {"0", "1"}


def test_sentences_of_no_document_are_written_as_of_one_that_has_a_name(tmp_path):
    write_srl(tmp_path / "a.conll", [SrlSentence(("Go",))], [[]])
    assert read_srl(tmp_path / "a.conll") == [SrlSentence(("Go",), (), "document")]


def test_documents_without_a_sentence_or_a_name_are_refused(tmp_path):
    path = written(tmp_path / "a", "#begin document (x); part 000\n#end document\n")
    with pytest.raises(ValueError, match="holds no sentence"):
        read_srl(path)
    path = written(tmp_path / "b", "#begin document (); part 000\n#end document\n")
    with pytest.raises(ValueError, match=r"line 1: .* begins a document, but expected"):
        read_srl(path)


roles = st.sampled_from(["ARG0", "ARGM-TMP", "R-ARG1", "C-ARG1", "V"])


@st.composite
def nested_arguments(draw, start=0, end=6, depth=2):
    arguments, i = [], start
    while i < end:
        if draw(st.booleans()):
            stop = draw(st.integers(i + 1, end))
            arguments.append(Argument(draw(roles), i, stop))
            if depth:
                arguments += draw(nested_arguments(i, stop, depth - 1))
            i = stop
        else:
            i += 1
    return arguments


@given(nested_arguments())
def test_arguments_even_nested_can_be_read_back_from_their_brackets(arguments):
    assert arguments_of(role_cells(arguments, 6)) == tuple(arguments)


def test_an_argument_over_the_same_tokens_as_another_keeps_its_place():
    cells = ["(A0(A1*", "*))", "(V*)"]
    arguments = arguments_of(cells)
    assert arguments == (Argument("A0", 0, 2), Argument("A1", 0, 2), Argument("V", 2, 3))
    assert role_cells(arguments, 3) == cells


def test_a_closing_bracket_may_name_its_role():
    assert arguments_of(["(A0*", "*A0)"]) == (Argument("A0", 0, 2),)
    with pytest.raises(BracketError, match=re.escape("'*A1)', but (A0 was opened last")):
        arguments_of(["(A0*", "*A1)"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([("A0", 0, 2), ("A1", 1, 3)], "A1, tokens 1 to 3, crosses an argument that ends at 2"),
        ([("A0", 2, 4)], "A0 is tokens 2 to 4 of a sentence of 3"),
        ([("A0", 1, 1)], "A0 is tokens 1 to 1 of a sentence of 3"),
    ],
)
def test_arguments_that_brackets_cannot_say_are_refused(tmp_path, arguments, message):
    frame = Frame(1, "go", tuple(Argument(*argument) for argument in arguments))
    with pytest.raises(ValueError, match=re.escape(f"sentence 0, predicate 'go' at 1: {message}")):
        write_srl(tmp_path / "a", [SrlSentence(("a", "b", "c"))], [[frame]])


@pytest.mark.parametrize(
    "sentence, frames, message",
    [
        (SrlSentence(()), [], "sentence 0 has no tokens"),
        (SrlSentence(("a",)), [Frame(1, "b", ())], "has predicates at [1]"),
        (SrlSentence(("a",)), [Frame(0, "b", ()), Frame(0, "c", ())], "has predicates at [0, 0]"),
    ],
)
def test_sentences_that_columns_cannot_say_are_refused(tmp_path, sentence, frames, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        write_srl(tmp_path / "a", [sentence], [frames])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("* *) -\na/b 0 2", "* *)) -\na/b 0 2", "line 3: column 12 has '*))', which closes"),
        ("(ARG1*", "(ARG1", "line 5: column 12 has '(ARG1', but expected role brackets"),
        ("NN *) - - - - * *)", "NN *) - - - - * *", "line 5: column 12 has (ARG1, which is not"),
        ("come.03", "-", "line 2: a sentence with 0 predicates, but 1 columns of roles"),
        ("Yes UH * - - - - * -", "Yes UH -", "line 8: 6 columns, but CoNLL-2012's format has 12"),
    ],
)
def test_broken_columns_are_refused_with_file_and_line(tmp_path, old, new, message):
    assert old in CONLL_2012
    path = written(tmp_path / "a", CONLL_2012.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(f"{path}, {message}")):
        read_srl(path)


def test_a_file_without_sentences_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no sentence"):
        read_srl(written(tmp_path / "a", "\n\n"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "split, expected",
    [
        ("train", (540, 12_506, 204_144, 40_423, 81_251)),
        ("dev", (297, 1_961, 24_836, 4_949, 9_541)),
    ],
)
def test_all_of_propbank_is_read_as_its_readme_counts_it_and_written_back(
    shared, tmp_path, split, expected
):
    sentences = read_srl(shared / f"datasets/srl/propbank-ewt/{split}.conll.gz")
    frames = [frame for sentence in sentences for frame in sentence.frames]
    played = Counter(argument.role for frame in frames for argument in frame.arguments)
    assert expected == (
        len({sentence.document for sentence in sentences}),
        len(sentences),
        sum(len(sentence.tokens) for sentence in sentences),
        len(frames),
        sum(n for role, n in played.items() if role not in ("V", "C-V")),
    )
    for name in ("out.conll", "out.props"):
        write_srl(tmp_path / name, sentences, [sentence.frames for sentence in sentences])
    assert read_srl(tmp_path / "out.conll") == sentences
    assert [[f.arguments for f in frames] for frames in read_props(tmp_path / "out.props")] == [
        [f.arguments for f in sentence.frames] for sentence in sentences
    ]
