"""Runs of task recipes: they learn, go on after a stop, and say what they did."""

import json
import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tasks.toy_tagging import toy_recipe, write_toy

from elmo.tasks import batches, fit
from elmo.tasks.recipe import read_task_recipe, task_recipe
from elmo.tasks.run import RESULTS_FILE, drawn, spread, train_task
from elmo.tasks.trained import TASK_FILE, WEIGHTS_FILE, Trained
from elmo.training_state import STATE_FILE, read_state


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    recipe = toy_recipe(folder, seeds=[1, 2], training__n_epochs=20)
    return recipe, train_task(recipe)


def test_a_tagger_learns_twenty_sentences_by_heart(tmp_path):
    train = str(write_toy(tmp_path / "train.txt"))
    recipe = toy_recipe(tmp_path, data__dev=[train], training__n_epochs=40)
    assert train_task(recipe).dev[1]["f1"] >= 99


def test_a_tagger_finds_names_in_other_sentences(runs):
    _, results = runs
    assert all(scores["f1"] > 80 for scores in results.dev.values())


def test_a_loaded_model_answers_as_when_it_was_saved(runs):
    recipe, results = runs
    for seed, scores in results.dev.items():
        trained = Trained.load(f"{recipe.output}/seed-{seed}")
        dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
        assert trained.evaluate(dev) == scores == trained.scores


def test_the_best_of_several_seeds_is_loaded(runs):
    recipe, results = runs
    assert Trained.load(recipe.output).scores["f1"] == max(s["f1"] for s in results.dev.values())


def test_answers_do_not_depend_on_what_is_read_together(runs):
    recipe, _ = runs
    trained = Trained.load(recipe.output)
    examples = trained.task.read(Path(recipe.data.train[0]), recipe.model)
    together = trained.predict(examples)
    assert together == [trained.predict([example])[0] for example in examples]
    assert together == trained.predict(examples[::-1])[::-1]


