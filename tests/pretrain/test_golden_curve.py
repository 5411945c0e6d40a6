"""The laptop's recipe on a small corpus: the curve that it had, and its end."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "pretraining"
RECIPE = ROOT / "recipes" / "pretrain" / "laptop.toml"
COMPARED_STEPS = 200
"""Later, rounding has grown too large to tell from a change."""


def learn(folder):
    """A run with nothing of the recipe changed but where it reads and writes."""
    settings = [
        f"corpus.train=['{GOLDEN / 'text.txt.gz'}']",
        f"output={folder}",
        "training.device=cpu",
    ]
    made = pretrain(read_recipe(RECIPE, settings))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return made, [
        {
            key: round(value, 4)
            for key, value in line.items()
            if "exp_loss" in key or "heldout" in key
        }
        | {"step": line["step"]}
        for line in lines[:-1]
    ]


@pytest.mark.slow
def test_a_small_corpus_is_learned_along_the_same_curve_and_ends_by_itself(tmp_path):
    made, curve = learn(tmp_path / "model")
    golden = json.loads((GOLDEN / "curve.json").read_text())
    golden = [line for line in golden if line["step"] <= COMPARED_STEPS]
    assert [line.keys() for line in golden] == [line.keys() for line in curve[: len(golden)]]
    for expected, found in zip(golden, curve, strict=False):
        assert found["step"] == expected["step"]
        np.testing.assert_allclose(
            list(found.values()), list(expected.values()), rtol=0.02, err_msg=str(expected)
        )
    assert made.stopped == "patience"
    assert 200 < made.best_step < made.n_steps < 1000
    assert made.heldout.average < 45 < golden[0]["train/forward_exp_loss_full"] / 5
    assert (tmp_path / "model" / "last" / "config.json").exists()
    assert made.seconds < 15 * 60


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        _, made_anew = learn(Path(folder) / "model")
    text = ",\n".join(json.dumps(line) for line in made_anew)
    (GOLDEN / "curve.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
    sys.exit()
