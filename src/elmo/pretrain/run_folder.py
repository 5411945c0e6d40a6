"""The output folder of a run: whose it is, and what the run leaves in it beside its state."""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from elmo.checkpoints.folder import CONFIG_FILE, recover_folder
from elmo.config import config_to_dict
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.identity import circumstances
from elmo.pretrain.recipe import PretrainRecipe
from elmo.pretrain.report import Pretrained
from elmo.text import write_lines
from elmo.training import METRICS_FILE
from elmo.training_state import STATE_FILE, sweep_state

SUMMARY_FILE = "pretraining.json"
CORPUS_FOLDER, LAST_FOLDER = "corpus", "last"


def check_output(folder: Path, *, resume: bool) -> None:
    """Refuse to begin where a run or a model is, and to go on where there is only a model."""
    has_run, has_model = (folder / STATE_FILE).exists(), (folder / CONFIG_FILE).exists()
    if not resume and (has_run or has_model):
        raise ValueError(
            f"{folder} holds a {'run' if has_run else 'model'} already: give another output"
            + (", or --resume to go on with it" if has_run else "")
        )
    if resume and has_model and not has_run:
        raise ValueError(
            f"{folder} holds a model, but no {STATE_FILE} to go on from: give another output"
        )


def sweep(folder: Path) -> None:
    """Clear away what a run left that was killed while it saved: only what its files are called."""
    for place in (folder, folder / LAST_FOLDER):
        recover_folder(place)
        sweep_state(place)
    for file in (SUMMARY_FILE, METRICS_FILE):
        for path in folder.glob(f"{file}.*tmp"):
            path.unlink()


def write_summary(
    recipe: PretrainRecipe, result: Pretrained, n_processes: int, corpus: Corpus
) -> None:
    """Say in a file what was done, for whoever finds the model."""
    measured = {"heldout": result.heldout, "heldout_before": result.before}
    values = {
        "recipe": config_to_dict(recipe),
        "corpus": {"sentences": corpus.n_sentences, "tokens": corpus.n_tokens},
        **{k: None if v is None else asdict(v) for k, v in measured.items()},
        **{
            name: getattr(result, name)
            for name in ("n_steps", "best_step", "n_tokens", "seconds", "stopped")
        },
        "processes": n_processes,
        **circumstances(),
        "elmo": version("elmo-torch"),
    }
    write_lines(Path(recipe.output) / SUMMARY_FILE, [json.dumps(values, indent=2)])