def test_results_say_what_was_done(runs):
    recipe, results = runs
    told = json.loads((Path(recipe.output) / RESULTS_FILE).read_text())
    values = [scores["f1"] for scores in results.dev.values()]
    assert told["dev"]["mean"] == pytest.approx(sum(values) / 2)
    assert told["dev"]["deviation"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert told["runs"]["1"]["n_parameters"] == results.fitted[1].n_parameters > 0
    assert told["recipe"]["data"]["train"] == list(recipe.data.train)


@pytest.mark.parametrize("encoder_mode", ["cached", "on_the_fly", "fine_tuned"])
def test_an_encoder_enters_in_each_mode(tmp_path, encoder_mode):
    recipe = toy_recipe(
        tmp_path,
        encoder="elmo",
        encoder_mode=encoder_mode,
        cache=str(tmp_path / "cache"),
        where="both",
        training__n_epochs=1,
        data__n_train=4,
        data__n_dev=2,
    )
    results = train_task(recipe)
    weights = results.layer_weights[1]
    assert {place: [len(w) for w in of] for place, of in weights.items()} == {
        "input": [3],
        "output": [3],
    }
    trained = Trained.load(recipe.output)
    dev = spread(trained.task.read(Path(recipe.data.dev[0]), recipe.model), 2)
    assert trained.evaluate(dev) == results.dev[1]
    n_weights = sum(
        tensor.numel() for tensor in load_file(f"{recipe.output}/seed-1/{WEIGHTS_FILE}").values()
    )
    assert (n_weights > 4_000_000) == (encoder_mode == "fine_tuned")


def test_a_model_that_takes_one_layer_is_loaded_again(tmp_path):
    recipe = toy_recipe(
        tmp_path,
        encoder="elmo",
        cache=str(tmp_path / "cache"),
        where="both",
        mix={"layers": "last"},
        training__n_epochs=1,
        data__n_train=4,
        data__n_dev=2,
    )
    results = train_task(recipe)
    assert results.layer_weights[1] == {"input": [[0, 0, 1]], "output": [[0, 0, 1]]}
    trained = Trained.load(recipe.output)
    dev = spread(trained.task.read(Path(recipe.data.dev[0]), recipe.model), 2)
    assert trained.evaluate(dev) == results.dev[1]
    path = Path(recipe.output) / "seed-1" / WEIGHTS_FILE
    tensors = load_file(path)
    tensors["inputs.input_mixes.0.weights"][2] = -torch.inf
    save_file(tensors, path)
    with pytest.raises(ValueError, match=r"input_mixes\.0\.weights holds a NaN or an infinity"):
        Trained.load(recipe.output)


class Stop(Exception):
    """As if the machine had lost its power."""


@pytest.mark.parametrize("average_decay", [0.0, 0.9])
def test_a_run_that_was_broken_off_ends_as_one_that_was_not(tmp_path, monkeypatch, average_decay):
    settings = {"training__n_epochs": 6, "training__average_decay": average_decay}
    whole = toy_recipe(tmp_path, output=str(tmp_path / "whole"), **settings)
    train_task(whole)
    broken = toy_recipe(tmp_path, output=str(tmp_path / "broken"), **settings)
    step, n_made = fit.Fit._step, []

    def failing(self, batch):
        n_made.append(batch)
        if len(n_made) == 17:
            raise Stop
        return step(self, batch)

    monkeypatch.setattr(fit.Fit, "_step", failing)
    with pytest.raises(Stop):
        train_task(broken)
    with pytest.raises(ValueError, match=re.escape("holds runs already")):
        train_task(broken)
    train_task(broken, resume=True)
    for name in (WEIGHTS_FILE, STATE_FILE):
        one, other = (load_file(tmp_path / run / "seed-1" / name) for run in ("whole", "broken"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    logs = [
        [
            {k: v for k, v in json.loads(line).items() if "second" not in k and "minutes" not in k}
            for line in (tmp_path / run / "seed-1" / "metrics.jsonl").read_text().splitlines()
        ]
        for run in ("whole", "broken")
    ]
    assert [line for line in logs[0] if "dev/f1" in line] == [
        line for line in logs[1] if "dev/f1" in line
    ]


def test_a_model_that_was_being_replaced_when_a_run_was_killed_is_put_back(tmp_path):
    recipe = toy_recipe(tmp_path, training__n_epochs=2)
    results = train_task(recipe)
    folder = Path(recipe.output) / "seed-1"
    for name in (TASK_FILE, WEIGHTS_FILE):  # as after the first two renames
        (folder / name).rename(folder / f"{name}.0123abcd.old")
    again = train_task(recipe, resume=True)
    assert again.dev == results.dev == {1: Trained.load(folder).scores}
    assert not list(folder.glob("*.old"))


def test_results_of_seeds_that_are_not_asked_for_again_are_kept_beside_the_others(tmp_path, caplog):
    def told(**changes):
        recipe = toy_recipe(tmp_path, **{"training__n_epochs": 1, **changes})
        train_task(recipe, resume=True)
        return json.loads((Path(recipe.output) / RESULTS_FILE).read_text())

    with caplog.at_level(logging.INFO):
        both = told(seeds=[1, 2])
        assert both["other_seeds"] == {} and "not asked for now" not in caplog.text
        other = told(seeds=[3])
        assert "results of seeds 1, 2, which are not asked for now, are kept" in caplog.text
    assert list(other["dev"]["seeds"]) == ["3"] and list(other["other_seeds"]) == ["1", "2"]
    assert other["other_seeds"]["2"]["dev"] == both["dev"]["seeds"]["2"]
    assert other["other_seeds"]["2"]["run"] == both["runs"]["2"]
    again = told(seeds=[2, 3])
    assert again["dev"]["seeds"] == {
        "2": both["dev"]["seeds"]["2"],
        "3": other["dev"]["seeds"]["3"],
    }
    assert again["other_seeds"] == {"1": other["other_seeds"]["1"]}
    longer = told(seeds=[3], training__n_epochs=2)
    assert longer["other_seeds"] == {}
    assert "of seeds 1, 2 are by a recipe that differs in training, and go" in caplog.text


def test_another_recipe_does_not_go_on_with_a_run(tmp_path):
    train_task(toy_recipe(tmp_path, training__n_epochs=1))
    other = toy_recipe(tmp_path, training__n_epochs=2, model__hidden_dim=13)
    with pytest.raises(ValueError, match=r"run by another recipe \(model was .*hidden_dim"):
        train_task(other, resume=True)


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    recipe = toy_recipe(tmp_path, training__n_epochs=1, data__dev=[str(tmp_path / "other.txt")])
    write_toy(tmp_path / "other.txt", n=8, seed=2)
    train_task(recipe)
    longer = replace(recipe, training=replace(recipe.training, n_epochs=2))
    for name in ("other.txt", "train.txt"):
        text = (tmp_path / name).read_text()
        for changed in (text.replace("Oslo", "Rome"), text.replace("LOC", "GPE")):
            assert changed != text
            (tmp_path / name).write_text(changed)
            with pytest.raises(ValueError, match=rf"on other data: \S+{name} has changed since"):
                train_task(longer, resume=True)
        (tmp_path / name).write_text(text)
    assert train_task(longer, resume=True).fitted[1].n_steps == 10


def test_a_run_does_not_go_on_with_another_encoder(tmp_path):
    vectors = tmp_path / "words.txt"
    vectors.write_text("Ada 1 0\nOslo 0 1\n")
    settings = {"encoder": f"static:{vectors}", "encoder_mode": "on_the_fly"}
    train_task(toy_recipe(tmp_path, training__n_epochs=1, **settings))
    longer = toy_recipe(tmp_path, training__n_epochs=2, **settings)
    for other in ("Ada 1 0\nOslo 0 2\n", "Ada 1 0 0\nOslo 0 2 0\n"):
        vectors.write_text(other)
        with pytest.raises(ValueError, match=r"another encoder: static:\S+ has other weights or"):
            train_task(longer, resume=True)


def test_a_run_of_an_older_version_did_not_note_its_data(tmp_path):
    recipe = toy_recipe(tmp_path, training__n_epochs=1)
    train_task(recipe)
    folder = Path(recipe.output) / "seed-1"
    state = read_state(folder)
    older = {k: v for k, v in state.about.items() if k not in ("files", "encoders", "minutes")}
    replace(state, about=older).write(folder)
    longer = toy_recipe(tmp_path, training__n_epochs=2)
    assert train_task(longer, resume=True).fitted[1].n_steps == 10


def test_a_run_that_has_passed_a_budget_does_not_take_its_name(tmp_path):
    train_task(toy_recipe(tmp_path, training__n_epochs=3))
    with pytest.raises(ValueError, match=r"has made 3 epochs, but training.n_epochs is 2: give"):
        train_task(toy_recipe(tmp_path, training__n_epochs=2), resume=True)
    with pytest.raises(ValueError, match=r"minutes, but training.minutes is 1e-06: give another"):
        train_task(toy_recipe(tmp_path, training__n_epochs=3, training__minutes=1e-6), resume=True)
    by_time = {"training__minutes": 1e-6, "output": str(tmp_path / "by-time")}
    once = train_task(toy_recipe(tmp_path, **by_time))
    again = train_task(toy_recipe(tmp_path, **by_time), resume=True)
    assert again.fitted[1].n_steps == once.fitted[1].n_steps and again.dev == once.dev


def test_where_the_learning_rate_goes_by_the_budget_it_is_given_once(tmp_path):
    def run(schedule, n_epochs):
        changes = {"optimiser__schedule": schedule, "output": str(tmp_path / schedule)}
        return train_task(toy_recipe(tmp_path, training__n_epochs=n_epochs, **changes), resume=True)

    run("linear", 1)
    with pytest.raises(ValueError, match=r"by another recipe \(training was .*'n_epochs': 1,"):
        run("linear", 2)
    run("trapezoid", 1)
    assert run("trapezoid", 2).fitted[1].n_steps == 10


def test_what_a_killed_process_left_of_its_state_is_cleared_away(tmp_path):
    recipe = toy_recipe(tmp_path, training__n_epochs=1)
    train_task(recipe)
    folder = Path(recipe.output) / "seed-1"
    before = sorted(folder.iterdir())
    for name in (".tmpJkpbJ9", f"{STATE_FILE}.bfaeb03a.tmp"):
        (folder / name).write_bytes(b"half")
    train_task(recipe, resume=True)
    assert sorted(folder.iterdir()) == before


def test_encoding_is_told_by_the_call_that_computed_it(tmp_path):
    recipe = toy_recipe(tmp_path, training__n_epochs=1)
    train_task(recipe)
    path = Path(recipe.output) / RESULTS_FILE
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "seconds_encoding": 1000.0}))
    assert train_task(recipe, resume=True).seconds_encoding == 1000.0
    longer = toy_recipe(tmp_path, training__n_epochs=2)
    assert train_task(longer, resume=True).seconds_encoding < 1000.0


