"""A trained model goes on with other text: whole runs."""

import os
import shutil
import signal
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.pretrain.toy import log_lines, weights, write_toy

from elmo.checkpoints.folder import load_folder, save_folder
from elmo.checkpoints.official import save_official
from elmo.pretrain.corpus import read_sentences
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.perplexity import perplexity
from elmo.pretrain.recipe import adaptation_recipe, read_recipe
from elmo.pretrain.run import pretrain
from elmo.training_state import read_state

DOMAIN = ["the gene codes a protein .", "a protein binds the gene .", "one gene mutates often ."]
SHORT = [
    "corpus.min_count=1",
    "training.n_rows=8",
    "training.n_negatives=6",
    "training.n_epochs=15",
    "optimiser.learning_rate=2e-2",
    "training.device=cpu",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_toy(folder)
    pretrain(read_recipe(folder / "toy.toml", ["training.n_epochs=10"]))
    return folder / "model"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    for name, n in (("domain", 120), ("measured", 30)):
        text = "".join(f"{line}\n" for line in rng.choice(DOMAIN, n))
        (tmp_path / f"{name}.txt").write_text(text)
    return tmp_path


def adapted(model, folder, *settings, output="adapted", resume=False, report=None):
    recipe = adaptation_recipe(
        str(model),
        [str(folder / "domain.txt")],
        folder / output,
        heldout=[str(folder / "measured.txt")],
        overrides=[*SHORT, *settings],
    )
    return pretrain(recipe, resume=resume, report=report)


@pytest.mark.parametrize("vocabulary", ["keep", "extend", "replace"])
def test_a_model_that_goes_on_with_a_domain_predicts_it_better(trained, folder, vocabulary):
    before = weights(trained)
    made = adapted(trained, folder, f"start.vocabulary={vocabulary}")
    assert made.heldout.forward_lm < made.before.forward_lm / 2
    assert made.heldout.backward_lm < made.before.backward_lm / 2
    n_words = len((folder / "measured.txt").read_text().split())
    assert made.before.n_tokens == made.heldout.n_tokens == n_words + 30
    known = load_folder(trained).vocabulary.words
    words = load_folder(folder / "adapted").vocabulary.words
    assert ("gene" in words) == (vocabulary != "keep")
    assert ("cat" in words) == (vocabulary != "replace")
    if vocabulary != "replace":
        assert words[: len(known)] == known
    assert torch.equal(weights(trained), before)


def test_the_perplexity_before_is_that_of_the_model_as_it_was(trained, folder):
    made = adapted(trained, folder, "start.vocabulary=keep", "training.n_epochs=1")
    origin = load_folder(trained)
    model = LanguageModel(origin.bilm, origin.softmax)
    sentences = read_sentences([folder / "measured.txt"])
    expected = perplexity(model, origin.vocabulary, sentences)
    assert made.before.forward_lm == pytest.approx(expected.forward_lm, rel=1e-6)
    assert made.before.backward_lm == pytest.approx(expected.backward_lm, rel=1e-6)


def test_official_weights_learn_a_softmax_first_while_nothing_else_changes(trained, folder):
    origin = load_folder(trained).bilm
    save_official(origin, folder / "official")
    settings = ["start.softmax_share=0.5", "training.n_epochs=8", "log.every_steps=1"]

    asked = []

    def stop(progress):
        if progress.share > 0.3 and not asked:
            asked.append(progress.step)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        adapted(folder / "official", folder, *settings, report=stop)
    state = read_state(folder / "adapted").part("model")
    for name, value in origin.state_dict().items():
        assert torch.equal(state[f"bilm.{name}"], value), name
    assert state["softmax.weight"].abs().sum() > 0  # it began as zeros
    made = adapted(folder / "official", folder, *settings, resume=True)
    assert made.heldout.forward_lm < made.before.forward_lm / 2
    name = "char_cnn.projection.weight"
    end = read_state(folder / "adapted").part("model")[f"bilm.{name}"]
    assert not torch.equal(end, origin.state_dict()[name])


def test_a_softmax_that_gets_worse_does_not_end_the_run_before_the_bilm_learns(trained, folder):
    save_official(load_folder(trained).bilm, folder / "official")
    # All that is learned of the domain makes the other text it is measured on less likely.
    (folder / "measured.txt").write_text("gene gene gene gene .\n" * 30)
    settings = ["start.softmax_share=0.6", "validation.patience=1", "validation.every_tokens=160"]
    made = adapted(folder / "official", folder, *settings, "training.n_epochs=6")
    measured = [x for x in log_lines(folder / "adapted") if "heldout/predictions" in x]
    shares = [x["train/tokens"] / (6 * 840) for x in measured]
    worse = [
        later["heldout/forward_perplexity_full"] * later["heldout/backward_perplexity_full"]
        > now["heldout/forward_perplexity_full"] * now["heldout/backward_perplexity_full"]
        for now, later in pairwise(measured)
    ]
    assert any(w and share < 0.5 for w, share in zip(worse, shares[1:], strict=True))
    assert made.n_tokens > 0.6 * 6 * 840


def test_a_model_that_only_gets_worse_stays_as_it_was(trained, folder):
    settings = ["optimiser.learning_rate=1.0", "start.vocabulary=keep", "validation.patience=2"]
    made = adapted(trained, folder, *settings)
    assert made.best_step == 0 < made.n_steps
    assert made.stopped == "patience"
    assert torch.equal(weights(folder / "adapted"), weights(trained))
    assert made.heldout == made.before


def test_an_adaptation_that_died_ends_with_the_same_bits(trained, folder):
    class Killed(BaseException):
        pass

    def die(progress):
        if progress.step >= 8:
            raise Killed

    save_official(load_folder(trained).bilm, folder / "official")
    often = ["log.save_minutes=1e-9", "log.every_steps=1", "training.n_epochs=3"]
    whole = adapted(folder / "official", folder, *often, output="whole")
    with pytest.raises(Killed):
        adapted(folder / "official", folder, *often, output="broken", report=die)
    made = adapted(folder / "official", folder, *often, output="broken", resume=True)
    assert made.before == whole.before and made.n_steps == whole.n_steps
    assert torch.equal(weights(folder / "whole"), weights(folder / "broken"))
    steps = [line["step"] for line in log_lines(folder / "broken")]
    assert steps == sorted(steps)


def test_an_adaptation_goes_on_only_from_the_model_it_began_with(trained, folder):
    shutil.copytree(trained, folder / "origin")
    short = ["start.vocabulary=keep", "training.n_epochs=1"]
    adapted(folder / "origin", folder, *short)
    adapted(folder / "origin", folder, *short, resume=True)
    origin = load_folder(trained)
    with torch.no_grad():
        origin.softmax.bias += 1.0
    save_folder(origin, folder / "origin")
    with pytest.raises(ValueError, match=r"the model to start from\.weights was"):
        adapted(folder / "origin", folder, *short, resume=True)


def test_an_adaptation_that_died_before_its_first_step_goes_on(trained, folder):
    class Killed(BaseException):
        pass

    def die(progress):
        raise Killed

    short = ["training.n_epochs=2", "log.every_steps=1", "log.save_minutes=99"]
    whole = adapted(trained, folder, *short, output="whole")
    with pytest.raises(Killed):
        adapted(trained, folder, *short, output="broken", report=die)
    assert read_state(folder / "broken").about["step"] == 0
    made = adapted(trained, folder, *short, output="broken", resume=True)
    assert made.before == whole.before
    assert torch.equal(weights(folder / "whole"), weights(folder / "broken"))
    steps = [line["step"] for line in log_lines(folder / "broken")]
    assert steps == [line["step"] for line in log_lines(folder / "whole")]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.dropout=0.5"], "has an architecture: leave .model. out"),
        (["start.vocabulary=kept"], "vocabulary is 'kept', but expected one of"),
        (["start.dropout=1.0"], "dropout is 1.0"),
        (["start.softmax_share=0.0"], "softmax_share is 0.0"),
        (["training.softmax=adaptive"], "set sampled or full"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_a_start_are_refused(trained, folder, settings, said):
    with pytest.raises(ValueError, match=said):
        adapted(trained, folder, *settings)


def test_a_model_without_a_softmax_has_no_words_to_keep(trained, folder):
    save_official(load_folder(trained).bilm, folder / "official")
    with pytest.raises(ValueError, match=r"no vocabulary to keep: replace it"):
        adapted(folder / "official", folder, "start.vocabulary=keep")


def test_a_model_that_is_not_there_is_refused_before_text_is_read(folder):
    (folder / "domain.txt").unlink()
    with pytest.raises((ValueError, FileNotFoundError), match="nowhere"):
        adapted(folder / "nowhere", folder)
