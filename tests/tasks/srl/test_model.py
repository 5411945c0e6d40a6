"""The role labeller learns, and answers the same whatever it reads beside."""

import re

import pytest
import torch
from tests.tasks.small import model_and_batch
from tests.tasks.toy_roles import toy_roles_recipe, toy_sentences

from elmo.tasks.features import Features, words_of
from elmo.tasks.run import train_task
from elmo.tasks.srl.columns import write_srl
from elmo.tasks.srl.data import Argument, Frame, SrlSentence, read_props, read_srl
from elmo.tasks.srl.model import SrlConfig
from elmo.tasks.srl.task import TASK
from elmo.tasks.trained import Trained
from elmo.text import WHITESPACE, Tokenizer

CONFIG = SrlConfig(hidden_dim=6, n_layers=3, predicate_dim=4, recurrent_dropout=0.3)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("srl")
    recipe = toy_roles_recipe(folder, data__dev=[str(folder / "train.conll")])
    return recipe, train_task(recipe)


@pytest.fixture(name="model_and_batch")
def of_toy_sentences():
    return model_and_batch(TASK, toy_sentences(6), CONFIG, char_filters=3)


def test_twenty_sentences_are_learned_by_heart(run):
    _, results = run
    assert results.dev[1]["f1"] >= 99


def test_a_loaded_model_answers_as_when_it_was_saved(run):
    recipe, results = run
    trained = Trained.load(recipe.output)
    assert trained.evaluate(read_srl(recipe.data.dev[0])) == results.dev[1]


def test_answers_do_not_depend_on_what_is_read_together(run):
    trained = Trained.load(run[0].output)
    sentences = toy_sentences(12, seed=3)
    together = trained.predict(sentences)
    assert together == [trained.predict([sentence])[0] for sentence in sentences]
    assert together == trained.predict(sentences[::-1])[::-1]


def test_what_is_written_is_read_again(run, tmp_path):
    trained = Trained.load(run[0].output)
    sentences = toy_sentences(6, seed=3)
    answers = trained.predict(sentences)
    TASK.write(tmp_path / "found.conll", sentences, answers)
    assert [s.frames for s in read_srl(tmp_path / "found.conll")] == answers
    TASK.write(tmp_path / "props", sentences, answers)
    read = read_props(tmp_path / "props")
    assert TASK.score(sentences, read, {}) == TASK.score(sentences, answers, {})


def test_the_loss_is_the_mean_of_all_frames_tokens(model_and_batch):
    model, batch = model_and_batch
    model.eval()
    logs = model.scores(batch).log_softmax(dim=-1)
    told = []
    for k, i in enumerate(batch.sentence_of.tolist()):
        n = len(batch.sentences.tokens[i])
        told += [logs[k, t, batch.tags[k, t]] for t in range(n)]
    torch.testing.assert_close(model.loss(batch), -torch.stack(told).mean())


def test_the_predicate_makes_a_difference_and_only_in_its_frame(model_and_batch):
    model, batch = model_and_batch
    model.eval()
    before = model.scores(batch)
    moved = batch.predicates.clone()
    moved[1] += 1
    batch.predicates.copy_(moved)
    after = model.scores(batch)
    assert not torch.allclose(before[1], after[1])
    torch.testing.assert_close(
        before[[0, *range(2, len(before))]], after[[0, *range(2, len(after))]]
    )


def test_gradients_are_right(model_and_batch):
    model, batch = model_and_batch
    model.double().eval()
    names, values = zip(*model.named_parameters(), strict=True)

    def loss(*given):
        return torch.func.functional_call(model, dict(zip(names, given, strict=True)), (batch,))

    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


def test_sentences_without_predicates_teach_nothing_and_stop_nothing(model_and_batch):
    model, _ = model_and_batch
    vocabulary = words_of([["Nothing", "."]], min_count=1, lowercase=False)
    batch = TASK.batch(
        [SrlSentence(("Nothing", "."))], Features(vocabulary), {"roles": model.roles}
    )
    loss = model.loss(batch)
    loss.backward()
    assert loss.item() == 0 and model.predict(batch) == [()]
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_predicates_of_plain_text_are_those_marked(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("The cat [[chased]] it, then [[gave up]].\n\nNothing.\n")
    first, second = TASK.read_text(path, Tokenizer("en"))
    assert first.tokens == ("The", "cat", "chased", "it", ",", "then", "gave", "up", ".")
    assert first.frames == (Frame(2, "chased"), Frame(6, "gave"))
    assert second == SrlSentence(("Nothing", "."))


def test_plain_text_without_marks_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("The cat chased it .\n")
    with pytest.raises(ValueError, match=re.escape('write "The cat [[chased]] it"')):
        TASK.read_text(path, Tokenizer(WHITESPACE))


def test_a_mark_around_no_word_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("[[Run]]!\nThe cat [[ ]] it.\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: there is no word between"):
        TASK.read_text(path, Tokenizer("en"))


@pytest.mark.parametrize(
    "line", ["The cat [[chased it.", "It chased]] it.", "[[", "[[]]", "It [[ran [[up]] it.", "]]["]
)
def test_a_bracket_without_the_other_is_refused(tmp_path, line):
    path = tmp_path / "a.txt"
    path.write_text(f"[[Run]]!\n{line}\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: .* has a \[\[ or \]\] without") as error:
        TASK.read_text(path, Tokenizer("en"))
    assert "\n" not in str(error.value)


def test_predicates_without_roles_are_refused_where_roles_are_wanted(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text(
        "#begin document (a); part 000\na 0 0 Go VB * go go.01 - - * -\n\n#end document\n"
    )
    assert TASK.read(path, CONFIG, labelled=False)[0].frames[0].arguments is None
    with pytest.raises(ValueError, match=r"a\.conll, line 2: a sentence with 1 predicates, but 0 "):
        TASK.read(path, CONFIG)


def test_roles_that_are_not_known_are_told(caplog, tmp_path):
    frame = Frame(0, "go", (Argument("ARGM-DIR", 1, 2),))
    TASK.check([SrlSentence(("Go", "home"), (frame,))], {"roles": ["V"]})
    assert "1 arguments have roles that the training data has not: ARGM-DIR (1)" in caplog.text


def test_sentences_without_any_predicate_are_told(caplog):
    TASK.check([], {"roles": ["V"]})
    assert not caplog.text
    TASK.check([SrlSentence(("Nothing",))], {"roles": ["V"]})
    assert "no sentence has a predicate: every score is 0" in caplog.text


def test_inner_arguments_that_tags_cannot_say_are_told(caplog, tmp_path):
    arguments = (Argument("ARG1", 0, 2), Argument("V", 0, 1))
    sentences = [SrlSentence(("Go", "home"), (Frame(0, "go", arguments),))]
    path = tmp_path / "a.conll"
    write_srl(path, sentences, [s.frames for s in sentences])
    assert TASK.labels(read_srl(path), CONFIG) == {"roles": ["ARG1", "V"]}
    assert "1 training arguments lie within others" in caplog.text


@pytest.mark.parametrize("setting", [{"hidden_dim": 0}, {"recurrent_dropout": 1.0}])
def test_sizes_that_are_none_are_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))} is"):
        SrlConfig(**setting)