def test_speed_is_of_the_time_since_the_last_report(tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "TELL_SECONDS", 1e9)
    told, now = [], iter(range(1, 1000))

    class Clock:
        @staticmethod
        def monotonic():
            return float(next(now))

    monkeypatch.setattr(fit, "time", Clock)
    train_task(toy_recipe(tmp_path, training__n_epochs=2), report=told.append)
    # Twenty examples in five steps, each of which looks at the clock once.
    assert [each.examples_per_second for each in told] == [20 / 5, 20 / 5]


def test_the_log_has_the_mean_loss_of_all_steps_however_often_they_are_reported(
    tmp_path, monkeypatch
):
    step, losses = fit.Fit._step, []

    def kept(self, batch):
        losses.append(step(self, batch))
        return losses[-1]

    monkeypatch.setattr(fit.Fit, "_step", kept)
    monkeypatch.setattr(fit, "TELL_SECONDS", 0.0)
    recipe, told = toy_recipe(tmp_path, training__n_epochs=2), []
    train_task(recipe, report=told.append)
    assert [each.loss for each in told] == losses and len(losses) == 10
    lines = (Path(recipe.output) / "seed-1" / "metrics.jsonl").read_text().splitlines()
    logged = [json.loads(line)["train/loss"] for line in lines if "train/loss" in line]
    assert logged == pytest.approx([sum(losses[:5]) / 5, sum(losses[5:]) / 5])


