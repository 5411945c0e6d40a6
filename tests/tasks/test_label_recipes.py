"""Each recipe for tags and labels loads, and learns for a few steps from toy data."""

from pathlib import Path

import pytest
from tests.tasks.tagging.test_task import write_conllu
from tests.tasks.toy_tagging import write_toy
from tests.tasks.toy_texts import write_texts

from elmo.tasks.recipe import read_task_recipe
from elmo.tasks.run import train_task

FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(
    p for name in ("ner", "pos", "sst5", "goemotions") for p in FOLDER.glob(f"{name}/*")
)


def toy_data(name: str, folder: Path) -> str:
    if name == "ner":
        return str(write_toy(folder / "toy.txt", n=6))
    if name == "pos":
        return str(write_conllu(folder / "toy.conllu", n=6))
    if name == "goemotions":
        return str(write_texts(folder / "toy.tsv", n=6, several=True))
    (folder / "trees.txt").write_text("(3 (2 It) (4 (3 (2 really) (4 works)) (2 well)))\n" * 6)
    return str(folder / "trees.txt")


@pytest.mark.parametrize("path", RECIPES, ids=[f"{p.parent.name}/{p.stem}" for p in RECIPES])
def test_every_recipe_of_ours_runs_on_toy_data(path, tmp_path, monkeypatch):
    monkeypatch.chdir(FOLDER.parent)
    recipe = read_task_recipe(path)
    assert recipe.output == f"runs/{path.parent.name}/{path.stem}"
    assert recipe.encoder == ("tfidf" if "tfidf" in path.stem else "elmo")
    data = toy_data(path.parent.name, tmp_path)
    settings = [
        f"output={tmp_path / 'run'}",
        *(f"data.{part}=['{data}']" for part in ("train", "dev", "test")),
        "seeds=[1]",
        "training.n_epochs=1",
        "training.batch_size=3",
        "training.device=cpu",
        *(["encoder=none"] if recipe.encoder == "elmo" else []),
    ]
    results = train_task(read_task_recipe(path, settings))
    assert results.fitted[1].n_steps >= 2 and results.test[1].keys() == results.dev[1].keys()


@pytest.mark.parametrize("path", RECIPES, ids=[f"{p.parent.name}/{p.stem}" for p in RECIPES])
def test_the_data_of_every_recipe_is_there(path, shared):
    recipe = read_task_recipe(path)
    for name in (*recipe.data.train, *recipe.data.dev, *recipe.data.test):
        assert (shared / name.removeprefix("../shared/")).is_file(), name
