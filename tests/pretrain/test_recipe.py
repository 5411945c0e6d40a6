import re
from pathlib import Path

import pytest

from elmo.pretrain.recipe import read_recipe, with_output

RECIPE = """
task = "pretrain"
output = "out"
[corpus]
train = ["a.txt"]
[model.lstm]
n_layers = 1
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    return tmp_path / "r.toml"


def test_what_is_given_counts_and_the_rest_has_defaults(path):
    recipe = read_recipe(path)
    assert (recipe.output, recipe.model.lstm.n_layers, recipe.training.n_rows) == ("out", 1, 128)
    assert with_output(recipe, "else").output == "else"


def test_overrides_are_read_as_toml_and_else_as_text(path):
    recipe = read_recipe(
        path,
        [
            "training.minutes=2.5",
            "corpus.train=['b.txt', 'c.txt']",
            "optimiser.name=adagrad",
            "seed=7",
            "training.carry=false",
            "log.save_minutes=3",
            "model.char_cnn.filters=[[1, 2], [3, 4]]",
            "corpus.vocabulary=words in = order.txt",
        ],
    )
    assert recipe.training.carry is False
    assert (recipe.log.save_minutes, type(recipe.log.save_minutes)) == (3.0, float)
    assert recipe.model.char_cnn.filters == ((1, 2), (3, 4))
    assert recipe.corpus.vocabulary == "words in = order.txt"
    assert recipe.training.minutes == 2.5
    assert recipe.corpus.train == ("b.txt", "c.txt")
    assert (recipe.optimiser.name, recipe.seed) == ("adagrad", 7)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("training.n_row=3", 'unknown setting "n_row". Did you mean "n_rows"?'),
        ("trainig.n_rows=3", 'unknown setting "trainig". Did you mean "training"?'),
        ("task=ner", 'task is "ner", but "pretrain" was expected'),
        ("training.n_rows=0", "n_rows is 0, but must be at least 1"),
        ("training.dtype=int8", "dtype is 'int8'"),
        ("training.n_rows='x'", "\"n_rows\" is 'x', but expected a whole number"),
        ("training.carry=0", '"carry" is 0, but expected true or false'),
        ("optimiser.betas=[0.9]", '"betas" is [0.9]'),
        ("corpus.train=a.txt", "\"train\" is 'a.txt'"),
        ("optimiser.schedul=linear", 'unknown setting "schedul". Did you mean "schedule"?'),
        ("model.lstm.dimm=3", 'unknown setting "dimm". Did you mean "dim"?'),
        ("=3", '"=3" is no override'),
        ("nonsense", '"nonsense" is no override'),
        ("output.x=3", "output is a setting, not a table"),
    ],
)
def test_what_is_wrong_is_named(path, override, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_recipe(path, [override])


def test_files_that_are_no_recipe_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_recipe(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("a = [")
    with pytest.raises(ValueError, match=r"bad.toml is not TOML"):
        read_recipe(tmp_path / "bad.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(ValueError, match='setting "output" is missing'):
        read_recipe(tmp_path / "empty.toml")


RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "pretrain").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_of_ours_is_valid(path):
    assert read_recipe(path).task == "pretrain"


@pytest.mark.parametrize(
    "override",
    [
        "training.minutes=0",
        "training.minutes=-1",
        "training.minutes=nan",
        "training.n_epochs=0",
        "training.n_epochs=inf",
        "training.n_negatives=-1",
        "log.every_steps=0",
        "log.save_minutes=-1",
        "validation.n_sentences=0",
        "validation.patience=-1",
        "training.n_accumulate=0",
        "training.n_tokens=-5",
        "adaptive_softmax.cutoffs=[5, 5]",
        "optimiser.decay=0",
        "corpus.train=[]",
        "corpus.max_words=3",
        "corpus.min_count=0",
        "optimiser.learning_rate=nan",
        "optimiser.clip_norm=0",
        "optimiser.betas=[0.9, 1.0]",
        "optimiser.weight_decay=-0.1",
        "output= ''",
        "seed=-1",
    ],
)
def test_values_that_cannot_be_are_refused_before_anything_is_read(path, override):
    name = override.partition("=")[0].rpartition(".")[2]
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}.*: {name} is ") as error:
        read_recipe(path, [override])
    assert "\n" not in str(error.value)


def test_an_override_of_two_settings_loses_neither_of_them(path):
    with pytest.raises(ValueError, match="holds more than one setting") as error:
        read_recipe(path, ["seed=1\ntask='ner'"])
    assert "\n" not in str(error.value)