def test_dev_that_gets_no_better_ends_a_run(tmp_path):
    results = train_task(
        toy_recipe(
            tmp_path, training__n_epochs=50, training__patience=2, optimiser__learning_rate=1e-9
        )
    )
    assert results.fitted[1].stopped == "patience"
    assert results.fitted[1].best_step * 3 == results.fitted[1].n_steps


def test_a_budget_of_minutes_ends_in_the_middle_of_an_epoch(tmp_path):
    results = train_task(toy_recipe(tmp_path, training__minutes=1e-6))
    assert results.fitted[1].n_steps == results.fitted[1].best_step == 1


def test_epochs_of_differing_numbers_of_batches_are_all_read_to_their_end(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "POOL", 1)  # so that how sentences fall together matters
    recipe = toy_recipe(
        tmp_path,
        training__n_epochs=6,
        training__batch_tokens=12,
        optimiser__schedule="linear",
    )
    made, of_epoch = [], fit.Fit._batches
    monkeypatch.setattr(
        fit.Fit, "_batches", lambda self, epoch: made.append(of_epoch(self, epoch)) or made[-1]
    )
    fitted = train_task(recipe).fitted[1]
    numbers = [len(each) for each in made][:6]
    assert len(set(numbers)) > 1 and fitted.n_steps == sum(numbers)
    log = (Path(recipe.output) / "seed-1" / "metrics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in log if "train/loss" in line]
    assert [line["train/epochs"] for line in lines] == [1, 2, 3, 4, 5, 6]
    left = [5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]
    assert [line["train/learning_rate"] / 0.02 for line in lines] == pytest.approx(left)


def test_the_end_is_measured_whatever_the_steps_between_measurements(tmp_path):
    results = train_task(toy_recipe(tmp_path, training__every_steps=1000, training__n_epochs=2))
    assert results.fitted[1].best_step == results.fitted[1].n_steps == 10


def test_the_rate_is_halved_when_dev_gets_no_better(tmp_path):
    recipe = toy_recipe(
        tmp_path, training__n_epochs=6, training__halve_after=2, optimiser__learning_rate=1e-9
    )
    train_task(recipe)
    log = (Path(recipe.output) / "seed-1" / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(line)["train/learning_rate"] for line in log if "train/loss" in line]
    assert rates == pytest.approx([1e-9] * 3 + [5e-10] * 2 + [2.5e-10])


@pytest.mark.parametrize(
    "override, said",
    [
        ("mix.l2=nan", "[mix]: l2 is nan, but must be 0 or more, and finite"),
        ("mix.l2=inf", "[mix]: l2 is inf, but must be 0 or more, and finite"),
        ("seeds=[18446744073709551616]", "but distinct numbers from 0 to 2⁶³ − 1 are wanted"),
        ("seeds=[1, 1]", "but distinct numbers from 0 to 2⁶³ − 1 are wanted"),
        ("task=taging", 'recipe.toml: there is no task "taging". Did you mean'),
    ],
)
def test_settings_that_cannot_be_are_refused_by_their_recipe(tmp_path, override, said):
    path = tmp_path / "recipe.toml"
    # Written by an editor that begins files with a byte order mark.
    text = 'task = "tagging"\noutput = "runs"\n[data]\ntrain = ["a"]\ndev = ["b"]\n'
    path.write_text(text, encoding="utf-8-sig")
    assert read_task_recipe(path).output == "runs"
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        read_task_recipe(path, [override])
    assert str(error.value).startswith(str(path))


def test_a_layer_that_an_encoder_has_not_is_told_with_its_name(tmp_path):
    (tmp_path / "words.txt").write_text("Ada 1 0\nOslo 0 1\n")
    spec = f"static:{tmp_path / 'words.txt'}"
    recipe = toy_recipe(tmp_path, encoder=spec, encoder_mode="on_the_fly", mix={"layers": 2})
    with pytest.raises(ValueError, match=r"mix\.layers, of static:.*words\.txt: layer is 2, but"):
        train_task(recipe)


def test_a_table_that_says_some_settings_leaves_the_others_at_the_recipes_defaults():
    values = {"task": "tagging", "output": "runs", "data": {"train": ["a"], "dev": ["b"]}}
    own = task_recipe(values, "recipe").optimiser
    said = task_recipe({**values, "optimiser": {"learning_rate": 0.01}}, "recipe").optimiser
    assert said == replace(own, learning_rate=0.01)


def test_a_share_of_the_data_is_drawn_by_the_seed(tmp_path):
    examples = list(range(1000))
    recipe = toy_recipe(tmp_path, data__share=0.1)
    first, second = (drawn(examples, recipe, seed) for seed in (1, 2))
    assert len(first) == len(second) == 100 and first != second
    assert first == drawn(examples, recipe, 1) and set(first) <= set(examples)
    fewer = [
        drawn(examples, toy_recipe(tmp_path, data__n_train=200, data__share=share), 1)
        for share in (0.1, 1.0)
    ]
    assert [len(of) for of in fewer] == [20, 200] and set(fewer[0]) < set(fewer[1])
    assert drawn(examples, toy_recipe(tmp_path, data__share=1e-9), 1).__len__() == 1


def test_few_examples_of_dev_are_of_all_its_parts():
    assert spread(range(10), 5) == [0, 2, 4, 6, 8]
    assert spread(range(7), 3) == [0, 2, 4]
    assert spread(range(3), 9) == spread(range(3), None) == [0, 1, 2]
    assert spread([], 4) == []


def test_the_average_of_weights_is_measured_and_kept(tmp_path):
    recipe = toy_recipe(tmp_path, training__n_epochs=1, training__average_decay=0.9)
    results = train_task(recipe)
    folder = tmp_path / "runs" / "seed-1"
    kept, state = load_file(folder / WEIGHTS_FILE), load_file(folder / STATE_FILE)
    assert results.fitted[1].best_step == results.fitted[1].n_steps
    averages = [value for key, value in sorted(state.items()) if key.startswith("average.")]
    assert len(averages) > 5
    for average in averages:
        assert any(torch.equal(average, tensor) for tensor in kept.values())
    assert not all(torch.equal(kept[key], state[f"model.{key}"]) for key in kept)
    assert Trained.load(recipe.output).scores == results.dev[1]


def test_tags_of_dev_that_are_unknown_are_told(tmp_path, caplog):
    recipe = toy_recipe(tmp_path, training__n_epochs=1)
    with open(recipe.data.dev[0], "a", encoding="utf-8") as file:
        file.write("Nestlé B-ORG\nAG I-ORG\n\n")
    with caplog.at_level(logging.WARNING):
        train_task(recipe)
    assert "2 tokens have tags that the training data has not: B-ORG (1), I-ORG (1)" in caplog.text


def test_an_encoder_of_another_size_is_refused(tmp_path):
    recipe = toy_recipe(
        tmp_path, encoder="elmo", encoder_mode="on_the_fly", training__n_epochs=1, data__n_train=2
    )
    train_task(recipe)
    path = tmp_path / "runs" / "seed-1" / TASK_FILE
    values = json.loads(path.read_text())
    values["encoders"][0]["dim"] = 1024
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="but the model was trained on elmo"):
        Trained.load(tmp_path / "runs")
    with pytest.raises(ValueError, match=r"trained on elmo, but is given no encoder"):
        Trained.load(tmp_path / "runs", encoder="none")


