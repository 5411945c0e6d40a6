"""What each layer knows, of several encoders (tables 5 and 6 of the paper), by `elmo probe`.

    python benchmarks/probes.py --wsd FOLDER --pos FOLDER [--senses FILE] [--encoders elmo ...]
        [--parts FOLDER] [--out FILE.json] [--picture FILE.png]

`--wsd` has `*-train.data.xml` and `*-dev.data.xml` with their keys beside them, as SemCor in the
format of Raganato et al. (2017); `--pos` has `*-train.conllu`, `*-dev.conllu` and `*-test.conllu`,
as UD English EWT; any of them may end in `.gz`. What each command writes stays in `--parts`, and
is read there if the same is asked for again: an encoder may be added later. The picture has F1 and
accuracies by layer, all encoders in each panel.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from circumstances import circumstances

from elmo.cli import main as elmo
from elmo.json_files import write_json
from elmo.plots import save_layer_curves

METHODS = "mean,1-nn,10-nn"
COLUMNS = ("upos", "xpos")


def main() -> None:
    """Run what is missing, write all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wsd", type=Path, required=True)
    parser.add_argument("--pos", type=Path, required=True)
    parser.add_argument("--senses", type=Path)
    parser.add_argument("--encoders", nargs="+", default=["elmo"])
    parser.add_argument("--parts", type=Path, default=Path("probes"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    wsd = ["--methods", METHODS]
    for part, option in (("train", "--train"), ("dev", "--test")):
        wsd += [option, str(find(arguments.wsd, f"*-{part}.data.xml"))]
    if arguments.senses is not None:
        wsd += ["--senses", str(arguments.senses)]
    pos = []
    for part in ("train", "dev", "test"):
        pos += [f"--{part}", str(find(arguments.pos, f"*-{part}.conllu"))]
    commands = {"wsd": ["wsd", *wsd]}
    commands |= {column: ["linear", "--column", column, *pos] for column in COLUMNS}

    arguments.parts.mkdir(parents=True, exist_ok=True)
    encoders: dict[str, dict[str, Any]] = {}
    for encoder in arguments.encoders:
        folder = arguments.parts / encoder.replace("/", "_").replace(":", "_")
        folder.mkdir(exist_ok=True)
        encoders[encoder] = {
            name: probed(folder / f"{name}.json", [*command, "--encoder", encoder])
            for name, command in commands.items()
        }
    if arguments.picture is not None:
        save_layer_curves(arguments.picture, panels(encoders))
    if arguments.out is not None:
        what = "what each layer knows: word senses (F1) and parts of speech (accuracy)"
        result = {"what": what, "encoders": encoders, **circumstances(arguments.threads)}
        write_json(arguments.out, result)


def probed(path: Path, command: list[str]) -> dict[str, Any]:
    """What a command has written into a file, now or before."""
    asked = path.with_suffix(".txt")
    given = " ".join(command)
    if not (path.exists() and asked.exists() and asked.read_text(encoding="utf-8") == given):
        path.unlink(missing_ok=True)
        try:
            elmo(["probe", *command, "--output", str(path)])
        except SystemExit as end:
            if end.code:
                raise
        asked.write_text(given, encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def panels(encoders: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What `save_layer_curves` draws: word senses by the nearest mean, and each column."""
    senses: dict[str, dict[int | None, float]] = {}
    levels = {}
    for name, of in encoders.items():
        for row in of["wsd"]["rows"]:
            if row["layer"] is None:
                levels[row["method"]] = 100 * row["all"]["f1"]
            elif row["method"] == "nearest mean":
                senses.setdefault(name, {})[number(row["layer"])] = 100 * row["all"]["f1"]
    drawn: list[dict[str, Any]] = [
        {"curves": senses, "levels": levels, "ylabel": "F1 of word senses (%)"}
    ]
    for column in COLUMNS:
        curves, levels = {}, {}
        for name, of in encoders.items():
            rows = of[column]["layers"]
            curves[name] = {number(row["layer"]): 100 * row["test"]["value"] for row in rows}
            usual = of[column]["most_frequent_label_of_the_word"]["value"]
            levels["most frequent label"] = 100 * usual
        drawn.append({"curves": curves, "levels": levels, "ylabel": f"accuracy of {column} (%)"})
    return drawn


def number(layer: str) -> int | None:
    """Of a layer by its name; None for the mean."""
    return int(layer.removeprefix("layer ")) if layer.startswith("layer ") else None


def find(folder: Path, pattern: str) -> Path:
    """The one file of that name, compressed or not."""
    found = [*folder.glob(pattern), *folder.glob(f"{pattern}.gz")]
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} files {pattern}[.gz], but one is wanted")
    return found[0]


if __name__ == "__main__":
    main()