@pytest.mark.parametrize("spec", ["none", "elmo", "static:a.txt+elmo"])
def test_words_begin_with_one_file_of_static_vectors_alone(tmp_path, spec):
    recipe = toy_recipe(tmp_path, input__words=spec)
    with pytest.raises(ValueError, match=f'{re.escape(spec)}", but static:FILE is wanted'):
        train_task(recipe)


def test_a_model_whose_encoder_was_moved_is_told_where_it_is(tmp_path):
    vectors = tmp_path / "words.txt"
    vectors.write_text("Ada 1 0\nOslo 0 1\n")
    recipe = toy_recipe(
        tmp_path,
        encoder=f"static:{vectors}",
        encoder_mode="on_the_fly",
        input__words=f"static:{vectors}",
        input__word_dim=2,
        training__n_epochs=1,
    )
    results = train_task(recipe)
    moved = vectors.rename(tmp_path / "moved.txt")
    with pytest.raises(FileNotFoundError, match=r"words.txt does not exist.* by encoder \(--enc"):
        Trained.load(recipe.output)
    trained = Trained.load(recipe.output, encoder=f"static:{moved}")
    dev = trained.task.read(Path(recipe.data.dev[0]), recipe.model)
    assert trained.evaluate(dev) == results.dev[1]


@pytest.mark.parametrize("absent", ["recipe", "labels", "encoders", "scores"])
def test_a_damaged_model_is_told(tmp_path, absent):
    values = {"format": "elmo-task", "version": 1, "recipe": {"task": "tagging"}, "labels": {}}
    values |= {"encoders": [], "scores": {}}
    del values[absent]
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / TASK_FILE).write_text(json.dumps(values))
    with pytest.raises(ValueError, match=f"task.json is damaged: it has no {absent}"):
        Trained.load(tmp_path)


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("scores", 3, "its scores is none"),
        ("recipe", [], "its recipe is none"),
        ("recipe", {}, "its recipe is none"),
        ("encoders", [{"x": 1}], "its encoders are none"),
    ],
)
def test_a_model_whose_file_says_something_else_is_told(runs, tmp_path, key, value, said):
    folder = shutil.copytree(f"{runs[0].output}/seed-1", tmp_path / "seed-1")
    values = json.loads((folder / TASK_FILE).read_text())
    (folder / TASK_FILE).write_text(json.dumps({**values, key: value}))
    with pytest.raises(ValueError, match=f"task.json is damaged: {said}"):
        Trained.load(tmp_path)


@pytest.mark.parametrize(
    "results", ["{", "[]", "{}", '{"runs": {"1": {}}}', '{"runs": 3, "recipe": {}}']
)
def test_results_that_are_damaged_are_told_before_anything_is_done(tmp_path, results):
    recipe = toy_recipe(tmp_path)
    Path(recipe.output).mkdir()
    (Path(recipe.output) / RESULTS_FILE).write_text(results)
    with pytest.raises(ValueError, match=r"results\.json is damaged: move it away"):
        train_task(recipe, resume=True)


def test_vectors_that_words_begin_with_are_looked_at_before_any_encoder_reads(
    tmp_path, monkeypatch
):
    (tmp_path / "words.txt").write_text("Ada 1 0\nOslo 0 1\n")
    monkeypatch.setattr("elmo.tasks.run.open_token_encoders", None)
    for name, error, said in (
        ("words.txt", ValueError, "vectors of 2 numbers: set input.word_dim to that"),
        ("none.txt", FileNotFoundError, "none.txt does not exist"),
    ):
        recipe = toy_recipe(tmp_path, encoder="elmo", input__words=f"static:{tmp_path / name}")
        with pytest.raises(error, match=said):
            train_task(recipe)


def test_a_folder_without_a_model_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no task model"):
        Trained.load(tmp_path)
